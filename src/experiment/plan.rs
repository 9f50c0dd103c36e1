//! How many trials, so that every row sees a deviation of `--detect` at the rates asked for.

use anyhow::{Result, bail};

use super::engine::{Experiment, run};
use super::judge::{Outcome, Sweep, families};
use super::progress::Progress;
use super::{ErrorRates, Estimator, LARGEST_TRIALS, Null};
use crate::statistics::{ColumnMoments, NullModel, StudentModel, planning_level, trials_needed};

/// Trials of a pilot, from the uppermost trial indices, which no run uses: its draws are independent of the run's,
/// so planning from them leaves the rates of the run as they are.
pub const PILOT_TRIALS: u64 = 512;
/// The pilot's variance is multiplied by this before planning: a χ² with 511 degrees of freedom falls below
/// 511/1.23 with probability 1e-3, so that a run planned from it misses its `--detect` about as rarely as `--miss`
/// allows.
const PILOT_MARGIN: f64 = 1.23;
/// The skewness planned with is so many times the pilot's, which falls short of its law's where tails are heavy, …
const PILOT_SKEWNESS_FACTOR: f64 = 1.5;
/// … and so much more: two standard errors √(6/512) of a sample's skewness.
const PILOT_SKEWNESS_MARGIN: f64 = 0.22;

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
            trials: LARGEST_TRIALS,
            claims: experiment.claims(),
            columns: ColumnMoments::new(0),
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
            Null::Estimated { .. } | Null::Unjudged(_) | Null::Measured => None,
        })
        .filter(|model| smallest(model).is_some())
        .collect();
    let sees = |model: &&NullModel| smallest(model).is_some_and(|smallest| smallest <= rates.detect);
    let exact: Vec<NullModel> = judged.iter().filter(sees).copied().collect();
    if exact.is_empty() && !judged.is_empty() {
        // Planned for no row at all, the run would be a single trial that sees nothing of what was asked for.
        bail!("--detect {}: needs more than {LARGEST_TRIALS} trials in every row", rates.detect);
    }
    let for_exact = trials_needed(&exact, level, rates.miss, rates.detect, LARGEST_TRIALS);
    let mut trials = match for_exact {
        Some(trials) => trials,
        None => bail!("--detect {}: needs more than {LARGEST_TRIALS} trials", rates.detect),
    };
    for model in pilot_models(experiment, point, seed)? {
        let needed = model.trials_needed(level, rates.miss, rates.detect, LARGEST_TRIALS);
        match needed {
            Some(needed) => trials = trials.max(needed),
            None => bail!("--detect {}: needs more than {LARGEST_TRIALS} trials at this size", rates.detect),
        }
    }
    Ok(trials)
}

/// Models of the claims whose spread is not known, from a pilot.
fn pilot_models<E: Experiment>(experiment: &E, point: &Outcome, seed: u64) -> Result<Vec<StudentModel>> {
    if !point.claims.iter().any(|claim| matches!(claim.null, Null::Estimated { .. })) {
        return Ok(Vec::new());
    }
    let first = u64::from(u32::MAX) + 1 - PILOT_TRIALS;
    let columns = run(experiment, seed, first..first + PILOT_TRIALS, &Progress::silent(), |_, _| Ok(()))?;
    let models = point.claims.iter().filter_map(|claim| {
        let (Null::Estimated { unit }, Some(expected)) = (&claim.null, claim.expected) else { return None };
        let column = match claim.estimator {
            Estimator::Mean { column } => column,
            Estimator::Kurtosis { linear, .. } => linear,
        };
        let sample_variance = columns.sample_variance(column)? * PILOT_MARGIN;
        // Student's t is trusted only from a number of trials in proportion to the square of the skewness: left out, the
        // plan would end undecided.
        let skewness = PILOT_SKEWNESS_FACTOR * columns.skewness(column).unwrap_or(0.0).abs() + PILOT_SKEWNESS_MARGIN;
        Some(StudentModel { expected: expected.value, sample_variance, skewness, trials: PILOT_TRIALS, unit: *unit })
    });
    Ok(models.collect())
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
            Null::Estimated { .. } | Null::Measured => true,
        })
    };
    let mut sixteenths = 16;
    while !with_trials(&lengthened(sixteenths)) {
        if sixteenths > 1 << 32 {
            bail!("--detect {}: the slope over this sweep needs more trials than can be run", rates.detect);
        }
        sixteenths += sixteenths / 16;
    }
    Ok(())
}
