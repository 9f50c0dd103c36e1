//! One file per check: what it measures, from which numbers it judges, and where it is blind.

mod alibi;
mod assumptions;
mod bias;
mod dropout;
mod finite;
mod heads;
mod lse;
mod mask_file;
mod normalisation;
mod output;
mod precision;
mod rotary;
mod saturation;
mod scale;
mod sink;
mod sinusoidal;
mod softcap;
mod support;

use super::contract::Contract;
use super::evidence::Evidence;
use super::explain::{Cause, Explanation};
use super::finding::{Check, Finding, Verdict};
use super::matrix::Head;
use super::model::Model;
use super::naming::Sizes;
use super::survey::RowFacts;

pub use heads::{AxisSums, Reshape, axis_findings, key_head, order_findings, shared_otherwise};
pub use output::{Against, compare_output};
pub use saturation::Control;
pub use sinusoidal::findings as sinusoidal_findings;

/// What the weights of a head hold, before any model.
#[derive(Debug, Clone, Default)]
pub struct WeightSums {
    /// Σ over the keys of each row; NaN where a weight is not finite.
    pub rows: Vec<f64>,
    /// Rows with a NaN or an infinity.
    pub broken_rows: Vec<usize>,
}

impl WeightSums {
    /// Those of surveyed rows.
    pub fn of(facts: &[RowFacts]) -> Self {
        let rows = facts.iter().map(|row| if row.is_broken { f64::NAN } else { row.sum }).collect();
        Self { rows, broken_rows: (0..facts.len()).filter(|&query| facts[query].is_broken).collect() }
    }
}

/// All that is known of one head.
#[derive(Debug)]
pub struct HeadContext<'a> {
    /// The contract.
    pub contract: &'a Contract,
    /// Sizes in sight.
    pub sizes: Sizes,
    /// The tensors.
    pub head: &'a Head,
    /// Rows and cells.
    pub evidence: &'a Evidence<'a>,
    /// The contract as a model of this head.
    pub model: &'a Model,
    /// Sums of the weights.
    pub sums: Option<&'a WeightSums>,
    /// What explains the weights, if there are any (or they could be recovered).
    pub explanation: Option<&'a Explanation>,
    /// Whether the weights were recovered from the output.
    pub recovered: bool,
    /// Whether a cause over all heads (softmax over another axis) already explains the weights.
    pub explained_elsewhere: bool,
}

impl HeadContext<'_> {
    /// Whether the weights are as the contract says.
    pub fn weights_are_right(&self) -> bool {
        self.explanation.is_some_and(|explanation| explanation.contract_misfit.fits())
    }

    /// A finding in this head.
    fn finding(&self, check: Check, verdict: Verdict, key: &str, explanation: impl Into<String>) -> Finding {
        Finding::new(check, verdict, key, explanation).in_head(self.head.batch, self.head.head)
    }

    /// The causes found in this head.
    fn causes(&self) -> &[Cause] {
        self.explanation.map_or(&[], |explanation| &explanation.causes)
    }
}

/// FAIL against a declaration, WARN without one.
fn against(declared: bool) -> Verdict {
    if declared { Verdict::Fail } else { Verdict::Warn }
}

/// Every finding of a head.
pub fn head_findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let mut findings = finite::findings(context);
    if !context.explained_elsewhere {
        for check in [
            normalisation::findings,
            scale::findings,
            support::findings,
            bias::findings,
            softcap::findings,
            sink::findings,
            alibi::findings,
            dropout::findings,
            precision::findings,
        ] {
            findings.extend(check(context));
        }
    }
    for check in [rotary::findings, lse::findings, output::findings] {
        findings.extend(check(context));
    }
    findings
}

/// What a check does, its formula and its blind spots.
pub fn explanation(check: Check) -> &'static str {
    match check {
        Check::Finite => finite::EXPLANATION,
        Check::Normalisation => normalisation::EXPLANATION,
        Check::Scale => scale::EXPLANATION,
        Check::Mask => support::MASK,
        Check::Causal => support::CAUSAL,
        Check::Padding => support::PADDING,
        Check::Window => support::WINDOW,
        Check::Bias => bias::EXPLANATION,
        Check::Softcap => softcap::EXPLANATION,
        Check::Sink => sink::EXPLANATION,
        Check::Alibi => alibi::EXPLANATION,
        Check::Dropout => dropout::EXPLANATION,
        Check::Heads => heads::EXPLANATION,
        Check::Rotary => rotary::EXPLANATION,
        Check::Sinusoidal => sinusoidal::EXPLANATION,
        Check::Precision => precision::EXPLANATION,
        Check::Lse => lse::EXPLANATION,
        Check::Output => output::EXPLANATION,
        Check::Saturation => saturation::EXPLANATION,
        Check::Assumptions => assumptions::EXPLANATION,
        Check::Growth => super::growth::EXPLANATION,
        Check::Cache => super::comparison::CACHE,
        Check::Agreement(_) => super::comparison::EXPLANATION,
    }
}
