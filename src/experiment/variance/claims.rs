//! What theory says of the logits and entries of one trial, and how each statistic scatters when theory is right.
//!
//! Every claim on independent entries rests on the exact cumulants of the trial's statistic
//! ([`crate::theory::trial_cumulants`]), so that its error bar needs no estimate from the data. Correlated entries
//! have exact expectations but no exact spread: their error bars come from the scatter over trials.

use super::super::trial_test::TrialTest;
use super::super::{Claim, Estimator, Expected, InputLaw, Null, Sizes};
use super::{DIAGONAL_MEASURES, ENTRY_MEASURES, Moments};
use crate::attention::{Precision, Scale};
use crate::report::TheoryKind;
use crate::sampling::Entries;
use crate::statistics::{ErrorShape, LawOrigin, NullModel};
use crate::theory::entry_moments::{EntryLaw, standardised_moment};
use crate::theory::logits::{self, CorrelatedTokens};
use crate::theory::trial_cumulants::kurtosis::{KurtosisCumulants, kurtosis_of_logits};
use crate::theory::trial_cumulants::{self, Cumulants, TrialShape, entries};

/// Entries need this many moments for a mean of squares of products to have a fourth cumulant: with fewer, averages
/// come too slowly to any known law for a test to keep its rate.
const MOMENTS_FOR_VARIANCE: usize = 8;
/// And this many for a mean of fourth powers.
const MOMENTS_FOR_KURTOSIS: usize = 16;

/// The theory of one parameter point.
pub(super) struct LogitTheory {
    law: InputLaw,
    precision: Precision,
    /// Law of an entry, of its own.
    entry: EntryLaw,
    /// What the derivation assumes of an entry.
    assumed: EntryLaw,
    shape: TrialShape,
    correlated: Option<CorrelatedTokens>,
    variance: Option<Cumulants>,
    kurtosis: Option<KurtosisCumulants>,
}

impl LogitTheory {
    pub(super) fn new(sizes: Sizes, law: InputLaw, precision: Precision) -> Self {
        let entry = EntryLaw::new(law.entries, law.mean, law.sd).expect("a checked law");
        let assumed = EntryLaw::new(law.entries, 0.0, 1.0).expect("the standard law");
        let shape = TrialShape::new(sizes.queries, sizes.keys, sizes.d_k).expect("checked sizes");
        let correlated = (law.correlation != 0.0).then_some(CorrelatedTokens {
            tokens: sizes.queries,
            depth: sizes.d_k,
            mean: law.mean,
            standard_deviation: law.sd,
            correlation: law.correlation,
        });
        // The longest first, so that two threads end together.
        let (fourth, (kurtosis, variance)) = rayon::join(
            || trial_cumulants::fourth_cumulant_of_mean_square(shape, entry, entry),
            || {
                rayon::join(
                    || kurtosis_of_logits(shape, entry, entry),
                    || trial_cumulants::sample_variance_of_logits(shape, entry, entry),
                )
            },
        );
        // The mean subtracted moves the fourth cumulant by parts in n·m of itself: that of the mean square serves.
        let variance = variance.map(|variance| Cumulants { fourth: variance.fourth.or(fourth), ..variance });
        Self { law, precision, entry, assumed, shape, correlated, variance, kurtosis }
    }

    pub(super) fn law(&self) -> InputLaw {
        self.law
    }

    /// Expectation of the raw logit of a token with itself; that of every logit where tokens are independent.
    pub(super) fn raw_diagonal_mean(&self) -> f64 {
        self.correlated.map_or_else(|| self.raw_mean(), |correlated| correlated.diagonal_mean())
    }

    /// Expectation of the mean of all raw logits.
    pub(super) fn raw_mean(&self) -> f64 {
        match &self.correlated {
            Some(correlated) => correlated.mean_of_logits(),
            None => logits::mean(self.shape.depth(), self.entry, self.entry),
        }
    }

    /// The kurtosis linearised about theory, κ(1 + (M₄/E M₄ − 1) − 2(M₂/E M₂ − 1)), from raw second and fourth moments
    /// about the expected mean. Where theory has no value (correlated entries, no eighth moment) it is linearised
    /// about a normal law: only its scatter is used then.
    pub(super) fn linear_kurtosis(&self, second: f64, fourth: f64) -> f64 {
        let (expected_second, expected_fourth) = match &self.kurtosis {
            Some(kurtosis) if self.correlated.is_none() => (kurtosis.second_moment, kurtosis.fourth_moment),
            _ => {
                let second = logits::variance(self.shape.depth(), self.entry, self.entry);
                (second, 3.0 * second * second)
            }
        };
        let kurtosis = expected_fourth / (expected_second * expected_second);
        kurtosis * (2.0 + fourth / expected_fourth - 2.0 * second / expected_second)
    }

    /// Claims on the logits of one scale up to a highest moment, whose measures start at column `first`: mean and variance, for the fourth
    /// moment the other [`super::LOGIT_MEASURES`], then as many of [`DIAGONAL_MEASURES`] as there are.
    pub(super) fn logit_claims(&self, scale: Scale, first: usize, highest: Moments) -> Vec<Claim> {
        let factor = scale.factor(self.shape.depth());
        let claim = |statistic: &'static str, estimator, (expected, null): (Option<f64>, Null)| Claim {
            index: None,
            statistic: statistic.to_string(),
            scale: Some(scale),
            family: statistic.into(),
            estimator,
            expected: expected.map(|value| Expected { value, kind: self.kind() }),
            null,
        };
        let mean = |column| Estimator::Mean { column };
        let kurtosis = Estimator::Kurtosis {
            second: first + 2,
            fourth: first + 3,
            linear: first + 4,
            relative_bias: self.kurtosis.as_ref().map_or(0.0, |kurtosis| kurtosis.relative_bias),
        };
        let mut claims = vec![
            claim("logit_mean", mean(first), self.logit_mean(factor)),
            claim("logit_variance", mean(first + 1), self.logit_variance(scale)),
        ];
        if highest == Moments::Four {
            claims.push(claim("logit_kurtosis", kurtosis, self.logit_kurtosis()));
        }
        let diagonal = first + highest.measures().len();
        if let Some(correlated) = &self.correlated {
            let unit = factor.abs() * (self.shape.depth() as f64).sqrt() * self.law.sd.powi(2);
            let expected = [correlated.diagonal_mean() * factor, correlated.diagonal_variance() * factor.powi(2)];
            let units = [unit.max(expected[0].abs()), 0.0];
            for (index, statistic) in DIAGONAL_MEASURES.into_iter().enumerate() {
                let judged = if self.shape.queries() < 2 {
                    (None, Null::Unjudged("needs two tokens".to_string()))
                } else {
                    (Some(expected[index]), Null::Trials(TrialTest::student(units[index])))
                };
                claims.push(claim(statistic, mean(diagonal + index), judged));
            }
        }
        claims
    }

    /// Claims that the entries are what the derivation assumes: mean 0, variance 1, Q and K uncorrelated.
    pub(super) fn entry_claims(&self) -> Vec<Claim> {
        let depth = self.shape.depth() as u64;
        let counts = [self.shape.queries() as u64 * depth, self.shape.keys() as u64 * depth];
        // A wrong standard deviation is the finding of the variance's row: it must not make the mean look wrong.
        let sd = self.law.sd;
        let centred = EntryLaw::new(self.law.entries, 0.0, sd).expect("a checked law");
        let mean = |count: u64| {
            let model = entries::mean_of_entries(centred, count).map(|cumulants| {
                let step = if self.on_lattice() { 2.0 * sd / count as f64 } else { 0.0 };
                self.model(cumulants, ErrorShape::Location, sd, step, 0.0)
            });
            (0.0, self.judged(model, 4))
        };
        let variance = |count: u64| {
            let model = entries::sample_variance_of_entries(self.assumed, count).map(|cumulants| {
                // For normal entries the law is χ² with N − 1 degrees of freedom a trial: a gamma law itself.
                // The sample variance of ±1 entries is N(1 − x̄²)/(N − 1); x̄ moves in steps of 2/N about ±1/√N.
                let step = if self.on_lattice() { 4.0 / (count as f64).powf(1.5) } else { 0.0 };
                let judged = self.model(cumulants, ErrorShape::Scale, 1.0, step, 1.0);
                if self.law.entries == Entries::Normal { judged.exact() } else { judged }
            });
            (1.0, self.judged(model, MOMENTS_FOR_VARIANCE))
        };
        let correlation = || {
            let pairs = counts[0].min(counts[1]);
            // A correlation of fewer pairs is ±1 or nearly: nothing to learn from it.
            let enough = (pairs >= 8).then_some(pairs);
            let cumulants = enough.and_then(|pairs| entries::correlation_of_entries(self.assumed, self.assumed, pairs));
            let model = cumulants.map(|cumulants| {
                let step = if self.on_lattice() { 2.0 / pairs as f64 } else { 0.0 };
                self.model(cumulants, ErrorShape::Location, 1.0, step, 0.0)
            });
            (0.0, self.judged(model, 4))
        };
        let judged = [mean(counts[0]), variance(counts[0]), mean(counts[1]), variance(counts[1]), correlation()];
        let claims = ENTRY_MEASURES.into_iter().zip(judged).enumerate();
        let claim = |(column, (statistic, (expected, null))): (usize, (&'static str, (f64, Null)))| Claim {
            index: None,
            statistic: statistic.to_string(),
            scale: None,
            family: statistic.into(),
            estimator: Estimator::Mean { column },
            expected: Some(Expected { value: expected, kind: self.kind() }),
            null,
        };
        claims.map(claim).collect()
    }

    fn logit_mean(&self, factor: f64) -> (Option<f64>, Null) {
        let depth = self.shape.depth() as f64;
        // Adding 0 turns the −0 of a negative factor into 0.
        let expected = self.raw_mean() * factor + 0.0;
        // A mean is never asked to be known better than its logits scatter, however near to 0 it is.
        let unit = (factor.abs() * depth.sqrt() * self.law.sd.powi(2)).max(expected.abs());
        if self.correlated.is_some() {
            return (Some(expected), Null::Trials(TrialTest::student(unit)));
        }
        let model = trial_cumulants::mean_of_logits(self.shape, self.entry, self.entry).map(|cumulants| {
            // Sums of products of sums of ±1: even numbers times even numbers for even n and m.
            let count = self.shape.queries() as f64 * self.shape.keys() as f64;
            let step = if self.on_lattice() { 4.0 * self.law.sd.powi(2) * factor.abs() / count } else { 0.0 };
            // Sums of products of independent normals: the product-normal law itself.
            let exact = self.law.entries == Entries::Normal && self.law.mean == 0.0;
            let judged = self.model(scaled(cumulants, factor), ErrorShape::Location, unit, step, 0.0);
            if exact { judged.exact() } else { judged }
        });
        (Some(expected), self.judged(model, 4))
    }

    fn logit_variance(&self, scale: Scale) -> (Option<f64>, Null) {
        let depth = self.shape.depth();
        if let Some(correlated) = &self.correlated {
            return match correlated.expected_sample_variance() {
                Some(raw) => (Some(scale.of_variance(raw, depth)), Null::Trials(TrialTest::student(0.0))),
                None => (None, Null::Unjudged("needs two logits".to_string())),
            };
        }
        let Some(cumulants) = self.variance else {
            return (None, Null::Unjudged("needs two logits".to_string()));
        };
        let count = self.shape.queries() as f64 * self.shape.keys() as f64;
        // Squares of whole numbers of one parity differ by multiples of 4 or 8.
        let step = if self.on_lattice() { 8.0 * self.law.sd.powi(4) / count } else { 0.0 };
        let square = scale.factor(depth).powi(2);
        let model = self.model(scaled(cumulants, square), ErrorShape::Scale, square, step * square, 1.0);
        (Some(scale.of_variance(cumulants.mean, depth)), self.judged(Some(model), MOMENTS_FOR_VARIANCE))
    }

    fn logit_kurtosis(&self) -> (Option<f64>, Null) {
        if self.correlated.is_some() {
            return (None, Null::Measured);
        }
        let expected = logits::kurtosis(self.shape.depth(), self.entry, self.entry);
        let model = self.kurtosis.as_ref().and_then(|kurtosis| {
            let third = kurtosis.relative_third?;
            let value = kurtosis.kurtosis;
            let variance = kurtosis.relative_variance * value * value;
            let third = third * value.powi(3);
            let skewness = if variance > 0.0 { third / variance.powf(1.5) } else { 0.0 };
            let excess = 1.5 * skewness * skewness + self.kurtosis_mismatch(skewness);
            let fourth = Some(excess * variance * variance);
            let cumulants = Cumulants { mean: value, variance, third: Some(third), fourth };
            Some(self.model(cumulants, ErrorShape::Scale, 1.0, 0.0, 2.0))
        });
        (expected, self.judged(model, MOMENTS_FOR_KURTOSIS))
    }

    /// How far, at most, the excess kurtosis of one trial's kurtosis is from that of a gamma law of its skewness.
    ///
    /// The exact fourth cumulant is not known. Simulated (20,000 trials each): 5.8 for signs with d = 2, n = m = 64 and
    /// 2.1 with d = 4, both nearly symmetric; 4.7 at skewness 1.48 for normal entries with d = 64, n = m = 16; 0.2 at
    /// skewness 0.32 with n = m = 64; 0.5 for uniform ones with d = 2, n = m = 16. The bound covers them all with room;
    /// it is fitted to them, not derived.
    fn kurtosis_mismatch(&self, skewness: f64) -> f64 {
        let depth = self.shape.depth() as f64;
        let signs = if self.on_lattice() { 36.0 / (depth * (depth - 1.0)).max(1.0) } else { 0.0 };
        3.0 * skewness * skewness + 12.0 / self.shape.queries().min(self.shape.keys()) as f64 + signs
    }

    /// The model of a statistic from its cumulants; `powers` is the power of an entry's variance in it, which says how
    /// far rounding of the entries can shift it.
    fn model(&self, cumulants: Cumulants, kind: ErrorShape, unit: f64, lattice_step: f64, powers: f64) -> Judged {
        let model = NullModel {
            expected: cumulants.mean,
            variance: cumulants.variance,
            skewness: cumulants.skewness().unwrap_or(0.0),
            // Not a number where the fourth cumulant is not known; a statistic that does not vary has none.
            excess_kurtosis: if cumulants.variance > 0.0 {
                cumulants.excess_kurtosis().unwrap_or(f64::NAN)
            } else {
                0.0
            },
            kind,
            origin: LawOrigin::Matched,
            lattice_step,
            unit,
        };
        Judged { model, rounding: powers * self.relative_rounding() * cumulants.mean.abs() }
    }

    /// How far rounding can shift a variance, relative: rounding errors of relative size up to ε/2 are uncorrelated
    /// with the value to first order, so a variance moves by their square (with room), and sums lose a few ε.
    fn relative_rounding(&self) -> f64 {
        let epsilon = self.precision.epsilon();
        match self.precision {
            Precision::F64 => 1e-12,
            Precision::F32 => 8.0 * epsilon,
            Precision::Bf16 | Precision::F16 => 4.0 * epsilon * epsilon + 8.0 * f64::from(f32::EPSILON),
        }
    }

    /// A judged claim, if the entries have the moments that its test needs.
    fn judged(&self, judged: Option<Judged>, moments: usize) -> Null {
        if standardised_moment(self.law.entries, moments).is_none() {
            let entries = self.law.entries;
            return Null::Unjudged(format!("{entries} entries have no moment {moments}: no test keeps its rate"));
        }
        match judged {
            Some(Judged { model, rounding }) => Null::Exact { model, rounding },
            None => Null::Unjudged("too small a size to have an error bar".to_string()),
        }
    }

    /// Whether the statistics take values on a lattice.
    fn on_lattice(&self) -> bool {
        self.law.entries == Entries::Rademacher
    }

    /// Rounding moves the expectations of the half types: theory is that of exact arithmetic.
    fn kind(&self) -> TheoryKind {
        match self.precision {
            Precision::F64 | Precision::F32 => TheoryKind::Exact,
            Precision::Bf16 | Precision::F16 => TheoryKind::Approximate,
        }
    }
}

/// A model and how far rounding alone can move its statistic.
struct Judged {
    model: NullModel,
    rounding: f64,
}

impl Judged {
    /// The same where the law chosen by its moments is the true one.
    fn exact(self) -> Self {
        Self { model: NullModel { origin: LawOrigin::Exact, ..self.model }, ..self }
    }
}

/// Cumulants of factor·X from those of X.
fn scaled(cumulants: Cumulants, factor: f64) -> Cumulants {
    Cumulants {
        mean: cumulants.mean * factor,
        variance: cumulants.variance * factor.powi(2),
        third: cumulants.third.map(|third| third * factor.powi(3)),
        fourth: cumulants.fourth.map(|fourth| fourth * factor.powi(4)),
    }
}
