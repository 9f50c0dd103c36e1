//! P·V for a V of random signs: sums and differences of weights, four keys at a time by table.
//!
//! # Method
//! The signs of four keys in one column are four bits, and ±p₀ ± p₁ ± p₂ ± p₃ has sixteen values. For each row these are computed once and
//! then looked up, sixteen columns at a time, where the processor looks up from a register (AVX-512): one lookup and one addition in place
//! of four multiply-adds ("four Russians": Arlazarov, Dinic, Kronrod and Faradžev, 1970). A register of AVX2 holds the eight values with +p₃ in f32;
//! the others are their negatives. Elsewhere, and for f64 in AVX2, the same sums are formed term by term.
//!
//! # Rounding
//! Terms of four keys are added in the order of the keys, and up to 64 such sums in order, in `T`, then in f64. Products with ±1 are exact,
//! so every instruction set gives the same bits.

use super::InstructionSet;
use super::compiled::compiled_for_each_set;
use super::operands::assert_available;
use crate::number::Real;
use std::ops::{Add, Mul, Range};

/// Keys whose signs lie in one group of words.
pub const GROUP_KEYS: usize = 4;
/// Words in a group.
pub const GROUP_WORDS: usize = 64;
/// Columns whose signs lie in one group of words.
pub const MOST_COLUMNS: usize = 512;

/// Columns looked up at a time.
const BLOCK: usize = 16;
/// Blocks of columns in the words of sixteen lanes: four bits each.
const BLOCKS_IN_WORD: usize = 8;
/// Rows of a tile.
const ROWS: usize = 8;
/// Groups of keys whose tables are held at once: those of a tile take 32 KiB in f32.
const GROUPS: usize = 64;

/// Adds P·V to `out`, rows × `columns` row-major: P is the columns `keys` of the rows × m of `weights`, row-major, V has as many rows and
/// [`MOST_COLUMNS`] columns, of which the first `columns` are used.
///
/// V is −1 at its row 4g + t and column 16(8w + q) + l, for t, w < 4, q < 8 and l < 16, where bit 4q + t of word 64g + 16w + l of `signs` is set, else 1.
///
/// # Panics
/// If `weights` is no whole number of rows or ends before `keys` do, `signs` not [`GROUP_WORDS`] for each started [`GROUP_KEYS`] keys, `columns` more than there are, or
/// `out` not rows × `columns` long; if this machine lacks the instruction set.
pub fn add_signed_sums<T: SignedSums>(
    set: InstructionSet,
    weights: &[T],
    m: usize,
    keys: Range<usize>,
    signs: &[u32],
    columns: usize,
    out: &mut [f64],
) {
    assert_available(set);
    let rows = weights.len() / m;
    assert!(weights.len() == rows * m && out.len() == rows * columns && columns <= MOST_COLUMNS);
    assert_eq!(signs.len(), keys.len().div_ceil(GROUP_KEYS) * GROUP_WORDS);
    if columns == 0 {
        return;
    }
    let mut sums = vec![T::ZERO; ROWS * MOST_COLUMNS];
    // Of a last tile with fewer rows, the others keep what they held: nobody reads their sums.
    let mut quads = [[[T::ZERO; GROUP_KEYS]; ROWS]; GROUPS];
    for (weights, out) in weights.chunks(ROWS * m).zip(out.chunks_mut(ROWS * columns)) {
        for (piece, signs) in signs.chunks(GROUPS * GROUP_WORDS).enumerate() {
            let groups = signs.len() / GROUP_WORDS;
            let first = keys.start + piece * GROUPS * GROUP_KEYS;
            let last = keys.end.min(first + GROUPS * GROUP_KEYS);
            for (row, weights) in weights.chunks_exact(m).enumerate() {
                let (whole, rest) = weights[first..last].as_chunks::<GROUP_KEYS>();
                quads.iter_mut().zip(whole).for_each(|(quads, &quad)| quads[row] = quad);
                if !rest.is_empty() {
                    quads[whole.len()][row] = [T::ZERO; GROUP_KEYS];
                    quads[whole.len()][row][..rest.len()].copy_from_slice(rest);
                }
            }
            T::tile_sums(set, &quads[..groups], signs, columns.div_ceil(BLOCK), &mut sums);
            for (out, sums) in out.chunks_exact_mut(columns).zip(sums.chunks_exact(MOST_COLUMNS)) {
                add_to(set, sums, out);
            }
        }
    }
}

compiled_for_each_set! {
    /// Adds the first numbers to the totals.
    add_to<T: Real> = add_in_order(numbers: &[T], totals: &mut [f64])
}

#[inline(always)]
fn add_in_order<T: Real>(numbers: &[T], totals: &mut [f64]) {
    for (total, number) in totals.iter_mut().zip(numbers) {
        *total += number.to_f64();
    }
}

/// Four weights of each row of a tile.
type Quads<T> = [[T; GROUP_KEYS]; ROWS];

/// The loops of one element type.
pub trait SignedSums: Real + Add<Output = Self> + Mul<Output = Self> {
    /// −1 where the lowest bit is set, else 1.
    fn sign(bits: u32) -> Self;

    /// self · factor + term, rounded once; a call of a library where the processor has no such instruction.
    fn multiply_add(self, factor: Self, term: Self) -> Self;

    /// Writes the sums over all groups of a tile to the first `blocks` blocks of columns of each row of `sums`.
    fn tile_sums(set: InstructionSet, quads: &[Quads<Self>], signs: &[u32], blocks: usize, sums: &mut [Self]);
}

/// Term by term: the twin of the lookups. Where the processor multiplies and adds at once, so does the loop: products are exact either way.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "key, row and lane each index two arrays")]
fn term_by_term<T: SignedSums, const FUSED: bool>(quads: &[Quads<T>], signs: &[u32], blocks: usize, sums: &mut [T]) {
    const PART: usize = 4;
    let (groups, _) = signs.as_chunks::<GROUP_WORDS>();
    for block in 0..blocks {
        let (word, shift) = (block / BLOCKS_IN_WORD * BLOCK, block % BLOCKS_IN_WORD * GROUP_KEYS);
        for first in (0..ROWS).step_by(PART) {
            let mut totals = [[T::ZERO; BLOCK]; PART];
            for (quads, words) in quads.iter().zip(groups) {
                let mut terms = [[T::ZERO; BLOCK]; PART];
                for key in 0..GROUP_KEYS {
                    let mut signs = [T::ZERO; BLOCK];
                    for lane in 0..BLOCK {
                        signs[lane] = T::sign(words[word + lane] >> (shift + key));
                    }
                    for row in 0..PART {
                        let weight = quads[first + row][key];
                        for lane in 0..BLOCK {
                            let term = terms[row][lane];
                            terms[row][lane] = if FUSED {
                                weight.multiply_add(signs[lane], term)
                            } else {
                                term + weight * signs[lane]
                            };
                        }
                    }
                }
                for row in 0..PART {
                    for lane in 0..BLOCK {
                        totals[row][lane] = totals[row][lane] + terms[row][lane];
                    }
                }
            }
            for (row, totals) in totals.iter().enumerate() {
                sums[(first + row) * MOST_COLUMNS + block * BLOCK..][..BLOCK].copy_from_slice(totals);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn term_by_term_avx2<T: SignedSums>(quads: &[Quads<T>], signs: &[u32], blocks: usize, sums: &mut [T]) {
    term_by_term::<T, true>(quads, signs, blocks, sums);
}

#[cfg(target_arch = "x86_64")]
mod lookup {
    //! Sixteen values of each row and group in one register (f32) or two (f64).
    use super::*;
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    /// The sign of key `key` in each of the sixteen combinations.
    fn pattern<T: SignedSums>(key: usize) -> [T; 16] {
        std::array::from_fn(|combination| T::sign(combination as u32 >> key))
    }

    /// Panics unless the slices hold what the lookups of so many groups will read and write.
    fn assert_room<T>(groups: usize, signs: &[u32], blocks: usize, sums: &[T]) {
        assert!(signs.len() == groups * GROUP_WORDS && blocks * BLOCK <= MOST_COLUMNS);
        assert!(sums.len() >= ROWS * MOST_COLUMNS);
        assert!(groups <= GROUPS);
    }

    macro_rules! lookup {
        (
            $element:ident, $vector:ident, registers: $registers:literal, splat: $splat:ident, load: $load:ident, store: $store:ident,
            mul: $mul:ident, fma: $fma:ident, add: $add:ident, blocks: $blocks:literal,
            indices: |$bits:ident| $indices:expr, look_up: |$table:ident, $index:ident| $look_up:expr
        ) => {
            /// [`SignedSums::tile_sums`].
            #[target_feature(enable = "avx512f,avx512dq")]
            pub fn $element(quads: &[Quads<$element>], signs: &[u32], blocks: usize, sums: &mut [$element]) {
                const LANES: usize = 16 / $registers;
                let groups = quads.len();
                assert_room(groups, signs, blocks, sums);
                // Not zeroed, which would take a tenth as long as the lookups at 256 keys: what is read below is written first.
                let mut tables = [const { MaybeUninit::<$element>::uninit() }; GROUPS * ROWS * 16];
                let tables = tables.as_mut_ptr().cast::<$element>();
                let patterns = [pattern::<$element>(0), pattern(1), pattern(2), pattern(3)];
                // SAFETY: there are tables of sixteen numbers for each row and group, and as many of each pattern.
                unsafe {
                    for (index, quad) in quads.as_flattened().iter().enumerate() {
                        for register in 0..$registers {
                            let pattern = |key: usize| $load(patterns[key].as_ptr().add(register * LANES));
                            let mut table = $mul(pattern(0), $splat(quad[0]));
                            for key in 1..GROUP_KEYS {
                                // The product is exact: this is an addition.
                                table = $fma(pattern(key), $splat(quad[key]), table);
                            }
                            $store(tables.add(index * 16 + register * LANES), table);
                        }
                    }
                }
                for block in (0..blocks).step_by($blocks) {
                    // Blocks of one step share the words, since their number divides that of the blocks in a word.
                    let word = block / BLOCKS_IN_WORD * BLOCK;
                    let shift = block % BLOCKS_IN_WORD * GROUP_KEYS;
                    // SAFETY: the word's sixteen lanes end within the group, tables as above; the columns written end at
                    // MOST_COLUMNS at the latest, that being a multiple of a step.
                    unsafe {
                        let mut totals = [[$splat(0.0); 2]; ROWS];
                        for group in 0..groups {
                            let words = signs.as_ptr().add(group * GROUP_WORDS + word);
                            let $bits =
                                _mm512_srl_epi32(_mm512_loadu_epi32(words.cast()), _mm_cvtsi32_si128(shift as i32));
                            let indices: [__m512i; 2] = $indices;
                            for row in 0..ROWS {
                                let at = tables.add((group * ROWS + row) * 16);
                                let mut $table = [$splat(0.0); $registers];
                                for register in 0..$registers {
                                    $table[register] = $load(at.add(register * LANES));
                                }
                                for half in 0..2 {
                                    let $index = indices[half];
                                    totals[row][half] = $add(totals[row][half], $look_up);
                                }
                            }
                        }
                        for row in 0..ROWS {
                            let to = sums.as_mut_ptr().add(row * MOST_COLUMNS + block * BLOCK);
                            $store(to, totals[row][0]);
                            $store(to.add(LANES), totals[row][1]);
                        }
                    }
                }
            }
        };
    }

    // Lookups heed the lowest four bits of an index.
    lookup! {
        f32, __m512, registers: 1, splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps,
        mul: _mm512_mul_ps, fma: _mm512_fmadd_ps, add: _mm512_add_ps, blocks: 2,
        indices: |bits| [bits, _mm512_srli_epi32::<4>(bits)],
        look_up: |table, index| _mm512_permutexvar_ps(index, table[0])
    }

    lookup! {
        f64, __m512d, registers: 2, splat: _mm512_set1_pd, load: _mm512_loadu_pd, store: _mm512_storeu_pd,
        mul: _mm512_mul_pd, fma: _mm512_fmadd_pd, add: _mm512_add_pd, blocks: 1,
        indices: |bits| [
            _mm512_cvtepu32_epi64(_mm512_castsi512_si256(bits)),
            _mm512_cvtepu32_epi64(_mm512_extracti32x8_epi32::<1>(bits))
        ],
        look_up: |table, index| _mm512_permutex2var_pd(table[0], index, table[1])
    }

    /// Lanes of a register of AVX2.
    const HALF: usize = BLOCK / 2;

    /// [`SignedSums::tile_sums`] in AVX2, whose registers hold half of the sixteen values: those in which the last key is added. The others are
    /// the same with all signs turned.
    #[target_feature(enable = "avx2,fma")]
    pub fn f32_halves(quads: &[Quads<f32>], signs: &[u32], blocks: usize, sums: &mut [f32]) {
        let groups = quads.len();
        assert_room(groups, signs, blocks, sums);
        // Not zeroed, as above.
        let mut tables = [const { MaybeUninit::<f32>::uninit() }; GROUPS * ROWS * HALF];
        let tables = tables.as_mut_ptr().cast::<f32>();
        let patterns = [pattern::<f32>(0), pattern(1), pattern(2)];
        // SAFETY: there are tables of eight numbers for each row and group, and more of each pattern.
        unsafe {
            for (index, quad) in quads.as_flattened().iter().enumerate() {
                let mut table = _mm256_mul_ps(_mm256_loadu_ps(patterns[0].as_ptr()), _mm256_set1_ps(quad[0]));
                for key in 1..3 {
                    // The product is exact: this is an addition.
                    table = _mm256_fmadd_ps(_mm256_loadu_ps(patterns[key].as_ptr()), _mm256_set1_ps(quad[key]), table);
                }
                table = _mm256_add_ps(table, _mm256_set1_ps(quad[3]));
                _mm256_storeu_ps(tables.add(index * HALF), table);
            }
        }
        for half in 0..2 * blocks {
            let block = half / 2;
            let word = block / BLOCKS_IN_WORD * BLOCK + half % 2 * HALF;
            // Moves the sign of the last key to the sign of the lane.
            let up = _mm_cvtsi32_si128((31 - 3 - block % BLOCKS_IN_WORD * GROUP_KEYS) as i32);
            // SAFETY: the word's eight lanes end within the group, tables as above; the columns written end at MOST_COLUMNS at the latest.
            unsafe {
                let mut totals = [_mm256_setzero_ps(); ROWS];
                for group in 0..groups {
                    let words = _mm256_loadu_si256(signs.as_ptr().add(group * GROUP_WORDS + word).cast());
                    let bits = _mm256_sll_epi32(words, up);
                    // Lookups heed the lowest three bits of an index: those of the first three keys, turned where the last is subtracted.
                    let turned = _mm256_srai_epi32::<31>(bits);
                    let index = _mm256_xor_si256(_mm256_srli_epi32::<28>(bits), turned);
                    let sign = _mm256_or_ps(
                        _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(-0.0)),
                        _mm256_set1_ps(1.0),
                    );
                    for (row, total) in totals.iter_mut().enumerate() {
                        let table = _mm256_loadu_ps(tables.add((group * ROWS + row) * HALF));
                        // Exact again.
                        *total = _mm256_fmadd_ps(_mm256_permutevar8x32_ps(table, index), sign, *total);
                    }
                }
                for (row, &total) in totals.iter().enumerate() {
                    _mm256_storeu_ps(sums.as_mut_ptr().add(row * MOST_COLUMNS + half * HALF), total);
                }
            }
        }
    }
}

macro_rules! signed_sums {
    ($element:ident, $bits:ident, top: $top:literal, avx2: $avx2:path) => {
        impl SignedSums for $element {
            #[inline(always)]
            fn sign(bits: u32) -> Self {
                Self::from_bits(Self::to_bits(1.0) | $bits::from(bits & 1) << $top)
            }

            #[inline(always)]
            fn multiply_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }

            fn tile_sums(set: InstructionSet, quads: &[Quads<Self>], signs: &[u32], blocks: usize, sums: &mut [Self]) {
                match set {
                    // SAFETY: `assert_available` has made sure that the machine has the instructions.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => unsafe { lookup::$element(quads, signs, blocks, sums) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => unsafe { $avx2(quads, signs, blocks, sums) },
                    _ => term_by_term::<Self, false>(quads, signs, blocks, sums),
                }
            }
        }
    };
}

signed_sums!(f32, u32, top: 31, avx2: lookup::f32_halves);
signed_sums!(f64, u64, top: 63, avx2: term_by_term_avx2);

#[cfg(test)]
mod tests {
    use super::*;

    /// V at (key, column), by the definition.
    fn value(signs: &[u32], key: usize, column: usize) -> f64 {
        let (g, t, l) = (key / 4, key % 4, column % 16);
        let (w, q) = (column / 128, column / 16 % 8);
        if signs[64 * g + 16 * w + l] >> (4 * q + t) & 1 == 1 { -1.0 } else { 1.0 }
    }

    fn check<T: SignedSums>(set: InstructionSet, rows: usize, keys: usize, columns: usize) -> Vec<u64> {
        // Multiples of 2³²/φ, the high bits mixed into the low ones: as good as random here.
        let word = |i: usize| (i as u32 + 1).wrapping_mul(0x9E37_79B9);
        let signs: Vec<u32> = (0..keys.div_ceil(4) * 64).map(|i| word(i) ^ word(i) >> 15).collect();
        // Positive and negative, of sizes ten binary orders apart.
        let weight = |i: usize| T::from_f64((i as f64 * 0.7).sin() * (-((i % 11) as f64)).exp2());
        let weights: Vec<T> = (0..rows * keys).map(weight).collect();
        let mut found = vec![0.5; rows * columns];
        // Columns from elsewhere on either side must not be touched.
        let between = |row: &[T]| [&[T::from_f64(f64::NAN)], row, &[T::from_f64(f64::NAN); 2]].concat();
        let framed: Vec<T> = weights.chunks_exact(keys).flat_map(between).collect();
        add_signed_sums(set, &framed, keys + 3, 1..keys + 1, &signs, columns, &mut found);
        let epsilon = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON } / 2.0;
        for row in 0..rows {
            let weights = &weights[row * keys..][..keys];
            let size: f64 = weights.iter().map(|weight| weight.to_f64().abs()).sum();
            for column in 0..columns {
                let exact: f64 = (0..keys).map(|key| value(&signs, key, column) * weights[key].to_f64()).sum();
                let found = found[row * columns + column] - 0.5;
                // At most 3 + 64 additions in T; in f64 those of the pieces, of the reference, and of ½.
                let bound = 68.0 * epsilon * size + (keys as f64 + 9.0) * f64::EPSILON * (size + 1.0);
                assert!((found - exact).abs() <= bound, "{set}, {rows} x {keys} x {columns}: {found} {exact}");
            }
        }
        found.into_iter().map(f64::to_bits).collect()
    }

    #[test]
    fn sums_are_those_of_the_definition_and_the_same_bits_on_every_instruction_set() {
        let shapes = [
            (1, 1, 1),
            (7, 3, 16),
            (8, 4, 17),
            (9, 5, 512),
            (16, 255, 100),
            (3, 256, 128),
            (31, 257, 511),
            (2, 1031, 37),
        ];
        for (rows, keys, columns) in shapes {
            // An interpreter takes minutes for the larger ones.
            if cfg!(miri) && rows * keys * columns > 1000 {
                continue;
            }
            let single = check::<f32>(InstructionSet::Portable, rows, keys, columns);
            let double = check::<f64>(InstructionSet::Portable, rows, keys, columns);
            for set in InstructionSet::available() {
                assert_eq!(check::<f32>(set, rows, keys, columns), single, "{set}");
                assert_eq!(check::<f64>(set, rows, keys, columns), double, "{set}");
            }
        }
    }

    #[test]
    fn a_weight_that_is_no_number_shows_in_its_row_alone() {
        let signs = vec![0; 64];
        for set in InstructionSet::available() {
            let mut out = vec![0.0; 2 * 3];
            add_signed_sums(set, &[1.0f32, f32::NAN, 1.0, 2.0], 2, 0..2, &signs, 3, &mut out);
            assert!(out[..3].iter().all(|x| x.is_nan()), "{set}: {out:?}");
            assert_eq!(out[3..], [3.0; 3], "{set}");
        }
    }
}
