//! Variance against d_k: measurement as points, theory as lines, and the deviations below, where the error bars can be seen.

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Dash, Marker, Picture};
use super::{conditions, scale_words};
use crate::report::number::{significant, trimmed};
use crate::report::row::Row;

const SIZE: (u32, u32) = (800, 620);
const LEFT: f64 = 88.0;
const RIGHT: f64 = 622.0;
const UPPER: (f64, f64) = (66.0, 368.0);
const LOWER: (f64, f64) = (404.0, 556.0);
/// Between the deviations of two scales at one d_k.
const SHIFT: f64 = 11.0;

/// The rows of one scale, by d_k.
struct Series<'a> {
    name: String,
    rows: Vec<&'a Row>,
}

/// The picture of a sweep, or nothing if the rows hold `logit_variance` at fewer than two d_k.
pub fn draw(rows: &[Row]) -> Option<Picture> {
    let mut series = series(rows);
    let more = series.len().saturating_sub(SERIES.len());
    series.truncate(SERIES.len());
    let all: Vec<&Row> = series.iter().flat_map(|series| series.rows.iter().copied()).collect();
    let mut dimensions: Vec<u64> = all.iter().filter_map(|row| row.d_k).collect();
    dimensions.sort_unstable();
    dimensions.dedup();
    if dimensions.len() < 2 {
        return None;
    }
    let mut picture = Picture::new(SIZE.0, SIZE.1);
    picture.text((LEFT, 22.0), "Variance of the logits against d_k", 20.0, Anchor::Left, INK);
    picture.text((LEFT, 45.0), conditions(&all), 14.0, Anchor::Left, FAINT);
    // Room for the deviations, which stand side by side.
    let margin = 12.0 + 0.5 * SHIFT * series.len() as f64;
    let horizontal = logarithmic(dimensions.iter().map(|&value| value as f64), LEFT + margin, RIGHT - margin)?;
    upper_panel(&mut picture, &series, &horizontal, &dimensions)?;
    lower_panel(&mut picture, &series, &horizontal, &dimensions);
    legend(&mut picture, &series, more);
    Some(picture)
}

fn series(rows: &[Row]) -> Vec<Series<'_>> {
    let mut found: Vec<Series> = Vec::new();
    // A logarithm needs positive values; a variance of exactly 0 has no place on the axis.
    let drawable =
        |row: &&Row| row.statistic == "logit_variance" && row.d_k.is_some() && positive(row.estimate).is_some();
    for row in rows.iter().filter(drawable) {
        let name = scale_words(row).unwrap_or_else(|| "measured".to_owned());
        match found.iter_mut().find(|series| series.name == name) {
            Some(series) => series.rows.push(row),
            None => found.push(Series { name, rows: vec![row] }),
        }
    }
    for series in &mut found {
        series.rows.sort_by_key(|row| row.d_k);
    }
    found
}

fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|number| number.is_finite() && *number > 0.0)
}

/// An axis for the common logarithms of these values.
fn logarithmic(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Option<Axis> {
    let (low, high) = values
        .map(f64::log10)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if !(low.is_finite() && high.is_finite()) {
        return None;
    }
    // Values that are all the same still need an axis of some length.
    let margin = if high - low < 0.1 { 0.5 } else { 0.0 };
    Some(Axis { low: low - margin, high: high + margin, start, end })
}

fn logarithm_of_dimension(row: &Row) -> f64 {
    row.d_k.map_or(0.0, |value| (value as f64).log10())
}

fn upper_panel(picture: &mut Picture, series: &[Series], horizontal: &Axis, dimensions: &[u64]) -> Option<()> {
    let rows = || series.iter().flat_map(|series| &series.rows);
    let values = rows().flat_map(|row| [positive(row.estimate), positive(row.theory)]).flatten();
    let vertical = logarithmic(values, UPPER.1 - 16.0, UPPER.0 + 16.0)?;
    frame(picture, UPPER, horizontal, dimensions);
    for tick in log_ticks(10f64.powf(vertical.low), 10f64.powf(vertical.high)) {
        horizontal_line(picture, vertical.at(tick.log10()), &trimmed(&significant(tick, 1)));
    }
    border(picture, UPPER);
    picture.text((22.0, 0.5 * (UPPER.0 + UPPER.1)), "variance (dimensionless)", 15.0, Anchor::Upwards, INK);
    for (index, series) in series.iter().enumerate() {
        let place =
            |row: &Row, value: f64| (horizontal.at(logarithm_of_dimension(row)), vertical.clamped(value.log10()));
        let theory: Vec<_> =
            series.rows.iter().filter_map(|row| positive(row.theory).map(|value| place(row, value))).collect();
        picture.dashed(&theory, colour(index), 1.5, Dash::of(index));
        for row in &series.rows {
            let limits = (positive(row.ci_low), positive(row.ci_high));
            if let (Some(low), Some(high)) = limits {
                interval(picture, place(row, low), place(row, high), index);
            }
            if let Some(estimate) = positive(row.estimate) {
                picture.mark(place(row, estimate), Marker::of(index), colour(index));
            }
        }
    }
    Some(())
}

fn lower_panel(picture: &mut Picture, series: &[Series], horizontal: &Axis, dimensions: &[u64]) {
    // Estimate and limits relative to theory, in per cent.
    let relative = |row: &Row, value: Option<f64>| {
        Some(100.0 * (value? / positive(row.theory)? - 1.0)).filter(|value| value.is_finite())
    };
    let rows = || series.iter().flat_map(|series| &series.rows);
    let ends = rows().flat_map(|row| [row.ci_low, row.ci_high, row.estimate].map(|value| relative(row, value)));
    let extent = ends.flatten().fold(0.0, |extent: f64, value| extent.max(value.abs()));
    let extent = if extent > 0.0 { 1.12 * extent } else { 1.0 };
    let vertical = Axis { low: -extent, high: extent, start: LOWER.1, end: LOWER.0 };
    frame(picture, LOWER, horizontal, dimensions);
    for tick in linear_ticks(-extent, extent, 5) {
        let sign = if tick > 0.0 { "+" } else { "" };
        horizontal_line(picture, vertical.at(tick), &format!("{sign}{} %", trimmed(&significant(tick, 3))));
    }
    picture.line(&[(LEFT, vertical.at(0.0)), (RIGHT, vertical.at(0.0))], FAINT, 1.5);
    border(picture, LOWER);
    picture.text((22.0, 0.5 * (LOWER.0 + LOWER.1)), "deviation", 15.0, Anchor::Upwards, INK);
    for &dimension in &labelled(dimensions) {
        picture.text(
            (horizontal.at((dimension as f64).log10()), LOWER.1 + 15.0),
            dimension.to_string(),
            14.0,
            Anchor::Centre,
            INK,
        );
    }
    picture.text(
        (0.5 * (LEFT + RIGHT), LOWER.1 + 40.0),
        "d_k, columns of Q and K (dimensionless)",
        15.0,
        Anchor::Centre,
        INK,
    );
    let middle = 0.5 * (series.len() as f64 - 1.0);
    for (index, series) in series.iter().enumerate() {
        // Side by side: the scales of one d_k come from the same draws and would lie on each other.
        let shift = SHIFT * (index as f64 - middle);
        for row in &series.rows {
            let place = |value: f64| (horizontal.at(logarithm_of_dimension(row)) + shift, vertical.clamped(value));
            if let (Some(low), Some(high)) = (relative(row, row.ci_low), relative(row, row.ci_high)) {
                interval(picture, place(low), place(high), index);
            }
            if let Some(value) = relative(row, row.estimate) {
                picture.mark(place(value), Marker::of(index), colour(index));
            }
        }
    }
}

fn colour(index: usize) -> plotters::style::RGBColor {
    SERIES[index % SERIES.len()]
}

fn interval(picture: &mut Picture, low: (f64, f64), high: (f64, f64), index: usize) {
    picture.line(&[low, high], colour(index), 1.5);
    for (x, y) in [low, high] {
        picture.line(&[(x - 4.0, y), (x + 4.0, y)], colour(index), 1.5);
    }
}

/// At most nine dimensions get a label; there is no room for more.
fn labelled(dimensions: &[u64]) -> Vec<u64> {
    dimensions.iter().copied().step_by(dimensions.len().div_ceil(9)).collect()
}

fn frame(picture: &mut Picture, (top, bottom): (f64, f64), horizontal: &Axis, dimensions: &[u64]) {
    for dimension in labelled(dimensions) {
        let x = horizontal.at((dimension as f64).log10());
        picture.line(&[(x, top), (x, bottom)], GRID, 1.0);
    }
}

fn border(picture: &mut Picture, (top, bottom): (f64, f64)) {
    picture.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom), (RIGHT, top), (LEFT, top)], FAINT, 1.0);
}

fn horizontal_line(picture: &mut Picture, y: f64, label: &str) {
    picture.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
    picture.text((LEFT - 8.0, y), label, 14.0, Anchor::Right, INK);
}

/// A marker and a line for each scale; `more` scales are not drawn.
fn legend(picture: &mut Picture, series: &[Series], more: usize) {
    let x = RIGHT + 18.0;
    for (index, series) in series.iter().enumerate() {
        let y = UPPER.0 + 14.0 + 46.0 * index as f64;
        picture.mark((x + 12.0, y), Marker::of(index), colour(index));
        picture.text((x + 34.0, y), series.name.as_str(), 15.0, Anchor::Left, INK);
        picture.dashed(&[(x - 4.0, y + 20.0), (x + 28.0, y + 20.0)], colour(index), 1.5, Dash::of(index));
        picture.text((x + 34.0, y + 20.0), theory_words(&series.rows), 15.0, Anchor::Left, FAINT);
    }
    let y = UPPER.0 + 14.0 + 46.0 * series.len() as f64 + 6.0;
    picture.text((x, y), "bars: 95 % intervals", 14.0, Anchor::Left, FAINT);
    if more > 0 {
        let words = format!("{more} more scale{} not drawn", if more == 1 { "" } else { "s" });
        picture.text((x, y + 18.0), words, 14.0, Anchor::Left, INK);
    }
    picture.text((x, LOWER.0 + 12.0), "(measured − theory)", 14.0, Anchor::Left, FAINT);
    picture.text((x, LOWER.0 + 28.0), "/ theory", 14.0, Anchor::Left, FAINT);
}

/// What the theory values of a series are as a function of d_k, where it is one of the three laws of the derivation.
fn theory_words(rows: &[&Row]) -> &'static str {
    let follows = |law: fn(f64) -> f64| {
        let same =
            |row: &&Row| row.d_k.zip(row.theory).is_some_and(|(d, theory)| (theory / law(d as f64) - 1.0).abs() < 1e-9);
        rows.iter().all(same)
    };
    if follows(|d| d) {
        "theory d_k"
    } else if follows(|_| 1.0) {
        "theory 1"
    } else if follows(f64::recip) {
        "theory 1/d_k"
    } else {
        "theory"
    }
}
