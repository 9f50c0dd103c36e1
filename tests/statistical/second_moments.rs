//! `--moments 2` and `--draw gram` keep the rates and see faults as the logits themselves do, and Gram matrices that are drawn have the law of
//! those of drawn matrices.
//!
//! Rates as in [`crate::calibration`], 1e-6 an assertion; 24 two-sample tests at 1e-7 each.

use attn::attention::second_moments::Scatter;
use attn::attention::{Precision, Scale};
use attn::experiment::calibration::{calibrate, outcome_of};
use attn::experiment::judge::rows;
use attn::experiment::progress::Progress;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::variance::second_moments::{
    DrawnScatter, MomentSource, SecondMomentExperiment, Streamed, TrialMoments,
};
use attn::experiment::{DrawRows, ErrorRates, Experiment, InputLaw, Inside, Sizes, engine, plan};
use attn::report::{Row, Verdict};
use attn::sampling::{Drawable, Entries, MatrixId, NormalScatter, TrialStream, draw_normal_scatter};

use crate::calibration::{LEVELS, fault};
use crate::faults::BiasedNormal;

const NORMAL: InputLaw = InputLaw { entries: Entries::Normal, mean: 0.0, sd: 1.0, correlation: 0.0 };
const SIZES: Sizes = Sizes { d_k: 16, queries: 61, keys: 47 };
const RATES: ErrorRates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.05 };

fn experiment<S: MomentSource>(sizes: Sizes, law: InputLaw, source: S) -> SecondMomentExperiment<S> {
    SecondMomentExperiment::new(sizes, law, &[Scale::None, Scale::InverseSqrtWidth], Precision::F64, source)
}

/// Trial values by measure.
fn values<E: Experiment>(experiment: &E, seed: u64, trials: u64) -> Vec<(String, Vec<f64>)> {
    let mut all: Vec<(String, Vec<f64>)> = experiment.measures().into_iter().map(|name| (name, Vec::new())).collect();
    let each = |_: u64, values: &[f64]| {
        all.iter_mut().zip(values).for_each(|((_, all), value)| all.push(*value));
        Ok(())
    };
    engine::draw(experiment, seed, 0..trials, &Progress::silent(), each).expect("nothing fails");
    all
}

/// √(T/2) times the largest distance of two empirical distribution functions of T values each (Smirnov 1939).
fn distance(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    assert_eq!(a.len(), b.len());
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut largest) = (0_usize, 0_usize, 0_usize);
    while i < a.len() && j < b.len() {
        if a[i] <= b[j] {
            i += 1
        } else {
            j += 1
        }
        largest = largest.max(i.abs_diff(j));
    }
    largest as f64 / (2.0 * a.len() as f64).sqrt()
}

/// P(distance > limit) is at most 2·e^(−2·limit²) for many values, and less for fewer: 1e-7.
const DISTANCE_LIMIT: f64 = 2.9;

#[test]
fn drawn_gram_matrices_have_the_law_of_those_of_drawn_matrices() {
    let trials = if cfg!(debug_assertions) { 300 } else { 20_000 };
    // More rows than columns, fewer, and entries with a mean.
    let moved = InputLaw { mean: 0.5, sd: 1.5, ..NORMAL };
    let cells = [(7, 23, 31, NORMAL), (13, 5, 11, NORMAL), (3, 2, 101, moved), (5, 17, 1, moved)];
    for (d_k, queries, keys, law) in cells {
        let sizes = Sizes { d_k, queries, keys };
        let drawn = values(&experiment(sizes, law, DrawnScatter), 31, trials);
        let real = values(&VarianceExperiment::new(sizes, law, &[Scale::None], Precision::F64), 37, trials);
        let mut compared = 0;
        for (name, values) in drawn {
            let Some((_, others)) = real.iter().find(|(other, _)| *other == name) else { continue };
            let distance = distance(values, others.clone());
            assert!(distance < DISTANCE_LIMIT, "{sizes:?}, {law:?}, {name}: {distance}");
            compared += 1;
        }
        assert_eq!(compared, 6);
    }
}

#[test]
fn the_two_sample_test_sees_a_degree_of_freedom_too_many() {
    if cfg!(debug_assertions) {
        return;
    }
    let sizes = Sizes { d_k: 7, queries: 23, keys: 31 };
    let faulty = values(&experiment(sizes, NORMAL, OneDegreeTooMany), 31, 20_000);
    let real = values(&VarianceExperiment::new(sizes, NORMAL, &[Scale::None], Precision::F64), 37, 20_000);
    let of = |all: &[(String, Vec<f64>)]| {
        all.iter().find(|(name, _)| name == "q_variance").map(|(_, values)| values.clone()).expect("the measure")
    };
    assert!(distance(of(&faulty), of(&real)) > DISTANCE_LIMIT);
}

#[test]
fn both_ways_keep_the_rate_that_was_asked_for() {
    let seeds = if cfg!(debug_assertions) { 120 } else { 2000 };
    let mut judged = 0;
    for (d_k, queries, keys) in [(1, 32, 32), (4, 12, 60), (64, 32, 32)] {
        let sizes = Sizes { d_k, queries, keys };
        for trials in [3, 40] {
            let streamed = experiment(sizes, NORMAL, Streamed::new(NORMAL, Precision::F64));
            let all = [
                calibrate(&streamed, trials, seeds, &LEVELS).0,
                calibrate(&experiment(sizes, NORMAL, DrawnScatter), trials, seeds, &LEVELS).0,
            ];
            let faults: Vec<String> = all.iter().flatten().filter_map(fault).collect();
            assert!(faults.is_empty(), "{sizes:?}, {trials} trials: {faults:?}");
            judged += all.iter().flatten().filter(|row| row.judged > 0).count();
        }
    }
    // 6 cells of (9 + 8) rows at 2 levels; the small ones leave some undecided.
    assert!(judged >= 150, "only {judged} of 204 rows were judged");
}

/// Plans and judges the claims of the standard normal law on a source.
fn verdicts<S: MomentSource>(source: S) -> Vec<Row> {
    let experiment = experiment(SIZES, NORMAL, source);
    let trials = plan::plan(std::slice::from_ref(&experiment), |_| Vec::new(), &RATES, 0).expect("a plan")[0];
    rows(&[outcome_of(&experiment, trials, 0)], &[], &RATES, |row| row)
}

fn rejected(rows: &[Row]) -> Vec<String> {
    let scaled = |row: &Row| format!("{}:{}", row.statistic, row.scale.as_deref().unwrap_or(""));
    rows.iter().filter(|row| row.verdict == Verdict::Rejected).map(scaled).collect()
}

#[test]
fn the_correct_program_is_upheld_both_ways() {
    for rows in [verdicts(Streamed::new(NORMAL, Precision::F64)), verdicts(DrawnScatter)] {
        assert!(rows.iter().all(|row| row.verdict == Verdict::Upheld), "{rows:?}");
    }
}

impl DrawRows for BiasedNormal {
    fn draw_rows<T: Drawable>(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        first: usize,
        queries: &mut [T],
        keys: &mut [T],
    ) {
        NORMAL.draw_rows(stream, sizes, first, queries, keys);
        for entry in queries.iter_mut().chain(keys.iter_mut()) {
            *entry = T::from_f64(self.mean + self.sd * attn::number::Real::to_f64(*entry));
        }
    }
}

#[test]
fn faulty_draws_are_rejected_by_the_algebra_as_by_the_logits() {
    let wide = rejected(&verdicts(Streamed::new(BiasedNormal { mean: 0.0, sd: 1.06 }, Precision::F64)));
    let expected = ["logit_variance:none", "logit_variance:inv-sqrt-dk", "q_variance:", "k_variance:"];
    assert_eq!(wide, expected);
    let moved = rejected(&verdicts(Streamed::new(BiasedNormal { mean: 0.2, sd: 1.0 }, Precision::F64)));
    for statistic in ["logit_mean:none", "logit_mean:inv-sqrt-dk", "q_mean:", "k_mean:"] {
        assert!(moved.iter().any(|row| row == statistic), "{statistic}: {moved:?}");
    }
}

/// Scatter of one row more than there are.
struct OneDegreeTooMany;

/// Column means that scatter as single entries do.
struct WideMeans;

fn drawn(stream: &TrialStream, sizes: Sizes, change: impl Fn(u64, NormalScatter) -> Scatter) -> TrialMoments {
    let scatter = |matrix, rows: usize, added: u64| {
        change(rows as u64, draw_normal_scatter(stream, matrix, rows as u64 + added, sizes.d_k))
    };
    let (queries, keys) =
        (scatter(MatrixId::QUERY_SCATTER, sizes.queries, 1), scatter(MatrixId::KEY_SCATTER, sizes.keys, 1));
    let entries = [queries.of_entries(), keys.of_entries()].concat();
    TrialMoments { queries, keys, entries, diagonal: None }
}

macro_rules! faulty_source {
    ($name:ident, $change:expr) => {
        impl MomentSource for $name {
            type Workspace = ();

            fn has_correlation(&self) -> bool {
                false
            }

            fn moments(
                &self,
                stream: &TrialStream,
                sizes: Sizes,
                _: InputLaw,
                _: f64,
                _: Inside,
                (): &mut (),
            ) -> TrialMoments {
                drawn(stream, sizes, $change)
            }

            fn operations(&self, sizes: Sizes) -> f64 {
                DrawnScatter.operations(sizes)
            }

            fn bytes(&self, sizes: Sizes) -> f64 {
                DrawnScatter.bytes(sizes)
            }
        }
    };
}

faulty_source!(OneDegreeTooMany, |rows, scatter| Scatter::new(rows, scatter.means, scatter.upper));
faulty_source!(WideMeans, |rows, scatter| {
    let means = scatter.means.iter().map(|mean| mean * ((rows + 1) as f64).sqrt()).collect();
    // The right degrees of freedom, near enough: E C is that of one row fewer.
    let share = (rows as f64 - 1.0) / rows as f64;
    Scatter::new(rows, means, scatter.upper.iter().map(|product| product * share).collect())
});

/// As [`verdicts`], planned to see one per cent.
fn rejected_at_one_per_cent<S: MomentSource>(source: S) -> Vec<String> {
    let rates = ErrorRates { detect: 0.01, ..RATES };
    let experiment = experiment(SIZES, NORMAL, source);
    let trials = plan::plan(std::slice::from_ref(&experiment), |_| Vec::new(), &rates, 0).expect("a plan")[0];
    rejected(&rows(&[outcome_of(&experiment, trials, 0)], &[], &rates, |row| row))
}

#[test]
fn faulty_gram_matrices_are_rejected() {
    // One in 60 and one in 46: 1.6 % and 2.1 % in the entries, 3.8 % in the logits.
    let many = rejected_at_one_per_cent(OneDegreeTooMany);
    for statistic in ["logit_variance:none", "logit_variance:inv-sqrt-dk", "q_variance:", "k_variance:"] {
        assert!(many.iter().any(|row| row == statistic), "{statistic}: {many:?}");
    }
    // Column means of variance 1 in the place of 1/n add one part in 61 and in 47 to the mean squares.
    let wide = rejected_at_one_per_cent(WideMeans);
    for statistic in ["logit_variance:none", "q_variance:", "k_variance:"] {
        assert!(wide.iter().any(|row| row == statistic), "{statistic}: {wide:?}");
    }
}
