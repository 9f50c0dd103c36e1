//! A mask, the mean weights under it, and the entropy of each row beside theory.

use plotters::style::RGBColor;

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{BLUE, FAINT, GRID, INK, VERMILLION};
use super::picture::{Anchor, Dash, Marker, Picture};
use crate::report::number::{significant, trimmed};

const SIZE: (u32, u32) = (800, 760);
const TOP: f64 = 96.0;
const SIDE: f64 = 270.0;
const MASK_LEFT: f64 = 88.0;
const WEIGHTS_LEFT: f64 = 420.0;
const BAR_LEFT: f64 = 704.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 622.0;
const LOWER: (f64, f64) = (456.0, 690.0);

/// Hidden cells, and weights that are exactly 0.
const HIDDEN: RGBColor = RGBColor(238, 238, 238);
/// A cell that shows what its claim hides.
const WRONG: RGBColor = INK;
/// A visible key whose mean weight is exactly 0.
const EMPTY: RGBColor = RGBColor(255, 255, 255);

/// Values of a matrix of cells, row by row; one cell may stand for several queries and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// `rows`·`columns` values.
    pub values: Vec<f64>,
}

/// The entropy of one row of weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowEntropy {
    /// The query.
    pub query: usize,
    /// Mean over the trials, nats.
    pub estimate: f64,
    /// Its 95 % limits.
    pub interval: (f64, f64),
    /// What theory expects.
    pub theory: Option<f64>,
    /// ln of the number of visible keys: the largest entropy there is.
    pub uniform: f64,
}

/// What is drawn of one mask.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskPortrait {
    /// The mask in words.
    pub mask: String,
    /// What else was run.
    pub conditions: String,
    /// Queries and keys.
    pub sizes: (usize, usize),
    /// Share of each cell's logits that is visible by the claim.
    pub visible: Grid,
    /// Mean weight of each cell over trials; 0 is never seen.
    pub weights: Grid,
    /// Rows from the first to the last, not necessarily all.
    pub entropy: Vec<RowEntropy>,
}

/// The picture of a mask.
pub fn draw(portrait: &MaskPortrait) -> Picture {
    let mut picture = Picture::new(SIZE.0, SIZE.1);
    picture.text((LEFT, 22.0), "What the mask shows, and what the weights make of it", 20.0, Anchor::Left, INK);
    picture.text((LEFT, 42.0), portrait.mask.as_str(), 14.0, Anchor::Left, FAINT);
    picture.text((LEFT, 59.0), portrait.conditions.as_str(), 14.0, Anchor::Left, FAINT);
    mask_panel(&mut picture, portrait);
    weights_panel(&mut picture, portrait);
    entropy_panel(&mut picture, portrait);
    picture
}

fn mask_panel(picture: &mut Picture, portrait: &MaskPortrait) {
    picture.text((MASK_LEFT, TOP - 16.0), "mask as claimed", 15.0, Anchor::Left, INK);
    cells(picture, MASK_LEFT, &portrait.visible, |share, _| mix(HIDDEN, BLUE, share));
    matrix_axes(picture, MASK_LEFT, portrait);
    for (index, (colour, text)) in [(BLUE, "visible"), (HIDDEN, "hidden")].into_iter().enumerate() {
        let (x, y) = (MASK_LEFT + 96.0 * index as f64, TOP + SIDE + 50.0);
        picture.rectangle((x, y - 7.0), (x + 14.0, y + 7.0), colour);
        picture.text((x + 22.0, y), text, 14.0, Anchor::Left, INK);
    }
}

fn weights_panel(picture: &mut Picture, portrait: &MaskPortrait) {
    let positive = || portrait.weights.values.iter().copied().filter(|weight| *weight > 0.0);
    let high = positive().fold(0.0, f64::max);
    let low = positive().fold(high, f64::min).max(1e-4 * high);
    picture.text((WEIGHTS_LEFT, TOP - 16.0), "mean weight", 15.0, Anchor::Left, INK);
    let wrong = |index: usize| portrait.visible.values.get(index).is_some_and(|visible| *visible == 0.0);
    let share = |weight: f64| {
        if high > low { 0.15 + 0.85 * ((weight / low).ln() / (high / low).ln()).clamp(0.0, 1.0) } else { 1.0 }
    };
    cells(picture, WEIGHTS_LEFT, &portrait.weights, |weight, index| match weight {
        // What should not be there must be seen however small it is, also in grey.
        weight if weight > 0.0 && wrong(index) => WRONG,
        weight if weight > 0.0 => mix(HIDDEN, BLUE, share(weight)),
        _ if wrong(index) => HIDDEN,
        _ => EMPTY,
    });
    matrix_axes(picture, WEIGHTS_LEFT, portrait);
    if high > 0.0 {
        let bar = Axis { low: low.ln(), high: high.ln().max(low.ln() + 1e-9), start: TOP + SIDE, end: TOP + 20.0 };
        let steps = 60;
        for step in 0..steps {
            let at = |step: usize| bar.start + (bar.end - bar.start) * step as f64 / steps as f64;
            let colour = mix(HIDDEN, BLUE, 0.15 + 0.85 * step as f64 / steps as f64);
            picture.rectangle((BAR_LEFT, at(step + 1)), (BAR_LEFT + 14.0, at(step)), colour);
        }
        let ticks: Vec<f64> = log_ticks(low, high);
        let ends = [low, high];
        for tick in if ticks.len() < 2 { &ends[..] } else { &ticks } {
            let text = trimmed(&significant(*tick, 2));
            picture.text((BAR_LEFT + 20.0, bar.clamped(tick.ln())), text, 14.0, Anchor::Left, INK);
        }
    }
    let y = TOP + SIDE + 50.0;
    picture.rectangle((WEIGHTS_LEFT, y - 7.0), (WEIGHTS_LEFT + 14.0, y + 7.0), HIDDEN);
    picture.text((WEIGHTS_LEFT + 22.0, y), "hidden, exactly 0", 14.0, Anchor::Left, INK);
    if portrait.weights.values.iter().enumerate().any(|(index, weight)| *weight > 0.0 && wrong(index)) {
        picture.rectangle((WEIGHTS_LEFT + 164.0, y - 7.0), (WEIGHTS_LEFT + 178.0, y + 7.0), WRONG);
        picture.text((WEIGHTS_LEFT + 186.0, y), "weight on hidden keys", 14.0, Anchor::Left, INK);
    }
}

/// A matrix as coloured cells; runs of one colour are one rectangle.
fn cells(picture: &mut Picture, left: f64, grid: &Grid, colour: impl Fn(f64, usize) -> RGBColor) {
    let (width, height) = (SIDE / grid.columns as f64, SIDE / grid.rows as f64);
    for row in 0..grid.rows {
        let (top, bottom) = (TOP + height * row as f64, TOP + height * (row + 1) as f64);
        let mut start = 0;
        for column in 0..grid.columns {
            let at = |column: usize| {
                let index = row * grid.columns + column;
                colour(grid.values[index], index)
            };
            if column + 1 == grid.columns || at(column + 1) != at(column) {
                let place = |column: usize| left + width * column as f64;
                picture.rectangle((place(start), top), (place(column + 1), bottom), at(column));
                start = column + 1;
            }
        }
    }
}

fn matrix_axes(picture: &mut Picture, left: f64, portrait: &MaskPortrait) {
    let (bottom, right) = (TOP + SIDE, left + SIDE);
    picture.line(&[(left, TOP), (right, TOP), (right, bottom), (left, bottom), (left, TOP)], FAINT, 1.0);
    let (queries, keys) = portrait.sizes;
    picture.text((left, bottom + 13.0), "key 0", 14.0, Anchor::Left, INK);
    picture.text((right, bottom + 13.0), (keys - 1).to_string(), 14.0, Anchor::Right, INK);
    picture.text((left - 8.0, TOP + 7.0), "0", 14.0, Anchor::Right, INK);
    picture.text((left - 8.0, bottom - 7.0), (queries - 1).to_string(), 14.0, Anchor::Right, INK);
    picture.text((left - 22.0, 0.5 * (TOP + bottom)), "query", 14.0, Anchor::Upwards, INK);
}

fn entropy_panel(picture: &mut Picture, portrait: &MaskPortrait) {
    let rows = &portrait.entropy;
    let last = portrait.sizes.0.saturating_sub(1).max(1) as f64;
    let horizontal = Axis { low: 0.0, high: last, start: LEFT + 12.0, end: RIGHT - 12.0 };
    let highest = rows.iter().map(|row| row.uniform.max(row.interval.1)).filter(|value| value.is_finite());
    let highest = highest.fold(0.0, f64::max).max(0.1);
    let vertical = Axis { low: 0.0, high: 1.05 * highest, start: LOWER.1 - 6.0, end: LOWER.0 };
    for tick in linear_ticks(0.0, highest, 5) {
        picture.line(&[(LEFT, vertical.at(tick)), (RIGHT, vertical.at(tick))], GRID, 1.0);
        picture.text((LEFT - 8.0, vertical.at(tick)), trimmed(&significant(tick, 3)), 14.0, Anchor::Right, INK);
    }
    for tick in linear_ticks(0.0, last, 8).into_iter().filter(|tick| tick.fract() == 0.0) {
        picture.line(&[(horizontal.at(tick), LOWER.0), (horizontal.at(tick), LOWER.1)], GRID, 1.0);
        picture.text((horizontal.at(tick), LOWER.1 + 15.0), format!("{tick}"), 14.0, Anchor::Centre, INK);
    }
    let frame = [(LEFT, LOWER.0), (LEFT, LOWER.1), (RIGHT, LOWER.1), (RIGHT, LOWER.0), (LEFT, LOWER.0)];
    picture.line(&frame, FAINT, 1.0);
    let place = |row: &RowEntropy, value: f64| (horizontal.at(row.query as f64), vertical.clamped(value));
    // Rows without a visible key interrupt the lines.
    let lines = |value: &dyn Fn(&RowEntropy) -> Option<f64>| -> Vec<(f64, f64)> {
        rows.iter().filter_map(|row| value(row).map(|value| place(row, value))).collect()
    };
    picture.dashed(&lines(&|row| Some(row.uniform)), FAINT, 1.5, Dash::Dashed);
    picture.line(&lines(&|row| row.theory), VERMILLION, 1.8);
    for row in rows.iter().filter(|row| row.estimate.is_finite()) {
        if row.interval.0.is_finite() && row.interval.1.is_finite() {
            picture.line(&[place(row, row.interval.0), place(row, row.interval.1)], BLUE, 1.5);
        }
        picture.mark(place(row, row.estimate), Marker::Circle, BLUE);
    }
    picture.text((22.0, 0.5 * (LOWER.0 + LOWER.1)), "entropy of a row (nats)", 15.0, Anchor::Upwards, INK);
    picture.text((0.5 * (LEFT + RIGHT), LOWER.1 + 40.0), "query", 15.0, Anchor::Centre, INK);
    let (x, y) = (RIGHT + 18.0, LOWER.0 + 14.0);
    picture.mark((x + 12.0, y), Marker::Circle, BLUE);
    picture.text((x + 34.0, y), "measured, 95 %", 14.0, Anchor::Left, INK);
    if rows.iter().any(|row| row.theory.is_some()) {
        picture.line(&[(x, y + 24.0), (x + 24.0, y + 24.0)], VERMILLION, 1.8);
        picture.text((x + 34.0, y + 24.0), "theory", 14.0, Anchor::Left, INK);
    }
    picture.dashed(&[(x, y + 48.0), (x + 26.0, y + 48.0)], FAINT, 1.5, Dash::Dashed);
    picture.text((x + 34.0, y + 48.0), "ln visible keys", 14.0, Anchor::Left, INK);
}

/// From one colour to another.
fn mix(from: RGBColor, to: RGBColor, share: f64) -> RGBColor {
    let part = |from: u8, to: u8| (f64::from(from) + share * (f64::from(to) - f64::from(from))).round() as u8;
    RGBColor(part(from.0, to.0), part(from.1, to.1), part(from.2, to.2))
}
