//! Stages 2 to 4: hidden cells, sums, and the model put together.

use super::super::evidence::{Columns, Evidence};
use super::super::model::{Hidden, MaskUse, Misfit, Model, compare_row, logit_noise};
use super::super::rows::{RowBuffer, RowView};
use super::{Cause, Support, is_dropped_as_often};
use crate::attention::Mask;

/// What stage 2 found out of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HiddenKind {
    Unmasked,
    Multiplied,
    Replaced,
    Added,
    Clean,
}

/// Whether hidden cells hold the softmax over all keys plus one number (a mask added too late).
pub(super) fn added_after(evidence: &Evidence<'_>, rows: &[&RowBuffer], model: &Model) -> Option<f64> {
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
    evidence.try_model(&Model { hidden: Hidden::AddedAfter(number), ..model.clone() }).fits().then_some(number)
}

/// The mean over a row's fitted cells of ln P − logit (−lse for a plain softmax), its uncertainty, and the logits.
struct RowOffset {
    offset: f64,
    tolerance: f64,
    logits: Vec<f64>,
    noise: Vec<f64>,
}

fn row_offset(evidence: &Evidence<'_>, view: &RowView<'_>, model: &Model, only_visible: bool) -> Option<RowOffset> {
    let mut logits = vec![0.0; evidence.keys];
    model.logits(view, 0..evidence.keys, &mut logits);
    let mut noise = vec![0.0; evidence.keys];
    logit_noise(model, view, &logits, view.weights, &evidence.precisions, &mut noise);
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
pub(super) fn stages(
    evidence: &Evidence<'_>,
    rows: &[&RowBuffer],
    model: &mut Model,
    causes: &mut Vec<Cause>,
) -> Misfit {
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
        let misfit = evidence.try_model(&trial);
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
fn hidden_kind(evidence: &Evidence<'_>, rows: &[&RowBuffer], model: &Model, reversed: bool) -> (HiddenKind, f64) {
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
fn totals(evidence: &Evidence<'_>, rows: &[&RowBuffer], model: &mut Model, causes: &mut Vec<Cause>) -> Option<Misfit> {
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
            causes.push(if zeros > 0 { Cause::Dropout { share, factor, cells } } else { Cause::Factor(factor) });
            return Some(misfit);
        }
    }
    if rows_with_sink > 0 {
        let sink = median(&mut sinks);
        let trial = Model { sink: Some(sink), ..model.clone() };
        let misfit = evidence.try_model(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Sink(Some(sink)));
            return Some(misfit);
        }
    }
    if model.sink.is_some() {
        let trial = Model { sink: None, ..model.clone() };
        let misfit = evidence.try_model(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Sink(None));
            return Some(misfit);
        }
    }
    if constant && factor.ln().abs() > 2.0 * widest {
        let trial = Model { factor, ..model.clone() };
        let misfit = evidence.try_model(&trial);
        if misfit.fits() {
            *model = trial;
            causes.push(Cause::Factor(factor));
            return Some(misfit);
        }
    }
    None
}

/// The contract's weights after the declared dropout, if that gives them: each is 0 or 1/(1 − p) times the softmax. Nothing is inferred
/// from zeros, so that a few keys are enough, and rows where nothing (or all) was dropped are as good as others.
pub(super) fn declared_dropout(evidence: &Evidence<'_>, contract: &Model) -> Option<(Cause, Model, Misfit)> {
    let p = evidence.dropout?;
    let scaled_up = 1.0 / (1.0 - p);
    // Those that are left may not have been scaled up.
    let models = [scaled_up, 1.0].map(|factor| Model { factor, ..contract.clone() });
    let (model, misfit) = models.into_iter().find_map(|model| {
        let misfit = compare_kept(evidence, &model);
        misfit.fits().then_some((model, misfit))
    })?;
    let factor = model.factor;
    let underflow = evidence.precisions.floor;
    let counts = evidence.map_rows(&evidence.every_row(), model.columns(), |row, scratch| {
        let view = row.view(&evidence.key_norms);
        if view.is_broken() || !view.has_keys() {
            return (0usize, 0usize);
        }
        let [logits, predicted, _] = &mut *scratch;
        model.weights(&view, logits, predicted);
        let could = predicted.iter().zip(view.weights).filter(|(expected, _)| **expected > 64.0 * underflow);
        could.fold((0, 0), |(cells, zeros), (_, &weight)| (cells + 1, zeros + usize::from(weight == 0.0)))
    });
    let (cells, zeros) = counts.into_iter().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    let share = zeros as f64 / cells.max(1) as f64;
    // Zeros without the factor may be a mask's; only as many as the declared probability makes are dropout's.
    (factor != 1.0 || is_dropped_as_often(share, cells, p)).then_some((
        Cause::Dropout { share, factor, cells },
        model,
        misfit,
    ))
}

/// Compares weights that are not 0: what dropout left.
fn compare_kept(evidence: &Evidence<'_>, model: &Model) -> Misfit {
    let kept = |rows: &[usize]| {
        let misfits = evidence.map_rows(rows, model.columns(), |row, scratch| {
            let view = row.view(&evidence.key_norms);
            if view.is_broken() || !view.has_keys() {
                return Misfit::NONE;
            }
            let [logits, predicted, _] = &mut *scratch;
            model.weights(&view, logits, predicted);
            row.keep_where_zero(predicted);
            compare_row(model, &row.view(&evidence.key_norms), &evidence.precisions, scratch)
        });
        misfits.into_iter().fold(Misfit::NONE, Misfit::merge)
    };
    let on_sample = kept(evidence.sample());
    if on_sample.fits() { kept(&evidence.every_row()) } else { on_sample }
}

/// What stage 2 finds in one row.
struct RowSupport {
    observed: Vec<bool>,
    leaked: usize,
    lost: usize,
    hidden_cells: usize,
    /// First key that differs.
    first: Option<usize>,
    /// Weight on hidden cells.
    leak: f64,
    misfit: Misfit,
}

/// Stage 2 to the end: cells as they are shown by the implementation, over all rows, with the model that hides those.
fn support(evidence: &Evidence<'_>, model: &Model, reversed: bool) -> (Support, Misfit) {
    let (n, m) = (evidence.queries, evidence.keys);
    let observed_model = Model { mask: MaskUse::Observed, hidden: Hidden::Excluded, ..model.clone() };
    let rows = evidence.map_rows(&evidence.every_row(), Columns::All, |row, scratch| {
        let mut found = row_support(evidence, &row.view(&evidence.key_norms), model, reversed)?;
        if found.observed.contains(&true) {
            row.observed = Some(std::mem::take(&mut found.observed));
            found.misfit = compare_row(&observed_model, &row.view(&evidence.key_norms), &evidence.precisions, scratch);
            found.observed = row.observed.take().unwrap_or_default();
        }
        Some(found)
    });
    let mut cells = vec![false; n * m];
    let (mut leaked, mut lost, mut hidden_cells, mut first) = (0, 0, 0, None);
    let (mut leaked_weight, mut leaking_rows) = (0.0, 0usize);
    let mut misfit = Misfit::NONE;
    for (query, row) in rows.into_iter().enumerate() {
        let Some(row) = row else { continue };
        leaked += row.leaked;
        lost += row.lost;
        hidden_cells += row.hidden_cells;
        first = first.or(row.first.map(|key| (query, key)));
        leaked_weight += row.leak;
        leaking_rows += usize::from(row.leak > 0.0);
        cells[query * m..(query + 1) * m].copy_from_slice(&row.observed);
        misfit = misfit.merge(row.misfit);
    }
    let found = Support {
        observed: Mask::from_cells(n, m, cells).compact(),
        leaked,
        lost,
        first: first.unwrap_or((0, 0)),
        leaked_weight: leaked_weight / leaking_rows.max(1) as f64,
        hidden_cells,
    };
    (found, misfit)
}

/// The cells of a row as the implementation shows them; `None` for a row that says nothing of cells.
fn row_support(evidence: &Evidence<'_>, view: &RowView<'_>, model: &Model, reversed: bool) -> Option<RowSupport> {
    let (underflow, m) = (evidence.precisions.floor, evidence.keys);
    // Rows that see no key hold zeros, or even weights, by convention.
    let even = 1.0 / m as f64;
    let by_convention = !view.has_keys()
        && (view.weights.iter().all(|&weight| weight == 0.0)
            || view.weights.iter().all(|&weight| (weight - even).abs() < 0.01 * even));
    if view.is_broken() || by_convention {
        return None;
    }
    let fitted = row_offset(evidence, view, model, !reversed).or_else(|| row_offset(evidence, view, model, false));
    // exp(logit + offset) > 64·underflow, without an exponential for every cell. A row without any weight shows nothing.
    let least = (64.0 * underflow).ln() - fitted.as_ref().map_or(0.0, |fitted| fitted.offset);
    let shows = |key: usize| fitted.as_ref().is_none_or(|fitted| fitted.logits[key] > least);
    let mut found = RowSupport {
        observed: vec![false; m],
        leaked: 0,
        lost: 0,
        hidden_cells: 0,
        first: None,
        leak: 0.0,
        misfit: Misfit::NONE,
    };
    for key in 0..m {
        let visible = view.visible[key];
        let has_weight = view.weights[key] > 2.0 * underflow;
        let is_expected = shows(key);
        // A weight of 0 that should be a few underflows is hidden or is not: as hidden it is what is predicted.
        let may_underflow = fitted.as_ref().is_some_and(|fitted| fitted.logits[key] <= least - 16f64.ln());
        let seen = has_weight || (visible && !is_expected && may_underflow);
        found.observed[key] = seen;
        found.hidden_cells += usize::from(!visible && is_expected);
        if seen != visible {
            found.first.get_or_insert(key);
            found.leaked += usize::from(!visible);
            found.lost += usize::from(visible);
            found.leak += if visible { 0.0 } else { view.weights[key] };
        }
    }
    Some(found)
}
