//! The scale that was really used, from weights.
//!
//! Within a row ln P_ij = g(S_ij; c) + (other terms) − lse_i: what belongs to the row alone drops out once row means are
//! subtracted, and c is the coefficient of a weighted regression without intercept. Entries used: visible, P > 0, at least the
//! smallest number of full precision (below it rounding is not relative any more, and ln P of a rounded P is biased).
//!
//! Weights: 1/σ², σ² = u_P² + (u_l·l)² + u² with u_P, u_l, u the unit roundoffs of the weights, of the logits and of the
//! arithmetic, l the logit. With a soft cap g is not linear in c, and the fit is iterated (Gauss–Newton).
//!
//! Standard error: the largest of three. (1) Rows as clusters, A⁻¹ (Σ_i s_i s_iᵀ) A⁻¹ · R/(R − 1) with s_i the score of row i: rounding
//! of a scaled q moves a whole row together. (2) Entries as independent, from the residuals, times entries over degrees of
//! freedom. (3) From σ alone: residuals of a few entries may be small by luck. Rounding c itself to the storage type is not
//! scatter: [`ScaleFit::systematic`] states it apart.

use rayon::prelude::*;

use super::evidence::Evidence;
use super::model::{Cap, Model, apply, apply_slope};
use super::rows::{RowBuffer, RowView};

/// Standard errors that a deviation must exceed. Rounding errors are bounded, not normal, and a run makes hundreds of
/// comparisons: 8 leaves no false alarm (measured over 10,000 random heads, tests/statistical).
pub const SIGNIFICANT: f64 = 8.0;

/// A fitted scale.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleFit {
    /// The factor on QKᵀ.
    pub scale: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Relative error that rounding the scale itself to the storage type may cause.
    pub systematic: f64,
    /// Coefficient and standard error of the bias, where it was fitted.
    pub bias: Option<(f64, f64)>,
    /// Fall of the logits with distance and its standard error, where it was fitted.
    pub alibi: Option<(f64, f64)>,
    /// Weighted mean square of the residuals, relative to what rounding explains (about or below 1 if the form is right).
    pub chi_square: f64,
    /// Entries used.
    pub entries: usize,
    /// Rows used.
    pub rows: usize,
}

impl ScaleFit {
    /// Half the width of the interval within which scales cannot be told apart.
    pub fn resolution(&self) -> f64 {
        let few = (1.0 + 20.0 / self.rows as f64).sqrt();
        SIGNIFICANT * few * self.standard_error + self.systematic * self.scale.abs()
    }

    /// Whether `scale` is within the resolution.
    pub fn agrees_with(&self, scale: f64) -> bool {
        (self.scale - scale).abs() <= self.resolution()
    }
}

/// What is fitted beside the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// The coefficient of the bias.
    pub bias: bool,
    /// The fall with distance.
    pub alibi: bool,
}

/// Which cells enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cells {
    /// Those the contract shows.
    Contract,
    /// Every one with weight.
    WithWeight,
}

/// Entries of one row that enter the fit: weight ω, response, regressors.
struct Entry {
    precision: f64,
    response: f64,
    regressors: [f64; 3],
}

/// Fits the scale on `rows`, starting from `start` (whose cap, sink and other terms are kept); `None` if no row holds two usable entries
/// with different logits.
pub fn fit_scale(
    evidence: &Evidence<'_>,
    rows: &[&RowBuffer],
    start: &Model,
    terms: Terms,
    cells: Cells,
) -> Option<ScaleFit> {
    let linear = start.cap.is_none() || matches!(start.cap, Some(Cap::FactorAfter(_)));
    let mut model = start.clone();
    let mut last = None;
    for _ in 0..if linear { 1 } else { 12 } {
        let fit = step(evidence, rows, &model, terms, cells)?;
        let moved = (fit.scale - model.scale).abs();
        // A step beyond the cap's bend is damped.
        let reach = 2.0 * model.scale.abs();
        model.scale += (fit.scale - model.scale).clamp(-reach, reach);
        let done = moved <= 1e-12 * model.scale.abs();
        last = Some(ScaleFit { scale: if linear { fit.scale } else { model.scale }, ..fit });
        if done {
            break;
        }
    }
    last
}

fn step(evidence: &Evidence<'_>, rows: &[&RowBuffer], model: &Model, terms: Terms, cells: Cells) -> Option<ScaleFit> {
    let count = 1 + usize::from(terms.bias) + usize::from(terms.alibi);
    let mut normal = [[0.0; 3]; 3];
    let mut moment = [0.0; 3];
    let of_row = |row: &&RowBuffer| centred_entries(evidence, &row.view(&evidence.key_norms), model, terms, cells);
    let mut centred: Vec<Vec<Entry>> = rows.par_iter().map(of_row).collect();
    centred.retain(|entries| entries.len() >= 2);
    for entries in &centred {
        for entry in entries {
            for a in 0..count {
                moment[a] += entry.precision * entry.regressors[a] * entry.response;
                for (b, cell) in normal[a].iter_mut().enumerate().take(count) {
                    *cell += entry.precision * entry.regressors[a] * entry.regressors[b];
                }
            }
        }
    }
    let inverse = inverse(normal, count)?;
    let mut solution = [0.0; 3];
    for a in 0..count {
        solution[a] = (0..count).map(|b| inverse[a][b] * moment[b]).sum();
    }
    let entries: usize = centred.iter().map(Vec::len).sum();
    let freedom = entries as f64 - centred.len() as f64 - count as f64;
    let (mut cluster, mut single, mut squares) = ([[0.0; 3]; 3], [[0.0; 3]; 3], 0.0);
    for row in &centred {
        let mut score = [0.0; 3];
        for entry in row {
            let fitted: f64 = (0..count).map(|a| solution[a] * entry.regressors[a]).sum();
            let residual = entry.response - fitted;
            squares += entry.precision * residual * residual;
            for a in 0..count {
                let own = entry.precision * entry.regressors[a] * residual;
                score[a] += own;
                for (b, cell) in single[a].iter_mut().enumerate().take(count) {
                    *cell += own * entry.precision * entry.regressors[b] * residual;
                }
            }
        }
        for a in 0..count {
            for b in 0..count {
                cluster[a][b] += score[a] * score[b];
            }
        }
    }
    let sandwich = |meat: &[[f64; 3]; 3], a: usize| -> f64 {
        let mut sum = 0.0;
        for b in 0..count {
            for c in 0..count {
                sum += inverse[a][b] * meat[b][c] * inverse[c][a];
            }
        }
        sum.max(0.0)
    };
    let clusters = centred.len() as f64;
    let error = |a: usize| {
        let by_rows = if clusters > 1.0 { sandwich(&cluster, a) * clusters / (clusters - 1.0) } else { 0.0 };
        let by_entries = if freedom > 0.0 { sandwich(&single, a) * entries as f64 / freedom } else { 0.0 };
        by_rows.max(by_entries).max(inverse[a][a]).sqrt()
    };
    let named = |index: usize, wanted: bool| wanted.then(|| (solution[index], error(index)));
    let precisions = &evidence.precisions;
    Some(ScaleFit {
        scale: solution[0],
        standard_error: error(0),
        systematic: precisions.logits + 16.0 * precisions.arithmetic,
        bias: named(1, terms.bias),
        alibi: named(1 + usize::from(terms.bias), terms.alibi),
        chi_square: if freedom > 0.0 { squares / freedom } else { 0.0 },
        entries,
        rows: centred.len(),
    })
}

/// The usable entries of a row about their weighted means. The first regressor is ∂g/∂c, and the response is ln P less the
/// terms that are not fitted, plus c·∂g/∂c − g (0 for a linear g).
fn centred_entries(
    evidence: &Evidence<'_>,
    row: &RowView<'_>,
    model: &Model,
    terms: Terms,
    cells: Cells,
) -> Vec<Entry> {
    let precisions = &evidence.precisions;
    let smallest = precisions.smallest;
    let rounding = precisions.weights.unit_roundoff();
    let mut entries = Vec::new();
    for key in 0..row.raw.len() {
        let weight = row.weights[key];
        let usable = weight >= smallest && row.raw[key].is_finite();
        if !usable || (cells == Cells::Contract && !row.visible[key]) {
            continue;
        }
        let slope = apply_slope(model.cap, model.scale, row.raw[key]);
        let value = apply(model.cap, model.scale, row.raw[key]);
        let mut response = weight.ln() - value + model.scale * slope - row.added_at(key);
        let mut regressors = [slope, 0.0, 0.0];
        let mut next = 1;
        if terms.bias {
            regressors[next] = row.bias_at(key);
            next += 1;
        } else if model.bias != 0.0 {
            response -= model.bias * row.bias_at(key);
        }
        if terms.alibi {
            regressors[next] = -row.distance(key);
        } else {
            response += model.alibi * row.distance(key);
        }
        let logit = precisions.logits * (1.0 + value.abs());
        let product = model.scale * row.query_norm * row.key_norms[key] / (row.width as f64).sqrt();
        let variance = rounding * rounding
            + (precisions.floor / weight).powi(2)
            + logit * logit
            + (precisions.logits * product).powi(2)
            + (precisions.arithmetic * (1.0 + value.abs())).powi(2);
        entries.push(Entry { precision: 1.0 / variance, response, regressors });
    }
    let total: f64 = entries.iter().map(|entry| entry.precision).sum();
    let mean = |pick: &dyn Fn(&Entry) -> f64| entries.iter().map(|e| e.precision * pick(e)).sum::<f64>() / total;
    let response = mean(&|entry| entry.response);
    let means = [0, 1, 2].map(|index| mean(&|entry: &Entry| entry.regressors[index]));
    for entry in &mut entries {
        entry.response -= response;
        for (regressor, mean) in entry.regressors.iter_mut().zip(means) {
            *regressor -= mean;
        }
    }
    entries
}

/// The inverse of the leading `count` × `count` block, symmetric; `None` if a regressor does not vary or repeats another.
fn inverse(matrix: [[f64; 3]; 3], count: usize) -> Option<[[f64; 3]; 3]> {
    let mut scaled = nalgebra::DMatrix::from_fn(count, count, |a, b| matrix[a][b]);
    let sizes: Vec<f64> = (0..count).map(|a| matrix[a][a].sqrt()).collect();
    if sizes.iter().any(|size| !size.is_finite() || *size <= 0.0) {
        return None;
    }
    for a in 0..count {
        for b in 0..count {
            scaled[(a, b)] /= sizes[a] * sizes[b];
        }
    }
    if count > 1 && scaled.determinant() < 1e-9 {
        return None;
    }
    let inverse = scaled.try_inverse()?;
    let mut out = [[0.0; 3]; 3];
    for a in 0..count {
        for b in 0..count {
            out[a][b] = inverse[(a, b)] / (sizes[a] * sizes[b]);
        }
    }
    Some(out)
}
