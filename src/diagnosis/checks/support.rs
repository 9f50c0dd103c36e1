//! Which cells have weight: mask, causal, padding, window.

use super::mask_file::file_findings;
use super::{HeadContext, against};
use crate::diagnosis::explain::{Cause, Support};
use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::given_mask::MaskKind;
use crate::diagnosis::mask_pattern::{Pattern, Placement, Shape, recognise};

/// Shown by `--explain mask`.
pub const MASK: &str = "\
Do hidden keys have no weight, and visible ones some?
Formula: with the fitted scale, each cell's implied logit is ln P_ij + lse_i. A hidden cell whose implied logit is its own was never masked; \
0: the logits were multiplied by the mask; a constant: a finite fill, or a number added; a softmax over all keys with zeros afterwards: masked too \
late. The cells with weight are held against known patterns, so that a transposed, reversed or shifted mask is named.
Verdict: FAIL against a mask in the file or a declared rule; WARN where nothing was declared. Weights smaller than the storage type holds are \
no evidence.
Blind spots: mask after the softmax followed by renormalising (equal to masking before); a fill so low that it underflows; rows with one key.";

/// Shown by `--explain causal`.
pub const CAUSAL: &str = "\
Is a key visible exactly if it is not after the query's position?
Formula: cells with weight against key ≤ query (top-left) and key ≤ query + m − n (bottom-right); counts of future keys with weight and of past \
keys without.
Verdict: FAIL against --causal or a mask in the file; WARN if nothing was declared (pass --causal), or if only the alignment was not.
Blind spots: n = m (both alignments agree); one query; one key.";

/// Shown by `--explain padding`.
pub const PADDING: &str = "\
Do padding keys have no weight?
Formula: weight of the queries on keys that the padding array marks as not real, mean over the rows that leak.
Verdict: FAIL against a padding array in the file.
Blind spots: rows of padding queries may hold anything and are judged all the same: they sum to 1 in most libraries; without padding array \
or mask in the file nothing is known of padding.";

/// Shown by `--explain window`.
pub const WINDOW: &str = "\
How many keys does a full row of a sliding window see?
Formula: visible keys of the rows that are not cut by the start; W counts the query's own key (triu(diagonal = 1 − W)).
Verdict: FAIL against --window; libraries differ in counting the own key, so the count is printed.
CANNOT TELL: n ≤ W, no row is cut.
Blind spots: which of both ways to count the own key is meant; weights far back that underflow.";

/// What the cells say.
pub fn findings(context: &HeadContext<'_>) -> Vec<Finding> {
    let mut findings = file_findings(context);
    let Some(_) = context.explanation else { return findings };
    let before = findings.len();
    for cause in context.causes() {
        match cause {
            Cause::Support(support) => findings.push(support_finding(context, support)),
            Cause::Multiplied => findings.push(hidden_finding(
                context, "multiplied", 0.0,
                "implied logit of every masked key is 0.000: scores were multiplied by the mask",
                "scores * mask before the softmax, so that exp(0) = 1 stays; use where(mask, scores, -inf)",
            )),
            Cause::Replaced(fill) => findings.push(hidden_finding(
                context, "fill", *fill,
                &format!("masked keys have the logit {}: a fill value that is not low enough", significant(*fill, 4)),
                "masked_fill with a finite number (or a soft cap applied to the mask, whose fill is then -cap); use -inf",
            )),
            Cause::Added(fill) => findings.push(hidden_finding(
                context, "added", *fill,
                &format!("masked keys keep their logit less {}: the number that is added is not low enough", significant(-*fill, 4)),
                "an additive mask of a small finite number; use -inf or the lowest finite one",
            )),
            Cause::ZeroedAfter => findings.push(hidden_finding(
                context, "after softmax", 0.0,
                "hidden keys were in the softmax and set to 0 after it: rows sum to less than 1",
                "the mask is applied after the softmax; apply it before, or divide by the sum again",
            )),
            Cause::AddedAfter(number) => findings.push(hidden_finding(
                context, "added after", *number,
                &format!("hidden keys hold the softmax over all keys plus {number}: the mask was added after the softmax"),
                "P + mask instead of softmax(scores + mask)",
            )),
            _ => {}
        }
    }
    let explained = context.weights_are_right()
        || context.causes().iter().all(|cause| !matches!(cause, Cause::Unexplained | Cause::OverQueries));
    if findings.len() == before && explained {
        findings.extend(passes(context));
    }
    findings
}

fn hidden_finding(context: &HeadContext<'_>, key: &str, number: f64, words: &str, cause: &str) -> Finding {
    context
        .finding(Check::Mask, Verdict::Fail, key, words)
        .with_numbers(number, f64::NEG_INFINITY, "logit of a masked key")
        .with_cause(cause, "dump the logits after masking: masked cells must be -inf, or lower than any logit by 100")
}

/// Cells of the weights differ from the contract's.
fn support_finding(context: &HeadContext<'_>, support: &Support) -> Finding {
    let evidence = context.evidence;
    let pattern = recognise(&support.observed);
    let declared = evidence.declared.is_some();
    let given = context.head.mask.is_some() || context.head.padding.is_some();
    let total = evidence.queries * evidence.keys;
    let hidden = total - (evidence.visible.visible_share() * total as f64).round() as usize;
    let reversed = given
        && support.leaked == hidden
        && hidden > 0
        && support.lost + hidden == total
        && context.head.mask.as_ref().is_some_and(|mask| mask.kind != MaskKind::Additive);
    let (query, key) = support.first;
    let leak = match support.leaked {
        0 => format!("no hidden cell has weight; first difference at (query {query}, key {key})"),
        leaked => format!(
            "{leaked} hidden {} weight (mean {} of a row that leaks), first (query {query}, key {key})",
            if leaked == 1 { "cell has" } else { "cells have" },
            significant(support.leaked_weight, 3)
        ),
    };
    let mut finding = if reversed {
        let words = "the weights lie on exactly the cells that the mask hides (agreement 0 %, inverted 100 %): polarity reversed";
        let verdict = against(context.head.mask.as_ref().is_some_and(|mask| mask.kind_is_declared));
        context
            .finding(Check::Mask, verdict, "reversed", words)
            .with_numbers(0.0, 1.0, "share of cells that agree")
            .with_cause(
                "True means 'attend' in one interface and 'hide' in the other; if the file's mask means the other, pass --mask-kind",
                "negate the mask and audit again",
            )
    } else if is_padding_only(context, support) {
        let words = format!("padding keys have weight: {leak}");
        context
            .finding(Check::Padding, Verdict::Fail, "leak", words)
            .with_numbers(support.leaked_weight, 0.0, "weight")
            .with_cause(
                "the padding mask is not applied on this path",
                "run the same tokens without padding and compare",
            )
    } else if evidence.declared.is_none() && !given {
        undeclared(context, support, &pattern)
    } else if context.contract.window.is_some() {
        window_finding(context, support, &pattern)
    } else if declared || matches!(recognise(&evidence.visible).shape, Shape::Causal { .. }) {
        causal_finding(context, support, &pattern, &leak)
    } else {
        let words = format!(
            "weights do not lie where the mask says: {leak}; {} visible cells have none; the weights' own pattern: {pattern}",
            support.lost
        );
        context
            .finding(Check::Mask, Verdict::Fail, "cells", words)
            .with_numbers(support.leaked as f64, 0.0, "hidden cells with weight")
            .with_cause(
                if support.leaked == support.hidden_cells && support.lost == 0 {
                    "the mask is not applied on this path"
                } else {
                    "another mask than the file's was applied"
                },
                "compare the cells with weight with the mask",
            )
    };
    finding.cell = Some((support.first.0, Some(support.first.1)));
    finding
}

fn is_padding_only(context: &HeadContext<'_>, support: &Support) -> bool {
    let real: Option<Vec<bool>> = context.head.padding.clone().or_else(|| {
        let mask = &context.head.mask.as_ref()?.visible;
        match recognise(mask).shape {
            Shape::Padding { real } | Shape::CausalPadding { real, .. } => {
                Some((0..mask.keys()).map(|key| real.contains(&key)).collect())
            }
            _ => None,
        }
    });
    let Some(real) = real else { return false };
    let evidence = context.evidence;
    (0..evidence.queries).all(|query| {
        let (observed, visible) = (support.observed.row(query), evidence.visible.row(query));
        let leaks = |key: usize| !real[key] && observed.contains(key);
        (0..evidence.keys).all(|key| observed.contains(key) == visible.contains(key) || leaks(key))
    })
}

fn undeclared(context: &HeadContext<'_>, support: &Support, pattern: &Pattern) -> Finding {
    let option = match &pattern.shape {
        Shape::Causal { placement: Placement::BottomRight } => {
            Some((Check::Causal, "--causal=bottom-right".to_string()))
        }
        Shape::Causal { .. } => Some((Check::Causal, "--causal".to_string())),
        Shape::Window { keys, .. } => Some((Check::Window, format!("--causal --window {keys}"))),
        _ => None,
    };
    let (check, cause) = match option {
        Some((check, option)) => {
            (check, format!("no mask is in the file and none was declared; if it is meant, pass {option}"))
        }
        None => (Check::Mask, "no mask is in the file; put it there, or the padding".to_string()),
    };
    let words = format!("{} cells have no weight although every key should be visible: {pattern}", support.lost);
    context
        .finding(check, Verdict::Warn, &format!("undeclared {}", pattern.shape), words)
        .with_numbers(support.lost as f64, 0.0, "visible cells without weight")
        .with_cause(cause, "declare the mask and audit again")
}

fn window_finding(context: &HeadContext<'_>, support: &Support, pattern: &Pattern) -> Finding {
    let declared = context.contract.window.unwrap_or_default();
    // Keys of the fullest row, not of the rows cut by the start.
    let seen = match &pattern.shape {
        Shape::Window { keys, .. } => *keys,
        _ => support.observed.visible_keys().into_iter().max().unwrap_or_default(),
    };
    let off = seen as i64 - declared as i64;
    let words = match pattern.shape {
        Shape::Window { .. } if off.abs() == 1 => {
            format!("{seen} keys per full row (self and {} back); declared {declared}: off by one", seen as i64 - 1)
        }
        Shape::Window { .. } => format!("{seen} keys per full row; declared {declared}"),
        Shape::Causal { .. } => format!("causal without a window: up to {seen} keys per row; declared {declared}"),
        _ => format!("the cells with weight are no window of {declared}: {pattern}"),
    };
    let cause = match off {
        1 => "\"window w\" read as w keys besides the own one (triu(diagonal = -w), or a left size that excludes self)",
        -1 => "\"window w\" read as w - 1 keys and the own one subtracted twice",
        _ => "the window is not passed to this path",
    };
    context
        .finding(Check::Window, Verdict::Fail, &format!("window {seen}"), words)
        .with_numbers(seen as f64, declared as f64, "keys per full row")
        .with_cause(cause, "count the visible keys of the last row")
}

fn causal_finding(context: &HeadContext<'_>, support: &Support, pattern: &Pattern, leak: &str) -> Finding {
    let evidence = context.evidence;
    let visible_keys = support.observed.visible_keys();
    let expected_keys = evidence.visible.visible_keys();
    let listed = |keys: &[usize]| keys.iter().take(4).map(usize::to_string).collect::<Vec<_>>().join(", ");
    let declared_alignment = context.contract.causal.as_ref().is_some_and(|causal| causal.is_declared());
    let mut verdict = Verdict::Fail;
    let (key, words, cause) = match &pattern.shape {
        Shape::Causal { placement: placement @ (Placement::TopLeft | Placement::BottomRight) } => {
            let option = format!("--causal={placement}");
            if !declared_alignment && context.head.mask.is_none() {
                verdict = Verdict::Warn;
            }
            (
                "alignment",
                format!(
                    "causal alignment is {} ({} queries, {} keys: {} … keys visible); expected {} …",
                    placement.to_string().to_uppercase(),
                    evidence.queries,
                    evidence.keys,
                    listed(&visible_keys),
                    listed(&expected_keys)
                ),
                format!("libraries differ where queries and keys differ in number; if it is meant, pass {option}"),
            )
        }
        Shape::Causal { placement: Placement::Offset(offset) } => (
            "offset",
            format!(
                "query 0 stands at key {offset}, expected {}: the causal diagonal is shifted by {}",
                evidence.offset,
                offset - evidence.offset
            ),
            "an offset of the diagonal: triu(diagonal = 0 or 2) for 1, or a cache length that is off by one"
                .to_string(),
        ),
        Shape::StrictlyCausal { .. } => (
            "diagonal",
            "the diagonal is hidden: no token sees itself".to_string(),
            "the upper triangle was taken with offset 0 instead of 1".to_string(),
        ),
        Shape::Transposed { .. } => (
            "transposed",
            format!("future keys have weight and strictly past keys none: mask is transposed; {leak}"),
            "triu for tril, or queries and keys changed places".to_string(),
        ),
        Shape::All => (
            "none",
            format!("no causal mask at all: {leak}"),
            "the mask is skipped on this path (weights returned, dropout, prefill with a cache?)".to_string(),
        ),
        Shape::Prefix { length, .. } => (
            "prefix",
            format!("the first {length} keys are visible to every query: {leak}"),
            "rows of this chunk see all keys of the chunk: the mask is skipped in prefill".to_string(),
        ),
        _ => (
            "cells",
            format!(
                "the cells with weight are not those of the causal mask: {leak}; {} visible cells have none; pattern: {pattern}",
                support.lost
            ),
            "another mask than the declared one was applied".to_string(),
        ),
    };
    let (measured, expected, unit) = match key {
        "alignment" => (
            visible_keys.first().copied().unwrap_or_default() as f64,
            expected_keys.first().copied().unwrap_or_default() as f64,
            "keys visible to query 0",
        ),
        "offset" => {
            let offset = match pattern.shape {
                Shape::Causal { placement } => placement.offset(evidence.queries, evidence.keys),
                _ => 0,
            };
            (offset as f64, evidence.offset as f64, "key at which query 0 stands")
        }
        "diagonal" => (0.0, evidence.queries.min(evidence.keys) as f64, "diagonal cells with weight"),
        _ => (support.leaked_weight, 0.0, "weight on the future"),
    };
    context
        .finding(Check::Causal, verdict, key, words)
        .with_numbers(measured, expected, unit)
        .with_cause(cause, "print which keys the first three queries see")
}

/// What is as it should be, and what cannot be told.
fn passes(context: &HeadContext<'_>) -> Vec<Finding> {
    let evidence = context.evidence;
    let mut findings = Vec::new();
    let square = evidence.queries == evidence.keys;
    let pattern = recognise(&evidence.visible);
    if evidence.declared.is_some() || matches!(pattern.shape, Shape::Causal { .. } | Shape::CausalPadding { .. }) {
        let alignment = if square { "; alignment cannot be told (n = m)".to_string() } else { format!(", {pattern}") };
        let words = format!("no key after the query's position has weight{alignment}");
        findings.push(context.finding(Check::Causal, Verdict::Pass, "right", words));
        if square && evidence.queries > 1 && context.contract.causal.as_ref().is_some_and(|causal| causal.is_declared())
        {
            let words = "alignment: top-left and bottom-right are the same at n = m (square)";
            findings.push(context.finding(Check::Causal, Verdict::CannotTell, "square", words));
        }
    }
    if let Some(window) = context.contract.window {
        findings.push(if evidence.keys <= window {
            let words = format!("{} keys fit into the window of {window}: no row is cut", evidence.keys);
            context.finding(Check::Window, Verdict::CannotTell, "no row cut", words)
        } else {
            let words = format!("full rows see {window} keys, the own one counted");
            context.finding(Check::Window, Verdict::Pass, "right", words).with_numbers(
                window as f64,
                window as f64,
                "keys per full row",
            )
        });
    }
    if context.head.padding.is_some() {
        findings.push(context.finding(Check::Padding, Verdict::Pass, "right", "padding keys have no weight"));
    }
    if context.head.mask.is_some() {
        let words = format!("hidden keys have no weight, visible ones have ({pattern})");
        findings.push(context.finding(Check::Mask, Verdict::Pass, &format!("right {pattern}"), words));
    }
    findings
}
