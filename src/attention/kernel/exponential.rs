//! The exponential function of non-positive arguments, from additions, multiplications and the bits of the exponent,
//! written once for every register.
//!
//! Without branches. The coefficients come from `scripts/reference/exponential.py`, which also prints each polynomial's
//! worst relative error (2⁻²⁶·⁵ in f32, 2⁻⁵⁵·⁸ in f64).

use super::registers::Register;
use crate::number::Real;

/// The numbers the exponential function of an element type is made of.
pub trait Exponential: Real {
    /// The least argument whose exponential is not 0. There it is a normal number still, with a little to spare.
    const LEAST: Self;

    /// 1.5 · 2^(digits of the mantissa): added to it, a number of moderate size leaves its nearest integer in the last
    /// digits of the sum.
    const SHIFT: Self;

    /// log₂ e.
    const LOG2_E: Self;

    /// −ln 2 in two parts; the first has so few bits that its product with an exponent is exact (Cody and Waite,
    /// *Software Manual for the Elementary Functions*, 1980).
    const MINUS_LN_2: [Self; 2];

    /// e^r ≈ Σ coefficientsₖ r^k for |r| ≤ ln 2 / 2.
    const COEFFICIENTS: &[Self];
}

impl Exponential for f32 {
    const LEAST: Self = -87.3;
    const SHIFT: Self = 12_582_912.0;
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const MINUS_LN_2: [Self; 2] = [-0.693_359_4, 2.121_944_4e-4];
    const COEFFICIENTS: &[Self] = &[1.0, 1.0, 0.5, 1.666_657_6e-1, 4.166_655_6e-2, 8.363_179e-3, 1.392_618_4e-3];
}

impl Exponential for f64 {
    const LEAST: Self = -708.3;
    const SHIFT: Self = 6_755_399_441_055_744.0;
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const MINUS_LN_2: [Self; 2] = [-f64::from_bits(0x3FE6_2E42_FEE0_0000), -f64::from_bits(0x3DEA_39EF_3579_3C76)];
    const COEFFICIENTS: &[Self] = &[
        1.0,
        1.0,
        5.000_000_000_000_001e-1,
        1.666_666_666_666_666_9e-1,
        4.166_666_666_662_413e-2,
        8.333_333_333_330_062e-3,
        1.388_888_891_721_371_7e-3,
        1.984_126_986_305_361_8e-4,
        2.480_152_129_595_437_6e-5,
        2.755_726_845_999_706_4e-6,
        2.762_008_844_540_974_6e-7,
        2.510_038_549_551_032e-8,
    ];
}

/// Most coefficients of a polynomial.
const MOST_COEFFICIENTS: usize = 12;

/// The constants of e^(rate·x) as numbers (`C` an element) or registers. With a power of two for a rate multiplied into them, which
/// rounds nothing, x needs not be multiplied.
#[derive(Clone, Copy, Debug)]
pub struct Constants<C> {
    log2_e: C,
    minus_ln_2: [C; 2],
    coefficients: [C; MOST_COEFFICIENTS],
    least: C,
}

impl<T: Exponential> Constants<T> {
    /// The constants for a rate that can be multiplied into them without rounding.
    pub fn with_rate(rate: T) -> Option<Self> {
        let rate = rate.to_f64();
        // A power of two has no bits but those of its exponent. Beyond these sizes a constant might not be a normal number.
        if rate.to_bits().trailing_zeros() < 52 || !(1.0 / 65536.0..=65536.0).contains(&rate) {
            return None;
        }
        let scaled = |constant: T, factor: f64| T::from_f64(constant.to_f64() * factor);
        let mut coefficients = [T::ZERO; MOST_COEFFICIENTS];
        for (power, (scaled_one, &coefficient)) in (0..).zip(coefficients.iter_mut().zip(T::COEFFICIENTS)) {
            *scaled_one = scaled(coefficient, rate.powi(power));
        }
        Some(Self {
            log2_e: scaled(T::LOG2_E, rate),
            minus_ln_2: T::MINUS_LN_2.map(|part| scaled(part, 1.0 / rate)),
            coefficients,
            least: scaled(T::LEAST, 1.0 / rate),
        })
    }
}

impl<R: Register> Constants<R> {
    /// Those of e^x.
    ///
    /// # Safety
    /// The machine must have the instructions of the register.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "what takes a closure would not be compiled for the instruction set")]
    pub unsafe fn without_rate() -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let mut coefficients = [R::splat(R::Element::ZERO); MOST_COEFFICIENTS];
            for k in 0..R::Element::COEFFICIENTS.len() {
                coefficients[k] = R::splat(R::Element::COEFFICIENTS[k]);
            }
            let [high, low] = R::Element::MINUS_LN_2;
            Self {
                log2_e: R::splat(R::Element::LOG2_E),
                minus_ln_2: [R::splat(high), R::splat(low)],
                coefficients,
                least: R::splat(R::Element::LEAST),
            }
        }
    }

    /// The numbers in every lane.
    ///
    /// # Safety
    /// The machine must have the instructions of the register.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "as above")]
    pub unsafe fn splat(numbers: &Constants<R::Element>) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let mut coefficients = [R::splat(R::Element::ZERO); MOST_COEFFICIENTS];
            for k in 0..R::Element::COEFFICIENTS.len() {
                coefficients[k] = R::splat(numbers.coefficients[k]);
            }
            Self {
                log2_e: R::splat(numbers.log2_e),
                minus_ln_2: [R::splat(numbers.minus_ln_2[0]), R::splat(numbers.minus_ln_2[1])],
                coefficients,
                least: R::splat(numbers.least),
            }
        }
    }
}

/// e^z for each lane z ≤ 0 of `N` registers.
///
/// A processor sees only so many instructions ahead, and one register's are a single chain of dependent ones: those of several registers are
/// written alternately so that each finds work for the time in which another's are under way.
///
/// From `LEAST` (−87.3 in f32, −708.3 in f64) to 0 at most 1 unit in the last place off where multiply-adds are
/// fused, 1.3 units where not; exactly 1 at 0. Below `LEAST`, where it would be subnormal or very nearly so, it is 0, and so it
/// is for NaN.
///
/// # Safety
/// The machine must have the instructions of the register.
#[inline(always)]
pub unsafe fn exponential<R: Register, const N: usize>(z: [R; N]) -> [R; N] {
    // SAFETY: the caller's promise.
    unsafe { exponential_with::<R, true, N>(z, &Constants::without_rate()) }
}

/// [`exponential`] of rate·x, the rate being that of the constants. Unless `GUARDED`, every rate·x must be at least `LEAST`.
///
/// # Safety
/// The machine must have the instructions of the register.
#[inline(always)]
pub unsafe fn exponential_with<R: Register, const GUARDED: bool, const N: usize>(
    x: [R; N],
    constants: &Constants<R>,
) -> [R; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut shifted, mut rest) = (x, x);
        let shift = R::splat(R::Element::SHIFT);
        for i in 0..N {
            shifted[i] = x[i].multiply_add(constants.log2_e, shift);
        }
        let mut exponent = shifted;
        for i in 0..N {
            exponent[i] = shifted[i].subtract(shift);
        }
        for part in constants.minus_ln_2 {
            for i in 0..N {
                rest[i] = exponent[i].multiply_add(part, rest[i]);
            }
        }
        let last = R::Element::COEFFICIENTS.len() - 1;
        let mut power = [constants.coefficients[last]; N];
        for &coefficient in constants.coefficients[..last].iter().rev() {
            for i in 0..N {
                power[i] = power[i].multiply_add(rest[i], coefficient);
            }
        }
        for i in 0..N {
            power[i] = power[i].times_power_of_two(shifted[i]);
            if GUARDED {
                power[i] = power[i].kept_from(x[i], constants.least);
            }
        }
        power
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Element, InstructionSet};
    use super::Exponential;

    /// The exponentials of numbers, by one instruction set.
    fn exponentials<T: Element>(set: InstructionSet, mut numbers: Vec<T>) -> Vec<T> {
        super::super::exponentials(set, &mut numbers);
        numbers
    }

    /// Largest error in units in the last place of the exact value: 2^(exponent − digits), since all are normal.
    fn worst_error<T: Element>(set: InstructionSet, numbers: Vec<T>, digits: i32) -> f64 {
        let found = exponentials(set, numbers.clone());
        let mut worst = 0.0;
        for (x, found) in numbers.iter().zip(found) {
            // The platform's f64 exponential, right to half a unit and a little.
            let exact = x.to_f64().exp();
            let unit = f64::from_bits(exact.to_bits() & (0x7FF << 52)) * 2_f64.powi(-digits);
            let error = (found.to_f64() - exact).abs() / unit;
            assert!(error.is_finite(), "exp {} = {} by {set}", x.to_f64(), found.to_f64());
            worst = f64::max(worst, error);
        }
        worst
    }

    /// Measured over all arguments (tests/statistical/exponential.rs): 0.98 fused, 1.24 not.
    fn bound_f32(set: InstructionSet) -> f64 {
        if set == InstructionSet::Portable { 1.3 } else { 1.0 }
    }

    #[test]
    fn exponentials_in_f32_are_right_to_a_unit_in_the_last_place() {
        let last = <f32 as Exponential>::LEAST.to_bits();
        let numbers: Vec<f32> = ((-0.0_f32).to_bits()..=last).step_by(997).map(f32::from_bits).collect();
        for set in InstructionSet::available() {
            let worst = worst_error(set, numbers.clone(), 23);
            assert!(worst <= bound_f32(set), "{set}: {worst}");
        }
    }

    #[test]
    fn exponentials_in_f64_are_right_to_a_unit_in_the_last_place() {
        let grid = |low: f64, count: u32| (0..=count).map(move |k| low * f64::from(k) / f64::from(count));
        let tiny = (0..1074).map(|k| -(2_f64.powi(-k)));
        let numbers: Vec<f64> = grid(-708.3, 300_007).chain(grid(-1.0, 300_007)).chain(tiny).collect();
        for set in InstructionSet::available() {
            let worst = worst_error(set, numbers.clone(), 52);
            // Half a unit and a little are the platform's.
            assert!(worst <= bound_f32(set) + 0.51, "{set}: {worst}");
        }
    }

    #[test]
    fn exponentials_are_exact_at_0_and_0_from_where_they_would_be_subnormal() {
        fn check<T: Element>(least: T, below: &[T]) {
            for set in InstructionSet::available() {
                let one = T::from_f64(1.0);
                assert_eq!(exponentials(set, vec![T::ZERO, T::from_f64(-0.0)]), [one; 2], "{set}");
                assert!(exponentials(set, vec![least])[0] > T::ZERO, "{set}");
                assert!(exponentials(set, below.to_vec()).iter().all(|&x| x == T::ZERO), "{set}");
            }
        }
        let infinity = f32::INFINITY;
        check(-87.3, &[-87.4, -88.0, -104.0, -1e4, -1e30, -f32::MAX, -infinity, f32::NAN]);
        check(-708.3, &[-708.4, -746.0, -1e4, -1e300, -f64::MAX, -f64::INFINITY, f64::NAN]);
    }
}
