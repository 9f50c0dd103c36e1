//! Moments and cumulants of one entry x = mean + sd·z, with z standardised (mean 0, variance 1).
//!
//! All five laws are symmetric, so odd moments of z vanish. Even ones, k = 1, 2, …:
//!
//! | law | E z^(2k) | source |
//! |---|---|---|
//! | normal | (2k−1)!! | textbook |
//! | uniform on (−√3, √3) | 3^k/(2k+1) | ∫ z^(2k) dz |
//! | Rademacher | 1 | z² = 1 |
//! | Laplace, scale 1/√2 | (2k)!/2^k | gamma integral |
//! | Student's t, ν > 2, over its standard deviation | (ν−2)^k ∏_{i=1..k} (2i−1)/(ν−2i), only for 2k < ν | beta integral |

use anyhow::{Result, ensure};

use crate::sampling::Entries;

/// The highest order of moment and cumulant given here.
pub const HIGHEST_ORDER: usize = 16;

/// E z^order of the standardised law; `None` where the moment does not exist or order > [`HIGHEST_ORDER`].
///
/// Student's t with ν degrees of freedom has moments of order < ν only, and is standardised only for ν > 2.
pub fn standardised_moment(entries: Entries, order: usize) -> Option<f64> {
    if order > HIGHEST_ORDER {
        return None;
    }
    if let Entries::StudentT(freedom) = entries {
        let exists = freedom.is_finite() && freedom > 2.0 && freedom > order as f64;
        if !exists {
            return None;
        }
    }
    if order % 2 == 1 {
        return Some(0.0);
    }
    let half = order / 2;
    let odd_factors = (1..=half).map(|i| (2 * i - 1) as f64);
    Some(match entries {
        Entries::Normal => odd_factors.product(),
        Entries::Uniform => 3_f64.powi(half as i32) / (order + 1) as f64,
        Entries::Rademacher => 1.0,
        // (2k)!/2^k = ∏ (2i−1)·i: every factor and partial product an exact integer.
        Entries::Laplace => (1..=half).map(|i| ((2 * i - 1) * i) as f64).product(),
        Entries::StudentT(freedom) => {
            (1..=half).map(|i| (2 * i - 1) as f64 * (freedom - 2.0) / (freedom - (2 * i) as f64)).product()
        }
    })
}

/// The cumulant of that order of the standardised law, from the moments by
/// κ_r = m_r − Σ_{k<r} C(r−1, k−1) κ_k m_{r−k}; `None` where a moment it needs does not exist. Order 0 gives 0.
///
/// The subtraction loses digits for high orders of nearly normal laws; up to order 8 the absolute error stays below
/// 10⁻¹² of the moment.
pub fn standardised_cumulant(entries: Entries, order: usize) -> Option<f64> {
    let moments = (0..=order).map(|order| standardised_moment(entries, order)).collect::<Option<Vec<f64>>>()?;
    Some(cumulants_from_moments(&moments)[order])
}

/// Cumulants κ_0 = 0, κ_1, κ_2, … of a law with the raw moments m_0 = 1, m_1, m_2, ….
pub(crate) fn cumulants_from_moments(moments: &[f64]) -> Vec<f64> {
    let mut cumulants = vec![0.0; moments.len()];
    for order in 1..moments.len() {
        let products: f64 = (1..order).map(|k| binomial(order - 1, k - 1) * cumulants[k] * moments[order - k]).sum();
        cumulants[order] = moments[order] - products;
    }
    cumulants
}

/// The binomial coefficient C(n, k), exact in `f64` for n ≤ 50.
pub(crate) fn binomial(n: usize, k: usize) -> f64 {
    // Dividing after each factor keeps every intermediate value an integer.
    (1..=k).fold(1.0, |value, i| value * (n + 1 - i) as f64 / i as f64)
}

/// The law of an entry x = mean + standard_deviation·z.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntryLaw {
    entries: Entries,
    mean: f64,
    standard_deviation: f64,
}

impl EntryLaw {
    /// An entry law with that mean and standard deviation.
    ///
    /// # Errors
    /// If the mean is not finite, the standard deviation is not positive and finite, or Student's degrees of freedom
    /// are not above 2 (no variance to standardise by).
    pub fn new(entries: Entries, mean: f64, standard_deviation: f64) -> Result<Self> {
        ensure!(mean.is_finite(), "the entry mean is {mean}; it must be finite");
        ensure!(
            standard_deviation.is_finite() && standard_deviation > 0.0,
            "the entry standard deviation is {standard_deviation}; it must be positive and finite"
        );
        if let Entries::StudentT(freedom) = entries {
            ensure!(
                freedom.is_finite() && freedom > 2.0,
                "Student's t has {freedom} degrees of freedom; its variance exists only above 2"
            );
        }
        Ok(Self { entries, mean, standard_deviation })
    }

    /// The shape of the law.
    pub fn entries(&self) -> Entries {
        self.entries
    }

    /// E x.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The square root of Var x.
    pub fn standard_deviation(&self) -> f64 {
        self.standard_deviation
    }

    /// Var x.
    pub fn variance(&self) -> f64 {
        self.standard_deviation * self.standard_deviation
    }

    /// E x^order = Σ_k C(order, k) mean^(order−k) sd^k E z^k; `None` where it does not exist.
    pub fn raw_moment(&self, order: usize) -> Option<f64> {
        (0..=order)
            .map(|k| {
                let shift = self.mean.powi((order - k) as i32);
                let scale = self.standard_deviation.powi(k as i32);
                Some(binomial(order, k) * shift * scale * standardised_moment(self.entries, k)?)
            })
            .sum()
    }

    /// E (x − mean)^order = sd^order·E z^order; `None` where it does not exist.
    pub fn central_moment(&self, order: usize) -> Option<f64> {
        let scale = self.standard_deviation.powi(order as i32);
        Some(scale * standardised_moment(self.entries, order)?)
    }

    /// The cumulant of x of that order (order 1: the mean); `None` where it does not exist.
    pub fn cumulant(&self, order: usize) -> Option<f64> {
        if order == 1 {
            return Some(self.mean);
        }
        let scale = self.standard_deviation.powi(order as i32);
        Some(scale * standardised_cumulant(self.entries, order)?)
    }

    /// E ((x − mean)/sd)^order; `None` where it does not exist.
    pub(crate) fn central_moment_in_standard_deviations(&self, order: usize) -> Option<f64> {
        standardised_moment(self.entries, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (law, E z⁴, E z⁶, E z⁸, E z¹⁶) from the densities, in exact fractions by hand; Student's from its table in
    /// Johnson, Kotz and Balakrishnan (1995), chapter 28: excess kurtosis 6/(ν−4), so 3(ν−2)/(ν−4), and so on.
    const MOMENTS: [(Entries, f64, f64, f64, f64); 5] = [
        (Entries::Normal, 3.0, 15.0, 105.0, 2_027_025.0),
        (Entries::Uniform, 9.0 / 5.0, 27.0 / 7.0, 9.0, 6561.0 / 17.0),
        (Entries::Rademacher, 1.0, 1.0, 1.0, 1.0),
        // 16!/2^8 = 81729648000.
        (Entries::Laplace, 6.0, 90.0, 2520.0, 81_729_648_000.0),
        // ν = 18: ∏ (2i−1)·16/(18−2i), i = 1..k. E z⁸ = 105·16⁴/(16·14·12·10) = 256; ∏ (18−2i) = 10321920 for k = 8.
        (
            Entries::StudentT(18.0),
            3.0 * 16.0 / 14.0,
            15.0 * 256.0 / (14.0 * 12.0),
            256.0,
            2_027_025.0 * 4_294_967_296.0 / 10_321_920.0,
        ),
    ];

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("the moment exists");
        // A handful of roundings.
        let tolerance = 8.0 * f64::EPSILON * expected.abs();
        assert!((value - expected).abs() <= tolerance, "{value} against {expected}");
    }

    #[test]
    fn standardised_moments_equal_those_of_the_densities() {
        for (entries, fourth, sixth, eighth, sixteenth) in MOMENTS {
            close(standardised_moment(entries, 0), 1.0);
            close(standardised_moment(entries, 2), 1.0);
            close(standardised_moment(entries, 4), fourth);
            close(standardised_moment(entries, 6), sixth);
            close(standardised_moment(entries, 8), eighth);
            close(standardised_moment(entries, 16), sixteenth);
            assert_eq!(standardised_moment(entries, 7), Some(0.0));
            assert_eq!(standardised_moment(entries, 17), None);
        }
    }

    #[test]
    fn students_moments_exist_only_below_the_degrees_of_freedom() {
        let five = Entries::StudentT(5.0);
        assert!(standardised_moment(five, 4).is_some());
        assert_eq!(standardised_moment(five, 5), None);
        assert_eq!(standardised_moment(five, 6), None);
        let four = Entries::StudentT(4.0);
        assert_eq!(standardised_moment(four, 4), None);
        assert_eq!(standardised_moment(four, 3), Some(0.0));
        assert_eq!(standardised_moment(Entries::StudentT(2.0), 0), None);
        assert_eq!(standardised_cumulant(five, 6), None);
    }

    #[test]
    fn cumulants_equal_their_closed_forms() {
        // Uniform: κ_2k = B_2k 12^k/(2k), B_4 = −1/30, B_6 = 1/42, B_8 = −1/30. Laplace: 2(2k−1)!/2^k.
        // Rademacher: tangent numbers with signs, 1, −2, 16, −272 (ln cosh).
        let cases = [
            (Entries::Normal, [0.0_f64, 0.0, 0.0]),
            (Entries::Uniform, [-1.2, 48.0 / 7.0, -86.4]),
            (Entries::Rademacher, [-2.0, 16.0, -272.0]),
            (Entries::Laplace, [3.0, 30.0, 630.0]),
        ];
        for (entries, expected) in cases {
            for (order, expected) in [4, 6, 8].into_iter().zip(expected) {
                let value = standardised_cumulant(entries, order).expect("all moments exist");
                // Subtracted terms are below 10 E z^8: rounding 1e-16 of each.
                let scale = standardised_moment(entries, order).expect("all moments exist");
                let tolerance = 1e-14 * scale.max(expected.abs());
                assert!((value - expected).abs() <= tolerance, "{entries:?} {order}: {value}");
            }
            assert_eq!(standardised_cumulant(entries, 1), Some(0.0));
            assert_eq!(standardised_cumulant(entries, 2), Some(1.0));
            assert_eq!(standardised_cumulant(entries, 3), Some(0.0));
        }
    }

    #[test]
    fn shifted_and_scaled_entries_have_the_binomial_moments() {
        // x = 3/2 or −1/2 with equal probability: E x³ = (27 − 1)/16, E x⁴ = (81 + 1)/32, κ_4 = −2.
        let law = EntryLaw::new(Entries::Rademacher, 0.5, 1.0).expect("a valid law");
        close(law.raw_moment(3), 26.0 / 16.0);
        close(law.raw_moment(4), 82.0 / 32.0);
        close(law.cumulant(1), 0.5);
        close(law.cumulant(4), -2.0);
        // x = 7 or 3: central moments of ±2.
        let law = EntryLaw::new(Entries::Rademacher, 5.0, 2.0).expect("a valid law");
        close(law.central_moment(4), 16.0);
        close(law.cumulant(4), -32.0);
        close(law.cumulant(2), law.variance());
    }

    #[test]
    fn laws_without_a_scale_or_a_variance_are_refused() {
        assert!(EntryLaw::new(Entries::Normal, 0.0, 0.0).is_err());
        assert!(EntryLaw::new(Entries::Normal, 0.0, -1.0).is_err());
        assert!(EntryLaw::new(Entries::Normal, f64::NAN, 1.0).is_err());
        assert!(EntryLaw::new(Entries::Normal, 0.0, f64::INFINITY).is_err());
        assert!(EntryLaw::new(Entries::StudentT(2.0), 0.0, 1.0).is_err());
        assert!(EntryLaw::new(Entries::StudentT(2.5), 0.0, 1.0).is_ok());
    }

    #[test]
    fn binomials_are_exact() {
        assert_eq!(binomial(16, 8), 12_870.0);
        assert_eq!(binomial(7, 0), 1.0);
        assert_eq!(binomial(7, 7), 1.0);
        // C(50, 25); its last intermediate product is 25 times that, below 2^53.
        assert_eq!(binomial(50, 25), 126_410_606_437_752.0);
    }
}
