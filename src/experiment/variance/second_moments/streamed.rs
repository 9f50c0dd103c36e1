//! Q and K drawn some tokens at a time, of which only sums are kept: memory does not grow with n.

use std::ops::Range;

use rayon::prelude::*;

use super::super::entry_sums::correlation;
use super::{MomentSource, TrialMoments};
use crate::attention::Precision;
use crate::attention::kernel::gram::{GramSums, ROWS_IN_REGISTERS, cross_sum};
use crate::attention::kernel::{Element, InstructionSet};
use crate::attention::second_moments::Scatter;
use crate::experiment::{DrawRows, InputLaw, Inside, Sizes};
use crate::sampling::{Drawable, TrialStream};

/// Entries of a matrix drawn at a time, roughly.
const DRAWN_ENTRIES: usize = 1 << 14;
/// Pieces of a trial that several threads can share, at most; their number depends on d_k alone, so that threads do not change a bit.
const MOST_PIECES: usize = 64;
/// Bytes that the sums of all pieces should fit.
const PIECES_BYTES: usize = 1 << 26;

/// The entries of [`crate::experiment::VarianceExperiment`](super::super::VarianceExperiment), token by token, from a source of draws.
#[derive(Debug, Clone, Copy)]
pub struct Streamed<D = InputLaw> {
    source: D,
    precision: Precision,
}

impl<D: DrawRows> Streamed<D> {
    /// Tokens from `source`, in f64 or f32.
    ///
    /// # Panics
    /// For a half type.
    pub fn new(source: D, precision: Precision) -> Self {
        assert!(!precision.is_half(), "{precision} rounds logits, and no logit is formed");
        Self { source, precision }
    }

    fn moments_in<T: Element + Drawable>(
        &self,
        trial: Trial,
        inside: Inside,
        scratch: &mut Scratch<T>,
    ) -> TrialMoments {
        let pieces = Blocks::new(trial.sizes).pieces();
        let of_piece = |scratch: &mut Scratch<T>, blocks: Range<usize>| {
            let mut sums = Sums::new::<T>(trial);
            self.add_blocks(trial, blocks, scratch, &mut sums);
            sums
        };
        let mut pieces = pieces.into_iter();
        let first = pieces.next().expect("at least one token");
        let mut whole = of_piece(scratch, first);
        match inside {
            // One piece's memory for all further ones: fresh memory would cost as much as the draws.
            Inside::Sequential => {
                let mut part = Sums::new::<T>(trial);
                for blocks in pieces {
                    part.clear();
                    self.add_blocks(trial, blocks, scratch, &mut part);
                    whole.merge(&part);
                }
            }
            Inside::Parallel => {
                let rest: Vec<Range<usize>> = pieces.collect();
                let parts: Vec<Sums> = rest.into_par_iter().map_init(Scratch::default, of_piece).collect();
                parts.iter().for_each(|part| whole.merge(part));
            }
        }
        whole.moments(trial)
    }

    /// Adds some of the blocks, one after the other.
    fn add_blocks<T: Element + Drawable>(
        &self,
        trial: Trial,
        blocks: Range<usize>,
        scratch: &mut Scratch<T>,
        sums: &mut Sums,
    ) {
        let Trial { stream, sizes, law, .. } = trial;
        let set = InstructionSet::detect();
        let width = sizes.d_k;
        for block in blocks {
            let Block { first, queries, keys } = Blocks::new(sizes).get(block);
            scratch.queries.resize(queries * width, T::ZERO);
            scratch.keys.resize(keys * width, T::ZERO);
            let (queries, keys) = (&mut scratch.queries, &mut scratch.keys);
            self.source.draw_rows(stream, sizes, first, queries, keys);
            sums.queries.add_rows(set, queries, &mut scratch.padded);
            sums.keys.add_rows(set, keys, &mut scratch.padded);
            if queries.len() == keys.len() {
                let center = sums.queries.center();
                sums.cross += cross_sum(set, queries, keys, center);
                // Tokens without a partner follow: what was summed so far is of pairs.
                sums.paired = [&sums.queries, &sums.keys].map(|sums| [sums.total(), sums.trace()]);
                if law.correlation != 0.0 {
                    sums.add_diagonal(queries, keys, trial);
                }
            }
        }
    }
}

impl<D: DrawRows> MomentSource for Streamed<D> {
    type Workspace = Workspace;

    fn has_correlation(&self) -> bool {
        true
    }

    fn moments(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        law: InputLaw,
        diagonal_center: f64,
        inside: Inside,
        workspace: &mut Workspace,
    ) -> TrialMoments {
        let trial = Trial { stream, sizes, law, diagonal_center };
        match self.precision {
            Precision::F64 => self.moments_in(trial, inside, &mut workspace.double),
            Precision::F32 | Precision::Bf16 | Precision::F16 => self.moments_in(trial, inside, &mut workspace.single),
        }
    }

    fn operations(&self, Sizes { d_k, queries, keys }: Sizes) -> f64 {
        let (d, tokens) = (d_k as f64, (queries + keys) as f64);
        // Multiply-adds of the upper triangles, about 40 an entry to draw it and for its sums.
        tokens * d * (d + 40.0)
    }

    fn bytes(&self, sizes: Sizes) -> f64 {
        let blocks = Blocks::new(sizes);
        let width = sizes.d_k as f64;
        // Products of both matrices, one more of each for the scatter; tokens of both, and one padded.
        16.0 * (blocks.pieces().len() + 1) as f64 * width * width + 24.0 * blocks.rows as f64 * width
    }
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    single: Scratch<f32>,
    double: Scratch<f64>,
}

/// Tokens in one element type.
#[derive(Default)]
struct Scratch<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    padded: Vec<T>,
}

/// What stays the same over a trial.
#[derive(Clone, Copy)]
struct Trial<'a> {
    stream: &'a TrialStream,
    sizes: Sizes,
    law: InputLaw,
    /// Near the raw logit of a token with itself.
    diagonal_center: f64,
}

/// Tokens that are drawn together.
struct Block {
    first: usize,
    queries: usize,
    keys: usize,
}

/// The blocks of a trial: first those of tokens that have both a query and a key, then those of the longer matrix.
#[derive(Clone, Copy)]
struct Blocks {
    sizes: Sizes,
    rows: usize,
}

impl Blocks {
    fn new(sizes: Sizes) -> Self {
        // Whole steps of the sums, so that blocks leave their order as it is.
        let steps = (DRAWN_ENTRIES / sizes.d_k / ROWS_IN_REGISTERS).max(1);
        Self { sizes, rows: steps * ROWS_IN_REGISTERS }
    }

    fn paired_tokens(&self) -> usize {
        self.sizes.queries.min(self.sizes.keys)
    }

    fn tokens(&self) -> usize {
        self.sizes.queries.max(self.sizes.keys)
    }

    fn get(&self, index: usize) -> Block {
        let paired = self.paired_tokens();
        let blocks = paired.div_ceil(self.rows);
        if index < blocks {
            let first = index * self.rows;
            let rows = self.rows.min(paired - first);
            return Block { first, queries: rows, keys: rows };
        }
        let first = paired + (index - blocks) * self.rows;
        let rows = self.rows.min(self.tokens() - first);
        match self.sizes.queries > self.sizes.keys {
            true => Block { first, queries: rows, keys: 0 },
            false => Block { first, queries: 0, keys: rows },
        }
    }

    fn count(&self) -> usize {
        let paired = self.paired_tokens();
        paired.div_ceil(self.rows) + (self.tokens() - paired).div_ceil(self.rows)
    }

    fn most_pieces(&self) -> usize {
        let width = self.sizes.d_k;
        (PIECES_BYTES / (16 * width * width)).clamp(2, MOST_PIECES)
    }

    /// Runs of blocks, as equal as can be.
    fn pieces(&self) -> Vec<Range<usize>> {
        let (blocks, pieces) = (self.count(), self.most_pieces().min(self.count()));
        (0..pieces).map(|piece| blocks * piece / pieces..blocks * (piece + 1) / pieces).collect()
    }
}

/// Sums over some tokens.
struct Sums {
    queries: GramSums,
    keys: GramSums,
    /// Σ q·k over the tokens with a query and a key, entries less the center.
    cross: f64,
    /// Σ and Σ² over the queries and over the keys of those tokens.
    paired: [[f64; 2]; 2],
    /// Σ(s − center) and Σ(s − center)² over the raw logits s of each token with itself.
    diagonal: [f64; 2],
}

impl Sums {
    /// Over no tokens, of entries of type `T`.
    fn new<T: Element>(Trial { sizes, law, .. }: Trial) -> Self {
        Self {
            queries: GramSums::new::<T>(sizes.d_k, law.mean),
            keys: GramSums::new::<T>(sizes.d_k, law.mean),
            cross: 0.0,
            paired: [[0.0; 2]; 2],
            diagonal: [0.0; 2],
        }
    }

    /// Forgets all tokens.
    fn clear(&mut self) {
        self.queries.clear();
        self.keys.clear();
        (self.cross, self.paired, self.diagonal) = (0.0, [[0.0; 2]; 2], [0.0; 2]);
    }

    fn merge(&mut self, other: &Self) {
        self.queries.merge(&other.queries);
        self.keys.merge(&other.keys);
        self.cross += other.cross;
        self.paired.iter_mut().flatten().zip(other.paired.as_flattened()).for_each(|(sum, more)| *sum += more);
        self.diagonal.iter_mut().zip(other.diagonal).for_each(|(sum, more)| *sum += more);
    }

    fn add_diagonal<T: Element>(&mut self, queries: &[T], keys: &[T], trial: Trial) {
        let width = trial.sizes.d_k;
        for (query, key) in queries.chunks_exact(width).zip(keys.chunks_exact(width)) {
            let logit: f64 = query.iter().zip(key).map(|(q, k)| q.to_f64() * k.to_f64()).sum();
            let distance = logit - trial.diagonal_center;
            self.diagonal[0] += distance;
            self.diagonal[1] += distance * distance;
        }
    }

    fn moments(&self, Trial { sizes, law, diagonal_center, .. }: Trial) -> TrialMoments {
        let tokens = sizes.queries.min(sizes.keys);
        let (queries, keys) = (Scatter::of(&self.queries), Scatter::of(&self.keys));
        let [[q, qq], [k, kk]] = self.paired;
        let correlation = correlation([q, qq, k, kk, self.cross], (tokens * sizes.d_k) as f64);
        let entries = [&queries.of_entries()[..], &keys.of_entries(), &[correlation]].concat();
        let [sum, squares] = self.diagonal;
        let count = tokens as f64;
        let diagonal = [diagonal_center + sum / count, (squares - sum * sum / count) / (count - 1.0)];
        TrialMoments { queries, keys, entries, diagonal: (law.correlation != 0.0).then_some(diagonal) }
    }
}
