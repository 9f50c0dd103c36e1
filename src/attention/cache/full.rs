//! The full causal pass: all queries against all keys at once, hidden ones left out.

use super::{Arithmetic, HeadShape, Problem, Stored};
use crate::attention::kernel::{InstructionSet, PackedKeys, logit_block};
use crate::number::Real;

/// Queries whose logits are formed at a time.
const ROWS: usize = 64;

/// Output of the full pass and how far another order of the same operations can move it.
#[derive(Debug, Clone)]
pub struct FullPass<A> {
    /// n × h × d_v.
    pub output: Vec<A>,
    /// For each output, a bound on its difference from any other evaluation in the same arithmetic.
    pub bounds: Vec<f64>,
}

/// Attention of every token of `problem` over the keys it sees, from one matrix of logits a head; the bound of each output beside it.
///
/// Two evaluations of one output differ in the order of their sums. With u of the arithmetic, u_s of the stored type where that is
/// coarser (else 0), v visible keys, first-order bounds (Higham 2002, section 3.1, γ_k = k·u) with room for the rest:
///
/// - a logit moves by (d_k + 4)·u·L, L = |scale|·|q|·max|k|, in each of the two; rounded to a coarser type, by one more spacing 2u_s·X, X the largest
///   |logit|: Δ = 2(d_k + 4)·u·L + 2u_s·X;
/// - all weights of a row then move by a factor within e^{±2Δ}; subtracting the maximum, exponential, sum and division add η = (2X + v + 6)·u in
///   each: θ = e^{2Δ} − 1 + 2.2·η;
/// - the sum over values adds 2(v + 3)·u: |o − o'| ≤ 1.1·(θ + 2(v + 3)·u)·Σ p|v|, and 2u_s·(|o| + that) where the output is rounded.
pub fn causal_pass<S: Stored>(problem: &Problem<S>) -> FullPass<S::Arithmetic> {
    let HeadShape { heads, key_value_heads, d_k, d_v } = problem.shape;
    let n = problem.tokens();
    let width = heads * d_v;
    let turned = |matrix: &[S::Arithmetic], count: usize| -> Vec<S::Arithmetic> {
        let row = |token| problem.turned(Problem::<S>::of_token(matrix, token, count * d_k), token as u64);
        (0..n).flat_map(row).collect()
    };
    let (queries, keys) = (turned(&problem.queries, heads), turned(&problem.keys, key_value_heads));
    let mut pass = FullPass { output: vec![S::Arithmetic::ZERO; n * width], bounds: vec![0.0; n * width] };
    let of_head = |matrix: &[S::Arithmetic], count: usize, head: usize| -> Vec<S::Arithmetic> {
        let row = |token: usize| matrix[(token * count + head) * d_k..][..d_k].iter().copied();
        (0..n).flat_map(row).collect()
    };
    let mut logits = vec![S::Arithmetic::ZERO; ROWS * n];
    for head in 0..heads {
        let group = problem.shape.group_of(head);
        let head_keys = of_head(&keys, key_value_heads, group);
        let packed = PackedKeys::new(InstructionSet::detect(), &head_keys, n, d_k);
        let lengths: Vec<f64> = head_keys.chunks(d_k).map(length).collect();
        for (block, rows) in of_head(&queries, heads, head).chunks(ROWS * d_k).enumerate() {
            let count = rows.len() / d_k;
            logit_block(rows, count, &packed, 0..n, &mut logits[..count * n], n);
            for (row, query) in rows.chunks(d_k).enumerate() {
                let token = block * ROWS + row;
                let visible = problem.reach.visible(token as u64);
                let visible = visible.start as usize..visible.end as usize;
                let longest = lengths[visible.clone()].iter().copied().fold(0.0, f64::max);
                let first = token * width + head * d_v;
                let of_query = Query {
                    problem,
                    group,
                    first_key: visible.start,
                    logit_length: problem.scale.abs() * length(query) * longest,
                };
                let (output, bounds) = (&mut pass.output[first..first + d_v], &mut pass.bounds[first..first + d_v]);
                of_query.attend(&mut logits[row * n..][visible], output, bounds);
            }
        }
    }
    pass
}

fn length<A: Real>(row: &[A]) -> f64 {
    row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>().sqrt()
}

/// One query and the keys it sees.
struct Query<'a, S: Stored> {
    problem: &'a Problem<S>,
    group: usize,
    first_key: usize,
    /// L: the largest |scale|·|q|·|k|.
    logit_length: f64,
}

impl<S: Stored> Query<'_, S> {
    /// Turns the raw logits of the visible keys into weights, their values into the output.
    fn attend(&self, logits: &mut [S::Arithmetic], output: &mut [S::Arithmetic], bounds: &mut [f64]) {
        let HeadShape { key_value_heads, d_k, d_v, .. } = self.problem.shape;
        let scale = S::Arithmetic::from_f64(self.problem.scale);
        let mut largest = 0.0f64;
        for logit in logits.iter_mut() {
            *logit = S::rounded(*logit * scale);
            largest = largest.max(logit.to_f64().abs());
        }
        let keys = logits.len() as f64;
        super::softmax(logits);
        for (index, &weight) in logits.iter().enumerate() {
            let row = ((self.first_key + index) * key_value_heads + self.group) * d_v;
            for (column, value) in self.problem.values[row..row + d_v].iter().enumerate() {
                output[column] = output[column] + weight * value.read();
                bounds[column] += weight.to_f64() * value.read().to_f64().abs();
            }
        }
        let (u, u_stored) = (S::Arithmetic::UNIT_ROUNDOFF, S::ROUNDING);
        let logit = 2.0 * (d_k as f64 + 4.0) * u * self.logit_length + 2.0 * u_stored * largest;
        let weight = (2.0 * logit).exp_m1() + 2.2 * (2.0 * largest + keys + 6.0) * u;
        let relative = 1.1 * (weight + 2.0 * (keys + 3.0) * u);
        for (output, bound) in output.iter_mut().zip(bounds) {
            *output = S::rounded(*output);
            let sum = relative * *bound;
            *bound = sum + 2.0 * u_stored * (output.to_f64().abs() + sum);
        }
    }
}
