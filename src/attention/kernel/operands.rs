//! What full attention takes and gives, for the streaming and the materialised kernels alike.

use super::pack::PackedKeys;
use super::{Element, InstructionSet};
use crate::attention::{Mask, VisibleKeys};
use rayon::prelude::*;
use std::ops::Range;

/// Sizes of Q (`queries` × `d_k`), K (`keys` × `d_k`) and V (`keys` × `d_v`). The widths are at least 1; there may be no
/// query or no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Number of queries n.
    pub queries: usize,
    /// Number of keys, and of values, m.
    pub keys: usize,
    /// Width of queries and keys.
    pub d_k: usize,
    /// Width of values and of the output.
    pub d_v: usize,
}

impl AttentionShape {
    /// Number of logits n·m.
    ///
    /// # Panics
    /// If it does not fit the address space.
    pub fn logits(&self) -> usize {
        self.queries.checked_mul(self.keys).expect("the number of logits overflows")
    }
}

/// The matrices of one attention, each row-major, one token a row.
#[derive(Debug, Clone, Copy)]
pub struct AttentionInputs<'a, T> {
    /// Q, n × d_k.
    pub queries: &'a [T],
    /// K, m × d_k.
    pub keys: &'a [T],
    /// V, m × d_v.
    pub values: &'a [T],
    /// The sizes.
    pub shape: AttentionShape,
}

impl<T> AttentionInputs<'_, T> {
    /// Panics unless every matrix is as long as its shape says and the mask has the same sizes.
    pub(super) fn check(&self, mask: Option<&Mask>) {
        let AttentionShape { queries, keys, d_k, d_v } = self.shape;
        assert!(d_k > 0 && d_v > 0, "tokens of width 0");
        assert_eq!(Some(self.queries.len()), queries.checked_mul(d_k), "the queries are not {queries} x {d_k}");
        assert_eq!(Some(self.keys.len()), keys.checked_mul(d_k), "the keys are not {keys} x {d_k}");
        assert_eq!(Some(self.values.len()), keys.checked_mul(d_v), "the values are not {keys} x {d_v}");
        check_mask(self.shape, mask);
    }
}

/// Panics unless the mask has the sizes of the attention.
pub(super) fn check_mask(shape: AttentionShape, mask: Option<&Mask>) {
    if let Some(mask) = mask {
        assert_eq!((mask.queries(), mask.keys()), (shape.queries, shape.keys), "the mask is not queries by keys");
    }
}

/// Who does the work. Either way the results are the same, bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread alone.
    Caller,
    /// Rayon's current pool, block of rows by block of rows.
    Pool,
}

impl Threads {
    /// Visits every block, each thread with a workspace of its own.
    pub(super) fn for_each<B: Send, W>(
        self,
        blocks: Vec<B>,
        workspace: impl Fn() -> W + Sync + Send,
        visit: impl Fn(&mut W, B) + Sync + Send,
    ) {
        match self {
            Self::Caller => {
                let mut workspace = workspace();
                blocks.into_iter().for_each(|block| visit(&mut workspace, block));
            }
            Self::Pool => blocks.into_par_iter().for_each_init(workspace, visit),
        }
    }
}

/// O = softmax(c·QKᵀ + mask) V, and what else is known of each row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttentionOutput<T> {
    /// O, n × d_v, row-major; the row of a query without keys is 0.
    pub output: Vec<T>,
    /// ln Σ eˣ over the scaled logits x of the keys each query sees; −∞ where it sees none, NaN where a logit is.
    pub log_partitions: Vec<f64>,
    /// Queries that see no key, or none whose logit is above −∞.
    pub queries_without_keys: usize,
}

impl<T> AttentionOutput<T> {
    pub(super) fn count_queries_without_keys(&mut self) {
        self.queries_without_keys = queries_without_keys(&self.log_partitions);
    }
}

/// Nothing else has a sum of exponentials of 0.
pub(super) fn queries_without_keys(log_partitions: &[f64]) -> usize {
    log_partitions.iter().filter(|&&logarithm| logarithm == f64::NEG_INFINITY).count()
}

/// V in the panels that the micro-kernels read: panel p holds the columns from p·width, key after key.
///
/// Numbers that are not finite are packed as 0, so that a weight of 0 leaves no trace of them; the
/// keys they belong to are known, for [`Self::add_infinite`].
#[derive(Debug)]
pub(super) struct PackedValues<T> {
    /// d_v rows of depth m, so that the micro-kernel of the logits forms PV as well.
    pub(super) columns: PackedKeys<T>,
    /// Keys with a value that is not finite, ascending.
    infinite: Vec<usize>,
}

impl<T: Element> PackedValues<T> {
    pub(super) fn empty(set: InstructionSet) -> Self {
        Self { columns: PackedKeys::empty(set), infinite: Vec::new() }
    }

    /// Replaces the contents by V, m × `width`, m > 0.
    pub(super) fn repack(&mut self, values: &[T], width: usize) {
        self.columns.0.repack_columns(values, width);
        self.infinite.clear();
        for (key, row) in values.chunks_exact(width).enumerate() {
            if !row.iter().all(|&value| is_finite(value)) {
                self.infinite.push(key);
            }
        }
        if !self.infinite.is_empty() {
            self.columns.0.clear_where(|value| !is_finite(value));
        }
    }

    /// Adds the values that are not finite to one row of the output, those of the keys that `is_seen`: those whose weight
    /// in this row is not 0. Whatever the weight, the product is the value itself.
    pub(super) fn add_infinite(&self, values: &[T], row: &mut [T], is_seen: impl Fn(usize) -> bool) {
        for &key in self.infinite.iter().filter(|&&key| is_seen(key)) {
            let values = &values[key * row.len()..(key + 1) * row.len()];
            for (sum, &value) in row.iter_mut().zip(values) {
                if !is_finite(value) {
                    *sum = *sum + value;
                }
            }
        }
    }
}

/// Panics where the instructions are missing, for loops that pack nothing.
pub(super) fn assert_available(set: InstructionSet) {
    assert!(set.is_available(), "this machine has no {set} instructions");
}

/// Puts −∞ where keys are hidden; the logits are those of the keys from `first`, those beyond the last key count as hidden.
pub(super) fn hide<T: Element>(visible: &VisibleKeys<'_>, first: usize, logits: &mut [T]) {
    let hidden = T::from_f64(f64::NEG_INFINITY);
    let count = logits.len();
    match visible {
        VisibleKeys::Range(range) => {
            logits[..range.start.saturating_sub(first).min(count)].fill(hidden);
            logits[range.end.saturating_sub(first).min(count)..].fill(hidden);
        }
        VisibleKeys::Cells(cells) => {
            let cells = &cells[first..];
            for (logit, &is_visible) in logits.iter_mut().zip(cells) {
                *logit = if is_visible { *logit } else { hidden };
            }
            logits[cells.len().min(count)..].fill(hidden);
        }
    }
}

/// The smallest range within `window` that holds all keys of it that are visible.
pub(super) fn visible_within(visible: &VisibleKeys<'_>, window: Range<usize>) -> Range<usize> {
    match visible {
        VisibleKeys::Range(range) => range.start.max(window.start)..range.end.min(window.end),
        VisibleKeys::Cells(cells) => {
            let cells = &cells[window.clone()];
            match cells.iter().position(|&is_visible| is_visible) {
                None => window.start..window.start,
                Some(first) => {
                    let last = cells.iter().rposition(|&is_visible| is_visible).unwrap_or(first);
                    window.start + first..window.start + last + 1
                }
            }
        }
    }
}

fn is_finite<T: Element>(number: T) -> bool {
    number.to_f64().is_finite()
}
