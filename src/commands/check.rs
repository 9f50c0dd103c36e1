//! `attn check`: does everything still hold? A suite of command lines under one false-alarm rate.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::check_item::{PerTrialFile, Runner, run_item};
use super::config::{self, option};
use super::deliver::FILE_WIDTH;
use super::{ExitStatus, parse, simulate};
use crate::cli::{self, check::CheckArguments};
use crate::experiment::progress::Progress;
use crate::report::claims::{self, ClaimRow, ClaimVerdict, Count, Heading};
use crate::report::json::Run;
use crate::report::plot::{self, PictureFormat};
use crate::report::table::{Colour, Layout};
use crate::report::{AtomicFile, Format, file, junit, stdout};
use crate::suite::baseline::PerTrial;
use crate::suite::{BUILT_IN, Item, Kind, Suite};

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// A suite that cannot be read, options that do not fit, files that cannot be written.
pub fn run(typed: &CheckArguments, invocation: &str) -> Result<ExitStatus> {
    if let Some(path) = &typed.init {
        return init(typed, path);
    }
    let (suite, name, folder) = suite(typed)?;
    for item in &suite.items {
        cli::suite_words(&item.words).map_err(|rule| anyhow!("{name}: check \"{}\": {rule}", item.name))?;
    }
    let output = (typed.results.output != "-").then(|| PathBuf::from(&typed.results.output));
    let format = config::format(typed.results.format.as_deref(), output.as_deref())?;
    let seed = match suite.seed {
        Some(seed) => seed,
        None => parse::seed("random").map_err(|rule| anyhow!("--fresh-seed: {rule}"))?,
    };
    let runner = Runner {
        program: std::env::current_exe().context("the program cannot find itself")?,
        folder,
        share: suite.share(),
        seed,
        threads: config::threads(typed.threads.as_deref())?,
        per_trial: typed.per_trial.as_deref().map(std::path::absolute).transpose()?,
        baseline: baseline(typed, &suite)?,
        drift: option("--drift", &typed.drift, parse::relative)?,
    };
    let before: Vec<Before> = suite.items.iter().map(|item| runner.before(item)).collect();
    refuse_to_overwrite(typed, &suite, &runner, &before)?;
    let mut destinations = Destinations::open(typed, output.as_deref())?;
    if !typed.results.quiet {
        let count = suite.items.len();
        simulate::say(&format!("{name}: {count} check{}, seed {seed}", if count == 1 { "" } else { "s" }));
    }
    if let Some(folder) = &runner.per_trial {
        fs::create_dir_all(folder)
            .map_err(|error| anyhow!("--per-trial {}: {}", folder.display(), file::reason(&error)))?;
    }
    let mut checked = checked(&suite.items, &before, &runner, typed.results.quiet);
    let rows: Vec<ClaimRow> = checked.iter().flat_map(|checked| checked.rows.clone()).collect();
    let run = Run {
        command: "check".to_string(),
        invocation: invocation.to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        seed: Some(seed),
        remarks: vec![format!("{}.", Count::of(&rows).sentence())],
    };
    let heading = Heading { suite: name, false_alarm: suite.false_alarm, run };
    destinations.write(&heading, &checked, &rows, format)?;
    if output.is_some() && !typed.results.quiet {
        simulate::say(&Count::of(&rows).sentence());
    }
    destinations.commit()?;
    for kept in checked.iter_mut().filter_map(|checked| checked.trials.take()) {
        kept.keep().map_err(|error| anyhow!("--per-trial: {}", file::reason(&error)))?;
    }
    if output.is_none() {
        stdout::print(|output| claims::write(format, &heading, &rows, &Layout::of_stdout(None), output))?;
    }
    Ok(match Count::of(&rows).worst() {
        ClaimVerdict::Rejected => ExitStatus::Rejected,
        ClaimVerdict::Error => ExitStatus::NoData,
        ClaimVerdict::Undecided => ExitStatus::Undecided,
        ClaimVerdict::Noted | ClaimVerdict::Upheld => ExitStatus::Upheld,
    })
}

/// Writes the built-in suite to start from.
fn init(typed: &CheckArguments, path: &str) -> Result<ExitStatus> {
    if let Some(suite) = &typed.suite {
        bail!("--init: writes the built-in suite, and does not run {suite}; leave one of them out");
    }
    // A suite that somebody has worked on must not be lost.
    if Path::new(path).exists() {
        bail!("--init {path}: is there already; name another file");
    }
    AtomicFile::write_whole(path, |file| file.write_all(BUILT_IN.as_bytes())).context("--init")?;
    if !typed.results.quiet {
        simulate::say(&format!("{path} written; run it with 'attn check {path}'"));
    }
    Ok(ExitStatus::Upheld)
}

/// The suite with what the command line says over it, its name, and the folder its paths start at.
fn suite(typed: &CheckArguments) -> Result<(Suite, String, PathBuf)> {
    let (text, name, folder) = match &typed.suite {
        None => (BUILT_IN.to_string(), "built-in suite".to_string(), PathBuf::from(".")),
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| path.clone())?;
            let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
            (text, path.clone(), folder.unwrap_or(Path::new(".")).to_owned())
        }
    };
    let mut suite = Suite::read(&text).map_err(|rule| anyhow!("{name}: {rule}"))?;
    if let Some(rate) = &typed.false_alarm {
        suite.false_alarm = option("--false-alarm", rate, parse::error_rate)?;
    }
    if let Some(seed) = &typed.seed {
        suite.seed = Some(option("--seed", seed, parse::seed)?);
    }
    if typed.fresh_seed {
        suite.seed = None;
    }
    if let Some(path) = &typed.baseline {
        let simulations = suite.items.iter().filter(|item| item.kind() == Kind::Simulation).count();
        if simulations == 0 {
            bail!("--baseline {path}: the suite has no simulation to compare");
        }
        // One more comparison for each simulation that has none of its own: the budget is divided over it.
        for item in suite.items.iter_mut().filter(|item| item.kind() == Kind::Simulation) {
            item.baseline = Some(PathBuf::from(item.file_name()));
        }
    }
    Ok((suite, name, folder))
}

/// Where the baselines of `--baseline` are: the folder, or the one file.
fn baseline(typed: &CheckArguments, suite: &Suite) -> Result<Option<PathBuf>> {
    let Some(path) = &typed.baseline else { return Ok(None) };
    let found = fs::metadata(path).with_context(|| format!("--baseline {path}"))?;
    let simulations = suite.items.iter().filter(|item| item.kind() == Kind::Simulation).count();
    if !found.is_dir() && simulations != 1 {
        bail!(
            "--baseline {path}: is one file, the suite has {simulations} simulations; name the folder that --per-trial wrote"
        );
    }
    Ok(Some(std::path::absolute(path)?))
}

/// An item that was run.
struct Checked<'a> {
    item: &'a Item,
    time: Duration,
    rows: Vec<ClaimRow>,
    trials: Option<PerTrialFile>,
}

/// The trials of an earlier version, where an item has some: their file and what is in it.
type Before = Option<(PathBuf, std::result::Result<PerTrial, String>)>;

/// What is read must not be overwritten by what is written: it would be compared with itself, or be lost.
fn refuse_to_overwrite(typed: &CheckArguments, suite: &Suite, runner: &Runner, before: &[Before]) -> Result<()> {
    let read = before.iter().flatten().map(|(path, _)| path.as_path()).chain(typed.suite.as_deref().map(Path::new));
    let of_trials = suite.items.iter().filter(|item| item.kind() == Kind::Simulation);
    let kept = runner.per_trial.iter().flat_map(|folder| of_trials.clone().map(|item| folder.join(item.file_name())));
    let kept: Vec<PathBuf> = kept.collect();
    let named = [
        ("--output", Some(typed.results.output.as_str())),
        ("--junit", typed.junit.as_deref()),
        ("--markdown", typed.markdown.as_deref()),
        ("--plot", typed.results.plot.as_deref()),
    ];
    let named = named.into_iter().filter_map(|(name, path)| Some((name, Path::new(path?))));
    let written = named.chain(kept.iter().map(|path| ("--per-trial", path.as_path())));
    config::refuse_results_in_place_of_inputs(written, read, "is read by this check and would be overwritten")
}

fn checked<'a>(items: &'a [Item], before: &[Before], runner: &Runner, quiet: bool) -> Vec<Checked<'a>> {
    let progress = Progress::new(items.len() as f64, quiet);
    let run = |(item, before): (&'a Item, &Before)| {
        let started = Instant::now();
        let (rows, trials) = run_item(item, before.as_ref().map(|(_, trials)| trials), runner);
        progress.advance(1.0);
        Checked { item, time: started.elapsed(), rows, trials }
    };
    let checked = items.iter().zip(before).map(run).collect();
    progress.finish();
    checked
}

/// The files that the claims go to, opened before anything is run.
struct Destinations {
    output: Option<AtomicFile>,
    junit: Option<AtomicFile>,
    markdown: Option<AtomicFile>,
    plot: Option<(AtomicFile, PictureFormat)>,
}

impl Destinations {
    fn open(typed: &CheckArguments, output: Option<&Path>) -> Result<Self> {
        let named = [
            ("--output", output),
            ("--junit", typed.junit.as_deref().map(Path::new)),
            ("--markdown", typed.markdown.as_deref().map(Path::new)),
            ("--plot", typed.results.plot.as_deref().map(Path::new)),
        ];
        for (name, path) in &named[1..] {
            if *path == Some(Path::new("-")) {
                bail!("{name} -: must name a file, standard output is for the claims");
            }
        }
        config::refuse_one_file_for_two_results(&named)?;
        let open = |name: &str, path: Option<&Path>| {
            path.map(AtomicFile::create).transpose().with_context(|| name.to_string())
        };
        let [(_, output), (_, junit), (_, markdown), (_, plot)] = named;
        let picture = plot.map(PictureFormat::of_path).transpose()?;
        Ok(Self {
            output: open("--output", output)?,
            junit: open("--junit", junit)?,
            markdown: open("--markdown", markdown)?,
            plot: open("--plot", plot)?.zip(picture),
        })
    }

    fn write(&mut self, heading: &Heading, checked: &[Checked], rows: &[ClaimRow], format: Format) -> Result<()> {
        let layout = Layout { width: FILE_WIDTH, colour: Colour::Plain, false_alarm: None };
        if let Some(file) = &mut self.output {
            claims::write(format, heading, rows, &layout, file).context("--output")?;
        }
        if let Some(file) = &mut self.markdown {
            claims::write(Format::Markdown, heading, rows, &layout, file).context("--markdown")?;
        }
        if let Some(file) = &mut self.junit {
            let items: Vec<junit::Item> = (checked.iter())
                .map(|checked| junit::Item { name: &checked.item.name, time: checked.time, rows: &checked.rows })
                .collect();
            junit::write(&items, file).context("--junit")?;
        }
        // A suite without an item is refused, and each item has a claim, so there is always something to draw.
        if let Some((file, format)) = &mut self.plot
            && let Some(picture) = plot::suite(heading, rows)
        {
            picture.write(*format, file).context("--plot")?;
        }
        Ok(())
    }

    fn commit(self) -> Result<()> {
        let plot = self.plot.map(|(file, _)| file);
        let files =
            [("--junit", self.junit), ("--markdown", self.markdown), ("--plot", plot), ("--output", self.output)];
        for (name, file) in files {
            file.map(AtomicFile::commit).transpose().context(name)?;
        }
        Ok(())
    }
}
