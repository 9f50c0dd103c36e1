//! Findings of `attn audit`.

use super::section::{Alignment, Drawing, Group, Line, Section, Standing, Table, common, grouped};
use super::source::HeadMoments;
use crate::report::findings::FindingRow;
use crate::report::number::{significant, trimmed};
use crate::report::plot::values::{self, Value};
use crate::report::row::Verdict;

/// What a page shows of an audit; `explain` says what a check does.
pub fn section(rows: &[FindingRow], heads: &[HeadMoments], explain: &dyn Fn(&str) -> Option<String>) -> Section {
    let facts = [
        ("audited", common(rows, |row| Some(row.file.clone()))),
        ("group", common(rows, |row| Some(row.group.clone()).filter(|group| !group.is_empty()))),
    ];
    let groups = grouped(rows, |row| row.check.clone()).into_iter().map(|(name, rows)| group(&name, &rows, explain));
    Section {
        facts: facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        groups: groups.chain(moments(heads)).collect(),
        ..Section::default()
    }
}

fn standing(row: &FindingRow) -> Standing {
    match row.verdict.as_str() {
        "PASS" => Standing::Upheld,
        "FAIL" => Standing::Rejected,
        "WARN" => Standing::Warned,
        _ => Standing::Untold,
    }
}

fn digits(value: Option<f64>) -> String {
    value.map(|value| trimmed(&significant(value, 4))).unwrap_or_default()
}

fn place(row: &FindingRow) -> String {
    let parts = [row.group.as_str(), row.place.as_str()];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    if text.is_empty() { "the whole".to_owned() } else { text }
}

fn group(name: &str, rows: &[&FindingRow], explain: &dyn Fn(&str) -> Option<String>) -> Group {
    let cells = |value: &dyn Fn(&FindingRow) -> String| rows.iter().map(|row| value(row)).collect::<Vec<String>>();
    let is_one_file = rows.iter().all(|row| row.file == rows[0].file);
    let columns = vec![
        ("where", Alignment::Left, cells(&place)),
        ("file", Alignment::Left, cells(&|row| if is_one_file { String::new() } else { row.file.clone() })),
        ("measured", Alignment::Right, cells(&|row| digits(row.measured))),
        ("expected", Alignment::Right, cells(&|row| digits(row.expected))),
        ("unit", Alignment::Left, cells(&|row| row.unit.clone())),
        ("what is seen", Alignment::Left, cells(&|row| row.explanation.clone())),
        ("likeliest cause", Alignment::Left, cells(&|row| row.cause.clone())),
        ("what would confirm it", Alignment::Left, cells(&|row| row.would_confirm.clone())),
    ];
    let verdicts = rows.iter().map(|row| (standing(row), row.verdict.clone())).collect();
    Group {
        name: name.to_owned(),
        explanation: explain(name).unwrap_or_default(),
        drawings: picture(name, rows).into_iter().collect(),
        table: Table::of(columns, verdicts),
        ..Group::default()
    }
}

/// The numbers of the unit that most findings have.
fn picture(name: &str, rows: &[&FindingRow]) -> Option<Drawing> {
    let measured: Vec<&&FindingRow> = rows.iter().filter(|row| row.measured.is_some()).collect();
    let units = grouped(&measured, |row| row.unit.clone());
    let (unit, rows) = units.into_iter().max_by_key(|(_, rows)| rows.len())?;
    let value = |row: &&&&FindingRow| {
        Some(Value {
            label: place(row),
            estimate: row.measured?,
            interval: row
                .standard_error
                .and_then(|error| Some((row.measured? - 1.96 * error, row.measured? + 1.96 * error))),
            expected: row.expected.map(|expected| (expected, expected)),
            verdict: standing(row).look(),
            word: row.verdict.to_lowercase(),
        })
    };
    let picture = values::draw(
        &format!("{name}: measured beside expected"),
        &unit,
        &rows.iter().filter_map(value).collect::<Vec<_>>(),
    )?;
    let description =
        format!("What the check {name} measured in each place, beside what is expected; the table has the numbers.");
    Some(Drawing { picture, title: format!("{name}: measured beside expected"), description })
}

/// The moments of every head beside what i.i.d. entries give: no claim.
fn moments(heads: &[HeadMoments]) -> Option<Group> {
    let label = |head: &HeadMoments| {
        let group = if head.group.is_empty() { String::new() } else { format!("{}, ", head.group) };
        format!("{group}batch {}, head {}", head.batch, head.head)
    };
    let value = |head: &HeadMoments| {
        Some(Value {
            label: label(head),
            estimate: head.relative_entropy?,
            interval: None,
            expected: head.control_relative_entropy.map(|control| (control, control)),
            verdict: Verdict::Measured,
            word: String::new(),
        })
    };
    let title = "Entropy of each head's weights beside i.i.d. entries";
    let picture =
        values::draw(title, "entropy / ln(visible keys)", &heads.iter().filter_map(value).collect::<Vec<_>>());
    let columns = ["head", "Var of the logits", "entropy / ln m", "i.i.d.", "largest weight", "i.i.d."];
    let line = |head: &HeadMoments| Line {
        standing: Standing::Measured,
        word: "measured".into(),
        setting: String::new(),
        cells: vec![
            label(head),
            digits(head.scaled_variance),
            digits(head.relative_entropy),
            digits(head.control_relative_entropy),
            digits(head.mean_largest_weight),
            digits(head.control_largest_weight),
        ],
    };
    let aligned =
        |(index, name): (usize, &str)| (name.to_owned(), if index == 0 { Alignment::Left } else { Alignment::Right });
    (!heads.is_empty()).then(|| Group {
        name: "moments of each head".into(),
        notes: vec![
            "The moments of every head as measured, and what i.i.d. entries would give; nothing is claimed of them."
                .into(),
        ],
        drawings: picture
            .into_iter()
            .map(|picture| Drawing { picture, title: title.into(), description: "The table has the numbers.".into() })
            .collect(),
        table: Table {
            columns: columns.into_iter().enumerate().map(aligned).collect(),
            lines: heads.iter().map(line).collect(),
        },
        ..Group::default()
    })
}
