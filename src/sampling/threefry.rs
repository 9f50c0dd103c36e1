//! Threefry4x32-20, the counter-based generator behind every draw.
//!
//! A block is a pure function of a 128-bit counter and a 128-bit key: four 32-bit words after twenty rounds of
//! addition, rotation and exclusive-or. There is no state, so any block can be computed by any thread at any time.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11 (2011), section 4.2;
//! rotations and known answers from their library Random123. Twenty rounds are the library's default; the
//! paper finds twelve to be enough to pass BigCrush. Not a cipher: nothing here is meant to resist an adversary.

/// How many blocks the lane-parallel form computes at once; part of the addressing (see [`super::bulk`]),
/// hence never changed for the sake of speed.
pub(super) const LANES: usize = 16;

/// The words of [`LANES`] consecutive blocks: `words[word][lane]`.
pub(super) type BlockGroup = [[u32; LANES]; 4];

/// Skein's key-schedule parity constant, cut to 32 bits.
pub(super) const PARITY: u32 = 0x1BD1_1BDA;

/// Left rotations of the two mixes of a round; round r uses entry r mod 8.
pub(super) const ROTATIONS: [[u32; 2]; 8] =
    [[10, 26], [11, 21], [13, 27], [23, 5], [6, 20], [17, 11], [25, 10], [18, 20]];

/// The four words of Threefry4x32-20 at `counter` under `key`.
///
/// Both are read least significant word first, as in Random123.
#[inline(always)]
pub fn threefry4x32_20(counter: [u32; 4], key: [u32; 4]) -> [u32; 4] {
    let schedule = [key[0], key[1], key[2], key[3], PARITY ^ key[0] ^ key[1] ^ key[2] ^ key[3]];
    let [mut a, mut b, mut c, mut d] = counter;
    a = a.wrapping_add(schedule[0]);
    b = b.wrapping_add(schedule[1]);
    c = c.wrapping_add(schedule[2]);
    d = d.wrapping_add(schedule[3]);
    // Four rounds, then a key injection, five times over. Written out, because a loop over rounds would
    // keep the compiler from turning the caller's loop over blocks into vector instructions.
    macro_rules! four_rounds {
        ($first:expr, $injection:expr) => {
            a = a.wrapping_add(b);
            b = b.rotate_left(ROTATIONS[$first][0]) ^ a;
            c = c.wrapping_add(d);
            d = d.rotate_left(ROTATIONS[$first][1]) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(ROTATIONS[$first + 1][0]) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(ROTATIONS[$first + 1][1]) ^ c;
            a = a.wrapping_add(b);
            b = b.rotate_left(ROTATIONS[$first + 2][0]) ^ a;
            c = c.wrapping_add(d);
            d = d.rotate_left(ROTATIONS[$first + 2][1]) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(ROTATIONS[$first + 3][0]) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(ROTATIONS[$first + 3][1]) ^ c;
            a = a.wrapping_add(schedule[$injection % 5]);
            b = b.wrapping_add(schedule[($injection + 1) % 5]);
            c = c.wrapping_add(schedule[($injection + 2) % 5]);
            d = d.wrapping_add(schedule[($injection + 3) % 5].wrapping_add($injection));
        };
    }
    four_rounds!(0, 1);
    four_rounds!(4, 2);
    four_rounds!(0, 3);
    four_rounds!(4, 4);
    four_rounds!(0, 5);
    [a, b, c, d]
}

/// The blocks at `counter`, `counter + 1`, …, `counter + LANES - 1` (in the lowest counter word).
///
/// # Panics
/// In debug builds, if the lowest counter word is no multiple of [`LANES`]: the group could then carry.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "lane and word index two arrays")]
pub(super) fn threefry4x32_20_group(counter: [u32; 4], key: [u32; 4]) -> BlockGroup {
    debug_assert!((counter[0] as usize).is_multiple_of(LANES));
    let mut words = [[0; LANES]; 4];
    // One lane of a vector register per block: the compiler vectorises this loop whole.
    for lane in 0..LANES {
        let block = threefry4x32_20([counter[0].wrapping_add(lane as u32), counter[1], counter[2], counter[3]], key);
        for word in 0..4 {
            words[word][lane] = block[word];
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_equal_the_known_answers_of_random123() {
        // kat_vectors of Random123, lines "threefry4x32 20"; recomputed with randomgen 2.5.1 (an independent
        // C implementation) and with scripts/reference/draws.py.
        assert_eq!(threefry4x32_20([0; 4], [0; 4]), [0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8]);
        assert_eq!(threefry4x32_20([u32::MAX; 4], [u32::MAX; 4]), [0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732]);
        // The digits of pi in base sixteen.
        assert_eq!(
            threefry4x32_20(
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89]
            ),
            [0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84]
        );
    }

    #[test]
    fn a_group_holds_the_blocks_one_by_one() {
        let key = [3, 5, 7, 11];
        let first = 0xffff_fff0;
        let group = threefry4x32_20_group([first, 13, 17, 19], key);
        let by_lane = std::array::from_fn::<_, LANES, _>(|lane| group.map(|words| words[lane]));
        for (lane, words) in by_lane.into_iter().enumerate() {
            let counter = [first + lane as u32, 13, 17, 19];
            assert_eq!(words, threefry4x32_20(counter, key));
        }
    }
}
