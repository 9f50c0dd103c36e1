//! From folded trials to rows with verdicts.

use rayon::prelude::*;

use super::series::Series;
use super::trial_test::Trials;
use super::{Claim, ErrorRates, Estimator, Expected, Null, Sizes};
use crate::report::number::finite;
use crate::report::{Row, Verdict};
use crate::statistics::{ColumnMoments, ErrorShape, Law, NullModel, StudentModel, holm_by_family, planning_level};

/// Error of the interval in a row: 95 % limits.
const INTERVAL_ERROR: f64 = 0.05;

/// One parameter point: its claims, and its trials once they are run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Sizes of the point.
    pub sizes: Sizes,
    /// The mask, if there is one.
    pub mask: Option<String>,
    /// Number of trials, planned or run.
    pub trials: u64,
    /// What is claimed of them.
    pub claims: Vec<Claim>,
    /// The folded columns; empty before the run.
    pub columns: ColumnMoments,
    /// The values that bets need, in trial order; empty before the run.
    pub series: Series,
}

impl Outcome {
    /// What the trials of one column amount to.
    fn trials_of(&self, column: usize) -> Trials<'_> {
        Trials { columns: &self.columns, column, values: self.series.values(column), count: self.trials }
    }
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
    /// Theory is not known well enough for any number of trials to uphold the claim.
    vague: bool,
    /// Theory fixes the value up to rounding: it is within the bound or not, however many trials there are.
    fixed: bool,
    /// The estimate is not a number though the claim has an expected value: a fault whatever its p-value.
    broken: bool,
}

/// The number of families that will be judged.
pub fn families(points: &[Outcome], sweeps: &[Sweep]) -> usize {
    let of_points = points.iter().enumerate().flat_map(|(index, point)| {
        point.claims.iter().filter(|claim| is_judged(claim)).map(move |claim| (index, claim.family.to_string()))
    });
    let of_sweeps =
        sweeps.iter().filter(|sweep| is_judged(&sweep.claim)).map(|sweep| sweep_family(sweep, points.len()));
    of_points.chain(of_sweeps).collect::<std::collections::BTreeSet<_>>().len()
}

fn is_judged(claim: &Claim) -> bool {
    match claim.null {
        Null::Exact { .. } => true,
        Null::Trials(_) => claim.expected.is_some(),
        Null::Unjudged(_) | Null::Measured => false,
    }
}

/// Whether theory fixes the value up to a bound on rounding.
fn is_fixed(null: &Null) -> bool {
    matches!(null, Null::Exact { model, rounding } if model.variance == 0.0 && *rounding > 0.0)
}

fn sweep_family(sweep: &Sweep, points: usize) -> Family {
    (points, format!("{} {}x{}", sweep.claim.family, sweep.queries, sweep.keys))
}

/// The rows of an invocation in order: point by point, then the sweeps. `describe` fills in what all rows share.
pub fn rows(points: &[Outcome], sweeps: &[Sweep], rates: &ErrorRates, describe: impl Fn(Row) -> Row) -> Vec<Row> {
    let level = planning_level(rates.false_alarm, families(points, sweeps));
    let of_points = points.par_iter().enumerate();
    let mut judged: Vec<Judged> = of_points
        .flat_map(|(index, point)| {
            point.claims.par_iter().map(move |claim| judge_point(point, claim, index, level, rates))
        })
        .collect();
    judged.extend(sweeps.iter().map(|sweep| judge_sweep(sweep, points.len(), level, rates.miss)));
    let p_values: Vec<(Family, Option<f64>)> =
        judged.iter().map(|judged| (judged.family.clone(), judged.row.p_value)).collect();
    let adjusted = holm_by_family(&p_values);
    let settle = |(judged, adjusted): (Judged, Option<f64>)| {
        let verdict = verdict(&judged, adjusted, rates);
        let test = match judged.broken {
            true => Some("none: the estimate does not exist, an overflow or not a number".to_string()),
            false => judged.row.test.clone(),
        };
        describe(Row { verdict, test, ..finite_only(judged.row) })
    };
    judged.into_iter().zip(adjusted).map(settle).collect()
}

/// The p-value of every claim of one point, to be compared with `level`; none where the claim is not judged at that
/// level. What [`rows`] puts into its rows, without the intervals and detectable deviations that cost more.
pub fn p_values(point: &Outcome, level: f64) -> Vec<Option<f64>> {
    let of_claim = |claim: &Claim| {
        let (estimate, column) = estimate(&claim.estimator, &point.columns, point.trials);
        match &claim.null {
            Null::Exact { model, rounding } => {
                let model = model.over_trials(point.trials);
                model.p_value(estimate, *rounding, level)
            }
            Null::Trials(test) => {
                let row = Row { estimate: Some(estimate), ..Row::new("", claim.statistic.clone()) };
                // The miss rate plays no part in a p-value.
                test.judge(row, claim.expected, &point.trials_of(column), level, 0.1).0.p_value
            }
            Null::Unjudged(_) | Null::Measured => None,
        }
    };
    point.claims.iter().map(of_claim).collect()
}

/// Whether a claim that is judged has an estimate that is not a number: a fault whatever the p-values.
pub fn is_broken(point: &Outcome) -> bool {
    let broken = |claim: &Claim| {
        let (estimate, _) = estimate(&claim.estimator, &point.columns, point.trials);
        is_judged(claim) && !estimate.is_finite()
    };
    point.claims.iter().any(broken)
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
        _ if judged.vague => Verdict::Measured,
        (Some(_), _) if judged.fixed => Verdict::Upheld,
        (Some(_), Some(smallest)) if smallest <= rates.detect => Verdict::Upheld,
        _ => Verdict::Undecided,
    }
}

/// A number that does not exist is missing, for every form a row is written in.
fn finite_only(row: Row) -> Row {
    Row {
        estimate: finite(row.estimate),
        std_error: finite(row.std_error),
        ci_low: finite(row.ci_low),
        ci_high: finite(row.ci_high),
        deviation: finite(row.deviation),
        p_value: finite(row.p_value),
        min_detectable: finite(row.min_detectable),
        ..row
    }
}

fn judge_point(point: &Outcome, claim: &Claim, index: usize, level: f64, rates: &ErrorRates) -> Judged {
    let miss = rates.miss;
    let Sizes { d_k, queries, keys } = point.sizes;
    let trials = point.trials;
    let (estimate, column) = estimate(&claim.estimator, &point.columns, trials);
    let sample_variance = point.columns.sample_variance(column).unwrap_or(0.0);
    let row = Row {
        scale: claim.scale.map(|scale| scale.to_string()),
        mask: point.mask.clone(),
        index: claim.index,
        d_k: Some(d_k as u64),
        n_queries: Some(queries as u64),
        n_keys: Some(keys as u64),
        trials: Some(trials),
        estimate: Some(estimate),
        std_error: (trials > 1).then(|| (sample_variance / trials as f64).sqrt()),
        ..Row::new("", claim.statistic.clone())
    };
    let expected = claim.expected.map_or(0.0, |expected| expected.value);
    let mut vague = false;
    let row = match &claim.null {
        Null::Trials(test) => {
            let (row, shift) = test.judge(row, claim.expected, &point.trials_of(column), level, miss);
            vague = claim.expected.is_some() && test.is_vague(expected, rates.detect);
            Row { min_detectable: shift.map(|shift| shift / unit(&claim.null, expected)), ..row }
        }
        Null::Exact { model, rounding } => with_model(row, &model.over_trials(trials), *rounding, level, miss),
        Null::Unjudged(why) => Row { test: Some(format!("none: {why}")), ..row },
        Null::Measured => with_measured_interval(row, sample_variance, trials),
    };
    let row = if matches!(claim.estimator, Estimator::RootMean { .. }) { rooted(row) } else { row };
    Judged {
        vague,
        fixed: is_fixed(&claim.null),
        broken: is_judged(claim) && !estimate.is_finite(),
        row: with_theory(row, claim.expected, &claim.null),
        family: (index, claim.family.to_string()),
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
        Null::Trials(_) | Null::Measured => row,
    };
    Judged {
        vague: false,
        fixed: is_fixed(&sweep.claim.null),
        row: with_theory(row, sweep.claim.expected, &sweep.claim.null),
        family: sweep_family(sweep, points),
        broken: sweep.estimate.is_some_and(|estimate| !estimate.is_finite()),
    }
}

/// The estimate (not a number where there is none), and the column whose scatter over the trials is its own.
fn estimate(estimator: &Estimator, columns: &ColumnMoments, trials: u64) -> (f64, usize) {
    let mean = |column| columns.mean(column).unwrap_or(f64::NAN);
    match *estimator {
        Estimator::Mean { column } | Estimator::RootMean { column } => (mean(column), column),
        Estimator::Largest { column } => (columns.largest(column).unwrap_or(f64::NAN), column),
        Estimator::Kurtosis { second, fourth, linear, relative_bias } => {
            let ratio = mean(fourth) / mean(second).powi(2);
            // To first order only: where it is no small correction it would do harm, and no test is near.
            let bias = relative_bias / trials as f64;
            (if bias.abs() <= 0.5 { ratio / (1.0 + bias) } else { ratio }, linear)
        }
    }
}

/// Standard error, interval, p-value and smallest detectable deviation from a known model.
fn with_model(row: Row, model: &NullModel, rounding: f64, level: f64, miss: f64) -> Row {
    let estimate = row.estimate.unwrap_or(f64::NAN);
    let interval = model.interval(estimate, INTERVAL_ERROR);
    let p_value = model.p_value(estimate, rounding, level);
    // A fixed value that is off by more than twice the bound on rounding is beyond the bound whatever rounding does.
    let min_detectable = model.min_detectable(level, miss).map(|smallest| match (model.variance == 0.0, model.unit) {
        (true, unit) if unit > 0.0 && smallest == 0.0 => 2.0 * rounding / unit,
        _ => smallest,
    });
    let test = match p_value {
        _ if !model.judgeable(level) => {
            "none: too few trials at this size for its law to be known well enough".to_string()
        }
        _ => name_of_law(model),
    };
    Row {
        std_error: Some(model.standard_error()),
        ci_low: interval.map(|(low, _)| low),
        ci_high: interval.map(|(_, high)| high),
        p_value,
        min_detectable,
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

/// Theory and the deviation from it, in the unit of [`unit`].
fn with_theory(row: Row, expected: Option<Expected>, null: &Null) -> Row {
    let Some(expected) = expected else { return row };
    let deviation = row.estimate.map(|estimate| (estimate - expected.value) / unit(null, expected.value));
    Row { theory: Some(expected.value), theory_kind: Some(expected.kind), deviation, ..row }
}

/// A row of a mean square turned into that of its root; a relative deviation of the square is worse downwards.
fn rooted(row: Row) -> Row {
    let root = |value: Option<f64>| value.map(f64::sqrt);
    let estimate = root(row.estimate);
    Row {
        std_error: row.std_error.zip(estimate).map(|(error, root)| 0.5 * error / root),
        ci_low: root(row.ci_low.map(|low| low.max(0.0))),
        ci_high: root(row.ci_high),
        min_detectable: row.min_detectable.map(|square| 1.0 - (1.0 - square).max(0.0).sqrt()),
        estimate,
        ..row
    }
}

/// What deviations, detectable ones and `--detect` are relative to: the statistic's own unit where it has one, else the
/// size of the theory value, else 1.
fn unit(null: &Null, expected: f64) -> f64 {
    let own = match null {
        Null::Exact { model, .. } if model.kind == ErrorShape::Location => model.unit,
        Null::Trials(test) => test.unit,
        Null::Exact { .. } | Null::Unjudged(_) | Null::Measured => 0.0,
    };
    if own > 0.0 {
        own
    } else if expected != 0.0 {
        expected.abs()
    } else {
        1.0
    }
}

/// How the p-value of a claim is obtained, in words.
pub fn name_of_test(null: &Null, trials: u64) -> String {
    match null {
        Null::Exact { model, .. } => name_of_law(&model.over_trials(trials)),
        Null::Trials(test) if test.needs_values() => "conservative: a bet on bounded trial values".to_string(),
        Null::Trials(_) => "Student's t over the trials, corrected for skewness".to_string(),
        Null::Unjudged(why) => format!("none: {why}"),
        Null::Measured => String::new(),
    }
}

/// What the p-value of a known model rests on, in words.
fn name_of_law(model: &NullModel) -> String {
    let law = match model.law() {
        _ if model.variance == 0.0 => "a fixed value, up to rounding; conservative: p is 1 or 0",
        Law::Gamma { .. } => "gamma law of exact mean, variance and skewness",
        Law::ProductNormal { .. } => "product-normal law of exact variance and kurtosis",
        Law::Normal | Law::Student { .. } => "normal law of exact variance",
    };
    let lattice = if model.lattice_step > 0.0 { "; conservative: the statistic is discrete" } else { "" };
    format!("{law}{lattice}")
}
