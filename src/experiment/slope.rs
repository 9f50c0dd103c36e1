//! The slope of ln Var against ln d_k over a sweep: 1 for raw logits, 0 after 1/√d_k, −1 after 1/d_k.

use super::judge::{Outcome, Sweep};
use super::{Claim, Estimator, Expected, Null};
use crate::attention::Scale;
use crate::report::TheoryKind;
use crate::statistics::{ErrorShape, LawOrigin, Measured, NullModel, log_fit};

/// The statistic that the slope is fitted to.
const FITTED: &str = "logit_variance";
/// Relative standard error above which the logarithm of a variance is too skewed for a normal interval.
const LARGEST_SPREAD: f64 = 0.05;

/// One slope for every scale and every (n, m) that has at least two widths.
pub fn of_variance(points: &[Outcome]) -> Vec<Sweep> {
    let mut sizes: Vec<(usize, usize)> = Vec::new();
    for point in points {
        let pair = (point.sizes.queries, point.sizes.keys);
        if !sizes.contains(&pair) {
            sizes.push(pair);
        }
    }
    let scales: Vec<Scale> = (points.first().into_iter())
        .flat_map(|point| point.claims.iter().filter(|claim| claim.statistic == FITTED).filter_map(|claim| claim.scale))
        .collect();
    let every = sizes.iter().flat_map(|&size| scales.iter().map(move |&scale| (size, scale)));
    every.filter_map(|((queries, keys), scale)| slope(points, queries, keys, scale)).collect()
}

fn slope(points: &[Outcome], queries: usize, keys: usize, scale: Scale) -> Option<Sweep> {
    let here: Vec<&Outcome> =
        points.iter().filter(|point| (point.sizes.queries, point.sizes.keys) == (queries, keys)).collect();
    if here.len() < 2 {
        return None;
    }
    let variances: Vec<Variance> = here.iter().map(|point| Variance::of(point, scale)).collect::<Option<_>>()?;
    let fit_points = |value: &dyn Fn(&Variance) -> f64| -> Vec<Measured> {
        let point = |(outcome, variance): (&&Outcome, &Variance)| Measured {
            x: outcome.sizes.d_k as f64,
            y: value(variance),
            relative_standard_error: variance.relative_error,
        };
        here.iter().zip(&variances).map(point).collect()
    };
    // Before the run theory stands in for the estimates: the spread is the same.
    let planned = log_fit(&fit_points(&|variance| variance.expected)).ok()?;
    let estimate = variances
        .iter()
        .all(|variance| variance.estimate.is_some_and(|estimate| estimate > 0.0))
        .then(|| log_fit(&fit_points(&|variance| variance.estimate.unwrap_or(f64::NAN))).ok())
        .flatten()
        .map(|fitted| fitted.slope);
    let expected = scale.variance_exponent();
    let judged = variances.iter().all(|variance| variance.judged);
    let model = NullModel {
        expected,
        variance: planned.slope_standard_error.powi(2),
        skewness: 0.0,
        excess_kurtosis: 0.0,
        kind: ErrorShape::Location,
        origin: LawOrigin::Matched,
        lattice_step: 0.0,
        unit: 1.0,
    };
    let too_wide = variances.iter().any(|variance| variance.relative_error > LARGEST_SPREAD);
    let null = match (judged, too_wide) {
        (false, _) => Null::Measured,
        (true, true) => Null::Unjudged("too few trials for a fit of logarithms".to_string()),
        (true, false) => Null::Exact { model, rounding: 0.0 },
    };
    let claim = Claim {
        index: None,
        statistic: "variance_slope".to_string(),
        scale: Some(scale),
        family: "variance_slope".into(),
        estimator: Estimator::Mean { column: 0 },
        expected: judged.then_some(Expected { value: expected, kind: TheoryKind::Exact }),
        null,
    };
    let trials = here.iter().map(|point| point.trials).sum();
    Some(Sweep { claim, queries, keys, trials, estimate, standard_error: planned.slope_standard_error })
}

/// The variance of one point and what is known of it.
struct Variance {
    estimate: Option<f64>,
    expected: f64,
    relative_error: f64,
    judged: bool,
}

impl Variance {
    fn of(point: &Outcome, scale: Scale) -> Option<Self> {
        let claim = point.claims.iter().find(|claim| claim.statistic == FITTED && claim.scale == Some(scale))?;
        let Estimator::Mean { column } = claim.estimator else { return None };
        let estimate = point.columns.mean(column);
        match &claim.null {
            Null::Exact { model, .. } => {
                let model = model.over_trials(point.trials);
                let relative_error = model.standard_error() / model.expected;
                Some(Self { estimate, expected: model.expected, relative_error, judged: true })
            }
            Null::Trials(_) | Null::Unjudged(_) | Null::Measured => {
                let expected = estimate?;
                let relative_error = point.columns.standard_error(column)? / expected;
                Some(Self { estimate, expected, relative_error, judged: false })
            }
        }
    }
}
