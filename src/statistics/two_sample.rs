//! Has a mean moved between two runs? Student's test of two sets of trials (Student 1908; Welch, *Biometrika* 34, 1947).
//!
//! Trials that share their draws (same seed, same trial index) are compared pair by pair: what an old and a new version
//! make of the same draw differs by the change alone, not by chance. The test of the paired differences is valid whether or
//! not the pairs depend on each other. Without a change the two members of a pair can be exchanged, so differences, and the
//! difference of two means over equally many trials, are symmetric about 0: skewness plays no part. It does where one run has more
//! trials than the other, and is judged there by what both runs together show of it.

use super::law::Law;
use super::student::{MINIMUM_TRIALS, STUDENT_DISTORTION_LIMIT};

/// How the trials of the two runs stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Trial by trial, the same draws.
    Paired,
    /// Two independent sets of draws.
    Independent,
}

/// The difference of two means and how it scatters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoSample {
    /// How the trials were compared.
    pub pairing: Pairing,
    /// Mean now less mean before.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom: T − 1 for pairs, Welch and Satterthwaite's for independent runs.
    pub degrees: f64,
    /// Skewness of the difference of the means (not of one trial) if nothing has moved: 0 for pairs and for equally many trials.
    pub skewness: f64,
    /// Trials of the smaller run.
    pub trials: u64,
}

/// Mean, variance (divisor T − 1) and sum of third powers about the mean.
struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
    third_powers: f64,
}

fn moments(values: &[f64]) -> Moments {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let central = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>();
    Moments { count, mean, variance: central(2) / (count - 1.0), third_powers: central(3) }
}

impl TwoSample {
    /// Compares trial by trial; both slices hold the same trials in the same order.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn paired(before: &[f64], now: &[f64]) -> Self {
        assert_eq!(before.len(), now.len(), "pairs");
        let differences: Vec<f64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        let Moments { count, mean, variance, .. } = moments(&differences);
        Self {
            pairing: Pairing::Paired,
            difference: mean,
            standard_error: (variance / count).sqrt(),
            degrees: count - 1.0,
            skewness: 0.0,
            trials: before.len() as u64,
        }
    }

    /// Compares the means of two independent runs, whatever their variances and numbers of trials.
    pub fn independent(before: &[f64], now: &[f64]) -> Self {
        let (a, b) = (moments(before), moments(now));
        let (of_a, of_b) = (a.variance / a.count, b.variance / b.count);
        let variance = of_a + of_b;
        let (degrees, skewness) = if variance > 0.0 {
            let degrees = variance * variance / (of_a * of_a / (a.count - 1.0) + of_b * of_b / (b.count - 1.0));
            // One law for both: its third and second cumulants from all trials.
            let all = a.count + b.count;
            let third = (a.third_powers + b.third_powers) / all;
            let second = (a.variance * (a.count - 1.0) + b.variance * (b.count - 1.0)) / (all - 2.0);
            let scatter = (second * (1.0 / a.count + 1.0 / b.count)).powf(1.5);
            (degrees, third * (b.count.powi(-2) - a.count.powi(-2)) / scatter)
        } else {
            (a.count + b.count - 2.0, 0.0)
        };
        Self {
            pairing: Pairing::Independent,
            difference: b.mean - a.mean,
            standard_error: variance.sqrt(),
            degrees,
            skewness,
            trials: before.len().min(now.len()) as u64,
        }
    }

    /// Whether the law of the difference is known well enough at two-sided level `level`: at least [`MINIMUM_TRIALS`] in
    /// each run, finite numbers, and a first-order effect of skewness on one tail, |skewness|·(2z² + 1)/6 · φ(z)/P(Z > z)
    /// (Gayen 1949), within [`STUDENT_DISTORTION_LIMIT`].
    pub fn judgeable(&self, level: f64) -> bool {
        let tail = 0.5 * level;
        let z = Law::Normal.upper_quantile(tail);
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let distortion = self.skewness.abs() * (2.0 * z * z + 1.0) / 6.0 * density / tail;
        self.trials >= MINIMUM_TRIALS
            && self.difference.is_finite()
            && self.standard_error.is_finite()
            && (self.standard_error == 0.0 || distortion <= STUDENT_DISTORTION_LIMIT)
    }

    /// Two-sided p-value of "the means differ by no more than `tolerance`"; None where not judgeable at `level`. Without
    /// any scatter it is 1 within the tolerance and 0 outside.
    pub fn p_value(&self, tolerance: f64, level: f64) -> Option<f64> {
        if !self.judgeable(level) {
            return None;
        }
        let beyond = (self.difference.abs() - tolerance).max(0.0);
        Some(match self.standard_error {
            _ if beyond == 0.0 => 1.0,
            0.0 => 0.0,
            error => self.law().two_sided_p(beyond / error),
        })
    }

    /// The difference that is seen with probability about 1 − `beta` at level `alpha`.
    pub fn min_detectable(&self, tolerance: f64, alpha: f64, beta: f64) -> Option<f64> {
        if !(self.judgeable(alpha) && beta > 0.0 && beta < 1.0) {
            return None;
        }
        let reach = self.law().upper_quantile(0.5 * alpha) + self.law().upper_quantile(beta).max(0.0);
        Some(tolerance + reach * self.standard_error)
    }

    fn law(&self) -> Law {
        Law::Student { degrees: self.degrees }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::binomial::acceptance_region;
    use crate::statistics::test_draws::Draws;

    /// Thirty-one and thirty-seven numbers without a pattern, by a linear congruence.
    fn numbers(count: u64, seed: u64) -> Vec<f64> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 101.0).collect()
    }

    #[test]
    fn p_values_are_those_of_scipy() {
        // scipy.stats.ttest_ind(now, before, equal_var=False) and ttest_rel(now, before) of the same numbers:
        // b = [((i*7919+3*104729)%1009)/101 for i in range(31)], n = [((i*7919+5*104729)%1009)/101 + 2 for i in range(37)]
        let (before, mut now) = (numbers(31, 3), numbers(37, 5));
        now.iter_mut().for_each(|value| *value += 2.0);
        let welch = TwoSample::independent(&before, &now);
        let paired = TwoSample::paired(&before, &now[..31]);
        for (found, degrees, p) in
            [(welch, 63.37295988247335, 0.0037070601365672587), (paired, 30.0, 0.02717215185226109)]
        {
            assert!((found.degrees / degrees - 1.0).abs() < 1e-12, "{found:?}");
            let got = found.p_value(0.0, 0.05).expect("judgeable");
            assert!((got / p - 1.0).abs() < 1e-10, "{got} {p}");
        }
    }

    #[test]
    fn the_same_values_have_not_moved_and_a_shift_beyond_the_tolerance_has() {
        let before = numbers(31, 3);
        let same = TwoSample::paired(&before, &before);
        assert_eq!((same.difference, same.p_value(0.0, 1e-6)), (0.0, Some(1.0)));
        // Powers of two: the shift is exact.
        let grid: Vec<f64> = before.iter().map(|value| (value * 64.0).round() / 64.0).collect();
        let shifted: Vec<f64> = grid.iter().map(|value| value + 0.25).collect();
        let moved = TwoSample::paired(&grid, &shifted);
        assert_eq!((moved.standard_error, moved.p_value(0.2, 1e-6)), (0.0, Some(0.0)));
        assert_eq!(moved.p_value(0.25, 1e-6), Some(1.0));
        assert_eq!(TwoSample::paired(&before[..29], &before[..29]).p_value(0.0, 0.05), None, "29 trials");
        let broken: Vec<f64> = before.iter().map(|_| f64::NAN).collect();
        assert_eq!(TwoSample::paired(&before, &broken).p_value(0.0, 0.05), None);
    }

    #[test]
    fn skewed_runs_of_very_unequal_length_are_not_judged_far_out() {
        let mut draws = Draws::new(31);
        let exponential: Vec<f64> = (0..2003).map(|_| -draws.uniform().ln()).collect();
        let unequal = TwoSample::independent(&exponential[..31], &exponential[31..]);
        assert!(unequal.skewness.abs() > 0.1 && !unequal.judgeable(1e-6), "{unequal:?}");
        let equal = TwoSample::independent(&exponential[..1001], &exponential[1001..2002]);
        assert!(equal.skewness == 0.0 && equal.judgeable(1e-9), "{equal:?}");
    }

    #[test]
    fn false_alarms_and_power_are_as_promised_by_simulation() {
        // Exponential trials, 401 before and 433 now, unpaired: symmetric nearly, not normal.
        let (runs, alpha, beta) = (8009u64, 0.05, 0.1);
        let mut draws = Draws::new(37);
        let mut sample = |count: usize, factor: f64, shift: f64| -> Vec<f64> {
            (0..count).map(|_| shift - factor * draws.uniform().ln()).collect()
        };
        let (mut alarms, mut judged, mut seen) = (0, 0, 0);
        for _ in 0..runs {
            let before = sample(401, 1.0, 0.0);
            let now = sample(433, 1.0, 0.0);
            let test = TwoSample::independent(&before, &now);
            let Some(p) = test.p_value(0.0, alpha) else { continue };
            judged += 1;
            alarms += u64::from(p <= alpha);
            // A shift of what this very pair says it would see.
            let detectable = test.min_detectable(0.0, alpha, beta).expect("judgeable");
            let moved: Vec<f64> = sample(433, 1.0, detectable);
            let other = TwoSample::independent(&before, &moved);
            seen += u64::from(other.p_value(0.0, alpha).is_some_and(|p| p <= alpha) || !other.judgeable(alpha));
        }
        assert!(judged > runs * 9 / 10, "{judged}");
        // Leaving out the most lopsided samples changes the rate a little: a tenth of α, and chance at 1e-6.
        let (low, high) =
            (acceptance_region(judged, 0.9 * alpha, 1e-6).0, acceptance_region(judged, 1.1 * alpha, 1e-6).1);
        assert!((low..=high).contains(&alarms), "{alarms} of {judged} outside {low}..={high}");
        let low = acceptance_region(judged, 1.0 - beta - 0.04, 1e-6).0;
        assert!(seen >= low, "{seen} of {judged} below {low}");
    }
}
