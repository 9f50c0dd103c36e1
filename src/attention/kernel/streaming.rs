//! Full attention without the n·m weights: the keys are read block by block and each row keeps a running maximum, a
//! running sum and a running output.

use super::operands::PackedValues;
use super::{AttentionInputs, AttentionOutput, AttentionShape, Element, InstructionSet, Threads};
use crate::attention::Mask;

/// Memory of [`streaming_attention_into`], reused from call to call.
#[derive(Debug)]
pub struct StreamingWorkspace<T> {
    values: PackedValues<T>,
}

impl<T: Element> StreamingWorkspace<T> {
    /// A workspace without memory yet.
    ///
    /// # Panics
    /// If this machine lacks the instruction set.
    pub fn new(set: InstructionSet) -> Self {
        Self { values: PackedValues::empty(set) }
    }
}

/// O = softmax(c·QKᵀ + mask) V, c = `scale`, with memory for (n + m)·(d_k + d_v) numbers and some cache-sized blocks.
///
/// The softmax of a query is taken over the keys that `mask` shows it (all, without a mask). What is hidden has no influence,
/// be it NaN or infinite. A query that sees no key gets the output 0 and is counted. Among what is visible, a logit of −∞ has
/// weight 0, and one of +∞ or NaN makes the row NaN; a value that is NaN or infinite shows in the output unless its
/// weight is 0 in `T`.
///
/// # Panics
/// If a matrix or the mask has other sizes than `inputs.shape` says, if a width is 0, or if this machine lacks the instruction
/// set.
///
/// ```
/// use attn::attention::MaskRule;
/// use attn::attention::kernel::{AttentionInputs, AttentionShape, InstructionSet, Threads, streaming_attention};
///
/// // Logits ln 3 and 0 give weights 3/4 and 1/4; the first query sees the first key only.
/// let shape = AttentionShape { queries: 2, keys: 2, d_k: 1, d_v: 1 };
/// let inputs = AttentionInputs { queries: &[1.0; 2], keys: &[3_f64.ln(), 0.0], values: &[8.0, 4.0], shape };
/// let mask = "causal".parse::<MaskRule>()?.at(2, 2)?;
/// let attention = streaming_attention(InstructionSet::detect(), inputs, 1.0, Some(&mask), Threads::Caller);
/// assert_eq!(attention.output[0], 8.0);
/// assert!((attention.output[1] - 7.0).abs() < 1e-14);
/// assert!((attention.log_partitions[1] - 4_f64.ln()).abs() < 1e-14);
/// # Ok::<(), String>(())
/// ```
pub fn streaming_attention<T: Element>(
    set: InstructionSet,
    inputs: AttentionInputs<'_, T>,
    scale: f64,
    mask: Option<&Mask>,
    threads: Threads,
) -> AttentionOutput<T> {
    let mut result = AttentionOutput::default();
    streaming_attention_into(inputs, scale, mask, threads, &mut StreamingWorkspace::new(set), &mut result);
    result
}

/// [`streaming_attention`] with the instruction set and memory of a workspace, into an output whose memory is reused.
///
/// # Panics
/// As [`streaming_attention`].
pub fn streaming_attention_into<T: Element>(
    inputs: AttentionInputs<'_, T>,
    scale: f64,
    mask: Option<&Mask>,
    threads: Threads,
    workspace: &mut StreamingWorkspace<T>,
    result: &mut AttentionOutput<T>,
) {
    inputs.check(mask);
    let AttentionShape { queries: n, keys: m, d_k, d_v } = inputs.shape;
    result.output.clear();
    result.output.resize(n * d_v, T::default());
    result.log_partitions.clear();
    result.log_partitions.resize(n, f64::NEG_INFINITY);
    if m > 0 {
        workspace.values.repack(inputs.values, d_v);
        let rows = result.output.chunks_exact_mut(d_v).zip(&mut result.log_partitions);
        let rows = rows.zip(inputs.queries.chunks_exact(d_k)).enumerate().collect();
        threads.for_each(
            rows,
            || (),
            |(), (row, ((output, log_partition), query))| {
                *log_partition =
                    attend(&inputs, query, scale, |key| mask.is_none_or(|mask| mask.is_visible(row, key)), output);
            },
        );
    }
    result.count_queries_without_keys();
}

/// One row, key by key; returns ln Σ eˣ.
fn attend<T: Element>(
    inputs: &AttentionInputs<'_, T>,
    query: &[T],
    scale: f64,
    is_visible: impl Fn(usize) -> bool,
    output: &mut [T],
) -> f64 {
    let AttentionShape { d_k, d_v, .. } = inputs.shape;
    let (mut maximum, mut sum, mut total) = (f64::NEG_INFINITY, 0.0, vec![0.0; d_v]);
    for (key, (keys, values)) in inputs.keys.chunks_exact(d_k).zip(inputs.values.chunks_exact(d_v)).enumerate() {
        if !is_visible(key) {
            continue;
        }
        let logit = query.iter().zip(keys).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>() * scale;
        if logit == f64::NEG_INFINITY {
            continue;
        }
        let larger = if logit > maximum { logit } else { maximum };
        let (factor, weight) = ((maximum - larger).exp(), (logit - larger).exp());
        maximum = larger;
        sum = if sum == 0.0 { weight } else { sum * factor + weight };
        for (total, value) in total.iter_mut().zip(values) {
            *total = *total * factor + if weight == 0.0 { 0.0 } else { weight * value.to_f64() };
        }
    }
    if sum == 0.0 {
        return f64::NEG_INFINITY;
    }
    for (output, total) in output.iter_mut().zip(total) {
        *output = T::from_f64(total / sum);
    }
    maximum + sum.ln()
}
