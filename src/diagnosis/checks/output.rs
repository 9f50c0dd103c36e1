//! O = PV.

use rayon::prelude::*;

use super::HeadContext;
use crate::diagnosis::evidence::{Evidence, RowBuffer};
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Matrix;
use crate::diagnosis::model::{Misfit, Model, logit_noise};

/// Shown by `--explain output`.
pub const EXPLANATION: &str = "\
Is the output the weights times the values?
Formula: |O_ih − Σ_j P_ij V_jh| against Σ_j ΔP_ij |V_jh| + rounding of O, with ΔP one rounding of the weights (weights in the file) or the bound of \
`precision` (weights from the definition). Without weights: if keys are not more than d_v, P = O V⁺ by least squares and all checks of weights \
follow; else the definition and its faulty relatives (other scales, masks, bias and cap left out) are computed and the one that gives O is named.
Verdict: FAIL if neither rounding nor a known fault explains O; if weights and output are right for different masks or scales they come from \
different code paths.
Blind spots: rows of V that are equal; a fault that only moves weight between keys of equal values.";

/// Which weights the output is held against.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// Those in the file.
    Weights,
    /// A model's.
    Model(&'a Model),
}

/// Compares `output` with weights times `values` over every row that sees a key. `prepare` may mark observed cells in a row.
pub fn compare_output(
    evidence: &Evidence<'_>,
    against: Against<'_>,
    values: &Matrix,
    output: &Matrix,
    rows: &[usize],
    prepare: &(dyn Fn(&mut RowBuffer) + Sync),
) -> Misfit {
    let (keys, width) = (evidence.keys, values.columns);
    let all: Vec<f64> = values.to_f64();
    let finite: Vec<f64> = all.iter().map(|value| if value.is_finite() { *value } else { 0.0 }).collect();
    let largest = finite.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let precisions = &evidence.precisions;
    let weight_rounding = precisions.weights.unit_roundoff().max(precisions.output.unit_roundoff());
    let sums = (8.0 + 4.0 * (keys as f64).sqrt()) * precisions.arithmetic;
    let misfits: Vec<Misfit> = rows
        .par_iter()
        .map(|&query| {
            let mut row = match against {
                Against::Weights => evidence.row_of_weights(query),
                Against::Model(_) => evidence.row(query),
            };
            prepare(&mut row);
            let view = row.view(&evidence.key_norms);
            if view.is_broken() || !view.has_keys() {
                return Misfit::NONE;
            }
            let (mut logits, mut weights, mut errors) = (vec![0.0; keys], vec![0.0; keys], vec![0.0; keys]);
            match against {
                Against::Weights => {
                    weights.copy_from_slice(view.weights);
                    for (error, weight) in errors.iter_mut().zip(&weights) {
                        *error = weight.abs() * (2.0 * weight_rounding + sums) + 2.0 * precisions.floor;
                    }
                }
                Against::Model(model) => {
                    model.weights(&view, &mut logits, &mut weights);
                    logit_noise(model, &view, &logits, precisions, &mut errors);
                    let shared: f64 = weights.iter().zip(&errors).map(|(weight, noise)| weight * noise).sum();
                    let rounding = 4.0 * weight_rounding + sums;
                    for (error, weight) in errors.iter_mut().zip(&weights) {
                        *error = weight.abs() * ((*error + shared).exp_m1() + rounding) + 2.0 * precisions.floor;
                    }
                }
            }
            let (mut expected, mut bound) = (vec![0.0; width], vec![0.0; width]);
            for key in 0..keys {
                if weights[key] == 0.0 && errors[key] == 0.0 {
                    continue;
                }
                let own = &finite[key * width..(key + 1) * width];
                for channel in 0..width {
                    expected[channel] += weights[key] * own[channel];
                    bound[channel] += errors[key] * own[channel].abs();
                }
            }
            let mut observed = vec![0.0; width];
            output.row(query, &mut observed);
            let mut misfit = Misfit::NONE;
            for channel in 0..width {
                let bound = match precisions.tolerance {
                    Some(tolerance) => tolerance * largest,
                    None => {
                        bound[channel]
                            + 2.0 * precisions.output.unit_roundoff() * expected[channel].abs()
                            + 2.0 * precisions.output.underflow()
                    }
                };
                misfit.add(observed[channel], expected[channel], bound, (query, channel));
            }
            misfit
        })
        .collect();
    misfits.into_iter().fold(Misfit::NONE, Misfit::merge)
}

/// What the output says.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let (Some(values), Some(output)) = (&context.head.values, &context.head.output) else { return Vec::new() };
    // What is not finite is judged by `finite`.
    let broken = |matrix: &Matrix| matrix.to_f64().iter().any(|number| !number.is_finite());
    if broken(values) {
        return Vec::new();
    }
    let every_row: Vec<usize> = (0..context.evidence.queries).collect();
    let compare = |against| compare_output(context.evidence, against, values, output, &every_row, &|_| {});
    let has_weights = context.head.weights.is_some() && !context.recovered;
    if !has_weights {
        let Some(explanation) = context.explanation else { return Vec::new() };
        if explanation.causes.contains(&Cause::Unexplained) {
            return vec![unexplained(context, &explanation.contract_misfit)];
        }
        if !explanation.contract_misfit.fits() {
            return Vec::new();
        }
        let misfit = explanation.contract_misfit;
        let words = format!(
            "the output is what the contract gives (largest error {}); no weights in the file",
            significant(misfit.largest, 2)
        );
        return vec![context.finding(Check::Output, Verdict::Pass, "contract", words)];
    }
    let misfit = compare(Against::Weights);
    let scale = values.to_f64().iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    if misfit.fits() {
        let words = format!(
            "O = PV; largest error {} of max |V|",
            significant(misfit.largest / scale.max(f64::MIN_POSITIVE), 2)
        );
        return vec![context.finding(Check::Output, Verdict::Pass, "right", words).with_numbers(
            misfit.largest,
            0.0,
            "largest error",
        )];
    }
    let by_contract = compare(Against::Model(context.model));
    let words = if context.weights_are_right() {
        format!(
            "max |O − P·V| = {} although P is a correct softmax of Q, K: O and P come from different code paths, or V and O do not belong to P",
            significant(misfit.largest, 3)
        )
    } else if by_contract.fits() {
        format!(
            "O is what the contract gives, the weights are not (max |O − P·V| = {}): asking for the weights changed the computation",
            significant(misfit.largest, 3)
        )
    } else {
        format!("max |O − P·V| = {}: O is not P times V", significant(misfit.largest, 3))
    };
    let mut finding = context
        .finding(Check::Output, Verdict::Fail, "inconsistent", words)
        .with_numbers(misfit.largest, 0.0, "largest error")
        .with_cause(
            "fused kernels never hold P: returned weights come from another path; or heads are joined in another order",
            "audit the output alone, without the weights",
        );
    finding.cell = Some((misfit.cell.0, Some(misfit.cell.1)));
    vec![finding]
}

fn unexplained(context: &HeadContext<'_>, misfit: &Misfit) -> Finding {
    let words = format!(
        "output {} where the contract gives {} (query {}, channel {}), {}x what rounding explains; no other scale, mask, bias or cap gives it",
        significant(misfit.observed, 4),
        significant(misfit.predicted, 4),
        misfit.cell.0,
        misfit.cell.1,
        significant(misfit.ratio, 2)
    );
    let mut finding = context
        .finding(Check::Output, Verdict::Fail, "unexplained", words)
        .with_numbers(misfit.largest, 0.0, "largest error")
        .with_cause(
            "Q, K, V and output of different runs, layers or heads; a term that was not declared",
            "dump the weights too",
        );
    finding.cell = Some((misfit.cell.0, Some(misfit.cell.1)));
    finding
}
