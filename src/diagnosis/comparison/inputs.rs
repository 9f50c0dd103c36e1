//! What enters the attention, in words: factors, rotations, permutations of Q, K and V.

use super::alignment::Kind;
use super::grid::Difference;
use super::head::HeadPair;
use super::relation::{Relation, SHIFTS, Turn, factor_words, permutation_words};
use crate::diagnosis::arrays::Role;
use crate::diagnosis::contract::RotaryLayout;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};

impl HeadPair<'_> {
    /// What a relation says of an array that enters the attention.
    pub(super) fn of_relation(
        &self,
        role: Role,
        relation: &Relation,
        alike: bool,
        later: Option<bool>,
    ) -> Option<Finding> {
        let check = Check::Agreement(role);
        let pass = |key: &str, words: String| self.finding(check, Verdict::Pass, key, words);
        let unchanged = "Q and K are changed alike and QKᵀ is the same: no fault of attention";
        let fail = |key: &str, words: String| self.finding(check, Verdict::Fail, key, words);
        Some(match relation {
            Relation::Same(difference) => self.agrees(role, difference, ""),
            Relation::Accumulated(difference) => {
                let mut finding = self.differs(role, difference, "accumulated", "");
                finding.verdict = Verdict::Warn;
                finding.with_cause(
                    "no structure, and no more than rounding through many layers makes; or a small fault before this array",
                    "compare the first layer, where nothing has accumulated",
                )
            }
            Relation::Factor(factor) => self.scaled(role, *factor, alike, later),
            Relation::Turned(_) if alike => {
                pass("alike", format!("{role}: turned by positions; {unchanged}, since positions enter as differences"))
            }
            Relation::Turned(turn) => self.turned(role, turn),
            Relation::Channels(permutation) => {
                let words = permutation_words(permutation);
                if alike {
                    pass(
                        "alike",
                        format!(
                            "{role}: channels of the reference in the order {words}; {unchanged}; incompatible with weights trained for the other layout"
                        ),
                    )
                } else {
                    let moved = permutation.iter().enumerate().filter(|(index, from)| index != *from).count();
                    fail(
                        &format!("channels {words}"),
                        format!("{role} differ from the reference by a permutation inside heads: channels {words}"),
                    )
                    .with_numbers(moved as f64, 0.0, "channels moved")
                    .with_cause(
                        "the rows of the projection are permuted (for the pairs of the rotation) with a wrong number of heads, or on one side only",
                        "compare Q too: the same permutation of both changes nothing",
                    )
                }
            }
            Relation::Rows(permutation) => {
                let moved = permutation.iter().enumerate().filter(|(index, from)| index != *from).count();
                fail(
                    "rows",
                    format!("{role}: rows are those of the reference in the order {}", permutation_words(permutation)),
                )
                .with_numbers(moved as f64, 0.0, "rows moved")
                .with_cause(
                    "tokens in another order: a cache that was rotated or sorted, or another batch",
                    "compare the tokens",
                )
            }
            Relation::Transposed => fail("transposed", format!("{role}: rows are the columns of the reference"))
                .with_cause("x.T dumped, or Fortran order read as C order", "transpose one of them"),
            Relation::Other(difference) if alike => {
                pass("alike", format!("{role}: {unchanged}")).with_numbers(difference.ratio, 0.0, "of the bound")
            }
            Relation::Other(difference) => self.other(role, difference),
        })
    }

    /// A difference without a name.
    pub(super) fn other(&self, role: Role, difference: &Difference) -> Finding {
        if self.tokens.kind() == Kind::Longer {
            let words = format!(
                "{role}: real-token rows differ by {}x RMS between padded and unpadded ({}, largest difference {})",
                significant(difference.relative(), 3),
                self.tokens.words(),
                significant(difference.largest, 3)
            );
            let finding = self
                .finding(Check::Padding, Verdict::Fail, "longer", words)
                .with_numbers(difference.relative(), 0.0, "of the RMS")
                .with_cause(
                    "padding keys leak into real tokens on some path (left padding sits in the causal past), or positions shift with the padding",
                    "dump the weights too, and look at those on padding keys",
                );
            return self.at_cell(finding, role, difference.first);
        }
        self.differs(role, difference, "differs", "").with_cause(
            "another input, layer or projection; what comes before this array differs already",
            "compare the arrays before it",
        )
    }

    fn scaled(&self, role: Role, factor: f64, alike: bool, later: Option<bool>) -> Finding {
        let (name, known) = factor_words(factor, self.sizes.width);
        let words = format!("{role}: the reference times {name}");
        let check = Check::Agreement(role);
        let (verdict, rest) = match (alike, later) {
            (true, _) => (Verdict::Pass, "; the other side has the inverse, QKᵀ is the same"),
            (_, Some(true)) => (
                Verdict::Pass,
                "; the weights are the same, so the factor is undone later: it is only at another place",
            ),
            (_, None) if known => (Verdict::Warn, "; a scale that may be at another place in the other dump"),
            _ => (Verdict::Fail, ""),
        };
        let finding =
            self.finding(check, verdict, &format!("factor {name}"), words + rest).with_numbers(factor, 1.0, "factor");
        match verdict {
            Verdict::Pass => finding,
            _ => finding.with_cause(
                "the scale is put into this array on one path, and applied again (or not) in the product",
                "compare the weights, or say where Q and K were dumped",
            ),
        }
    }

    fn turned(&self, role: Role, turn: &Turn) -> Finding {
        let step = match (self.tokens.kind(), self.at_row(role, turn.first)) {
            (Kind::Step, row) => format!("decode row {row} of {role}"),
            (_, row) if turn.rows == 1 => format!("row {row} of {role}"),
            (_, row) => format!("{} rows of {role} from {row} on", turn.rows),
        };
        let position = self.tokens.position() + turn.first as i64;
        let shift = turn.shift.unwrap_or(-position);
        let is_zero = turn.shift.is_none() || shift == -position;
        let layout = match turn.layout {
            RotaryLayout::HalfSplit => "half-split",
            RotaryLayout::Interleaved => "interleaved",
        };
        let words = format!(
            "{step} equals the full-forward row rotated by {shift:+} position{}{} (best of -{SHIFTS}..{SHIFTS} and position 0, {layout}, residual {})",
            if shift.abs() == 1 { "" } else { "s" },
            if is_zero { ": it stands at position 0" } else { "" },
            significant(turn.residual, 1)
        );
        let cause = if is_zero {
            "every decoded token gets position 0: the length of the cache is not passed"
        } else {
            "the rotary offset is read after the cache was advanced, or rows of a batch share one counter"
        };
        let mut finding = self
            .finding(Check::Cache, Verdict::Fail, &format!("{role} {shift} {is_zero}"), words)
            .with_numbers(shift as f64, 0.0, "positions off")
            .with_cause(cause, "print the position that is passed to the rotation in each step");
        finding.cell = Some((self.at_row(role, turn.first), None));
        finding
    }

    fn at_row(&self, role: Role, row: usize) -> usize {
        self.corners[&role].0 + row
    }
}
