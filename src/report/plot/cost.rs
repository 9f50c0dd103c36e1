//! Operations of one token against its position, with and without a cache: counted ones as points, the closed formulas as lines.

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Dash, Marker, Picture};
use super::{claims, conditions};
use crate::report::number::{significant, trimmed};
use crate::report::row::Row;

const SIZE: (u32, u32) = (800, 480);
const LEFT: f64 = 96.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 410.0;
/// What is drawn: the name before the position, and the words of the legend.
const KINDS: [(&str, &str); 2] = [("operations_cached", "with the cache"), ("operations_uncached", "without it")];

/// Rows `operations_cached:P` and `operations_uncached:P` of the first parameter point against P; `laws` holds (position, operations with,
/// operations without). The picture of all claims where there are no such rows.
pub fn draw(rows: &[Row], laws: &[(f64, f64, f64)]) -> Option<Picture> {
    let first = rows.iter().find(|row| row.statistic.starts_with(KINDS[0].0))?;
    let same = |row: &&Row| (row.d_k, row.n_queries, row.n_keys) == (first.d_k, first.n_queries, first.n_keys);
    let rows: Vec<&Row> = rows.iter().filter(same).collect();
    let series: Vec<Vec<(f64, f64)>> = KINDS.iter().map(|kind| points(&rows, kind.0)).collect();
    let positive = |value: f64| value.is_finite() && value > 0.0;
    let values = series.iter().flatten().map(|point| point.1).chain(laws.iter().flat_map(|law| [law.1, law.2]));
    let (low, high) = values
        .filter(|&value| positive(value))
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if !(low.is_finite() && high > low) {
        return claims::draw(&rows.into_iter().cloned().collect::<Vec<Row>>());
    }
    let furthest = laws.iter().map(|law| law.0).fold(1.0, f64::max);
    let mut picture = Picture::new(SIZE.0, SIZE.1);
    picture.text((LEFT, 22.0), "Operations of attention for one more token", 20.0, Anchor::Left, INK);
    picture.text((LEFT, 45.0), conditions(&rows), 14.0, Anchor::Left, FAINT);
    let horizontal = Axis { low: 0.0, high: furthest * 1.02, start: LEFT, end: RIGHT };
    let vertical = Axis { low: low.log10() - 0.1, high: high.log10() + 0.1, start: BOTTOM, end: TOP };
    frame(&mut picture, &horizontal, &vertical);
    for (index, series) in series.iter().enumerate() {
        let colour = SERIES[index];
        let law = laws.iter().map(|law| (law.0, if index == 0 { law.1 } else { law.2 }));
        let line: Vec<(f64, f64)> = law
            .filter(|point| positive(point.1))
            .map(|(position, value)| (horizontal.at(position), vertical.at(value.log10())))
            .collect();
        picture.dashed(&line, colour, 1.5, Dash::of(index));
        for &(position, value) in series.iter().filter(|point| positive(point.1)) {
            picture.mark((horizontal.at(position), vertical.at(value.log10())), Marker::of(index), colour);
        }
        let y = TOP + 14.0 + 22.0 * index as f64;
        picture.sample((RIGHT + 32.0, y), index, colour);
        picture.text((RIGHT + 58.0, y), KINDS[index].1, 14.0, Anchor::Left, INK);
    }
    let y = TOP + 62.0;
    for (line, words) in ["points: counted", "lines: closed formula"].into_iter().enumerate() {
        picture.text((RIGHT + 14.0, y + 19.0 * line as f64), words, 14.0, Anchor::Left, FAINT);
    }
    Some(picture)
}

/// (position, estimate) of the rows `name:P`.
fn points(rows: &[&Row], name: &str) -> Vec<(f64, f64)> {
    let point = |row: &&Row| {
        let (prefix, position) = row.statistic.split_once(':')?;
        (prefix == name).then_some((position.parse().ok()?, row.estimate?))
    };
    rows.iter().filter_map(point).collect()
}

fn frame(picture: &mut Picture, horizontal: &Axis, vertical: &Axis) {
    for tick in linear_ticks(horizontal.low, horizontal.high, 6) {
        let x = horizontal.at(tick);
        picture.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
        picture.text((x, BOTTOM + 14.0), trimmed(&significant(tick, 3)), 14.0, Anchor::Centre, INK);
    }
    for tick in log_ticks(10f64.powf(vertical.low), 10f64.powf(vertical.high)) {
        let y = vertical.at(tick.log10());
        picture.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
        picture.text((LEFT - 8.0, y), format!("{tick:e}"), 14.0, Anchor::Right, INK);
    }
    picture.line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM), (RIGHT, TOP), (LEFT, TOP)], FAINT, 1.0);
    picture.text((0.5 * (LEFT + RIGHT), BOTTOM + 42.0), "position of the token", 15.0, Anchor::Centre, INK);
    picture.text((24.0, 0.5 * (TOP + BOTTOM)), "operations", 15.0, Anchor::Upwards, INK);
}
