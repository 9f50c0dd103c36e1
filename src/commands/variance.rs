//! `attn variance`: are the logits centred, with the variance that theory gives, before and after the scale?

use anyhow::Result;

use super::config::Config;
use super::{ExitStatus, simulate};
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
    simulate::simulate("variance", &config, invocation, &experiments, slope::of_variance)
}
