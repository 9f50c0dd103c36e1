//! What may be meant where the contract does not hold: a causal mask on top of the one in the file, the other sense of a mask.

use super::contract::{Contract, Declared, PaddingKind};
use super::evidence::Evidence;
use super::finding::{Check, Finding, Verdict};
use super::given_mask::MaskKind;
use super::matrix::{GivenMask, Head};
use crate::attention::{Alignment, Mask, VisibleKeys};

/// A head and a contract that differ from those given in what was not declared.
pub struct Variant {
    /// The head, its masks in the other sense.
    pub head: Head,
    /// The contract, causal.
    pub contract: Contract,
    /// What to say if nothing else is wrong.
    pub findings: Vec<Finding>,
}

/// Whether rows that are surveyed count as progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// They do.
    Yes,
    /// They do not: the head was counted before.
    No,
}

/// Every variant, the fewest changes first. None contradicts a declaration.
pub fn variants(head: &Head, contract: &Contract) -> Vec<Variant> {
    let given = head.mask.is_some() || head.padding.is_some();
    let may_be_causal =
        contract.causal.is_none() && contract.window.is_none() && (given || contract.dropout.is_some_and(|p| p > 0.0));
    let mut rules = vec![None];
    if may_be_causal {
        rules.push(Some(Alignment::TopLeft));
        rules.extend((head.queries.rows != head.keys.rows).then_some(Some(Alignment::BottomRight)));
    }
    let mut variants = Vec::new();
    for turned in [Turned::Nothing, Turned::Padding, Turned::Mask] {
        for &rule in &rules {
            // A mask that is turned and nothing else has a finding of its own.
            if rule.is_none() && turned != Turned::Padding {
                continue;
            }
            let Some((head, mut findings)) = turn(head, contract, turned) else { continue };
            let mut contract = contract.clone();
            if let Some(alignment) = rule {
                contract.causal = Some(Declared::Default(alignment));
                findings.push(undeclared_causal(&head, alignment));
            }
            variants.push(Variant { head, contract, findings });
        }
    }
    variants
}

/// Whether rows that see no key are fewer than the others, and hold what such rows hold by convention: nothing, NaN, or even weights.
pub fn empty_rows_are_few_and_even(evidence: &Evidence<'_>) -> bool {
    let is_empty = |query: &usize| evidence.visible.row(*query).count() == 0;
    let empty: Vec<usize> = (0..evidence.queries).filter(is_empty).collect();
    if 2 * empty.len() >= evidence.queries.max(1) {
        return false;
    }
    let Some(weights) = &evidence.head.weights else { return true };
    let mut row = vec![0.0; evidence.keys];
    empty.into_iter().all(|query| {
        weights.row(query, &mut row);
        let some = row.iter().copied().filter(|weight| *weight != 0.0);
        let (low, high) = some.fold((f64::INFINITY, 0.0f64), |(low, high), weight| (low.min(weight), high.max(weight)));
        low >= 0.98 * high
    })
}

/// Which array is read in its other sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turned {
    Nothing,
    Padding,
    Mask,
}

fn turn(head: &Head, contract: &Contract, turned: Turned) -> Option<(Head, Vec<Finding>)> {
    let warning = |check: Check, words: &str, cause: &str| {
        vec![
            Finding::new(check, Verdict::Warn, "polarity", words)
                .in_head(head.batch, head.head)
                .with_cause(cause, "print the array beside the tokens"),
        ]
    };
    match turned {
        Turned::Nothing => Some((head.clone(), Vec::new())),
        Turned::Padding => {
            let padding = head.padding.as_ref().filter(|_| !contract.padding.is_declared())?;
            let hide = *contract.padding.value() == PaddingKind::Keep;
            let [other, kind] = if hide { ["1 = padding", "hide"] } else { ["1 = real", "keep"] };
            let words = format!("the weights are right if the padding array is read the other way round: {other}");
            let cause = format!(
                "PyTorch's key_padding_mask is 1 at padding, others are 1 at real tokens; pass --padding-kind {kind}"
            );
            let padding = Some(padding.iter().map(|real| !real).collect());
            Some((Head { padding, ..head.clone() }, warning(Check::Padding, &words, &cause)))
        }
        Turned::Mask => {
            let mask = head.mask.as_ref().filter(|mask| !mask.kind_is_declared && mask.kind != MaskKind::Additive)?;
            let (visible, kind) =
                (complement(&mask.visible), if mask.kind == MaskKind::Keep { "hide" } else { "keep" });
            let words = "the weights are right if the mask is read the other way round: polarity reversed";
            let cause =
                format!("True means 'attend' in one interface and 'hide' in the other; pass --mask-kind {kind}");
            let mask = Some(GivenMask { visible, ..mask.clone() });
            Some((Head { mask, ..head.clone() }, warning(Check::Mask, words, &cause)))
        }
    }
}

fn complement(mask: &Mask) -> Mask {
    let (n, m) = (mask.queries(), mask.keys());
    let mut cells = vec![true; n * m];
    for (query, row) in cells.chunks_mut(m.max(1)).enumerate() {
        match mask.row(query) {
            VisibleKeys::Range(range) => row[range].fill(false),
            VisibleKeys::Cells(cells) => row.iter_mut().zip(cells).for_each(|(cell, &visible)| *cell = !visible),
        }
    }
    Mask::from_cells(n, m, cells).compact()
}

fn undeclared_causal(head: &Head, alignment: Alignment) -> Finding {
    let top = if head.mask.is_some() {
        " on top of the mask in the file"
    } else if head.padding.is_some() {
        " on top of the padding"
    } else {
        ""
    };
    let option = match alignment {
        Alignment::BottomRight => "--causal=bottom-right",
        _ => "--causal",
    };
    Finding::new(
        Check::Causal,
        Verdict::Warn,
        "undeclared",
        format!("the attention is causal{top}, which was not declared"),
    )
    .in_head(head.batch, head.head)
    .with_cause(format!("if it is meant, pass {option}"), "declare the mask and audit again")
}
