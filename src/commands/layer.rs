//! The sizes of a layer from what was typed: shared by the subcommands that draw tokens and weights.

use anyhow::{Result, bail};

use super::config::{Config, option};
use super::parse;
use crate::attention::Precision;
use crate::cli::multi_head::PER_HEAD;
use crate::cli::shared::SharedArguments;
use crate::theory::multi_head::width_of_a_head;

/// Wider tokens and more heads than any model has: a slip of the keyboard.
const LARGEST: u64 = 1 << 20;

/// One size of the option `name`.
pub fn size(name: &str, text: &str) -> Result<usize> {
    option(name, text, |text| parse::count(text, LARGEST)).map(|size| size as usize)
}

/// The shared options with the width of a head filled in: `d_model`/`heads` where none was typed.
pub fn with_width_of_a_head(typed: &SharedArguments, d_model: usize, heads: usize) -> Result<SharedArguments> {
    if typed.dk != PER_HEAD {
        return Ok(typed.clone());
    }
    let Some(width) = width_of_a_head(d_model, heads) else {
        bail!("--heads {heads}: must divide --d-model {d_model}, or give the width of a head by --dk");
    };
    Ok(SharedArguments { dk: width.to_string(), ..typed.clone() })
}

/// Refuses shared options that play no part where tokens and weights are drawn.
pub fn refuse_unused(command: &str, typed: &SharedArguments, config: &Config) -> Result<()> {
    let law = config.law;
    for (name, text, used) in [
        ("--mean", &typed.mean, law.mean != 0.0),
        ("--sd", &typed.sd, law.sd != 1.0),
        ("--correlation", &typed.correlation, law.correlation != 0.0),
    ] {
        if used {
            bail!("{name} {text}: {command} draws tokens and weights of mean 0 and fixed variance; leave it out");
        }
    }
    if config.precision != Precision::F64 {
        bail!("--precision {}: {command} computes in f64; leave it out", typed.precision);
    }
    Ok(())
}
