//! Tests of statistics whose spread theory does not give: the trials' values speak for themselves.
//!
//! Which test a row gets is fixed before the run, by theory alone: Student's t where trial values are nearly normal, a bet
//! ([`crate::statistics::bounded`]) where rare trials carry the mean.

use super::Expected;
use crate::report::Row;
use crate::statistics::bounded::{BoundedModel, betting_interval, betting_p_value_within};
use crate::statistics::student::MINIMUM_TRIALS;
use crate::statistics::{ColumnMoments, SkewedStudent};

/// A planned run must be judgeable although its sample skewness scatters by √(6/T): so many standard errors are left.
const SKEWNESS_ERRORS: f64 = 3.3;
/// The pilot's variance is multiplied by this before planning: a χ² with 511 degrees of freedom falls below 511/1.23 with
/// a probability of 1e-3.
const VARIANCE_MARGIN: f64 = 1.23;
/// The skewness planned with is so many times the pilot's, which falls short of its law's where tails are heavy.
const SKEWNESS_FACTOR: f64 = 2.0;
/// Trials of the pilot that plans these tests, from the uppermost trial indices, which no run uses: its draws are
/// independent of the run's, so planning from them leaves the rates of the run as they are. The sample skewness needs
/// more of them than a variance does.
pub const PILOT_TRIALS: u64 = 512;

/// How a mean over trials is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Student's t with the effect of skewness taken out, guarded by the sample skewness.
    Student,
    /// A bet on bounded values: holds whatever their law, and is conservative.
    Betting,
}

/// How one claim is tested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialTest {
    /// The test.
    pub method: Method,
    /// The statistic of one trial lies within these; used by bets only.
    pub bounds: (f64, f64),
    /// What `--detect` is relative to: the row is upheld if a shift of detect·unit would have been seen. 0 stands for
    /// the size of the expected value.
    pub unit: f64,
    /// How far theory itself may be from the truth: a shift within it is never held against the row.
    pub allowance: f64,
}

/// What the trials of one column amount to.
#[derive(Debug, Clone, Copy)]
pub struct Trials<'a> {
    /// Moments of all columns.
    pub columns: &'a ColumnMoments,
    /// The column.
    pub column: usize,
    /// Its values, batch by batch; for bets only.
    pub values: &'a [f64],
    /// Number of trials.
    pub count: u64,
}

impl TrialTest {
    /// Student's t corrected for skewness; `unit` as in the field.
    pub fn student(unit: f64) -> Self {
        Self { method: Method::Student, bounds: (f64::NEG_INFINITY, f64::INFINITY), unit, allowance: 0.0 }
    }

    /// Whether the test needs the values and not only their moments.
    pub fn needs_values(&self) -> bool {
        self.method == Method::Betting
    }

    /// The size of a shift that `--detect` is relative to.
    pub fn unit(&self, expected: f64) -> f64 {
        if self.unit > 0.0 { self.unit } else { expected.abs() }
    }

    /// Whether no number of trials can uphold the claim: theory is not known to within detect·unit.
    pub fn is_vague(&self, expected: f64, detect: f64) -> bool {
        self.allowance > detect * self.unit(expected)
    }

    /// Fills in interval, p-value and test; the smallest shift seen, in the statistic's own unit, is returned beside.
    pub fn judge(
        &self,
        row: Row,
        expected: Option<Expected>,
        trials: &Trials,
        level: f64,
        miss: f64,
    ) -> (Row, Option<f64>) {
        match self.method {
            Method::Student => self.by_student(row, expected, trials, level, miss),
            Method::Betting => self.by_betting(row, expected, trials, level, miss),
        }
    }

    fn by_student(
        &self,
        row: Row,
        expected: Option<Expected>,
        trials: &Trials,
        level: f64,
        miss: f64,
    ) -> (Row, Option<f64>) {
        let estimate = row.estimate.unwrap_or(f64::NAN);
        let theory = expected.map_or(0.0, |expected| expected.value);
        let model = SkewedStudent {
            expected: theory,
            sample_variance: trials.columns.sample_variance(trials.column).unwrap_or(0.0),
            skewness: trials.columns.skewness(trials.column).unwrap_or(0.0),
            trials: trials.count,
        };
        let interval = model.interval(estimate, 0.05);
        let row = Row { ci_low: interval.map(|(low, _)| low), ci_high: interval.map(|(_, high)| high), ..row };
        if expected.is_none() {
            return (row, None);
        }
        let deviation = estimate - theory;
        let beyond = (deviation.abs() - self.allowance).max(0.0).copysign(deviation);
        let test = match model.trials {
            count if count < MINIMUM_TRIALS => format!("none: a spread from {count} trials is too uncertain"),
            _ if !model.judgeable(level) => "none: the trials' values are too skewed for so few of them".to_string(),
            _ => format!("Student's t over the trials, corrected for skewness{}", self.allowance_in_words(theory)),
        };
        let p_value = model.p_value(theory + beyond, level);
        let seen = model.min_detectable(level, miss).map(|shift| shift + self.allowance);
        (Row { p_value, test: Some(test), ..row }, seen)
    }

    fn by_betting(
        &self,
        row: Row,
        expected: Option<Expected>,
        trials: &Trials,
        level: f64,
        miss: f64,
    ) -> (Row, Option<f64>) {
        let values: Vec<f64> = trials.values.iter().map(|&value| self.share(value)).collect();
        // A value outside the range cannot be: a fault, whatever a bet on it would say.
        let impossible = values.iter().any(|&value| !(-1e-9..=1.0 + 1e-9).contains(&value));
        let values: Vec<f64> = values.into_iter().map(|value| value.clamp(0.0, 1.0)).collect();
        let interval = if impossible { None } else { betting_interval(&values, 0.05) };
        let row = Row {
            ci_low: interval.map(|(low, _)| self.value_of_share(low)),
            ci_high: interval.map(|(_, high)| self.value_of_share(high)),
            ..row
        };
        let Some(expected) = expected else { return (row, None) };
        let (low, high) = (expected.value - self.allowance, expected.value + self.allowance);
        let p_value = match impossible {
            true => 0.0,
            false => betting_p_value_within(&values, self.share(low), self.share(high)),
        };
        let variance = trials.columns.sample_variance(trials.column).unwrap_or(f64::INFINITY);
        let batches = values.len() as u64;
        let model = self.bounded_model(expected.value, variance, trials.count);
        let batched =
            BoundedModel { variance: model.variance * batches as f64 / trials.count as f64, trials: batches, ..model };
        let seen = batched.min_detectable(level, miss).map(|shift| shift * self.range() + self.allowance);
        let words = self.allowance_in_words(expected.value);
        let (lowest, highest) = self.bounds;
        let test =
            format!("conservative: a bet on trial values between {lowest} and {highest:.4}, whatever their law{words}");
        (Row { p_value: Some(p_value), test: Some(test), ..row }, seen)
    }

    fn bounded_model(&self, expected: f64, variance: f64, trials: u64) -> BoundedModel {
        BoundedModel {
            expected: self.share(expected).clamp(0.0, 1.0),
            variance: variance / self.range().powi(2),
            trials,
        }
    }

    fn range(&self) -> f64 {
        self.bounds.1 - self.bounds.0
    }

    /// A value as a share of the range.
    fn share(&self, value: f64) -> f64 {
        (value - self.bounds.0) / self.range()
    }

    fn value_of_share(&self, share: f64) -> f64 {
        self.bounds.0 + share * self.range()
    }

    fn allowance_in_words(&self, theory: f64) -> String {
        // Rounding is no news.
        if self.allowance <= 1e-5 * theory.abs() {
            return String::new();
        }
        format!("; conservative: theory may itself be off by {:.1e}", self.allowance)
    }

    /// The trials with which a shift of `detect` units is seen, from a pilot's moments; None if `maximum` are too few. A
    /// vague claim ([`TrialTest::is_vague`]) asks for no more than a pilot.
    pub fn trials_needed(&self, expected: f64, pilot: (f64, f64), rates: (f64, f64, f64), maximum: u64) -> Option<u64> {
        let ((variance, skewness), (level, miss, detect)) = (pilot, rates);
        let variance = variance * VARIANCE_MARGIN;
        let unit = self.unit(expected);
        if self.is_vague(expected, detect) || unit == 0.0 {
            return Some(PILOT_TRIALS);
        }
        let shift = detect * unit - self.allowance;
        match self.method {
            Method::Student => {
                let skewness = SKEWNESS_FACTOR * skewness;
                let model = SkewedStudent { expected, sample_variance: variance, skewness, trials: 1 };
                model.trials_needed((level, miss), shift, SKEWNESS_ERRORS, maximum)
            }
            Method::Betting => {
                self.bounded_model(expected, variance, 1).trials_needed(level, miss, shift / self.range(), maximum)
            }
        }
    }
}

#[cfg(test)]
#[path = "trial_test_tests.rs"]
mod tests;
