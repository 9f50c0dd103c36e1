//! Do the rows of `attn positional` keep their rates, and do faulty encodings fail?
//!
//! Error budget: each comparison of a rate leaves out 1e-6 of correct programs; there are fewer than 200. The mutants must be
//! rejected on every one of three seeds at a false-alarm rate of 1e-3.

use std::ops::Range;

use attn::attention::position::{Encoding, Layout, PairAngles, Rotary, Rotation, Side, Sinusoidal};
use attn::attention::{Precision, Scale};
use attn::experiment::calibration::calibrate;
use attn::experiment::positional::{PositionSettings, RotaryExperiment, SinusoidalExperiment};
use attn::experiment::{Experiment, InputLaw, Sizes};
use attn::number::Real;
use attn::sampling::Entries;
use attn::statistics::binomial::acceptance_region;

const LEVELS: [f64; 2] = [0.05, 0.01];
/// Chance that a correct rate fails one of the comparisons here.
const ERROR: f64 = 1e-6;
/// What the tests over trials may add to a rate: their documented distortion.
const DISTORTION: f64 = 0.1;
const SCALES: [Scale; 2] = [Scale::None, Scale::InverseSqrtWidth];

fn settings(precision: Precision, angles: Precision) -> PositionSettings {
    PositionSettings { base: 1e4, start: 0, offsets: vec![1, 2, 5, 13], precision, angles }
}

fn angles(width: usize, settings: &PositionSettings) -> PairAngles {
    PairAngles::new(width, settings.base, settings.angles, settings.precision).expect("even")
}

fn rates_hold(name: &str, experiment: &impl Experiment, trials: u64) {
    let seeds = if cfg!(debug_assertions) { 101 } else { 1009 };
    let (rows, runs) = calibrate(experiment, trials, seeds, &LEVELS);
    let mut judged = 0;
    for row in &rows {
        let (_, most) = acceptance_region(row.judged, row.level * (1.0 + DISTORTION), ERROR);
        println!("{name} {:<24} {:<5} rejected {:>3} of {}", row.statistic, row.level, row.rejected, row.judged);
        assert!(row.rejected <= most, "{name} {} rejected {} of {}", row.statistic, row.rejected, row.judged);
        if row.test.starts_with("a fixed value") {
            assert_eq!(row.rejected, 0, "{} is within its bound on every draw", row.statistic);
        }
        judged += u64::from(2 * row.judged > seeds);
    }
    assert!(judged >= 16, "{judged} rows judged on most seeds");
    for run in runs {
        let (_, most) = acceptance_region(run.seeds, run.false_alarm * (1.0 + DISTORTION), ERROR);
        println!("{name} whole run {} rejected {} of {seeds}", run.false_alarm, run.rejected);
        assert!(run.rejected <= most, "{name} whole run: {} of {}", run.rejected, run.seeds);
    }
}

#[test]
fn sinusoidal_rows_keep_their_rates() {
    for (entries, precision, angles_in) in [
        (Entries::Normal, Precision::F64, Precision::F64),
        (Entries::Laplace, Precision::F32, Precision::F32),
        (Entries::Normal, Precision::Bf16, Precision::F32),
    ] {
        let (sizes, settings) = (Sizes { d_k: 6, queries: 23, keys: 29 }, settings(precision, angles_in));
        let encoding = Sinusoidal { angles: angles(6, &settings) };
        let law = InputLaw { sd: 1.5, ..InputLaw::standard(entries) };
        let experiment = SinusoidalExperiment::new(sizes, law, &SCALES, &settings, &encoding);
        rates_hold(&format!("sinusoidal {entries} {precision}"), &experiment, 120);
    }
}

#[test]
fn rotary_rows_keep_their_rates() {
    for (entries, precision, angles_in, layout) in [
        (Entries::Normal, Precision::F64, Precision::F64, Layout::HalfSplit),
        (Entries::Laplace, Precision::F32, Precision::F32, Layout::Interleaved),
        (Entries::Rademacher, Precision::F64, Precision::F64, Layout::Interleaved),
        (Entries::Normal, Precision::F16, Precision::F32, Layout::HalfSplit),
    ] {
        let (sizes, settings) = (Sizes { d_k: 6, queries: 23, keys: 29 }, settings(precision, angles_in));
        let rotary = Rotary::new(angles(6, &settings), layout).remembering(settings.positions(sizes));
        let law = InputLaw::standard(entries);
        let experiment = RotaryExperiment::new(sizes, law, &SCALES, &settings, layout, rotary);
        rates_hold(&format!("rotary {layout} {entries} {precision}"), &experiment, 120);
    }
}

/// A way to get the sinusoidal table wrong.
#[derive(Debug, Clone, Copy)]
enum WrongTable {
    /// Field report PO-04: exponent j/d for every column j.
    ExponentOfEveryColumn,
    /// Position 0 is taken for 1.
    StartsAtOne,
    /// Base 1000 for 10000.
    OtherBase,
    /// Twice the size.
    Doubled,
}

impl Encoding for WrongTable {
    fn table(&self, positions: Range<u64>) -> Vec<f64> {
        const WIDTH: usize = 64;
        let entry = |p: u64, j: usize| {
            let (position, base, exponent, size) = match self {
                Self::ExponentOfEveryColumn => (p, 1e4, j, 1.0),
                Self::StartsAtOne => (p + 1, 1e4, j / 2 * 2, 1.0),
                Self::OtherBase => (p, 1e3, j / 2 * 2, 1.0),
                Self::Doubled => (p, 1e4, j / 2 * 2, 2.0),
            };
            let angle = position as f64 * f64::powf(base, -(exponent as f64) / WIDTH as f64);
            size * if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }
        };
        positions.flat_map(|p| (0..WIDTH).map(move |j| entry(p, j))).collect()
    }
}

/// The statistics rejected on every one of three seeds; the run itself must be.
fn rejected(name: &str, experiment: &impl Experiment, trials: u64) -> Vec<String> {
    let seeds = 3;
    let (rows, runs) = calibrate(experiment, trials, seeds, &[1e-3]);
    assert_eq!(runs[0].rejected, seeds, "{name}: the run is rejected on every seed");
    rows.into_iter().filter(|row| row.rejected == seeds).map(|row| row.statistic).collect()
}

#[test]
fn wrong_tables_are_rejected_by_the_statistic_that_shows_their_fault() {
    let sizes = Sizes { d_k: 64, queries: 32, keys: 32 };
    let settings = settings(Precision::F64, Precision::F64);
    for (fault, shows) in [
        (
            WrongTable::ExponentOfEveryColumn,
            &["angle_error", "map_error", "map_transfer_error", "norm", "offset_dependence"][..],
        ),
        (WrongTable::StartsAtOne, &["angle_error"]),
        (WrongTable::OtherBase, &["angle_error", "map_error", "dot_product:1", "dot_product:13"]),
        (WrongTable::Doubled, &["norm", "dot_product:5", "embedding_variance", "logit_variance"]),
    ] {
        let law = InputLaw::standard(Entries::Normal);
        let experiment = SinusoidalExperiment::new(sizes, law, &SCALES, &settings, &fault);
        let rejected = rejected(&format!("{fault:?}"), &experiment, 400);
        for statistic in shows {
            assert!(rejected.iter().any(|name| name == statistic), "{fault:?} {statistic}: {rejected:?}");
        }
    }
    // A table that starts at 1 is another table of the same kind: what is relative holds.
    let law = InputLaw::standard(Entries::Normal);
    let experiment = SinusoidalExperiment::new(sizes, law, &SCALES, &settings, &WrongTable::StartsAtOne);
    assert_eq!(self::rejected("starts at 1", &experiment, 60), ["angle_error"]);
}

#[test]
fn po04_spreads_products_along_a_diagonal_as_the_field_report_says() {
    // Field report PO-04: 3.9 at d 64, n 32.
    let (width, n) = (64, 32);
    let table = WrongTable::ExponentOfEveryColumn.table(0..n as u64);
    let product =
        |p: usize, k: usize| -> f64 { (0..width).map(|j| table[p * width + j] * table[(p + k) * width + j]).sum() };
    let spread = |k: usize| {
        let all: Vec<f64> = (0..n - k).map(|p| product(p, k)).collect();
        all.iter().copied().fold(f64::MIN, f64::max) - all.iter().copied().fold(f64::MAX, f64::min)
    };
    let largest = (0..n).map(spread).fold(0.0, f64::max);
    assert!((largest - 3.9).abs() < 0.05, "{largest}");
}

/// A way to get rotary embedding wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WrongTurn {
    /// Field report PO-02: the rows of K are permuted inside heads for the other layout.
    LayoutOfKeys,
    /// Field report PO-06: the angle grows along another axis and is one for all tokens of a call.
    ConstantAlongTokens,
    /// Field report CA-02: keys are one position on.
    KeysOneOn,
    /// Keys alone are turned.
    QueriesNotTurned,
    /// cos and sin of the wrong sign for keys: scores depend on the sum of the positions.
    KeysTurnedBack,
    /// Field report PR-06: positions rounded to bf16, all else in f64.
    RoundedPositions,
    /// Turned and stretched by 1 %.
    Stretched,
}

#[derive(Debug, Clone)]
struct Faulty(WrongTurn, Rotary, Rotary);

impl Rotation for Faulty {
    fn rotate<T: Real>(&self, side: Side, rows: &mut [T], first: u64) {
        let Self(fault, rotary, other) = self;
        let width = rotary.angles().width();
        match (fault, side) {
            (WrongTurn::LayoutOfKeys, Side::Key) => other.rotate(side, rows, first),
            (WrongTurn::ConstantAlongTokens, _) => {
                rows.chunks_mut(width).for_each(|row| rotary.rotate_token(row, first));
            }
            (WrongTurn::KeysOneOn, Side::Key) => rotary.rotate(side, rows, first + 1),
            (WrongTurn::QueriesNotTurned, Side::Query) => (),
            (WrongTurn::KeysTurnedBack, Side::Key) => {
                for row in rows.chunks_mut(width) {
                    row[width / 2..].iter_mut().for_each(|x| *x = T::from_f64(-x.to_f64()));
                }
                rotary.rotate(side, rows, first);
                for row in rows.chunks_mut(width) {
                    row[width / 2..].iter_mut().for_each(|x| *x = T::from_f64(-x.to_f64()));
                }
            }
            (WrongTurn::RoundedPositions, _) => {
                for (row, position) in rows.chunks_mut(width).zip(first..) {
                    rotary.rotate_token(row, Precision::Bf16.round_f32(position as f32) as u64);
                }
            }
            (WrongTurn::Stretched, _) => {
                rotary.rotate(side, rows, first);
                rows.iter_mut().for_each(|x| *x = T::from_f64(1.01 * x.to_f64()));
            }
            _ => rotary.rotate(side, rows, first),
        }
    }
}

#[test]
fn wrong_rotations_are_rejected_by_the_statistic_that_shows_their_fault() {
    let sizes = Sizes { d_k: 16, queries: 31, keys: 37 };
    let settings = PositionSettings { start: 250, ..settings(Precision::F64, Precision::F64) };
    for (fault, shows) in [
        (WrongTurn::LayoutOfKeys, &["score_error", "score_offset_dependence", "self_score:1"][..]),
        (WrongTurn::ConstantAlongTokens, &["angle_error"]),
        (WrongTurn::KeysOneOn, &["score_error", "self_score:1"]),
        (WrongTurn::QueriesNotTurned, &["angle_error", "score_error", "score_offset_dependence"]),
        (WrongTurn::KeysTurnedBack, &["score_error", "score_offset_dependence"]),
        (WrongTurn::RoundedPositions, &["angle_error", "score_error", "score_offset_dependence"]),
        (WrongTurn::Stretched, &["norm_change", "score_error"]),
    ] {
        let [rotary, other] =
            [Layout::HalfSplit, Layout::Interleaved].map(|layout| Rotary::new(angles(16, &settings), layout));
        let rotation = Faulty(fault, rotary, other);
        let law = InputLaw::standard(Entries::Normal);
        let experiment = RotaryExperiment::new(sizes, law, &SCALES, &settings, Layout::HalfSplit, rotation);
        let rejected = rejected(&format!("{fault:?}"), &experiment, 200);
        for statistic in shows {
            assert!(rejected.iter().any(|name| name == statistic), "{fault:?} {statistic}: {rejected:?}");
        }
    }
}
