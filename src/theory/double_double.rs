//! Numbers of about 32 significant digits: an unevaluated sum of two `f64`.
//!
//! Cumulants are small remainders of large moments. For Rademacher entries, for example, the terms of order n² in the
//! third cumulant of the sample variance cancel exactly, which costs (n/d)² ≈ 10⁹ of an `f64`'s 10¹⁶.
//!
//! Source: Dekker, "A floating-point technique for extending the available precision" (1971); Knuth, TAOCP volume 2,
//! section 4.2.2 (the exact sum). Products use Dekker's splitting, not `f64::mul_add`, which is a slow library call
//! where the FMA instructions are not compiled in. Valid while |x| < 2⁹⁹⁵ and no partial product underflows.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// The unevaluated sum `high + low` with |low| at most half a unit in the last place of `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DoubleDouble {
    high: f64,
    low: f64,
}

/// The sum of two numbers and its exact rounding error (Knuth).
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// The sum and its exact rounding error, for |a| ≥ |b| (Dekker).
fn exact_sum_ordered(a: f64, b: f64) -> DoubleDouble {
    let high = a + b;
    DoubleDouble { high, low: b - (high - a) }
}

/// Splits a number into two halves of at most 26 bits each.
fn split(a: f64) -> (f64, f64) {
    const SPLITTER: f64 = 134_217_729.0; // 2^27 + 1
    let scaled = SPLITTER * a;
    let high = scaled - (scaled - a);
    (high, a - high)
}

/// The product of two numbers and its exact rounding error (Dekker).
fn exact_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let (a_high, a_low) = split(a);
    let (b_high, b_low) = split(b);
    let error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    (product, error)
}

impl DoubleDouble {
    pub(crate) const ZERO: Self = Self { high: 0.0, low: 0.0 };
    pub(crate) const ONE: Self = Self { high: 1.0, low: 0.0 };

    /// The nearest `f64`.
    pub(crate) fn to_f64(self) -> f64 {
        self.high + self.low
    }

    pub(crate) fn is_zero(self) -> bool {
        self.high == 0.0
    }

    /// The sum of values that come each with the magnitude of what they were computed from; exactly 0 where the sum is not
    /// above the rounding noise, 10⁻²⁷ of the magnitudes. A statistic that is constant by algebra (the mean square of
    /// Rademacher logits for d = 1) then has variance 0 and not 10⁻³².
    pub(crate) fn sum_or_zero(terms: impl Iterator<Item = (Self, f64)>) -> Self {
        let (mut total, mut magnitudes) = (Self::ZERO, 0.0);
        for (value, magnitude) in terms {
            total += value;
            magnitudes += magnitude;
        }
        if total.high.abs() <= 1e-27 * magnitudes { Self::ZERO } else { total }
    }

    /// Integer power; x⁰ = 1.
    pub(crate) fn powi(self, exponent: i32) -> Self {
        let magnitude = (0..exponent.unsigned_abs()).fold(Self::ONE, |power, _| power * self);
        if exponent < 0 { Self::ONE / magnitude } else { magnitude }
    }
}

impl From<f64> for DoubleDouble {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

impl Add for DoubleDouble {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        // The low parts are summed exactly too, so that cancellation of the high parts stays harmless.
        let (sum, error) = exact_sum(self.high, other.high);
        let (low_sum, low_error) = exact_sum(self.low, other.low);
        let partial = exact_sum_ordered(sum, error + low_sum);
        exact_sum_ordered(partial.high, partial.low + low_error)
    }
}

impl AddAssign for DoubleDouble {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for DoubleDouble {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Sub for DoubleDouble {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let (product, error) = exact_product(self.high, other.high);
        exact_sum_ordered(product, error + (self.high * other.low + self.low * other.high))
    }
}

impl Div for DoubleDouble {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        // Three steps of long division.
        let first = self.high / other.high;
        let remainder = self - other * first.into();
        let second = remainder.high / other.high;
        let remainder = remainder - other * second.into();
        let third = remainder.high / other.high;
        exact_sum_ordered(first, second) + third.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_times_three_is_one_to_thirty_digits() {
        let third = DoubleDouble::ONE / 3.0.into();
        let error = third * 3.0.into() - DoubleDouble::ONE;
        // Relative precision 2^-104; an f64 third would leave 5.6e-17.
        assert!(error.to_f64().abs() < 1e-31, "{error:?}");
        assert!(third.low != 0.0);
    }

    #[test]
    fn products_of_odd_integers_keep_every_digit() {
        // 94906267² = 9007199515875289 = 2^53 + 261134297 is odd and above 2^53, so not an f64.
        let square = DoubleDouble::from(94_906_267.0).powi(2);
        let remainder = square - DoubleDouble::from(9_007_199_515_875_288.0);
        assert_eq!(remainder.to_f64(), 1.0);
    }

    #[test]
    fn sums_that_cancel_keep_the_small_part() {
        let small = DoubleDouble::from(1e-25);
        let sum = (DoubleDouble::ONE + small) - DoubleDouble::ONE;
        // 106 bits hold 1 + 1e-25 to an absolute 2^-106 = 1.2e-32, that is 1.2e-7 of the small part.
        assert!((sum.to_f64() / 1e-25 - 1.0).abs() < 2e-7);
    }

    #[test]
    fn sums_below_the_rounding_noise_are_zero_and_others_are_kept() {
        let sum = |small: f64| {
            let terms = [(DoubleDouble::ONE, 1.0), (-DoubleDouble::ONE, 1.0), (small.into(), small)];
            DoubleDouble::sum_or_zero(terms.into_iter())
        };
        assert!(sum(1e-28).is_zero());
        assert_eq!(sum(1e-20).to_f64(), 1e-20);
    }

    #[test]
    fn negative_powers_are_reciprocals() {
        let value = DoubleDouble::from(7.0).powi(-2);
        assert!((value * 49.0.into() - DoubleDouble::ONE).to_f64().abs() < 1e-31);
        assert_eq!(DoubleDouble::from(7.0).powi(0), DoubleDouble::ONE);
    }
}
