//! What every simulating subcommand does around its experiment: check that it can be run, plan, run, judge, deliver.

use std::io::Write;

use anyhow::{Context, Result, bail};

use super::ExitStatus;
use super::config::Config;
use super::deliver::{self, Delivered, Destinations};
use crate::experiment::judge::{self, Outcome, Sweep};
use crate::experiment::per_trial::{PerTrialWriter, RunFields};
use crate::experiment::plan;
use crate::experiment::progress::Progress;
use crate::experiment::series::Series;
use crate::experiment::{Experiment, InputLaw, Sizes, engine};
use crate::report::Row;
use crate::report::number::percent;
use crate::report::plot::{self, Picture};
use crate::report::summary::Summary;

/// Operations a second that one core reaches at most: only to refuse what could never end.
const FASTEST_CORE: f64 = 2e11;
/// A run that would take longer than this is refused.
const LONGEST_RUN_DAYS: f64 = 366.0;

/// What a subcommand makes of its points beside a row for each claim.
pub struct Extras<'a> {
    /// Further rows from all points together.
    pub sweep: &'a (dyn Fn(&[Outcome]) -> Vec<Sweep> + Sync),
    /// Sentences for people, below a table.
    pub remarks: &'a (dyn Fn(&[Row]) -> Vec<String> + Sync),
    /// The picture of the rows, if they can be drawn.
    pub picture: &'a (dyn Fn(&[Row]) -> Option<Picture> + Sync),
}

impl Default for Extras<'_> {
    fn default() -> Self {
        Self { sweep: &|_| Vec::new(), remarks: &|_| Vec::new(), picture: &plot::of_rows }
    }
}

/// Runs `experiments` (one a parameter point, all measuring the same things) and delivers the rows.
///
/// # Errors
/// Sizes or trials that no machine can run, files that cannot be written.
pub fn simulate<E: Experiment>(
    command: &str,
    config: &Config,
    invocation: &str,
    experiments: &[E],
    extras: &Extras,
) -> Result<ExitStatus> {
    let Extras { sweep, remarks, picture } = *extras;
    let threads = config.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    experiments.iter().try_for_each(|experiment| refuse_impossible_memory(experiment, threads))?;
    let mut destinations = Destinations::open(config)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.with_context(|| format!("--threads {threads}: the threads could not be started"))?;
    pool.install(|| {
        let trials = match config.trials {
            Some(trials) => vec![trials; experiments.len()],
            None => plan::plan(experiments, sweep, &config.rates, config.seed)?,
        };
        let operations = refuse_endless_run(config, experiments, &trials, threads)?;
        note(config, &trials);
        let progress = Progress::new(operations, config.quiet);
        let outcomes = run(command, config, experiments, &trials, &progress, &mut destinations);
        progress.finish();
        let outcomes = outcomes?;
        if config.shard.is_some() {
            destinations.deliver_per_trial()?;
            return Ok(ExitStatus::Upheld);
        }
        let rows = judge::rows(&outcomes, &sweep(&outcomes), &config.rates, |row| describe(row, command, config));
        let remarks = remarks(&rows);
        let delivered = destinations.deliver(command, invocation, config, &rows, &remarks, picture)?;
        if delivered == Delivered::WithoutPicture {
            eprintln!(
                "attn: warning: --plot: no row has a smallest detectable deviation to be drawn in; no picture written"
            );
        }
        if config.output.is_some() && !config.quiet {
            eprintln!("attn: {}", Summary::of(&rows).sentence(Some(config.rates.false_alarm)));
        }
        let status = deliver::exit_status(&rows);
        // Where the rows are data, people still want to read what is wrong.
        if status == ExitStatus::Rejected && config.format.is_data() && !config.quiet {
            remarks.iter().for_each(|remark| eprintln!("attn: {remark}"));
        }
        Ok(status)
    })
}

/// Runs every point, writing per-trial rows on the way.
fn run<E: Experiment>(
    command: &str,
    config: &Config,
    experiments: &[E],
    trials: &[u64],
    progress: &Progress,
    destinations: &mut Destinations,
) -> Result<Vec<Outcome>> {
    let fields = RunFields {
        command: command.to_string(),
        seed: config.seed,
        law: config.law,
        precision: config.precision.to_string(),
    };
    let measures = experiments.first().map(Experiment::measures).unwrap_or_default();
    let mut writer = (destinations.per_trial())
        .map(|file| PerTrialWriter::new(file as &mut dyn Write, fields, &measures))
        .transpose()?;
    let mut outcomes = Vec::with_capacity(experiments.len());
    for (experiment, &trials) in experiments.iter().zip(trials) {
        let (sizes, mask) = (experiment.sizes(), experiment.mask());
        let range = config.shard.map_or(0..trials, |shard| shard.trials(trials));
        let claims = experiment.claims();
        let mut series = Series::new(&claims, trials);
        let columns = engine::run(experiment, config.seed, range, progress, |trial, values| {
            series.push(values);
            writer.as_mut().map_or(Ok(()), |writer| writer.write((sizes, mask.as_deref()), trials, trial, values))
        })?;
        outcomes.push(Outcome { sizes, mask, trials, claims, columns, series: series.finish() });
    }
    writer.map(PerTrialWriter::finish).transpose()?;
    Ok(outcomes)
}

/// Fills in what all rows of a run share.
fn describe(row: Row, command: &str, config: &Config) -> Row {
    Row {
        command: command.to_string(),
        entries: Some(config.law.entries.to_string()),
        precision: Some(config.precision.to_string()),
        seed: Some(config.seed),
        ..row
    }
}

/// One line on what is run, unless the user wants none.
fn note(config: &Config, trials: &[u64]) {
    if config.quiet {
        return;
    }
    let (least, most) = (trials.iter().min().unwrap_or(&0), trials.iter().max().unwrap_or(&0));
    let trials = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let trials = if trials == "1" { "1 trial".to_string() } else { format!("{trials} trials") };
    let planned = match config.trials {
        Some(_) => String::new(),
        None => format!(
            ", planned to see a deviation of {} with a false-alarm rate of {:e} and a miss rate of {:e}",
            percent(config.rates.detect),
            config.rates.false_alarm,
            config.rates.miss
        ),
    };
    eprintln!("attn: seed {}, {trials}{planned}", config.seed);
    if config.law != InputLaw::standard(config.law.entries) {
        eprintln!(
            "attn: rows of logits are held against the general law for these entries, rows of entries (q_, k_, qk_) \
             against the derivation's assumptions"
        );
    }
}

/// Refuses sizes whose Q and K no memory here holds.
fn refuse_impossible_memory<E: Experiment>(experiment: &E, threads: usize) -> Result<()> {
    let Sizes { d_k, queries, keys } = experiment.sizes();
    let needed = experiment.bytes() * if engine::is_large(experiment) { 1.0 } else { threads as f64 };
    refuse_more_than_memory(needed, || format!("--queries {queries} --keys {keys} --dk {d_k}"))
}

/// Refuses what no memory here holds; `sizes` names the options that ask for it.
pub(super) fn refuse_more_than_memory(needed: f64, sizes: impl Fn() -> String) -> Result<()> {
    match memory_of_this_machine() {
        Some(memory) if needed > memory => {
            bail!("{}: these sizes need {:.3} GB, this machine has {:.3} GB", sizes(), needed / 1e9, memory / 1e9)
        }
        _ => Ok(()),
    }
}

/// One line for what is not as asked but no error.
pub(super) fn warn(text: &str) {
    eprintln!("attn: warning: {text}");
}

/// Bytes of memory, where the system tells.
fn memory_of_this_machine() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0)
}

/// Refuses a run that would not end in a year; returns its operations.
fn refuse_endless_run<E: Experiment>(
    config: &Config,
    experiments: &[E],
    trials: &[u64],
    threads: usize,
) -> Result<f64> {
    let share = config.shard.map_or(1.0, |shard| 1.0 / shard.of as f64);
    let per_point = experiments.iter().zip(trials).map(|(experiment, &trials)| experiment.operations() * trials as f64);
    let operations = per_point.sum::<f64>() * share;
    let days = operations / (FASTEST_CORE * threads as f64) / 86_400.0;
    if days > LONGEST_RUN_DAYS {
        let most = trials.iter().max().unwrap_or(&0);
        let how = if config.trials.is_some() { "given" } else { "planned; a larger --detect needs fewer" };
        bail!(
            "--trials {most} ({how}): at these sizes the run would take at least {days:.0} days on {threads} threads, \
             at most {LONGEST_RUN_DAYS:.0} are allowed; use fewer trials, smaller sizes or --shard"
        );
    }
    Ok(operations)
}
