//! The fast path of the logits: tiles of S = Q Kᵀ are formed in registers, reduced, and forgotten.
//!
//! Q is n × d and K is m × d, both row-major, one token a row. No function here allocates n·m numbers but [`materialised_attention`].
//! Keys are packed once ([`PackedKeys`]); the caller cuts the queries into fixed blocks of rows
//! ([`ROW_BLOCK`] is a good size), packs each ([`PackedQueries`]) and adds the blocks' results in
//! order. Every result is a pure function of its inputs and the [`InstructionSet`], so the number
//! of threads never changes a bit.
//!
//! Full attention is here too, without the n·m weights ([`streaming_attention`]) and, for timing its stages, with them ([`qk`],
//! [`scale_softmax`], [`pv`]; the only functions that are given n·m numbers).
//!
//! # Rounding
//! A logit is summed over the depth index in order, in one accumulator of type `T`, from −center:
//! |computed − exact| ≤ γ_d · (|center| + Σ|q_h k_h|), γ_d = dε/(1 − dε), ε the unit roundoff of T
//! (2⁻²⁴ or 2⁻⁵³); γ_(d+1) without fused multiply-add (Higham, *Accuracy and Stability of
//! Numerical Algorithms*, 2002, section 3.1). AVX2 and AVX-512 give the same bits for each logit;
//! the portable path rounds each product as well, so its last bits differ (docs/reproducibility.md). Nothing is flushed to
//! zero; overflow gives ∞, and ∞ or NaN among the inputs shows in the results.
//!
//! A power sum takes at most 14 terms a lane in `T` before it is added to an f64 total, so that for
//! given logits Σ(x−c)^r is off by at most 17ε·Σ|x−c|^r (three roundings to form x⁴, 13 additions,
//! one to join two lanes) and what f64 adds. Varied logits stay far below, since their rounding
//! errors cancel: f32 variances are right to about 1e-9.
//!
//! # Memory
//! Packed keys: m·d elements. Packed queries: one block of rows times d for each thread. Nothing
//! else grows with n, m or d ([`packed_logits`] may hold 266 × 32 logits more, for columns that do
//! not fill a panel). A panel of keys is at most d × 128 bytes (8 KiB at d = 64, 512 KiB at
//! d = 4096) and is used for a whole block of queries before the next, so that it stays in the L1
//! or L2 cache. The depth is not cut: both operands are read strictly forwards, slowly enough for
//! an L3 cache.

mod attention_loops;
pub mod comparison;
mod compiled;
mod dispatch;
mod exponential;
pub mod gram;
mod materialised;
mod operands;
mod pack;
mod pair_sums;
mod portable;
mod registers;
mod row_statistics;
mod row_sums;
pub mod signed_sums;
mod softmax;
mod streaming;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin_tests;
mod weighted_values;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use materialised::{SoftmaxRows, materialised_attention, pv, qk, scale_softmax};
pub use operands::{AttentionInputs, AttentionOutput, AttentionShape, Threads};
pub use pack::{PackedKeys, PackedQueries};
pub use pair_sums::pair_sums;
pub use row_statistics::RowStatistics;
pub use softmax::{SoftmaxWorkspace, packed_row_statistics, row_statistics_of_logits};
pub use streaming::{StreamingWorkspace, streaming_attention, streaming_attention_into};

use crate::number::Real;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// A good number of query rows per block: large enough that a panel of keys read from memory is
/// used many times, small enough to keep a block of d = 64 in the L2 cache and all threads busy.
pub const ROW_BLOCK: usize = 256;

/// Most lanes a vector register holds, over all element types and instruction sets.
const MAXIMUM_LANES: usize = 16;

/// Σ x^(r+1) by lane, for r = 0 to 3.
type LaneTotals = [[f64; MAXIMUM_LANES]; 4];

/// Whether a run has asked for the portable kernels.
static PORTABLE_IS_PINNED: AtomicBool = AtomicBool::new(false);

/// The machine instructions a micro-kernel is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// 512-bit registers with fused multiply-add (x86-64, `avx512f` and `avx512dq`).
    Avx512,
    /// 256-bit registers with fused multiply-add (x86-64, `avx2` and `fma`).
    Avx2,
    /// Plain Rust, any machine.
    Portable,
}

impl InstructionSet {
    /// Every instruction set, fastest first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// Those that this machine has, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|set| set.is_available())
    }

    /// The fastest instruction set of this machine, or the portable one while it is pinned ([`Self::pin_portable`]). The standard library caches the question.
    pub fn detect() -> Self {
        if PORTABLE_IS_PINNED.load(Ordering::Relaxed) {
            return Self::Portable;
        }
        Self::available().next().unwrap_or(Self::Portable)
    }

    /// Makes [`Self::detect`] answer [`Self::Portable`] in this process from now on, or no longer: for whole runs whose numbers must be the same on
    /// every machine of one kind. What is packed already stays as it is.
    pub fn pin_portable(pinned: bool) {
        PORTABLE_IS_PINNED.store(pinned, Ordering::Relaxed);
    }

    /// Whether this machine can run the instructions.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Self::Portable => true,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
        }
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        })
    }
}

/// Replaces each number z ≤ 0 by e^z, as all kernels of the softmax compute it.
///
/// At most 1 unit in the last place off where multiply-adds are fused, 1.3 units where not, down to z = −87.3 (f32) or −708.3 (f64);
/// below, and for NaN, it is 0. Over all f32 arguments: `data/recorded/exponential.csv`.
///
/// # Panics
/// If this machine lacks the instruction set.
pub fn exponentials<T: Element>(set: InstructionSet, numbers: &mut [T]) {
    operands::assert_available(set);
    let whole = numbers.len() / T::MOST_LANES * T::MOST_LANES;
    let (whole, rest) = numbers.split_at_mut(whole);
    T::exponentials(set, whole);
    let mut padded = rest.to_vec();
    padded.resize(T::MOST_LANES, T::ZERO);
    T::exponentials(set, &mut padded);
    rest.copy_from_slice(&padded[..rest.len()]);
}

/// `f32` or `f64`: the element types that have kernels. Sealed.
pub trait Element: Real + dispatch::Dispatch {}

/// Power sums Σ (x − center)^r, r = 1 to 4, over a set of logits x.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PowerSums {
    /// Number of logits.
    pub count: u64,
    /// The center that was subtracted: the one asked for, rounded to the element type.
    pub center: f64,
    /// Σ (x − center)^r at index r − 1.
    pub sums: [f64; 4],
}

impl PowerSums {
    /// Adds another block about the same center. Floating-point addition is not associative: merge
    /// blocks in a fixed order. Merging into the default (no logits) takes the other's center.
    ///
    /// # Panics
    /// If both hold logits and their centers differ.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.center = other.center;
        }
        assert_eq!(self.center, other.center, "power sums about different centers do not add up");
        self.count += other.count;
        for (sum, term) in self.sums.iter_mut().zip(other.sums) {
            *sum += term;
        }
    }
}

/// Power sums of all logits of a block of queries against all keys, about a center.
///
/// Packs the queries and calls [`packed_power_sums`]; the instruction set is that of the keys.
/// `queries` is row-major, `rows` × `keys.depth()`.
///
/// # Panics
/// If `queries` is not `rows * keys.depth()` long or `rows` is 0.
pub fn logit_power_sums<T: Element>(queries: &[T], rows: usize, keys: &PackedKeys<T>, center: f64) -> PowerSums {
    let queries = PackedQueries::new(keys.instruction_set(), queries, rows, keys.depth());
    packed_power_sums(&queries, keys, center)
}

/// Writes the raw logits of a block of queries against a range of keys to `out`.
///
/// Packs the queries and calls [`packed_logits`]; the instruction set is that of the keys.
///
/// # Panics
/// As [`logit_power_sums`] and [`packed_logits`].
pub fn logit_block<T: Element>(
    queries: &[T],
    rows: usize,
    keys: &PackedKeys<T>,
    columns: Range<usize>,
    out: &mut [T],
    out_stride: usize,
) {
    let queries = PackedQueries::new(keys.instruction_set(), queries, rows, keys.depth());
    packed_logits(&queries, keys, columns, out, out_stride);
}

/// Power sums Σ (x − c)^r, r = 1 to 4, over the logits x = q·k of all pairs of a query and a key.
///
/// c is `center` rounded to `T`, and is reported in the result. The accumulators start at −c, so a
/// center costs nothing. Logits never leave the registers. Padding takes no part: its lanes are
/// cleared before they are summed.
///
/// # Panics
/// If queries and keys differ in depth or instruction set.
pub fn packed_power_sums<T: Element>(queries: &PackedQueries<T>, keys: &PackedKeys<T>, center: f64) -> PowerSums {
    assert_same_shape(queries, keys);
    let center = T::from_f64(center);
    let mut totals: LaneTotals = [[0.0; MAXIMUM_LANES]; 4];
    for_each_panel(queries, keys, 0..keys.rows(), |_, first_column, panel| {
        let columns = (keys.rows() - first_column).min(keys.0.width());
        T::power_sums(keys.instruction_set(), panel, center, columns, &mut totals);
    });
    PowerSums {
        count: queries.rows() as u64 * keys.rows() as u64,
        center: center.to_f64(),
        sums: totals.map(|lanes| lanes.iter().sum()),
    }
}

/// Writes the raw logits of the queries against the keys `columns` to `out`: logit (i, j) goes to
/// `out[i * out_stride + j - columns.start]`; no other element is touched.
///
/// # Panics
/// If queries and keys differ in depth or instruction set, if `columns` is no range of keys, if
/// `out_stride` is less than the number of columns, or if `out` is too short.
pub fn packed_logits<T: Element>(
    queries: &PackedQueries<T>,
    keys: &PackedKeys<T>,
    columns: Range<usize>,
    out: &mut [T],
    out_stride: usize,
) {
    assert_same_shape(queries, keys);
    let Range { start, end } = columns;
    assert!(start <= end && end <= keys.rows(), "keys {start}..{end} of {}", keys.rows());
    assert!(out_stride >= end - start, "rows of the output overlap");
    if start == end {
        return;
    }
    let last_row = (queries.rows() - 1).checked_mul(out_stride);
    assert!(
        last_row.and_then(|last| last.checked_add(end - start)).is_some_and(|end| end <= out.len()),
        "the output is too short"
    );
    let width = keys.0.width();
    let set = keys.instruction_set();
    let mut edge = Vec::new();
    for_each_panel(queries, keys, start..end, |first_row, first_column, panel| {
        let rows = &mut out[first_row * out_stride..];
        if first_column >= start && first_column + width <= end {
            T::logits(set, panel, &mut rows[first_column - start..], out_stride);
            return;
        }
        // The panel reaches beyond the columns asked for: by way of a buffer of its own.
        edge.resize(panel.rows * width, T::default());
        T::logits(set, panel, &mut edge, width);
        let wanted = start.max(first_column)..end.min(first_column + width);
        for (row, line) in rows.chunks_mut(out_stride).zip(edge.chunks_exact(width)) {
            row[wanted.start - start..wanted.end - start]
                .copy_from_slice(&line[wanted.start - first_column..wanted.end - first_column]);
        }
    });
}

fn assert_same_shape<T: Element>(queries: &PackedQueries<T>, keys: &PackedKeys<T>) {
    assert!(queries.rows() > 0 && keys.rows() > 0, "queries or keys were never packed");
    assert_eq!(queries.depth(), keys.depth(), "queries and keys differ in depth");
    assert_eq!(
        queries.instruction_set(),
        keys.instruction_set(),
        "queries and keys are packed for different instruction sets"
    );
}

/// Calls `visit(first_row, first_column, panel)` for the panels of keys that meet `columns`, each
/// against a group of about [`ROW_BLOCK`] rows, in a fixed order: meanwhile the panel stays in the
/// L1 or L2 cache.
fn for_each_panel<T: Element>(
    queries: &PackedQueries<T>,
    keys: &PackedKeys<T>,
    columns: Range<usize>,
    mut visit: impl FnMut(usize, usize, dispatch::Panel<'_, T>),
) {
    let (height, width) = (queries.0.width(), keys.0.width());
    let tiles = queries.rows().div_ceil(height);
    let group = ROW_BLOCK.div_ceil(height);
    for first in (0..tiles).step_by(group) {
        let last = tiles.min(first + group);
        let rows = queries.rows().min(last * height) - first * height;
        for index in columns.start / width..columns.end.div_ceil(width) {
            let panel = dispatch::Panel {
                queries: queries.0.span(first, last),
                rows,
                keys: keys.0.span(index, index + 1),
                depth: keys.depth(),
            };
            visit(first * height, index * width, panel);
        }
    }
}
