//! How log-sum-exps differ: a unit (constant ratio), an offset (constant, or linear in q), or noise.

use nalgebra::{DMatrix, DVector};

use super::grid::{Grid, coarser, dot};
use super::weights::Inputs;

/// How the file's values differ from the reference's.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Offset {
    /// Rounding explains it; the largest difference, in units of its bound.
    None(f64),
    /// The same ratio on every row.
    Ratio(f64),
    /// The same difference on every row.
    Constant(f64),
    /// factor · q·mean(K).
    CentredKeys(f64),
    /// Another linear function of q, for n > d + 1 rows.
    Linear,
    /// None of these.
    Other,
}

/// Compares n values (one row each), with Q and K of both dumps if they are there.
pub(super) fn offset(own: &Grid, reference: &Grid, inputs: Option<Inputs<'_>>) -> Offset {
    let stored = coarser(own, reference).unit_roundoff();
    let of = |pair: (&Grid, &Grid)| coarser(pair.0, pair.1).unit_roundoff();
    // The coarser of both dumps: a half-precision Q on one side moves its logits.
    let roundoff = inputs.map_or(stored, |inputs| stored.max(of(inputs.queries)).max(of(inputs.keys)));
    let scale = inputs.map_or(0.0, |inputs| inputs.scale);
    let inputs = inputs.map(|inputs| (inputs.queries.1, inputs.keys.1));
    let rows: Vec<usize> =
        (0..reference.columns).filter(|&row| own.at(0, row).is_finite() && reference.at(0, row).is_finite()).collect();
    let key_norm = inputs.map_or(0.0, |(_, keys)| {
        (0..keys.rows).map(|key| dot(keys.row(key), keys.row(key)).sqrt()).fold(0.0f64, f64::max)
    });
    // Rounding of the value, and of the logits in it.
    let bounds: Vec<f64> = rows
        .iter()
        .map(|&row| {
            let size = own.at(0, row).abs().max(reference.at(0, row).abs());
            let logits = inputs.map_or(0.0, |(queries, _)| {
                scale * dot(queries.row(row), queries.row(row)).sqrt() * key_norm * 2.0 * roundoff
            });
            16.0 * stored * (1.0 + size) + 2.0 * logits
        })
        .collect();
    let differences: Vec<f64> = rows.iter().map(|&row| own.at(0, row) - reference.at(0, row)).collect();
    let fits = |explained: &dyn Fn(usize) -> f64| {
        differences
            .iter()
            .zip(&bounds)
            .enumerate()
            .all(|(index, (difference, bound))| (difference - explained(index)).abs() <= 2.0 * bound)
    };
    let ratio = differences.iter().zip(&bounds).map(|(difference, bound)| difference.abs() / bound);
    let worst = ratio.fold(0.0f64, f64::max);
    if worst <= 1.0 {
        return Offset::None(worst);
    }
    if rows.len() < 2 {
        return Offset::Other;
    }
    let values: Vec<f64> = rows.iter().map(|&row| reference.at(0, row)).collect();
    let ratio = 1.0 + dot(&differences, &values) / dot(&values, &values);
    let constant = differences.iter().sum::<f64>() / differences.len() as f64;
    let is_ratio = fits(&|index| (ratio - 1.0) * values[index]);
    let is_constant = fits(&|_| constant);
    // Values that are nearly equal fit both; a unit is told by its number.
    let of_base = [std::f64::consts::LOG2_E, std::f64::consts::LN_2].iter().any(|base| (ratio - base).abs() < 1e-3);
    match (is_ratio, is_constant) {
        (true, false) => return Offset::Ratio(ratio),
        (true, true) if of_base => return Offset::Ratio(ratio),
        (_, true) => return Offset::Constant(constant),
        _ => {}
    }
    let Some((queries, keys)) = inputs else { return Offset::Other };
    let mean: Vec<f64> = (0..keys.columns)
        .map(|channel| (0..keys.rows).map(|key| keys.at(key, channel)).sum::<f64>() / keys.rows as f64)
        .collect();
    let along: Vec<f64> = rows.iter().map(|&row| dot(queries.row(row), &mean)).collect();
    let factor = dot(&differences, &along) / dot(&along, &along);
    if factor.is_finite() && fits(&|index| factor * along[index]) {
        return Offset::CentredKeys(factor);
    }
    let width = queries.columns;
    if rows.len() > width + 1 {
        let design = DMatrix::from_fn(rows.len(), width + 1, |index, channel| {
            if channel < width { queries.at(rows[index], channel) } else { 1.0 }
        });
        let fitted = design.clone().svd(true, true).solve(&DVector::from_vec(differences.clone()), 1e-12);
        if let Ok(coefficients) = fitted {
            let explained = &design * coefficients;
            if fits(&|index| explained[index]) {
                return Offset::Linear;
            }
        }
    }
    Offset::Other
}
