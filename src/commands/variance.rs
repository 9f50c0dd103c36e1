//! `attn variance`: are the logits centred, with the variance that theory gives, before and after the scale?

use anyhow::{Result, bail};

use super::ExitStatus;
use super::config::{Config, option};
use super::simulate::{self, Extras};
use crate::attention::Precision;
use crate::cli::variance::VarianceArguments;
use crate::experiment::slope;
use crate::experiment::variance::second_moments::{DrawnScatter, MomentSource, SecondMomentExperiment, Streamed};
use crate::experiment::variance::{Method, Moments, VarianceExperiment};
use crate::sampling::Entries;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &VarianceArguments, invocation: &str) -> Result<ExitStatus> {
    let config = Config::new(&arguments.shared)?;
    let method = method(arguments, &config)?;
    let extras = Extras {
        sweep: &slope::of_variance,
        remarks: &|_| method.remark().map(String::from).into_iter().collect(),
        method: Some(method.to_string()),
        ..Extras::default()
    };
    match method {
        Method::Logits => {
            let experiment = |sizes| VarianceExperiment::new(sizes, config.law, &config.scales, config.precision);
            simulate::simulate("variance", &config, invocation, &config.experiments(experiment), &extras)
        }
        Method::Gram => {
            let source = || Streamed::new(config.law, config.precision);
            simulate::simulate("variance", &config, invocation, &second_moments(&config, source), &extras)
        }
        Method::GramDraw => {
            simulate::simulate("variance", &config, invocation, &second_moments(&config, || DrawnScatter), &extras)
        }
    }
}

/// One experiment a parameter point.
fn second_moments<S: MomentSource + Send>(
    config: &Config,
    source: impl Fn() -> S + Sync,
) -> Vec<SecondMomentExperiment<S>> {
    let experiment = |sizes| SecondMomentExperiment::new(sizes, config.law, &config.scales, config.precision, source());
    config.experiments(experiment)
}

/// How the moments are formed, from `--moments` and `--draw`.
fn method(arguments: &VarianceArguments, config: &Config) -> Result<Method> {
    let moments = arguments.moments.as_deref().map(|text| option("--moments", text, str::parse)).transpose()?;
    let method = match (arguments.draw.as_str(), moments) {
        ("matrices", None | Some(Moments::Four)) => Method::Logits,
        ("matrices", Some(Moments::Two)) => Method::Gram,
        ("gram", None | Some(Moments::Two)) => Method::GramDraw,
        ("gram", Some(Moments::Four)) => {
            bail!("--moments 4: --draw gram has no fourth moments; leave it out, or use --draw matrices")
        }
        _ => return option("--draw", &arguments.draw, |_| Err("must be one of matrices, gram".to_string())),
    };
    let typed = &arguments.shared;
    if method != Method::Logits && config.precision.is_half() {
        let why = if method == Method::Gram { "--moments 2" } else { "--draw gram" };
        bail!("--precision {}: rounds each logit, and {why} forms none; must be f64 or f32", typed.precision);
    }
    if method == Method::GramDraw {
        if config.law.entries != Entries::Normal {
            bail!(
                "--entries {}: the law of Gram matrices is known for --draw gram with normal entries only",
                typed.entries
            );
        }
        if config.law.correlation != 0.0 {
            bail!(
                "--correlation {}: the diagonal of QKᵀ is no function of Gram matrices; leave out --draw gram",
                typed.correlation
            );
        }
        if config.precision != Precision::F64 {
            bail!("--precision {}: --draw gram computes in f64; leave it out", typed.precision);
        }
    }
    Ok(method)
}
