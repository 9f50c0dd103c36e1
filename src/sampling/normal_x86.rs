//! The f32 normals of several registers at once, in the instructions of AVX2 and AVX-512, one macro for both.
//!
//! The same arithmetic as [`super::normal`], operation by operation, hence the same bits; that is the safe twin. The
//! compiler gives one register after another, whose chains of operations each wait for their own results. Here every
//! step is written for several, so that their chains run side by side: 0.77 of the time in AVX-512. Multiplications
//! are what the units have least of: those by powers of two are moved into exponents and constants, which rounds nothing.

use std::arch::x86_64::*;
use std::f32::consts::FRAC_1_SQRT_2;

use super::bulk::Place;
use super::normal::{EXCHANGE, NEGATE};
use super::threefry::{BlockGroup, LANES, PARITY, ROTATIONS};
use crate::number::elementary::{COSINE_F32, LN_2_F32, LN_TAIL_F32, SINE_F32};

/// An array of the expression for each of the numbers. A function that takes a closure would not be compiled for these
/// instructions, and so not be inlined here.
macro_rules! each {
    ([$($number:literal)*], $index:ident, $result:expr) => {
        [$({ let $index = $number; $result }),*]
    };
}

/// Elements of a group.
const GROUP: usize = 4 * LANES;
/// Registers of numbers that each step is written for.
const SIDE_BY_SIDE: usize = 4;
/// Where the exponent of an f32 begins.
const MANTISSA_BITS: u32 = 23;
/// Groups that go through the three steps together: 4 KiB of words, 4 KiB of elements.
const BATCH: usize = 16;

macro_rules! normals {
    (
        $name:ident, $features:literal, integers: $integer:ident, floats: $float:ident, lanes: $lanes:literal,
        blocks: $blocks:tt, registers: $registers:tt, lane_numbers: $lane_numbers:expr,
        splat: [$splat_integer:ident $splat_float:ident], load: [$load_integers:ident $load_floats:ident],
        store: [$store_integers:ident $store_floats:ident], bits: [$to_bits:ident $from_bits:ident],
        integer: [$add_integers:ident $subtract_integers:ident $and:ident $or:ident $xor:ident $shift_left:ident $shift_right:ident],
        convert: $convert:ident, add: $add:ident, subtract: $subtract:ident, multiply: $multiply:ident, square_root: $square_root:ident,
        rotate: |$rotated:ident, $left:ident, $right:ident| $rotate:expr,
        convert_unsigned: |$word:ident| $convert_unsigned:expr,
        exchanged: |$angle:ident| $exchanged:expr,
        choose: |$mask:ident, $no:ident, $yes:ident| $choose:expr
    ) => {
        #[allow(clippy::modulo_one, reason = "of AVX-512, a word of a group is one register")]
        pub mod $name {
            //! Registers of one instruction set.
            use super::*;

            /// Registers that hold a word of all blocks of a group.
            const PARTS: usize = LANES / $lanes;
            /// Registers of words that go through Threefry together.
            const BLOCKS: usize = each!($blocks, _index, ()).len();

            /// Groups of those registers whose chains of numbers run side by side.
            const GROUPS: usize = SIDE_BY_SIDE / 2 / PARTS;

            type Integers = [$integer; SIDE_BY_SIDE];
            type Floats = [$float; SIDE_BY_SIDE];

            /// Fills `out` from `place` on, which begins a group.
            ///
            /// # Panics
            /// If `out` is no multiple of four groups.
            #[target_feature(enable = $features)]
            pub fn fill_quads(place: Place, out: &mut [f32]) {
                let (out, rest) = out.as_chunks_mut::<GROUP>();
                assert!(out.len().is_multiple_of(4) && rest.is_empty(), "room for fours of groups");
                let first = place.first / GROUP;
                let mut words = [[[0; LANES]; 4]; BATCH];
                for (index, out) in out.chunks_mut(BATCH).enumerate() {
                    let words = &mut words[..out.len()];
                    // Each step in a loop of its own: in one piece of code, the compiler puts the chains back one after another.
                    for (several, words) in words.as_chunks_mut::<{ BLOCKS / PARTS }>().0.iter_mut().enumerate() {
                        let group = first + index * BATCH + several * (BLOCKS / PARTS);
                        let counters = each!($blocks, block, place.counter(group + block / PARTS));
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

            /// Threefry4x32-20, a block in each lane.
            #[inline]
            #[target_feature(enable = $features)]
            fn threefry(counters: [[u32; 4]; BLOCKS], key: [u32; 4], words: &mut [BlockGroup; BLOCKS / PARTS]) {
                let splat = |word: u32| $splat_integer(word.cast_signed());
                let parity = key.iter().fold(PARITY, |parity, word| parity ^ word);
                let schedule = [key[0], key[1], key[2], key[3], parity];
                let start = |block: usize, word: usize| splat(counters[block][word].wrapping_add(key[word]));
                let lanes = $lane_numbers;
                let mut a = each!($blocks, block, $add_integers(start(block, 0), lanes[block % PARTS]));
                let mut b = each!($blocks, block, start(block, 1));
                let mut c = each!($blocks, block, start(block, 2));
                let mut d = each!($blocks, block, start(block, 3));
                macro_rules! mix {
                    ($first:ident, $second:ident, $round:expr, $half:literal) => {
                        $first = each!($blocks, block, $add_integers($first[block], $second[block]));
                        $second = each!($blocks, block, {
                            const $left: i32 = ROTATIONS[$round % 8][$half].cast_signed();
                            const $right: i32 = 32 - $left;
                            let $rotated = $second[block];
                            $xor($rotate, $first[block])
                        });
                    };
                }
                macro_rules! four_rounds {
                    ($first:literal, $injection:literal) => {
                        mix!(a, b, $first, 0);
                        mix!(c, d, $first, 1);
                        mix!(a, d, $first + 1, 0);
                        mix!(c, b, $first + 1, 1);
                        mix!(a, b, $first + 2, 0);
                        mix!(c, d, $first + 2, 1);
                        mix!(a, d, $first + 3, 0);
                        mix!(c, b, $first + 3, 1);
                        let injected =
                            |word: usize, number: u32| splat(schedule[($injection + word) % 5].wrapping_add(number));
                        let term = injected(0, 0);
                        a = each!($blocks, block, $add_integers(a[block], term));
                        let term = injected(1, 0);
                        b = each!($blocks, block, $add_integers(b[block], term));
                        let term = injected(2, 0);
                        c = each!($blocks, block, $add_integers(c[block], term));
                        let term = injected(3, $injection);
                        d = each!($blocks, block, $add_integers(d[block], term));
                    };
                }
                four_rounds!(0, 1);
                four_rounds!(4, 2);
                four_rounds!(8, 3);
                four_rounds!(12, 4);
                four_rounds!(16, 5);
                // Word by word: register by register, the compiler would put the chains one after another.
                for (word, registers) in [a, b, c, d].into_iter().enumerate() {
                    for block in 0..BLOCKS {
                        let lanes = &mut words[block / PARTS][word][block % PARTS * $lanes..][..$lanes];
                        // SAFETY: as many words as the register has lanes; no alignment is asked for.
                        unsafe { $store_integers(lanes.as_mut_ptr().cast(), registers[block]) };
                    }
                }
            }

            /// A register of words: that number `index` of those that hold the radii or the angles of some groups.
            #[inline]
            #[target_feature(enable = $features)]
            fn load_words(words: &[BlockGroup], index: usize, is_angle: bool) -> $integer {
                let words = &words[index / PARTS / 2][index / PARTS % 2 * 2 + usize::from(is_angle)];
                // SAFETY: as many words as the register has lanes; no alignment is asked for.
                unsafe { $load_integers(words[index % PARTS * $lanes..][..$lanes].as_ptr().cast()) }
            }

            /// Where output `second` of the pairs of such a register goes.
            #[inline(always)]
            fn place(out: &mut [[f32; GROUP]], index: usize, second: bool) -> *mut f32 {
                let output = index / PARTS % 2 * 2 + usize::from(second);
                let start = output * LANES + index % PARTS * $lanes;
                out[index / PARTS / 2][start..][..$lanes].as_mut_ptr()
            }

            /// Writes √(−2 ln u), u = (word + ½) / 2³², to where the first output of each pair will be.
            #[inline]
            #[target_feature(enable = $features)]
            fn radii(words: &[BlockGroup; GROUPS], out: &mut [[f32; GROUP]; GROUPS]) {
                let splat = |number: f32| $splat_float(number);
                let bits = |number: u32| $splat_integer(number.cast_signed());
                let half_root = FRAC_1_SQRT_2.to_bits();
                // 2³² u. As in `ln_f32`, u = 2^exponent (1 + f); the 32 goes with what is taken from the exponent.
                let scaled: Floats = each!($registers, index, {
                    let $word = load_words(words, index, false);
                    $add($convert_unsigned, splat(0.5))
                });
                let start = bits(half_root + (32 << MANTISSA_BITS));
                let distance: Integers = each!($registers, index, $subtract_integers($to_bits(scaled[index]), start));
                let exponent: Floats = each!($registers, index, $convert($shift_right::<23>(distance[index])));
                let f: Floats = each!($registers, index, {
                    let mantissa = $and(distance[index], bits((1 << MANTISSA_BITS) - 1));
                    $subtract($from_bits($add_integers(mantissa, bits(half_root))), splat(1.0))
                });
                let tail = polynomial(f, &LN_TAIL_F32);
                // Twice all terms of the logarithm: what is added to f twice is 2 f exactly.
                let radii: Floats = each!($registers, index, {
                    let (exponent, f) = (exponent[index], f[index]);
                    let twice = $add(f, f);
                    let square = $multiply(twice, f);
                    let bracket = $subtract($multiply(f, tail[index]), splat(0.5));
                    let low = $multiply(exponent, splat(2.0 * LN_2_F32[1]));
                    let small = $add($multiply(square, bracket), low);
                    let high = $multiply(exponent, splat(-2.0 * LN_2_F32[0]));
                    $square_root($subtract(high, $add(twice, small)))
                });
                for index in 0..SIDE_BY_SIDE {
                    // SAFETY: room for as many numbers as the register has lanes; no alignment is asked for.
                    unsafe { $store_floats(place(out, index, false), radii[index]) };
                }
            }

            /// Turns each radius by the angle of its word: both outputs of each pair.
            #[inline]
            #[target_feature(enable = $features)]
            fn turn(words: &[BlockGroup; GROUPS], out: &mut [[f32; GROUP]; GROUPS]) {
                let bits = |number: u32| $splat_integer(number.cast_signed());
                let words: Integers = each!($registers, index, load_words(words, index, true));
                // The number is odd, never 0: 2⁻³¹ times it is a subtraction from its exponent.
                let t: Floats = each!($registers, index, {
                    let centred = $convert($or($shift_left::<2>(words[index]), bits(2)));
                    $from_bits($subtract_integers($to_bits(centred), bits(31 << MANTISSA_BITS)))
                });
                let z: Floats = each!($registers, index, $multiply(t[index], t[index]));
                let sine = polynomial(z, &SINE_F32);
                let cosine = polynomial(z, &COSINE_F32);
                let sine = each!($registers, index, $multiply(t[index], sine[index]));
                let cosine = each!($registers, index, {
                    let sign = $and(words[index], bits(NEGATE));
                    $from_bits($xor($to_bits(cosine[index]), sign))
                });
                let exchange = each!($registers, index, {
                    let $angle = words[index];
                    $exchanged
                });
                let first = each!($registers, index, {
                    let ($mask, $no, $yes) = (exchange[index], cosine[index], sine[index]);
                    $choose
                });
                let second = each!($registers, index, {
                    let ($mask, $no, $yes) = (exchange[index], sine[index], cosine[index]);
                    $choose
                });
                for index in 0..SIDE_BY_SIDE {
                    let place_of_first = place(out, index, false);
                    // SAFETY: as above.
                    unsafe {
                        let radius = $load_floats(place_of_first);
                        $store_floats(place_of_first, $multiply(radius, first[index]));
                        $store_floats(place(out, index, true), $multiply(radius, second[index]));
                    }
                }
            }

            /// Σ coefficientsₖ xᵏ by Horner's rule, each step rounded twice.
            #[inline]
            #[target_feature(enable = $features)]
            fn polynomial<const N: usize>(x: Floats, coefficients: &[f32; N]) -> Floats {
                let mut sum = [$splat_float(coefficients[N - 1]); SIDE_BY_SIDE];
                for k in (0..N - 1).rev() {
                    let coefficient = $splat_float(coefficients[k]);
                    sum = each!($registers, index, $add(coefficient, $multiply(x[index], sum[index])));
                }
                sum
            }
        }
    };
}

normals! {
    avx512, "avx512f,avx512bw,avx512dq,avx512vl", integers: __m512i, floats: __m512, lanes: 16,
    blocks: [0 1 2 3], registers: [0 1 2 3],
    lane_numbers: [_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)],
    splat: [_mm512_set1_epi32 _mm512_set1_ps], load: [_mm512_loadu_si512 _mm512_loadu_ps],
    store: [_mm512_storeu_si512 _mm512_storeu_ps], bits: [_mm512_castps_si512 _mm512_castsi512_ps],
    integer: [_mm512_add_epi32 _mm512_sub_epi32 _mm512_and_si512 _mm512_or_si512 _mm512_xor_si512 _mm512_slli_epi32 _mm512_srai_epi32],
    convert: _mm512_cvtepi32_ps, add: _mm512_add_ps, subtract: _mm512_sub_ps, multiply: _mm512_mul_ps, square_root: _mm512_sqrt_ps,
    rotate: |word, LEFT, _RIGHT| _mm512_rol_epi32::<LEFT>(word),
    convert_unsigned: |word| _mm512_cvtepu32_ps(word),
    exchanged: |angle| _mm512_test_epi32_mask(angle, _mm512_set1_epi32(EXCHANGE.cast_signed())),
    choose: |mask, no, yes| _mm512_mask_blend_ps(mask, no, yes)
}

normals! {
    avx2, "avx2", integers: __m256i, floats: __m256, lanes: 8,
    // Four words of more blocks would not be held in sixteen registers.
    blocks: [0 1], registers: [0 1 2 3],
    lane_numbers: [_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)],
    splat: [_mm256_set1_epi32 _mm256_set1_ps], load: [_mm256_loadu_si256 _mm256_loadu_ps],
    store: [_mm256_storeu_si256 _mm256_storeu_ps], bits: [_mm256_castps_si256 _mm256_castsi256_ps],
    integer: [_mm256_add_epi32 _mm256_sub_epi32 _mm256_and_si256 _mm256_or_si256 _mm256_xor_si256 _mm256_slli_epi32 _mm256_srai_epi32],
    convert: _mm256_cvtepi32_ps, add: _mm256_add_ps, subtract: _mm256_sub_ps, multiply: _mm256_mul_ps, square_root: _mm256_sqrt_ps,
    rotate: |word, LEFT, RIGHT| _mm256_or_si256(_mm256_slli_epi32::<LEFT>(word), _mm256_srli_epi32::<RIGHT>(word)),
    convert_unsigned: |word| {
        // Halves in the last digits of 2²³ and of 2³⁹; their sum is rounded once.
        let low = _mm256_blend_epi16::<0b1010_1010>(word, _mm256_set1_epi32(0x4B00_0000));
        let high = _mm256_blend_epi16::<0b1010_1010>(_mm256_srli_epi32::<16>(word), _mm256_set1_epi32(0x5300_0000));
        let high = _mm256_sub_ps(_mm256_castsi256_ps(high), _mm256_set1_ps(549_764_202_496.0)); // 2³⁹ + 2²³
        _mm256_add_ps(high, _mm256_castsi256_ps(low))
    },
    exchanged: |angle| _mm256_castsi256_ps(_mm256_slli_epi32::<{ EXCHANGE.leading_zeros().cast_signed() }>(angle)),
    choose: |mask, no, yes| _mm256_blendv_ps(no, yes, mask)
}
