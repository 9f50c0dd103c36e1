//! The product of a tile of weights with the values, added to what was summed before: the inner loop of O = P V.

use super::attention_loops::{AttentionLoops, MOST_ROWS};
#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2F32, Avx2F64, Avx512F32, Avx512F64, Register};
#[cfg(target_arch = "x86_64")]
use crate::number::Real;
use std::ops::{Add, Mul};

/// A tile of weights against a strip of values, all cut to the same keys.
#[derive(Debug, Clone, Copy)]
pub struct Product<'a, T> {
    /// Weights, rows [`AttentionLoops::STRIDE`] apart.
    pub weights: &'a [T],
    /// Number of rows, at most the height of the tile.
    pub rows: usize,
    /// One line of two registers (one, in plain Rust) for each key.
    pub values: &'a [T],
    /// Number of keys.
    pub keys: usize,
}

/// Σ over the keys from 0, then factor · out is added: so the error grows with the keys of a block and the number
/// of blocks, not with the number of keys.
///
/// # Safety
/// The machine must have the instructions; weights, values and factors must be readable, and `out` writable, for `ROWS` rows
/// and `keys` keys.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn accumulate_tile<R: Register<Element: AttentionLoops>, const ROWS: usize>(
    mut weights: *const R::Element,
    mut values: *const R::Element,
    keys: usize,
    factors: &[R::Element; MOST_ROWS],
    out: *mut R::Element,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[R::splat(R::Element::ZERO); 2]; ROWS];
        for _ in 0..keys {
            let line = [R::load(values), R::load(values.add(R::LANES))];
            let mut place = weights;
            for sums in &mut sums {
                let weight = R::splat(*place);
                sums[0] = weight.multiply_add(line[0], sums[0]);
                sums[1] = weight.multiply_add(line[1], sums[1]);
                place = place.wrapping_add(R::Element::STRIDE);
            }
            weights = weights.wrapping_add(1);
            values = values.wrapping_add(2 * R::LANES);
        }
        for row in 0..ROWS {
            let factor = R::splat(factors[row]);
            let (left, right) = (out.add(2 * row * R::LANES), out.add((2 * row + 1) * R::LANES));
            R::load(left).multiply_add(factor, sums[row][0]).store(left);
            R::load(right).multiply_add(factor, sums[row][1]).store(right);
        }
    }
}

macro_rules! product_loops {
    ($name:ident, $element:ident, $register:ty, rows: [$($rows:literal)*], $features:literal) => {
        /// # Safety
        /// The machine must have the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        pub unsafe fn $name(product: Product<'_, $element>, factors: &[$element; MOST_ROWS], out: &mut [$element]) {
            let Product { weights, rows, values, keys } = product;
            let width = 2 * <$register>::LANES;
            assert!(rows > 0 && keys > 0 && keys <= $element::BLOCK);
            assert!(weights.len() >= (rows - 1) * $element::STRIDE + keys);
            assert!(values.len() >= keys * width && out.len() >= rows * width);
            let (weights, values, out) = (weights.as_ptr(), values.as_ptr(), out.as_mut_ptr());
            // SAFETY: the assertions, and the caller's promise.
            unsafe {
                match rows {
                    $($rows => accumulate_tile::<$register, $rows>(weights, values, keys, factors, out),)*
                    _ => panic!("a tile of {rows} rows"),
                }
            }
        }
    };
}

/// [`accumulate_tile`] in plain Rust: short fixed loops over arrays, which the compiler keeps in the registers that SSE2
/// and NEON have.
#[inline(never)]
fn accumulate_in_arrays<
    T: AttentionLoops + Add<Output = T> + Mul<Output = T>,
    const ROWS: usize,
    const WIDTH: usize,
>(
    product: Product<'_, T>,
    factors: &[T; MOST_ROWS],
    out: &mut [T],
) {
    let mut sums = [[T::ZERO; WIDTH]; ROWS];
    let rows: [&[T]; ROWS] = std::array::from_fn(|row| &product.weights[row * T::STRIDE..][..product.keys]);
    for (key, line) in product.values.as_chunks::<WIDTH>().0.iter().enumerate().take(product.keys) {
        for row in 0..ROWS {
            let weight = rows[row][key];
            for column in 0..WIDTH {
                sums[row][column] = weight * line[column] + sums[row][column];
            }
        }
    }
    for ((line, sums), &factor) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(sums).zip(factors) {
        for (total, sum) in line.iter_mut().zip(sums) {
            *total = *total * factor + sum;
        }
    }
}

macro_rules! portable_product {
    ($name:ident, $element:ident, $width:literal) => {
        /// In plain Rust.
        pub fn $name(product: Product<'_, $element>, factors: &[$element; MOST_ROWS], out: &mut [$element]) {
            match product.rows {
                1 => accumulate_in_arrays::<$element, 1, $width>(product, factors, out),
                2 => accumulate_in_arrays::<$element, 2, $width>(product, factors, out),
                3 => accumulate_in_arrays::<$element, 3, $width>(product, factors, out),
                4 => accumulate_in_arrays::<$element, 4, $width>(product, factors, out),
                rows => panic!("a tile of {rows} rows"),
            }
        }
    };
}

product_loops!(avx512_f32, f32, Avx512F32, rows: [1 2 3 4 5 6 7 8 9 10 11 12 13 14], "avx512f,avx512dq");
product_loops!(avx512_f64, f64, Avx512F64, rows: [1 2 3 4 5 6 7 8 9 10 11 12 13 14], "avx512f,avx512dq");
product_loops!(avx2_f32, f32, Avx2F32, rows: [1 2 3 4 5 6], "avx2,fma");
product_loops!(avx2_f64, f64, Avx2F64, rows: [1 2 3 4 5 6], "avx2,fma");
portable_product!(portable_f32, f32, 8);
portable_product!(portable_f64, f64, 4);
