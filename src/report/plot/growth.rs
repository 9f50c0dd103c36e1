//! Times against n and against d_k, both logarithmic: points with their limits, the fitted line, and the expected slope beside.

use plotters::style::RGBColor;

use super::axis::{Axis, log_ticks};
use super::palette::{FAINT, GRID, INK, SERIES};
use super::picture::{Anchor, Dash, Marker, Picture};
use crate::report::cost::CostRow;
use crate::report::number::{significant, trimmed, with_interval};

const WIDTH: u32 = 800;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 390.0;
const LEFT: f64 = 82.0;
const RIGHT: f64 = 782.0;
/// Space between two panels, for the labels of the second.
const BETWEEN: f64 = 78.0;
const LINE_HEIGHT: f64 = 23.0;

/// A fitted line: seconds = e^intercept · x^exponent.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedLine {
    /// Stage, as in the rows.
    pub stage: String,
    /// Kernel, as in the rows.
    pub kernel: Option<String>,
    /// `n` or `d_k`.
    pub of: String,
    /// ln of the seconds at x = 1.
    pub intercept: f64,
    /// The exponent.
    pub exponent: f64,
    /// Smallest and largest size that was fitted.
    pub range: (f64, f64),
}

/// What is drawn in one colour: a stage of a kernel.
type Name = (String, Option<String>);

/// One sweep.
struct Panel<'a> {
    of: &'static str,
    rows: Vec<&'a CostRow>,
    start: f64,
    end: f64,
}

/// The picture, or nothing without two sizes in a sweep.
pub fn draw(rows: &[CostRow], lines: &[FittedLine]) -> Option<Picture> {
    let names = names(rows);
    let sweeps: Vec<(&'static str, Vec<&CostRow>)> = ["n", "d_k"]
        .into_iter()
        .map(|of| (of, sweep(rows, of)))
        .filter(|(of, rows)| sizes(rows, of).len() > 1)
        .collect();
    if sweeps.is_empty() {
        return None;
    }
    let height = BOTTOM + 66.0 + LINE_HEIGHT * (names.len() as f64 + 1.0) + 30.0;
    let mut picture = Picture::new(WIDTH, height as u32);
    picture.text((20.0, 22.0), "Time of attention by stage", 20.0, Anchor::Left, INK);
    picture.text((20.0, 45.0), conditions(rows), 14.0, Anchor::Left, FAINT);
    let width = (RIGHT - LEFT - BETWEEN * (sweeps.len() as f64 - 1.0)) / sweeps.len() as f64;
    for (index, (of, rows)) in sweeps.into_iter().enumerate() {
        let start = LEFT + index as f64 * (width + BETWEEN);
        panel(&mut picture, &Panel { of, rows, start, end: start + width }, lines, &names)?;
    }
    legend(&mut picture, rows, &names);
    Some(picture)
}

fn names(rows: &[CostRow]) -> Vec<Name> {
    let mut names = Vec::new();
    for row in rows.iter().filter(|row| positive(row.seconds).is_some()) {
        let name = (row.stage.clone(), row.kernel.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The measured rows of the sweep of one size: those at the largest other size.
fn sweep<'a>(rows: &'a [CostRow], of: &str) -> Vec<&'a CostRow> {
    let timed = || rows.iter().filter(|row| positive(row.seconds).is_some());
    let fixed = |row: &CostRow| if of == "n" { row.d_k } else { row.n };
    let largest = timed().filter_map(fixed).max();
    // A cached token is asked for by one query; what varies is the number of keys.
    timed().filter(|row| fixed(row) == largest || (of == "n" && row.stage == "cached_token")).collect()
}

fn size(row: &CostRow, of: &str) -> Option<f64> {
    let value = match (of, row.stage.as_str()) {
        ("n", "cached_token") => row.m,
        ("n", _) => row.n,
        _ => row.d_k,
    };
    value.map(|value| value as f64)
}

fn sizes(rows: &[&CostRow], of: &str) -> Vec<f64> {
    let mut sizes: Vec<f64> = rows.iter().filter_map(|row| size(row, of)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|number| number.is_finite() && *number > 0.0)
}

/// An axis for the common logarithms, with some room at both ends.
fn axis(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Option<Axis> {
    let (low, high) = values
        .map(f64::log10)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let margin = 0.06 * (high - low).max(0.3);
    (low.is_finite() && high.is_finite()).then_some(Axis { low: low - margin, high: high + margin, start, end })
}

fn panel(picture: &mut Picture, panel: &Panel, lines: &[FittedLine], names: &[Name]) -> Option<()> {
    let sizes = sizes(&panel.rows, panel.of);
    let horizontal = axis(sizes.iter().copied(), panel.start, panel.end)?;
    let limits = panel.rows.iter().flat_map(|row| [row.seconds, row.seconds_low, row.seconds_high]);
    let vertical = axis(limits.filter_map(positive), BOTTOM, TOP)?;
    for tick in log_ticks(10f64.powf(vertical.low), 10f64.powf(vertical.high)) {
        let y = vertical.at(tick.log10());
        picture.line(&[(panel.start, y), (panel.end, y)], GRID, 1.0);
        picture.text((panel.start - 7.0, y), time_text(tick), 14.0, Anchor::Right, INK);
    }
    for &size in sizes.iter().step_by(sizes.len().div_ceil(7)) {
        let x = horizontal.at(size.log10());
        picture.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0);
        picture.text((x, BOTTOM + 15.0), size.to_string(), 14.0, Anchor::Centre, INK);
    }
    let border = [(panel.start, TOP), (panel.start, BOTTOM), (panel.end, BOTTOM), (panel.end, TOP), (panel.start, TOP)];
    picture.line(&border, FAINT, 1.0);
    let title = if panel.of == "n" { "n, queries" } else { "d_k, width of keys" };
    picture.text((0.5 * (panel.start + panel.end), BOTTOM + 38.0), title, 15.0, Anchor::Centre, INK);
    for (index, name) in names.iter().enumerate() {
        let of_name = |stage: &String, kernel: &Option<String>| *stage == name.0 && *kernel == name.1;
        let place = |x: f64, seconds: f64| (horizontal.clamped(x.log10()), vertical.clamped(seconds.log10()));
        for line in lines.iter().filter(|line| line.of == panel.of && of_name(&line.stage, &line.kernel)) {
            let value = |x: f64| (line.intercept + line.exponent * x.ln()).exp();
            let (low, high) = line.range;
            picture.dashed(&[place(low, value(low)), place(high, value(high))], colour(index), 2.0, Dash::of(index));
        }
        for row in panel.rows.iter().filter(|row| of_name(&row.stage, &row.kernel)) {
            let (Some(x), Some(seconds)) = (size(row, panel.of), positive(row.seconds)) else { continue };
            if let (Some(low), Some(high)) = (positive(row.seconds_low), positive(row.seconds_high)) {
                let ends = [place(x, low), place(x, high)];
                picture.line(&ends, colour(index), 1.5);
                ends.iter().for_each(|&(x, y)| picture.line(&[(x - 4.0, y), (x + 4.0, y)], colour(index), 1.5));
            }
            picture.mark(place(x, seconds), Marker::of(index), colour(index));
        }
    }
    Some(())
}

fn colour(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

fn time_text(seconds: f64) -> String {
    let (unit, factor) = match seconds {
        seconds if seconds < 0.999_999e-6 => ("ns", 1e9),
        seconds if seconds < 0.999_999e-3 => ("µs", 1e6),
        seconds if seconds < 0.999_999 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    format!("{} {unit}", trimmed(&significant(seconds * factor, 1)))
}

/// What the rows share.
fn conditions(rows: &[CostRow]) -> String {
    let Some(row) = rows.iter().find(|row| row.seconds.is_some()) else { return String::new() };
    let largest = |of: fn(&CostRow) -> Option<u64>| rows.iter().filter_map(of).max().unwrap_or(0);
    let threads = row.threads.unwrap_or(1);
    let mask = row.mask.as_ref().map(|mask| format!(" · mask {mask}")).unwrap_or_default();
    format!(
        "against n at d_k = {}, against d_k at n = {}{mask} · {} · {threads} thread{} · attn {}",
        largest(|row| row.d_k),
        largest(|row| row.n),
        row.precision.as_deref().unwrap_or(""),
        if threads == 1 { "" } else { "s" },
        row.version
    )
}

/// A line for each stage: its exponents with their limits, and the expected ones.
fn legend(picture: &mut Picture, rows: &[CostRow], names: &[Name]) {
    let columns = [LEFT - 10.0, 300.0, 560.0];
    let y = |line: usize| BOTTOM + 66.0 + LINE_HEIGHT * line as f64;
    picture.text((columns[1], y(0)), "exponent in n (expected)", 14.0, Anchor::Left, FAINT);
    picture.text((columns[2], y(0)), "exponent in d_k (expected)", 14.0, Anchor::Left, FAINT);
    for (index, name) in names.iter().enumerate() {
        let y = y(index + 1);
        picture.sample((columns[0] - 26.0, y), index, colour(index));
        let text = match name {
            (stage, Some(kernel)) if stage == "total" => format!("total, {kernel}"),
            (stage, _) => stage.clone(),
        };
        picture.text((columns[0], y), text, 15.0, Anchor::Left, INK);
        for (of, x) in [("n", columns[1]), ("d_k", columns[2])] {
            let fitted = rows
                .iter()
                .find(|row| row.exponent_of.as_deref() == Some(of) && (&row.stage, &row.kernel) == (&name.0, &name.1));
            let Some((row, exponent)) = fitted.and_then(|row| Some((row, row.exponent?))) else { continue };
            let mark = match row.expected_inside {
                Some(true) => " ✔",
                Some(false) => " ✘",
                None => " ?",
            };
            let expected = row.exponent_expected.map(|expected| trimmed(&significant(expected, 3))).unwrap_or_default();
            let text = format!("{} ({expected}){mark}", with_interval(exponent, row.exponent_low, row.exponent_high));
            picture.text((x, y), text, 15.0, Anchor::Left, INK);
        }
    }
    let words = "medians with 95 % limits; lines: fits to the time less its overhead, where the work dominates";
    picture.text((20.0, y(names.len() + 1) + 8.0), words, 14.0, Anchor::Left, FAINT);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<CostRow> {
        let timed = |n: u64, d_k: u64, seconds: f64| CostRow {
            stage: "qk".into(),
            kernel: Some("materialised".into()),
            n: Some(n),
            m: Some(n),
            d_k: Some(d_k),
            seconds: Some(seconds),
            seconds_low: Some(0.9 * seconds),
            seconds_high: Some(1.1 * seconds),
            ..CostRow::default()
        };
        vec![
            timed(64, 32, 1e-5),
            timed(128, 32, 4e-5),
            timed(128, 16, 2e-5),
            CostRow {
                stage: "qk".into(),
                kernel: Some("materialised".into()),
                exponent_of: Some("n".into()),
                exponent: Some(2.03),
                exponent_low: Some(1.98),
                exponent_high: Some(2.08),
                exponent_expected: Some(2.0),
                expected_inside: Some(true),
                ..CostRow::default()
            },
        ]
    }

    #[test]
    fn both_sweeps_and_the_exponents_are_drawn() {
        let line = FittedLine {
            stage: "qk".into(),
            kernel: Some("materialised".into()),
            of: "n".into(),
            intercept: -19.0,
            exponent: 2.03,
            range: (64.0, 128.0),
        };
        let text = draw(&rows(), &[line]).expect("a picture").to_svg().expect("drawn");
        for part in ["n, queries", "d_k, width of keys", "2.030 ± 0.050 (2) ✔", "qk", "20 µs"] {
            assert!(text.contains(part), "'{part}'");
        }
    }

    #[test]
    fn a_single_size_cannot_be_drawn() {
        assert!(draw(&rows()[..1], &[]).is_none());
        assert!(draw(&[], &[]).is_none());
    }
}
