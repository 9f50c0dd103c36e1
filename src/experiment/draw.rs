//! Drawing Q and K of one trial.

use rayon::prelude::*;

use super::{Inside, Sizes};
use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

/// A source of Q and K; tests pass faulty ones.
pub trait Draw: Sync {
    /// Fills `queries` (n×d_k, row by row) and `keys` (m×d_k) with the draw that `stream` names.
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]);
}

/// A source that can draw some tokens at a time, each as in the whole matrices.
pub trait DrawRows: Sync {
    /// Fills `queries` and `keys` with the rows from `first` on, row by row; one of them may be empty, and they are equally long if neither is.
    fn draw_rows<T: Drawable>(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        first: usize,
        queries: &mut [T],
        keys: &mut [T],
    );
}

/// The law of the entries of Q and K: mean + sd·z with z standardised, i.i.d. but for the correlation between
/// q_ih and k_ih of the same token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputLaw {
    /// Law of z.
    pub entries: Entries,
    /// Mean of an entry (the derivation assumes 0).
    pub mean: f64,
    /// Standard deviation of an entry, above 0 (the derivation assumes 1).
    pub sd: f64,
    /// Correlation of q_ih and k_ih, −1 to 1 (the derivation assumes 0); normal entries and n = m only.
    pub correlation: f64,
}

impl InputLaw {
    /// The derivation's own assumptions: mean 0, variance 1, independent.
    pub fn standard(entries: Entries) -> Self {
        Self { entries, mean: 0.0, sd: 1.0, correlation: 0.0 }
    }
}

/// Elements filled as one piece of work.
const PIECE: usize = 1 << 16;

impl Draw for InputLaw {
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]) {
        self.fill(stream, MatrixId::QUERIES, sizes.d_k, inside, queries);
        self.fill(stream, MatrixId::KEYS, sizes.d_k, inside, keys);
        self.transform(queries, keys);
    }
}

impl DrawRows for InputLaw {
    fn draw_rows<T: Drawable>(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        first: usize,
        queries: &mut [T],
        keys: &mut [T],
    ) {
        let width = sizes.d_k;
        fill(self.entries, stream, MatrixId::QUERIES, first * width, width, queries);
        fill(self.entries, stream, MatrixId::KEYS, first * width, width, keys);
        self.transform(queries, keys);
    }
}

impl InputLaw {
    /// Standardised entries into those of the law; queries and keys begin at the same token.
    fn transform<T: Drawable>(&self, queries: &mut [T], keys: &mut [T]) {
        if self.correlation != 0.0 {
            // k = ρ·q + √(1−ρ²)·k′ keeps mean 0 and variance 1 and is normal again (normal entries only).
            let rest = (1.0 - self.correlation * self.correlation).sqrt();
            for (key, query) in keys.iter_mut().zip(queries.iter()) {
                *key = T::from_f64(self.correlation * query.to_f64() + rest * key.to_f64());
            }
        }
        if self.mean != 0.0 || self.sd != 1.0 {
            for entry in queries.iter_mut().chain(keys.iter_mut()) {
                *entry = T::from_f64(self.mean + self.sd * entry.to_f64());
            }
        }
    }

    /// Fills one matrix with standardised entries, piece by piece; an entry depends on its address alone.
    fn fill<T: Drawable>(&self, stream: &TrialStream, matrix: MatrixId, width: usize, inside: Inside, out: &mut [T]) {
        let piece = (PIECE / width).max(1) * width;
        let fill_piece = |(index, part): (usize, &mut [T])| {
            fill(self.entries, stream, matrix, index * piece, width, part);
        };
        match inside {
            Inside::Sequential => out.chunks_mut(piece).enumerate().for_each(fill_piece),
            Inside::Parallel => out.par_chunks_mut(piece).enumerate().for_each(fill_piece),
        }
    }
}
