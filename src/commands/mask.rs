//! `attn mask`: does the mask hide what it claims to hide, and nothing else?

use anyhow::{Context, Result, anyhow, bail};

use super::ExitStatus;
use super::config::{Config, option};
use super::mask_file;
use super::simulate::{self, Extras};
use crate::attention::masked::{Apply, Fill, HiddenValues, MaskedSoftmax};
use crate::attention::{Alignment, Mask, MaskRule, Precision};
use crate::cli::mask::MaskArguments;
use crate::diagnosis::mask_numbers::{MaskMeaning, MaskNumbers, OneMeans, Polarity};
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
    let one = option("--true-means", &arguments.true_means, str::parse)?;
    let applied = source("--kind", &arguments.kind, align, one)?;
    let claimed = arguments.claim.as_deref().map(|text| source("--claim", text, align, one)).transpose()?;
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
    let hiding = Hiding::new(arguments, &config)?;
    let detail = if arguments.by_row { Detail::ByRow } else { Detail::Averaged };
    let mut settings: Vec<MaskSetting> = Vec::new();
    let mut experiments = Vec::new();
    for &sizes in &config.sizes {
        let (own, attention, bias) = applied.at(("--kind", &arguments.kind), sizes, hiding)?;
        let claimed = claimed.as_ref().zip(arguments.claim.as_deref()).map(|(claimed, text)| {
            claimed.at(("--claim", text), sizes, Hiding { fill: None, hidden_values: None, ..hiding })
        });
        let claimed = claimed.transpose()?.map_or_else(|| own.clone(), |(claimed, ..)| claimed);
        let setting = MaskSetting {
            fill: applied.constant().map_or(attention.fill, |constant| hiding.fill.unwrap_or(Fill::Number(constant))),
            applied: own,
            claimed,
            apply: hiding.apply,
            hidden_values: attention.hidden_values,
            precision: config.precision,
        };
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
        inputs: mask_file::check_sums([Some(arguments.kind.as_str()), arguments.claim.as_deref()])?,
        ..Extras::default()
    };
    simulate::simulate("mask", &config, invocation, &experiments, &extras)
}

/// How hidden keys are hidden, as far as it was said.
#[derive(Debug, Clone, Copy)]
struct Hiding {
    fill: Option<Fill>,
    apply: Apply,
    hidden_values: Option<HiddenValues>,
    precision: Precision,
}

impl Hiding {
    fn new(arguments: &MaskArguments, config: &Config) -> Result<Self> {
        let fill: Option<Fill> =
            arguments.fill.as_deref().map(|text| option("--fill", text, str::parse)).transpose()?;
        let apply: Apply = option("--apply", &arguments.apply, str::parse)?;
        if let (Some(fill), Apply::After) = (fill, apply) {
            bail!("--fill {fill}: plays no part with --apply after, which sets weights to 0");
        }
        let hidden_values =
            (arguments.hidden_values.as_deref()).map(|text| option("--hidden-values", text, str::parse)).transpose()?;
        Ok(Self { fill, apply, hidden_values, precision: config.precision })
    }

    /// The attention that hides what `mask` hides; without a fill hidden logits are −∞.
    fn attention(self, mask: Mask, bias: Option<Vec<f32>>) -> MaskedSoftmax {
        let fill = self.fill.unwrap_or(Fill::Infinite);
        let hidden_values = self.hidden_values.unwrap_or(HiddenValues::usual(fill, self.apply));
        MaskedSoftmax { mask, bias, fill, apply: self.apply, hidden_values, precision: self.precision }
    }
}

/// Where a mask comes from.
enum Source {
    Rule(MaskRule),
    File(MaskNumbers),
}

/// Reads `KIND`, `KIND@ALIGN` or `file:PATH`; an alignment behind the kind stands over `--align`.
fn source(name: &str, text: &str, align: Option<Alignment>, one: OneMeans) -> Result<Source> {
    if let Some(path) = text.strip_prefix(mask_file::PREFIX) {
        return Ok(Source::File(mask_file::read(path, one).with_context(|| name.to_string())?));
    }
    let mut rule: MaskRule = option(name, text, str::parse)?;
    if let (Some(align), false) = (align, text.contains('@')) {
        rule.alignment = align;
    }
    Ok(Source::Rule(rule))
}

impl Source {
    /// The mask at these sizes, and the attention that applies it.
    fn at(
        &self,
        (name, text): (&str, &str),
        sizes: Sizes,
        hiding: Hiding,
    ) -> Result<(NamedMask, MaskedSoftmax, VisibleBias)> {
        let Sizes { queries, keys, .. } = sizes;
        match self {
            Self::Rule(rule) => {
                let mask = rule.at(queries, keys).map_err(|reason| anyhow!("{name} {reason}"))?;
                let attention = hiding.attention(mask.clone(), None);
                let name = rule.name(queries, keys);
                Ok((NamedMask { mask, rule: Some(rule.clone()), name }, attention, VisibleBias::None))
            }
            Self::File(numbers) => {
                let meaning = numbers.at(queries, keys).map_err(|reason| anyhow!("{name} {text}: {reason}"))?;
                let MaskMeaning { mask, before_constant, rule, name: kind, bias, biases_visible, constant } = meaning;
                let as_it_is = constant.is_some() && hiding.fill.is_none() && hiding.apply == Apply::Before;
                let attention = if as_it_is {
                    if hiding.hidden_values == Some(HiddenValues::Select) {
                        bail!(
                            "--hidden-values select: the file's constant hides by its size, no key is left out; say --fill"
                        );
                    }
                    let multiply = Hiding { hidden_values: Some(HiddenValues::Multiply), ..hiding };
                    multiply.attention(before_constant, bias)
                } else {
                    hiding.attention(mask.clone(), bias.filter(|_| biases_visible))
                };
                let bias = if biases_visible { VisibleBias::Some } else { VisibleBias::None };
                Ok((NamedMask { mask, rule, name: kind }, attention, bias))
            }
        }
    }

    /// The finite constant by which a file hides.
    fn constant(&self) -> Option<f64> {
        match self {
            Self::File(numbers) => match numbers.polarity() {
                Polarity::Additive { constant } => constant,
                Polarity::Keep | Polarity::Hide => None,
            },
            Self::Rule(_) => None,
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
