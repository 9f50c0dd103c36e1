//! Rows to where they were asked for, and the exit code that they mean.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::ExitStatus;
use super::config::{Config, Start, Targets};
use crate::report::json::Run;
use crate::report::plot::{Picture, PictureFormat};
use crate::report::table::{Colour, Layout, paragraph};
use crate::report::{self, AtomicFile, Format, PartialFile, Row, Verdict, stdout};

/// Columns of text of a table in a file.
pub(super) const FILE_WIDTH: usize = 100;

/// What was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// Everything asked for.
    Whole,
    /// No row could be drawn: the picture's file is as it was.
    WithoutPicture,
}

/// Files opened before the run, so that an unwritable one is an error at once and not after an hour.
pub struct Destinations {
    output: Option<AtomicFile>,
    plot: Option<AtomicFile>,
    per_trial: Option<PerTrialFile>,
}

/// The file of per-trial rows.
pub enum PerTrialFile {
    /// Written whole or not at all.
    Anew(AtomicFile),
    /// Stays as it is when the run is interrupted.
    Resumed(PartialFile),
}

impl PerTrialFile {
    fn commit(self) -> io::Result<()> {
        match self {
            Self::Anew(file) => file.commit(),
            Self::Resumed(file) => file.commit(),
        }
    }
}

impl Write for PerTrialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Anew(file) => file.write(bytes),
            Self::Resumed(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Anew(file) => file.flush(),
            Self::Resumed(file) => file.flush(),
        }
    }
}

impl Destinations {
    /// Opens every file that `config` names; nothing has its name before [`Destinations::deliver`].
    ///
    /// # Errors
    /// When a file cannot be written there.
    pub fn open(config: &Config) -> Result<Self> {
        let targets = config.targets();
        match (config.start, &targets.per_trial) {
            (Start::Resumed, Some(path)) => {
                let partial = PartialFile::open(path).context("--resume")?;
                let others = Self::open_targets(&Targets { per_trial: None, ..targets.clone() })?;
                Ok(Self { per_trial: Some(PerTrialFile::Resumed(partial)), ..others })
            }
            _ => Self::open_targets(&targets),
        }
    }

    /// As [`Destinations::open`], for a subcommand with options of its own.
    ///
    /// # Errors
    /// When a file cannot be written there.
    pub fn open_targets(targets: &Targets) -> Result<Self> {
        let open = |name: &str, path: Option<&Path>| {
            path.map(AtomicFile::create).transpose().with_context(|| name.to_string())
        };
        Ok(Self {
            output: open("--output", targets.output.as_deref())?,
            plot: open("--plot", targets.plot.as_deref())?,
            per_trial: open("--per-trial", targets.per_trial.as_deref())?.map(PerTrialFile::Anew),
        })
    }

    /// The file of per-trial rows, if there is one.
    pub fn per_trial(&mut self) -> Option<&mut PerTrialFile> {
        self.per_trial.as_mut()
    }

    /// Writes no per-trial file: it is there already, whole.
    pub fn discard_per_trial(&mut self) {
        if let Some(PerTrialFile::Resumed(file)) = self.per_trial.take() {
            file.discard();
        }
    }

    /// Puts the per-trial file in its place and drops the others: what a shard leaves.
    ///
    /// # Errors
    /// When the disk is full or the folder has changed.
    pub fn deliver_per_trial(self) -> Result<()> {
        self.per_trial.map(PerTrialFile::commit).transpose().context("--per-trial")?;
        Ok(())
    }

    /// Writes the rows and the `picture` made of them (`remarks` only where people read), then gives every file its name.
    ///
    /// # Errors
    /// When a file cannot be written; those not yet named are then not there.
    pub fn deliver(
        self,
        command: &str,
        invocation: &str,
        config: &Config,
        rows: &[Row],
        remarks: &[String],
        picture: impl FnOnce(&[Row]) -> Option<Picture>,
    ) -> Result<Delivered> {
        let run = Run {
            command: command.to_string(),
            invocation: invocation.to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: Some(config.seed),
            remarks: remarks.to_vec(),
        };
        let render = |output: &mut dyn Write, terminal: bool| render(&run, rows, remarks, config, terminal, output);
        self.deliver_rendered(&config.targets(), || picture(rows), render)
    }

    /// As [`Destinations::deliver`], for rows of any shape: `render` writes them, for a terminal where it is told `true`.
    ///
    /// # Errors
    /// When a file cannot be written; those not yet named are then not there.
    pub fn deliver_rendered(
        mut self,
        targets: &Targets,
        picture: impl FnOnce() -> Option<Picture>,
        render: impl Fn(&mut dyn Write, bool) -> io::Result<()>,
    ) -> Result<Delivered> {
        // A result that cannot be drawn is a result all the same.
        let picture = self.plot.as_ref().and_then(|_| picture());
        let undrawable = self.plot.is_some() && picture.is_none();
        if undrawable {
            self.plot = None;
        }
        if let (Some(file), Some(picture)) = (&mut self.plot, &picture) {
            let path = targets.plot.as_deref().context("a plot has a path")?;
            picture.write(PictureFormat::of_path(path)?, file).context("--plot")?;
        }
        if let Some(file) = &mut self.output {
            render(file, false).context("--output")?;
        }
        self.plot.map(AtomicFile::commit).transpose().context("--plot")?;
        self.per_trial.map(PerTrialFile::commit).transpose().context("--per-trial")?;
        self.output.map(AtomicFile::commit).transpose().context("--output")?;
        if targets.output.is_none() {
            stdout::print(|output| render(output, true))?;
        }
        Ok(if undrawable { Delivered::WithoutPicture } else { Delivered::Whole })
    }
}

/// How a table is laid out: as standard output is, or plain and `file_width` columns wide.
pub(super) fn layout(terminal: bool, file_width: usize, false_alarm: Option<f64>) -> Layout {
    match terminal {
        true => Layout::of_stdout(false_alarm),
        false => Layout { width: file_width, colour: Colour::Plain, false_alarm },
    }
}

/// Writes the rows in the format asked for, and below them, where people read, the remarks.
fn render(
    run: &Run,
    rows: &[Row],
    remarks: &[String],
    config: &Config,
    terminal: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    let layout = layout(terminal, FILE_WIDTH, Some(config.rates.false_alarm));
    report::write(config.format, run, rows, &layout, &mut *output)?;
    match config.format {
        Format::Table => remarks.iter().try_for_each(|remark| write!(output, "\n{}", paragraph(remark, layout.width))),
        Format::Markdown => remarks.iter().try_for_each(|remark| write!(output, "\n{remark}\n")),
        Format::Csv | Format::Json => Ok(()),
    }
}

/// The exit code that the verdicts mean.
pub fn exit_status(rows: &[Row]) -> ExitStatus {
    let any = |verdict: Verdict| rows.iter().any(|row| row.verdict == verdict);
    if any(Verdict::Rejected) {
        ExitStatus::Rejected
    } else if any(Verdict::Undecided) {
        ExitStatus::Undecided
    } else {
        ExitStatus::Upheld
    }
}
