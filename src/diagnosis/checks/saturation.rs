//! How far the softmax is from that of i.i.d. entries.

use std::collections::BTreeMap;

use crate::attention::Mask;
use crate::theory::softmax;

/// Shown by `--explain saturation`.
pub const EXPLANATION: &str = "\
Are rows nearly one-hot?
Formula: entropy of a row over ln(visible keys), and the largest weight, averaged over rows with at least two visible keys; beside them the values of i.i.d. \
normal Q and K of the same width, scale and numbers of visible keys, from theory (random energy model, exact integrals).
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
            largest += times as f64 * between(&knots, (keys as f64).ln());
        }
        (rows > 0).then(|| Self { relative_entropy: entropy / rows as f64, largest_weight: largest / rows as f64 })
    }
}

/// Numbers of keys at which the largest weight, a double integral, is computed; between them it is linear in ln m.
const KNOTS: usize = 6;

/// (ln m, expected largest weight) at some of `keys`, first and last included.
fn knots(keys: &[usize], width: usize, scale: f64) -> Option<Vec<(f64, f64)>> {
    let count = keys.len().min(KNOTS);
    let at = |index: usize| if count > 1 { index * (keys.len() - 1) / (count - 1) } else { 0 };
    (0..count)
        .map(|index| {
            let m = keys[at(index)];
            Some(((m as f64).ln(), softmax::max_weight(width as u32, m, scale).ok()?))
        })
        .collect()
}

/// Linear between neighbouring knots.
fn between(knots: &[(f64, f64)], x: f64) -> f64 {
    let last = knots[knots.len() - 1];
    let pair = knots.windows(2).find(|pair| x <= pair[1].0);
    pair.map_or(last.1, |pair| {
        let ((a, low), (b, high)) = (pair[0], pair[1]);
        if x <= a { low } else { low + (high - low) * (x - a) / (b - a) }
    })
}
