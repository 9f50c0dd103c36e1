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

/// A rule that was not declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    alignment: Alignment,
    /// Keys of a full row, where there is a window.
    window: Option<usize>,
}

/// Whether an undeclared causal rule, alone, has an explanation without any variant: nothing else hides cells or zeroes weights.
pub fn causal_shows_by_itself(head: &Head, contract: &Contract) -> bool {
    head.mask.is_none() && head.padding.is_none() && contract.dropout.is_none_or(|p| p == 0.0)
}

/// Every variant, the fewest changes first. None contradicts a declaration.
pub fn variants(head: &Head, contract: &Contract) -> Vec<Variant> {
    let mut rules = vec![None];
    if contract.causal.is_none() && contract.window.is_none() {
        let (n, m) = (head.queries.rows, head.keys.rows);
        let alignments = [Alignment::TopLeft, Alignment::BottomRight];
        let alignments = &alignments[..if n == m { 1 } else { 2 }];
        rules.extend(alignments.iter().map(|&alignment| Some(Rule { alignment, window: None })));
        let windows = alignments.iter().filter_map(|&alignment| {
            let offset = if alignment == Alignment::TopLeft { 0 } else { m as i64 - n as i64 };
            Some(Some(Rule { alignment, window: Some(window_of(head, offset)?) }))
        });
        rules.extend(windows);
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
            if let Some(rule) = rule {
                contract.causal = Some(Declared::Default(rule.alignment));
                contract.window = rule.window;
                findings.push(undeclared_rule(&head, rule));
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

/// The window that the weights would have if query 0 stood at key `offset`: `None` if a later key has weight, or no key is cut off.
fn window_of(head: &Head, offset: i64) -> Option<usize> {
    let weights = head.weights.as_ref()?;
    let mut row = vec![0.0; weights.columns];
    let mut window = 0;
    for query in 0..weights.rows {
        weights.row(query, &mut row);
        let position = query as i64 + offset;
        let Some(first) = row.iter().position(|weight| *weight != 0.0) else { continue };
        let last = row.iter().rposition(|weight| *weight != 0.0)? as i64;
        if last > position {
            return None;
        }
        window = window.max(position - first as i64 + 1);
    }
    let longest = (weights.rows as i64 + offset).min(weights.columns as i64);
    (window > 0 && window < longest).then_some(window as usize)
}

fn undeclared_rule(head: &Head, Rule { alignment, window }: Rule) -> Finding {
    let top = if head.mask.is_some() {
        " on top of the mask in the file"
    } else if head.padding.is_some() {
        " on top of the padding"
    } else {
        ""
    };
    let causal = match alignment {
        Alignment::BottomRight => "--causal=bottom-right",
        _ => "--causal",
    };
    let (check, what, option) = match window {
        None => (Check::Causal, "the attention is causal".to_string(), causal.to_string()),
        Some(1) => (Check::Window, "every token sees itself alone".to_string(), format!("{causal} --window 1")),
        Some(keys) => {
            (Check::Window, format!("the attention has a window of {keys} keys"), format!("{causal} --window {keys}"))
        }
    };
    Finding::new(check, Verdict::Warn, "undeclared", format!("{what}{top}, which was not declared"))
        .in_head(head.batch, head.head)
        .with_cause(format!("if it is meant, pass {option}"), "declare the mask and audit again")
}
