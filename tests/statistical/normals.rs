//! Normal draws against their exact law, 10⁸ of each type, deep into the tails.
//!
//! Three assertions a type at 1e-6 each: six of the suite's budget. Fewer draws in a debug build, of which only the chi-square is looked at.

use attn::number::Real;
use attn::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};
use rayon::prelude::*;

/// Φ(x) over [k/4, (k + 1)/4), k = 0 to 20, and beyond 5.25 (mpmath, 30 digits).
const PROBABILITIES: [f64; 22] = [
    9.870_632_568_292_373e-2,
    9.275_613_559_108_938e-2,
    8.191_018_634_911_87e-2,
    6.797_209_844_541_115e-2,
    5.300_548_026_460_179e-2,
    3.884_257_239_799_719e-2,
    2.674_804_440_504_097_5e-2,
    1.730_902_491_563_788_4e-2,
    1.052_565_929_313_450_4e-2,
    6.014_807_329_268_568e-3,
    3.229_902_090_721_578_5e-3,
    1.629_865_203_424_462_3e-3,
    7.728_729_892_393_275e-4,
    3.443_959_633_552_42e-4,
    1.442_117_938_347_211_8e-4,
    5.674_604_336_768_394_4e-5,
    2.098_271_605_818_55e-5,
    7.290_852_650_204_36e-6,
    2.380_589_882_161_357_3e-6,
    7.304_316_706_895_093e-7,
    2.106_019_667_143_067_8e-7,
    7.604_960_516_488_715e-8,
];
/// Cells: the sides, in the order of the probabilities.
type Counts = [[u64; 22]; 2];
/// P(χ² > limit) = 1e-6 with 43 degrees of freedom (scipy.stats.chi2.isf).
const CHI_SQUARE_LIMIT: f64 = 102.2;
/// Draws of one piece of work.
const PIECE: usize = 1 << 16;

const DRAWS: usize = if cfg!(debug_assertions) { 3_000_000 } else { 100_000_000 };

/// Counts by cell, and how many draws are beyond 5 and beyond 5.5; `fault` is put on each draw.
fn counts<T: Drawable>(fault: impl Fn(f64) -> f64 + Sync) -> (Counts, [u64; 2]) {
    let stream = TrialStream::new(20_261_129, 0, 1);
    let piece = |first: usize| {
        let mut values = vec![T::ZERO; PIECE.min(DRAWS - first)];
        fill(Entries::Normal, &stream, MatrixId::QUERIES, first, 1, &mut values);
        let (mut cells, mut beyond) = ([[0_u64; 22]; 2], [0_u64; 2]);
        for value in values {
            let value = fault(Real::to_f64(value));
            let size = value.abs();
            cells[usize::from(value < 0.0)][((4.0 * size) as usize).min(21)] += 1;
            beyond[0] += u64::from(size > 5.0);
            beyond[1] += u64::from(size > 5.5);
        }
        (cells, beyond)
    };
    let add = |(mut cells, mut beyond): (Counts, [u64; 2]), (more, further): (Counts, [u64; 2])| {
        cells.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(count, more)| *count += more);
        beyond.iter_mut().zip(further).for_each(|(count, more)| *count += more);
        (cells, beyond)
    };
    let pieces: Vec<usize> = (0..DRAWS).step_by(PIECE).collect();
    pieces.into_par_iter().map(piece).reduce(|| ([[0; 22]; 2], [0; 2]), add)
}

fn chi_square(cells: &Counts) -> f64 {
    let cell = |(count, probability): (&u64, &f64)| {
        let expected = probability * DRAWS as f64;
        (*count as f64 - expected).powi(2) / expected
    };
    cells.iter().flat_map(|side| side.iter().zip(&PROBABILITIES)).map(cell).sum()
}

/// What is wrong with the draws, if anything is.
fn fault<T: Drawable>(faulty: impl Fn(f64) -> f64 + Sync) -> Option<String> {
    let (cells, [beyond_five, beyond_five_and_a_half]) = counts::<T>(faulty);
    let chi_square = chi_square(&cells);
    // Cells with an expected count below 1, in a debug build, have tails of their own.
    if chi_square > if cfg!(debug_assertions) { 10.0 * CHI_SQUARE_LIMIT } else { CHI_SQUARE_LIMIT } {
        return Some(format!("chi-square {chi_square} over 43 degrees of freedom"));
    }
    // Poisson limits at 5e-7 on each side for means 57.330 and 3.798 (scipy.stats.poisson).
    if !cfg!(debug_assertions) && !(24..=98).contains(&beyond_five) {
        return Some(format!("{beyond_five} draws beyond 5, 57.3 expected"));
    }
    (!cfg!(debug_assertions) && beyond_five_and_a_half > 17)
        .then(|| format!("{beyond_five_and_a_half} draws beyond 5.5, 3.8 expected"))
}

#[test]
fn a_hundred_million_normals_follow_their_law_far_into_the_tails() {
    assert!((2.0 * PROBABILITIES.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    assert_eq!(fault::<f32>(|x| x), None);
    assert_eq!(fault::<f64>(|x| x), None);
}

#[test]
fn normals_that_are_nearly_right_are_rejected() {
    if cfg!(debug_assertions) {
        return;
    }
    type Mutant = (&'static str, fn(f64) -> f64);
    let mutants: [Mutant; 4] = [
        ("0.1 % too wide", |x| 1.001 * x),
        ("off centre by 0.001", |x| x + 0.001),
        ("cut at 5", |x| x.clamp(-5.0, 5.0)),
        ("tails beyond 4.5 a tenth longer", |x| if x.abs() > 4.5 { 1.1 * x } else { x }),
    ];
    for (name, mutant) in mutants {
        assert!(fault::<f32>(mutant).is_some(), "{name} passed");
    }
}
