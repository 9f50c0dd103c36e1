//! `attn audit`: what is wrong with my attention?

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::audit_against;
use super::audit_arrays::{Group, Needed, groups};
use super::audit_contract::{contract, mask_kind};
use super::config::Targets;
use super::deliver::{self, Delivered, Destinations};
use super::{ExitStatus, config, simulate};
use crate::cli::audit::AuditArguments;
use crate::diagnosis::arrays::{ArraySource, Role};
use crate::diagnosis::audit::{Audit, audit};
use crate::diagnosis::checks::{explanation, sinusoidal_findings};
use crate::diagnosis::contract::Contract;
use crate::diagnosis::finding::{Check, Finding, Place, Verdict, joined};
use crate::diagnosis::given_mask::MaskKind;
use crate::diagnosis::growth::{Snapshot, growth_findings};
use crate::diagnosis::summary::HeadSummary;
use crate::experiment::progress::Progress;
use crate::report::findings::{FindingRow, HeadRow, write};
use crate::report::json::Run;
use crate::report::{plot, stdout, table};

/// Columns of text of a table in a file, wide enough for the table of heads.
const FILE_WIDTH: usize = 120;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, unreadable files, arrays that do not fit, an output that cannot be written.
pub fn run(typed: &AuditArguments, invocation: &str) -> Result<ExitStatus> {
    if let Some(name) = &typed.explain {
        return explain(name);
    }
    // A value of --causal needs "=", since a file may follow it.
    if typed.causal.as_deref() == Some("")
        && let Some(word) = typed.files.iter().find(|file| ["top-left", "bottom-right"].contains(&file.as_str()))
        && !Path::new(word).exists()
    {
        bail!("--causal {word}: write --causal={word}");
    }
    let contract = contract(typed)?;
    let kind = mask_kind(typed)?;
    let (targets, format) = Targets::of(&typed.results)?;
    let results = [("--output", targets.output.as_deref()), ("--plot", targets.plot.as_deref())];
    config::refuse_results_in_place_of_inputs(
        results.into_iter().filter_map(|(option, path)| Some((option, path?))),
        typed.files.iter().chain(&typed.against).map(Path::new),
        "is also a file that is read",
    )?;
    let destinations = Destinations::open_targets(&targets)?;
    let Rows { findings, heads, remarks } = if typed.against.is_empty() {
        rows(typed, &contract, kind)?
    } else {
        let (findings, remarks) = audit_against::rows(typed, &contract)?;
        Rows { findings, remarks, ..Rows::default() }
    };
    let run = Run {
        command: "audit".to_string(),
        invocation: invocation.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: None,
        remarks,
    };
    let render = |output: &mut dyn Write, terminal: bool| {
        write(format, &run, &findings, &heads, &deliver::layout(terminal, FILE_WIDTH, None), output)
    };
    let conditions = format!("{} · attn {}", inputs_named(typed), run.version);
    let picture = || plot::audit(&findings, &heads, &conditions);
    if destinations.deliver_rendered(&targets, picture, render)? == Delivered::WithoutPicture {
        simulate::warn("--plot: nothing was found to be drawn; no picture written");
    }
    let failed = findings.iter().any(|row| row.verdict == Verdict::Fail.to_string());
    Ok(if failed { ExitStatus::Rejected } else { ExitStatus::Upheld })
}

/// The files as they were named, for a heading.
fn inputs_named(typed: &AuditArguments) -> String {
    let against =
        if typed.against.is_empty() { String::new() } else { format!(" against {}", typed.against.join(" ")) };
    format!("{}{against}", typed.files.join(" "))
}

/// Prints what a check does.
fn explain(name: &str) -> Result<ExitStatus> {
    let check = Check::explained(name).ok_or_else(|| {
        let names: Vec<&str> = Check::ALL.into_iter().map(Check::explained_as).collect();
        anyhow!("--explain {name}: must be one of {}", names.join(", "))
    })?;
    stdout::print(|output| {
        let width = table::Layout::of_stdout(None).width;
        explanation(check).lines().try_for_each(|line| writeln!(output, "{}", table::paragraph(line, width)))
    })?;
    Ok(ExitStatus::Upheld)
}

/// Rows for people and machines, and what the arrays are.
#[derive(Default)]
struct Rows {
    findings: Vec<FindingRow>,
    heads: Vec<HeadRow>,
    remarks: Vec<String>,
}

/// The rows of every group; of several dumps also what the series shows.
fn rows(typed: &AuditArguments, contract: &Contract, kind: Option<MaskKind>) -> Result<Rows> {
    let dumps = dumps(typed)?;
    let mut rows = Rows::default();
    let all = dumps.iter().flat_map(|(_, groups)| groups);
    all.clone().for_each(|group| group.give_notice(typed.results.quiet));
    let progress = Progress::new(all.count() as f64, typed.results.quiet);
    let mut series: BTreeMap<String, Vec<Snapshot>> = BTreeMap::new();
    let is_series = dumps.len() > 1;
    for (file, groups) in dumps {
        for group in groups {
            let name = group.name.clone();
            rows.remarks.push(group.remark(if is_series { &file } else { "Arrays" }));
            let of_group = |error: String| if name.is_empty() { anyhow!(error) } else { anyhow!("{name}: {error}") };
            let value_size = if is_series { group.value_size().map_err(of_group)? } else { None };
            let audited = audited(group, contract, kind, &progress).map_err(of_group)?;
            let shared = shared(&file, &name);
            let shape = audited.as_ref().map_or((1, 1), |audit| (audit.0.batches, audit.0.sizes.heads));
            match audited {
                Ok((audit, ..)) => {
                    rows.findings.extend(audit.findings.iter().map(|finding| row(&shared, finding, shape)));
                    rows.heads.extend(audit.heads.iter().map(|summary| head_row(&file, &name, summary)));
                    series.entry(name).or_default().push(Snapshot { heads: audit.heads, value_size });
                }
                Err(alone) => rows.findings.extend(alone.iter().map(|finding| row(&shared, finding, shape))),
            }
        }
    }
    progress.finish();
    for (name, snapshots) in series {
        let last = |pick: fn(&HeadSummary) -> usize| snapshots[0].heads.iter().map(pick).max().unwrap_or(0) + 1;
        let shape = (last(|summary| summary.batch), last(|summary| summary.head));
        let shared = shared(&typed.files.join(" "), &name);
        rows.findings.extend(growth_findings(&snapshots).iter().map(|finding| row(&shared, finding, shape)));
    }
    Ok(rows)
}

fn shared(file: &str, group: &str) -> FindingRow {
    FindingRow {
        file: file.to_string(),
        group: group.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        ..FindingRow::default()
    }
}

/// The groups of each file if every one of several is a dump with Q and K of its own, else those of all files together.
fn dumps(typed: &AuditArguments) -> Result<Vec<(String, Vec<Group>)>> {
    let of = |paths: &[String]| groups(typed, paths, Needed::QueriesAndKeys);
    if typed.files.len() > 1 {
        let each = typed.files.iter().map(|file| Ok((file.clone(), of(std::slice::from_ref(file))?)));
        // A file without Q and K holds one array of several.
        if let Ok(each) = each.collect::<Result<Vec<_>>>() {
            return Ok(each);
        }
    }
    Ok(vec![(typed.files.join(" "), of(&typed.files)?)])
}

/// The audit of a group, or, where it is a position table alone, its findings.
fn audited(
    mut group: Group,
    contract: &Contract,
    kind: Option<MaskKind>,
    progress: &Progress,
) -> Result<std::result::Result<(Audit,), Vec<Finding>>, String> {
    if !group.arrays.contains_key(&Role::Queries)
        && let Some(table) = group.arrays.remove(&Role::PositionTable)
    {
        progress.advance(1.0);
        return Ok(Err(joined(sinusoidal_findings(&(table.read)(0, 0)?))));
    }
    let arrays: BTreeMap<_, _> = group.arrays;
    let source = ArraySource::new(arrays, contract, kind)
        .map_err(|error| format!("{error}; there are {}", group.described.join("; ")))?;
    let audit = audit(&source, contract, &|_, of| progress.advance(1.0 / of as f64))?;
    Ok(Ok((audit,)))
}

pub(super) fn row(shared: &FindingRow, finding: &Finding, (batches, heads): (usize, usize)) -> FindingRow {
    let numbers = |pick: fn(&(usize, usize)) -> usize| match &finding.place {
        Place::Everywhere => String::new(),
        Place::Heads(places) => {
            let mut numbers: Vec<usize> = places.iter().map(pick).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
        }
    };
    let mut place = finding.place.words(batches, heads);
    match finding.cell {
        Some((row, Some(column))) => place.push_str(&format!("; first (row {row}, column {column})")),
        Some((row, None)) => place.push_str(&format!("; row {row}")),
        None => {}
    }
    FindingRow {
        batch: numbers(|place| place.0),
        head: numbers(|place| place.1),
        check: finding.check.to_string(),
        verdict: finding.verdict.to_string(),
        measured: finding.measured.filter(|number| number.is_finite()),
        expected: finding.expected.filter(|number| number.is_finite()),
        unit: finding.unit.to_string(),
        place,
        explanation: finding.explanation.clone(),
        standard_error: finding.standard_error.filter(|number| number.is_finite()),
        cause: finding.cause.clone(),
        would_confirm: finding.would_confirm.clone(),
        symptoms: finding.symptoms.clone(),
        places: match &finding.place {
            Place::Everywhere => Vec::new(),
            Place::Heads(places) => places.clone(),
        },
        ..shared.clone()
    }
}

fn head_row(file: &str, group: &str, summary: &HeadSummary) -> HeadRow {
    HeadRow {
        file: file.to_string(),
        group: group.to_string(),
        batch: summary.batch,
        head: summary.head,
        query_mean: summary.query_mean,
        query_variance: summary.query_variance,
        key_mean: summary.key_mean,
        key_variance: summary.key_variance,
        raw_mean: summary.raw_mean,
        raw_variance: summary.raw_variance,
        scaled_mean: summary.scaled_mean,
        scaled_variance: summary.scaled_variance,
        within_row_variance: summary.within_row_variance,
        dependence: summary.dependence,
        entropy: summary.entropy,
        relative_entropy: summary.relative_entropy,
        control_relative_entropy: summary.control.map(|control| control.relative_entropy),
        mean_largest_weight: summary.mean_largest_weight,
        control_largest_weight: summary.control.map(|control| control.largest_weight),
        largest_weight: summary.largest_weight,
        first_key_weight: summary.first_key_weight,
        expected_scale: summary.expected_scale,
        fitted_scale: summary.fitted_scale,
        fitted_scale_error: summary.fitted_scale_error,
    }
}
