//! First and second moments of two sequences of numbers side by side, compiled once for each instruction set.
//!
//! Plain additions and multiplications in f64, in an order that no register changes: the same bits everywhere.

use super::InstructionSet;
use super::compiled::compiled_for_each_set;
use super::operands::assert_available;
use crate::number::Real;

/// Independent partial sums: the additions do not wait for each other. Part of the result, not of the machine.
const LANES: usize = 8;

compiled_for_each_set! {
    /// Σ x, Σ x², Σ y, Σ y², Σ x·y over the pairs, each number taken about `center`; numbers without a partner are left out.
    pair_sums<T: Real> = sums(x: &[T], y: &[T], center: f64) -> [f64; 5]
}

/// Whole registers, then what is left.
#[inline(always)]
fn sums<T: Real>(x: &[T], y: &[T], center: f64) -> [f64; 5] {
    let mut totals = [[0.0; LANES]; 5];
    let length = x.len().min(y.len());
    let (x, x_rest) = x[..length].as_chunks::<LANES>();
    let (y, y_rest) = y[..length].as_chunks::<LANES>();
    for (x, y) in x.iter().zip(y) {
        add(&mut totals, about(x, center), about(y, center));
    }
    // What is left takes the first lanes; nothing is added to the others.
    let mut lanes = [[0.0; LANES]; 2];
    for (lanes, rest) in lanes.iter_mut().zip([x_rest, y_rest]) {
        for (lane, number) in lanes.iter_mut().zip(rest) {
            *lane = number.to_f64() - center;
        }
    }
    add(&mut totals, lanes[0], lanes[1]);
    totals.map(total)
}

/// Σ of the lanes, in order. Not inlined: where the compiler sees the lanes added up, it shuffles those of all five sums together, in
/// every turn of the loop.
#[inline(never)]
fn total(lanes: [f64; LANES]) -> f64 {
    lanes.iter().sum()
}

#[inline(always)]
fn about<T: Real>(numbers: &[T; LANES], center: f64) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for lane in 0..LANES {
        lanes[lane] = numbers[lane].to_f64() - center;
    }
    lanes
}

/// One sum after the other, so that each is a register.
#[inline(always)]
fn add([xs, xxs, ys, yys, xys]: &mut [[f64; LANES]; 5], x: [f64; LANES], y: [f64; LANES]) {
    for lane in 0..LANES {
        xs[lane] += x[lane];
    }
    for lane in 0..LANES {
        xxs[lane] += x[lane] * x[lane];
    }
    for lane in 0..LANES {
        ys[lane] += y[lane];
    }
    for lane in 0..LANES {
        yys[lane] += y[lane] * y[lane];
    }
    for lane in 0..LANES {
        xys[lane] += x[lane] * y[lane];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_gives_the_sums_of_the_definition_and_the_same_bits() {
        for length in [0, 1, 7, 8, 9, 1003] {
            let x: Vec<f32> = (0..length + 2).map(|i| (i as f32 * 0.7).sin() + 3.0).collect();
            let y: Vec<f32> = (0..length).map(|i| (i as f32 * 1.3).cos()).collect();
            let expected = pair_sums(InstructionSet::Portable, &x, &y, 2.5);
            let pairs = || x.iter().zip(&y).map(|(&x, &y)| (f64::from(x) - 2.5, f64::from(y) - 2.5));
            let by_definition = [
                pairs().map(|(x, _)| x).sum::<f64>(),
                pairs().map(|(x, _)| x * x).sum(),
                pairs().map(|(_, y)| y).sum(),
                pairs().map(|(_, y)| y * y).sum(),
                pairs().map(|(x, y)| x * y).sum(),
            ];
            for (found, expected) in expected.iter().zip(by_definition) {
                // A thousand terms of at most 12.25.
                assert!((found - expected).abs() < 1e-10, "{length}: {found} {expected}");
            }
            for set in InstructionSet::available() {
                let found = pair_sums(set, &x, &y, 2.5);
                assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{set}, {length}");
            }
        }
    }
}
