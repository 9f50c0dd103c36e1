//! What a run shows, in words.

use crate::attention::Precision;
use crate::report::{Row, Verdict};

/// One sentence on angles that are wrong, and one on what adding the encoding does; `angles` is the arithmetic they were formed in.
pub fn remarks(rows: &[Row], angles: Precision) -> Vec<String> {
    let mut remarks = Vec::new();
    let wrong = rows.iter().filter(|row| row.statistic == "angle_error" && row.verdict == Verdict::Rejected);
    let largest = wrong.filter_map(|row| row.estimate).fold(0.0f64, f64::max);
    if largest > 0.0 {
        let whole = match angles {
            Precision::Bf16 => " (whole numbers above 256 are no longer exact: 257 becomes 256)",
            Precision::F16 => " (whole numbers above 2048 are no longer exact: 2049 becomes 2048)",
            Precision::F64 | Precision::F32 => "",
        };
        remarks.push(format!(
            "Angles formed in {angles}{whole} are off by up to {largest:.2} radians: neighbouring positions cannot be told apart where that \
             reaches 1. Form position, frequency and angle in f32 or better, and round cosine and sine only (--angles f32)."
        ));
    }
    if let Some(row) = rows.iter().find(|row| row.statistic == "embedding_variance" && row.estimate.is_some()) {
        let variance = row.theory.unwrap_or(f64::NAN);
        remarks.push(format!(
            "A sinusoidal encoding has mean square 1/2: added to tokens it takes the variance of their entries to {variance:.3}, and that of \
             logits of unit-variance tokens from d_k to 2·d_k (from 1 to 2 with the scale)."
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_angles_that_were_rejected_are_called_wrong() {
        let row = |verdict| Row { estimate: Some(1.25), verdict, ..Row::new("positional", "angle_error") };
        assert!(remarks(&[row(Verdict::Upheld)], Precision::F32).is_empty());
        let words = remarks(&[row(Verdict::Rejected)], Precision::Bf16).concat();
        assert!(words.contains("off by up to 1.25 radians") && words.contains("257 becomes 256"), "{words}");
    }
}
