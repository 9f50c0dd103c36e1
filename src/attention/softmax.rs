//! Softmax weights of scaled dot-product attention, reduced row by row: the attention under test of
//! `attn softmax-spikiness`.

pub use super::kernel::RowStatistics;
use super::kernel::{
    AttentionShape, Element, PackedKeys, PackedQueries, SoftmaxWorkspace, Threads, packed_logits,
    packed_row_statistics, row_statistics_of_logits, scale_softmax,
};
use super::precision::Precision;

/// Logits of the half types held at once, roughly: a few rows are formed, reduced and forgotten while they are in cache.
const BLOCK_LOGITS: usize = 1 << 16;
/// Fewest rows at once.
const FEWEST_ROWS: usize = 16;

/// One row as measured: its statistics and what rounding of the weights did to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WeightRow {
    /// The statistics of the weights as they are in the arithmetic under test.
    pub statistics: RowStatistics,
    /// Share of weights that are exactly 0; counted for the half types only.
    pub underflowed: f64,
    /// |Σ p − 1|; 0 but for the half types.
    pub sum_error: f64,
}

impl From<RowStatistics> for WeightRow {
    /// Of weights that are not rounded.
    fn from(statistics: RowStatistics) -> Self {
        Self { statistics, underflowed: 0.0, sum_error: 0.0 }
    }
}

/// An attention whose softmax weights are under test; tests pass faulty ones.
pub trait Softmax: Sync {
    /// Writes the rows of softmax(factor·QKᵀ) to `out`: row i under factor f at index i·`factors.len()` + f.
    ///
    /// `queries` is n×d_k row by row, `keys` holds the m keys packed; `buffers` are reused from call to call.
    fn rows<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        buffers: &mut RowBuffers<T>,
        out: &mut [WeightRow],
    );

    /// For a few queries also the weights themselves: [`rows`](Self::rows) to `out`, and `weights` becomes n×m row by row for the first factor,
    /// below it those of the next.
    fn rows_and_weights<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        buffers: &mut RowBuffers<T>,
        out: &mut [WeightRow],
        weights: &mut Vec<T>,
    );
}

/// Scaled dot-product attention in one of the arithmetics.
#[derive(Debug, Clone, Copy)]
pub struct ScaledSoftmax {
    /// f64 and f32 compute in the element type, fused in cache (`kernel::softmax`); the half types round each logit after the
    /// scale and each weight, computed in f32.
    pub precision: Precision,
}

impl ScaledSoftmax {
    /// The scaled logits of one row, in the arithmetic under test.
    fn scale<'a, T: Element>(&self, raw: &[T], factor: f64, scaled: &'a mut Vec<f64>) -> &'a [f64] {
        scaled.clear();
        if self.precision.is_half() {
            let round = |logit: &T| f64::from(self.precision.round_f32((logit.to_f64() as f32) * factor as f32));
            scaled.extend(raw.iter().map(round));
        } else {
            scaled.extend(raw.iter().map(|logit| logit.to_f64() * factor));
        }
        scaled
    }

    /// Makes the logits in the first part of `weights`, which has as many as there are factors, the weights under each factor.
    fn weigh<T: Element>(&self, keys: &PackedKeys<T>, factors: &[f64], buffers: &mut RowBuffers<T>, weights: &mut [T]) {
        let (m, count) = (keys.rows(), weights.len() / factors.len());
        for copy in 1..factors.len() {
            weights.copy_within(..count, copy * count);
        }
        for (weights, &factor) in weights.chunks_exact_mut(count).zip(factors) {
            if self.precision.is_half() {
                for row in weights.chunks_exact_mut(m) {
                    let logits = self.scale(row, factor, &mut buffers.scaled);
                    let rounded = self.rounded_weights(logits);
                    row.iter_mut().zip(rounded).for_each(|(weight, rounded)| *weight = T::from_f64(f64::from(rounded)));
                }
            } else {
                let shape = AttentionShape { queries: count / m, keys: m, d_k: keys.depth(), d_v: 0 };
                scale_softmax(keys.instruction_set(), shape, factor, None, Threads::Caller, weights);
            }
        }
    }

    /// Measures rows × m raw logits in a half type.
    fn rounded_rows<T: Element>(
        &self,
        raw: &[T],
        m: usize,
        factors: &[f64],
        scaled: &mut Vec<f64>,
        out: &mut [WeightRow],
    ) {
        for (raw, out) in raw.chunks_exact(m).zip(out.chunks_exact_mut(factors.len())) {
            for (&factor, out) in factors.iter().zip(out) {
                let logits = self.scale(raw, factor, scaled);
                *out = rounded_row(logits, self.rounded_weights(logits));
            }
        }
    }

    /// The weights of one row of scaled logits, rounded to the half type.
    fn rounded_weights(&self, logits: &[f64]) -> impl Iterator<Item = f32> {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exponential = move |logit: f64| ((logit - largest) as f32).exp();
        let sum: f32 = logits.iter().map(|&logit| exponential(logit)).sum();
        let precision = self.precision;
        logits.iter().map(move |&logit| precision.round_f32(exponential(logit) / sum))
    }
}

impl Softmax for ScaledSoftmax {
    fn rows<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        buffers: &mut RowBuffers<T>,
        out: &mut [WeightRow],
    ) {
        let RowBuffers { packed, raw, scaled, workspace } = buffers;
        if !self.precision.is_half() {
            packed_row_statistics(pack(packed, queries, keys), keys, factors, workspace, out);
            return;
        }
        let at_once = (BLOCK_LOGITS / keys.rows()).max(FEWEST_ROWS);
        let blocks = queries.chunks(at_once * keys.depth()).zip(out.chunks_mut(at_once * factors.len()));
        for (queries, out) in blocks {
            raw.resize(queries.len() / keys.depth() * keys.rows(), T::ZERO);
            packed_logits(pack(packed, queries, keys), keys, 0..keys.rows(), raw, keys.rows());
            self.rounded_rows(raw, keys.rows(), factors, scaled, out);
        }
    }

    fn rows_and_weights<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        buffers: &mut RowBuffers<T>,
        out: &mut [WeightRow],
        weights: &mut Vec<T>,
    ) {
        let m = keys.rows();
        let count = queries.len() / keys.depth() * m;
        weights.resize(count * factors.len(), T::ZERO);
        if weights.is_empty() {
            return;
        }
        // The logits, formed once, where the weights of the first factor will be.
        let logits = &mut weights[..count];
        packed_logits(pack(&mut buffers.packed, queries, keys), keys, 0..m, logits, m);
        if self.precision.is_half() {
            self.rounded_rows(logits, m, factors, &mut buffers.scaled, out);
        } else {
            row_statistics_of_logits(keys.instruction_set(), logits, m, factors, &mut buffers.workspace, out);
        }
        self.weigh(keys, factors, buffers, weights);
    }
}

/// A block of queries and its logits.
#[derive(Debug)]
pub struct RowBuffers<T> {
    packed: Option<PackedQueries<T>>,
    raw: Vec<T>,
    scaled: Vec<f64>,
    workspace: SoftmaxWorkspace<T>,
}

impl<T: Element> Default for RowBuffers<T> {
    fn default() -> Self {
        Self { packed: None, raw: Vec::new(), scaled: Vec::new(), workspace: SoftmaxWorkspace::new() }
    }
}

/// These queries, packed for these keys.
fn pack<'a, T: Element>(
    packed: &'a mut Option<PackedQueries<T>>,
    queries: &[T],
    keys: &PackedKeys<T>,
) -> &'a PackedQueries<T> {
    let packed = packed.get_or_insert_with(|| PackedQueries::empty(keys.instruction_set()));
    packed.repack(queries, queries.len() / keys.depth(), keys.depth());
    packed
}

/// Statistics of weights that were rounded, as they are: they need not sum to 1.
fn rounded_row(logits: &[f64], weights: impl Iterator<Item = f32>) -> WeightRow {
    let (mut one, mut two, mut three, mut entropy, mut largest, mut zeros) = (0.0, 0.0, 0.0, 0.0, 0.0f64, 0u64);
    for weight in weights {
        let p = f64::from(weight);
        one += p;
        two += p * p;
        three += p * p * p;
        largest = largest.max(p);
        if p == 0.0 {
            zeros += 1;
        } else {
            entropy -= p * p.ln();
        }
    }
    let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let statistics = RowStatistics {
        log_partition: highest + logits.iter().map(|logit| (logit - highest).exp()).sum::<f64>().ln(),
        entropy,
        participation: two,
        sum_p_cubed: three,
        // A NaN is passed over by the maximum, not by the sum.
        max_weight: if one.is_nan() { one } else { largest },
        jacobian_trace: one - two,
        jacobian_frobenius: two - 2.0 * three + two * two,
        logit_sum: logits.iter().sum(),
        logit_square_sum: logits.iter().map(|logit| logit * logit).sum(),
    };
    WeightRow { statistics, underflowed: zeros as f64 / logits.len() as f64, sum_error: (one - 1.0).abs() }
}

#[cfg(test)]
#[path = "softmax_tests.rs"]
mod tests;
