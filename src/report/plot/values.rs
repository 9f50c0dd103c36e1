//! Values of any kind, one a line: what was measured beside what is expected, in their own unit.

use super::axis::Scale;
use super::palette::{BAND, FAINT, GRID, INK};
use super::picture::{Anchor, Picture};
use super::standing::Standing;
use crate::report::number::{significant, trimmed};
use crate::report::row::Verdict;

// As narrow as it can be read, since a page shrinks it to a phone; a label stands above its line.
const WIDTH: u32 = 560;
const LEFT: f64 = 20.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 44.0;
const STEP: f64 = 40.0;
/// From the top of a line to the middle of its label, and to its marks.
const LABEL: f64 = 11.0;
const MARK: f64 = 29.0;
/// Positive values that spread further than this are drawn on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 50.0;
/// More lines than this make a picture nobody reads.
const MOST: usize = 60;
/// A longer label is cut.
const LONGEST_LABEL: usize = 64;

/// A value and what it is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What it is of.
    pub label: String,
    /// What was measured.
    pub estimate: f64,
    /// Its 95 % limits.
    pub interval: Option<(f64, f64)>,
    /// What is expected, from and to; the same twice for one value.
    pub expected: Option<(f64, f64)>,
    /// What it amounts to.
    pub verdict: Verdict,
    /// The verdict in the subcommand's own word.
    pub word: String,
}

/// The picture, the first of the values if they are too many; None without a finite one, and of a single one beside nothing.
pub fn draw(title: &str, unit: &str, values: &[Value]) -> Option<Picture> {
    let finite: Vec<&Value> = values.iter().filter(|value| value.estimate.is_finite()).collect();
    let shown = &finite[..finite.len().min(MOST)];
    if let [lone] = shown
        && lone.expected.is_none()
    {
        return None;
    }
    let axis = scale(shown)?;
    let bottom = TOP + STEP * shown.len() as f64;
    let mut picture = Picture::new(WIDTH, (bottom + 62.0) as u32);
    let title = match shown.len() < finite.len() {
        true => format!("{title}, the first {} of {}", shown.len(), finite.len()),
        false => title.to_owned(),
    };
    picture.text((16.0, 22.0), title, 18.0, Anchor::Left, INK);
    for (index, value) in shown.iter().enumerate() {
        let (top, end) = (TOP + STEP * index as f64, TOP + STEP * (index + 1) as f64);
        if let Some((low, high)) = value.expected.filter(|(low, high)| low < high) {
            picture.rectangle((axis.at(low), top + MARK - 9.0), (axis.at(high), end - 2.0), BAND);
        }
    }
    for tick in axis.ticks(5) {
        let x = axis.at(tick);
        picture.line(&[(x, TOP), (x, bottom)], GRID, 1.0);
        picture.text((x, bottom + 14.0), trimmed(&significant(tick, 3)), 14.0, Anchor::Centre, INK);
    }
    picture.line(&[(LEFT, TOP), (LEFT, bottom), (RIGHT, bottom), (RIGHT, TOP), (LEFT, TOP)], FAINT, 1.0);
    // Only what is drawn.
    let has = |is: fn(&(f64, f64)) -> bool| shown.iter().filter_map(|value| value.expected.as_ref()).any(is);
    let expected = match (has(|(low, high)| low == high), has(|(low, high)| low < high)) {
        (true, true) => Some("lines and shades: expected"),
        (true, false) => Some("lines: expected"),
        (false, true) => Some("shades: expected"),
        (false, false) => None,
    };
    let bars = shown.iter().any(|value| value.interval.is_some()).then_some("bars: 95 % intervals");
    let unit = Some(unit).filter(|unit| !unit.is_empty());
    let parts = [unit, Some("points: measured"), expected, bars];
    let words = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    picture.text((0.5 * f64::from(WIDTH), bottom + 40.0), words, 14.0, Anchor::Centre, INK);
    for (index, value) in shown.iter().enumerate() {
        one(&mut picture, value, &axis, TOP + STEP * index as f64);
    }
    Some(picture)
}

fn one(picture: &mut Picture, value: &Value, axis: &Scale, top: f64) {
    let y = top + MARK;
    let standing = Standing::from(value.verdict);
    let colour = standing.colour();
    picture.text((LEFT + 6.0, top + LABEL), shortened(&value.label), 14.0, Anchor::Left, INK);
    picture.text((RIGHT + 20.0, y), value.verdict.mark(), 15.0, Anchor::Centre, colour);
    picture.text((RIGHT + 32.0, y), value.word.as_str(), 14.0, Anchor::Left, INK);
    if let Some((low, high)) = value.expected {
        for x in [low, high].map(|end| axis.at(end)) {
            picture.line(&[(x, y - 9.0), (x, y + 9.0)], FAINT, 2.0);
        }
    }
    if let Some((low, high)) = value.interval {
        picture.line(&[(axis.at(low), y), (axis.at(high), y)], colour, 2.0);
    }
    picture.mark((axis.at(value.estimate), y), standing.marker(), colour);
}

fn shortened(label: &str) -> String {
    match label.chars().count() > LONGEST_LABEL {
        true => label.chars().take(LONGEST_LABEL - 1).chain(['…']).collect(),
        false => label.to_owned(),
    }
}

/// The axis of all that is drawn; None without a finite value.
fn scale(values: &[&Value]) -> Option<Scale> {
    let ends = |value: &&Value| {
        let pairs = [value.interval, value.expected].into_iter().flatten().flat_map(|(low, high)| [low, high]);
        pairs.chain([value.estimate]).collect::<Vec<f64>>()
    };
    let all: Vec<f64> = values.iter().flat_map(ends).filter(|value| value.is_finite()).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A lower end of 0 is the edge of an axis of ratios.
    let positive = all.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let is_logarithmic = least >= 0.0 && most / positive >= LOGARITHMIC_FROM;
    let from = if is_logarithmic { positive } else { least };
    (!all.is_empty()).then(|| Scale::around((from, most), is_logarithmic, 0.05, (LEFT, RIGHT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::picture::Shape;

    fn value(estimate: f64, expected: (f64, f64)) -> Value {
        Value {
            label: "scale of head 3".into(),
            estimate,
            interval: None,
            expected: Some(expected),
            verdict: Verdict::Rejected,
            word: "FAIL".into(),
        }
    }

    fn places(picture: &Picture) -> (Vec<f64>, Vec<f64>) {
        let mark = |shape: &Shape| if let Shape::Mark { at, .. } = shape { Some(at.0) } else { None };
        let line = |shape: &Shape| match shape {
            Shape::Line { points, width, .. } if *width == 2.0 => Some(points[0].0),
            _ => None,
        };
        (picture.shapes.iter().filter_map(mark).collect(), picture.shapes.iter().filter_map(line).collect())
    }

    #[test]
    fn a_value_stands_where_its_expectation_stands_if_they_are_equal() {
        let picture = draw("t", "", &[value(0.125, (0.125, 0.125)), value(1.0, (0.125, 0.125))]).expect("a picture");
        let (marks, lines) = places(&picture);
        assert_eq!(marks[0], lines[0]);
        assert!(marks[1] > lines[2], "{marks:?} {lines:?}");
    }

    #[test]
    fn values_of_several_magnitudes_are_on_a_logarithmic_axis_that_zero_does_not_break() {
        let values = [0.01, 1.0, 100.0].map(|estimate| value(estimate, (0.0, 1.0)));
        let (marks, _) = places(&draw("t", "ratio", &values).expect("a picture"));
        assert!((marks[2] - marks[1] - (marks[1] - marks[0])).abs() < 1e-9, "{marks:?}");
    }

    #[test]
    fn the_words_below_name_what_is_drawn_and_nothing_else() {
        let words = |values: &[Value]| draw("t", "", values).expect("a picture").to_svg().expect("drawn");
        let lone = Value { expected: None, ..value(1.0, (0.0, 0.0)) };
        let svg = words(&[lone.clone(), lone.clone()]);
        assert!(svg.contains("\npoints: measured\n") && !svg.contains("expected"), "{svg}");
        assert!(words(&[value(1.0, (0.5, 0.5))]).contains("measured; lines: expected\n"));
        assert!(words(&[value(1.0, (0.5, 0.7))]).contains("measured; shades: expected\n"));
        let bar = Value { interval: Some((0.5, 1.5)), ..value(1.0, (0.5, 0.5)) };
        assert!(words(&[bar, value(1.0, (0.5, 0.7))]).contains("lines and shades: expected; bars: 95 % intervals\n"));
    }

    #[test]
    fn no_finite_value_makes_no_picture_and_long_labels_are_cut() {
        assert!(draw("t", "", &[value(f64::NAN, (0.0, 0.0))]).is_none());
        let lone = Value { expected: None, ..value(1.0, (0.0, 0.0)) };
        assert!(draw("t", "", std::slice::from_ref(&lone)).is_none());
        assert!(draw("t", "", &[lone.clone(), lone]).is_some());
        assert_eq!(shortened(&"x".repeat(100)).chars().count(), LONGEST_LABEL);
    }
}
