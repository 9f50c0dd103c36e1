//! Does a verdict keep the rate that was asked for? Measured over many seeds.

use rayon::prelude::*;

use super::engine::{self, Experiment};
use super::judge::{self, Outcome};
use super::progress::Progress;
use super::{ErrorRates, LARGEST_TRIALS};
use crate::report::{Row, Verdict};

/// How one row behaved over the seeds, at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct RowRates {
    /// Name of the statistic.
    pub statistic: String,
    /// How its p-value is obtained, in words; `none: …` where the row was not judged.
    pub test: String,
    /// The level a single p-value is compared with: the rate asked for.
    pub level: f64,
    /// Number of seeds.
    pub seeds: u64,
    /// Seeds on which the row had a p-value.
    pub judged: u64,
    /// Seeds on which that p-value was below the level.
    pub rejected: u64,
    /// The p-values, in the order of the seeds.
    pub p_values: Vec<f64>,
}

/// How a whole run behaved over the seeds, at one false-alarm rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunRates {
    /// The false-alarm rate asked for, over the whole run.
    pub false_alarm: f64,
    /// Number of seeds.
    pub seeds: u64,
    /// Seeds on which any row was rejected.
    pub rejected: u64,
}

/// Runs `experiment` with `trials` trials for each of the seeds `0..seeds` and judges every row at each of `levels`
/// (as the level of a single test) and the whole run at each of `levels` (as its false-alarm rate).
pub fn calibrate<E: Experiment>(
    experiment: &E,
    trials: u64,
    seeds: u64,
    levels: &[f64],
) -> (Vec<RowRates>, Vec<RunRates>) {
    assert!(trials <= LARGEST_TRIALS, "at most {LARGEST_TRIALS} trials");
    let families = judge::families(&[outcome_of(experiment, trials, 0)], &[]) as f64;
    let of_seed = |seed: u64| {
        let outcome = [outcome_of(experiment, trials, seed)];
        let judged = |false_alarm: f64| {
            // The miss rate and the smallest deviation play no part in a rejection.
            let rates = ErrorRates { false_alarm, miss: 0.1, detect: 0.5 };
            judge::rows(&outcome, &[], &rates, |row| row)
        };
        levels.iter().map(|&level| (judged(level * families), judged(level))).collect::<Vec<_>>()
    };
    let results: Vec<Vec<(Vec<Row>, Vec<Row>)>> = (0..seeds).into_par_iter().map(of_seed).collect();
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    for (index, &level) in levels.iter().enumerate() {
        let single = |seed: usize| &results[seed][index].0;
        for (position, first) in single(0).iter().enumerate() {
            let p_values: Vec<f64> = (0..seeds as usize).filter_map(|seed| single(seed)[position].p_value).collect();
            rows.push(RowRates {
                statistic: first.statistic.clone(),
                test: first.test.clone().unwrap_or_default(),
                level,
                seeds,
                judged: p_values.len() as u64,
                rejected: p_values.iter().filter(|&&p| p < level).count() as u64,
                p_values,
            });
        }
        let rejected = |rows: &[Row]| rows.iter().any(|row| row.verdict == Verdict::Rejected);
        let rejected = results.iter().filter(|result| rejected(&result[index].1)).count() as u64;
        runs.push(RunRates { false_alarm: level, seeds, rejected });
    }
    (rows, runs)
}

/// One run of one seed.
fn outcome_of<E: Experiment>(experiment: &E, trials: u64, seed: u64) -> Outcome {
    let columns = engine::run(experiment, seed, 0..trials, &Progress::silent(), |_, _| Ok(()));
    let columns = columns.expect("nothing in this run can fail");
    Outcome { sizes: experiment.sizes(), trials, claims: experiment.claims(), columns }
}
