//! One pass over a head: everything a sound head needs of each row of weights, formed while the row is in cache.

use rayon::prelude::*;

use super::evidence::Evidence;
use super::matrix::Matrix;
use super::model::{Misfit, Model, compare_row};
use super::rows::RowView;
use crate::attention::kernel::{InstructionSet, comparison};

/// Count, mean and sum of squares about it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Running {
    /// Numbers.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Σ (x − mean)².
    pub squares: f64,
}

impl Running {
    /// Adds those of another set of numbers.
    pub fn merge(&mut self, other: Self) {
        if other.count == 0.0 {
            return;
        }
        let total = self.count + other.count;
        let apart = other.mean - self.mean;
        self.squares += other.squares + apart * apart * self.count * other.count / total;
        self.mean += apart * other.count / total;
        self.count = total;
    }
}

/// What a row of finite weights amounts to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightMoments {
    /// −Σ w ln w.
    pub entropy: f64,
    /// Keys that are visible by the contract, or have weight all the same: entropy is at most their logarithm.
    pub keys: f64,
    /// The largest.
    pub largest: f64,
    /// That of the first key.
    pub first: f64,
}

/// What the pass notes of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowFacts {
    /// Σ of the weights.
    pub sum: f64,
    /// Whether a weight is not finite.
    pub is_broken: bool,
    /// How far the weights are from the contract's; nothing for a row that is broken or sees no key.
    pub misfit: Misfit,
    /// Moments of the visible raw logits; no count for a row that sees no key.
    pub raw: Running,
    /// `None` for a row that is broken or sees no key.
    pub weights: Option<WeightMoments>,
}

/// Holds every row of the weights in the file against the model, and takes its moments. `progress` hears of each row.
pub fn survey(evidence: &Evidence<'_>, model: &Model, progress: &(dyn Fn() + Sync)) -> Vec<RowFacts> {
    evidence.map_rows(&evidence.every_row(), model.columns(), |row, scratch| {
        progress();
        let view = row.view(&evidence.key_norms);
        let set = evidence.instruction_set();
        let weights = comparison::weights(set, view.weights);
        let is_broken = !weights.is_finite;
        let whole = !is_broken && view.has_keys();
        let misfit = if whole { compare_row(model, &view, &evidence.precisions, scratch) } else { Misfit::NONE };
        let raw = raw_moments(set, &view, &mut scratch[0]);
        let in_play = view.weights.iter().zip(view.visible).filter(|(weight, visible)| **visible || **weight > 0.0);
        let moments = WeightMoments {
            entropy: weights.entropy,
            keys: in_play.count() as f64,
            largest: weights.largest,
            first: view.weights[0],
        };
        RowFacts { sum: weights.sum, is_broken, misfit, raw, weights: whole.then_some(moments) }
    })
}

/// [`survey`] for a head without weights in the file: the moments alone, of the model's weights.
pub fn survey_of_model(evidence: &Evidence<'_>, model: &Model) -> Vec<RowFacts> {
    evidence.map_rows(&evidence.every_row(), model.columns(), |row, scratch| {
        let view = row.view(&evidence.key_norms);
        let set = evidence.instruction_set();
        let [logits, weights, visible] = scratch;
        model.weights(&view, logits, weights);
        let found = comparison::weights(set, weights);
        let raw = raw_moments(set, &view, visible);
        let moments =
            WeightMoments { entropy: found.entropy, keys: raw.count, largest: found.largest, first: weights[0] };
        RowFacts {
            sum: found.sum,
            is_broken: !found.is_finite,
            misfit: Misfit::NONE,
            raw,
            weights: view.has_keys().then_some(moments),
        }
    })
}

fn raw_moments(set: InstructionSet, row: &RowView<'_>, visible: &mut [f64]) -> Running {
    let keys = row.span.start..row.span.end;
    let numbers = if row.span.is_solid {
        &row.raw[keys]
    } else {
        let mut count = 0;
        for key in keys.filter(|&key| row.visible[key]) {
            visible[count] = row.raw[key];
            count += 1;
        }
        &visible[..count]
    };
    let (mean, squares) = comparison::moments(set, numbers);
    Running { count: numbers.len() as f64, mean, squares }
}

/// Σ over the keys of each row; NaN for one that is not finite.
pub fn row_sums(weights: &Matrix) -> Vec<f64> {
    let set = InstructionSet::detect();
    let sum = |buffer: &mut Vec<f64>, query: usize| {
        buffer.resize(weights.columns, 0.0);
        weights.row(query, buffer);
        let sum = comparison::sum(set, buffer);
        if sum.is_finite() { sum } else { f64::NAN }
    };
    (0..weights.rows).into_par_iter().map_init(Vec::new, sum).collect()
}

/// Σ over the queries of each key, of rows that are finite.
pub fn column_sums(weights: &Matrix) -> Vec<f64> {
    let mut sums = vec![0.0; weights.columns];
    let mut row = vec![0.0; weights.columns];
    for query in 0..weights.rows {
        weights.row(query, &mut row);
        if row.iter().fold(true, |all, weight| all & weight.is_finite()) {
            sums.iter_mut().zip(&row).for_each(|(sum, weight)| *sum += weight);
        }
    }
    sums
}
