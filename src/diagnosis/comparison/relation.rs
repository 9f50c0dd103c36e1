//! What turns one array into the other: a factor, a permutation of channels or rows, a transposition, a rotation by positions.

use super::grid::{Difference, EXPLAINED, Grid, coarser, dot, is_explained, root_mean_square};
use crate::diagnosis::contract::{Rotary, RotaryLayout};
use crate::diagnosis::finding::significant;

/// Positions on either side that are tried.
pub(super) const SHIFTS: i64 = 8;

/// Entries of a permutation that are shown from either end of each half.
const SHOWN: usize = 4;

/// How an array differs from the reference.
#[derive(Debug, Clone)]
pub(super) enum Relation {
    /// Within rounding of the types.
    Same(Difference),
    /// Every number times this.
    Factor(f64),
    /// Rows from one on are turned by positions.
    Turned(Turn),
    /// Channel c is channel `[c]` of the reference.
    Channels(Vec<usize>),
    /// Row r is row `[r]` of the reference.
    Rows(Vec<usize>),
    /// Rows are columns.
    Transposed,
    /// Beyond one rounding, but so little that rounding through layers may explain it.
    Accumulated(Difference),
    /// None of these.
    Other(Difference),
}

/// A rotation of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    /// Positions by which every turned row is turned; `None` if each is turned back to position 0.
    pub shift: Option<i64>,
    /// First row that is turned.
    pub first: usize,
    /// How many rows are.
    pub rows: usize,
    /// The pairing.
    pub layout: RotaryLayout,
    /// What the rotation leaves, relative.
    pub residual: f64,
}

impl Relation {
    /// Of two grids of one shape; `turn` for arrays that positions turn: the rotation, if declared, and the position of row 0.
    pub fn find(own: &Grid, reference: &Grid, turn: Option<(Option<Rotary>, i64)>) -> Self {
        let difference = Difference::plain(own, reference);
        let finite = own.numbers.iter().chain(&reference.numbers).all(|number| number.is_finite());
        if difference.fits() {
            return Self::Same(difference);
        }
        if !finite {
            return Self::Other(difference);
        }
        let roundoff = difference.roundoff;
        if let Some(factor) = factor(own, reference, roundoff) {
            return Self::Factor(factor);
        }
        if difference.is_accumulated() {
            return Self::Accumulated(difference);
        }
        if let Some(turn) = turn.and_then(|(rotary, position)| turn_of(own, reference, rotary, position)) {
            return Self::Turned(turn);
        }
        if let Some(channels) = permutation(own, reference, column, reference.columns) {
            return Self::Channels(channels);
        }
        if let Some(rows) = permutation(own, reference, |grid, index| grid.row(index).to_vec(), reference.rows) {
            return Self::Rows(rows);
        }
        let square = own.rows == own.columns;
        if square && is_explained(own, &reference.with(|row, column| reference.at(column, row)), roundoff) {
            return Self::Transposed;
        }
        Self::Other(difference)
    }

    /// Whether the arrays are equal up to rounding.
    pub fn is_same(&self) -> bool {
        matches!(self, Self::Same(_) | Self::Accumulated(_))
    }
}

fn column(grid: &Grid, column: usize) -> Vec<f64> {
    (0..grid.rows).map(|row| grid.at(row, column)).collect()
}

/// f with own = f · reference, by least squares, if it leaves nothing but rounding.
pub(super) fn factor(own: &Grid, reference: &Grid, roundoff: f64) -> Option<f64> {
    let square = dot(&reference.numbers, &reference.numbers);
    let factor = dot(&own.numbers, &reference.numbers) / square;
    // Roundings of many numbers average out in the factor.
    let apart = (factor - 1.0).abs() > 4.0 * roundoff;
    let explained = apart
        && factor != 0.0
        && factor.is_finite()
        && is_explained(own, &reference.with(|row, column| factor * reference.at(row, column)), roundoff);
    // A single number is always a factor away.
    (explained && own.numbers.len() > 1).then_some(factor)
}

/// `[index]`: which line of `reference` each line of `own` is, if all are and not all stay in place.
fn permutation(
    own: &Grid,
    reference: &Grid,
    line: impl Fn(&Grid, usize) -> Vec<f64>,
    count: usize,
) -> Option<Vec<usize>> {
    if count < 2 {
        return None;
    }
    let roundoff = coarser(own, reference).unit_roundoff();
    let lines: Vec<Vec<f64>> = (0..count).map(|index| line(reference, index)).collect();
    // Lines are found by their largest entry's place and size before they are compared: sorted by a projection on fixed weights.
    let weights: Vec<f64> = (0..lines[0].len()).map(|index| ((index * 7919 + 13) % 101) as f64 / 101.0 - 0.5).collect();
    let size = root_mean_square(&reference.numbers);
    let slack = 2.0 * EXPLAINED * roundoff * size * (weights.len() as f64).sqrt();
    let mut keys: Vec<(f64, usize)> =
        lines.iter().enumerate().map(|(index, line)| (dot(line, &weights), index)).collect();
    keys.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut taken = vec![false; count];
    let mut found = Vec::with_capacity(count);
    for index in 0..count {
        let wanted = line(own, index);
        let at = dot(&wanted, &weights);
        let start = keys.partition_point(|key| key.0 < at - slack);
        let near = keys[start..].iter().take_while(|key| key.0 <= at + slack).map(|key| key.1);
        let apart = |&other: &usize| {
            let rest: Vec<f64> = wanted.iter().zip(&lines[other]).map(|(a, b)| a - b).collect();
            root_mean_square(&rest)
        };
        let best = near.filter(|&other| !taken[other]).min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        if apart(&best) > EXPLAINED * roundoff * size {
            return None;
        }
        taken[best] = true;
        found.push(best);
    }
    found.iter().enumerate().any(|(index, &other)| index != other).then_some(found)
}

/// A name for a permutation of `width` channels: `[0, 2, 4, …, 1, 3, 5, …]` and what it is.
pub(super) fn permutation_words(permutation: &[usize]) -> String {
    let shown = |part: &[usize]| {
        let more = if part.len() > SHOWN { ", …" } else { "" };
        part.iter().take(SHOWN).map(usize::to_string).collect::<Vec<_>>().join(", ") + more
    };
    let (first, second) = permutation.split_at(permutation.len() / 2);
    let list = format!("[{}, {}]", shown(first), shown(second));
    let width = permutation.len();
    let blocks = std::iter::successors(Some(width), |&block| (block % 2 == 0 && block >= 8).then_some(block / 2));
    for block in blocks.filter(|block| block % 2 == 0) {
        let half = block / 2;
        let start = |channel: usize| channel / block * block;
        let gathered = |channel: usize| {
            let within = channel % block;
            start(channel) + if within < half { 2 * within } else { 2 * (within - half) + 1 }
        };
        let spread = |channel: usize| {
            let within = channel % block;
            start(channel) + within / 2 + if within.is_multiple_of(2) { 0 } else { half }
        };
        let is =
            |rule: &dyn Fn(usize) -> usize| permutation.iter().enumerate().all(|(index, &from)| from == rule(index));
        let name = if is(&gathered) {
            "half-split from interleaved pairs"
        } else if is(&spread) {
            "interleaved from half-split pairs"
        } else {
            continue;
        };
        return if block == width {
            format!("{list}: {name}")
        } else {
            format!(
                "{list}: {name} in blocks of {block} channels, as if there were {} times as many heads",
                width / block
            )
        };
    }
    if let Some(&by) = permutation.first()
        && permutation.iter().enumerate().all(|(index, &from)| from == (index + by) % width)
    {
        return format!("{list}: rolled by {by}");
    }
    if permutation.iter().enumerate().all(|(index, &from)| from == width - 1 - index) {
        return format!("{list}: reversed");
    }
    list
}

/// The rotation that turns the rows of `reference` that differ into those of `own`.
fn turn_of(own: &Grid, reference: &Grid, rotary: Option<Rotary>, position: i64) -> Option<Turn> {
    if own.columns % 2 == 1 {
        return None;
    }
    let roundoff = coarser(own, reference).unit_roundoff().max(2f64.powi(-24));
    let differs = |row: usize| {
        let rest: Vec<f64> = own.row(row).iter().zip(reference.row(row)).map(|(a, b)| a - b).collect();
        root_mean_square(&rest) > EXPLAINED * roundoff * root_mean_square(reference.row(row))
    };
    let rows: Vec<usize> = (0..own.rows).filter(|&row| differs(row)).collect();
    let first = *rows.first()?;
    let base = rotary.map_or(10_000.0, |rotary| rotary.base);
    let layouts = match rotary {
        Some(rotary) => vec![rotary.layout],
        None => vec![RotaryLayout::HalfSplit, RotaryLayout::Interleaved],
    };
    let shifts = (1..=SHIFTS).flat_map(|shift| [Some(shift), Some(-shift)]);
    let mut best: Option<Turn> = None;
    for layout in layouts {
        for shift in shifts.clone().chain([None]) {
            let mut squares = (0.0, 0.0);
            for &row in &rows {
                let by = shift.unwrap_or(-(position + row as i64));
                let (rest, size) = turned_apart(own.row(row), reference.row(row), layout, base, by as f64);
                squares = (squares.0 + rest, squares.1 + size);
            }
            let residual = (squares.0 / squares.1).sqrt();
            if best.is_none_or(|best| residual < best.residual) {
                best = Some(Turn { shift, first, rows: rows.len(), layout, residual });
            }
        }
    }
    // An angle in f32 is off by |position|·2^-24 at most.
    let limit = EXPLAINED * roundoff + 4.0 * (position.abs() as f64 + own.rows as f64) * 2f64.powi(-24);
    best.filter(|best| best.residual <= limit)
}

/// (Σ |own − R reference|², Σ |reference|²) with R the rotation by `by` positions.
fn turned_apart(own: &[f64], reference: &[f64], layout: RotaryLayout, base: f64, by: f64) -> (f64, f64) {
    let width = reference.len();
    let mut sums = (0.0, 0.0);
    for pair in 0..width / 2 {
        let (x, y) = match layout {
            RotaryLayout::HalfSplit => (pair, pair + width / 2),
            RotaryLayout::Interleaved => (2 * pair, 2 * pair + 1),
        };
        let (sine, cosine) = (by * base.powf(-2.0 * pair as f64 / width as f64)).sin_cos();
        let (a, b) = (reference[x], reference[y]);
        sums.0 += (a * cosine - b * sine - own[x]).powi(2) + (a * sine + b * cosine - own[y]).powi(2);
        sums.1 += a * a + b * b;
    }
    sums
}

/// What a factor between two arrays may be: the scale or its root, on a side where the other dump has it elsewhere.
pub(super) fn factor_words(factor: f64, width: usize) -> (String, bool) {
    let d = width as f64;
    for (text, value) in [
        (format!("1/sqrt({width})"), d.powf(-0.5)),
        (format!("sqrt({width})"), d.sqrt()),
        (format!("{width}^(-1/4)"), d.powf(-0.25)),
        (format!("{width}^(1/4)"), d.powf(0.25)),
        (format!("1/{width}"), 1.0 / d),
        ("log2(e)".to_string(), std::f64::consts::LOG2_E),
        ("ln 2".to_string(), std::f64::consts::LN_2),
        ("log2(e)/sqrt(dk)".to_string(), std::f64::consts::LOG2_E / d.sqrt()),
        ("-1".to_string(), -1.0),
    ] {
        if (factor / value - 1.0).abs() < 2e-3 {
            return (format!("{} = {text}", significant(factor, 5)), value > 0.0);
        }
    }
    (significant(factor, 5), false)
}
