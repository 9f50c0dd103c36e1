//! `attn report`: one page from the results of any subcommands.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::{ExitStatus, config, simulate};
use crate::cli::report::ReportArguments;
use crate::diagnosis::checks::explanation;
use crate::diagnosis::finding::Check;
use crate::report::format::is_stdout;
use crate::report::page::source::Source;
use crate::report::page::{self, Frame};
use crate::report::{AtomicFile, file, stdout};

/// More bytes than this are no results, or a page that no browser opens.
const LARGEST_FILE: u64 = 256 << 20;

/// Runs the subcommand; `invocation` is what was typed, for the page.
///
/// # Errors
/// A title without text, another ending than that of HTML, a file that cannot be read or is no result, one named twice, a page in place of one of them, a page that cannot be written.
pub fn run(typed: &ReportArguments, invocation: &str) -> Result<ExitStatus> {
    let output = Path::new(&typed.output);
    let inputs = || typed.files.iter().map(Path::new).filter(|path| !is_stdout(path));
    if typed.title.trim().is_empty() {
        bail!("--title '{}': must be a text, for example 'attention v2'", typed.title);
    }
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if !is_stdout(output) && !["html", "htm"].contains(&ending.as_str()) {
        bail!("--output '{}': the ending must be .html or .htm", output.display());
    }
    refuse_a_file_twice(typed)?;
    config::refuse_results_in_place_of_inputs(
        [("--output", output)],
        inputs(),
        "is one of the files that the page is made from",
    )?;
    let read = |name: &String| source(name).with_context(|| name.clone());
    let sources: Vec<Source> = typed.files.iter().map(read).collect::<Result<_>>()?;
    let page = page::render(&Frame { title: &typed.title, invocation, explain: &explain }, &sources);
    if is_stdout(output) {
        stdout::print(|output| output.write_all(page.as_bytes()))?;
    } else {
        AtomicFile::write_whole(output, |file| file.write_all(page.as_bytes())).context("--output")?;
        if !typed.quiet {
            simulate::say(&format!("{} written", output.display()));
        }
    }
    Ok(ExitStatus::Upheld)
}

/// A file that is counted twice makes a verdict look better founded than it is.
fn refuse_a_file_twice(typed: &ReportArguments) -> Result<()> {
    let mut seen: BTreeMap<PathBuf, &String> = BTreeMap::new();
    for name in &typed.files {
        let path = Path::new(name);
        let meant = if is_stdout(path) { path.to_owned() } else { config::file_meant(path) };
        if let Some(other) = seen.insert(meant, name) {
            bail!("{name}: is the same file as {other}");
        }
    }
    Ok(())
}

fn source(name: &str) -> Result<Source> {
    let reason = |error: std::io::Error| anyhow!("{}", file::reason(&error));
    let mut bytes = Vec::new();
    let read = match is_stdout(Path::new(name)) {
        true => std::io::stdin().lock().take(LARGEST_FILE + 1).read_to_end(&mut bytes),
        false => {
            let file = std::fs::File::open(name).map_err(reason)?;
            if file.metadata().map_err(reason)?.is_dir() {
                bail!("is a folder");
            }
            file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)
        }
    };
    read.map_err(reason)?;
    if bytes.len() as u64 > LARGEST_FILE {
        bail!("is larger than {} MB", LARGEST_FILE >> 20);
    }
    let shown = if name == "-" { "standard input" } else { name };
    Source::read(shown, &bytes).map_err(|rule| anyhow!("{rule}"))
}

/// What a check of an audit does.
fn explain(name: &str) -> Option<String> {
    Check::explained(name).map(|check| explanation(check).to_owned())
}
