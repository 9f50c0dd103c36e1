//! The other element-addressed laws: uniform, Rademacher and Laplace, standardised to mean 0 and variance 1.
//!
//! Same rules as the normals ([`super::normal`]): plain IEEE arithmetic, the same bits on every machine. f32 takes
//! one word an element (64 elements a group), f64 two words, the high one first (32 a group). Rademacher takes one bit
//! (2048 a group) in either precision, so its f32 and f64 matrices are equal.

use super::bulk::GroupLaw;
use super::normal::wide;
use super::threefry::{BlockGroup, LANES};
use crate::number::elementary::{ln_f32, ln_f64};

/// The top bit of a word.
const SIGN: u32 = 1 << 31;

/// Uniform on (−√3, √3), symmetric about 0; f32 has 2³¹ equally likely numbers (then rounded), f64 2⁶⁴.
pub(super) struct UniformLaw;

impl GroupLaw<f32> for UniformLaw {
    const ELEMENTS: usize = 4 * LANES;
    type Group = [f32; 4 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 4 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f32]) {
        const SCALE: f32 = 1.732_050_8 / 2_147_483_648.0;
        for (word, out) in words.as_flattened().iter().zip(out) {
            // Odd numbers only: symmetric about 0 in two's complement.
            *out = ((word | 1) as i32) as f32 * SCALE;
        }
    }
}

impl GroupLaw<f64> for UniformLaw {
    const ELEMENTS: usize = 2 * LANES;
    type Group = [f64; 2 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 2 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f64]) {
        const SCALE: f64 = 1.732_050_807_568_877_2 / 9_223_372_036_854_775_808.0;
        for (words, out) in words.chunks_exact(2).zip(out.chunks_exact_mut(LANES)) {
            for lane in 0..LANES {
                out[lane] = wide(f64::from(words[0][lane] as i32), words[1][lane]) * SCALE;
            }
        }
    }
}

/// −1 or 1 with probability ½ each: output o of a block is bit o mod 32 of its word o div 32, set for −1.
pub(super) struct RademacherLaw;

impl GroupLaw<f32> for RademacherLaw {
    const ELEMENTS: usize = 128 * LANES;
    type Group = [f32; 128 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 128 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f32]) {
        for (words, out) in words.iter().zip(out.chunks_exact_mut(32 * LANES)) {
            let mut bits = *words;
            for out in out.chunks_exact_mut(LANES) {
                // Bit after bit, one vector of lanes each: by number of the bit, the compiler vectorises across bits and scatters.
                for lane in 0..LANES {
                    out[lane] = f32::from_bits(1.0_f32.to_bits() | bits[lane] << 31);
                    bits[lane] >>= 1;
                }
            }
        }
    }
}

impl GroupLaw<f64> for RademacherLaw {
    const ELEMENTS: usize = 128 * LANES;
    type Group = [f64; 128 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 128 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f64]) {
        for (words, out) in words.iter().zip(out.chunks_exact_mut(32 * LANES)) {
            let mut bits = *words;
            for out in out.chunks_exact_mut(LANES) {
                for lane in 0..LANES {
                    out[lane] = f64::from_bits(1.0_f64.to_bits() | u64::from(bits[lane]) << 63);
                    bits[lane] >>= 1;
                }
            }
        }
    }
}

/// The words themselves: word w of lane l of group g is element 64 g + 16 w + l.
pub(super) struct WordLaw;

impl GroupLaw<u32> for WordLaw {
    const ELEMENTS: usize = 4 * LANES;
    type Group = [u32; 4 * LANES];

    fn zeros() -> Self::Group {
        [0; 4 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [u32]) {
        out.copy_from_slice(words.as_flattened());
    }
}

/// Laplace with scale 1/√2 by inverse transform: the top bit is the sign (set for negative), the other 31 (f32) or
/// 63 (f64) bits give u = (number + ½) / 2³¹ or 2⁶³, and |x| = −ln(u) / √2. The largest |x| is 32 ln 2 / √2 = 15.7
/// in f32 (exceeded with probability 2.3e-10) and 64 ln 2 / √2 = 31.4 in f64 (5.4e-20).
pub(super) struct LaplaceLaw;

impl GroupLaw<f32> for LaplaceLaw {
    const ELEMENTS: usize = 4 * LANES;
    type Group = [f32; 4 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 4 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f32]) {
        for (words, out) in words.iter().zip(out.chunks_exact_mut(LANES)) {
            for lane in 0..LANES {
                let number = (words[lane] & !SIGN) as i32;
                let u = (number as f32 + 0.5) * (1.0 / 2_147_483_648.0);
                let size = ln_f32(u) * -std::f32::consts::FRAC_1_SQRT_2;
                out[lane] = f32::from_bits(size.to_bits() ^ (words[lane] & SIGN));
            }
        }
    }
}

impl GroupLaw<f64> for LaplaceLaw {
    const ELEMENTS: usize = 2 * LANES;
    type Group = [f64; 2 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 2 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f64]) {
        for (words, out) in words.chunks_exact(2).zip(out.chunks_exact_mut(LANES)) {
            for lane in 0..LANES {
                let high = (words[0][lane] & !SIGN) as i32;
                let u = wide(f64::from(high), words[1][lane]) * (1.0 / 9_223_372_036_854_775_808.0);
                let size = ln_f64(u) * -std::f64::consts::FRAC_1_SQRT_2;
                out[lane] = f64::from_bits(size.to_bits() ^ u64::from(words[0][lane] & SIGN) << 32);
            }
        }
    }
}
