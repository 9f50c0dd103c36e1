//! Exact binomial intervals and acceptance regions, by which the tool's own error rates are checked.

use super::quadrature::root;
use super::special::{ln_gamma_star, logarithm_deficit};

/// P(X = k) for X ~ Binomial(n, p), 0 ≤ k ≤ n, relatively accurate (Loader 2000: "Fast and accurate computation of
/// binomial probabilities").
pub fn probability(successes: u64, trials: u64, p: f64) -> f64 {
    if successes > trials {
        return 0.0;
    }
    let (n, k, q) = (trials as f64, successes as f64, 1.0 - p);
    if p <= 0.0 || q <= 0.0 {
        let certain = if p <= 0.0 { 0 } else { trials };
        return if successes == certain { 1.0 } else { 0.0 };
    }
    if successes == 0 {
        return (n * (-p).ln_1p()).exp();
    }
    if successes == trials {
        return (n * p.ln()).exp();
    }
    // Deviance x·ln(x/m) + m − x, free of cancellation near x = m.
    let deviance = |x: f64, mean: f64| x * logarithm_deficit((mean - x) / x);
    let stirling = ln_gamma_star(n) - ln_gamma_star(k) - ln_gamma_star(n - k);
    let front = (n / (2.0 * std::f64::consts::PI * k * (n - k))).sqrt();
    front * (stirling - deviance(k, n * p) - deviance(n - k, n * q)).exp()
}

/// P(X ≥ k) for X ~ Binomial(n, p), relatively accurate above the mean.
pub fn upper_tail(successes: u64, trials: u64, p: f64) -> f64 {
    if successes == 0 {
        return 1.0;
    }
    if successes > trials {
        return 0.0;
    }
    if (successes as f64) > trials as f64 * p {
        falling_sum(successes, trials, p)
    } else {
        (1.0 - falling_sum(trials - successes + 1, trials, 1.0 - p)).max(0.0)
    }
}

/// P(X ≤ k) for X ~ Binomial(n, p), relatively accurate below the mean.
pub fn lower_tail(successes: u64, trials: u64, p: f64) -> f64 {
    if successes >= trials { 1.0 } else { upper_tail(trials - successes, trials, 1.0 - p) }
}

/// Σ_{j ≥ k} P(X = j) for k above the mean: positive terms that fall from the first on.
fn falling_sum(successes: u64, trials: u64, p: f64) -> f64 {
    let mut term = probability(successes, trials, p);
    let mut sum = term;
    let odds = p / (1.0 - p);
    for k in successes..trials {
        term *= (trials - k) as f64 / (k + 1) as f64 * odds;
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    sum.min(1.0)
}

/// The exact interval of Clopper & Pearson 1934 for a success probability: both one-sided errors are ≤ `error`/2.
/// With no trials it is [0, 1]. `successes` above `trials` is taken as `trials`.
pub fn clopper_pearson(successes: u64, trials: u64, error: f64) -> (f64, f64) {
    let successes = successes.min(trials);
    let side = 0.5 * error;
    let solve = |tail: &dyn Fn(f64) -> f64| root(0.0, 1.0, |p| tail(p).ln() - side.ln());
    let low = if successes == 0 { 0.0 } else { solve(&|p| upper_tail(successes, trials, p)) };
    let high = if successes == trials { 1.0 } else { solve(&|p| lower_tail(successes, trials, p)) };
    (low, high)
}

/// The smallest range lo..=hi of counts that Binomial(n, p) leaves on either side with probability ≤ `error`/2: a
/// calibration test that accepts exactly these counts has a false-alarm rate ≤ `error`.
pub fn acceptance_region(trials: u64, p: f64, error: f64) -> (u64, u64) {
    let side = 0.5 * error;
    // lo: the largest count with P(X < lo) ≤ side; hi: the smallest with P(X > hi) ≤ side. Both tails are monotone.
    let (mut low, mut beyond) = (0, trials + 1);
    while beyond - low > 1 {
        let middle = low + (beyond - low) / 2;
        if lower_tail(middle - 1, trials, p) <= side {
            low = middle;
        } else {
            beyond = middle;
        }
    }
    let (mut high, mut accepted) = (0, trials);
    if upper_tail(1, trials, p) <= side {
        return (low, 0);
    }
    while accepted - high > 1 {
        let middle = high + (accepted - high) / 2;
        if upper_tail(middle + 1, trials, p) <= side {
            accepted = middle;
        } else {
            high = middle;
        }
    }
    (low, accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() < tolerance, "{got:e} instead of {expected:e}");
    }

    #[test]
    fn probabilities_match_exact_fractions() {
        // Binomial(5, ⅓): C(5,2)·(1/3)²·(2/3)³ = 80/243; P(X ≥ 4) = (10 + 1)/243; Binomial(3, p = 2⁻⁴⁰) at 2: 3p²q.
        close(probability(2, 5, 1.0 / 3.0), 80.0 / 243.0, 1e-14);
        close(upper_tail(4, 5, 1.0 / 3.0), 11.0 / 243.0, 1e-14);
        close(lower_tail(1, 5, 1.0 / 3.0), 112.0 / 243.0, 1e-14);
        let tiny = 2f64.powi(-40);
        close(probability(2, 3, tiny), 3.0 * tiny * tiny * (1.0 - tiny), 1e-13);
        assert_eq!((probability(0, 7, 0.0), probability(7, 7, 1.0), probability(8, 7, 0.5)), (1.0, 1.0, 0.0));
        // Every p must make the probabilities sum to 1.
        let total: f64 = (0..=1009).map(|k| probability(k, 1009, 0.137)).sum();
        close(total, 1.0, 1e-12);
    }

    #[test]
    fn clopper_pearson_matches_closed_forms_and_scipy() {
        // No success: [0, 1 − (e/2)^{1/n}]; all successes mirrored.
        let (low, high) = clopper_pearson(0, 17, 0.05);
        assert_eq!(low, 0.0);
        close(high, 1.0 - 0.025f64.powf(1.0 / 17.0), 1e-12);
        let (low, high) = clopper_pearson(17, 17, 0.05);
        assert_eq!(high, 1.0);
        close(low, 0.025f64.powf(1.0 / 17.0), 1e-12);
        assert_eq!(clopper_pearson(0, 0, 0.05), (0.0, 1.0));
        // scipy 1.17 (scripts/reference/statistics_scipy.py), by quantiles of the beta law.
        let mut rows = 0;
        for line in include_str!("../../tests/golden/statistics.csv").lines() {
            let Some(fields) = line.strip_prefix("clopper_pearson,") else {
                continue;
            };
            let fields: Vec<f64> = fields.split(',').map(|field| field.parse().expect("a number")).collect();
            let got = clopper_pearson(fields[1] as u64, fields[0] as u64, fields[2]);
            close(got.0, fields[3], 1e-10);
            close(got.1, fields[4], 1e-10);
            rows += 1;
        }
        assert_eq!(rows, 5);
    }

    #[test]
    fn acceptance_regions_keep_their_error_and_are_as_small_as_can_be() {
        for (n, p, error) in
            [(2000u64, 0.05, 1e-6), (97, 0.5, 0.01), (11, 0.3, 0.05), (1000, 1e-6, 1e-4), (3, 0.5, 0.1)]
        {
            let (low, high) = acceptance_region(n, p, error);
            // By plain summation of the probabilities.
            let below = |k: u64| (0..k).map(|j| probability(j, n, p)).sum::<f64>();
            let above = |k: u64| (k + 1..=n).map(|j| probability(j, n, p)).sum::<f64>();
            assert!(below(low) <= error / 2.0 && above(high) <= error / 2.0, "{n} {p}");
            assert!(below(low + 1) > error / 2.0, "{n} {p}: lo {low} could be larger");
            assert!(high == 0 || above(high - 1) > error / 2.0, "{n} {p}: hi {high} could be smaller");
        }
        assert_eq!(acceptance_region(1000, 0.0, 0.01), (0, 0));
        assert_eq!(acceptance_region(10, 1.0, 0.01), (10, 10));
    }

    #[test]
    fn the_interval_and_the_acceptance_region_agree() {
        // p lies in the interval of a count exactly when the count lies in the acceptance region of p.
        for p in [0.03, 0.31, 0.5] {
            let (low, high) = acceptance_region(53, p, 0.02);
            for k in 0..=53 {
                let (from, to) = clopper_pearson(k, 53, 0.02);
                assert_eq!((from..=to).contains(&p), (low..=high).contains(&k), "p = {p}, k = {k}");
            }
        }
    }
}
