//! Statistics that are numbered by head or by layer, `NAME:headI` and `NAME:layerI`: one panel for each name and scale,
//! measurement as points over the number, theory as short lines.

use super::axis::{Axis, linear_ticks, log_ticks};
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Marker, Picture};
use super::{conditions, scale_words};
use crate::report::number::{significant, trimmed};
use crate::report::row::Row;

const WIDTH: u32 = 800;
const TOP: f64 = 70.0;
/// One panel with its title above and its numbers below.
const PANEL: (f64, f64) = (388.0, 210.0);
/// Margins of the frame inside a panel: left, right, top, bottom.
const MARGINS: (f64, f64, f64, f64) = (78.0, 14.0, 26.0, 34.0);
/// More panels than this are for no page.
const MOST_PANELS: usize = 12;
/// Positive values that spread further than this are drawn on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 50.0;

/// Names of parameter points beside each other.
const IN_A_LINE: usize = 3;

/// A row with its number.
struct Point<'a> {
    row: &'a Row,
    number: u64,
    series: usize,
}

/// One statistic at one scale.
struct Panel<'a> {
    title: String,
    points: Vec<Point<'a>>,
}

/// The picture, or nothing if no row has a numbered statistic with at least two numbers.
pub fn draw(rows: &[Row]) -> Option<Picture> {
    let (kind, panels, series) = panels(rows);
    let drawable: Vec<&Panel> = panels.iter().filter(|panel| panel.points.len() > 1).take(MOST_PANELS).collect();
    let all: Vec<&Row> = drawable.iter().flat_map(|panel| panel.points.iter().map(|point| point.row)).collect();
    if drawable.is_empty() {
        return None;
    }
    let lines = drawable.len().div_ceil(2);
    let legend = if series.len() > 1 { 24.0 * drawn(&series).div_ceil(IN_A_LINE) as f64 } else { 0.0 };
    let mut picture = Picture::new(WIDTH, (TOP + PANEL.1 * lines as f64 + 34.0 + legend) as u32);
    let more = series.len() - drawn(&series);
    let left_out =
        if more > 0 { format!(", the first {} of {} sizes", drawn(&series), series.len()) } else { String::new() };
    let title = format!("{} by {kind}{left_out}", all[0].command);
    picture.text((20.0, 22.0), title, 20.0, Anchor::Left, INK);
    picture.text((20.0, 45.0), conditions(&all), 14.0, Anchor::Left, FAINT);
    for (index, panel) in drawable.iter().enumerate() {
        let corner = (12.0 + PANEL.0 * (index % 2) as f64, TOP + PANEL.1 * (index / 2) as f64);
        one(&mut picture, panel, corner, drawn(&series));
    }
    let bottom = TOP + PANEL.1 * lines as f64 + 12.0;
    let words = format!("number of the {kind}; points: measured, bars: 95 % intervals, lines: theory");
    picture.text((0.5 * f64::from(WIDTH), bottom), words, 15.0, Anchor::Centre, INK);
    if series.len() > 1 {
        for (index, name) in series.iter().take(SERIES.len()).enumerate() {
            let x = 30.0 + 255.0 * (index % IN_A_LINE) as f64;
            let y = bottom + 24.0 * (index / IN_A_LINE + 1) as f64;
            picture.mark((x, y), Marker::of(index), SERIES[index]);
            picture.text((x + 12.0, y), name.as_str(), 13.0, Anchor::Left, INK);
        }
    }
    Some(picture)
}

/// How many parameter points are drawn: as many as there are forms and colours.
fn drawn(series: &[String]) -> usize {
    series.len().min(SERIES.len())
}

/// `head` or `layer`, the panels in the order of the rows, and the names of the parameter points.
fn panels(rows: &[Row]) -> (&str, Vec<Panel<'_>>, Vec<String>) {
    let mut kind = "";
    let mut panels: Vec<Panel> = Vec::new();
    let mut series: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.estimate.is_some_and(f64::is_finite)) {
        let Some((name, of, number)) = numbered(&row.statistic) else { continue };
        kind = of;
        let size = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let point = format!("d_k = {}, n = {}, m = {}", size(row.d_k), size(row.n_queries), size(row.n_keys));
        let index = series.iter().position(|known| *known == point).unwrap_or_else(|| {
            series.push(point);
            series.len() - 1
        });
        if index >= SERIES.len() {
            continue;
        }
        let title = [Some(name.to_string()), scale_words(row)].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let point = Point { row, number, series: index };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.points.push(point),
            None => panels.push(Panel { title, points: vec![point] }),
        }
    }
    (kind, panels, series)
}

/// `entropy:layer3` as (`entropy`, `layer`, 3).
fn numbered(statistic: &str) -> Option<(&str, &str, u64)> {
    let (name, index) = statistic.rsplit_once(':')?;
    let kind = ["head", "layer"].into_iter().find(|kind| index.starts_with(kind))?;
    Some((name, kind, index[kind.len()..].parse().ok()?))
}

fn one(picture: &mut Picture, panel: &Panel, (x, y): (f64, f64), series: usize) {
    let (left, right) = (x + MARGINS.0, x + PANEL.0 - MARGINS.1);
    let (top, bottom) = (y + MARGINS.2, y + PANEL.1 - MARGINS.3);
    picture.text((left, y + 12.0), panel.title.as_str(), 15.0, Anchor::Left, INK);
    let numbers = || panel.points.iter().map(|point| point.number);
    let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    let horizontal = Axis { low: first as f64 - 0.5, high: last as f64 + 0.5, start: left, end: right };
    let (vertical, logarithmic) = vertical(panel, top, bottom);
    let place = |value: f64| vertical.clamped(if logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value });
    let ticks = match logarithmic {
        true => log_ticks(10f64.powf(vertical.low), 10f64.powf(vertical.high)),
        false => linear_ticks(vertical.low, vertical.high, 4),
    };
    let digits = if logarithmic { 1 } else { digits(&ticks) };
    for tick in ticks {
        picture.line(&[(left, place(tick)), (right, place(tick))], GRID, 1.0);
        picture.text((left - 7.0, place(tick)), trimmed(&significant(tick, digits)), 13.0, Anchor::Right, INK);
    }
    let step = ((last - first) / 12 + 1) as usize;
    for number in (first..=last).step_by(step) {
        picture.text((horizontal.at(number as f64), bottom + 13.0), number.to_string(), 13.0, Anchor::Centre, INK);
    }
    let border = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)];
    picture.line(&border, FAINT, 1.0);
    // A short line for theory, never so short that a mark hides it; with many numbers the marks are small.
    let column = horizontal.at(1.0) - horizontal.at(0.0);
    let (reach, size) = ((0.36 * column).clamp(2.5, 40.0), (column / 10.0).clamp(0.6, 1.0));
    for point in &panel.points {
        let colour = SERIES[point.series % SERIES.len()];
        let shift = 0.12 * (point.series as f64 - 0.5 * (series as f64 - 1.0));
        let at = horizontal.clamped(point.number as f64 + shift);
        if let Some(theory) = point.row.theory {
            picture.line(&[(at - reach, place(theory)), (at + reach, place(theory))], FAINT, 2.0);
        }
        if let (Some(low), Some(high)) = (point.row.ci_low, point.row.ci_high) {
            picture.line(&[(at, place(low)), (at, place(high))], colour, if size < 1.0 { 1.0 } else { 2.0 });
        }
        picture.sized_mark((at, place(point.row.estimate.unwrap_or(0.0))), Marker::of(point.series), colour, size);
    }
}

/// Significant digits that tell neighbouring ticks apart.
pub(super) fn digits(ticks: &[f64]) -> usize {
    let [first, second, ..] = ticks else { return 3 };
    let largest = ticks.iter().fold(0.0f64, |largest, tick| largest.max(tick.abs()));
    let places = |value: f64| value.log10().floor() as i32;
    (places(largest) - places((second - first) * 1.000_001) + 1).clamp(1, 15) as usize
}

/// The axis of a panel's values, and whether it is logarithmic.
fn vertical(panel: &Panel, top: f64, bottom: f64) -> (Axis, bool) {
    let values: Vec<f64> = (panel.points.iter())
        .flat_map(|point| [point.row.estimate, point.row.theory, point.row.ci_low, point.row.ci_high])
        .flatten()
        .filter(|value| value.is_finite())
        .collect();
    let estimates = || panel.points.iter().filter_map(|point| point.row.estimate);
    let (least, most) = estimates().fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    // A theory of 0 has no place on a logarithmic axis, and must not seem to be its lower end.
    let theory_has_place = panel.points.iter().all(|point| point.row.theory.is_none_or(|theory| theory > 0.0));
    let logarithmic = least > 0.0 && most / least > LOGARITHMIC_FROM && theory_has_place;
    let scaled = |value: &f64| match logarithmic {
        true => (*value > 0.0).then(|| value.log10()),
        false => Some(*value),
    };
    let ends = values.iter().filter_map(scaled);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    // Values that are all the same still need an axis of some length; rounding is no variation.
    let span = high - low;
    let margin = if span > 1e-9 * high.abs().max(low.abs()) { 0.08 * span } else { 0.5 * high.abs().max(1e-12) };
    (Axis { low: low - margin, high: high + margin, start: bottom, end: top }, logarithmic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(statistic: &str, estimate: f64) -> Row {
        Row { estimate: Some(estimate), theory: Some(1.0), ..Row::new("depth", statistic) }
    }

    #[test]
    fn a_number_of_head_or_layer_is_read_from_the_statistic() {
        assert_eq!(numbered("entropy:layer12"), Some(("entropy", "layer", 12)));
        assert_eq!(numbered("logit_mean:head3"), Some(("logit_mean", "head", 3)));
        assert_eq!(numbered("entropy"), None);
        assert_eq!(numbered("entropy:layer"), None);
        assert_eq!(numbered("leak:row3"), None);
    }

    #[test]
    fn each_statistic_has_a_panel_with_a_point_for_each_number() {
        let rows =
            [row("entropy:layer1", 3.0), row("entropy:layer2", 2.0), row("token_mean:layer1", 0.0), row("x", 1.0)];
        let (kind, panels, series) = panels(&rows);
        assert_eq!((kind, panels.len(), series.len()), ("layer", 2, 1));
        assert_eq!(panels[0].points.iter().map(|point| point.number).collect::<Vec<_>>(), [1, 2]);
        // A panel of one number alone is not drawn, and without panels there is no picture.
        let svg = draw(&rows).expect("a picture").to_svg().expect("drawn");
        assert!(svg.contains("entropy") && !svg.contains("token_mean") && svg.contains("depth by layer"));
        assert!(draw(&rows[2..]).is_none());
    }

    #[test]
    fn neighbouring_ticks_have_different_labels() {
        assert_eq!(digits(&[0.998, 1.0, 1.002]), 4);
        assert_eq!(digits(&[63.8, 63.9, 64.0]), 3);
        assert_eq!(digits(&[-0.005, 0.0, 0.005]), 1);
        assert_eq!(digits(&[0.0, 20.0, 40.0]), 1);
    }

    #[test]
    fn an_axis_is_logarithmic_where_positive_values_spread_far() {
        let spread = [row("gradient_scale:layer1", 1.0), row("gradient_scale:layer2", 1e-4)];
        let (_, far, _) = panels(&spread);
        let (axis, logarithmic) = vertical(&far[0], 0.0, 100.0);
        assert!(logarithmic && axis.low < -4.0 && axis.high > 0.0);
        let near = [row("gradient_scale:layer1", 1.0), row("gradient_scale:layer2", -1e-4)];
        assert!(!vertical(&panels(&near).1[0], 0.0, 100.0).1);
        let of_zero = [Row { theory: Some(0.0), ..row("token_cosine:layer1", 1e-3) }, row("token_cosine:layer2", 1.0)];
        assert!(!vertical(&panels(&of_zero).1[0], 0.0, 100.0).1, "0 has no logarithm");
        // Equal values are in the middle of an axis of some length.
        let equal = [row("token_variance:layer1", 1.0), row("token_variance:layer2", 1.0)];
        let (axis, _) = vertical(&panels(&equal).1[0], 0.0, 100.0);
        assert_eq!(axis.at(1.0), 50.0);
    }
}
