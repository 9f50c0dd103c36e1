//! The exponential of the softmax kernels at every f32 argument, on every instruction set of this machine.
//!
//! No chance is involved: the test fails for a wrong program alone. In a debug build every 997th argument is tried.

use attn::attention::kernel::{InstructionSet, exponentials};
use rayon::prelude::*;

/// The least argument whose exponential is not 0.
const LEAST: f32 = -87.3;
/// Arguments of one piece of work.
const PIECE: u32 = 1 << 18;

/// Largest error in units in the last place, and the bits of the argument that has it.
type Worst = (f64, u32);

/// The larger error; of equal ones the first argument, so that threads do not matter.
fn worse(a: Worst, b: Worst) -> Worst {
    if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
}

/// What each of the sets makes of every `step`th argument of a piece.
fn worst_of_piece(sets: &[InstructionSet], first: u32, last: u32, step: usize) -> Vec<Worst> {
    let arguments: Vec<f32> =
        (first..=last.min(first.saturating_add(PIECE - 1))).step_by(step).map(f32::from_bits).collect();
    // The platform's exponential in f64 is right to 2⁻²⁹ units of f32: the correctly rounded f32 but where the exact value is
    // that near to a tie, and the exact value to nine digits of an error in units.
    let exact: Vec<f64> = arguments.iter().map(|&x| f64::from(x).exp()).collect();
    let worst = |&set: &InstructionSet| {
        let mut found = arguments.clone();
        exponentials(set, &mut found);
        let error = |((&x, &found), &exact): ((&f32, &f32), &f64)| {
            if x < LEAST {
                return (if found == 0.0 { 0.0 } else { f64::INFINITY }, x.to_bits());
            }
            // All are normal: the unit is 2^(exponent − 23).
            let unit = f64::from_bits(exact.to_bits() & (0x7FF << 52)) / f64::from(1 << 23);
            let error = (f64::from(found) - exact).abs() / unit;
            (if error.is_nan() { f64::INFINITY } else { error }, x.to_bits())
        };
        arguments.iter().zip(&found).zip(&exact).map(error).fold((0.0, u32::MAX), worse)
    };
    sets.iter().map(worst).collect()
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
    let sets: Vec<InstructionSet> = InstructionSet::ALL.into_iter().filter(|set| set.is_available()).collect();
    // From −0 through every negative number to −∞ and the NaNs with a sign, where the result is 0.
    let pieces: Vec<u32> = ((-0.0_f32).to_bits()..=u32::MAX).step_by(PIECE as usize).collect();
    let worst = pieces
        .into_par_iter()
        .map(|first| worst_of_piece(&sets, first, u32::MAX, step))
        .reduce(|| vec![(0.0, u32::MAX); sets.len()], |a, b| a.into_iter().zip(b).map(|(a, b)| worse(a, b)).collect());
    for (set, (error, bits)) in sets.iter().zip(worst) {
        println!("{set},f32,{},{error:.6},{}", 1_u64 << 31, f32::from_bits(bits));
        let (_, known) = recorded().into_iter().find(|(name, _)| *name == set.to_string()).expect("a recorded line");
        // Six digits are recorded; fewer arguments have a smaller largest error.
        let lowest = if step == 1 { known - 1e-6 } else { 0.8 * known };
        assert!(
            (lowest..=known + 1e-6).contains(&error),
            "{set}: {error} at {}, recorded {known}",
            f32::from_bits(bits)
        );
    }
}

#[test]
fn an_exponential_that_loses_a_bit_would_be_found() {
    // Mutant: the last bit of each result cleared, one unit more at worst.
    let known = recorded().iter().map(|(_, error)| *error).fold(0.0, f64::max);
    let mut found: Vec<f32> = (0..100_003).map(|k| -(k as f32) / 1200.0).collect();
    let exact: Vec<f64> = found.iter().map(|&x| f64::from(x).exp()).collect();
    exponentials(InstructionSet::detect(), &mut found);
    let error = |(found, exact): (f32, f64)| {
        let unit = f64::from_bits(exact.to_bits() & (0x7FF << 52)) / f64::from(1 << 23);
        (f64::from(f32::from_bits(found.to_bits() & !1)) - exact).abs() / unit
    };
    let worst = found.into_iter().zip(exact).map(error).fold(0.0, f64::max);
    assert!(worst > known + 0.1, "{worst} against {known}");
}
