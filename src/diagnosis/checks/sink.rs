//! An extra logit in the denominator.

use super::{HeadContext, against};
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

/// Shown by `--explain sink`.
pub const EXPLANATION: &str = "\
Does the denominator hold an extra logit (an attention sink that has no key)?
Formula: a row sums to 1 − exp(s − lse'): s = ln(1/sum − 1) + lse of the keys, and must be the same number in every row.
Verdict: FAIL against --sink; WARN for one that was not declared. softmax-off-by-one is s = 0.
Blind spots: a sink far below the logits (exp(s − lse) under the rounding of the sum).";

/// What the row sums say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let declared = context.contract.sink;
    let found = context.causes().iter().find_map(|cause| match cause {
        Cause::Sink(sink) => Some(*sink),
        _ => None,
    });
    let finding = match (declared, found) {
        (Some(sink), Some(None)) => context
            .finding(
                Check::Sink,
                Verdict::Fail,
                "ignored",
                format!("rows sum to 1: the declared sink {sink} is not in the denominator"),
            )
            .with_numbers(f64::NEG_INFINITY, sink, "logit of the sink")
            .with_cause("the sink is not passed to this path", "sum a row of the weights"),
        (_, Some(Some(sink))) => {
            // Zero up to rounding is meant to be zero.
            let sink = if sink.abs() < 1e-3 { 0.0 } else { sink };
            let one = if sink == 0.0 { " (softmax with 1 added to the denominator)" } else { "" };
            let words = format!(
                "rows sum to less than 1 as with an extra logit of {} in the denominator{one}",
                significant(sink, 5)
            );
            let cause = match declared {
                Some(_) => "another sink than the declared one".to_string(),
                None => format!(
                    "an attention sink that was not declared; if it is meant, pass --sink {}",
                    significant(sink, 6)
                ),
            };
            context
                .finding(Check::Sink, against(declared.is_some()), &format!("sink {sink:.1}"), words)
                .with_numbers(sink, declared.unwrap_or(f64::NEG_INFINITY), "logit of the sink")
                .with_cause(cause, "declare it and audit again")
        }
        (Some(sink), None) if context.weights_are_right() => {
            context.finding(Check::Sink, Verdict::Pass, "right", format!("row sums show the declared sink {sink}"))
        }
        _ => return Vec::new(),
    };
    vec![finding]
}
