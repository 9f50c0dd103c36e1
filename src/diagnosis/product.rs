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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::matrix::{Numbers, Storage};

    #[test]
    fn products_are_the_sums_of_their_definition() {
        // Two chunks and a part of a third; whole numbers, so that every sum is exact.
        let (rows, keys, width) = (3, 2 * CHUNK + 5, 7);
        let number = |index: usize| ((index * 37) % 101) as f64 - 50.0;
        let mut values: Vec<f64> = (0..keys * width).map(number).collect();
        values[11] = f64::NAN;
        let mut left: Vec<f64> = (0..rows * keys).map(|index| number(index * 3 + 1)).collect();
        // No weight at all on the second chunk.
        left.chunks_mut(keys).for_each(|row| row[CHUNK..2 * CHUNK].fill(0.0));
        let packed = PackedValues::new(&Matrix::new(keys, width, Storage::F64, Numbers::F64(values.clone())));
        values[11] = 0.0;
        let (mut found, mut magnitudes) = (vec![1.0; rows * width], vec![1.0; rows * width]);
        packed.multiply(&left, &mut found, &mut magnitudes, &mut ProductWorkspace::new());
        for row in 0..rows {
            for channel in 0..width {
                let sum = |size: &dyn Fn(f64) -> f64| -> f64 {
                    (0..keys).map(|key| left[row * keys + key] * size(values[key * width + channel])).sum()
                };
                assert_eq!(found[row * width + channel], sum(&|value| value));
                assert_eq!(magnitudes[row * width + channel], sum(&f64::abs));
            }
        }
        let first: f64 = values.iter().step_by(width).map(|value| value.abs()).sum();
        assert_eq!((packed.magnitude_sums[0], packed.largest, packed.is_finite), (first, 50.0, false));
    }
}
