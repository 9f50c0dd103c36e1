//! The log-sum-exp that kernels return.

use super::HeadContext;
use crate::diagnosis::evidence::Columns;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::model::logit_noise;

/// Shown by `--explain lse`.
pub const EXPLANATION: &str = "\
Is the returned log-sum-exp ln Σ_j exp(logit_ij), natural, of the logits as they are?
Formula: difference and ratio to the value from Q and K, row by row. A constant ratio 1.442695 (1/ln 2): base 2. A constant difference: an \
offset. A difference −c·q·mean(K): K was centred. A difference −max: the row's maximum was not added back.
Verdict: FAIL for any of them and for anything else beyond rounding.
Blind spots: values near 0, where a ratio says nothing; one row.";

/// What the values say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let Some(given) = &context.head.log_sum_exp else { return Vec::new() };
    let evidence = context.evidence;
    let model = context.explanation.map_or(context.model, |explanation| &explanation.model);
    let given = given.to_f64();
    let (mut ratios, mut differences, mut largest_ones, mut centred) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut bounds, mut references) = (Vec::new(), Vec::new());
    let storage = context.head.log_sum_exp.as_ref().map_or(0.0, |matrix| matrix.storage.unit_roundoff());
    let queries: Vec<usize> = (0..evidence.queries.min(given.len())).collect();
    let rows = evidence.map_rows(&queries, Columns::All, |row, [logits, weights, noise]| {
        let view = row.view(&evidence.key_norms);
        if !view.has_keys() {
            return None;
        }
        let reference = model.weights(&view, logits, weights);
        let shared = logit_noise(model, &view, logits, weights, &evidence.precisions, noise);
        let sum = (8.0 + 4.0 * (evidence.keys as f64).sqrt()) * evidence.precisions.arithmetic;
        let bound = 2.0 * shared + sum + 4.0 * (storage + evidence.precisions.arithmetic) * (1.0 + reference.abs());
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean = model.scale * view.raw.iter().sum::<f64>() / evidence.keys as f64;
        Some((view.query, reference, bound, largest, mean))
    });
    for (query, reference, bound, largest, mean) in rows.into_iter().flatten() {
        bounds.push(bound);
        ratios.push(given[query] / reference);
        differences.push(given[query] - reference);
        largest_ones.push(largest);
        centred.push(mean);
        references.push(reference);
    }
    if references.is_empty() {
        return Vec::new();
    }
    let fits = |explained: &dyn Fn(usize) -> f64| {
        (0..references.len())
            .all(|index| (given_at(&differences, &references, index) - explained(index)).abs() <= 2.0 * bounds[index])
    };
    let worst =
        differences.iter().fold(
            0.0f64,
            |worst, difference| if difference.is_nan() { f64::INFINITY } else { worst.max(difference.abs()) },
        );
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let log2_e = std::f64::consts::LOG2_E;
    let offset = mean(&differences);
    if fits(&|index| references[index]) {
        let words = format!("natural log-sum-exp of the logits; largest difference {}", significant(worst, 2));
        return vec![context.finding(Check::Lse, Verdict::Pass, "right", words).with_numbers(worst, 0.0, "nats")];
    }
    let (key, words, numbers, cause) = if fits(&|index| references[index] * log2_e) {
        (
            "base 2",
            format!("LSE/ref = {} on every row: base-2 units", significant(mean(&ratios), 7)),
            (mean(&ratios), 1.0, "ratio"),
            "the kernel works with exp2 and returns log2 Σ; multiply by ln 2 before merging shards",
        )
    } else if fits(&|index| references[index] + offset) {
        let ln_2 = (offset.abs() - std::f64::consts::LN_2).abs() < 1e-3;
        (
            "offset",
            format!("LSE − ref = {} on every row{}", significant(offset, 6), if ln_2 { " = ± ln 2" } else { "" }),
            (offset, 0.0, "nats"),
            "a constant cancels inside softmax and not in a merge of shards",
        )
    } else if fits(&|index| references[index] - centred[index]) {
        (
            "centred keys",
            format!("LSE − ref = −c·q·mean(K) (up to {} nats): K was centred", significant(worst, 3)),
            (worst, 0.0, "nats"),
            "mean-centred keys leave the softmax as it is and the log-sum-exp not",
        )
    } else if fits(&|index| references[index] - largest_ones[index]) {
        (
            "maximum",
            format!(
                "LSE − ref = −max of the row (up to {} nats): the maximum was not added back",
                significant(worst, 3)
            ),
            (worst, 0.0, "nats"),
            "ln Σ exp(l − max) is returned without + max",
        )
    } else {
        (
            "other",
            format!(
                "LSE differs from ln Σ exp(logits) by up to {} nats, mean {}",
                significant(worst, 3),
                significant(offset, 3)
            ),
            (worst, 0.0, "nats"),
            "another scale or mask than the weights', or another row order",
        )
    };
    vec![
        context
            .finding(Check::Lse, Verdict::Fail, key, words)
            .with_numbers(numbers.0, numbers.1, numbers.2)
            .with_cause(cause, "merge two shards of keys and compare with the whole"),
    ]
}

fn given_at(differences: &[f64], references: &[f64], index: usize) -> f64 {
    differences[index] + references[index]
}
