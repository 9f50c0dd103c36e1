//! Results read back from files, whatever subcommand wrote them.

use std::collections::BTreeSet;
use std::io;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::report::claims::ClaimRow;
use crate::report::cost::CostRow;
use crate::report::findings::{self, FindingRow};
use crate::report::probe::ProbeRow;
use crate::report::{Record, Row};

/// Subcommands whose rows are statistics.
const STATISTICS: [&str; 7] =
    ["variance", "softmax-spikiness", "mask", "multi-head", "positional", "kv-cache", "depth"];

/// What can be read, in the words of an error.
const READABLE: &str = "a result of attn as JSON or CSV (variance, softmax-spikiness, mask, complexity, multi-head, \
    positional, kv-cache, depth, audit, probe, check, merge)";

/// How a file says what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With the command line, the seed and remarks beside the rows.
    Json,
    /// Rows alone.
    Csv,
}

/// The rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Of a subcommand that draws trials.
    Statistics(Vec<Row>),
    /// Of `attn complexity`.
    Costs(Vec<CostRow>),
    /// Of `attn audit`, with the moments of the heads where the file has them.
    Findings(Vec<FindingRow>, Vec<HeadMoments>),
    /// Of `attn probe`.
    Cases(Vec<ProbeRow>),
    /// Of `attn check`.
    Claims(Vec<ClaimRow>),
}

/// What an audit says of one head, as far as a page shows it. Numbers that were not finite are missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct HeadMoments {
    /// Group in the file.
    pub group: String,
    /// Batch entry.
    pub batch: u64,
    /// Head.
    pub head: u64,
    /// Variance of the scaled logits.
    pub scaled_variance: Option<f64>,
    /// Mean of entropy / ln(visible keys).
    pub relative_entropy: Option<f64>,
    /// The same for i.i.d. entries, from theory.
    pub control_relative_entropy: Option<f64>,
    /// Mean of the largest weight of a row.
    pub mean_largest_weight: Option<f64>,
    /// The same for i.i.d. entries, from theory.
    pub control_largest_weight: Option<f64>,
}

/// A file of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The file as it was named.
    pub name: String,
    /// Its form.
    pub form: Form,
    /// The subcommand.
    pub command: String,
    /// The command line, where the file has it.
    pub invocation: Option<String>,
    /// Version of the program that wrote it; empty where there are no rows.
    pub version: String,
    /// The seed.
    pub seed: Option<u64>,
    /// What the rows show, in sentences.
    pub remarks: Vec<String>,
    /// The rows.
    pub content: Content,
}

impl Source {
    /// Reads the bytes of a file that is called `name`.
    ///
    /// # Errors
    /// One line without the name: what the file is not, or what is wrong with which of its rows.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, String> {
        let foreign = || format!("is not {READABLE}");
        let text = std::str::from_utf8(bytes).map_err(|_| foreign())?;
        // What spreadsheets put before UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match text.trim_start().chars().next() {
            None => Err(format!("is empty; it must be {READABLE}")),
            Some('{') => read_json(name, text),
            Some(_) => read_csv(name, text),
        }
    }
}

/// The object that every subcommand writes.
#[derive(Deserialize)]
struct Printed<R> {
    invocation: String,
    version: String,
    seed: Option<u64>,
    #[serde(default)]
    remarks: Vec<String>,
    /// An audit calls its rows findings.
    #[serde(alias = "findings")]
    rows: Vec<R>,
    #[serde(default)]
    heads: Vec<HeadMoments>,
}

/// Which rows an object has.
#[derive(Deserialize)]
struct Named {
    command: String,
}

fn read_json(name: &str, text: &str) -> Result<Source, String> {
    let Named { command } = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => format!("is not {READABLE}"),
        _ => format!("its JSON cannot be read: {error}"),
    })?;
    fn printed<R: DeserializeOwned>(text: &str) -> Result<Printed<R>, String> {
        serde_json::from_str(text).map_err(|error| format!("its rows cannot be read: {error}"))
    }
    fn source<R>(name: &str, command: String, printed: Printed<R>, content: impl FnOnce(Vec<R>) -> Content) -> Source {
        let Printed { invocation, version, seed, remarks, rows, .. } = printed;
        let invocation = Some(invocation);
        Source {
            name: name.to_owned(),
            form: Form::Json,
            command,
            invocation,
            version,
            seed,
            remarks,
            content: content(rows),
        }
    }
    match command.as_str() {
        "complexity" => Ok(source(name, command, printed(text)?, Content::Costs)),
        "probe" => Ok(source(name, command, printed(text)?, Content::Cases)),
        "check" => Ok(source(name, command, printed(text)?, Content::Claims)),
        "audit" => {
            let mut found: Printed<FindingRow> = printed(text)?;
            let heads = std::mem::take(&mut found.heads);
            known_findings(&found.rows)?;
            Ok(source(name, command, found, |rows| Content::Findings(rows, heads)))
        }
        known if STATISTICS.contains(&known) => Ok(source(name, command, printed(text)?, Content::Statistics)),
        _ => Err(format!("is not {READABLE}: its command is '{command}'")),
    }
}

fn read_csv(name: &str, text: &str) -> Result<Source, String> {
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| format!("its first line cannot be read: {error}"))?.clone();
    let has = |columns: &[&str]| columns.iter().all(|name| header.iter().any(|column| column == *name));
    let source = |command: &str, version: String, seed: Option<u64>, content: Content| Source {
        name: name.to_owned(),
        form: Form::Csv,
        command: command.to_owned(),
        invocation: None,
        version,
        seed,
        remarks: Vec::new(),
        content,
    };
    if has(&["trial", "invocation"]) {
        return Err(
            "is a per-trial file, which holds draws and no verdicts; 'attn merge' makes a result of it".to_owned()
        );
    }
    if has(Row::COLUMNS) {
        let rows: Vec<Row> = records(reader)?;
        if let Some(other) = rows.iter().find(|row| !STATISTICS.contains(&row.command.as_str())) {
            return Err(format!("is not {READABLE}: a row's command is '{}'", other.command));
        }
        let command = of_one_run(&rows, "command", |row| &row.command)?;
        let version = of_one_run(&rows, "version", |row| &row.version)?;
        each_claim_once(&rows)?;
        let command = if rows.is_empty() { "variance" } else { command.as_str() };
        let seed = rows.first().and_then(|row| row.seed);
        Ok(source(command, version, seed, Content::Statistics(rows)))
    } else if has(CostRow::COLUMNS) {
        let rows: Vec<CostRow> = records(reader)?;
        of_one_run(&rows, "command", |row| &row.command)?;
        let version = of_one_run(&rows, "version", |row| &row.version)?;
        let seed = rows.iter().find_map(|row| row.seed);
        Ok(source("complexity", version, seed, Content::Costs(rows)))
    } else if has(ProbeRow::COLUMNS) {
        let rows: Vec<ProbeRow> = records(reader)?;
        let version = of_one_run(&rows, "version", |row| &row.version)?;
        Ok(source("probe", version, None, Content::Cases(rows)))
    } else if has(ClaimRow::COLUMNS) {
        let rows: Vec<ClaimRow> = records(reader)?;
        let version = of_one_run(&rows, "version", |row| &row.version)?;
        let seed = rows.iter().find_map(|row| row.seed);
        Ok(source("check", version, seed, Content::Claims(rows)))
    } else if has(&findings::COLUMNS) {
        let rows: Vec<FindingRow> = records(reader)?;
        known_findings(&rows)?;
        let version = of_one_run(&rows, "version", |row| &row.version)?;
        Ok(source("audit", version, None, Content::Findings(rows, Vec::new())))
    } else {
        Err(format!("is not {READABLE}"))
    }
}

fn records<R: DeserializeOwned>(reader: ::csv::Reader<&[u8]>) -> Result<Vec<R>, String> {
    let rows: Result<Vec<R>, ::csv::Error> = reader.into_deserialize().collect();
    rows.map_err(|error| format!("a row cannot be read: {}", io::Error::from(error)))
}

/// What a column says in every row, empty without one. Rows of several runs in one file have no verdict, seed or command in common.
fn of_one_run<R>(rows: &[R], column: &str, value: fn(&R) -> &str) -> Result<String, String> {
    let first = rows.first().map_or("", value);
    match rows.iter().map(value).find(|value| *value != first) {
        Some(other) => Err(format!(
            "holds rows of several runs: the column {column} is '{first}' and '{other}'; give each run its own file"
        )),
        None => Ok(first.to_owned()),
    }
}

/// A claim that stands twice, whatever came of it, is of two runs: counted together they would make one verdict of two.
fn each_claim_once(rows: &[Row]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let setting = |row: &Row| {
        (
            (row.name(), row.scale.clone(), row.mask.clone(), row.d_k, row.n_queries, row.n_keys),
            (row.entries.clone(), row.precision.clone(), row.method.clone()),
        )
    };
    match rows.iter().find(|row| !seen.insert(setting(row))) {
        Some(row) => Err(format!(
            "holds rows of several runs: {} stands twice with the same parameters; give each run its own file",
            row.name()
        )),
        None => Ok(()),
    }
}

/// A word that is not the program's own must not be taken for a pass.
fn known_findings(rows: &[FindingRow]) -> Result<(), String> {
    let known = |row: &&FindingRow| !["PASS", "FAIL", "WARN", "CANNOT TELL"].contains(&row.verdict.as_str());
    match rows.iter().find(known) {
        Some(row) => Err(format!("a finding's verdict is '{}', not PASS, FAIL, WARN or CANNOT TELL", row.verdict)),
        None => Ok(()),
    }
}
