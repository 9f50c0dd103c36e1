//! Costs for people: a table of the times, one of the exponents, one of what is only counted, the checks in a line.

use std::io::{self, Write};

use comfy_table::CellAlignment::{self, Left, Right};

use super::CostRow;

use crate::report::markdown::{self, Alignment, escape};
use crate::report::number::{significant, trimmed, with_interval};
use crate::report::row::Verdict;
use crate::report::table::{Colour, Column, Layout, lay_out, paragraph};

/// What stands around the tables.
#[derive(Clone, Debug, Default)]
pub struct Closing {
    /// What all rows share, in one line.
    pub heading: String,
    /// Sentences below the tables.
    pub remarks: Vec<String>,
}

type Heading = (&'static str, CellAlignment);
type Section = (Vec<Heading>, Vec<Vec<String>>);

/// Writes the rows as aligned text.
///
/// # Errors
/// Those of `output`.
pub fn write_table(rows: &[CostRow], closing: &Closing, layout: &Layout, mut output: impl Write) -> io::Result<()> {
    write!(output, "{}", paragraph(&closing.heading, layout.width))?;
    for (headings, cells) in sections(rows) {
        if cells.is_empty() {
            continue;
        }
        let mut columns: Vec<Column> = (headings.iter().enumerate())
            .map(|(index, &(heading, alignment))| Column {
                heading,
                alignment,
                cells: cells.iter().map(|row| row[index].clone()).collect(),
                given_up: None,
            })
            .collect();
        columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
        let mut lines = lay_out(&columns);
        // What is left out stands in CSV, JSON and Markdown.
        for heading in ["peak, materialised", "peak, streaming", "operations"] {
            if lines.iter().any(|line| line.chars().count() > layout.width) {
                columns.retain(|column| column.heading != heading);
                lines = lay_out(&columns);
            }
        }
        let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        for (index, line) in lines.iter().enumerate() {
            let gap = index > 1 && starts_group(&cells, index - 1);
            let before = if index == 0 || gap { "\n" } else { "" };
            writeln!(output, "{before}{}", coloured(line, layout.colour))?;
            if index == 0 {
                writeln!(output, "{}", "─".repeat(width))?;
            }
        }
    }
    writeln!(output)?;
    for line in checks(rows).lines() {
        writeln!(output, "{}", coloured(line, layout.colour))?;
    }
    for remark in &closing.remarks {
        write!(output, "\n{}", paragraph(remark, layout.width))?;
    }
    output.flush()
}

/// The line with what begins at its mark, the verdict, in colour.
fn coloured(line: &str, colour: Colour) -> String {
    let marks = [("✔ ", 32), ("✘ ", 31), ("? ", 33)];
    match marks.iter().find_map(|&(mark, code)| Some((line.find(mark)?, code))) {
        Some((at, code)) => format!("{}{}", &line[..at], colour.paint(code, &line[at..])),
        None => line.to_owned(),
    }
}

/// Whether a gap belongs before this line: its first cell is another than the one before, and either stands in several lines.
fn starts_group(cells: &[Vec<String>], index: usize) -> bool {
    let same =
        |one: usize, other: usize| cells.get(one).zip(cells.get(other)).is_some_and(|(one, other)| one[0] == other[0]);
    !same(index, index - 1) && (same(index, index + 1) || (index > 1 && same(index - 1, index - 2)))
}

/// Writes the rows as GitHub tables.
///
/// # Errors
/// Those of `output`.
pub fn write_markdown(rows: &[CostRow], closing: &Closing, mut output: impl Write) -> io::Result<()> {
    writeln!(output, "{}\n", escape(&closing.heading))?;
    for (headings, cells) in sections(rows) {
        let side = |alignment| if alignment == Right { Alignment::Right } else { Alignment::Left };
        let headings: Vec<(&str, Alignment)> =
            headings.iter().map(|&(heading, alignment)| (heading, side(alignment))).collect();
        let cells: Vec<Vec<String>> = cells.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        markdown::table(&headings, &cells, &mut output)?;
    }
    writeln!(output, "{}", checks(rows))?;
    for remark in &closing.remarks {
        writeln!(output, "\n{}", escape(remark))?;
    }
    output.flush()
}

fn sections(rows: &[CostRow]) -> [Section; 3] {
    [times(rows), counts(rows), growths(rows)]
}

fn name(row: &CostRow) -> String {
    match (row.stage.as_str(), row.kernel.as_deref()) {
        ("total", Some(kernel)) => format!("total, {kernel}"),
        (stage, _) => stage.to_owned(),
    }
}

fn size(row: &CostRow) -> String {
    match (row.n, row.m) {
        (Some(n), Some(m)) => format!("{n} × {m}"),
        _ => String::new(),
    }
}

fn whole(value: Option<u64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A large whole number: exact up to seven digits, then four significant ones with an exponent.
fn count(value: Option<u128>) -> String {
    value.map(|value| trimmed(&significant(value as f64, if value < 10_000_000 { 7 } else { 4 }))).unwrap_or_default()
}

/// One line a size: the total's operations, the times of the stages, and the peak memory of the kernels.
fn times(rows: &[CostRow]) -> Section {
    let timed: Vec<&CostRow> = rows.iter().filter(|row| row.seconds.is_some()).collect();
    // A cached token is asked for by one query; its line is that of the tokens it sees.
    let key = |row: &CostRow| (if row.stage == "cached_token" { row.m } else { row.n }, row.m, row.d_k);
    let (mut keys, mut names): (Vec<_>, Vec<String>) = (Vec::new(), Vec::new());
    for row in &timed {
        if !keys.contains(&key(row)) {
            keys.push(key(row));
        }
        if !names.contains(&name(row)) {
            names.push(name(row));
        }
    }
    let mut headings: Vec<Heading> = vec![("n × m", Right), ("d_k", Right), ("operations", Right)];
    headings.extend(names.iter().map(|name| (heading_of(name), Right)));
    headings.extend([("peak, materialised", Right), ("peak, streaming", Right)]);
    let line = |&(n, m, d_k): &(Option<u64>, Option<u64>, Option<u64>)| {
        let here = |row: &&&CostRow| key(row) == (n, m, d_k);
        let of = |wanted: &str| timed.iter().filter(here).find(|row| name(row) == wanted);
        let total = timed.iter().filter(here).find(|row| row.stage == "total");
        let mut line =
            vec![format!("{} × {}", whole(n), whole(m)), whole(d_k), count(total.and_then(|row| row.operations))];
        line.extend(names.iter().map(|name| {
            let time = |row: &&CostRow| Some(duration(row.seconds?, row.seconds_low, row.seconds_high));
            of(name).and_then(time).unwrap_or_default()
        }));
        let peak = |kernel: &str| {
            let row =
                timed.iter().filter(here).find(|row| row.kernel.as_deref() == Some(kernel) && row.bytes.is_some());
            row.and_then(|row| row.bytes).map(bytes).unwrap_or_default()
        };
        line.extend([peak("materialised"), peak("streaming")]);
        line
    };
    (headings, keys.iter().map(line).collect())
}

/// The heading of a stage's column.
fn heading_of(name: &str) -> &'static str {
    match name {
        "qk" => "qk",
        "scale_softmax" => "scale, softmax",
        "pv" => "pv",
        "total, materialised" => "all three",
        "total, streaming" => "streaming",
        "cached_token" => "token, cache",
        "recomputed_token" => "token, none",
        _ => "time",
    }
}

fn counts(rows: &[CostRow]) -> Section {
    let headings =
        vec![("counted", Left), ("n × m", Right), ("heads", Right), ("kv heads", Right), ("operations", Right)];
    let is_count = |row: &&CostRow| row.seconds.is_none() && row.difference.is_none() && row.exponent_of.is_none();
    let row = |row: &CostRow| vec![name(row), size(row), whole(row.heads), whole(row.kv_heads), count(row.operations)];
    (headings, rows.iter().filter(is_count).map(row).collect())
}

fn growths(rows: &[CostRow]) -> Section {
    let headings = vec![
        ("time of", Left),
        ("grows with", Left),
        ("exponent (95 %)", Right),
        ("expected", Right),
        ("sizes", Right),
        ("", Left),
    ];
    let row = |row: &CostRow| {
        vec![
            name(row),
            row.exponent_of.clone().unwrap_or_default(),
            row.exponent.map_or("not fitted".to_owned(), |exponent| {
                with_interval(exponent, row.exponent_low, row.exponent_high)
            }),
            row.exponent_expected.map(|expected| trimmed(&significant(expected, 4))).unwrap_or_default(),
            whole(row.sizes_fitted),
            match row.expected_inside {
                Some(true) => "✔ inside".to_owned(),
                Some(false) => "✘ outside".to_owned(),
                None if row.exponent_low.is_some() => "? limits too wide".to_owned(),
                None => "? too few sizes".to_owned(),
            },
        ]
    };
    (headings, rows.iter().filter(|row| row.exponent_of.is_some()).map(row).collect())
}

/// The checks in a sentence, and each that failed by name.
fn checks(rows: &[CostRow]) -> String {
    let checks: Vec<&CostRow> = rows.iter().filter(|row| row.difference.is_some() || row.bound.is_some()).collect();
    let failed: Vec<String> = (checks.iter())
        .filter(|row| row.verdict == Some(Verdict::Rejected))
        .map(|row| {
            let number = |value: Option<f64>| value.map_or("not a number".to_owned(), |value| significant(value, 3));
            let kernel = row.kernel.as_ref().map(|kernel| format!(" ({kernel})")).unwrap_or_default();
            format!(
                "✘ {}{kernel} at {}, d_k = {}: differs by {}, at most {}",
                row.stage,
                size(row),
                whole(row.d_k),
                number(row.difference),
                number(row.bound)
            )
        })
        .collect();
    let summary = format!("{} checks of counts and outputs: {} failed", checks.len(), failed.len());
    [vec![summary], failed].concat().join("\n")
}

/// A time in the unit that suits it, with the half-width of its limits in per cent: `12.1 ms ± 1 %`.
pub fn duration(seconds: f64, low: Option<f64>, high: Option<f64>) -> String {
    let (unit, factor) = match seconds {
        seconds if seconds < 1e-6 => ("ns", 1e9),
        seconds if seconds < 1e-3 => ("µs", 1e6),
        seconds if seconds < 1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    let text = format!("{} {unit}", significant(seconds * factor, 3));
    match (low, high) {
        (Some(low), Some(high)) => {
            let share = 50.0 * (high - low) / seconds;
            let share = if share < 1.0 { "<1".to_owned() } else { format!("{share:.0}") };
            format!("{text} ±{share} %")
        }
        _ => text,
    }
}

/// A number of bytes, in the unit that suits it (powers of 1000).
pub fn bytes(value: u64) -> String {
    let (unit, factor) = match value {
        0..1_000 => ("B", 1.0),
        1_000..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("{} {unit}", trimmed(&significant(value as f64 / factor, 3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<CostRow> {
        let stage = |stage: &str| CostRow {
            stage: stage.into(),
            n: Some(512),
            m: Some(512),
            d_k: Some(64),
            ..CostRow::default()
        };
        vec![
            CostRow {
                operations: Some(33_554_432),
                seconds: Some(0.0021),
                seconds_low: Some(0.0020),
                seconds_high: Some(0.0022),
                operations_per_second: Some(1.6e10),
                ..stage("qk")
            },
            CostRow { operations: Some(274_877_906_944), heads: Some(8), ..stage("fully_connected") },
            CostRow {
                exponent_of: Some("n".into()),
                exponent: Some(2.01),
                exponent_low: Some(1.96),
                exponent_high: Some(2.06),
                exponent_expected: Some(2.0),
                expected_inside: Some(true),
                sizes_fitted: Some(4),
                stage: "qk".into(),
                ..CostRow::default()
            },
            CostRow { difference: Some(2.0), bound: Some(0.0), verdict: Some(Verdict::Rejected), ..stage("counts") },
        ]
    }

    #[test]
    fn a_table_shows_times_counts_exponents_and_failed_checks() {
        let closing = Closing { heading: "f32".into(), remarks: vec!["A law.".into()] };
        let layout = Layout { width: 100, colour: Colour::Plain, false_alarm: None };
        let mut bytes = Vec::new();
        write_table(&rows(), &closing, &layout, &mut bytes).expect("a vector takes every byte");
        let text = String::from_utf8(bytes).expect("UTF-8");
        for part in ["2.10 ms ±5 %", "2.749e11", "2.010 ± 0.050", "✔ inside", "✘ counts at 512 × 512", "A law."]
        {
            assert!(text.contains(part), "'{part}' in\n{text}");
        }
        let mut bytes = Vec::new();
        write_markdown(&rows(), &closing, &mut bytes).expect("a vector takes every byte");
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert!(text.contains("| n × m | d_k | qk |") && text.contains("1 failed"), "{text}");
    }

    #[test]
    fn times_and_sizes_have_the_unit_that_suits_them() {
        assert_eq!(duration(2.5e-7, None, None), "250 ns");
        assert_eq!(duration(0.0123, Some(0.0121), Some(0.0125)), "12.3 ms ±2 %");
        assert_eq!(duration(3.0, Some(3.0), Some(3.0)), "3.00 s ±<1 %");
        assert_eq!([999, 1_500, 16_777_216, 2_000_000_000].map(bytes), ["999 B", "1.5 kB", "16.8 MB", "2 GB"]);
    }
}
