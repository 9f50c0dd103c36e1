//! What an experiment claims of what it measures.

use std::borrow::Cow;

use super::trial_test::TrialTest;
use crate::attention::Scale;
use crate::report::TheoryKind;
use crate::statistics::NullModel;

/// One statement that a run holds against theory: one row of the result.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Name of the statistic, e.g. `logit_variance`.
    pub statistic: String,
    /// Which one of several, from 0 (a query, a head, a layer), where the statistic is claimed of each.
    pub index: Option<u64>,
    /// The factor on QKᵀ it belongs to, where it belongs to one.
    pub scale: Option<Scale>,
    /// Claims of one parameter point with the same family are one statistic up to a known factor: they count once
    /// in the correction for multiple rows.
    pub family: Cow<'static, str>,
    /// How the estimate comes from the trials' values.
    pub estimator: Estimator,
    /// What theory says.
    pub expected: Option<Expected>,
    /// How the estimate scatters when theory is right.
    pub null: Null,
}

/// A value of theory and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The value.
    pub value: f64,
    /// Exact, approximate or asymptotic.
    pub kind: TheoryKind,
}

/// How an estimate comes from the trials' values; columns are indices into [`super::Experiment::measures`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    /// The mean over the trials of one column.
    Mean {
        /// The column.
        column: usize,
    },
    /// The largest over the trials of one column: for what must not exceed a fixed value in any trial.
    Largest {
        /// The column.
        column: usize,
    },
    /// The square root of the mean over the trials of one column; the null model is that of the mean itself.
    RootMean {
        /// The column.
        column: usize,
    },
    /// Pooled kurtosis: mean fourth moment over the square of the mean second moment (both about the expected
    /// mean), less its first-order bias over T trials, `relative_bias`/T.
    Kurtosis {
        /// Column of the second moment.
        second: usize,
        /// Column of the fourth moment.
        fourth: usize,
        /// Column of the linearised kurtosis, whose scatter over the trials is that of the estimate.
        linear: usize,
        /// Relative bias times the number of trials.
        relative_bias: f64,
    },
}

/// How an estimate scatters when theory is right.
#[derive(Debug, Clone)]
pub enum Null {
    /// The exact moments of one trial's value are known.
    Exact {
        /// Those moments.
        model: NullModel,
        /// How far rounding alone can move the estimate.
        rounding: f64,
    },
    /// Tested over the trials, by Student's t or by a bet; planned from a pilot.
    Trials(TrialTest),
    /// No honest test at this size or for this law; the row is undecided, and says why.
    Unjudged(String),
    /// There is no theory to hold it against; the row is measured.
    Measured,
}
