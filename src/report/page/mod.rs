//! One page of results: verdict first, then each claim with its formula, its picture and its table.
//!
//! A page is one text without anything outside it: no script, no font, no address that is asked for. It is HTML that is well-formed XML too.
//! The bytes depend on the files and their names alone.

mod cases;
mod claim;
mod costs;
mod findings;
mod formula;
mod html;
pub mod markup;
mod meanings;
mod section;
pub mod source;
mod statistics;
mod suite;

use super::command_line;
use section::{Section, Standing};
use source::{Content, Form, Source};

/// What stands around the results.
pub struct Frame<'a> {
    /// Name of the page.
    pub title: &'a str,
    /// The command line that made it.
    pub invocation: &'a str,
    /// What a check of an audit does, by its name.
    pub explain: &'a dyn Fn(&str) -> Option<String>,
}

/// The page of these files, in their order.
pub fn render(frame: &Frame, sources: &[Source]) -> String {
    let sections: Vec<Section> = sources.iter().map(|source| section(source, frame.explain)).collect();
    html::render(frame, &sections)
}

/// What a page says of a file.
fn section(source: &Source, explain: &dyn Fn(&str) -> Option<String>) -> Section {
    let section = match &source.content {
        Content::Statistics(rows) => statistics::section(source, rows),
        Content::Costs(rows) => costs::section(rows),
        Content::Findings(rows, heads) => findings::section(rows, heads, explain),
        Content::Cases(rows) => cases::section(rows),
        Content::Claims(rows) => suite::section(rows),
    };
    let form = match source.form {
        Form::Json => "JSON",
        Form::Csv => "CSV, without command line and remarks",
    };
    let shared = [
        ("file", Some(format!("{} ({form})", source.name))),
        ("seed", source.seed.map(|seed| seed.to_string())),
        ("made by", Some(format!("attn {}", source.version)).filter(|_| !source.version.is_empty())),
    ];
    let facts = shared.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    // A suite names the commands of its items itself; the one that ran them comes first.
    let mut commands: Vec<String> = source.invocation.iter().cloned().collect();
    commands.extend(
        section.commands.iter().filter(|command| source.invocation.as_ref().is_none_or(|own| own != *command)).cloned(),
    );
    let missing = "The CSV does not hold the whole command line; write JSON (-o result.json) to keep it.";
    let note = match (section.note_on_commands.is_empty(), commands.is_empty()) {
        (true, true) => missing.to_owned(),
        _ => section.note_on_commands.clone(),
    };
    let commands = commands.iter().map(|line| command_line::without_destinations(line)).collect();
    Section {
        command: source.command.clone(),
        file: source.name.clone(),
        facts: facts.chain(section.facts.clone()).collect(),
        remarks: source.remarks.clone(),
        commands,
        note_on_commands: note,
        ..section
    }
}

/// The verdict of all files together: that of the worst. A file without a claim is no pass.
fn overall(sections: &[Section]) -> Standing {
    sections.iter().map(|section| section.tally().worst()).min().unwrap_or(Standing::NoData)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
