//! Log-sum-exp and output of both dumps, held against what inputs and weights explain.

use super::grid::{Difference, Grid, coarser, root_mean_square};
use super::head::HeadPair;
use super::lse::{Offset, offset};
use super::relation::Relation;
use crate::diagnosis::arrays::Role;
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Storage;

impl HeadPair<'_> {
    /// How log-sum-exps differ.
    pub(super) fn log_sums(&self, inputs_same: bool, weights_same: Option<bool>) -> Option<Finding> {
        let (own, reference) = self.pair(Role::LogSumExp)?;
        let check = Check::Agreement(Role::LogSumExp);
        let fail = |key: &str, words: String, numbers: (f64, f64, &'static str), cause: &str| {
            self.finding(check, Verdict::Fail, key, words)
                .with_numbers(numbers.0, numbers.1, numbers.2)
                .with_cause(cause, "merge two shards of keys and compare with the whole")
        };
        let cancels = "a constant cancels inside softmax and not in a merge of shards";
        Some(match offset(own, reference, self.inputs()) {
            Offset::None(ratio) => {
                let words = format!("lse: within rounding, {} of its bound", significant(ratio, 2));
                let verdict = if self.is_broken(Role::LogSumExp) { Verdict::CannotTell } else { Verdict::Pass };
                self.finding(check, verdict, "right", words).with_numbers(ratio, 0.0, "of the bound")
            }
            Offset::Ratio(ratio) => {
                let near = |value: f64| (ratio - value).abs() < 1e-3;
                let name = match ratio {
                    _ if near(std::f64::consts::LOG2_E) => ", log2(e): the file is in base-2 units",
                    _ if near(std::f64::consts::LN_2) => ", ln 2: the reference is in base-2 units",
                    _ => "",
                };
                fail(
                    "ratio",
                    format!("lse: ratio {} on every row{name}", significant(ratio, 7)),
                    (ratio, 1.0, "ratio"),
                    "the kernel works with exp2 and returns log2 Σ; multiply by ln 2 before merging shards",
                )
            }
            Offset::Constant(by) => {
                let ln_2 = if (by.abs() - std::f64::consts::LN_2).abs() < 1e-3 { " = ± ln 2" } else { "" };
                fail(
                    "offset",
                    format!("lse: file − reference = {} on every row{ln_2}", significant(by, 6)),
                    (by, 0.0, "nats"),
                    cancels,
                )
            }
            Offset::CentredKeys(factor) => fail(
                "centred keys",
                format!(
                    "lse: file − reference = {} · q·mean(K) (scale {}): K was centred on one path",
                    significant(factor, 5),
                    significant(self.scales.1, 5)
                ),
                (factor, 0.0, "factor"),
                "mean-centred keys leave the softmax as it is and the log-sum-exp not",
            ),
            Offset::Linear => fail(
                "linear",
                "lse: file − reference is linear in q: a vector was added to every key on one path".to_string(),
                (1.0, 0.0, "linear"),
                "a shift of all keys leaves the softmax as it is and the log-sum-exp not",
            ),
            Offset::Other => {
                let difference = Difference::plain(own, reference);
                let explained =
                    if inputs_same { weights_same == Some(false) } else { self.inputs_explain(own, reference) };
                if explained || self.scales_differ {
                    return Some(self.cannot_tell(Role::LogSumExp, &difference));
                }
                self.differs(Role::LogSumExp, &difference, "differs", "")
                    .with_cause("another scale or mask on one path, or rows in another order", "compare the weights")
            }
        })
    }

    /// Whether each log-sum-exp moved by no more than the logit of its row that moved most: ln Σ exp is that smooth.
    fn inputs_explain(&self, own: &Grid, reference: &Grid) -> bool {
        let Some(inputs) = self.inputs() else { return true };
        let keys = inputs.keys.1.rows;
        let (mut rounding, mut inherited) = (vec![0.0; keys], vec![0.0; keys]);
        (0..reference.columns).all(|row| {
            inputs.errors(row, &mut rounding, &mut inherited);
            let most = rounding.iter().zip(&inherited).map(|(a, b)| a + b).fold(0.0f64, f64::max);
            let moved = (own.at(0, row) - reference.at(0, row)).abs();
            moved <= most + 32.0 * coarser(own, reference).unit_roundoff() * (1.0 + reference.at(0, row).abs())
        })
    }

    /// How outputs differ, beyond what inputs and weights explain.
    pub(super) fn output(&self, inputs_same: bool, values_same: bool, weights_same: Option<bool>) -> Option<Finding> {
        let (own, reference) = self.pair(Role::Output)?;
        let found = self.output_difference(own, reference, false);
        if self.scales_differ && inputs_same && values_same && weights_same.is_none() {
            return Some(if found.fits() { self.scale_ignored("O") } else { self.cannot_tell(Role::Output, &found) });
        }
        // Where the arrays before it differ, their differences are in the bound: only plain rounding is agreement then.
        let earlier_same = values_same && weights_same != Some(false);
        let plain = if earlier_same { found } else { Difference::plain(own, reference) };
        if plain.fits() {
            return Some(self.agrees(Role::Output, &plain, ""));
        }
        let earlier_differs = !inputs_same || !values_same || weights_same == Some(false) || self.scales_differ;
        if earlier_differs && self.output_difference(own, reference, true).fits() {
            return Some(self.cannot_tell(Role::Output, &found));
        }
        // Leaking weight carries values that the cut does not hold.
        if self.beyond.0.max(self.beyond.1) > 0.0 && weights_same == Some(false) {
            return Some(self.cannot_tell(Role::Output, &found));
        }
        Some(match Relation::find(own, reference, None) {
            Relation::Accumulated(_) => {
                let mut finding = self.differs(Role::Output, &found, "accumulated", "");
                finding.verdict = Verdict::Warn;
                finding
            }
            _ if weights_same == Some(true) && values_same => self.other_path(&found),
            _ if weights_same.is_none() && values_same && self.inputs_are_identical() => self
                .differs(
                    Role::Output,
                    &found,
                    "other output",
                    "; Q, K and V are the same: nondeterministic (dropout?), or another code path",
                )
                .with_cause(
                    "another mask, scale or dropout on one path; without weights it does not show which",
                    "dump the weights, or audit each dump alone",
                ),
            Relation::Factor(factor) => self
                .finding(
                    Check::Agreement(Role::Output),
                    Verdict::Fail,
                    "factor",
                    format!("output: the reference times {}", significant(factor, 5)),
                )
                .with_numbers(factor, 1.0, "factor")
                .with_cause("rows that do not sum to 1, or scaled values", "sum the weights of a row"),
            _ => self.other(Role::Output, &found),
        })
    }

    /// UX-07: the same weights and values, another output.
    fn other_path(&self, found: &Difference) -> Finding {
        let made = |of_own: bool| {
            let side = |role: Role| self.pair(role).map(|(own, reference)| if of_own { own } else { reference });
            let (weights, values, output) = (side(Role::Weights)?, side(Role::Values)?, side(Role::Output)?);
            let product = output.with(|row, channel| {
                (0..weights.columns).map(|key| weights.at(row, key) * values.at(key, channel)).sum()
            });
            let rest = Difference::plain(output, &product);
            Some(rest.fits() || rest.is_accumulated())
        };
        let which = match (made(true), made(false)) {
            (Some(true), Some(false)) => "; the file's output is its P·V, the reference's is not",
            (Some(false), Some(true)) => "; the reference's output is its P·V, the file's is not",
            (Some(false), Some(false)) => "; neither output is its P·V",
            _ => "",
        };
        let why = format!("; the weights (and V) are equal: outputs come from different code paths{which}");
        self.differs(Role::Output, found, "code path", &why).with_cause(
            "fused kernels never hold P: asking for the weights runs other code, whose mask, bias or rounding differs",
            "audit each output alone, without the weights",
        )
    }

    /// Σ|ΔP||V| + Σ P|ΔV| + roundings; without weights in both dumps, what moved logits do at most.
    fn output_difference(&self, own: &Grid, reference: &Grid, with_earlier: bool) -> Difference {
        let storage = coarser(own, reference);
        let (weights, values) = (self.pair(Role::Weights), self.pair(Role::Values));
        let inputs = self.inputs();
        let keys = values.map_or(0, |(_, values)| values.rows);
        let earlier = f64::from(u8::from(with_earlier));
        let (mut rounding, mut inherited) = (vec![0.0; keys], vec![0.0; keys]);
        let sums = 2.0 * (8.0 + 4.0 * (keys as f64).sqrt()) * Storage::F32.unit_roundoff().min(storage.unit_roundoff());
        Difference::measure(own, reference, |row, bounds| {
            let size = root_mean_square(reference.row(row));
            for (bound, number) in bounds.iter_mut().zip(reference.row(row)) {
                *bound = 8.0 * storage.unit_roundoff() * (number.abs() + size) + 2.0 * storage.underflow();
            }
            let Some((own_values, values)) = values.filter(|(_, values)| values.columns == reference.columns) else {
                return;
            };
            if let Some((own_weights, weights)) = weights.filter(|(_, weights)| weights.columns == keys) {
                let rounding = 4.0 * coarser(own_weights, weights).unit_roundoff() + sums;
                for key in 0..keys {
                    let (a, b) = (own_weights.at(row, key), weights.at(row, key));
                    // Within rounding of each other or not: what the weights differ by moves the output.
                    let moved = (a - b).abs() + rounding * a.max(b);
                    if !moved.is_finite() {
                        // Judged by `finite`; nothing can be said of this row.
                        bounds.fill(f64::INFINITY);
                        return;
                    }
                    for (channel, bound) in bounds.iter_mut().enumerate() {
                        let value = own_values.at(key, channel).abs().max(values.at(key, channel).abs());
                        let change = (own_values.at(key, channel) - values.at(key, channel)).abs();
                        *bound += moved * value + a.max(b) * change;
                    }
                }
            } else if let Some(inputs) = inputs.filter(|inputs| inputs.keys.1.rows == keys) {
                inputs.errors(row, &mut rounding, &mut inherited);
                let mean = rounding.iter().sum::<f64>() / keys.max(1) as f64;
                let most = inherited.iter().copied().fold(0.0f64, f64::max);
                let moved = (2.0 * (mean + earlier * most)).min(50.0).exp_m1() + sums;
                for (channel, bound) in bounds.iter_mut().enumerate() {
                    let column: Vec<f64> = (0..keys).map(|key| values.at(key, channel)).collect();
                    let change = (0..keys).map(|key| (own_values.at(key, channel) - values.at(key, channel)).abs());
                    *bound += 2.0 * moved * root_mean_square(&column) + change.fold(0.0f64, f64::max);
                }
            }
        })
    }
}
