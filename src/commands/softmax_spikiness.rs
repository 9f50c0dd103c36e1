//! `attn softmax-spikiness`: does softmax saturate, and does the scale keep it from it?

use anyhow::Result;

use super::config::{Config, option};
use super::simulate::{self, Extras};
use super::{ExitStatus, parse};
use crate::cli::softmax_spikiness::SoftmaxSpikinessArguments;
use crate::experiment::softmax::{SoftmaxExperiment, remarks};

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &SoftmaxSpikinessArguments, invocation: &str) -> Result<ExitStatus> {
    let config = Config::new(&arguments.shared)?;
    let above = option("--saturated-above", &arguments.saturated_above, |text| match parse::finite(text)? {
        above if above > 0.0 && above < 1.0 => Ok(above),
        _ => Err("must be above 0 and below 1, for example 0.99".to_string()),
    })?;
    let experiment = |sizes| SoftmaxExperiment::new(sizes, config.law, &config.scales, config.precision, above);
    let extras = Extras { remarks: &|rows| remarks::remarks(rows, above), ..Extras::default() };
    simulate::simulate("softmax-spikiness", &config, invocation, &config.experiments(experiment), &extras)
}
