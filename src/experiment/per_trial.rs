//! The file of per-trial values: one CSV row per trial, enough to rebuild every result bit for bit.

use std::io::Write;

use anyhow::{Context, Result};

use super::{InputLaw, Sizes};
use crate::report::number::exact_or_empty;

/// What is the same in every row of one run.
#[derive(Debug, Clone)]
pub struct RunFields {
    /// Subcommand.
    pub command: String,
    /// Seed of every draw.
    pub seed: u64,
    /// Law of the entries.
    pub law: InputLaw,
    /// Arithmetic.
    pub precision: String,
}

/// Writes per-trial rows to anything that takes bytes.
pub struct PerTrialWriter<W: Write> {
    writer: csv::Writer<W>,
    fields: RunFields,
}

/// Columns before the measures; `trials` is the plan of the whole run, the same in every shard.
const COLUMNS: [&str; 14] = [
    "command",
    "version",
    "seed",
    "d_k",
    "n_queries",
    "n_keys",
    "mask",
    "entries",
    "mean",
    "sd",
    "correlation",
    "precision",
    "trials",
    "trial",
];

impl<W: Write> PerTrialWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn new(destination: W, fields: RunFields, measures: &[String]) -> Result<Self> {
        let mut writer = csv::Writer::from_writer(destination);
        let header = COLUMNS.iter().copied().chain(measures.iter().map(String::as_str));
        writer.write_record(header).context("--per-trial")?;
        Ok(Self { writer, fields })
    }

    /// Writes one trial of the point with these sizes and mask, whose plan is `trials`.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn write(
        &mut self,
        (sizes, mask): (Sizes, Option<&str>),
        trials: u64,
        trial: u64,
        values: &[f64],
    ) -> Result<()> {
        let RunFields { command, seed, law, precision } = &self.fields;
        let head = [
            command.clone(),
            env!("CARGO_PKG_VERSION").to_string(),
            seed.to_string(),
            sizes.d_k.to_string(),
            sizes.queries.to_string(),
            sizes.keys.to_string(),
            mask.unwrap_or_default().to_string(),
            law.entries.to_string(),
            law.mean.to_string(),
            law.sd.to_string(),
            law.correlation.to_string(),
            precision.clone(),
            trials.to_string(),
            trial.to_string(),
        ];
        let values = values.iter().map(|&value| exact_or_empty(Some(value)));
        self.writer.write_record(head.into_iter().chain(values)).context("--per-trial")
    }

    /// Hands back the destination with everything written to it.
    ///
    /// # Errors
    /// When the destination cannot be written.
    pub fn finish(self) -> Result<W> {
        self.writer.into_inner().map_err(|error| error.into_error()).context("--per-trial")
    }
}
