//! What an allowance forgives, what a bound catches, and what planning asks for.

use super::*;
use crate::report::TheoryKind;

const SHARE: TrialTest = TrialTest { method: Method::Betting, bounds: (0.0, 1.0), unit: 1.0, allowance: 0.0 };

/// Judges `values` against a mean of 1/2 at level 1e-3.
fn judge(test: TrialTest, values: &[f64]) -> (Row, Option<f64>) {
    let mut columns = ColumnMoments::new(1);
    values.iter().for_each(|&value| columns.push(&[value]));
    let trials = Trials { columns: &columns, column: 0, values, count: values.len() as u64 };
    let row = Row { estimate: columns.mean(0), ..Row::new("test", "share") };
    let expected = Some(Expected { value: 0.5, kind: TheoryKind::Exact });
    test.judge(row, expected, &trials, 1e-3, 1e-3)
}

/// Alternating about `mean`, without skewness.
fn values(mean: f64) -> Vec<f64> {
    (0..400).map(|index| if index % 2 == 0 { mean - 0.01 } else { mean + 0.01 }).collect()
}

#[test]
fn a_shift_within_the_allowance_is_forgiven_and_one_beyond_it_is_not() {
    for method in [Method::Student, Method::Betting] {
        let strict = TrialTest { method, ..SHARE };
        let p = |test: TrialTest, mean: f64| judge(test, &values(mean)).0.p_value.expect("judgeable");
        assert!(p(strict, 0.53) < 1e-6, "{method:?}");
        let lenient = TrialTest { allowance: 0.04, ..strict };
        // Equal up to the rounding of a sum of 400.
        assert!(p(lenient, 0.53) > 0.99, "{method:?}");
        assert!(p(lenient, 0.58) < 1e-6, "{method:?}");
        let (row, seen) = judge(lenient, &values(0.5));
        let (_, seen_without) = judge(strict, &values(0.5));
        let difference = seen.expect("judgeable") - seen_without.expect("judgeable");
        assert!((difference - 0.04).abs() < 1e-12, "the smallest shift seen grows by the allowance: {difference}");
        assert!(row.test.expect("a test").contains("off by 4.0e-2"));
    }
}

#[test]
fn the_interval_contains_the_estimate_and_not_a_mean_far_from_it() {
    for method in [Method::Student, Method::Betting] {
        let (row, _) = judge(TrialTest { method, ..SHARE }, &values(0.53));
        let (low, high) = row.ci_low.zip(row.ci_high).expect("an interval");
        assert!(low < 0.53 && 0.53 < high && low > 0.5, "{method:?}: {low} to {high}");
    }
}

#[test]
fn a_value_outside_the_bounds_is_a_fault_whatever_the_mean() {
    let mut impossible = values(0.5);
    impossible[7] = 1.5;
    impossible[8] = -0.5;
    let (row, _) = judge(SHARE, &impossible);
    assert_eq!((row.p_value, row.ci_low), (Some(0.0), None));
    let (row, _) = judge(TrialTest { bounds: (-1.0, 2.0), ..SHARE }, &impossible);
    assert!(row.p_value.expect("judged") > 0.01);
}

#[test]
fn too_few_trials_are_not_judged_and_say_so() {
    let (row, seen) = judge(TrialTest { method: Method::Student, ..SHARE }, &values(0.5)[..20]);
    assert_eq!((row.p_value, seen), (None, None));
    assert!(row.test.expect("a test").starts_with("none: a spread from 20 trials"));
}

#[test]
fn a_theory_vaguer_than_the_deviation_asked_for_is_not_planned_for() {
    let vague = TrialTest { method: Method::Student, allowance: 0.02, unit: 0.0, ..SHARE };
    assert!(vague.is_vague(0.5, 0.01) && !vague.is_vague(0.5, 0.05));
    let rates = |detect| (1e-6, 1e-3, detect);
    assert_eq!(vague.trials_needed(0.5, (0.01, 0.0), rates(0.01), 1 << 30), Some(PILOT_TRIALS));
    // What the allowance leaves of the deviation must be seen: 0.05·0.5 − 0.02 = 0.005 against 0.025 without one.
    let vaguely = vague.trials_needed(0.5, (0.01, 0.0), rates(0.05), 1 << 30).expect("reachable");
    let exactly = TrialTest { allowance: 0.0, ..vague }.trials_needed(0.5, (0.01, 0.0), rates(0.05), 1 << 30);
    let ratio = vaguely as f64 / exactly.expect("reachable") as f64;
    // (0.025/0.005)² but for Student's law and the skewness, both nearer to their limits.
    assert!((15.0..27.0).contains(&ratio), "{ratio}");
}
