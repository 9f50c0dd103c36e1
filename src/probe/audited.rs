//! What the audit of [`crate::diagnosis`] says of an answer that holds weights, where no known cause gives its numbers.

use std::collections::BTreeMap;

use super::answer::AnswerArray;
use super::case::{Block, Case, Causal, MaskForm};
use super::suspects::Cause;
use crate::attention::Alignment;
use crate::diagnosis::arrays::{Array, ArraySource, Role};
use crate::diagnosis::audit::audit;
use crate::diagnosis::contract::{Contract, Declared};
use crate::diagnosis::finding::Verdict;
use crate::diagnosis::given_mask::MaskKind;
use crate::diagnosis::matrix::Storage;
use crate::diagnosis::scale_expression::ScaleExpression;

/// The first thing that an audit of the answer's weights finds wrong.
pub fn explain(case: &Case, arrays: &[(&'static str, AnswerArray)]) -> Option<Cause> {
    let array = |name: &str| arrays.iter().find(|(own, _)| *own == name).map(|(_, array)| array);
    let weights = match array("weights") {
        Some(weights) => weights,
        None if case.inputs.output_is_weights() => array("o")?,
        None => return None,
    };
    let contract = contract(case)?;
    let of = |block: &Block, storage: Storage| Array::of(block.shape, storage, block.numbers.clone());
    let mut roles = BTreeMap::from([
        (Role::Queries, of(&case.inputs.queries, case.storage)),
        (Role::Keys, of(&case.inputs.keys, case.storage)),
        (Role::Weights, of(&weights.block, weights.storage)),
    ]);
    let mut kind = None;
    if let Some(mask) = &case.inputs.mask {
        kind = Some(if case.options.mask == Some(MaskForm::Additive) { MaskKind::Additive } else { MaskKind::Keep });
        roles.insert(Role::Mask, of(mask, case.storage));
    }
    let source = ArraySource::new(roles, &contract, kind).ok()?;
    let audited = audit(&source, &contract, &|_, _| {}).ok()?;
    let failed =
        |key: &str| audited.findings.iter().any(|finding| finding.verdict == Verdict::Fail && finding.key == key);
    // Where the audit's own model does not give these numbers, what it says of parts of it proves nothing.
    if failed("unexplained") {
        return None;
    }
    let finding = audited.findings.iter().find(|finding| finding.verdict == Verdict::Fail)?;
    let cause = if finding.cause.is_empty() { String::new() } else { format!(" ({})", finding.cause) };
    Some(Cause::new(finding.check.name(), format!("{}{cause}", finding.explanation)))
}

/// What the case asks for, as a contract; `None` where contracts have no word for it.
fn contract(case: &Case) -> Option<Contract> {
    let options = &case.options;
    let shape = case.inputs.shape();
    let window = match options.window {
        None => None,
        Some([left, 0]) if options.causal.is_some() => Some(left as usize + 1),
        Some(_) => return None,
    };
    let alignment = match options.causal {
        Some(Causal::BottomRight) => Alignment::BottomRight,
        // Of an open convention either may be meant; only the square case is one.
        Some(Causal::Either) if shape.queries != shape.keys => return None,
        _ => Alignment::TopLeft,
    };
    let scale = match options.scale {
        Some(scale) => ScaleExpression::parse(&format!("{scale}")).ok()?,
        None => ScaleExpression::standard(),
    };
    Some(Contract {
        scale: Declared::Yes(scale),
        causal: options.causal.map(|_| Declared::Yes(alignment)),
        window,
        softcap: options.softcap,
        alibi: options.alibi,
        ..Contract::default()
    })
}
