//! `attn kv-cache`: does decoding with cached keys and values equal the full causal pass, and what does it save?

use anyhow::{Result, bail};

use super::config::{Config, option};
use super::simulate::{self, Extras};
use super::{ExitStatus, parse};
use crate::attention::Scale;
use crate::attention::cache::Reach;
use crate::attention::position;
use crate::cli::kv_cache::KvCacheArguments;
use crate::experiment::Sizes;
use crate::experiment::kv_cache::{CacheExperiment, CacheSettings, Timing, cost_curve, remarks};
use crate::report::{Row, plot};

/// Draws that are tried where the user does not say.
const TRIALS: u64 = 10;
/// More heads, tokens of a window, or generated tokens than this are a slip of the keyboard.
const MOST: u64 = 1 << 20;

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &KvCacheArguments, invocation: &str) -> Result<ExitStatus> {
    let config = Config::new(&arguments.shared)?;
    let config = Config { trials: config.trials.or(Some(TRIALS)), ..config };
    let settings = settings(arguments, &config)?;
    check_sizes(&config.sizes, &settings)?;
    let experiments: Vec<CacheExperiment> =
        config.sizes.iter().map(|&sizes| CacheExperiment::new(sizes, config.law, settings)).collect();
    let curves: Vec<_> = config.sizes.first().map(|&sizes| cost_curve(&settings, sizes)).unwrap_or_default();
    let picture = |rows: &[Row]| plot::cost(rows, &curves);
    let extras = Extras { picture: &picture, remarks: &remarks, ..Extras::default() };
    simulate::simulate("kv-cache", &config, invocation, &experiments, &extras)
}

/// Reads and checks what a cache needs beside the shared options.
fn settings(arguments: &KvCacheArguments, config: &Config) -> Result<CacheSettings> {
    let count =
        |name: &str, text: &str| option(name, text, |text| parse::count(text, MOST)).map(|count| count as usize);
    let count_or_none = |name: &str, text: &str| if text.trim() == "0" { Ok(0) } else { count(name, text) };
    let optional = |name: &str, text: &Option<String>| text.as_deref().map(|text| count(name, text)).transpose();
    let heads = count("--heads", &arguments.heads)?;
    let key_value_heads = optional("--kv-heads", &arguments.kv_heads)?.unwrap_or(heads);
    if !heads.is_multiple_of(key_value_heads) {
        bail!("--kv-heads {key_value_heads}: must divide --heads {heads}: each is shared by as many query heads");
    }
    if config.law.correlation != 0.0 {
        bail!("--correlation {}: must be 0 here; see attn variance", arguments.shared.correlation);
    }
    let scale = match config.scales[..] {
        [scale] => scale,
        // The list that other subcommands have by default.
        [Scale::None, Scale::InverseSqrtWidth] => Scale::InverseSqrtWidth,
        _ => bail!("--scale {}: must be one scale here, for example inv-sqrt-dk", arguments.shared.scale),
    };
    let layout = match arguments.rotary.as_str() {
        "none" => None,
        text => Some(option("--rotary", text, |text| text.parse().map_err(|rule: String| format!("{rule}, or none")))?),
    };
    Ok(CacheSettings {
        heads,
        key_value_heads,
        d_v: optional("--dv", &arguments.dv)?,
        prefill: arguments.prefill.as_deref().map(|text| count_or_none("--prefill", text)).transpose()?,
        chunk: optional("--chunk", &arguments.chunk)?,
        reach: optional("--window", &arguments.window)?.map_or(Reach::All, Reach::Window),
        layout,
        generate: count_or_none("--generate", &arguments.generate)?,
        scale,
        precision: config.precision,
        timing: if arguments.time { Timing::On } else { Timing::Off },
    })
}

/// Checks what depends on sizes and settings together.
fn check_sizes(sizes: &[Sizes], settings: &CacheSettings) -> Result<()> {
    for &point in sizes {
        settings.check_sizes(point).map_err(anyhow::Error::msg)?;
    }
    for Sizes { d_k, queries, .. } in sizes {
        if settings.layout.is_some() {
            option("--dk", &d_k.to_string(), |_| {
                position::check_width(*d_k).map_err(|rule| format!("{rule}; see --rotary none"))
            })?;
        }
        if let Some(prefill) = settings.prefill.filter(|prefill| prefill >= queries) {
            bail!("--prefill {prefill}: must be below --queries {queries}, so that a token is left to decode");
        }
    }
    Ok(())
}
