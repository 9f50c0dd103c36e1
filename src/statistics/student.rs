//! Student's fallback for statistics whose variance is not known but estimated from T trials.

use super::error_model::smallest_trials;
use super::law::Law;

/// Fewest trials that are judged by a Student interval.
///
/// Below about 30 the sample skewness that guards the verdict (standard error √(6/T) = 0.45 at 30) says next to
/// nothing, and a standard error with under 29 degrees of freedom is itself uncertain by more than 13 %.
pub const MINIMUM_TRIALS: u64 = 30;

/// Largest accepted one-sided relative error of the tail ([`StudentModel::distortion`]). The two sides err in opposite
/// directions, so the rate of the two-sided test is off in second order only: simulated with exponential trial values,
/// a nominal 0.05 gave 0.057 at a distortion of 0.5 and is within a twentieth of 0.05 at this limit (see the tests).
pub const STUDENT_DISTORTION_LIMIT: f64 = 0.25;

/// Trial values summarised for a Student test of their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentModel {
    /// Expected value under the null hypothesis.
    pub expected: f64,
    /// Variance of the value of ONE trial, estimated with divisor T − 1.
    pub sample_variance: f64,
    /// Skewness of the value of one trial: known from theory where possible, else the sample's (whose own standard error
    /// √(6/T) then keeps many small samples from being judged).
    pub skewness: f64,
    /// The number T of trials.
    pub trials: u64,
    /// What a fault of size 1 means; 0 stands for |expected|.
    pub unit: f64,
}

impl StudentModel {
    /// Student's law with T − 1 degrees of freedom.
    pub fn law(&self) -> Law {
        Law::Student { degrees: self.trials.saturating_sub(1) as f64 }
    }

    /// √(sample variance / T).
    pub fn standard_error(&self) -> f64 {
        (self.sample_variance / self.trials as f64).sqrt()
    }

    /// First-order relative error of one tail at two-sided level `level` for skewed trial values:
    /// |skewness|·(2z² + 1)/(6√T) · φ(z)/P(Z > z) at z = z_{level/2} (Gayen 1949, Hall 1987).
    pub fn distortion(&self, level: f64) -> f64 {
        let tail = 0.5 * level;
        let z = Law::Normal.upper_quantile(tail);
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        self.skewness.abs() * (2.0 * z * z + 1.0) / (6.0 * (self.trials as f64).sqrt()) * density / tail
    }

    /// At least [`MINIMUM_TRIALS`], sensible numbers and a distortion within [`STUDENT_DISTORTION_LIMIT`].
    pub fn judgeable(&self, level: f64) -> bool {
        self.trials >= MINIMUM_TRIALS
            && level > 0.0
            && level < 1.0
            && self.expected.is_finite()
            && self.sample_variance.is_finite()
            && self.sample_variance >= 0.0
            && self.unit >= 0.0
            && self.unit.is_finite()
            && self.distortion(level) <= STUDENT_DISTORTION_LIMIT
    }

    /// Two-sided p-value of the mean of the trials; None where not judgeable at `level` or the mean is NaN. With
    /// sample variance 0, p is 1 within `rounding_tolerance` and 0 outside.
    pub fn p_value(&self, mean: f64, rounding_tolerance: f64, level: f64) -> Option<f64> {
        if mean.is_nan() || !self.judgeable(level) {
            return None;
        }
        let deviation = mean - self.expected;
        if self.sample_variance == 0.0 {
            return Some(if deviation.abs() <= rounding_tolerance { 1.0 } else { 0.0 });
        }
        Some(self.law().two_sided_p(deviation / self.standard_error()))
    }

    /// mean ∓ t_{1−error/2}·standard error; None where not judgeable at `error`.
    pub fn interval(&self, mean: f64, error: f64) -> Option<(f64, f64)> {
        if mean.is_nan() || !self.judgeable(error) {
            return None;
        }
        let reach = self.law().upper_quantile(0.5 * error) * self.standard_error();
        Some((mean - reach, mean + reach))
    }

    /// (t_{1−α/2} + t_{1−β})·standard error over the unit: the shift seen with probability about 1 − `beta`. It is the
    /// usual approximation of the non-central t, right to a few per cent from 30 trials on.
    pub fn min_detectable(&self, alpha: f64, beta: f64) -> Option<f64> {
        let unit = if self.unit > 0.0 { self.unit } else { self.expected.abs() };
        if !(self.judgeable(alpha) && unit > 0.0 && beta > 0.0 && beta < 1.0) {
            return None;
        }
        let law = self.law();
        let shift = (law.upper_quantile(0.5 * alpha) + law.upper_quantile(beta)).max(0.0);
        Some(shift * self.standard_error() / unit)
    }

    /// The trials with which a fault of `detect` would be seen, taking this sample's variance and skewness (of a pilot
    /// run, say) for the truth; at most `maximum`.
    pub fn trials_needed(&self, alpha: f64, beta: f64, detect: f64, maximum: u64) -> Option<u64> {
        smallest_trials(maximum, |trials| {
            let planned = StudentModel { trials, ..*self };
            planned.min_detectable(alpha, beta).is_some_and(|smallest| smallest <= detect)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::binomial::acceptance_region;
    use crate::statistics::moments::ColumnMoments;
    use crate::statistics::test_draws::Draws;

    fn model_of(values: &[f64], expected: f64, skewness: f64) -> (f64, StudentModel) {
        let mut moments = ColumnMoments::new(1);
        values.iter().for_each(|&value| moments.push(&[value]));
        let sample_variance = moments.sample_variance(0).expect("several trials");
        let model = StudentModel { expected, sample_variance, skewness, trials: moments.count(), unit: 1.0 };
        (moments.mean(0).expect("several trials"), model)
    }

    #[test]
    fn student_tests_match_the_textbook() {
        // T = 31, mean deviation 0.5, s² = 2: t = 0.5/√(2/31) = 1.968502; scipy t.sf(·, 30)·2 and t.ppf(0.975, 30).
        let model = StudentModel { expected: 1.0, sample_variance: 2.0, skewness: 0.0, trials: 31, unit: 1.0 };
        let p = model.p_value(1.5, 0.0, 0.05).expect("judgeable");
        assert!((p / 0.05831093541811469 - 1.0).abs() < 1e-12, "{p}");
        let (low, high) = model.interval(1.5, 0.05).expect("judgeable");
        let reach = 2.0422724563012378 * (2.0f64 / 31.0).sqrt();
        assert!((high - 1.5 - reach).abs() < 1e-13 && (1.5 - low - reach).abs() < 1e-13);
    }

    #[test]
    fn few_or_skewed_trials_are_not_judged() {
        let model = StudentModel { expected: 0.0, sample_variance: 1.0, skewness: 0.0, trials: 30, unit: 1.0 };
        assert!(model.judgeable(1e-6));
        assert!(!StudentModel { trials: 29, ..model }.judgeable(0.05));
        assert_eq!(StudentModel { trials: 29, ..model }.p_value(0.1, 0.0, 0.05), None);
        assert!(!StudentModel { skewness: 2.0, ..model }.judgeable(0.05));
        assert!(StudentModel { skewness: 2.0, trials: 751, ..model }.judgeable(0.05));
        assert!(!StudentModel { skewness: 2.0, trials: 751, ..model }.judgeable(1e-6));
        assert!(!StudentModel { skewness: f64::NAN, ..model }.judgeable(0.05));
        let fixed = StudentModel { sample_variance: 0.0, ..model };
        assert_eq!((fixed.p_value(0.0, 0.0, 0.05), fixed.p_value(0.1, 0.01, 0.05)), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn false_alarms_and_power_are_as_promised_by_simulation() {
        let (trials, runs, alpha, beta) = (37usize, 8009u64, 0.05, 0.1);
        let mut draws = Draws::new(23);
        let planned =
            StudentModel { expected: 0.0, sample_variance: 1.0, skewness: 0.0, trials: trials as u64, unit: 1.0 };
        let detectable = planned.min_detectable(alpha, beta).expect("judgeable");
        let mut rejected = |shift: f64| {
            let hits = (0..runs).filter(|_| {
                let values: Vec<f64> = (0..trials).map(|_| shift + draws.normal()).collect();
                let (mean, model) = model_of(&values, 0.0, 0.0);
                model.p_value(mean, 0.0, alpha).expect("judgeable") <= alpha
            });
            hits.count() as u64
        };
        let (alarms, seen) = (rejected(0.0), rejected(detectable));
        let (low, high) = acceptance_region(runs, alpha, 1e-6);
        assert!((low..=high).contains(&alarms), "{alarms} outside {low}..={high}");
        // The approximation to the non-central t may move the power by 0.02.
        let (low, high) =
            (acceptance_region(runs, 1.0 - beta - 0.02, 1e-6).0, acceptance_region(runs, 1.0 - beta + 0.02, 1e-6).1);
        assert!((low..=high).contains(&seen), "{seen} outside {low}..={high}");
    }

    #[test]
    fn skewed_trial_values_at_the_limit_keep_the_two_sided_rate() {
        // Exponential values, skewness 2, at the fewest trials that are judgeable at 0.05.
        let (runs, alpha) = (40_009u64, 0.05);
        let at = |trials: u64| StudentModel { expected: 1.0, sample_variance: 1.0, skewness: 2.0, trials, unit: 1.0 };
        let trials = smallest_trials(10_000, |trials| at(trials).judgeable(alpha)).expect("reachable");
        assert!((600..900).contains(&trials), "{trials}");
        let mut draws = Draws::new(29);
        let alarms = (0..runs).filter(|_| {
            let values: Vec<f64> = (0..trials).map(|_| -draws.uniform().ln()).collect();
            let (mean, model) = model_of(&values, 1.0, 2.0);
            model.p_value(mean, 0.0, alpha).expect("judgeable") <= alpha
        });
        let alarms = alarms.count() as u64;
        println!("{trials} trials, rate {}", alarms as f64 / runs as f64);
        // The documented twentieth of α, and chance at 1e-6.
        let low = acceptance_region(runs, 0.95 * alpha, 1e-6).0;
        let high = acceptance_region(runs, 1.05 * alpha, 1e-6).1;
        assert!((low..=high).contains(&alarms), "{alarms} outside {low}..={high}");
    }

    #[test]
    fn planning_inverts_the_detectable_shift() {
        let pilot = StudentModel { expected: 5.0, sample_variance: 4.0, skewness: 0.3, trials: 31, unit: 0.0 };
        let trials = pilot.trials_needed(0.01, 0.1, 0.05, 1 << 30).expect("reachable");
        let planned = |trials: u64| StudentModel { trials, ..pilot }.min_detectable(0.01, 0.1).expect("judgeable");
        assert!(planned(trials) <= 0.05 && planned(trials - 1) > 0.05, "{trials}");
    }
}
