//! Student's test of a mean with the first-order effect of skewness taken out (Hall, *On the removal of skewness by
//! transformation*, J. R. Stat. Soc. B 54, 1992).
//!
//! With t = √T(x̄ − μ)/s and a = g/√T, g the sample skewness, h(t) = ((1 + at/3)³ − 1)/a + a/6 has the tails of Student's
//! law with T − 1 degrees of freedom up to an error of order 1/T, where t itself is off by order g/√T: at a level of 1e-7
//! and a skewness of 0.2 the plain test needs 50 000 trials to keep each tail within a tenth, this one a few hundred.

use super::error_model::smallest_trials;
use super::law::Law;
use super::student::MINIMUM_TRIALS;

/// Largest accepted relative error of the false-alarm rate as [`SkewedStudent::distortion`] estimates it.
///
/// Simulated (scripts/reference/skewed_student.py) at the fewest trials that pass with the true skewness, two-sided rate over
/// its level: at 0.05 normal values 1.00, gamma of skewness 1/2 1.02, of 1 1.01, exponential 0.98 (the plain test 1.08);
/// at 0.01 normal 1.06, gamma of skewness 1/2 1.03. One side alone may be off by a tenth. Levels below 0.01 rest on the estimate.
pub const DISTORTION_LIMIT: f64 = 0.1;

/// Trial values summarised for the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkewedStudent {
    /// Expected value under the null hypothesis.
    pub expected: f64,
    /// Variance of the value of one trial, divisor T − 1.
    pub sample_variance: f64,
    /// Sample skewness g₁ of the value of one trial.
    pub skewness: f64,
    /// The number T of trials.
    pub trials: u64,
}

impl SkewedStudent {
    /// √(sample variance / T).
    pub fn standard_error(&self) -> f64 {
        (self.sample_variance / self.trials as f64).sqrt()
    }

    /// Estimated relative error of the rate at two-sided level `level`, z = z_{level/2}: the scatter √(6/T) of g moves
    /// h by 0.82 z²/T, hence the tail by the factor e^{s²/2}, s = 0.82 z³/T; what is left of the law's own skewness
    /// (with the excess kurtosis of a gamma law) is about (3/8) g² z⁴/T.
    pub fn distortion(&self, level: f64) -> f64 {
        let z = Law::Normal.upper_quantile(0.5 * level);
        let trials = self.trials as f64;
        let scatter = 0.82 * z.powi(3) / trials;
        0.5 * scatter * scatter + 0.375 * (self.skewness * z * z).powi(2) / trials
    }

    /// At least [`MINIMUM_TRIALS`], sensible numbers and a distortion within [`DISTORTION_LIMIT`].
    pub fn judgeable(&self, level: f64) -> bool {
        self.trials >= MINIMUM_TRIALS
            && level > 0.0
            && level < 1.0
            && self.expected.is_finite()
            && self.sample_variance.is_finite()
            && self.sample_variance >= 0.0
            && (self.sample_variance == 0.0 || self.distortion(level) <= DISTORTION_LIMIT)
    }

    /// Two-sided p-value of the mean of the trials; None where not judgeable at `level` or the mean is NaN. Without any
    /// scatter it is 1 at the expected value and 0 elsewhere.
    pub fn p_value(&self, mean: f64, level: f64) -> Option<f64> {
        if mean.is_nan() || !self.judgeable(level) {
            return None;
        }
        let deviation = mean - self.expected;
        if self.sample_variance == 0.0 {
            return Some(if deviation == 0.0 { 1.0 } else { 0.0 });
        }
        let straightened = self.straighten(deviation / self.standard_error());
        Some(self.law().two_sided_p(straightened))
    }

    /// The (1 − error) interval that inverts the test; None where not judgeable at `error`.
    pub fn interval(&self, mean: f64, error: f64) -> Option<(f64, f64)> {
        if mean.is_nan() || !self.judgeable(error) {
            return None;
        }
        let reach = self.law().upper_quantile(0.5 * error);
        let end = |quantile: f64| mean - self.standard_error() * self.bend(quantile);
        Some((end(reach), end(-reach)))
    }

    /// The shift that is seen with probability about 1 − `beta` on its worse side, in the unit of the values.
    pub fn min_detectable(&self, alpha: f64, beta: f64) -> Option<f64> {
        if !(self.judgeable(alpha) && beta > 0.0 && beta < 1.0) {
            return None;
        }
        let reach = self.law().upper_quantile(0.5 * alpha);
        let furthest = self.bend(reach).abs().max(self.bend(-reach).abs());
        Some((furthest + self.law().upper_quantile(beta).max(0.0)) * self.standard_error())
    }

    /// The fewest trials, at most `maximum`, with which a shift of `detect` is seen although the sample skewness may come
    /// out `skewness_errors` of its standard errors √(6/T) larger.
    pub fn trials_needed(
        &self,
        (alpha, beta): (f64, f64),
        detect: f64,
        skewness_errors: f64,
        maximum: u64,
    ) -> Option<u64> {
        smallest_trials(maximum, |trials| {
            let skewness = self.skewness.abs() + skewness_errors * (6.0 / trials as f64).sqrt();
            let planned = SkewedStudent { trials, skewness, ..*self };
            planned.min_detectable(alpha, beta).is_some_and(|smallest| smallest <= detect)
        })
    }

    fn law(&self) -> Law {
        Law::Student { degrees: self.trials.saturating_sub(1) as f64 }
    }

    /// g/√T; below 1e-8 the transformation is the identity to the last digits and 1/a only loses some.
    fn slant(&self) -> Option<f64> {
        let slant = self.skewness / (self.trials as f64).sqrt();
        (slant.abs() > 1e-8).then_some(slant)
    }

    /// h(t).
    fn straighten(&self, t: f64) -> f64 {
        match self.slant() {
            Some(a) => t + a * t * t / 3.0 + a * a * t * t * t / 27.0 + a / 6.0,
            None => t,
        }
    }

    /// The inverse of h.
    fn bend(&self, x: f64) -> f64 {
        match self.slant() {
            Some(a) => 3.0 * ((1.0 + a * (x - a / 6.0)).cbrt() - 1.0) / a,
            None => x,
        }
    }
}

#[cfg(test)]
#[path = "skewed_student_tests.rs"]
mod tests;
