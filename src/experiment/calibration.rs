//! Does a verdict keep the rate that was asked for? Measured over many seeds.

use rayon::prelude::*;

use super::LARGEST_TRIALS;
use super::engine::{self, Experiment};
use super::judge::{self, Outcome};
use super::progress::Progress;
use super::series::Series;
use crate::statistics::{holm_by_family, planning_level};

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

/// Runs `experiment` with `trials` trials for each of the seeds `0..seeds` and judges every claim at each of `levels`
/// (as the level of a single test) and the whole run at each of `levels` (as its false-alarm rate).
pub fn calibrate<E: Experiment>(
    experiment: &E,
    trials: u64,
    seeds: u64,
    levels: &[f64],
) -> (Vec<RowRates>, Vec<RunRates>) {
    assert!(trials <= LARGEST_TRIALS, "at most {LARGEST_TRIALS} trials");
    let outcomes: Vec<Outcome> = (0..seeds).into_par_iter().map(|seed| outcome_of(experiment, trials, seed)).collect();
    let Some(first) = outcomes.first() else { return (Vec::new(), Vec::new()) };
    let families = judge::families(std::slice::from_ref(first), &[]);
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    for &level in levels {
        let p_values: Vec<Vec<Option<f64>>> =
            outcomes.par_iter().map(|outcome| judge::p_values(outcome, level)).collect();
        for (position, claim) in first.claims.iter().enumerate() {
            let p_values: Vec<f64> = p_values.iter().filter_map(|of_seed| of_seed[position]).collect();
            rows.push(RowRates {
                statistic: claim.statistic.clone(),
                test: judge::name_of_test(&claim.null, trials),
                level,
                seeds,
                judged: p_values.len() as u64,
                rejected: p_values.iter().filter(|&&p| p < level).count() as u64,
                p_values,
            });
        }
        let rejected = |outcome: &&Outcome| {
            let p_values = judge::p_values(outcome, planning_level(level, families));
            let of_family = outcome.claims.iter().map(|claim| claim.family.clone()).zip(p_values).collect::<Vec<_>>();
            judge::is_broken(outcome) || holm_by_family(&of_family).into_iter().flatten().any(|p| p < level)
        };
        let rejected = outcomes.par_iter().filter(rejected).count() as u64;
        runs.push(RunRates { false_alarm: level, seeds, rejected });
    }
    (rows, runs)
}

/// One run of one seed, to be judged.
pub fn outcome_of<E: Experiment>(experiment: &E, trials: u64, seed: u64) -> Outcome {
    let claims = experiment.claims();
    let mut series = Series::new(&claims, trials);
    let columns = engine::run(experiment, seed, 0..trials, &Progress::silent(), |_, values| {
        series.push(values);
        Ok(())
    });
    let columns = columns.expect("nothing in this run can fail");
    Outcome { sizes: experiment.sizes(), mask: experiment.mask(), trials, claims, columns, series: series.finish() }
}
