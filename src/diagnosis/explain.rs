//! From weights that break the contract to the model that reproduces them.
//!
//! The stages of attention are told apart one after the other. (1) On visible cells with weight, ln P against the raw logits gives the
//! scale, with the form (soft cap, bias, distance) whose residuals rounding explains. (2) With that, every hidden cell with weight has an
//! implied logit ln P + lse_i: equal to its own logit it was never hidden, 0 it was multiplied by the mask, a constant it was
//! filled. Visible cells without weight were hidden. (3) What a row's weights sum to against its partition function tells a sink,
//! dropout, and masks applied after the softmax. (4) The model put together is compared with every weight.

mod cap;
mod forms;
mod stages;

use super::checks::WeightSums;
use super::evidence::Evidence;
use super::model::{Cap, Hidden, Misfit, Model};
use super::slope::{Cells, ScaleFit, Terms, fit_scale};
use super::survey::column_sums;
use crate::attention::Mask;
pub(super) use forms::LIKELY_CAPS;
use forms::{CHI_SQUARE_OF_RIGHT_FORM, over_queries, right_form};
use stages::{added_after, declared_dropout, stages};

/// Where cells differ between contract and implementation.
#[derive(Debug, Clone, PartialEq)]
pub struct Support {
    /// Cells that the implementation shows, over all rows.
    pub observed: Mask,
    /// Cells with weight that the contract hides.
    pub leaked: usize,
    /// Cells without weight that the contract shows.
    pub lost: usize,
    /// First cell that differs.
    pub first: (usize, usize),
    /// Mean over the rows that leak of the weight on hidden cells.
    pub leaked_weight: f64,
    /// Cells that the contract hides and whose weight could be told.
    pub hidden_cells: usize,
}

/// One way in which weights leave the contract.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Another factor on QKᵀ.
    Scale,
    /// Softmax over the queries: columns sum to 1.
    OverQueries,
    /// Other cells are visible.
    Support(Support),
    /// Hidden logits were multiplied by 0.
    Multiplied,
    /// Hidden logits were replaced by this number.
    Replaced(f64),
    /// This number was added to hidden logits.
    Added(f64),
    /// The mask was applied after the softmax, without dividing again.
    ZeroedAfter,
    /// The mask's numbers were added after the softmax.
    AddedAfter(f64),
    /// Weights dropped with this share, the others multiplied by this factor.
    Dropout {
        /// Share of weights that are 0 where the softmax is not.
        share: f64,
        /// Factor on the others.
        factor: f64,
        /// Weights that could have been dropped.
        cells: usize,
    },
    /// Every weight is this many times the softmax, none dropped.
    Factor(f64),
    /// The denominator holds an extra logit of this size (`None`: it lacks the declared one).
    Sink(Option<f64>),
    /// The coefficient of the bias and its standard error.
    Bias(f64, f64),
    /// The fall with distance and its standard error.
    Alibi(f64, f64),
    /// Another form of soft cap.
    Cap(Option<Cap>),
    /// None of the known models.
    Unexplained,
}

/// What became of one head's weights.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The contract's model.
    pub contract: Model,
    /// How far the weights are from it.
    pub contract_misfit: Misfit,
    /// The model that comes closest.
    pub model: Model,
    /// How far the weights are from that.
    pub misfit: Misfit,
    /// The scale.
    pub fit: Option<ScaleFit>,
    /// Differences between the two models.
    pub causes: Vec<Cause>,
}

/// Whether a share of `cells` weights is as many as dropout with probability `p` drops. 6 standard deviations: 2 in 10⁹ heads; one more for so few that the
/// normal law does not hold.
pub fn is_dropped_as_often(share: f64, cells: usize, p: f64) -> bool {
    let cells = cells as f64;
    (share - p).abs() * cells <= 6.0 * (cells * p * (1.0 - p)).sqrt() + 1.0
}

/// Explains the weights of a head, which are as far from the contract as `contract_misfit` says, from the sums of its rows.
pub fn explain(
    evidence: &Evidence<'_>,
    contract: &Model,
    contract_misfit: Misfit,
    sums: Option<&WeightSums>,
) -> Explanation {
    let rows = evidence.sampled_rows();
    let rows = &rows[..];
    let fit = fit_scale(evidence, rows, contract, Terms::default(), Cells::Contract);
    let mut result = Explanation {
        contract: contract.clone(),
        contract_misfit,
        model: contract.clone(),
        misfit: contract_misfit,
        fit,
        causes: Vec::new(),
    };
    if contract_misfit.fits() {
        if let Some(fit) = &result.fit
            && !fit.agrees_with(contract.scale)
        {
            result.model.scale = fit.scale;
            result.causes.push(Cause::Scale);
        }
        return result;
    }
    if let Some((cause, model, misfit)) = declared_dropout(evidence, contract) {
        (result.model, result.misfit) = (model, misfit);
        result.causes.push(cause);
        return result;
    }
    if columns_sum_to_one(evidence, sums) && over_queries(evidence, contract).fits() {
        result.causes.push(Cause::OverQueries);
        result.misfit = Misfit::NONE;
        return result;
    }
    let (model, fit, mut causes) = right_form(evidence, rows, contract);
    result.fit = fit.or(result.fit);
    let mut model = model;
    if let Some(fit) = &result.fit {
        if fit.agrees_with(contract.scale) {
            model.scale = contract.scale;
        } else {
            model.scale = fit.scale;
            causes.insert(0, Cause::Scale);
        }
    }
    if let Some(number) = added_after(evidence, rows, &model) {
        causes.push(Cause::AddedAfter(number));
        model.hidden = Hidden::AddedAfter(number);
        result.misfit = evidence.compare(&model);
    } else {
        result.misfit = stages(evidence, rows, &mut model, &mut causes);
    }
    if !result.misfit.fits() {
        if let Some((relative, cause, misfit)) = whole_relative(evidence, contract, &contract_misfit) {
            (result.model, result.causes, result.misfit) = (relative, vec![cause], misfit);
            return result;
        }
        // A slope through weights of another origin is a number without a meaning.
        let is_number =
            |fit: &ScaleFit| fit.chi_square <= CHI_SQUARE_OF_RIGHT_FORM && fit.scale.abs() > fit.resolution();
        if !result.fit.as_ref().is_some_and(is_number) {
            causes.retain(|cause| *cause != Cause::Scale);
            model.scale = contract.scale;
        }
        causes.push(Cause::Unexplained);
    }
    (result.model, result.causes) = (model, causes);
    result
}

/// What a relative must leave at most of the squares that the contract leaves: bounds in half types are wide.
const LEFT_BY_RELATIVE: f64 = 0.25;

/// The relative of the contract, at its own scale, that gives all the weights: where logits are few or coarse, a fit by itself does not tell
/// the form.
fn whole_relative(evidence: &Evidence<'_>, contract: &Model, misfit: &Misfit) -> Option<(Model, Cause, Misfit)> {
    let caps = LIKELY_CAPS.map(|cap| Some(Cap::Tanh(cap))).into_iter().filter(|_| contract.cap.is_none());
    let caps = caps.map(|cap| (Model { cap, ..contract.clone() }, Cause::Cap(cap)));
    let sink = contract.sink.is_none().then(|| (Model { sink: Some(0.0), ..contract.clone() }, Cause::Sink(Some(0.0))));
    caps.chain(sink).find_map(|(model, cause)| {
        let found = evidence.try_model(&model);
        (found.fits() && found.squares <= LEFT_BY_RELATIVE * misfit.squares).then_some((model, cause, found))
    })
}

/// Whether the weights sum to 1 over the queries and not over the keys.
fn columns_sum_to_one(evidence: &Evidence<'_>, sums: Option<&WeightSums>) -> bool {
    let (Some(weights), Some(sums)) = (&evidence.head.weights, sums) else { return false };
    let bound = 1e-6 + 8.0 * evidence.precisions.weights.unit_roundoff() * (1.0 + (evidence.queries as f64).sqrt());
    evidence.queries > 1
        && sums.rows.iter().any(|sum| (sum - 1.0).abs() > bound)
        && column_sums(weights).iter().all(|sum| (sum - 1.0).abs() <= bound)
}
