//! What theory says of a masked trial, and how each statement is tested.
//!
//! What is hidden has no weight and no influence: fixed values, which a single trial can refute. The moments of visible
//! logits are those of all logits (a mask does not look at them); the softmax statistics of a row are those of an unmasked
//! row with as many keys as it sees ([`crate::theory::softmax::expectations_by_keys`]). Their spread over the trials depends
//! on which cells are visible, so these rows are tested by Student's t over the trials, or by a bet where rare rows carry
//! the mean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Detail, FILL_MEASURE, MASK_MEASURES, MEASURES, ROW_MEASURES, VisibleBias};
use crate::attention::{Mask, Precision, Scale};
use crate::experiment::softmax::claims::{Bounded, SoftmaxTheory, exact_or_rounded};
use crate::experiment::softmax::{Regime, regime};
use crate::experiment::trial_test::{Method, TrialTest};
use crate::experiment::{Claim, Estimator, Expected, InputLaw, Null, Sizes};
use crate::report::TheoryKind;
use crate::statistics::NullModel;
use crate::theory::entry_moments::EntryLaw;
use crate::theory::{logits, softmax};

/// Rows of fewer keys are never ruled by rare ones, however near freezing: their Σp² is at least 1/m.
const FEWEST_KEYS_NEAR_FREEZING: usize = 24;
/// If so large a share of the rows is near freezing, their mean is tested by a bet.
const SHARE_NEAR_FREEZING: f64 = 0.05;

/// The theory of one parameter point.
pub(super) struct MaskTheory<'a> {
    pub(super) sizes: Sizes,
    pub(super) law: InputLaw,
    pub(super) precision: Precision,
    /// Visible keys of each row.
    pub(super) counts: &'a [usize],
    pub(super) mask: &'a Mask,
    /// The fill, where it is finite.
    pub(super) fill: Option<f64>,
    pub(super) bias: VisibleBias,
}

/// Expectation of one row.
#[derive(Clone, Copy)]
struct OfRow {
    entropy: f64,
    participation: f64,
}

impl MaskTheory<'_> {
    /// All claims, in the order of the columns.
    pub(super) fn claims(&self, scales: &[Scale], detail: Detail) -> Vec<Claim> {
        let share = self.mask.visible_share();
        // One cell more or less is a fault: half a cell is rounding.
        let half_a_cell = 0.5 / (self.sizes.queries as f64 * self.sizes.keys as f64);
        let fixed = [(share, half_a_cell), (self.mask.fully_masked_rows() as f64, 0.5)];
        let of_mask = |(column, (value, rounding))| Claim {
            null: Null::Exact { model: NullModel::fixed(value), rounding },
            ..claim(MASK_MEASURES[column], None, None, column, Some(exact(value)))
        };
        let mut claims: Vec<Claim> = fixed.into_iter().enumerate().map(of_mask).collect();
        let rows = self.counts.iter().filter(|&&count| count > 0).count();
        let per_scale = MEASURES.len()
            + usize::from(self.fill.is_some())
            + if detail == Detail::ByRow { ROW_MEASURES.len() * rows } else { 0 };
        for (index, &scale) in scales.iter().enumerate() {
            let first = MASK_MEASURES.len() + index * per_scale;
            claims.extend(self.hidden_claims(scale, first));
            claims.extend(self.logit_claims(scale, first + 5));
            claims.extend(self.softmax_claims(scale, first + 7, detail));
        }
        claims
    }

    /// What is hidden has no weight and no influence; rows sum to 1.
    fn hidden_claims(&self, scale: Scale, first: usize) -> Vec<Claim> {
        let none_hidden = self.mask.visible_share() == 1.0;
        let none_visible = self.mask.visible_share() == 0.0;
        let of_measure = |index: usize| {
            let statistic = MEASURES[index];
            let column = first + index;
            let sums = statistic == "row_sum_error";
            let null = match (sums, none_hidden, none_visible) {
                (true, _, true) => Null::Unjudged("the mask hides every key".to_string()),
                (false, true, _) => Null::Unjudged("the mask hides no key".to_string()),
                _ => Null::Exact {
                    model: NullModel::fixed(0.0),
                    rounding: if sums { self.row_sum_rounding() } else { 0.0 },
                },
            };
            let estimator = match statistic {
                "leak_nonfinite" => Estimator::Mean { column },
                _ => Estimator::Largest { column },
            };
            Claim { estimator, null, ..claim(statistic, Some(scale), None, column, Some(exact(0.0))) }
        };
        (0..5).map(of_measure).collect()
    }

    /// How far the sum of m rounded weights can be from 1: all weights share the relative error of the sum they are divided
    /// by, at most (m − 1)·u (Higham 2002, section 4.2), and each has that of its division, u; in f64 adding them up again
    /// costs as much once more. A half type adds its own rounding of each weight, which is absolute below its normal numbers.
    fn row_sum_rounding(&self) -> f64 {
        let m = self.sizes.keys as f64;
        let unit = |precision: Precision| 0.5 * precision.epsilon();
        match self.precision {
            Precision::F64 => 2.0 * m * unit(Precision::F64),
            Precision::F32 => m * unit(Precision::F32),
            half => {
                let smallest = if half == Precision::F16 { 2f64.powi(-24) } else { 2f64.powi(-133) };
                m * unit(Precision::F32) + unit(half) + m * 0.5 * smallest
            }
        }
    }

    /// Mean and mean square of the visible logits.
    fn logit_claims(&self, scale: Scale, first: usize) -> Vec<Claim> {
        let factor = scale.factor(self.sizes.d_k);
        let (mean, variance) =
            (factor * self.mean_of_visible(), scale.of_variance(self.square_of_visible(), self.sizes.d_k));
        let spread = factor.abs() * self.variance_of_logits().sqrt();
        let kind = exact_or_rounded(self.precision);
        let values = [(mean, spread.max(mean.abs())), (variance, 0.0)];
        let of_measure = |(index, (value, unit)): (usize, (f64, f64))| {
            let statistic = ["logit_mean", "logit_variance"][index];
            let null = match self.mask.visible_share() {
                0.0 => Null::Unjudged("the mask hides every key".to_string()),
                _ => Null::Trials(TrialTest::student(unit)),
            };
            Claim { null, ..claim(statistic, Some(scale), None, first + index, Some(Expected { value, kind })) }
        };
        values.into_iter().enumerate().map(of_measure).collect()
    }

    fn entry(&self) -> EntryLaw {
        EntryLaw::new(self.law.entries, self.law.mean, self.law.sd).expect("a checked law")
    }

    /// Var[S_ij] of raw logits for i ≠ j.
    fn variance_of_logits(&self) -> f64 {
        logits::variance(self.sizes.d_k, self.entry(), self.entry())
    }

    /// Share of the visible cells that are on the diagonal, where tokens meet themselves.
    fn diagonal_share(&self) -> f64 {
        let visible = self.counts.iter().sum::<usize>() as f64;
        let diagonal = (0..self.sizes.queries.min(self.sizes.keys)).filter(|&token| self.mask.is_visible(token, token));
        if visible == 0.0 { 0.0 } else { diagonal.count() as f64 / visible }
    }

    /// E of the mean of the visible raw logits: a correlation ρ of q and k of the same token adds d ρ σ² on the diagonal.
    fn mean_of_visible(&self) -> f64 {
        let excess = self.sizes.d_k as f64 * self.law.correlation * self.law.sd.powi(2);
        expected_logit(self.law, self.sizes.d_k) + self.diagonal_share() * excess
    }

    /// E of the mean of (S − d μ²)² over the visible raw logits. Off the diagonal it is Var S; on it, for normal entries
    /// q = μ + σa and k = μ + σb with E ab = ρ, each of the d products less μ² is x = μσ(a + b) + σ²ab with E x = σ²ρ and
    /// E x² = 2μ²σ²(1 + ρ) + σ⁴(1 + 2ρ²), and E(Σx)² = d E x² + d(d − 1)(E x)².
    fn square_of_visible(&self) -> f64 {
        let InputLaw { mean, sd, correlation, .. } = self.law;
        let off = self.variance_of_logits();
        if correlation == 0.0 {
            return off;
        }
        let d = self.sizes.d_k as f64;
        let first = sd.powi(2) * correlation;
        let second = 2.0 * (mean * sd).powi(2) * (1.0 + correlation) + sd.powi(4) * (1.0 + 2.0 * correlation.powi(2));
        let on = d * second + d * (d - 1.0) * first * first;
        off + self.diagonal_share() * (on - off)
    }

    /// Entropy and participation, averaged over the rows with a visible key and, if asked for, of each; before the rows
    /// stands the margin of a finite fill.
    fn softmax_claims(&self, scale: Scale, first: usize, detail: Detail) -> Vec<Claim> {
        let factor = scale.factor(self.sizes.d_k) * self.law.sd.powi(2);
        let by_count = self.by_count(factor);
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let seeing: Vec<(usize, usize)> =
            self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        let mean = by_count.as_ref().filter(|_| !seeing.is_empty()).map(|by_count| {
            let sum = |of: fn(&OfRow) -> f64| seeing.iter().map(|(_, count)| of(&by_count[count])).sum::<f64>();
            let rows = seeing.len() as f64;
            OfRow { entropy: sum(|row| row.entropy) / rows, participation: sum(|row| row.participation) / rows }
        });
        let near = seeing.iter().filter(|(_, count)| self.method(factor, *count) == Method::Betting).count() as f64;
        let method = match near > SHARE_NEAR_FREEZING * seeing.len() as f64 {
            true => Method::Betting,
            false => Method::Student,
        };
        let mut claims = self.row_claims(scale, (None, most), first, mean, (factor, method));
        let mut column = first + ROW_MEASURES.len();
        if self.fill.is_some() {
            claims.push(claim(FILL_MEASURE, Some(scale), None, column, None));
            column += 1;
        }
        if detail == Detail::ByRow {
            for (row, count) in seeing {
                let expected = by_count.as_ref().map(|by_count| by_count[&count]);
                let test = (factor, self.method(factor, count));
                claims.extend(self.row_claims(scale, (Some(row as u64), count), column, expected, test));
                column += ROW_MEASURES.len();
            }
        }
        claims
    }

    /// The claims on one row of `keys` keys, or on the mean over rows of at most so many.
    fn row_claims(
        &self,
        scale: Scale,
        (row, keys): (Option<u64>, usize),
        first: usize,
        expected: Option<OfRow>,
        (factor, method): (f64, Method),
    ) -> Vec<Claim> {
        let theory = SoftmaxTheory::new(Sizes { keys, ..self.sizes }, self.law, self.precision);
        let bounded = [
            Bounded::entropy(expected.map(|row| row.entropy), keys, factor),
            Bounded::weight(expected.map(|row| row.participation), factor),
        ];
        let values = [expected.map(|row| row.entropy), expected.map(|row| row.participation)];
        let of_measure = |(index, (bounded, value)): (usize, (Bounded, Option<f64>))| {
            let null = match (keys, value) {
                (0, _) => Null::Unjudged("the mask hides every key".to_string()),
                (_, None) => Null::Measured,
                // One key takes all the weight, whatever its logit.
                (1, Some(value)) => {
                    Null::Exact { model: NullModel::fixed(value), rounding: 2.0 * self.precision.epsilon() }
                }
                _ => theory.null(method, &bounded),
            };
            let expected = value.map(|value| Expected { value, kind: theory.kind() });
            Claim { null, ..claim(ROW_MEASURES[index], Some(scale), row, first + index, expected) }
        };
        bounded.into_iter().zip(values).enumerate().map(of_measure).collect()
    }

    /// The expectations by number of visible keys; none where there is no theory.
    fn by_count(&self, factor: f64) -> Option<BTreeMap<usize, OfRow>> {
        if self.law.mean != 0.0 || self.law.correlation != 0.0 || self.bias == VisibleBias::Some {
            return None;
        }
        let counts: BTreeMap<usize, ()> =
            self.counts.iter().filter(|&&count| count > 0).map(|&count| (count, ())).collect();
        let counts: Vec<usize> = counts.into_keys().collect();
        let expected = softmax::expectations_by_keys(self.sizes.d_k as u32, factor, &counts).ok()?;
        let of_row = expected.iter().map(|row| OfRow { entropy: row.entropy, participation: row.participation });
        Some(counts.into_iter().zip(of_row).collect())
    }

    /// How a row of `keys` keys is tested.
    fn method(&self, factor: f64, keys: usize) -> Method {
        match softmax::freezing(self.sizes.d_k as u32, keys, factor).map(regime) {
            Some(Regime::Near) if keys >= FEWEST_KEYS_NEAR_FREEZING => Method::Betting,
            _ => Method::Student,
        }
    }
}

/// E\[S_ij\] of raw logits for i ≠ j: d μ².
pub(super) fn expected_logit(law: InputLaw, d_k: usize) -> f64 {
    d_k as f64 * law.mean * law.mean
}

fn exact(value: f64) -> Expected {
    Expected { value, kind: TheoryKind::Exact }
}

/// A claim on the mean of one column that is not judged yet.
fn claim(
    statistic: &'static str,
    scale: Option<Scale>,
    index: Option<u64>,
    column: usize,
    expected: Option<Expected>,
) -> Claim {
    let of_scale = scale.map_or(String::new(), |scale| format!(":{scale}"));
    let of_row = index.map_or(String::new(), |row| format!("[{row}]"));
    // The moments of the logits are the same up to a known factor, whatever the scale.
    let family = match statistic {
        "logit_mean" | "logit_variance" => Cow::Borrowed(statistic),
        _ => Cow::Owned(format!("{statistic}{of_row}{of_scale}")),
    };
    Claim {
        index,
        statistic: statistic.to_string(),
        scale,
        family,
        estimator: Estimator::Mean { column },
        expected,
        null: Null::Measured,
    }
}
