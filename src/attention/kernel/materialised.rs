//! Full attention with all n·m weights in memory, stage by stage: [`qk`], [`scale_softmax`], [`pv`].
//!
//! The plain way, for timing each stage and as a second opinion on the streaming kernel; memory n·m. Its products run
//! on the same packed micro-kernels as everything else.

use super::operands::{PackedValues, assert_available, check_mask, hide, queries_without_keys};
use super::{
    AttentionInputs, AttentionOutput, AttentionShape, Element, InstructionSet, PackedKeys, PackedQueries, ROW_BLOCK,
    Threads, packed_logits,
};
use crate::attention::{Mask, VisibleKeys};

/// What [`scale_softmax`] knows of the rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SoftmaxRows {
    /// ln Σ eˣ over the scaled logits x of the keys each query sees; −∞ where it sees none, NaN where a logit is.
    pub log_partitions: Vec<f64>,
    /// Queries that see no key, or none whose logit is above −∞.
    pub queries_without_keys: usize,
}

/// O = softmax(c·QKᵀ + mask) V by way of all n·m weights: the same interface and, up to rounding, the same results as
/// [`super::streaming_attention`].
///
/// # Panics
/// As [`super::streaming_attention`], and if n·m numbers are more than memory can hold.
pub fn materialised_attention<T: Element>(
    set: InstructionSet,
    inputs: AttentionInputs<'_, T>,
    scale: f64,
    mask: Option<&Mask>,
    threads: Threads,
) -> AttentionOutput<T> {
    inputs.check(mask);
    let shape = inputs.shape;
    let mut logits = vec![T::default(); shape.logits()];
    qk(set, inputs, threads, &mut logits);
    let rows = scale_softmax(set, shape, scale, mask, threads, &mut logits);
    let mut output = vec![T::default(); shape.queries * shape.d_v];
    pv(set, &logits, inputs.values, shape, threads, &mut output);
    AttentionOutput { output, log_partitions: rows.log_partitions, queries_without_keys: rows.queries_without_keys }
}

/// Raw logits QKᵀ, n × m, row-major, to `logits`: 2·n·m·d_k operations.
///
/// # Panics
/// If a matrix has another length than its shape says, or this machine lacks the instruction set.
pub fn qk<T: Element>(set: InstructionSet, inputs: AttentionInputs<'_, T>, threads: Threads, logits: &mut [T]) {
    inputs.check(None);
    let AttentionShape { keys: m, d_k, .. } = inputs.shape;
    assert_eq!(logits.len(), inputs.shape.logits(), "the logits are not queries by keys");
    if logits.is_empty() {
        return;
    }
    let keys = PackedKeys::new(set, inputs.keys, m, d_k);
    product(inputs.queries, &keys, threads, logits);
}

/// Replaces each row of raw logits by softmax(c·logits + mask), the exact 0 where the mask hides, shifted by the row's
/// largest visible logit so that no exponential overflows; about n·m·20 operations.
///
/// A row without a visible logit above −∞ becomes 0 and is counted; a visible NaN or +∞ makes its row NaN. What is hidden is
/// replaced, not added to, so that it may hold anything.
///
/// # Panics
/// If `logits` or the mask is not n × m, or this machine lacks the instruction set.
pub fn scale_softmax<T: Element>(
    set: InstructionSet,
    shape: AttentionShape,
    scale: f64,
    mask: Option<&Mask>,
    threads: Threads,
    logits: &mut [T],
) -> SoftmaxRows {
    assert_available(set);
    check_mask(shape, mask);
    assert_eq!(logits.len(), shape.logits(), "the logits are not queries by keys");
    let mut log_partitions = vec![f64::NEG_INFINITY; shape.queries];
    if !logits.is_empty() {
        let rows = logits.chunks_exact_mut(shape.keys).zip(&mut log_partitions).enumerate().collect();
        threads.for_each(
            rows,
            || (),
            |(), (row, (logits, log_partition))| {
                *log_partition = softmax_row(set, scale, mask.map(|mask| mask.row(row)), logits);
            },
        );
    }
    SoftmaxRows { queries_without_keys: queries_without_keys(&log_partitions), log_partitions }
}

/// O = P V, n × d_v, to `output`: 2·n·m·d_v operations. A weight of 0 leaves no trace of its value, be it NaN.
///
/// # Panics
/// If a matrix has another length than its shape says, or this machine lacks the instruction set.
pub fn pv<T: Element>(
    set: InstructionSet,
    weights: &[T],
    values: &[T],
    shape: AttentionShape,
    threads: Threads,
    output: &mut [T],
) {
    let AttentionShape { queries: n, keys: m, d_v, .. } = shape;
    assert_eq!(weights.len(), shape.logits(), "the weights are not queries by keys");
    assert_eq!(Some(values.len()), m.checked_mul(d_v), "the values are not {m} x {d_v}");
    assert_eq!(Some(output.len()), n.checked_mul(d_v), "the output is not {n} x {d_v}");
    if weights.is_empty() || d_v == 0 {
        output.fill(T::default());
        return;
    }
    let mut packed = PackedValues::empty(set);
    packed.repack(values, d_v);
    product(weights, &packed.columns, threads, output);
    for (row, weights) in output.chunks_exact_mut(d_v).zip(weights.chunks_exact(m)) {
        packed.add_infinite(values, row, |key| weights[key] != T::default());
    }
}

/// A·Bᵀ, where B is packed, block of rows by block of rows.
fn product<T: Element>(left: &[T], right: &PackedKeys<T>, threads: Threads, out: &mut [T]) {
    let (set, depth, columns) = (right.instruction_set(), right.depth(), right.rows());
    let blocks = left.chunks(ROW_BLOCK * depth).zip(out.chunks_mut(ROW_BLOCK * columns)).collect();
    threads.for_each(
        blocks,
        || PackedQueries::empty(set),
        |packed: &mut PackedQueries<T>, (rows, out)| {
            packed.repack(rows, rows.len() / depth, depth);
            packed_logits(packed, right, 0..columns, out, columns);
        },
    );
}

/// Replaces raw logits by the softmax of the scaled ones that are visible, and returns ln Σ eˣ.
fn softmax_row<T: Element>(set: InstructionSet, scale: f64, visible: Option<VisibleKeys<'_>>, row: &mut [T]) -> f64 {
    T::multiply(set, row, T::from_f64(scale));
    if let Some(visible) = visible {
        hide(&visible, 0, row);
    }
    let (maximum, any_nan) = T::survey_logits(set, row);
    if any_nan || maximum.to_f64() == f64::INFINITY {
        row.fill(T::from_f64(f64::NAN));
        return f64::NAN;
    }
    if maximum.to_f64() == f64::NEG_INFINITY {
        row.fill(T::default());
        return f64::NEG_INFINITY;
    }
    // In pieces, so that few terms are added in T.
    let sum: f64 = row.chunks_mut(T::BLOCK).map(|piece| T::weigh_logits(set, piece, maximum)).sum();
    T::multiply(set, row, T::from_f64(1.0 / sum));
    maximum.to_f64() + sum.ln()
}
