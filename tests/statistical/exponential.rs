//! The exponential of the softmax kernels at every f32 argument, on every instruction set of this machine.
//!
//! No chance is involved: the test fails for a wrong program alone. In a debug build every 997th argument is tried.

use attn::attention::kernel::{InstructionSet, exponentials};
use rayon::prelude::*;

/// The least argument whose exponential is not 0.
const LEAST: f32 = -87.3;
/// Arguments of one piece of work.
const PIECE: u32 = 1 << 18;

/// The errors of results, in units in the last place of the exact values, which are normal numbers of f32.
fn errors(found: &[f32], exact: &[f64]) -> impl Iterator<Item = f64> {
    found.iter().zip(exact).map(|(&found, &exact)| {
        // 2^(23 − exponent) of f64: 1023 + 23 less the exponent in its field.
        let units_in_one = f64::from_bits(((2046 + 23) << 52) - (exact.to_bits() & (0x7FF << 52)));
        (f64::from(found) - exact).abs() * units_in_one
    })
}

/// Every `step`th argument of a piece, at most up to `last`.
fn arguments(first: u32, last: u32, step: u32) -> Vec<f32> {
    let length = (last - first).min(PIECE - 1) / step + 1;
    (0..length).map(|index| f32::from_bits(first + index * step)).collect()
}

/// The platform's exponential in f64 is right to 2⁻²⁹ units of f32: the correctly rounded f32 but where the exact value is that near to a
/// tie, and the exact value to nine digits of an error in units.
fn exact(arguments: &[f32]) -> Vec<f64> {
    arguments.iter().map(|&x| f64::from(x).exp()).collect()
}

/// The largest error of each of the sets over every `step`th argument of a piece; infinite if one is no number.
fn worst_of_piece(sets: &[InstructionSet], first: u32, step: u32) -> Vec<f64> {
    let arguments = arguments(first, LEAST.to_bits(), step);
    let exact = exact(&arguments);
    let worst = |&set: &InstructionSet| {
        let mut found = arguments.clone();
        exponentials(set, &mut found);
        // NaN counts as the largest.
        let worst = errors(&found, &exact)
            .fold(0.0, |worst, error: f64| if error > worst || error.is_nan() { error } else { worst });
        if worst.is_nan() { f64::INFINITY } else { worst }
    };
    sets.iter().map(worst).collect()
}

/// The first argument of a piece at which a set has its largest error there.
fn place_in_piece(set: InstructionSet, first: u32, step: u32) -> f32 {
    let arguments = arguments(first, LEAST.to_bits(), step);
    let mut found = arguments.clone();
    exponentials(set, &mut found);
    let errors: Vec<f64> = errors(&found, &exact(&arguments)).collect();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    arguments[errors.iter().position(|&error| error == largest).expect("a largest error")]
}

/// The recorded lines of data/recorded/exponential.csv: instruction set and largest error.
fn recorded() -> Vec<(String, f64)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/recorded/exponential.csv");
    let text = std::fs::read_to_string(path).expect("the recorded errors");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].to_string(), fields[3].parse().expect("an error"))
    };
    text.lines().skip(1).map(line).collect()
}

#[test]
fn every_f32_argument_is_right_to_the_recorded_error() {
    let step = if cfg!(debug_assertions) { 997 } else { 1 };
    let sets: Vec<InstructionSet> = InstructionSet::available().collect();
    let pieces: Vec<u32> = ((-0.0_f32).to_bits()..=LEAST.to_bits()).step_by(PIECE as usize).collect();
    let worst: Vec<Vec<f64>> = pieces.par_iter().map(|&first| worst_of_piece(&sets, first, step)).collect();
    let arguments = LEAST.to_bits() - (-0.0_f32).to_bits() + 1;
    let lines: Vec<(InstructionSet, f64, f32)> = (sets.iter().enumerate())
        .map(|(index, &set)| {
            let errors = worst.iter().map(|worst| worst[index]).enumerate();
            let larger =
                |largest: (usize, f64), (piece, error)| if error > largest.1 { (piece, error) } else { largest };
            let (piece, error) = errors.fold((0, 0.0), larger);
            (set, error, place_in_piece(set, pieces[piece], step))
        })
        .collect();
    for (set, error, at) in &lines {
        println!("{set},f32,{arguments},{error:.6},{at}");
    }
    for (set, error, at) in lines {
        let (_, known) = recorded().into_iter().find(|(name, _)| *name == set.to_string()).expect("a recorded line");
        // Six digits are recorded; fewer arguments have a smaller largest error.
        let lowest = if step == 1 { known - 1e-6 } else { 0.8 * known };
        assert!((lowest..=known + 1e-6).contains(&error), "{set}: {error} at {at}, recorded {known}");
    }
}

#[test]
fn below_the_least_argument_and_for_nan_every_result_is_0() {
    let step = if cfg!(debug_assertions) { 997 } else { 1 };
    let sets: Vec<InstructionSet> = InstructionSet::available().collect();
    // Through every lower number to −∞ and the NaNs with a sign.
    let pieces: Vec<u32> = (LEAST.to_bits() + 1..=u32::MAX).step_by(PIECE as usize).collect();
    let is_zero = |&first: &u32| {
        let arguments = arguments(first, u32::MAX, step);
        sets.iter().all(|&set| {
            let mut found = arguments.clone();
            exponentials(set, &mut found);
            found.iter().fold(true, |all, &found| all & (found == 0.0))
        })
    };
    assert!(pieces.par_iter().all(is_zero));
}

#[test]
fn an_exponential_that_loses_a_bit_would_be_found() {
    // Mutant: the last bit of each result cleared, one unit more at worst.
    let known = recorded().iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let mut found: Vec<f32> = (0..100_003).map(|k| -(k as f32) / 1200.0).collect();
    let exact = exact(&found);
    exponentials(InstructionSet::detect(), &mut found);
    found.iter_mut().for_each(|found| *found = f32::from_bits(found.to_bits() & !1));
    let worst = errors(&found, &exact).fold(0.0, f64::max);
    assert!(worst > known + 0.1, "{worst} against {known}");
}
