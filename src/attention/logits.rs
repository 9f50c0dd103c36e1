//! The logits of scaled dot-product attention, reduced to power sums block by block: the attention under test of
//! `attn variance`.

use rayon::prelude::*;

use super::kernel::{Element, PackedKeys, PackedQueries, PowerSums, ROW_BLOCK, packed_logits, packed_power_sums};
use super::precision::Precision;

/// Keys in one block where the logits themselves are needed.
const BLOCK_COLUMNS: usize = 512;

/// An attention whose logits are under test; tests pass faulty ones.
pub trait Logits: Sync {
    /// Power sums over all n·m logits factor·QKᵀ, for each of `factors`, about `center`·factor.
    ///
    /// `queries` is n×d_k row by row, `keys` holds the m keys packed; `parallel` spreads the blocks over threads
    /// without changing a bit.
    fn power_sums<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        center: f64,
        factors: &[f64],
        parallel: bool,
    ) -> Vec<PowerSums>;

    /// The logits factor·q_i·k_i of each token with itself: the diagonal of factor·QKᵀ for n = m.
    fn diagonal<T: Element>(&self, queries: &[T], keys: &[T], d_k: usize, factor: f64) -> Vec<f64> {
        let dot = |(q, k): (&[T], &[T])| q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>();
        queries.chunks(d_k).zip(keys.chunks(d_k)).map(dot).map(|logit| logit * factor).collect()
    }
}

/// Scaled dot-product logits in one of the arithmetics.
#[derive(Debug, Clone, Copy)]
pub struct ScaledDotProduct {
    /// f64 and f32 compute in the element type; the half types round each logit after the scale, accumulated in f32.
    pub precision: Precision,
}

impl Logits for ScaledDotProduct {
    fn power_sums<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        center: f64,
        factors: &[f64],
        parallel: bool,
    ) -> Vec<PowerSums> {
        match self.precision {
            Precision::F64 | Precision::F32 => {
                // Raw sums once; Σ(c·x − c·μ)^r = c^r·Σ(x − μ)^r exactly, so that each further scale costs nothing.
                let block = |rows: &PackedQueries<T>| vec![packed_power_sums(rows, keys, center)];
                let raw = over_blocks(queries, keys, parallel, block)[0];
                factors.iter().map(|&factor| scaled(&raw, factor)).collect()
            }
            Precision::Bf16 | Precision::F16 => {
                let block = |rows: &PackedQueries<T>| rounded_power_sums(rows, keys, self.precision, center, factors);
                over_blocks(queries, keys, parallel, block)
            }
        }
    }

    fn diagonal<T: Element>(&self, queries: &[T], keys: &[T], d_k: usize, factor: f64) -> Vec<f64> {
        let tokens = queries.chunks(d_k).zip(keys.chunks(d_k));
        match self.precision {
            Precision::F64 | Precision::F32 => {
                let dot = |(q, k): (&[T], &[T])| q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>();
                tokens.map(|token| dot(token) * factor).collect()
            }
            Precision::Bf16 | Precision::F16 => {
                // The same rounding as everywhere in S: an overflow must show on the diagonal too.
                let product = |(q, k): (&T, &T)| q.to_f64() as f32 * k.to_f64() as f32;
                let dot = |(q, k): (&[T], &[T])| q.iter().zip(k).map(product).sum::<f32>();
                tokens.map(|token| f64::from(self.precision.round_f32(dot(token) * factor as f32))).collect()
            }
        }
    }
}

/// Runs `block` over packed blocks of rows and adds the results in order, so that threads change no bit.
fn over_blocks<T: Element>(
    queries: &[T],
    keys: &PackedKeys<T>,
    parallel: bool,
    block: impl Fn(&PackedQueries<T>) -> Vec<PowerSums> + Sync,
) -> Vec<PowerSums> {
    let (depth, set) = (keys.depth(), keys.instruction_set());
    let piece = ROW_BLOCK * depth;
    let packed_block = |packed: &mut PackedQueries<T>, rows: &[T]| {
        packed.repack(rows, rows.len() / depth, depth);
        block(packed)
    };
    let parts: Vec<Vec<PowerSums>> = if parallel {
        queries.par_chunks(piece).map_init(|| PackedQueries::empty(set), packed_block).collect()
    } else {
        let mut packed = PackedQueries::empty(set);
        queries.chunks(piece).map(|rows| packed_block(&mut packed, rows)).collect()
    };
    let add = |mut sum: Vec<PowerSums>, part: Vec<PowerSums>| {
        sum.iter_mut().zip(&part).for_each(|(sum, part)| sum.merge(part));
        sum
    };
    parts.into_iter().reduce(add).unwrap_or_default()
}

/// The power sums of factor·x from those of x, about factor·center.
fn scaled(raw: &PowerSums, factor: f64) -> PowerSums {
    let mut power = 1.0;
    let sums = raw.sums.map(|sum| {
        power *= factor;
        sum * power
    });
    PowerSums { count: raw.count, center: raw.center * factor, sums }
}

/// Power sums of logits that are rounded to a half type after the scale.
fn rounded_power_sums<T: Element>(
    rows: &PackedQueries<T>,
    keys: &PackedKeys<T>,
    precision: Precision,
    center: f64,
    factors: &[f64],
) -> Vec<PowerSums> {
    let (n, m) = (rows.rows(), keys.rows());
    let mut sums = vec![PowerSums::default(); factors.len()];
    let mut buffer = vec![T::from_f64(0.0); n * BLOCK_COLUMNS.min(m)];
    for start in (0..m).step_by(BLOCK_COLUMNS) {
        let columns = start..(start + BLOCK_COLUMNS).min(m);
        let width = columns.len();
        packed_logits(rows, keys, columns, &mut buffer[..n * width], width);
        for (sums, &factor) in sums.iter_mut().zip(factors) {
            let center = center * factor;
            let mut part = [0.0; 4];
            for logit in &buffer[..n * width] {
                let x = f64::from(precision.round_f32((logit.to_f64() as f32) * factor as f32)) - center;
                let square = x * x;
                part[0] += x;
                part[1] += square;
                part[2] += square * x;
                part[3] += square * square;
            }
            sums.merge(&PowerSums { count: (n * width) as u64, center, sums: part });
        }
    }
    sums
}
