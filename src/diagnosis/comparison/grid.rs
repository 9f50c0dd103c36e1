//! Numbers of one head of one dump, cut to the rows and columns that the other dump has too, and how far two of them are apart.

use crate::diagnosis::matrix::{Matrix, Storage};

/// Two arrays are nearly equal, up to rounding that has accumulated through layers, if the root mean square of their difference is at
/// most this many unit roundoffs of that of the reference. One rounding of each gives 0.6; errors of independent roundings through L
/// layers grow as √L.
const ACCUMULATED: f64 = 32.0;

/// Structures (a factor, a permutation, a rotation) must explain all but this many unit roundoffs.
pub(super) const EXPLAINED: f64 = 16.0;

/// Rows × columns numbers.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub rows: usize,
    pub columns: usize,
    pub numbers: Vec<f64>,
    /// The type the numbers were computed in, as far as they show it.
    pub storage: Storage,
}

impl Grid {
    /// `rows` × `columns` of `matrix` from `first` (row, column) on.
    pub fn cut(matrix: &Matrix, first: (usize, usize), rows: usize, columns: usize) -> Self {
        let mut numbers = Vec::with_capacity(rows * columns);
        let mut row = vec![0.0; matrix.columns];
        for index in 0..rows {
            matrix.row(first.0 + index, &mut row);
            numbers.extend_from_slice(&row[first.1..first.1 + columns]);
        }
        Self { rows, columns, numbers, storage: matrix.computed_in() }
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.numbers[row * self.columns..(row + 1) * self.columns]
    }

    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.numbers[row * self.columns + column]
    }

    /// The same shape and type with other numbers.
    pub fn with(&self, mut number: impl FnMut(usize, usize) -> f64) -> Self {
        let cells = (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (row, column)));
        Self { numbers: cells.map(|(row, column)| number(row, column)).collect(), ..*self }
    }

    /// Root mean square of the finite numbers.
    pub fn size(&self) -> f64 {
        root_mean_square(&self.numbers)
    }
}

/// √(mean of the squares), of finite numbers; 0 if there are none.
pub(super) fn root_mean_square(numbers: &[f64]) -> f64 {
    let finite = numbers.iter().filter(|number| number.is_finite());
    let (count, squares) = finite.fold((0usize, 0.0), |(count, sum), number| (count + 1, sum + number * number));
    if count == 0 { 0.0 } else { (squares / count as f64).sqrt() }
}

/// Σ ab.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Unit roundoff of the coarser of two.
pub(super) fn coarser(own: &Grid, reference: &Grid) -> Storage {
    if own.storage.unit_roundoff() >= reference.storage.unit_roundoff() { own.storage } else { reference.storage }
}

/// How far two grids are apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Difference {
    /// Whether every number is the same.
    pub identical: bool,
    /// Largest difference over its bound.
    pub ratio: f64,
    /// Root mean square of the differences over their bounds.
    pub typical: f64,
    /// Largest difference.
    pub largest: f64,
    /// Where that is.
    pub largest_at: (usize, usize),
    /// First cell, by rows, beyond its bound.
    pub first: Option<(usize, usize)>,
    /// Cells beyond their bound.
    pub beyond: usize,
    /// Cells compared: those that are finite in both.
    pub cells: usize,
    /// Root mean square of the difference.
    pub root_mean_square: f64,
    /// Root mean square of the reference.
    pub reference_size: f64,
    /// Unit roundoff of the coarser type.
    pub roundoff: f64,
}

impl Difference {
    /// Of cells finite in both (the others are judged by `finite`); `bounds` writes those of a row.
    pub fn measure(own: &Grid, reference: &Grid, mut bounds: impl FnMut(usize, &mut [f64])) -> Self {
        let mut found = Self {
            identical: true,
            ratio: 0.0,
            typical: 0.0,
            largest: 0.0,
            largest_at: (0, 0),
            first: None,
            beyond: 0,
            cells: 0,
            root_mean_square: 0.0,
            reference_size: 0.0,
            roundoff: coarser(own, reference).unit_roundoff(),
        };
        let (mut squares, mut reference_squares, mut ratios) = (0.0, 0.0, 0.0);
        let mut limits = vec![0.0; reference.columns];
        for row in 0..reference.rows {
            bounds(row, &mut limits);
            for (column, (&a, &b)) in own.row(row).iter().zip(reference.row(row)).enumerate() {
                if !(a.is_finite() && b.is_finite()) {
                    found.identical &= a == b;
                    continue;
                }
                let (difference, bound) = ((a - b).abs(), limits[column]);
                found.cells += 1;
                found.identical &= a == b;
                (squares, reference_squares) = (squares + difference * difference, reference_squares + b * b);
                if difference > found.largest {
                    (found.largest, found.largest_at) = (difference, (row, column));
                }
                // A bound that is no number bounds nothing.
                let within = difference <= bound;
                let ratio = match difference {
                    0.0 => 0.0,
                    _ if bound > 0.0 => difference / bound,
                    _ => f64::INFINITY,
                };
                found.ratio = found.ratio.max(ratio);
                ratios += ratio * ratio;
                if !within {
                    found.beyond += 1;
                    found.first = found.first.or(Some((row, column)));
                }
            }
        }
        let count = found.cells.max(1) as f64;
        (found.root_mean_square, found.reference_size) = ((squares / count).sqrt(), (reference_squares / count).sqrt());
        found.typical = (ratios / count).sqrt();
        found
    }

    /// Under the bound for numbers of which nothing else is known: a few roundings of the number and of what it is a sum of, whose
    /// size is that of its row.
    pub fn plain(own: &Grid, reference: &Grid) -> Self {
        let storage = coarser(own, reference);
        Self::measure(own, reference, |row, bounds| {
            let numbers = reference.row(row);
            let size = root_mean_square(numbers);
            for (bound, number) in bounds.iter_mut().zip(numbers) {
                *bound = 8.0 * storage.unit_roundoff() * (number.abs() + size) + 2.0 * storage.underflow();
            }
        })
    }

    /// Whether rounding of the types explains every cell.
    pub fn fits(&self) -> bool {
        self.beyond == 0
    }

    /// Root mean square of the difference over that of the reference.
    pub fn relative(&self) -> f64 {
        if self.root_mean_square == 0.0 { 0.0 } else { self.root_mean_square / self.reference_size }
    }

    /// Whether rounding that accumulated through layers may explain it: little, and no cell far beyond what the largest of so many
    /// normal numbers is, √(2 ln 2N).
    pub fn is_accumulated(&self) -> bool {
        let largest = (2.0 * (2.0 * self.cells.max(1) as f64).ln()).sqrt() + 2.0;
        self.relative() <= ACCUMULATED * self.roundoff && self.ratio <= largest * self.typical
    }
}

/// Whether `own` is `model` up to a few roundings, as a whole.
pub(super) fn is_explained(own: &Grid, model: &Grid, roundoff: f64) -> bool {
    let rest: Vec<f64> = own.numbers.iter().zip(&model.numbers).map(|(a, b)| a - b).collect();
    let size = model.size();
    size > 0.0 && root_mean_square(&rest) <= EXPLAINED * roundoff * size
}
