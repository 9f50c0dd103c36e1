//! Rows of `attn complexity`.

use super::meanings;
use super::section::{Alignment, Drawing, Group, Section, Standing, Table, common, grouped};
use crate::report::cost::{CostRow, bytes_text};
use crate::report::number::{significant, trimmed, with_interval};
use crate::report::plot::across::{self, Chart, Point, Series, Spacing};
use crate::report::plot::values::{self, Value};
use crate::report::row::Verdict;

/// What a page shows of a run.
pub fn section(rows: &[CostRow]) -> Section {
    let text = |value: Option<u64>| value.map(|value| value.to_string());
    let facts = [
        ("arithmetic", common(rows, |row| row.precision.clone())),
        ("mask", common(rows, |row| row.mask.clone())),
        ("threads", common(rows, |row| text(row.threads))),
        ("clock", common(rows, |row| row.clock.clone())),
    ];
    let groups: Vec<Group> =
        grouped(rows, |row| row.stage.clone()).into_iter().map(|(name, rows)| group(&name, &rows)).collect();
    Section {
        facts: facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
        overview: exponents(rows),
        groups,
        ..Section::default()
    }
}

fn standing(row: &CostRow) -> Standing {
    // An exponent that the run could not hold against that of the counts is no pass.
    let is_open = row.exponent_of.is_some() && row.expected_inside.is_none();
    if is_open && row.verdict.is_none_or(|verdict| verdict == Verdict::Measured) {
        return Standing::Untold;
    }
    row.verdict.map_or(Standing::Measured, Standing::from)
}

fn group(name: &str, rows: &[&CostRow]) -> Group {
    let drawings = [("n", "n, queries"), ("d_k", "d_k, width of keys")].into_iter().filter_map(|(of, words)| {
        let picture = growth(name, of, words, rows)?;
        let description =
            format!("What {name} takes against {words}, both axes by magnitude; the table has the numbers.");
        Some(Drawing { picture, title: format!("{name} against {words}"), description })
    });
    let checked = checks(name, rows).map(|picture| Drawing {
        picture,
        title: name.to_owned(),
        description: format!("{name}: the differences found, beside their bounds; the table has the numbers."),
    });
    let mut drawings: Vec<Drawing> = drawings.chain(checked).collect();
    if drawings.is_empty() {
        drawings.extend(single(name, rows));
    }
    Group {
        name: name.to_owned(),
        meanings: meanings::of("complexity", name).map(|meaning| (String::new(), meaning)).into_iter().collect(),
        drawings,
        table: table(rows),
        ..Group::default()
    }
}

fn table(rows: &[&CostRow]) -> Table {
    let cells = |value: &dyn Fn(&CostRow) -> Option<String>| {
        rows.iter().map(|row| value(row).unwrap_or_default()).collect::<Vec<String>>()
    };
    let digits = |value: f64| trimmed(&significant(value, 4));
    let whole = |value: Option<u64>| value.map(|value| value.to_string());
    let what = |row: &CostRow| {
        let of = row.exponent_of.as_ref().map(|of| format!("exponent in {of}"));
        Some(of.unwrap_or_else(|| row.stage.clone()))
    };
    let seconds = |row: &CostRow| Some(with_interval(row.seconds?, row.seconds_low, row.seconds_high));
    let columns = vec![
        ("what", Alignment::Left, cells(&what)),
        ("kernel", Alignment::Left, cells(&|row| row.kernel.clone())),
        ("n", Alignment::Right, cells(&|row| whole(row.n))),
        ("m", Alignment::Right, cells(&|row| whole(row.m.filter(|m| Some(*m) != row.n)))),
        ("d_k", Alignment::Right, cells(&|row| whole(row.d_k))),
        ("d_v", Alignment::Right, cells(&|row| whole(row.d_v.filter(|width| Some(*width) != row.d_k)))),
        ("heads", Alignment::Right, cells(&|row| whole(row.heads.filter(|heads| *heads > 1)))),
        ("operations", Alignment::Right, cells(&|row| row.operations.map(|count| count.to_string()))),
        ("seconds (95 %)", Alignment::Right, cells(&seconds)),
        ("operations a second", Alignment::Right, cells(&|row| row.operations_per_second.map(digits))),
        ("peak memory", Alignment::Right, cells(&|row| row.bytes.map(bytes_text))),
        ("its law", Alignment::Right, cells(&|row| row.bytes_law.map(bytes_text))),
        (
            "exponent (95 %)",
            Alignment::Right,
            cells(&|row| Some(with_interval(row.exponent?, row.exponent_low, row.exponent_high))),
        ),
        ("of the counts", Alignment::Right, cells(&|row| row.exponent_expected.map(digits))),
        ("sizes fitted", Alignment::Right, cells(&|row| whole(row.sizes_fitted))),
        ("difference", Alignment::Right, cells(&|row| row.difference.map(digits))),
        ("bound", Alignment::Right, cells(&|row| row.bound.map(digits))),
    ];
    let verdicts = rows.iter().map(|row| (standing(row), standing(row).word().to_owned())).collect();
    Table::of(columns, verdicts)
}

/// A size of a row.
type Size = fn(&CostRow) -> Option<u64>;

/// What a stage takes over one size, at the largest other size: seconds where it was timed, else operations.
fn growth(name: &str, of: &str, words: &str, rows: &[&CostRow]) -> Option<crate::report::plot::Picture> {
    let (size, fixed): (Size, Size) = match of {
        // A cached token is asked for by one query; what varies is the number of keys.
        "n" if name == "cached_token" => (|row| row.m, |row| row.d_k),
        "n" => (|row| row.n, |row| row.d_k),
        _ => (|row| row.d_k, |row| row.n),
    };
    let is_timed = rows.iter().any(|row| row.seconds.is_some());
    let value = |row: &CostRow| if is_timed { row.seconds } else { row.operations.map(|count| count as f64) };
    let drawable =
        || rows.iter().copied().filter(|row| value(row).is_some() && size(row).is_some() && row.difference.is_none());
    let largest = drawable().filter_map(fixed).max();
    let longest = drawable().filter_map(|row| row.seconds).fold(0.0, f64::max);
    let (factor, quantity) = match (is_timed, longest) {
        (false, _) => (1.0, "operations"),
        (true, longest) if longest < 1e-3 => (1e6, "µs (median)"),
        (true, longest) if longest < 1.0 => (1e3, "ms (median)"),
        (true, _) => (1.0, "s (median)"),
    };
    let found: Vec<&CostRow> = drawable().filter(|row| fixed(row) == largest).collect();
    let series = grouped(&found, |row| row.kernel.clone().unwrap_or_default()).into_iter().map(|(name, rows)| {
        let mut points: Vec<Point> = rows
            .iter()
            .filter_map(|row| {
                let limits = row.seconds_low.zip(row.seconds_high).filter(|_| is_timed);
                let interval = limits.map(|(low, high)| (factor * low, factor * high));
                Some(Point { x: size(row)? as f64, estimate: factor * value(row)?, interval, theory: None })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name, points }
    });
    let other = if of == "n" { "d_k" } else { "n" };
    across::draw(&Chart {
        title: format!("{name} against {words}"),
        conditions: largest.map(|largest| format!("{other} = {largest}")).unwrap_or_default(),
        of: words.to_owned(),
        spacing: Spacing::Powers,
        quantity: quantity.to_owned(),
        series: series.collect(),
    })
}

/// What a stage takes at the sizes there are, where none can be drawn over.
fn single(name: &str, rows: &[&CostRow]) -> Option<Drawing> {
    let is_timed = rows.iter().any(|row| row.seconds.is_some());
    let value = |row: &&CostRow| {
        Some(Value {
            label: label(row),
            estimate: if is_timed { row.seconds? } else { row.operations? as f64 },
            interval: row.seconds_low.zip(row.seconds_high).filter(|_| is_timed),
            expected: None,
            verdict: row.verdict.unwrap_or(Verdict::Measured),
            word: standing(row).word().to_owned(),
        })
    };
    let unit = if is_timed { "seconds" } else { "operations" };
    let picture = values::draw(name, unit, &rows.iter().filter_map(value).collect::<Vec<_>>())?;
    let description = format!("{name}: {unit}; the table has the numbers.");
    Some(Drawing { picture, title: name.to_owned(), description })
}

/// The kernel and the sizes of a row.
fn label(row: &CostRow) -> String {
    row.kernel.clone().into_iter().chain(sizes(row)).collect::<Vec<_>>().join(", ")
}

fn sizes(row: &CostRow) -> impl Iterator<Item = String> {
    [("n", row.n), ("d_k", row.d_k)].into_iter().filter_map(|(name, size)| Some(format!("{name} = {}", size?)))
}

fn checks(name: &str, rows: &[&CostRow]) -> Option<crate::report::plot::Picture> {
    let value = |row: &&CostRow| {
        Some(Value {
            label: label(row),
            estimate: row.difference?,
            interval: None,
            expected: row.bound.map(|bound| (0.0, bound)),
            verdict: row.verdict.unwrap_or(Verdict::Measured),
            word: standing(row).word().to_owned(),
        })
    };
    values::draw(
        &format!("{name}: differences beside their bounds"),
        "",
        &rows.iter().filter_map(value).collect::<Vec<_>>(),
    )
}

/// Fitted exponents beside those of the counts.
fn exponents(rows: &[CostRow]) -> Option<Drawing> {
    let value = |row: &CostRow| {
        let kernel = row.kernel.as_ref().map(|kernel| format!(", {kernel}")).unwrap_or_default();
        Some(Value {
            label: format!("{} in {}{kernel}", row.stage, row.exponent_of.as_ref()?),
            estimate: row.exponent?,
            interval: row.exponent_low.zip(row.exponent_high),
            expected: row.exponent_expected.map(|expected| (expected, expected)),
            verdict: row.verdict.unwrap_or(Verdict::Measured),
            word: standing(row).word().to_owned(),
        })
    };
    let values: Vec<Value> = rows.iter().filter_map(value).collect();
    let picture = values::draw("Exponents of the times, lines: those of the counts", "exponent", &values)?;
    let description = "Each fitted exponent with its 95 % interval beside the exponent of the exact counts; the tables have the numbers.";
    Some(Drawing { picture, title: "Exponents of the times".into(), description: description.into() })
}
