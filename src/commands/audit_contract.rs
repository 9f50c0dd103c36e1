//! The contract from its options.

use anyhow::Result;

use super::{config::option, parse};
use crate::attention::Alignment;
use crate::cli::audit::AuditArguments;
use crate::diagnosis::contract::{Contract, Declared, GroupOrder, PaddingKind, Rotary, RotaryLayout, WeightAxes};
use crate::diagnosis::given_mask::MaskKind;
use crate::diagnosis::scale_expression::ScaleExpression;

/// What the implementation promises.
///
/// # Errors
/// An option whose value is outside its domain.
pub fn contract(typed: &AuditArguments) -> Result<Contract> {
    let scale = typed.scale.as_deref().map(|text| option("--scale", text, ScaleExpression::parse)).transpose()?;
    let above_zero = |name: &str, text: &Option<String>| {
        let read = |text: &str| match parse::finite(text)? {
            number if number > 0.0 => Ok(number),
            _ => Err("must be above 0".to_string()),
        };
        text.as_deref().map(|text| option(name, text, read)).transpose()
    };
    let causal = match typed.causal.as_deref() {
        None => None,
        Some("") => Some(Declared::Default(Alignment::TopLeft)),
        Some(text) => Some(Declared::Yes(option("--causal", text, str::parse)?)),
    };
    let groups = match typed.kv_groups.as_deref() {
        None => Declared::Default(GroupOrder::Repeat),
        Some(text) => Declared::Yes(option("--kv-groups", text, |text| match text {
            "repeat" => Ok(GroupOrder::Repeat),
            "tile" => Ok(GroupOrder::Tile),
            _ => Err("must be repeat or tile".to_string()),
        })?),
    };
    let padding = match typed.padding_kind.as_deref() {
        None => Declared::Default(PaddingKind::Keep),
        Some(text) => Declared::Yes(option("--padding-kind", text, |text| match text {
            "keep" => Ok(PaddingKind::Keep),
            "hide" => Ok(PaddingKind::Hide),
            _ => Err("must be keep (1 = real) or hide (1 = padding)".to_string()),
        })?),
    };
    let base = option("--base", &typed.base, |text| match parse::finite(text)? {
        base if base > 1.0 => Ok(base),
        _ => Err("must be above 1, for example 10000".to_string()),
    })?;
    let offset = option("--offset", &typed.offset, |text| match text.trim().parse::<i64>() {
        Ok(offset) if (0..=1_000_000_000).contains(&offset) => Ok(offset),
        _ => Err("must be a whole number from 0 to 1000000000".to_string()),
    })?;
    let rotary = typed.rotary.as_deref().map(|text| {
        let layout = option("--rotary", text, |text| match text {
            "half-split" => Ok(RotaryLayout::HalfSplit),
            "interleaved" => Ok(RotaryLayout::Interleaved),
            _ => Err("must be half-split or interleaved".to_string()),
        });
        layout.map(|layout| Rotary { layout, base, offset })
    });
    let window = typed.window.as_deref().map(|text| option("--window", text, |text| parse::count(text, 1 << 40)));
    let dropout = typed.dropout.as_deref().map(|text| {
        option("--dropout", text, |text| match parse::finite(text)? {
            p if (0.0..1.0).contains(&p) => Ok(p),
            _ => Err("must be a probability, 0 or above and below 1".to_string()),
        })
    });
    let finite =
        |name: &str, text: &Option<String>| text.as_deref().map(|text| option(name, text, parse::finite)).transpose();
    Ok(Contract {
        scale: scale.map_or(Declared::Default(ScaleExpression::standard()), Declared::Yes),
        layer: finite("--layer", &typed.layer)?,
        model_width: above_zero("--dmodel", &typed.dmodel)?,
        causal,
        window: window.transpose()?.map(|keys| keys as usize),
        softcap: above_zero("--softcap", &typed.softcap)?,
        sink: finite("--sink", &typed.sink)?,
        alibi: typed.alibi,
        rotary: rotary.transpose()?,
        groups,
        dropout: dropout.transpose()?,
        tolerance: above_zero("--tolerance", &typed.tolerance)?,
        padding,
        weight_axes: if typed.layout.as_deref() == Some("bijh") {
            WeightAxes::HeadsLast
        } else {
            WeightAxes::HeadsFirst
        },
    })
}

/// The kind of mask, if it was said.
///
/// # Errors
/// A word that is none.
pub fn mask_kind(typed: &AuditArguments) -> Result<Option<MaskKind>> {
    let read = |text: &str| match text {
        "additive" => Ok(MaskKind::Additive),
        "boolean" | "keep" => Ok(MaskKind::Keep),
        "hide" => Ok(MaskKind::Hide),
        _ => Err("must be additive, boolean, keep or hide".to_string()),
    };
    typed.mask_kind.as_deref().map(|text| option("--mask-kind", text, read)).transpose()
}
