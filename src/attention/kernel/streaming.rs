//! Full attention without the n·m weights: the keys are read block by block and each row keeps a running maximum, a
//! running sum and a running output.

use super::attention_loops::{MOST_ROWS, Product, Running};
use super::operands::{PackedValues, hide, visible_within};
use super::pack::AlignedBuffer;
use super::{
    AttentionInputs, AttentionOutput, AttentionShape, Element, InstructionSet, PackedKeys, PackedQueries, Threads,
    dispatch,
};
use crate::attention::{Mask, VisibleKeys};
use std::ops::Range;

/// About so many rows are taken over all keys by one thread: enough to use a block of keys and values read from the L3
/// cache many times, few enough to share out evenly.
const ROWS: usize = 112;

/// Fewest blocks of rows where there are rows enough.
const LEAST_BLOCKS: usize = 8;

/// Memory of [`streaming_attention_into`], reused from call to call.
#[derive(Debug)]
pub struct StreamingWorkspace<T> {
    keys: PackedKeys<T>,
    values: PackedValues<T>,
}

impl<T: Element> StreamingWorkspace<T> {
    /// A workspace without memory yet.
    ///
    /// # Panics
    /// If this machine lacks the instruction set.
    pub fn new(set: InstructionSet) -> Self {
        Self { keys: PackedKeys::empty(set), values: PackedValues::empty(set) }
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
    result.output.clear(); // So that all is 0.
    result.output.resize(n * d_v, T::default());
    result.log_partitions.clear();
    result.log_partitions.resize(n, f64::NEG_INFINITY);
    if n > 0 && m > 0 {
        workspace.keys.repack(inputs.keys, m, d_k);
        workspace.values.repack(inputs.values, d_v);
        let (keys, values) = (&workspace.keys, &workspace.values);
        let task = Task { inputs, scale, mask, keys, values };
        let height = T::tile(keys.instruction_set()).rows;
        let rows = ROWS.min(n.div_ceil(LEAST_BLOCKS)).next_multiple_of(height);
        let blocks = result.output.chunks_mut(rows * d_v).zip(result.log_partitions.chunks_mut(rows));
        let blocks = blocks.enumerate().map(|(index, block)| (index * rows, block)).collect();
        threads.for_each(
            blocks,
            || Scratch::new(keys.instruction_set()),
            |scratch: &mut Scratch<T>, (first_row, (output, log_partitions))| {
                task.attend(scratch, first_row, output, log_partitions);
            },
        );
    }
    result.count_queries_without_keys();
}

/// What every block of rows reads.
struct Task<'a, T> {
    inputs: AttentionInputs<'a, T>,
    scale: f64,
    mask: Option<&'a Mask>,
    keys: &'a PackedKeys<T>,
    values: &'a PackedValues<T>,
}

/// What a thread writes while it works on a block of rows.
struct Scratch<T> {
    /// c·Q.
    scaled: Vec<T>,
    queries: PackedQueries<T>,
    /// One tile of logits, then of weights.
    logits: AlignedBuffer<T>,
    /// Σ e^(x − M) v: strip of columns by strip, row after row.
    output: AlignedBuffer<T>,
    running: Vec<Running<T>>,
}

impl<T: Element> Scratch<T> {
    fn new(set: InstructionSet) -> Self {
        Self {
            scaled: Vec::new(),
            queries: PackedQueries::empty(set),
            logits: AlignedBuffer::new(),
            output: AlignedBuffer::new(),
            running: Vec::new(),
        }
    }

    /// Packs c·Q and forgets the last block.
    fn start(&mut self, queries: &[T], width: usize, scale: f64, output: usize) {
        self.scaled.clear();
        self.scaled.extend(queries.iter().map(|query| T::from_f64(query.to_f64() * scale)));
        let rows = queries.len() / width;
        self.queries.repack(&self.scaled, rows, width);
        let tile = T::tile(self.queries.instruction_set());
        self.logits.resize(tile.rows * T::STRIDE);
        self.output.resize(output);
        self.output.as_mut_slice().fill(T::default());
        self.running.clear();
        self.running.resize(rows, Running { maximum: T::from_f64(f64::NEG_INFINITY), sum: 0.0 });
    }
}

impl<T: Element> Task<'_, T> {
    /// What a query sees.
    fn row(&self, row: usize) -> VisibleKeys<'_> {
        self.mask.map_or(VisibleKeys::Range(0..self.keys.rows()), |mask| mask.row(row))
    }

    /// The rows from `first_row`, as many as there are log partitions.
    fn attend(&self, scratch: &mut Scratch<T>, first_row: usize, output: &mut [T], log_partitions: &mut [f64]) {
        let AttentionShape { keys: m, d_k, .. } = self.inputs.shape;
        let rows = log_partitions.len();
        let queries = &self.inputs.queries[first_row * d_k..(first_row + rows) * d_k];
        let tile = T::tile(self.keys.instruction_set());
        let strips = self.values.columns.rows().div_ceil(tile.columns);
        scratch.start(queries, d_k, self.scale, strips * rows * tile.columns);
        for start in (0..m).step_by(T::BLOCK) {
            for first in (0..rows).step_by(tile.rows) {
                let rows = first_row + first..first_row + rows.min(first + tile.rows);
                let window = start..m.min(start + T::BLOCK);
                let seen = |row| visible_within(&self.row(row), window.clone());
                let seen = rows.clone().map(seen).filter(|seen| !seen.is_empty());
                if let Some(seen) = seen.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) {
                    self.attend_tile(scratch, first, rows, seen);
                }
            }
        }
        self.finish(scratch, first_row, output, log_partitions);
    }

    /// One tile of rows, number `first` of the block and those behind it, against the keys of `seen`, all within one block.
    fn attend_tile(&self, scratch: &mut Scratch<T>, first: usize, rows: Range<usize>, seen: Range<usize>) {
        let (set, depth) = (self.keys.instruction_set(), self.keys.depth());
        let tile = T::tile(set);
        let panels = seen.start / tile.columns..seen.end.div_ceil(tile.columns);
        let (start, columns) = (panels.start * tile.columns, panels.len() * tile.columns);
        let index = first / tile.rows;
        let logits = scratch.logits.as_mut_slice();
        for panel in panels.clone() {
            let queries = scratch.queries.0.span(index, index + 1);
            let keys = self.keys.0.span(panel, panel + 1);
            let panel_of_logits = dispatch::Panel { queries, rows: rows.len(), keys, depth };
            T::logits(set, panel_of_logits, &mut logits[(panel - panels.start) * tile.columns..], T::STRIDE);
        }
        for (row, line) in rows.clone().zip(logits.chunks_mut(T::STRIDE)) {
            hide(&self.row(row), start, &mut line[..columns]);
        }
        let running = &mut scratch.running[first..first + rows.len()];
        let mut factors = [T::default(); MOST_ROWS];
        T::weigh_tile(set, logits, columns, running, &mut factors);
        let keys = columns.min(self.keys.rows() - start);
        let values = &self.values.columns.0;
        let block_rows = scratch.running.len();
        let strip_length = block_rows * tile.columns;
        for (strip, output) in scratch.output.as_mut_slice().chunks_exact_mut(strip_length).enumerate() {
            let values = &values.span(strip, strip + 1)[start * tile.columns..(start + keys) * tile.columns];
            let product = Product { weights: logits, rows: rows.len(), values, keys };
            T::accumulate(set, product, &factors, &mut output[first * tile.columns..]);
        }
    }

    /// Divides by the sums of the weights.
    fn finish(&self, scratch: &mut Scratch<T>, first_row: usize, output: &mut [T], log_partitions: &mut [f64]) {
        let width = self.values.columns.0.width();
        let rows = log_partitions.len();
        let sums = scratch.output.as_mut_slice();
        let lines = output.chunks_exact_mut(self.inputs.shape.d_v).zip(log_partitions);
        for (row, ((line, log_partition), running)) in lines.zip(&scratch.running).enumerate() {
            let maximum = running.maximum.to_f64();
            // With a logit of +∞ the weights are ∞/∞.
            let sum = if maximum == f64::INFINITY { f64::NAN } else { running.sum };
            *log_partition = if sum == 0.0 { f64::NEG_INFINITY } else { maximum + sum.ln() };
            if sum == 0.0 {
                continue; // Nothing is seen: the output stays 0.
            }
            let factor = 1.0 / sum;
            for (strip, columns) in line.chunks_mut(width).enumerate() {
                let sums = &sums[(strip * rows + row) * width..];
                for (column, sum) in columns.iter_mut().zip(sums) {
                    *column = T::from_f64(sum.to_f64() * factor);
                }
            }
            let log_partition = *log_partition;
            self.values
                .add_infinite(self.inputs.values, line, |key| self.is_weighed(first_row + row, key, log_partition));
        }
    }

    /// Whether the key has a weight above 0 in the row. Only asked for keys whose values are not finite.
    fn is_weighed(&self, row: usize, key: usize, log_partition: f64) -> bool {
        let width = self.inputs.shape.d_k;
        let token = |matrix: &[T], index: usize| matrix[index * width..(index + 1) * width].to_vec();
        let (query, keys) = (token(self.inputs.queries, row), token(self.inputs.keys, key));
        let logit: f64 = query.iter().zip(&keys).map(|(q, k)| q.to_f64() * k.to_f64()).sum();
        self.row(row).contains(key) && logit * self.scale - log_partition >= T::LEAST.to_f64()
    }
}

#[cfg(test)]
#[path = "streaming_tests.rs"]
mod tests;
