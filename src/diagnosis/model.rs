//! What an implementation may have computed: the contract, or one of its faulty relatives.
//!
//! A model turns raw logits into weights. Whatever is found wrong is stated as a model that reproduces the observed weights
//! within rounding, so that a diagnosis is proved by recomputation and not guessed from one number.

use super::evidence::{Columns, Precisions};
use super::rows::{RowView, Scratch};
use crate::attention::kernel::{InstructionSet, comparison};
use std::ops::Range;

/// How a soft cap enters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cap {
    /// C·tanh(c·x/C): right.
    Tanh(f64),
    /// l·tanh(l/C) with l = c·x: a known slip; tends to |l|.
    TimesTanh(f64),
    /// c·C·tanh(x/C): capped before the factor.
    FactorAfter(f64),
}

/// What becomes of hidden cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hidden {
    /// Left out: −∞ before the softmax.
    Excluded,
    /// The logit is multiplied by 0, so that exp gives 1.
    Multiplied,
    /// The logit is replaced by a finite number.
    Replaced(f64),
    /// A finite number is added to the logit.
    Added(f64),
    /// Softmax over all keys, then zero: the row's sum is below 1.
    ZeroedAfter,
    /// Softmax over all keys, then a number is added to hidden cells.
    AddedAfter(f64),
}

/// Logits c·x (capped) + bias − slope·distance, hidden cells as said, weights exp(logit)·factor / (Σ exp + exp(sink)).
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The factor on QKᵀ.
    pub scale: f64,
    /// The soft cap.
    pub cap: Option<Cap>,
    /// Factor on the given bias: 1 as given, 0 ignored.
    pub bias: f64,
    /// Logits fall by this for each key of distance.
    pub alibi: f64,
    /// Extra logit in the denominator.
    pub sink: Option<f64>,
    /// Treatment of hidden cells.
    pub hidden: Hidden,
    /// Whether the cells that the contract hides are taken as visible.
    pub mask: MaskUse,
    /// Factor on every weight, 1/(1 − p) after dropout.
    pub factor: f64,
}

/// Which cells a model hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskUse {
    /// Those of the contract.
    Contract,
    /// None.
    Ignored,
    /// Those the contract shows, and only those.
    Inverted,
    /// Those of [`RowView::observed`].
    Observed,
}

impl Model {
    /// The logit before any mask.
    pub fn logit(&self, row: &RowView<'_>, key: usize) -> f64 {
        let capped = apply(self.cap, self.scale, row.raw[key]);
        let bias = if self.bias == 0.0 { 0.0 } else { self.bias * row.bias_at(key) };
        capped + bias + row.added_at(key) - self.alibi * row.distance(key)
    }

    /// [`Model::logit`] of the keys `keys`, to `out`.
    pub(super) fn logits(&self, row: &RowView<'_>, keys: Range<usize>, out: &mut [f64]) {
        let raw = &row.raw[keys.clone()];
        match self.cap {
            None => comparison::multiplied(InstructionSet::detect(), self.scale, raw, out),
            cap => out.iter_mut().zip(raw).for_each(|(out, &raw)| *out = apply(cap, self.scale, raw)),
        }
        if self.bias != 0.0 && !row.bias.is_empty() {
            out.iter_mut().zip(&row.bias[keys.clone()]).for_each(|(out, bias)| *out += self.bias * bias);
        }
        if !row.added.is_empty() {
            out.iter_mut().zip(&row.added[keys.clone()]).for_each(|(out, added)| *out += added);
        }
        if self.alibi != 0.0 {
            out.iter_mut().zip(keys).for_each(|(out, key)| *out -= self.alibi * row.distance(key));
        }
    }

    /// The keys that may have weight.
    fn reach(&self, row: &RowView<'_>) -> Range<usize> {
        match self.columns() {
            Columns::Visible => row.span.start..row.span.end,
            _ => 0..row.raw.len(),
        }
    }

    /// Which raw logits the model needs.
    pub fn columns(&self) -> Columns {
        match (self.mask, self.hidden) {
            (MaskUse::Contract, Hidden::Excluded) => Columns::Visible,
            _ => Columns::All,
        }
    }

    /// Whether the model shows the cell.
    pub fn shows(&self, row: &RowView<'_>, key: usize) -> bool {
        match self.mask {
            MaskUse::Contract => row.visible[key],
            MaskUse::Ignored => true,
            MaskUse::Inverted => !row.visible[key],
            MaskUse::Observed => row.observed.map_or(row.visible[key], |observed| observed[key]),
        }
    }

    /// Writes the row's weights to `out`, and the logits that entered the softmax to `logits` (−∞ where left out); returns
    /// ln Σ exp, the sink included. A row without keys has zero weights and −∞.
    pub fn weights(&self, row: &RowView<'_>, logits: &mut [f64], out: &mut [f64]) -> f64 {
        let reach = self.reach(row);
        for outside in [0..reach.start, reach.end..out.len()] {
            logits[outside.clone()].fill(f64::NEG_INFINITY);
            out[outside].fill(0.0);
        }
        self.logits(row, reach.clone(), &mut logits[reach.clone()]);
        self.hide(row, reach.clone(), logits);
        let set = InstructionSet::detect();
        let sink = self.sink.unwrap_or(f64::NEG_INFINITY);
        let (largest, any_nan) = comparison::survey(set, &logits[reach.clone()]);
        let largest = largest.max(sink);
        if any_nan || largest == f64::INFINITY {
            out.fill(f64::NAN);
            return f64::NAN;
        }
        if largest == f64::NEG_INFINITY {
            out.fill(0.0);
            return f64::NEG_INFINITY;
        }
        let weights = &mut out[reach.clone()];
        weights.copy_from_slice(&logits[reach.clone()]);
        let total = (sink - largest).exp() + comparison::weigh(set, weights, largest);
        comparison::scale(set, weights, self.factor / total);
        if let Hidden::ZeroedAfter | Hidden::AddedAfter(_) = self.hidden {
            for key in reach.filter(|&key| !self.shows(row, key)) {
                match self.hidden {
                    Hidden::AddedAfter(number) => out[key] += number,
                    _ => out[key] = 0.0,
                }
            }
        }
        largest + total.ln()
    }

    /// Replaces the logits of hidden cells by what the model makes of them.
    fn hide(&self, row: &RowView<'_>, reach: Range<usize>, logits: &mut [f64]) {
        if self.columns() == Columns::Visible && row.span.is_solid {
            return;
        }
        let (flags, shown) = match self.mask {
            MaskUse::Ignored => return,
            MaskUse::Contract => (row.visible, true),
            MaskUse::Inverted => (row.visible, false),
            MaskUse::Observed => (row.observed.unwrap_or(row.visible), true),
        };
        // The match outside the loop, so that it vectorises.
        let mut select = |fill: f64| {
            for (logit, &flag) in logits[reach.clone()].iter_mut().zip(&flags[reach.clone()]) {
                *logit = if flag == shown { *logit } else { fill };
            }
        };
        match self.hidden {
            Hidden::Excluded => select(f64::NEG_INFINITY),
            Hidden::Multiplied => select(0.0),
            Hidden::Replaced(fill) => select(fill),
            Hidden::Added(fill) => {
                for (logit, &flag) in logits[reach.clone()].iter_mut().zip(&flags[reach]) {
                    *logit += if flag == shown { 0.0 } else { fill };
                }
            }
            Hidden::ZeroedAfter | Hidden::AddedAfter(_) => {}
        }
    }
}

/// The capped, scaled logit.
pub fn apply(cap: Option<Cap>, scale: f64, raw: f64) -> f64 {
    let logit = scale * raw;
    match cap {
        None => logit,
        Some(Cap::Tanh(cap)) => cap * (logit / cap).tanh(),
        Some(Cap::TimesTanh(cap)) => logit * (logit / cap).tanh(),
        Some(Cap::FactorAfter(cap)) => scale * cap * (raw / cap).tanh(),
    }
}

/// The derivative of [`apply`] by the scale.
pub fn apply_slope(cap: Option<Cap>, scale: f64, raw: f64) -> f64 {
    match cap {
        None => raw,
        Some(Cap::Tanh(cap)) => {
            let t = (scale * raw / cap).tanh();
            raw * (1.0 - t * t)
        }
        Some(Cap::TimesTanh(cap)) => {
            let t = (scale * raw / cap).tanh();
            raw * t + scale * raw * raw / cap * (1.0 - t * t)
        }
        Some(Cap::FactorAfter(cap)) => cap * (raw / cap).tanh(),
    }
}

/// How far observed weights are from a model's, relative to what rounding explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Misfit {
    /// Largest |observed − predicted| / bound; above 1 the model is refuted. NaN counts as infinite.
    pub ratio: f64,
    /// Where.
    pub cell: (usize, usize),
    /// Observed there.
    pub observed: f64,
    /// Predicted there.
    pub predicted: f64,
    /// Largest |observed − predicted| anywhere.
    pub largest: f64,
    /// Σ (observed − predicted)².
    pub squares: f64,
}

impl Misfit {
    /// No cell seen yet.
    pub const NONE: Self = Self { ratio: 0.0, cell: (0, 0), observed: 0.0, predicted: 0.0, largest: 0.0, squares: 0.0 };

    /// Whether rounding explains everything.
    pub fn fits(&self) -> bool {
        self.ratio <= 1.0
    }

    /// The worse of two.
    pub fn merge(self, other: Self) -> Self {
        let largest = self.largest.max(other.largest);
        let squares = self.squares + other.squares;
        let worse = if other.ratio > self.ratio { other } else { self };
        Self { largest, squares, ..worse }
    }

    /// Adds a cell.
    pub fn add(&mut self, observed: f64, predicted: f64, bound: f64, cell: (usize, usize)) {
        let difference = (observed - predicted).abs();
        let ratio = if difference <= bound {
            // 0/0 where nothing is expected and nothing is there.
            if bound > 0.0 { difference / bound } else { 0.0 }
        } else if difference.is_nan() || bound <= 0.0 {
            f64::INFINITY
        } else {
            difference / bound
        };
        self.largest = if difference.is_nan() { f64::INFINITY } else { self.largest.max(difference) };
        self.squares += if difference.is_nan() { f64::INFINITY } else { difference * difference };
        if ratio > self.ratio {
            (self.ratio, self.cell, self.observed, self.predicted) = (ratio, cell, observed, predicted);
        }
    }
}

/// The parts of how far rounding may move a logit: a factor on ‖k‖, and one on the logit's size.
///
/// Derivation. With u_l the unit roundoff of the type of Q and K, u that of the arithmetic: scaling and rounding Q or the logits
/// moves a logit by at most |c|·Σ|q k|·2u_l + 2|l|u_l ≤ |c|·‖q‖‖k‖·2u_l + 2|l|u_l; summing d products by at most d·u in the worst
/// order and by √d·u times a small factor in practice (Higham & Mary 2019), 4√d·u here. Our own logits are f64 sums: a part of
/// u where u is that of f64, and nothing beside any other.
fn noise_factors(model: &Model, row: &RowView<'_>, precisions: &Precisions) -> (f64, f64) {
    let per_product = 2.0 * precisions.logits + 4.0 * (row.width as f64).sqrt() * precisions.arithmetic;
    (model.scale.abs() * row.query_norm * per_product, 2.0 * precisions.logits + 4.0 * precisions.arithmetic)
}

/// How far rounding may move each logit of a row, for its logits `logits` and weights `weights`; returns Σ weight·that, what the
/// row's denominator may move by.
pub fn logit_noise(
    model: &Model,
    row: &RowView<'_>,
    logits: &[f64],
    weights: &[f64],
    precisions: &Precisions,
    noise: &mut [f64],
) -> f64 {
    let factors = noise_factors(model, row, precisions);
    comparison::noise(InstructionSet::detect(), logits, row.key_norms, weights, factors, noise)
}

/// Writes the model's weights to `predicted`, and to `bounds` how far rounding may have moved each of them. Uses `logits`.
/// Returns ln Σ exp.
pub fn weights_and_bounds(
    model: &Model,
    row: &RowView<'_>,
    precisions: &Precisions,
    weight_rounding: f64,
    [logits, predicted, bounds]: [&mut [f64]; 3],
) -> f64 {
    let log_sum = model.weights(row, logits, predicted);
    let keys = predicted.len() as f64;
    let rounding = 4.0 * weight_rounding + (8.0 + 4.0 * keys.sqrt()) * precisions.arithmetic;
    let floor = 2.0 * precisions.floor;
    let reach = model.reach(row);
    bounds[..reach.start].fill(floor);
    bounds[reach.end..].fill(floor);
    let set = InstructionSet::detect();
    let factors = noise_factors(model, row, precisions);
    let (weights, own) = (&predicted[reach.clone()], &mut bounds[reach.clone()]);
    let shared = comparison::noise(set, &logits[reach.clone()], &row.key_norms[reach], weights, factors, own);
    comparison::bounds(set, weights, shared, rounding, floor, own);
    log_sum
}

/// Compares one row of observed weights with the model's.
pub fn compare_row(model: &Model, row: &RowView<'_>, precisions: &Precisions, scratch: &mut Scratch) -> Misfit {
    let [logits, predicted, bounds] = scratch;
    match precisions.tolerance {
        Some(tolerance) => {
            model.weights(row, logits, predicted);
            bounds.fill(tolerance);
        }
        None => {
            let rounding = precisions.weights.unit_roundoff();
            weights_and_bounds(model, row, precisions, rounding, [logits, predicted, bounds]);
        }
    }
    let found = comparison::misfit(InstructionSet::detect(), row.weights, predicted, bounds);
    Misfit {
        ratio: found.ratio,
        cell: (row.query, found.index),
        observed: row.weights[found.index],
        predicted: predicted[found.index],
        largest: found.largest,
        squares: found.squares,
    }
}
