//! Every kernel of this machine against the portable twin, against the reference, and against
//! sums taken in integers, on random and on hostile sizes.

use super::*;
use crate::attention::reference;
use nalgebra::DMatrix;
use proptest::prelude::*;

/// Sizes at which something could go wrong: one, small primes, and a tile of every kernel
/// (4, 6, 14 rows; 4 to 32 columns) less or more one, and a group of rows less or more one.
const ROWS: [usize; 12] = [1, 2, 3, 5, 6, 7, 13, 14, 15, 29, 265, 267];
const KEYS: [usize; 13] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 97];

/// Whole numbers from −bound to bound, spread by a multiplicative hash.
fn whole_numbers(count: usize, bound: i64, seed: u64) -> Vec<i64> {
    let hash = |index: u64| {
        let mut bits = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed);
        bits = (bits ^ (bits >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits >> 33
    };
    (0..count as u64).map(|index| (hash(index) % (2 * bound as u64 + 1)) as i64 - bound).collect()
}

/// Numbers of about unit size with full mantissas.
fn reals<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let whole = whole_numbers(count, 1 << 29, seed);
    whole.iter().map(|&value| T::from_f64(value as f64 / (1 << 28) as f64)).collect()
}

fn convert<T: Element>(whole: &[i64]) -> Vec<T> {
    whole.iter().map(|&value| T::from_f64(value as f64)).collect()
}

fn unit_roundoff<T>() -> f64 {
    if size_of::<T>() == 4 { 2_f64.powi(-24) } else { 2_f64.powi(-53) }
}

/// All logits by the kernel, as one block.
fn all_logits<T: Element>(set: InstructionSet, q: &[T], k: &[T], depth: usize) -> Vec<T> {
    let (rows, columns) = (q.len() / depth, k.len() / depth);
    let keys = PackedKeys::new(set, k, columns, depth);
    let mut out = vec![T::from_f64(f64::NAN); rows * columns];
    logit_block(q, rows, &keys, 0..columns, &mut out, columns);
    out
}

/// Exact logits and power sums in integers: no rounding, no order.
fn integer_logits(q: &[i64], k: &[i64], depth: usize) -> Vec<i64> {
    let dot = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    q.chunks(depth).flat_map(|row| k.chunks(depth).map(move |key| dot(row, key))).collect()
}

fn integer_power_sums(logits: &[i64], center: i64) -> [i128; 4] {
    [1, 2, 3, 4].map(|r| logits.iter().map(|&x| i128::from(x - center).pow(r)).sum())
}

fn as_matrix<T: Element>(rows: &[T], depth: usize) -> DMatrix<f64> {
    DMatrix::from_row_iterator(rows.len() / depth, depth, rows.iter().map(|x| x.to_f64()))
}

/// Checks logits and power sums of one shape by every instruction set where all sums are exact.
fn check_whole_numbers<T: Element>(rows: usize, columns: usize, depth: usize) {
    // At most three components of a row, at depth indices 0, 7 and 14, are other than 0, so that
    // |x − c| ≤ 3·4 + 5 and 28 fourth powers of it, the most a lane sums up in f32, stay below 2²⁴.
    let sparse = |whole: Vec<i64>| -> Vec<i64> {
        whole.iter().enumerate().map(|(i, &x)| if [0, 7, 14].contains(&(i % depth)) { x } else { 0 }).collect()
    };
    let q = sparse(whole_numbers(rows * depth, 2, 1));
    let k = sparse(whole_numbers(columns * depth, 2, 2));
    let expected = integer_logits(&q, &k, depth);
    let (q, k) = (convert::<T>(&q), convert::<T>(&k));
    for set in InstructionSet::available() {
        let found = all_logits(set, &q, &k, depth);
        assert_eq!(found, convert::<T>(&expected), "{set} {rows} x {columns} x {depth}");
        let keys = PackedKeys::new(set, &k, columns, depth);
        for center in [0, 3, -5] {
            let found = logit_power_sums(&q, rows, &keys, center as f64);
            let expected = integer_power_sums(&expected, center).map(|sum| sum as f64);
            assert_eq!(found.sums, expected, "{set} {rows} x {columns} x {depth} about {center}");
            assert_eq!(found.count, (rows * columns) as u64);
            assert_eq!(found.center, center as f64);
        }
    }
}

#[test]
fn whole_numbers_give_exact_sums_at_every_hostile_size() {
    for rows in ROWS {
        for columns in KEYS {
            for depth in [1, 3] {
                check_whole_numbers::<f32>(rows, columns, depth);
                check_whole_numbers::<f64>(rows, columns, depth);
            }
        }
    }
}

#[test]
fn whole_numbers_give_exact_sums_at_large_depth() {
    for (rows, columns) in [(1, 1), (1, 37), (17, 1), (15, 33)] {
        check_whole_numbers::<f32>(rows, columns, 4097);
        check_whole_numbers::<f64>(rows, columns, 4097);
    }
}

/// |computed − exact| ≤ γ_k Σ|q_h k_h| with k = depth + 1 roundings at most on each term: one for
/// its product and depth for the sums.
fn check_logits_against_the_reference<T: Element>(rows: usize, columns: usize, depth: usize) {
    let (q, k) = (reals::<T>(rows * depth, 3), reals::<T>(columns * depth, 4));
    let (left, right) = (as_matrix(&q, depth), as_matrix(&k, depth));
    let expected = reference::logits(&left, &right, 1.0);
    let magnitude = reference::logits(&left.abs(), &right.abs(), 1.0);
    // The reference rounds too, in f64: twice the bound in f64, a little more in f32.
    let factor = (depth + 1) as f64 * (unit_roundoff::<T>() + unit_roundoff::<f64>()) * 1.01;
    for set in InstructionSet::available() {
        let found = as_matrix(&all_logits(set, &q, &k, depth), columns);
        for (index, value) in found.iter().enumerate() {
            let error = (value - expected[index]).abs();
            assert!(error <= factor * magnitude[index], "{set} {rows} x {columns} x {depth}: off by {error}");
        }
    }
}

/// Power sums of the kernel's own logits, summed in f64: what is left is the rounding of the sums.
fn check_power_sums_against_the_logits<T: Element>(rows: usize, columns: usize, depth: usize) {
    let (q, k) = (reals::<T>(rows * depth, 5), reals::<T>(columns * depth, 6));
    for set in InstructionSet::available() {
        let logits = all_logits(set, &q, &k, depth);
        let keys = PackedKeys::new(set, &k, columns, depth);
        let found = logit_power_sums(&q, rows, &keys, 0.0);
        for (r, sum) in found.sums.iter().enumerate() {
            let powers = || logits.iter().map(|x| x.to_f64().powi(r as i32 + 1));
            let magnitude: f64 = powers().map(f64::abs).sum();
            // At most 3 roundings to form x⁴ and 14 + 1 additions in T; in f64 the sums over lanes and
            // tiles, here and in the kernel, fewer than the number of logits.
            let bound = 18.0 * unit_roundoff::<T>() + 2.0 * logits.len() as f64 * unit_roundoff::<f64>();
            let error = (sum - powers().sum::<f64>()).abs();
            assert!(error <= bound * magnitude, "{set} {rows} x {columns} x {depth}: {error}");
        }
    }
}

#[test]
fn logits_and_power_sums_are_right_to_rounding_at_every_hostile_size() {
    for rows in ROWS {
        for columns in KEYS {
            check_logits_against_the_reference::<f32>(rows, columns, 5);
            check_logits_against_the_reference::<f64>(rows, columns, 5);
            check_power_sums_against_the_logits::<f32>(rows, columns, 5);
            check_power_sums_against_the_logits::<f64>(rows, columns, 5);
        }
    }
    for depth in [1, 3, 63, 64, 65, 4097] {
        check_logits_against_the_reference::<f32>(17, 37, depth);
        check_logits_against_the_reference::<f64>(17, 37, depth);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn logits_are_right_to_rounding_at_random_sizes(
        rows in 1_usize..90, columns in 1_usize..140, depth in 1_usize..200,
    ) {
        check_logits_against_the_reference::<f32>(rows, columns, depth);
        check_logits_against_the_reference::<f64>(rows, columns, depth);
        check_power_sums_against_the_logits::<f32>(rows, columns, depth);
        check_power_sums_against_the_logits::<f64>(rows, columns, depth);
    }

    #[test]
    fn any_range_of_columns_holds_the_logits_of_the_whole_and_nothing_else_is_touched(
        rows in 1_usize..40, columns in 1_usize..100, cut in 0.0_f64..1.0, width in 0.0_f64..1.0,
        spare in 0_usize..5,
    ) {
        let depth = 3;
        let start = (cut * columns as f64) as usize;
        let end = start + (width * (columns - start + 1) as f64) as usize;
        let (q, k) = (reals::<f32>(rows * depth, 7), reals::<f32>(columns * depth, 8));
        for set in InstructionSet::available() {
            let whole = all_logits(set, &q, &k, depth);
            let keys = PackedKeys::new(set, &k, columns, depth);
            let stride = end - start + spare;
            let mut out = vec![f32::INFINITY; (rows - 1) * stride + (end - start)];
            logit_block(&q, rows, &keys, start..end, &mut out, stride);
            for (index, &value) in out.iter().enumerate() {
                let (i, j) = (index / stride.max(1), index % stride.max(1));
                let inside = j < end - start;
                let expected = if inside { whole[i * columns + start + j] } else { f32::INFINITY };
                prop_assert_eq!(value, expected);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_packing_transposes_write_what_their_safe_twin_writes() {
    fn check<T: Element>(transpose: impl Fn([&[T]; 4], &mut [T], usize, usize)) {
        for (steps, width, first) in
            [(1, 4, 0), (2, 6, 2), (3, 7, 1), (4, 14, 8), (5, 8, 4), (13, 32, 28), (64, 14, 10)]
        {
            let values: Vec<T> = reals(4 * steps, 17);
            let rows: [&[T]; 4] = std::array::from_fn(|row| &values[row * steps..][..steps]);
            let mut found = vec![T::default(); steps * width];
            let mut expected = found.clone();
            transpose(rows, &mut found, width, first);
            portable::transpose_rows(rows, &mut expected, width, first);
            assert_eq!(found, expected, "{steps} lines of {width}, columns from {first}");
        }
    }
    check(x86::transpose::f32);
    check(x86::transpose::f64);
    assert!(refused(|| {
        // The second row is shorter.
        x86::transpose::f32([&[1.0; 4], &[1.0; 3], &[1.0; 4], &[1.0; 4]], &mut [0.0; 16], 4, 0)
    }));
    assert!(refused(|| x86::transpose::f64([&[1.0; 4]; 4], &mut [0.0; 16], 4, 1)));
}

#[test]
fn avx2_and_avx512_give_the_same_bits_for_each_logit() {
    let both = [InstructionSet::Avx512, InstructionSet::Avx2];
    if !both.iter().all(|set| set.is_available()) {
        return;
    }
    let (rows, columns, depth) = (31, 67, 131);
    let (q, k) = (reals::<f32>(rows * depth, 9), reals::<f32>(columns * depth, 10));
    let [wide, narrow] = both.map(|set| all_logits(set, &q, &k, depth));
    assert_eq!(wide, narrow);
    let (q, k) = (reals::<f64>(rows * depth, 9), reals::<f64>(columns * depth, 10));
    let [wide, narrow] = both.map(|set| all_logits(set, &q, &k, depth));
    assert_eq!(wide, narrow);
}

#[test]
fn each_logit_is_a_chain_of_fused_or_of_plain_steps_in_depth_order() {
    let (rows, columns, depth) = (17, 35, 29);
    let (q, k) = (reals::<f32>(rows * depth, 11), reals::<f32>(columns * depth, 12));
    for set in InstructionSet::available() {
        let found = all_logits(set, &q, &k, depth);
        for (index, logit) in found.iter().enumerate() {
            let query = &q[index / columns * depth..][..depth];
            let key = &k[index % columns * depth..][..depth];
            let steps = query.iter().zip(key);
            // std's `mul_add` is fused by definition, with or without the instruction.
            let expected = match set {
                InstructionSet::Portable => steps.fold(0_f32, |sum, (a, b)| a * b + sum),
                _ => steps.fold(0_f32, |sum, (a, b)| a.mul_add(*b, sum)),
            };
            assert_eq!(logit.to_bits(), expected.to_bits(), "{set}");
        }
    }
}

#[test]
fn a_center_is_rounded_to_the_element_and_reported_as_used() {
    for set in InstructionSet::available() {
        let keys = PackedKeys::new(set, &[1.0_f32, 2.0, 4.0], 3, 1);
        let found = logit_power_sums(&[1.0], 1, &keys, 0.1);
        let center = f64::from(0.1_f32);
        assert_eq!(found.center, center);
        // 7 − 3c with c = fl(0.1): each x − c is rounded once to f32 (half an ulp of 4 at most),
        // then added twice.
        assert!((found.sums[0] - (7.0 - 3.0 * center)).abs() < 5.0 * 2_f64.powi(-22));
    }
}

#[test]
fn rows_cut_into_blocks_add_up_to_the_whole_where_sums_are_exact() {
    let (rows, columns, depth) = (97, 61, 3);
    let q = whole_numbers(rows * depth, 2, 13);
    let k = whole_numbers(columns * depth, 2, 14);
    let expected = integer_power_sums(&integer_logits(&q, &k, depth), 1).map(|sum| sum as f64);
    let (q, k) = (convert::<f32>(&q), convert::<f32>(&k));
    for set in InstructionSet::available() {
        let keys = PackedKeys::new(set, &k, columns, depth);
        for block in [1, 5, 14, 23, 96, 97] {
            let mut total = PowerSums::default();
            for queries in q.chunks(block * depth) {
                total.merge(&logit_power_sums(queries, queries.len() / depth, &keys, 1.0));
            }
            assert_eq!(total.sums, expected, "{set}, blocks of {block}");
            assert_eq!((total.count, total.center), ((rows * columns) as u64, 1.0));
        }
    }
}

#[test]
fn a_repacked_buffer_keeps_nothing_of_what_it_held() {
    // From large to small, so that padding must be cleared where numbers were.
    for set in InstructionSet::available() {
        let mut keys = PackedKeys::new(set, &vec![f64::NAN; 97 * 31], 97, 31);
        let mut queries = PackedQueries::new(set, &vec![f64::NAN; 53 * 31], 53, 31);
        let bytes = (keys.bytes(), queries.bytes());
        keys.repack(&[2.0, 3.0, 5.0], 3, 1);
        queries.repack(&[7.0, 11.0], 2, 1);
        assert_eq!((keys.bytes(), queries.bytes()), bytes, "the allocations are reused");
        let found = packed_power_sums(&queries, &keys, 0.0);
        // (7 + 11)(2 + 3 + 5), (7² + 11²)(2² + 3² + 5²), …, by hand.
        assert_eq!(found.sums, [180.0, 6460.0, 1674.0 * 160.0, 17042.0 * 722.0]);
    }
}

#[test]
fn huge_and_tiny_entries_follow_ieee_arithmetic() {
    for set in InstructionSet::available() {
        // 2^100 · 2^27 = 2^127 is the last power of two f32 holds; 2^-149 is its least subnormal.
        let keys = PackedKeys::new(set, &[2_f32.powi(100), 2_f32.powi(-100)], 2, 1);
        let queries = [2_f32.powi(27), 2_f32.powi(-49), 2_f32.powi(28)];
        let mut out = [0.0; 6];
        logit_block(&queries, 3, &keys, 0..2, &mut out, 2);
        let expected = [2_f32.powi(127), 2_f32.powi(-73), 2_f32.powi(51)];
        assert_eq!([out[0], out[1], out[2]], expected, "{set}");
        assert_eq!(out[3], f32::from_bits(1), "{set}: a subnormal logit is not flushed to zero");
        assert_eq!(out[4], f32::INFINITY, "{set}: an overflow shows");
        assert_eq!(out[5], 2_f32.powi(-72), "{set}");
        let keys = PackedKeys::new(set, &[2_f64.powi(-1022)], 1, 1);
        let found = logit_power_sums(&[2_f64.powi(-52); 5], 5, &keys, 0.0);
        assert_eq!(found.sums, [5.0 * f64::from_bits(1), 0.0, 0.0, 0.0], "{set}");
    }
}

#[test]
fn infinities_and_nan_reach_the_sums_and_never_by_way_of_the_padding() {
    for set in InstructionSet::available() {
        // ∞ · 0 in the padding would be NaN.
        let keys = PackedKeys::new(set, &[1.0_f32, 2.0, 3.0], 3, 1);
        let found = logit_power_sums(&[f32::INFINITY], 1, &keys, 0.0);
        assert_eq!(found.sums, [f64::INFINITY; 4], "{set}");
        let found = logit_power_sums(&[1.0, f32::NAN, 1.0], 3, &keys, 0.0);
        assert!(found.sums.iter().all(|sum| sum.is_nan()), "{set}");
    }
}

#[test]
fn the_variance_in_f32_is_right_to_a_hundred_millionth() {
    // Logits of f32 inputs in f64, by the reference; the center is near the mean, which is 16 here
    // since the entries have mean ½ and the depth is 64.
    let (n, depth) = (601, 64);
    let shifted = |seed| reals::<f32>(n * depth, seed).iter().map(|x| x + 0.5).collect::<Vec<_>>();
    let (q, k) = (shifted(15), shifted(16));
    let logits = reference::logits(&as_matrix(&q, depth), &as_matrix(&k, depth), 1.0);
    let count = (n * n) as f64;
    let mean = logits.sum() / count;
    let expected = logits.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    for set in InstructionSet::available() {
        let keys = PackedKeys::new(set, &k, n, depth);
        let found = logit_power_sums(&q, n, &keys, 16.0);
        let [first, second, ..] = found.sums.map(|sum| sum / count);
        let variance = second - first * first;
        assert!((variance / expected - 1.0).abs() < 1e-8, "{set}: {variance} for {expected}");
        assert!((first + found.center - mean).abs() < 1e-6, "{set}");
    }
}

#[test]
fn power_sums_about_different_centers_are_not_merged() {
    let one = PowerSums { count: 1, center: 1.0, sums: [1.0; 4] };
    let other = PowerSums { count: 1, center: 2.0, sums: [1.0; 4] };
    let merged = std::panic::catch_unwind(move || {
        let mut total = one;
        total.merge(&other);
    });
    assert!(merged.is_err());
    let mut total = PowerSums::default();
    total.merge(&other);
    total.merge(&PowerSums::default());
    assert_eq!(total, other);
}

/// Whether a call panics.
fn refused(call: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(call).is_err()
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let set = InstructionSet::detect();
    assert!(refused(move || drop(PackedKeys::new(set, &[1.0_f32; 5], 2, 3))));
    assert!(refused(move || drop(PackedKeys::<f32>::new(set, &[], 0, 3))));
    assert!(refused(move || drop(PackedKeys::<f32>::new(set, &[], 3, 0))));
    assert!(refused(move || drop(PackedKeys::<f32>::new(set, &[], usize::MAX, 2))));
    let with_output = move |queries: usize, columns: Range<usize>, length: usize, stride: usize| {
        refused(move || {
            let keys = PackedKeys::new(set, &[1.0_f32; 35], 5, 7);
            logit_block(&vec![1.0; queries * 7], queries, &keys, columns, &mut vec![0.0; length], stride)
        })
    };
    assert!(!with_output(3, 1..5, 14, 5));
    assert!(with_output(3, 1..5, 13, 5), "one element short");
    assert!(with_output(3, 1..6, 15, 5), "past the last key");
    assert!(with_output(3, 1..5, 14, 3), "overlapping rows");
    assert!(with_output(3, 1..5, 14, usize::MAX / 2 + 2), "an overflowing size");
    assert!(refused(move || {
        let keys = PackedKeys::new(set, &[1.0_f32; 35], 5, 7);
        let queries = PackedQueries::new(set, &[1.0_f32; 5], 1, 5);
        packed_power_sums(&queries, &keys, 0.0);
    }));
    assert!(refused(move || {
        let keys = PackedKeys::<f64>::empty(set);
        packed_power_sums(&PackedQueries::new(set, &[1.0], 1, 1), &keys, 0.0);
    }));
}

#[test]
fn operands_packed_for_different_instruction_sets_are_refused() {
    for set in InstructionSet::available().filter(|&set| set != InstructionSet::Portable) {
        assert!(refused(move || {
            let keys = PackedKeys::new(set, &[1.0_f32], 1, 1);
            let queries = PackedQueries::new(InstructionSet::Portable, &[1.0_f32], 1, 1);
            packed_power_sums(&queries, &keys, 0.0);
        }));
    }
}

#[test]
fn the_detected_instruction_set_is_available_and_named() {
    assert!(InstructionSet::detect().is_available());
    assert!(InstructionSet::Portable.is_available());
    let names = InstructionSet::ALL.map(|set| set.to_string());
    assert_eq!(names, ["AVX-512", "AVX2", "portable"]);
}
