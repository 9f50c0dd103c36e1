//! The law and what was seen of it, in sentences.

use anyhow::Result;

use super::clock::Clock;
use super::growth::WIDEST;
use super::plan::{Decode, Extent, Kernel, Plan, Point, Variable};
use crate::report::CostRow;
use crate::report::number::{significant, trimmed};
use crate::theory::cost::cells;

/// What all rows share, in one line.
pub(super) fn heading(plan: &Plan, clock: Clock) -> String {
    let threads = if plan.threads == 1 { "1 thread".to_string() } else { format!("{} threads", plan.threads) };
    let keys = plan.keys.map(|keys| format!(" · m = {keys}")).unwrap_or_default();
    let mask = plan.rule.as_ref().map(|rule| format!(" · mask {}", rule.name(1, plan.keys.unwrap_or(1))));
    let clock = match clock {
        Clock::Thread => "processor time of the thread",
        Clock::Wall => "wall-clock time",
    };
    format!("one head · {} · {threads}, {clock} · seed {}{keys}{}", plan.precision, plan.seed, mask.unwrap_or_default())
}

/// Sentences below the tables.
///
/// # Errors
/// Counts that do not fit.
pub(super) fn remarks(plan: &Plan, rows: &[CostRow]) -> Result<Vec<String>> {
    let mut remarks = vec![law(plan), seen(plan, rows)];
    remarks.extend(memory(rows));
    remarks.extend(hidden_work(plan));
    if plan.extent == Extent::Layer {
        remarks.push(crossing(plan)?);
    }
    if plan.decode == Decode::Cache {
        remarks.extend(cache(rows));
    }
    Ok(remarks)
}

fn law(plan: &Plan) -> String {
    let keys = if plan.keys.is_some() { "m" } else { "n" };
    let cells = match plan.rule {
        Some(_) => "for each cell that the mask shows".to_string(),
        None => format!("for each of the n·{keys} cells"),
    };
    let order = match (&plan.rule, plan.keys) {
        (Some(_), _) => "O(d_k) a cell",
        (None, Some(_)) => "O(n·m·d_k)",
        (None, None) => "O(n²·d_k)",
    };
    format!(
        "The law: {cells} QKᵀ takes 2·d_k operations, scale and softmax 6, PV 2·d_v; in all {order} for d_v = d_k (one multiply and one \
         add are two operations)."
    )
}

/// Which exponents lie inside their limits, and which do not.
fn seen(plan: &Plan, rows: &[CostRow]) -> String {
    let those = |inside: Option<bool>| {
        let with = |of: &str| {
            let fitted = |row: &&CostRow| row.exponent_of.as_deref() == Some(of) && row.expected_inside == inside;
            let names: Vec<String> = rows.iter().filter(fitted).map(|row| described(row, inside)).collect();
            (!names.is_empty()).then(|| format!("with {of}: {}", names.join(", ")))
        };
        let parts: Vec<String> = ["n", "d_k"].into_iter().filter_map(with).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    };
    let mut parts = Vec::new();
    if let Some(inside) = those(Some(true)) {
        parts.push(format!(
            "Seen in the times (the counts' exponent is inside the 95 % limits of the time's) {inside}."
        ));
    }
    if let Some(outside) = those(Some(false)) {
        parts.push(format!(
            "Not seen {outside}. Counts can be right where times are not: reading and writing the n·m logits takes as long \
             whatever d_k is, an exponential longer than an addition, memory longer than a cache."
        ));
    }
    if let Some(open) = those(None) {
        let advice = match plan.threads {
            1 => "more or larger sizes, a longer --time-budget or a quieter machine may tell",
            _ => "more or larger sizes, a longer --time-budget or --threads 1 may tell",
        };
        parts.push(format!("Not judged (limits beyond ± {WIDEST}, or fewer than three sizes in which work dominates overhead) {open}; {advice}."));
    }
    if parts.is_empty() {
        "No sweep, so no exponent: give two or more sizes to -n or --dk.".to_string()
    } else {
        parts.join(" ")
    }
}

/// A stage in a sentence; with its exponents where they differ.
fn described(row: &CostRow, inside: Option<bool>) -> String {
    let name = match (row.stage.as_str(), row.kernel.as_deref()) {
        ("total", Some(kernel)) => format!("{kernel} total"),
        (stage, _) => stage.to_string(),
    };
    let text = |value: f64| trimmed(&significant(value, 3));
    match (inside, row.exponent, row.exponent_expected) {
        (Some(false), Some(exponent), Some(expected)) => {
            format!("{name} ({} for {})", text(exponent), text(expected))
        }
        _ => name,
    }
}

/// Peak memory at the largest size.
fn memory(rows: &[CostRow]) -> Option<String> {
    let of = |kernel: Kernel| {
        rows.iter()
            .filter(|row| row.kernel.as_deref() == Some(kernel.name()) && row.bytes.is_some())
            .max_by_key(|row| (row.n, row.d_k))
    };
    let text = |row: &CostRow, law: &str| {
        let bytes = |value: Option<u64>| crate::report::cost::bytes_text(value.unwrap_or(0));
        format!("{} {} ({law}: {})", row.kernel.as_deref().unwrap_or(""), bytes(row.bytes), bytes(row.bytes_law))
    };
    let parts: Vec<String> = [
        of(Kernel::Materialised).map(|row| text(row, "n·m numbers")),
        of(Kernel::Streaming).map(|row| text(row, "m·(d_k + d_v) + n·d_v numbers")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let largest = of(Kernel::Materialised).or(of(Kernel::Streaming))?;
    Some(format!(
        "Peak memory beside Q, K and V at n = {}, counted by the allocator: {}.",
        largest.n?,
        parts.join(", ")
    ))
}

/// The materialised kernel computes what a mask hides.
fn hidden_work(plan: &Plan) -> Option<String> {
    let rule = plan.rule.as_ref().filter(|_| plan.kernels.contains(&Kernel::Materialised))?;
    let point = plan.sweep(Variable::Length).last().copied()?;
    let Point { n, m, .. } = point;
    let visible = super::counts::visible_cells(Some(&rule.at(n, m).ok()?), point);
    let share = visible as f64 / (n as f64 * m as f64);
    Some(format!(
        "The mask shows {} % of the cells at n = {n}; the materialised kernel computes all of them, the streaming one passes over blocks in \
         which a query sees nothing. Operations are those that the mask asks for.",
        trimmed(&significant(100.0 * share, 3))
    ))
}

fn crossing(plan: &Plan) -> Result<String> {
    let point = plan.sweep(Variable::Length).last().copied().unwrap_or(Point { n: 1, m: 1, d_k: 1, d_v: 1 });
    let layer = plan.layer.at(point);
    let visible = |tokens: u128| -> crate::theory::cost::Count {
        let square = Point { n: tokens as usize, m: tokens as usize, ..point };
        super::counts::closed_form(plan.rule.as_ref(), square).unwrap_or_else(|| cells::full(tokens, tokens))
    };
    let sizes = format!("d_model = {}, {} heads, d_ff = {}", layer.d_model, layer.heads, layer.d_ff);
    let grows = plan.rule.as_ref().is_none_or(|rule| {
        let [kind] = rule.kinds.as_slice() else { return false };
        matches!(kind, crate::attention::MaskKind::Causal | crate::attention::MaskKind::Window { .. })
    });
    if !grows {
        return Ok(format!(
            "With this mask the lengths at which attention overtakes the rest of the layer depend on more than N ({sizes})."
        ));
    }
    Ok(match layer.crossing(visible)? {
        Some(tokens) => format!(
            "By the counts, attention (N²D) overtakes projections and MLP (ND²) at N* = {tokens} tokens, {} times d_model ({sizes}); the fully \
             connected layer takes 2·N²·D².",
            trimmed(&significant(tokens as f64 / layer.d_model as f64, 3))
        ),
        None => format!("By the counts, attention never overtakes projections and MLP with this mask ({sizes})."),
    })
}

/// What a cache saves at the longest sequence.
fn cache(rows: &[CostRow]) -> Option<String> {
    let longest =
        |stage: &str| rows.iter().filter(|row| row.stage == stage && row.seconds.is_some()).max_by_key(|row| row.m);
    let (cached, recomputed) = (longest("cached_token")?, longest("recomputed_token")?);
    let ratio = |part: fn(&CostRow) -> Option<f64>| -> Option<String> {
        Some(trimmed(&significant(part(recomputed)? / part(cached)?, 3)))
    };
    Some(format!(
        "A token at position {} takes {} times the operations without a KV cache, O(n²·d), that it takes with one, O(n·d); measured: {} times \
         the time. All cached tokens of a sequence together cost what one causal pass costs.",
        cached.m?,
        ratio(|row| row.operations.map(|operations| operations as f64))?,
        ratio(|row| row.seconds)?
    ))
}
