//! One item of a suite: its command line in a process of its own, so that what goes wrong in one loses nothing of the others.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempPath;

use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::report::file;
use crate::report::interrupt::{ProcessGroup, Registration};
use crate::suite::baseline::{self, PerTrial};
use crate::suite::results::{self, Results, claim};
use crate::suite::{Expect, Item, Kind, interval};

/// How the items are run.
#[derive(Debug)]
pub struct Runner {
    /// This program.
    pub program: PathBuf,
    /// Folder that paths in the suite start at.
    pub folder: PathBuf,
    /// False-alarm rate of each part.
    pub share: f64,
    /// Seed of every draw.
    pub seed: u64,
    /// Threads of each command; None is all cores.
    pub threads: Option<usize>,
    /// Folder that keeps the trials.
    pub per_trial: Option<PathBuf>,
    /// Folder or file of the trials of an earlier version, if the command line names one.
    pub baseline: Option<PathBuf>,
    /// Smallest drift that must be seen.
    pub drift: f64,
}

/// Runs `item` and says what became of its claims. What goes wrong is a claim without data.
///
/// `before` holds the trials of an earlier version, read before anything was run.
pub fn run_item(
    item: &Item,
    before: Option<&Result<PerTrial, String>>,
    runner: &Runner,
) -> (Vec<ClaimRow>, Option<PerTrialFile>) {
    let error = |explanation: String| {
        let row = claim(item, "run", "the command runs", ClaimVerdict::Error);
        (vec![ClaimRow { explanation, ..row }], None)
    };
    let kept = match PerTrialFile::of(item, runner) {
        Ok(kept) => kept,
        Err(reason) => return error(reason),
    };
    let output = match output(&mut command(item, runner, kept.as_ref().map(PerTrialFile::path))) {
        Ok(output) => output,
        Err(reason) => return error(format!("it could not be started: {reason}")),
    };
    let Results { mut claims, rows } = match understood(item, &output) {
        Ok(results) => results,
        Err(reason) => return error(reason),
    };
    claims.extend(interval::claims(item, &rows, runner.share));
    if let Some(before) = before {
        match compared(item, before, kept.as_ref().map(PerTrialFile::path), runner) {
            Ok(compared) => claims.extend(compared),
            Err(explanation) => {
                let row = claim(item, "baseline", "the trials of an earlier version", ClaimVerdict::Error);
                claims.push(ClaimRow { explanation, ..row });
            }
        }
    }
    if claims.iter().all(|claim| claim.verdict == ClaimVerdict::Noted) {
        let row = claim(item, "run", "something is checked", ClaimVerdict::Error);
        claims.push(ClaimRow { explanation: "there are notes, and nothing that could be judged".to_string(), ..row });
    }
    claims.iter_mut().for_each(|claim| claim.seed = claim.seed.or(draws(item).then_some(runner.seed)));
    (claims, kept)
}

/// Runs the command in a process group of its own, which an interrupt of this run ends with it.
fn output(command: &mut Command) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, group) = ProcessGroup::spawn(command)?;
    let output = child.wait_with_output();
    drop(group);
    output
}

fn draws(item: &Item) -> bool {
    matches!(item.kind(), Kind::Simulation | Kind::Count)
}

/// The command line with what belongs to the suite.
fn command(item: &Item, runner: &Runner, per_trial: Option<&Path>) -> Command {
    let mut command = Command::new(&runner.program);
    command.current_dir(&runner.folder).stdin(Stdio::null());
    // A probe's own command stands behind `--`: options go before it.
    let (own, behind) =
        item.words.split_at(item.words.iter().position(|word| word == "--").unwrap_or(item.words.len()));
    command.args(own).args(["--format", "json", "--quiet"]);
    if item.kind() == Kind::Simulation {
        command.args(["--false-alarm", &runner.share.to_string()]);
    }
    if draws(item) {
        command.args(["--seed", &runner.seed.to_string()]);
        if let Some(threads) = runner.threads {
            command.args(["--threads", &threads.to_string()]);
        }
    }
    if let Some(path) = per_trial {
        command.arg("--per-trial").arg(path);
    }
    command.args(behind);
    command
}

/// What the process left behind, read; its exit code must agree with its rows.
fn understood(item: &Item, output: &Output) -> Result<Results, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    let last = last.strip_prefix("attn: error: ").unwrap_or(last);
    let code = match output.status.code() {
        Some(code @ (0 | 1 | 3)) => code,
        Some(2) => return Err(last.to_string()),
        Some(code) => return Err(format!("exit code {code}: {last}")),
        None => return Err(format!("{}: {last}", output.status)),
    };
    let results = results::read(item, &String::from_utf8_lossy(&output.stdout))?;
    let rejected = results.claims.iter().any(|row| row.verdict == ClaimVerdict::Rejected);
    // A gate must not pass because a row was lost on the way.
    if item.expect == Expect::Upheld && code == 1 && !rejected {
        return Err("its exit code says that something is rejected, its rows do not".to_string());
    }
    if item.expect == Expect::Upheld && code == 0 && results.claims.iter().any(|row| is_bad(row, item)) {
        return Err("its rows say that something is rejected, its exit code does not".to_string());
    }
    Ok(results)
}

/// Whether the command itself must have said so by its exit code; a WARN that the suite rejects is the suite's own.
fn is_bad(row: &ClaimRow, item: &Item) -> bool {
    row.verdict == ClaimVerdict::Rejected && !(item.kind() == Kind::Audit && row.explanation.starts_with("WARN"))
}

fn compared(
    item: &Item,
    before: &Result<PerTrial, String>,
    now: Option<&Path>,
    runner: &Runner,
) -> Result<Vec<ClaimRow>, String> {
    let now = read(now.ok_or("it kept no trials")?)?;
    Ok(baseline::claims(item, before.as_ref().map_err(String::clone)?, &now, runner.share, runner.drift))
}

fn read(path: &Path) -> Result<PerTrial, String> {
    let named = |error: String| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| named(file::reason(&error)))?;
    PerTrial::read(file).map_err(named)
}

impl Runner {
    /// The trials of an earlier version that `item` is compared with.
    pub fn before(&self, item: &Item) -> Option<(PathBuf, Result<PerTrial, String>)> {
        let path = self.baseline_file(item.baseline.as_ref()?);
        let trials = read(&path);
        Some((path, trials))
    }

    /// The earlier trials: what the command line names goes before what the suite names.
    fn baseline_file(&self, of_suite: &Path) -> PathBuf {
        match &self.baseline {
            Some(path) if path.is_dir() => path.join(of_suite),
            Some(path) => path.clone(),
            None => self.folder.join(of_suite),
        }
    }
}

/// Where the trials of an item go: a temporary that is removed when the run ends or is interrupted, unless it is to stay.
pub struct PerTrialFile {
    path: TempPath,
    registration: Registration,
    /// The name that it gets when the whole suite has run.
    destination: Option<PathBuf>,
}

impl PerTrialFile {
    fn of(item: &Item, runner: &Runner) -> Result<Option<Self>, String> {
        let destination = runner.per_trial.as_ref().map(|folder| folder.join(item.file_name()));
        if item.kind() != Kind::Simulation || (destination.is_none() && item.baseline.is_none()) {
            return Ok(None);
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".attn-").suffix(file::SUFFIX);
        let create = || {
            let made = match &runner.per_trial {
                Some(folder) => builder.tempfile_in(folder)?,
                None => builder.tempfile()?,
            };
            let path = made.into_temp_path();
            let name = path.to_path_buf();
            Ok((path, name))
        };
        let (path, registration) = Registration::of(create)
            .map_err(|error| format!("no temporary file for its trials: {}", file::reason(&error)))?;
        Ok(Some(Self { path, registration, destination }))
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, if it is to stay.
    ///
    /// # Errors
    /// When the folder has changed.
    pub fn keep(self) -> io::Result<()> {
        let Self { path, registration, destination } = self;
        registration.release(|| match destination {
            Some(destination) => path.persist(destination).map_err(|error| error.error),
            None => Ok(()),
        })
    }
}
