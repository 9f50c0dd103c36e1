//! `attn multi-head`: E and Var of each head's logits, the matrices and their shapes, tied, grouped and cross-attention.

use anyhow::{Result, bail};

use super::config::{Config, option};
use super::simulate::{self, Extras};
use super::{ExitStatus, layer, parse};
use crate::cli::multi_head::MultiHeadArguments;
use crate::cli::shared::SharedArguments;
use crate::experiment::Sizes;
use crate::experiment::multi_head::{KeySource, MultiHeadExperiment, MultiHeadSetting, remarks};
use crate::report::plot;
use crate::theory::multi_head::{Bias, KeyWeights, Layer};

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &MultiHeadArguments, invocation: &str) -> Result<ExitStatus> {
    let (config, settings) = settings(arguments)?;
    let experiments: Vec<MultiHeadExperiment> = settings.into_iter().map(MultiHeadExperiment::new).collect();
    let of_experiments: Vec<&MultiHeadSetting> = experiments.iter().map(MultiHeadExperiment::setting).collect();
    let extras = Extras {
        remarks: &|rows| remarks::remarks(&of_experiments, rows),
        picture: &plot::of_indexed_rows,
        ..Extras::default()
    };
    simulate::simulate("multi-head", &config, invocation, &experiments, &extras)
}

/// What is meant by the arguments, one setting a parameter point.
fn settings(arguments: &MultiHeadArguments) -> Result<(Config, Vec<MultiHeadSetting>)> {
    let d_model = layer::size("--d-model", &arguments.d_model)?;
    let heads = layer::size("--heads", &arguments.heads)?;
    let key_heads = match &arguments.kv_heads {
        Some(text) => layer::size("--kv-heads", text)?,
        None => heads,
    };
    if !heads.is_multiple_of(key_heads) {
        bail!("--kv-heads {key_heads}: must divide --heads {heads}");
    }
    if arguments.tied && key_heads != heads {
        bail!("--kv-heads {key_heads}: tied matrices need one head of keys for each head of queries, --heads {heads}");
    }
    if let Some(keys) = &arguments.shared.keys {
        bail!("--keys {keys}: multi-head takes keys from the queries' tokens, or from --cross {keys}");
    }
    let shared = layer::with_width_of_a_head(&arguments.shared, d_model, heads)?;
    if let Some(keys) = &arguments.cross {
        option("--cross", keys, parse::sizes)?;
    }
    let config = Config::new(&SharedArguments { keys: arguments.cross.clone(), ..shared.clone() })?;
    layer::refuse_unused("multi-head", &shared, &config)?;
    let d_v = arguments.dv.as_deref().map(|text| layer::size("--dv", text)).transpose()?;
    let source = if arguments.cross.is_some() { KeySource::OtherTokens } else { KeySource::SameTokens };
    if source == KeySource::SameTokens && config.sizes.iter().any(|sizes| sizes.queries < 2) {
        bail!("--queries 1: self-attention needs at least 2 tokens for a logit of different ones, or give --cross");
    }
    let setting = |&sizes: &Sizes| MultiHeadSetting {
        layer: Layer {
            d_model,
            heads,
            key_heads,
            d_k: sizes.d_k,
            d_v: d_v.unwrap_or(sizes.d_k),
            keys: if arguments.tied { KeyWeights::Tied } else { KeyWeights::Separate },
            bias: if arguments.bias { Bias::Drawn } else { Bias::Absent },
        },
        sizes,
        source,
        entries: config.law.entries,
        scales: config.scales.clone(),
    };
    let settings = config.sizes.iter().map(setting).collect();
    Ok((config, settings))
}
