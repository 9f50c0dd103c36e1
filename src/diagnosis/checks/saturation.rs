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
        let (mut entropy, mut largest) = (0.0, 0.0);
        for (&keys, &times) in &used {
            let expected = softmax::expectations(width as u32, keys, scale.abs()).ok()?;
            entropy += times as f64 * expected.entropy / (keys as f64).ln();
            largest += times as f64 * softmax::max_weight(width as u32, keys, scale.abs()).ok()?;
        }
        (rows > 0).then(|| Self { relative_entropy: entropy / rows as f64, largest_weight: largest / rows as f64 })
    }
}
