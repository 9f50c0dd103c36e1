//! Rows of the subcommands that draw trials.

use super::meanings;
use super::section::{Alignment, Drawing, Group, Section, Standing, Table, common, grouped};
use super::source::Source;
use crate::report::command_line;
use crate::report::number::{percent, probability, signed_percent, with_interval};
use crate::report::plot::across::{self, Chart, Point, Series, Spacing};
use crate::report::plot::values::{self, Value};
use crate::report::plot::{self, Picture};
use crate::report::row::Row;
use crate::report::table::theory_text;

/// A parameter of a row: its name as a column, as a fact, and its value.
struct Parameter {
    column: &'static str,
    fact: &'static str,
    value: fn(&Row) -> Option<String>,
}

const fn parameter(column: &'static str, fact: &'static str, value: fn(&Row) -> Option<String>) -> Parameter {
    Parameter { column, fact, value }
}

const PARAMETERS: [Parameter; 10] = [
    parameter("scale", "scale of the logits", |row| row.scale.clone()),
    parameter("mask", "mask", |row| row.mask.clone()),
    parameter("d_k", "d_k", |row| row.d_k.map(|value| value.to_string())),
    parameter("n", "queries n", |row| row.n_queries.map(|value| value.to_string())),
    parameter("m", "keys m", |row| row.n_keys.map(|value| value.to_string())),
    parameter("entries", "law of the entries", |row| row.entries.clone()),
    parameter("precision", "arithmetic", |row| row.precision.clone()),
    parameter("trials", "trials", |row| {
        // A slope is fitted to the rows of a sweep, and its number is the sum of theirs.
        row.trials.filter(|_| !is_slope(row)).map(|value| value.to_string())
    }),
    parameter("method", "method", |row| row.method.clone()),
    parameter("instructions", "instructions", |row| row.instructions.clone()),
];

/// Whether a row is one over a whole sweep.
fn is_slope(row: &Row) -> bool {
    row.statistic.ends_with("_slope")
}

/// The statistic without its number: `logit_mean:head3` is one of `logit_mean`.
pub fn base(statistic: &str) -> &str {
    statistic.split(':').next().unwrap_or(statistic)
}

/// What a page shows of a run.
pub fn section(source: &Source, rows: &[Row]) -> Section {
    let (varying, constant): (Vec<&Parameter>, Vec<&Parameter>) =
        PARAMETERS.iter().partition(|parameter| varies(rows.iter(), parameter.value));
    let facts =
        constant.iter().filter_map(|parameter| Some((parameter.fact.to_owned(), common(rows, parameter.value)?)));
    let found = grouped(rows, |row| base(&row.statistic).to_owned());
    let with_overview = found.len() > 1 && plot::narrow_claims(rows).is_some();
    let shown = |(name, rows): &(String, Vec<&Row>)| {
        let mut group = group(name, rows, &varying);
        // The picture of all claims has the only line already.
        if with_overview && rows.len() == 1 && plot::narrow_claims(&[rows[0].clone()]).is_some() {
            group.drawings.clear();
        }
        group
    };
    let groups: Vec<Group> = found.iter().map(shown).collect();
    let overview = (groups.len() > 1).then(|| plot::narrow_claims(rows)).flatten().map(|picture| Drawing {
        picture,
        title: "Deviation from theory, claim by claim".into(),
        description: "Each claim's deviation from theory with its 95 % interval, in units of the smallest deviation that the run could have \
                      seen; the tables below have the numbers."
            .into(),
    });
    Section { facts: facts.collect(), groups, overview, ..Section::default() }.with_command(source)
}

impl Section {
    /// The command of the file. None is put together from columns: options such as --mean, --false-alarm or --heads leave no trace in them.
    fn with_command(mut self, source: &Source) -> Self {
        let rate = |text: String| ("false-alarm rate over the run".to_owned(), text);
        match &source.invocation {
            Some(invocation) => {
                self.facts.push(rate(false_alarm(invocation).unwrap_or_else(|| "1e-6, the default".to_owned())));
                self.commands = vec![invocation.clone()];
            }
            None => {
                self.facts.push(rate("not in a CSV file".to_owned()));
            }
        }
        self
    }
}

/// What `--false-alarm` says.
fn false_alarm(invocation: &str) -> Option<String> {
    let words = command_line::words(invocation)?;
    let place = words.iter().position(|word| word == "--false-alarm")?;
    words.get(place + 1).cloned()
}

fn varies<'a>(rows: impl Iterator<Item = &'a Row>, value: fn(&Row) -> Option<String>) -> bool {
    let mut values = rows.filter_map(value);
    let first = values.next();
    values.any(|other| Some(other) != first)
}

fn group(name: &str, rows: &[&Row], varying: &[&Parameter]) -> Group {
    let command = rows.first().map_or("", |row| row.command.as_str());
    Group {
        name: name.to_owned(),
        meanings: meanings::of(command, name).map(|meaning| (String::new(), meaning)).into_iter().collect(),
        notes: tests(rows),
        drawings: picture(name, rows)
            .map(|picture| Drawing {
                picture,
                title: name.to_owned(),
                description: format!("{name} as measured, beside what is expected; the table has the numbers."),
            })
            .into_iter()
            .collect(),
        table: table(rows, varying),
        ..Group::default()
    }
}

/// How the rows were tested.
fn tests(rows: &[&Row]) -> Vec<String> {
    let mut tests: Vec<&str> = Vec::new();
    for test in rows.iter().filter_map(|row| row.test.as_deref()) {
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    if tests.is_empty() { Vec::new() } else { vec![format!("How it was tested: {}.", tests.join("; "))] }
}

fn table(rows: &[&Row], varying: &[&Parameter]) -> Table {
    let cells = |value: &dyn Fn(&Row) -> String| rows.iter().map(|row| value(row)).collect::<Vec<String>>();
    let mut columns = vec![("statistic", Alignment::Left, cells(&Row::name))];
    for parameter in varying {
        let alignment =
            if ["scale", "mask", "entries", "precision", "method", "instructions"].contains(&parameter.column) {
                Alignment::Left
            } else {
                Alignment::Right
            };
        columns.push((parameter.column, alignment, cells(&|row| (parameter.value)(row).unwrap_or_default())));
    }
    columns.extend([
        (
            "estimate (95 %)",
            Alignment::Right,
            cells(&|row| {
                row.estimate.map_or(String::new(), |estimate| with_interval(estimate, row.ci_low, row.ci_high))
            }),
        ),
        ("theory", Alignment::Right, cells(&theory_text)),
        ("deviation", Alignment::Right, cells(&|row| row.deviation.map(signed_percent).unwrap_or_default())),
        ("detects", Alignment::Right, cells(&|row| row.min_detectable.map(percent).unwrap_or_default())),
        ("p", Alignment::Right, cells(&|row| row.p_value.map(probability).unwrap_or_default())),
    ]);
    let verdicts = rows.iter().map(|row| (Standing::from(row.verdict), row.verdict.to_string())).collect();
    let mut table = Table::of(columns, verdicts);
    table.lines.iter_mut().zip(rows).for_each(|(line, row)| line.setting = setting(row));
    table
}

/// `scale 1/√d_k, d_k = 64`, where the row has them.
fn setting(row: &Row) -> String {
    let scale = row.scale.as_deref().map(plot::words_of_scale);
    scale.into_iter().chain(row.d_k.map(|d_k| format!("d_k = {d_k}"))).collect::<Vec<_>>().join(", ")
}

/// The richest picture that the rows allow: over a size, by claim, or value by value.
fn picture(name: &str, rows: &[&Row]) -> Option<Picture> {
    let owned: Vec<Row> = rows.iter().map(|row| (*row).clone()).collect();
    across(name, rows).or_else(|| plot::narrow_claims(&owned)).or_else(|| by_value(name, rows))
}

/// A size that rows can be drawn over: its name and value.
type Size = (&'static str, fn(&Row) -> Option<f64>);

const SIZES: [Size; 5] = [
    ("number of the row", |row| row.index.map(|index| index as f64)),
    ("", |row| number_in(&row.statistic).map(|(_, number)| number)),
    ("d_k", |row| row.d_k.map(|value| value as f64)),
    ("n, queries", |row| row.n_queries.map(|value| value as f64)),
    ("m, keys", |row| row.n_keys.map(|value| value as f64)),
];

/// `entropy:layer3` is of layer 3, `dot_product:8` of 8.
fn number_in(statistic: &str) -> Option<(&str, f64)> {
    let (_, tail) = statistic.split_once(':')?;
    let digits = tail.find(|character: char| character.is_ascii_digit())?;
    Some((&tail[..digits], tail[digits..].parse().ok()?))
}

fn across(name: &str, rows: &[&Row]) -> Option<Picture> {
    let is_over = |size: &&Size| {
        let mut values = rows.iter().filter_map(|row| (size.1)(row));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let (of, value) = SIZES.iter().find(is_over)?;
    let of = match (of, number_in(&rows.first()?.statistic)) {
        (&"", Some(("", _))) if base(&rows.first()?.statistic).starts_with("operations") => "position".to_owned(),
        (&"", Some(("", _))) => "offset K, positions".to_owned(),
        (&"", Some((kind, _))) => kind.to_owned(),
        (of, _) => (*of).to_owned(),
    };
    let spacing = match of.as_str() {
        "number of the row" | "head" | "layer" | "position" => Spacing::ByNumber,
        _ => Spacing::ByMagnitude,
    };
    // What else differs tells the series apart.
    let others: Vec<&Parameter> = PARAMETERS
        .iter()
        .filter(|parameter| {
            let is_size =
                of == parameter.fact || of == parameter.column || of.starts_with(&format!("{},", parameter.column));
            !is_size && !["trials", "instructions"].contains(&parameter.column)
        })
        .filter(|parameter| {
            !(parameter.column == "m" && of.starts_with('n') && rows.iter().all(|row| row.n_keys == row.n_queries))
        })
        .filter(|parameter| varies(rows.iter().copied(), parameter.value))
        .collect();
    let label = |row: &Row| {
        let parts = others.iter().filter_map(|parameter| {
            let value = (parameter.value)(row)?;
            Some(if parameter.column == "scale" {
                plot::words_of_scale(&value)
            } else {
                format!("{} {value}", parameter.column)
            })
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let drawable: Vec<&Row> =
        rows.iter().copied().filter(|row| value(row).is_some() && row.estimate.is_some()).collect();
    let series = grouped(&drawable, |row| label(row)).into_iter().map(|(name, rows)| {
        let mut points: Vec<Point> = rows
            .iter()
            .filter_map(|row| {
                let interval = row.ci_low.zip(row.ci_high);
                Some(Point { x: value(row)?, estimate: row.estimate?, interval, theory: row.theory })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series { name, points }
    });
    across::draw(&Chart {
        title: format!("{name} against {of}"),
        conditions: plot::conditions(&drawable),
        of,
        spacing,
        quantity: name.to_owned(),
        series: series.collect(),
    })
}

fn by_value(name: &str, rows: &[&Row]) -> Option<Picture> {
    let differs = |value: fn(&Row) -> Option<String>| varies(rows.iter().copied(), value);
    let with_scale = differs(|row| row.scale.clone());
    let with_width = differs(|row| row.d_k.map(|d_k| d_k.to_string()));
    let value = |row: &&Row| {
        let parts = [
            Some(row.name()),
            row.scale.as_deref().filter(|_| with_scale).map(plot::words_of_scale),
            row.d_k.filter(|_| with_width).map(|d_k| format!("d_k = {d_k}")),
        ];
        Some(Value {
            label: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
            estimate: row.estimate?,
            interval: row.ci_low.zip(row.ci_high),
            expected: row.theory.map(|theory| (theory, theory)),
            verdict: row.verdict,
            word: row.verdict.to_string(),
        })
    };
    values::draw(name, "", &rows.iter().filter_map(value).collect::<Vec<_>>())
}
