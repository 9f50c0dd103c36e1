//! Against mpmath, by inversion and by simulation.

use super::*;
use crate::statistics::binomial::acceptance_region;
use crate::statistics::moments::ColumnMoments;
use crate::statistics::test_draws::Draws;

const MODEL: SkewedStudent = SkewedStudent { expected: 1.0, sample_variance: 2.0, skewness: 0.0, trials: 31 };

fn close(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} is not {expected}");
}

#[test]
fn without_skewness_it_is_students_test() {
    // T = 31, mean deviation 0.5, s² = 2: scipy 2·t.sf(0.5/√(2/31), 30), t.ppf(0.975, 30).
    close(MODEL.p_value(1.5, 0.05).expect("judgeable"), 0.05831093541811469, 1e-12);
    let (low, high) = MODEL.interval(1.5, 0.05).expect("judgeable");
    let reach = 2.0422724563012378 * (2.0f64 / 31.0).sqrt();
    close(high - 1.5, reach, 1e-12);
    close(1.5 - low, reach, 1e-12);
}

#[test]
fn the_transformation_agrees_with_an_independent_evaluation() {
    // mpmath: T = 50, g = 0.8, t = ±2.5 gives h = 2.761965848634565 and −2.252848966180250; scipy 2·t.sf(|h|, 49).
    let model = SkewedStudent { expected: 0.0, sample_variance: 50.0, skewness: 0.8, trials: 50 };
    close(model.p_value(2.5, 0.2).expect("judgeable"), 0.008065948532269985, 1e-12);
    close(model.p_value(-2.5, 0.2).expect("judgeable"), 0.0287802637116381, 1e-12);
}

#[test]
fn the_interval_ends_where_the_test_rejects() {
    let model = SkewedStudent { skewness: -0.7, trials: 101, ..MODEL };
    let (low, high) = model.interval(1.3, 0.05).expect("judgeable");
    for end in [low, high] {
        let shifted = SkewedStudent { expected: end, ..model };
        // The quantile and the tail of Student's law agree to about 1e-12.
        close(shifted.p_value(1.3, 0.05).expect("judgeable"), 0.05, 1e-9);
    }
    assert!(high - 1.3 < 1.3 - low, "a tail to the left reaches left");
}

#[test]
fn few_or_skewed_trials_are_not_judged_and_nan_never_passes() {
    assert!(!SkewedStudent { trials: 29, ..MODEL }.judgeable(0.05));
    // At 1e-6, z = 4.89: 0.5·(0.82·117/T)² ≤ 0.1 needs T ≥ 215, and (3/8)·g²·z⁴/T ≤ 0.1 with g = 1 needs T ≥ 2147 (by hand).
    assert!(!SkewedStudent { trials: 210, ..MODEL }.judgeable(1e-6));
    assert!(SkewedStudent { trials: 220, ..MODEL }.judgeable(1e-6));
    assert!(!SkewedStudent { trials: 2100, skewness: 1.0, ..MODEL }.judgeable(1e-6));
    assert!(SkewedStudent { trials: 2200, skewness: 1.0, ..MODEL }.judgeable(1e-6));
    assert!(!SkewedStudent { skewness: f64::NAN, ..MODEL }.judgeable(0.05));
    assert_eq!(MODEL.p_value(f64::NAN, 0.05), None);
    let fixed = SkewedStudent { sample_variance: 0.0, ..MODEL };
    assert_eq!((fixed.p_value(1.0, 0.05), fixed.p_value(1.1, 0.05)), (Some(1.0), Some(0.0)));
}

#[test]
fn exponential_trials_keep_the_rate_where_students_test_does_not() {
    // Skewness 2, at the fewest trials that are judgeable at 0.05 with it.
    let (runs, alpha) = (40_009u64, 0.05);
    let exact = |trials: u64| SkewedStudent { expected: 1.0, sample_variance: 1.0, skewness: 2.0, trials };
    let trials = smallest_trials(10_000, |trials| exact(trials).judgeable(alpha)).expect("reachable");
    let mut draws = Draws::new(31);
    let (mut alarms, mut plain) = (0u64, 0u64);
    for _ in 0..runs {
        let mut moments = ColumnMoments::new(1);
        (0..trials).for_each(|_| moments.push(&[-draws.uniform().ln()]));
        let model = SkewedStudent {
            sample_variance: moments.sample_variance(0).expect("several"),
            skewness: moments.skewness(0).expect("several"),
            ..exact(trials)
        };
        let mean = moments.mean(0).expect("several");
        // Judged whatever its own skewness says: the guard may not choose the easy samples here.
        let t = (mean - 1.0) / model.standard_error();
        alarms += u64::from(model.law().two_sided_p(model.straighten(t)) < alpha);
        plain += u64::from(model.law().two_sided_p(t) < alpha);
    }
    println!(
        "{trials} trials, rate {} and of the plain test {}",
        alarms as f64 / runs as f64,
        plain as f64 / runs as f64
    );
    let low = acceptance_region(runs, (1.0 - DISTORTION_LIMIT) * alpha, 1e-6).0;
    let high = acceptance_region(runs, (1.0 + DISTORTION_LIMIT) * alpha, 1e-6).1;
    assert!((low..=high).contains(&alarms), "{alarms} outside {low}..={high}");
    // The plain test is off by more than chance at 1e-3 explains.
    assert!(plain > acceptance_region(runs, alpha, 1e-3).1, "{plain}");
}

#[test]
fn planning_inverts_the_detectable_shift_and_leaves_room_for_a_skewer_sample() {
    let pilot = SkewedStudent { expected: 5.0, sample_variance: 4.0, skewness: 0.3, trials: 1 };
    let trials = pilot.trials_needed((0.01, 0.1), 0.2, 3.3, 1 << 30).expect("reachable");
    let seen = |trials: u64| {
        let skewness = 0.3 + 3.3 * (6.0 / trials as f64).sqrt();
        SkewedStudent { trials, skewness, ..pilot }.min_detectable(0.01, 0.1)
    };
    assert!(seen(trials).expect("judgeable") <= 0.2);
    assert!(seen(trials - 1).is_none_or(|shift| shift > 0.2), "{trials}");
}
