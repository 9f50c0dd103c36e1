//! Rows of the weights sum to 1.

use super::HeadContext;
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

/// Shown by `--explain normalisation`.
pub const EXPLANATION: &str = "\
Do the weights of each query sum to 1 over the keys?
Formula: max over whole rows of |Σ_j P_ij − 1|; sums over the queries, the batch and the heads beside it, since a softmax over another axis \
makes those 1.
Verdict: FAIL if the sums along another axis are 1 and the weights equal a softmax along it, or if every row sums to the same other number \
without dropout. Bound: one rounding of each weight plus (8 + 4√m) roundings of the sum.
Blind spots: one key (every sum is 1); n = m with symmetric logits (rows and columns agree). Sums that a declared sink or dropout explains \
are judged there.";

/// What the sums say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let (Some(sums), Some(explanation)) = (context.sums, context.explanation) else { return Vec::new() };
    if context.recovered {
        return Vec::new();
    }
    let whole = |query: &usize| context.evidence.visible.row(*query).count() > 0 && sums.rows[*query].is_finite();
    let far = |a: &usize, b: &usize| (sums.rows[*a] - 1.0).abs().total_cmp(&(sums.rows[*b] - 1.0).abs());
    let Some(worst) = (0..sums.rows.len()).filter(whole).max_by(far) else { return Vec::new() };
    let sum = sums.rows[worst];
    let [queries, keys, _] = context.contract.weight_axes.words();
    if explanation.causes.contains(&Cause::OverQueries) {
        let words = format!(
            "sums over the queries{queries} are 1, over the keys{keys} {} (row {worst}): softmax over the query axis",
            significant(sum, 4)
        );
        let mut finding = context
            .finding(Check::Normalisation, Verdict::Fail, "over queries", words)
            .with_cause(
                "softmax along the wrong dimension (dim = -2, or an einsum whose axes changed places)",
                "sum the weights along each axis",
            )
            .with_numbers(sum, 1.0, "sum of a row");
        finding.cell = Some((worst, None));
        return vec![finding];
    }
    if let Some(factor) = context.causes().iter().find_map(|cause| match cause {
        Cause::Factor(factor) => Some(*factor),
        _ => None,
    }) {
        let words = format!("every row sums to {}: the softmax times a constant", significant(factor, 5));
        let cause = "weights divided by 1 - p after a dropout that dropped nothing here, or normalised by another sum";
        return vec![
            context
                .finding(Check::Normalisation, Verdict::Fail, "factor", words)
                .with_cause(cause, "switch dropout off and dump the weights before it")
                .with_numbers(factor, 1.0, "sum of a row"),
        ];
    }
    if !explanation.contract_misfit.fits() {
        return Vec::new();
    }
    let judged = match sums.rows.iter().filter(|sum| sum.is_nan()).count() {
        0 => "rows".to_string(),
        broken => format!("the {} rows that are finite", sums.rows.len() - broken),
    };
    let words = format!("{judged} sum to 1 over the keys{keys}; farthest {} away", significant((sum - 1.0).abs(), 2));
    vec![context.finding(Check::Normalisation, Verdict::Pass, "right", words).with_numbers(sum, 1.0, "sum of a row")]
}
