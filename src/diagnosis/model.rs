//! What an implementation may have computed: the contract, or one of its faulty relatives.
//!
//! A model turns raw logits into weights. Whatever is found wrong is stated as a model that reproduces the observed weights
//! within rounding, so that a diagnosis is proved by recomputation and not guessed from one number.

use super::evidence::{Precisions, RowView};

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
        let bias = if self.bias == 0.0 { 0.0 } else { self.bias * row.bias[key] };
        capped + bias + row.added[key] - self.alibi * row.distance(key)
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
        for (key, logit) in logits.iter_mut().enumerate() {
            let visible = self.shows(row, key);
            *logit = match self.hidden {
                _ if visible => self.logit(row, key),
                Hidden::Excluded => f64::NEG_INFINITY,
                Hidden::Multiplied => 0.0,
                Hidden::Replaced(fill) => fill,
                Hidden::Added(fill) => self.logit(row, key) + fill,
                Hidden::ZeroedAfter | Hidden::AddedAfter(_) => self.logit(row, key),
            };
        }
        let sink = self.sink.unwrap_or(f64::NEG_INFINITY);
        let largest = logits.iter().copied().fold(sink, f64::max);
        if largest == f64::NEG_INFINITY {
            out.fill(0.0);
            return f64::NEG_INFINITY;
        }
        let mut total = (sink - largest).exp();
        for (out, &logit) in out.iter_mut().zip(logits.iter()) {
            *out = (logit - largest).exp();
            total += *out;
        }
        for (key, out) in out.iter_mut().enumerate() {
            *out *= self.factor / total;
            match self.hidden {
                Hidden::ZeroedAfter if !self.shows(row, key) => *out = 0.0,
                Hidden::AddedAfter(number) if !self.shows(row, key) => *out += number,
                _ => {}
            }
        }
        largest + total.ln()
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

/// How far rounding may move each logit of a row, for its logits `logits`.
///
/// Derivation. With u_l the unit roundoff of the type of Q and K, u that of the arithmetic: scaling and rounding Q or the logits
/// moves a logit by at most |c|·Σ|q k|·2u_l + 2|l|u_l ≤ |c|·‖q‖‖k‖·2u_l + 2|l|u_l; summing d products by at most d·u in the worst
/// order and by √d·u times a small factor in practice (Higham & Mary 2019), 4√d·u here.
pub fn logit_noise(model: &Model, row: &RowView<'_>, logits: &[f64], precisions: &Precisions, noise: &mut [f64]) {
    let per_product = 2.0 * precisions.logits + 4.0 * (row.width as f64).sqrt() * precisions.arithmetic;
    let scale = model.scale.abs() * row.query_norm * per_product;
    let per_logit = 2.0 * precisions.logits + 4.0 * precisions.arithmetic;
    for (key, noise) in noise.iter_mut().enumerate() {
        let size = if logits[key].is_finite() { logits[key].abs() } else { 0.0 };
        *noise = scale * row.key_norms[key] + per_logit * size;
    }
}

/// Compares one row of observed weights with the model's. `scratch` holds three rows.
pub fn compare_row(model: &Model, row: &RowView<'_>, precisions: &Precisions, scratch: &mut [Vec<f64>; 3]) -> Misfit {
    let [logits, predicted, noise] = scratch;
    model.weights(row, logits, predicted);
    logit_noise(model, row, logits, precisions, noise);
    let shared: f64 = predicted.iter().zip(noise.iter()).map(|(weight, noise)| weight * noise).sum();
    let keys = predicted.len() as f64;
    let rounding = 4.0 * precisions.weights.unit_roundoff() + (8.0 + 4.0 * keys.sqrt()) * precisions.arithmetic;
    let mut misfit = Misfit::NONE;
    for key in 0..predicted.len() {
        let bound = match precisions.tolerance {
            Some(tolerance) => tolerance,
            None => predicted[key].abs() * ((noise[key] + shared).exp_m1() + rounding) + 2.0 * precisions.floor,
        };
        misfit.add(row.weights[key], predicted[key], bound, (row.query, key));
    }
    misfit
}
