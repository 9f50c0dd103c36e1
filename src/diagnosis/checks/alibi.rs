//! Logits that fall linearly with distance.

use super::{HeadContext, against};
use crate::diagnosis::contract::alibi_slope;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

/// Shown by `--explain alibi`.
pub const EXPLANATION: &str = "\
Do logits fall by the published slope for each key of distance (Press, Smith & Lewis 2022)?
Formula: ln P regressed on QKᵀ and on |position − key| together, within rows; head h of H must have slope 2^(−8(h+1)/H) (the published \
interleaving where H is no power of two).
Verdict: FAIL against --alibi; WARN for a slope that nobody declared. A slope that belongs to another head is named.
Blind spots: one-sided distances (key − position instead of its absolute value) agree under a causal mask.";

/// What the slope says.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let declared = context.contract.alibi;
    let expected = context.model.alibi;
    let found = context.causes().iter().find_map(|cause| match cause {
        Cause::Alibi(slope, error) => Some((*slope, *error)),
        _ => None,
    });
    let Some((slope, error)) = found else {
        if declared && context.weights_are_right() {
            let words = "logits fall with distance by the published slope";
            return vec![context.finding(Check::Alibi, Verdict::Pass, "right", words).with_numbers(
                expected,
                expected,
                "nats per key",
            )];
        }
        return Vec::new();
    };
    let heads = context.sizes.heads;
    let near = |value: f64| (slope - value).abs() <= 8.0 * error + 1e-5 * value.abs();
    let other = (0..heads).find(|&head| near(alibi_slope(head, heads)));
    let scale = context.model.scale;
    let (key, meaning) = if near(0.0) {
        ("ignored", "the slope is not applied on this path".to_string())
    } else if near(-expected) && declared {
        ("sign", "the sign is turned: far keys gain".to_string())
    } else if let Some(head) = other.filter(|_| declared) {
        ("other head", format!("this is the slope of head {head}: heads or slopes are in another order"))
    } else if near(expected * scale) && declared {
        ("scaled", "the bias was added before the scale".to_string())
    } else if declared {
        ("other", "another slope than the published one".to_string())
    } else {
        ("undeclared", "logits fall linearly with distance; if ALiBi is meant, pass --alibi".to_string())
    };
    let words = format!(
        "logits fall by {} ± {} for each key of distance, expected {}",
        significant(slope, 4),
        significant(error, 1),
        significant(expected, 4)
    );
    vec![
        context
            .finding(Check::Alibi, against(declared), key, words)
            .with_numbers(slope, expected, "nats per key")
            .with_cause(meaning, "regress the logits of one head on distance"),
    ]
}
