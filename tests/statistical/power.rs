//! With the planned number of trials, a fault of exactly `--detect` in the variance is rejected with at least the
//! probability 1 − `--miss`, in both directions. Recorded with more seeds in data/recorded/power.csv.

use attn::attention::{Logits, Precision, Scale};
use attn::experiment::calibration::outcome_of;
use attn::experiment::judge::rows;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{ErrorRates, InputLaw, Sizes, plan};
use attn::report::Verdict;
use attn::sampling::Entries;
use attn::statistics::binomial;
use rayon::prelude::*;

use crate::faults::WrongFactor;

/// Error of one assertion of this file.
const ASSERTION_ERROR: f64 = 1e-5;

/// Seeds out of `seeds` on which the raw variance is rejected with the planned trials.
fn rejections<L: Logits>(sizes: Sizes, rates: ErrorRates, logits: impl Fn() -> L + Sync, seeds: u64) -> u64 {
    let law = InputLaw::standard(Entries::Normal);
    let experiment = VarianceExperiment::with_parts(sizes, law, &[Scale::None], Precision::F64, law, logits());
    let trials = plan::plan(std::slice::from_ref(&experiment), |_| Vec::new(), &rates, 0).expect("a plan")[0];
    let rejected = |seed: u64| {
        let outcome = outcome_of(&experiment, trials, seed);
        let rows = rows(&[outcome], &[], &rates, |row| row);
        let variance = rows.iter().find(|row| row.statistic == "logit_variance").expect("the row");
        u64::from(variance.verdict == Verdict::Rejected)
    };
    (0..seeds).into_par_iter().map(rejected).sum()
}

#[test]
fn a_one_percent_error_in_the_variance_is_seen_as_often_as_the_miss_rate_says() {
    let sizes = Sizes { d_k: 16, queries: 61, keys: 53 };
    let seeds = if cfg!(debug_assertions) { 20 } else { 400 };
    for (false_alarm, miss) in [(1e-6, 1e-3), (1e-2, 0.1)] {
        let rates = ErrorRates { false_alarm, miss, detect: 0.01 };
        let (least, _) = binomial::acceptance_region(seeds, 1.0 - miss, ASSERTION_ERROR);
        let up = rejections(sizes, rates, || WrongFactor(|factor, _| factor * 1.01f64.sqrt()), seeds);
        let down = rejections(sizes, rates, || WrongFactor(|factor, _| factor * 0.99f64.sqrt()), seeds);
        assert!(up >= least, "+1 %: {up} of {seeds} at miss rate {miss}, at least {least} expected");
        assert!(down >= least, "-1 %: {down} of {seeds} at miss rate {miss}, at least {least} expected");
    }
}

#[test]
fn half_the_detectable_error_is_seen_less_often_so_the_plan_is_not_wasteful() {
    // A plan with twice the trials it needs would see 0.5 % nearly always; the planned one sees it with a
    // probability of about one in three at these rates: (3.2 + 1.3)/2 − 3.2 = −0.95 standard errors.
    let sizes = Sizes { d_k: 16, queries: 61, keys: 53 };
    let seeds = if cfg!(debug_assertions) { 20 } else { 400 };
    let rates = ErrorRates { false_alarm: 1e-2, miss: 0.1, detect: 0.01 };
    let seen = rejections(sizes, rates, || WrongFactor(|factor, _| factor * 1.005f64.sqrt()), seeds);
    let (_, most) = binomial::acceptance_region(seeds, 0.6, ASSERTION_ERROR);
    assert!(seen <= most, "{seen} of {seeds}");
}
