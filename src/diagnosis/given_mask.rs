//! What a mask in a file says: additive numbers, or true and false in either sense.

use super::matrix::{GivenMask, Matrix, Numbers};
use crate::attention::Mask;

/// An additive number at or below this hides: −10000 is the original BERT's; the lowest finite numbers and −∞ are others'.
const HIDES: f64 = -9000.0;

/// How a mask in a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskKind {
    /// Numbers added to the logits.
    Additive,
    /// Not 0 is visible.
    Keep,
    /// Not 0 is hidden.
    Hide,
}

impl MaskKind {
    /// The likely kind: 0 and 1 only, and some 1, is "keep"; anything else is additive.
    pub fn guess(mask: &Matrix) -> Self {
        let mut row = vec![0.0; mask.columns];
        let mut any_one = false;
        for query in 0..mask.rows {
            mask.row(query, &mut row);
            if row.iter().any(|&number| number != 0.0 && number != 1.0) {
                return Self::Additive;
            }
            any_one |= row.contains(&1.0);
        }
        if any_one { Self::Keep } else { Self::Additive }
    }
}

impl GivenMask {
    /// Reads `mask` (n×m, or one row for every query) as `kind`. NaN counts as visible and is counted.
    ///
    /// # Panics
    /// If the rows are neither 1 nor `queries`.
    pub fn read(mask: &Matrix, kind: MaskKind, queries: usize) -> Self {
        assert!(mask.rows == 1 || mask.rows == queries, "a mask has a row for every query, or one for all");
        let keys = mask.columns;
        let mut cells = Vec::with_capacity(queries * keys);
        let (mut added, mut fill, mut broken) = (Vec::new(), None, Vec::new());
        let mut row = vec![0.0; keys];
        for query in 0..queries {
            mask.row(query, &mut row);
            if row.iter().any(|number| number.is_nan()) {
                broken.extend((0..keys).filter(|&key| row[key].is_nan()).map(|key| (query, key)));
            }
            match kind {
                MaskKind::Additive => cells.extend(row.iter().map(|number| number.is_nan() || *number > HIDES)),
                MaskKind::Keep => cells.extend(row.iter().map(|&number| number != 0.0)),
                MaskKind::Hide => cells.extend(row.iter().map(|&number| number == 0.0)),
            }
            if kind != MaskKind::Additive {
                continue;
            }
            let hides = |number: &&f64| **number <= HIDES && number.is_finite();
            fill = row.iter().rfind(hides).copied().or(fill);
            row.iter_mut()
                .for_each(|number| *number = if number.is_finite() && *number > HIDES { *number } else { 0.0 });
            // Memory is only taken once there is something to keep.
            if query < mask.rows && (!added.is_empty() || row.iter().any(|&number| number != 0.0)) {
                added.resize(query * keys, 0.0);
                added.extend_from_slice(&row);
            }
        }
        let added = (!added.is_empty()).then(|| Matrix::new(mask.rows, keys, mask.storage, Numbers::F64(added)));
        let visible = Mask::from_cells(queries, keys, cells).compact();
        Self { visible, added, fill, kind, kind_is_declared: false, broken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::matrix::Storage;

    fn matrix(rows: usize, numbers: &[f64]) -> Matrix {
        Matrix::new(rows, numbers.len() / rows, Storage::F32, Numbers::F64(numbers.to_vec()))
    }

    #[test]
    fn the_kind_is_guessed_from_the_numbers() {
        assert_eq!(MaskKind::guess(&matrix(1, &[1.0, 0.0])), MaskKind::Keep);
        assert_eq!(MaskKind::guess(&matrix(1, &[0.0, 0.0])), MaskKind::Additive);
        assert_eq!(MaskKind::guess(&matrix(1, &[0.0, f64::NEG_INFINITY])), MaskKind::Additive);
    }

    #[test]
    fn every_kind_of_mask_shows_the_same_cells() {
        let lowest = f64::from(f32::MIN);
        for (kind, numbers) in [
            (MaskKind::Additive, [0.0, lowest, 0.0]),
            (MaskKind::Additive, [0.0, f64::NEG_INFINITY, 0.0]),
            (MaskKind::Keep, [1.0, 0.0, 1.0]),
            (MaskKind::Hide, [0.0, 1.0, 0.0]),
        ] {
            let read = GivenMask::read(&matrix(1, &numbers), kind, 2);
            assert_eq!(read.visible, Mask::from_cells(2, 3, [true, false, true].repeat(2)), "{kind:?}");
            assert_eq!(read.added, None);
        }
    }

    #[test]
    fn moderate_numbers_are_added_and_nan_is_counted() {
        let read = GivenMask::read(&matrix(2, &[0.5, -1e9, f64::NAN, 0.0]), MaskKind::Additive, 2);
        assert_eq!(read.added.expect("0.5").to_f64(), [0.5, 0.0, 0.0, 0.0]);
        assert_eq!((read.fill, read.broken), (Some(-1e9), vec![(1, 0)]));
    }
}
