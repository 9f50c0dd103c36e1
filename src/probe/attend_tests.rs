use super::*;
use crate::attention::reference::scaled_dot_product_attention;
use crate::diagnosis::matrix::Storage;
use crate::probe::behaviour::right;
use crate::probe::case::{Capability, Inputs, Options};
use crate::probe::catalogue::cases;
use crate::probe::reference::{same_precision, yardstick};
use nalgebra::DMatrix;

fn block(shape: [usize; 4], numbers: &[f64]) -> Block {
    Block { shape, numbers: numbers.to_vec() }
}

/// One query, two keys, d = 1: logits ln 3 and 0.
fn small(options: Options, output_gradient: Option<Block>) -> Case {
    Case {
        name: "small".to_string(),
        capability: Capability::DefaultScale,
        purpose: String::new(),
        storage: Storage::F64,
        options,
        same_as: None,
        inputs: Inputs {
            queries: block([1, 1, 1, 1], &[3f64.ln()]),
            keys: block([1, 1, 2, 1], &[1.0, 0.0]),
            values: block([1, 1, 2, 1], &[8.0, 4.0]),
            mask: None,
            lengths: None,
            slopes: None,
            output_gradient,
        },
    }
}

#[test]
fn a_case_that_can_be_followed_by_hand() {
    // Weights 3/4 and 1/4, output 7, sum 4. With dO = 2: dP = (16, 8), mean 14, dS = 3/4·2 and −1/4·6 = (1.5, −1.5); dQ = 1.5·1,
    // dK = dS·ln 3, dV = 2·(3/4, 1/4).
    let case = small(Options { gradients: true, ..Options::default() }, Some(block([1, 1, 1, 1], &[2.0])));
    let behaviour = &right(&case)[0];
    for outcome in [attend(&case, behaviour, Arithmetic::EXACT), yardstick(&case, behaviour).values] {
        let near = |found: &Block, expected: &[f64]| {
            assert_eq!(found.numbers.len(), expected.len());
            // A handful of roundings of numbers below 16.
            found.numbers.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-14, "{a} {b}"));
        };
        near(&outcome.weights, &[0.75, 0.25]);
        near(&outcome.output, &[7.0]);
        near(&outcome.log_sum_exp, &[4f64.ln()]);
        let [dq, dk, dv] = outcome.gradients.expect("asked for");
        near(&dq, &[1.5]);
        near(&dk, &[1.5 * 3f64.ln(), -1.5 * 3f64.ln()]);
        near(&dv, &[1.5, 0.5]);
    }
}

#[test]
fn a_soft_cap_comes_after_the_scale() {
    // Scale 2, cap 3: 1/(1 + exp(−3·tanh(2·ln 3/3))) by mpmath with 20 digits; a handful of roundings.
    let case = small(Options { scale: Some(2.0), softcap: Some(3.0), ..Options::default() }, None);
    let weight = attend(&case, &right(&case)[0], Arithmetic::EXACT).weights.numbers[0];
    assert!((weight - 0.866_875_355_979_156_9).abs() < 1e-15, "{weight}");
}

/// The matrix of a block at (batch, head).
fn matrix(block: &Block, batch: usize, head: usize) -> DMatrix<f64> {
    DMatrix::from_fn(block.shape[2], block.shape[3], |row, column| block.row(batch, head, row)[column])
}

/// Output of the crate's slow definition for cases without cap, bias and distances.
fn by_matrices(case: &Case, inputs: &Inputs, batch: usize, head: usize) -> DMatrix<f64> {
    let behaviour = &right(case)[0];
    let shape = inputs.shape();
    let key_head = head * shape.key_heads / shape.heads;
    let visible = DMatrix::from_fn(shape.queries, shape.keys, |query, key| {
        let by_mask = inputs.mask.as_ref().is_none_or(|mask| mask.row(batch, head, query)[key] != 0.0);
        by_mask && behaviour.shows(query, key, shape.queries, shape.keys)
    });
    let of = |block: &Block, head: usize| matrix(block, batch, head);
    scaled_dot_product_attention(
        &of(&inputs.queries, head),
        &of(&inputs.keys, key_head),
        &of(&inputs.values, key_head),
        behaviour.scale,
        Some(&visible),
    )
    .output
}

#[test]
fn reference_and_definition_equal_the_product_of_matrices() {
    use Capability::*;
    let all =
        cases(5, &[DefaultScale, ExplicitScale, NonSquare, GroupedQueries, BooleanMask, Causal, Padding, Window, F64]);
    let mut compared = 0;
    for case in &all {
        let behaviour = &right(case)[0];
        let (exact, reference) = (attend(case, behaviour, Arithmetic::EXACT), yardstick(case, behaviour));
        for (batch, head) in places(&case.inputs.shape()) {
            let expected = by_matrices(case, &case.inputs, batch, head);
            for query in 0..expected.nrows() {
                for channel in 0..expected.ncols() {
                    let expected = expected[(query, channel)];
                    // Logits below 30, weights to 30·d·u ≈ 2e-13, values below 5000 (loud padding is hidden).
                    for found in [&exact.output, &reference.values.output] {
                        let found = found.row(batch, head, query)[channel];
                        assert!((found - expected).abs() < 1e-11, "{}: {found} {expected}", case.name);
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn gradients_are_the_central_differences_of_the_output() {
    // L = Σ dO∘O by the crate's slow definition; a central difference with step 1e-5 is off by h²·L‴/6 ≈ 1e-10·L‴ and by u·L/h ≈ 1e-10.
    let all = cases(3, &[Capability::Gradients]);
    let mut compared = 0;
    for case in all.iter().filter(|case| case.storage == Storage::F32) {
        let reference = yardstick(case, &right(case)[0]).values.gradients.expect("asked for");
        let upstream = case.inputs.output_gradient.as_ref().expect("given");
        let loss = |inputs: &Inputs| -> f64 {
            places(&inputs.shape())
                .map(|(batch, head)| by_matrices(case, inputs, batch, head).dot(&matrix(upstream, batch, head)))
                .sum()
        };
        for (index, gradient) in reference.iter().enumerate() {
            for place in (0..gradient.numbers.len()).step_by(17) {
                let moved = |step: f64| {
                    let mut inputs = case.inputs.clone();
                    let block = [&mut inputs.queries, &mut inputs.keys, &mut inputs.values].into_iter().nth(index);
                    block.expect("one of three").numbers[place] += step;
                    loss(&inputs)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let found = gradient.numbers[place];
                assert!(
                    (found - difference).abs() < 2e-8 * (1.0 + found.abs()),
                    "{} {index} {place}: {found} {difference}",
                    case.name
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn rounded_arithmetic_is_that_of_the_machine() {
    // The same loop with the machine's own f32 operations.
    let case = cases(1, &[Capability::F32]).swap_remove(1);
    let (inputs, behaviour) = (&case.inputs, &right(&case)[0]);
    let found = same_precision(&case, behaviour);
    let as_f32 = |row: &[f64]| row.iter().map(|&number| number as f32).collect::<Vec<f32>>();
    for (batch, head) in places(&inputs.shape()) {
        for query in 0..inputs.queries.shape[2] {
            let entries = as_f32(inputs.queries.row(batch, head, query));
            let logits: Vec<f32> = (0..inputs.keys.shape[2])
                .map(|key| {
                    let keys = as_f32(inputs.keys.row(batch, head, key));
                    entries.iter().zip(&keys).fold(0.0f32, |sum, (q, k)| sum + q * k) * behaviour.scale as f32
                })
                .collect();
            let maximum = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            // exp is the one operation that machines do not round alike.
            let weights: Vec<f32> = logits.iter().map(|logit| f64::from(logit - maximum).exp() as f32).collect();
            let total = weights.iter().fold(0.0f32, |sum, weight| sum + weight);
            for (key, weight) in weights.iter().enumerate() {
                assert_eq!(found.weights.row(batch, head, query)[key], f64::from(weight / total));
            }
        }
    }
}

#[test]
fn the_reference_keeps_its_digits_at_huge_logits() {
    // Logits are whole numbers from 1024 on: weights are exp(whole − largest) over their sum, without any other rounding.
    let all = cases(2, &[Capability::HugeLogits]);
    let case = all.iter().find(|case| case.name == "huge-logits-f64").expect("listed");
    let reference = yardstick(case, &right(case)[0]).values;
    for (batch, head) in places(&case.inputs.shape()) {
        for query in 0..case.inputs.queries.shape[2] {
            let q = case.inputs.queries.row(batch, head, query);
            let whole = |key: usize| (q[1] * case.inputs.keys.row(batch, head, key)[1] / 4.0).round();
            let keys = case.inputs.keys.shape[2];
            let largest = (0..keys).map(whole).fold(0.0, f64::max);
            let total: f64 = (0..keys).map(|key| (whole(key) - largest).exp()).sum();
            for key in 0..keys {
                let expected = (whole(key) - largest).exp() / total;
                let found = reference.weights.row(batch, head, query)[key];
                // exp, a sum of 11 and a quotient: below 16 roundings.
                assert!(
                    (found - expected).abs() <= 16.0 * Storage::F64.unit_roundoff() * expected,
                    "{found} {expected}"
                );
            }
        }
    }
}
