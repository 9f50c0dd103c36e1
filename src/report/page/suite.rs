//! Claims of `attn check`.

use super::meanings;
use super::section::{Alignment, Drawing, Group, Section, Standing, Table, grouped};
use super::statistics::base;
use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::report::command_line;
use crate::report::number::{percent, probability, significant, trimmed};
use crate::report::plot::values::{self, Value};
use crate::report::plot::{self, Picture};
use crate::report::row::{Row, Verdict};

/// What a page shows of a suite.
pub fn section(rows: &[ClaimRow]) -> Section {
    let groups: Vec<Group> =
        grouped(rows, |row| row.item.clone()).into_iter().map(|(name, rows)| group(&name, &rows)).collect();
    let mut commands: Vec<String> = Vec::new();
    for row in rows {
        if !commands.contains(&row.invocation) {
            commands.push(row.invocation.clone());
        }
    }
    Section { groups, commands, ..Section::default() }
}

fn standing(row: &ClaimRow) -> Standing {
    match row.verdict {
        ClaimVerdict::Upheld => Standing::Upheld,
        ClaimVerdict::Rejected => Standing::Rejected,
        ClaimVerdict::Undecided => Standing::Undecided,
        // The suite keeps an audit's word before its explanation.
        ClaimVerdict::Noted if row.explanation.starts_with("WARN:") => Standing::Warned,
        ClaimVerdict::Noted if row.explanation.starts_with("CANNOT TELL:") => Standing::Untold,
        ClaimVerdict::Noted => Standing::Noted,
        ClaimVerdict::Error => Standing::NoData,
    }
}

fn expected(row: &ClaimRow) -> String {
    let digits = |value: f64| trimmed(&significant(value, 6));
    match (row.expected_low, row.expected_high) {
        (Some(low), Some(high)) if low == high => digits(low),
        (Some(low), Some(high)) => format!("{} to {}", digits(low), digits(high)),
        (Some(low), None) => format!("from {}", digits(low)),
        (None, Some(high)) => format!("up to {}", digits(high)),
        (None, None) => String::new(),
    }
}

fn group(name: &str, rows: &[&ClaimRow]) -> Group {
    let cells = |value: &dyn Fn(&ClaimRow) -> String| rows.iter().map(|row| value(row)).collect::<Vec<String>>();
    let digits = |value: Option<f64>| value.map(|value| trimmed(&significant(value, 6))).unwrap_or_default();
    let columns = vec![
        ("claim", Alignment::Left, cells(&|row| row.claim.clone())),
        ("held against", Alignment::Left, cells(&|row| row.kind.clone())),
        ("estimate", Alignment::Right, cells(&|row| digits(row.estimate))),
        ("expected", Alignment::Right, cells(&expected)),
        ("detects", Alignment::Right, cells(&|row| row.min_detectable.map(percent).unwrap_or_default())),
        ("p", Alignment::Right, cells(&|row| row.p_value.map(probability).unwrap_or_default())),
        ("what is seen", Alignment::Left, cells(&|row| row.explanation.clone())),
    ];
    let verdicts = rows.iter().map(|row| (standing(row), row.verdict.word().to_owned())).collect();
    let first = rows.first().map_or("", |row| row.invocation.as_str());
    let picture = picture(name, rows).map(|picture| Drawing {
        picture,
        title: name.to_owned(),
        description: "The claims of the item beside what is expected; the table has the numbers.".to_owned(),
    });
    Group {
        name: name.to_owned(),
        meanings: claimed(first, rows),
        notes: vec![format!("The command of this item: {first}")],
        drawings: picture.into_iter().collect(),
        table: Table::of(columns, verdicts),
        ..Group::default()
    }
}

/// Each statistic of the item with its meaning.
fn claimed(invocation: &str, rows: &[&ClaimRow]) -> Vec<(String, &'static meanings::Meaning)> {
    let command = command_line::words(invocation).and_then(|words| words.get(1).cloned()).unwrap_or_default();
    let mut found: Vec<(String, &'static meanings::Meaning)> = Vec::new();
    for row in rows {
        let statistic = row.claim.split([' ', ',', '[']).next().unwrap_or_default();
        let name = base(statistic);
        if let Some(meaning) = meanings::of(&command, name).filter(|_| !found.iter().any(|(known, _)| known == name)) {
            found.push((name.to_owned(), meaning));
        }
    }
    found
}

/// Deviations in units of the smallest that would have been seen where there are such, else the values themselves.
fn picture(name: &str, rows: &[&ClaimRow]) -> Option<Picture> {
    let verdict = |row: &ClaimRow| match standing(row) {
        Standing::Rejected | Standing::NoData => Verdict::Rejected,
        Standing::Undecided => Verdict::Undecided,
        Standing::Upheld => Verdict::Upheld,
        Standing::Warned | Standing::Untold | Standing::Noted | Standing::Measured => Verdict::Measured,
    };
    // Without the size where the name says enough.
    let short = |row: &ClaimRow| row.claim.split(", ").next().unwrap_or_default().to_owned();
    let is_repeated = |row: &ClaimRow| rows.iter().filter(|other| short(other) == short(row)).count() > 1;
    let label = |row: &ClaimRow| if is_repeated(row) { row.claim.clone() } else { short(row) };
    let of_theory: Vec<Row> = rows
        .iter()
        .filter_map(|row| {
            let (estimate, theory) = (row.estimate?, row.expected_low.filter(|low| Some(*low) == row.expected_high)?);
            // Relative deviations only: the unit of those from 0 is not in the row.
            let deviation = (theory != 0.0).then(|| (estimate - theory) / theory.abs())?;
            Some(Row {
                estimate: Some(estimate),
                theory: Some(theory),
                deviation: Some(deviation),
                min_detectable: row.min_detectable,
                verdict: verdict(row),
                seed: row.seed,
                version: row.version.clone(),
                ..Row::new("check", label(row))
            })
        })
        .collect();
    let value = |row: &&ClaimRow| {
        let (low, high) = (row.expected_low, row.expected_high);
        Some(Value {
            label: row.claim.clone(),
            estimate: row.estimate?,
            interval: None,
            expected: low.or(high).map(|one| (low.unwrap_or(one), high.unwrap_or(one))),
            verdict: verdict(row),
            word: row.verdict.word().to_owned(),
        })
    };
    plot::narrow_claims(&of_theory)
        .or_else(|| values::draw(name, "", &rows.iter().filter_map(value).collect::<Vec<_>>()))
}
