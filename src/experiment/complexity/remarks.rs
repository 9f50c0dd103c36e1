//! The law and what was seen of it, in sentences.

use anyhow::Result;

use super::plan::{Decode, Extent, Kernel, Plan, Point, Variable};
use crate::report::CostRow;
use crate::report::number::{significant, trimmed, with_interval};
use crate::theory::cost::cells;

/// What all rows share, in one line.
pub(super) fn heading(plan: &Plan) -> String {
    let threads = if plan.threads == 1 { "1 thread".to_string() } else { format!("{} threads", plan.threads) };
    let keys = plan.keys.map(|keys| format!(" · m = {keys}")).unwrap_or_default();
    let mask = plan.rule.as_ref().map(|rule| format!(" · mask {}", rule.name(1, plan.keys.unwrap_or(1))));
    format!("one head · {} · {threads} · seed {}{keys}{}", plan.precision, plan.seed, mask.unwrap_or_default())
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
    let order = if plan.keys.is_some() { "O(n·m·d_k)" } else { "O(n²·d_k)" };
    format!(
        "The law: {cells} QKᵀ takes 2·d_k operations, scale and softmax 6, PV 2·d_v; in all {order} for d_v = d_k (one multiply and one \
         add are two operations)."
    )
}

/// Which exponents lie inside, and which do not.
fn seen(plan: &Plan, rows: &[CostRow]) -> String {
    let name = |row: &CostRow| match (row.stage.as_str(), row.kernel.as_deref()) {
        ("total", Some(kernel)) => format!("{kernel} total"),
        (stage, _) => stage.to_string(),
    };
    let text = |row: &CostRow| {
        let exponent = row
            .exponent
            .map_or_else(String::new, |exponent| with_interval(exponent, row.exponent_low, row.exponent_high));
        let expected = row.exponent_expected.map_or_else(String::new, |expected| trimmed(&significant(expected, 3)));
        format!("{} ~ {}^({exponent}), expected {expected}", name(row), row.exponent_of.as_deref().unwrap_or(""))
    };
    let those = |inside: Option<bool>| -> Vec<String> {
        rows.iter()
            .filter(|row| row.exponent_of.is_some() && row.expected_inside == inside)
            .map(|row| if inside.is_none() { name(row) } else { text(row) })
            .collect()
    };
    let (inside, outside, open) = (those(Some(true)), those(Some(false)), those(None));
    let mut parts = Vec::new();
    if !inside.is_empty() {
        parts.push(format!("Seen in the times: {}.", inside.join("; ")));
    }
    if !outside.is_empty() {
        parts.push(format!(
            "Not seen: {}. Time per operation differs between stages and sizes (an exponential costs more than an addition, short rows \
             less per call than long ones, a full cache more than an empty one), so a count can be right where a time is not.",
            outside.join("; ")
        ));
    }
    if !open.is_empty() {
        let advice = if plan.budget < 10.0 {
            "a longer --time-budget or more and larger sizes"
        } else {
            "more and larger sizes"
        };
        let mut names = open;
        names.dedup();
        parts.push(format!(
            "Not judged, fewer than three sizes in which work dominates overhead: {}; give {advice}.",
            names.join(", ")
        ));
    }
    if parts.is_empty() {
        "No sweep, so no exponent: give two or more sizes to -n or --dk.".to_string()
    } else {
        parts.join(" ")
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
        of(Kernel::Streaming).map(|row| text(row, "(n + m)·(d_k + d_v) numbers")),
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
