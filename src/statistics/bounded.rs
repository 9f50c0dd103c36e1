//! Tests of the mean of bounded values that hold whatever their law: a bet against the null hypothesis.
//!
//! Values x₁, x₂, … in \[0, 1\] with conditional mean μ. A gambler who starts with capital 1 and stakes λ_t, chosen before
//! x_t is seen and within (−1/(1−μ), 1/μ), holds K_t = Π (1 + λ_s (x_s − μ)) ≥ 0, whose expectation stays 1. By Ville's
//! inequality P(max_t K_t ≥ 1/α) ≤ α: p = 1/max K is a p-value at EVERY sample size, for every law on \[0, 1\] (Waudby-Smith &
//! Ramdas, *Estimating means of bounded random variables by betting*, J. R. Stat. Soc. B 86, 2024).
//!
//! Why this and not the empirical Bernstein bound (Maurer & Pontil 2009): its term 7 ln(4/α)/(3(T−1)) alone asks for 3800
//! trials to see a shift of 0.01 at α = 1e-6, however little the values vary; the bet needs a few hundred to 1700 there.
//! Why not Student's t: where rare values carry the mean, its rate is not what it says.

use super::error_model::smallest_trials;
use super::law::Law;

/// The largest share of the capital that one value may lose. Below 1, so that no single value ends the game.
const LARGEST_LOSS: f64 = 0.95;
/// The first guess of the variance, as a share of the largest one that the mean allows: means of many rows vary little.
const FIRST_GUESS: f64 = 1.0 / 16.0;
/// What learning the stake costs, in nats, beyond ½ ln T: measured by simulation (see the tests).
const LEARNING: f64 = 2.0;
/// Widest search for an interval: halvings of the distance to the end of the range, and as many bisections.
const HALVINGS: u32 = 40;

/// p-value of the hypothesis that `values`, all in \[0, 1\] and in the order they came, have mean `mean` (0 ≤ mean ≤ 1).
///
/// Two-sided: the stake follows the deviation seen so far (aGRAPA of Waudby-Smith & Ramdas: λ = δ̂/(σ̂² + δ̂²), clipped), from
/// a first guess that is the hypothesis itself. NaN among the values gives NaN.
pub fn betting_p_value(values: &[f64], mean: f64) -> f64 {
    // A mean at an end of the range allows one value only.
    if (mean == 0.0 || mean == 1.0) && values.iter().any(|&value| value != mean) {
        return if values.iter().any(|value| value.is_nan()) { f64::NAN } else { 0.0 };
    }
    let (lowest, highest) = (-LARGEST_LOSS / (1.0 - mean), LARGEST_LOSS / mean);
    let (mut count, mut average, mut squares) = (1.0, mean, FIRST_GUESS * mean * (1.0 - mean));
    let (mut capital, mut largest) = (0.0f64, 0.0f64);
    for &value in values {
        let deviation = average - mean;
        if deviation != 0.0 {
            let stake = (deviation / (squares / count + deviation * deviation)).clamp(lowest, highest);
            capital += (stake * (value - mean)).ln_1p();
            largest = largest.max(capital);
        }
        if value.is_nan() {
            return f64::NAN;
        }
        count += 1.0;
        let step = value - average;
        average += step / count;
        squares += step * (value - average);
    }
    (-largest).exp()
}

/// The same for the hypothesis that the mean lies within `low`..=`high`: the value at the end nearer to the data.
pub fn betting_p_value_within(values: &[f64], low: f64, high: f64) -> f64 {
    let average = values.iter().sum::<f64>() / values.len().max(1) as f64;
    match average {
        average if average < low => betting_p_value(values, low.max(0.0)),
        average if average > high => betting_p_value(values, high.min(1.0)),
        average if average.is_nan() => f64::NAN,
        _ => 1.0,
    }
}

/// The (1 − error) confidence interval of the mean of `values`, all in \[0, 1\]: means that [`betting_p_value`] does not
/// reject at `error`. None without values or with NaN among them.
///
/// Each end is sought from the end of the range inwards, so that it errs to the wide side.
pub fn betting_interval(values: &[f64], error: f64) -> Option<(f64, f64)> {
    let average = values.iter().sum::<f64>() / values.len() as f64;
    if !(0.0..=1.0).contains(&average) {
        return None;
    }
    let end = |bound: f64| {
        let at = |share: f64| average + (bound - average) * share;
        let kept = |share: f64| betting_p_value(values, at(share)) >= error;
        // Rejected beyond `outside`, kept at `inside`.
        let (mut outside, mut inside) = (1.0, 1.0);
        for _ in 0..HALVINGS {
            if kept(inside) {
                break;
            }
            outside = inside;
            inside *= 0.5;
        }
        for _ in 0..20 {
            let middle = 0.5 * (outside + inside);
            if kept(middle) { inside = middle } else { outside = middle }
        }
        at(outside)
    };
    Some((end(0.0), end(1.0)))
}

/// Values in \[0, 1\] summarised for planning: what a bet against `expected` can see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedModel {
    /// Mean under the null hypothesis.
    pub expected: f64,
    /// Variance of one value.
    pub variance: f64,
    /// Number of values.
    pub trials: u64,
}

impl BoundedModel {
    /// The size above which every possible shift of the mean is seen at level `alpha` with probability about 1 − `beta`:
    /// a mean cannot fall by more than `expected` or rise by more than 1 − `expected`. None where nothing is seen.
    pub fn min_detectable(&self, alpha: f64, beta: f64) -> Option<f64> {
        let mean = self.expected;
        if !(0.0..=1.0).contains(&mean) || !self.variance.is_finite() {
            return None;
        }
        let seen = |room: f64, worst: f64| {
            let seen = |shift: f64| self.is_seen(shift, worst, alpha, beta);
            if !seen(room) {
                return None;
            }
            let (mut unseen, mut seen_shift) = (0.0, room);
            for _ in 0..60 {
                let middle = 0.5 * (unseen + seen_shift);
                if seen(middle) { seen_shift = middle } else { unseen = middle }
            }
            Some(seen_shift)
        };
        let (up, down) = (seen(1.0 - mean, mean), seen(mean, 1.0 - mean));
        match (up, down) {
            (None, None) => None,
            _ => Some(up.unwrap_or(1.0 - mean).max(down.unwrap_or(mean))),
        }
    }

    /// Whether a shift is seen: ln K grows by at least λδ − λ²(σ² + δ²)h(λw) a trial, where a value loses at most λw
    /// and h(u) = (−ln(1−u) − u)/u² (Fan, Grama & Liu 2015), less its own scatter and what learning λ costs.
    fn is_seen(&self, shift: f64, worst: f64, alpha: f64, beta: f64) -> bool {
        let trials = self.trials as f64;
        let needed = -alpha.ln() + 0.5 * trials.ln() + LEARNING;
        let margin = Law::Normal.upper_quantile(beta).max(0.0);
        let spread = self.variance + shift * shift;
        let largest = LARGEST_LOSS / worst.max(1e-12);
        // The best stake of the parabola with h = 1/2 and shares of it, none above the largest.
        let best = shift / spread.max(1e-300);
        (0..40).any(|step| {
            let stake = (best * 0.85f64.powi(step)).min(largest * 0.97f64.powi(step));
            let loss = stake * worst;
            let curvature = if loss < 1e-4 { 0.5 + loss / 3.0 } else { (-(-loss).ln_1p() - loss) / (loss * loss) };
            let parabola = stake * shift - stake * stake * spread * curvature;
            let growth = trials * parabola - margin * (trials * self.variance).sqrt() * stake;
            growth >= needed
        })
    }

    /// The fewest trials, at most `maximum`, with which every shift above `detect` is seen.
    pub fn trials_needed(&self, alpha: f64, beta: f64, detect: f64, maximum: u64) -> Option<u64> {
        smallest_trials(maximum, |trials| {
            let planned = BoundedModel { trials, ..*self };
            planned.min_detectable(alpha, beta).is_some_and(|smallest| smallest <= detect)
        })
    }
}

#[cfg(test)]
#[path = "bounded_tests.rs"]
mod tests;
