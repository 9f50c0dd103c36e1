//! Dot product or score against offset: measurement as points, the exact curve as a line.

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Dash, Marker, Picture};
use super::{claims, conditions};
use crate::report::number::{significant, trimmed};
use crate::report::row::Row;

const SIZE: (u32, u32) = (800, 480);
const LEFT: f64 = 88.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 410.0;

/// A measured share at one offset.
struct Point<'a> {
    row: &'a Row,
    offset: f64,
    value: f64,
    interval: Option<(f64, f64)>,
}

/// Rows `dot_product:K` (over d/2) or `self_score:K` against K, with the exact `curves` of (offset, share) by d_k; the picture of
/// all claims where there are fewer than two such rows.
pub fn draw(rows: &[Row], curves: &[(u64, Vec<(f64, f64)>)]) -> Option<Picture> {
    let points: Vec<Point> = rows.iter().filter_map(point).collect();
    if points.len() < 2 {
        return claims::draw(rows);
    }
    let all: Vec<&Row> = points.iter().map(|point| point.row).collect();
    let rotary = points[0].row.statistic.starts_with("self_score");
    let mut picture = Picture::new(SIZE.0, SIZE.1);
    let title =
        if rotary { "Score of a query with itself, k positions on" } else { "Product of encodings k positions apart" };
    picture.text((LEFT, 22.0), title, 20.0, Anchor::Left, INK);
    picture.text((LEFT, 45.0), conditions(&all), 14.0, Anchor::Left, FAINT);
    let largest = points.iter().map(|point| point.offset).fold(2.0, f64::max);
    let horizontal = Axis { low: 0.0, high: largest.log10(), start: LEFT + 18.0, end: RIGHT - 18.0 };
    let widths: Vec<u64> = {
        let mut widths: Vec<u64> = all.iter().filter_map(|row| row.d_k).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    };
    let lines: Vec<&(u64, Vec<(f64, f64)>)> =
        widths.iter().filter_map(|width| curves.iter().find(|curve| curve.0 == *width)).collect();
    let on_curves = lines.iter().flat_map(|curve| curve.1.iter().map(|place| place.1));
    let lowest = points.iter().map(|point| point.value).chain(on_curves).fold(0.0, f64::min);
    let vertical = Axis { low: lowest - 0.05, high: 1.05, start: BOTTOM, end: TOP };
    frame(&mut picture, &horizontal, &vertical, rotary);
    for (index, curve) in lines.iter().enumerate() {
        let places: Vec<(f64, f64)> = (curve.1.iter())
            .filter(|(offset, _)| *offset >= 1.0 && *offset <= largest)
            .map(|(offset, share)| (horizontal.at(offset.log10()), vertical.clamped(*share)))
            .collect();
        picture.dashed(&places, SERIES[index % SERIES.len()], 1.5, Dash::of(index));
    }
    for point in &points {
        let index = widths.iter().position(|width| Some(*width) == point.row.d_k).unwrap_or(0);
        let colour = SERIES[index % SERIES.len()];
        let x = horizontal.at(point.offset.log10());
        if let Some((low, high)) = point.interval {
            picture.line(&[(x, vertical.clamped(low)), (x, vertical.clamped(high))], colour, 2.0);
        }
        picture.mark((x, vertical.clamped(point.value)), Marker::of(index), colour);
    }
    legend(&mut picture, &widths);
    Some(picture)
}

/// The offset and the share of a row, with its limits.
fn point(row: &Row) -> Option<Point<'_>> {
    let finite = |value: Option<f64>| value.filter(|number| number.is_finite());
    let (name, offset) = row.statistic.split_once(':')?;
    let unit = match name {
        "dot_product" => row.d_k? as f64 / 2.0,
        "self_score" => 1.0,
        _ => return None,
    };
    let share = |value: Option<f64>| finite(value).map(|value| value / unit);
    let interval = share(row.ci_low).zip(share(row.ci_high));
    Some(Point { row, offset: offset.parse().ok()?, value: share(row.estimate)?, interval })
}

fn frame(picture: &mut Picture, horizontal: &Axis, vertical: &Axis, rotary: bool) {
    for tick in linear_ticks(vertical.low, vertical.high, 6) {
        let y = vertical.at(tick);
        picture.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
        picture.text((LEFT - 8.0, y), trimmed(&significant(tick, 2)), 14.0, Anchor::Right, INK);
    }
    for tick in log_ticks(10f64.powf(horizontal.low), 10f64.powf(horizontal.high)) {
        let x = horizontal.at(tick.log10());
        picture.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
        picture.text((x, BOTTOM + 14.0), trimmed(&significant(tick, 2)), 14.0, Anchor::Centre, INK);
    }
    picture.line(&[(LEFT, vertical.at(0.0)), (RIGHT, vertical.at(0.0))], FAINT, 1.5);
    picture.line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM), (RIGHT, TOP), (LEFT, TOP)], FAINT, 1.0);
    picture.text((0.5 * (LEFT + RIGHT), BOTTOM + 42.0), "offset k (positions)", 15.0, Anchor::Centre, INK);
    let words = if rotary { "score / d_k" } else { "product / (d_k/2)" };
    picture.text((28.0, 0.5 * (TOP + BOTTOM)), words, 15.0, Anchor::Upwards, INK);
}

fn legend(picture: &mut Picture, widths: &[u64]) {
    let x = RIGHT + 20.0;
    for (index, width) in widths.iter().enumerate() {
        let (y, colour) = (TOP + 14.0 + 22.0 * index as f64, SERIES[index % SERIES.len()]);
        picture.sample((x + 10.0, y), index, colour);
        picture.text((x + 36.0, y), format!("d_k = {width}"), 14.0, Anchor::Left, INK);
    }
    let y = TOP + 26.0 + 22.0 * widths.len() as f64;
    for (line, words) in ["points: measured", "bars: 95 % intervals", "lines: exact"].into_iter().enumerate() {
        picture.text((x - 8.0, y + 19.0 * line as f64), words, 14.0, Anchor::Left, FAINT);
    }
}
