//! Standard normals by Box and Muller's transform (Annals of Mathematical Statistics 29, 1958, 610-611).
//!
//! From a uniform u in (0, 1) and a uniform angle θ, √(−2 ln u) cos θ and √(−2 ln u) sin θ are two independent
//! standard normals. Every step is plain IEEE arithmetic (square roots and conversions from integers are correctly
//! rounded everywhere), so the bits are the same on every machine.
//!
//! * **f32**: words 0 and 1 of a block are the radius and the angle of outputs 0 and 1, words 2 and 3 those of
//!   outputs 2 and 3; 64 elements a group. u = (word + ½) / 2³², so the largest |x| is √(66 ln 2) = 6.76; a true
//!   normal exceeds it with probability 1.4e-11.
//! * **f64**: words 0 and 1 are the high and the low half of the radius, words 2 and 3 those of the angle; 32
//!   elements a group. u = (number + ½) / 2⁶⁴, so the largest |x| is √(130 ln 2) = 9.49 (probability 2.3e-21).
//!
//! **Accuracy.** u is never 0 and keeps its full relative precision towards 0, where the large radii come from. From
//! the rounded u on, x is within a relative 3 · 2⁻²³ (f32) or 3 · 2⁻⁵² (f64) of the exact transform; the rounding of
//! u itself moves a radius r by at most 2⁻²³ / r (f32) or 2⁻⁵³ / r (f64), which matters to no statistic. u may round
//! to 1 (probability 2⁻²⁵ in f32), and both outputs are then 0.
//!
//! **Angle.** The low 30 (f32) or 62 (f64) bits give a position t in (−1, 1), symmetric about 0, inside a quarter
//! turn: √(−2 ln u) cos(π t / 4), √(−2 ln u) sin(π t / 4). The highest bit negates the cosine and the second-highest
//! exchanges the two outputs; together they go once round the circle.
//!
//! f32 and f64 draws share words: use one precision or the other in a trial, not both as if independent.

use super::bulk::GroupLaw;
use super::threefry::{BlockGroup, LANES};
#[cfg(target_arch = "x86_64")]
use super::{bulk::FillQuads, normal_x86};
use crate::number::elementary::{ln_f32, ln_f64, sine_cosine_f32, sine_cosine_f64};

/// Standard normal entries.
pub(super) struct NormalLaw;

/// Bit 30 of the angle's top word exchanges the outputs.
pub(super) const EXCHANGE: u32 = 1 << 30;
/// Bit 31 of the angle's top word negates the cosine.
pub(super) const NEGATE: u32 = 1 << 31;

/// A pair of normals from a radius word and an angle word.
#[inline(always)]
fn pair_f32(radius: u32, angle: u32) -> (f32, f32) {
    let u = (radius as f32 + 0.5) * (1.0 / 4_294_967_296.0);
    let radius = (-2.0 * ln_f32(u)).sqrt();
    // The low 30 bits, moved to the top of a signed word; the added 2 centres the 2³⁰ values on 0.
    let t = ((angle << 2 | 2) as i32) as f32 * (1.0 / 2_147_483_648.0);
    let (sine, cosine) = sine_cosine_f32(t);
    let cosine = f32::from_bits(cosine.to_bits() ^ (angle & NEGATE));
    let exchange = angle & EXCHANGE != 0;
    let first = if exchange { sine } else { cosine };
    let second = if exchange { cosine } else { sine };
    (radius * first, radius * second)
}

/// A pair of normals from the high and low words of a radius and of an angle.
#[inline(always)]
fn pair_f64(radius: [u32; 2], angle: [u32; 2]) -> (f64, f64) {
    let u = wide(f64::from(radius[0]), radius[1]) * (1.0 / 18_446_744_073_709_551_616.0);
    let radius = (-2.0 * ln_f64(u)).sqrt();
    // As above: 62 bits, the low word's added half centres them on 0.
    let high = ((angle[0] << 2) as i32) >> 2;
    let t = wide(f64::from(high), angle[1]) * (1.0 / 2_305_843_009_213_693_952.0);
    let (sine, cosine) = sine_cosine_f64(t);
    let cosine = f64::from_bits(cosine.to_bits() ^ u64::from(angle[0] & NEGATE) << 32);
    let exchange = angle[0] & EXCHANGE != 0;
    let first = if exchange { sine } else { cosine };
    let second = if exchange { cosine } else { sine };
    (radius * first, radius * second)
}

/// high · 2³² + low + ½, rounded once: every step but the last addition is exact.
#[inline(always)]
pub(super) fn wide(high: f64, low: u32) -> f64 {
    high * 4_294_967_296.0 + (f64::from(low) + 0.5)
}

impl GroupLaw<f32> for NormalLaw {
    const ELEMENTS: usize = 4 * LANES;
    type Group = [f32; 4 * LANES];

    #[cfg(target_arch = "x86_64")]
    const QUADS_AVX2: Option<FillQuads<f32>> = Some(normal_x86::avx2::fill_quads);
    #[cfg(target_arch = "x86_64")]
    const QUADS_AVX512: Option<FillQuads<f32>> = Some(normal_x86::avx512::fill_quads);

    fn zeros() -> Self::Group {
        [0.0; 4 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f32]) {
        let (first, second) = out.split_at_mut(2 * LANES);
        for (words, out) in [(&words[..2], first), (&words[2..], second)] {
            let (cosines, sines) = out.split_at_mut(LANES);
            for lane in 0..LANES {
                (cosines[lane], sines[lane]) = pair_f32(words[0][lane], words[1][lane]);
            }
        }
    }
}

impl GroupLaw<f64> for NormalLaw {
    const ELEMENTS: usize = 2 * LANES;
    type Group = [f64; 2 * LANES];

    fn zeros() -> Self::Group {
        [0.0; 2 * LANES]
    }

    #[inline(always)]
    fn transform(words: &BlockGroup, out: &mut [f64]) {
        let (cosines, sines) = out.split_at_mut(LANES);
        for lane in 0..LANES {
            (cosines[lane], sines[lane]) = pair_f64([words[0][lane], words[1][lane]], [words[2][lane], words[3][lane]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_values_are_those_documented() {
        // Radius word 0 is the smallest u; angle word 0 makes t nearest 0, the cosine nearest 1.
        let (x, _) = pair_f32(0, 0);
        let bound = (66.0 * std::f64::consts::LN_2).sqrt();
        assert!((f64::from(x) - bound).abs() < 1e-6, "{x}");
        let (x, _) = pair_f64([0, 0], [0, 0]);
        let bound = (130.0 * std::f64::consts::LN_2).sqrt();
        assert!((x - bound).abs() < 1e-14, "{x}");
        // The smallest radius is a number, not the square root of a negative one.
        let (x, y) = pair_f32(u32::MAX, 12_345);
        assert!(x.abs() < 4e-4 && y.abs() < 4e-4);
        let (x, y) = pair_f64([u32::MAX; 2], [1, 2]);
        assert!(x.abs() < 2e-8 && y.abs() < 2e-8);
    }

    #[test]
    fn the_two_top_angle_bits_turn_the_pair_through_the_four_quarters() {
        // With u = 1/2 the radius is sqrt(2 ln 2); t = 1/2 + 2^-30 is an angle of pi/8.
        let radius = (2.0 * std::f64::consts::LN_2).sqrt();
        let (sine, cosine) = (std::f64::consts::PI / 8.0).sin_cos();
        let angle = 1 << 28;
        let cases = [
            (0, (cosine, sine)),
            (NEGATE, (-cosine, sine)),
            (EXCHANGE, (sine, cosine)),
            (NEGATE | EXCHANGE, (sine, -cosine)),
        ];
        for (bits, expected) in cases {
            let (x, y) = pair_f32(1 << 31, angle | bits);
            assert!((f64::from(x) - radius * expected.0).abs() < 4e-7, "{bits:x}");
            assert!((f64::from(y) - radius * expected.1).abs() < 4e-7, "{bits:x}");
            let (x, y) = pair_f64([1 << 31, 0], [angle | bits, 0]);
            assert!((x - radius * expected.0).abs() < 1e-15, "{bits:x}");
            assert!((y - radius * expected.1).abs() < 1e-15, "{bits:x}");
        }
    }

    #[test]
    fn opposite_angles_give_opposite_sines_to_the_last_bit() {
        // The complement of the low bits is the mirror image of t: the law is exactly symmetric.
        for low in [0, 1, 12_345, (1 << 29) - 1] {
            let mirrored = !low & (EXCHANGE - 1);
            let (x, y) = pair_f32(987_654_321, low);
            assert_eq!(pair_f32(987_654_321, mirrored), (x, -y));
            let (x, y) = pair_f64([7, 11], [low, 13]);
            assert_eq!(pair_f64([7, 11], [mirrored, !13]), (x, -y));
        }
    }
}
