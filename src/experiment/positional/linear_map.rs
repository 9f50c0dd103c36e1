//! The linear map M_k with PE(p + k) = M_k·PE(p), found by least squares from the table of encodings alone.

use nalgebra::{DMatrix, Matrix2};

use super::bounds::Bounds;
use crate::attention::product;
use crate::theory::position::ExactAngles;

/// Rows of a fit, at most: more add nothing but time.
const MOST_ROWS: usize = 1024;
/// The full fit takes the singular values of a table of this many columns, at most.
pub(super) const WIDEST: usize = 128;
/// A pair whose map is known no better than this from so few positions is left out.
const DETERMINED: f64 = 0.1;

/// The largest error found and the bound that rounding puts on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounded {
    pub(super) error: f64,
    pub(super) bound: f64,
}

impl Bounded {
    /// The larger error with the larger bound.
    fn merge(one: Option<Self>, other: Self) -> Option<Self> {
        let merged = one.map_or(other, |one| Self {
            // Not a number must not be lost.
            error: if one.error >= other.error || one.error.is_nan() { one.error } else { other.error },
            bound: one.bound.max(other.bound),
        });
        Some(merged)
    }
}

/// What the fits show; None where there are too few positions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct MapErrors {
    /// Largest entry of PE(p + k) − M_k·PE(p) for the best d×d matrix M_k.
    pub(super) residual: Option<Bounded>,
    /// Largest entry of M_k − (rotation by k·ω_i), pair by pair.
    pub(super) error: Option<Bounded>,
    /// Largest entry of PE(p + k) − M_k·PE(p) in the second half of the positions, M_k from the first, pair by pair.
    pub(super) transfer: Option<Bounded>,
}

/// Fits the maps of all `offsets` to `table`, one encoding of `width` numbers a row for consecutive positions.
pub(super) fn fit(table: &[f64], width: usize, offsets: &[usize], exact: &ExactAngles, bounds: &Bounds) -> MapErrors {
    let positions = table.len() / width;
    let mut errors = MapErrors { residual: full(table, width, offsets, bounds), ..MapErrors::default() };
    for &offset in offsets.iter().filter(|&&offset| offset + 8 <= positions) {
        let rows = (positions - offset).min(MOST_ROWS);
        for pair in 0..width / 2 {
            let of_pair = PairFit { table, width, pair, offset, exact, bounds };
            if let Some(found) = of_pair.error(rows) {
                errors.error = Bounded::merge(errors.error, found);
            }
            if let Some(found) = of_pair.transfer(rows) {
                errors.transfer = Bounded::merge(errors.transfer, found);
            }
        }
    }
    errors
}

/// The whole matrix, no structure supposed.
///
/// Slow pairs hardly turn over the positions there are: their columns are nearly multiples of each other, and the table's
/// smallest singular values lie far below rounding. The entries of M_k are then not determined, but what M_k makes of the
/// table is: the least-squares residual is at most that of the true map, √(N·d/2)·2ε with ε the error of one turn, plus the singular values
/// left out (below d·u of the largest, times |M_k| = √d) and the rounding of the decomposition.
fn full(table: &[f64], width: usize, offsets: &[usize], bounds: &Bounds) -> Option<Bounded> {
    let positions = table.len() / width;
    let rows = (positions / 2).min(4 * width);
    if rows <= width || width > WIDEST {
        return None;
    }
    let block = |first: usize| DMatrix::from_fn(rows, width, |p, column| table[(first + p) * width + column]);
    let left = block(0);
    let decomposition = left.clone().svd(true, true);
    let negligible = width as f64 * bounds.measuring() * decomposition.singular_values.max();
    let mut found = None;
    for &offset in offsets.iter().filter(|&&offset| offset + rows <= positions) {
        let right = block(offset);
        let Ok(map) = decomposition.solve(&right, negligible) else { continue };
        let error = (product(&left, &map) - right)
            .iter()
            .fold(0.0f64, |largest, x| if x.abs() <= largest { largest } else { x.abs() });
        let length = (rows as f64 * width as f64 / 2.0).sqrt();
        let bound = 2.0 * bounds.turn() * length
            + negligible * (width as f64).sqrt()
            + 32.0 * width as f64 * bounds.measuring() * length;
        found = Bounded::merge(found, Bounded { error, bound });
    }
    found
}

/// The 2×2 map of one pair.
struct PairFit<'a> {
    table: &'a [f64],
    width: usize,
    pair: usize,
    offset: usize,
    exact: &'a ExactAngles,
    bounds: &'a Bounds,
}

impl PairFit<'_> {
    /// Sine and cosine of the pair at `rows` positions from `first` on.
    fn block(&self, first: usize, rows: usize) -> DMatrix<f64> {
        let entry = |p: usize, column: usize| self.table[(first + p) * self.width + 2 * self.pair + column];
        DMatrix::from_fn(rows, 2, entry)
    }

    /// The transpose of the map from positions 0..rows to those `offset` further.
    fn fitted(&self, rows: usize) -> Option<DMatrix<f64>> {
        self.block(0, rows).svd(true, true).solve(&self.block(self.offset, rows), 0.0).ok()
    }

    /// |M − R| of the fit: A(X − R) = E with rows of E of length 2ε, so |X − R| ≤ 2ε√N/σ with σ the smallest singular value of A,
    /// of the exact table; the decomposition adds 32u·√N/σ. Second-order terms are within the tenth.
    fn bound(&self, rows: usize) -> Option<f64> {
        let condition = (rows as f64).sqrt() / self.exact.smallest_singular_value(self.pair, rows);
        let bound = 1.1 * (2.0 * self.bounds.turn() + 32.0 * self.bounds.measuring()) * condition;
        (bound < DETERMINED).then_some(bound)
    }

    fn error(&self, rows: usize) -> Option<Bounded> {
        let bound = self.bound(rows)?;
        let (sine, cosine) = self.exact.angle(self.offset as u64, self.pair).sin_cos();
        // (sin, cos)(p + k) = (sin cos k + cos sin k, cos cos k − sin sin k): columns of the transposed map.
        let rotation = Matrix2::new(cosine, -sine, sine, cosine);
        let fitted = self.fitted(rows)?;
        let error = (0..4).map(|index| (fitted[index] - rotation[index]).abs());
        Some(Bounded { error: largest(error), bound })
    }

    fn transfer(&self, rows: usize) -> Option<Bounded> {
        let half = rows / 2;
        let bound = self.bound(half)? + 2.0 * self.bounds.turn();
        let predicted = self.block(half, half) * self.fitted(half)?;
        let found = self.block(half + self.offset, half);
        Some(Bounded { error: largest((predicted - found).iter().map(|x| x.abs())), bound })
    }
}

/// The largest of sizes; not a number if one is.
fn largest(sizes: impl Iterator<Item = f64>) -> f64 {
    sizes.fold(0.0, |largest, size| if size <= largest { largest } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Precision::F64;
    use crate::attention::position::{Encoding, PairAngles, Sinusoidal};

    fn table(width: usize, base: f64, positions: u64) -> Vec<f64> {
        Sinusoidal { angles: PairAngles::new(width, base, F64, F64).expect("even") }.table(0..positions)
    }

    #[test]
    fn a_well_determined_full_fit_is_the_block_rotation_entry_by_entry() {
        // d = 6, base 50, N = 101: the slowest pair turns once over the positions, so all of M_k is determined.
        let (width, offset) = (6, 17);
        let table = table(width, 50.0, 211);
        let block = |first: usize| DMatrix::from_fn(101, width, |p, column| table[(first + p) * width + column]);
        let map = block(0).svd(true, true).solve(&block(offset), 0.0).expect("solved");
        for (row, column) in (0..width).flat_map(|row| (0..width).map(move |column| (row, column))) {
            let angle = offset as f64 * 50f64.powf(-((row / 2 * 2) as f64) / 6.0);
            let expected = match (row / 2 == column / 2, row % 2, column % 2) {
                (false, ..) => 0.0,
                (true, 0, 1) => -angle.sin(),
                (true, 1, 0) => angle.sin(),
                _ => angle.cos(),
            };
            assert!((map[(row, column)] - expected).abs() < 1e-12, "{row} {column}");
        }
    }

    #[test]
    fn maps_are_found_to_rounding_and_those_of_a_faulty_table_are_not() {
        let (width, base) = (16, 1e4);
        let exact = ExactAngles::new(width, base);
        let bounds = Bounds::new(F64, 211);
        let right = fit(&table(width, base, 211), width, &[1, 13, 101], &exact, &bounds);
        for found in [right.residual, right.error, right.transfer] {
            let Bounded { error, bound } = found.expect("enough positions");
            assert!(error > 0.0 && error <= bound && bound < 1e-9, "{error} {bound}");
        }
        // Field report PO-04: exponent j/d for every column j; a pair's sine and cosine turn differently.
        let entry = |p: usize, j: usize| {
            let angle = p as f64 * base.powf(-(j as f64) / width as f64);
            if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }
        };
        let faulty: Vec<f64> = (0..211).flat_map(|p| (0..width).map(move |j| entry(p, j))).collect();
        let wrong = fit(&faulty, width, &[1, 13, 101], &exact, &bounds);
        for found in [wrong.residual, wrong.error, wrong.transfer] {
            let Bounded { error, bound } = found.expect("enough positions");
            assert!(error > 1e6 * bound, "{error} {bound}");
        }
    }

    #[test]
    fn too_few_positions_determine_nothing() {
        let exact = ExactAngles::new(16, 1e4);
        assert_eq!(fit(&table(16, 1e4, 5), 16, &[1, 2], &exact, &Bounds::new(F64, 5)), MapErrors::default());
    }
}
