//! Loops over one row of f64 numbers, for whoever holds weights against a softmax: weights from logits, their bounds and
//! misfits, their entropy.
//!
//! Each loop is plain safe Rust, compiled once for every instruction set. Sums run over eight lanes that are added in
//! order, and nothing is fused, so that all sets give the same bits but for the exponential ([`weigh`]).
//! Rows that belong together must be equally long: a loop over several of them panics otherwise.

use super::InstructionSet;
use super::attention_loops::AttentionLoops;
use super::compiled::compiled_for_each_set;
use super::operands::assert_available;

/// Partial sums of a row.
const LANES: usize = 8;

/// Most distinct halvings of the argument of e^x − 1: at x ≥ 0.25·2¹² its value is no f64 any more.
const MOST_HALVINGS: i32 = 12;

/// e^x − 1 = x·(1 + x/2·(1 + x/3·(…))): the error of the sum up to x¹² at x ≤ 1/4 is 0.25¹²/13! < 10⁻¹⁷ of it.
const INVERSE_FACTORIALS: [f64; 12] = [
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
];

/// How far a row of observed numbers is from the predicted ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowMisfit {
    /// Largest |observed − predicted| / bound; 0/0 is 0, and a difference that is no number counts as infinite.
    pub ratio: f64,
    /// Its first place.
    pub index: usize,
    /// Largest |observed − predicted|; NaN counts as infinite.
    pub largest: f64,
    /// Σ (observed − predicted)².
    pub squares: f64,
}

/// What a row of weights amounts to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowOfWeights {
    /// Σ w.
    pub sum: f64,
    /// −Σ w ln w over w > 0; weights below the normal numbers count as 0.
    pub entropy: f64,
    /// The largest, at least 0.
    pub largest: f64,
    /// Whether all are finite.
    pub is_finite: bool,
}

/// The largest logit (−∞ for none) and whether any is NaN.
///
/// # Panics
/// If this machine lacks the instruction set.
pub fn survey(set: InstructionSet, logits: &[f64]) -> (f64, bool) {
    assert_available(set);
    f64::survey_logits(set, logits)
}

/// Replaces each logit x by e^(x − reference), x ≤ reference, and returns their sum. Exponentials are right to about a unit in
/// the last place; those of −708.3 and less, and of NaN, are 0.
///
/// # Panics
/// If this machine lacks the instruction set.
pub fn weigh(set: InstructionSet, logits: &mut [f64], reference: f64) -> f64 {
    assert_available(set);
    f64::weigh_logits(set, logits, reference)
}

/// Multiplies each number by the factor.
///
/// # Panics
/// If this machine lacks the instruction set.
pub fn scale(set: InstructionSet, numbers: &mut [f64], factor: f64) {
    assert_available(set);
    f64::multiply(set, numbers, factor);
}

compiled_for_each_set! {
    /// out = factor · numbers.
    multiplied = multiplied_plainly(factor: f64, numbers: &[f64], out: &mut [f64])
}

compiled_for_each_set! {
    /// Writes |l|·`per_logit` + `per_norm`·‖k‖ for each logit l and its key's norm (an infinite l, or NaN, counts as 0); returns
    /// Σ weight · that.
    noise = noise_plainly(logits: &[f64], norms: &[f64], weights: &[f64], factors: (f64, f64), out: &mut [f64]) -> f64
}

compiled_for_each_set! {
    /// Replaces each x by |weight|·(e^(x + shared) − 1 + rounding) + floor.
    bounds = bounds_plainly(weights: &[f64], shared: f64, rounding: f64, floor: f64, x: &mut [f64])
}

compiled_for_each_set! {
    /// Holds observed numbers against predicted ones, each under its own bound.
    misfit = misfit_plainly(observed: &[f64], predicted: &[f64], bounds: &[f64]) -> RowMisfit
}

compiled_for_each_set! {
    /// Sum, entropy and largest of weights.
    weights = weights_plainly(weights: &[f64]) -> RowOfWeights
}

compiled_for_each_set! {
    /// Σ x.
    sum = sum_plainly(numbers: &[f64]) -> f64
}

compiled_for_each_set! {
    /// The mean, and Σ (x − mean)².
    moments = moments_plainly(numbers: &[f64]) -> (f64, f64)
}

/// The lanes of a sum, in order.
#[inline(always)]
fn total(lanes: [f64; LANES]) -> f64 {
    lanes.iter().sum()
}

#[inline(always)]
fn multiplied_plainly(factor: f64, numbers: &[f64], out: &mut [f64]) {
    assert_eq!(numbers.len(), out.len());
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = factor * number;
    }
}

#[inline(always)]
fn noise_plainly(logits: &[f64], norms: &[f64], weights: &[f64], factors: (f64, f64), out: &mut [f64]) -> f64 {
    let count = out.len();
    assert!(logits.len() == count && norms.len() == count && weights.len() == count);
    let (per_norm, per_logit) = factors;
    for ((out, logit), norm) in out.iter_mut().zip(logits).zip(norms) {
        let size = logit.abs();
        *out = per_norm * norm + per_logit * if size < f64::INFINITY { size } else { 0.0 };
    }
    let (noise, rest) = out.as_chunks::<LANES>();
    let (weights, rest_of_weights) = weights.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (noise, weights) in noise.iter().zip(weights) {
        for lane in 0..LANES {
            sums[lane] += weights[lane] * noise[lane];
        }
    }
    total(sums) + rest.iter().zip(rest_of_weights).map(|(noise, weight)| weight * noise).sum::<f64>()
}

#[inline(always)]
fn bounds_plainly(weights: &[f64], shared: f64, rounding: f64, floor: f64, x: &mut [f64]) {
    assert_eq!(weights.len(), x.len());
    let mut widest = shared;
    for x in x.iter_mut() {
        *x += shared;
        widest = if *x > widest { *x } else { widest };
    }
    // Halved until the series holds; e^2y − 1 = (e^y − 1)(e^y − 1 + 2) brings it back.
    let halvings = (widest / 0.25).log2().ceil().max(0.0);
    if shared < 0.0 || !widest.is_finite() || halvings > f64::from(MOST_HALVINGS) || x.iter().any(|x| x.is_nan()) {
        for (x, weight) in x.iter_mut().zip(weights) {
            *x = weight.abs() * (x.exp_m1() + rounding) + floor;
        }
        return;
    }
    let part = 0.5f64.powi(halvings as i32);
    for x in x.iter_mut() {
        let y = *x * part;
        let mut sum = INVERSE_FACTORIALS[11];
        for coefficient in INVERSE_FACTORIALS[..11].iter().rev() {
            sum = sum * y + coefficient;
        }
        *x = y * sum;
    }
    for _ in 0..halvings as i32 {
        for x in x.iter_mut() {
            *x *= *x + 2.0;
        }
    }
    for (x, weight) in x.iter_mut().zip(weights) {
        *x = weight.abs() * (*x + rounding) + floor;
    }
}

/// |difference| / bound as [`RowMisfit::ratio`] counts it.
#[inline(always)]
fn ratio(difference: f64, bound: f64) -> f64 {
    let quotient = difference / bound;
    let of_no_bound = if difference <= bound { 0.0 } else { f64::INFINITY };
    let ratio = if bound > 0.0 || bound.is_nan() { quotient } else { of_no_bound };
    if difference.is_nan() { f64::INFINITY } else { ratio }
}

#[inline(always)]
fn misfit_plainly(observed: &[f64], predicted: &[f64], bounds: &[f64]) -> RowMisfit {
    let count = observed.len();
    assert!(predicted.len() == count && bounds.len() == count);
    let (mut worst, mut places) = ([0.0; LANES], [0.0; LANES]);
    let (mut largest, mut squares) = ([0.0; LANES], [0.0; LANES]);
    let (observed, rest_observed) = observed.as_chunks::<LANES>();
    let (predicted, rest_predicted) = predicted.as_chunks::<LANES>();
    let (bounds, rest_bounds) = bounds.as_chunks::<LANES>();
    let mut place = 0.0;
    for ((observed, predicted), bounds) in observed.iter().zip(predicted).zip(bounds) {
        for lane in 0..LANES {
            let difference = (observed[lane] - predicted[lane]).abs();
            let ratio = ratio(difference, bounds[lane]);
            let is_worse = ratio > worst[lane];
            worst[lane] = if is_worse { ratio } else { worst[lane] };
            places[lane] = if is_worse { place } else { places[lane] };
            let size = if difference.is_nan() { f64::INFINITY } else { difference };
            largest[lane] = if size > largest[lane] { size } else { largest[lane] };
            squares[lane] += size * size;
        }
        place += 1.0;
    }
    let mut found = RowMisfit { ratio: 0.0, index: 0, largest: 0.0, squares: total(squares) };
    for lane in 0..LANES {
        let index = places[lane] as usize * LANES + lane;
        if worst[lane] > found.ratio || (worst[lane] == found.ratio && index < found.index) {
            (found.ratio, found.index) = (worst[lane], index);
        }
        found.largest = found.largest.max(largest[lane]);
    }
    for (index, ((observed, predicted), bound)) in rest_observed.iter().zip(rest_predicted).zip(rest_bounds).enumerate()
    {
        let difference = (observed - predicted).abs();
        let ratio = ratio(difference, *bound);
        if ratio > found.ratio {
            (found.ratio, found.index) = (ratio, count / LANES * LANES + index);
        }
        let size = if difference.is_nan() { f64::INFINITY } else { difference };
        found.largest = found.largest.max(size);
        found.squares += size * size;
    }
    found
}

/// ln x of a normal number, right to about a unit in the last place: x = 2^e·m with m from √½ to √2, s = (m − 1)/(m + 1),
/// ln m = 2s + 2s³/3 + … by the coefficients of fdlibm (Sun Microsystems, 1993).
#[inline(always)]
fn logarithm(x: f64) -> f64 {
    const HALF_ROOT_BITS: u64 = 0x3FE6_A09E_667F_3BCD;
    const LN_2: [f64; 2] = [f64::from_bits(0x3FE6_2E42_FEE0_0000), f64::from_bits(0x3DEA_39EF_3579_3C76)];
    const L: [u64; 7] = [
        0x3FE5_5555_5555_5593,
        0x3FD9_9999_9997_FA04,
        0x3FD2_4924_9422_9359,
        0x3FCC_71C5_1D8E_78AF,
        0x3FC7_4664_96CB_03DE,
        0x3FC3_9A09_D078_C69F,
        0x3FC2_F112_DF3E_5244,
    ];
    // 2^52 as an integer's carrier: whole numbers below it sit in the last bits.
    const CARRIER: u64 = 0x4330_0000_0000_0000;
    let moved = x.to_bits().wrapping_sub(HALF_ROOT_BITS);
    // The exponent e and 1023, which is not negative.
    let above = moved.wrapping_add(1023 << 52) >> 52;
    let exponent = f64::from_bits(CARRIER | above) - (f64::from_bits(CARRIER) + 1023.0);
    let m = f64::from_bits(x.to_bits().wrapping_sub(moved & (0xFFF << 52)));
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut series = f64::from_bits(L[6]);
    for bits in L[..6].iter().rev() {
        series = series * z + f64::from_bits(*bits);
    }
    let half_square = 0.5 * f * f;
    exponent * LN_2[0] - ((half_square - (s * (half_square + z * series) + exponent * LN_2[1])) - f)
}

#[inline(always)]
fn weights_plainly(weights: &[f64]) -> RowOfWeights {
    let (mut sums, mut entropies, mut largest) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let mut nothing = [0.0; LANES];
    let mut add = |weights: &[f64; LANES]| {
        for lane in 0..LANES {
            let weight = weights[lane];
            sums[lane] += weight;
            // 0 of what is finite, else NaN.
            nothing[lane] += 0.0 * weight;
            largest[lane] = if weight > largest[lane] { weight } else { largest[lane] };
            let entropy = -weight * logarithm(weight);
            entropies[lane] += if weight >= f64::MIN_POSITIVE { entropy } else { 0.0 };
        }
    };
    let (chunks, rest) = weights.as_chunks::<LANES>();
    chunks.iter().for_each(&mut add);
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    add(&last);
    RowOfWeights {
        sum: total(sums),
        entropy: total(entropies),
        largest: largest.into_iter().fold(0.0, f64::max),
        is_finite: !total(nothing).is_nan(),
    }
}

#[inline(always)]
fn sum_plainly(numbers: &[f64]) -> f64 {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    total(sums) + rest.iter().sum::<f64>()
}

#[inline(always)]
fn moments_plainly(numbers: &[f64]) -> (f64, f64) {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mean = sum_plainly(numbers) / numbers.len().max(1) as f64;
    let mut squares = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            squares[lane] += (chunk[lane] - mean) * (chunk[lane] - mean);
        }
    }
    (mean, total(squares) + rest.iter().map(|number| (number - mean).powi(2)).sum::<f64>())
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
