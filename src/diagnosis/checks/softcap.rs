//! The soft cap on the logits.

use super::HeadContext;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::model::{Cap, Hidden};

/// Shown by `--explain softcap`.
pub const EXPLANATION: &str = "\
Are logits capped as C·tanh(c·QKᵀ/C), after the scale and before the mask?
Formula: ln P against QKᵀ within rows, with the residuals of four forms: C·tanh(l/C), no cap, l·tanh(l/C), and the cap before the factor; the form \
whose residuals rounding explains is the one in use. Masked keys that hold the logit -C: the cap was applied to the mask.
Verdict: FAIL against --softcap; WARN for a curvature that nobody declared (caps of published models are tried first, then any from 1/16 to 16 times \
the largest logit).
CANNOT TELL: logits so far below the cap that the forms differ by less than rounding.
Blind spots: a cap and another scale together, where logits are far below the cap; without weights, undeclared caps but 50, 30 and 20; what a mask adds before the cap, unless it hides.";

/// What the form says.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let Some(explanation) = context.explanation else { return Vec::new() };
    let declared = context.contract.softcap;
    let largest = largest_logit(context);
    let found = context.causes().iter().find_map(|cause| match cause {
        Cause::Cap(cap) => Some(*cap),
        _ => None,
    });
    match (declared, found) {
        (Some(cap), Some(form)) => {
            let (key, words) = match form {
                None => (
                    "ignored",
                    format!(
                        "no curvature up to |logit| {}, cap {cap} declared: the cap is ignored",
                        significant(largest, 3)
                    ),
                ),
                Some(Cap::FactorAfter(_)) => {
                    ("order", format!("c·C·tanh(x/C) with C = {cap}: capped before the scale, not after it"))
                }
                Some(Cap::TimesTanh(_)) => ("times", format!("x·tanh(x/C) with C = {cap}: tends to |x| instead of C")),
                Some(Cap::Tanh(other)) => ("other", format!("capped at {other}, declared {cap}")),
            };
            let measured = largest;
            vec![
                context
                    .finding(Check::Softcap, Verdict::Fail, key, words)
                    .with_numbers(measured, cap, "largest |logit|")
                    .with_cause(
                        "the argument is accepted and not used on this path, or the formula slipped: C * tanh(scale * x / C)",
                        "plot ln P against QKᵀ of one row",
                    ),
            ]
        }
        (None, Some(Some(Cap::Tanh(cap)))) => {
            let words = format!(
                "ln P bends with QKᵀ as {cap}·tanh(logit/{cap}) does (logits up to {})",
                significant(largest, 3)
            );
            vec![
                context
                    .finding(Check::Softcap, Verdict::Warn, "undeclared", words)
                    .with_numbers(cap, f64::INFINITY, "cap")
                    .with_cause(
                        format!("a soft cap that was not declared; if it is meant, pass --softcap {cap}"),
                        "declare it and audit again",
                    ),
            ]
        }
        (Some(cap), None) => {
            let on_mask = matches!(explanation.model.hidden, Hidden::Replaced(fill) if (fill + cap).abs() < 0.05 * cap);
            if on_mask && !explanation.causes.is_empty() {
                return vec![
                    context
                        .finding(
                            Check::Softcap,
                            Verdict::Fail,
                            "mask",
                            format!("masked keys hold the logit -{cap}: the cap was applied to the mask"),
                        )
                        .with_numbers(-cap, f64::NEG_INFINITY, "logit of a masked key")
                        .with_cause("the mask is added before tanh", "cap first, then mask"),
                ];
            }
            if !context.weights_are_right() {
                return Vec::new();
            }
            // tanh(x) − x ≈ x³/3: what a cap changes of the largest logit.
            let change = largest.powi(3) / (3.0 * cap * cap);
            let visible = 100.0
                * (context.evidence.precisions.logits * largest + context.evidence.precisions.weights.unit_roundoff());
            if change < visible {
                let words = format!(
                    "logits reach {}: a cap of {cap} changes them by {} at most, within rounding",
                    significant(largest, 3),
                    significant(change, 2)
                );
                return vec![context.finding(Check::Softcap, Verdict::CannotTell, "small logits", words)];
            }
            vec![context.finding(Check::Softcap, Verdict::Pass, "right", format!("capped at {cap} as declared"))]
        }
        _ => Vec::new(),
    }
}

/// Largest |c·QKᵀ| on visible cells of the sampled rows.
fn largest_logit(context: &HeadContext<'_>) -> f64 {
    let evidence = context.evidence;
    let scale = context.model.scale;
    let mut largest = 0.0f64;
    for row in evidence.sampled().iter().take(256) {
        let view = row.view(&evidence.key_norms);
        for key in (0..evidence.keys).filter(|&key| view.visible[key]) {
            largest = largest.max((scale * view.raw[key]).abs());
        }
    }
    largest
}
