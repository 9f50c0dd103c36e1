//! `attn depth`: tokens, logits and gradients layer by layer through a stack of transformer blocks.

use anyhow::{Result, bail};

use super::config::{Config, option};
use super::simulate::{self, Extras};
use super::{ExitStatus, layer};
use crate::attention::transformer_block::Residual;
use crate::cli::depth::DepthArguments;
use crate::experiment::Sizes;
use crate::experiment::depth::{DepthExperiment, DepthSetting, MlpPart, NormPlace, remarks};
use crate::report::plot;
use crate::theory::multi_head::{Bias, KeyWeights, Layer};

/// More blocks and heads than these have no numbers for their matrices.
const MOST_LAYERS: usize = 4096;
const MOST_HEADS: usize = 4096;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &DepthArguments, invocation: &str) -> Result<ExitStatus> {
    let (config, settings) = settings(arguments)?;
    let experiments: Vec<DepthExperiment> = settings.into_iter().map(DepthExperiment::new).collect();
    let of_experiments: Vec<&DepthSetting> = experiments.iter().map(DepthExperiment::setting).collect();
    let extras = Extras {
        remarks: &|rows| remarks::remarks(&of_experiments, rows),
        picture: &plot::of_indexed_rows,
        ..Extras::default()
    };
    simulate::simulate("depth", &config, invocation, &experiments, &extras)
}

/// What is meant by the arguments, one setting a parameter point.
fn settings(arguments: &DepthArguments) -> Result<(Config, Vec<DepthSetting>)> {
    let layers = layer::size("--layers", &arguments.layers)?;
    if layers > MOST_LAYERS {
        bail!("--layers {layers}: must be at most {MOST_LAYERS}");
    }
    let d_model = layer::size("--d-model", &arguments.d_model)?;
    if d_model < 2 {
        bail!("--d-model {d_model}: must be at least 2, a token of one entry has no variance");
    }
    let heads = layer::size("--heads", &arguments.heads)?;
    if heads > MOST_HEADS {
        bail!("--heads {heads}: must be at most {MOST_HEADS}");
    }
    let norm = option("--norm", &arguments.norm, |text| match text {
        "post" => Ok(NormPlace::Post),
        "pre" => Ok(NormPlace::Pre),
        "none" => Ok(NormPlace::None),
        _ => Err("must be post, pre or none".to_string()),
    })?;
    let mlp = match (&arguments.d_ff, arguments.no_mlp) {
        (Some(width), true) => bail!("--d-ff {width}: there is no MLP with --no-mlp"),
        (None, true) => MlpPart::LeftOut,
        (Some(width), false) => MlpPart::Width(layer::size("--d-ff", width)?),
        (None, false) => MlpPart::standard(d_model),
    };
    if let Some(keys) = &arguments.shared.keys {
        bail!("--keys {keys}: depth takes keys from the queries' tokens; leave it out");
    }
    let shared = layer::with_width_of_a_head(&arguments.shared, d_model, heads)?;
    let config = Config::new(&shared)?;
    layer::refuse_unused("depth", &shared, &config)?;
    let &[scale] = &config.scales[..] else { bail!("--scale {}: a stack has one scale; name one", shared.scale) };
    if config.sizes.iter().any(|sizes| sizes.queries < 2) {
        bail!("--queries 1: must be at least 2, so that there are tokens to become alike");
    }
    let residual = if arguments.no_residual { Residual::LeftOut } else { Residual::Added };
    let setting = |&sizes: &Sizes| DepthSetting {
        layers,
        layer: Layer {
            d_model,
            heads,
            key_heads: heads,
            d_k: sizes.d_k,
            d_v: sizes.d_k,
            keys: KeyWeights::Separate,
            bias: Bias::Absent,
        },
        sizes,
        norm,
        residual,
        mlp,
        entries: config.law.entries,
        scale,
    };
    let settings = config.sizes.iter().map(setting).collect();
    Ok((config, settings))
}
