//! The table for people.

use std::fmt::Write as _;
use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};

pub use super::colour::Colour;
use super::number::{percent, probability, signed_percent, significant, trimmed, with_interval};
use super::row::{Row, TheoryKind, Verdict};
use super::summary::Summary;

/// How a table is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Columns of text that fit; wider tables give up, in this order: the verdict's word, p, the detectable deviation, the deviation.
    pub width: usize,
    /// Colour of the verdicts.
    pub colour: Colour,
    /// False-alarm rate of the whole run, for the closing line.
    pub false_alarm: Option<f64>,
}

impl Layout {
    /// For standard output: as wide as the terminal (100 where there is none), coloured if [`Colour::of_stdout`] says so.
    pub fn of_stdout(false_alarm: Option<f64>) -> Self {
        let width = console::Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns));
        Self { width, colour: Colour::of_stdout(), false_alarm }
    }
}

/// From this many parameter points on, one table with the parameters as columns replaces a block for each point.
const COMPACT_FROM: usize = 4;

/// Writes rows for people. What is the same in all rows stands in a heading line; below it a block for each parameter point, or one compact
/// table ordered by statistic for a long sweep; at the end a sentence that counts the verdicts.
///
/// Estimates are shown with their 95 % limits, rounded to the first two digits of the half-width; `≈` marks an approximate theory value and
/// `→` an asymptotic one; deviations are in per cent of theory, or of the statistic's natural scale where that is larger.
///
/// # Errors
/// Those of `output`.
pub fn write(rows: &[Row], layout: &Layout, mut output: impl Write) -> io::Result<()> {
    output.write_all(render(rows, layout).as_bytes())?;
    output.flush()
}

/// The text that [`write()`] writes.
pub fn render(rows: &[Row], layout: &Layout) -> String {
    let mut text = String::new();
    let all: Vec<&Row> = rows.iter().collect();
    let (varying, constant): (Vec<&Parameter>, Vec<&Parameter>) =
        PARAMETERS.iter().partition(|parameter| parameter.values(&all).len() > 1);
    let heading = phrases(&constant, &all);
    if !heading.is_empty() {
        text += &wrapped(&heading, layout.width);
        text.push('\n');
    }
    let points = points(rows, &varying);
    if points.len() >= COMPACT_FROM {
        let ordered = by_statistic(rows);
        text += &block(&ordered, &varying, layout);
        text.push('\n');
    } else {
        for point in &points {
            let heading = phrases(&varying, point);
            if !heading.is_empty() {
                text += &wrapped(&heading, layout.width);
            }
            text += &block(point, &[], layout);
            text.push('\n');
        }
    }
    if rows.iter().any(|row| row.min_detectable.is_some()) {
        text += &paragraph(LEGEND, layout.width);
    }
    text += &filled(&Summary::of(rows).sentence(layout.false_alarm), layout.width);
    for reason in reasons(rows) {
        text += &paragraph(&reason, layout.width);
    }
    text
}

/// What the per cents mean.
const LEGEND: &str = "% is of theory, or of the statistic's natural scale where that is larger; detects: the smallest \
                      deviation this run would have seen.";

/// Why rows are undecided, or rejected without a p-value: each reason once, with the statistics it holds for.
fn reasons(rows: &[Row]) -> Vec<String> {
    let mut reasons: Vec<((Verdict, String), Vec<&str>)> = Vec::new();
    let unexplained = |row: &&Row| match row.verdict {
        Verdict::Undecided => true,
        Verdict::Rejected => row.p_value.is_none(),
        Verdict::Upheld | Verdict::Measured => false,
    };
    for row in rows.iter().filter(unexplained) {
        let reason = match row.test.as_deref().and_then(|test| test.strip_prefix("none: ")) {
            Some(reason) => reason.to_string(),
            None => "too few trials to see what --detect asks for; leave --trials out to plan them".to_string(),
        };
        let reason = (row.verdict, reason);
        let position = reasons.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
            reasons.push((reason, Vec::new()));
            reasons.len() - 1
        });
        if !reasons[position].1.contains(&row.statistic.as_str()) {
            reasons[position].1.push(&row.statistic);
        }
    }
    let text = |((verdict, reason), statistics): ((Verdict, String), Vec<&str>)| {
        format!("{verdict} {}: {reason}", statistics.join(", "))
    };
    reasons.into_iter().map(text).collect()
}

/// The theory value for people: six significant digits, `≈` before an approximation and `→` before a limit.
pub(crate) fn theory_text(row: &Row) -> String {
    let Some(theory) = row.theory else {
        return String::new();
    };
    let number = trimmed(&significant(theory, 6));
    match row.theory_kind {
        Some(TheoryKind::Approximate) => format!("≈ {number}"),
        Some(TheoryKind::Asymptotic) => format!("→ {number}"),
        Some(TheoryKind::Exact) | None => number,
    }
}

/// What rows of one parameter point share.
struct Parameter {
    column: &'static str,
    value: fn(&Row) -> Option<String>,
    phrase: fn(&str) -> String,
    /// Trials and seed describe how a point was measured, not which point it is.
    part_of_point: bool,
}

const PARAMETERS: [Parameter; 7] = [
    Parameter {
        column: "d_k",
        value: |row| number(row.d_k),
        phrase: |value| format!("d_k = {value}"),
        part_of_point: true,
    },
    Parameter { column: "n × m", value: sizes, phrase: sizes_phrase, part_of_point: true },
    Parameter {
        column: "mask",
        value: |row| row.mask.clone(),
        phrase: |value| format!("mask {value}"),
        part_of_point: true,
    },
    Parameter {
        column: "entries",
        value: |row| row.entries.clone(),
        phrase: |value| format!("{value} entries"),
        part_of_point: true,
    },
    Parameter { column: "type", value: |row| row.precision.clone(), phrase: str::to_owned, part_of_point: true },
    Parameter { column: "trials", value: |row| number(row.trials), phrase: trials_phrase, part_of_point: false },
    Parameter {
        column: "seed",
        value: |row| number(row.seed),
        phrase: |value| format!("seed {value}"),
        part_of_point: false,
    },
];

impl Parameter {
    /// The different values in the order they come; rows without one do not count.
    fn values(&self, rows: &[&Row]) -> Vec<String> {
        let mut values = Vec::new();
        for value in rows.iter().filter_map(|row| (self.value)(row)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

fn number(value: Option<u64>) -> Option<String> {
    value.map(|number| number.to_string())
}

fn sizes(row: &Row) -> Option<String> {
    match (row.n_queries, row.n_keys) {
        (Some(queries), Some(keys)) => Some(format!("{queries} × {keys}")),
        (Some(queries), None) => Some(format!("{queries} × ?")),
        (None, Some(keys)) => Some(format!("? × {keys}")),
        (None, None) => None,
    }
}

fn sizes_phrase(value: &str) -> String {
    match value.split_once(" × ") {
        Some((queries, "?")) => format!("n = {queries}"),
        Some(("?", keys)) => format!("m = {keys}"),
        Some((queries, keys)) if queries == keys => format!("n = m = {queries}"),
        Some((queries, keys)) => format!("n = {queries} · m = {keys}"),
        None => value.to_owned(),
    }
}

fn trials_phrase(value: &str) -> String {
    format!("{value} {}", if value == "1" { "trial" } else { "trials" })
}

/// One phrase per parameter that has a value in these rows; several values are listed.
fn phrases(parameters: &[&Parameter], rows: &[&Row]) -> Vec<String> {
    let phrase = |parameter: &&Parameter| {
        let values = parameter.values(rows);
        (!values.is_empty()).then(|| (parameter.phrase)(&values.join("/")))
    };
    parameters.iter().filter_map(phrase).collect()
}

/// Phrases joined by middle dots, broken into lines that fit.
fn wrapped(phrases: &[String], width: usize) -> String {
    joined(phrases.iter().map(String::as_str), " · ", width)
}

/// A sentence broken between its words into lines that fit.
pub fn paragraph(sentence: &str, width: usize) -> String {
    joined(sentence.split(' '), " ", width)
}

/// A sentence broken between its clauses into lines that fit.
fn filled(sentence: &str, width: usize) -> String {
    let clauses = sentence.replace(" (", "\n(").replace("; ", ";\n");
    joined(clauses.lines(), " ", width)
}

fn joined<'a>(phrases: impl Iterator<Item = &'a str>, separator: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for phrase in phrases {
        match lines.last_mut() {
            Some(line) if line.chars().count() + separator.chars().count() + phrase.chars().count() <= width => {
                line.push_str(separator);
                line.push_str(phrase);
            }
            _ => lines.push(phrase.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Rows by parameter point, points and rows in the order they come.
fn points<'a>(rows: &'a [Row], varying: &[&Parameter]) -> Vec<Vec<&'a Row>> {
    let mut points: Vec<(Vec<Option<String>>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key: Vec<_> = varying
            .iter()
            .filter(|parameter| parameter.part_of_point)
            .map(|parameter| (parameter.value)(row))
            .collect();
        match points.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(row),
            None => points.push((key, vec![row])),
        }
    }
    points.into_iter().map(|(_, members)| members).collect()
}

/// Rows of one statistic together, and in it those of one scale, in the order each comes first: a sweep is read down a column.
fn by_statistic(rows: &[Row]) -> Vec<&Row> {
    let first = |same: &dyn Fn(&Row) -> bool| rows.iter().position(same);
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_cached_key(|row| {
        (first(&|other| other.statistic == row.statistic), first(&|other| other.scale == row.scale))
    });
    sorted
}

fn group(row: &Row) -> (&str, Option<&str>) {
    (&row.statistic, row.scale.as_deref())
}

/// The scales as a formula, as wide as a table can afford.
fn scale_text(row: &Row) -> String {
    match row.scale.as_deref() {
        Some("inv-sqrt-dk") => "1/√d_k".to_owned(),
        Some("inv-dk") => "1/d_k".to_owned(),
        Some(other) => other.to_owned(),
        None => String::new(),
    }
}

fn verdict_text(verdict: Verdict) -> String {
    format!("{} {verdict}", verdict.mark())
}

/// A column: its heading, its texts, and its place in the order of what is given up when the width does not suffice.
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) alignment: CellAlignment,
    pub(crate) cells: Vec<String>,
    pub(crate) given_up: Option<usize>,
}

fn columns(rows: &[&Row], parameters: &[&Parameter]) -> Vec<Column> {
    let compact = !parameters.is_empty();
    let column = |heading, alignment, given_up, text: &dyn Fn(usize, &Row) -> String| Column {
        heading,
        alignment,
        cells: rows.iter().enumerate().map(|(index, row)| text(index, row)).collect(),
        given_up,
    };
    // In a compact table a name stands once, at the head of its rows.
    let repeats = |index: usize| {
        compact
            && index > 0
            && group(rows[index]) == group(rows[index - 1])
            && rows[index].index == rows[index - 1].index
    };
    let (left, right) = (CellAlignment::Left, CellAlignment::Right);
    let optional = |value: Option<f64>, text: fn(f64) -> String| value.map(text).unwrap_or_default();
    let mut columns = vec![
        column("statistic", left, None, &|index, row| {
            if repeats(index) { String::new() } else { row.name() }
        }),
        column("scale", left, None, &|index, row| {
            if repeats(index) { String::new() } else { scale_text(row) }
        }),
    ];
    for parameter in parameters {
        columns.push(column(parameter.column, right, None, &|_, row| (parameter.value)(row).unwrap_or_default()));
    }
    columns.extend([
        column("estimate (95 %)", right, None, &|_, row| {
            row.estimate.map(|estimate| with_interval(estimate, row.ci_low, row.ci_high)).unwrap_or_default()
        }),
        column("theory", right, None, &|_, row| theory_text(row)),
        column("deviation", right, Some(4), &|_, row| optional(row.deviation, signed_percent)),
        column("detects", right, Some(3), &|_, row| optional(row.min_detectable, percent)),
        column("p", right, Some(2), &|_, row| optional(row.p_value, probability)),
        column("verdict", left, None, &|_, row| verdict_text(row.verdict)),
    ]);
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    columns
}

/// One table, narrowed step by step until it fits.
fn block(rows: &[&Row], parameters: &[&Parameter], layout: &Layout) -> String {
    let mut columns = columns(rows, parameters);
    let mut lines = lay_out(&columns);
    for step in 1..=4 {
        if lines.iter().all(|line| line.chars().count() <= layout.width) {
            break;
        }
        if step == 1 {
            if let Some(verdicts) = columns.last_mut() {
                verdicts.heading = "";
                verdicts.cells = rows.iter().map(|row| row.verdict.mark().to_string()).collect();
            }
        } else {
            columns.retain(|column| column.given_up != Some(step));
        }
        lines = lay_out(&columns);
    }
    finish(&lines, rows, !parameters.is_empty(), layout)
}

/// The lines of a table: the heading, then one per row. Nothing is wrapped, so a line is a row.
pub(crate) fn lay_out(columns: &[Column]) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| Cell::new(column.heading).set_alignment(column.alignment)));
    for index in 0..columns.first().map_or(0, |column| column.cells.len()) {
        table.add_row(
            columns.iter().map(|column| Cell::new(printable(&column.cells[index])).set_alignment(column.alignment)),
        );
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// A file name in a mask can hold line breaks and escapes: neither may reach the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Adds the rule below the heading, a gap between the groups of a compact table, and the colour. Escapes are put in after the
/// layout, which would count them as text.
fn finish(lines: &[String], rows: &[&Row], compact: bool, layout: &Layout) -> String {
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let Some((heading, body)) = lines.split_first() else {
        return text;
    };
    let _ = writeln!(text, "{heading}\n{}", "─".repeat(width));
    for (index, (line, row)) in body.iter().zip(rows).enumerate() {
        if compact && index > 0 && starts_block(rows, index) {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", coloured(line, row.verdict, layout.colour));
    }
    text
}

/// Whether a gap belongs before this row: another statistic, or another scale that has more than one row.
fn starts_block(rows: &[&Row], index: usize) -> bool {
    let (row, before) = (rows[index], rows[index - 1]);
    let several = rows.get(index + 1).is_some_and(|next| group(next) == group(row));
    row.statistic != before.statistic || (group(row) != group(before) && several)
}

/// The line with its verdict, which is what it ends with, in colour.
fn coloured(line: &str, verdict: Verdict, colour: Colour) -> String {
    let code = match verdict {
        Verdict::Measured => return line.to_owned(),
        Verdict::Upheld => 32,
        Verdict::Rejected => 31,
        Verdict::Undecided => 33,
    };
    match line.rfind(verdict.mark()) {
        Some(at) => format!("{}{}", &line[..at], colour.paint(code, &line[at..])),
        None => line.to_owned(),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
