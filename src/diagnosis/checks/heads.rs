//! Heads in order, grouped keys shared right, heads joined right; softmax over batch or heads.

use crate::diagnosis::audit::Source;
use crate::diagnosis::contract::{Contract, GroupOrder};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::finding::{Check, Finding, Place, Verdict, significant};
use crate::diagnosis::matrix::{Head, Matrix};
use crate::diagnosis::model::Model;
use crate::diagnosis::product::PackedValues;

use super::output::{Against, compare_output};

/// Shown by `--explain heads`.
pub const EXPLANATION: &str = "\
Do weights and output of head h belong to Q and K of head h?
Formula: for a head whose weights (or output) nothing else explains, the definition is computed with the queries and keys of every other head; with \
grouped keys also with the other sharing (head h uses key head h/(H/H_kv), repeat, or h mod H_kv, tile). The output is read again as if \
(heads, tokens) had been reshaped to (tokens, heads), or the other way, without changing places, and held against P·V of every other head.
Verdict: FAIL with the head that fits; WARN if only the sharing was not declared; FAIL if K and V are shared in different orders.
CANNOT TELL: one head.
Blind spots: one token; equal heads; a permutation inside a head, which Q and K share (no fault) or only K has (another K); \
outputs of other heads where weights of all heads are more than 2^25.";

/// Rows on which a head is compared with others.
const ROWS: usize = 32;

/// Weights of all heads up to which an output is held against every other head's: each is read once for each wrong head.
const MOST_CELLS_OF_OTHERS: usize = 1 << 25;

/// How an output was reshaped where axes should have changed places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reshape {
    /// (heads, n) was reshaped to (n, heads).
    HeadsToTokens,
    /// (n, heads) was reshaped to (heads, n).
    TokensToHeads,
}

/// Sums of the weights over batch entries and over heads, on the first cells.
#[derive(Debug, Clone)]
pub struct AxisSums {
    /// Largest |Σ over batch − 1|.
    pub batch: f64,
    /// Largest |Σ over heads − 1|.
    pub heads: f64,
    /// The row sum farthest from 1.
    pub row: f64,
}

/// A softmax over the batch or the heads, from sums over all heads.
pub fn axis_findings(sums: &AxisSums, batches: usize, heads: usize, storage_roundoff: f64) -> Vec<Finding> {
    let axes = [("batch", sums.batch, batches), ("head", sums.heads, heads)];
    let bound = |count: usize| 4.0 * (storage_roundoff + 1e-7) * (1.0 + count as f64).sqrt() + 1e-6;
    for (name, distance, count) in axes {
        // Over an axis of one the sums are the weights themselves: all of them 1, and rows sum to their number of keys.
        let trivial = count == 1 && (name == "head" || sums.row < 1.5);
        if distance <= bound(count) && (sums.row - 1.0).abs() > bound(count) && !trivial {
            let words = format!(
                "sums along the {name} axis are 1, along the keys {}: softmax over the {name} axis",
                significant(sums.row, 4)
            );
            let mut finding = Finding::new(Check::Normalisation, Verdict::Fail, format!("over {name}"), words)
                .with_numbers(sums.row, 1.0, "sum of a row")
                .with_cause(
                    "softmax with dim = 0 or 1 (or none given) on a tensor with leading axes",
                    "sum the weights along each axis",
                );
            finding.place = Place::Everywhere;
            return vec![finding];
        }
    }
    Vec::new()
}

/// For heads that nothing else explains: whether other queries, keys or values do.
///
/// # Errors
/// Those of the source.
pub fn order_findings(
    source: &dyn Source,
    contract: &Contract,
    model_of: &dyn Fn(&Head) -> Model,
    unexplained: &[(usize, usize)],
    wrong_output: &[(usize, usize)],
) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for &(batch, head) in unexplained {
        findings.extend(weights_of_another(source, contract, model_of, (batch, head))?);
    }
    for &(batch, head) in wrong_output {
        findings.extend(joined_wrongly(source, contract, model_of, (batch, head))?);
    }
    Ok(findings)
}

/// The key head that query head `head` uses.
pub fn key_head(head: usize, heads: usize, key_heads: usize, order: GroupOrder) -> usize {
    match order {
        GroupOrder::Repeat => head * key_heads / heads,
        GroupOrder::Tile => head % key_heads,
    }
}

/// Weights (or output) that use key head `used` by the other sharing instead of `expected`.
pub fn shared_otherwise(what: &str, head: usize, (used, expected): (usize, usize), contract: &Contract) -> Finding {
    let name = contract.groups.value().other();
    Finding::new(
        Check::Heads,
        super::against(contract.groups.is_declared()),
        format!("groups {name}"),
        format!(
            "the {what} of head {head} {} key head {used} (sharing by {name}), declared is head {expected}",
            if what == "output" { "uses" } else { "use" }
        ),
    )
    .with_cause(
        format!(
            "keys are repeated in the other order (repeat_interleave or tile); if it is meant, pass --kv-groups {name}"
        ),
        "look at which query heads share a key head",
    )
    .with_numbers(used as f64, expected as f64, "head")
}

fn weights_of_another(
    source: &dyn Source,
    contract: &Contract,
    model_of: &dyn Fn(&Head) -> Model,
    (batch, head): (usize, usize),
) -> Result<Option<Finding>, String> {
    let sizes = source.sizes();
    let own = source.head(batch, head)?;
    let by_output = own.weights.is_none();
    let declared = *contract.groups.value();
    // The other sharing first: it explains all heads at once.
    let tiled = key_head(head, sizes.heads, sizes.key_heads, declared.other());
    let mut trials: Vec<(usize, usize)> = vec![(head, tiled)];
    trials.extend((0..sizes.heads).map(|other| (other, key_head(other, sizes.heads, sizes.key_heads, declared))));
    trials.extend((0..sizes.key_heads).map(|key| (head, key)));
    let mut trial = own;
    for (query_head, key) in trials {
        if (query_head, key) == (head, key_head(head, sizes.heads, sizes.key_heads, declared)) {
            continue;
        }
        trial.queries = source.queries(batch, query_head)?;
        (trial.keys, trial.values) = (source.keys(batch, key)?, source.values(batch, key)?);
        let evidence = Evidence::new(&trial, contract, ROWS * trial.keys.rows);
        let model = model_of(&trial);
        let fits = match (by_output, &trial.values, &trial.output) {
            (true, Some(values), Some(output)) => {
                let values = PackedValues::new(values);
                compare_output(&evidence, Against::Model(&model), &values, output, evidence.sample(), &|_| {}).fits()
            }
            (true, ..) => false,
            (false, ..) => evidence.try_model(&model).fits(),
        };
        if !fits {
            continue;
        }
        let what = if by_output { "output" } else { "weights" };
        let finding = if query_head == head && key == tiled && sizes.key_heads < sizes.heads {
            let expected = key_head(head, sizes.heads, sizes.key_heads, declared);
            let finding = shared_otherwise(what, head, (key, expected), contract);
            match values_are_shared_otherwise_too(&trial, &evidence) {
                true => finding,
                false => split_sharing(finding, head, key, expected),
            }
        } else {
            Finding::new(
                Check::Heads,
                Verdict::Fail,
                "permuted",
                format!(
                    "the {what} of head {head} {} of Q of head {query_head} and K of head {key}",
                    if by_output { "is that" } else { "are those" }
                ),
            )
            .with_cause(
                "heads are in another order (a reshape without changing axes, or a permuted projection)",
                "compare head by head",
            )
            .with_numbers(if query_head == head { key } else { query_head } as f64, head as f64, "head")
        };
        return Ok(Some(finding.in_head(batch, head)));
    }
    Ok(None)
}

/// Whether the output of a head with weights in the file is that of the trial's values, or there is none to tell.
fn values_are_shared_otherwise_too(trial: &Head, evidence: &Evidence<'_>) -> bool {
    let (Some(_), Some(values), Some(output)) = (&trial.weights, &trial.values, &trial.output) else { return true };
    let values = PackedValues::new(values);
    compare_output(evidence, Against::Weights, &values, output, evidence.sample(), &|_| {}).fits()
}

/// K is shared in another order than V, which nobody means.
fn split_sharing(finding: Finding, head: usize, used: usize, expected: usize) -> Finding {
    let words = format!(
        "the weights of head {head} use K of head {used}, its output V of another: K and V are not shared alike (expected head {expected} for both)"
    );
    Finding { verdict: Verdict::Fail, key: "split groups".to_string(), explanation: words, ..finding }.with_cause(
        "keys are tiled where values are repeated (repeat_interleave on one of them only)",
        "repeat K and V in one function",
    )
}

/// Whether O is P·V reshaped without changing axes, or uses the values of another head.
fn joined_wrongly(
    source: &dyn Source,
    contract: &Contract,
    model_of: &dyn Fn(&Head) -> Model,
    (batch, head): (usize, usize),
) -> Result<Option<Finding>, String> {
    let sizes = source.sizes();
    let own = source.head(batch, head)?;
    let evidence = Evidence::new(&own, contract, ROWS * own.keys.rows);
    let model = model_of(&own);
    let against = if own.weights.is_some() { Against::Weights } else { Against::Model(&model) };
    let fits = |values: &Matrix, output: &Matrix| gives(&evidence, against, values, output);
    let (Some(values), Some(output)) = (&own.values, &own.output) else { return Ok(None) };
    if sizes.heads > 1 && evidence.queries > 1 {
        for order in [Reshape::HeadsToTokens, Reshape::TokensToHeads] {
            if let Some(reshaped) = source.output_reshaped(batch, head, order)?
                && fits(values, &reshaped)
            {
                return Ok(Some(reshaped_finding(order).in_head(batch, head)));
            }
        }
    }
    for key in 0..sizes.key_heads {
        let Some(other) = source.values(batch, key)? else { continue };
        if key != key_head(head, sizes.heads, sizes.key_heads, *contract.groups.value()) && fits(&other, output) {
            let words = format!("O of head {head} is its P times V of head {key}");
            return Ok(Some(
                Finding::new(Check::Heads, Verdict::Fail, "values", words)
                    .with_numbers(key as f64, head as f64, "head")
                    .with_cause("values are shared or ordered in another way than keys", "compare head by head")
                    .in_head(batch, head),
            ));
        }
    }
    output_of_another(source, contract, &own, output)
}

/// Whether weights times `values` are `output`, on a few rows and then on all.
fn gives(evidence: &Evidence<'_>, against: Against<'_>, values: &Matrix, output: &Matrix) -> bool {
    let values = PackedValues::new(values);
    let on = |rows: &[usize]| compare_output(evidence, against, &values, output, rows, &|_| {}).fits();
    on(evidence.sample()) && on(&evidence.every_row())
}

fn reshaped_finding(order: Reshape) -> Finding {
    let (words, cause, confirm) = match order {
        Reshape::HeadsToTokens => (
            "O equals P·V reshaped without transpose (exact): heads and tokens are mixed; expected heads side by side",
            "(batch, heads, n, d) viewed as (batch, n, heads*d) without swapping axes 1 and 2 first",
            "out.transpose(1, 2).reshape(b, n, heads * d)",
        ),
        Reshape::TokensToHeads => (
            "O is P·V in the order (batch, n, heads, d), reshaped to (batch, heads, n, d) without transpose (exact)",
            "reshape where transpose(1, 2) was meant; or the file's O alone is in that order, and its shape is written wrong",
            "out.transpose(1, 2) instead of out.reshape(b, heads, n, d)",
        ),
    };
    Finding::new(Check::Heads, Verdict::Fail, "merge", words)
        .with_numbers(1.0, 0.0, "reshaped")
        .with_cause(cause, confirm)
}

/// Whether the output of a head is that of another head's weights and values.
fn output_of_another(
    source: &dyn Source,
    contract: &Contract,
    own: &Head,
    output: &Matrix,
) -> Result<Option<Finding>, String> {
    let sizes = source.sizes();
    if own.weights.is_none() || sizes.heads * sizes.queries * sizes.keys > MOST_CELLS_OF_OTHERS {
        return Ok(None);
    }
    for other in (0..sizes.heads).filter(|&other| other != own.head) {
        let head = source.head(own.batch, other)?;
        let Some(values) = &head.values else { return Ok(None) };
        let evidence = Evidence::new(&head, contract, ROWS * head.keys.rows);
        if gives(&evidence, Against::Weights, values, output) {
            let words = format!("O of head {} is P times V of head {other}", own.head);
            return Ok(Some(
                Finding::new(Check::Heads, Verdict::Fail, "output of another", words)
                    .with_numbers(other as f64, own.head as f64, "head")
                    .with_cause(
                        "the heads of the output are in another order than those of the weights",
                        "compare head by head",
                    )
                    .in_head(own.batch, own.head),
            ));
        }
    }
    Ok(None)
}
