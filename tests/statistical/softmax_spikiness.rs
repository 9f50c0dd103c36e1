//! Do the rows of `attn softmax-spikiness` keep the rates that were asked for, also where rows are heavy-tailed?

use attn::attention::kernel::{Element, PackedKeys, logit_block};
use attn::attention::softmax::{RowBuffers, RowStatistics, WeightRow};
use attn::attention::{Precision, Scale, Softmax};
use attn::experiment::calibration::calibrate;
use attn::experiment::engine::{self, Experiment};
use attn::experiment::progress::Progress;
use attn::experiment::softmax::SoftmaxExperiment;
use attn::experiment::{InputLaw, Sizes};
use attn::sampling::Entries;
use attn::statistics::StudentModel;
use attn::statistics::binomial::acceptance_region;
use attn::statistics::bounded::betting_p_value;
use attn::theory::softmax::freezing;

/// Rates asked for.
const LEVELS: [f64; 2] = [0.05, 0.01];
/// Chance that a correct rate fails one of the comparisons here.
const ERROR: f64 = 1e-6;
/// Runs of each size; few where the tests are built without optimisation, whose arithmetic is the same.
const SEEDS: u64 = if cfg!(debug_assertions) { 127 } else { 1009 };
/// What the tests over trials may add to a rate: their documented distortion (`DISTORTION_LIMIT` of the test corrected for skewness).
const DISTORTION: f64 = 0.1;

/// Runs one size over many seeds and prints a line for each row and rate; every rate must not exceed what was asked for.
fn rates_hold(d_k: usize, tokens: usize, scale: Scale, trials: u64, seeds: u64) {
    let sizes = Sizes { d_k, queries: tokens, keys: tokens };
    let law = InputLaw::standard(Entries::Normal);
    let experiment = SoftmaxExperiment::new(sizes, law, &[scale], Precision::F64, 0.99);
    let gamma = freezing(d_k as u32, tokens, scale.factor(d_k)).expect("several keys");
    let (rows, runs) = calibrate(&experiment, trials, seeds, &LEVELS);
    for row in &rows {
        let rate = row.rejected as f64 / row.judged.max(1) as f64;
        println!(
            "{d_k:>3} {tokens:>3} {scale:<12} {gamma:.2} T {trials} {:<20} {:<5} judged {:>5} of {seeds} rejected {:>4} rate {rate:.4}  {}",
            row.statistic,
            row.level,
            row.judged,
            row.rejected,
            row.test.split(':').next().unwrap_or_default(),
        );
        if row.judged > 0 {
            let (_, most) = acceptance_region(row.judged, row.level * (1.0 + DISTORTION), ERROR);
            assert!(row.rejected <= most, "{} rejected {} of {}", row.statistic, row.rejected, row.judged);
        }
    }
    for run in runs {
        let (_, most) = acceptance_region(run.seeds, run.false_alarm * (1.0 + DISTORTION), ERROR);
        println!("{d_k:>3} {tokens:>3} {scale:<12} whole run {} rejected {} of {seeds}", run.false_alarm, run.rejected);
        assert!(run.rejected <= most, "whole run: {} of {}", run.rejected, run.seeds);
    }
}

#[test]
fn rows_far_from_freezing_keep_their_rates() {
    for (d_k, tokens) in [(4, 32), (16, 64), (64, 64)] {
        rates_hold(d_k, tokens, Scale::InverseSqrtWidth, 120, SEEDS);
    }
}

#[test]
fn frozen_rows_keep_their_rates() {
    for (d_k, tokens) in [(16, 64), (64, 64)] {
        rates_hold(d_k, tokens, Scale::None, 120, SEEDS);
    }
}

#[test]
fn rows_near_freezing_keep_their_rates() {
    // Logit standard deviations of 0.76, 0.69 and 0.98 of the freezing point.
    for (d_k, tokens) in [(4, 32), (4, 64), (8, 64)] {
        rates_hold(d_k, tokens, Scale::None, 120, SEEDS);
    }
}

/// A way to get softmax wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The scale is left out.
    NoScale,
    /// 1/d_k in place of 1/√d_k.
    InverseWidth,
    /// Weights sum to 1 over the queries of each key.
    WrongAxis,
    /// Shifted by the largest logit before the scale, in f32.
    UnscaledMaximum,
}

struct Faulty(Fault);

impl Faulty {
    fn logits<T: Element>(&self, queries: &[T], keys: &PackedKeys<T>, factor: f64) -> Vec<Vec<f64>> {
        let (rows, m) = (queries.len() / keys.depth(), keys.rows());
        let mut raw = vec![T::ZERO; rows * m];
        logit_block(queries, rows, keys, 0..m, &mut raw, m);
        let factor = match self.0 {
            Fault::NoScale => 1.0,
            Fault::InverseWidth => factor * factor,
            Fault::WrongAxis | Fault::UnscaledMaximum => factor,
        };
        raw.chunks(m).map(|row| row.iter().map(|logit| logit.to_f64() * factor).collect()).collect()
    }

    fn distribution<T: Element>(&self, queries: &[T], keys: &PackedKeys<T>, factor: f64) -> Vec<Vec<f64>> {
        let logits = self.logits(queries, keys, factor);
        let m = keys.rows();
        match self.0 {
            Fault::NoScale | Fault::InverseWidth => {
                logits.iter().map(|row| normalised(row.iter().map(|x| x.exp()).collect())).collect()
            }
            Fault::WrongAxis => {
                let of_key = |j: usize| normalised(logits.iter().map(|row| row[j].exp()).collect());
                let columns: Vec<Vec<f64>> = (0..m).map(of_key).collect();
                (0..logits.len()).map(|i| columns.iter().map(|column| column[i]).collect()).collect()
            }
            Fault::UnscaledMaximum => {
                let row = |row: &Vec<f64>| {
                    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max) / factor;
                    normalised(row.iter().map(|x| f64::from(((x - largest) as f32).exp())).collect())
                };
                logits.iter().map(row).collect()
            }
        }
    }
}

fn normalised(weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

impl Softmax for Faulty {
    fn rows<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        _: &mut RowBuffers<T>,
        out: &mut [WeightRow],
    ) {
        let of_factor: Vec<_> = factors
            .iter()
            .map(|&factor| (self.logits(queries, keys, factor), self.distribution(queries, keys, factor)))
            .collect();
        let row = |i: usize, f: usize| {
            let (x, p) = (&of_factor[f].0[i], &of_factor[f].1[i]);
            let sum = |power: i32| p.iter().map(|p| p.powi(power)).sum::<f64>();
            let statistics = RowStatistics {
                log_partition: 0.0,
                entropy: -p.iter().map(|p| if *p == 0.0 { 0.0 } else { p * p.ln() }).sum::<f64>(),
                participation: sum(2),
                sum_p_cubed: sum(3),
                max_weight: p.iter().copied().fold(p[0], f64::max),
                jacobian_trace: sum(1) - sum(2),
                jacobian_frobenius: sum(2) - 2.0 * sum(3) + sum(2).powi(2),
                logit_sum: x.iter().sum(),
                logit_square_sum: x.iter().map(|x| x * x).sum(),
            };
            WeightRow::from(statistics)
        };
        for (i, out) in out.chunks_exact_mut(factors.len()).enumerate() {
            out.iter_mut().enumerate().for_each(|(f, out)| *out = row(i, f));
        }
    }

    fn rows_and_weights<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        factors: &[f64],
        buffers: &mut RowBuffers<T>,
        out: &mut [WeightRow],
        weights: &mut Vec<T>,
    ) {
        self.rows(queries, keys, factors, buffers, out);
        let of_factor = |&factor: &f64| self.distribution(queries, keys, factor).into_iter().flatten().map(T::from_f64);
        *weights = factors.iter().flat_map(of_factor).collect();
    }
}

/// The statistics that are rejected for a faulty softmax, on each of a few seeds.
fn rejected(fault: Fault, d_k: usize, trials: u64) -> Vec<String> {
    // n ≠ m: for n = m sums over all of P have the same expectation over either axis.
    let sizes = Sizes { d_k, queries: 32, keys: 64 };
    let law = InputLaw::standard(Entries::Normal);
    let scales = [Scale::InverseSqrtWidth];
    let experiment = SoftmaxExperiment::with_parts(sizes, law, &scales, Precision::F64, 0.99, law, Faulty(fault));
    let seeds = 3;
    let (rows, runs) = calibrate(&experiment, trials, seeds, &[1e-3]);
    assert_eq!(runs[0].rejected, seeds, "{fault:?}: the run is rejected on every seed");
    rows.into_iter().filter(|row| row.rejected == seeds).map(|row| row.statistic).collect()
}

#[test]
fn faulty_softmaxes_are_rejected() {
    for fault in [Fault::NoScale, Fault::InverseWidth] {
        let rejected = rejected(fault, 16, 400);
        for statistic in ["entropy", "participation", "output_variance", "freezing"] {
            assert!(rejected.iter().any(|name| name == statistic), "{fault:?}: {rejected:?}");
        }
    }
    let over_queries = rejected(Fault::WrongAxis, 16, 2000);
    assert!(over_queries.iter().any(|name| name == "entropy"), "{over_queries:?}");
    assert!(over_queries.iter().all(|name| name != "freezing"), "the logits themselves are right: {over_queries:?}");
}

#[test]
fn a_maximum_taken_before_the_scale_is_rejected_where_it_underflows() {
    // Raw logits at d_k = 4096 reach 100 and more above the scaled ones: e^−104 is 0 in f32, and 0/0 no weight.
    let sizes = Sizes { d_k: 4096, queries: 32, keys: 32 };
    let law = InputLaw::standard(Entries::Normal);
    let fault = Faulty(Fault::UnscaledMaximum);
    let experiment =
        SoftmaxExperiment::with_parts(sizes, law, &[Scale::InverseSqrtWidth], Precision::F64, 0.99, law, fault);
    let (_, runs) = calibrate(&experiment, 30, 1, &[1e-3]);
    assert_eq!(runs[0].rejected, 1);
}

#[test]
fn near_freezing_students_test_alarms_too_often_and_the_bet_does_not() {
    // One row a trial at 0.57 of the freezing point: nothing averages the rare condensed rows away.
    let sizes = Sizes { d_k: 4, queries: 1, keys: 512 };
    let law = InputLaw::standard(Entries::Normal);
    let experiment = SoftmaxExperiment::new(sizes, law, &[Scale::None], Precision::F64, 0.99);
    let claims = experiment.claims();
    let participation = claims.iter().position(|claim| claim.statistic == "participation").expect("a claim");
    let expected = claims[participation].expected.expect("theory").value;
    let (seeds, trials, level) = (1009u64, 40, 0.05);
    let (mut plain, mut bet) = (0, 0);
    for seed in 0..seeds {
        let mut values = Vec::new();
        let columns = engine::run(&experiment, seed, 0..trials, &Progress::silent(), |_, trial| {
            values.push(trial[participation]);
            Ok(())
        });
        let columns = columns.expect("nothing can fail");
        let model = StudentModel {
            expected,
            sample_variance: columns.sample_variance(participation).expect("several trials"),
            // The guard is what is left out here: a plain normal-theory interval.
            skewness: 0.0,
            trials,
            unit: 0.0,
        };
        let mean = columns.mean(participation).expect("several trials");
        plain += u64::from(model.p_value(mean, 0.0, level).expect("enough trials") < level);
        bet += u64::from(betting_p_value(&values, expected) < level);
    }
    println!("Student's test alarms in {plain} of {seeds} runs, the bet in {bet}, asked for {level}");
    assert!(plain > acceptance_region(seeds, level, ERROR).1, "{plain}");
    assert!(bet <= acceptance_region(seeds, level, ERROR).1, "{bet}");
}
