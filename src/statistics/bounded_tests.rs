//! By hand and by simulation.

use super::*;
use crate::statistics::binomial::acceptance_region;
use crate::statistics::test_draws::Draws;

#[test]
fn the_capital_agrees_with_a_hand_worked_game() {
    // Mean 1/2. Nothing is staked on the first value. After it the average is 3/4, the sum of squares 1/64 + 1/2·1/4 = 9/64 over a
    // count of 2: δ = 1/4, stake δ/(9/128 + 1/16) = 32/17, so that a second 1 brings 1 + 16/17; after a 0 p stays 1.
    assert!((betting_p_value(&[1.0, 1.0], 0.5) - 17.0 / 33.0).abs() < 1e-15);
    assert_eq!(betting_p_value(&[1.0, 0.0], 0.5), 1.0);
    assert_eq!(betting_p_value(&[], 0.5), 1.0);
}

#[test]
fn values_that_cannot_be_are_seen_at_once_and_nan_is_never_a_pass() {
    // Theory says never; one case is proof enough, none is no news.
    assert!(betting_p_value(&[0.0, 0.0, 0.01, 0.01], 0.0) < 1e-9);
    assert_eq!(betting_p_value(&[0.0; 1000], 0.0), 1.0);
    assert_eq!(betting_p_value(&[1.0; 1000], 1.0), 1.0);
    assert!(betting_p_value(&[1.0, 1.0, 0.5], 1.0) < 1e-9);
    assert!(betting_p_value(&[0.5, f64::NAN, 0.5], 0.5).is_nan());
    assert!(betting_p_value_within(&[f64::NAN], 0.1, 0.2).is_nan());
    assert_eq!(betting_interval(&[f64::NAN], 0.05), None);
    assert_eq!(betting_interval(&[], 0.05), None);
}

#[test]
fn no_law_makes_it_alarm_more_often_than_asked() {
    // Rare large values, which mislead Student's test, and a spread that is small beside the range.
    let (runs, trials) = (4001u64, 200);
    type LawOfValue = fn(&mut Draws) -> f64;
    let laws: [(&str, f64, LawOfValue); 4] = [
        ("one in a hundred is 1", 0.01, |draws| if draws.uniform() < 0.01 { 1.0 } else { 0.0 }),
        ("one in a hundred is 0", 0.99, |draws| if draws.uniform() < 0.01 { 0.0 } else { 1.0 }),
        ("uniform", 0.5, |draws| draws.uniform()),
        ("narrow", 0.3, |draws| (0.3 + 0.01 * draws.normal()).clamp(0.0, 1.0)),
    ];
    let mut draws = Draws::new(37);
    for (name, mean, law) in laws {
        for alpha in [0.05, 0.01] {
            let alarms = (0..runs).filter(|_| {
                let values: Vec<f64> = (0..trials).map(|_| law(&mut draws)).collect();
                betting_p_value(&values, mean) <= alpha
            });
            let alarms = alarms.count() as u64;
            let most = acceptance_region(runs, alpha, 1e-6).1;
            assert!(alarms <= most, "{name}: {alarms} of {runs} at {alpha}");
        }
    }
}

#[test]
fn a_shift_of_the_detectable_size_is_seen_as_often_as_promised() {
    let (runs, alpha, beta) = (1009u64, 1e-6, 0.05);
    let mut draws = Draws::new(41);
    for (mean, spread, trials) in [(0.2, 0.03, 1500), (0.6, 0.02, 900), (0.05, 0.03, 2500), (0.5, 0.2, 3000)] {
        let model = BoundedModel { expected: mean, variance: spread * spread, trials };
        let shift = model.min_detectable(alpha, beta).expect("enough trials");
        for sign in [-1.0, 1.0] {
            let truth = mean + sign * shift;
            if !(0.0..=1.0).contains(&truth) {
                continue;
            }
            let seen = (0..runs).filter(|_| {
                // A two-point law of this mean and spread.
                let values: Vec<f64> = (0..trials)
                    .map(|_| if draws.uniform() < 0.5 { truth - spread.min(truth) } else { truth + spread.min(truth) })
                    .collect();
                betting_p_value(&values, mean) <= alpha
            });
            let seen = seen.count() as u64;
            println!("mean {mean} spread {spread} T {trials}: shift {shift:.5} seen {:.3}", seen as f64 / runs as f64);
            assert!(seen >= acceptance_region(runs, 1.0 - beta, 1e-6).0, "mean {mean}, sign {sign}: {seen} of {runs}");
        }
    }
}

#[test]
fn the_interval_covers_and_is_narrow() {
    let (runs, trials) = (501u64, 400);
    let mut draws = Draws::new(43);
    let mut missed = 0;
    for _ in 0..runs {
        let values: Vec<f64> = (0..trials).map(|_| (0.2 + 0.1 * draws.uniform()).powi(2)).collect();
        // E (0.2 + 0.1 u)² = 0.04 + 0.02 + 0.01/3.
        let mean = 0.06 + 0.01 / 3.0;
        let (low, high) = betting_interval(&values, 0.05).expect("values");
        missed += u64::from(!(low..=high).contains(&mean));
        // 400 values, 3 nats and twice as many for learning: about 0.95·δ/μ a value downwards, 0.95·δ upwards.
        assert!(mean - low < 0.004 && high - mean < 0.03, "{low} to {high}");
    }
    assert!(missed <= acceptance_region(runs, 0.05, 1e-6).1, "{missed}");
}

#[test]
fn planning_finds_the_fewest_trials() {
    let model = BoundedModel { expected: 0.2, variance: 0.001, trials: 1 };
    let trials = model.trials_needed(1e-6, 1e-3, 0.01, 1 << 20).expect("reachable");
    let seen = |trials| BoundedModel { trials, ..model }.min_detectable(1e-6, 1e-3);
    assert!(seen(trials).expect("seen") <= 0.01 && seen(trials - 1).is_none_or(|shift| shift > 0.01));
    // A mean of 1e-9 cannot fall: what counts is how far it may rise.
    let rare = BoundedModel { expected: 1e-9, variance: 0.0, trials: 1000 };
    assert!(rare.min_detectable(1e-6, 1e-3).expect("seen") < 0.05);
}

#[test]
fn a_range_of_hypotheses_is_rejected_only_when_its_nearer_end_is() {
    let values = [0.5, 0.52, 0.48, 0.5, 0.51, 0.49, 0.5, 0.5];
    assert_eq!(betting_p_value_within(&values, 0.45, 0.55), 1.0);
    assert_eq!(betting_p_value_within(&values, 0.1, 0.2), betting_p_value(&values, 0.2));
    assert_eq!(betting_p_value_within(&values, 0.8, 0.9), betting_p_value(&values, 0.8));
}
