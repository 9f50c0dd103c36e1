//! Errors as large as the arithmetic explains.

use super::HeadContext;
use crate::diagnosis::evidence::Precisions;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Storage;
use crate::diagnosis::rows::RowBuffer;

/// The same type's plain computation may be beaten by this much before it is worth a warning.
pub const SUSPICIOUS_RATIO: f64 = 8.0;

/// Shown by `--explain precision`.
pub const EXPLANATION: &str = "\
Are the errors of the weights those of the arithmetic?
Formula: root mean square of P − P(f64) over that of a plain computation in the types of the file (logits rounded to the type of Q and K, \
softmax in f32, weights rounded), both against the definition in f64. The worst single weight is held against a derived bound.
Verdict: PASS up to a ratio of 8; WARN beyond if an error is also more than 0.3 of its bound, and where errors are those of a narrower type than the one stored (TF32 or bf16 products \
kept as f32): pass --tolerance to accept or to forbid it; FAIL if no rounding and no known fault explains the weights.
Also from Q and K alone: largest |q·k| against the largest number of the storage type (65504 in f16).
Blind spots: a bound is loose in half types; a wrong scale or mask is judged by its own check.";

/// What the errors say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let mut findings = range(context);
    let Some(explanation) = context.explanation else { return findings };
    if context.recovered || context.head.weights.is_none() {
        return findings;
    }
    let misfit = explanation.contract_misfit;
    if explanation.causes.contains(&Cause::Unexplained) {
        findings.push(unexplained(context));
        return findings;
    }
    // A finding of its own: the bound above is already that of the narrower type.
    if let Some(narrow) = rounded_on_the_way(context)
        && misfit.fits()
    {
        findings.push(narrow);
        return findings;
    }
    // Dropped weights are far from the softmax without any rounding.
    if !misfit.fits() || !explanation.causes.is_empty() || context.evidence.dropout.is_some() {
        return findings;
    }
    let (own, plain) = root_mean_squares(context);
    let ratio = if plain > 0.0 { own / plain } else { 1.0 };
    let words = format!(
        "largest error of a weight {}, root mean square {}x that of a plain {} computation",
        significant(misfit.largest, 2),
        significant(ratio, 2),
        context.head.queries.computed_in().name()
    );
    // Few cells make any ratio; an error far inside the bound is none to warn of.
    let suspicious = ratio > SUSPICIOUS_RATIO && misfit.ratio > 0.3 && context.contract.tolerance.is_none();
    let verdict = if suspicious { Verdict::Warn } else { Verdict::Pass };
    let mut finding =
        context.finding(Check::Precision, verdict, "ratio", words).with_numbers(ratio, 1.0, "ratio of errors");
    if verdict == Verdict::Warn {
        finding = finding.with_cause(
            "an accumulation or a softmax in a narrower type than the file's; within the worst-case bound",
            "compute the softmax in f32 and compare",
        );
    }
    findings.push(finding);
    findings
}

/// Weights that all are numbers of a narrower type than Q and K hold, whatever they are stored as.
fn rounded_on_the_way(context: &HeadContext<'_>) -> Option<Finding> {
    let weights = context.head.weights.as_ref()?;
    let (stored, narrow, inputs) = (weights.storage, weights.computed_in(), context.head.queries.computed_in());
    let is_wider = |storage: Storage| storage.unit_roundoff() < narrow.unit_roundoff();
    let is_half = matches!(narrow, Storage::F16 | Storage::Bf16);
    if !is_half || !is_wider(stored) || !is_wider(inputs) || context.contract.tolerance.is_some() {
        return None;
    }
    let largest = context.explanation.map_or(0.0, |explanation| explanation.contract_misfit.largest);
    let words = format!(
        "every weight is a {} number although they are stored as {} and Q and K are {}: largest error of a weight {}",
        narrow.name(),
        stored.name(),
        inputs.name(),
        significant(largest, 2)
    );
    Some(
        context
            .finding(Check::Precision, Verdict::Warn, "rounded", words)
            .with_numbers(largest, 0.0, "largest error of a weight")
            .with_cause(
                format!("the weights were cast to {} on the way (autocast?) and back; pass --tolerance to accept or forbid it", narrow.name()),
                "print the type of the weights before they are stored",
            ),
    )
}

/// Q and K whose products leave the range of f16.
fn range(context: &HeadContext<'_>) -> Vec<Finding> {
    if context.head.queries.storage != Storage::F16 {
        return Vec::new();
    }
    let evidence = context.evidence;
    let (mut largest, mut cell) = (0.0f64, (0, 0));
    for row in evidence.sampled() {
        let view = row.view(&evidence.key_norms);
        for (key, &raw) in view.raw.iter().enumerate() {
            if raw.abs() > largest {
                (largest, cell) = (raw.abs(), (view.query, key));
            }
        }
    }
    let limit = Storage::F16.largest();
    if largest <= limit {
        return Vec::new();
    }
    let scaled = largest * context.model.scale.abs();
    let too = if scaled > limit { "; the scaled value leaves the range too" } else { "" };
    let words = format!(
        "largest |q·k| = {} exceeds the largest f16, 65504 ({}x); scaled {}{too}",
        significant(largest, 2),
        significant(largest / limit, 2),
        significant(scaled, 2)
    );
    let mut finding = context
        .finding(Check::Precision, Verdict::Warn, "range", words)
        .with_numbers(largest, limit, "largest |q·k|")
        .with_cause("QKᵀ in f16 overflows before the scale is applied", "accumulate in f32, or scale Q first");
    finding.cell = Some((cell.0, Some(cell.1)));
    vec![finding]
}

fn unexplained(context: &HeadContext<'_>) -> Finding {
    let Some(explanation) = context.explanation else { unreachable!("an unexplained head has an explanation") };
    let misfit = explanation.misfit;
    let narrower = narrower_type(context);
    let (verdict, key, words, cause) = match narrower {
        Some(storage) if context.contract.tolerance.is_none() => (
            Verdict::Warn,
            "narrower",
            format!(
                "errors up to {} are {}x what the stored types explain, without structure, as large as {} products give",
                significant(explanation.contract_misfit.largest, 2),
                significant(explanation.contract_misfit.ratio, 2),
                storage.name()
            ),
            format!("computed in {} (TF32, autocast?) and stored wider; to forbid it pass --tolerance", storage.name()),
        ),
        _ => (
            Verdict::Fail,
            "unexplained",
            format!(
                "weight {} where the contract gives {} (query {}, key {}), {}x what rounding explains; none of the known faults reproduces the weights",
                significant(misfit.observed, 4),
                significant(misfit.predicted, 4),
                misfit.cell.0,
                misfit.cell.1,
                significant(misfit.ratio, 2)
            ),
            "Q, K and weights of different runs, layers or heads; a term that was not declared (bias, positions, cap)"
                .to_string(),
        ),
    };
    let mut finding = context
        .finding(Check::Precision, verdict, key, words)
        .with_numbers(explanation.contract_misfit.largest, 0.0, "largest error of a weight")
        .with_cause(cause, "dump Q, K and weights at one and the same call");
    finding.cell = Some((misfit.cell.0, Some(misfit.cell.1)));
    finding
}

/// The type in which a plain computation would err as much, if the logits' errors have no structure (the scale is right).
fn narrower_type(context: &HeadContext<'_>) -> Option<Storage> {
    let explanation = context.explanation?;
    let fit = explanation.fit.as_ref()?;
    let (own, _) = root_mean_squares(context);
    let relative_scale = (fit.scale / context.model.scale - 1.0).abs();
    [Storage::F16, Storage::Bf16].into_iter().find(|&storage| {
        let plain = plain_errors(context, storage);
        let is_alike = relative_scale < storage.unit_roundoff() && own <= 2.0 * plain && own >= plain / 50.0;
        is_alike && fits_in(context, storage)
    })
}

/// Whether logits and weights of a narrower type explain every weight.
fn fits_in(context: &HeadContext<'_>, storage: Storage) -> bool {
    let evidence = context.evidence;
    let own = evidence.precisions;
    let weights = if storage.unit_roundoff() > own.weights.unit_roundoff() { storage } else { own.weights };
    let logits = own.logits.max(storage.unit_roundoff());
    let narrower = Precisions { logits, weights, ..own };
    evidence.compare_rows(context.model, &narrower, &evidence.every_row()).fits()
}

/// Root mean squares of the observed errors, and of a plain computation in the file's types.
fn root_mean_squares(context: &HeadContext<'_>) -> (f64, f64) {
    let evidence = context.evidence;
    let (mut squares, mut count) = (0.0, 0usize);
    let (mut logits, mut weights) = (vec![0.0; evidence.keys], vec![0.0; evidence.keys]);
    for row in few(evidence.sampled(), 512) {
        let view = row.view(&evidence.key_norms);
        if view.is_broken() || !view.has_keys() {
            continue;
        }
        context.model.weights(&view, &mut logits, &mut weights);
        squares += weights.iter().zip(view.weights).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        count += evidence.keys;
    }
    let own = (squares / count.max(1) as f64).sqrt();
    let plain = plain_errors(context, context.head.queries.computed_in());
    // Half an f32 rounding of a typical weight: what any computation may have.
    let least = 0.3 * evidence.precisions.weights.unit_roundoff() / evidence.keys as f64;
    (own, plain.max(least))
}

/// At most `most` rows, spread evenly.
fn few(rows: &[RowBuffer], most: usize) -> impl Iterator<Item = &RowBuffer> {
    rows.iter().step_by(rows.len().div_ceil(most).max(1))
}

/// Root mean square error of a plain computation: products in f32, logits rounded to `storage`, softmax in f32, weights rounded as
/// stored.
fn plain_errors(context: &HeadContext<'_>, storage: Storage) -> f64 {
    let evidence = context.evidence;
    let (mut squares, mut count) = (0.0, 0usize);
    let keys = evidence.keys;
    let (mut logits, mut weights) = (vec![0.0; keys], vec![0.0; keys]);
    let mut query_entries = vec![0.0; evidence.width];
    let keys_f32: Vec<f32> = context.head.keys.to_f64().iter().map(|&entry| entry as f32).collect();
    let all_f64 = evidence.precisions.arithmetic < 1e-10;
    for row in few(evidence.sampled(), 64) {
        let view = row.view(&evidence.key_norms);
        if !view.has_keys() {
            continue;
        }
        context.model.weights(&view, &mut logits, &mut weights);
        context.head.queries.row(view.query, &mut query_entries);
        let plain: Vec<f64> = (0..keys)
            .map(|key| {
                if logits[key] == f64::NEG_INFINITY {
                    return f64::NEG_INFINITY;
                }
                let product = if all_f64 {
                    view.raw[key]
                } else {
                    let entries = &keys_f32[key * evidence.width..(key + 1) * evidence.width];
                    let sum = entries.iter().zip(&query_entries).fold(0.0f32, |sum, (k, q)| sum + k * *q as f32);
                    f64::from(sum)
                };
                let moved = super::super::model::apply(context.model.cap, context.model.scale, storage.round(product));
                let own = super::super::model::apply(context.model.cap, context.model.scale, view.raw[key]);
                storage.round(logits[key] - own + moved)
            })
            .collect();
        let sink = context.model.sink.unwrap_or(f64::NEG_INFINITY);
        let largest = plain.iter().copied().fold(sink, f64::max);
        let single = |value: f64| if all_f64 { value } else { f64::from(value as f32) };
        let exponentials: Vec<f64> = plain.iter().map(|logit| single((logit - largest).exp())).collect();
        let total: f64 = exponentials.iter().sum::<f64>() + (sink - largest).exp();
        for (exponential, weight) in exponentials.iter().zip(&weights) {
            let stored = evidence.precisions.weights.round(single(exponential / single(total)));
            squares += (stored - weight).powi(2);
        }
        count += keys;
    }
    (squares / count.max(1) as f64).sqrt()
}
