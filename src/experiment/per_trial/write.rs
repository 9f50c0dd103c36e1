//! Rows of the per-trial file, written.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Layout;
use crate::report::number::exact_or_empty;

/// Rows stay in memory no longer than this, so that a run that is killed loses little.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Writes per-trial rows to anything that takes bytes.
pub struct PerTrialWriter<'a, W: Write> {
    writer: csv::Writer<W>,
    layout: &'a Layout,
    /// The last fields, which every row shares.
    last: [String; 3],
    /// The fields of the measures, empty where a point has none.
    values: Vec<String>,
    flushed: Instant,
}

/// Whether a file begins or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the header.
    Header,
    /// With a row: the header and some rows are there.
    Rows,
}

impl<'a, W: Write> PerTrialWriter<'a, W> {
    /// Writes the header, unless the file goes on.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn new(destination: W, layout: &'a Layout, begin: Begin) -> Result<Self> {
        let mut writer = csv::Writer::from_writer(destination);
        if begin == Begin::Header {
            writer.write_record(&layout.header).context("--per-trial")?;
        }
        let last = [layout.inputs.clone(), layout.shard_text(), layout.invocation.clone()];
        Ok(Self { writer, layout, last, values: vec![String::new(); layout.measures()], flushed: Instant::now() })
    }

    /// Writes one trial of a point whose plan is `trials`, one value for each measure of the point.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn write(&mut self, point: usize, trials: u64, trial: u64, values: &[f64]) -> Result<()> {
        let point = &self.layout.points[point];
        self.values.iter_mut().for_each(String::clear);
        for (&column, &value) in point.columns.iter().zip(values) {
            self.values[column] = exact_or_empty(Some(value));
        }
        let counts = [trials.to_string(), trial.to_string()];
        let fields = point.head.iter().chain(&counts).chain(&self.values).chain(&self.last);
        self.writer.write_record(fields).context("--per-trial")?;
        if self.flushed.elapsed() >= LONGEST_WAIT {
            self.writer.flush().context("--per-trial")?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Hands back the destination with everything written to it.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn finish(self) -> Result<W> {
        self.writer.into_inner().map_err(|error| error.into_error()).context("--per-trial")
    }
}
