//! The per-trial file of a tiny run against the definition: the same draws through plain matrix products.
//!
//! The draws are the library's (their own tests hold them against an independent generator); everything after them
//! is computed here from `attention::reference`, on whole matrices and in two passes.

use attn::attention::reference;
use attn::sampling::{Drawable, Entries, MatrixId, TrialStream, fill, parameter_point};
use nalgebra::DMatrix;

use crate::program::{Record, attn_in, folder, number, records, text};

const QUERIES: usize = 3;
const KEYS: usize = 5;
const WIDTH: usize = 2;
const TRIALS: u32 = 4;

/// Mean, standard deviation and correlation of the entries.
#[derive(Clone, Copy)]
struct Law {
    mean: f64,
    sd: f64,
    correlation: f64,
}

const STANDARD: Law = Law { mean: 0.0, sd: 1.0, correlation: 0.0 };

/// Q and K of one trial, n×d and m×d: mean + sd·z, with k = ρq + √(1−ρ²)k′ before it.
fn draw<T: Drawable>(seed: u64, entries: Entries, trial: u32, keys: usize, law: Law) -> [DMatrix<f64>; 2] {
    let point = parameter_point(&[WIDTH as u64, QUERIES as u64, keys as u64]);
    let stream = TrialStream::new(seed, point, trial);
    let matrix = |rows: usize, id: MatrixId| {
        let mut values = vec![T::default(); rows * WIDTH];
        fill(entries, &stream, id, 0, WIDTH, &mut values);
        DMatrix::from_row_iterator(rows, WIDTH, values.iter().map(|value| value.to_f64()))
    };
    let (q, k) = (matrix(QUERIES, MatrixId::QUERIES), matrix(keys, MatrixId::KEYS));
    let k = if law.correlation == 0.0 { k } else { &q * law.correlation + k * (1.0 - law.correlation.powi(2)).sqrt() };
    [q, k].map(|z| z.map(|z| law.mean + law.sd * z))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn moment(values: &[f64], center: f64, power: i32) -> f64 {
    mean(&values.iter().map(|value| (value - center).powi(power)).collect::<Vec<_>>())
}

fn sample_variance(values: &[f64]) -> f64 {
    moment(values, mean(values), 2) * values.len() as f64 / (values.len() as f64 - 1.0)
}

/// Pearson's correlation over the tokens that both matrices have.
fn correlation(q: &DMatrix<f64>, k: &DMatrix<f64>) -> f64 {
    let tokens = q.nrows().min(k.nrows());
    let [q, k] = [q, k].map(|matrix| matrix.rows(0, tokens).iter().copied().collect::<Vec<f64>>());
    let (q_mean, k_mean) = (mean(&q), mean(&k));
    let product = mean(&q.iter().zip(&k).map(|(q, k)| (q - q_mean) * (k - k_mean)).collect::<Vec<_>>());
    product / (moment(&q, q_mean, 2) * moment(&k, k_mean, 2)).sqrt()
}

/// What the program must have measured, by the names of its columns. `expected` is E S of raw logits.
fn measures(q: &DMatrix<f64>, k: &DMatrix<f64>, scales: &[(&str, f64)], expected: f64) -> Vec<(String, f64)> {
    let mut all = vec![
        ("q_mean".to_string(), mean(q.as_slice())),
        ("q_variance".to_string(), sample_variance(q.as_slice())),
        ("k_mean".to_string(), mean(k.as_slice())),
        ("k_variance".to_string(), sample_variance(k.as_slice())),
        ("qk_correlation".to_string(), correlation(q, k)),
    ];
    for (scale, factor) in scales {
        let logits = reference::logits(q, k, *factor);
        let logits = logits.as_slice();
        all.push((format!("logit_mean:{scale}"), mean(logits)));
        all.push((format!("logit_variance:{scale}"), sample_variance(logits)));
        all.push((format!("logit_second_moment:{scale}"), moment(logits, expected * factor, 2)));
        all.push((format!("logit_fourth_moment:{scale}"), moment(logits, expected * factor, 4)));
    }
    all
}

fn per_trial(line: &str) -> Vec<Record> {
    let folder = folder();
    let line = format!("variance -q --queries {QUERIES} --dk {WIDTH} --trials {TRIALS} --per-trial t.csv {line}");
    attn_in(folder.path(), &line);
    let trials = records(&text(folder.path(), "t.csv"));
    assert_eq!(trials.len(), TRIALS as usize, "{line}");
    trials
}

fn assert_same(trial: &Record, measures: &[(String, f64)], tolerance: f64, what: &str) {
    for (name, expected) in measures {
        let measured = number(trial, name);
        let error = (measured - expected).abs();
        assert!(error <= tolerance * expected.abs().max(1.0), "{what} {name}: {measured}, not {expected}");
    }
}

const SCALES: [(&str, f64); 3] = [("none", 1.0), ("inv-sqrt-dk", std::f64::consts::FRAC_1_SQRT_2), ("inv-dk", 0.5)];

/// A few hundred roundings of numbers up to about a hundred (fourth powers), relative to max(1, value).
const DOUBLE: f64 = 1e-12;
/// Products and sums in f32 with ε = 1.2e-7; fourth powers multiply it by 4, d = 2 additions and a cancelling mean by more.
const SINGLE: f64 = 1e-5;

#[test]
fn every_measure_in_f64_is_that_of_the_definition() {
    for (name, entries) in [
        ("normal", Entries::Normal),
        ("uniform", Entries::Uniform),
        ("rademacher", Entries::Rademacher),
        ("laplace", Entries::Laplace),
        ("student-t:9", Entries::StudentT(9.0)),
    ] {
        let line = format!("--keys {KEYS} --seed 17 --entries {name} --scale none,inv-sqrt-dk,inv-dk");
        for (index, trial) in per_trial(&line).iter().enumerate() {
            let [q, k] = draw::<f64>(17, entries, index as u32, KEYS, STANDARD);
            if name == "rademacher" && (sample_variance(q.as_slice()) == 0.0 || correlation(&q, &k).is_nan()) {
                continue;
            }
            assert_same(trial, &measures(&q, &k, &SCALES, 0.0), DOUBLE, name);
        }
    }
}

#[test]
fn every_measure_in_f32_is_that_of_the_definition_on_its_own_draws() {
    for (index, trial) in
        per_trial(&format!("--keys {KEYS} --precision f32 --scale none,inv-sqrt-dk,inv-dk")).iter().enumerate()
    {
        let [q, k] = draw::<f32>(0, Entries::Normal, index as u32, KEYS, STANDARD);
        assert_same(trial, &measures(&q, &k, &SCALES, 0.0), SINGLE, "f32");
        // The f64 draws are others.
        let [other, _] = draw::<f64>(0, Entries::Normal, index as u32, KEYS, STANDARD);
        assert!((other - q).amax() > 0.01);
    }
}

#[test]
fn a_mean_and_a_standard_deviation_are_put_on_the_same_draws() {
    let law = Law { mean: -0.75, sd: 1.5, correlation: 0.0 };
    for (index, trial) in per_trial(&format!("--keys {KEYS} --mean -0.75 --sd 1.5 --seed 5")).iter().enumerate() {
        let [q, k] = draw::<f64>(5, Entries::Normal, index as u32, KEYS, law);
        // E S = d·μ².
        let expected = WIDTH as f64 * 0.75 * 0.75;
        assert_same(trial, &measures(&q, &k, &SCALES[..2], expected), DOUBLE, "mean and sd");
    }
}

#[test]
fn correlated_tokens_are_mixed_from_the_same_draws_and_their_diagonal_is_measured() {
    let law = Law { mean: 0.5, sd: 2.0, correlation: 0.6 };
    for (index, trial) in per_trial("--correlation 0.6 --mean 0.5 --sd 2").iter().enumerate() {
        let [q, k] = draw::<f64>(0, Entries::Normal, index as u32, QUERIES, law);
        // E of the mean of all logits: d(μ² + ρσ²/n).
        let expected = WIDTH as f64 * (0.25 + 0.6 * 4.0 / QUERIES as f64);
        let mut measures = measures(&q, &k, &SCALES[..2], expected);
        for (scale, factor) in &SCALES[..2] {
            let diagonal: Vec<f64> = reference::logits(&q, &k, *factor).diagonal().iter().copied().collect();
            measures.push((format!("diagonal_mean:{scale}"), mean(&diagonal)));
            measures.push((format!("diagonal_variance:{scale}"), sample_variance(&diagonal)));
        }
        assert_same(trial, &measures, DOUBLE, "correlation");
    }
}

#[test]
fn half_precision_rounds_entries_and_logits_to_nearest_even() {
    // `half` rounds to nearest even. Products of two 8-bit significands are exact in f32, their sum of two may round.
    let round = |value: f64| half::bf16::from_f32(value as f32).to_f64();
    for (index, trial) in per_trial(&format!("--keys {KEYS} --precision bf16 --scale none")).iter().enumerate() {
        let [q, k] = draw::<f32>(0, Entries::Normal, index as u32, KEYS, STANDARD);
        let (q, k) = (q.map(round), k.map(round));
        let logits = reference::logits(&q, &k, 1.0).map(round);
        let expected = [
            ("q_variance".to_string(), sample_variance(q.as_slice())),
            ("logit_mean:none".to_string(), mean(logits.as_slice())),
            ("logit_variance:none".to_string(), sample_variance(logits.as_slice())),
        ];
        assert_same(trial, &expected, SINGLE, "bf16");
    }
}

#[test]
fn half_precision_rounds_the_diagonal_too() {
    let law = Law { correlation: 0.6, ..STANDARD };
    let round = |value: f64| half::bf16::from_f32(value as f32).to_f64();
    for (index, trial) in per_trial("--precision bf16 --correlation 0.6 --scale none").iter().enumerate() {
        let [q, k] = draw::<f32>(0, Entries::Normal, index as u32, QUERIES, law);
        let logits = reference::logits(&q.map(round), &k.map(round), 1.0).map(round);
        let diagonal: Vec<f64> = logits.diagonal().iter().copied().collect();
        let expected = [
            ("diagonal_mean:none".to_string(), mean(&diagonal)),
            ("diagonal_variance:none".to_string(), sample_variance(&diagonal)),
            ("logit_mean:none".to_string(), mean(logits.as_slice())),
        ];
        assert_same(trial, &expected, SINGLE, "bf16 diagonal");
    }
}

#[test]
fn the_linearised_kurtosis_is_the_one_of_its_formula() {
    // κ(1 + M₄/E M₄ − 2M₂/E M₂ + 1) with E M₂ = d, E M₄ = 3d² + 6d, κ = 3 + 6/d for normal entries.
    let d = WIDTH as f64;
    let (second, fourth) = (d, 3.0 * d * d + 6.0 * d);
    for (index, trial) in per_trial(&format!("--keys {KEYS}")).iter().enumerate() {
        let [q, k] = draw::<f64>(0, Entries::Normal, index as u32, KEYS, STANDARD);
        let logits = reference::logits(&q, &k, 1.0);
        let moment = |power| moment(logits.as_slice(), 0.0, power);
        let expected = (3.0 + 6.0 / d) * (2.0 + moment(4) / fourth - 2.0 * moment(2) / second);
        for scale in ["none", "inv-sqrt-dk"] {
            assert_same(trial, &[(format!("logit_kurtosis_linear:{scale}"), expected)], DOUBLE, scale);
        }
    }
}
