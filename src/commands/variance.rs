//! `attn variance`: are the logits centred, with the variance that theory gives, before and after the scale?

use anyhow::Result;

use super::ExitStatus;
use super::config::Config;
use super::simulate::{self, Extras};
use crate::cli::variance::VarianceArguments;
use crate::experiment::slope;
use crate::experiment::variance::VarianceExperiment;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &VarianceArguments, invocation: &str) -> Result<ExitStatus> {
    let config = Config::new(&arguments.shared)?;
    let experiments: Vec<VarianceExperiment> = (config.sizes.iter())
        .map(|&sizes| VarianceExperiment::new(sizes, config.law, &config.scales, config.precision))
        .collect();
    let extras = Extras { sweep: &slope::of_variance, ..Extras::default() };
    simulate::simulate("variance", &config, invocation, &experiments, &extras)
}
