//! Findings of an audit as rows: table, CSV, JSON, Markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::Format;
use super::json::Run;
use super::markdown::cell;
use super::number::{exact_or_empty, significant};
use super::table::{Colour, Layout, paragraph};

/// Columns of the CSV, in order.
pub const COLUMNS: [&str; 12] = [
    "file",
    "group",
    "batch",
    "head",
    "check",
    "verdict",
    "measured",
    "expected",
    "unit",
    "where",
    "explanation",
    "version",
];

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingRow {
    /// File or files.
    pub file: String,
    /// Group in the file, empty if names have no prefix.
    pub group: String,
    /// Batch entries, e.g. `0` or `0 1`; empty if it holds for the whole.
    pub batch: String,
    /// Heads, likewise.
    pub head: String,
    /// Name of the check.
    pub check: String,
    /// `FAIL`, `WARN`, `CANNOT TELL` or `PASS`.
    pub verdict: String,
    /// The number that shows it.
    pub measured: Option<f64>,
    /// What it should be.
    pub expected: Option<f64>,
    /// Unit of both.
    pub unit: String,
    /// In words, with the first cell.
    #[serde(rename = "where")]
    pub place: String,
    /// What it means.
    pub explanation: String,
    /// Version of the program.
    pub version: String,
    /// Standard error of `measured`; not in the CSV.
    #[serde(default)]
    pub standard_error: Option<f64>,
    /// The likeliest cause; not in the CSV.
    #[serde(default)]
    pub cause: String,
    /// What would confirm it; not in the CSV.
    #[serde(default)]
    pub would_confirm: String,
    /// What the same cause explains; not in the CSV.
    #[serde(default)]
    pub symptoms: Vec<String>,
    /// Batch entry and head of each place, for pictures; empty if it holds for the whole.
    #[serde(skip)]
    pub places: Vec<(usize, usize)>,
}

/// The moments of one head.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadRow {
    /// File or files.
    pub file: String,
    /// Group in the file.
    pub group: String,
    /// Batch entry.
    pub batch: usize,
    /// Head.
    pub head: usize,
    /// Mean of the entries of Q.
    pub query_mean: f64,
    /// Variance of the entries of Q.
    pub query_variance: f64,
    /// Mean of the entries of K.
    pub key_mean: f64,
    /// Variance of the entries of K.
    pub key_variance: f64,
    /// Mean of QKᵀ over visible cells.
    pub raw_mean: f64,
    /// Variance of QKᵀ.
    pub raw_variance: f64,
    /// Mean of the scaled logits.
    pub scaled_mean: f64,
    /// Variance of the scaled logits.
    pub scaled_variance: f64,
    /// Mean over rows of the variance within a row.
    pub within_row_variance: f64,
    /// Var QKᵀ / (d E\[q²\] E\[k²\]); missing where Q or K is all zeros.
    pub dependence: Option<f64>,
    /// Mean entropy of a row, nats.
    pub entropy: f64,
    /// Mean of entropy / ln(visible keys).
    pub relative_entropy: Option<f64>,
    /// The same for i.i.d. entries, from theory.
    pub control_relative_entropy: Option<f64>,
    /// Mean of the largest weight of a row.
    pub mean_largest_weight: Option<f64>,
    /// The same for i.i.d. entries, from theory.
    pub control_largest_weight: Option<f64>,
    /// The largest weight.
    pub largest_weight: Option<f64>,
    /// Mean weight on the first key.
    pub first_key_weight: f64,
    /// The factor on QKᵀ that is declared.
    pub expected_scale: f64,
    /// The factor that the weights show.
    pub fitted_scale: Option<f64>,
    /// Its standard error.
    pub fitted_scale_error: Option<f64>,
}

/// Writes findings (worst first) and, for people and in JSON, the moments of each head.
///
/// # Errors
/// Those of `output`, with their kind.
pub fn write(
    format: Format,
    run: &Run,
    findings: &[FindingRow],
    heads: &[HeadRow],
    layout: &Layout,
    mut output: impl Write,
) -> io::Result<()> {
    match format {
        Format::Csv => write_csv(findings, output),
        Format::Json => write_json(run, findings, heads, output),
        Format::Table => output.write_all(table(&run.remarks, findings, heads, layout).as_bytes()),
        Format::Markdown => output.write_all(markdown(findings).as_bytes()),
    }
}

fn write_csv(findings: &[FindingRow], output: impl Write) -> io::Result<()> {
    let io_error = |error: ::csv::Error| {
        let text = error.to_string();
        match error.into_kind() {
            ::csv::ErrorKind::Io(error) => error,
            _ => io::Error::new(io::ErrorKind::InvalidData, text),
        }
    };
    let mut writer = ::csv::Writer::from_writer(output);
    writer.write_record(COLUMNS).map_err(io_error)?;
    for row in findings {
        let (measured, expected) = (exact_or_empty(row.measured), exact_or_empty(row.expected));
        writer
            .write_record([
                &row.file,
                &row.group,
                &row.batch,
                &row.head,
                &row.check,
                &row.verdict,
                &measured,
                &expected,
                &row.unit,
                &row.place,
                &row.explanation,
                &row.version,
            ])
            .map_err(io_error)?;
    }
    writer.flush()
}

fn write_json(run: &Run, findings: &[FindingRow], heads: &[HeadRow], mut output: impl Write) -> io::Result<()> {
    let text = |value: &str| serde_json::to_string(value).map_err(io::Error::from);
    writeln!(output, "{{\n  \"command\": {},", text(&run.command)?)?;
    writeln!(output, "  \"invocation\": {},", text(&run.invocation)?)?;
    writeln!(output, "  \"version\": {},", text(&run.version)?)?;
    writeln!(output, "  \"remarks\": {},", serde_json::to_string(&run.remarks).map_err(io::Error::from)?)?;
    write_lines(&mut output, "findings", findings)?;
    writeln!(output, ",")?;
    write_lines(&mut output, "heads", heads)?;
    writeln!(output, "\n}}")?;
    output.flush()
}

fn write_lines<T: Serialize>(output: &mut impl Write, name: &str, rows: &[T]) -> io::Result<()> {
    write!(output, "  \"{name}\": [")?;
    for (index, row) in rows.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        write!(output, "{separator}\n    {}", serde_json::to_string(row).map_err(io::Error::from)?)?;
    }
    write!(output, "{}", if rows.is_empty() { "]" } else { "\n  ]" })
}

fn coloured(verdict: &str, colour: Colour) -> String {
    let code = match verdict {
        "FAIL" => 31,
        "PASS" => 32,
        _ => 33,
    };
    colour.paint(code, verdict)
}

/// What the arrays are, FAIL and WARN as paragraphs, then what cannot be told, then what passed, then a line per head.
fn table(remarks: &[String], findings: &[FindingRow], heads: &[HeadRow], layout: &Layout) -> String {
    let mut text = String::new();
    for remark in remarks {
        let _ = writeln!(text, "{}", paragraph(remark, layout.width));
    }
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for row in findings {
        if !groups.contains(&(&row.file, &row.group)) {
            groups.push((&row.file, &row.group));
        }
    }
    let several_files = groups.iter().any(|group| group.0 != groups[0].0);
    for (file, group) in groups {
        let own: Vec<&FindingRow> = findings.iter().filter(|row| (&*row.file, &*row.group) == (file, group)).collect();
        let heading = [if several_files { file } else { "" }, group].join(" ");
        if !heading.trim().is_empty() {
            let _ = writeln!(text, "{}", heading.trim());
        }
        for row in own.iter().filter(|row| matches!(row.verdict.as_str(), "FAIL" | "WARN")) {
            push_finding(&mut text, row, layout);
        }
        for row in own.iter().filter(|row| row.verdict == "CANNOT TELL") {
            let line = format!("{} ({}): {}", row.check, row.place, row.explanation);
            push_indented(&mut text, &coloured(&row.verdict, layout.colour), &line, layout.width);
        }
        let passed: Vec<&&FindingRow> = own
            .iter()
            .filter(|row| row.verdict == "PASS" && !matches!(row.check.as_str(), "assumptions" | "saturation"))
            .collect();
        for row in passed {
            let line = format!("{} ({}): {}{}", row.check, row.place, row.explanation, joined_symptoms(&row.symptoms));
            push_indented(&mut text, &coloured(&row.verdict, layout.colour), &line, layout.width);
        }
        let own_heads: Vec<&HeadRow> = heads.iter().filter(|row| (&*row.file, &*row.group) == (file, group)).collect();
        push_heads(&mut text, &own_heads, layout.width);
        text.push('\n');
    }
    let count = |verdict: &str| findings.iter().filter(|row| row.verdict == verdict).count();
    let _ = writeln!(
        text,
        "{} FAIL, {} WARN, {} CANNOT TELL, {} PASS.",
        count("FAIL"),
        count("WARN"),
        count("CANNOT TELL"),
        count("PASS")
    );
    if heads.is_empty() {
        return text;
    }
    let closing = "In the table: Q, K mean and variance of the entries; raw QKᵀ and scaled logits over visible cells; `dep` is Var raw over \
                   d·E[q²]·E[k²], 1 for independent entries; H is entropy over ln(visible keys) and max the mean largest weight, each beside the value of i.i.d. \
                   normal entries at the same sizes; `first` the mean weight on the first key. Trained heads leave the i.i.d. world; that is no fault.";
    let _ = writeln!(text, "{}", paragraph(closing, layout.width));
    text
}

fn joined_symptoms(symptoms: &[String]) -> String {
    if symptoms.is_empty() { String::new() } else { format!("; {}", symptoms.join("; ")) }
}

fn push_finding(text: &mut String, row: &FindingRow, layout: &Layout) {
    let head = format!("{} ({}): {}", row.check, row.place, row.explanation);
    push_indented(text, &coloured(&row.verdict, layout.colour), &head, layout.width);
    for (label, words) in [("cause", &row.cause), ("to confirm", &row.would_confirm)] {
        if !words.is_empty() {
            push_indented(text, "", &format!("{label}: {words}"), layout.width);
        }
    }
    for symptom in &row.symptoms {
        push_indented(text, "", &format!("also: {symptom}"), layout.width);
    }
}

fn push_indented(text: &mut String, verdict: &str, words: &str, width: usize) {
    let body = paragraph(words, width.saturating_sub(14).max(24));
    let plain = verdict.chars().filter(|character| character.is_ascii_uppercase() || *character == ' ').count();
    for (index, line) in body.lines().enumerate() {
        if index == 0 {
            let _ = writeln!(text, "  {verdict}{}{line}", " ".repeat(12usize.saturating_sub(plain)));
        } else {
            let _ = writeln!(text, "  {}{line}", " ".repeat(12));
        }
    }
}

/// A column of the table of heads.
struct Column {
    name: &'static str,
    cells: Vec<String>,
    width: usize,
}

/// A line per head; columns that do not fit beside each other are continued below, each part with the head's number.
fn push_heads(text: &mut String, heads: &[&HeadRow], width: usize) {
    if heads.is_empty() {
        return;
    }
    let column = |name: &'static str, cell: &dyn Fn(&HeadRow) -> String| {
        let cells: Vec<String> = heads.iter().map(|row| cell(row)).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(0).max(name.len());
        Column { name, cells, width }
    };
    let optional = |value: Option<f64>, digits: usize| value.map_or(String::new(), |value| format!("{value:.digits$}"));
    let numbers = column("b.head", &|row| format!("{}.{}", row.batch, row.head));
    let columns = [
        column("Q mean", &|row| format!("{:.3}", row.query_mean)),
        column("Q var", &|row| format!("{:.3}", row.query_variance)),
        column("K mean", &|row| format!("{:.3}", row.key_mean)),
        column("K var", &|row| format!("{:.3}", row.key_variance)),
        column("raw mean", &|row| significant(row.raw_mean, 4)),
        column("raw var", &|row| significant(row.raw_variance, 5)),
        column("sc mean", &|row| format!("{:.3}", row.scaled_mean)),
        column("sc var", &|row| format!("{:.3}", row.scaled_variance)),
        column("in row", &|row| format!("{:.3}", row.within_row_variance)),
        column("dep", &|row| optional(row.dependence, 2)),
        column("H", &|row| optional(row.relative_entropy, 3)),
        column("iid", &|row| optional(row.control_relative_entropy, 3)),
        column("max", &|row| optional(row.mean_largest_weight, 3)),
        column("iid", &|row| optional(row.control_largest_weight, 3)),
        column("first", &|row| format!("{:.3}", row.first_key_weight)),
    ];
    let mut rest = &columns[..];
    while !rest.is_empty() {
        let mut used = 2 + numbers.width;
        let fit = rest.iter().take_while(|column| {
            used += 2 + column.width;
            used <= width
        });
        let (part, others) = rest.split_at(fit.count().max(1));
        let line = |cell: &dyn Fn(&Column) -> String| {
            let cells = part.iter().map(|column| format!("  {:>1$}", cell(column), column.width));
            format!("  {:>1$}{2}\n", cell(&numbers), numbers.width, cells.collect::<String>())
        };
        text.push_str(&line(&|column| column.name.to_string()));
        (0..heads.len()).for_each(|row| text.push_str(&line(&|column| column.cells[row].clone())));
        rest = others;
    }
}

fn markdown(findings: &[FindingRow]) -> String {
    let mut text = String::from(
        "| group | verdict | check | where | measured | expected | unit | explanation |\n|---|---|---|---|---|---|---|---|\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| significant(value, 6));
    for row in findings {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            cell(&row.group),
            row.verdict,
            row.check,
            cell(&row.place),
            number(row.measured),
            number(row.expected),
            row.unit,
            cell(&row.explanation)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of two heads, its lines.
    fn heads(width: usize) -> Vec<String> {
        let row = |head: usize, query_variance: f64| HeadRow {
            head,
            query_variance,
            dependence: Some(1.0),
            relative_entropy: Some(0.5),
            ..HeadRow::default()
        };
        let (first, second) = (row(0, 1.0), row(11, 123.456));
        let mut text = String::new();
        push_heads(&mut text, &[&first, &second], width);
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn heads_are_a_line_each_where_that_fits_and_continued_below_where_not() {
        let wide = heads(200);
        assert_eq!(wide.len(), 3);
        for width in [40, 60, 80, 100] {
            let narrow = heads(width);
            assert!(narrow.iter().all(|line| line.len() <= width), "{width}: {narrow:#?}");
            assert!(narrow.len() > 3 && narrow.len().is_multiple_of(3), "{width}: {narrow:#?}");
            let of_heads: Vec<&str> =
                narrow.chunks(3).map(|part| part[2].split_whitespace().next().unwrap_or("")).collect();
            assert!(of_heads.iter().all(|number| *number == "0.11"), "{of_heads:?}");
            let words = |lines: &[String]| -> Vec<String> {
                let cells = lines.iter().step_by(3).flat_map(|line| line.split_whitespace());
                cells.filter(|cell| *cell != "b.head").map(str::to_string).collect()
            };
            assert_eq!(words(&narrow), words(&wide[..1]), "every column once, in the same order");
        }
        // Missing is empty, not NaN.
        assert!(!heads(200).join("\n").contains("NaN"));
        assert!(wide[2].contains("123.456"));
    }
}
