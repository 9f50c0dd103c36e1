//! What every simulating subcommand does around its experiment: check that it can be run, plan, run, judge, deliver.

use std::io::Write;
use std::ops::Range;

use anyhow::{Result, bail};

use super::ExitStatus;
use super::config::Config;
use super::deliver::{self, Delivered, Destinations, PerTrialFile};
use super::recorded::{Left, Recorded};
use crate::attention::kernel::InstructionSet;
use crate::experiment::judge::{self, Outcome, Sweep};
use crate::experiment::per_trial::{Begin, Layout, PerTrialWriter, RunFields};
use crate::experiment::plan;
use crate::experiment::progress::Progress;
use crate::experiment::series::Series;
use crate::experiment::{Experiment, InputLaw, Sizes, engine};
use crate::report::number::percent;
use crate::report::plot::{self, Picture};
use crate::report::summary::Summary;
use crate::report::{Row, notes};
use crate::statistics::ColumnMoments;

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
    /// Check sums of the files that the run rests on.
    pub inputs: String,
    /// How the figures are formed, where there are several ways.
    pub method: Option<String>,
}

impl Default for Extras<'_> {
    fn default() -> Self {
        Self {
            sweep: &|_| Vec::new(),
            remarks: &|_| Vec::new(),
            picture: &plot::of_rows,
            inputs: String::new(),
            method: None,
        }
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
    let Extras { sweep, remarks, picture, .. } = *extras;
    InstructionSet::pin_portable(config.portable);
    let threads = config.pool.current_num_threads();
    let merged = !config.trials_from.is_empty();
    if !merged {
        experiments.iter().try_for_each(|experiment| refuse_impossible_memory(experiment, threads))?;
    }
    let layout = layout(command, config, invocation, experiments, extras);
    let mut destinations = Destinations::open(config)?;
    config.pool.install(|| {
        let (recorded, trials) = match merged {
            true => Recorded::of_shards(&config.trials_from, &layout)?,
            false => {
                let trials = match config.trials {
                    Some(trials) => vec![trials; experiments.len()],
                    None => plan::plan(experiments, sweep, &config.rates, config.seed)?,
                };
                (Recorded::nothing(experiments.len()), trials)
            }
        };
        let operations = if merged { 0.0 } else { refuse_endless_run(config, experiments, &trials, threads)? };
        let (recorded, begin) = match destinations.per_trial() {
            Some(PerTrialFile::Resumed(file)) => {
                let (recorded, left) = Recorded::of_interrupted(file, &layout, &trials)?;
                if left == Left::Everything {
                    destinations.discard_per_trial();
                }
                (recorded, if left == Left::Nothing { Begin::Header } else { Begin::Rows })
            }
            _ => (recorded, Begin::Header),
        };
        note(config, &trials, &recorded);
        let progress = Progress::new(operations, config.quiet);
        let run = Run { config, layout: &layout, trials: &trials, recorded: &recorded, begin, progress: &progress };
        let outcomes = run.outcomes(experiments, &mut destinations);
        progress.finish();
        let outcomes = outcomes?;
        if config.shard.is_some() {
            destinations.deliver_per_trial()?;
            return Ok(ExitStatus::Upheld);
        }
        let rows = judge::rows(&outcomes, &sweep(&outcomes), &config.rates, |row| {
            describe(row, command, config, &extras.method)
        });
        let remarks = remarks(&rows);
        let delivered = destinations.deliver(command, invocation, config, &rows, &remarks, picture)?;
        if delivered == Delivered::WithoutPicture {
            warn("--plot: no row has a smallest detectable deviation to be drawn in; no picture written");
        }
        if config.output.is_some() && !config.quiet {
            say(&Summary::of(&rows).sentence(Some(config.rates.false_alarm)));
        }
        let status = deliver::exit_status(&rows);
        // Where the rows are data, people still want to read what is wrong.
        if status == ExitStatus::Rejected && config.format.is_data() && !config.quiet {
            remarks.iter().for_each(|remark| say(remark));
        }
        Ok(status)
    })
}

/// What the run's file of trials looks like.
fn layout<E: Experiment>(
    command: &str,
    config: &Config,
    invocation: &str,
    experiments: &[E],
    extras: &Extras,
) -> Layout {
    let fields = RunFields {
        command: command.to_string(),
        seed: config.seed,
        law: config.law,
        precision: config.precision.to_string(),
        inputs: extras.inputs.clone(),
        shard: config.shard,
        invocation: invocation.to_string(),
    };
    Layout::new(&fields, experiments)
}

/// A run of planned trials, some of which may be recorded.
struct Run<'a> {
    config: &'a Config,
    layout: &'a Layout,
    trials: &'a [u64],
    recorded: &'a Recorded,
    begin: Begin,
    progress: &'a Progress,
}

impl Run<'_> {
    /// Reads what is recorded and draws the rest, point by point, writing per-trial rows on the way.
    fn outcomes<E: Experiment>(&self, experiments: &[E], destinations: &mut Destinations) -> Result<Vec<Outcome>> {
        // Recorded trials go into a new file, and are in one that is gone on with.
        let copies = !matches!(destinations.per_trial(), Some(PerTrialFile::Resumed(_)));
        let mut writer = (destinations.per_trial())
            .map(|file| PerTrialWriter::new(file as &mut dyn Write, self.layout, self.begin))
            .transpose()?;
        let mut outcomes = Vec::with_capacity(experiments.len());
        for (point, (experiment, &trials)) in experiments.iter().zip(self.trials).enumerate() {
            let Range { start, end } = self.layout.trials(trials);
            let claims = experiment.claims();
            let mut series = Series::new(&claims, trials);
            let mut columns = ColumnMoments::new(experiment.measures().len());
            let mut fold = |trial: u64, values: &[f64], is_written: bool| {
                columns.push(values);
                series.push(values);
                match writer.as_mut() {
                    Some(writer) if !is_written => writer.write(point, trials, trial, values),
                    _ => Ok(()),
                }
            };
            let next = self.recorded.replay(self.layout, point, start, |trial, values| fold(trial, values, !copies))?;
            // What an earlier run drew moves the bar too.
            self.progress.advance((next - start) as f64 * experiment.operations());
            let seed = self.config.seed;
            engine::draw(experiment, seed, next..end, self.progress, |trial, values| fold(trial, values, false))?;
            let (sizes, mask) = (experiment.sizes(), experiment.mask());
            outcomes.push(Outcome { sizes, mask, trials, claims, columns, series: series.finish() });
        }
        writer.map(PerTrialWriter::finish).transpose()?;
        Ok(outcomes)
    }
}

/// Fills in what all rows of a run share.
fn describe(row: Row, command: &str, config: &Config, method: &Option<String>) -> Row {
    Row {
        command: command.to_string(),
        entries: Some(config.law.entries.to_string()),
        precision: Some(config.precision.to_string()),
        seed: Some(config.seed),
        method: method.clone(),
        instructions: Some(InstructionSet::detect().to_string()),
        ..row
    }
}

/// One line on what is run, unless the user wants none.
fn note(config: &Config, trials: &[u64], recorded: &Recorded) {
    if config.quiet {
        return;
    }
    match (config.trials_from.len(), recorded.trials()) {
        (0, 0) => {}
        (0, rows) => say(&format!("{rows} trials are there already and are not drawn again")),
        (files, rows) => say(&format!("{rows} trials from {files} file{}", if files == 1 { "" } else { "s" })),
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
    say(&format!("seed {}, {trials}{planned}", config.seed));
    if config.law != InputLaw::standard(config.law.entries) {
        say("rows of logits are held against the general law for these entries, rows of entries (q_, k_, qk_) \
             against the derivation's assumptions");
    }
}

/// Refuses sizes whose Q and K no memory here holds.
fn refuse_impossible_memory<E: Experiment>(experiment: &E, threads: usize) -> Result<()> {
    let Sizes { d_k, queries, keys } = experiment.sizes();
    let needed = experiment.bytes() * engine::side_by_side(experiment, threads) as f64;
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

/// One line of what a run is about or came to, beside its rows.
pub(super) fn say(text: &str) {
    notes::say(&format!("attn: {text}"));
}

/// One line for what is not as asked but no error.
pub(super) fn warn(text: &str) {
    say(&format!("warning: {text}"));
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
