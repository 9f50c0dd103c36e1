//! Streaming and materialised attention against exact fractions, against the definition in f64, and against each other, by
//! every instruction set of this machine.

use super::*;
use crate::attention::kernel::materialised_attention;
use crate::attention::{MaskKind, MaskRule, reference};
use nalgebra::DMatrix;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    Streaming,
    Materialised,
}

const METHODS: [Method; 2] = [Method::Streaming, Method::Materialised];

/// Q, K and V of one attention.
#[derive(Debug, Clone)]
struct Matrices<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    values: Vec<T>,
    shape: AttentionShape,
}

impl<T: Element> Matrices<T> {
    fn inputs(&self) -> AttentionInputs<'_, T> {
        AttentionInputs { queries: &self.queries, keys: &self.keys, values: &self.values, shape: self.shape }
    }

    fn random(n: usize, m: usize, d_k: usize, d_v: usize, seed: u64) -> Self {
        Self {
            queries: normals(n * d_k, seed),
            keys: normals(m * d_k, seed + 1),
            values: normals(m * d_v, seed + 2),
            shape: AttentionShape { queries: n, keys: m, d_k, d_v },
        }
    }

    /// Queries that are 1 and keys that are the logits.
    fn of_logits(n: usize, logits: &[f64], values: &[f64]) -> Self {
        let (m, d_v) = (logits.len(), values.len() / logits.len());
        Self {
            queries: convert(&vec![1.0; n]),
            keys: convert(logits),
            values: convert(values),
            shape: AttentionShape { queries: n, keys: m, d_k: 1, d_v },
        }
    }

    fn attend(&self, method: Method, set: InstructionSet, scale: f64, mask: Option<&Mask>) -> AttentionOutput<T> {
        match method {
            Method::Streaming => streaming_attention(set, self.inputs(), scale, mask, Threads::Caller),
            Method::Materialised => materialised_attention(set, self.inputs(), scale, mask, Threads::Caller),
        }
    }
}

/// About normal numbers of unit variance (sums of twelve uniform ones) with full mantissas, spread by a hash.
fn normals<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0xD1B5_4A32_D192_ED03);
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

fn to_f64<T: Element>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}

fn unit_roundoff<T>() -> f64 {
    if size_of::<T>() == 4 { 2_f64.powi(-24) } else { 2_f64.powi(-53) }
}

fn as_matrix<T: Element>(rows: &[T], width: usize) -> DMatrix<f64> {
    DMatrix::from_row_iterator(rows.len() / width, width, rows.iter().map(|x| x.to_f64()))
}

/// What the definition says, and how far a kernel in `T` may be from it.
struct Expected {
    output: Vec<f64>,
    output_bounds: Vec<f64>,
    log_partitions: Vec<f64>,
    log_partition_bounds: Vec<f64>,
    queries_without_keys: usize,
}

/// The definition in f64 with bounds on the distance of what either kernel computes in `T`, unit roundoff ε.
///
/// A scaled logit xⱼ is off by δⱼ ≤ (d + 3)ε·c Σ|q k|: d + 1 roundings of products and sums, one of c and one of c·q or c·x. Its
/// distance from the maximum is rounded (ε times the distance; where the maximum rises on the way, the distances add up to that from
/// the last), and each of at most K + 1 exponentials (K blocks, K rescalings) is good to 1.3 units in the last place, 2.6ε. So ln
/// wⱼ is off by eⱼ = δⱼ + ε(M − xⱼ + 2 max δ) + 2.6(K + 1)ε up to a constant that the quotient removes, and pⱼ relatively by
/// eⱼ + Σ p e up to second order, for which 1.1 stands. Both sums chain at most as many terms in `T` as there are keys in a block
/// (in all, materialised), one more rounding where products are rounded too; K rescalings round twice, the quotient
/// and the weights a few times: (2·terms + 2K + 6)ε. Weights below the normal numbers are dropped: the last term. The definition
/// itself is as far off with the roundoff of f64.
fn expected<T: Element>(matrices: &Matrices<T>, scale: f64, mask: Option<&Mask>, method: Method) -> Expected {
    let AttentionShape { queries: n, keys: m, d_k, d_v } = matrices.shape;
    let (q, k) = (as_matrix(&matrices.queries, d_k), as_matrix(&matrices.keys, d_k));
    let v = as_matrix(&matrices.values, d_v);
    let visible = mask.map(|mask| DMatrix::from_fn(n, m, |i, j| mask.is_visible(i, j)));
    let exact = reference::scaled_dot_product_attention(&q, &k, &v, scale, visible.as_ref());
    let logits = reference::logits(&q, &k, scale);
    let magnitudes = reference::logits(&q.abs(), &k.abs(), scale.abs());
    let blocks = m.div_ceil(T::BLOCK) as f64;
    let terms = if method == Method::Streaming { m.min(T::BLOCK) } else { m } as f64;
    let largest_value = v.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
    let (mut output_bounds, mut log_partitions, mut log_partition_bounds) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n {
        let seen: Vec<usize> = (0..m).filter(|&j| visible.as_ref().is_none_or(|visible| visible[(i, j)])).collect();
        let maximum = seen.iter().map(|&j| logits[(i, j)]).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = seen.iter().map(|&j| (logits[(i, j)] - maximum).exp()).sum();
        let p = |j: usize| exact.weights[(i, j)];
        let delta = |j: usize| (d_k as f64 + 3.0) * magnitudes[(i, j)];
        let largest = seen.iter().map(|&j| delta(j)).fold(0.0, f64::max);
        let error = |roundoff: f64, j: usize| {
            let distance = maximum - logits[(i, j)] + 2.0 * largest * roundoff;
            roundoff * (delta(j) + distance + 2.6 * (blocks + 1.0))
        };
        let both = |j: usize| error(unit_roundoff::<T>(), j) + error(unit_roundoff::<f64>(), j);
        let mean: f64 = seen.iter().map(|&j| p(j) * both(j)).sum();
        let sums = (2.0 * terms + 2.0 * blocks + 6.0) * unit_roundoff::<T>() + 2.0 * (m as f64 + 5.0) * 2_f64.powi(-53);
        let dropped = m as f64 * 3.0 * T::LEAST.to_f64().exp();
        for c in 0..d_v {
            let linear: f64 = seen.iter().map(|&j| p(j) * v[(j, c)].abs() * (both(j) + mean + sums)).sum();
            output_bounds.push(1.1 * linear + dropped * largest_value);
        }
        log_partitions.push(if seen.is_empty() { f64::NEG_INFINITY } else { maximum + sum.ln() });
        log_partition_bounds.push(1.1 * (mean + sums) + dropped + 2_f64.powi(-51) * (maximum.abs() + (m as f64).ln()));
    }
    Expected {
        output: exact.output.transpose().as_slice().to_vec(),
        output_bounds,
        log_partitions,
        log_partition_bounds,
        queries_without_keys: exact.queries_without_keys,
    }
}

/// |found − expected| ≤ bound for each, in a form that NaN fails; the largest share of the bound that is used.
fn assert_within(found: &[f64], expected: &[f64], bounds: &[f64], what: &str) -> f64 {
    assert_eq!((found.len(), bounds.len()), (expected.len(), expected.len()), "{what}");
    let mut worst = 0.0;
    for (index, ((found, expected), bound)) in found.iter().zip(expected).zip(bounds).enumerate() {
        if found == expected {
            continue; // −∞ also.
        }
        let error = (found - expected).abs();
        assert!(error <= *bound, "{what} [{index}]: {found:e} for {expected:e}, bound {bound:e}");
        worst = f64::max(worst, error / bound);
    }
    worst
}

/// Both methods by every instruction set against the definition.
fn check<T: Element>(matrices: &Matrices<T>, scale: f64, mask: Option<&Mask>) {
    for method in METHODS {
        let expected = expected(matrices, scale, mask, method);
        for set in InstructionSet::available() {
            let found = matrices.attend(method, set, scale, mask);
            let what = format!("{method:?} by {set}, {:?}, scale {scale}", matrices.shape);
            assert_within(&to_f64(&found.output), &expected.output, &expected.output_bounds, &what);
            let bounds = &expected.log_partition_bounds;
            assert_within(&found.log_partitions, &expected.log_partitions, bounds, &format!("ln Z of {what}"));
            assert_eq!(found.queries_without_keys, expected.queries_without_keys, "{what}");
        }
    }
}

/// Where logits are logarithms of whole numbers aⱼ, weights are aⱼ/Σa and outputs fractions. Every row under `mask`, both
/// methods, against the fractions.
///
/// A logit is the logarithm (off by one unit in the last place at most, 2ε, times ln 13) and times 1 exactly; with the distance from the
/// maximum rounded and two exponentials' 2.6ε, ln w is off by at most (3 ln 13 + 5.2)ε < 13ε, a quotient by twice
/// that and sums of 6 terms and a few roundings of at most 18ε: 44ε of Σ p|v|. Rounding V or the fraction: none, ε.
fn check_fractions<T: Element>(mask: &Mask, what: &str) {
    const WHOLE: [u32; 6] = [3, 1, 13, 2, 7, 5];
    const VALUES: [[i32; 2]; 6] = [[11, -3], [-17, 2], [5, 19], [23, -7], [-29, 13], [1, 31]];
    let m = mask.keys();
    let logits: Vec<f64> = WHOLE[..m].iter().map(|&a| f64::from(a).ln()).collect();
    let values: Vec<f64> = VALUES[..m].iter().flatten().map(|&v| f64::from(v)).collect();
    let matrices = Matrices::<T>::of_logits(mask.queries(), &logits, &values);
    for (method, set) in
        METHODS.into_iter().flat_map(|method| InstructionSet::available().map(move |set| (method, set)))
    {
        let found = matrices.attend(method, set, 1.0, Some(mask));
        let mut without = 0;
        for row in 0..mask.queries() {
            let seen = || (0..m).filter(|&key| mask.is_visible(row, key));
            let total: u32 = seen().map(|key| WHOLE[key]).sum();
            let what = format!("{what}, row {row}, {method:?} by {set}");
            if total == 0 {
                without += 1;
                assert_eq!(to_f64(&found.output[row * 2..row * 2 + 2]), [0.0; 2], "{what}");
                assert_eq!(found.log_partitions[row], f64::NEG_INFINITY, "{what}");
                continue;
            }
            for (column, found) in found.output[row * 2..row * 2 + 2].iter().enumerate() {
                let product = |key: usize| i64::from(WHOLE[key]) * i64::from(VALUES[key][column]);
                let expected = seen().map(product).sum::<i64>() as f64 / f64::from(total);
                let magnitude = seen().map(|key| product(key).abs()).sum::<i64>() as f64 / f64::from(total);
                let (found, bound) = (found.to_f64(), 46.0 * unit_roundoff::<T>() * magnitude);
                assert!((found - expected).abs() <= bound, "{what}: {found} for {expected}");
            }
            let (found, expected) = (found.log_partitions[row], f64::from(total).ln());
            let bound = 46.0 * unit_roundoff::<T>() + 4.0 * f64::EPSILON;
            assert!((found - expected).abs() <= bound, "{what}: ln Z {found} for {expected}");
        }
        assert_eq!(found.queries_without_keys, without, "{what}");
    }
}

#[test]
fn every_pattern_of_up_to_six_keys_gives_the_exact_fractions() {
    for m in 1..=6 {
        let n = 1 << m;
        let cells = (0..n).flat_map(|pattern| (0..m).map(move |key| pattern >> key & 1 == 1)).collect();
        let mask = Mask::from_cells(n, m, cells);
        check_fractions::<f32>(&mask, &format!("all patterns of {m}"));
        check_fractions::<f64>(&mask, &format!("all patterns of {m}"));
    }
}

#[test]
fn every_rule_at_up_to_six_queries_and_keys_gives_the_exact_fractions() {
    let mut count = 0;
    for (n, m) in (1..=6).flat_map(|n| (1..=6).map(move |m| (n, m))) {
        let mut kinds = vec![vec![MaskKind::Causal]];
        kinds.extend((1..=m).map(|keys| vec![MaskKind::Window { keys }]));
        kinds.extend((0..=m).map(|length| vec![MaskKind::Prefix { length }]));
        kinds.extend((0..=m).map(|length| vec![MaskKind::Padding { length }]));
        kinds.extend((0..=m).map(|length| vec![MaskKind::Causal, MaskKind::Padding { length }]));
        if n == m {
            kinds.extend((1..m).map(|first| vec![MaskKind::Documents { lengths: vec![first, m - first] }]));
        }
        for kinds in kinds {
            for alignment in [crate::attention::Alignment::TopLeft, crate::attention::Alignment::BottomRight] {
                let rule = MaskRule { kinds: kinds.clone(), alignment };
                let mask = rule.at(n, m).expect("fits");
                check_fractions::<f32>(&mask, &format!("{rule:?} at {n} x {m}"));
                check_fractions::<f64>(&mask, &format!("{rule:?} at {n} x {m}"));
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn outputs_follow_the_definition_at_every_hostile_size() {
    // Rows and columns around tiles, registers and panels; keys around one and two blocks.
    fn at<T: Element>() {
        let block = T::BLOCK;
        let keys = [1, 2, 7, 31, 33, block - 1, block, block + 1, 2 * block - 1, 2 * block, 2 * block + 1];
        let widths = [(1, 1), (3, 2), (2, 7), (5, 15), (7, 17), (1, 31), (11, 33), (13, 65), (3, 5)];
        let rows = [1, 2, 3, 5, 7, 13, 15, 29, 4];
        for (index, &m) in keys.iter().enumerate() {
            for shift in 0..3 {
                let (d_k, d_v) = widths[(index * 3 + shift) % widths.len()];
                let n = rows[(index + shift) % rows.len()];
                check(&Matrices::<T>::random(n, m, d_k, d_v, (index * 10 + shift) as u64), 0.7, None);
            }
        }
        // More than one block of rows.
        for n in [112, 113, 227] {
            check(&Matrices::<T>::random(n, 37, 3, 5, n as u64), 1.0, None);
        }
    }
    at::<f32>();
    at::<f64>();
}

#[test]
fn outputs_under_masks_follow_the_definition_across_blocks() {
    fn at<T: Element>(size: usize) {
        let matrices = Matrices::<T>::random(size, size, 3, 2, 5);
        let near = T::BLOCK + 1;
        for rule in ["causal", "window:1", "window:37", "prefix:71", "causal+padding:33"] {
            let mask = rule.parse::<MaskRule>().and_then(|rule| rule.at(size, size)).expect("fits");
            check(&matrices, 0.5, Some(&mask));
        }
        let mask = MaskRule {
            kinds: vec![MaskKind::Documents { lengths: vec![near, size - near] }],
            alignment: crate::attention::Alignment::TopLeft,
        };
        check(&matrices, 0.5, Some(&mask.at(size, size).expect("fits")));
        let mask = "causal@bottom-right".parse::<MaskRule>().and_then(|rule| rule.at(17, size)).expect("fits");
        check(&Matrices::<T>::random(17, size, 3, 2, 6), 0.5, Some(&mask));
    }
    at::<f32>(531);
    at::<f64>(277);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn outputs_follow_the_definition_at_random_sizes_and_masks(
        n in 1_usize..40, m in 1_usize..1100, d_k in 1_usize..40, d_v in 1_usize..70, seed in 0_u64..1000, scale in -1.5_f64..1.5,
        share in 0_u64..9,
    ) {
        let draws = normals::<f64>(n * m, seed + 9);
        let cells = draws.iter().map(|x| x.to_bits() >> 3 & 7 < share).collect();
        let mask = Mask::from_cells(n, m, cells);
        check(&Matrices::<f32>::random(n, m, d_k, d_v, seed), scale, Some(&mask));
        check(&Matrices::<f64>::random(n, m, d_k, d_v, seed), scale, Some(&mask));
    }
}

#[test]
fn logits_that_rise_from_block_to_block_rescale_what_was_summed() {
    // Logits ln 1 to ln m in order: weights j/(m(m+1)/2). With values j the output is Σj²/Σj = (2m+1)/3.
    fn at<T: Element>(m: usize) {
        for descending in [false, true] {
            let whole: Vec<f64> = (1..=m).map(|j| if descending { m + 1 - j } else { j } as f64).collect();
            let logits: Vec<f64> = whole.iter().map(|x| x.ln()).collect();
            let matrices = Matrices::<T>::of_logits(3, &logits, &whole);
            check(&matrices, 1.0, None);
            for set in InstructionSet::available() {
                let found = matrices.attend(Method::Streaming, set, 1.0, None);
                let expected = (2.0 * m as f64 + 1.0) / 3.0;
                // As in `expected`, from the logits rounded once, 2ε ln m, to sums of a block.
                let bound = expected * unit_roundoff::<T>() * (2.0 * T::BLOCK as f64 + 100.0);
                assert!((found.output[0].to_f64() - expected).abs() <= bound, "{set}: {:?}", found.output);
            }
        }
    }
    at::<f32>(4 * 512 + 3);
    at::<f64>(4 * 256 + 3);
}

#[test]
fn huge_logits_of_either_sign_leave_a_clean_softmax() {
    for set in InstructionSet::available() {
        for method in METHODS {
            for sign in [1.0, -1.0] {
                // Apart by ln 3 to half a unit in the last place of 10⁴ in f32, 2⁻¹¹: the weight is off by p(1−p)·2⁻¹¹ at most.
                let logits = [1e4 * sign, 1e4 * sign - 3_f64.ln(), -3e4];
                let matrices = Matrices::<f32>::of_logits(1, &logits, &[8.0, 4.0, 1e30]);
                let found = matrices.attend(method, set, 1.0, None);
                let output = f64::from(found.output[0]);
                assert!((output - 7.0).abs() <= 4.0 * 0.1875 * 2_f64.powi(-11) + 1e-5, "{method:?} by {set}: {output}");
                assert!((found.log_partitions[0] - (sign * 1e4 + (4.0_f64 / 3.0).ln())).abs() < 1e-3);
            }
            // One key far below all: a maximum that starts at 0 would leave nothing.
            let found = Matrices::<f32>::of_logits(1, &[-1e4], &[5.0]).attend(method, set, 1.0, None);
            assert_eq!((found.output[0], found.log_partitions[0]), (5.0, -1e4), "{method:?} by {set}");
        }
    }
}

#[test]
fn logits_of_minus_infinity_weigh_nothing_and_nan_and_infinity_show() {
    let lowest = f64::NEG_INFINITY;
    for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
        let attend = |logits: &[f64], values: &[f64]| {
            let found = Matrices::<f32>::of_logits(2, logits, values).attend(method, set, 1.0, None);
            (f64::from(found.output[1]), found.log_partitions[1], found.queries_without_keys)
        };
        let what = format!("{method:?} by {set}");
        assert_eq!(attend(&[lowest, 0.0, lowest], &[7.0, 3.0, 9.0]), (3.0, 0.0, 0), "{what}");
        assert_eq!(attend(&[lowest, lowest], &[7.0, 3.0]), (0.0, lowest, 2), "{what}");
        // In a later block, and in an earlier one.
        for place in [0, 3, 600, 1300] {
            let mut logits = vec![lowest; 1301];
            let values: Vec<f64> = (0..1301).map(f64::from).collect();
            logits[place] = -5.0;
            assert_eq!(attend(&logits, &values), (place as f64, -5.0, 0), "{what}");
            for fault in [f64::NAN, f64::INFINITY] {
                logits[place] = fault;
                for other in [lowest, 0.0, 1.0] {
                    logits[650] = if place == 650 { fault } else { other };
                    let (output, log_partition, without) = attend(&logits, &values);
                    assert!(output.is_nan() && log_partition.is_nan(), "{what}: {fault} at {place} gives {output}");
                    assert_eq!(without, 0, "{what}");
                }
                logits[650] = lowest;
            }
        }
    }
}

/// Every number of a hidden key and its value replaced.
fn plant<T: Element>(matrices: &Matrices<T>, hidden: &[usize], planted: f64) -> Matrices<T> {
    let mut matrices = matrices.clone();
    let AttentionShape { d_k, d_v, .. } = matrices.shape;
    for &key in hidden {
        matrices.keys[key * d_k..(key + 1) * d_k].fill(T::from_f64(planted));
        matrices.values[key * d_v..(key + 1) * d_v].fill(T::from_f64(planted));
    }
    matrices
}

#[test]
fn what_hidden_keys_and_values_hold_changes_no_bit() {
    let (n, m) = (19, 1201);
    let hidden: Vec<usize> = (0..m).filter(|key| key * key % 7 == 2 || *key > 1100).collect();
    let cells = (0..n * m).map(|cell| !hidden.contains(&(cell % m))).collect();
    let by_cells = Mask::from_cells(n, m, cells);
    let by_range = MaskRule { kinds: vec![MaskKind::Padding { length: 533 }], alignment: Default::default() };
    let by_range = by_range.at(n, m).expect("fits");
    let clean = Matrices::<f32>::random(n, m, 5, 3, 3);
    for (mask, hidden) in [(by_cells, hidden), (by_range, (533..m).collect())] {
        for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
            let expected = plant(&clean, &hidden, 0.0).attend(method, set, 0.4, Some(&mask));
            assert!(expected.output.iter().all(|x| x.is_finite()));
            for planted in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MAX), 1e30] {
                let found = plant(&clean, &hidden, planted).attend(method, set, 0.4, Some(&mask));
                assert_eq!(found, expected, "{planted} hidden, {method:?} by {set}");
            }
        }
    }
}

#[test]
fn values_that_are_not_finite_show_in_the_rows_that_see_them_and_in_no_other() {
    let (n, m) = (37, 700);
    let mask = "causal@bottom-right".parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
    let clean = Matrices::<f32>::random(n, m, 3, 5, 8);
    for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
        let before = clean.attend(method, set, 1.0, Some(&mask));
        for planted in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (key, column) = (680, 3);
            let mut planted_in = clean.clone();
            planted_in.values[key * 5 + column] = planted;
            let found = planted_in.attend(method, set, 1.0, Some(&mask));
            for (index, (found, before)) in found.output.iter().zip(&before.output).enumerate() {
                let (row, at) = (index / 5, index % 5);
                let what = format!("{planted} seen from row {row}, column {at}, {method:?} by {set}");
                if at == column && mask.is_visible(row, key) {
                    assert!(*found == planted || found.is_nan() && planted.is_nan(), "{what}: {found}");
                } else {
                    assert_eq!(found, before, "{what}");
                }
            }
        }
    }
}

#[test]
fn the_output_is_linear_in_the_values() {
    let (first, second) = (Matrices::<f32>::random(23, 1031, 5, 7, 11), Matrices::<f32>::random(23, 1031, 5, 7, 12));
    let with = |values: Vec<f32>| Matrices { values, ..first.clone() };
    let combine =
        |a: f32, b: f32| first.values.iter().zip(&second.values).map(|(x, y)| a * x + b * y).collect::<Vec<_>>();
    for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
        let attend = |matrices: &Matrices<f32>| to_f64(&matrices.attend(method, set, 0.5, None).output);
        // Powers of two: to the bit.
        let doubled: Vec<f64> = attend(&first).iter().map(|x| -4.0 * x).collect();
        assert_eq!(attend(&with(combine(-4.0, 0.0))), doubled, "{method:?} by {set}");
        let sum = with(combine(1.0, 1.0));
        let (one, other) = (attend(&first), attend(&with(second.values.clone())));
        let added: Vec<f64> = one.iter().zip(&other).map(|(x, y)| x + y).collect();
        // Each of the three may be as far off as its bound; V₁ + V₂ was rounded once more.
        let bounds = [&sum, &first, &with(second.values.clone())].map(|matrices| expected(matrices, 0.5, None, method));
        let bounds: Vec<f64> = (0..added.len())
            .map(|i| bounds.iter().map(|expected| expected.output_bounds[i]).sum::<f64>() * 1.01)
            .collect();
        assert_within(&attend(&sum), &added, &bounds, "V₁ + V₂");
    }
}

#[test]
fn permuted_queries_permute_the_rows_and_permuted_keys_change_nothing() {
    let (n, m, d_k, d_v) = (29, 1031, 5, 7);
    let matrices = Matrices::<f32>::random(n, m, d_k, d_v, 21);
    fn permuted<T: Copy>(rows: &[T], width: usize, step: usize) -> Vec<T> {
        let count = rows.len() / width;
        (0..count).flat_map(|row| rows[row * step % count * width..][..width].to_vec()).collect()
    }
    let queries = Matrices { queries: permuted(&matrices.queries, d_k, 12), ..matrices.clone() };
    let (keys, values) = (permuted(&matrices.keys, d_k, 100), permuted(&matrices.values, d_v, 100));
    let keys = Matrices { keys, values, ..matrices.clone() };
    for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
        let plain = matrices.attend(method, set, 0.5, None);
        let by_queries = queries.attend(method, set, 0.5, None);
        assert_eq!(by_queries.output, permuted(&plain.output, d_v, 12), "{method:?} by {set}");
        let found = keys.attend(method, set, 0.5, None);
        let expected = expected(&matrices, 0.5, None, method);
        let bounds: Vec<f64> = expected.output_bounds.iter().map(|bound| 2.0 * bound).collect();
        assert_within(&to_f64(&found.output), &to_f64(&plain.output), &bounds, "permuted keys");
    }
}

#[test]
fn no_number_of_threads_changes_a_bit() {
    let (n, m) = (347, 613);
    let matrices = Matrices::<f32>::random(n, m, 5, 33, 31);
    let causal = "causal".parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
    for mask in [None, Some(&causal)] {
        for method in METHODS {
            let set = InstructionSet::detect();
            let expected = matrices.attend(method, set, 0.5, mask);
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let inputs = matrices.inputs();
                let found = pool.install(|| match method {
                    Method::Streaming => streaming_attention(set, inputs, 0.5, mask, Threads::Pool),
                    Method::Materialised => materialised_attention(set, inputs, 0.5, mask, Threads::Pool),
                });
                assert_eq!(found, expected, "{method:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn a_workspace_used_again_for_other_sizes_leaves_nothing_behind() {
    for set in InstructionSet::available() {
        let (mut workspace, mut result) = (StreamingWorkspace::new(set), AttentionOutput::default());
        for (n, m, d_k, d_v) in [(61, 1100, 7, 40), (1, 1, 1, 1), (13, 33, 5, 3), (150, 515, 2, 65)] {
            let matrices = Matrices::<f32>::random(n, m, d_k, d_v, 41);
            streaming_attention_into(matrices.inputs(), 0.5, None, Threads::Caller, &mut workspace, &mut result);
            assert_eq!(result, matrices.attend(Method::Streaming, set, 0.5, None), "{set}");
        }
    }
}

#[test]
fn no_query_and_no_key_are_attentions_too() {
    for (set, method) in InstructionSet::available().flat_map(|set| METHODS.map(|method| (set, method))) {
        let found = Matrices::<f64>::random(3, 0, 5, 2, 1).attend(method, set, 1.0, None);
        assert_eq!(found.output, [0.0; 6]);
        assert_eq!((found.log_partitions, found.queries_without_keys), (vec![f64::NEG_INFINITY; 3], 3));
        let found = Matrices::<f64>::random(0, 3, 5, 2, 1).attend(method, set, 1.0, None);
        assert_eq!(found, AttentionOutput::default());
    }
}

#[test]
#[should_panic(expected = "the mask is not queries by keys")]
fn a_mask_of_other_sizes_is_refused() {
    let mask = Mask::all_visible(3, 5);
    Matrices::<f32>::random(5, 3, 2, 2, 1).attend(Method::Streaming, InstructionSet::Portable, 1.0, Some(&mask));
}

#[test]
#[should_panic(expected = "the values are not 3 x 2")]
fn values_of_another_length_are_refused() {
    let mut matrices = Matrices::<f32>::random(5, 3, 2, 2, 1);
    matrices.values.pop();
    matrices.attend(Method::Streaming, InstructionSet::Portable, 1.0, None);
}
