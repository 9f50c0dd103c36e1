//! Weights that were dropped.

use super::HeadContext;
use crate::diagnosis::explain::{Cause, is_dropped_as_often};
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

/// Shown by `--explain dropout`.
pub const EXPLANATION: &str = "\
Are weights 0 at random and the others scaled up?
Formula: entries are 0 where the softmax is not, with share p, and the others are 1/(1 − p) times the softmax, the same factor in every row.
Verdict: FAIL (evaluation is random) unless --dropout P declares it; then each weight must be 0 or 1/(1 − P) times the softmax, and the number of zeros \
within 6 standard deviations, and one, of the binomial's; the softmax itself with as many zeros is dropout without its factor, a FAIL.
CANNOT TELL: --dropout P with the output alone, where the weights cannot be recovered: which were dropped is not in the file.
Blind spots: undeclared, heads so small that nothing was dropped; then the factor shows under `normalisation`. Which weights were dropped is not judged.";

/// What zeros and factor say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let Some((share, factor, cells)) = context.causes().iter().find_map(|cause| match cause {
        Cause::Dropout { share, factor, cells } => Some((*share, *factor, *cells)),
        _ => None,
    }) else {
        return match context.contract.dropout {
            Some(p) if context.weights_are_right() && p > 0.0 => {
                let words = format!(
                    "no weight is dropped although --dropout {p} is declared: dumped before dropout, or in evaluation"
                );
                vec![context.finding(Check::Dropout, Verdict::Pass, "before", words)]
            }
            _ => Vec::new(),
        };
    };
    if factor == 1.0 {
        let words = format!(
            "{:.1} % of weights are exactly 0 where softmax is not, and the rest are the softmax: dropped, and not divided by 1 - p",
            100.0 * share
        );
        return vec![
            context
                .finding(Check::Dropout, Verdict::Fail, "not scaled up", words)
                .with_numbers(1.0, 1.0 / (1.0 - context.contract.dropout.unwrap_or(0.0)), "factor")
                .with_cause(
                    "a random mask without the factor 1/(1 - p): outputs are too small in training, and differ from evaluation",
                    "print the sum of a row before and after dropout",
                ),
        ];
    }
    let p = 1.0 - 1.0 / factor;
    let words = format!(
        "{:.1} % of weights are exactly 0 where softmax is not, the rest are {}x softmax: dropout p = {} was active",
        100.0 * share,
        significant(factor, 5),
        significant(p, 3)
    );
    // The factor is exact up to rounding of the weights.
    let close =
        |declared: f64| (p - declared).abs() <= 1e-3 + 8.0 * context.evidence.precisions.weights.unit_roundoff();
    let likely = |declared: f64| is_dropped_as_often(share, cells, declared);
    let (verdict, cause) = match context.contract.dropout {
        Some(declared) if close(declared) && !likely(declared) => {
            (Verdict::Fail, "the weights are scaled up by the declared probability and dropped with another one")
        }
        Some(declared) if close(declared) => (Verdict::Pass, "as declared: these weights are random"),
        Some(_) => (Verdict::Fail, "another probability than the declared one"),
        None => (
            Verdict::Fail,
            "a functional call applies its dropout_p in evaluation too, or the weights were dumped after dropout; if this is training, pass --dropout",
        ),
    };
    vec![
        context
            .finding(Check::Dropout, verdict, "dropout", words)
            .with_numbers(p, context.contract.dropout.unwrap_or(0.0), "probability")
            .with_cause(cause, "run the same input twice: the weights must not differ"),
    ]
}
