//! Against closed forms, mpmath, the matrix definition and a direct simulation of the gradient.

use super::*;
use crate::attention::kernel::InstructionSet;
use crate::attention::reference::scaled_dot_product_attention;
use crate::sampling::{Entries, MatrixId, TrialStream, fill};
use nalgebra::DMatrix;

fn close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs(), "{found:e} is not {expected:e}");
}

fn normals(count: usize, matrix: u32) -> Vec<f64> {
    let mut values = vec![0.0; count];
    fill(Entries::Normal, &TrialStream::new(3, 5, 7), MatrixId(matrix), 0, 1, &mut values);
    values
}

/// The rows of all queries.
fn rows<T: Element>(precision: Precision, queries: &[T], keys: &PackedKeys<T>, factors: &[f64]) -> Vec<WeightRow> {
    let mut out = vec![WeightRow::default(); queries.len() / keys.depth() * factors.len()];
    ScaledSoftmax { precision }.rows(queries, keys, factors, &mut RowBuffers::default(), &mut out);
    out
}

/// The weights of all queries.
fn weights<T: Element>(precision: Precision, queries: &[T], keys: &PackedKeys<T>, factors: &[f64]) -> Vec<T> {
    // What was there before must not matter.
    let mut out = vec![T::from_f64(7.0); 5];
    let mut rows = vec![WeightRow::default(); queries.len() / keys.depth() * factors.len()];
    let softmax = ScaledSoftmax { precision };
    softmax.rows_and_weights(queries, keys, factors, &mut RowBuffers::default(), &mut rows, &mut out);
    out
}

/// The statistics of one row of logits x, as those of a query 1 against keys x of one component.
fn exact_row(logits: &[f64]) -> RowStatistics {
    let keys = PackedKeys::new(InstructionSet::detect(), logits, logits.len(), 1);
    rows(Precision::F64, &[1.0], &keys, &[1.0])[0].statistics
}

#[test]
fn two_weights_have_the_statistics_of_the_closed_form() {
    // Logits ln 3 and 0: p = 3/4, 1/4; J = (3/16)·[[1, −1], [−1, 1]].
    let row = exact_row(&[3f64.ln(), 0.0]);
    close(row.log_partition, 4f64.ln(), 1e-15);
    close(row.entropy, 4f64.ln() - 0.75 * 3f64.ln(), 1e-15);
    close(row.participation, 10.0 / 16.0, 1e-15);
    close(row.sum_p_cubed, 28.0 / 64.0, 1e-15);
    close(row.max_weight, 0.75, 1e-15);
    close(row.jacobian_trace, 6.0 / 16.0, 1e-15);
    close(row.jacobian_frobenius, 4.0 * 9.0 / 256.0, 1e-15);
    close(row.logit_square_sum, 3f64.ln().powi(2), 1e-15);
}

#[test]
fn complements_of_a_nearly_one_hot_row_keep_their_digits() {
    // mpmath, 60 digits, logits 0, −40, −41.
    let row = exact_row(&[-40.0, 0.0, -41.0]);
    close(row.entropy, 2.3982357641902468e-16, 1e-14);
    close(row.jacobian_trace, 1.1622472889253155e-17, 1e-14);
    close(row.jacobian_frobenius, 9.524381286394018e-35, 1e-14);
}

#[test]
fn one_key_and_a_fault_are_told_apart() {
    let row = exact_row(&[123.0]);
    assert_eq!((row.entropy, row.participation, row.jacobian_trace), (0.0, 1.0, 0.0));
    for broken in [[f64::NAN, 1.0], [1.0, f64::NAN], [f64::INFINITY, f64::INFINITY]] {
        let row = exact_row(&broken);
        assert!(row.entropy.is_nan() && row.max_weight.is_nan() && row.jacobian_frobenius.is_nan(), "{broken:?}");
        let keys = PackedKeys::new(InstructionSet::detect(), &broken, 2, 1);
        let weights = weights(Precision::F64, &[1.0], &keys, &[1.0]);
        assert!(weights.iter().all(|weight| weight.is_nan()), "{weights:?}");
    }
    let rounded = rounded_row(&[0.0, 0.0], [f32::NAN, 0.5].into_iter());
    assert!(rounded.statistics.max_weight.is_nan() && rounded.statistics.participation.is_nan());
}

#[test]
fn rows_and_weights_are_those_of_the_matrix_definition() {
    let (n, m, d) = (37, 101, 11);
    let (q, k) = (normals(n * d, 0), normals(m * d, 1));
    let keys = PackedKeys::new(InstructionSet::detect(), &k, m, d);
    let factors = [1.0, 0.3];
    let rows = rows(Precision::F64, &q, &keys, &factors);
    let weights = weights(Precision::F64, &q, &keys, &factors);
    for (f, &factor) in factors.iter().enumerate() {
        let matrix = |rows: usize, data: &[f64]| DMatrix::from_row_slice(rows, d, data);
        let values = DMatrix::zeros(m, 1);
        let expected = scaled_dot_product_attention(&matrix(n, &q), &matrix(m, &k), &values, factor, None).weights;
        for i in 0..n {
            let p: Vec<f64> = expected.row(i).iter().copied().collect();
            let sum = |power: i32| p.iter().map(|p| p.powi(power)).sum::<f64>();
            let row = &rows[i * factors.len() + f].statistics;
            // Logits up to 15 carry 11 roundings of 1e-15 each; Σ over 101 weights adds less.
            close(row.participation, sum(2), 1e-13);
            close(row.sum_p_cubed, sum(3), 1e-13);
            close(row.entropy, -p.iter().map(|p| p * p.ln()).sum::<f64>(), 1e-12);
            close(row.max_weight, p.iter().copied().fold(0.0, f64::max), 1e-13);
            for (found, p) in weights[(f * n + i) * m..][..m].iter().zip(&p) {
                close(*found, *p, 1e-13);
            }
        }
    }
}

#[test]
fn the_mean_square_of_the_gradient_is_the_jacobians_norm() {
    // E|J g|² for g of independent unit entries, simulated directly from p (J g = p∘g − p (p·g)) for a spread and for a
    // condensed row, against ‖J‖²_F as it comes from the logits.
    let m = 23;
    for (spread, seed) in [(1.0, 10), (4.0, 11)] {
        let logits: Vec<f64> = normals(m, seed).iter().map(|z| spread * z).collect();
        let row = exact_row(&logits);
        let p: Vec<f64> = logits.iter().map(|logit| (logit - row.log_partition).exp()).collect();
        let draws = 40_009;
        let gradients = normals(draws * m, 12 + seed);
        let (mut sum, mut squares) = (0.0, 0.0);
        for g in gradients.chunks(m) {
            let along: f64 = p.iter().zip(g).map(|(p, g)| p * g).sum();
            let square: f64 = p.iter().zip(g).map(|(p, g)| (p * (g - along)).powi(2)).sum();
            sum += square;
            squares += square * square;
        }
        let mean = sum / draws as f64;
        let error = ((squares / draws as f64 - mean * mean) / draws as f64).sqrt();
        // Five standard errors: one in 1.7 million.
        assert!((mean - row.jacobian_frobenius).abs() < 5.0 * error, "{mean} ± {error}, {}", row.jacobian_frobenius);
    }
}

#[test]
fn rows_and_weights_together_are_those_of_each_alone() {
    let (n, m, d) = (5, 300, 8);
    let (q, k): (Vec<f32>, Vec<f32>) = {
        let single = |numbers: Vec<f64>| numbers.into_iter().map(|x| x as f32).collect();
        (single(normals(n * d, 1)), single(normals(m * d, 2)))
    };
    let keys = PackedKeys::new(InstructionSet::detect(), &k, m, d);
    let factors = [1.0, 0.35, -2.0];
    for precision in [Precision::F32, Precision::Bf16] {
        let (mut found, mut found_weights) = (vec![WeightRow::default(); n * 3], Vec::new());
        let softmax = ScaledSoftmax { precision };
        let mut buffers = RowBuffers::default();
        softmax.rows_and_weights(&q, &keys, &factors, &mut buffers, &mut found, &mut found_weights);
        assert_eq!(found, rows(precision, &q, &keys, &factors), "{precision}");
        let one_by_one = factors.iter().flat_map(|&factor| weights(precision, &q, &keys, &[factor]));
        assert_eq!(found_weights, one_by_one.collect::<Vec<f32>>(), "{precision}");
    }
}

#[test]
fn half_types_show_what_rounding_does_to_a_row() {
    // One dimension: q = 1 against keys 0 and −20. e^−20 = 2.1e-9 is below half of binary16's smallest number 6.0e-8, and in
    // bfloat16's range; the sum then is 1 and 1 + 2.1e-9 to f32: 1.
    let keys = PackedKeys::new(InstructionSet::detect(), &[0.0f32, -20.0], 2, 1);
    let row = |keys: &PackedKeys<f32>, precision| rows(precision, &[1.0f32], keys, &[1.0])[0];
    let (single, brain) = (row(&keys, Precision::F16), row(&keys, Precision::Bf16));
    assert_eq!((single.underflowed, single.statistics.max_weight, single.sum_error), (0.5, 1.0, 0.0));
    assert_eq!(brain.underflowed, 0.0);
    // e^−20 to 8 significant bits.
    assert!((brain.sum_error / (-20f64).exp() - 1.0).abs() < 2f64.powi(-8), "{}", brain.sum_error);
    // Three equal weights: 1/3 in bfloat16 is 171/512, so that Σp − 1 = 1/512.
    let keys = PackedKeys::new(InstructionSet::detect(), &[0.0f32; 3], 3, 1);
    let row = row(&keys, Precision::Bf16);
    assert_eq!((row.sum_error, row.statistics.max_weight), (1.0 / 512.0, 171.0 / 512.0));
}
