//! The f32 normals of four groups at once, in the instructions of AVX-512.
//!
//! The same arithmetic as [`super::normal`], operation by operation, hence the same bits; that is the safe twin. The
//! compiler gives one group after another, whose chains of operations each wait for their own results. Here every
//! step is written for four registers, so that their chains run side by side: 0.77 of the time. Multiplications
//! are what the units have least of: those by powers of two are moved into exponents and constants, which rounds nothing.

use std::arch::x86_64::*;
use std::f32::consts::FRAC_1_SQRT_2;

use super::bulk::Place;
use super::normal::{EXCHANGE, NEGATE};
use super::threefry::{BlockGroup, LANES, PARITY, ROTATIONS};
use crate::number::elementary::{COSINE_F32, LN_2_F32, LN_TAIL_F32, SINE_F32};

/// Registers that each step is written for.
const SIDE_BY_SIDE: usize = 4;
/// An array of the expression for each of the registers. A function that takes a closure would not be compiled for these
/// instructions, and so not be inlined here.
macro_rules! each {
    ($index:ident, $result:expr) => {
        [
            {
                let $index = 0;
                $result
            },
            {
                let $index = 1;
                $result
            },
            {
                let $index = 2;
                $result
            },
            {
                let $index = 3;
                $result
            },
        ]
    };
}

/// Elements of a group.
const GROUP: usize = 4 * LANES;

type Integers = [__m512i; SIDE_BY_SIDE];
type Floats = [__m512; SIDE_BY_SIDE];

/// Where the exponent of an f32 begins.
const MANTISSA_BITS: u32 = 23;

/// Groups that go through the three steps together: 4 KiB of words, 4 KiB of elements.
const BATCH: usize = 16;

/// Fills `out` from `place` on, which begins a group.
///
/// # Panics
/// If `out` is no multiple of four groups.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn fill_quads(place: Place, out: &mut [f32]) {
    let (out, rest) = out.as_chunks_mut::<GROUP>();
    assert!(out.len().is_multiple_of(SIDE_BY_SIDE) && rest.is_empty(), "room for fours of groups");
    let first = place.first / GROUP;
    let mut words = [[[0; LANES]; 4]; BATCH];
    for (index, out) in out.chunks_mut(BATCH).enumerate() {
        let words = &mut words[..out.len()];
        // Each step in a loop of its own: in one piece of code, the compiler puts the chains back one after another.
        for (quad, words) in words.as_chunks_mut().0.iter_mut().enumerate() {
            let group = first + index * BATCH + quad * SIDE_BY_SIDE;
            let counters = each!(k, place.counter(group + k));
            threefry(counters, place.stream.key(), words);
        }
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            radii(words, out);
        }
        for (words, out) in words.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            turn(words, out);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_words(words: &[u32; LANES]) -> __m512i {
    // SAFETY: sixteen words; no alignment is asked for.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_words(words: &mut [u32; LANES], register: __m512i) {
    // SAFETY: as above.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), register) };
}

/// Output `output` of a group: sixteen elements.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(group: &[f32; GROUP], output: usize) -> __m512 {
    // SAFETY: as above.
    unsafe { _mm512_loadu_ps(group.as_chunks::<LANES>().0[output].as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(group: &mut [f32; GROUP], output: usize, register: __m512) {
    // SAFETY: as above.
    unsafe { _mm512_storeu_ps(group.as_chunks_mut::<LANES>().0[output].as_mut_ptr(), register) };
}

/// Threefry4x32-20, a block in each lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn threefry(counters: [[u32; 4]; SIDE_BY_SIDE], key: [u32; 4], words: &mut [BlockGroup; SIDE_BY_SIDE]) {
    let splat = |word: u32| _mm512_set1_epi32(word.cast_signed());
    let parity = key.iter().fold(PARITY, |parity, word| parity ^ word);
    let schedule = [key[0], key[1], key[2], key[3], parity];
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let start = |group: usize, word: usize| splat(counters[group][word].wrapping_add(key[word]));
    let mut a = each!(group, _mm512_add_epi32(start(group, 0), lanes));
    let mut b = each!(group, start(group, 1));
    let mut c = each!(group, start(group, 2));
    let mut d = each!(group, start(group, 3));
    macro_rules! mix {
        ($first:ident, $second:ident, $round:expr, $half:expr) => {
            $first = each!(group, _mm512_add_epi32($first[group], $second[group]));
            $second = each!(group, {
                let rotated = _mm512_rol_epi32::<{ ROTATIONS[$round % 8][$half].cast_signed() }>($second[group]);
                _mm512_xor_si512(rotated, $first[group])
            });
        };
    }
    macro_rules! four_rounds {
        ($first:expr, $injection:expr) => {
            mix!(a, b, $first, 0);
            mix!(c, d, $first, 1);
            mix!(a, d, $first + 1, 0);
            mix!(c, b, $first + 1, 1);
            mix!(a, b, $first + 2, 0);
            mix!(c, d, $first + 2, 1);
            mix!(a, d, $first + 3, 0);
            mix!(c, b, $first + 3, 1);
            let injected = |word: usize, number: u32| splat(schedule[($injection + word) % 5].wrapping_add(number));
            let term = injected(0, 0);
            a = each!(group, _mm512_add_epi32(a[group], term));
            let term = injected(1, 0);
            b = each!(group, _mm512_add_epi32(b[group], term));
            let term = injected(2, 0);
            c = each!(group, _mm512_add_epi32(c[group], term));
            let term = injected(3, $injection);
            d = each!(group, _mm512_add_epi32(d[group], term));
        };
    }
    four_rounds!(0, 1);
    four_rounds!(4, 2);
    four_rounds!(8, 3);
    four_rounds!(12, 4);
    four_rounds!(16, 5);
    for (group, words) in words.iter_mut().enumerate() {
        for (words, registers) in words.iter_mut().zip([a, b, c, d]) {
            store_words(words, registers[group]);
        }
    }
}

/// Writes √(−2 ln u), u = (word + ½) / 2³², to where the first output of each pair will be.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn radii(words: &[BlockGroup; 2], out: &mut [[f32; GROUP]; 2]) {
    let splat = |number: f32| _mm512_set1_ps(number);
    let bits = |number: u32| _mm512_set1_epi32(number.cast_signed());
    let half_root = FRAC_1_SQRT_2.to_bits();
    // 2³² u. As in `ln_f32`, u = 2^exponent (1 + f); the 32 goes with what is taken from the exponent.
    let scaled: Floats =
        each!(index, _mm512_add_ps(_mm512_cvtepu32_ps(load_words(&words[index / 2][index % 2 * 2])), splat(0.5)));
    let start = bits(half_root + (32 << MANTISSA_BITS));
    let distance: Integers = each!(index, _mm512_sub_epi32(_mm512_castps_si512(scaled[index]), start));
    let exponent: Floats = each!(index, _mm512_cvtepi32_ps(_mm512_srai_epi32::<MANTISSA_BITS>(distance[index])));
    let f: Floats = each!(index, {
        let mantissa = _mm512_and_si512(distance[index], bits((1 << MANTISSA_BITS) - 1));
        _mm512_sub_ps(_mm512_castsi512_ps(_mm512_add_epi32(mantissa, bits(half_root))), splat(1.0))
    });
    let tail = polynomial(f, &LN_TAIL_F32);
    // Twice all terms of the logarithm: what is added to f twice is 2 f exactly.
    let radii: Floats = each!(index, {
        let (exponent, f) = (exponent[index], f[index]);
        let twice = _mm512_add_ps(f, f);
        let square = _mm512_mul_ps(twice, f);
        let bracket = _mm512_sub_ps(_mm512_mul_ps(f, tail[index]), splat(0.5));
        let low = _mm512_mul_ps(exponent, splat(2.0 * LN_2_F32[1]));
        let small = _mm512_add_ps(_mm512_mul_ps(square, bracket), low);
        let high = _mm512_mul_ps(exponent, splat(-2.0 * LN_2_F32[0]));
        _mm512_sqrt_ps(_mm512_sub_ps(high, _mm512_add_ps(twice, small)))
    });
    for (out, radii) in out.iter_mut().zip(radii.as_chunks::<2>().0) {
        store(out, 0, radii[0]);
        store(out, 2, radii[1]);
    }
}

/// Turns each radius by the angle of its word: both outputs of each pair.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn turn(words: &[BlockGroup; 2], out: &mut [[f32; GROUP]; 2]) {
    let bits = |number: u32| _mm512_set1_epi32(number.cast_signed());
    let words: Integers = each!(index, load_words(&words[index / 2][index % 2 * 2 + 1]));
    // The number is odd, never 0: 2⁻³¹ times it is a subtraction from its exponent.
    let t: Floats = each!(index, {
        let centred = _mm512_cvtepi32_ps(_mm512_or_si512(_mm512_slli_epi32::<2>(words[index]), bits(2)));
        _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(centred), bits(31 << MANTISSA_BITS)))
    });
    let z: Floats = each!(index, _mm512_mul_ps(t[index], t[index]));
    let sine = polynomial(z, &SINE_F32);
    let cosine = polynomial(z, &COSINE_F32);
    let sine = each!(index, _mm512_mul_ps(t[index], sine[index]));
    let cosine = each!(index, {
        let sign = _mm512_and_si512(words[index], bits(NEGATE));
        _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(cosine[index]), sign))
    });
    let exchange = each!(index, _mm512_test_epi32_mask(words[index], bits(EXCHANGE)));
    let first = each!(index, _mm512_mask_blend_ps(exchange[index], cosine[index], sine[index]));
    let second = each!(index, _mm512_mask_blend_ps(exchange[index], sine[index], cosine[index]));
    for (index, (first, second)) in first.into_iter().zip(second).enumerate() {
        let (out, at) = (&mut out[index / 2], index % 2 * 2);
        let radius = load(out, at);
        store(out, at, _mm512_mul_ps(radius, first));
        store(out, at + 1, _mm512_mul_ps(radius, second));
    }
}

/// Σ coefficientsₖ xᵏ by Horner's rule, each step rounded twice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn polynomial<const N: usize>(x: Floats, coefficients: &[f32; N]) -> Floats {
    let mut sum = [_mm512_set1_ps(coefficients[N - 1]); SIDE_BY_SIDE];
    for k in (0..N - 1).rev() {
        let coefficient = _mm512_set1_ps(coefficients[k]);
        sum = each!(index, _mm512_add_ps(coefficient, _mm512_mul_ps(x[index], sum[index])));
    }
    sum
}
