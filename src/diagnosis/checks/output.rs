//! O = PV.

use super::HeadContext;
use crate::diagnosis::evidence::{Columns, Evidence, Precisions};
use crate::diagnosis::explain::Cause;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Matrix;
use crate::diagnosis::model::{Misfit, Model, weights_and_bounds};
use crate::diagnosis::product::{PackedValues, ProductWorkspace};
use crate::diagnosis::rows::{RowBuffer, Scratch};

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

/// What a thread gathers of a block of rows.
#[derive(Default)]
struct Block {
    queries: Vec<usize>,
    /// One row of weights and of their errors (without the floor, which all keys share) for each query; zeros for a row that is
    /// left out.
    weights: Vec<f64>,
    errors: Vec<f64>,
    is_judged: Vec<bool>,
    work: ProductWorkspace,
}

/// Compares `output` with weights times values over those of `rows` that see a key. `prepare` may mark observed cells in a row.
pub fn compare_output(
    evidence: &Evidence<'_>,
    against: Against<'_>,
    values: &PackedValues,
    output: &Matrix,
    rows: &[usize],
    prepare: &(dyn Fn(&mut RowBuffer) + Sync),
) -> Misfit {
    let keys = evidence.keys;
    let precisions = evidence.precisions;
    let weight_rounding = precisions.weights.unit_roundoff().max(precisions.output.unit_roundoff());
    let sums = (8.0 + 4.0 * (keys as f64).sqrt()) * precisions.arithmetic;
    let without_floor = Precisions { floor: 0.0, tolerance: None, ..precisions };
    let columns = match against {
        Against::Weights => Columns::None,
        Against::Model(model) => model.columns(),
    };
    let visit = |block: &mut Block, row: &mut RowBuffer, scratch: &mut Scratch| {
        prepare(row);
        let view = row.view(&evidence.key_norms);
        let start = block.weights.len();
        block.weights.resize(start + keys, 0.0);
        block.queries.push(view.query);
        let is_judged = !view.is_broken() && view.has_keys();
        block.is_judged.push(is_judged);
        let weights = &mut block.weights[start..];
        match against {
            Against::Weights if is_judged => weights.copy_from_slice(view.weights),
            Against::Model(model) => {
                block.errors.resize(start + keys, 0.0);
                let parts = [&mut scratch[0][..], weights, &mut block.errors[start..]];
                if is_judged {
                    weights_and_bounds(model, &view, &without_floor, weight_rounding, parts);
                }
            }
            Against::Weights => {}
        }
    };
    let end = |block: &mut Block| {
        let width = values.width();
        let count = block.queries.len() * width;
        let (mut expected, mut bounds) = (vec![0.0; count], vec![0.0; count]);
        match against {
            Against::Weights => {
                values.multiply(&block.weights, &mut expected, &mut bounds, &mut block.work);
                if block.weights.iter().any(|&weight| weight < 0.0) {
                    block.weights.iter_mut().for_each(|weight| *weight = weight.abs());
                    values.multiply_magnitudes(&block.weights, &mut bounds, &mut block.work);
                }
                bounds.iter_mut().for_each(|bound| *bound *= 2.0 * weight_rounding + sums);
            }
            Against::Model(_) => {
                values.multiply(&block.weights, &mut expected, &mut [], &mut block.work);
                values.multiply_magnitudes(&block.errors, &mut bounds, &mut block.work);
            }
        }
        let mut observed = vec![0.0; width];
        let misfit = |(index, &query): (usize, &usize)| {
            let mut misfit = Misfit::NONE;
            if !block.is_judged[index] {
                return misfit;
            }
            output.row(query, &mut observed);
            for (channel, &observed) in observed.iter().enumerate() {
                let expected = expected[index * width + channel];
                let bound = match precisions.tolerance {
                    Some(tolerance) => tolerance * values.largest,
                    None => {
                        bounds[index * width + channel]
                            + 2.0 * precisions.floor * values.magnitude_sums[channel]
                            + 2.0 * precisions.output.unit_roundoff() * expected.abs()
                            + 2.0 * precisions.output.underflow()
                    }
                };
                misfit.add(observed, expected, bound, (query, channel));
            }
            misfit
        };
        let misfits: Vec<Misfit> = block.queries.iter().enumerate().map(misfit).collect();
        block.queries.clear();
        block.is_judged.clear();
        block.weights.clear();
        block.errors.clear();
        misfits
    };
    let misfits = evidence.map_blocks(rows, columns, Block::default, end, visit);
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
    let packed = PackedValues::new(values);
    let every_row = context.evidence.every_row();
    let compare = |against| compare_output(context.evidence, against, &packed, output, &every_row, &|_| {});
    let has_weights = context.head.weights.is_some() && !context.recovered;
    if !has_weights {
        let Some(explanation) = context.explanation else {
            let words = "which weights were dropped is not in the file: the output of training cannot be recomputed";
            let unknown = context.contract.dropout.is_some_and(|p| p > 0.0);
            return Vec::from_iter(
                unknown.then(|| context.finding(Check::Output, Verdict::CannotTell, "dropout", words)),
            );
        };
        if explanation.causes.contains(&Cause::Unexplained) {
            // NaN is judged by `finite`.
            let misfit = &explanation.contract_misfit;
            let is_finite = misfit.observed.is_finite() && misfit.predicted.is_finite();
            return Vec::from_iter(is_finite.then(|| unexplained(context, misfit)));
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
    if misfit.fits() {
        let words = format!(
            "O = PV; largest error {} of max |V|",
            significant(misfit.largest / packed.largest.max(f64::MIN_POSITIVE), 2)
        );
        return vec![context.finding(Check::Output, Verdict::Pass, "right", words).with_numbers(
            misfit.largest,
            0.0,
            "largest error",
        )];
    }
    // NaN and infinities are judged by `finite`.
    if !misfit.observed.is_finite() {
        return Vec::new();
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
        "output {} where the contract gives {} (query {}, channel {}), {}x what rounding explains; none of the scales, masks, biases and caps that were tried gives it",
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
