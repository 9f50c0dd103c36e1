//! Exact cumulants of the statistics that one trial measures.
//!
//! A trial draws Q (n×d) and K (m×d), i.i.d. entries, Q and K independent, and forms S_ij = q_i·k_j. The n·m logits of a
//! trial share rows and are dependent, so the trial is the unit of replication; its statistics are skewed when n·d or m·d
//! is small. A test that keeps its error rate needs mean, variance and skewness of the statistic, which are here, per
//! trial; [`Cumulants::average_over`] gives those of the average over trials.

mod connected_sums;
pub mod entries;
pub mod kurtosis;
mod site_moments;

use anyhow::{Result, ensure};

use self::connected_sums::{Form, form_cumulant};
use self::site_moments::{PowerMeans, ScaledLaw};
use crate::theory::double_double::DoubleDouble;
use crate::theory::entry_moments::{EntryLaw, standardised_cumulant};

/// The first cumulants of a statistic. `third` and `fourth` are `None` where they do not exist (heavy tails) or are not
/// provided for that statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cumulants {
    /// κ_1, the expectation.
    pub mean: f64,
    /// κ_2, the variance.
    pub variance: f64,
    /// κ_3, the third central moment.
    pub third: Option<f64>,
    /// κ_4, the fourth central moment less 3 variance².
    pub fourth: Option<f64>,
}

impl Cumulants {
    /// κ_3 / κ_2^(3/2); `None` where κ_3 is missing or the variance is not positive.
    pub fn skewness(&self) -> Option<f64> {
        let third = self.third.filter(|_| self.variance > 0.0)?;
        Some(third / self.variance.powf(1.5))
    }

    /// κ_4 / κ_2², 0 for a normal law; `None` where κ_4 is missing or the variance is not positive.
    pub fn excess_kurtosis(&self) -> Option<f64> {
        let fourth = self.fourth.filter(|_| self.variance > 0.0)?;
        Some(fourth / (self.variance * self.variance))
    }

    /// Cumulants of the average over independent trials: κ_r / trials^(r−1). At least one trial.
    pub fn average_over(&self, trials: u64) -> Self {
        debug_assert!(trials > 0, "an average needs a trial");
        let trials = trials as f64;
        Self {
            mean: self.mean,
            variance: self.variance / trials,
            third: self.third.map(|third| third / trials.powi(2)),
            fourth: self.fourth.map(|fourth| fourth / trials.powi(3)),
        }
    }
}

/// The sizes of a trial: Q is queries × depth, K is keys × depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialShape {
    queries: usize,
    keys: usize,
    depth: usize,
}

impl TrialShape {
    /// A shape of n queries, m keys and depth d.
    ///
    /// # Errors
    /// If one of them is 0.
    pub fn new(queries: usize, keys: usize, depth: usize) -> Result<Self> {
        ensure!(
            queries > 0 && keys > 0 && depth > 0,
            "queries = {queries}, keys = {keys}, depth = {depth}: each must be at least 1"
        );
        Ok(Self { queries, keys, depth })
    }

    /// n.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// m.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// d.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// n·m.
    pub(crate) fn logits(&self) -> f64 {
        self.queries as f64 * self.keys as f64
    }

    fn sizes(&self) -> (usize, usize, usize) {
        (self.queries, self.keys, self.depth)
    }
}

/// Cumulants of the mean of all logits of a trial, M = (1/nm) Σ S_ij: E M = d μ_q μ_k, and for means 0
/// Var M = d σ_q² σ_k²/(nm). All four, exact, for any means.
///
/// `third` and `fourth` are `None` where the entries have no such moments.
pub fn mean_of_logits(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<Cumulants> {
    let cumulant = scaled_form_cumulants(Form::Sum, shape, query, key, shape.logits());
    Some(Cumulants { mean: cumulant(1)?, variance: cumulant(2)?, third: cumulant(3), fourth: cumulant(4) })
}

/// Cumulants of the sample variance of all logits of a trial, V = [Σ S_ij² − nm M²]/(nm − 1): mean, variance and third,
/// exact for any i.i.d. entries, means other than 0 included.
///
/// `None` if nm < 2 or the entries have no fourth moments; `third` is `None` if they have no sixth. `fourth` is not
/// provided; for means 0 the excess kurtosis is that of [`mean_square_of_logits`] up to terms of relative order 1/(nm).
pub fn sample_variance_of_logits(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<Cumulants> {
    let divisor = shape.logits() - 1.0;
    if divisor < 1.0 {
        return None;
    }
    square_cumulants(Form::CentredSumOfSquares, shape, query, key, divisor)
}

/// Cumulants of the mean square of all logits of a trial, V̂ = (1/nm) Σ S_ij²: mean, variance and third, exact for any
/// means, and the fourth where E S = 0. For unit variances and means 0, E V̂ = d and
/// Var V̂ = [2d² + d(μ₄² − 3) + (n+m−2) d (μ₄ − 1)]/(nm).
///
/// `None` if the entries have no fourth moments; `third` is `None` if they have no sixth, `fourth` if they have no eighth
/// or both means differ from 0.
pub fn mean_square_of_logits(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<Cumulants> {
    let cumulants = square_cumulants(Form::SumOfSquares, shape, query, key, shape.logits())?;
    Some(Cumulants { fourth: fourth_cumulant_of_mean_square(shape, query, key), ..cumulants })
}

/// The fourth cumulant of [`mean_square_of_logits`] alone, `None` where that has none.
pub fn fourth_cumulant_of_mean_square(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<f64> {
    if query.mean() != 0.0 && key.mean() != 0.0 {
        return None;
    }
    let squares = PowerMeans::new(4, 2, shape.sizes(), &scaled_law(query), &scaled_law(key))?;
    let unit = query.variance() * key.variance();
    Some(squares.cumulant(&[2; 4]).to_f64() * unit.powi(4))
}

fn square_cumulants(form: Form, shape: TrialShape, query: EntryLaw, key: EntryLaw, divisor: f64) -> Option<Cumulants> {
    let cumulant = scaled_form_cumulants(form, shape, query, key, divisor);
    Some(Cumulants { mean: cumulant(1)?, variance: cumulant(2)?, third: cumulant(3), fourth: None })
}

/// The cumulants of form / divisor as a function of the order; `None` where the entries lack a moment it needs.
fn scaled_form_cumulants(
    form: Form,
    shape: TrialShape,
    query: EntryLaw,
    key: EntryLaw,
    divisor: f64,
) -> impl Fn(usize) -> Option<f64> {
    // In units of the standard deviations, so that no power overflows before the end.
    let unit = query.standard_deviation() * key.standard_deviation();
    move |order| {
        debug_assert!(order <= form.highest_order());
        let slots = form.slots_per_copy() * order;
        let query_cumulants = cumulants_in_standard_deviations(query, slots)?;
        let key_cumulants = cumulants_in_standard_deviations(key, slots)?;
        let value = form_cumulant(form, order, shape.sizes(), &query_cumulants, &key_cumulants);
        let scaled = value / DoubleDouble::from(divisor).powi(order as i32);
        Some(scaled.to_f64() * unit.powi(slots as i32))
    }
}

/// The mean of a law in units of its standard deviation, to the precision of double-double.
fn mean_in_standard_deviations(law: EntryLaw) -> DoubleDouble {
    DoubleDouble::from(law.mean()) / law.standard_deviation().into()
}

/// The law in units of its standard deviation, with as many moments up to the twelfth as exist.
fn scaled_law(law: EntryLaw) -> ScaledLaw {
    let moments = (0..=12).map_while(|order| law.central_moment_in_standard_deviations(order));
    ScaledLaw { mean: mean_in_standard_deviations(law), moments: moments.map(DoubleDouble::from).collect() }
}

/// Cumulants of x / sd, index 0 (not used) to `order`.
fn cumulants_in_standard_deviations(law: EntryLaw, order: usize) -> Option<Vec<DoubleDouble>> {
    (0..=order)
        .map(|order| match order {
            1 => Some(mean_in_standard_deviations(law)),
            _ => standardised_cumulant(law.entries(), order).map(DoubleDouble::from),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Entries;
    use crate::theory::logits;

    const STANDARD: [Entries; 5] =
        [Entries::Normal, Entries::Uniform, Entries::Rademacher, Entries::Laplace, Entries::StudentT(7.0)];

    fn law(entries: Entries, mean: f64, standard_deviation: f64) -> EntryLaw {
        EntryLaw::new(entries, mean, standard_deviation).expect("a valid law")
    }

    fn shape(queries: usize, keys: usize, depth: usize) -> TrialShape {
        TrialShape::new(queries, keys, depth).expect("a valid shape")
    }

    /// Equal up to the rounding of entry moments (1e-16 each) and of the final scaling by powers.
    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 2e-14 * expected.abs(), "{value} against {expected}");
    }

    fn all_close(value: Cumulants, expected: &[f64]) {
        close(value.mean, expected[0]);
        close(value.variance, expected[1]);
        close(value.third.expect("it exists"), expected[2]);
        if let Some(&fourth) = expected.get(3) {
            close(value.fourth.expect("it exists"), fourth);
        }
    }

    #[test]
    fn two_valued_entries_agree_with_all_their_matrices() {
        // Enumeration of every pair of matrices in exact fractions: mean (κ_1..κ_4), mean square, sample variance.
        let signs = law(Entries::Rademacher, 0.0, 1.0);
        let shifted = law(Entries::Rademacher, 0.5, 1.0);
        let large = law(Entries::Rademacher, 5.0, 2.0);
        let cases = [
            (
                (signs, signs),
                shape(2, 3, 2),
                [0.0, 1.0 / 3.0, 0.0, 5.0 / 54.0],
                [2.0, 2.0 / 3.0, 0.0],
                [2.0, 82.0 / 75.0, 104.0 / 225.0],
            ),
            (
                (signs, signs),
                shape(3, 2, 1),
                [0.0, 1.0 / 6.0, 0.0, 5.0 / 108.0],
                [1.0, 0.0, 0.0],
                [1.0, 11.0 / 75.0, -136.0 / 1125.0],
            ),
            (
                (signs, signs),
                shape(2, 3, 3),
                [0.0, 0.5, 0.0, 5.0 / 36.0],
                [3.0, 2.0, 4.0 / 3.0],
                [3.0, 71.0 / 25.0, 1376.0 / 375.0],
            ),
            (
                (shifted, shifted),
                shape(2, 3, 2),
                [0.5, 0.75, 0.5, 151.0 / 288.0],
                [3.25, 6.125, 1319.0 / 48.0],
                [2.7, 3.455, 20_791.0 / 3000.0],
            ),
            (
                (large, shifted),
                shape(3, 2, 2),
                [5.0, 27.0, 20.0, -3737.0 / 18.0],
                [85.0, 5250.0, 1_442_876.0 / 3.0],
                [39.6, 43_142.0 / 25.0, 52_256_888.0 / 375.0],
            ),
        ];
        for ((query, key), shape, mean, square, variance) in cases {
            all_close(mean_of_logits(shape, query, key).expect("it exists"), &mean);
            all_close(mean_square_of_logits(shape, query, key).expect("it exists"), &square);
            all_close(sample_variance_of_logits(shape, query, key).expect("it exists"), &variance);
        }
    }

    #[test]
    fn the_sample_variance_equals_exact_fractions_up_to_the_largest_sizes() {
        // scripts/reference/trial_cumulants.py: raw moments by set partitions with falling factorials, in fractions.
        let standard = |entries| (law(entries, 0.0, 1.0), law(entries, 0.0, 1.0));
        let cases = [
            (
                standard(Entries::Normal),
                shape(512, 509, 64),
                [64.0, 0.533_398_947_483_837_3, 1.135_652_331_763_653_2e-2],
            ),
            (
                standard(Entries::Uniform),
                shape(65_536, 65_521, 4096),
                [4096.0, 0.107_824_437_968_274_66, 5.709_433_970_995_903e-6],
            ),
            (
                standard(Entries::Laplace),
                shape(65_536, 65_521, 1),
                [1.0, 1.526_111_790_196_563_4e-4, 6.940_730_700_760_827e-8],
            ),
            (
                standard(Entries::Rademacher),
                shape(65_536, 65_521, 4096),
                [4096.0, 7.812_380_765_240_517e-3, 2.979_413_519_336_178_5e-8],
            ),
            (
                standard(Entries::Rademacher),
                shape(65_521, 3, 1),
                [1.0, 1.552_912_444_266_933e-10, -1.088_470_235_815_753_1e-14],
            ),
            (
                (law(Entries::Uniform, 100.0, 0.5), law(Entries::Uniform, -0.25, 2.0)),
                shape(65_521, 257, 61),
                [2_430_567.934_025_173, 4.569_907_968_780_028e10, 1.701_554_515_888_493e15],
            ),
            (
                (law(Entries::Laplace, 0.5, 1.0), law(Entries::Laplace, 1.5, 1.0)),
                shape(11, 13, 7),
                [23.045_774_647_887_324, 81.764_792_512_585_61, 862.707_053_269_877_9],
            ),
        ];
        for ((query, key), shape, expected) in cases {
            let variance = sample_variance_of_logits(shape, query, key).expect("it exists");
            all_close(variance, &expected);
            let mean = logits::expected_sample_variance(shape, query, key).expect("nm > 1");
            close(variance.mean, mean);
        }
    }

    #[test]
    fn the_mean_square_has_the_variance_of_theory_section_2() {
        for entries in STANDARD {
            let standard = law(entries, 0.0, 1.0);
            let kappa = standard.raw_moment(4).expect("it exists");
            for (queries, keys, depth) in [(1, 1, 1), (2, 3, 5), (11, 7, 1), (509, 512, 64), (65_536, 65_521, 4096)] {
                let (n, m, d) = (queries as f64, keys as f64, depth as f64);
                let expected = (2.0 * d * d + d * (kappa * kappa - 3.0) + (n + m - 2.0) * d * (kappa - 1.0)) / (n * m);
                let square = mean_square_of_logits(shape(queries, keys, depth), standard, standard);
                let square = square.expect("it exists");
                close(square.mean, d);
                close(square.variance, expected);
            }
        }
    }

    #[test]
    fn the_mean_square_at_depth_one_is_a_product_of_two_chi_squares() {
        // V̂ = χ²_n χ²_m/(nm); E (χ²_n)^r = n(n+2)…; κ_3 in exact integers.
        let normal = law(Entries::Normal, 0.0, 1.0);
        for (queries, keys) in [(1, 1), (5, 7), (65_521, 65_536)] {
            let raw = |r: u32| {
                let chi = |n: u128| (0..r).map(|i| n + 2 * u128::from(i)).product::<u128>();
                (chi(queries) * chi(keys)) as i128
            };
            let (first, second, third) = (raw(1), raw(2), raw(3));
            // For the small sizes only: the fourth powers overflow beyond.
            let fourth = (queries < 100).then(|| {
                let fourth = raw(4) - 4 * third * first - 3 * second.pow(2) + 12 * second * first.pow(2);
                (fourth - 6 * first.pow(4)) as f64 / ((queries * keys) as f64).powi(4)
            });
            let third = third - 3 * first * second + 2 * first.pow(3);
            let size = (queries * keys) as f64;
            let square = mean_square_of_logits(shape(queries as usize, keys as usize, 1), normal, normal);
            let expected = [1.0, (second - first.pow(2)) as f64 / size.powi(2), third as f64 / size.powi(3)];
            let square = square.expect("it exists");
            all_close(square, &expected);
            if let Some(fourth) = fourth {
                close(square.fourth.expect("it exists"), fourth);
            }
        }
    }

    #[test]
    fn the_fourth_cumulant_of_the_mean_square_agrees_with_all_matrices() {
        // Enumeration of every pair of matrices in exact fractions (scripts/reference/trial_cumulants.py).
        let signs = law(Entries::Rademacher, 0.0, 1.0);
        let shifted = law(Entries::Rademacher, 0.5, 1.0);
        let large = law(Entries::Rademacher, 5.0, 2.0);
        let cases = [
            (signs, signs, shape(2, 3, 3), 20.0 / 9.0),
            (signs, signs, shape(3, 2, 2), 20.0 / 27.0),
            (large, signs, shape(3, 2, 2), 8_808_020.0 / 27.0),
            (signs, shifted, shape(2, 2, 3), 7005.0 / 64.0),
        ];
        for (query, key, shape, expected) in cases {
            let square = mean_square_of_logits(shape, query, key).expect("it exists");
            close(square.fourth.expect("E S = 0"), expected);
        }
        let both = mean_square_of_logits(shape(2, 2, 3), large, shifted).expect("it exists");
        assert_eq!(both.fourth, None);
    }

    #[test]
    fn the_mean_square_agrees_with_the_other_method() {
        // Power means are found site by site from a power series, mean squares from connected partitions.
        for (entries, mean) in [(Entries::Uniform, 0.0), (Entries::Laplace, 0.25), (Entries::Rademacher, 0.0)] {
            let entry_law = law(entries, 0.0, 1.0);
            let scaled = |mean: f64| ScaledLaw {
                mean: mean.into(),
                moments: (0..=12).map(|order| entry_law.raw_moment(order).expect("it exists").into()).collect(),
            };
            // With the keys' mean 0, E S = 0 whatever the queries' mean.
            for (queries, keys, depth) in [(3, 5, 2), (65_521, 65_536, 1021)] {
                let powers = |factors| {
                    PowerMeans::new(factors, 2, (queries, keys, depth), &scaled(mean), &scaled(0.0))
                        .expect("moments exist")
                };
                let shifted = law(entries, mean, 1.0);
                let square = mean_square_of_logits(shape(queries, keys, depth), shifted, entry_law);
                let expected = [
                    powers(1).cumulant(&[2]).to_f64(),
                    powers(2).cumulant(&[2, 2]).to_f64(),
                    powers(3).cumulant(&[2, 2, 2]).to_f64(),
                ];
                all_close(square.expect("it exists"), &expected);
            }
        }
    }

    #[test]
    fn the_mean_of_a_single_logit_has_the_cumulants_of_the_logit() {
        let (query, key) = (law(Entries::Laplace, 0.7, 2.0), law(Entries::Uniform, -0.3, 0.5));
        let mean = mean_of_logits(shape(1, 1, 7), query, key).expect("it exists");
        close(mean.mean, logits::mean(7, query, key));
        close(mean.variance, logits::variance(7, query, key));
        close(mean.skewness().expect("it exists"), logits::skewness(7, query, key));
        let excess = logits::kurtosis(7, query, key).expect("it exists") - 3.0;
        // Subtracting 3 costs a digit or two of the closed form.
        assert!((mean.excess_kurtosis().expect("it exists") - excess).abs() < 1e-14);
    }

    #[test]
    fn missing_moments_and_too_few_logits_give_none() {
        let of = |freedom| {
            let heavy = law(Entries::StudentT(freedom), 0.0, 1.0);
            (mean_of_logits(shape(3, 5, 2), heavy, heavy), sample_variance_of_logits(shape(3, 5, 2), heavy, heavy))
        };
        let (mean, variance) = of(3.5);
        let mean = mean.expect("two moments");
        assert_eq!((mean.third, mean.fourth), (Some(0.0), None));
        assert_eq!(variance, None);
        let (mean, variance) = of(5.0);
        assert!(mean.expect("two moments").fourth.is_some());
        assert_eq!(variance.expect("four moments").third, None);
        assert!(of(7.0).1.expect("four moments").third.is_some());
        let normal = law(Entries::Normal, 0.0, 1.0);
        assert_eq!(sample_variance_of_logits(shape(1, 1, 3), normal, normal), None);
        assert!(TrialShape::new(0, 1, 1).is_err());
        assert!(TrialShape::new(1, 0, 1).is_err());
        assert!(TrialShape::new(1, 1, 0).is_err());
    }

    #[test]
    fn averages_over_trials_approach_a_normal_law() {
        let one = Cumulants { mean: 3.0, variance: 4.0, third: Some(16.0), fourth: Some(-32.0) };
        let nine = one.average_over(9);
        close(nine.mean, 3.0);
        close(nine.variance, 4.0 / 9.0);
        close(nine.skewness().expect("it exists"), 2.0 / 3.0);
        close(nine.excess_kurtosis().expect("it exists"), -2.0 / 9.0);
        let constant = Cumulants { variance: 0.0, ..one };
        assert_eq!((constant.skewness(), constant.excess_kurtosis()), (None, None));
        let heavy = Cumulants { third: None, fourth: None, ..one };
        assert_eq!((heavy.skewness(), heavy.excess_kurtosis()), (None, None));
    }
}
