//! Cases of `attn probe`.

use super::section::{Alignment, Drawing, Group, Section, Standing, Table, grouped};
use crate::report::number::{significant, trimmed};
use crate::report::plot::values::{self, Value};
use crate::report::probe::ProbeRow;

/// What a page shows of a judgement.
pub fn section(rows: &[ProbeRow]) -> Section {
    let groups: Vec<Group> =
        grouped(rows, |row| row.capability.clone()).into_iter().map(|(name, rows)| group(&name, &rows)).collect();
    Section { groups, ..Section::default() }
}

fn standing(row: &ProbeRow) -> Standing {
    match row.verdict.as_str() {
        "right" => Standing::Upheld,
        "unsupported" => Standing::Noted,
        // It crashed, hung or gave no answer: nothing is known of it.
        "failed" => Standing::NoData,
        _ => Standing::Rejected,
    }
}

fn group(name: &str, rows: &[&ProbeRow]) -> Group {
    // The row without a case sums the others up.
    let cases: Vec<&ProbeRow> = rows.iter().copied().filter(|row| !row.case.is_empty()).collect();
    let digits = |value: Option<f64>| value.map(|value| trimmed(&significant(value, 3))).unwrap_or_default();
    let cells = |value: &dyn Fn(&ProbeRow) -> String| cases.iter().map(|row| value(row)).collect::<Vec<String>>();
    let columns = vec![
        ("case", Alignment::Left, cells(&|row| row.case.clone())),
        ("array", Alignment::Left, cells(&|row| row.array.clone())),
        ("error", Alignment::Right, cells(&|row| digits(row.error))),
        ("bound", Alignment::Right, cells(&|row| digits(row.bound))),
        ("ratio", Alignment::Right, cells(&|row| digits(row.ratio))),
        (
            "right up to",
            Alignment::Right,
            cells(&|row| row.ratio.and(row.multiple).map(|multiple| digits(Some(multiple))).unwrap_or_default()),
        ),
        ("cause", Alignment::Left, cells(&|row| row.cause.clone())),
        ("what is seen", Alignment::Left, cells(&|row| row.explanation.clone())),
    ];
    let verdicts = cases.iter().map(|row| (standing(row), row.verdict.clone())).collect();
    let value = |row: &&ProbeRow| {
        Some(Value {
            label: row.case.clone(),
            estimate: row.ratio?,
            interval: None,
            expected: row.multiple.map(|multiple| (0.0, multiple)),
            verdict: standing(row).look(),
            word: row.verdict.clone(),
        })
    };
    let title = format!("{name}: error over that of the definition in the same type");
    let picture = values::draw(&title, "ratio", &cases.iter().filter_map(value).collect::<Vec<_>>());
    let description =
        format!("The error of each case of {name} and the range that is right; the table has the numbers.");
    let sums =
        rows.iter().filter(|row| row.case.is_empty() && !row.explanation.is_empty()).map(|row| row.explanation.clone());
    Group {
        name: name.to_owned(),
        meanings: super::meanings::of("probe", "ratio").map(|meaning| (String::new(), meaning)).into_iter().collect(),
        notes: sums.collect(),
        drawings: picture
            .into_iter()
            .map(|picture| Drawing { picture, title: title.clone(), description: description.clone() })
            .collect(),
        table: Table::of(columns, verdicts),
        ..Group::default()
    }
}
