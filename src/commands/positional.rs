//! `attn positional`: do position encodings turn tokens by their position, and leave alone what they must?

use anyhow::{Result, bail};

use super::config::{Config, option};
use super::simulate::{self, Extras};
use super::{ExitStatus, parse};
use crate::attention::position::{self, Layout, PairAngles, Rotary, Sinusoidal};
use crate::cli::positional::PositionalArguments;
use crate::experiment::positional::{PositionSettings, RotaryExperiment, SinusoidalExperiment, decay_curve, remarks};
use crate::report::plot;

/// The encoding under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sinusoidal,
    Rotary(Layout),
}

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, sizes that no machine holds, files that cannot be written.
pub fn run(arguments: &PositionalArguments, invocation: &str) -> Result<ExitStatus> {
    let config = Config::new(&arguments.shared)?;
    let kind = option("--kind", &arguments.kind, kind)?;
    let settings = settings(arguments, &config, kind)?;
    let largest_offset = settings.offsets.iter().copied().max().unwrap_or(1);
    let curves: Vec<_> = config
        .sizes
        .iter()
        .map(|sizes| (sizes.d_k as u64, decay_curve(sizes.d_k, settings.base, largest_offset)))
        .collect();
    let of_rows = |rows: &[crate::report::Row]| remarks::remarks(rows, settings.angles);
    let picture = |rows: &[crate::report::Row]| plot::positional(rows, &curves);
    let extras = Extras { remarks: &of_rows, picture: &picture, ..Extras::default() };
    let angles = |width| PairAngles::new(width, settings.base, settings.angles, settings.precision);
    match kind {
        Kind::Sinusoidal => {
            let experiments = config.sizes.iter().map(|&sizes| {
                let encoding = Sinusoidal { angles: angles(sizes.d_k).map_err(anyhow::Error::msg)? };
                Ok(SinusoidalExperiment::new(sizes, config.law, &config.scales, &settings, &encoding))
            });
            simulate::simulate("positional", &config, invocation, &experiments.collect::<Result<Vec<_>>>()?, &extras)
        }
        Kind::Rotary(layout) => {
            let experiments = config.sizes.iter().map(|&sizes| {
                let rotary = Rotary::new(angles(sizes.d_k).map_err(anyhow::Error::msg)?, layout);
                let rotary = rotary.remembering(settings.positions(sizes));
                Ok(RotaryExperiment::new(sizes, config.law, &config.scales, &settings, layout, rotary))
            });
            simulate::simulate("positional", &config, invocation, &experiments.collect::<Result<Vec<_>>>()?, &extras)
        }
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    match text.split_once(':') {
        None if text == "sinusoidal" => Ok(Kind::Sinusoidal),
        None if text == "rotary" => Ok(Kind::Rotary(Layout::default())),
        Some(("rotary", layout)) => Ok(Kind::Rotary(layout.parse()?)),
        _ => Err("must be sinusoidal, rotary, rotary:half-split or rotary:interleaved".to_string()),
    }
}

/// Reads and checks what positions need beside the shared options.
fn settings(arguments: &PositionalArguments, config: &Config, kind: Kind) -> Result<PositionSettings> {
    let shared = &arguments.shared;
    for (name, text, value) in
        [("--mean", &shared.mean, config.law.mean), ("--correlation", &shared.correlation, config.law.correlation)]
    {
        if value != 0.0 {
            bail!("{name} {text}: must be 0 here: a mean or a correlation turns with the position; see attn variance");
        }
    }
    for sizes in &config.sizes {
        option("--dk", &sizes.d_k.to_string(), |_| position::check_width(sizes.d_k))?;
    }
    let base = option("--base", &arguments.base, |text| {
        let base = parse::finite(text)?;
        position::check_base(base).map(|()| base)
    })?;
    let start = option("--start", &arguments.start, |text| {
        text.trim().parse::<u64>().map_err(|_| "must be a whole number, at least 0".to_string())
    })?;
    let given = arguments.offset.as_deref().map(|text| option("--offset", text, parse::sizes)).transpose()?;
    let angles = arguments.angles.as_deref().map(|text| option("--angles", text, str::parse)).transpose()?;
    let settings = PositionSettings {
        base,
        start,
        offsets: given.clone().unwrap_or_default(),
        precision: config.precision,
        angles: angles.unwrap_or(config.precision),
    };
    let settings = settings.with_offsets_for(&config.sizes);
    if let (Kind::Sinusoidal, Some(_)) = (kind, &given)
        && let Some((offset, tokens)) = settings.offset_beyond(&config.sizes)
    {
        bail!("--offset {offset}: must be below the number of tokens, {tokens}: the table has no more positions");
    }
    let last = settings.last_position(&config.sizes);
    let largest = position::last_position(settings.angles);
    if last > largest {
        bail!(
            "--start {start}: with tokens and offsets the last position is {last}; in {} arithmetic an angle means nothing beyond \
             position {largest}{}",
            settings.angles,
            if settings.angles == crate::attention::Precision::F64 { "" } else { "; see --angles f64" }
        );
    }
    settings.check_tables(&config.sizes).map_err(anyhow::Error::msg)?;
    Ok(settings)
}
