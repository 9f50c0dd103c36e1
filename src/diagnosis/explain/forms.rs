//! Stage 1: scale and form on visible cells; and the softmax over the queries.

use super::super::evidence::{Columns, Evidence};
use super::super::model::{Cap, Misfit, Model, logit_noise};
use super::super::rows::RowBuffer;
use super::super::slope::{Cells, SIGNIFICANT, ScaleFit, Terms, fit_scale};
use super::Cause;
use super::cap::fitted_cap;

/// Residuals up to this many times what rounding explains still count as the right form.
pub(super) const CHI_SQUARE_OF_RIGHT_FORM: f64 = 9.0;

/// Cells on which a cap is fitted.
const CAP_CELLS: usize = 1 << 15;
/// Cells on which forms are told apart.
const FORM_CELLS: usize = 1 << 17;

/// Caps of published models (50 and 30 in Gemma 2) and round numbers about them.
pub(crate) const LIKELY_CAPS: [f64; 11] = [50.0, 30.0, 20.0, 15.0, 10.0, 5.0, 100.0, 8.0, 25.0, 2.0, 1.0];

/// Stage 1: the form whose residuals rounding explains.
pub(super) fn right_form(
    evidence: &Evidence<'_>,
    rows: &[&RowBuffer],
    contract: &Model,
) -> (Model, Option<ScaleFit>, Vec<Cause>) {
    let mut forms: Vec<(Model, Terms)> = vec![(contract.clone(), Terms::default())];
    let with_cap = |cap: Option<Cap>| Model { cap, ..contract.clone() };
    if evidence.has_bias {
        forms.push((contract.clone(), Terms { bias: true, alibi: false }));
    }
    match contract.cap {
        Some(Cap::Tanh(cap)) => {
            forms.push((with_cap(None), Terms::default()));
            forms.push((with_cap(Some(Cap::FactorAfter(cap))), Terms::default()));
            forms.push((with_cap(Some(Cap::TimesTanh(cap))), Terms::default()));
        }
        _ => forms.extend(LIKELY_CAPS.map(|cap| (with_cap(Some(Cap::Tanh(cap))), Terms::default()))),
    }
    forms.push((contract.clone(), Terms { bias: false, alibi: true }));
    if evidence.has_bias {
        forms.push((contract.clone(), Terms { bias: true, alibi: true }));
    }
    // Every form is tried on some of the rows, the best is fitted on all.
    let step = (rows.len() * evidence.keys / FORM_CELLS).max(1);
    let few: Vec<&RowBuffer> = rows.iter().step_by(step).copied().collect();
    let mut best: Option<(f64, Model, Terms, ScaleFit)> = None;
    let mut used = Cells::Contract;
    for cells in [Cells::Contract, Cells::WithWeight] {
        for (model, terms) in &forms {
            let Some(fit) = fit_scale(evidence, &few, model, *terms, cells) else { continue };
            // A form with a term more must be clearly better.
            if best.as_ref().is_none_or(|(chi_square, ..)| fit.chi_square < chi_square / 4.0) {
                best = Some((fit.chi_square, model.clone(), *terms, fit));
                used = cells;
            }
            if best.as_ref().is_some_and(|(chi_square, ..)| *chi_square <= CHI_SQUARE_OF_RIGHT_FORM) {
                break;
            }
        }
        // Last, since any curvature gives some cap: a cap that no published model has.
        let unfit = best.as_ref().filter(|(chi_square, ..)| *chi_square > CHI_SQUARE_OF_RIGHT_FORM);
        if let Some(&(chi_square, ..)) = unfit
            && contract.cap.is_none()
            && let Some((model, fit)) = with_fitted_cap(evidence, &few, contract, cells)
            && fit.chi_square <= CHI_SQUARE_OF_RIGHT_FORM.min(chi_square / 4.0)
        {
            best = Some((fit.chi_square, model, Terms::default(), fit));
            used = cells;
        }
        if best.is_some() {
            break;
        }
    }
    let Some((_, mut model, terms, mut fit)) = best else { return (contract.clone(), None, Vec::new()) };
    if few.len() < rows.len()
        && let Some(whole) = fit_scale(evidence, rows, &model, terms, used)
    {
        fit = whole;
    }
    let mut causes = Vec::new();
    let significant = |estimate: f64, error: f64, expected: f64| {
        (estimate - expected).abs() > SIGNIFICANT * error + 1e-6 * expected.abs()
    };
    if let Some((coefficient, error)) = fit.bias
        && significant(coefficient, error, contract.bias)
    {
        model.bias = nearest(coefficient, error, &[0.0, 1.0, -1.0, 2.0, fit.scale, contract.scale]);
        causes.push(Cause::Bias(model.bias, error));
    }
    if let Some((slope, error)) = fit.alibi
        && significant(slope, error, contract.alibi)
    {
        model.alibi = nearest(slope, error, &[0.0]);
        causes.push(Cause::Alibi(slope, error));
    }
    if model.cap != contract.cap {
        causes.push(Cause::Cap(model.cap));
    }
    (model, Some(fit), causes)
}

/// The model with the cap that fits best, on few cells, and its scale on all.
fn with_fitted_cap(
    evidence: &Evidence<'_>,
    rows: &[&RowBuffer],
    contract: &Model,
    cells: Cells,
) -> Option<(Model, ScaleFit)> {
    let step = (rows.len() * evidence.keys / CAP_CELLS).max(1);
    let few: Vec<&RowBuffer> = rows.iter().step_by(step).copied().collect();
    let largest = few.iter().flat_map(|row| {
        let view = row.view(&evidence.key_norms);
        let seen = view.raw.iter().zip(view.visible).filter(|(_, visible)| **visible);
        seen.map(|(raw, _)| (contract.scale * raw).abs()).collect::<Vec<_>>()
    });
    let largest = largest.fold(0.0f64, f64::max);
    let model = |cap: f64| Model { cap: Some(Cap::Tanh(cap)), ..contract.clone() };
    let fit = |cap: f64, rows: &[&RowBuffer]| fit_scale(evidence, rows, &model(cap), Terms::default(), cells);
    let cap = fitted_cap(largest, &|cap| fit(cap, &few).map(|fit| fit.chi_square))?;
    Some((model(cap), fit(cap, rows)?))
}

/// The first of `candidates` within the error, else the estimate.
fn nearest(estimate: f64, error: f64, candidates: &[f64]) -> f64 {
    let near = |candidate: &&f64| (estimate - **candidate).abs() <= SIGNIFICANT * error;
    candidates.iter().find(near).copied().unwrap_or(estimate)
}

/// Rows whose logits are held at a time where columns are summed.
const STRIP: usize = 256;

/// Softmax over the queries: each column is normalised.
pub(super) fn over_queries(evidence: &Evidence<'_>, model: &Model) -> Misfit {
    let (mut largest, mut total) = (vec![f64::NEG_INFINITY; evidence.keys], vec![0.0; evidence.keys]);
    for strip in evidence.every_row().chunks(STRIP) {
        let logits = evidence.map_rows(strip, Columns::All, |row, _| {
            let view = row.view(&evidence.key_norms);
            let hidden = |key: usize| if view.visible[key] { model.logit(&view, key) } else { f64::NEG_INFINITY };
            (0..evidence.keys).map(hidden).collect::<Vec<f64>>()
        });
        for row in logits {
            for (key, logit) in row.into_iter().enumerate().filter(|(_, logit)| *logit != f64::NEG_INFINITY) {
                if logit > largest[key] {
                    total[key] = total[key] * (largest[key] - logit).exp() + 1.0;
                    largest[key] = logit;
                } else {
                    total[key] += (logit - largest[key]).exp();
                }
            }
        }
    }
    let rounding = 4.0 * evidence.precisions.weights.unit_roundoff()
        + (8.0 + 4.0 * (evidence.queries as f64).sqrt()) * evidence.precisions.arithmetic;
    let misfits = evidence.map_rows(&evidence.every_row(), Columns::All, |row, [logits, noise, _]| {
        let view = row.view(&evidence.key_norms);
        logits.iter_mut().enumerate().for_each(|(key, logit)| *logit = model.logit(&view, key));
        logit_noise(model, &view, logits, view.weights, &evidence.precisions, noise);
        let mut misfit = Misfit::NONE;
        for key in 0..evidence.keys {
            let predicted = if view.visible[key] { (logits[key] - largest[key]).exp() / total[key] } else { 0.0 };
            // A column mixes rows, whose noise differs; twice the largest of the row covers both.
            let own = 4.0 * noise[key];
            let bound = predicted * (own.exp_m1() + rounding) + 2.0 * evidence.precisions.floor;
            misfit.add(view.weights[key], predicted, bound, (view.query, key));
        }
        misfit
    });
    misfits.into_iter().fold(Misfit::NONE, Misfit::merge)
}
