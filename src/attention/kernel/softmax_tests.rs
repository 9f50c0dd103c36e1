//! The row statistics against their definitions in f64, by every instruction set of this machine.

use super::*;
use crate::attention::kernel::{InstructionSet, packed_logits};
use crate::attention::reference;
use nalgebra::DMatrix;
use proptest::prelude::*;

/// About normal numbers of unit variance (sums of twelve uniform ones) with full mantissas, spread by a hash.
fn normals<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| T::from_f64((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).collect()
}

fn convert<T: Element>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|&x| T::from_f64(x)).collect()
}

fn unit_roundoff<T>() -> f64 {
    if size_of::<T>() == 4 { 2_f64.powi(-24) } else { 2_f64.powi(-53) }
}

/// Statistics of all rows as one block.
fn statistics<T: Element>(set: InstructionSet, q: &[T], k: &[T], depth: usize, factors: &[f64]) -> Vec<RowStatistics> {
    let keys = PackedKeys::new(set, k, k.len() / depth, depth);
    let queries = PackedQueries::new(set, q, q.len() / depth, depth);
    let mut out = vec![RowStatistics::default(); queries.rows() * factors.len()];
    packed_row_statistics(&queries, &keys, factors, &mut SoftmaxWorkspace::new(), &mut out);
    out
}

/// Statistics of one row with these logits: the query is 1 and the keys are the logits.
fn of_logits<T: Element>(set: InstructionSet, logits: &[f64], factors: &[f64]) -> Vec<RowStatistics> {
    statistics(set, &[T::from_f64(1.0)], &convert::<T>(logits), 1, factors)
}

/// The definitions in f64, arranged so that only positive numbers are added: with 1 − pᵢ for the largest p as the sum of the
/// others, tr J = Σ pᵢ(1 − pᵢ) and ‖J‖²_F = Σ pᵢ²(1 − pᵢ)² + Σ_{i≠j} pᵢ²pⱼ². Also the mean
/// of |x − maximum| over the other weights, for the tolerance.
fn defined(logits: impl Iterator<Item = f64>) -> (RowStatistics, f64) {
    let x: Vec<f64> = logits.collect();
    let first = (0..x.len()).reduce(|a, b| if x[b] > x[a] { b } else { a }).expect("a row is never empty");
    let weights: Vec<f64> = x.iter().map(|&logit| (logit - x[first]).exp()).collect();
    let without = |values: &dyn Fn(usize) -> f64| (0..x.len()).filter(|&j| j != first).map(values).sum::<f64>();
    let others = without(&|j| weights[j]);
    let distance = without(&|j| weights[j] * (x[first] - x[j]));
    let z = 1.0 + others;
    let p = |j: usize| weights[j] / z;
    let complement = |j: usize| if j == first { others / z } else { 1.0 - p(j) };
    let mut statistics = RowStatistics {
        log_partition: x[first] + others.ln_1p(),
        entropy: others.ln_1p() + distance / z,
        max_weight: 1.0 / z,
        ..RowStatistics::default()
    };
    let mut squares = 0.0;
    for (j, &logit) in x.iter().enumerate() {
        let square = p(j) * p(j);
        statistics.participation += square;
        statistics.sum_p_cubed += square * p(j);
        statistics.jacobian_trace += p(j) * complement(j);
        statistics.jacobian_frobenius += square * complement(j) * complement(j) + 2.0 * square * squares;
        squares += square;
        statistics.logit_sum += logit;
        statistics.logit_square_sum += logit * logit;
    }
    (statistics, if others > 0.0 { distance / others } else { 0.0 })
}

/// |found − expected| ≤ bound, in a form that NaN fails.
fn assert_within(found: f64, expected: f64, bound: f64, what: &str) {
    assert!((found - expected).abs() <= bound, "{what}: {found:e} for {expected:e}, bound {bound:e}");
}

/// The largest relative error of ‖J‖²_F, after checking every statistic of every row against [`defined`] for the kernel's own
/// logits.
///
/// With ε the unit roundoff, a weight is off by at most (2|Δ| + 27)ε: Δ and its product with the factor are rounded, the
/// exponential is good to 1.24 units in the last place or 2.5ε, and repeated squares take 8 times that and 7 roundings. A sum takes
/// at most 128 terms a lane in `T`, 128ε more. So s₁ is off by e = (2 mean|Δ| + 155)ε relatively, and s₂ and s₃, whose weights are
/// nearer to the maximum, by 2e and 3e. Each statistic is a sum of products of at most three
/// of them, its negative terms at most half of the positive ones: 8e.
fn check<T: Element>(set: InstructionSet, q: &[T], k: &[T], depth: usize, factors: &[f64]) -> f64 {
    let (rows, m) = (q.len() / depth, k.len() / depth);
    let found = statistics(set, q, k, depth, factors);
    let keys = PackedKeys::new(set, k, m, depth);
    let queries = PackedQueries::new(set, q, rows, depth);
    let mut logits = vec![T::from_f64(f64::NAN); rows * m];
    packed_logits(&queries, &keys, 0..m, &mut logits, m);
    let epsilon = unit_roundoff::<T>();
    let mut worst = 0.0;
    for (index, found) in found.iter().enumerate() {
        let factor = T::from_f64(factors[index % factors.len()]).to_f64();
        let row = &logits[index / factors.len() * m..][..m];
        let (expected, distance) = defined(row.iter().map(|x| x.to_f64() * factor));
        let what = |name: &str| format!("{name} of row {index}, {rows} x {m} x {depth}, factor {factor}, {set}");
        // In f64 the definition rounds too, its sums over m terms.
        let e = (2.0 * distance + 155.0) * epsilon + m as f64 * 2_f64.powi(-52);
        let relative = |found: f64, expected: f64, name: &str| {
            // Squares of weights below the normal numbers are left out.
            assert_within(found, expected, 8.0 * e * expected + 2_f64.powi(-120), &what(name));
        };
        relative(found.entropy, expected.entropy, "entropy");
        relative(found.participation, expected.participation, "participation");
        relative(found.sum_p_cubed, expected.sum_p_cubed, "cubes");
        relative(found.max_weight, expected.max_weight, "maximum");
        relative(found.jacobian_trace, expected.jacobian_trace, "trace");
        relative(found.jacobian_frobenius, expected.jacobian_frobenius, "Frobenius norm");
        let largest = row.iter().map(|x| (x.to_f64() * factor).abs()).fold(0.0, f64::max);
        let bound = e * expected.jacobian_trace + 2_f64.powi(-51) * (largest + (m as f64).ln());
        assert_within(found.log_partition, expected.log_partition, bound, &what("ln Z"));
        let magnitude: f64 = row.iter().map(|x| (x.to_f64() * factor).abs()).sum();
        assert_within(found.logit_sum, expected.logit_sum, e * magnitude, &what("sum"));
        let bound = e * expected.logit_square_sum;
        assert_within(found.logit_square_sum, expected.logit_square_sum, bound, &what("sum of squares"));
        if expected.jacobian_frobenius > 1e-30 {
            worst = f64::max(worst, (found.jacobian_frobenius / expected.jacobian_frobenius - 1.0).abs());
        }
    }
    worst
}

/// A factor that pairs with another in each way, some that do not pair, both signs and 0.
const FACTORS: [f64; 9] = [1.0, 0.125, -1.0, 0.0, -0.5, 0.7, 0.175, 16.0, 1e-3];

#[test]
fn statistics_follow_their_definitions_at_every_hostile_size() {
    // A tile of every kernel less or more one; keys around the registers and panels, and around the blocks of 1024
    // and 512.
    for (rows, columns) in [
        (1, &[1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 97][..]),
        (5, &[1, 7, 33, 511, 513, 1023, 1025]),
        (6, &[2, 16, 31]),
        (7, &[3, 17, 32]),
        (13, &[5, 33, 512]),
        (14, &[1, 8, 1024]),
        (15, &[9, 65, 2049]),
        (29, &[97]),
        (3, &[5003]),
    ] {
        for &columns in columns {
            for set in InstructionSet::available() {
                let depth = 3;
                let (q, k) = (normals::<f32>(rows * depth, 1), normals::<f32>(columns * depth, 2));
                check(set, &q, &k, depth, &FACTORS);
                let (q, k) = (normals::<f64>(rows * depth, 1), normals::<f64>(columns * depth, 2));
                check(set, &q, &k, depth, &FACTORS);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn statistics_follow_their_definitions_at_random_sizes(
        rows in 1_usize..40, columns in 1_usize..2500, depth in 1_usize..90, seed in 0_u64..1000, factor in -2.0_f64..2.0,
    ) {
        let factors = [factor, factor / 8.0, 1.0];
        for set in InstructionSet::available() {
            let (q, k) = (normals::<f32>(rows * depth, seed), normals::<f32>(columns * depth, seed + 1000));
            check(set, &q, &k, depth, &factors);
            let (q, k) = (normals::<f64>(rows * depth, seed), normals::<f64>(columns * depth, seed + 1000));
            check(set, &q, &k, depth, &factors);
        }
    }
}

#[test]
fn the_jacobian_norm_of_raw_logits_in_f32_is_right_in_the_worst_row() {
    let (rows, m, depth) = (509, 2053, 64);
    let (q, k) = (normals::<f32>(rows * depth, 5), normals::<f32>(m * depth, 6));
    for set in InstructionSet::available() {
        for factors in [&[1.0][..], &[0.125, 1.0]] {
            let worst = check(set, &q, &k, depth, factors);
            println!("{set}, {factors:?}: worst relative error of the Jacobian norm {worst:e}");
            assert!(worst <= 1e-5, "{set}: {worst}");
        }
        let found = statistics(set, &q, &k, depth, &[1.0]);
        let nearly_one_hot = found.iter().filter(|row| row.max_weight > 0.999).count();
        assert!(nearly_one_hot > 5, "the rows are not what the test is about: {nearly_one_hot}");
    }
}

#[test]
fn the_definitions_of_the_tests_are_those_of_the_reference() {
    // Moderate rows, where the textbook formulas do not cancel.
    let (q, k) = (normals::<f64>(7 * 5, 7), normals::<f64>(31 * 5, 8));
    let (left, right) = (DMatrix::from_row_slice(7, 5, &q), DMatrix::from_row_slice(31, 5, &k));
    let logits = reference::logits(&left, &right, 0.5);
    let values = DMatrix::identity(31, 31);
    let weights = reference::scaled_dot_product_attention(&left, &right, &values, 0.5, None).weights;
    for row in 0..7 {
        let (found, _) = defined(logits.row(row).iter().copied());
        let p: Vec<f64> = weights.row(row).iter().copied().collect();
        let power = |exponent: i32| p.iter().map(|p| p.powi(exponent)).sum::<f64>();
        let entropy = -p.iter().map(|p| p * p.ln()).sum::<f64>();
        let partition = logits.row(row).iter().map(|x| x.exp()).sum::<f64>();
        let frobenius = power(2) - 2.0 * power(3) + power(2) * power(2);
        let expected = [
            (found.log_partition, partition.ln()),
            (found.entropy, entropy),
            (found.participation, power(2)),
            (found.sum_p_cubed, power(3)),
            (found.max_weight, p.iter().copied().fold(0.0, f64::max)),
            (found.jacobian_trace, 1.0 - power(2)),
            (found.jacobian_frobenius, frobenius),
        ];
        for (found, expected) in expected {
            assert_within(found, expected, 1e-13, "a definition");
        }
    }
}

#[test]
fn one_key_is_one_hot() {
    for set in InstructionSet::available() {
        for row in of_logits::<f32>(set, &[-7.0], &[1.0, 0.125, -1.0, 0.0]) {
            assert_eq!((row.entropy, row.participation, row.sum_p_cubed), (0.0, 1.0, 1.0), "{set}");
            assert_eq!((row.max_weight, row.jacobian_trace, row.jacobian_frobenius), (1.0, 0.0, 0.0), "{set}");
        }
        let found = of_logits::<f64>(set, &[-7.0], &[2.0, -2.0]);
        assert_eq!([found[0].log_partition, found[1].log_partition], [-14.0, 14.0]);
        assert_eq!([found[0].logit_sum, found[1].logit_sum], [-14.0, 14.0]);
        assert_eq!([found[0].logit_square_sum, found[1].logit_square_sum], [196.0, 196.0]);
    }
}

/// By hand: p = 1/m, tr J = 1 − 1/m, ‖J‖²_F = 1/m − 2/m² + 1/m² = (m − 1)/m².
fn assert_uniform(found: &RowStatistics, m: f64) {
    let close = |found, expected| assert_within(found, expected, 4.0 * f64::EPSILON * expected, "a uniform row");
    close(found.entropy, m.ln());
    close(found.participation, 1.0 / m);
    close(found.sum_p_cubed, 1.0 / (m * m));
    close(found.max_weight, 1.0 / m);
    close(found.jacobian_trace, 1.0 - 1.0 / m);
    close(found.jacobian_frobenius, (m - 1.0) / (m * m));
}

#[test]
fn equal_logits_and_a_factor_of_0_give_equal_weights_to_the_last_digits_of_f64() {
    for set in InstructionSet::available() {
        for m in [2, 3, 17, 1023, 1025, 5003] {
            for row in of_logits::<f32>(set, &vec![-3.25; m], &FACTORS) {
                assert_uniform(&row, m as f64);
            }
            let varied: Vec<f64> = (0..m).map(|j| (j % 7) as f64).collect();
            assert_uniform(&of_logits::<f32>(set, &varied, &[1.0, 0.0])[1], m as f64);
            // A factor that is 0 in f32 is 0.
            assert_uniform(&of_logits::<f32>(set, &varied, &[1e-60])[0], m as f64);
        }
    }
}

#[test]
fn exactly_one_of_several_largest_logits_is_left_out() {
    // Three of 7 and the rest at 7 − ln 2 are 3 + (m − 3)/2 units of weight, wherever the three stand: within a
    // register, in one block, in different blocks.
    for set in InstructionSet::available() {
        for (m, places) in
            [(3, [0, 1, 2]), (5, [0, 2, 4]), (40, [1, 17, 39]), (5003, [0, 1, 5002]), (5003, [5, 1023, 1024])]
        {
            let mut logits = vec![7.0 - 2_f64.ln(); m];
            places.iter().for_each(|&place| logits[place] = 7.0);
            let negative: Vec<f64> = logits.iter().map(|x| -x).collect();
            for found in [of_logits::<f64>(set, &logits, &[1.0])[0], of_logits::<f64>(set, &negative, &[-1.0])[0]] {
                let z = 3.0 + (m - 3) as f64 / 2.0;
                assert_within(found.max_weight, 1.0 / z, 1e-13 / z, "the largest weight");
                assert_within(found.log_partition, 7.0 + z.ln(), 1e-13, "ln Z");
                let participation = (3.0 + (m - 3) as f64 / 4.0) / (z * z);
                assert_within(found.participation, participation, 1e-13 * participation, "participation");
                assert_within(found.jacobian_trace, 1.0 - participation, 1e-13, "trace");
            }
        }
    }
}

#[test]
fn a_maximum_in_a_later_block_takes_the_place_of_an_earlier_one() {
    // Rising, falling, and highest in the middle, all far below 0: a maximum that started at 0 would leave no weight.
    let m = 5003;
    let shapes: [fn(f64) -> f64; 4] =
        [|j| 0.01 * j, |j| -0.01 * j, |j| -0.02 * (j - 2600.0).abs(), |j| 3.0 * (j / 900.0).floor()];
    for set in InstructionSet::available() {
        for shape in shapes {
            let logits: Vec<f64> = (0..m).map(|j| shape(f64::from(j)) - 500.0).collect();
            check(set, &[1.0_f32], &convert(&logits), 1, &FACTORS);
            check(set, &[1.0_f64], &convert(&logits), 1, &FACTORS);
            check(set, &[-1.0_f64], &convert(&logits), 1, &FACTORS);
        }
    }
}

#[test]
fn huge_logits_give_one_hot_rows_and_no_nan() {
    for set in InstructionSet::available() {
        let found = of_logits::<f32>(set, &[1e4, -1e4, 9e3, 0.0], &[1.0, -1.0, 0.125]);
        for row in &found {
            assert_eq!((row.max_weight, row.participation, row.jacobian_frobenius), (1.0, 1.0, 0.0), "{set}");
            assert_eq!((row.entropy, row.jacobian_trace), (0.0, 0.0), "{set}");
        }
        assert_eq!(found[0].log_partition, 1e4);
        assert_eq!(found[1].log_partition, 1e4);
        // At most a quarter of the largest number.
        let found = of_logits::<f32>(set, &[5e37, -5e37, 4e37], &[16.0, -16.0]);
        assert!(found.iter().all(|row| row.max_weight == 1.0 && row.entropy == 0.0), "{set}");
        let (depth, m) = (4096, 129);
        let (q, k) = (normals::<f32>(5 * depth, 9), normals::<f32>(m * depth, 10));
        check(set, &q, &k, depth, &[1.0, 1.0 / 64.0]);
    }
}

#[test]
fn weights_at_the_edge_of_the_normal_numbers_follow_the_definition() {
    // A second weight of e^−x alone: r₁ = e^−x to the last digit; squares of it are left out below 2^−126.
    for set in InstructionSet::available() {
        for x in [20.0_f64, 40.0, 43.0, 60.0, 80.0, 87.0] {
            let weight = (-x).exp();
            let found = of_logits::<f32>(set, &[0.0, -x], &[1.0])[0];
            let close = |found: f64, expected: f64| assert_within(found, expected, 3e-7 * expected, "an edge");
            close(found.jacobian_trace, 2.0 * weight);
            close(found.entropy, weight * (1.0 + x));
            // By hand 4p²(1 − p)²: of which P²r₁² is one part and 3r₂ three, left out where w² is not normal.
            close(found.jacobian_frobenius, if x < 43.6 { 4.0 } else { 1.0 } * weight * weight);
        }
    }
}

#[test]
fn weights_that_would_be_subnormal_are_left_out_whether_exponentials_or_squares() {
    for set in InstructionSet::available() {
        for doublings in 1..=5 {
            let found = of_logits::<f32>(set, &[0.0, -95.0, -88.0], &[1.0, 0.5_f64.powi(doublings)]);
            assert_eq!((found[0].entropy, found[0].max_weight), (0.0, 1.0), "{set}");
            assert!(found[1].entropy > 0.0, "{set}");
        }
    }
}

#[test]
fn rows_beyond_the_first_group_and_differences_near_the_largest_number_are_right() {
    for set in InstructionSet::available() {
        let q = normals::<f32>(531 * 3, 20);
        check(set, &q, &normals::<f32>(35 * 3, 21), 3, &[1.0, -0.3]);
        // The step between the maxima times the sum of the first block's weights is beyond the numbers of f64.
        let logits: Vec<f64> = (0..1500).map(|j| if j == 1400 { 4e307 } else { -1e300 }).collect();
        let found = of_logits::<f64>(set, &logits, &[1.0])[0];
        assert_eq!((found.entropy, found.participation, found.log_partition), (0.0, 1.0, 4e307), "{set}");
    }
}

#[test]
fn logits_that_are_not_finite_make_their_row_nan_and_no_other() {
    for set in InstructionSet::available() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 5, 40] {
                let mut k = vec![1.0_f32; 2 * 41];
                k[2 * place] = bad;
                // The first row sees a bad logit, the second 0 · bad, which is NaN; with a finite bad one neither.
                let found = statistics(set, &[1.0, 0.0, 0.0, 1.0], &k, 2, &[1.0, -1.0, 0.0]);
                for row in &found {
                    assert!(row.entropy.is_nan() && row.participation.is_nan() && row.log_partition.is_nan(), "{set}");
                    assert!(row.jacobian_frobenius.is_nan() && row.max_weight.is_nan(), "{set}");
                }
            }
            let found = statistics(set, &[bad, 1.0], &[1.0, 2.0, 3.0], 1, &[1.0]);
            assert!(found[0].entropy.is_nan() && found[1].entropy > 0.0, "{set}");
        }
    }
}

#[test]
fn a_negative_factor_is_the_positive_one_of_the_negative_queries_to_the_bit() {
    let (q, k) = (normals::<f32>(17 * 5, 11), normals::<f32>(1500 * 5, 12));
    let opposite: Vec<f32> = q.iter().map(|x| -x).collect();
    for set in InstructionSet::available() {
        let negative = statistics(set, &q, &k, 5, &[-0.7, -0.35]);
        assert_eq!(negative, statistics(set, &opposite, &k, 5, &[0.7, 0.35]), "{set}");
        // Both signs at once do not disturb each other.
        let both = statistics(set, &q, &k, 5, &[-0.7, 0.7, -0.35]);
        for row in 0..17 {
            assert_eq!([both[3 * row], both[3 * row + 2]], [negative[2 * row], negative[2 * row + 1]], "{set}");
        }
    }
}

#[test]
fn rows_do_not_depend_on_how_they_are_cut_into_blocks() {
    let (rows, depth) = (37, 7);
    let (q, k) = (normals::<f32>(rows * depth, 13), normals::<f32>(1300 * depth, 14));
    for set in InstructionSet::available() {
        let whole = statistics(set, &q, &k, depth, &[1.0, 0.125]);
        for block in [1, 5, 14, 23] {
            let parts: Vec<_> =
                q.chunks(block * depth).flat_map(|q| statistics(set, q, &k, depth, &[1.0, 0.125])).collect();
            assert_eq!(parts, whole, "{set}, blocks of {block}");
        }
    }
}

#[test]
fn logits_formed_before_give_the_same_bits() {
    fn check<T: Element>() {
        // Around blocks of columns and fours of rows.
        for (rows, m) in [(1, 1), (3, 5), (4, 33), (16, 256), (5, 1023), (9, 1024), (6, 1301), (2, 2080)] {
            let (q, k) = (normals::<T>(rows * 7, 31), normals::<T>(m * 7, 32));
            for set in InstructionSet::available() {
                let factors = [1.0, -0.3, 0.125, 0.0, -1.0];
                let (queries, keys) = (PackedQueries::new(set, &q, rows, 7), PackedKeys::new(set, &k, m, 7));
                let mut logits = vec![T::ZERO; rows * m];
                packed_logits(&queries, &keys, 0..m, &mut logits, m);
                let mut found = vec![RowStatistics::default(); rows * factors.len()];
                row_statistics_of_logits(set, &logits, m, &factors, &mut SoftmaxWorkspace::new(), &mut found);
                assert_eq!(found, statistics(set, &q, &k, 7, &factors), "{set}, {rows} x {m}");
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn a_reused_workspace_keeps_nothing_of_what_it_held() {
    for set in InstructionSet::available() {
        let mut workspace = SoftmaxWorkspace::new();
        let mut out = vec![RowStatistics::default(); 29 * 4];
        let keys = PackedKeys::new(set, &vec![f32::NAN; 1100], 1100, 1);
        let queries = PackedQueries::new(set, &[3.0; 29], 29, 1);
        packed_row_statistics(&queries, &keys, &[1.0, -1.0, 0.0, 0.5], &mut workspace, &mut out);
        let k = normals::<f32>(45, 15);
        let keys = PackedKeys::new(set, &k, 45, 1);
        let queries = PackedQueries::new(set, &[3.0, -2.0], 2, 1);
        packed_row_statistics(&queries, &keys, &[1.0], &mut workspace, &mut out[..2]);
        assert_eq!(out[..2], statistics(set, &[3.0, -2.0], &k, 1, &[1.0]), "{set}");
    }
}

#[test]
fn a_power_of_two_between_factors_changes_the_larger_one_s_statistics_by_a_few_roundings_only() {
    let (q, k) = (normals::<f32>(17 * 64, 16), normals::<f32>(1500 * 64, 17));
    for set in InstructionSet::available() {
        for doublings in 1..=5 {
            let small = 0.5_f64.powi(doublings);
            let pair = statistics(set, &q, &k, 64, &[1.0, small]);
            let large_alone = statistics(set, &q, &k, 64, &[1.0]);
            let small_alone = statistics(set, &q, &k, 64, &[small]);
            let mut changed = 0;
            for row in 0..17 {
                assert_eq!(pair[2 * row + 1], small_alone[row], "{set}: the smaller one is computed as ever");
                let (found, expected) = (pair[2 * row], large_alone[row]);
                // 8 times 2.5ε of the exponential and 7 roundings are 27ε a weight, and 2.5ε where it is no square; twice
                // that in r₂, three times in r₃.
                let bound = 3.0 * (27.0 + 2.5) * 2_f64.powi(-24) * expected.jacobian_frobenius;
                assert_within(found.jacobian_frobenius, expected.jacobian_frobenius, bound, "Frobenius norm");
                changed += usize::from(found != expected);
            }
            // Squares they are for 2, 4 and 8, and exponentials of their own for 16 and 32.
            assert_eq!(changed > 0, doublings < 4, "{set}, {doublings} doublings");
        }
    }
}

#[test]
fn the_order_of_the_factors_does_not_matter() {
    let (q, k) = (normals::<f32>(3 * 5, 18), normals::<f32>(77 * 5, 19));
    for set in InstructionSet::available() {
        let one = statistics(set, &q, &k, 5, &[1.0, 0.125, -0.3]);
        let other = statistics(set, &q, &k, 5, &[-0.3, 0.125, 1.0]);
        for row in 0..3 {
            for factor in 0..3 {
                assert_eq!(one[3 * row + factor], other[3 * row + 2 - factor], "{set}");
            }
        }
    }
}

/// Whether a call panics.
fn refused(call: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    std::panic::catch_unwind(call).is_err()
}

#[test]
fn shapes_and_factors_that_do_not_fit_are_refused() {
    let set = InstructionSet::detect();
    let call = move |key_depth: usize, factors: &'static [f64], length: usize| {
        refused(move || {
            let keys = PackedKeys::new(set, &vec![1.0_f32; 3 * key_depth], 3, key_depth);
            let queries = PackedQueries::new(set, &[1.0_f32; 10], 2, 5);
            let mut out = vec![RowStatistics::default(); length];
            packed_row_statistics(&queries, &keys, factors, &mut SoftmaxWorkspace::new(), &mut out);
        })
    };
    assert!(!call(5, &[1.0, -2.0], 4));
    assert!(!call(5, &[], 0));
    assert!(call(4, &[1.0, -2.0], 4), "another depth");
    assert!(call(5, &[1.0, -2.0], 3), "a short output");
    assert!(call(5, &[1.0, -2.0], 5), "a long output");
    assert!(call(5, &[f64::NAN], 2), "NaN");
    assert!(call(5, &[1e60], 2), "a factor that f32 cannot hold");
    let of_logits = move |count: usize, length: usize| {
        refused(move || {
            let mut out = vec![RowStatistics::default(); length];
            let logits = vec![1.0f32; count];
            row_statistics_of_logits(set, &logits, 3, &[1.0, 2.0], &mut SoftmaxWorkspace::new(), &mut out);
        })
    };
    assert!(!of_logits(6, 4) && !of_logits(0, 0));
    assert!(of_logits(7, 4), "a part of a row");
    assert!(of_logits(6, 2), "a short output");
}
