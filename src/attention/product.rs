//! Products of dense f64 matrices that are the same numbers on every machine while the portable kernels are pinned.

use nalgebra::DMatrix;

use super::kernel::InstructionSet;

/// Rows whose sums are held in registers.
const ROWS: usize = 16;

/// A·B.
///
/// Where the machine has vector kernels of ours, and they are not pinned to the portable ones, this is nalgebra's product. That
/// one takes fused multiply-add where it finds it; else, therefore, each entry is summed in plain Rust, in the order of the inner index.
///
/// # Panics
/// If the shapes do not fit.
pub fn product(left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    product_by(InstructionSet::detect(), left, right)
}

fn product_by(set: InstructionSet, left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    match set {
        InstructionSet::Portable => plain_product(left, right),
        InstructionSet::Avx512 | InstructionSet::Avx2 => left * right,
    }
}

fn plain_product(left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    assert_eq!(left.ncols(), right.nrows(), "the matrices do not fit");
    let rows = left.nrows();
    let mut product = DMatrix::zeros(rows, right.ncols());
    for (mut column, factors) in product.column_iter_mut().zip(right.column_iter()) {
        let whole = rows / ROWS * ROWS;
        for first in (0..whole).step_by(ROWS) {
            column.rows_mut(first, ROWS).copy_from_slice(&sums::<ROWS>(left, first, factors.as_slice()));
        }
        for row in whole..rows {
            column[row] = sums::<1>(left, row, factors.as_slice())[0];
        }
    }
    product
}

/// Σ_h left(row, h)·factors(h) for N rows from `first` on.
fn sums<const N: usize>(left: &DMatrix<f64>, first: usize, factors: &[f64]) -> [f64; N] {
    let mut sums = [0.0; N];
    for (column, factor) in left.as_slice().chunks_exact(left.nrows()).zip(factors) {
        let entries = column[first..].first_chunk::<N>().expect("the rows are there");
        for row in 0..N {
            sums[row] += entries[row] * factor;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_products_are_exact_sums_of_whole_numbers_in_every_shape() {
        // Whole numbers: no sum is rounded, so integers give the very numbers.
        for (rows, depth, columns) in [(1, 1, 1), (3, 2, 5), (16, 7, 2), (17, 3, 4), (40, 33, 1), (2, 0, 3), (0, 2, 2)]
        {
            let left = DMatrix::from_fn(rows, depth, |i, h| (i * 7 + h * 3) as f64 - 11.0);
            let right = DMatrix::from_fn(depth, columns, |h, j| (h * 5) as f64 - (j * 13) as f64);
            let found = plain_product(&left, &right);
            assert_eq!(found.shape(), (rows, columns));
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                let term = |h: usize| (i as i64 * 7 + h as i64 * 3 - 11) * (h as i64 * 5 - j as i64 * 13);
                assert_eq!(found[(i, j)], (0..depth).map(term).sum::<i64>() as f64, "{rows}x{depth}x{columns}");
            }
        }
    }

    #[test]
    fn each_product_is_rounded_before_it_is_added() {
        // (1 + 2⁻³⁰)(1 − 2⁻³⁰) = 1 − 2⁻⁶⁰ rounds to 1; fused with −1 it would be −2⁻⁶⁰.
        let small = 2f64.powi(-30);
        let left = DMatrix::from_row_slice(1, 2, &[-1.0, 1.0 + small]);
        let right = DMatrix::from_column_slice(2, 1, &[1.0, 1.0 - small]);
        // nalgebra's fast path wants more than five rows, terms and columns.
        let left = DMatrix::from_fn(20, 8, |_, h| if h < 2 { left[h] } else { 0.0 });
        let right = DMatrix::from_fn(8, 20, |h, _| if h < 2 { right[h] } else { 0.0 });
        assert_eq!(product_by(InstructionSet::Portable, &left, &right), DMatrix::zeros(20, 20));
    }

    #[test]
    #[should_panic(expected = "the matrices do not fit")]
    fn shapes_that_do_not_fit_are_refused() {
        plain_product(&DMatrix::zeros(2, 3), &DMatrix::zeros(2, 3));
    }
}
