//! What a run shows, in words: what the mask hides, and the fault behind a rejected row.

use crate::attention::masked::{Apply, Fill, HiddenValues};
use crate::attention::{Mask, MaskKind, MaskRule, Precision};
use crate::report::number::significant;
use crate::report::{Row, Verdict};

/// A mask with its rule, where it follows one.
#[derive(Debug, Clone)]
pub struct NamedMask {
    /// The cells.
    pub mask: Mask,
    /// The rule that gives these cells.
    pub rule: Option<MaskRule>,
    /// The mask in words.
    pub name: String,
}

/// What was run at the parameter points with these numbers of queries and keys.
#[derive(Debug, Clone)]
pub struct MaskSetting {
    /// The mask that is applied.
    pub applied: NamedMask,
    /// The mask that should be.
    pub claimed: NamedMask,
    /// What stands for a hidden logit.
    pub fill: Fill,
    /// When keys are hidden.
    pub apply: Apply,
    /// What becomes of hidden keys in the product with V.
    pub hidden_values: HiddenValues,
    /// Arithmetic.
    pub precision: Precision,
}

impl MaskSetting {
    /// The mask as the rows name it: what is applied, what is claimed if that differs, and how it hides if not by −∞ before
    /// the softmax.
    pub fn name(&self) -> String {
        let mut name = self.applied.name.clone();
        if self.applied.mask != self.claimed.mask {
            name += &format!(" claimed {}", self.claimed.name);
        }
        if self.fill != Fill::Infinite && self.apply == Apply::Before {
            name += &format!(" fill {}", self.fill);
        }
        if self.apply == Apply::After {
            name += " after softmax";
        }
        let usual = HiddenValues::usual(self.fill, self.apply);
        if self.hidden_values != usual {
            name += if usual == HiddenValues::Select { " multiplied" } else { " selected" };
        }
        name
    }

    /// Whether both are about as many queries and keys.
    pub fn has_sizes_of(&self, other: &Self) -> bool {
        let sizes = |setting: &Self| (setting.applied.mask.queries(), setting.applied.mask.keys());
        sizes(self) == sizes(other)
    }
}

/// For each setting: what the mask hides; where a row is rejected, the fault that explains it.
pub fn remarks(rows: &[Row], settings: &[MaskSetting]) -> Vec<String> {
    let of_setting = |setting: &MaskSetting| {
        let (n, m) = (setting.claimed.mask.queries() as u64, setting.claimed.mask.keys() as u64);
        let own: Vec<&Row> = rows.iter().filter(|row| (row.n_queries, row.n_keys) == (Some(n), Some(m))).collect();
        let mut sentences = vec![description(&setting.claimed)];
        sentences.extend(difference(&setting.applied, &setting.claimed));
        if setting.claimed.mask.visible_share() == 1.0 {
            sentences.push("Nothing is hidden: there is nothing to hold hidden keys against.".to_string());
        } else {
            sentences.extend(after_the_softmax(setting, &own));
            sentences.extend(finite_fill(setting, &own));
            sentences.extend(multiplied_values(setting, &own));
        }
        sentences
    };
    settings.iter().flat_map(of_setting).collect()
}

/// What a mask shows and hides.
pub fn description(named: &NamedMask) -> String {
    let mask = &named.mask;
    let counts = mask.visible_keys();
    let (least, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let seen = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let blind = match mask.fully_masked_rows() {
        0 => "no query is without keys".to_string(),
        1 => format!("1 query sees no key ({})", first_blind(&counts)),
        blind => format!("{blind} queries see no key (the first: {})", first_blind(&counts)),
    };
    format!(
        "Mask {}: {} % of the {} × {} logits are visible, a query sees {seen} of {} keys, {blind}.",
        named.name,
        significant(100.0 * mask.visible_share(), 3),
        mask.queries(),
        mask.keys(),
        mask.keys(),
    )
}

fn first_blind(counts: &[usize]) -> String {
    counts.iter().position(|&count| count == 0).map_or(String::new(), |query| format!("query {query}"))
}

/// How the mask that is applied differs from the one that is claimed.
fn difference(applied: &NamedMask, claimed: &NamedMask) -> Option<String> {
    let (n, m) = (claimed.mask.queries(), claimed.mask.keys());
    let cells = || (0..n).flat_map(|query| (0..m).map(move |key| (query, key)));
    let shown =
        |&(query, key): &(usize, usize)| applied.mask.is_visible(query, key) && !claimed.mask.is_visible(query, key);
    let hidden =
        |&(query, key): &(usize, usize)| !applied.mask.is_visible(query, key) && claimed.mask.is_visible(query, key);
    let count = |differs: &dyn Fn(&(usize, usize)) -> bool, verb: &str| {
        let (first, count) = (cells().find(differs), cells().filter(differs).count());
        first.map(|(query, key)| format!("{verb} {count} (the first: query {query}, key {key})"))
    };
    // Usually the two are one, and n·m cells need not be gone through to see it.
    let parts: Vec<String> = match applied.mask == claimed.mask {
        true => Vec::new(),
        false => [count(&shown, "shows"), count(&hidden, "hides")].into_iter().flatten().collect(),
    };
    if parts.is_empty() {
        let alignments = (applied.rule.as_ref()?.alignment, claimed.rule.as_ref()?.alignment);
        let untold = alignments.0 != alignments.1 && applied.rule.as_ref()?.is_aligned();
        return untold.then(|| {
            "n = m: top-left and bottom-right are one mask here, so this run does not tell them apart.".to_string()
        });
    }
    let complement =
        cells().all(|(query, key)| applied.mask.is_visible(query, key) != claimed.mask.is_visible(query, key));
    let cause = match (&applied.rule, &claimed.rule) {
        _ if complement => Some(
            "One is the complement of the other: polarity reversed (true shows in one function and hides in another)."
                .to_string(),
        ),
        (Some(applied), Some(claimed)) => cause(applied, claimed, n, m),
        _ => None,
    };
    Some(format!(
        "The mask applied is {}, not {}: of the {} logits it {} that the claim does not.{}",
        applied.name,
        claimed.name,
        n * m,
        parts.join(" and "),
        cause.map_or(String::new(), |cause| format!(" {cause}"))
    ))
}

/// The likeliest slip that turns one rule into another.
fn cause(applied: &MaskRule, claimed: &MaskRule, n: usize, m: usize) -> Option<String> {
    if applied.kinds == claimed.kinds && applied.alignment != claimed.alignment {
        let far = n.abs_diff(m);
        return Some(format!(
            "Wrong alignment: {} where {} is claimed, so that every query stands {far} key{} off; with n = m the two agree, which \
             is why square tests do not see it.",
            applied.alignment,
            claimed.alignment,
            if far == 1 { "" } else { "s" }
        ));
    }
    let window = |rule: &MaskRule| match rule.kinds[..] {
        [MaskKind::Window { keys }] => Some(keys),
        _ => None,
    };
    match (window(applied), window(claimed)) {
        (Some(applied), Some(claimed)) if applied.abs_diff(claimed) == 1 => Some(format!(
            "Window off by one: {applied} keys with the query's own where {claimed} are claimed; \"W keys\" and \"W keys back\" are \
             easily confused."
        )),
        (Some(applied), Some(claimed)) => {
            Some(format!("The window holds {applied} keys with the query's own, not {claimed}."))
        }
        _ => None,
    }
}

fn after_the_softmax(setting: &MaskSetting, rows: &[&Row]) -> Option<String> {
    if setting.apply != Apply::After {
        return None;
    }
    let worst = largest(rows, "row_sum_error")?;
    Some(format!(
        "Hidden weights are set to 0 after the softmax: hidden keys keep their share of the denominator, rows sum to as little \
         as {}, and the output moves with hidden keys. Hide the logits before the softmax, or divide each row by its sum.",
        significant(1.0 - worst, 3)
    ))
}

/// What a finite fill lets through.
fn finite_fill(setting: &MaskSetting, rows: &[&Row]) -> Vec<String> {
    let (Fill::Number(_) | Fill::Smallest) = setting.fill else { return Vec::new() };
    if setting.apply == Apply::After {
        return Vec::new();
    }
    let (fill, precision) = (setting.fill, setting.precision);
    let value = fill.value(precision);
    if value == f64::NEG_INFINITY {
        return vec![format!(
            "Fill {fill} does not fit {precision} and becomes −∞: no weight leaks, but code that makes its mask as 0·fill turns it \
             into NaN."
        )];
    }
    let number =
        if matches!(fill, Fill::Smallest) { format!("{fill} ({value:e} in {precision})") } else { fill.to_string() };
    let mut sentences = Vec::new();
    let blind = setting.claimed.mask.fully_masked_rows();
    let weight = largest(rows, "masked_weight_max").unwrap_or(0.0);
    if blind > 0 && weight > 0.0 {
        sentences.push(format!(
            "Fill {number}: {} no key, so all its logits are the same fill and the hidden keys share the row: \
             weights of {} where there should be none. With -inf such a row is zero and counted.",
            if blind == 1 { "one query sees".to_string() } else { format!("each of {blind} queries sees") },
            significant(weight, 3)
        ));
    } else if weight > 0.0 && value > 1.0 {
        sentences.push(format!(
            "Fill {number} is positive: hidden keys stand above the visible ones and take up to {} of a row. A lost minus sign?",
            significant(weight, 3)
        ));
    } else if weight > 0.0 && value >= -1.0 {
        sentences.push(format!(
            "Fill {number}: hidden logits stand at {number} like any other, as if scores had been multiplied by a 0/1 mask: hidden \
             keys take up to {} of a row.",
            significant(weight, 3)
        ));
    } else if weight > 0.0 {
        sentences.push(format!(
            "Fill {number} leaks: a hidden key has weight exp(fill − ln Σ exp(logits)), here up to {}; the smallest distance from a \
             row's largest logit is {}.",
            significant(weight, 3),
            margin(rows).map_or("not measured".to_string(), |margin| significant(margin, 4)),
        ));
    } else {
        let far = margin(rows).map_or(String::new(), |margin| {
            format!(
                ": it is at least {} below the largest logit of its row, and e to that is 0 in {precision}",
                significant(margin, 4)
            )
        });
        sentences.push(format!("Fill {number} leaks no weight{far}."));
    }
    sentences
}

/// What multiplying hidden values lets through.
fn multiplied_values(setting: &MaskSetting, rows: &[&Row]) -> Option<String> {
    let rejected = rows.iter().any(|row| row.statistic == "leak_nonfinite" && row.verdict == Verdict::Rejected);
    (rejected && setting.hidden_values == HiddenValues::Multiply && setting.apply == Apply::Before).then(|| {
        "Hidden values are multiplied by their weight, and 0·NaN is NaN: a NaN or ∞ in a hidden key's value (uninitialised padding, a \
         stale cache slot) reaches the output (leak_nonfinite). Select hidden values away (--hidden-values select shows the difference)."
            .to_string()
    })
}

/// The largest estimate of a statistic.
fn largest(rows: &[&Row], statistic: &str) -> Option<f64> {
    rows.iter().filter(|row| row.statistic == statistic).filter_map(|row| row.estimate).reduce(f64::max)
}

fn margin(rows: &[&Row]) -> Option<f64> {
    rows.iter().filter(|row| row.statistic == "fill_margin").filter_map(|row| row.estimate).reduce(f64::min)
}
