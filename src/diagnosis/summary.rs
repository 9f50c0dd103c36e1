//! The moments of one head beside what i.i.d. entries give.

use super::checks::Control;
use super::evidence::Evidence;
use super::finding::{Check, Finding, Verdict, significant};
use super::matrix::Matrix;
use super::model::Model;
use super::slope::ScaleFit;
use super::survey::{RowFacts, Running};

/// Statistics of one head; variances divide by the number of values. Logits are those of visible cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadSummary {
    /// Batch entry.
    pub batch: usize,
    /// Head.
    pub head: usize,
    /// Mean of the entries of Q.
    pub query_mean: f64,
    /// Variance of the entries of Q.
    pub query_variance: f64,
    /// Mean of the entries of K.
    pub key_mean: f64,
    /// Variance of the entries of K.
    pub key_variance: f64,
    /// Mean of QKᵀ.
    pub raw_mean: f64,
    /// Variance of QKᵀ.
    pub raw_variance: f64,
    /// Mean of the scaled logits (the scale of the contract, or the fitted one where that is wrong).
    pub scaled_mean: f64,
    /// Variance of the scaled logits.
    pub scaled_variance: f64,
    /// Mean over rows of the variance within the row.
    pub within_row_variance: f64,
    /// Var raw / (d·E\[q²\]·E\[k²\]): 1 for independent entries of mean 0; `None` where Q or K is all zeros.
    pub dependence: Option<f64>,
    /// Mean over rows of the entropy of the weights, nats.
    pub entropy: f64,
    /// Mean over rows with two visible keys or more of entropy / ln(visible keys).
    pub relative_entropy: Option<f64>,
    /// Mean over the same rows of the largest weight.
    pub mean_largest_weight: Option<f64>,
    /// The largest weight of those rows.
    pub largest_weight: Option<f64>,
    /// Mean over rows of the weight on the first key.
    pub first_key_weight: f64,
    /// Share of rows with at least 8 visible keys whose largest weight is above 0.99.
    pub one_hot_share: Option<f64>,
    /// i.i.d. normal entries of the same width, scale, and visible keys.
    pub control: Option<Control>,
    /// Scale used above.
    pub scale: f64,
    /// The scale of the contract.
    pub expected_scale: f64,
    /// The scale that the weights show, where they show one.
    pub fitted_scale: Option<f64>,
    /// Its standard error.
    pub fitted_scale_error: Option<f64>,
}

impl HeadSummary {
    /// The same with the scale of the contract, and the one that the weights show.
    pub fn with_fit(self, expected_scale: f64, fit: Option<&ScaleFit>) -> Self {
        Self {
            expected_scale,
            fitted_scale: fit.map(|fit| fit.scale),
            fitted_scale_error: fit.map(|fit| fit.standard_error),
            ..self
        }
    }
}

/// Mean, variance, mean square.
fn moments(matrix: &Matrix) -> (f64, f64, f64) {
    let numbers = matrix.to_f64();
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / count;
    (mean, variance, variance + mean * mean)
}

/// The summary of a head from what was noted of its rows; weights are the file's where there are any, else the model's.
pub fn summarise(evidence: &Evidence<'_>, model: &Model, rows: &[RowFacts], control: Option<Control>) -> HeadSummary {
    let head = evidence.head;
    let (query_mean, query_variance, query_square) = moments(&head.queries);
    let (key_mean, key_variance, key_square) = moments(&head.keys);
    let mut raw = Running::default();
    let (mut within, mut rows_with_keys) = (0.0, 0.0f64);
    let (mut entropy, mut whole, mut relative, mut largest_sum, mut largest, mut several) =
        (0.0, 0.0f64, 0.0, 0.0, 0.0f64, 0.0);
    let (mut first, mut one_hot, mut long) = (0.0, 0.0, 0.0);
    // Folded in the order of the rows, whichever thread made them.
    for row in rows.iter().filter(|row| row.raw.count > 0.0) {
        within += row.raw.squares / row.raw.count;
        rows_with_keys += 1.0;
        raw.merge(row.raw);
        let Some(weights) = row.weights else { continue };
        whole += 1.0;
        entropy += weights.entropy;
        first += weights.first;
        if weights.keys > 1.0 {
            several += 1.0;
            relative += weights.entropy / weights.keys.ln();
            largest_sum += weights.largest;
            largest = largest.max(weights.largest);
        }
        if weights.keys >= 8.0 {
            long += 1.0;
            one_hot += f64::from(u8::from(weights.largest > 0.99));
        }
    }
    let raw_variance = raw.squares / raw.count.max(1.0);
    let scale = model.scale;
    let mean = |sum: f64, count: f64| (count > 0.0).then(|| sum / count);
    HeadSummary {
        batch: head.batch,
        head: head.head,
        query_mean,
        query_variance,
        key_mean,
        key_variance,
        raw_mean: raw.mean,
        raw_variance,
        scaled_mean: scale * raw.mean,
        scaled_variance: scale * scale * raw_variance,
        within_row_variance: scale * scale * within / rows_with_keys.max(1.0),
        dependence: mean(raw_variance, evidence.width as f64 * query_square * key_square),
        entropy: entropy / whole.max(1.0),
        relative_entropy: mean(relative, several),
        mean_largest_weight: mean(largest_sum, several),
        largest_weight: (several > 0.0).then_some(largest),
        first_key_weight: first / whole.max(1.0),
        one_hot_share: mean(one_hot, long),
        control,
        scale,
        expected_scale: scale,
        fitted_scale: None,
        fitted_scale_error: None,
    }
}

/// The summary in words: assumptions never fail, saturation warns.
pub fn findings(summary: &HeadSummary, width: usize) -> Vec<Finding> {
    let at = |check, verdict, key: &str, words: String| {
        Finding::new(check, verdict, key, words).in_head(summary.batch, summary.head)
    };
    let s = |value: f64| significant(value, 3);
    let dependence = summary.dependence.map_or(String::new(), |dependence| {
        format!(", {} times d·E[q²]·E[k²]: what is left of 1 is dependence", s(dependence))
    });
    let words = format!(
        "entries: mean Q {}, K {}; variance Q {}, K {}; Var[QKᵀ] = {} (d = {width} for i.i.d. entries of unit variance){dependence}; \
         no fault, the claim is one about initialisation",
        s(summary.query_mean),
        s(summary.key_mean),
        s(summary.query_variance),
        s(summary.key_variance),
        s(summary.raw_variance)
    );
    let mut findings = vec![at(Check::Assumptions, Verdict::Pass, "words", words).with_numbers(
        summary.raw_variance,
        width as f64,
        "variance of QKᵀ",
    )];
    if let (Some(relative), Some(control), Some(top)) =
        (summary.relative_entropy, summary.control, summary.mean_largest_weight)
    {
        let words = format!(
            "entropy {} of ln(visible keys), i.i.d. control {}; mean largest weight {}, control {}; weight on the first key {}",
            s(relative),
            s(control.relative_entropy),
            s(top),
            s(control.largest_weight),
            s(summary.first_key_weight)
        );
        let one_hot = summary.one_hot_share.is_some_and(|share| share >= 0.9) && control.largest_weight < 0.9;
        let (verdict, key) = if one_hot { (Verdict::Warn, "one-hot") } else { (Verdict::Pass, "words") };
        let mut finding = at(Check::Saturation, verdict, key, words).with_numbers(
            relative,
            control.relative_entropy,
            "entropy / ln keys",
        );
        if one_hot {
            finding.explanation = format!(
                "{:.0} % of the rows are one-hot (largest weight above 0.99); {}",
                100.0 * summary.one_hot_share.unwrap_or_default(),
                finding.explanation
            );
            finding = finding.with_cause(
                "Q and K have grown, or the head attends to one token on purpose; gradients through such rows vanish",
                "the variance of the scaled logits, layer by layer",
            );
        }
        findings.push(finding);
    }
    findings
}
