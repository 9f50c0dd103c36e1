//! What a picture shows of a mask: its cells, the mean weights, and the entropy of the rows.

use super::{Buffers, MaskExperiment, VisibleBias};
use crate::attention::kernel::{Element, PackedQueries, packed_logits};
use crate::attention::masked::{MaskedAttention, MaskedRow};
use crate::attention::{Precision, Scale};
use crate::experiment::{Draw, Experiment, Inside, Sizes};
use crate::report::plot::mask::{Grid, MaskPortrait, RowEntropy};
use crate::report::plot::words_of_scale;
use crate::sampling::{Drawable, TrialStream};
use crate::statistics::ColumnMoments;
use crate::theory::softmax;

/// Cells along a side of a picture, at most.
const MOST_CELLS: usize = 90;
/// Rows of which the entropy is drawn, at most.
const MOST_ROWS: usize = 36;
/// Trials drawn, at most.
const MOST_TRIALS: u64 = 64;
/// Operations spent on a picture, roughly.
const OPERATIONS: f64 = 1e9;

/// Portrays the first scale of `experiment` from its first trials, at most `trials` of them.
pub fn portrait<D: Draw, A: MaskedAttention>(
    experiment: &MaskExperiment<D, A>,
    seed: u64,
    trials: u64,
) -> MaskPortrait {
    match experiment.precision {
        Precision::F64 => portrait_in::<f64, D, A>(experiment, seed, trials),
        Precision::F32 | Precision::Bf16 | Precision::F16 => portrait_in::<f32, D, A>(experiment, seed, trials),
    }
}

fn portrait_in<T: Element + Drawable, D: Draw, A: MaskedAttention>(
    experiment: &MaskExperiment<D, A>,
    seed: u64,
    trials: u64,
) -> MaskPortrait {
    let Sizes { d_k, queries: n, keys: m } = experiment.sizes;
    let affordable = (OPERATIONS / experiment.operations()).max(1.0) as u64;
    let trials = trials.min(MOST_TRIALS).min(affordable);
    let scale = experiment.scales[0];
    let (cells, shown) = (Cells::new(n, m), shown_rows(experiment));
    let mut weights_sum = vec![0.0; cells.rows * cells.columns];
    let mut entropies = ColumnMoments::new(shown.len());
    let mut buffers: Buffers<T> = Buffers::default();
    let (mut raw, mut weights) = (vec![T::ZERO; m], Vec::new());
    for trial in 0..trials {
        let stream = TrialStream::new(seed, experiment.point(), trial as u32);
        experiment.draw(&stream, Inside::Sequential, &mut buffers);
        let keys = buffers.packed.as_ref().expect("packed by the draw");
        let mut packed = PackedQueries::empty(keys.instruction_set());
        let mut of_trial = Vec::with_capacity(shown.len());
        for (index, query) in buffers.queries.chunks_exact(d_k).enumerate() {
            packed.repack(query, 1, d_k);
            packed_logits(&packed, keys, 0..m, &mut raw, m);
            let row = MaskedRow { index, raw: &raw, factor: scale.factor(d_k) };
            experiment.attention.weights(row, &mut weights);
            for (key, weight) in weights.iter().enumerate() {
                weights_sum[cells.of(index, key)] += weight.to_f64();
            }
            if shown.binary_search(&index).is_ok() {
                of_trial.push(experiment.measured(row, &weights).entropy);
            }
        }
        entropies.push(&of_trial);
    }
    let mut visible = vec![0.0; weights_sum.len()];
    let mut logits = vec![0.0; weights_sum.len()];
    for query in 0..n {
        let row = experiment.claim.mask.row(query);
        for key in 0..m {
            logits[cells.of(query, key)] += 1.0;
            visible[cells.of(query, key)] += f64::from(u8::from(row.contains(key)));
        }
    }
    let share = |sums: Vec<f64>, by: f64| sums.iter().zip(&logits).map(|(sum, logits)| sum / (logits * by)).collect();
    let grid = |values: Vec<f64>| Grid { rows: cells.rows, columns: cells.columns, values };
    let words = words_of_scale(&scale.to_string());
    let size = if n == m { format!("n = m = {n}") } else { format!("n = {n} · m = {m}") };
    MaskPortrait {
        mask: format!("mask {}", experiment.claim.name),
        conditions: format!(
            "{words} · d_k = {d_k} · {size} · {} · drawn from {trials} trials · seed {seed} · attn {}",
            experiment.precision,
            env!("CARGO_PKG_VERSION")
        ),
        sizes: (n, m),
        visible: grid(share(visible, 1.0)),
        weights: grid(share(weights_sum, trials as f64)),
        entropy: entropy_rows(experiment, &shown, &entropies, scale),
    }
}

/// Rows with a visible key from the first to the last, closer at the start, where a causal mask shows few keys.
fn shown_rows<D: Draw, A: MaskedAttention>(experiment: &MaskExperiment<D, A>) -> Vec<usize> {
    let rows: Vec<usize> = experiment.seeing_rows().collect();
    let last = rows.len().saturating_sub(1);
    let place = |step: usize| last * step * step / (MOST_ROWS - 1).pow(2);
    let mut shown: Vec<usize> = (0..MOST_ROWS).map(place).filter_map(|place| rows.get(place).copied()).collect();
    shown.dedup();
    shown
}

fn entropy_rows<D: Draw, A: MaskedAttention>(
    experiment: &MaskExperiment<D, A>,
    shown: &[usize],
    entropies: &ColumnMoments,
    scale: Scale,
) -> Vec<RowEntropy> {
    let known =
        experiment.law.mean == 0.0 && experiment.law.correlation == 0.0 && experiment.claim.bias == VisibleBias::None;
    let factor = scale.factor(experiment.sizes.d_k) * experiment.law.sd.powi(2);
    let counts: Vec<usize> = shown.iter().map(|&row| experiment.counts[row]).collect();
    let theory = known.then(|| softmax::expectations_by_keys(experiment.sizes.d_k as u32, factor, &counts).ok());
    let theory = theory.flatten();
    let of_row = |(index, (&query, &count)): (usize, (&usize, &usize))| {
        let estimate = entropies.mean(index).unwrap_or(f64::NAN);
        let error = 1.96 * entropies.standard_error(index).unwrap_or(f64::NAN);
        RowEntropy {
            query,
            estimate,
            interval: (estimate - error, estimate + error),
            theory: theory.as_ref().map(|theory| theory[index].entropy),
            uniform: (count as f64).ln(),
        }
    };
    shown.iter().zip(&counts).enumerate().map(of_row).collect()
}

/// Which cell of a picture a logit falls into.
struct Cells {
    rows: usize,
    columns: usize,
    queries: usize,
    keys: usize,
}

impl Cells {
    fn new(queries: usize, keys: usize) -> Self {
        Self { rows: queries.min(MOST_CELLS), columns: keys.min(MOST_CELLS), queries, keys }
    }

    fn of(&self, query: usize, key: usize) -> usize {
        query * self.rows / self.queries * self.columns + key * self.columns / self.keys
    }
}
