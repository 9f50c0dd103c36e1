//! Which rule a mask follows: cells → a shape in words, with the cells that disagree.
//!
//! Every shape shows query i one range of keys, so a shape is held against a mask row by row. Parameters are read off the
//! cells by majority, so that a few broken cells do not hide the rule: the band of a causal or windowed mask from the
//! diagonals j − i of which more than half is visible, padding from the columns, documents from the cells (i + 1, i).
//! Of the shapes that fit equally well the one with the fewest parameters is taken.
//!
//! Blind spots: alignment at n = m ([`Placement::Square`]); a window not smaller than the keys (it is causal); a document mask of one
//! document (everything is visible); one query or one key, where nearly every shape looks alike.

use std::fmt;
use std::ops::Range;

use super::mask_counts::{band, for_each_run, prefix, real_keys};
use crate::attention::Mask;

/// More than this share of disagreeing cells is no rule any more.
const MOST_DISAGREEMENT: f64 = 0.02;

/// What the last visible key of a band is measured from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// n = m: top-left and bottom-right are the same.
    Square,
    /// Query i stands at key i.
    TopLeft,
    /// Query i stands at key i + m − n.
    BottomRight,
    /// Query i stands at key i + offset; neither of the two above.
    Offset(i64),
}

/// A rule that shows each query one range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Every key to every query.
    All,
    /// No key to any query.
    Nothing,
    /// Keys up to the query's own position.
    Causal {
        /// Where queries stand.
        placement: Placement,
    },
    /// Keys before the query's own position: the diagonal is hidden.
    StrictlyCausal {
        /// Where queries stand.
        placement: Placement,
    },
    /// Keys from the query's own position on: a causal mask transposed. With `diagonal` false, only keys after it.
    Transposed {
        /// Whether the query's own key is visible.
        diagonal: bool,
    },
    /// The last `keys` keys up to the query's own position.
    Window {
        /// Keys of a full row, the query's own counted.
        keys: usize,
        /// Where queries stand.
        placement: Placement,
    },
    /// Keys from `back` before the query's position to `ahead` after it (square or top-left).
    Band {
        /// Keys before the own position; negative if the own position is hidden too.
        back: i64,
        /// Keys after it.
        ahead: i64,
    },
    /// The first `length` keys to all, the rest causally.
    Prefix {
        /// Keys that everyone sees.
        length: usize,
        /// Where queries stand.
        placement: Placement,
    },
    /// Keys of one range only, the same for every query: padding on the right, the left or both sides.
    Padding {
        /// The real keys.
        real: Range<usize>,
    },
    /// Causal, and only keys of one range.
    CausalPadding {
        /// The real keys.
        real: Range<usize>,
        /// Where queries stand.
        placement: Placement,
    },
    /// Sequences packed one after the other, each seeing itself only.
    Documents {
        /// Tokens of each.
        lengths: Vec<usize>,
        /// Whether each is causal inside.
        causal: bool,
    },
    /// None of these.
    Other,
}

/// What a mask looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The closest rule.
    pub shape: Shape,
    /// Cells that differ from it; 0 for [`Shape::Other`].
    pub disagreeing: usize,
    /// The first of them, by rows: (query, key).
    pub first: Option<(usize, usize)>,
    /// Queries that see no key.
    pub rows_without_keys: usize,
}

/// The rule that `mask` follows.
pub fn recognise(mask: &Mask) -> Pattern {
    let rows_without_keys = mask.fully_masked_rows();
    let size = (mask.queries() * mask.keys()) as f64;
    let mut best: Option<(usize, Shape)> = None;
    for shape in candidates(mask) {
        let limit = best.as_ref().map_or(usize::MAX, |(count, _)| *count);
        let count = disagreeing(mask, &shape, limit);
        if count < limit {
            best = Some((count, shape));
        }
        if count == 0 {
            break;
        }
    }
    match best {
        Some((disagreeing, shape)) if disagreeing as f64 <= MOST_DISAGREEMENT * size => {
            let first = if disagreeing == 0 { None } else { first_disagreement(mask, &shape) };
            Pattern { shape, disagreeing, first, rows_without_keys }
        }
        _ => Pattern { shape: Shape::Other, disagreeing: 0, first: None, rows_without_keys },
    }
}

impl Shape {
    /// The keys that `query` of `queries` sees of `keys`; empty for [`Shape::Other`].
    pub fn visible(&self, query: usize, queries: usize, keys: usize) -> Range<usize> {
        let m = keys as i64;
        let at = |placement: Placement| query as i64 + placement.offset(queries, keys);
        let clamp = |start: i64, end: i64| {
            let (start, end) = (start.clamp(0, m) as usize, end.clamp(0, m) as usize);
            if start < end { start..end } else { 0..0 }
        };
        match self {
            Self::All => 0..keys,
            Self::Nothing | Self::Other => 0..0,
            Self::Causal { placement } => clamp(0, at(*placement) + 1),
            Self::StrictlyCausal { placement } => clamp(0, at(*placement)),
            Self::Transposed { diagonal } => clamp(query as i64 + i64::from(!diagonal), m),
            Self::Window { keys, placement } => clamp(at(*placement) + 1 - *keys as i64, at(*placement) + 1),
            Self::Band { back, ahead } => clamp(query as i64 - back, query as i64 + ahead + 1),
            Self::Prefix { length, placement } => clamp(0, (at(*placement) + 1).max(*length as i64)),
            Self::Padding { real } => real.clone(),
            Self::CausalPadding { real, placement } => {
                clamp(real.start as i64, (at(*placement) + 1).min(real.end as i64))
            }
            Self::Documents { lengths, causal } => {
                let mut start = 0;
                for length in lengths {
                    if query < start + length {
                        let end = if *causal { query + 1 } else { start + length };
                        return start..end.min(keys);
                    }
                    start += length;
                }
                0..0
            }
        }
    }
}

impl Placement {
    /// Position of query 0 among the keys.
    pub fn offset(self, queries: usize, keys: usize) -> i64 {
        match self {
            Self::Square | Self::TopLeft => 0,
            Self::BottomRight => keys as i64 - queries as i64,
            Self::Offset(offset) => offset,
        }
    }

    /// The placement in which query 0 stands at key `offset`.
    fn of(offset: i64, queries: usize, keys: usize) -> Self {
        match offset {
            0 if queries == keys => Self::Square,
            0 => Self::TopLeft,
            _ if offset == keys as i64 - queries as i64 => Self::BottomRight,
            _ => Self::Offset(offset),
        }
    }
}

/// The shapes to try, simplest first.
fn candidates(mask: &Mask) -> Vec<Shape> {
    let (n, m) = (mask.queries(), mask.keys());
    let shift = m as i64 - n as i64;
    let mut shapes = vec![Shape::All, Shape::Nothing];
    let placements: Vec<Placement> =
        if n == m { vec![Placement::Square] } else { vec![Placement::TopLeft, Placement::BottomRight] };
    shapes.extend(placements.iter().map(|&placement| Shape::Causal { placement }));
    let real = real_keys(mask, |_| 0..m);
    if !real.is_empty() && real != (0..m) {
        shapes.push(Shape::Padding { real });
    }
    shapes.extend([true, false].map(|diagonal| Shape::Transposed { diagonal }));
    shapes.extend(placements.iter().map(|&placement| Shape::StrictlyCausal { placement }));
    let bands = band(mask);
    if let Some((low, high)) = bands {
        // A window that is full nowhere is a causal mask.
        for offset in [0, shift] {
            if high == offset && high - low + 1 < m as i64 {
                shapes.push(Shape::Window { keys: (high - low + 1) as usize, placement: Placement::of(offset, n, m) });
            }
        }
        if low <= 1 - n as i64 {
            shapes.push(Shape::Causal { placement: Placement::of(high, n, m) });
        }
    }
    for &placement in &placements {
        let causal = Shape::Causal { placement };
        let length = prefix(mask, &causal);
        if length > 0 {
            shapes.push(Shape::Prefix { length, placement });
        }
        let real = real_keys(mask, |query| causal.visible(query, n, m));
        if !real.is_empty() && real != (0..m) {
            shapes.push(Shape::CausalPadding { real, placement });
        }
    }
    if n == m {
        let lengths = documents(mask);
        shapes.extend([false, true].map(|causal| Shape::Documents { lengths: lengths.clone(), causal }));
    }
    if let Some((low, high)) = bands {
        shapes.push(Shape::Band { back: -low, ahead: high });
    }
    shapes
}

/// Lengths of the documents that end where token i + 1 does not see token i.
fn documents(mask: &Mask) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut start = 0;
    for query in 1..mask.queries() {
        if !mask.is_visible(query, query - 1) {
            lengths.push(query - start);
            start = query;
        }
    }
    lengths.push(mask.queries() - start);
    lengths
}

/// Cells in which `mask` and `shape` differ; counting stops beyond `limit`.
fn disagreeing(mask: &Mask, shape: &Shape, limit: usize) -> usize {
    let (n, m) = (mask.queries(), mask.keys());
    let mut count = 0;
    for query in 0..n {
        let expected = shape.visible(query, n, m);
        count += expected.len();
        for_each_run(&mask.row(query), |run| {
            let common = run.end.min(expected.end).saturating_sub(run.start.max(expected.start));
            count = count + run.len() - 2 * common;
        });
        if count > limit {
            return count;
        }
    }
    count
}

fn first_disagreement(mask: &Mask, shape: &Shape) -> Option<(usize, usize)> {
    let (n, m) = (mask.queries(), mask.keys());
    (0..n).find_map(|query| {
        let (row, expected) = (mask.row(query), shape.visible(query, n, m));
        (0..m).find(|key| row.contains(*key) != expected.contains(key)).map(|key| (query, key))
    })
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Square => formatter.write_str("alignment cannot be told (square)"),
            Self::TopLeft => formatter.write_str("top-left"),
            Self::BottomRight => formatter.write_str("bottom-right"),
            Self::Offset(offset) => write!(formatter, "query 0 at key {offset}"),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |placement: &Placement| match placement {
            Placement::Square => String::new(),
            other => format!(", {other}"),
        };
        match self {
            Self::All => formatter.write_str("every key is visible"),
            Self::Nothing => formatter.write_str("no key is visible"),
            Self::Causal { placement } => write!(formatter, "causal{}", of(placement)),
            Self::StrictlyCausal { placement } => {
                write!(formatter, "causal with the diagonal hidden{}", of(placement))
            }
            Self::Transposed { diagonal: true } => {
                formatter.write_str("causal mask transposed: the past is hidden, the future visible")
            }
            Self::Transposed { diagonal: false } => {
                formatter.write_str("causal mask inverted: only the future is visible")
            }
            Self::Window { keys, placement } => {
                write!(formatter, "window of {keys} keys (self and {} back){}", keys - 1, of(placement))
            }
            Self::Band { back, ahead } => write!(formatter, "band from {back} keys back to {ahead} keys ahead"),
            Self::Prefix { length, placement } => write!(formatter, "prefix of {length} keys{}", of(placement)),
            Self::Padding { real } => write!(formatter, "padding: keys {}..{} are real", real.start, real.end),
            Self::CausalPadding { real, placement } => {
                write!(formatter, "causal{}, keys {}..{} are real", of(placement), real.start, real.end)
            }
            Self::Documents { lengths, causal } => {
                let shown: Vec<String> = lengths.iter().take(8).map(usize::to_string).collect();
                let more = if lengths.len() > 8 { ", …" } else { "" };
                let inside = if *causal { ", causal inside" } else { "" };
                write!(formatter, "{} documents of {}{more} tokens{inside}", lengths.len(), shown.join(", "))
            }
            Self::Other => formatter.write_str("no known rule"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.shape)?;
        if let Some((query, key)) = self.first {
            let cells = if self.disagreeing == 1 { "cell disagrees" } else { "cells disagree" };
            write!(formatter, "; {} {cells}, the first at query {query}, key {key}", self.disagreeing)?;
        }
        match self.rows_without_keys {
            0 => Ok(()),
            _ if self.shape == Shape::Nothing => Ok(()),
            1 => write!(formatter, "; 1 query sees no key"),
            rows => write!(formatter, "; {rows} queries see no key"),
        }
    }
}

#[cfg(test)]
#[path = "mask_pattern_tests.rs"]
mod tests;
