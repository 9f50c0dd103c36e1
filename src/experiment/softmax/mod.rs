//! Does softmax saturate? Its spikiness measured beside the exact theory at these sizes.
//!
//! One trial draws Q (n×d_k), K (m×d_k) and V and measures, for each scale c, over the n rows p of softmax(c·QKᵀ):
//!
//! | measure | formula |
//! |---|---|
//! | `entropy` | mean of −Σ p ln p, nats |
//! | `participation` | mean of Σ p²; 1/Σp² is the number of keys that share the row |
//! | `max_weight` | mean of max p |
//! | `saturated_rows` | share of rows with max p > `--saturated-above` |
//! | `jacobian_trace` | mean of tr J, J = diag(p) − p pᵀ |
//! | `jacobian_frobenius` | mean of ‖J‖²_F = E\|J g\|² for g with i.i.d. unit entries: what reaches the logits of a gradient |
//! | `output_variance` | mean of O_ih² − Σ p_i² over the first rows i (at most 16) and all columns (64 to 512) of O = PV, plus `participation` |
//! | `freezing_square` | sample variance of all n·m logits over 2 ln m |
//! | `underflowed_weights` | share of weights that are exactly 0 (half types) |
//! | `row_sum_error` | mean of \|Σ p − 1\| (half types) |
//!
//! `output_variance` is the mean square of the output with a control variate: that these few rows are spikier or flatter
//! than all rows is taken out. A wrong output still shows in full. V takes the values ±1 whatever the law of Q and K: E O² = E Σp² holds for all i.i.d. entries of mean 0 and
//! variance 1, and these keep O² ≤ 1, so that
//! the row has a test where trials are heavy-tailed, and scatter least.
//!
//! The rows of one trial share K, so a trial's mean over rows is one value. What scatters how is in `claims`.

pub(super) mod claims;
mod output;
pub mod remarks;

use super::engine::Experiment;
use super::{Claim, Draw, InputLaw, Inside, Sizes};
use crate::attention::kernel::{Element, InstructionSet, PackedKeys, ROW_BLOCK};
use crate::attention::softmax::{RowBuffers, WeightRow};
use crate::attention::{Precision, Scale, ScaledSoftmax, Softmax};
use crate::sampling::{Drawable, TrialStream};
use output::Signs;
use rayon::prelude::*;

pub use claims::{Regime, regime};

/// Statistics of each scale, in the order of the columns.
const MEASURES: [&str; 8] = [
    "entropy",
    "participation",
    "max_weight",
    "saturated_rows",
    "jacobian_trace",
    "jacobian_frobenius",
    "output_variance",
    "freezing_square",
];
/// Further ones where weights are rounded.
const ROUNDING_MEASURES: [&str; 2] = ["underflowed_weights", "row_sum_error"];

/// Weights of measured rows of O that are in memory at once, roughly, for each scale.
const OUTPUT_WEIGHTS: usize = 1 << 16;
/// Rows of O that are measured, at most.
const OUTPUT_ROWS: usize = 16;
/// Fewest and most columns of V.
const OUTPUT_COLUMNS: (usize, usize) = (64, 512);
/// Columns come in so many at a time.
const COLUMN_STEP: usize = 32;

/// The experiment of `attn softmax-spikiness` at one parameter point: `source` draws, `softmax` is under test.
pub struct SoftmaxExperiment<D = InputLaw, S = ScaledSoftmax> {
    sizes: Sizes,
    scales: Vec<Scale>,
    precision: Precision,
    saturated_above: f64,
    source: D,
    softmax: S,
    claims: Vec<Claim>,
}

impl SoftmaxExperiment {
    /// The experiment with the draws and the attention that it claims to have; rows saturate above `saturated_above`.
    pub fn new(sizes: Sizes, law: InputLaw, scales: &[Scale], precision: Precision, saturated_above: f64) -> Self {
        Self::with_parts(sizes, law, scales, precision, saturated_above, law, ScaledSoftmax { precision })
    }
}

impl<D: Draw, S: Softmax> SoftmaxExperiment<D, S> {
    /// The same claims for another source of draws or another attention.
    pub fn with_parts(
        sizes: Sizes,
        law: InputLaw,
        scales: &[Scale],
        precision: Precision,
        saturated_above: f64,
        source: D,
        softmax: S,
    ) -> Self {
        let width = measures_per_scale(precision);
        let theory = claims::SoftmaxTheory::new(sizes, law, precision);
        let of_scale = |(index, &scale): (usize, &Scale)| theory.claims(scale, index * width);
        let claims = scales.iter().enumerate().flat_map(of_scale).collect();
        Self { sizes, scales: scales.to_vec(), precision, saturated_above, source, softmax, claims }
    }

    /// Measures one draw in element type T.
    fn trial_in<T: Element + Drawable>(
        &self,
        stream: &TrialStream,
        inside: Inside,
        buffers: &mut Buffers<T>,
    ) -> Vec<f64> {
        let Sizes { d_k, queries: n, keys: m } = self.sizes;
        buffers.queries.resize(n * d_k, T::ZERO);
        buffers.keys.resize(m * d_k, T::ZERO);
        self.source.draw(stream, self.sizes, inside, &mut buffers.queries, &mut buffers.keys);
        self.precision.round_matrix(&mut buffers.queries);
        self.precision.round_matrix(&mut buffers.keys);
        let packed = buffers.packed.get_or_insert_with(|| PackedKeys::empty(InstructionSet::detect()));
        packed.repack(&buffers.keys, m, d_k);
        let factors: Vec<f64> = self.scales.iter().map(|scale| scale.factor(d_k)).collect();
        let (queries, block) = (&buffers.queries, &mut buffers.block);
        // The rows of O that are measured, and their statistics from the same logits.
        let mut excess = vec![0.0; factors.len()];
        let first_rows = &queries[..n.min(OUTPUT_ROWS) * d_k];
        let mut head = vec![WeightRow::default(); first_rows.len() / d_k * factors.len()];
        let at_once = (OUTPUT_WEIGHTS / m).clamp(1, OUTPUT_ROWS);
        for (queries, head) in first_rows.chunks(at_once * d_k).zip(head.chunks_mut(at_once * factors.len())) {
            let weights = &mut buffers.weights;
            self.softmax.rows_and_weights(queries, packed, &factors, &mut block.rows, head, weights);
            let share = queries.len() as f64 / first_rows.len() as f64;
            let rows = queries.len() / d_k;
            let participation = |factor: usize| {
                let of_rows = head.iter().skip(factor).step_by(factors.len());
                of_rows.map(|row| row.statistics.participation).sum::<f64>() / rows as f64
            };
            let columns: Vec<usize> =
                (0..factors.len()).map(|factor| output_columns(n, participation(factor))).collect();
            let of_rows = buffers.signs.excess(weights, m, rows, &columns, stream);
            excess.iter_mut().zip(of_rows).for_each(|(excess, of_rows)| *excess += share * of_rows);
        }
        // The same blocks, added up in the same order, on however many threads.
        let of_block = |block: &mut Block<T>, (index, queries): (usize, &[T])| {
            self.block_sums(if index == 0 { &head } else { &[] }, queries, packed, &factors, block)
        };
        let of_blocks: Vec<Vec<ScaleSums>> = match inside {
            Inside::Sequential => {
                queries.chunks(ROW_BLOCK * d_k).enumerate().map(|queries| of_block(block, queries)).collect()
            }
            Inside::Parallel => {
                queries.par_chunks(ROW_BLOCK * d_k).enumerate().map_init(Block::default, of_block).collect()
            }
        };
        let mut sums = vec![ScaleSums::default(); factors.len()];
        for of_block in of_blocks {
            for (sums, of_block) in sums.iter_mut().zip(of_block) {
                sums.iter_mut().zip(of_block).for_each(|(sum, of_block)| *sum += of_block);
            }
        }
        sums.iter().zip(excess).flat_map(|(sums, excess)| self.scale_measures(sums, excess)).collect()
    }

    /// The sums of each scale over one block of rows, of which the first are measured already.
    fn block_sums<T: Element>(
        &self,
        head: &[WeightRow],
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        block: &mut Block<T>,
    ) -> Vec<ScaleSums> {
        let count = queries.len() / keys.depth() * factors.len();
        block.measured.resize(count, WeightRow::default());
        let (before, rest) = block.measured.split_at_mut(head.len());
        before.copy_from_slice(head);
        let queries = &queries[head.len() / factors.len() * keys.depth()..];
        if !rest.is_empty() {
            self.softmax.rows(queries, keys, factors, &mut block.rows, rest);
        }
        let mut sums = vec![ScaleSums::default(); factors.len()];
        for rows in block.measured.chunks_exact(factors.len()) {
            for (sums, row) in sums.iter_mut().zip(rows) {
                let values = self.row_values(row);
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
        sums
    }

    /// What one row adds to the sums.
    fn row_values(&self, row: &WeightRow) -> ScaleSums {
        let WeightRow { statistics: of_row, underflowed, sum_error } = row;
        let saturated = if of_row.max_weight > self.saturated_above { 1.0 } else { 0.0 };
        [
            of_row.entropy,
            of_row.participation,
            of_row.max_weight,
            // A row that is not a number must not pass for one that is not saturated.
            if of_row.max_weight.is_nan() { f64::NAN } else { saturated },
            of_row.jacobian_trace,
            of_row.jacobian_frobenius,
            of_row.logit_sum,
            of_row.logit_square_sum,
            *underflowed,
            *sum_error,
        ]
    }

    /// The measures of one scale from the sums over its rows.
    fn scale_measures(&self, sums: &ScaleSums, output_excess: f64) -> Vec<f64> {
        let Sizes { queries: n, keys: m, .. } = self.sizes;
        let (rows, count) = (n as f64, n as f64 * m as f64);
        let variance = (sums[7] - sums[6] * sums[6] / count) / (count - 1.0);
        let mut values: Vec<f64> = sums[..6].iter().map(|sum| sum / rows).collect();
        values.push(values[1] + output_excess);
        values.push(variance / (2.0 * (m as f64).ln()));
        if self.precision.is_half() {
            values.extend(sums[8..].iter().map(|sum| sum / rows));
        }
        values
    }
}

/// What is summed over the rows of one scale: entropy, Σp², the largest weight, whether it saturates, tr J, ‖J‖²_F, Σx, Σx² and what rounding did.
type ScaleSums = [f64; 10];

/// Columns of V for n queries whose weights have this mean Σp².
///
/// For even weights as many as queries, so that V scatters the output about as much as Q and K do. Of given weights it scatters O² by
/// 2((Σp²)² − Σp⁴), which vanishes as they become one-hot, while Q and K scatter Σp² no less. The weights may choose: whatever they are, the
/// mean of O² − Σp² over V is 0.
fn output_columns(n: usize, participation: f64) -> usize {
    let evenness = (1.0 - participation).clamp(0.0, 1.0);
    let wanted = (n as f64 * evenness * evenness) as usize;
    wanted.next_multiple_of(COLUMN_STEP).clamp(OUTPUT_COLUMNS.0, OUTPUT_COLUMNS.1)
}

/// Columns of each scale.
fn measures_per_scale(precision: Precision) -> usize {
    MEASURES.len() + if precision.is_half() { ROUNDING_MEASURES.len() } else { 0 }
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    single: Buffers<f32>,
    double: Buffers<f64>,
}

/// Q, K and the packed K in one element type.
struct Buffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    packed: Option<PackedKeys<T>>,
    block: Block<T>,
    /// Of the measured rows of O, under each scale.
    weights: Vec<T>,
    signs: Signs,
}

impl<T: Element> Default for Buffers<T> {
    fn default() -> Self {
        Self {
            queries: Vec::new(),
            keys: Vec::new(),
            packed: None,
            block: Block::default(),
            weights: Vec::new(),
            signs: Signs::default(),
        }
    }
}

/// What a block of rows needs, of one thread.
struct Block<T> {
    rows: RowBuffers<T>,
    measured: Vec<WeightRow>,
}

impl<T: Element> Default for Block<T> {
    fn default() -> Self {
        Self { rows: RowBuffers::default(), measured: Vec::new() }
    }
}

impl<D: Draw, S: Softmax> Experiment for SoftmaxExperiment<D, S> {
    type Workspace = Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn measures(&self) -> Vec<String> {
        let names = || MEASURES.iter().chain(&ROUNDING_MEASURES).take(measures_per_scale(self.precision));
        self.scales.iter().flat_map(|scale| names().map(move |measure| format!("{measure}:{scale}"))).collect()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut Workspace) -> Vec<f64> {
        match self.precision {
            Precision::F64 => self.trial_in(stream, inside, &mut workspace.double),
            Precision::F32 | Precision::Bf16 | Precision::F16 => self.trial_in(stream, inside, &mut workspace.single),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let (d, n, m, scales) = (d_k as f64, queries as f64, keys as f64, self.scales.len() as f64);
        let output = n.min(OUTPUT_ROWS as f64) * m * (2.0 * output_columns(queries, 0.0) as f64 + 2.0 * d);
        // Multiply-adds of QKᵀ, about 30 a weight for its exponential and powers, about 30 a drawn entry.
        n * m * (2.0 * d + 30.0 * scales) + scales * output + 30.0 * (n + m) * d
    }

    fn bytes(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let element = if self.precision == Precision::F64 { 8.0 } else { 4.0 };
        let (n, m, scales) = (queries as f64, keys as f64, self.scales.len() as f64);
        let at_once = (OUTPUT_WEIGHTS as f64).max(m).min(n.min(OUTPUT_ROWS as f64) * m);
        let matrices = (n + 2.0 * m) * d_k as f64 + scales * at_once;
        matrices * element + scales * n.min(ROW_BLOCK as f64) * size_of::<WeightRow>() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Entries;

    #[test]
    fn even_weights_take_as_many_columns_as_queries_and_spiky_ones_fewer() {
        let columns = |n, participation| output_columns(n, participation);
        assert_eq!([1, 64, 100, 256, 512, 5000].map(|n| columns(n, 0.0)), [64, 64, 128, 256, 512, 512]);
        assert_eq!([0.001, 0.3, 0.5, 0.65, 1.0, 1.1].map(|p| columns(256, p)), [256, 128, 64, 64, 64, 64]);
        assert_eq!([columns(5000, 0.5), columns(256, f64::NAN)], [512, 64]);
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        // Four blocks of rows, the last one smaller.
        let sizes = Sizes { d_k: 5, queries: 997, keys: 211 };
        let law = InputLaw::standard(Entries::Normal);
        let scales = [Scale::None, Scale::InverseSqrtWidth];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("three threads");
        for precision in [Precision::F64, Precision::F32, Precision::Bf16] {
            let experiment = SoftmaxExperiment::new(sizes, law, &scales, precision, 0.99);
            let [alone, spread] = [Inside::Sequential, Inside::Parallel].map(|inside| {
                let trial = || experiment.trial(&TrialStream::new(1, 2, 3), inside, &mut Workspace::default());
                pool.install(trial).into_iter().map(f64::to_bits).collect::<Vec<u64>>()
            });
            assert_eq!(alone, spread, "{precision}");
        }
    }
}
