//! Do position encodings turn tokens by their position, and leave alone what they must?
//!
//! Two experiments, one for each encoding: [`SinusoidalExperiment`] and [`RotaryExperiment`]. What follows from the angles
//! alone (norms, maps between positions, products that depend on the offset only) holds in every trial up to rounding: its rows are held
//! against a bound on rounding (`bounds`), and p is 1 or 0. What depends on the draw (variances, means of logits, the score of a vector
//! with itself) is tested over the trials.

mod bounds;
mod linear_map;
pub mod remarks;
mod rotary;
mod sinusoidal;

use std::borrow::Cow;
use std::ops::Range;

use super::{Claim, Estimator, Expected, Null, Sizes};
use crate::attention::Precision;
use crate::report::TheoryKind;
use crate::statistics::NullModel;
use crate::theory::position::ExactAngles;

pub use rotary::{RotaryExperiment, RotatedDraw};
pub use sinusoidal::SinusoidalExperiment;

/// Numbers of the largest table of positions.
const LARGEST_TABLE: u64 = 1 << 27;

/// What both experiments share beside sizes, law, scales.
#[derive(Debug, Clone, PartialEq)]
pub struct PositionSettings {
    /// Base of the frequencies, above 1.
    pub base: f64,
    /// Position of the first token.
    pub start: u64,
    /// Offsets k between positions, each at least 1; empty stands for 1, 2, 4, … below the number of positions.
    pub offsets: Vec<usize>,
    /// Arithmetic of attention; cosine and sine, or the table, are stored in it.
    pub precision: Precision,
    /// Arithmetic of the angles.
    pub angles: Precision,
}

impl PositionSettings {
    /// The offsets meant for `positions` positions.
    pub fn offsets(&self, positions: usize) -> Vec<usize> {
        if !self.offsets.is_empty() {
            return self.offsets.clone();
        }
        std::iter::successors(Some(1usize), |offset| offset.checked_mul(2)).take_while(|&k| k < positions).collect()
    }

    /// The same with the offsets of the smallest of `sizes`, so that every point of a sweep measures the same.
    pub fn with_offsets_for(self, sizes: &[Sizes]) -> Self {
        let fewest = sizes.iter().map(tokens).min().unwrap_or(0);
        Self { offsets: self.offsets(fewest), ..self }
    }

    /// An offset that reaches beyond the tokens of one of `sizes`, and how many these are.
    pub fn offset_beyond(&self, sizes: &[Sizes]) -> Option<(usize, usize)> {
        let fewest = sizes.iter().map(tokens).min()?;
        self.offsets.iter().copied().find(|&offset| offset >= fewest).map(|offset| (offset, fewest))
    }

    /// The positions that a trial at `sizes` uses, those of its offsets included.
    pub fn positions(&self, sizes: Sizes) -> Range<u64> {
        let reach = tokens(&sizes) as u64 + self.offsets.iter().copied().max().unwrap_or(0) as u64;
        self.start..self.start.saturating_add(reach)
    }

    /// Tables of all positions are held in memory.
    ///
    /// # Errors
    /// The rule, for the first of `sizes` whose positions times d_k are more than 2²⁷ (1 GiB of f64).
    pub fn check_tables(&self, sizes: &[Sizes]) -> Result<(), String> {
        let numbers = |sizes: &Sizes| (self.positions(*sizes).end - self.start).saturating_mul(sizes.d_k as u64);
        match sizes.iter().find(|sizes| numbers(sizes) > LARGEST_TABLE) {
            Some(Sizes { d_k, queries, keys }) => Err(format!(
                "--queries {queries} --keys {keys} --dk {d_k}: a table of all positions, offsets included, may hold at most {LARGEST_TABLE} numbers"
            )),
            None => Ok(()),
        }
    }

    /// The last position used at any of `sizes`.
    pub fn last_position(&self, sizes: &[Sizes]) -> u64 {
        sizes.iter().map(|&sizes| self.positions(sizes).end.saturating_sub(1)).max().unwrap_or(self.start)
    }
}

/// Number of positions at `sizes`: tokens of Q and K stand side by side.
fn tokens(sizes: &Sizes) -> usize {
    sizes.queries.max(sizes.keys)
}

/// The exact curve (offset, (2/d)·Σ cos(k·ω_i)) for offsets up to `largest`: what `dot_product` over d/2 and `self_score` follow.
/// At most a few thousand points, closer together where offsets are small, as a logarithmic axis wants it.
pub fn decay_curve(width: usize, base: f64, largest: usize) -> Vec<(f64, f64)> {
    let angles = ExactAngles::new(width, base);
    let mut offsets: Vec<u64> = (0..=1200).map(|step| (largest as f64).powf(f64::from(step) / 1200.0) as u64).collect();
    offsets.dedup();
    let pairs = angles.pairs() as f64;
    offsets.into_iter().map(|offset| (offset as f64, angles.sum_of_cosines(offset) / pairs)).collect()
}

/// A statistic that theory fixes up to rounding: within `bound` of `expected` in every trial. `unit` is what deviations are
/// relative to.
fn fixed(statistic: &str, column: usize, expected: f64, bound: f64, unit: f64) -> Claim {
    Claim {
        index: None,
        statistic: statistic.to_string(),
        scale: None,
        family: Cow::Owned(statistic.to_string()),
        estimator: Estimator::Largest { column },
        expected: Some(Expected { value: expected, kind: TheoryKind::Exact }),
        null: Null::Exact { model: NullModel { unit, ..NullModel::fixed(expected) }, rounding: bound },
    }
}

/// A statistic that cannot be had at this size.
fn without_test(statistic: &str, column: usize, why: &str) -> Claim {
    Claim { null: Null::Unjudged(why.to_string()), expected: None, ..fixed(statistic, column, 0.0, 0.0, 1.0) }
}

/// The angle a − b brought to −π..=π.
fn turned_back(angle: f64) -> f64 {
    angle - (angle / std::f64::consts::TAU).round() * std::f64::consts::TAU
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ErrorRates;
    use crate::experiment::judge::{self, Outcome};
    use crate::experiment::series::Series;
    use crate::report::Verdict;
    use crate::statistics::ColumnMoments;

    #[test]
    fn a_value_that_theory_fixes_is_upheld_within_its_bound_and_rejected_beyond_it_whatever_detect_is() {
        let row = |value: f64| {
            let mut columns = ColumnMoments::new(1);
            columns.push(&[value]);
            // The bound is a fifth of the unit, 20 times --detect.
            let claims = vec![fixed("norm", 0, 3.0, 0.5, 2.5)];
            let sizes = Sizes { d_k: 2, queries: 3, keys: 3 };
            let point = Outcome { sizes, mask: None, trials: 1, claims, columns, series: Series::default() };
            judge::rows(&[point], &[], &ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.01 }, |row| row).remove(0)
        };
        let within = row(3.5);
        assert_eq!((within.verdict, within.p_value), (Verdict::Upheld, Some(1.0)));
        // Twice the bound over the unit.
        assert_eq!((within.deviation, within.min_detectable), (Some(0.2), Some(0.4)));
        for beyond in [2.4, 3.6, f64::NAN] {
            assert_eq!(row(beyond).verdict, Verdict::Rejected, "{beyond}");
        }
    }

    #[test]
    fn offsets_double_up_to_the_smallest_number_of_tokens_of_a_sweep() {
        let settings = |offsets: &[usize]| PositionSettings {
            base: 1e4,
            start: 100,
            offsets: offsets.to_vec(),
            precision: Precision::F64,
            angles: Precision::F64,
        };
        let sizes = [(13, 11), (7, 9)].map(|(queries, keys)| Sizes { d_k: 2, queries, keys });
        let filled = settings(&[]).with_offsets_for(&sizes);
        assert_eq!(filled.offsets, [1, 2, 4, 8]);
        assert_eq!((filled.positions(sizes[0]), filled.last_position(&sizes)), (100..121, 120));
        assert_eq!((filled.offset_beyond(&sizes), settings(&[3, 9]).offset_beyond(&sizes)), (None, Some((9, 9))));
    }

    #[test]
    fn the_curve_starts_near_1_and_is_the_mean_of_the_cosines() {
        let curve = decay_curve(4, 100.0, 1000);
        // Frequencies 1 and 1/10.
        for (offset, share) in [curve[0], curve[3], curve[curve.len() - 1]] {
            assert!((share - 0.5 * (offset.cos() + (0.1 * offset).cos())).abs() < 1e-12, "{offset} {share}");
        }
        assert_eq!((curve[0].0, curve[curve.len() - 1].0), (1.0, 1000.0));
    }
}
