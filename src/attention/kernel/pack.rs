//! Packed operands: rows of a matrix regrouped into the panels the micro-kernels read.
//!
//! A panel holds `width` rows of the source, depth index first: element (j, h) of panel p is row
//! p·width + j of the source, component h, and sits at `(p·depth + h)·width + j`. A micro-kernel
//! then reads both operands strictly forwards. The last panel is padded with zero rows.

use super::{Element, InstructionSet, Threads, portable};
use std::sync::atomic::{AtomicBool, Ordering};

/// Alignment of a panel in bytes: one cache line, one AVX-512 register.
const ALIGNMENT: usize = 64;

/// Depth indices moved at a time while packing: 64 lines of a panel stay in the L1 cache.
const PACKING_DEPTH: usize = 64;

/// Rows that a thread takes at a time where columns are packed.
const PACKING_ROWS: usize = 512;

/// A reusable buffer whose first element sits on a 64-byte boundary.
///
/// Alignment here is for speed alone: no kernel relies on it for soundness.
#[derive(Debug)]
pub(super) struct AlignedBuffer<T> {
    storage: Vec<T>,
    offset: usize,
    length: usize,
}

impl<T: Element> AlignedBuffer<T> {
    /// A buffer without memory.
    pub(super) fn new() -> Self {
        Self { storage: Vec::new(), offset: 0, length: 0 }
    }

    /// Makes the buffer `length` elements long; what they hold afterwards is unspecified.
    pub(super) fn resize(&mut self, length: usize) {
        let spare = ALIGNMENT / size_of::<T>();
        let needed = length.checked_add(spare).expect("panel size overflows");
        if self.storage.len() < needed {
            self.storage = vec![T::default(); needed];
        }
        self.offset = self.storage.as_ptr().align_offset(ALIGNMENT).min(spare);
        self.length = length;
    }

    fn as_slice(&self) -> &[T] {
        &self.storage[self.offset..self.offset + self.length]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.storage[self.offset..self.offset + self.length]
    }
}

/// The rows of one matrix, packed. Kept private so that keys and queries cannot be exchanged.
#[derive(Debug)]
pub(super) struct Panels<T> {
    buffer: AlignedBuffer<T>,
    instruction_set: InstructionSet,
    width: usize,
    rows: usize,
    depth: usize,
}

impl<T: Element> Panels<T> {
    fn new(instruction_set: InstructionSet, width: usize) -> Self {
        assert!(instruction_set.is_available(), "this machine has no {instruction_set} instructions");
        Self { buffer: AlignedBuffer::new(), instruction_set, width, rows: 0, depth: 0 }
    }

    /// Makes room for a matrix and returns the length of a panel.
    fn resize(&mut self, source: &[T], rows: usize, depth: usize) -> usize {
        assert!(rows > 0 && depth > 0, "a matrix of {rows} x {depth} has no logits");
        assert_eq!(
            Some(source.len()),
            rows.checked_mul(depth),
            "a matrix of {rows} x {depth} needs rows * depth elements"
        );
        let panel_length = self.width.checked_mul(depth).expect("panel size overflows");
        let total = panel_length.checked_mul(rows.div_ceil(self.width)).expect("panel size overflows");
        self.buffer.resize(total);
        (self.rows, self.depth) = (rows, depth);
        panel_length
    }

    fn repack(&mut self, source: &[T], rows: usize, depth: usize) {
        let panel_length = self.resize(source, rows, depth);
        let panels = self.buffer.as_mut_slice().chunks_exact_mut(panel_length);
        for (panel, rows) in panels.zip(source.chunks(panel_length)) {
            fill_panel(panel, rows, self.width, depth);
        }
    }

    /// [`Self::repack`], panel by panel on several threads.
    pub(super) fn repack_on(&mut self, threads: Threads, source: &[T], rows: usize, depth: usize) {
        let panel_length = self.resize(source, rows, depth);
        let width = self.width;
        let panels = self.buffer.as_mut_slice().chunks_exact_mut(panel_length).zip(source.chunks(panel_length));
        threads.for_each(panels.collect(), || (), |(), (panel, rows)| fill_panel(panel, rows, width, depth));
    }

    /// Packs the columns of `source` (row-major, `columns` wide) as if they were rows: a panel is then a strip of
    /// columns, row after row as it was. Whether all numbers are finite.
    pub(super) fn repack_columns_on(&mut self, threads: Threads, source: &[T], columns: usize) -> bool {
        assert!(columns > 0, "a matrix without columns");
        let panel_length = self.resize(source, columns, source.len() / columns);
        let width = self.width;
        let panels = self.buffer.as_mut_slice().chunks_exact_mut(panel_length).zip((0..columns).step_by(width));
        let pieces = panels.flat_map(|(panel, first)| {
            let lines = panel.chunks_mut(PACKING_ROWS * width).zip(source.chunks(PACKING_ROWS * columns));
            lines.map(move |(lines, rows)| (first, lines, rows))
        });
        let all_finite = AtomicBool::new(true);
        threads.for_each(
            pieces.collect(),
            || (),
            |(), (first, lines, rows): (usize, &mut [T], &[T])| {
                let taken = (columns - first).min(width);
                for (line, row) in lines.chunks_exact_mut(width).zip(rows.chunks_exact(columns)) {
                    line[..taken].copy_from_slice(&row[first..first + taken]);
                    line[taken..].fill(T::default());
                }
                // Without a way out, so that it vectorises.
                if !lines.iter().fold(true, |all, number| all & number.to_f64().is_finite()) {
                    all_finite.store(false, Ordering::Relaxed);
                }
            },
        );
        all_finite.into_inner()
    }

    /// Replaces every packed number that `is_cleared` by 0.
    pub(super) fn clear_where(&mut self, is_cleared: impl Fn(T) -> bool) {
        self.buffer
            .as_mut_slice()
            .iter_mut()
            .filter(|number| is_cleared(**number))
            .for_each(|number| *number = T::default());
    }

    /// Panels `first..last`, one after the other, without a gap.
    pub(super) fn span(&self, first: usize, last: usize) -> &[T] {
        let length = self.width * self.depth;
        &self.buffer.as_slice()[first * length..last * length]
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }
}

/// Transposes up to `width` rows of `depth` components into one panel and zeroes the padding.
fn fill_panel<T: Element>(panel: &mut [T], source: &[T], width: usize, depth: usize) {
    let rows = source.len() / depth;
    for start in (0..depth).step_by(PACKING_DEPTH) {
        let end = depth.min(start + PACKING_DEPTH);
        let part = &mut panel[start * width..end * width];
        let row = |row: usize| &source[row * depth + start..row * depth + end];
        if rows < 4 {
            (0..rows).for_each(|column| portable::transpose_rows([row(column)], part, width, column));
        } else {
            // The last four again where their number is no multiple of four: that is faster than one by one.
            for first in (0..rows).step_by(4).map(|first| first.min(rows - 4)) {
                T::transpose_rows(std::array::from_fn(|j| row(first + j)), part, width, first);
            }
        }
        if rows < width {
            for line in part.chunks_exact_mut(width) {
                line[rows..].fill(T::default());
            }
        }
    }
}

macro_rules! packed_operand {
    ($(#[$documentation:meta])* $name:ident, $width:ident, $what:literal) => {
        $(#[$documentation])*
        #[derive(Debug)]
        pub struct $name<T>(pub(super) Panels<T>);

        impl<T: Element> $name<T> {
            #[doc = concat!("Packs ", $what, " (row-major, `rows` × `depth`) for one instruction set.")]
            ///
            /// # Panics
            /// If the slice is not `rows * depth` long, if either is 0, or if this machine lacks
            /// the instruction set.
            pub fn new(
                instruction_set: InstructionSet,
                source: &[T],
                rows: usize,
                depth: usize,
            ) -> Self {
                let mut packed = Self::empty(instruction_set);
                packed.repack(source, rows, depth);
                packed
            }

            /// An operand without rows or memory, to be filled by [`Self::repack`].
            ///
            /// # Panics
            /// If this machine lacks the instruction set.
            pub fn empty(instruction_set: InstructionSet) -> Self {
                let width = T::tile(instruction_set).$width;
                Self(Panels::new(instruction_set, width))
            }

            /// Replaces the contents; memory is only asked for when the new matrix is larger.
            ///
            /// # Panics
            /// If the slice is not `rows * depth` long or if either is 0.
            pub fn repack(&mut self, source: &[T], rows: usize, depth: usize) {
                self.0.repack(source, rows, depth);
            }

            /// The instruction set whose tiles the panels fit.
            pub fn instruction_set(&self) -> InstructionSet {
                self.0.instruction_set
            }

            #[doc = concat!("Number of ", $what, ".")]
            pub fn rows(&self) -> usize {
                self.0.rows
            }

            /// Components of each row, d_k.
            pub fn depth(&self) -> usize {
                self.0.depth
            }

            /// Bytes of memory held.
            pub fn bytes(&self) -> usize {
                self.0.buffer.storage.len() * size_of::<T>()
            }
        }
    };
}

packed_operand! {
    /// All keys K (m × d), packed once and shared by every block of queries.
    ///
    /// Memory: m rounded up to the panel width (8 to 32 rows) times d elements, and 64 bytes.
    PackedKeys, columns, "keys"
}

packed_operand! {
    /// A block of queries (n × d), packed; one of these per thread is reused from block to block.
    ///
    /// Memory: n rounded up to the tile height (4 to 14 rows) times d elements, and 64 bytes.
    PackedQueries, rows, "queries"
}
