//! What a run amounts to, in one sentence.

use super::number::exact;
use super::row::{Row, Verdict};

/// How many rows have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Claims that hold.
    pub upheld: usize,
    /// Claims that do not hold.
    pub rejected: usize,
    /// Claims that so few trials cannot judge.
    pub undecided: usize,
    /// Rows without a claim.
    pub measured: usize,
}

impl Summary {
    /// Counts the verdicts.
    pub fn of(rows: &[Row]) -> Self {
        let mut summary = Self::default();
        for row in rows {
            match row.verdict {
                Verdict::Upheld => summary.upheld += 1,
                Verdict::Rejected => summary.rejected += 1,
                Verdict::Undecided => summary.undecided += 1,
                Verdict::Measured => summary.measured += 1,
            }
        }
        summary
    }

    /// Number of rows that hold a claim.
    pub fn claims(&self) -> usize {
        self.upheld + self.rejected + self.undecided
    }

    /// The closing line, such as `11 claims upheld, 0 rejected, 0 undecided (false-alarm rate 1e-6 over the whole run)`.
    /// `false_alarm` is the probability that a correct implementation is rejected anywhere in the run.
    pub fn sentence(&self, false_alarm: Option<f64>) -> String {
        let measured = match (self.measured, self.measured == 1) {
            (0, _) => String::new(),
            (_, true) => "; 1 row measured without a claim".to_owned(),
            (count, false) => format!("; {count} rows measured without a claim"),
        };
        if self.claims() == 0 {
            return format!("no claims were judged{measured}");
        }
        let noun = if self.upheld == 1 { "claim" } else { "claims" };
        let rate = false_alarm
            .and_then(exact)
            .map(|rate| format!(" (false-alarm rate {rate} over the whole run)"))
            .unwrap_or_default();
        format!(
            "{} {noun} upheld, {} rejected, {} undecided{rate}{measured}",
            self.upheld, self.rejected, self.undecided
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_counts_and_names_the_rate() {
        let summary = Summary { upheld: 11, ..Summary::default() };
        assert_eq!(
            summary.sentence(Some(1e-6)),
            "11 claims upheld, 0 rejected, 0 undecided (false-alarm rate 1e-6 over the whole run)"
        );
        let summary = Summary { upheld: 1, rejected: 2, undecided: 3, measured: 1 };
        assert_eq!(
            summary.sentence(Some(0.05)),
            "1 claim upheld, 2 rejected, 3 undecided (false-alarm rate 0.05 over the whole run); 1 row measured without a claim"
        );
        assert_eq!(summary.sentence(None), "1 claim upheld, 2 rejected, 3 undecided; 1 row measured without a claim");
    }

    #[test]
    fn a_run_without_claims_does_not_say_that_claims_hold() {
        assert_eq!(Summary::default().sentence(Some(0.1)), "no claims were judged");
        let rows = [Row::new("a", "b"), Row::new("a", "c")];
        assert_eq!(Summary::of(&rows).sentence(Some(0.1)), "no claims were judged; 2 rows measured without a claim");
    }
}
