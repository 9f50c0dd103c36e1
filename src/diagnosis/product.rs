//! Blocks of weights times V, in f64, keys in chunks: chunks without weight cost nothing.

use super::matrix::Matrix;
use crate::attention::kernel::{InstructionSet, PackedKeys, PackedQueries, packed_logits};

/// Keys whose products are summed before they are added to the rest.
const CHUNK: usize = 1024;

/// V and |V|, packed; numbers that are not finite count as 0.
#[derive(Debug)]
pub struct PackedValues {
    keys: usize,
    width: usize,
    chunks: Vec<Chunk>,
    /// Σ_j |V_jh| of each channel h.
    pub magnitude_sums: Vec<f64>,
    /// max |V|.
    pub largest: f64,
    /// √(Σ V² / (m·d_v)).
    pub root_mean_square: f64,
    /// Whether every number is finite.
    pub is_finite: bool,
}

#[derive(Debug)]
struct Chunk {
    keys: usize,
    values: PackedKeys<f64>,
    magnitudes: PackedKeys<f64>,
}

/// What one thread needs for products.
#[derive(Debug)]
pub struct ProductWorkspace {
    packed: PackedQueries<f64>,
    left: Vec<f64>,
    part: Vec<f64>,
}

impl ProductWorkspace {
    /// Without memory.
    pub fn new() -> Self {
        Self { packed: PackedQueries::empty(InstructionSet::detect()), left: Vec::new(), part: Vec::new() }
    }
}

impl Default for ProductWorkspace {
    fn default() -> Self {
        Self::new()
    }
}

impl PackedValues {
    /// Packs V, m × d_v.
    ///
    /// # Panics
    /// If it has no rows or columns.
    pub fn new(values: &Matrix) -> Self {
        let (keys, width) = (values.rows, values.columns);
        let mut numbers = values.to_f64();
        let is_finite = numbers.iter().all(|value| value.is_finite());
        numbers.iter_mut().for_each(|value| *value = if value.is_finite() { *value } else { 0.0 });
        let mut magnitude_sums = vec![0.0; width];
        for row in numbers.chunks(width) {
            magnitude_sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.abs());
        }
        let set = InstructionSet::detect();
        let chunk = |part: &[f64]| {
            let keys = part.len() / width;
            let transposed: Vec<f64> =
                (0..width).flat_map(|channel| part[channel..].iter().step_by(width).copied()).collect();
            let magnitudes: Vec<f64> = transposed.iter().map(|value| value.abs()).collect();
            Chunk {
                keys,
                values: PackedKeys::new(set, &transposed, width, keys),
                magnitudes: PackedKeys::new(set, &magnitudes, width, keys),
            }
        };
        let chunks = numbers.chunks(CHUNK * width).map(chunk).collect();
        let largest = numbers.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let root_mean_square = (numbers.iter().map(|value| value * value).sum::<f64>() / numbers.len() as f64).sqrt();
        Self { keys, width, chunks, magnitude_sums, largest, root_mean_square, is_finite }
    }

    /// d_v.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `left` (rows × m) times V to `values` and, unless it is empty, times |V| to `magnitudes` (each rows × d_v).
    ///
    /// # Panics
    /// If a matrix has another length.
    pub fn multiply(&self, left: &[f64], values: &mut [f64], magnitudes: &mut [f64], work: &mut ProductWorkspace) {
        let rows = left.len() / self.keys;
        let wanted = rows * self.width;
        assert!(left.len() == rows * self.keys && values.len() == wanted, "weights or output of another shape");
        assert!(magnitudes.is_empty() || magnitudes.len() == wanted, "magnitudes of another shape");
        values.fill(0.0);
        magnitudes.fill(0.0);
        let mut first = 0;
        for chunk in &self.chunks {
            let range = first..first + chunk.keys;
            first = range.end;
            work.left.clear();
            for row in left.chunks(self.keys) {
                work.left.extend_from_slice(&row[range.clone()]);
            }
            if work.left.iter().fold(true, |all, weight| all & (*weight == 0.0)) {
                continue;
            }
            work.packed.repack(&work.left, rows, chunk.keys);
            work.part.resize(wanted, 0.0);
            for (right, out) in [(&chunk.values, &mut *values), (&chunk.magnitudes, &mut *magnitudes)] {
                if !out.is_empty() {
                    packed_logits(&work.packed, right, 0..self.width, &mut work.part, self.width);
                    out.iter_mut().zip(&work.part).for_each(|(out, part)| *out += part);
                }
            }
        }
    }

    /// `left` (rows × m) times |V| alone.
    pub fn multiply_magnitudes(&self, left: &[f64], magnitudes: &mut [f64], work: &mut ProductWorkspace) {
        let mut values = vec![0.0; magnitudes.len()];
        self.multiply(left, &mut values, magnitudes, work);
    }
}
