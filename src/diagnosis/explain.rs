//! From weights that break the contract to the model that reproduces them.
//!
//! The stages of attention are told apart one after the other. (1) On visible cells with weight, ln P against the raw logits gives the
//! scale, with the form (soft cap, bias, distance) whose residuals rounding explains. (2) With that, every hidden cell with weight has an
//! implied logit ln P + lse_i: equal to its own logit it was never hidden, 0 it was multiplied by the mask, a constant it was
//! filled. Visible cells without weight were hidden. (3) What a row's weights sum to against its partition function tells a sink,
//! dropout, and masks applied after the softmax. (4) The model put together is compared with every weight.

use super::evidence::{Evidence, RowBuffer, RowView};
use super::model::{Cap, Hidden, MaskUse, Misfit, Model, compare_row, logit_noise};
use super::slope::{Cells, ScaleFit, Terms, fit_scale};
use crate::attention::Mask;

/// Residuals up to this many times what rounding explains still count as the right form.
const CHI_SQUARE_OF_RIGHT_FORM: f64 = 9.0;

/// Caps of published models (50 and 30 in Gemma 2) and round numbers about them.
const LIKELY_CAPS: [f64; 11] = [50.0, 30.0, 20.0, 15.0, 10.0, 5.0, 100.0, 8.0, 25.0, 2.0, 1.0];

/// Where cells differ between contract and implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct Support {
    /// Cells that the implementation shows, over all rows.
    pub observed: Mask,
    /// Cells with weight that the contract hides.
    pub leaked: usize,
    /// Cells without weight that the contract shows.
    pub lost: usize,
    /// First cell that differs.
    pub first: (usize, usize),
    /// Mean over the rows that leak of the weight on hidden cells.
    pub leaked_weight: f64,
    /// Cells that the contract hides and whose weight could be told.
    pub hidden_cells: usize,
}

/// One way in which weights leave the contract.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Another factor on QKᵀ.
    Scale,
    /// Softmax over the queries: columns sum to 1.
    OverQueries,
    /// Other cells are visible.
    Support(Support),
    /// Hidden logits were multiplied by 0.
    Multiplied,
    /// Hidden logits were replaced by this number.
    Replaced(f64),
    /// This number was added to hidden logits.
    Added(f64),
    /// The mask was applied after the softmax, without dividing again.
    ZeroedAfter,
    /// The mask's numbers were added after the softmax.
    AddedAfter(f64),
    /// Weights dropped with this share, the others multiplied by this factor.
    Dropout {
        /// Share of weights that are 0 where the softmax is not.
        share: f64,
        /// Factor on the others.
        factor: f64,
    },
    /// Every weight is this many times the softmax, none dropped.
    Factor(f64),
    /// The denominator holds an extra logit of this size (`None`: it lacks the declared one).
    Sink(Option<f64>),
    /// The coefficient of the bias and its standard error.
    Bias(f64, f64),
    /// The fall with distance and its standard error.
    Alibi(f64, f64),
    /// Another form of soft cap.
    Cap(Option<Cap>),
    /// None of the known models.
    Unexplained,
}

/// What became of one head's weights.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The contract's model.
    pub contract: Model,
    /// How far the weights are from it.
    pub contract_misfit: Misfit,
    /// The model that comes closest.
    pub model: Model,
    /// How far the weights are from that.
    pub misfit: Misfit,
    /// The scale.
    pub fit: Option<ScaleFit>,
    /// Differences between the two models.
    pub causes: Vec<Cause>,
}

/// What stage 2 found out of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HiddenKind {
    Unmasked,
    Multiplied,
    Replaced,
    Added,
    Clean,
}

/// Explains the weights of a head; `column_sums_are_one` is what the sums over the queries say.
pub fn explain(evidence: &Evidence<'_>, contract: &Model, column_sums_are_one: bool) -> Explanation {
    let contract_misfit = evidence.compare(contract);
    let rows = evidence.sampled_rows();
    let fit = fit_scale(evidence, &rows, contract, Terms::default(), Cells::Contract);
    let mut result = Explanation {
        contract: contract.clone(),
        contract_misfit,
        model: contract.clone(),
        misfit: contract_misfit,
        fit,
        causes: Vec::new(),
    };
    if contract_misfit.fits() {
        if let Some(fit) = &result.fit
            && !fit.agrees_with(contract.scale)
        {
            result.model.scale = fit.scale;
            result.causes.push(Cause::Scale);
        }
        return result;
    }
    if column_sums_are_one && over_queries(evidence, contract).fits() {
        result.causes.push(Cause::OverQueries);
        result.misfit = Misfit::NONE;
        return result;
    }
    let (model, fit, mut causes) = right_form(evidence, &rows, contract);
    result.fit = fit.or(result.fit);
    let mut model = model;
    if let Some(fit) = &result.fit {
        if fit.agrees_with(contract.scale) {
            model.scale = contract.scale;
        } else {
            model.scale = fit.scale;
            causes.insert(0, Cause::Scale);
        }
    }
    if let Some(number) = added_after(evidence, &rows, &model) {
        causes.push(Cause::AddedAfter(number));
        model.hidden = Hidden::AddedAfter(number);
        result.misfit = evidence.compare(&model);
    } else {
        result.misfit = stages(evidence, &rows, &mut model, &mut causes);
    }
    if !result.misfit.fits() {
        causes.push(Cause::Unexplained);
    }
    (result.model, result.causes) = (model, causes);
    result
}

/// Stage 1: the form whose residuals rounding explains.
fn right_form(evidence: &Evidence<'_>, rows: &[RowBuffer], contract: &Model) -> (Model, Option<ScaleFit>, Vec<Cause>) {
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
    let mut best: Option<(f64, Model, Terms, ScaleFit)> = None;
    for cells in [Cells::Contract, Cells::WithWeight] {
        for (model, terms) in &forms {
            let Some(fit) = fit_scale(evidence, rows, model, *terms, cells) else { continue };
            // A form with a term more must be clearly better.
            if best.as_ref().is_none_or(|(chi_square, ..)| fit.chi_square < chi_square / 4.0) {
                best = Some((fit.chi_square, model.clone(), *terms, fit));
            }
            if best.as_ref().is_some_and(|(chi_square, ..)| *chi_square <= CHI_SQUARE_OF_RIGHT_FORM) {
                break;
            }
        }
        if best.is_some() {
            break;
        }
    }
    let Some((_, mut model, _, fit)) = best else { return (contract.clone(), None, Vec::new()) };
    let mut causes = Vec::new();
    let significant = |estimate: f64, error: f64, expected: f64| {
        (estimate - expected).abs() > super::slope::SIGNIFICANT * error + 1e-6 * expected.abs()
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

/// The first of `candidates` within the error, else the estimate.
fn nearest(estimate: f64, error: f64, candidates: &[f64]) -> f64 {
    let near = |candidate: &&f64| (estimate - **candidate).abs() <= super::slope::SIGNIFICANT * error;
    candidates.iter().find(near).copied().unwrap_or(estimate)
}

/// Softmax over the queries: each column is normalised.
fn over_queries(evidence: &Evidence<'_>, model: &Model) -> Misfit {
    let (mut largest, mut total) = (vec![f64::NEG_INFINITY; evidence.keys], vec![0.0; evidence.keys]);
    for query in 0..evidence.queries {
        let row = evidence.row(query);
        let view = row.view(&evidence.key_norms);
        for key in (0..evidence.keys).filter(|&key| view.visible[key]) {
            let logit = model.logit(&view, key);
            if logit > largest[key] {
                total[key] = total[key] * (largest[key] - logit).exp() + 1.0;
                largest[key] = logit;
            } else {
                total[key] += (logit - largest[key]).exp();
            }
        }
    }
    let mut misfit = Misfit::NONE;
    let mut noise = vec![0.0; evidence.keys];
    for query in 0..evidence.queries {
        let row = evidence.row(query);
        let view = row.view(&evidence.key_norms);
        let logits: Vec<f64> = (0..evidence.keys).map(|key| model.logit(&view, key)).collect();
        logit_noise(model, &view, &logits, &evidence.precisions, &mut noise);
        let rounding = 4.0 * evidence.precisions.weights.unit_roundoff()
            + (8.0 + 4.0 * (evidence.queries as f64).sqrt()) * evidence.precisions.arithmetic;
        for key in 0..evidence.keys {
            let predicted = if view.visible[key] { (logits[key] - largest[key]).exp() / total[key] } else { 0.0 };
            // A column mixes rows, whose noise differs; twice the largest of the row covers both.
            let own = 4.0 * noise[key];
            let bound = predicted * (own.exp_m1() + rounding) + 2.0 * evidence.precisions.floor;
            misfit.add(view.weights[key], predicted, bound, (query, key));
        }
    }
    misfit
}

/// Whether hidden cells hold the softmax over all keys plus one number (a mask added too late).
fn added_after(evidence: &Evidence<'_>, rows: &[RowBuffer], model: &Model) -> Option<f64> {
    let hidden = rows.iter().flat_map(|row| {
        let view = row.view(&evidence.key_norms);
        (0..evidence.keys).filter(move |&key| !view.visible[key]).map(move |key| view.weights[key])
    });
    let (low, high) = hidden.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), w| (low.min(w), high.max(w)));
    // No hidden cell at all leaves −∞.
    if high >= -0.5 || !high.is_finite() {
        return None;
    }
    let number = evidence.head.mask.as_ref().and_then(|mask| mask.fill).unwrap_or(low.round());
    evidence.compare(&Model { hidden: Hidden::AddedAfter(number), ..model.clone() }).fits().then_some(number)
}

/// The mean over a row's fitted cells of ln P − logit (−lse for a plain softmax), its uncertainty, and the logits.
struct RowOffset {
    offset: f64,
    tolerance: f64,
    logits: Vec<f64>,
    noise: Vec<f64>,
}

fn row_offset(evidence: &Evidence<'_>, view: &RowView<'_>, model: &Model, only_visible: bool) -> Option<RowOffset> {
    let logits: Vec<f64> = (0..evidence.keys).map(|key| model.logit(view, key)).collect();
    let mut noise = vec![0.0; evidence.keys];
    logit_noise(model, view, &logits, &evidence.precisions, &mut noise);
    let weights = evidence.precisions.weights;
    let smallest = evidence.precisions.smallest;
    let (mut sum, mut count, mut tolerance) = (0.0, 0.0, 0.0f64);
    for key in 0..evidence.keys {
        if view.weights[key] >= smallest && (!only_visible || view.visible[key]) {
            let precision = view.weights[key];
            sum += precision * (view.weights[key].ln() - logits[key]);
            tolerance += precision * (2.0 * noise[key] + 4.0 * weights.unit_roundoff());
            count += precision;
        }
    }
    let rounding = (8.0 + 4.0 * (evidence.keys as f64).sqrt()) * evidence.precisions.arithmetic;
    let tolerance = tolerance / count + rounding;
    (count > 0.0).then(|| RowOffset { offset: sum / count, tolerance, logits, noise })
}

/// Stages 2 to 4; returns how far the final model is from the weights.
fn stages(evidence: &Evidence<'_>, rows: &[RowBuffer], model: &mut Model, causes: &mut Vec<Cause>) -> Misfit {
    // Rows whose visible cells all lack weight (a reversed mask) are offset by the cells that have it.
    let reversed = rows.iter().all(|row| {
        let view = row.view(&evidence.key_norms);
        (0..evidence.keys).all(|key| !view.visible[key] || view.weights[key] <= 0.0)
    });
    let kind = hidden_kind(evidence, rows, model, reversed);
    let trials: Vec<(Hidden, Option<Cause>)> = match kind {
        (HiddenKind::Multiplied, _) => vec![(Hidden::Multiplied, Some(Cause::Multiplied))],
        (HiddenKind::Replaced, fill) => vec![(Hidden::Replaced(fill), Some(Cause::Replaced(fill)))],
        (HiddenKind::Added, fill) => vec![(Hidden::Added(fill), Some(Cause::Added(fill)))],
        _ => vec![(Hidden::Excluded, None), (Hidden::ZeroedAfter, Some(Cause::ZeroedAfter))],
    };
    let mut last = Misfit { ratio: f64::INFINITY, ..Misfit::NONE };
    for (hidden, cause) in trials {
        let trial = Model { hidden, ..model.clone() };
        let misfit = evidence.compare(&trial);
        if misfit.fits() {
            *model = trial;
            causes.extend(cause);
            return misfit;
        }
        last = if misfit.ratio < last.ratio { misfit } else { last };
    }
    // Weights that sum to 1 over the cells that have some are a mask's doing, before anything is said of sums.
    let (found, misfit) = support(evidence, model, reversed);
    let differs = found.leaked + found.lost > 0;
    if misfit.fits() && differs {
        model.mask = MaskUse::Observed;
        causes.push(Cause::Support(found));
        return misfit;
    }
    if let Some(done) = totals(evidence, rows, model, causes) {
        return done;
    }
    if differs && misfit.ratio < last.ratio / 10.0 {
        causes.push(Cause::Support(found));
    }
    if misfit.ratio < last.ratio { misfit } else { last }
}

/// What the hidden cells with weight have in common.
fn hidden_kind(evidence: &Evidence<'_>, rows: &[RowBuffer], model: &Model, reversed: bool) -> (HiddenKind, f64) {
    let (mut own, mut zero) = (0usize, 0usize);
    let (mut replaced, mut added): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut widest = 0.0f64;
    let weights = evidence.precisions.weights;
    for row in rows {
        let view = row.view(&evidence.key_norms);
        let Some(fitted) = row_offset(evidence, &view, model, !reversed) else { continue };
        for key in 0..evidence.keys {
            if view.visible[key] || view.weights[key] < evidence.precisions.smallest {
                continue;
            }
            let implied = view.weights[key].ln() - fitted.offset;
            let tolerance = 2.0 * fitted.tolerance + 2.0 * fitted.noise[key] + 4.0 * weights.unit_roundoff();
            widest = widest.max(tolerance);
            own += usize::from((implied - fitted.logits[key]).abs() <= tolerance);
            zero += usize::from(implied.abs() <= tolerance);
            replaced.push(implied);
            added.push(implied - fitted.logits[key]);
        }
    }
    let count = replaced.len();
    let most = |part: usize| 100 * part >= 99 * count;
    if count == 0 {
        return (HiddenKind::Clean, 0.0);
    }
    if most(own) {
        return (HiddenKind::Unmasked, 0.0);
    }
    if most(zero) {
        return (HiddenKind::Multiplied, 0.0);
    }
    let constant = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let median = values[count / 2];
        let near = values.iter().filter(|&&value| (value - median).abs() <= 2.0 * widest).count();
        (count > 1 && most(near)).then_some(median)
    };
    if let Some(fill) = constant(&mut replaced) {
        return (HiddenKind::Replaced, fill);
    }
    match constant(&mut added) {
        Some(fill) => (HiddenKind::Added, fill),
        None => (HiddenKind::Unmasked, 0.0),
    }
}

/// Stage 3 on the contract's cells: dropout, a factor, a sink.
fn totals(evidence: &Evidence<'_>, rows: &[RowBuffer], model: &mut Model, causes: &mut Vec<Cause>) -> Option<Misfit> {
    let underflow = evidence.precisions.floor;
    let (mut excess, mut sinks): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut zeros, mut cells, mut widest, mut leaked) = (0usize, 0usize, 0.0f64, 0usize);
    let plain = Model { sink: None, ..model.clone() };
    let (mut logits, mut predicted) = (vec![0.0; evidence.keys], vec![0.0; evidence.keys]);
    for row in rows {
        let view = row.view(&evidence.key_norms);
        let log_sum = plain.weights(&view, &mut logits, &mut predicted);
        for (key, &expected) in predicted.iter().enumerate() {
            if expected > 64.0 * underflow {
                cells += 1;
                zeros += usize::from(view.weights[key] == 0.0);
            }
            leaked += usize::from(!view.visible[key] && view.weights[key] > underflow);
        }
        let Some(fitted) = row_offset(evidence, &view, &plain, true) else { continue };
        let difference = fitted.offset + log_sum;
        excess.push(difference);
        widest = widest.max(fitted.tolerance);
        // exp(−difference) = 1 + exp(sink − lse).
        if difference < -fitted.tolerance {
            sinks.push((-difference).exp_m1().ln() + log_sum);
        }
    }
    if excess.is_empty() || leaked > 0 {
        return None;
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let rows_with_sink = sinks.len();
    let share = zeros as f64 / cells.max(1) as f64;
    let factor = median(&mut excess).exp();
    let constant = excess.iter().all(|value| (value - factor.ln()).abs() <= 2.0 * widest);
    if constant && (factor.ln().abs() > 2.0 * widest || zeros > 0) && factor > 1.0 {
        let trial = Model { factor, ..model.clone() };
        let misfit = compare_kept(evidence, &trial);
        if misfit.fits() {
            *model = trial;
            causes.push(if zeros > 0 { Cause::Dropout { share, factor } } else { Cause::Factor(factor) });
            return Some(misfit);
        }
    }
    if rows_with_sink > 0 {
        let sink = median(&mut sinks);
        let trial = Model { sink: Some(sink), ..model.clone() };
        let misfit = evidence.compare(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Sink(Some(sink)));
            return Some(misfit);
        }
    }
    if model.sink.is_some() {
        let trial = Model { sink: None, ..model.clone() };
        let misfit = evidence.compare(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Sink(None));
            return Some(misfit);
        }
    }
    if constant && factor.ln().abs() > 2.0 * widest {
        let trial = Model { factor, ..model.clone() };
        let misfit = evidence.compare(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Factor(factor));
            return Some(misfit);
        }
    }
    None
}

/// Compares weights that are not 0: what dropout left.
fn compare_kept(evidence: &Evidence<'_>, model: &Model) -> Misfit {
    let zeros = || vec![0.0; evidence.keys];
    let mut scratch = [zeros(), zeros(), zeros()];
    let mut misfit = Misfit::NONE;
    let mut predicted = zeros();
    let mut logits = zeros();
    for query in 0..evidence.queries {
        let mut row = evidence.row(query);
        let view = row.view(&evidence.key_norms);
        if view.is_broken() || !view.has_keys() {
            continue;
        }
        model.weights(&view, &mut logits, &mut predicted);
        row.keep_where_zero(&predicted);
        misfit = misfit.merge(compare_row(model, &row.view(&evidence.key_norms), &evidence.precisions, &mut scratch));
    }
    misfit
}

/// Stage 2 to the end: cells as they are shown by the implementation, over all rows, with the model that hides those.
fn support(evidence: &Evidence<'_>, model: &Model, reversed: bool) -> (Support, Misfit) {
    let underflow = evidence.precisions.floor;
    let (n, m) = (evidence.queries, evidence.keys);
    let mut cells = vec![false; n * m];
    let (mut leaked, mut lost, mut hidden_cells, mut first) = (0, 0, 0, None);
    let (mut leaked_weight, mut leaking_rows) = (0.0, 0usize);
    let mut misfit = Misfit::NONE;
    let observed_model = Model { mask: MaskUse::Observed, hidden: Hidden::Excluded, ..model.clone() };
    let zeros = || vec![0.0; m];
    let mut scratch = [zeros(), zeros(), zeros()];
    for query in 0..n {
        let mut row = evidence.row(query);
        let view = row.view(&evidence.key_norms);
        // Rows that see no key hold zeros, or even weights, by convention.
        let even = 1.0 / m as f64;
        let by_convention = !view.has_keys()
            && (view.weights.iter().all(|&weight| weight == 0.0)
                || view.weights.iter().all(|&weight| (weight - even).abs() < 0.01 * even));
        if view.is_broken() || by_convention {
            continue;
        }
        let fitted =
            row_offset(evidence, &view, model, !reversed).or_else(|| row_offset(evidence, &view, model, false));
        let (mut observed, mut leak) = (vec![false; m], 0.0);
        for (key, seen) in observed.iter_mut().enumerate() {
            // A row without any weight shows nothing.
            let expected = fitted.as_ref().map_or(1.0, |fitted| (fitted.logits[key] + fitted.offset).exp());
            let visible = view.visible[key];
            *seen = if view.weights[key] > 2.0 * underflow {
                true
            } else if expected > 64.0 * underflow {
                false
            } else {
                visible
            };
            hidden_cells += usize::from(!visible && expected > 64.0 * underflow);
            if *seen != visible {
                first.get_or_insert((query, key));
                leaked += usize::from(!visible);
                lost += usize::from(visible);
                leak += if visible { 0.0 } else { view.weights[key] };
            }
        }
        leaked_weight += leak;
        leaking_rows += usize::from(leak > 0.0);
        cells[query * m..(query + 1) * m].copy_from_slice(&observed);
        let any = observed.iter().any(|&seen| seen);
        row.observed = Some(observed);
        if any {
            let view = row.view(&evidence.key_norms);
            misfit = misfit.merge(compare_row(&observed_model, &view, &evidence.precisions, &mut scratch));
        }
    }
    let found = Support {
        observed: Mask::from_cells(n, m, cells),
        leaked,
        lost,
        first: first.unwrap_or((0, 0)),
        leaked_weight: leaked_weight / leaking_rows.max(1) as f64,
        hidden_cells,
    };
    (found, misfit)
}
