//! The mask in the file, held against the declared rule: a part of the checks `mask` and `causal`.

use super::HeadContext;
use crate::attention::Mask;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict};
use crate::diagnosis::mask_pattern::{Shape, recognise};

/// What the mask in the file is, against what was declared.
pub(super) fn file_findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let Some(mask) = &context.head.mask else { return Vec::new() };
    let mut findings = Vec::new();
    if !mask.broken.is_empty() {
        let (n, m) = (context.evidence.queries, context.evidence.keys);
        let below = mask.broken.iter().filter(|(query, key)| key <= query).count();
        let all = mask.broken.len();
        let side = if below == all { ", all on or below the diagonal" } else { "" };
        let words = format!("the mask is NaN on {all} of {} entries{side}", n * m);
        let cause = "a constant overflowed the half type to -inf and was multiplied by 0 on the allowed side (0 * -inf); largest f16 is 65504";
        let mut finding = context
            .finding(Check::Mask, Verdict::Fail, "nan", words)
            .with_numbers(all as f64, 0.0, "cells")
            .with_cause(cause, "build the mask with where(allowed, 0, -inf), not with a product");
        finding.cell = mask.broken.first().map(|&(query, key)| (query, Some(key)));
        findings.push(finding);
        return findings;
    }
    if let Some(declared) = &context.evidence.declared
        && let Some(finding) = declared_against_file(context, declared, &mask.visible)
    {
        findings.push(finding);
    } else if context.evidence.declared.is_none() && context.evidence.queries.min(context.evidence.keys) >= 4 {
        // Of fewer tokens any mask may look like that by chance.
        let pattern = recognise(&mask.visible);
        if let Shape::Transposed { .. } | Shape::StrictlyCausal { .. } = pattern.shape {
            let words = format!("the mask in the file is a {pattern}");
            findings.push(
                context
                    .finding(Check::Causal, Verdict::Warn, "file", words)
                    .with_cause(
                        "if the attention is meant to be causal, the mask is built the wrong way; pass --causal to make this a FAIL",
                        "print the first rows of the mask",
                    ),
            );
        }
    }
    findings
}

/// The mask in the file shows what the declared rule hides (a mask may always hide more, but for its own position).
fn declared_against_file(context: &HeadContext<'_>, declared: &Mask, file: &Mask) -> Option<Finding> {
    let (n, m) = (declared.queries(), declared.keys());
    let (mut shown, mut future, mut diagonal, mut hidden_past, mut past) = (0, 0, 0, 0, 0);
    let mut first = None;
    for query in 0..n {
        let position = query as i64 + context.evidence.offset;
        let (may_see, sees) = (declared.row(query), file.row(query));
        for key in 0..m {
            let (may, is) = (may_see.contains(key), sees.contains(key));
            future += usize::from(!may);
            if is && !may {
                shown += 1;
                first.get_or_insert((query, key));
            }
            if may && key as i64 == position {
                diagonal += usize::from(!is);
            } else if may {
                past += 1;
                hidden_past += usize::from(!is);
            }
        }
    }
    let pattern = recognise(file);
    // All tokens hide themselves: no padding does that.
    // Of fewer tokens any mask may look like that by chance.
    let is_long = n.min(m) >= 4;
    let own_hidden = is_long && diagonal > 0 && matches!(pattern.shape, Shape::StrictlyCausal { .. });
    if shown == 0 && !own_hidden {
        return None;
    }
    if shown > 0 && file.visible_share() == 1.0 {
        // A mask that hides nothing does not contradict a causal flag: both are combined.
        return None;
    }
    // The contract is the conjunction of both: where the weights follow it, or there are none to follow anything, a mask that shows
    // future keys is one of padding, documents or the like. Only a triangle is itself meant to be causal.
    let is_triangle = is_long
        && matches!(pattern.shape, Shape::StrictlyCausal { .. } | Shape::Transposed { .. } | Shape::Causal { .. });
    let follows = context.explanation.is_none_or(|explanation| {
        explanation.contract_misfit.fits()
            || explanation.causes.iter().all(|cause| matches!(cause, Cause::Dropout { .. } | Cause::Scale))
    });
    if !own_hidden && (follows && !is_triangle || matches!(pattern.shape, Shape::Padding { .. })) {
        return None;
    }
    if matches!(pattern.shape, Shape::Causal { .. }) && context.weights_are_right() {
        return None;
    }
    let share = |part: usize, of: usize| format!("{:.0} %", 100.0 * part as f64 / of.max(1) as f64);
    let words = if own_hidden {
        format!(
            "the diagonal of the mask in the file is hidden (0 of {} diagonal entries allowed): no token sees itself; {} row(s) have no key",
            diagonal,
            file.fully_masked_rows()
        )
    } else {
        format!(
            "the mask in the file allows {} of future keys and {} of strictly past keys: {pattern}",
            share(shown, future),
            share(past - hidden_past, past)
        )
    };
    let cause = match pattern.shape {
        Shape::StrictlyCausal { .. } => "the upper triangle was taken with offset 0 instead of 1 (triu(diagonal = 0))",
        Shape::Transposed { .. } => "the mask is transposed: triu for tril, or rows and columns changed places",
        _ => "the mask in the file is another one than the declared rule",
    };
    let key = if own_hidden { "diagonal" } else { "file" };
    let (measured, expected) = if own_hidden { (0.0, diagonal as f64) } else { (shown as f64, 0.0) };
    let unit = if own_hidden { "diagonal cells allowed" } else { "future cells allowed" };
    let mut finding = context
        .finding(Check::Causal, Verdict::Fail, key, words)
        .with_numbers(measured, expected, unit)
        .with_cause(cause, "print the first three rows of the mask: 100, 110, 111");
    finding.cell = first.map(|(query, key)| (query, Some(key)));
    if own_hidden && !context.sums.is_none_or(|sums| sums.broken_rows.is_empty()) {
        finding.symptoms.push("row 0 has no allowed key: its weights are NaN".to_string());
    }
    Some(finding)
}
