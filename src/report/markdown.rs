//! A GitHub table: the rows for pull requests and READMEs.

use std::io::{self, Write};

use super::number::{probability, signed_percent, with_interval};
use super::row::{Row, Verdict};
use super::summary::Summary;
use super::table::theory_text;

/// Columns of which a row has a text only in some runs: left out where every row is empty there.
type Column = (&'static str, Alignment, fn(&Row) -> String);

/// On which side the texts of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    Left,
    Right,
}

const TABLE: [Column; 15] = [
    ("statistic", Alignment::Left, |row| escape(&row.name())),
    ("scale", Alignment::Left, |row| words(&row.scale)),
    ("mask", Alignment::Left, |row| words(&row.mask)),
    ("d_k", Alignment::Right, |row| count(row.d_k)),
    ("n_queries", Alignment::Right, |row| count(row.n_queries)),
    ("n_keys", Alignment::Right, |row| count(row.n_keys)),
    ("entries", Alignment::Left, |row| words(&row.entries)),
    ("precision", Alignment::Left, |row| words(&row.precision)),
    ("trials", Alignment::Right, |row| count(row.trials)),
    ("estimate (95 %)", Alignment::Right, |row| {
        row.estimate.map(|estimate| with_interval(estimate, row.ci_low, row.ci_high)).unwrap_or_default()
    }),
    ("theory", Alignment::Right, theory_text),
    ("deviation", Alignment::Right, |row| row.deviation.map(signed_percent).unwrap_or_default()),
    ("detects", Alignment::Right, |row| row.min_detectable.map(super::number::percent).unwrap_or_default()),
    ("p", Alignment::Right, |row| row.p_value.map(probability).unwrap_or_default()),
    ("verdict", Alignment::Left, |row| match row.verdict {
        // Rejected rows must stand out where there is no colour.
        Verdict::Rejected => format!("{} **{}**", row.verdict.mark(), row.verdict),
        verdict => format!("{} {verdict}", verdict.mark()),
    }),
];

/// Names come from the command line, file names among them.
fn words(value: &Option<String>) -> String {
    value.as_deref().map(escape).unwrap_or_default()
}

fn count(value: Option<u64>) -> String {
    value.map(|number| number.to_string()).unwrap_or_default()
}

/// Writes the rows as one table and the closing line of [`Summary`] below it. Columns in which every row is empty are left out;
/// numbers are rounded as in the table for people (the exact ones are in CSV and JSON).
///
/// # Errors
/// Those of `output`.
pub fn write(rows: &[Row], false_alarm: Option<f64>, mut output: impl Write) -> io::Result<()> {
    let headings: Vec<(&str, Alignment)> = TABLE.iter().map(|column| (column.0, column.1)).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| TABLE.iter().map(|column| (column.2)(row)).collect()).collect();
    table(&headings, &cells, &mut output)?;
    writeln!(output, "{}", Summary::of(rows).sentence(false_alarm))?;
    output.flush()
}

/// Text of our own, which holds no mark-up, as a cell: a bar or a line break would end it.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Writes a table of escaped texts and an empty line; columns in which every row is empty are left out.
pub(crate) fn table(headings: &[(&str, Alignment)], cells: &[Vec<String>], output: &mut impl Write) -> io::Result<()> {
    let shown: Vec<usize> =
        (0..headings.len()).filter(|&index| cells.iter().any(|row| !row[index].is_empty())).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let line = |texts: Vec<&str>| format!("| {} |\n", texts.join(" | "));
    output.write_all(line(shown.iter().map(|&index| headings[index].0).collect()).as_bytes())?;
    let rule = |index: &usize| {
        if headings[*index].1 == Alignment::Right { "---:" } else { "---" }
    };
    output.write_all(line(shown.iter().map(rule).collect()).as_bytes())?;
    for row in cells {
        output.write_all(line(shown.iter().map(|&index| row[index].as_str()).collect()).as_bytes())?;
    }
    writeln!(output)
}

/// Escapes what would end a cell or a row, or be taken for markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' | '*' | '`' | '<' | '~' => escaped.extend(['\\', character]),
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rows: &[Row]) -> String {
        let mut bytes = Vec::new();
        write(rows, Some(1e-6), &mut bytes).expect("a vector takes every byte");
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn the_table_is_the_one_written_by_hand() {
        let row = Row {
            scale: Some("none".into()),
            d_k: Some(67),
            estimate: Some(67.0312),
            ci_low: Some(66.9312),
            ci_high: Some(67.1312),
            theory: Some(67.0),
            verdict: Verdict::Rejected,
            ..Row::new("variance", "logit_variance")
        };
        // Half-width 0.1: two digits of it are 0.10.
        let expected = "| statistic | scale | d_k | estimate (95 %) | theory | verdict |\n\
            | --- | --- | ---: | ---: | ---: | --- |\n\
            | logit_variance | none | 67 | 67.03 ± 0.10 | 67 | ✘ **rejected** |\n\n\
            0 claims upheld, 1 rejected, 0 undecided (false-alarm rate 1e-6 over the whole run)\n";
        assert_eq!(text(&[row]), expected);
    }

    #[test]
    fn pipes_and_line_breaks_cannot_break_the_table() {
        let row = Row { mask: Some("file:a|b\nc*`<".into()), ..Row::new("mask", "leak") };
        assert!(text(&[row]).contains(r"| leak | file:a\|b c\*\`\< | · measured |"));
    }

    #[test]
    fn every_line_of_a_table_has_the_same_number_of_cells() {
        let rows = [Row { d_k: Some(3), ..Row::new("a", "b") }, Row { p_value: Some(0.5), ..Row::new("a", "c|d") }];
        let written = text(&rows);
        let bars: Vec<usize> =
            written.lines().take(4).map(|line| line.replace(r"\|", "").matches('|').count()).collect();
        assert_eq!(bars, [5; 4], "{written}");
    }

    #[test]
    fn no_rows_give_the_closing_line_alone() {
        assert_eq!(text(&[]), "no claims were judged\n");
    }
}
