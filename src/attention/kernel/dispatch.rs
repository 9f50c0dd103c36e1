//! What ties an element type to its kernels; out of reach for other modules, which seals `Element`.

use super::attention_loops::AttentionLoops;
use super::gram::GramLoops;
use super::row_sums::RowSums;
use super::signed_sums::SignedSums;
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Element, InstructionSet, LaneTotals, portable};
use std::fmt;
use std::ops::{Add, Mul, Neg};

/// Rows and columns of logits one micro-kernel call holds in registers.
#[derive(Debug, Clone, Copy)]
pub struct TileShape {
    pub rows: usize,
    pub columns: usize,
}

/// Tiles of queries and one panel of keys, both packed.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a, T> {
    pub queries: &'a [T],
    pub rows: usize,
    pub keys: &'a [T],
    pub depth: usize,
}

impl<T> Panel<'_, T> {
    /// Panics unless the slices hold what a kernel with this tile will read.
    pub fn check(&self, tile: TileShape) {
        assert!(self.rows > 0 && self.depth > 0);
        let tiles = self.rows.div_ceil(tile.rows);
        assert_eq!(self.queries.len(), tiles * tile.rows * self.depth);
        assert_eq!(self.keys.len(), tile.columns * self.depth);
    }
}

pub trait Dispatch:
    Copy
    + Default
    + fmt::Debug
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + RowSums
    + AttentionLoops
    + GramLoops
    + SignedSums
{
    fn tile(set: InstructionSet) -> TileShape;

    /// Adds the power sums of the panel's first `columns` columns, about a center, to `totals`.
    fn power_sums(set: InstructionSet, panel: Panel<'_, Self>, center: Self, columns: usize, totals: &mut LaneTotals);

    /// Writes all logits of the panel, padding included, to `out`, row by row.
    fn logits(set: InstructionSet, panel: Panel<'_, Self>, out: &mut [Self], stride: usize);

    /// Writes four equally long rows to the columns `first..first + 4` of lines of `width`.
    fn transpose_rows(rows: [&[Self]; 4], lines: &mut [Self], width: usize, first: usize);
}

macro_rules! element {
    ($element:ident, $portable_width:literal) => {
        impl Element for $element {}

        impl Dispatch for $element {
            fn tile(set: InstructionSet) -> TileShape {
                match set {
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => x86::avx512::$element::TILE,
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => x86::avx2::$element::TILE,
                    _ => portable::tile_shape::<$portable_width>(),
                }
            }

            fn power_sums(
                set: InstructionSet,
                panel: Panel<'_, Self>,
                center: Self,
                columns: usize,
                totals: &mut LaneTotals,
            ) {
                match set {
                    // SAFETY: nothing is packed for an instruction set the machine lacks.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => unsafe {
                        x86::avx512::$element::power_sums(panel, center, columns, totals)
                    },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => unsafe { x86::avx2::$element::power_sums(panel, center, columns, totals) },
                    _ => portable::power_sums::<Self, $portable_width>(panel, center, columns, totals),
                }
            }

            fn logits(set: InstructionSet, panel: Panel<'_, Self>, out: &mut [Self], stride: usize) {
                match set {
                    // SAFETY: nothing is packed for an instruction set the machine lacks.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => unsafe { x86::avx512::$element::logits(panel, out, stride) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => unsafe { x86::avx2::$element::logits(panel, out, stride) },
                    _ => portable::logits::<Self, $portable_width>(panel, out, stride),
                }
            }

            fn transpose_rows(rows: [&[Self]; 4], lines: &mut [Self], width: usize, first: usize) {
                #[cfg(target_arch = "x86_64")]
                return x86::transpose::$element(rows, lines, width, first);
                #[cfg(not(target_arch = "x86_64"))]
                return portable::transpose_rows(rows, lines, width, first);
            }
        }
    };
}

element!(f32, 8);
element!(f64, 4);
