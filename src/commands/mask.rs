//! `attn mask`: does the mask hide what it claims to hide, and nothing else?

use anyhow::{Context, Result, anyhow};

use super::ExitStatus;
use super::config::{Config, option};
use super::mask_file;
use super::simulate::{self, Extras};
use crate::attention::masked::{Apply, Fill, MaskedSoftmax};
use crate::attention::{Alignment, MaskRule, Precision};
use crate::cli::mask::MaskArguments;
use crate::diagnosis::mask_numbers::{MaskMeaning, MaskNumbers};
use crate::experiment::Sizes;
use crate::experiment::mask::portrait::portrait;
use crate::experiment::mask::remarks::{MaskSetting, NamedMask, remarks};
use crate::experiment::mask::{Detail, MaskClaim, MaskExperiment, VisibleBias};
use crate::report::plot;

/// `--detect` where each row is judged on its own: one row scatters much more than the mean of all.
const DETECT_BY_ROW: &str = "10%";

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, a mask that does not fit the sizes, an unreadable mask file, sizes that no machine holds, files that
/// cannot be written.
pub fn run(arguments: &MaskArguments, invocation: &str) -> Result<ExitStatus> {
    let align = arguments.align.as_deref().map(|text| option("--align", text, str::parse)).transpose()?;
    let applied = source("--kind", &arguments.kind, align)?;
    let claimed = arguments.claim.as_deref().map(|text| source("--claim", text, align)).transpose()?;
    let mut shared = arguments.shared.clone();
    if let Source::File(file) = &applied {
        // A file knows its sizes, unless it is to be repeated.
        shared.queries = shared.queries.or_else(|| file.queries().map(|queries| queries.to_string()));
        shared.keys = shared.keys.or_else(|| file.keys().map(|keys| keys.to_string()));
    }
    if arguments.by_row {
        shared.detect.get_or_insert_with(|| DETECT_BY_ROW.to_string());
    }
    let config = Config::new(&shared)?;
    let fill = arguments.fill.as_deref().map(|text| option("--fill", text, str::parse)).transpose()?;
    let apply: Apply = option("--apply", &arguments.apply, str::parse)?;
    let detail = if arguments.by_row { Detail::ByRow } else { Detail::Averaged };
    let mut settings: Vec<MaskSetting> = Vec::new();
    let mut experiments = Vec::new();
    for &sizes in &config.sizes {
        let (own, attention, bias) = applied.at("--kind", sizes, (fill, apply, config.precision))?;
        let claimed = claimed.as_ref().map(|claimed| claimed.at("--claim", sizes, (None, apply, config.precision)));
        let claimed = claimed.transpose()?.map_or_else(|| own.clone(), |(claimed, ..)| claimed);
        let setting = MaskSetting { applied: own, claimed, fill: attention.fill, apply, precision: config.precision };
        let claim = MaskClaim { mask: setting.claimed.mask.clone(), name: setting.name(), detail, bias };
        experiments.push(MaskExperiment::new(sizes, config.law, &config.scales, claim, attention));
        // One width tells as much of a mask as another.
        if !settings.iter().any(|other| other.has_sizes_of(&setting)) {
            settings.push(setting);
        }
    }
    let notes: Vec<String> = applied.notes().into_iter().chain(claimed.iter().flat_map(Source::notes)).collect();
    let extras = Extras {
        remarks: &|rows| notes.iter().cloned().chain(remarks(rows, &settings)).collect(),
        picture: &|rows| {
            let trials = rows.iter().filter_map(|row| row.trials).min().unwrap_or(0);
            experiments.first().map(|first| plot::mask::draw(&portrait(first, config.seed, trials)))
        },
        ..Extras::default()
    };
    simulate::simulate("mask", &config, invocation, &experiments, &extras)
}

/// Where a mask comes from.
enum Source {
    Rule(MaskRule),
    File(MaskNumbers),
}

/// Reads `KIND`, `KIND@ALIGN` or `file:PATH`; an alignment behind the kind stands over `--align`.
fn source(name: &str, text: &str, align: Option<Alignment>) -> Result<Source> {
    if let Some(path) = text.strip_prefix("file:") {
        return Ok(Source::File(mask_file::read(path).with_context(|| format!("{name} file"))?));
    }
    let mut rule: MaskRule = option(name, text, str::parse)?;
    if let (Some(align), false) = (align, text.contains('@')) {
        rule.alignment = align;
    }
    Ok(Source::Rule(rule))
}

impl Source {
    /// The mask at these sizes, and the attention that applies it; without a `fill` hidden logits are −∞, or what a file adds.
    fn at(
        &self,
        name: &str,
        sizes: Sizes,
        (fill, apply, precision): (Option<Fill>, Apply, Precision),
    ) -> Result<(NamedMask, MaskedSoftmax, VisibleBias)> {
        let Sizes { queries, keys, .. } = sizes;
        match self {
            Self::Rule(rule) => {
                let mask = rule.at(queries, keys).map_err(|reason| anyhow!("{name} {reason}"))?;
                let fill = fill.unwrap_or(Fill::Infinite);
                let attention = MaskedSoftmax { mask: mask.clone(), bias: None, fill, apply, precision };
                Ok((
                    NamedMask { mask, rule: Some(rule.clone()), name: rule.name(queries, keys) },
                    attention,
                    VisibleBias::None,
                ))
            }
            Self::File(numbers) => {
                let meaning = numbers.at(queries, keys).map_err(|reason| anyhow!("{name} {reason}"))?;
                let MaskMeaning { mask, before_constant, rule, name, bias, biases_visible, .. } = meaning;
                let attention = match fill {
                    Some(fill) => {
                        let bias = bias.filter(|_| biases_visible);
                        MaskedSoftmax { mask: mask.clone(), bias, fill, apply, precision }
                    }
                    None => MaskedSoftmax { mask: before_constant, bias, fill: Fill::Infinite, apply, precision },
                };
                let bias = if biases_visible { VisibleBias::Some } else { VisibleBias::None };
                Ok((NamedMask { mask, rule, name }, attention, bias))
            }
        }
    }

    /// What a file was found to hold.
    fn notes(&self) -> Vec<String> {
        match self {
            Self::Rule(_) => Vec::new(),
            Self::File(numbers) => numbers.words().to_vec(),
        }
    }
}
