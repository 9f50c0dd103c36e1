//! Logarithm, sine and cosine from additions and multiplications alone.
//!
//! The platform's functions differ in their last bits between machines, and a fused multiply-add rounds once where
//! two instructions round twice. Everything here is plain IEEE arithmetic without branches: the same bits
//! everywhere, in any vector width. The coefficients come from `scripts/reference/polynomials.py`, which also prints
//! each polynomial's worst relative error (at most 2⁻²⁴·⁸ in f32, 2⁻⁵⁴·⁵ in f64).

/// ln 2 in two parts; the first has so few bits that its product with an exponent is exact (Cody and Waite, 1980).
pub(crate) const LN_2_F32: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
const LN_2_F64: [f64; 2] = [f64::from_bits(0x3FE6_2E42_FEE0_0000), f64::from_bits(0x3DEA_39EF_3579_3C76)];

/// ln(1 + f) = f − f²/2 + f³ Σ coefficientsₖ fᵏ in f32, for 1 + f in [√½, √2).
pub(crate) const LN_TAIL_F32: [f32; 8] = [
    3.333_333e-1,
    -2.500_030_7e-1,
    2.000_104_5e-1,
    -1.664_128_2e-1,
    1.421_449_6e-1,
    -1.299_818_3e-1,
    1.262_231_9e-1,
    -7.902_744e-2,
];
/// sin(π t / 4) = t Σ coefficientsₖ t²ᵏ in f32, for |t| ≤ 1.
pub(crate) const SINE_F32: [f32; 4] = [std::f32::consts::FRAC_PI_4, -8.074_543_6e-2, 2.490_006_9e-3, -3.595_429e-5];
/// cos(π t / 4) = Σ coefficientsₖ t²ᵏ in f32, for |t| ≤ 1.
pub(crate) const COSINE_F32: [f32; 5] = [1.0, -3.084_251_3e-1, 1.585_433_8e-2, -3.259_614e-4, 3.541_952_8e-6];

/// Σ coefficientsₖ xᵏ by Horner's rule.
macro_rules! polynomial {
    ($x:expr, $coefficients:expr) => {{
        let coefficients = $coefficients;
        let mut sum = coefficients[coefficients.len() - 1];
        for k in (0..coefficients.len() - 1).rev() {
            sum = coefficients[k] + $x * sum;
        }
        sum
    }};
}

/// ln x for normal, finite x > 0; ln 1 is exactly 0. Relative error at most about 2⁻²³.
#[inline(always)]
pub(crate) fn ln_f32(x: f32) -> f32 {
    let bits = x.to_bits();
    // x = 2^exponent (1 + f) with 1 + f in [√½, √2): near x = 1 the exponent is 0 and nothing cancels.
    let exponent = (bits.wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits()) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23)) - 1.0;
    let exponent = exponent as f32;
    let tail = polynomial!(f, LN_TAIL_F32);
    let square = f * f;
    let small = square * (f * tail - 0.5) + exponent * LN_2_F32[1];
    exponent * LN_2_F32[0] + (f + small)
}

/// ln x for normal, finite x > 0; ln 1 is exactly 0. Relative error at most about 2⁻⁵².
#[inline(always)]
pub(crate) fn ln_f64(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(std::f64::consts::FRAC_1_SQRT_2.to_bits()) as i64) >> 52;
    let f = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52)) - 1.0;
    // Only AVX-512 converts 64-bit integers to f64. Added to the bits of 1.5 · 2⁵², a small integer becomes
    // the last digits of an f64, exactly.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let exponent = f64::from_bits((exponent as u64).wrapping_add(SHIFT.to_bits())) - SHIFT;
    // ln(1 + f) = ln((1 + s) / (1 - s)) = 2 s + s R(s²), and 2 s = f - s f (fdlibm's e_log.c, 1993).
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * polynomial!(
        z,
        [
            6.666_666_666_666_67e-1,
            3.999_999_999_989_950_5e-1,
            2.857_142_862_597_548_7e-1,
            2.222_221_113_479_508e-1,
            1.818_288_912_526_172_3e-1,
            1.533_172_160_055_604_2e-1,
            1.461_644_968_504_314_6e-1,
        ]
    );
    let half_square = 0.5 * f * f;
    exponent * LN_2_F64[0] - ((half_square - (s * (half_square + r) + exponent * LN_2_F64[1])) - f)
}

/// ln(1 + x) for finite x ≥ 0. Relative error at most about 2⁻⁵¹.
#[inline(always)]
pub(crate) fn ln_1p_f64(x: f64) -> f64 {
    let sum = 1.0 + x;
    // What the sum lost, exactly where x < 1 (Dekker, Numerische Mathematik 18, 1971) and else to a part in 2⁵³ of ln sum;
    // ln(sum + lost) = ln sum + lost / sum to the second order.
    let lost = x - (sum - 1.0);
    ln_f64(sum) + lost / sum
}

/// (sin(π t / 4), cos(π t / 4)) for |t| ≤ 1; the sine is odd in t to the last bit.
#[inline(always)]
pub(crate) fn sine_cosine_f32(t: f32) -> (f32, f32) {
    let z = t * t;
    let sine = t * polynomial!(z, SINE_F32);
    let cosine = polynomial!(z, COSINE_F32);
    (sine, cosine)
}

/// (sin(π t / 4), cos(π t / 4)) for |t| ≤ 1; the sine is odd in t to the last bit.
#[inline(always)]
pub(crate) fn sine_cosine_f64(t: f64) -> (f64, f64) {
    let z = t * t;
    let sine = t * polynomial!(
        z,
        [
            std::f64::consts::FRAC_PI_4,
            -8.074_551_218_828_054e-2,
            2.490_394_570_188_844e-3,
            -3.657_620_415_891_387e-5,
            3.133_616_225_433_416e-7,
            -1.757_150_074_698_393_5e-9,
            6.877_360_573_166_326e-12,
        ]
    );
    let cosine = polynomial!(
        z,
        [
            1.0,
            -3.084_251_375_340_424_4e-1,
            1.585_434_424_381_548_8e-2,
            -3.259_918_869_271_996e-4,
            3.590_860_447_448_612e-6,
            -2.461_136_623_830_974_4e-8,
            1.150_067_970_094_049_6e-10,
            -3.863_156_948_832_656e-13,
        ]
    );
    (sine, cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positive numbers over forty binades, dense near 1, with a stride that visits all mantissas' patterns.
    fn arguments() -> impl Iterator<Item = f64> {
        let spread =
            (0..40).flat_map(|exponent| (0..4099).map(move |k| (1.0 + f64::from(k) / 4099.0) * 0.5_f64.powi(exponent)));
        let near_one = (1..53).map(|k| 1.0 - 0.5_f64.powi(k));
        spread.chain(near_one)
    }

    #[test]
    fn logarithms_are_relatively_accurate_everywhere_even_next_to_one() {
        // Reference: the platform's f64 logarithm, right to 1 ulp = 2^-52.
        for x in arguments() {
            let truth = x.ln();
            let error = (ln_f64(x) - truth).abs();
            assert!(error <= 2.0 * f64::EPSILON * truth.abs(), "ln {x}: {error}");
            let single = x as f32;
            let truth = f64::from(single).ln();
            let error = (f64::from(ln_f32(single)) - truth).abs();
            assert!(error <= 0.5_f64.powi(23) * truth.abs(), "ln {single}: {error}");
        }
        assert_eq!(ln_f32(1.0).to_bits(), 0);
        assert_eq!(ln_f64(1.0).to_bits(), 0);
    }

    #[test]
    fn the_logarithm_of_one_more_is_relatively_accurate_from_nothing_to_much() {
        // Reference: the platform's function, right to 1 ulp.
        for x in arguments().chain((0..40).map(|k| 3.0_f64.powi(k))).chain([f64::MIN_POSITIVE, 1e-300, 1e-17]) {
            let truth = x.ln_1p();
            let error = (ln_1p_f64(x) - truth).abs();
            assert!(error <= 2.0 * f64::EPSILON * truth, "ln (1 + {x}): {error}");
        }
        assert_eq!(ln_1p_f64(0.0).to_bits(), 0);
    }

    #[test]
    fn sines_and_cosines_are_relatively_accurate_over_the_eighth_turn() {
        for k in -4099..=4099 {
            let t = f64::from(k) / 4099.0;
            let (sine, cosine) = (std::f64::consts::FRAC_PI_4 * t).sin_cos();
            let ours = sine_cosine_f64(t);
            // The platform's argument is itself rounded (2^-53), and its result to 1 ulp.
            assert!((ours.0 - sine).abs() <= 3.0 * f64::EPSILON * sine.abs(), "sin {t}");
            assert!((ours.1 - cosine).abs() <= 2.0 * f64::EPSILON * cosine, "cos {t}");
            let single = t as f32;
            let (sine, cosine) = (std::f64::consts::FRAC_PI_4 * f64::from(single)).sin_cos();
            // Sine: 2^-24.8 for the polynomial, 2^-24 each for its last addition and the product with t, a little
            // for the rest: 1.4 · 2^-23.
            let ours = sine_cosine_f32(single);
            assert!((f64::from(ours.0) - sine).abs() <= 1.5 * f64::from(f32::EPSILON) * sine.abs(), "sin {t}");
            assert!((f64::from(ours.1) - cosine).abs() <= 0.5_f64.powi(23) * cosine, "cos {t}");
        }
    }
}
