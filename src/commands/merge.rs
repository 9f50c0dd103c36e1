//! `attn merge`: which run do the files belong to? The run itself is done again by its own subcommand, from their trials.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use csv::StringRecord;

use super::config::refuse_results_in_place_of_inputs;
use crate::experiment::per_trial::read::{End, TRUNCATED};
use crate::report::{command_line, file};

/// The invocation that all files name.
///
/// # Errors
/// A file that cannot be read, is no per-trial file, is named twice, or is of another version or run than the first with a row.
pub fn common_invocation(files: &[PathBuf]) -> Result<String> {
    let mut seen: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    for path in files {
        let meant = path.canonicalize().map_err(|error| anyhow!("{}: {}", path.display(), file::reason(&error)))?;
        if let Some(other) = seen.insert(meant, path) {
            bail!("{}: is the same file as {}", path.display(), other.display());
        }
    }
    let mut common: Option<(String, &Path)> = None;
    for path in files {
        let Some(invocation) = invocation_of(path).with_context(|| path.display().to_string())? else { continue };
        match &common {
            None => common = Some((invocation, path)),
            Some((first, _)) if *first == invocation => {}
            Some((first, of)) => {
                bail!("{}: {} (as in {})", path.display(), command_line::difference(&invocation, first), of.display());
            }
        }
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    Ok(common.with_context(|| format!("{}: has no row", names.join(", ")))?.0)
}

/// Checks that no result goes to one of the files that are read; `results` are options and their values.
///
/// # Errors
/// Option, value and rule.
pub fn refuse_results_in_place_of_shards(files: &[PathBuf], results: &[(&str, Option<&str>)]) -> Result<()> {
    let results = results.iter().filter_map(|(option, result)| Some((*option, Path::new((*result)?))));
    refuse_results_in_place_of_inputs(
        results,
        files.iter().map(PathBuf::as_path),
        "is one of the files that are merged",
    )
}

/// The invocation in the first row; None where there is no row: a shard of fewer trials than shards.
fn invocation_of(path: &Path) -> Result<Option<String>> {
    let mut file = File::open(path).map_err(|error| anyhow!("{}", file::reason(&error)))?;
    if !file.metadata()?.is_file() {
        bail!("is no regular file");
    }
    let end = End::of(&mut file)?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let Ok(header) = reader.headers().cloned() else { bail!("is no per-trial file: its first line is no text") };
    let column = |name: &str| header.iter().position(|field| field == name);
    let (Some(version), Some(_)) = (column("version"), column("trial")) else {
        bail!("is no per-trial file: it has no columns version and trial");
    };
    let mut row = StringRecord::new();
    if !reader.read_record(&mut row).context("its first row is no text")? {
        return Ok(None);
    }
    // What is cut off can look like anything.
    if end.cuts(reader.position()) {
        bail!(TRUNCATED);
    }
    let own = env!("CARGO_PKG_VERSION");
    let field = |column: usize| row.get(column).unwrap_or_default();
    if row.len() == header.len() && field(version) != own {
        bail!("is of version {}, this is {own}; the version that drew the trials merges them", field(version));
    }
    let Some(invocation) = column("invocation") else {
        bail!("has no column invocation: it was written before shards could be merged");
    };
    if row.len() < header.len() {
        bail!("truncated: its first row is not whole");
    }
    Ok(Some(field(invocation).to_string()))
}
