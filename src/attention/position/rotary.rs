//! The encoding that turns queries and keys.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::PairAngles;
use crate::attention::Precision;
use crate::number::Real;

/// Which columns form pair i of d.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Columns i and i + d/2 (GPT-NeoX, Llama in Hugging Face transformers).
    #[default]
    HalfSplit,
    /// Columns 2i and 2i + 1 (Su et al. 2021, GPT-J, Llama as published).
    Interleaved,
}

impl Layout {
    /// The columns of pair `pair` of `width`.
    pub fn columns(self, pair: usize, width: usize) -> (usize, usize) {
        match self {
            Self::HalfSplit => (pair, pair + width / 2),
            Self::Interleaved => (2 * pair, 2 * pair + 1),
        }
    }
}

/// Queries or keys: they must be turned alike, and some implementations do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Rows of Q.
    Query,
    /// Rows of K.
    Key,
}

/// A rotation of rows by their position; tests pass faulty ones.
pub trait Rotation: Sync {
    /// Turns `rows` (one of d numbers a token) in place; the first stands at position `first`, the next at `first` + 1.
    fn rotate<T: Real>(&self, side: Side, rows: &mut [T], first: u64);
}

/// Turns pair (a, b) at position p to (a cos θ − b sin θ, a sin θ + b cos θ), θ = p·ω_i.
///
/// Rotations keep norms, and (R_p q)·(R_{p+k} k) = q·(R_k k) depends on the offset k only.
///
/// ```
/// use attn::attention::Precision::F64;
/// use attn::attention::position::{Layout, PairAngles, Rotary, Rotation, Side};
///
/// let rotary = Rotary::new(PairAngles::new(4, 100.0, F64, F64)?, Layout::HalfSplit);
/// let mut row = [1.0, 0.0, 0.0, 1.0];
/// rotary.rotate(Side::Query, &mut row, 3);
/// // Pairs (0, 2) and (1, 3), ω = 1 and 1/10.
/// assert_eq!(row, [3f64.cos(), -(3.0 * 0.1f64).sin(), 3f64.sin(), (3.0 * 0.1f64).cos()]);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    angles: PairAngles,
    layout: Layout,
    /// Turns of consecutive positions from the first number on, row by row.
    remembered: (u64, Vec<(f64, f64)>),
}

impl Rotary {
    /// The rotation by `angles` with pairs as `layout` says; results are rounded to the storage of the angles.
    pub fn new(angles: PairAngles, layout: Layout) -> Self {
        Self { angles, layout, remembered: (0, Vec::new()) }
    }

    /// The same with the turns of `positions` computed once and kept: d/2 pairs of numbers each.
    pub fn remembering(self, positions: Range<u64>) -> Self {
        let turns = positions.clone().flat_map(|position| self.angles.turns(position)).collect();
        Self { remembered: (positions.start, turns), ..self }
    }

    /// The angles.
    pub fn angles(&self) -> &PairAngles {
        &self.angles
    }

    /// The pairing of the columns.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Turns every head of one token, `heads` rows of d numbers, by one `position`.
    pub fn rotate_token<T: Real>(&self, heads: &mut [T], position: u64) {
        let pairs = self.angles.width() / 2;
        let kept = position.checked_sub(self.remembered.0).and_then(|index| {
            let first = usize::try_from(index).ok()?.checked_mul(pairs)?;
            self.remembered.1.get(first..first + pairs)
        });
        let turns: Cow<[(f64, f64)]> = kept.map_or_else(|| self.angles.turns(position).collect(), Cow::Borrowed);
        for head in heads.chunks_mut(self.angles.width()) {
            rotate_pair_columns(head, &turns, self.layout, self.angles.storage());
        }
    }
}

impl Rotation for Rotary {
    fn rotate<T: Real>(&self, _: Side, rows: &mut [T], first: u64) {
        for (row, position) in rows.chunks_mut(self.angles.width()).zip(first..) {
            self.rotate_token(row, position);
        }
    }
}

/// Turns each pair of columns of `row` by its (cosine, sine). Products and sums are f64, rounded once to T and, for the half
/// types, to `precision`.
///
/// # Panics
/// If there are not half as many turns as columns.
pub fn rotate_pair_columns<T: Real>(row: &mut [T], turns: &[(f64, f64)], layout: Layout, precision: Precision) {
    assert_eq!(row.len(), 2 * turns.len(), "one turn for each pair of columns");
    let rounded = |value: f64| match precision {
        Precision::F64 => T::from_f64(value),
        _ => T::from_f64(f64::from(precision.round_f32(value as f32))),
    };
    for (pair, &(cosine, sine)) in turns.iter().enumerate() {
        let (first, second) = layout.columns(pair, row.len());
        let (a, b) = (row[first].to_f64(), row[second].to_f64());
        row[first] = rounded(a * cosine - b * sine);
        row[second] = rounded(a * sine + b * cosine);
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::HalfSplit => "half-split",
            Self::Interleaved => "interleaved",
        })
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "half-split" => Ok(Self::HalfSplit),
            "interleaved" => Ok(Self::Interleaved),
            _ => Err("must be half-split or interleaved".to_string()),
        }
    }
}
