//! Any quantity against any size: measured points with their limits, what is expected as a line.

use super::axis::Scale;
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Marker, Picture};
use crate::report::number::{significant, trimmed};

// As narrow as it can be read, since a page shrinks it to a phone; the legend is below.
const WIDTH: u32 = 560;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 544.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 350.0;
/// Letters of a line of conditions.
const LONGEST_LINE: usize = 66;
/// Between lines of the legend.
const LEGEND_STEP: f64 = 21.0;
/// Half the length of the line of what is expected at one number.
const HALF_MARK: f64 = 9.0;
/// Positive values that spread further than this are drawn on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 8.0;
/// Sizes by magnitude that spread further than this likewise.
const LOGARITHMIC_SIZES_FROM: f64 = 4.0;
/// More series than there are colours cannot be told apart.
const MOST_SERIES: usize = SERIES.len();

/// More sizes than this have no room for a tick each.
const MOST_SIZE_TICKS: usize = 9;

/// A measured value at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size.
    pub x: f64,
    /// What was measured.
    pub estimate: f64,
    /// Its 95 % limits.
    pub interval: Option<(f64, f64)>,
    /// What was expected.
    pub theory: Option<f64>,
}

/// Points of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What tells it from the others; empty if there are none.
    pub name: String,
    /// By rising size.
    pub points: Vec<Point>,
}

/// How sizes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Numbers of heads, layers, rows.
    ByNumber,
    /// Doubling, as widths do.
    ByMagnitude,
    /// Sizes and values both on logarithmic axes, however little they spread: a power is a straight line.
    Powers,
}

/// What stands around the points.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above.
    pub title: String,
    /// Below the title: what is the same in all points.
    pub conditions: String,
    /// Name of the size.
    pub of: String,
    /// How the sizes follow each other.
    pub spacing: Spacing,
    /// Name of the quantity.
    pub quantity: String,
    /// At most six are drawn.
    pub series: Vec<Series>,
}

/// The picture, or nothing if no series has two sizes.
pub fn draw(chart: &Chart) -> Option<Picture> {
    let drawable = |series: &&Series| {
        let mut sizes: Vec<f64> = series.points.iter().map(|point| point.x).collect();
        sizes.dedup();
        sizes.len() > 1
    };
    let found: Vec<&Series> = chart.series.iter().filter(drawable).collect();
    let series = &found[..found.len().min(MOST_SERIES)];
    let points = || series.iter().flat_map(|series| &series.points);
    let (from, values_from) = match chart.spacing {
        Spacing::ByNumber => (f64::INFINITY, LOGARITHMIC_FROM),
        Spacing::ByMagnitude => (LOGARITHMIC_SIZES_FROM, LOGARITHMIC_FROM),
        Spacing::Powers => (1.0, 1.0),
    };
    let horizontal = scale(points().map(|point| point.x), from, (LEFT + 18.0, RIGHT - 18.0))?;
    let estimates = points().flat_map(|point| [Some(point.estimate), point.theory]).flatten();
    let limits = points().filter_map(|point| point.interval).flat_map(|(low, high)| [low, high]);
    let vertical = scale(estimates.chain(limits), values_from, (BOTTOM - 12.0, TOP + 12.0))?;
    let height = BOTTOM + 66.0 + LEGEND_STEP * legend_lines(series);
    let mut picture = Picture::new(WIDTH, height as u32);
    let title = match found.len() - series.len() {
        0 => chart.title.clone(),
        more => format!("{} ({more} more series not drawn)", chart.title),
    };
    picture.text((16.0, 20.0), title, 18.0, Anchor::Left, INK);
    for (index, line) in lines(&chart.conditions).into_iter().enumerate() {
        picture.text((16.0, 42.0 + 17.0 * index as f64), line, 13.0, Anchor::Left, FAINT);
    }
    frame(&mut picture, chart, &horizontal, &vertical);
    for (index, series) in series.iter().enumerate() {
        let colour = SERIES[index];
        let theory: Vec<(f64, f64)> = (series.points.iter())
            .filter_map(|point| Some((horizontal.at(point.x), vertical.at(point.theory?))))
            .collect();
        match chart.spacing {
            // Between two layers or heads there is nothing.
            Spacing::ByNumber => {
                for (x, y) in theory {
                    picture.line(&[(x - HALF_MARK, y), (x + HALF_MARK, y)], colour, 2.0);
                }
            }
            Spacing::ByMagnitude | Spacing::Powers => picture.line(&theory, colour, 1.5),
        }
        for point in &series.points {
            let x = horizontal.at(point.x);
            if let Some((low, high)) = point.interval {
                picture.line(&[(x, vertical.at(low)), (x, vertical.at(high))], colour, 2.0);
            }
            picture.mark((x, vertical.at(point.estimate)), Marker::of(index), colour);
        }
    }
    legend(&mut picture, chart.spacing, series);
    Some(picture)
}

/// Conditions in two lines where one has no room for them.
fn lines(conditions: &str) -> Vec<String> {
    let parts: Vec<&str> = conditions.split(" · ").collect();
    let length = |count: usize| parts[..count].join(" · ").chars().count();
    let first = (1..=parts.len()).rev().find(|count| length(*count) <= LONGEST_LINE).unwrap_or(1);
    let both = [&parts[..first], &parts[first..]].map(|line| line.join(" · "));
    both.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The scale around these values; None without a finite one.
fn scale(values: impl Iterator<Item = f64>, logarithmic_from: f64, places: (f64, f64)) -> Option<Scale> {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_logarithmic = least > 0.0 && most / least >= logarithmic_from;
    (!values.is_empty()).then(|| Scale::around((least, most), is_logarithmic, 0.04, places))
}

/// Round values and their texts.
fn ticks(scale: &Scale, count: usize) -> Vec<(f64, String)> {
    let ticks = scale.ticks(count);
    let digits = if scale.is_logarithmic { 1 } else { digits(&ticks) };
    ticks.iter().map(|tick| (*tick, trimmed(&significant(*tick, digits)))).collect()
}

/// Significant digits that tell neighbouring ticks apart.
fn digits(ticks: &[f64]) -> usize {
    let [first, second, ..] = ticks else { return 3 };
    let largest = ticks.iter().fold(0.0f64, |largest, tick| largest.max(tick.abs()));
    let places = |value: f64| value.log10().floor() as i32;
    (places(largest) - places((second - first) * 1.000_001) + 1).clamp(1, 15) as usize
}

fn frame(picture: &mut Picture, chart: &Chart, horizontal: &Scale, vertical: &Scale) {
    for (tick, text) in ticks(vertical, 6) {
        let y = vertical.at(tick);
        picture.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
        picture.text((LEFT - 8.0, y), text, 14.0, Anchor::Right, INK);
    }
    for (tick, text) in size_ticks(chart, horizontal) {
        let x = horizontal.at(tick);
        picture.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
        picture.text((x, BOTTOM + 15.0), text, 14.0, Anchor::Centre, INK);
    }
    picture.line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM), (RIGHT, TOP), (LEFT, TOP)], FAINT, 1.0);
    picture.text((0.5 * (LEFT + RIGHT), BOTTOM + 38.0), chart.of.as_str(), 15.0, Anchor::Centre, INK);
    // Above the axis, where no number can be below it.
    picture.text((16.0, TOP - 16.0), chart.quantity.as_str(), 14.0, Anchor::Left, INK);
}

/// The sizes themselves, unless there are too many.
fn size_ticks(chart: &Chart, horizontal: &Scale) -> Vec<(f64, String)> {
    let mut sizes: Vec<f64> = chart.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    match sizes.len() <= MOST_SIZE_TICKS {
        true => sizes.into_iter().map(|size| (size, trimmed(&significant(size, 6)))).collect(),
        false => ticks(horizontal, 8),
    }
}

fn any(series: &[&Series], has: fn(&Point) -> bool) -> bool {
    series.iter().any(|series| series.points.iter().any(has))
}

fn has_limits(point: &Point) -> bool {
    point.interval.is_some_and(|(low, high)| low < high)
}

/// A line for each series, one for what lines and bars are.
fn legend_lines(series: &[&Series]) -> f64 {
    let has_note = any(series, |point| point.theory.is_some()) || any(series, has_limits);
    series.len() as f64 + f64::from(u8::from(has_note))
}

fn legend(picture: &mut Picture, spacing: Spacing, series: &[&Series]) {
    let x = LEFT + 8.0;
    let mut y = BOTTOM + 66.0;
    for (index, series) in series.iter().enumerate() {
        picture.mark((x, y), Marker::of(index), SERIES[index]);
        let name = if series.name.is_empty() { "measured" } else { series.name.as_str() };
        picture.text((x + 14.0, y), name, 14.0, Anchor::Left, INK);
        y += LEGEND_STEP;
    }
    let theory = match spacing {
        Spacing::ByNumber => "level lines: theory",
        Spacing::ByMagnitude | Spacing::Powers => "lines: theory",
    };
    let notes = [
        any(series, |point| point.theory.is_some()).then_some(theory),
        any(series, has_limits).then_some("bars: 95 % intervals"),
    ];
    let words = notes.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if !words.is_empty() {
        picture.text((x - 6.0, y), words, 14.0, Anchor::Left, FAINT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::picture::Shape;

    fn chart(values: &[(f64, f64)]) -> Chart {
        let point = |&(x, estimate): &(f64, f64)| Point { x, estimate, interval: None, theory: Some(estimate) };
        Chart {
            title: "entropy".into(),
            conditions: String::new(),
            of: "d_k".into(),
            spacing: Spacing::ByMagnitude,
            quantity: "nats".into(),
            series: vec![Series { name: String::new(), points: values.iter().map(point).collect() }],
        }
    }

    fn marks(picture: &Picture) -> Vec<(f64, f64)> {
        let at = |shape: &Shape| match shape {
            Shape::Mark { at, .. } => Some(*at),
            _ => None,
        };
        picture.shapes.iter().filter_map(at).collect()
    }

    #[test]
    fn equal_steps_of_a_wide_range_are_equal_distances() {
        // Doubling sizes and a tenfold value each: both axes are logarithmic, so the points stand on a line.
        let picture = draw(&chart(&[(2.0, 1.0), (4.0, 10.0), (8.0, 100.0), (16.0, 1000.0)])).expect("a picture");
        let marks = marks(&picture);
        let step = |a: usize, b: usize| (marks[b].0 - marks[a].0, marks[b].1 - marks[a].1);
        let (first, last) = (step(0, 1), step(2, 3));
        assert!((first.0 - last.0).abs() < 1e-9 && (first.1 - last.1).abs() < 1e-9, "{marks:?}");
        assert!(first.0 > 0.0 && first.1 < 0.0, "larger is to the right and above: {marks:?}");
    }

    #[test]
    fn powers_are_straight_lines_however_little_they_spread() {
        let mut powers = chart(&[(2.0, 4.0), (3.0, 9.0), (4.0, 16.0)]);
        let bend = |chart: &Chart| {
            let marks = marks(&draw(chart).expect("a picture"));
            let slope = |a: usize, b: usize| (marks[b].1 - marks[a].1) / (marks[b].0 - marks[a].0);
            (slope(0, 1) - slope(1, 2)).abs()
        };
        assert!(bend(&powers) > 0.01);
        powers.spacing = Spacing::Powers;
        assert!(bend(&powers) < 1e-9);
    }

    #[test]
    fn between_numbers_no_line_leads_from_theory_to_theory() {
        let coloured = |spacing: Spacing| {
            let chart = Chart { spacing, ..chart(&[(0.0, 5.0), (1.0, 7.0)]) };
            let picture = draw(&chart).expect("a picture");
            let lines = picture.shapes.into_iter().filter_map(|shape| match shape {
                Shape::Line { points, colour, .. } if colour == SERIES[0] => Some(points),
                _ => None,
            });
            lines.collect::<Vec<_>>()
        };
        let level = coloured(Spacing::ByNumber);
        assert!(level.len() == 2 && level.iter().all(|points| points[0].1 == points[1].1), "{level:?}");
        assert_eq!(coloured(Spacing::ByMagnitude).len(), 1);
    }

    #[test]
    fn long_conditions_have_two_lines_and_lose_nothing() {
        let long = "d_k = 64 · n = m = 512 · normal entries · f64 · 20 trials · seed 7 · attn 0.1.0";
        let found = lines(long);
        assert!(found.len() == 2 && found.iter().all(|line| line.chars().count() <= LONGEST_LINE), "{found:?}");
        assert_eq!(found.join(" · "), long);
        assert_eq!((lines("n = 5"), lines("").len()), (vec!["n = 5".to_owned()], 0));
    }

    #[test]
    fn one_size_makes_no_picture() {
        assert!(draw(&chart(&[(2.0, 1.0), (2.0, 3.0)])).is_none());
        assert!(draw(&chart(&[])).is_none());
    }

    #[test]
    fn equal_values_have_an_axis_and_series_beyond_the_colours_are_counted() {
        let mut many = chart(&[(1.0, 5.0), (2.0, 5.0)]);
        many.series = vec![many.series[0].clone(); 9];
        let svg = draw(&many).expect("a picture").to_svg().expect("drawn");
        assert!(svg.contains("entropy (3 more series not drawn)"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
