//! Do the draws follow the laws they claim? Every statistic has a false-alarm rate of 1e-6 (two-sided) for a correct
//! sampler with a random seed; the seeds are fixed, so a failure is a fault. Each kind is shown to reject a mutant.

use statrs::distribution::{ContinuousCDF, Laplace, Normal, StudentsT};

use super::*;
use crate::sampling::parameter_point;

/// Draws per statistic: a prime, so that groups and rows are cut.
const DRAWS: usize = 1_000_003;
/// Standard normal quantile of 1 - 5e-7 (scipy.stats.norm.isf).
const SCORE_LIMIT: f64 = 4.891_638;
/// Asymptotic limit of √n D: √(ln(2 / 1e-6) / 2), from P(√n D > x) ≤ 2 exp(−2 x²) (Massart, 1990).
const DISTANCE_LIMIT: f64 = 2.693_393;
/// High enough for the eighth moment, which the fourth moment's error bar needs, to be tame.
const DEGREES: f64 = 23.0;

const CONTINUOUS: [Entries; 4] = [Entries::Normal, Entries::Uniform, Entries::Laplace, Entries::StudentT(DEGREES)];

fn draws<T: Drawable>(entries: Entries, stream: TrialStream, matrix: MatrixId) -> Vec<f64> {
    let mut out = vec![T::ZERO; DRAWS];
    fill(entries, &stream, matrix, 0, DRAWS, &mut out);
    out.into_iter().map(T::to_f64).collect()
}

/// E x², E x⁴, E x⁶, E x⁸ of the standardised law, in closed form.
fn even_moments(entries: Entries) -> [f64; 4] {
    match entries {
        Entries::Normal => [1.0, 3.0, 15.0, 105.0],
        // 3^j / (2j + 1).
        Entries::Uniform => [1.0, 9.0 / 5.0, 27.0 / 7.0, 9.0],
        Entries::Rademacher => [1.0; 4],
        // (2j)! / 2^j.
        Entries::Laplace => [1.0, 6.0, 90.0, 2520.0],
        // Product over i ≤ j of (nu - 2) (2i - 1) / (nu - 2i).
        Entries::StudentT(nu) => {
            let mut product = 1.0;
            [1.0, 2.0, 3.0, 4.0].map(|i| {
                product *= (nu - 2.0) * (2.0 * i - 1.0) / (nu - 2.0 * i);
                product
            })
        }
    }
}

/// The standard scores of the sample means of x, x², x³, x⁴.
fn moment_scores(values: &[f64], moments: [f64; 4]) -> [f64; 4] {
    let [m2, m4, m6, m8] = moments;
    let expected = [0.0, m2, 0.0, m4];
    let variances = [m2, m4 - m2 * m2, m6, m8 - m4 * m4];
    std::array::from_fn(|k| {
        let mean = values.iter().map(|x| x.powi(k as i32 + 1)).sum::<f64>() / values.len() as f64;
        (mean - expected[k]) / (variances[k] / values.len() as f64).sqrt()
    })
}

/// Kolmogorov and Smirnov's √n sup |Fₙ − F|.
fn distance(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let largest = sorted.iter().enumerate().fold(0.0_f64, |largest, (k, &x)| {
        let probability = cdf(x);
        largest.max(probability - k as f64 / n).max((k + 1) as f64 / n - probability)
    });
    largest * n.sqrt()
}

fn cumulative(entries: Entries) -> Box<dyn Fn(f64) -> f64> {
    match entries {
        Entries::Normal => {
            let law = Normal::standard();
            Box::new(move |x| law.cdf(x))
        }
        Entries::Uniform => Box::new(|x| (0.5 + x / 12.0_f64.sqrt()).clamp(0.0, 1.0)),
        Entries::Rademacher => unreachable!("not continuous"),
        Entries::Laplace => {
            let law = Laplace::new(0.0, 0.5_f64.sqrt()).expect("a positive scale");
            Box::new(move |x| law.cdf(x))
        }
        Entries::StudentT(nu) => {
            let scale = ((nu - 2.0) / nu).sqrt();
            let law = StudentsT::new(0.0, scale, nu).expect("positive scale and degrees");
            Box::new(move |x| law.cdf(x))
        }
    }
}

fn in_both_precisions(entries: Entries, seed: u64) -> [Vec<f64>; 2] {
    let stream = TrialStream::new(seed, parameter_point(&[7]), 1);
    [draws::<f32>(entries, stream, MatrixId::QUERIES), draws::<f64>(entries, stream, MatrixId::QUERIES)]
}

#[test]
fn the_first_four_moments_are_those_of_the_law() {
    for entries in CONTINUOUS {
        for values in in_both_precisions(entries, 101) {
            let scores = moment_scores(&values, even_moments(entries));
            assert!(scores.iter().all(|score| score.abs() < SCORE_LIMIT), "{entries}: {scores:?}");
        }
    }
}

#[test]
fn the_distribution_function_is_that_of_the_law() {
    for entries in CONTINUOUS {
        for values in in_both_precisions(entries, 103) {
            // statrs takes microseconds for one value of this law's function: fewer draws.
            let count = if entries == Entries::StudentT(DEGREES) { DRAWS / 5 } else { DRAWS };
            let distance = distance(&values[..count], cumulative(entries));
            assert!(distance < DISTANCE_LIMIT, "{entries}: {distance}");
        }
    }
}

#[test]
fn mutants_of_the_normal_are_rejected() {
    let [values, _] = in_both_precisions(Entries::Normal, 107);
    let moments = even_moments(Entries::Normal);
    let standard = cumulative(Entries::Normal);
    // Two per cent too wide: the variance is 4 % off, 28 standard errors; the distance 0.00484 √n = 4.8.
    let wide: Vec<f64> = values.iter().map(|x| 1.02 * x).collect();
    assert!(moment_scores(&wide, moments)[1] > SCORE_LIMIT);
    assert!(distance(&wide, &standard) > DISTANCE_LIMIT);
    // Off centre by 0.01: 10 standard errors.
    let shifted: Vec<f64> = values.iter().map(|x| x + 0.01).collect();
    assert!(moment_scores(&shifted, moments)[0] > SCORE_LIMIT);
    // Cut at 3: the fourth moment loses more than 2 E[x⁴ − 81; x > 3] = 0.13, 13 standard errors.
    let cut: Vec<f64> = values.iter().map(|x| x.clamp(-3.0, 3.0)).collect();
    assert!(moment_scores(&cut, moments)[3] < -SCORE_LIMIT);
}

#[test]
fn rademacher_entries_are_signs_with_even_odds() {
    for values in in_both_precisions(Entries::Rademacher, 109) {
        assert!(values.iter().all(|x| x.abs() == 1.0));
        let score = values.iter().sum::<f64>() / (DRAWS as f64).sqrt();
        assert!(score.abs() < SCORE_LIMIT, "{score}");
    }
}

/// Standard scores of the correlations of x with y and of x² with y² (0 for Rademacher, whose squares are 1).
fn correlation_scores(x: &[f64], y: &[f64], fourth_moment: f64) -> [f64; 2] {
    let pairs = || x.iter().zip(y);
    let n = x.len().min(y.len()) as f64;
    let values = pairs().map(|(x, y)| x * y).sum::<f64>() / n.sqrt();
    let squares = pairs().map(|(x, y)| (x * x - 1.0) * (y * y - 1.0)).sum::<f64>();
    let spread = if fourth_moment > 1.0 { fourth_moment - 1.0 } else { 1.0 };
    [values, squares / n.sqrt() / spread]
}

#[test]
fn neighbouring_elements_trials_matrices_points_and_seeds_are_uncorrelated() {
    let all = [Entries::Normal, Entries::Uniform, Entries::Rademacher, Entries::Laplace, Entries::StudentT(DEGREES)];
    let (seed, point) = (113, parameter_point(&[7]));
    for entries in all {
        let fourth_moment = even_moments(entries)[1];
        let check = |what: &str, x: &[f64], y: &[f64]| {
            let scores = correlation_scores(x, y, fourth_moment);
            assert!(scores.iter().all(|score| score.abs() < SCORE_LIMIT), "{entries}, {what}: {scores:?}");
        };
        let base = TrialStream::new(seed, point, 1);
        let values = draws::<f32>(entries, base, MatrixId::QUERIES);
        // Lanes, the two outputs of a Box-Muller pair (16), the pairs of a block (32), groups (64), a matrix row.
        for lag in [1, 2, 15, 16, 17, 32, 48, 64, 101, 2048] {
            check(&format!("lag {lag}"), &values, &values[lag..]);
        }
        let double = draws::<f64>(entries, base, MatrixId::QUERIES);
        for lag in [1, 16, 32, 2048] {
            check(&format!("f64, lag {lag}"), &double, &double[lag..]);
        }
        let others = [
            ("next trial", TrialStream::new(seed, point, 2), MatrixId::QUERIES),
            ("next matrix", base, MatrixId::KEYS),
            ("next seed", TrialStream::new(seed + 1, point, 1), MatrixId::QUERIES),
            ("next point", TrialStream::new(seed, point + 1, 1), MatrixId::QUERIES),
        ];
        for (what, stream, matrix) in others {
            check(what, &values, &draws::<f32>(entries, stream, matrix));
        }
    }
}

#[test]
fn a_correlation_of_one_per_cent_is_seen() {
    let stream = TrialStream::new(127, 0, 1);
    let x = draws::<f32>(Entries::Normal, stream, MatrixId::QUERIES);
    let mut y = draws::<f32>(Entries::Normal, stream, MatrixId::KEYS);
    for (y, x) in y.iter_mut().zip(&x) {
        *y += 0.01 * x; // 10 standard errors
    }
    assert!(correlation_scores(&x, &y, 3.0)[0] > SCORE_LIMIT);
    // A shared radius leaves values uncorrelated but not their squares: a mutant that uses one u for two pairs.
    let paired: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x * (1.0 + 0.02 * y * y)).collect();
    assert!(correlation_scores(&paired, &y, 3.0)[1] > SCORE_LIMIT);
}

#[test]
fn normal_tails_beyond_four_and_five_are_as_frequent_as_they_should_be() {
    // 2^25 draws; Poisson limits at 5e-7 on each side (scipy.stats.poisson) for means 2125.4 and 19.237.
    fn counts<T: Drawable>() -> [usize; 2] {
        let stream = TrialStream::new(131, 0, 1);
        let mut values = vec![T::ZERO; 1 << 16];
        let mut counts = [0; 2];
        for piece in 0..1 << 9 {
            let first = piece * values.len();
            let matrix = MatrixId::QUERIES;
            fill(Entries::Normal, &stream, matrix, first, 1, &mut values);
            for value in &values {
                let size = value.to_f64().abs();
                counts[0] += usize::from(size > 4.0);
                counts[1] += usize::from(size > 5.0);
            }
        }
        counts
    }
    for [beyond_four, beyond_five] in [counts::<f32>(), counts::<f64>()] {
        assert!((1904..=2355).contains(&beyond_four), "{beyond_four}");
        assert!((2..=44).contains(&beyond_five), "{beyond_five}");
    }
}
