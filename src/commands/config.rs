//! What is meant, from what was typed: a [`Config`] can only be built valid, and nobody checks again after it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use rayon::prelude::*;

use super::parse;
use crate::attention::{Precision, Scale};
use crate::cli::output::OutputArguments;
use crate::cli::shared::SharedArguments;
use crate::experiment::{ErrorRates, InputLaw, LARGEST_TRIALS, Shard, Sizes};
use crate::report::Format;
use crate::report::colour;
use crate::report::format::{FormatError, is_stdout};
use crate::report::plot::PictureFormat;

/// A checked simulation: what to draw, what to run, how sure to be, where the result goes.
#[derive(Debug, Clone)]
pub struct Config {
    /// The parameter points of the sweep, in the order typed.
    pub sizes: Vec<Sizes>,
    /// Number of trials at every point; `None` plans it from the error rates.
    pub trials: Option<u64>,
    /// False-alarm rate of the whole invocation, miss rate and smallest deviation per row.
    pub rates: ErrorRates,
    /// Law of the entries of Q and K.
    pub law: InputLaw,
    /// Factors on QKᵀ.
    pub scales: Vec<Scale>,
    /// Arithmetic of the attention under test.
    pub precision: Precision,
    /// Seed of every draw.
    pub seed: u64,
    /// The threads of the run.
    pub pool: Arc<rayon::ThreadPool>,
    /// Whether the kernels in plain Rust are used in place of the fastest.
    pub portable: bool,
    /// The part of the trials to run.
    pub shard: Option<Shard>,
    /// Where the rows go; `None` is stdout.
    pub output: Option<PathBuf>,
    /// How the rows are written.
    pub format: Format,
    /// Where one row per trial goes.
    pub per_trial: Option<PathBuf>,
    /// Whether that file is begun or gone on with.
    pub start: Start,
    /// The files that hold the trials, where none is drawn (`attn merge`).
    pub trials_from: Vec<PathBuf>,
    /// Where the picture goes.
    pub plot: Option<PathBuf>,
    /// No progress, no notes.
    pub quiet: bool,
}

/// Whether a file of trials is begun or gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// `--per-trial`: whole or not at all.
    Anew,
    /// `--resume`: from where an interrupted run left it.
    Resumed,
}

/// Rows of Q where nothing else is said.
const QUERIES: &str = "512";
/// Smallest deviation seen where nothing else is said.
const DETECT: &str = "1%";
/// More threads than any machine has: a slip of the keyboard.
const MOST_THREADS: u64 = 4096;
/// Factors on QKᵀ beyond these take the fourth moments of logits out of the range of numbers.
const SMALLEST_FACTOR: f64 = 1e-20;
const LARGEST_FACTOR: f64 = 1e20;
/// A sweep with more points than this is a slip of the keyboard.
const MOST_POINTS: usize = 100_000;

impl Config {
    /// Checks every option; an error names the option, the value and the rule.
    pub fn new(typed: &SharedArguments) -> Result<Self> {
        let law = entry_law(typed)?;
        let sizes = sizes(typed)?;
        if law.correlation != 0.0
            && let Some(point) = sizes.iter().find(|point| point.queries != point.keys)
        {
            bail!(
                "--correlation {}: needs as many keys as queries (q and k of the same token), not --queries {} --keys {}",
                typed.correlation,
                point.queries,
                point.keys
            );
        }
        let shard: Option<Shard> =
            typed.shard.as_deref().map(|text| option("--shard", text, str::parse)).transpose()?;
        if let (Some(shard), None, None) = (shard, &typed.per_trial, &typed.resume) {
            bail!("--shard {shard}: needs --per-trial FILE, the file that holds the shard (or --resume FILE)");
        }
        let (per_trial, start) = per_trial(typed)?;
        if let (Some(shard), true) = (&typed.shard, typed.results.output != "-" || typed.results.plot.is_some()) {
            bail!(
                "--shard {shard}: a shard has no result of its own, only --per-trial FILE; leave --output and --plot to the merged run"
            );
        }
        let output = (typed.results.output != "-").then(|| PathBuf::from(&typed.results.output));
        let config = Self {
            sizes,
            trials: (typed.trials.as_deref())
                .map(|text| option("--trials", text, |text| parse::count(text, LARGEST_TRIALS)))
                .transpose()?,
            rates: ErrorRates {
                false_alarm: option("--false-alarm", &typed.false_alarm, parse::error_rate)?,
                miss: option("--miss", &typed.miss, parse::error_rate)?,
                detect: option("--detect", typed.detect.as_deref().unwrap_or(DETECT), parse::relative)?,
            },
            law,
            scales: option("--scale", &typed.scale, scales)?,
            precision: option("--precision", &typed.precision, str::parse)?,
            seed: option("--seed", &typed.seed, parse::seed)?,
            portable: typed.portable,
            shard,
            format: format(typed.results.format.as_deref(), output.as_deref())?,
            output,
            per_trial,
            start,
            trials_from: typed.trials_from.clone(),
            plot: typed.results.plot.as_deref().map(PathBuf::from),
            quiet: typed.results.quiet,
            pool: Arc::new(pool(threads(typed.threads.as_deref())?)?),
        };
        config.targets().check()?;
        Ok(config)
    }

    /// One experiment a parameter point, its theory found on the threads of the run.
    pub fn experiments<E: Send>(&self, experiment: impl Fn(Sizes) -> E + Sync) -> Vec<E> {
        self.pool.install(|| self.sizes.par_iter().map(|&sizes| experiment(sizes)).collect())
    }

    /// Where the results go.
    pub fn targets(&self) -> Targets {
        Targets { output: self.output.clone(), plot: self.plot.clone(), per_trial: self.per_trial.clone() }
    }
}

/// The files that results go to.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    /// Where the rows go; `None` is stdout.
    pub output: Option<PathBuf>,
    /// Where the picture goes.
    pub plot: Option<PathBuf>,
    /// Where one row per trial goes.
    pub per_trial: Option<PathBuf>,
}

impl Targets {
    /// Those of a subcommand without trials, checked, and the form of the rows.
    pub(super) fn of(typed: &OutputArguments) -> Result<(Self, Format)> {
        let output = (!is_stdout(Path::new(&typed.output))).then(|| PathBuf::from(&typed.output));
        let format = format(typed.format.as_deref(), output.as_deref())?;
        let targets = Self { output, plot: typed.plot.as_deref().map(PathBuf::from), per_trial: None };
        targets.check()?;
        Ok((targets, format))
    }

    /// No two results in one place, and a picture of a type that is known.
    fn check(&self) -> Result<()> {
        self.refuse_standard_output_for_further_results()?;
        refuse_one_file_for_two_results(&[
            ("--output", self.output.as_deref()),
            ("--per-trial", self.per_trial.as_deref()),
            ("--plot", self.plot.as_deref()),
        ])?;
        self.plot.as_deref().map(PictureFormat::of_path).transpose()?;
        Ok(())
    }

    /// Standard output holds the rows; `-` would otherwise be the name of a file.
    fn refuse_standard_output_for_further_results(&self) -> Result<()> {
        for (name, path) in [("--per-trial", &self.per_trial), ("--plot", &self.plot)] {
            if path.as_deref() == Some("-".as_ref()) {
                bail!("{name} -: must name a file, standard output is for the rows");
            }
        }
        Ok(())
    }
}

/// Two results in one file would overwrite each other; `named` are options and the files they name.
pub(super) fn refuse_one_file_for_two_results(named: &[(&str, Option<&Path>)]) -> Result<()> {
    for (i, (first, path)) in named.iter().enumerate() {
        for (second, other) in &named[i + 1..] {
            let (Some(path), Some(other)) = (*path, *other) else { continue };
            if file_meant(path) == file_meant(other) && path != Path::new("/dev/null") {
                bail!("{second} {}: is also the file of {first}; name two files", other.display());
            }
        }
    }
    Ok(())
}

/// A result would destroy what is read if it got its name; `what` says what the files that are read are.
pub(super) fn refuse_results_in_place_of_inputs<'a>(
    results: impl IntoIterator<Item = (&'a str, &'a Path)>,
    inputs: impl IntoIterator<Item = &'a Path>,
    what: &str,
) -> Result<()> {
    let inputs: Vec<PathBuf> = inputs.into_iter().map(file_meant).collect();
    for (option, path) in results {
        if !is_stdout(path) && inputs.contains(&file_meant(path)) {
            bail!("{option} {}: {what}; name another", path.display());
        }
    }
    Ok(())
}

/// The file that a path means, whatever links and dots lead to it; a file that is not there yet by its folder.
pub(super) fn file_meant(path: &Path) -> PathBuf {
    let in_its_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_its_folder).unwrap_or_else(|| path.to_owned())
}

/// Reads one option; an error is `--option value: rule`.
pub(super) fn option<T>(name: &str, text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T> {
    read(text).map_err(|rule| anyhow!("{rule}")).with_context(|| format!("{name} {}", shown(text)))
}

/// Number of threads, where one was typed.
pub(super) fn threads(typed: Option<&str>) -> Result<Option<usize>> {
    let read = |text: &str| option("--threads", text, |text| parse::count(text, MOST_THREADS));
    Ok(typed.map(read).transpose()?.map(|threads| threads as usize))
}

/// So many threads, as many as there are processors where none were typed.
pub(super) fn pool(threads: Option<usize>) -> Result<rayon::ThreadPool> {
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.with_context(|| format!("--threads {threads}: the threads could not be started"))
}

/// The form of the rows.
pub(super) fn format(typed: Option<&str>, output: Option<&Path>) -> Result<Format> {
    let read = |text: &str| option("--format", text, |text| text.parse().map_err(|rule: FormatError| rule.to_string()));
    Ok(Format::choose(typed.map(read).transpose()?, output, std::io::stdout().is_terminal())?)
}

/// Colour of verdicts on standard output, for the whole process.
pub(crate) fn choose_colour(typed: &str) -> Result<()> {
    colour::choose(option("--color", typed, str::parse)?);
    Ok(())
}

/// A value as the error shows it: an empty one must still be seen.
fn shown(text: &str) -> String {
    if text.trim().is_empty() { format!("'{text}'") } else { text.to_string() }
}

/// The law of the entries of Q and K.
fn entry_law(typed: &SharedArguments) -> Result<InputLaw> {
    let entries = option("--entries", &typed.entries, parse::entries)?;
    let mean = option("--mean", &typed.mean, parse::finite)?;
    let sd = option("--sd", &typed.sd, |text| match parse::finite(text)? {
        sd if sd > 0.0 => Ok(sd),
        _ => Err("must be above 0".to_string()),
    })?;
    let correlation = option("--correlation", &typed.correlation, |text| match parse::finite(text)? {
        correlation if correlation.abs() <= 1.0 => Ok(correlation),
        _ => Err("must be between -1 and 1".to_string()),
    })?;
    if correlation != 0.0 && entries != crate::sampling::Entries::Normal {
        bail!("--correlation {}: is defined for --entries normal only, not {}", typed.correlation, typed.entries);
    }
    // Fourth powers of logits must stay finite in f32: (d·(mean² + sd²))⁴ overflows long after this bound.
    for (name, text, value) in [("--mean", &typed.mean, mean), ("--sd", &typed.sd, sd)] {
        if value.abs() > 1e3 || (value != 0.0 && value.abs() < 1e-3) {
            let or_zero = if name == "--mean" { "0, or " } else { "" };
            bail!(
                "{name} {text}: must be {or_zero}between 0.001 and 1000 in size, so that fourth moments keep their digits"
            );
        }
    }
    Ok(InputLaw { entries, mean, sd, correlation })
}

/// The file of trials, and whether it is begun or gone on with.
fn per_trial(typed: &SharedArguments) -> Result<(Option<PathBuf>, Start)> {
    match (&typed.per_trial, &typed.resume) {
        (None, None) => Ok((None, Start::Anew)),
        (Some(file), None) => Ok((Some(PathBuf::from(file)), Start::Anew)),
        (_, Some(file)) if file == "-" => bail!("--resume -: must name a file, standard output cannot be gone on with"),
        (None, Some(file)) => Ok((Some(PathBuf::from(file)), Start::Resumed)),
        (Some(file), Some(resumed)) if file_meant(Path::new(file)) == file_meant(Path::new(resumed)) => {
            Ok((Some(PathBuf::from(resumed)), Start::Resumed))
        }
        (Some(file), Some(resumed)) => {
            bail!(
                "--resume {resumed}: is the file of trials itself; leave out --per-trial {file}, or copy the file first"
            )
        }
    }
}

/// Every combination of widths, queries and keys; keys follow queries where they are not given.
fn sizes(typed: &SharedArguments) -> Result<Vec<Sizes>> {
    let widths = option("--dk", &typed.dk, parse::sizes)?;
    let queries = option("--queries", typed.queries.as_deref().unwrap_or(QUERIES), parse::sizes)?;
    let keys = typed.keys.as_deref().map(|text| option("--keys", text, parse::sizes)).transpose()?;
    let mut points = Vec::new();
    for &queries in &queries {
        let keys = keys.clone().unwrap_or_else(|| vec![queries]);
        for &keys in &keys {
            points.extend(widths.iter().map(|&d_k| Sizes { d_k, queries, keys }));
        }
    }
    if points.len() > MOST_POINTS {
        bail!("--dk × --queries × --keys: {} combinations, at most {MOST_POINTS}", points.len());
    }
    Ok(points)
}

/// A list of scales without repeats.
fn scales(text: &str) -> Result<Vec<Scale>, String> {
    let mut scales: Vec<Scale> = Vec::new();
    for part in text.split(',') {
        let scale: Scale = part.trim().parse()?;
        if let Scale::Number(factor) = scale
            && !(SMALLEST_FACTOR..=LARGEST_FACTOR).contains(&factor.abs())
        {
            return Err(format!(
                "a factor must be between {SMALLEST_FACTOR:e} and {LARGEST_FACTOR:e} in size, so that fourth moments exist \
                 (0 leaves no logits to measure)"
            ));
        }
        if !scales.contains(&scale) {
            scales.push(scale);
        }
    }
    Ok(scales)
}
