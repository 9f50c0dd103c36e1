//! Gram matrices XᵀX of tokens that pass by in blocks: all that mean and variance of the logits need.
//!
//! X is n × d, row-major, one token a row. Only column sums and the d × d products are kept, so n is not limited by memory.
//!
//! # Rounding
//! x − c is rounded once to the element type. Products of [`ROWS_IN_REGISTERS`] rows at a time are summed in the element type, in the order of
//! the rows, then added to f64 totals: a product of columns is off by at most γ·Σ|x_h x_k| for γ = kε/(1 − kε), k = [`ROWS_IN_REGISTERS`]
//! (one more where multiply-adds are not fused), and by what f64 adds; with entries of both signs by about the root of that. Column
//! sums are f64 throughout. Neither is changed by the instruction set but for the products' rounding, where AVX2 and AVX-512 agree.

use super::compiled::compiled_for_each_set;
use super::operands::assert_available;
#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2F32, Avx2F64, Avx512F32, Avx512F64, Register};
use super::{Element, InstructionSet};
use crate::number::Real;
use std::ops::{Add, Mul};

/// Rows whose products are summed in the element type before they are added in f64: 32 KiB of f32 at d = 64.
pub const ROWS_IN_REGISTERS: usize = 128;

/// Lines of products are a multiple of this long: a whole number of tiles of every instruction set.
const LINE: usize = 32;

/// Independent partial sums over entries: the additions do not wait for each other.
const LANES: usize = 32;

/// Σ(x − c) by column and Σ(x − c)(x − c)ᵀ over the rows x of a matrix, for a center c of every entry.
#[derive(Debug, Clone, PartialEq)]
pub struct GramSums {
    width: usize,
    center: f64,
    rows: u64,
    sums: Vec<f64>,
    /// Product (i, j) at i·stride + j, for j ≥ i at least; what lies below the diagonal is unspecified.
    products: Vec<f64>,
}

impl GramSums {
    /// The sums over no rows, for rows of `width` entries of type `T`; the center is rounded to that type.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new<T: Element>(width: usize, center: f64) -> Self {
        assert!(width > 0, "tokens of width 0");
        let center = T::from_f64(center).to_f64();
        Self { width, center, rows: 0, sums: vec![0.0; width], products: vec![0.0; width * stride(width)] }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.sums.fill(0.0);
        self.products.fill(0.0);
    }

    /// Adds rows, row-major; `scratch` is memory to be used again. The result depends on how rows are cut into calls: cut them alike
    /// for the same bits, at multiples of [`ROWS_IN_REGISTERS`].
    ///
    /// # Panics
    /// If `rows` is no whole number of rows, or if this machine lacks the instruction set.
    pub fn add_rows<T: Element>(&mut self, set: InstructionSet, rows: &[T], scratch: &mut Vec<T>) {
        assert_available(set);
        assert!(rows.len().is_multiple_of(self.width), "{} entries are no rows of {}", rows.len(), self.width);
        self.rows += (rows.len() / self.width) as u64;
        let center = T::from_f64(self.center);
        for block in rows.chunks(ROWS_IN_REGISTERS * self.width) {
            let is_ready = self.width == stride(self.width) && self.center == 0.0;
            if !is_ready {
                pad(block, self.width, center, scratch);
            }
            let rows = if is_ready { block } else { scratch.as_slice() };
            T::add_block(set, Block { rows, width: self.width }, &mut self.sums, &mut self.products);
        }
    }

    /// Adds the sums over further rows. Floating-point addition is not associative: merge in a fixed order.
    ///
    /// # Panics
    /// If widths or centers differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.width, self.center), (other.width, other.center), "sums of different matrices");
        self.rows += other.rows;
        for (sum, more) in self.sums.iter_mut().chain(&mut self.products).zip(other.sums.iter().chain(&other.products))
        {
            *sum += more;
        }
    }

    /// Number of rows n.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns d.
    pub fn width(&self) -> usize {
        self.width
    }

    /// c, the center of every entry.
    pub fn center(&self) -> f64 {
        self.center
    }

    /// Σ(x − c) by column.
    pub fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// Σ(x − c) over all entries.
    pub fn total(&self) -> f64 {
        self.sums.iter().sum()
    }

    /// Σ(x − c)² over all entries.
    pub fn trace(&self) -> f64 {
        (0..self.width).map(|i| self.products_from(i)[0]).sum()
    }

    /// The products of column i with the columns i, …, d − 1.
    ///
    /// # Panics
    /// If there is no column i.
    pub fn products_from(&self, i: usize) -> &[f64] {
        let line = i * stride(self.width);
        &self.products[line + i..line + self.width]
    }
}

/// Elements from line to line of the products of rows of `width`, and of the rows that the loops read.
fn stride(width: usize) -> usize {
    width.next_multiple_of(LINE)
}

/// Rows less the center, filled up with zeros to whole lines.
fn pad<T: Element>(rows: &[T], width: usize, center: T, padded: &mut Vec<T>) {
    let stride = stride(width);
    padded.clear();
    padded.resize(rows.len() / width * stride, T::ZERO);
    for (line, row) in padded.chunks_exact_mut(stride).zip(rows.chunks_exact(width)) {
        for (to, &from) in line.iter_mut().zip(row) {
            *to = from + -center;
        }
    }
}

/// At most [`ROWS_IN_REGISTERS`] rows, filled up with zeros to whole lines.
#[derive(Clone, Copy)]
pub struct Block<'a, T> {
    rows: &'a [T],
    width: usize,
}

impl<T> Block<'_, T> {
    /// Panics unless rows and totals are as long as the loops take them to be.
    fn check(&self, sums: &[f64], products: &[f64]) {
        let stride = stride(self.width);
        assert!(self.rows.len().is_multiple_of(stride) && !self.rows.is_empty());
        assert!(sums.len() == self.width && products.len() == self.width * stride);
    }
}

/// The loops of one element type, by instruction set; sealed as [`Element`] is.
pub trait GramLoops: Real {
    /// Adds column sums and products of a block.
    fn add_block(set: InstructionSet, block: Block<'_, Self>, sums: &mut [f64], products: &mut [f64]);
}

compiled_for_each_set! {
    /// Σ x·y over the pairs of entries of two matrices of one length, each less a center, in f64: the same bits on every instruction set.
    cross_sum<T: Element> = add_pairs(x: &[T], y: &[T], center: f64) -> f64
}

#[inline(always)]
fn add_pairs<T: Real>(x: &[T], y: &[T], center: f64) -> f64 {
    assert_eq!(x.len(), y.len(), "pairs of two matrices");
    let product = |x: T, y: T| (x.to_f64() - center) * (y.to_f64() - center);
    let mut lanes = [0.0; LANES];
    let (whole_x, rest_x) = x.as_chunks::<LANES>();
    let (whole_y, rest_y) = y.as_chunks::<LANES>();
    for (x, y) in whole_x.iter().zip(whole_y) {
        for lane in 0..LANES {
            lanes[lane] += product(x[lane], y[lane]);
        }
    }
    for (sum, (&x, &y)) in lanes.iter_mut().zip(rest_x.iter().zip(rest_y)) {
        *sum += product(x, y);
    }
    lanes.iter().sum()
}

#[inline(always)]
fn add_columns<T: Real>(block: &Block<'_, T>, sums: &mut [f64]) {
    for row in block.rows.chunks_exact(stride(block.width)) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x.to_f64();
        }
    }
}

/// Calls `visit(first row, end, first column)` for the tiles of products that meet the upper triangle; tiles are at most
/// `height` high and as equal as can be.
#[inline(always)]
fn for_each_tile(width: usize, height: usize, columns: usize, mut visit: impl FnMut(usize, usize, usize)) {
    for column in (0..width).step_by(columns) {
        let rows = width.min(column + columns);
        let tiles = rows.div_ceil(height);
        for tile in 0..tiles {
            visit(rows * tile / tiles, rows * (tile + 1) / tiles, column);
        }
    }
}

/// Adds the products of `HEIGHT` columns from `first` with two registers of columns from `column`.
///
/// # Safety
/// The machine must have the instructions; `first + HEIGHT` ≤ width and `column` + two registers ≤ stride, where
/// [`Block::check`] holds.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_tile<R: Register, const HEIGHT: usize>(
    block: Block<'_, R::Element>,
    first: usize,
    column: usize,
    products: &mut [f64],
) {
    let stride = stride(block.width);
    let mut row = block.rows.as_ptr();
    // SAFETY: the caller's promise; each step reads within one row.
    let sums = unsafe {
        let mut sums = [[R::splat(R::Element::ZERO); 2]; HEIGHT];
        for _ in 0..block.rows.len() / stride {
            let line = [R::load(row.add(column)), R::load(row.add(column + R::LANES))];
            for (place, sums) in sums.iter_mut().enumerate() {
                let factor = R::splat(*row.add(first + place));
                sums[0] = factor.multiply_add(line[0], sums[0]);
                sums[1] = factor.multiply_add(line[1], sums[1]);
            }
            row = row.wrapping_add(stride);
        }
        sums
    };
    for (place, sums) in sums.into_iter().enumerate() {
        let mut lanes = [R::Element::ZERO; LINE];
        // SAFETY: the array is as long as two of the longest registers.
        unsafe {
            sums[0].store(lanes.as_mut_ptr());
            sums[1].store(lanes.as_mut_ptr().add(R::LANES));
        }
        let totals = &mut products[(first + place) * stride + column..][..2 * R::LANES];
        for (total, lane) in totals.iter_mut().zip(lanes) {
            *total += lane.to_f64();
        }
    }
}

/// [`add_tile`] in plain Rust: short fixed loops over arrays, which the compiler keeps in the registers that SSE2 and NEON have.
#[inline(never)]
fn add_tile_of_arrays<T: Real + Add<Output = T> + Mul<Output = T>, const HEIGHT: usize, const WIDTH: usize>(
    block: Block<'_, T>,
    first: usize,
    column: usize,
    products: &mut [f64],
) {
    let stride = stride(block.width);
    let mut sums = [[T::ZERO; WIDTH]; HEIGHT];
    for row in block.rows.chunks_exact(stride) {
        let factors: [T; HEIGHT] = std::array::from_fn(|place| row[first + place]);
        let line: [T; WIDTH] = std::array::from_fn(|lane| row[column + lane]);
        for place in 0..HEIGHT {
            for lane in 0..WIDTH {
                sums[place][lane] = factors[place] * line[lane] + sums[place][lane];
            }
        }
    }
    for (place, sums) in sums.into_iter().enumerate() {
        let totals = &mut products[(first + place) * stride + column..][..WIDTH];
        for (total, sum) in totals.iter_mut().zip(sums) {
            *total += sum.to_f64();
        }
    }
}

macro_rules! simd_block {
    ($name:ident, $element:ident, $register:ty, $height:literal: [$($rows:literal)*], $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            use super::*;

            #[target_feature(enable = $features)]
            pub fn add_block(block: Block<'_, $element>, sums: &mut [f64], products: &mut [f64]) {
                block.check(sums, products);
                add_columns(&block, sums);
                for_each_tile(block.width, $height, 2 * <$register>::LANES, |first, end, column| {
                    // SAFETY: the machine has the instructions; tiles end within the width, and lines are a whole
                    // number of tiles.
                    unsafe {
                        match end - first {
                            $($rows => add_tile::<$register, $rows>(block, first, column, products),)*
                            rows => unreachable!("a tile of {rows} rows"),
                        }
                    }
                });
            }
        }
    };
}

simd_block!(avx512_f32, f32, Avx512F32, 14: [1 2 3 4 5 6 7 8 9 10 11 12 13 14], "avx512f,avx512dq");
simd_block!(avx512_f64, f64, Avx512F64, 14: [1 2 3 4 5 6 7 8 9 10 11 12 13 14], "avx512f,avx512dq");
simd_block!(avx2_f32, f32, Avx2F32, 6: [1 2 3 4 5 6], "avx2,fma");
simd_block!(avx2_f64, f64, Avx2F64, 6: [1 2 3 4 5 6], "avx2,fma");

/// One block in plain Rust, with tiles of 4 rows by `WIDTH` columns.
fn add_block_of_arrays<T: Real + Add<Output = T> + Mul<Output = T>, const WIDTH: usize>(
    block: Block<'_, T>,
    sums: &mut [f64],
    products: &mut [f64],
) {
    block.check(sums, products);
    add_columns(&block, sums);
    for_each_tile(block.width, 4, WIDTH, |first, end, column| match end - first {
        1 => add_tile_of_arrays::<T, 1, WIDTH>(block, first, column, products),
        2 => add_tile_of_arrays::<T, 2, WIDTH>(block, first, column, products),
        3 => add_tile_of_arrays::<T, 3, WIDTH>(block, first, column, products),
        4 => add_tile_of_arrays::<T, 4, WIDTH>(block, first, column, products),
        rows => unreachable!("a tile of {rows} rows"),
    });
}

macro_rules! gram_loops {
    ($element:ident, $avx512:ident, $avx2:ident, $portable_width:literal) => {
        impl GramLoops for $element {
            fn add_block(set: InstructionSet, block: Block<'_, Self>, sums: &mut [f64], products: &mut [f64]) {
                match set {
                    // SAFETY: `add_rows` has made sure that the machine has the instructions.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => unsafe { $avx512::add_block(block, sums, products) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => unsafe { $avx2::add_block(block, sums, products) },
                    _ => add_block_of_arrays::<Self, $portable_width>(block, sums, products),
                }
            }
        }
    };
}

gram_loops!(f32, avx512_f32, avx2_f32, 8);
gram_loops!(f64, avx512_f64, avx2_f64, 4);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Entries without pattern, from integers, so that they are the same everywhere; exact in f32.
    fn entries<T: Element>(count: usize, offset: f64) -> Vec<T> {
        let word = |index: usize| (index as u32).wrapping_mul(2_654_435_761) >> 12;
        (0..count).map(|index| T::from_f64(f64::from(word(index)) / 131_072.0 - 4.0 + offset)).collect()
    }

    /// Column sums and products by plain f64 loops, and the sizes of what is summed.
    fn definition<T: Element>(rows: &[T], width: usize, center: f64) -> [Vec<f64>; 3] {
        let mut sums = vec![0.0; width];
        let (mut products, mut sizes) = (vec![0.0; width * width], vec![0.0; width * width]);
        for row in rows.chunks(width) {
            let row: Vec<f64> = row.iter().map(|x| x.to_f64() - center).collect();
            for i in 0..width {
                sums[i] += row[i];
                for j in i..width {
                    products[i * width + j] += row[i] * row[j];
                    sizes[i * width + j] += (row[i] * row[j]).abs();
                }
            }
        }
        [sums, products, sizes]
    }

    fn check<T: Element>(rows: usize, width: usize, center: f64, unit_roundoff: f64) {
        let source: Vec<T> = entries(rows * width, center);
        let [sums, products, sizes] = definition(&source, width, center);
        for set in InstructionSet::available() {
            let mut found = GramSums::new::<T>(width, center);
            found.add_rows(set, &source, &mut Vec::new());
            assert_eq!(found.rows(), rows as u64);
            for i in 0..width {
                // Entries are multiples of 2⁻¹⁷: sums of a few thousand of them are exact in f64.
                assert_eq!(found.sums()[i], sums[i], "{set}, {rows} x {width}, column {i}");
                for (j, &product) in (i..width).zip(found.products_from(i)) {
                    // The module's bound, one rounding more where products are rounded, and f64's own.
                    let bound = (ROWS_IN_REGISTERS as f64 + 1.0) * unit_roundoff * sizes[i * width + j] * 1.001;
                    let error = (product - products[i * width + j]).abs();
                    assert!(error <= bound + 1e-300, "{set}, {rows} x {width}, ({i}, {j}): {error:e} over {bound:e}");
                }
            }
        }
    }

    #[test]
    fn sums_and_products_are_those_of_the_definition_at_every_width() {
        for width in (1..=37).chain([47, 61, 64, 67, 97, 129]) {
            for rows in [1, 7, 127, 128, 131, 389] {
                check::<f32>(rows, width, 0.0, 2_f64.powi(-24));
                check::<f64>(rows, width, 0.0, 2_f64.powi(-53));
            }
        }
        for width in [1, 5, 32, 64, 67] {
            check::<f32>(131, width, 2.5, 2_f64.powi(-24));
            check::<f64>(131, width, 2.5, 2_f64.powi(-53));
        }
    }

    proptest! {
        #[test]
        fn simd_and_plain_rust_agree_within_their_bounds_on_hostile_numbers(
            width in 1_usize..70, rows in 1_usize..140, seed in any::<u64>(), scale in -60_i32..54,
        ) {
            // Sizes from the ends of the range of f32 products, zeros of both signs and subnormals among them.
            let number = |index: usize| -> f32 {
                let word = (index as u64 ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
                match word % 11 {
                    0 => 0.0,
                    1 => -0.0,
                    2 => f32::from_bits((word >> 8) as u32 & 0xFFFF),
                    kind => (word as f32 / 2_f32.powi(44) - 0.5) * 2_f32.powi(scale + kind as i32 - 6),
                }
            };
            let source: Vec<f32> = (0..rows * width).map(number).collect();
            let [_, _, sizes] = definition(&source, width, 0.0);
            let of = |set| {
                let mut sums = GramSums::new::<f32>(width, 0.0);
                sums.add_rows(set, &source, &mut Vec::new());
                sums
            };
            let plain = of(InstructionSet::Portable);
            for set in InstructionSet::available() {
                let found = of(set);
                prop_assert_eq!(found.sums(), plain.sums());
                for i in 0..width {
                    for (j, (a, b)) in (i..width).zip(found.products_from(i).iter().zip(plain.products_from(i))) {
                        // Both bounds, and products that are subnormal lose up to 2⁻¹⁴⁹ each.
                        let bound = 2.0 * (ROWS_IN_REGISTERS as f64 + 1.0) * 2_f64.powi(-24) * sizes[i * width + j]
                            + 2_f64.powi(-140);
                        prop_assert!((a - b).abs() <= bound, "{} ({}, {}): {} {}", set, i, j, a, b);
                    }
                }
            }
        }
    }

    #[test]
    fn the_instruction_sets_with_fused_multiply_add_agree_in_every_bit() {
        let source: Vec<f32> = entries(389 * 67, 0.1);
        let of = |set| {
            let mut sums = GramSums::new::<f32>(67, 0.1);
            sums.add_rows(set, &source, &mut Vec::new());
            (0..67).flat_map(|i| sums.products_from(i).to_vec()).map(f64::to_bits).collect::<Vec<_>>()
        };
        let fused = [InstructionSet::Avx512, InstructionSet::Avx2];
        let found: Vec<_> = fused.into_iter().filter(|set| set.is_available()).map(of).collect();
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn infinity_and_nan_show_in_sums_and_products() {
        for (bad, is_seen) in [(f32::NAN, f64::is_nan as fn(f64) -> bool), (f32::INFINITY, |x| !x.is_finite())] {
            let mut source: Vec<f32> = entries(131 * 7, 0.0);
            source[130 * 7 + 3] = bad;
            for set in InstructionSet::available() {
                let mut found = GramSums::new::<f32>(7, 0.0);
                found.add_rows(set, &source, &mut Vec::new());
                assert!(is_seen(found.sums()[3]) && is_seen(found.products_from(3)[0]), "{set}");
                assert!(found.sums()[2].is_finite() && found.products_from(2)[0].is_finite(), "{set}");
            }
        }
    }

    #[test]
    fn merged_sums_are_those_of_all_rows() {
        let source: Vec<f64> = entries(300 * 5, 0.0);
        let of = |rows: &[f64]| {
            let mut sums = GramSums::new::<f64>(5, 0.0);
            sums.add_rows(InstructionSet::detect(), rows, &mut Vec::new());
            sums
        };
        let mut merged = of(&source[..128 * 5]);
        merged.merge(&of(&source[128 * 5..]));
        let whole = of(&source);
        assert_eq!((merged.rows(), merged.sums()), (300, whole.sums()));
        for i in 0..5 {
            for (a, b) in merged.products_from(i).iter().zip(whole.products_from(i)) {
                // Two additions of f64 in another order.
                assert!((a - b).abs() <= 4.0 * f64::EPSILON * b.abs().max(300.0), "{a} {b}");
            }
        }
    }

    #[test]
    fn the_cross_sum_is_that_of_exact_fractions_on_every_instruction_set() {
        // x = 0 to 18 and y = x² − 60, less 1/2, and 0 to 130 with themselves: whole numbers and quarters, by Python's fractions.
        let x: Vec<f32> = (0..19).map(|k| k as f32).collect();
        let y: Vec<f32> = (0..19).map(|k| (k * k - 60) as f32).collect();
        let long: Vec<f64> = (0..131).map(f64::from).collect();
        for set in InstructionSet::available() {
            assert_eq!(cross_sum(set, &x, &y, 0.5), 18_415.75);
            assert_eq!(cross_sum(set, &long, &long, 0.5), 732_322.75);
        }
    }
}
