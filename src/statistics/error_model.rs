//! From the null moments of a statistic to p-values, intervals, detectable faults and the trials they need.
//!
//! A statistic averaged over T independent trials has variance/T, skewness/√T and excess kurtosis/T. Those three
//! choose a [`Law`] (Pearson 1895; for variances this is Satterthwaite's 1946 scaled χ²), and the same law gives test,
//! interval and power, so the three agree with each other.
//!
//! A matched law is not the true law. How far it may be trusted depends on how far out in its tail the verdict is
//! taken, so trust is asked for AT A LEVEL: [`NullModel::judgeable`]. Below it there is no p-value and the verdict is
//! undecided.

use super::law::Law;

/// Skewness below which a law counts as symmetric when its shape is chosen.
const SYMMETRIC: f64 = 1e-9;

/// Largest skewness of the average for which a matched law is trusted at any level: near 1 the lower tail of products of
/// gammas is off by a tenth to a third already at α = 0.05, and the expansion behind [`DISTORTION_LIMIT`] stops being a guide.
pub const SKEWNESS_LIMIT: f64 = 1.0;

/// Largest excess kurtosis of the average for which a matched law is trusted (a gamma law of skewness 1 has 1.5).
pub const EXCESS_LIMIT: f64 = 2.0;

/// Largest relative error of the false-alarm rate, as estimated by [`NullModel::distortion`], that is accepted.
///
/// Measured on products of two independent gamma variables (the shape of a variance of logits with d = 1) against
/// their matched gamma law by numerical integration (scripts/reference/matched_gamma.py), true / nominal tail at two-sided level α, upper and lower side:
///
/// | skewness | excess mismatch | α = 0.05 | 1e-3 | 1e-6 | estimated at 1e-6 |
/// |---|---|---|---|---|---|
/// | 0.808 | 0.1269 | 0.99, 1.09 | 1.19, 2.70 | 2.7, 130 | 3.0 (too far) |
/// | 0.355 | 0.0231 | 1.00, 1.01 | 1.06, 1.14 | 1.38, 2.10 | 0.55 |
/// | 0.204 | 0.0076 | 1.00, 1.00 | 1.02, 1.04 | 1.14, 1.23 | 0.18 |
/// | 0.112 | 0.0023 | 1.00, 1.00 | 1.01, 1.01 | 1.04, 1.06 | 0.054 |
///
/// A fixed skewness limit would be honest at one level only.
pub const DISTORTION_LIMIT: f64 = 0.1;

/// Excess mismatch assumed for a skewed statistic whose excess kurtosis is unknown (NaN), as a share of skewness².
/// Products of two gammas show 0.10 to 0.30; this is more than that.
pub const UNKNOWN_EXCESS_SHARE: f64 = 0.5;

/// How a fault moves the law of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorShape {
    /// The standard error stays as the true value moves (a mean).
    Location,
    /// The standard error is proportional to the true value (a variance, a sum of squares): estimate = θ·(1 + cv·Z).
    /// Needs a positive expected value.
    Scale,
}

/// Where the law of a statistic comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LawOrigin {
    /// Matched by moments: trusted within limits only.
    Matched,
    /// The chosen law is the exact one (a mean of logits of normal entries, a χ²): trusted everywhere.
    Exact,
}

/// Null moments of a statistic: of one trial, or after [`NullModel::over_trials`] of the average over T trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NullModel {
    /// Expected value under the null hypothesis.
    pub expected: f64,
    /// Variance of the statistic (of its error, not of the data). 0: the statistic is fixed but for rounding.
    pub variance: f64,
    /// Third standardised moment of the statistic.
    pub skewness: f64,
    /// Fourth standardised moment − 3 of the statistic. NaN when unknown (see [`UNKNOWN_EXCESS_SHARE`]).
    pub excess_kurtosis: f64,
    /// How a fault moves the law.
    pub kind: ErrorShape,
    /// Exact law or matched one.
    pub origin: LawOrigin,
    /// Distance of neighbouring values of a discrete statistic; 0 for continuous ones.
    pub lattice_step: f64,
    /// What a detectable fault of size 1 means for a [`ErrorShape::Location`] statistic, > 0; 0 stands for |expected|.
    /// Scale statistics are always relative to `expected`.
    pub unit: f64,
}

impl NullModel {
    /// A statistic that is `expected` in every trial, but for rounding.
    pub fn fixed(expected: f64) -> NullModel {
        NullModel {
            expected,
            variance: 0.0,
            skewness: 0.0,
            excess_kurtosis: 0.0,
            kind: ErrorShape::Location,
            origin: LawOrigin::Exact,
            lattice_step: 0.0,
            unit: 1.0,
        }
    }

    /// The model of the average over independent trials. No trials: nothing is judgeable.
    pub fn over_trials(&self, trials: u64) -> NullModel {
        let trials = trials as f64;
        NullModel {
            variance: self.variance / trials,
            skewness: self.skewness / trials.sqrt(),
            excess_kurtosis: self.excess_kurtosis / trials,
            lattice_step: self.lattice_step / trials,
            ..*self
        }
    }

    /// √variance.
    pub fn standard_error(&self) -> f64 {
        self.variance.sqrt()
    }

    /// The law of (estimate − expected)/standard error: gamma if |skewness| > 1e-9, else product-normal with
    /// 6/excess degrees if the excess kurtosis is positive, else normal.
    pub fn law(&self) -> Law {
        if self.skewness.abs() > SYMMETRIC {
            Law::Gamma { skewness: self.skewness }
        } else if self.excess_kurtosis > 0.0 {
            Law::ProductNormal { degrees: 6.0 / self.excess_kurtosis }
        } else {
            Law::Normal
        }
    }

    /// First-order relative error of a tail probability at two-sided level `level` of a matched law; 0 for exact laws.
    ///
    /// The leading term that the law does not match is, relative to a normal tail at z = z_{level/2}: z⁴·|Δ|/24 with
    /// Δ the excess kurtosis of the statistic minus that of the law (1.5·skewness² for gamma), and for the
    /// product-normal, which matches the fourth, z⁶·excess²/216, its own sixth cumulant (120/D²) taken as unknown.
    pub fn distortion(&self, level: f64) -> f64 {
        if self.origin == LawOrigin::Exact || self.variance == 0.0 {
            return 0.0;
        }
        let square = Law::Normal.upper_quantile(0.5 * level).powi(2);
        match self.law() {
            Law::ProductNormal { .. } => square.powi(3) * self.excess_kurtosis.powi(2) / 216.0,
            _ if self.excess_kurtosis.is_nan() => square.powi(2) * UNKNOWN_EXCESS_SHARE * self.skewness.powi(2) / 24.0,
            _ => square.powi(2) * (self.excess_kurtosis - 1.5 * self.skewness.powi(2)).abs() / 24.0,
        }
    }

    /// Whether a verdict at two-sided level `level` (α, or its share under Holm or Bonferroni) is honest: the numbers
    /// make sense and the law is exact, or matched with |skewness| ≤ [`SKEWNESS_LIMIT`], excess kurtosis ≤
    /// [`EXCESS_LIMIT`] and distortion ≤ [`DISTORTION_LIMIT`].
    pub fn judgeable(&self, level: f64) -> bool {
        let numbers = [self.expected, self.variance, self.lattice_step, self.unit];
        let sensible = numbers.iter().all(|number| number.is_finite())
            && self.variance >= 0.0
            && self.lattice_step >= 0.0
            && self.unit >= 0.0
            && level > 0.0
            && level < 1.0
            && (self.kind == ErrorShape::Location || self.expected > 0.0);
        if !sensible {
            return false;
        }
        if self.variance == 0.0 {
            return true; // 0/0 for a skewness is no objection here
        }
        if !self.skewness.is_finite() {
            return false;
        }
        // An unknown excess (NaN) of a symmetric statistic leaves nothing to bound the error with.
        let excess_known = !self.excess_kurtosis.is_nan() || self.skewness.abs() > SYMMETRIC;
        self.law().is_valid()
            && (self.origin == LawOrigin::Exact
                || self.skewness.abs() <= SKEWNESS_LIMIT
                    && excess_known
                    && (self.excess_kurtosis.is_nan() || self.excess_kurtosis <= EXCESS_LIMIT)
                    && self.distortion(level) <= DISTORTION_LIMIT)
    }

    /// Two-sided p-value of an estimate, to be compared with `level`; None where [`NullModel::judgeable`] says no or
    /// the estimate is NaN (which the caller must report as a fault of its own, never as a pass).
    ///
    /// For a discrete statistic the deviation is shortened by half a lattice step, so that p is the continuous
    /// approximation of P(at least as extreme), value included (Yates 1934). With variance 0, p is 1 within
    /// `rounding_tolerance` of the expected value and 0 outside.
    pub fn p_value(&self, estimate: f64, rounding_tolerance: f64, level: f64) -> Option<f64> {
        if estimate.is_nan() || !self.judgeable(level) {
            return None;
        }
        let deviation = estimate - self.expected;
        if self.variance == 0.0 {
            return Some(if deviation.abs() <= rounding_tolerance { 1.0 } else { 0.0 });
        }
        let shortened = (deviation.abs() - 0.5 * self.lattice_step).max(0.0).copysign(deviation);
        if shortened == 0.0 && self.lattice_step > 0.0 {
            return Some(1.0);
        }
        Some(self.law().two_sided_p(shortened / self.standard_error()))
    }

    /// The (1 − error) confidence interval: all true values that the test at level `error` does not reject, None where
    /// that level is not judgeable.
    ///
    /// Location: from est − q_{1−e/2}·se − h to est − q_{e/2}·se + h. Scale: from (est − h)/(1 + cv·q_{1−e/2}) to
    /// (est + h)/(1 + cv·q_{e/2}), the upper end infinite where its denominator is not positive; h is half the
    /// lattice step, cv = se/expected and q are lower quantiles of the law.
    pub fn interval(&self, estimate: f64, error: f64) -> Option<(f64, f64)> {
        if estimate.is_nan() || !self.judgeable(error) {
            return None;
        }
        if self.variance == 0.0 {
            return Some((estimate, estimate));
        }
        let (law, half) = (self.law(), 0.5 * self.lattice_step);
        let (low, high) = law.quantiles(0.5 * error);
        let standard_error = self.standard_error();
        match self.kind {
            ErrorShape::Location => {
                Some((estimate - high * standard_error - half, estimate - low * standard_error + half))
            }
            ErrorShape::Scale => {
                let variation = standard_error / self.expected;
                let smallest = 1.0 + variation * low;
                let upper = if smallest > 0.0 { (estimate + half) / smallest } else { f64::INFINITY };
                Some(((estimate - half) / (1.0 + variation * high), upper))
            }
        }
    }

    /// The smallest fault that a test at level `alpha` sees with probability 1 − `beta` on its worse side; None where
    /// the level is not judgeable or no fault of that direction can be seen.
    ///
    /// Location: max(z_hi − q_β, q_{1−β} − z_lo)·se + h over the unit. Scale, relative to the expected value: upward
    /// (1 + cv·z_hi + h)/(1 + cv·q_β) − 1, downward 1 − (1 + cv·z_lo − h)/(1 + cv·q_{1−β}), the larger; z_hi and
    /// z_lo cut off α/2. The chance of rejecting on the wrong side is not counted.
    pub fn min_detectable(&self, alpha: f64, beta: f64) -> Option<f64> {
        if !(self.judgeable(alpha) && beta > 0.0 && beta < 1.0) {
            return None;
        }
        let unit = match self.kind {
            ErrorShape::Location if self.unit > 0.0 => self.unit,
            _ => self.expected.abs(),
        };
        if unit == 0.0 {
            return None;
        }
        let half = 0.5 * self.lattice_step / unit;
        if self.variance == 0.0 {
            return Some(half);
        }
        let (law, relative) = (self.law(), self.standard_error() / unit);
        let (rejects_below, rejects_above) = law.quantiles(0.5 * alpha);
        let (missed_above, missed_below) = law.quantiles(beta);
        match self.kind {
            ErrorShape::Location => {
                Some((rejects_above - missed_above).max(missed_below - rejects_below).max(0.0) * relative + half)
            }
            ErrorShape::Scale => {
                let smallest = 1.0 + relative * missed_above;
                let lower_limit = 1.0 + relative * rejects_below - half;
                if smallest <= 0.0 || lower_limit <= 0.0 {
                    return None;
                }
                let upward = (1.0 + relative * rejects_above + half) / smallest - 1.0;
                let downward = 1.0 - lower_limit / (1.0 + relative * missed_below);
                Some(upward.max(downward).max(0.0))
            }
        }
    }
}

/// The smallest number of trials, at most `maximum`, with which EVERY per-trial model is judgeable at level `alpha` and
/// sees a fault of `detect` (in its own unit) with probability 1 − `beta`. `alpha` is the level of one test: divide by
/// the number of families first ([`super::multiple::planning_level`]).
pub fn trials_needed(models: &[NullModel], alpha: f64, beta: f64, detect: f64, maximum: u64) -> Option<u64> {
    smallest_trials(maximum, |trials| {
        models.iter().all(|model| {
            model.over_trials(trials).min_detectable(alpha, beta).is_some_and(|smallest| smallest <= detect)
        })
    })
}

/// The smallest number in 1..=maximum for which a condition holds that stays true once true: gallop, then bisect.
pub fn smallest_trials(maximum: u64, enough: impl Fn(u64) -> bool) -> Option<u64> {
    let mut too_few = 0;
    let mut candidate = 1u64;
    loop {
        if candidate > maximum {
            candidate = maximum;
        }
        if candidate <= too_few {
            return None;
        }
        if enough(candidate) {
            break;
        }
        too_few = candidate;
        candidate = candidate.saturating_mul(2);
    }
    while candidate - too_few > 1 {
        let middle = too_few + (candidate - too_few) / 2;
        if enough(middle) {
            candidate = middle;
        } else {
            too_few = middle;
        }
    }
    Some(candidate)
}

#[cfg(test)]
#[path = "error_model_tests.rs"]
mod tests;
