//! How many trials, so that every row sees a deviation of `--detect` at the rates asked for.

use anyhow::{Result, bail};

use super::engine::{Experiment, run};
use super::judge::{Outcome, Sweep, families};
use super::progress::Progress;
use super::series::Series;
use super::trial_test;
use super::{ErrorRates, Estimator, LARGEST_TRIALS, Null};
use crate::report::number::percent;
use crate::statistics::{ColumnMoments, NullModel, planning_level, trials_needed};

/// Plans the trials of every point so that each row that can be judged at all is judged and sees `rates.detect`.
///
/// Holm's procedure compares the smallest p-value with α/families: planning uses that level for every row. A row that
/// no possible number of trials can judge is left undecided and not planned for.
///
/// # Errors
/// When no possible number of trials is enough.
pub fn plan<E: Experiment>(
    experiments: &[E],
    sweep: impl Fn(&[Outcome]) -> Vec<Sweep>,
    rates: &ErrorRates,
    seed: u64,
) -> Result<Vec<u64>> {
    let mut points: Vec<Outcome> = experiments
        .iter()
        .map(|experiment| Outcome {
            sizes: experiment.sizes(),
            mask: experiment.mask(),
            trials: LARGEST_TRIALS,
            claims: experiment.claims(),
            columns: ColumnMoments::new(0),
            series: Series::default(),
        })
        .collect();
    let level = planning_level(rates.false_alarm, families(&points, &sweep(&points)));
    for (point, experiment) in points.iter_mut().zip(experiments) {
        point.trials = plan_point(experiment, point, rates, level, seed)?;
    }
    lengthen_for_sweeps(&mut points, sweep, rates, level)?;
    Ok(points.iter().map(|point| point.trials).collect())
}

/// The trials of one point, for its own rows.
fn plan_point<E: Experiment>(
    experiment: &E,
    point: &Outcome,
    rates: &ErrorRates,
    level: f64,
    seed: u64,
) -> Result<u64> {
    let smallest = |model: &NullModel| model.over_trials(LARGEST_TRIALS).min_detectable(level, rates.miss);
    let judged: Vec<NullModel> = (point.claims.iter())
        .filter_map(|claim| match &claim.null {
            Null::Exact { model, .. } => Some(*model),
            Null::Trials(_) | Null::Unjudged(_) | Null::Measured => None,
        })
        .filter(|model| smallest(model).is_some())
        .collect();
    let sees = |model: &&NullModel| smallest(model).is_some_and(|smallest| smallest <= rates.detect);
    let exact: Vec<NullModel> = judged.iter().filter(sees).copied().collect();
    if exact.is_empty() && !judged.is_empty() {
        // Planned for no row at all, the run would be a single trial that sees nothing of what was asked for.
        bail!(
            "--detect {}: needs more than {LARGEST_TRIALS} trials in every row; ask for a larger deviation",
            percent(rates.detect)
        );
    }
    let for_exact = trials_needed(&exact, level, rates.miss, rates.detect, LARGEST_TRIALS);
    let mut trials = match for_exact {
        Some(trials) => trials,
        None => bail!(
            "--detect {}: needs more than {LARGEST_TRIALS} trials; ask for a larger deviation",
            percent(rates.detect)
        ),
    };
    trials = trials.max(trials_of_tests(experiment, point, rates, level, seed)?);
    Ok(trials)
}

/// The trials that the tests over trials need, from a pilot of their own.
fn trials_of_tests<E: Experiment>(
    experiment: &E,
    point: &Outcome,
    rates: &ErrorRates,
    level: f64,
    seed: u64,
) -> Result<u64> {
    let tests: Vec<_> = (point.claims.iter())
        .filter_map(|claim| match (&claim.null, claim.estimator, claim.expected) {
            (Null::Trials(test), Estimator::Mean { column }, Some(expected)) => Some((test, column, expected.value)),
            _ => None,
        })
        .collect();
    if tests.is_empty() {
        return Ok(1);
    }
    let first = u64::from(u32::MAX) + 1 - trial_test::PILOT_TRIALS;
    let pilot = first..first + trial_test::PILOT_TRIALS;
    let columns = run(experiment, seed, pilot, &Progress::silent(), |_, _| Ok(()))?;
    let mut trials = 1;
    for (test, column, expected) in tests {
        let moments = (columns.sample_variance(column).unwrap_or(0.0), columns.skewness(column).unwrap_or(0.0));
        let rates = (level, rates.miss, rates.detect);
        match test.trials_needed(expected, moments, rates, LARGEST_TRIALS) {
            Some(needed) => trials = trials.max(needed),
            None => bail!(
                "--detect {}: needs more than {LARGEST_TRIALS} trials at this size; ask for a larger deviation",
                percent(rates.2)
            ),
        }
    }
    Ok(trials)
}

/// Multiplies the trials of all points until the rows that rest on several points see `rates.detect` too.
fn lengthen_for_sweeps(
    points: &mut [Outcome],
    sweep: impl Fn(&[Outcome]) -> Vec<Sweep>,
    rates: &ErrorRates,
    level: f64,
) -> Result<()> {
    let planned: Vec<u64> = points.iter().map(|point| point.trials).collect();
    // In sixteenths, so that a sweep that is nearly seen does not double the run.
    let lengthened = |sixteenths: u64| {
        let stretch =
            |trials: u64| (u128::from(trials) * u128::from(sixteenths)).div_ceil(16).min(LARGEST_TRIALS.into());
        planned.iter().map(|&trials| stretch(trials) as u64).collect::<Vec<u64>>()
    };
    let mut with_trials = |trials: &[u64]| {
        points.iter_mut().zip(trials).for_each(|(point, &trials)| point.trials = trials);
        sweep(points).iter().all(|sweep| match &sweep.claim.null {
            Null::Exact { model, .. } => {
                model.min_detectable(level, rates.miss).is_some_and(|smallest| smallest <= rates.detect)
            }
            Null::Unjudged(_) => false,
            Null::Trials(_) | Null::Measured => true,
        })
    };
    let mut sixteenths = 16;
    while !with_trials(&lengthened(sixteenths)) {
        if sixteenths > 1 << 32 {
            bail!(
                "--detect {}: the slope over this sweep needs more trials than can be run; ask for a larger deviation",
                percent(rates.detect)
            );
        }
        sixteenths += sixteenths / 16;
    }
    Ok(())
}
