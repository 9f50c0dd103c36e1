//! Every inner loop alone, by every instruction set of this machine, against its twin in plain Rust or against one
//! number at a time, on random and on hostile sizes and numbers. Where a loop writes, what lies behind its end must stay as it was.

use super::attention_loops::{MOST_ROWS, Running};
use super::row_sums::{MOST_DOUBLINGS, Rates, WeightSums};
use super::weighted_values::Product;
use super::*;

/// Empty, one, and around one and two registers of every instruction set, around blocks, and primes.
const LENGTHS: [usize; 26] =
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47, 61, 63, 64, 65, 97, 255, 257, 511, 513];

/// 64 bits that look random, one after the other, from a seed (SplitMix64; Steele, Lea and Flood, 2014).
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// From −1 to 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 2_f64.powi(52) - 1.0
    }
}

/// The hostile lengths, and random ones; fewer where an interpreter runs the tests.
fn lengths(words: &mut Words) -> Vec<usize> {
    let random = (0..if cfg!(miri) { 2 } else { 40 }).map(|_| words.below(if cfg!(miri) { 150 } else { 700 }));
    LENGTHS.into_iter().filter(|length| !cfg!(miri) || *length < 100).chain(random).collect()
}

/// What the tests need to know of f32 and f64 beside their kernels.
trait Number: Element {
    const HUGE: f64;
    const LEAST_SUBNORMAL: f64;
    const ROUNDOFF: f64;

    fn fused(self, factor: Self, term: Self) -> Self;
    fn bits(self) -> u64;
}

macro_rules! number {
    ($element:ident, $roundoff:expr, $subnormal:expr) => {
        impl Number for $element {
            const HUGE: f64 = $element::MAX as f64;
            const LEAST_SUBNORMAL: f64 = $subnormal;
            const ROUNDOFF: f64 = $roundoff;

            fn fused(self, factor: Self, term: Self) -> Self {
                // Fused by definition, with or without the instruction.
                self.mul_add(factor, term)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
        }
    };
}

number!(f32, 1.0 / (1_u64 << 24) as f64, f32::from_bits(1) as f64);
number!(f64, 1.0 / (1_u64 << 53) as f64, 5e-324);

/// The same bits, where any NaN is as good as any other.
fn same<T: Number>(a: T, b: T) -> bool {
    a.bits() == b.bits() || a.to_f64().is_nan() && b.to_f64().is_nan()
}

fn all_same<T: Number>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| same(a, b))
}

/// a · b + c in one rounding or in two, as the instruction set does it.
fn step<T: Number>(set: InstructionSet, a: T, b: T, c: T) -> T {
    if set == InstructionSet::Portable { a * b + c } else { a.fused(b, c) }
}

/// How bad the numbers of a case are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hostility {
    /// Zeros of both signs, subnormal numbers, and sizes of 2⁻⁴⁰ to 2⁴⁰.
    Finite,
    /// And the largest numbers.
    Huge,
    /// And infinities and NaN, one in sixteen.
    NotFinite,
}

const HOSTILITIES: [Hostility; 3] = [Hostility::Finite, Hostility::Huge, Hostility::NotFinite];

fn hostile<T: Number>(count: usize, hostility: Hostility, words: &mut Words) -> Vec<T> {
    let mut one = || {
        let number = words.uniform();
        match (words.below(16), hostility) {
            (0, _) => 0.0,
            (1, _) => -0.0,
            (2, _) => T::LEAST_SUBNORMAL * (number * 1000.0).round(),
            (3, _) => number * 2_f64.powi(-40),
            (4, _) => number * 2_f64.powi(40),
            (5, Hostility::Huge | Hostility::NotFinite) => number.signum() * T::HUGE,
            (6, Hostility::Huge | Hostility::NotFinite) => number * T::HUGE,
            (7, Hostility::NotFinite) => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][words.below(3)],
            _ => number * 8.0,
        }
    };
    (0..count).map(|_| T::from_f64(one())).collect()
}

/// Runs the test in both element types.
macro_rules! in_both_types {
    ($check:ident) => {
        $check::<f32>();
        $check::<f64>();
    };
}

#[test]
fn the_largest_logit_and_nan_are_found_wherever_they_stand() {
    fn check<T: Number>() {
        let mut words = Words(1);
        for length in lengths(&mut words) {
            for hostility in HOSTILITIES {
                let logits: Vec<T> = hostile(length, hostility, &mut words);
                let lowest = T::from_f64(f64::NEG_INFINITY);
                let largest = logits.iter().fold(lowest, |a, &b| if b > a { b } else { a });
                let any_nan = logits.iter().any(|x| x.to_f64().is_nan());
                for set in InstructionSet::available() {
                    assert_eq!(T::survey_logits(set, &logits), (largest, any_nan), "{set}, {length} {hostility:?}");
                }
            }
            // One alone, in each place.
            for place in 0..length.min(70) {
                let mut logits = vec![T::from_f64(-3.0); length];
                logits[place] = T::from_f64(f64::NAN);
                for set in InstructionSet::available() {
                    assert!(T::survey_logits(set, &logits).1, "{set}: NaN at {place} of {length}");
                }
                logits[place] = T::from_f64(-2.5);
                for set in InstructionSet::available() {
                    assert_eq!(T::survey_logits(set, &logits), (logits[place], false), "{set}: {place} of {length}");
                }
            }
        }
    }
    in_both_types!(check);
}

/// e^(x − reference) to the accuracy that the kernels promise, 1.3 units in the last place, and 1 or so of the platform's: 2.6ε and 2ε. NaN
/// and what is below the normal numbers are 0; at the edge either.
fn assert_weight<T: Number>(found: T, logit: T, reference: T, what: &str) {
    let distance = (logit + -reference).to_f64();
    let exact = if distance.is_nan() { 0.0 } else { distance.exp() };
    let least = T::LEAST.to_f64();
    if distance.is_nan() || distance < least * (1.0 + 2.0 * T::ROUNDOFF) {
        assert_eq!(found.to_f64(), 0.0, "{what}: weight of {distance}");
    } else {
        let error = (found.to_f64() - exact).abs();
        assert!(error <= 4.6 * T::ROUNDOFF * exact, "{what}: {} for e^{distance}", found.to_f64());
    }
}

#[test]
fn weights_of_hostile_logits_are_the_exponentials_and_nothing_behind_them_changes() {
    fn check<T: Number>() {
        let mut words = Words(2);
        for length in lengths(&mut words) {
            for hostility in HOSTILITIES {
                let mut logits: Vec<T> = hostile(length, hostility, &mut words);
                // Up to the reference, and many near it; infinity is no logit that is weighed.
                let reference = T::from_f64(5.0);
                for logit in &mut logits {
                    if *logit > reference {
                        *logit = -*logit + reference;
                    }
                }
                let canary = T::from_f64(-7.25);
                for set in InstructionSet::available() {
                    let what = format!("{set}, {length} {hostility:?}");
                    let mut found = logits.clone();
                    found.resize(length + 40, canary);
                    let sum = T::weigh_logits(set, &mut found[..length], reference);
                    for (&found, &logit) in found.iter().zip(&logits) {
                        assert_weight(found, logit, reference, &what);
                    }
                    assert!(found[length..].iter().all(|&x| x == canary), "{what}: written behind the end");
                    // Positive terms, at most as many additions as there are.
                    let exact: f64 = found[..length].iter().map(|x| x.to_f64()).sum();
                    assert!((sum - exact).abs() <= length as f64 * T::ROUNDOFF * exact, "{what}: {sum} for {exact}");
                    let mut exponentials: Vec<T> = logits.iter().map(|&x| x + -reference).collect();
                    super::exponentials(set, &mut exponentials);
                    assert_eq!(exponentials, found[..length], "{what}: e^z is the same in both loops");
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn products_with_a_factor_are_those_of_single_numbers_to_the_bit() {
    fn check<T: Number>() {
        let mut words = Words(3);
        for length in lengths(&mut words) {
            for hostility in HOSTILITIES {
                let numbers: Vec<T> = hostile(length, hostility, &mut words);
                for factor in hostile::<T>(3, hostility, &mut words) {
                    let mut expected: Vec<T> = numbers.iter().map(|&x| x * factor).collect();
                    expected.resize(length + 40, T::from_f64(0.25));
                    for set in InstructionSet::available() {
                        let mut found = numbers.clone();
                        found.resize(length + 40, T::from_f64(0.25));
                        T::multiply(set, &mut found[..length], factor);
                        assert!(all_same(&found, &expected), "{set}, {length} {hostility:?} times {}", factor.to_f64());
                    }
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn weighted_values_are_chains_of_single_steps_to_the_bit() {
    fn check<T: Number>() {
        let mut words = Words(4);
        for set in InstructionSet::available() {
            let tile = T::tile(set);
            for rows in 1..=tile.rows {
                for keys in [1, 2, 3, 7, 13, T::BLOCK - 1, T::BLOCK] {
                    if cfg!(miri) && keys > 13 {
                        continue;
                    }
                    let hostility = HOSTILITIES[words.below(3)];
                    // Cut to the last weight, value and sum that may be touched.
                    let weights: Vec<T> = hostile((rows - 1) * T::STRIDE + keys, hostility, &mut words);
                    let values: Vec<T> = hostile(keys * tile.columns, hostility, &mut words);
                    let before: Vec<T> = hostile(rows * tile.columns + 40, hostility, &mut words);
                    let mut factors = [T::ZERO; MOST_ROWS];
                    factors.copy_from_slice(&hostile(MOST_ROWS, hostility, &mut words));
                    let mut expected = before.clone();
                    for (index, out) in expected[..rows * tile.columns].iter_mut().enumerate() {
                        let (row, column) = (index / tile.columns, index % tile.columns);
                        let sum = (0..keys).fold(T::ZERO, |sum, key| {
                            step(set, weights[row * T::STRIDE + key], values[key * tile.columns + column], sum)
                        });
                        *out = step(set, *out, factors[row], sum);
                    }
                    let mut found = before.clone();
                    let product = Product { weights: &weights, rows, values: &values, keys };
                    T::accumulate(set, product, &factors, &mut found);
                    assert!(all_same(&found, &expected), "{set}, {rows} rows, {keys} keys, {hostility:?}");
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn tiles_of_weights_carry_maxima_and_sums_from_block_to_block() {
    fn check<T: Number>() {
        let mut words = Words(5);
        let lowest = T::from_f64(f64::NEG_INFINITY);
        for set in InstructionSet::available() {
            let tile = T::tile(set);
            for rows in 1..=tile.rows {
                let columns = tile.columns * (1 + words.below(if cfg!(miri) { 2 } else { T::BLOCK / tile.columns }));
                let hostility = HOSTILITIES[words.below(3)];
                let mut running: Vec<_> = (0..rows).map(|_| Running { maximum: lowest, sum: 0.0 }).collect();
                if rows > 1 {
                    running[rows / 2] = Running { maximum: T::from_f64(4.0), sum: 1.5 };
                }
                for block in 0..3 {
                    let what = format!("{set}, row of {rows}, {columns} columns, {hostility:?}, block {block}");
                    let mut logits: Vec<T> = hostile(rows * T::STRIDE, hostility, &mut words);
                    for logit in logits.iter_mut().filter(|logit| logit.to_f64() == f64::INFINITY) {
                        *logit = T::ZERO; // Where +∞ is the maximum the row is made NaN afterwards.
                    }
                    if block == 1 {
                        logits[..T::STRIDE].fill(lowest); // A row of which nothing is seen.
                    }
                    let (mut found, before) = (logits.clone(), running.clone());
                    let mut factors = [T::ZERO; MOST_ROWS];
                    T::weigh_tile(set, &mut found, columns, &mut running, &mut factors);
                    for row in 0..rows {
                        let line = row * T::STRIDE..row * T::STRIDE + columns;
                        let largest =
                            logits[line.clone()].iter().fold(before[row].maximum, |a, &b| if b > a { b } else { a });
                        assert_eq!(running[row].maximum, largest, "{what}");
                        let reference = if largest == lowest { T::ZERO } else { largest };
                        for (&found, &logit) in found[line.clone()].iter().zip(&logits[line.clone()]) {
                            assert_weight(found, logit, reference, &what);
                        }
                        let rest = line.end..(row + 1) * T::STRIDE;
                        assert!(all_same(&found[rest.clone()], &logits[rest]), "{what}: written behind the columns");
                        assert_weight(factors[row], before[row].maximum, reference, &what);
                        let terms: f64 = found[line.clone()].iter().map(|x| x.to_f64()).sum();
                        let exact = before[row].sum * factors[row].to_f64() + terms;
                        if before[row].sum.is_nan() || logits[line].iter().any(|x| x.to_f64().is_nan()) {
                            assert!(running[row].sum.is_nan(), "{what}");
                        } else {
                            let bound = (columns + 1) as f64 * T::ROUNDOFF * exact;
                            assert!((running[row].sum - exact).abs() <= bound, "{what}: {running:?} for {exact}");
                        }
                    }
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn surveys_of_rows_are_those_of_single_numbers() {
    fn check<T: Number>() {
        let mut words = Words(6);
        for length in lengths(&mut words) {
            for hostility in [Hostility::Finite, Hostility::NotFinite] {
                let mut row: Vec<T> = hostile(length, hostility, &mut words);
                // No square and no sum of squares beyond the numbers.
                for x in row.iter_mut().filter(|x| x.to_f64().abs() > 1e13 && x.to_f64().is_finite()) {
                    *x = T::ZERO;
                }
                let numbers = || row.iter().map(|x| x.to_f64());
                let (sum, squares): (f64, f64) = (numbers().sum(), numbers().map(|x| x * x).sum());
                for set in InstructionSet::available() {
                    let found = T::survey(set, &row);
                    let what = format!("{set}, {length} {hostility:?}: {found:?}");
                    if numbers().all(f64::is_finite) {
                        // Roundings of sums and squares, and squares that are subnormal lose 2⁻¹⁴⁹ each.
                        let factor = (length as f64 + 1.0) * T::ROUNDOFF;
                        let size: f64 = numbers().map(f64::abs).sum();
                        assert!((found.sum - sum).abs() <= factor * size, "{what}");
                        assert!((found.square_sum - squares).abs() <= factor * squares + 1e-40, "{what}");
                        let largest = numbers().fold(f64::NEG_INFINITY, f64::max);
                        assert_eq!(found.maximum.to_f64(), largest, "{what}");
                        let smallest = numbers().fold(f64::INFINITY, f64::min);
                        assert_eq!(found.minimum.to_f64(), smallest, "{what}");
                    } else {
                        // Infinities of both signs are NaN in the sum and infinite in the squares.
                        assert!(found.sum == sum || found.sum.is_nan() && sum.is_nan(), "{what} {sum}");
                        let squares_are_nan = found.square_sum.is_nan() && squares.is_nan();
                        assert!(found.square_sum == squares || squares_are_nan, "{what} {squares}");
                    }
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn the_first_place_of_a_number_is_found_and_that_of_nan_never() {
    fn check<T: Number>() {
        let mut words = Words(7);
        for length in lengths(&mut words) {
            let row: Vec<T> = hostile(length, Hostility::NotFinite, &mut words);
            let sought = (0..length.min(70)).map(|place| row[place]).chain([T::from_f64(1e9), T::ZERO]);
            for value in sought.chain([T::from_f64(f64::NAN)]) {
                let expected = row.iter().position(|&x| x == value);
                for set in InstructionSet::available() {
                    assert_eq!(T::find(set, &row, value), expected, "{set}, {} in {length}", value.to_f64());
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn sums_over_weights_are_those_of_the_definition_on_hostile_rows() {
    fn check<T: Number>() {
        let mut words = Words(8);
        for lines in [1, 2, 3, 4, 5, 17, 31] {
            if cfg!(miri) && lines > 5 {
                continue;
            }
            let length = lines * T::MOST_LANES;
            for doublings in 0..=MOST_DOUBLINGS {
                let reference = T::from_f64(3.0);
                let mut row: Vec<T> = hostile(length, Hostility::Finite, &mut words);
                for x in row.iter_mut().filter(|x| **x > reference) {
                    *x = reference;
                }
                let last = words.below(length);
                row[last..].fill(T::ABSENT);
                let rate = T::from_f64([1.0, 0.125, 0.3, 3.0][words.below(4)]);
                for set in InstructionSet::available() {
                    let found = T::weigh(set, &row, reference, &Rates::new(rate, doublings), false);
                    for (power, found) in found.iter().enumerate().take(if doublings > 0 { 2 } else { 1 }) {
                        let rate = rate.to_f64() * 2_f64.powi(if power == 1 { doublings as i32 } else { 0 });
                        let terms = row.iter().map(|x| x.to_f64() - 3.0).filter(|delta| delta * rate > -2000.0);
                        let terms: Vec<(f64, f64)> = terms.map(|delta| ((rate * delta).exp(), delta)).collect();
                        let sum = |term: &dyn Fn(f64, f64) -> f64| terms.iter().map(|&(w, d)| term(w, d)).sum::<f64>();
                        let what = format!("{set}, {length}, rate {rate}, doublings {doublings}: {found:?}");
                        // A weight is off by (2|rate·Δ| + 27)ε (softmax_tests), a sum by at most ε a term, all less than doubled;
                        // weights and products below the normal numbers are left out, and the starts are taken off again.
                        let left_out = length as f64 * 2_f64.powi(-100);
                        for (found, exponent) in [(found.first, 1), (found.second, 2), (found.third, 3)] {
                            let exact = sum(&|w, _| w.powi(exponent));
                            let bound = f64::from(exponent)
                                * sum(&|w, d| {
                                    let roundings = 2.0 * (rate * d).abs() + 29.0 + length as f64;
                                    w.powi(exponent) * roundings * T::ROUNDOFF
                                });
                            assert!((found - exact).abs() <= 1.01 * bound + left_out, "{what}: {exact} ^{exponent}");
                        }
                        if power == 0 {
                            let exact = sum(&|w, d| w * d);
                            let bound = sum(&|w, d| {
                                w * d.abs() * (2.0 * (rate * d).abs() + 29.0 + length as f64) * T::ROUNDOFF
                            });
                            assert!((found.moment - exact).abs() <= 1.01 * bound + left_out, "{what}: moment {exact}");
                        }
                    }
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn mild_rows_are_weighed_with_less_work_to_the_same_bits() {
    fn check<T: Number>() {
        let mut words = Words(10);
        for columns in [2, 3, 4, 5, 9, 17].map(|lines| lines * T::MOST_LANES - usize::from(lines > 2)) {
            for rate in [1.0, 0.125, 0.3, 2.0_f64.powi(-16), 2.0_f64.powi(-17), 65536.0, 131_072.0] {
                for doublings in 0..=MOST_DOUBLINGS {
                    let rates = Rates::new(T::from_f64(rate), doublings);
                    let reference = T::from_f64(words.uniform());
                    let depth = if size_of::<T>() == 4 { 87.3 } else { 708.3 } / (8.0 * rate);
                    let mut mild = vec![T::ZERO; columns.next_multiple_of(T::MOST_LANES)];
                    for x in &mut mild[..columns] {
                        *x = T::from_f64(reference.to_f64() - 0.999 * depth * words.uniform().abs());
                    }
                    let smallest = mild[..columns].iter().map(|x| x.to_f64()).fold(f64::INFINITY, f64::min);
                    let is_mild = |columns, lowest: f64| rates.is_mild(columns, T::from_f64(lowest), reference);
                    assert!(is_mild(columns, smallest), "{columns}, rate {rate}");
                    assert!(!is_mild(columns, reference.to_f64() - 1.01 * depth), "{columns}, rate {rate}");
                    assert!(!is_mild(2 * T::MOST_LANES - 1, smallest) && !is_mild(columns, f64::NAN));
                    let place = words.below(columns);
                    let mut guarded = mild.clone();
                    for (row, absent) in [(&mut mild, rates.negligible(reference)), (&mut guarded, T::ABSENT)] {
                        row[columns..].fill(absent);
                        row[place] = absent;
                    }
                    for set in InstructionSet::available() {
                        let found = T::weigh(set, &mild, reference, &rates, true);
                        let expected = T::weigh(set, &guarded, reference, &rates, false);
                        let what = format!("{set}, {columns} columns, rate {rate}, doublings {doublings}");
                        for (found, expected) in found.iter().zip(&expected).take(if doublings > 0 { 2 } else { 1 }) {
                            let bits = |sums: &WeightSums| {
                                [sums.first, sums.second, sums.third, sums.moment].map(f64::to_bits)
                            };
                            assert_eq!(bits(found), bits(expected), "{what}: {found:?} {expected:?}");
                        }
                    }
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn sums_over_pairs_have_the_same_bits_on_hostile_pairs() {
    fn check<T: Number>() {
        let mut words = Words(9);
        for length in lengths(&mut words) {
            for hostility in HOSTILITIES {
                let x: Vec<T> = hostile(length, hostility, &mut words);
                let y: Vec<T> = hostile(length + words.below(3), hostility, &mut words);
                let plain = pair_sums(InstructionSet::Portable, &x, &y, 0.5);
                let crossed = gram::cross_sum(InstructionSet::Portable, &x, &y[..length], 0.5);
                for set in InstructionSet::available() {
                    let what = format!("{set}, {length} {hostility:?}");
                    assert!(all_same(&pair_sums(set, &x, &y, 0.5), &plain), "{what}");
                    assert!(same(gram::cross_sum(set, &x, &y[..length], 0.5), crossed), "{what}");
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn loops_over_rows_of_weights_have_the_same_bits_on_hostile_rows() {
    let mut words = Words(10);
    for length in lengths(&mut words) {
        for hostility in HOSTILITIES {
            let [a, b, c]: [Vec<f64>; 3] = std::array::from_fn(|_| hostile(length, hostility, &mut words));
            let positive: Vec<f64> = c.iter().map(|x| x.abs()).collect();
            let all = |set: InstructionSet| {
                let mut noise = vec![0.0; length];
                let shared = comparison::noise(set, &a, &b, &c, (0.25, 0.5), &mut noise);
                // Arguments below 1000, some of them NaN.
                let mut bounds: Vec<f64> = positive.iter().map(|x| x % 900.0).collect();
                comparison::bounds(set, &a, 0.125, 1e-3, 1e-7, &mut bounds);
                let mut scaled = vec![0.0; length];
                comparison::multiplied(set, 0.3, &a, &mut scaled);
                let misfit = comparison::misfit(set, &a, &b, &positive);
                let weights = comparison::weights(set, &positive);
                let (mean, squares) = comparison::moments(set, &a);
                let is_finite = f64::from(u8::from(weights.is_finite));
                let single = [shared, comparison::sum(set, &b), mean, squares, weights.sum, weights.entropy];
                let more = [weights.largest, is_finite, misfit.ratio, misfit.largest, misfit.squares];
                let mut all = [noise, bounds, scaled].concat();
                all.extend(single.into_iter().chain(more).chain([misfit.index as f64]));
                all
            };
            let plain = all(InstructionSet::Portable);
            assert!(InstructionSet::available().all(|set| all_same(&all(set), &plain)), "{length} {hostility:?}");
        }
    }
}

#[test]
fn logits_of_hostile_numbers_are_chains_of_single_steps_to_the_bit() {
    fn check<T: Number>() {
        let mut words = Words(11);
        for case in 0..if cfg!(miri) { 6 } else { 150 } {
            let most = if cfg!(miri) { 20 } else { 70 };
            let (rows, columns, depth) = (1 + words.below(most), 1 + words.below(most), 1 + words.below(23));
            let hostility = HOSTILITIES[case % 3];
            let q: Vec<T> = hostile(rows * depth, hostility, &mut words);
            let k: Vec<T> = hostile(columns * depth, hostility, &mut words);
            for set in InstructionSet::available() {
                let keys = PackedKeys::new(set, &k, columns, depth);
                let mut found = vec![T::ZERO; rows * columns];
                logit_block(&q, rows, &keys, 0..columns, &mut found, columns);
                let expected: Vec<T> = (0..rows * columns)
                    .map(|index| {
                        let (query, key) = (&q[index / columns * depth..], &k[index % columns * depth..]);
                        (0..depth).fold(T::ZERO, |sum, h| step(set, query[h], key[h], sum))
                    })
                    .collect();
                assert!(all_same(&found, &expected), "{set}, {rows} x {columns} x {depth} {hostility:?}");
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn infinities_and_nan_in_any_place_reach_the_power_sums_as_in_exact_arithmetic() {
    fn check<T: Number>() {
        let mut words = Words(12);
        for case in 0..if cfg!(miri) { 6 } else { 200 } {
            let (rows, columns) = (1 + words.below(33), 1 + words.below(70));
            // One factor of each product is 1: the logits are the keys.
            let mut keys: Vec<T> = (0..columns).map(|_| T::from_f64(words.uniform())).collect();
            let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][case % 3];
            keys[words.below(columns)] = T::from_f64(bad);
            if case % 2 == 0 {
                keys[words.below(columns)] = T::from_f64(f64::INFINITY);
            }
            let has = |sought: f64| keys.iter().any(|key| key.to_f64() == sought);
            let (up, down) = (has(f64::INFINITY), has(f64::NEG_INFINITY));
            let any_nan = keys.iter().any(|key| key.to_f64().is_nan());
            for set in InstructionSet::available() {
                let packed = PackedKeys::new(set, &keys, columns, 1);
                let found = logit_power_sums(&vec![T::from_f64(1.0); rows], rows, &packed, 0.25).sums;
                for (index, sum) in found.into_iter().enumerate() {
                    let is_even = index % 2 == 1;
                    let expected = match () {
                        () if any_nan || (up && down && !is_even) => f64::NAN,
                        () if up || is_even => f64::INFINITY,
                        () => f64::NEG_INFINITY,
                    };
                    let what = format!("{set}, {rows} x {columns}, power {}", index + 1);
                    assert!(same(sum, expected), "{what}: {sum} for {expected}");
                }
            }
        }
    }
    in_both_types!(check);
}

#[test]
fn transposes_move_every_bit_at_random_sizes() {
    fn check<T: Number>() {
        let mut words = Words(13);
        for steps in lengths(&mut words) {
            let (width, hostility) = (4 + words.below(30), HOSTILITIES[words.below(3)]);
            let first = words.below(width - 3);
            let values: Vec<T> = hostile(4 * steps, hostility, &mut words);
            let rows: [&[T]; 4] = std::array::from_fn(|row| &values[row * steps..][..steps]);
            let mut found: Vec<T> = hostile(steps * width, hostility, &mut words);
            let mut expected = found.clone();
            T::transpose_rows(rows, &mut found, width, first);
            portable::transpose_rows(rows, &mut expected, width, first);
            let bits = |numbers: &[T]| numbers.iter().map(|x| x.bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{steps} lines of {width}, columns from {first}");
        }
    }
    in_both_types!(check);
}
