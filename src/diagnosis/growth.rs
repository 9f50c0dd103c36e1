//! A series of dumps of one attention: do Q and K grow while V stays?

use super::finding::{Check, Finding, Verdict, joined, significant};
use super::summary::HeadSummary;

/// Shown by `--explain growth`.
pub const EXPLANATION: &str = "\
Do logits grow over a series of dumps (several files, each with Q and K, in the order of training)?
Formula: standard deviation of the scaled logits of each head over visible cells, first dump to last, with the entropy over ln(visible keys) and the root mean square of V. \
Q and K can grow together while V stays; entropy collapses and training diverges late (entropy collapse, Zhai et al. 2023).
Verdict: WARN if it at least doubled and never fell by more than a tenth on the way; V is called constant if it moved by less than half of what Q and K did (in logarithms). \
Never a FAIL: growth is a matter of training, not of the code.
Blind spots: growth on inputs that differ from dump to dump; a single dump; what happens between dumps.";

/// Logits grown by less are no finding.
const GROWN: f64 = 2.0;

/// A dump of the series.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its heads, in the order of every other dump.
    pub heads: Vec<HeadSummary>,
    /// Root mean square of V, if it is there.
    pub value_size: Option<f64>,
}

/// What a series of dumps shows, head by head; nothing for fewer than two dumps or dumps of different heads.
pub fn growth_findings(series: &[Snapshot]) -> Vec<Finding> {
    let (Some(first), Some(last)) = (series.first(), series.last()) else { return Vec::new() };
    if series.len() < 2 || series.iter().any(|dump| dump.heads.len() != first.heads.len()) {
        return Vec::new();
    }
    let deviation = |summary: &HeadSummary| summary.scaled_variance.max(0.0).sqrt();
    let findings = (0..first.heads.len()).map(|index| {
        let deviations: Vec<f64> = series.iter().map(|dump| deviation(&dump.heads[index])).collect();
        let (from, to) = (deviations[0], deviations[deviations.len() - 1]);
        let ratio = to / from;
        let rises = deviations.windows(2).all(|pair| pair[1] >= 0.9 * pair[0]);
        let entropy = |dump: &Snapshot| dump.heads[index].relative_entropy;
        let of_entropy = match (entropy(first), entropy(last)) {
            (Some(a), Some(b)) => format!(", entropy {} -> {} of max", significant(a, 2), significant(b, 2)),
            _ => String::new(),
        };
        let of_values = match (first.value_size, last.value_size) {
            (Some(a), Some(b)) if (b / a).ln().abs() < 0.5 * ratio.sqrt().ln().abs() => {
                format!(", V constant ({} -> {}): Q/K growth", significant(a, 3), significant(b, 3))
            }
            (Some(a), Some(b)) => format!(", V {} -> {}: all of them change", significant(a, 3), significant(b, 3)),
            _ => String::new(),
        };
        let words = format!(
            "logit standard deviation {} -> {} over {} dumps{of_entropy}{of_values}",
            significant(from, 3),
            significant(to, 3),
            series.len()
        );
        let grown = ratio >= GROWN && rises;
        let (verdict, key) = if grown { (Verdict::Warn, "grown") } else { (Verdict::Pass, "steady") };
        let finding = Finding::new(Check::Growth, verdict, key, words)
            .with_numbers(ratio, 1.0, "ratio of logit deviations")
            .in_head(first.heads[index].batch, first.heads[index].head);
        if !grown {
            return finding;
        }
        finding.with_cause(
            "Q and K grow together (their weights have no decay that holds their product); rows become one-hot and training diverges",
            "the norms of the Q and K projections over steps; normalise Q and K, or decay their weights",
        )
    });
    joined(findings.collect())
}
