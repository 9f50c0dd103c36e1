//! Addresses of random blocks: seed, parameter point, trial, matrix, row.
//!
//! Every block of four words has one address, laid out in Threefry's key and counter:
//!
//! | word | 0 | 1 | 2 | 3 |
//! |---|---|---|---|---|
//! | key | seed, low | seed, high | point, low | point, high |
//! | counter | block, low | block, high | trial | matrix |
//!
//! Element-addressed laws use blocks below 2⁶³; the generator of a row uses blocks
//! 2⁶³ + 2³² row + k, so the two never meet.

use std::convert::Infallible;

use rand::TryRng;

use super::threefry::{BlockGroup, LANES, threefry4x32_20_group};

/// Set in the block number of every block that a [`CounterRng`] draws.
const ROW_GENERATOR: u64 = 1 << 63;

/// 2⁶⁴ divided by the golden ratio, made odd: SplitMix64's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Which matrix of a trial is drawn. Numbers 0 to 15 are kept for names; others are the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatrixId(pub u32);

impl MatrixId {
    /// The queries Q.
    pub const QUERIES: Self = Self(0);
    /// The keys K.
    pub const KEYS: Self = Self(1);
    /// The values V.
    pub const VALUES: Self = Self(2);
    /// A gradient arriving from above (dL/dO or dL/dP).
    pub const GRADIENT: Self = Self(3);
    /// Draws of a pilot run, whose results plan the real one and must not be reused in it.
    pub const PILOT: Self = Self(4);
    /// Token embeddings, before any projection.
    pub const INPUTS: Self = Self(5);
    /// Column means and scatter of queries that are never drawn ([`draw_normal_scatter`](super::draw_normal_scatter)).
    pub const QUERY_SCATTER: Self = Self(6);
    /// The same of keys.
    pub const KEY_SCATTER: Self = Self(7);
}

/// All random numbers of one trial: a pure function of (seed, parameter point, trial).
///
/// Holds no state. Two threads that hold equal streams draw equal matrices, in whichever order they do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialStream {
    seed: u64,
    point: u64,
    trial: u32,
}

impl TrialStream {
    /// The stream of trial `trial` at the parameter point `point` (see [`parameter_point`]) under `seed`.
    pub const fn new(seed: u64, point: u64, trial: u32) -> Self {
        Self { seed, point, trial }
    }

    /// The number of the trial.
    pub const fn trial(&self) -> u32 {
        self.trial
    }

    /// A sequential generator for row `row` of a matrix, for laws that need an unknown number of words
    /// (rejection methods). Its words are shared with no other row, matrix, trial, or element-addressed law.
    ///
    /// # Panics
    /// If `row` is 2³¹ or more: the block number has 31 bits for it.
    pub fn rng(&self, matrix: MatrixId, row: u32) -> CounterRng {
        assert!(row < 1 << 31, "row {row} has no generator: 2^31 rows at most");
        CounterRng {
            stream: *self,
            matrix,
            next_block: ROW_GENERATOR | u64::from(row) << 32,
            words: [[0; LANES]; 4],
            used: 4 * LANES,
        }
    }

    /// Threefry's key for this stream.
    #[inline(always)]
    pub(super) const fn key(&self) -> [u32; 4] {
        [self.seed as u32, (self.seed >> 32) as u32, self.point as u32, (self.point >> 32) as u32]
    }

    /// Threefry's counter for one block of one matrix.
    #[inline(always)]
    pub(super) const fn counter(&self, matrix: MatrixId, block: u64) -> [u32; 4] {
        [block as u32, (block >> 32) as u32, self.trial, matrix.0]
    }
}

/// A generator that reads one row's blocks in order; made by [`TrialStream::rng`].
///
/// Implements rand's core trait, so that any distribution of `rand_distr` can draw from it. 64-bit numbers take two
/// words, the low one first. After 2³² blocks (2³⁴ words, 64 GiB) it would run into the next row's.
#[derive(Clone, Debug)]
pub struct CounterRng {
    stream: TrialStream,
    matrix: MatrixId,
    next_block: u64,
    words: BlockGroup,
    used: usize,
}

impl CounterRng {
    #[inline]
    fn next_word(&mut self) -> u32 {
        if self.used == 4 * LANES {
            self.refill();
        }
        // Block after block, though the group is stored word after word.
        let word = self.words[self.used % 4][self.used / 4];
        self.used += 1;
        word
    }

    /// Sixteen blocks at a time cost as much as three or four alone.
    #[inline(never)]
    fn refill(&mut self) {
        let counter = self.stream.counter(self.matrix, self.next_block);
        self.words = threefry4x32_20_group(counter, self.stream.key());
        self.next_block += LANES as u64;
        self.used = 0;
    }
}

impl TryRng for CounterRng {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_word())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let low = u64::from(self.next_word());
        Ok(low | u64::from(self.next_word()) << 32)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(4) {
            chunk.copy_from_slice(&self.next_word().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// A stable 64-bit name for a parameter point, from its parts (d_k, n, m, the bits of a temperature, …).
///
/// The same parts in the same order give the same name in every run and on every machine, so a point draws the same
/// numbers alone or inside a sweep. With z ← SplitMix64's output function (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014; constants of Stafford's variant 13) and γ = 0x9E3779B97F4A7C15:
///
/// h₀ = number of parts, hₖ = z(hₖ₋₁ + γ) xor partₖ, name = z(h_last + γ).
///
/// For no parts this is the first output of SplitMix64 from state 0. The order matters, and so do zeros at the end.
/// Lists of equal length that differ in one part never collide (each step is a bijection); other pairs
/// collide with probability about 2⁻⁶⁴.
pub fn parameter_point(parts: &[u64]) -> u64 {
    let state = parts.iter().fold(parts.len() as u64, |state, part| mix(state.wrapping_add(GOLDEN)) ^ part);
    mix(state.wrapping_add(GOLDEN))
}

/// SplitMix64's output function, a bijection on 64-bit words.
const fn mix(state: u64) -> u64 {
    let state = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ state >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ state >> 31
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::sampling::threefry::threefry4x32_20;

    #[test]
    fn key_and_counter_hold_the_words_the_table_says() {
        let stream = TrialStream::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7);
        assert_eq!(stream.key(), [0x89ab_cdef, 0x0123_4567, 0x7654_3210, 0xfedc_ba98]);
        assert_eq!(stream.counter(MatrixId::VALUES, 0x0000_0005_0000_0003), [3, 5, 7, 2]);
    }

    #[test]
    fn the_generator_reads_the_words_of_its_rows_blocks() {
        let stream = TrialStream::new(11, 13, 17);
        let mut rng = stream.rng(MatrixId::KEYS, 5);
        // More than one group of sixteen blocks.
        for block in 0..35 {
            // Address as documented: 2^63 + 2^32 row + k.
            let words = threefry4x32_20([block, 0x8000_0005, 17, 1], [11, 0, 13, 0]);
            assert_eq!(std::array::from_fn(|_| rng.next_u32()), words);
        }
    }

    #[test]
    fn all_ways_of_reading_the_generator_see_the_same_words() {
        let start = TrialStream::new(2, 3, 5).rng(MatrixId::QUERIES, 7);
        let mut by_word = start.clone();
        let words: [u32; 12] = std::array::from_fn(|_| by_word.next_u32());
        let mut by_pair = start.clone();
        // The first word taken alone puts a 64-bit number across two blocks.
        assert_eq!(by_pair.next_u32(), words[0]);
        for pair in words[1..11].chunks_exact(2) {
            assert_eq!(by_pair.next_u64(), u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
        let mut bytes = [0; 43];
        start.clone().fill_bytes(&mut bytes);
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes[..], expected[..43]);
    }

    #[test]
    fn parameter_points_equal_the_independent_python_values() {
        // No parts: the first output of SplitMix64 from state 0, as published with the algorithm.
        assert_eq!(parameter_point(&[]), 0xe220_a839_7b1d_cdaf);
        // scripts/reference/draws.py.
        assert_eq!(parameter_point(&[0]), 0x5e41_ab08_7439_611e);
        assert_eq!(parameter_point(&[0, 0]), 0x1956_ecd1_a275_ec95);
        assert_eq!(parameter_point(&[64, 257]), 0x5da6_5a5d_92c7_f5c7);
        assert_eq!(parameter_point(&[257, 64]), 0x98f7_e475_5c7d_6f30);
    }

    #[test]
    fn small_parameter_points_do_not_collide() {
        let mut points: Vec<u64> = (0..101)
            .flat_map(|a| (0..101).map(move |b| parameter_point(&[a, b])))
            .chain((0..10_007).map(|a| parameter_point(&[a])))
            .collect();
        let count = points.len();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), count);
    }

    #[test]
    #[should_panic(expected = "2^31 rows at most")]
    fn a_row_that_would_touch_the_domain_bit_is_refused() {
        TrialStream::new(0, 0, 0).rng(MatrixId::QUERIES, 1 << 31);
    }
}
