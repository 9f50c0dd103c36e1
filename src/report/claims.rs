//! The claims of a suite as rows: what `attn check` writes, as table, CSV, JSON, Markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::json::Run;
use super::number::{exact_or_empty, probability, significant};
use super::record::Record;
use super::table::{Layout, paragraph};
use super::{Format, csv, json, markdown};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// It holds, and a deviation worth seeing would have been seen.
    Upheld,
    /// It does not hold.
    Rejected,
    /// Nothing against it, but too few trials to tell.
    Undecided,
    /// Worth reading, no claim: a warning, something that cannot be told, a case that is not supported.
    Noted,
    /// It got no data: its item could not be run, or measured nothing of the kind.
    Error,
}

impl ClaimVerdict {
    /// Every verdict, worst first.
    pub const ALL: [Self; 5] = [Self::Rejected, Self::Error, Self::Undecided, Self::Noted, Self::Upheld];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Upheld => "upheld",
            Self::Rejected => "rejected",
            Self::Undecided => "undecided",
            Self::Noted => "noted",
            Self::Error => "error",
        }
    }

    /// The ANSI code of its colour.
    fn colour(self) -> u8 {
        match self {
            Self::Upheld => 32,
            Self::Rejected | Self::Error => 31,
            Self::Undecided => 33,
            Self::Noted => 36,
        }
    }
}

/// One claim of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// Name of the item in the suite.
    pub item: String,
    /// What it is held against: `theory`, `interval`, `baseline`, `control`, `count`, `audit`, `probe`, `run`.
    pub kind: String,
    /// What is claimed, e.g. `logit_variance inv-sqrt-dk, d_k 64`.
    pub claim: String,
    /// What became of it.
    pub verdict: ClaimVerdict,
    /// The measured value.
    pub estimate: Option<f64>,
    /// Lower end of what is expected; equal to the upper end for a value.
    pub expected_low: Option<f64>,
    /// Upper end of what is expected.
    pub expected_high: Option<f64>,
    /// p-value before correction.
    pub p_value: Option<f64>,
    /// Smallest deviation that would have been seen, relative as in the rows of the item.
    pub min_detectable: Option<f64>,
    /// The deviation in units of the smallest that would have been seen, or of what is allowed: within -1 and 1 where it holds. For
    /// pictures; in no table.
    #[serde(skip)]
    pub deviation_in_bounds: Option<f64>,
    /// Why, in a sentence; empty where the numbers say it.
    pub explanation: String,
    /// The command line of the item.
    pub invocation: String,
    /// The seed, where it draws.
    pub seed: Option<u64>,
    /// Version of the program.
    pub version: String,
}

/// Columns of the CSV, in order.
const COLUMNS: [&str; 13] = [
    "item",
    "kind",
    "claim",
    "verdict",
    "estimate",
    "expected_low",
    "expected_high",
    "p_value",
    "min_detectable",
    "explanation",
    "invocation",
    "seed",
    "version",
];

impl Record for ClaimRow {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn fields(&self) -> Vec<String> {
        vec![
            self.item.clone(),
            self.kind.clone(),
            self.claim.clone(),
            self.verdict.word().to_string(),
            exact_or_empty(self.estimate),
            exact_or_empty(self.expected_low),
            exact_or_empty(self.expected_high),
            exact_or_empty(self.p_value),
            exact_or_empty(self.min_detectable),
            self.explanation.clone(),
            self.invocation.clone(),
            self.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            self.version.clone(),
        ]
    }
}

/// How many claims have each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    counts: [usize; 5],
}

impl Count {
    /// Counts.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a ClaimRow>) -> Self {
        let mut counts = [0; 5];
        for row in rows {
            let place = ClaimVerdict::ALL.iter().position(|verdict| *verdict == row.verdict);
            place.into_iter().for_each(|place| counts[place] += 1);
        }
        Self { counts }
    }

    /// Claims with this verdict.
    pub fn number(&self, verdict: ClaimVerdict) -> usize {
        ClaimVerdict::ALL.iter().zip(self.counts).find(|(known, _)| **known == verdict).map_or(0, |(_, count)| count)
    }

    /// The verdict of all together: the worst there is. Notes alone are no claim, so nothing was checked.
    pub fn worst(&self) -> ClaimVerdict {
        let found = ClaimVerdict::ALL.into_iter().find(|verdict| self.number(*verdict) > 0);
        found.filter(|verdict| *verdict != ClaimVerdict::Noted || self.number(ClaimVerdict::Upheld) > 0).map_or(
            ClaimVerdict::Error,
            |verdict| if verdict == ClaimVerdict::Noted { ClaimVerdict::Upheld } else { verdict },
        )
    }

    /// `41 claims: 40 upheld, 1 rejected`; notes are no claims.
    pub fn sentence(&self) -> String {
        let claims: usize = self.counts.iter().sum::<usize>() - self.number(ClaimVerdict::Noted);
        let order = [
            ClaimVerdict::Upheld,
            ClaimVerdict::Rejected,
            ClaimVerdict::Undecided,
            ClaimVerdict::Error,
            ClaimVerdict::Noted,
        ];
        let parts: Vec<String> = (order.iter())
            .filter(|verdict| self.number(**verdict) > 0)
            .map(|verdict| match verdict {
                ClaimVerdict::Error => format!("{} without data", self.number(*verdict)),
                ClaimVerdict::Noted => format!("{} noted beside them", self.number(*verdict)),
                _ => format!("{} {}", self.number(*verdict), verdict.word()),
            })
            .collect();
        format!("{claims} claim{}: {}", if claims == 1 { "" } else { "s" }, parts.join(", "))
    }
}

/// What stands above and below the rows.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The suite: its file, or that it is the built-in one.
    pub suite: String,
    /// False-alarm rate of the whole.
    pub false_alarm: f64,
    /// The run as JSON states it.
    pub run: Run,
}

/// Writes the claims in the form asked for.
///
/// # Errors
/// Those of `output`.
pub fn write(
    format: Format,
    heading: &Heading,
    rows: &[ClaimRow],
    layout: &Layout,
    output: impl Write,
) -> io::Result<()> {
    match format {
        Format::Table => write_table(heading, rows, layout, output),
        Format::Csv => csv::write(rows, output),
        Format::Json => json::write(&heading.run, rows, output),
        Format::Markdown => write_markdown(heading, rows, output),
    }
}

/// Items in order, each with its rows.
pub(super) fn items(rows: &[ClaimRow]) -> Vec<(&str, Vec<&ClaimRow>)> {
    let mut items: Vec<(&str, Vec<&ClaimRow>)> = Vec::new();
    for row in rows {
        match items.last_mut() {
            Some((name, of_item)) if *name == row.item => of_item.push(row),
            _ => items.push((&row.item, vec![row])),
        }
    }
    items
}

/// Measured value and what it is held against, for people.
fn numbers(row: &ClaimRow) -> String {
    let digits = |value: f64| significant(value, 4);
    let expected = match (row.expected_low, row.expected_high) {
        (Some(low), Some(high)) if low == high => format!(" against {}", digits(low)),
        (Some(low), Some(high)) => format!(" in {} to {}", digits(low), digits(high)),
        (Some(low), None) => format!(" from {}", digits(low)),
        (None, Some(high)) => format!(" up to {}", digits(high)),
        (None, None) => String::new(),
    };
    let p = row.p_value.map(|p| format!(", p {}", probability(p))).unwrap_or_default();
    row.estimate.map(|estimate| format!("{}{expected}{p}", digits(estimate))).unwrap_or_default()
}

/// The numbers and why, in one line.
pub fn reason(row: &ClaimRow) -> String {
    let parts = [numbers(row), row.explanation.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// One line a claim below the name of its item; what is wrong in sentences.
fn write_table(heading: &Heading, rows: &[ClaimRow], layout: &Layout, mut output: impl Write) -> io::Result<()> {
    let seed = heading.run.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
    writeln!(output, "{}{seed}, false-alarm rate {:e} over the whole suite", heading.suite, heading.false_alarm)?;
    for (name, of_item) in items(rows) {
        writeln!(output, "\n{name}\n  $ {}", of_item.first().map_or("", |row| &row.invocation))?;
        let shared = shared_parts(&of_item);
        if shared > 0 {
            let parts: Vec<&str> = of_item.first().map_or("", |row| &row.claim).split(", ").collect();
            writeln!(output, "  {}", parts[parts.len() - shared..].join(", "))?;
        }
        let own = |row: &ClaimRow| {
            let parts: Vec<&str> = row.claim.split(", ").collect();
            parts[..parts.len() - shared].join(", ")
        };
        let longest = of_item.iter().map(|row| own(row).chars().count()).max().unwrap_or(0);
        for row in of_item {
            let word = layout.colour.paint(row.verdict.colour(), &format!("{:<9}", row.verdict.word()));
            let numbers = numbers(row);
            if 14 + longest + numbers.chars().count() <= layout.width.max(60) {
                writeln!(output, "  {word} {}", format!("{:<longest$}  {numbers}", own(row)).trim_end())?;
            } else {
                writeln!(output, "  {word} {}", own(row))?;
                if !numbers.is_empty() {
                    writeln!(output, "            {numbers}")?;
                }
            }
            if row.verdict != ClaimVerdict::Upheld && !row.explanation.is_empty() {
                for line in paragraph(&row.explanation, layout.width.saturating_sub(12)).lines() {
                    writeln!(output, "            {line}")?;
                }
            }
        }
    }
    writeln!(output, "\n{}.", Count::of(rows).sentence())
}

/// Parts at the end of the claims, such as the sizes, that all claims of an item share; its own name stays with each.
fn shared_parts(rows: &[&ClaimRow]) -> usize {
    let Some((first, rest)) = rows.split_first() else { return 0 };
    let parts = |row: &ClaimRow| {
        let mut parts: Vec<String> = row.claim.split(", ").map(str::to_string).collect();
        parts.reverse();
        parts
    };
    let of_first = parts(first);
    let shared_with = |row: &&&ClaimRow| {
        let other = parts(row);
        let alike = of_first.iter().zip(&other).take_while(|(one, other)| one == other).count();
        alike.min(other.len() - 1)
    };
    rest.iter().map(|row| shared_with(&row)).min().map_or(0, |shared| shared.min(of_first.len() - 1))
}

/// A pull-request summary: the count first, a table of the items, what is not upheld in full, the rest folded.
fn write_markdown(heading: &Heading, rows: &[ClaimRow], mut output: impl Write) -> io::Result<()> {
    let count = Count::of(rows);
    let sign = match count.worst() {
        ClaimVerdict::Upheld | ClaimVerdict::Noted => "✅",
        ClaimVerdict::Undecided => "⚠️",
        ClaimVerdict::Rejected | ClaimVerdict::Error => "❌",
    };
    let seed = heading.run.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
    writeln!(output, "### {sign} attn check: {}\n", count.sentence())?;
    writeln!(
        output,
        "{}{seed}, version {}, false-alarm rate {:e} over the whole suite.\n",
        cell(&heading.suite),
        heading.run.version,
        heading.false_alarm
    )?;
    writeln!(output, "| item | verdict | claims | command |\n| --- | --- | --- | --- |")?;
    for (name, of_item) in items(rows) {
        let count = Count::of(of_item.iter().copied());
        let command = of_item.first().map_or("", |row| &row.invocation);
        writeln!(output, "| {} | {} | {} | `{}` |", cell(name), count.worst().word(), count.sentence(), cell(command))?;
    }
    let open: Vec<&ClaimRow> =
        (rows.iter()).filter(|row| !matches!(row.verdict, ClaimVerdict::Upheld | ClaimVerdict::Noted)).collect();
    if !open.is_empty() {
        writeln!(output, "\n| item | claim | verdict | measured | why |\n| --- | --- | --- | --- | --- |")?;
        open.iter().try_for_each(|row| writeln!(output, "{}", line(row)))?;
    }
    writeln!(output, "\n<details><summary>All claims</summary>\n")?;
    writeln!(output, "| item | claim | verdict | measured | why |\n| --- | --- | --- | --- | --- |")?;
    rows.iter().try_for_each(|row| writeln!(output, "{}", line(row)))?;
    writeln!(output, "\n</details>")
}

fn line(row: &ClaimRow) -> String {
    let mut text = String::new();
    let fields = [&row.item, &row.claim, row.verdict.word(), &numbers(row), &row.explanation];
    fields.iter().for_each(|field| {
        let _ = write!(text, "| {} ", cell(field));
    });
    text + "|"
}

/// Text of the user's as a cell.
fn cell(text: &str) -> String {
    markdown::cell(text).replace('\r', " ").replace('<', "&lt;")
}
