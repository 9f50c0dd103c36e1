//! Sampling theory of the kurtosis of the logits, R = M4/M2², from moments pooled over trials.
//!
//! M_p = (1/nm) Σ (S_ij − E S_ij)^p is a trial's mean power about the theoretical mean; R̂ is formed from the averages of M2
//! and M4 over T trials and compared with R = E4/E2², E_p = E(M_p). With a = M̄4/E4 − 1 and b = M̄2/E2 − 1,
//! R̂/R = (1 + a)/(1 + b)² = 1 + L + 3b² − 2ab + …, L = a − 2b (the delta method; Cramér 1946, section 27.7). Variances and
//! covariances of M2 and M4 are exact; the expansion is in powers of 1/T.

use std::ops::Div;

use super::site_moments::PowerMeans;
use super::{TrialShape, scaled_law};
use crate::theory::double_double::DoubleDouble;
use crate::theory::entry_moments::EntryLaw;

/// Moments of M2 and M4 in one trial, and what follows for their ratio over many trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KurtosisCumulants {
    /// E2 = E(M2) = Var(S_ij).
    pub second_moment: f64,
    /// E4 = E(M4), the fourth central moment of S_ij.
    pub fourth_moment: f64,
    /// R = E4/E2².
    pub kurtosis: f64,
    /// Var(M2) / E2² of one trial, exact.
    pub relative_variance_of_second: f64,
    /// Var(M4) / E4² of one trial, exact.
    pub relative_variance_of_fourth: f64,
    /// Cov(M2, M4) / (E2 E4) of one trial, exact.
    pub relative_covariance: f64,
    /// v = Var(L) of one trial, exact: Var(R̂/R) ≈ v/T.
    pub relative_variance: f64,
    /// E(R̂/R) − 1 ≈ relative_bias/T, with relative_bias = 3 Var(M2)/E2² − 2 Cov(M2, M4)/(E2 E4).
    pub relative_bias: f64,
    /// κ_3(L) of one trial, exact. `None` where the entries have no twelfth moments.
    pub linearised_third: Option<f64>,
    /// κ_3(R̂/R) ≈ relative_third/T²: κ_3(L) and the curvature of the ratio,
    /// 3 (6 g_b² − 4 g_a g_b) with g_a = Cov(L, a), g_b = Cov(L, b). `None` where the entries have no twelfth moments.
    pub relative_third: Option<f64>,
}

impl KurtosisCumulants {
    /// Skewness of R̂ over that many trials to leading order, relative_third / (relative_variance^(3/2) √trials);
    /// `None` where the third cumulant is missing or the variance is not positive.
    pub fn skewness_over(&self, trials: u64) -> Option<f64> {
        let third = self.relative_third.filter(|_| self.relative_variance > 0.0)?;
        Some(third / (self.relative_variance.powf(1.5) * (trials as f64).sqrt()))
    }
}

/// The theory of the kurtosis of the logits, any entry means. `None` where the entries have no eighth moments.
pub fn kurtosis_of_logits(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<KurtosisCumulants> {
    let (scaled_query, scaled_key) = (scaled_law(query), scaled_law(key));
    let power_means = |factors| PowerMeans::new(factors, 4, shape.sizes(), &scaled_query, &scaled_key);
    let single = power_means(1)?;
    let (second, fourth) = (single.cumulant(&[2]), single.cumulant(&[4]));
    let relative = |means: &PowerMeans, powers: &[usize]| {
        let scale = |power: &usize| if *power == 2 { second } else { fourth };
        (powers.iter().map(scale)).fold(means.cumulant(powers), Div::div)
    };
    let pairs = power_means(2)?;
    let second_variance = relative(&pairs, &[2, 2]);
    let fourth_variance = relative(&pairs, &[4, 4]);
    let covariance = relative(&pairs, &[2, 4]);
    let fourth_slope = combination(&[(1.0, fourth_variance), (-2.0, covariance)]);
    let second_slope = combination(&[(1.0, covariance), (-2.0, second_variance)]);

    let thirds = power_means(3).map(|triples| {
        // κ_3[a − 2b], multiplied out.
        let linearised = combination(&[
            (1.0, relative(&triples, &[4, 4, 4])),
            (-6.0, relative(&triples, &[4, 4, 2])),
            (12.0, relative(&triples, &[4, 2, 2])),
            (-8.0, relative(&triples, &[2, 2, 2])),
        ]);
        let ratio = combination(&[
            (1.0, linearised),
            (18.0, second_slope * second_slope),
            (-12.0, fourth_slope * second_slope),
        ]);
        (linearised.to_f64(), ratio.to_f64())
    });

    let unit = query.variance() * key.variance();
    let relative_variance = [(1.0, fourth_variance), (-4.0, covariance), (4.0, second_variance)];
    let relative_bias = [(3.0, second_variance), (-2.0, covariance)];
    Some(KurtosisCumulants {
        second_moment: second.to_f64() * unit,
        fourth_moment: fourth.to_f64() * unit * unit,
        kurtosis: (fourth / (second * second)).to_f64(),
        relative_variance_of_second: second_variance.to_f64(),
        relative_variance_of_fourth: fourth_variance.to_f64(),
        relative_covariance: covariance.to_f64(),
        relative_variance: combination(&relative_variance).to_f64(),
        relative_bias: combination(&relative_bias).to_f64(),
        linearised_third: thirds.map(|(linearised, _)| linearised),
        relative_third: thirds.map(|(_, ratio)| ratio),
    })
}

/// Σ weight·value, exactly 0 where only rounding noise is left.
fn combination(terms: &[(f64, DoubleDouble)]) -> DoubleDouble {
    DoubleDouble::sum_or_zero(terms.iter().map(|&(weight, value)| {
        let term = value * weight.into();
        (term, term.to_f64().abs())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Entries;
    use crate::theory::logits;

    fn law(entries: Entries, mean: f64, standard_deviation: f64) -> EntryLaw {
        EntryLaw::new(entries, mean, standard_deviation).expect("a valid law")
    }

    fn theory(sizes: (usize, usize, usize), query: EntryLaw, key: EntryLaw) -> KurtosisCumulants {
        let shape = TrialShape::new(sizes.0, sizes.1, sizes.2).expect("a valid shape");
        kurtosis_of_logits(shape, query, key).expect("the eighth moments exist")
    }

    #[test]
    fn moments_of_every_law_and_size_equal_exact_fractions() {
        // E2, E4, Var M2/E2², Var M4/E4², Cov/(E2 E4), v, κ_3[L] by scripts/reference/trial_cumulants.py, which raises the
        // moment series to the d-th power by repeated squaring in fractions. Tolerance: the moments of the uniform law
        // are rounded to 1e-16, all else is double-double; v and κ_3 are amplified by up to E4-terms over v, about 100.
        let standard = |entries| (law(entries, 0.0, 1.0), law(entries, 0.0, 1.0));
        let cases = [
            (
                (512, 509, 64),
                standard(Entries::Normal),
                [
                    64.0,
                    12_672.0,
                    1.302_243_215_864_44e-4,
                    5.427_769_684_814_748e-4,
                    2.609_282_907_662_082e-4,
                    1.996_109_176_241_789e-5,
                    6.275_828_965_545_821e-9,
                ],
            ),
            (
                (65_536, 65_521, 4096),
                standard(Entries::Uniform),
                [
                    4096.0,
                    50_332_631.04,
                    6.426_837_323_096_604e-9,
                    2.632_726_622_282_921e-8,
                    1.285_279_468_953_533_7e-8,
                    6.234_367_570_742_807e-10,
                    3.532_559_544_036_802e-18,
                ],
            ),
            (
                (65_536, 65_521, 1),
                standard(Entries::Laplace),
                [
                    1.0,
                    36.0,
                    1.526_111_790_196_559e-4,
                    2.107_062_685_979_256_7e-3,
                    4.273_406_446_323_03e-4,
                    1.008_144_823_528_668_3e-3,
                    1.173_782_722_952_709_4e-5,
                ],
            ),
            (
                (65_536, 65_521, 4096),
                standard(Entries::Rademacher),
                [
                    4096.0,
                    50_323_456.0,
                    4.656_541_802_537_060_6e-10,
                    2.482_326_822_322_472e-9,
                    9.311_567_556_953_484e-10,
                    6.203_165_205_559_024e-10,
                    3.458_903_588_462_632_7e-18,
                ],
            ),
            (
                (65_521, 257, 61),
                (law(Entries::Uniform, 100.0, 0.5), law(Entries::Uniform, -0.25, 2.0)),
                [
                    2_440_061.953_125,
                    1.774_459_871_728_376_6e13,
                    7.705_167_209_517_253e-3,
                    4.032_191_764_552_326e-2,
                    1.530_900_106_423_192_6e-2,
                    9.906_582_226_664_57e-3,
                    8.394_418_378_408_661e-4,
                ],
            ),
            (
                (11, 13, 7),
                (law(Entries::Laplace, 0.5, 1.0), law(Entries::Laplace, 1.5, 1.0)),
                [
                    24.5,
                    2664.375,
                    0.150_482_170_890_334_17,
                    1.398_689_732_699_293_8,
                    0.365_655_175_225_900_1,
                    0.537_997_715_357_030_1,
                    10.273_177_116_699_22,
                ],
            ),
        ];
        for (sizes, (query, key), expected) in cases {
            let theory = theory(sizes, query, key);
            let values = [
                theory.second_moment,
                theory.fourth_moment,
                theory.relative_variance_of_second,
                theory.relative_variance_of_fourth,
                theory.relative_covariance,
                theory.relative_variance,
                theory.linearised_third.expect("the twelfth moments exist"),
            ];
            for (value, expected) in values.into_iter().zip(expected) {
                assert!((value / expected - 1.0).abs() < 1e-13, "{sizes:?}: {value} {expected}");
            }
        }
    }

    #[test]
    fn the_kurtosis_is_that_of_a_single_logit() {
        let (query, key) = (law(Entries::Laplace, 0.7, 2.0), law(Entries::Uniform, -0.3, 0.5));
        let theory = theory((3, 5, 7), query, key);
        let expected = logits::kurtosis(7, query, key).expect("it exists");
        assert!((theory.kurtosis / expected - 1.0).abs() < 1e-14);
        assert!((theory.second_moment / logits::variance(7, query, key) - 1.0).abs() < 1e-14);
    }

    #[test]
    fn one_product_of_signs_has_a_kurtosis_that_never_varies() {
        let signs = law(Entries::Rademacher, 0.0, 3.0);
        let theory = theory((7, 5, 1), signs, signs);
        assert_eq!(theory.kurtosis, 1.0);
        assert_eq!(theory.relative_variance, 0.0);
        assert_eq!(theory.relative_third, Some(0.0));
        assert_eq!(theory.skewness_over(3), None);
    }

    #[test]
    fn bias_and_curvature_are_those_of_a_ratio_of_two_valued_logits() {
        // n = m = 1, d = 2, signs: S² = 4 or 0 with equal probability, so M2/E2 and M4/E4 are the same X = 2 or 0, L = −(X − 1),
        // κ_3[L] = 0; E[R̂/R] − 1 = E[1/(1+b)] − 1 ≈ Var b = 1; κ_3[R̂/R] of 1/(1+b) ≈ κ_3[−b + b²] ≈ 6 Var², by the
        // general expansion κ_3[f] = f'³κ_3 + 3 f'² f'' Var².
        let signs = law(Entries::Rademacher, 0.0, 1.0);
        let theory = theory((1, 1, 2), signs, signs);
        assert_eq!(theory.relative_variance, 1.0);
        assert_eq!(theory.relative_bias, 1.0);
        assert_eq!(theory.linearised_third, Some(0.0));
        assert_eq!(theory.relative_third, Some(6.0));
        assert_eq!(theory.skewness_over(4), Some(3.0));
    }

    #[test]
    fn heavy_tails_lose_the_cumulants_they_do_not_have() {
        let shape = TrialShape::new(3, 5, 7).expect("a valid shape");
        let of = |freedom| {
            let heavy = law(Entries::StudentT(freedom), 0.0, 1.0);
            kurtosis_of_logits(shape, heavy, heavy)
        };
        assert_eq!(of(8.0), None);
        assert_eq!(of(9.0).expect("eight moments").linearised_third, None);
        assert!(of(13.0).expect("twelve moments").linearised_third.is_some());
    }
}
