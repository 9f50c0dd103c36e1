//! The additive bias of the file.

use super::HeadContext;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

/// Shown by `--explain bias`.
pub const EXPLANATION: &str = "\
Is the bias in the file added to the scaled logits, once?
Formula: ln P regressed on QKᵀ and on the bias together, within rows: the coefficient of the bias must be 1. 0: ignored; equal to the scale: added \
before scaling; -1: subtracted.
Verdict: FAIL if the coefficient is farther from 1 than 8 standard errors.
Blind spots: a bias that is constant along each row, or proportional to QKᵀ.";

/// What the coefficient says.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    if context.head.bias.is_none() || context.explanation.is_none() {
        return Vec::new();
    }
    let wrong = context.causes().iter().find_map(|cause| match cause {
        Cause::Bias(coefficient, error) => Some((*coefficient, *error)),
        _ => None,
    });
    let Some((coefficient, error)) = wrong else {
        let right = context.weights_are_right();
        let pass =
            || context.finding(Check::Bias, Verdict::Pass, "right", "the bias is added to the scaled logits, once");
        return if right { vec![pass()] } else { Vec::new() };
    };
    let scale = context.model.scale;
    let meaning = if coefficient == 0.0 {
        "the bias is ignored on this path"
    } else if (coefficient - scale).abs() <= 8.0 * error {
        "the bias was added before the scale"
    } else if coefficient == -1.0 {
        "the bias was subtracted"
    } else if coefficient == 2.0 {
        "the bias was added twice"
    } else {
        "the bias was multiplied"
    };
    let words = format!("the weights hold {} times the bias: {meaning}", significant(coefficient, 4));
    vec![
        context
            .finding(Check::Bias, Verdict::Fail, meaning, words)
            .with_numbers(coefficient, 1.0, "coefficient")
            .with_cause(meaning, "audit again without the bias in the file"),
    ]
}
