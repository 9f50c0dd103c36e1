//! What an attention makes of its inputs, in both dumps: logits and weights; log-sum-exp and output are in [`super::output`]. Each is held
//! against what the arrays before it explain.

use super::alignment::Kind;
use super::grid::{Difference, Grid, coarser, dot, root_mean_square};
use super::head::HeadPair;
use super::relation::{Relation, factor};
use super::weights::{self, Cause, Dropout, Support};
use crate::diagnosis::arrays::Role;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Storage;
use crate::diagnosis::naming::names;

/// A plain computation of the type may be beaten by this much before it is worth a warning, as in `precision`.
const SUSPICIOUS_RATIO: f64 = 8.0;

/// Rows on which a plain computation is made.
const PLAIN_ROWS: usize = 64;

impl HeadPair<'_> {
    /// Findings of what the attention made, knowing whether Q and K (as far as QKᵀ goes) and V are the same.
    pub(super) fn made(&self, inputs_same: bool, values_same: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.logits(inputs_same));
        let (weights_same, of_weights) = self.weights(inputs_same);
        findings.extend(of_weights);
        findings.extend(self.log_sums(inputs_same, weights_same));
        findings.extend(self.output(inputs_same, values_same, weights_same));
        findings
    }

    pub(super) fn cannot_tell(&self, role: Role, difference: &Difference) -> Finding {
        let words = format!(
            "{role}: largest difference {}, as the arrays before it explain; whether more is wrong does not show",
            significant(difference.largest, 3)
        );
        self.finding(Check::Agreement(role), Verdict::CannotTell, "explained", words).with_numbers(
            difference.ratio,
            0.0,
            "of the bound",
        )
    }

    fn logits(&self, inputs_same: bool) -> Option<Finding> {
        let (own, reference) = self.pair(Role::Logits)?;
        let stored = coarser(own, reference);
        let inputs = self.inputs();
        let difference = |with_inputs: bool| {
            let (mut rounding, mut inherited) = (vec![0.0; own.columns], vec![0.0; own.columns]);
            Difference::measure(own, reference, |row, bounds| {
                if let Some(inputs) = inputs {
                    inputs.errors(row, &mut rounding, &mut inherited);
                }
                let size = root_mean_square(reference.row(row));
                for (key, bound) in bounds.iter_mut().enumerate() {
                    let own_rounding = 8.0 * stored.unit_roundoff() * (reference.at(row, key).abs() + size);
                    *bound = own_rounding + rounding[key] + if with_inputs { 2.0 * inherited[key] } else { 0.0 };
                }
            })
        };
        let found = difference(false);
        if found.fits() {
            return Some(self.agrees(Role::Logits, &found, ""));
        }
        if !inputs_same && difference(true).fits() {
            return Some(self.cannot_tell(Role::Logits, &found));
        }
        if let Some(ratio) = factor(own, reference, found.roundoff) {
            return Some(self.other_scale(ratio, "logits"));
        }
        // A number per row is nothing to softmax.
        let row_offset = |row: usize| {
            let apart = own.row(row).iter().zip(reference.row(row)).map(|(a, b)| a - b);
            let finite: Vec<f64> = apart.filter(|number| number.is_finite()).collect();
            finite.iter().sum::<f64>() / finite.len().max(1) as f64
        };
        let moved = reference.with(|row, key| reference.at(row, key) + row_offset(row));
        let rest = Difference::plain(own, &moved);
        if rest.fits() {
            let words = format!(
                "logits: a number per row apart (up to {}), which softmax does not see",
                significant(found.largest, 3)
            );
            return Some(self.finding(Check::Agreement(Role::Logits), Verdict::Pass, "row offset", words));
        }
        Some(match Relation::find(own, reference, None) {
            Relation::Accumulated(_) | Relation::Same(_) => {
                let mut finding = self.differs(Role::Logits, &found, "accumulated", "");
                finding.verdict = Verdict::Warn;
                finding
            }
            Relation::Transposed => self
                .finding(
                    Check::Agreement(Role::Logits),
                    Verdict::Fail,
                    "transposed",
                    "logits: rows are the columns of the reference",
                )
                .with_cause("KQᵀ for QKᵀ, or a transposed dump", "transpose one of them"),
            _ => self.differs(Role::Logits, &found, "differs", "").with_cause(
                "a bias, a cap or a mask on one path, or logits dumped at different places",
                "subtract the logits, cell by cell",
            ),
        })
    }

    /// The weights' findings, and whether they are the same (`None` without weights).
    fn weights(&self, inputs_same: bool) -> (Option<bool>, Vec<Finding>) {
        let Some((own, reference)) = self.pair(Role::Weights) else { return (None, Vec::new()) };
        let inputs = self.inputs();
        let plain = weights::difference(own, reference, inputs, false);
        if self.scales_differ && inputs_same {
            return (Some(plain.fits()), self.declared_scales(own, reference, &plain));
        }
        let leak = self.leak();
        if plain.fits() && leak.is_none() {
            return (Some(true), vec![self.with_yardstick(&plain)]);
        }
        if let Some(leak) = leak {
            return (Some(false), vec![leak]);
        }
        if !inputs_same && weights::difference(own, reference, inputs, true).fits() {
            return (Some(false), vec![self.cannot_tell(Role::Weights, &plain)]);
        }
        let finding = match weights::cause(own, reference, inputs, self.tokens.position()) {
            Cause::Dropout(dropout) => self.dropout(&dropout, inputs_same),
            Cause::Support(support) => self.support(&support),
            Cause::Scale(ratio) => self.other_scale(ratio, "weights"),
            Cause::Order(Relation::Transposed) => self
                .finding(
                    Check::Agreement(Role::Weights),
                    Verdict::Fail,
                    "transposed",
                    "weights: rows are the columns of the reference",
                )
                .with_cause("softmax(KQᵀ) for softmax(QKᵀ)ᵀ, or a transposed dump", "transpose one of them"),
            Cause::Order(Relation::Channels(order)) => {
                let words = super::relation::permutation_words(&order);
                self.finding(
                    Check::Agreement(Role::Weights),
                    Verdict::Fail,
                    "keys",
                    format!("weights: the keys are those of the reference in the order {words}"),
                )
                .with_cause("keys in another order than in the reference", "compare K row by row")
            }
            Cause::Order(_) | Cause::Other if inputs_same && self.inputs_are_identical() => {
                let why = "; Q and K are the same numbers";
                self.differs(Role::Weights, &plain, "nondeterministic", why).with_cause(
                    "nondeterministic (two runs of one input differ), or another code path: bias, cap or softmax in a narrower type",
                    "dump one run twice on one path",
                )
            }
            _ => self.other(Role::Weights, &plain),
        };
        (Some(false), vec![finding])
    }

    /// Q and K bit by bit.
    pub(super) fn inputs_are_identical(&self) -> bool {
        [Role::Queries, Role::Keys]
            .into_iter()
            .all(|role| self.pair(role).is_some_and(|(own, reference)| own.numbers == reference.numbers))
    }

    /// Weight on keys that only one dump has.
    fn leak(&self) -> Option<Finding> {
        let most = self.beyond.0.max(self.beyond.1);
        let (_, reference) = self.pair(Role::Weights)?;
        if self.tokens.kind() != Kind::Longer || most <= 64.0 * reference.storage.underflow() {
            return None;
        }
        let (name, keys) = match self.beyond.0 >= self.beyond.1 {
            true => ("the file", self.tokens.own.1),
            false => ("the reference", self.tokens.reference.1),
        };
        let span = self.tokens.keys?;
        let more = keys.unwrap_or(span.length) - span.length;
        let mut words = format!(
            "the {more} keys that only {name} has receive {} mean weight of the common rows ({})",
            significant(most, 2),
            self.tokens.words()
        );
        let output = self.pair(Role::Output).map(|(own, reference)| Difference::plain(own, reference));
        let mut numbers = (most, "weight");
        if let Some(output) = output.filter(|output| !output.fits()) {
            words.push_str(&format!(
                "; real-token rows differ by {}x RMS between padded and unpadded",
                significant(output.relative(), 3)
            ));
            numbers = (output.relative(), "of the RMS");
        }
        Some(
            self.finding(Check::Padding, Verdict::Fail, "leak", words).with_numbers(numbers.0, 0.0, numbers.1).with_cause(
                "padding keys are not hidden on this path (or, if they come later than the rows, there is no causal mask)",
                "look at the weights on padding keys",
            ),
        )
    }

    /// The same weights or output for two scales.
    pub(super) fn scale_ignored(&self, what: &str) -> Finding {
        let declared = format!("{} and {}", significant(self.scales.0, 5), significant(self.scales.1, 5));
        let words = format!("same {what} for two different declared scales ({declared}): scale argument ignored");
        self.finding(Check::Scale, Verdict::Fail, "ignored", words)
            .with_numbers(1.0, self.scales.0 / self.scales.1, "ratio of scales")
            .with_cause(
                "the scale is read from the configuration on one path and never passed on the other",
                "audit each dump with its own --scale",
            )
    }

    /// Scales that were declared to differ.
    fn declared_scales(&self, own: &Grid, reference: &Grid, plain: &Difference) -> Vec<Finding> {
        let expected = self.scales.0 / self.scales.1;
        let declared = format!("{} and {}", significant(self.scales.0, 5), significant(self.scales.1, 5));
        let ratio = weights::temperature(own, reference).unwrap_or(1.0);
        let roundoff = coarser(own, reference).unit_roundoff();
        if plain.fits() {
            return vec![self.scale_ignored("P")];
        }
        if (ratio / expected - 1.0).abs() <= 32.0 * roundoff + 1e-5 {
            let words = format!("the weights follow the declared scales ({declared})");
            return vec![self.finding(Check::Scale, Verdict::Pass, "followed", words).with_numbers(
                ratio,
                expected,
                "ratio of scales",
            )];
        }
        let words = format!(
            "the weights are those of scales in the ratio {}; declared are {declared}, ratio {}",
            significant(ratio, 5),
            significant(expected, 5)
        );
        vec![
            self.finding(Check::Scale, Verdict::Fail, "not followed", words)
                .with_numbers(ratio, expected, "ratio of scales")
                .with_cause("the scale argument is not, or not alone, the factor on QKᵀ", "audit each dump alone"),
        ]
    }

    /// The factor of the file is `ratio` times the reference's.
    fn other_scale(&self, ratio: f64, what: &str) -> Finding {
        let of_reference = self.scales.1;
        let text = self.contract.scale.value().to_string();
        let error = 1e-3 * (ratio * of_reference).abs();
        let name = &names(ratio * of_reference, error, of_reference, &text, &self.sizes)[0];
        let direction = if ratio.abs() < 1.0 { "FLATTER" } else { "more PEAKED" };
        let words = format!(
            "{what} are those of a scale {} times the reference's: weights {direction}; if that is {} = {text}, the file's is {} = {}",
            significant(ratio, 5),
            significant(of_reference, 5),
            significant(ratio * of_reference, 5),
            name.text
        );
        self.finding(Check::Scale, Verdict::Fail, &format!("ratio {}", significant(ratio, 3)), words)
            .with_numbers(ratio, 1.0, "ratio of scales")
            .with_cause(
                "the scale is applied twice, left out or taken from another size on one path",
                "audit each dump with --scale",
            )
    }

    fn dropout(&self, dropout: &Dropout, inputs_same: bool) -> Finding {
        let percent = |share: f64| significant(100.0 * share, 2);
        let both = dropout.dropped.0 > 0.0 && dropout.dropped.1 > 0.0;
        let (words, number) = if both {
            (
                format!(
                    "nondeterministic: {} % of the weights are 0 in the file alone and {} % in the reference alone, the rest are equal: dropout was active in both",
                    percent(dropout.dropped.0),
                    percent(dropout.dropped.1)
                ),
                dropout.dropped.0,
            )
        } else {
            let (name, share, factor) = match dropout.dropped.0 > 0.0 {
                true => ("the file", dropout.dropped.0, dropout.factor),
                false => ("the reference", dropout.dropped.1, 1.0 / dropout.factor),
            };
            let p = 1.0 - 1.0 / factor;
            (
                format!(
                    "{} % of the weights of {name} are exactly 0 where the other's are not, the rest are {}x: dropout p = {} was active",
                    percent(share),
                    significant(factor, 5),
                    significant(p, 3)
                ),
                p,
            )
        };
        let (verdict, expected) = match self.contract.dropout {
            Some(p) => (Verdict::Pass, p),
            None => (Verdict::Fail, 0.0),
        };
        let finding = self
            .finding(Check::Dropout, verdict, if both { "both" } else { "one" }, words)
            .with_numbers(number, expected, "p");
        let inputs = if inputs_same { "two runs of one input differ: " } else { "" };
        match verdict {
            Verdict::Pass => finding,
            _ => finding.with_cause(
                format!("{inputs}evaluation without eval(), or a functional call that always passes its dropout_p; training: pass --dropout P"),
                "dump the same input twice",
            ),
        }
    }

    fn support(&self, support: &Support) -> Finding {
        let (name, cells) = match support.only {
            (own, 0) => ("the file", own),
            (0, reference) => ("the reference", reference),
            (own, reference) => ("one dump or the other", own + reference),
        };
        let future = if support.future { "future " } else { "" };
        let rest = if support.rest_agrees {
            "on the keys that both see the weights are the same up to their sum"
        } else {
            "on the keys that both see the weights differ too"
        };
        let words = format!(
            "{name} has weight on {cells} {future}cells where the other has none, {} of a row on {} rows; the file sees: {}; the reference: {}; {rest}",
            significant(support.weight, 2),
            support.rows,
            support.patterns.0,
            support.patterns.1
        );
        let (check, cause) = if support.future {
            (Check::Causal, "the causal mask is skipped on one path (prefill, returned weights, a chunk with a cache)")
        } else {
            (Check::Mask, "a mask, window or padding is applied on one path only, or read the other way round")
        };
        let finding = self
            .finding(check, Verdict::Fail, &format!("support {name}"), words)
            .with_numbers(support.weight, 0.0, "weight")
            .with_cause(cause, "dump the mask on both paths");
        self.at_cell(finding, Role::Weights, Some(support.first))
    }

    /// PASS, in half types with the error beside that of a plain computation.
    fn with_yardstick(&self, difference: &Difference) -> Finding {
        let Some(plain) = self.plain_error().filter(|plain| *plain > 0.0) else {
            return self.agrees(Role::Weights, difference, "");
        };
        let (own, reference) = &self.grids[&Role::Weights];
        let ratio = difference.root_mean_square / plain;
        let note = format!(
            "; root mean square {}x that of a plain {} computation",
            significant(ratio, 2),
            coarser(own, reference).name()
        );
        let mut finding = self.agrees(Role::Weights, difference, &note);
        if ratio > SUSPICIOUS_RATIO && difference.ratio > 0.3 && finding.verdict == Verdict::Pass {
            finding.verdict = Verdict::Warn;
            finding = finding.with_cause(
                "an accumulation or a softmax in a narrower type than the file's; within the worst-case bound",
                "compute the softmax in f32 and compare",
            );
        }
        finding
    }

    /// Root mean square error of weights computed plainly in the coarser type (logits and weights rounded to it), against f64, where
    /// softmax(c QKᵀ) on the reference's visible keys is the reference.
    fn plain_error(&self) -> Option<f64> {
        let inputs = self.inputs()?;
        let (own, reference) = self.pair(Role::Weights)?;
        let storage = coarser(own, reference);
        if !matches!(storage, Storage::F16 | Storage::Bf16) {
            return None;
        }
        let (mut errors, mut rest) = (Vec::new(), Vec::new());
        let step = reference.rows.div_ceil(PLAIN_ROWS).max(1);
        for row in (0..reference.rows).step_by(step) {
            let visible: Vec<usize> = (0..reference.columns).filter(|&key| reference.at(row, key) > 0.0).collect();
            let softmax = |logits: Vec<f64>| -> Vec<f64> {
                let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
                let total: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / total).collect()
            };
            let logit = |key: usize| self.scales.1 * dot(inputs.queries.1.row(row), inputs.keys.1.row(key));
            let exact = softmax(visible.iter().map(|&key| logit(key)).collect());
            let plain = softmax(visible.iter().map(|&key| storage.round(logit(key))).collect());
            for ((exact, plain), &key) in exact.iter().zip(&plain).zip(&visible) {
                errors.push(storage.round(*plain) - exact);
                rest.push(reference.at(row, key) - exact);
            }
        }
        let plain = root_mean_square(&errors);
        (root_mean_square(&rest) <= 8.0 * plain).then_some(plain)
    }
}
