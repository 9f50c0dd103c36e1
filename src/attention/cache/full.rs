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
/// - logit j moves by (d_k + 4)·u·L_j, L_j = |scale|·|q|·|k_j|, in each of the two; rounded to a coarser type, by one more spacing
///   2u_s·|x_j|: Δ_j = 2(d_k + 4)·u·L_j + 2u_s·|x_j|, Δ the largest of them;
/// - its weight then moves by a factor e^{δ_j}/Σ p e^{δ}, |δ_j| ≤ Δ_j; subtracting the maximum, exponential, sum and division add
///   (2X + v + 6)·u in each, X the largest |logit|: with ε_j = Δ_j + 2.2·(2X + v + 6)·u the output moves by at most
///   e^{2Δ}·(Σ p_j·ε_j·|v_j| + |o|·Σ p_j·ε_j);
/// - the sum over values adds 2(v + 3)·u·Σ p|v|; 1.1 times all of it, and 2u_s·(|o| + that) where the output is rounded.
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
                let first = token * width + head * d_v;
                let of_query = Query {
                    problem,
                    group,
                    first_key: visible.start,
                    key_lengths: &lengths[visible.clone()],
                    length: problem.scale.abs() * length(query),
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
    /// |k| of the keys it sees.
    key_lengths: &'a [f64],
    /// |scale|·|q|.
    length: f64,
}

impl<S: Stored> Query<'_, S> {
    /// Turns the raw logits of the visible keys into weights, their values into the output.
    fn attend(&self, logits: &mut [S::Arithmetic], output: &mut [S::Arithmetic], bounds: &mut [f64]) {
        let HeadShape { key_value_heads, d_k, d_v, .. } = self.problem.shape;
        let scale = S::Arithmetic::from_f64(self.problem.scale);
        let (u, u_stored) = (S::Arithmetic::UNIT_ROUNDOFF, S::ROUNDING);
        let keys = logits.len() as f64;
        // Δ_j for now.
        let mut shifts = Vec::with_capacity(logits.len());
        let mut largest = 0.0f64;
        for (logit, key) in logits.iter_mut().zip(self.key_lengths) {
            *logit = S::rounded(*logit * scale);
            let size = logit.to_f64().abs();
            largest = largest.max(size);
            shifts.push(2.0 * (d_k as f64 + 4.0) * u * self.length * key + 2.0 * u_stored * size);
        }
        let growth = (2.0 * shifts.iter().copied().fold(0.0, f64::max)).exp();
        super::softmax(logits);
        let (mut mean_shift, mut sizes) = (0.0, vec![0.0; d_v]);
        for (index, (&weight, shift)) in logits.iter().zip(shifts).enumerate() {
            let shift = weight.to_f64() * (shift + 2.2 * (2.0 * largest + keys + 6.0) * u);
            mean_shift += shift;
            let row = ((self.first_key + index) * key_value_heads + self.group) * d_v;
            for (column, value) in self.problem.values[row..row + d_v].iter().enumerate() {
                let value = value.read();
                output[column] = output[column] + weight * value;
                bounds[column] += shift * value.to_f64().abs();
                sizes[column] += weight.to_f64() * value.to_f64().abs();
            }
        }
        for ((output, bound), size) in output.iter_mut().zip(bounds).zip(sizes) {
            *output = S::rounded(*output);
            let value = output.to_f64().abs();
            let sum = 1.1 * (growth * (*bound + value * mean_shift) + 2.0 * (keys + 3.0) * u * size);
            *bound = sum + 2.0 * u_stored * (value + sum);
        }
    }
}
