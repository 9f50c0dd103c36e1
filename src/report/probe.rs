//! The judgement of a probe as rows: table, CSV, JSON, Markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::json::Run;
use super::markdown::cell;
use super::number::{exact_or_empty, significant};
use super::table::{Colour, Layout, paragraph};
use super::{Format, Record, csv, json};

/// A capability (then `case` is empty) or one of its cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeRow {
    /// Name of the capability.
    pub capability: String,
    /// Name of the case; empty for the capability as a whole.
    pub case: String,
    /// `right`, `wrong`, `unsupported`, `failed` or `nondeterministic`.
    pub verdict: String,
    /// The array that decides: `o`, `weights`, `lse`, `dq`, `dk`, `dv`.
    pub array: String,
    /// Its largest error; missing where it is infinite.
    pub error: Option<f64>,
    /// The largest error of a sound implementation.
    pub bound: Option<f64>,
    /// The error in units of that of the same-precision definition (or of its rounding floor); for a capability the largest.
    pub ratio: Option<f64>,
    /// The largest ratio of a sound implementation.
    pub multiple: Option<f64>,
    /// The error of the definition computed in the same precision.
    pub definition_error: Option<f64>,
    /// Name of the cause.
    pub cause: String,
    /// In words.
    pub explanation: String,
    /// Version of the program.
    pub version: String,
}

impl Record for ProbeRow {
    const COLUMNS: &'static [&'static str] = &[
        "capability",
        "case",
        "verdict",
        "array",
        "error",
        "bound",
        "ratio",
        "multiple",
        "definition_error",
        "cause",
        "explanation",
        "version",
    ];

    fn fields(&self) -> Vec<String> {
        vec![
            self.capability.clone(),
            self.case.clone(),
            self.verdict.clone(),
            self.array.clone(),
            exact_or_empty(self.error),
            exact_or_empty(self.bound),
            exact_or_empty(self.ratio),
            exact_or_empty(self.multiple),
            exact_or_empty(self.definition_error),
            self.cause.clone(),
            self.explanation.clone(),
            self.version.clone(),
        ]
    }
}

/// Writes a judgement; `remarks` of `run` stand above the table.
///
/// # Errors
/// Those of `output`, with their kind.
pub fn write(format: Format, run: &Run, rows: &[ProbeRow], layout: &Layout, mut output: impl Write) -> io::Result<()> {
    match format {
        Format::Csv => csv::write(rows, output),
        Format::Json => json::write(run, rows, output),
        Format::Table => output.write_all(table(&run.remarks, rows, layout).as_bytes()),
        Format::Markdown => output.write_all(markdown(rows).as_bytes()),
    }
}

/// Cases that are named of a cause; the rest are counted.
const SHOWN_CASES: usize = 6;

fn table(remarks: &[String], rows: &[ProbeRow], layout: &Layout) -> String {
    let mut text = String::new();
    for remark in remarks {
        let _ = writeln!(text, "{}", paragraph(remark, layout.width).trim_end());
    }
    text.push('\n');
    let capabilities: Vec<&ProbeRow> = rows.iter().filter(|row| row.case.is_empty()).collect();
    let cases_of =
        |name: &str| rows.iter().filter(|row| !row.case.is_empty() && row.capability == name).collect::<Vec<_>>();
    let _ = writeln!(text, "{:<20} {:>7} {:>9}  verdict", "capability", "right", "ratio");
    let _ = writeln!(text, "{}", "─".repeat(layout.width.clamp(48, 100)));
    for row in &capabilities {
        let cases = cases_of(&row.capability);
        let right = cases.iter().filter(|case| case.verdict == "right").count();
        let count = format!("{right}/{}", cases.len());
        let ratio = row.ratio.map_or(String::new(), |ratio| significant(ratio, 2));
        let (mark, verdict) = coloured(&row.verdict, layout.colour);
        let line = format!("{:<20} {count:>7} {ratio:>9}  ", row.capability);
        let words = if row.explanation.is_empty() { String::new() } else { format!(": {}", row.explanation) };
        let used = line.chars().count();
        let body = paragraph(&format!("{mark} {}{words}", row.verdict), layout.width.saturating_sub(used).max(30));
        for (index, part) in body.lines().enumerate() {
            let part = if index == 0 {
                part.replacen(&format!("{mark} {}", row.verdict), &verdict, 1)
            } else {
                part.to_string()
            };
            let start = if index == 0 { line.clone() } else { " ".repeat(used) };
            let _ = writeln!(text, "{start}{part}");
        }
    }
    push_problems(&mut text, rows, layout);
    let count = |verdict: &str| rows.iter().filter(|row| !row.case.is_empty() && row.verdict == verdict).count();
    let multiple = rows.iter().find_map(|row| row.multiple).map_or(String::new(), |multiple| {
        format!(
            "ratio: the largest error in units of that of the definition computed in the same type; up to {} is right.",
            significant(multiple, 2).trim_end_matches(".0")
        )
    });
    text.push('\n');
    let _ = writeln!(text, "{}", paragraph(&multiple, layout.width).trim_end());
    let _ = writeln!(
        text,
        "{} right, {} wrong, {} failed, {} nondeterministic, {} unsupported of {} cases",
        count("right"),
        count("wrong"),
        count("failed"),
        count("nondeterministic"),
        count("unsupported"),
        rows.iter().filter(|row| !row.case.is_empty()).count()
    );
    text
}

/// A paragraph for each cause, with the cases that show it, then those that failed.
fn push_problems(text: &mut String, rows: &[ProbeRow], layout: &Layout) {
    let troubled = |row: &&ProbeRow| !row.case.is_empty() && !matches!(row.verdict.as_str(), "right" | "unsupported");
    let mut groups: Vec<(String, Vec<&ProbeRow>)> = Vec::new();
    for row in rows.iter().filter(troubled) {
        let key =
            if row.cause.is_empty() { format!("{}: {}", row.verdict, row.explanation) } else { row.cause.clone() };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    for (key, group) in groups {
        text.push('\n');
        let first = group.iter().find(|row| !row.explanation.starts_with("not told")).unwrap_or(&group[0]);
        let head = if first.cause.is_empty() { key } else { format!("{key}: {}", first.explanation) };
        let (mark, _) = coloured(&first.verdict, layout.colour);
        let _ = writeln!(text, "{}", paragraph(&format!("{mark} {head}"), layout.width).trim_end());
        let mut names: Vec<&str> = group.iter().take(SHOWN_CASES).map(|row| row.case.as_str()).collect();
        let more = group.len().saturating_sub(SHOWN_CASES);
        let rest = format!("{more} more");
        if more > 0 {
            names.push(&rest);
        }
        let noun = if group.len() == 1 { "case" } else { "cases" };
        let line = format!("{} {noun}: {}", group.len(), names.join(", "));
        for part in paragraph(&line, layout.width.saturating_sub(2)).lines() {
            let _ = writeln!(text, "  {part}");
        }
    }
}

fn coloured(verdict: &str, colour: Colour) -> (&'static str, String) {
    let (mark, code) = match verdict {
        "right" => ("✔", 32),
        "wrong" | "failed" => ("✘", 31),
        "nondeterministic" => ("≠", 33),
        _ => ("–", 33),
    };
    let shown = format!("{mark} {verdict}");
    (mark, colour.paint(code, &shown))
}

fn markdown(rows: &[ProbeRow]) -> String {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| significant(value, 3));
    let mut text = String::from(
        "| capability | case | verdict | array | error | bound | ratio | cause | explanation |\n|---|---|---|---|---:|---:|---:|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.capability,
            row.case,
            row.verdict,
            row.array,
            number(row.error),
            number(row.bound),
            number(row.ratio),
            row.cause,
            cell(&row.explanation)
        );
    }
    text
}
