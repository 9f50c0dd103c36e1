//! How far the softmax is from that of i.i.d. entries.

use std::collections::BTreeMap;

use crate::attention::Mask;
use crate::theory::softmax;

/// Shown by `--explain saturation`.
pub const EXPLANATION: &str = "\
Are rows nearly one-hot?
Formula: entropy of a row over ln(visible keys; keys that have weight although the contract hides them count too), and the largest weight, averaged over rows with at least two visible keys; beside them the values of i.i.d. \
normal Q and K of the same width, scale and numbers of visible keys, from theory (random energy model, exact integrals at up to 24 numbers of keys; \
the largest weight, a double integral, at 6 of them and between them a parabola of ln w in ln m, within 0.1 %; where more than 24 rows differ, 24 stand for all: within 2 % for causal rows).
Verdict: WARN if 90 % of the rows with at least 8 visible keys have a weight above 0.99; else PASS. Trained heads may do that on purpose.
Blind spots: rows with one key are one-hot by construction and left out.";

/// Rows for which theory is computed; more are spread over.
const CONTROL_ROWS: usize = 24;

/// What i.i.d. normal entries give at the same sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    /// Mean over rows of entropy / ln(visible keys).
    pub relative_entropy: f64,
    /// Mean over rows of the largest weight.
    pub largest_weight: f64,
}

impl Control {
    /// The control for the rows of `mask` with at least two keys; `None` if there are none, or the scale is no number.
    pub fn new(mask: &Mask, width: usize, scale: f64) -> Option<Self> {
        let counts: Vec<usize> = mask.visible_keys().into_iter().filter(|&count| count > 1).collect();
        let rows = counts.len().min(CONTROL_ROWS);
        let mut sorted = counts;
        sorted.sort_unstable();
        let mut used: BTreeMap<usize, usize> = BTreeMap::new();
        for index in 0..rows {
            // The middle of each of `rows` equal parts.
            *used.entry(sorted[(2 * index + 1) * sorted.len() / (2 * rows)]).or_default() += 1;
        }
        let keys: Vec<usize> = used.keys().copied().collect();
        let expected = softmax::expectations_by_keys(width as u32, scale.abs(), &keys).ok()?;
        let knots = knots(&keys, width, scale.abs())?;
        let (mut entropy, mut largest) = (0.0, 0.0);
        for ((&keys, &times), expected) in used.iter().zip(&expected) {
            entropy += times as f64 * expected.entropy / (keys as f64).ln();
            largest += times as f64 * between(&knots, (keys as f64).ln()).exp();
        }
        (rows > 0).then(|| Self { relative_entropy: entropy / rows as f64, largest_weight: largest / rows as f64 })
    }
}

/// Numbers of keys at which the largest weight, a double integral of some milliseconds, is computed; between them its logarithm is a
/// parabola in ln m through the nearest three, which errs by 2e-5 to 2e-4 (tests).
const KNOTS: usize = 6;

/// (ln m, ln of the expected largest weight) at some of `keys`, evenly in ln m, first and last included.
fn knots(keys: &[usize], width: usize, scale: f64) -> Option<Vec<(f64, f64)>> {
    let (first, last) = ((*keys.first()? as f64).ln(), (*keys.last()? as f64).ln());
    let wanted = (0..KNOTS).map(|index| first + (last - first) * index as f64 / (KNOTS - 1) as f64);
    let nearest = |logarithm: f64| {
        let distance = |m: &usize| ((*m as f64).ln() - logarithm).abs();
        keys.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let mut chosen: Vec<usize> = wanted.filter_map(nearest).collect();
    chosen.dedup();
    let at = |m: usize| Some(((m as f64).ln(), softmax::max_weight(width as u32, m, scale).ok()?.ln()));
    chosen.into_iter().map(at).collect()
}

/// The polynomial through the three knots nearest `x` (or all, if they are fewer), by Lagrange.
fn between(knots: &[(f64, f64)], x: f64) -> f64 {
    let next = knots.partition_point(|knot| knot.0 < x);
    let start = next.saturating_sub(2).min(knots.len().saturating_sub(3));
    let near = &knots[start..knots.len().min(start + 3)];
    near.iter()
        .map(|knot| {
            let others = near.iter().filter(|other| other.0 != knot.0);
            others.fold(knot.1, |product, other| product * (x - other.0) / (knot.0 - other.0))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest relative error of the control's largest weight against the exact mean over every row.
    fn error(counts: &[usize], width: usize, scale: f64) -> f64 {
        let most = *counts.iter().max().expect("a row");
        let cells = counts.iter().flat_map(|&count| (0..most).map(move |key| key < count)).collect();
        let control = Control::new(&Mask::from_cells(counts.len(), most, cells), width, scale).expect("a control");
        let several: Vec<usize> = counts.iter().copied().filter(|&count| count > 1).collect();
        let exact = |m: usize| softmax::max_weight(width as u32, m, scale).expect("in its domain");
        let mean = several.iter().map(|&m| exact(m)).sum::<f64>() / several.len() as f64;
        (control.largest_weight / mean - 1.0).abs()
    }

    #[test]
    fn the_largest_weight_of_the_control_is_that_of_the_exact_theory_to_three_digits() {
        // Few rows, all of them in the sum: what is left is the interpolation. Causal rows of 1 to 25 keys, a window, and lengths far apart.
        let causal: Vec<usize> = (1..=25).collect();
        let spread: Vec<usize> = (0..24).map(|index| (2.0 * 1.31f64.powi(index)).round() as usize).collect();
        for (counts, width, scale) in
            [(&causal, 64, 0.125), (&causal, 16, 1.0), (&spread, 64, 0.125), (&spread, 128, 0.5)]
        {
            let error = error(counts, width, scale);
            // Measured: 2e-5, 2e-5 and 2e-4.
            assert!(error < 1e-3, "{error} for width {width}, scale {scale}");
        }
        // One number of keys is exact.
        assert!(error(&[37; 5], 64, 0.125) < 1e-12);
    }

    #[test]
    fn twenty_four_rows_stand_for_many() {
        // Causal, n = 101: the middle of 24 equal parts of the rows.
        let causal: Vec<usize> = (1..=101).collect();
        let error = error(&causal, 64, 0.125);
        // Measured: 0.016, since short rows weigh in with a large weight.
        assert!(error < 0.02, "{error}");
    }
}
