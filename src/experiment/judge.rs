//! From folded trials to rows with verdicts.

use super::{Claim, ErrorRates, Estimator, Expected, Null, Sizes};
use crate::report::{Row, Verdict};
use crate::statistics::student::MINIMUM_TRIALS;
use crate::statistics::{ColumnMoments, Law, NullModel, StudentModel, holm_by_family, planning_level};

/// Error of the interval in a row: 95 % limits.
const INTERVAL_ERROR: f64 = 0.05;

/// One parameter point: its claims, and its trials once they are run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Sizes of the point.
    pub sizes: Sizes,
    /// Number of trials, planned or run.
    pub trials: u64,
    /// What is claimed of them.
    pub claims: Vec<Claim>,
    /// The folded columns; empty before the run.
    pub columns: ColumnMoments,
}

/// A claim that rests on several parameter points: its row has no `d_k`.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The claim; its null model is that of the estimate itself, not of one trial.
    pub claim: Claim,
    /// Rows of Q and K that the points share.
    pub queries: usize,
    /// Rows of K that the points share.
    pub keys: usize,
    /// Trials of all points together.
    pub trials: u64,
    /// The estimate; missing before the run.
    pub estimate: Option<f64>,
    /// Its standard error.
    pub standard_error: f64,
}

/// What identifies a family over the whole invocation: the point (or one past the last for a sweep) and its name.
type Family = (usize, String);

/// A row whose verdict waits for the other rows' p-values.
struct Judged {
    row: Row,
    family: Family,
    /// The estimate is not a number though the claim has an expected value: a fault whatever its p-value.
    broken: bool,
}

/// The number of families that will be judged.
pub fn families(points: &[Outcome], sweeps: &[Sweep]) -> usize {
    let judged = |claim: &Claim| matches!(claim.null, Null::Exact { .. } | Null::Estimated { .. });
    let of_points = points.iter().enumerate().flat_map(|(index, point)| {
        point.claims.iter().filter(|claim| judged(claim)).map(move |claim| (index, claim.family.to_string()))
    });
    let of_sweeps = sweeps.iter().filter(|sweep| judged(&sweep.claim)).map(|sweep| sweep_family(sweep, points.len()));
    of_points.chain(of_sweeps).collect::<std::collections::BTreeSet<_>>().len()
}

fn sweep_family(sweep: &Sweep, points: usize) -> Family {
    (points, format!("{} {}x{}", sweep.claim.family, sweep.queries, sweep.keys))
}

/// The rows of an invocation in order: point by point, then the sweeps. `describe` fills in what all rows share.
pub fn rows(points: &[Outcome], sweeps: &[Sweep], rates: &ErrorRates, describe: impl Fn(Row) -> Row) -> Vec<Row> {
    let level = planning_level(rates.false_alarm, families(points, sweeps));
    let mut judged: Vec<Judged> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        judged.extend(point.claims.iter().map(|claim| judge_point(point, claim, index, level, rates.miss)));
    }
    judged.extend(sweeps.iter().map(|sweep| judge_sweep(sweep, points.len(), level, rates.miss)));
    let p_values: Vec<(Family, Option<f64>)> =
        judged.iter().map(|judged| (judged.family.clone(), judged.row.p_value)).collect();
    let adjusted = holm_by_family(&p_values);
    let settle = |(judged, adjusted): (Judged, Option<f64>)| {
        let verdict = verdict(&judged, adjusted, rates);
        describe(Row { verdict, ..judged.row })
    };
    judged.into_iter().zip(adjusted).map(settle).collect()
}

/// PRODUCT's rule: rejected by the corrected p-value; else upheld if a deviation of `detect` would have been seen.
fn verdict(judged: &Judged, adjusted: Option<f64>, rates: &ErrorRates) -> Verdict {
    if judged.broken {
        return Verdict::Rejected;
    }
    if judged.row.theory.is_none() && judged.row.test.is_none() {
        return Verdict::Measured;
    }
    match (adjusted, judged.row.min_detectable) {
        (Some(p), _) if p < rates.false_alarm => Verdict::Rejected,
        (Some(_), Some(smallest)) if smallest <= rates.detect => Verdict::Upheld,
        _ => Verdict::Undecided,
    }
}

fn judge_point(point: &Outcome, claim: &Claim, index: usize, level: f64, miss: f64) -> Judged {
    let Sizes { d_k, queries, keys } = point.sizes;
    let trials = point.trials;
    let (estimate, column) = estimate(&claim.estimator, &point.columns, trials);
    let sample_variance = point.columns.sample_variance(column).unwrap_or(0.0);
    let row = Row {
        scale: claim.scale.map(|scale| scale.to_string()),
        d_k: Some(d_k as u64),
        n_queries: Some(queries as u64),
        n_keys: Some(keys as u64),
        trials: Some(trials),
        estimate: Some(estimate),
        std_error: (trials > 1).then(|| (sample_variance / trials as f64).sqrt()),
        ..Row::new("", claim.statistic.clone())
    };
    let row = match &claim.null {
        Null::Exact { model, rounding } => with_model(row, &model.over_trials(trials), *rounding, level, miss),
        Null::Estimated { unit } => {
            let expected = claim.expected.map_or(f64::NAN, |expected| expected.value);
            let skewness = point.columns.skewness(column).unwrap_or(0.0);
            with_student(row, &StudentModel { expected, sample_variance, skewness, trials, unit: *unit }, level, miss)
        }
        Null::Unjudged(why) => Row { test: Some(format!("none: {why}")), ..row },
        Null::Measured => with_measured_interval(row, sample_variance, trials),
    };
    let judged = matches!(claim.null, Null::Exact { .. } | Null::Estimated { .. });
    Judged {
        row: with_theory(row, claim.expected, unit(&claim.null)),
        family: (index, claim.family.to_string()),
        broken: judged && !estimate.is_finite(),
    }
}

fn judge_sweep(sweep: &Sweep, points: usize, level: f64, miss: f64) -> Judged {
    let row = Row {
        scale: sweep.claim.scale.map(|scale| scale.to_string()),
        n_queries: Some(sweep.queries as u64),
        n_keys: Some(sweep.keys as u64),
        trials: Some(sweep.trials),
        estimate: sweep.estimate,
        std_error: Some(sweep.standard_error),
        ..Row::new("", sweep.claim.statistic.clone())
    };
    let row = match &sweep.claim.null {
        Null::Exact { model, rounding } => with_model(row, model, *rounding, level, miss),
        Null::Unjudged(why) => Row { test: Some(format!("none: {why}")), ..row },
        Null::Estimated { .. } | Null::Measured => row,
    };
    Judged {
        row: with_theory(row, sweep.claim.expected, unit(&sweep.claim.null)),
        family: sweep_family(sweep, points),
        broken: sweep.estimate.is_some_and(|estimate| !estimate.is_finite()),
    }
}

/// The estimate (not a number where there is none), and the column whose scatter over the trials is its own.
fn estimate(estimator: &Estimator, columns: &ColumnMoments, trials: u64) -> (f64, usize) {
    let mean = |column| columns.mean(column).unwrap_or(f64::NAN);
    match *estimator {
        Estimator::Mean { column } => (mean(column), column),
        Estimator::Kurtosis { second, fourth, linear, relative_bias } => {
            let ratio = mean(fourth) / mean(second).powi(2);
            (ratio / (1.0 + relative_bias / trials as f64), linear)
        }
    }
}

/// Standard error, interval, p-value and smallest detectable deviation from a known model.
fn with_model(row: Row, model: &NullModel, rounding: f64, level: f64, miss: f64) -> Row {
    let estimate = row.estimate.unwrap_or(f64::NAN);
    let interval = model.interval(estimate, INTERVAL_ERROR);
    let p_value = model.p_value(estimate, rounding, level);
    let test = match p_value {
        _ if !model.judgeable(level) => {
            "none: too few trials at this size for its law to be known well enough".to_string()
        }
        _ => name_of_test(model),
    };
    Row {
        std_error: Some(model.standard_error()),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        p_value,
        min_detectable: model.min_detectable(level, miss),
        test: Some(test),
        ..row
    }
}

/// The same from a spread estimated over the trials.
fn with_student(row: Row, model: &StudentModel, level: f64, miss: f64) -> Row {
    let estimate = row.estimate.unwrap_or(f64::NAN);
    let interval = model.interval(estimate, INTERVAL_ERROR);
    let test = match model.trials {
        trials if trials < MINIMUM_TRIALS => format!("none: a spread from {trials} trials is too uncertain"),
        _ if !model.judgeable(level) => "none: the trials' values are too skewed for so few of them".to_string(),
        _ => "Student's t over the trials".to_string(),
    };
    Row {
        std_error: Some(model.standard_error()),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        p_value: model.p_value(estimate, 0.0, level),
        min_detectable: model.min_detectable(level, miss),
        test: Some(test),
        ..row
    }
}

/// A Student interval for a row without theory.
fn with_measured_interval(row: Row, sample_variance: f64, trials: u64) -> Row {
    let model = StudentModel { expected: 0.0, sample_variance, skewness: 0.0, trials, unit: 1.0 };
    let interval = model.interval(row.estimate.unwrap_or(f64::NAN), INTERVAL_ERROR);
    Row { ci_low: interval.map(|(low, _)| low), ci_high: interval.map(|(_, high)| high), ..row }
}

/// Theory and the deviation from it: relative, or in the statistic's own unit where theory is 0.
fn with_theory(row: Row, expected: Option<Expected>, unit: f64) -> Row {
    let Some(expected) = expected else { return row };
    let unit = if expected.value == 0.0 { unit } else { expected.value.abs() };
    let deviation = row.estimate.map(|estimate| (estimate - expected.value) / unit);
    Row { theory: Some(expected.value), theory_kind: Some(expected.kind), deviation, ..row }
}

/// The unit of a deviation from a theory value of 0.
fn unit(null: &Null) -> f64 {
    match null {
        Null::Exact { model, .. } if model.unit > 0.0 => model.unit,
        Null::Estimated { unit } if *unit > 0.0 => *unit,
        _ => 1.0,
    }
}

/// How a p-value was obtained, in words.
fn name_of_test(model: &NullModel) -> String {
    let law = match model.law() {
        _ if model.variance == 0.0 => "a fixed value, up to rounding; conservative: p is 1 or 0",
        Law::Gamma { .. } => "gamma law of exact mean, variance and skewness",
        Law::ProductNormal { .. } => "product-normal law of exact variance and kurtosis",
        Law::Normal | Law::Student { .. } => "normal law of exact variance",
    };
    let lattice = if model.lattice_step > 0.0 { "; conservative: the statistic is discrete" } else { "" };
    format!("{law}{lattice}")
}
