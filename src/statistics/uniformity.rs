//! Are p-values uniform? Kolmogorov–Smirnov tests, by which the calibration of other tests is judged.

use super::special::ln_gamma_star;
use std::f64::consts::PI;

/// Statistic and p-value of a Kolmogorov–Smirnov test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uniformity {
    /// The largest distance between the empirical distribution function and the diagonal.
    pub distance: f64,
    /// P(a sample of uniform values shows this distance or more).
    pub p_value: f64,
}

/// Two-sided test that the values are a sample of the uniform law on [0, 1] (Kolmogorov 1933). None if there are no
/// values or one is NaN or outside [0, 1].
///
/// The p-value is 2·(s − s⁴ + s⁹ − …) with s the EXACT one-sided probability at the distance (Kolmogorov's series
/// with e^{−2λ²} replaced by s): relative error below 1e-3 from 100 values on (6e-4 at worst against
/// scipy's exact law for p up to 0.86) and vanishing in the tail,
/// where 2s is exact.
pub fn uniformity(values: &[f64]) -> Option<Uniformity> {
    let (above, below) = distances(values)?;
    let distance = above.max(below);
    let single = one_sided_probability(values.len(), distance);
    Some(Uniformity { distance, p_value: two_sided_from(single) })
}

/// One-sided test that p-values are stochastically at least uniform, P(p ≤ u) ≤ u for every u: what a conservative test
/// (a discrete one, say) must fulfil. Small exactly when there are too many small p-values. The p-value is exact
/// (Birnbaum & Tingey 1951) and holds for ties. None as for [`uniformity`].
pub fn at_least_uniform(values: &[f64]) -> Option<Uniformity> {
    let (above, _) = distances(values)?;
    Some(Uniformity { distance: above, p_value: one_sided_probability(values.len(), above) })
}

/// (max F_n(u) − u, max u − F_n(u)).
fn distances(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() || values.iter().any(|value| !(0.0..=1.0).contains(value)) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let extremes = sorted.iter().enumerate().fold((0.0f64, 0.0f64), |(above, below), (rank, &value)| {
        (above.max((rank as f64 + 1.0) / count - value), below.max(value - rank as f64 / count))
    });
    Some(extremes)
}

/// P(D⁺ ≥ d) = d·Σ_j C(n,j)·(d + j/n)^{j−1}·(1 − d − j/n)^{n−j}, j ≤ n(1−d), for n uniform values: exact, positive terms.
fn one_sided_probability(count: usize, distance: f64) -> f64 {
    if distance <= 0.0 {
        return 1.0;
    }
    if distance >= 1.0 {
        return 0.0;
    }
    let n = count as f64;
    let last = (n * (1.0 - distance)).floor() as usize;
    let mut sum = 0.0;
    for index in 0..=last.min(count) {
        let j = index as f64;
        let (level, rest) = (distance + j / n, 1.0 - distance - j / n);
        // At j = n the last factor is rest⁰ = 1, but d > 0 keeps j below n; a rest of 0 contributes nothing.
        if rest <= 0.0 {
            continue;
        }
        let ln_choose = if index == 0 {
            0.0
        } else {
            // The powers of j/n and 1 − j/n in the binomial coefficient pair with those of level and rest.
            ln_gamma_star(n) - ln_gamma_star(j) - ln_gamma_star(n - j) + 0.5 * (n / (2.0 * PI * j * (n - j))).ln()
        };
        let powers = if index == 0 {
            n * rest.ln()
        } else {
            j * (distance * n / j).ln_1p() + (n - j) * (-distance * n / (n - j)).ln_1p()
        };
        sum += (ln_choose + powers - level.ln()).exp();
    }
    (distance * sum).min(1.0)
}

fn two_sided_from(single: f64) -> f64 {
    if single > 0.95 {
        // The alternating series ends in 1 there to more digits than a verdict needs (λ < 0.16: 1 − 1e-19).
        return 1.0;
    }
    let mut sum = 0.0;
    for k in 1..40 {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        sum += sign * single.powi(k * k);
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::test_draws::Draws;

    /// (n, distance, probability) by scipy 1.17, see scripts/reference/statistics_scipy.py.
    fn golden(name: &str) -> Vec<(usize, f64, f64)> {
        let number = |field: &str| field.parse::<f64>().expect("a number");
        include_str!("../../tests/golden/statistics.csv")
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|fields| fields[0] == name)
            .map(|fields| (number(fields[1]) as usize, number(fields[2]), number(fields[4])))
            .collect()
    }

    #[test]
    fn one_sided_probabilities_match_scipy_ksone() {
        for (n, distance, expected) in golden("one_sided") {
            let got = one_sided_probability(n, distance);
            assert!((got / expected - 1.0).abs() < 1e-10, "{n} {distance}: {got:e} instead of {expected:e}");
        }
        // n = 1: D⁺ = 1 − U, so P(D⁺ ≥ d) = 1 − d exactly.
        assert!((one_sided_probability(1, 0.3) - 0.7).abs() < 1e-15);
    }

    #[test]
    fn two_sided_probabilities_match_scipy_kstwo() {
        let mut worst = 0.0f64;
        for (n, distance, expected) in golden("two_sided") {
            let got = two_sided_from(one_sided_probability(n, distance));
            let error = (got / expected - 1.0).abs();
            worst = worst.max(error);
            // The documented bound.
            assert!(error < 1e-3, "{n} {distance}: {got:e} instead of {expected:e}");
        }
        println!("worst {worst:e}");
    }

    #[test]
    fn distances_of_a_hand_worked_sample_are_exact() {
        // 0.1, 0.4, 0.9: F−u = 1/3−0.1, 2/3−0.4, 1−0.9 → 4/15; u−F = 0.1, 0.4−1/3, 0.9−2/3 → 7/30.
        let (above, below) = distances(&[0.9, 0.1, 0.4]).expect("valid");
        assert!((above - 4.0 / 15.0).abs() < 1e-15 && (below - 7.0 / 30.0).abs() < 1e-15);
        assert_eq!(uniformity(&[]), None);
        assert_eq!(uniformity(&[0.5, f64::NAN]), None);
        assert_eq!(at_least_uniform(&[1.5]), None);
    }

    #[test]
    fn uniform_draws_pass_and_bent_ones_fail() {
        let mut draws = Draws::new(2);
        let values: Vec<f64> = (0..5003).map(|_| draws.uniform()).collect();
        assert!(uniformity(&values).expect("valid").p_value > 1e-3);
        // u^0.9 has too many large values: F(u) − u reaches −0.039, √n·0.039 = 2.7, p about 2e-6·…; one-sided it passes.
        let conservative: Vec<f64> = values.iter().map(|u| u.powf(0.9)).collect();
        assert!(uniformity(&conservative).expect("valid").p_value < 1e-4);
        assert!(at_least_uniform(&conservative).expect("valid").p_value > 0.05);
        let liberal: Vec<f64> = values.iter().map(|u| u.powf(1.0 / 0.9)).collect();
        assert!(at_least_uniform(&liberal).expect("valid").p_value < 1e-4);
    }

    #[test]
    fn p_values_of_the_test_itself_are_uniform() {
        // 401 samples of 101 uniform values each; the fraction of p ≤ 0.05 must lie in its exact binomial region at
        // error 1e-6.
        let mut draws = Draws::new(5);
        let small = (0..401)
            .filter(|_| {
                let values: Vec<f64> = (0..101).map(|_| draws.uniform()).collect();
                uniformity(&values).expect("valid").p_value <= 0.05
            })
            .count() as u64;
        let (low, high) = crate::statistics::binomial::acceptance_region(401, 0.05, 1e-6);
        assert!((low..=high).contains(&small), "{small} outside {low}..={high}");
    }
}
