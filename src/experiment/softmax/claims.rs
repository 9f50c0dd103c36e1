//! What theory says of the softmax statistics of one trial, and how each is tested.
//!
//! Expectations are exact for normal entries of mean 0 ([`crate::theory::softmax`]); an entry's standard deviation s enters
//! as the scale c·s². For other laws the same numbers are approximations within [`SoftmaxTheory::allowance`]; for means
//! other than 0 and for correlated entries there is no theory and the rows are measured. The spread of a trial's mean over
//! rows that share K is not known in closed form: Student's t over the trials where trial means are nearly normal, a bet
//! on bounded values where rare rows carry the mean ([`Regime::Near`]). `freezing` alone has exact error bars.

use std::borrow::Cow;

use super::super::trial_test::{Method, TrialTest};
use super::super::{Claim, Estimator, Expected, InputLaw, Null, Sizes};
use super::{MEASURES, ROUNDING_MEASURES};
use crate::attention::{Precision, Scale};
use crate::report::TheoryKind;
use crate::sampling::Entries;
use crate::statistics::{ErrorShape, LawOrigin, NullModel};
use crate::theory::entry_moments::{EntryLaw, standardised_moment};
use crate::theory::softmax::{self, SoftmaxExpectations};
use crate::theory::trial_cumulants::{self, TrialShape};

/// From this share of the freezing point on, rare rows carry the mean of Σp² (THEORY.md section 3).
const NEAR_FREEZING: f64 = 0.55;

/// How far a row is from the freezing transition of the random energy model (Derrida 1981).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Many keys share the weight; trial means are nearly normal.
    Far,
    /// Most rows are spread, a few are condensed and carry the means.
    Near,
    /// A few keys hold the weight of a typical row.
    Frozen,
}

/// The regime of logits of standard deviation `freezing`·√(2 ln m).
pub fn regime(freezing: f64) -> Regime {
    match freezing {
        freezing if freezing < NEAR_FREEZING => Regime::Far,
        freezing if freezing < 1.0 => Regime::Near,
        _ => Regime::Frozen,
    }
}

/// The theory of one parameter point.
pub(in crate::experiment) struct SoftmaxTheory {
    sizes: Sizes,
    law: InputLaw,
    precision: Precision,
}

/// Expectation and bounds of one statistic.
#[derive(Clone, Copy)]
pub(in crate::experiment) struct Bounded {
    expected: Option<f64>,
    bounds: (f64, f64),
    /// The largest value that a row can have.
    largest: f64,
    /// How far other entries than normal ones can move it ([`SoftmaxTheory::approximation`]).
    relative: f64,
    absolute: f64,
    /// How far it moves with the sum of the weights.
    of_sum: f64,
    /// The factor on QKᵀ for entries of variance 1.
    factor: f64,
}

impl Bounded {
    /// A mean of weights or of their powers: between 0 and 1.
    pub(in crate::experiment) fn weight(expected: Option<f64>, factor: f64) -> Self {
        let factor = factor.abs();
        Self { expected, bounds: (0.0, 1.0), largest: 1.0, relative: 0.75, absolute: 0.12, of_sum: 0.0, factor }
    }

    /// The entropy of a row of `keys` keys, or a mean of those of rows with no more: between 0 and ln `keys`.
    pub(in crate::experiment) fn entropy(expected: Option<f64>, keys: usize, factor: f64) -> Self {
        let largest = (keys as f64).ln();
        Self {
            bounds: (0.0, largest),
            largest,
            relative: 0.4,
            absolute: 0.07,
            of_sum: 1.0,
            ..Self::weight(expected, factor)
        }
    }
}

impl SoftmaxTheory {
    pub(in crate::experiment) fn new(sizes: Sizes, law: InputLaw, precision: Precision) -> Self {
        Self { sizes, law, precision }
    }

    /// Claims on one scale, whose measures start at column `first`.
    pub(super) fn claims(&self, scale: Scale, first: usize) -> Vec<Claim> {
        let m = self.sizes.keys;
        let factor = scale.factor(self.sizes.d_k) * self.law.sd.powi(2);
        let depth = self.sizes.d_k as u32;
        let known = self.law.mean == 0.0 && self.law.correlation == 0.0;
        let rows: Option<SoftmaxExpectations> = known.then(|| softmax::expectations(depth, m, factor).ok()).flatten();
        let largest = known.then(|| softmax::max_weight(depth, m, factor).ok()).flatten();
        let participation = rows.map(|rows| rows.participation);
        let weight = |expected| Bounded::weight(expected, factor);
        let bounded = [
            Bounded::entropy(rows.map(|rows| rows.entropy), m, factor),
            weight(participation),
            weight(largest),
            weight(None),
            weight(rows.map(|rows| rows.jacobian_trace)),
            // ‖J‖²_F = x − 2Σp³ + x² with x = Σp² and Σp³ ≥ x² (Jensen), so at most x − x² ≤ 1/4.
            Bounded {
                bounds: (0.0, 0.25),
                largest: 0.25,
                relative: 0.5,
                absolute: 0.1,
                ..weight(rows.map(|rows| rows.jacobian_frobenius))
            },
            // O is a weighted mean of ±1 and both Σp² lie within 0..=1.
            Bounded { bounds: (-1.0, 2.0), ..weight(participation) },
        ];
        let method = match softmax::freezing(depth, m, factor).map(regime) {
            Some(Regime::Far | Regime::Frozen) => Method::Student,
            Some(Regime::Near) => Method::Betting,
            // One key: every statistic is fixed.
            None => Method::Student,
        };
        let claim = |index: usize, bounded: &Bounded| {
            let statistic = MEASURES[index];
            // tr J = 1 − Σp²: one statistic.
            let family = if statistic == "jacobian_trace" { "participation" } else { statistic };
            Claim {
                index: None,
                statistic: statistic.to_string(),
                scale: Some(scale),
                family: Cow::Owned(format!("{family}:{scale}")),
                estimator: Estimator::Mean { column: first + index },
                expected: bounded.expected.map(|value| Expected { value, kind: self.kind() }),
                null: self.null(method, bounded),
            }
        };
        let mut claims: Vec<Claim> = bounded.iter().enumerate().map(|(index, bounded)| claim(index, bounded)).collect();
        claims.extend(self.freezing(scale, first + MEASURES.len() - 1));
        if self.precision.is_half() {
            claims.extend(ROUNDING_MEASURES.into_iter().enumerate().map(|(index, statistic)| Claim {
                index: None,
                statistic: statistic.to_string(),
                scale: Some(scale),
                family: Cow::Borrowed(statistic),
                estimator: Estimator::Mean { column: first + MEASURES.len() + index },
                expected: None,
                // A share that came out 0 still has an upper limit.
                null: if statistic == "row_sum_error" { Null::Measured } else { self.null(method, &weight(None)) },
            }));
        }
        claims
    }

    /// How a statistic is tested: a share without theory still has an honest interval.
    pub(in crate::experiment) fn null(&self, method: Method, bounded: &Bounded) -> Null {
        let bounds = bounded.bounds;
        let range = bounds.1 - bounds.0;
        let Some(expected) = bounded.expected else {
            return Null::Trials(TrialTest { method: Method::Betting, bounds, unit: range, allowance: 0.0 });
        };
        let unit = match method {
            Method::Student if expected != 0.0 => 0.0,
            // ln m is 0 for one key.
            _ if range == 0.0 => 1.0,
            _ => range,
        };
        Null::Trials(TrialTest { method, bounds, unit, allowance: self.allowance(expected, bounded) })
    }

    /// How far the expectation of a statistic may be from `expected`.
    fn allowance(&self, expected: f64, bounded: &Bounded) -> f64 {
        // Rounding of a logit x moves weights by |x|·ε, as often up as down. A weight that is the same in every trial (even
        // weights of small logits) is off by the same half ε in each: Σp² by ε, the entropy by half ε·(H + 1).
        let rounding = match self.precision {
            Precision::F64 => 1e-12,
            Precision::F32 => 1e-6,
            Precision::Bf16 | Precision::F16 => self.precision.epsilon() + 1e-6,
        };
        let of_sum = if self.precision.is_half() { 0.5 * self.precision.epsilon() * bounded.of_sum } else { 0.0 };
        rounding * expected.abs().max(0.01 * bounded.largest) + of_sum + self.approximation(expected, bounded)
    }

    /// The same for entries that are not normal, whose logits have another kurtosis: 3 + (μ₄² − 3)/d_k, not 3 + 6/d_k.
    ///
    /// An argument from the leading term, with factors twice the largest that was measured for uniform, Rademacher,
    /// Laplace and Student's t entries (ν = 5, 9), 16 and 128 keys, d_k from 1 to 256, raw and scaled: the smaller of `relative`·k of the
    /// value and `absolute`·k of the largest possible one, with k = |μ₄² − 9|/d_k.
    fn approximation(&self, expected: f64, bounded: &Bounded) -> f64 {
        if self.law.entries == Entries::Normal {
            return 0.0;
        }
        // Without a fourth moment nothing is known.
        let Some(fourth) = standardised_moment(self.law.entries, 4) else { return bounded.largest };
        let depth = self.sizes.d_k as f64;
        let excess = (fourth * fourth - 9.0).abs() / depth;
        let smooth = excess * (bounded.relative * expected).min(bounded.absolute * bounded.largest);
        // Logits of ±1 entries come in steps of 2 c: equal largest ones share the weight, which falls with 1/√d_k only.
        let step = 2.0 * bounded.factor;
        let ties =
            if self.law.entries == Entries::Rademacher { 0.3 * (step * step).min(1.0) / depth.sqrt() } else { 0.0 };
        smooth + ties * bounded.largest
    }

    /// The logits' standard deviation over √(2 ln m), from its square: exact for every law.
    fn freezing(&self, scale: Scale, column: usize) -> Option<Claim> {
        let Sizes { d_k, queries, keys } = self.sizes;
        if keys < 2 {
            return None;
        }
        let unit = scale.factor(d_k).powi(2) / (2.0 * (keys as f64).ln());
        let (expected, null) = match self.freezing_model(TrialShape::new(queries, keys, d_k).ok()?, unit) {
            _ if self.law.correlation != 0.0 => (None, Null::Measured),
            None => (None, Null::Measured),
            Some(model) => {
                let expected = Expected { value: model.expected.sqrt(), kind: exact_or_rounded(self.precision) };
                let enough_moments = standardised_moment(self.law.entries, 8).is_some();
                let why = || Null::Unjudged(format!("{} entries have no moment 8", self.law.entries));
                (Some(expected), if enough_moments { Null::Exact { model, rounding: 0.0 } } else { why() })
            }
        };
        Some(Claim {
            index: None,
            statistic: "freezing".to_string(),
            scale: Some(scale),
            family: Cow::Borrowed("freezing"),
            estimator: Estimator::RootMean { column },
            expected,
            null,
        })
    }

    fn freezing_model(&self, shape: TrialShape, unit: f64) -> Option<NullModel> {
        let entry = EntryLaw::new(self.law.entries, self.law.mean, self.law.sd).ok()?;
        let variance = trial_cumulants::sample_variance_of_logits(shape, entry, entry)?;
        let square = trial_cumulants::mean_square_of_logits(shape, entry, entry)?;
        Some(NullModel {
            expected: variance.mean * unit,
            variance: variance.variance * unit * unit,
            skewness: variance.skewness().unwrap_or(f64::NAN),
            // That of the mean square, up to parts in n·m.
            excess_kurtosis: square.excess_kurtosis().unwrap_or(f64::NAN),
            kind: ErrorShape::Scale,
            origin: LawOrigin::Matched,
            lattice_step: 0.0,
            unit: 0.0,
        })
    }

    /// How good the expectations of softmax statistics are.
    pub(in crate::experiment) fn kind(&self) -> TheoryKind {
        if self.law.entries == Entries::Normal { exact_or_rounded(self.precision) } else { TheoryKind::Approximate }
    }
}

/// Theory is that of exact arithmetic.
pub(in crate::experiment) fn exact_or_rounded(precision: Precision) -> TheoryKind {
    if precision.is_half() { TheoryKind::Approximate } else { TheoryKind::Exact }
}
