//! Rows to where they were asked for, and the exit code that they mean.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::ExitStatus;
use super::config::{Config, Targets};
use crate::report::json::Run;
use crate::report::plot::{Picture, PictureFormat};
use crate::report::table::{Colour, Layout, paragraph};
use crate::report::{self, AtomicFile, Format, Row, Verdict, stdout};

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
    per_trial: Option<AtomicFile>,
}

impl Destinations {
    /// Opens every file that `config` names; nothing has its name before [`Destinations::deliver`].
    ///
    /// # Errors
    /// When a file cannot be written there.
    pub fn open(config: &Config) -> Result<Self> {
        Self::open_targets(&config.targets())
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
            per_trial: open("--per-trial", targets.per_trial.as_deref())?,
        })
    }

    /// The file of per-trial rows, if there is one.
    pub fn per_trial(&mut self) -> Option<&mut AtomicFile> {
        self.per_trial.as_mut()
    }

    /// Puts the per-trial file in its place and drops the others: what a shard leaves.
    ///
    /// # Errors
    /// When the disk is full or the folder has changed.
    pub fn deliver_per_trial(self) -> Result<()> {
        self.per_trial.map(AtomicFile::commit).transpose().context("--per-trial")?;
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
        for (name, file) in [("--plot", self.plot), ("--per-trial", self.per_trial), ("--output", self.output)] {
            file.map(AtomicFile::commit).transpose().context(name)?;
        }
        if targets.output.is_none() {
            stdout::print(|output| render(output, true))?;
        }
        Ok(if undrawable { Delivered::WithoutPicture } else { Delivered::Whole })
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
    let false_alarm = Some(config.rates.false_alarm);
    let layout = match terminal {
        true => Layout::of_stdout(false_alarm),
        false => Layout { width: FILE_WIDTH, colour: Colour::Plain, false_alarm },
    };
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
