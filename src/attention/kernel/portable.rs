//! The micro-kernels in plain Rust: the path of every machine without AVX2, and the safe twin the
//! SIMD kernels are tested against.
//!
//! Written as a·b + c: `mul_add` becomes a library call, a hundred times slower, where the
//! build does not assume fused multiply-add. Short fixed loops over arrays, so that the compiler keeps a tile
//! in the registers SSE2 and NEON have.

use super::Element;
use super::LaneTotals;
use super::dispatch::{Dispatch, Panel, TileShape};

/// Rows of a tile: with 32 bytes of columns it takes 8 of the 16 SSE2 registers.
const ROWS: usize = 4;

/// The tile of the portable kernels for a panel of `WIDTH` columns.
pub fn tile_shape<const WIDTH: usize>() -> TileShape {
    TileShape { rows: ROWS, columns: WIDTH }
}

/// Logits minus center of one tile; `start` is −center.
#[inline(never)]
fn tile<T: Dispatch, const WIDTH: usize>(queries: &[T], keys: &[T], start: T) -> [[T; WIDTH]; ROWS] {
    let mut logits = [[start; WIDTH]; ROWS];
    let (queries, _) = queries.as_chunks::<ROWS>();
    let (keys, _) = keys.as_chunks::<WIDTH>();
    for (query, key) in queries.iter().zip(keys) {
        for r in 0..ROWS {
            for c in 0..WIDTH {
                logits[r][c] = query[r] * key[c] + logits[r][c];
            }
        }
    }
    logits
}

/// Σ x^r, r = 1 to 4, by column.
#[inline(always)]
fn reduce<T: Dispatch, const WIDTH: usize>(logits: &[[T; WIDTH]]) -> [[T; WIDTH]; 4] {
    let mut sums = [[T::default(); WIDTH]; 4];
    for row in logits {
        for c in 0..WIDTH {
            let x = row[c];
            let square = x * x;
            sums[0][c] = sums[0][c] + x;
            sums[1][c] = sums[1][c] + square;
            sums[2][c] = sums[2][c] + square * x;
            sums[3][c] = sums[3][c] + square * square;
        }
    }
    sums
}

/// Adds the power sums of the panel's first `columns` columns, about a center, to `totals`.
pub fn power_sums<T: Element, const WIDTH: usize>(
    panel: Panel<'_, T>,
    center: T,
    columns: usize,
    totals: &mut LaneTotals,
) {
    panel.check(tile_shape::<WIDTH>());
    for (index, queries) in panel.queries.chunks_exact(ROWS * panel.depth).enumerate() {
        let logits = tile::<T, WIDTH>(queries, panel.keys, -center);
        let rows = ROWS.min(panel.rows - index * ROWS);
        // Told apart so that full tiles are loops of fixed length, which vectorise.
        let sums = if rows == ROWS { reduce(&logits) } else { reduce(&logits[..rows]) };
        for (total, sum) in totals.iter_mut().zip(&sums) {
            if columns >= WIDTH {
                for c in 0..WIDTH {
                    total[c] += sum[c].to_f64();
                }
            } else {
                // Columns beyond `columns` are padding and are left out.
                for c in 0..columns {
                    total[c] += sum[c].to_f64();
                }
            }
        }
    }
}

/// Writes all logits of the panel to `out`: logit (i, j) at `i * stride + j`.
pub fn logits<T: Dispatch, const WIDTH: usize>(panel: Panel<'_, T>, out: &mut [T], stride: usize) {
    panel.check(tile_shape::<WIDTH>());
    for (index, queries) in panel.queries.chunks_exact(ROWS * panel.depth).enumerate() {
        let logits = tile::<T, WIDTH>(queries, panel.keys, T::default());
        for (r, line) in logits.iter().take(panel.rows - index * ROWS).enumerate() {
            let first = (index * ROWS + r) * stride;
            out[first..first + WIDTH].copy_from_slice(line);
        }
    }
}

/// Writes `COUNT` equally long rows to the columns `first..first + COUNT` of lines of `width`.
pub fn transpose_rows<T: Copy, const COUNT: usize>(rows: [&[T]; COUNT], lines: &mut [T], width: usize, first: usize) {
    for (index, line) in lines.chunks_exact_mut(width).enumerate() {
        line[first..first + COUNT].copy_from_slice(&rows.map(|row| row[index]));
    }
}
