//! What an audit found, head by head: the scale the weights show, entropy and largest weight beside those of independent entries, and
//! which check says what of which head.

use super::audit_columns::{Columns, Unit};
use super::axis::{Axis, linear_ticks, log_ticks};
use super::indexed::digits;
use super::palette::{BLUE, FAINT, GRID, INK};
use super::picture::{Anchor, Marker, Picture, width_of};
use super::standing::{Remark, Standing, key, remarks_height, shortened, write_remarks};
use crate::report::findings::{FindingRow, HeadRow};
use crate::report::number::{significant, trimmed};

const WIDTH: u32 = 800;
const LEFT: f64 = 132.0;
const RIGHT: f64 = 786.0;
const TOP: f64 = 66.0;
/// Height of a panel's frame, and the space below for the next one's title.
const PANEL: f64 = 92.0;
const BETWEEN: f64 = 34.0;
/// Height of a line of the grid of checks.
const LINE: f64 = 20.0;
/// Standard errors on each side of a fitted scale.
const ERRORS: f64 = 2.0;
/// Positive values that spread further than this are drawn on a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 5.0;
/// A scale within this of the declared one is not magnified further.
const SMALLEST_REACH: f64 = 0.01;

/// The picture of an audit, or nothing without a finding. `conditions` stand below the title.
///
/// A column is a head; of more heads in several layers or files than can be told apart, a column is a layer, with a mark for each of its
/// heads. Batch entries share a column. Without `heads` (a comparison of two dumps) only the checks are drawn.
pub fn draw(findings: &[FindingRow], heads: &[HeadRow], conditions: &str) -> Option<Picture> {
    if findings.is_empty() {
        return None;
    }
    let columns = Columns::of(findings, heads, LEFT, RIGHT);
    let panels: Vec<Panel> = [scale_panel(heads), entropy_panel(heads), largest_panel(heads)]
        .into_iter()
        .filter(|panel| panel.points.iter().any(|point| point.value.is_some()))
        .collect();
    let lines = lines(findings);
    let remarks = remarks(findings);
    let grid_top = TOP + (PANEL + BETWEEN) * panels.len() as f64 + 22.0;
    let bottom = grid_top + LINE * lines.len() as f64;
    let after = bottom + 78.0;
    let height = after + remarks_height(&remarks) + if remarks.is_empty() { 0.0 } else { 14.0 };
    let mut picture = Picture::new(WIDTH, height as u32);
    picture.text((20.0, 22.0), title(findings), 20.0, Anchor::Left, INK);
    picture.text((20.0, 45.0), shortened(conditions, 760.0, 14.0), 14.0, Anchor::Left, FAINT);
    for (index, panel) in panels.iter().enumerate() {
        let top = TOP + 22.0 + (PANEL + BETWEEN) * index as f64;
        panel.draw(&mut picture, &columns, heads, top);
    }
    grid(&mut picture, &columns, &lines, grid_top);
    columns.label(&mut picture, bottom);
    let names =
        [(Standing::Bad, "FAIL"), (Standing::Open, "WARN"), (Standing::Noted, "CANNOT TELL"), (Standing::Good, "PASS")];
    let present = |wanted: Standing| findings.iter().any(|finding| standing(&finding.verdict) == wanted);
    let names: Vec<(Standing, String)> = (names.into_iter())
        .filter(|(standing, _)| present(*standing))
        .map(|(standing, name)| (standing, name.to_owned()))
        .collect();
    key(&mut picture, (28.0, bottom + 60.0), &names);
    write_remarks(&mut picture, &remarks, after);
    Some(picture)
}

fn standing(verdict: &str) -> Standing {
    match verdict {
        "PASS" => Standing::Good,
        "WARN" => Standing::Open,
        "CANNOT TELL" => Standing::Noted,
        _ => Standing::Bad,
    }
}

fn title(findings: &[FindingRow]) -> String {
    let count = |verdict: &str| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let parts: Vec<String> = ["FAIL", "WARN", "CANNOT TELL", "PASS"]
        .into_iter()
        .filter(|verdict| count(verdict) > 0)
        .map(|verdict| format!("{} {verdict}", count(verdict)))
        .collect();
    format!("attn audit: {}", parts.join(", "))
}

/// A number of a head, with its interval and what it is held against.
struct Point {
    value: Option<f64>,
    interval: Option<(f64, f64)>,
    reference: Option<f64>,
}

/// One number of every head.
struct Panel {
    title: &'static str,
    reference: &'static str,
    points: Vec<Point>,
    axis: PanelAxis,
}

/// The axis of values, its ticks with their labels.
struct PanelAxis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

fn scale_panel(heads: &[HeadRow]) -> Panel {
    let point = |head: &HeadRow| {
        let relative = |value: f64| Some(value / head.expected_scale).filter(|value| value.is_finite());
        let fitted = head.fitted_scale.filter(|value| value.is_finite());
        let reach = head.fitted_scale_error.filter(|error| error.is_finite()).map(|error| ERRORS * error);
        let ends = |(fitted, reach): (f64, f64)| {
            let (one, other) = (relative(fitted - reach)?, relative(fitted + reach)?);
            Some((one.min(other), one.max(other)))
        };
        Point { value: fitted.and_then(relative), interval: fitted.zip(reach).and_then(ends), reference: Some(1.0) }
    };
    let points: Vec<Point> = heads.iter().map(point).collect();
    let values = || points.iter().filter_map(|point| point.value).chain([1.0]);
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let axis = if low > 0.0 && high / low > LOGARITHMIC_FROM {
        PanelAxis { low: low.log10() - 0.15, high: high.log10() + 0.15, is_logarithmic: true }
    } else {
        let margin = (0.15 * (high - low)).max(SMALLEST_REACH);
        PanelAxis { low: low - margin, high: high + margin, is_logarithmic: false }
    };
    Panel {
        title: "scale that the weights show ÷ declared one, ± 2 standard errors",
        reference: "declared",
        points,
        axis,
    }
}

/// A share from 0 to 1.
fn share(title: &'static str, points: Vec<Point>) -> Panel {
    let axis = PanelAxis { low: 0.0, high: 1.05, is_logarithmic: false };
    Panel { title, reference: "independent entries", points, axis }
}

fn entropy_panel(heads: &[HeadRow]) -> Panel {
    let point = |head: &HeadRow| Point {
        value: head.relative_entropy.filter(|value| value.is_finite()),
        interval: None,
        reference: head.control_relative_entropy.filter(|value| value.is_finite()),
    };
    share("entropy of a row ÷ ln(visible keys), mean", heads.iter().map(point).collect())
}

fn largest_panel(heads: &[HeadRow]) -> Panel {
    let point = |head: &HeadRow| Point {
        value: head.mean_largest_weight.filter(|value| value.is_finite()),
        interval: None,
        reference: head.control_largest_weight.filter(|value| value.is_finite()),
    };
    share("largest weight of a row, mean", heads.iter().map(point).collect())
}

impl Panel {
    fn draw(&self, picture: &mut Picture, columns: &Columns, heads: &[HeadRow], top: f64) {
        let bottom = top + PANEL;
        let axis = Axis { low: self.axis.low, high: self.axis.high, start: bottom, end: top };
        let place = |value: f64| match self.axis.is_logarithmic {
            true => axis.clamped(value.max(f64::MIN_POSITIVE).log10()),
            false => axis.clamped(value),
        };
        picture.text((LEFT, top - 12.0), self.title, 14.0, Anchor::Left, INK);
        let (x, words) = (RIGHT - width_of(self.reference, 14.0), self.reference);
        picture.sized_mark((x - 12.0, top - 12.0), Marker::Bar, FAINT, 1.0);
        picture.text((x, top - 12.0), words, 14.0, Anchor::Left, FAINT);
        let ticks = match self.axis.is_logarithmic {
            true => log_ticks(10f64.powf(axis.low), 10f64.powf(axis.high)),
            false => linear_ticks(axis.low, axis.high, 4),
        };
        let digits = if self.axis.is_logarithmic { 2 } else { digits(&ticks) };
        for tick in ticks {
            picture.line(&[(LEFT, place(tick)), (RIGHT, place(tick))], GRID, 1.0);
            let text = trimmed(&significant(tick, digits));
            picture.text((LEFT - 8.0, place(tick)), text, 13.0, Anchor::Right, INK);
        }
        columns.separate(picture, top, bottom);
        picture.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom), (RIGHT, top), (LEFT, top)], FAINT, 1.0);
        let size = columns.head_mark_size();
        for (head, point) in heads.iter().zip(&self.points) {
            let Some(x) = columns.of_head(head) else { continue };
            if let Some(reference) = point.reference {
                let reach = columns.head_reach();
                picture.line(&[(x - reach, place(reference)), (x + reach, place(reference))], FAINT, 2.0);
            }
        }
        for (head, point) in heads.iter().zip(&self.points) {
            let (Some(x), Some(value)) = (columns.of_head(head), point.value) else { continue };
            if let Some((low, high)) = point.interval {
                picture.line(&[(x, place(low)), (x, place(high))], BLUE, 2.0);
            }
            picture.sized_mark((x, place(value)), Marker::Circle, BLUE, size);
        }
    }
}

/// One check and what it says of each place.
struct Line<'a> {
    check: &'a str,
    findings: Vec<&'a FindingRow>,
}

/// Checks in the order in which they are found, the worst first.
fn lines(findings: &[FindingRow]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = Vec::new();
    for finding in findings {
        match lines.iter_mut().find(|line| line.check == finding.check) {
            Some(line) => line.findings.push(finding),
            None => lines.push(Line { check: &finding.check, findings: vec![finding] }),
        }
    }
    let worst = |line: &Line| line.findings.iter().map(|finding| standing(&finding.verdict)).max();
    lines.sort_by_key(|line| std::cmp::Reverse(worst(line)));
    lines
}

fn grid(picture: &mut Picture, columns: &Columns, lines: &[Line], top: f64) {
    let bottom = top + LINE * lines.len() as f64;
    let words = match columns.unit() {
        Unit::Head => "verdict of each check, by head",
        Unit::Group => "worst verdict of each check, by layer",
        Unit::Whole => "verdict of each check",
    };
    picture.text((LEFT, top - 12.0), words, 14.0, Anchor::Left, INK);
    for (index, line) in lines.iter().enumerate() {
        let y = top + LINE * (index as f64 + 0.5);
        picture.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
        picture.text((LEFT - 8.0, y), line.check, 13.0, Anchor::Right, INK);
    }
    columns.separate(picture, top, bottom);
    picture.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom), (RIGHT, top), (LEFT, top)], FAINT, 1.0);
    for (index, line) in lines.iter().enumerate() {
        let y = top + LINE * (index as f64 + 0.5);
        for (x, found) in columns.worst(line.findings.iter().map(|finding| (*finding, standing(&finding.verdict)))) {
            picture.sized_mark((x, y), found.marker(), found.colour(), columns.mark_size());
        }
    }
}

/// What is wrong, and what may be, in words.
fn remarks(findings: &[FindingRow]) -> Vec<Remark> {
    let of = |wanted: Standing| {
        findings.iter().filter(move |finding| standing(&finding.verdict) == wanted).map(move |finding| {
            let name = if finding.group.is_empty() { String::new() } else { format!("{}, ", finding.group) };
            let text =
                format!("{} {}: {name}{}: {}", finding.verdict, finding.check, finding.place, finding.explanation);
            Remark { standing: wanted, text }
        })
    };
    of(Standing::Bad).chain(of(Standing::Open)).collect()
}
