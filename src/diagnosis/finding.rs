//! What an audit says: one finding per check and place, one cause per finding.

use std::fmt;

use super::arrays::Role;

/// What is checked. In the order in which findings of the same verdict are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// NaN and infinities.
    Finite,
    /// Rows of the weights sum to 1, over the keys.
    Normalisation,
    /// The factor on QKᵀ.
    Scale,
    /// Hidden keys have no weight.
    Mask,
    /// No key after the query's position has weight.
    Causal,
    /// Padding keys have no weight.
    Padding,
    /// The window holds as many keys as it should.
    Window,
    /// The additive bias is applied as given.
    Bias,
    /// C·tanh(logit/C), after the scale and before the mask.
    Softcap,
    /// The extra logit in the denominator.
    Sink,
    /// Linear in distance, with the published slopes.
    Alibi,
    /// Weights dropped and the rest scaled up.
    Dropout,
    /// Heads in order, grouped keys shared right, heads joined right.
    Heads,
    /// The rotation between `q_pre` and `q`.
    Rotary,
    /// The table of sines and cosines.
    Sinusoidal,
    /// Errors as large as the arithmetic explains.
    Precision,
    /// ln Σ exp(logit).
    Lse,
    /// O = PV.
    Output,
    /// How far the softmax is from i.i.d. entries.
    Saturation,
    /// How far Q and K are from i.i.d. entries; never a fault.
    Assumptions,
    /// Logits over a series of dumps.
    Growth,
    /// Decode steps stand at the positions of the full pass, in a comparison of two dumps.
    Cache,
    /// An array is the reference's, in a comparison of two dumps.
    Agreement(Role),
}

impl Check {
    /// Every check; [`Check::Agreement`] once, for all roles.
    pub const ALL: [Self; 23] = [
        Self::Finite,
        Self::Normalisation,
        Self::Scale,
        Self::Mask,
        Self::Causal,
        Self::Padding,
        Self::Window,
        Self::Bias,
        Self::Softcap,
        Self::Sink,
        Self::Alibi,
        Self::Dropout,
        Self::Heads,
        Self::Rotary,
        Self::Sinusoidal,
        Self::Precision,
        Self::Lse,
        Self::Output,
        Self::Saturation,
        Self::Assumptions,
        Self::Growth,
        Self::Cache,
        Self::Agreement(Role::Queries),
    ];

    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finite => "finite",
            Self::Normalisation => "normalisation",
            Self::Scale => "scale",
            Self::Mask => "mask",
            Self::Causal => "causal",
            Self::Padding => "padding",
            Self::Window => "window",
            Self::Bias => "bias",
            Self::Softcap => "softcap",
            Self::Sink => "sink",
            Self::Alibi => "alibi",
            Self::Dropout => "dropout",
            Self::Heads => "heads",
            Self::Rotary => "rotary",
            Self::Sinusoidal => "sinusoidal",
            Self::Precision => "precision",
            Self::Lse => "lse",
            Self::Output => "output",
            Self::Saturation => "saturation",
            Self::Assumptions => "assumptions",
            Self::Growth => "growth",
            Self::Cache => "cache",
            Self::Agreement(role) => match role {
                Role::Queries => "agreement_q",
                Role::Keys => "agreement_k",
                Role::Values => "agreement_v",
                Role::Weights => "agreement_weights",
                Role::Output => "agreement_output",
                Role::Logits => "agreement_logits",
                Role::Mask => "agreement_mask",
                Role::Padding => "agreement_padding",
                Role::Bias => "agreement_bias",
                Role::LogSumExp => "agreement_lse",
                Role::QueriesBeforeRotation => "agreement_q_pre",
                Role::KeysBeforeRotation => "agreement_k_pre",
                Role::PositionTable => "agreement_pe",
            },
        }
    }
}

impl Check {
    /// The word by which its explanation is known: one holds for the agreement of every array.
    pub fn explained_as(self) -> &'static str {
        match self {
            Self::Agreement(_) => "agreement",
            check => check.name(),
        }
    }

    /// The check whose explanation is known by this word, or by its name in results.
    pub fn explained(name: &str) -> Option<Self> {
        let word = if name.starts_with("agreement_") { "agreement" } else { name };
        Self::ALL.into_iter().find(|check| check.explained_as() == word)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// What a check came to, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Contradicts the contract.
    Fail,
    /// Legal, but suspicious or not declared.
    Warn,
    /// The file does not hold the information, or sits in a blind spot.
    CannotTell,
    /// As the contract says.
    Pass,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Fail => "FAIL",
            Self::Warn => "WARN",
            Self::CannotTell => "CANNOT TELL",
            Self::Pass => "PASS",
        })
    }
}

/// Where in the tensors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The file or group as a whole.
    Everywhere,
    /// Heads, each a (batch, head), sorted.
    Heads(Vec<(usize, usize)>),
}

impl Place {
    /// In words, given how many batch entries and heads there are.
    pub fn words(&self, batches: usize, heads: usize) -> String {
        let Self::Heads(places) = self else { return "everywhere".to_string() };
        if places.len() == batches * heads {
            return if places.len() == 1 { "the only head".to_string() } else { "all heads".to_string() };
        }
        let batch_numbers: Vec<usize> = distinct(places.iter().map(|place| place.0));
        let head_numbers: Vec<usize> = distinct(places.iter().map(|place| place.1));
        let is_product = places.len() == batch_numbers.len() * head_numbers.len();
        let batch_words = format!("batch {}", ranges(&batch_numbers));
        let head_words = format!("head{} {}", if head_numbers.len() == 1 { "" } else { "s" }, ranges(&head_numbers));
        if is_product && head_numbers.len() == heads {
            return if heads == 1 { batch_words } else { format!("{batch_words}, all heads") };
        }
        if is_product && batch_numbers.len() == batches {
            return if batches == 1 { head_words } else { format!("{head_words} of every batch entry") };
        }
        if is_product {
            return format!("{batch_words}, {head_words}");
        }
        let per_batch = batch_numbers.iter().map(|&batch| {
            let heads: Vec<usize> = places.iter().filter(|place| place.0 == batch).map(|place| place.1).collect();
            format!("batch {batch}, heads {}", ranges(&heads))
        });
        per_batch.collect::<Vec<_>>().join("; ")
    }
}

fn distinct(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// `0, 2–5, 9`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// One thing an audit has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// Its verdict.
    pub verdict: Verdict,
    /// Heads it holds for.
    pub place: Place,
    /// The first cell it shows in: row, and key where there is one.
    pub cell: Option<(usize, Option<usize>)>,
    /// The number that shows it; of several heads the one farthest from `expected`.
    pub measured: Option<f64>,
    /// Standard error of `measured`, where it is an estimate.
    pub standard_error: Option<f64>,
    /// What it should be.
    pub expected: Option<f64>,
    /// Unit of both: `factor`, `weight`, `nats`, `keys`, …
    pub unit: &'static str,
    /// What is wrong, with numbers, and what it means.
    pub explanation: String,
    /// The likeliest cause in the user's code, or the option that makes it legal.
    pub cause: String,
    /// What would confirm it.
    pub would_confirm: String,
    /// Key of the cause: findings of one check and one key are joined over heads.
    pub key: String,
    /// What the same cause explains.
    pub symptoms: Vec<String>,
}

impl Finding {
    /// A finding with a sentence and nothing else.
    pub fn new(check: Check, verdict: Verdict, key: impl Into<String>, explanation: impl Into<String>) -> Self {
        Self {
            check,
            verdict,
            place: Place::Everywhere,
            cell: None,
            measured: None,
            standard_error: None,
            expected: None,
            unit: "",
            explanation: explanation.into(),
            cause: String::new(),
            would_confirm: String::new(),
            key: key.into(),
            symptoms: Vec::new(),
        }
    }

    /// With the number that shows it and what it should be.
    pub fn with_numbers(mut self, measured: f64, expected: f64, unit: &'static str) -> Self {
        (self.measured, self.expected, self.unit) = (Some(measured), Some(expected), unit);
        self
    }

    /// With the likeliest cause and what would confirm it.
    pub fn with_cause(mut self, cause: impl Into<String>, would_confirm: impl Into<String>) -> Self {
        (self.cause, self.would_confirm) = (cause.into(), would_confirm.into());
        self
    }

    /// In one head.
    pub fn in_head(mut self, batch: usize, head: usize) -> Self {
        self.place = Place::Heads(vec![(batch, head)]);
        self
    }

    /// How far `measured` is from `expected`; NaN counts as farthest.
    fn distance(&self) -> f64 {
        match (self.measured, self.expected) {
            (Some(measured), Some(expected)) if (measured - expected).is_nan() => f64::INFINITY,
            (Some(measured), Some(expected)) => (measured - expected).abs(),
            _ => 0.0,
        }
    }
}

/// Joins findings of one check, verdict and cause over heads; the numbers and words are those of the head farthest from what is
/// expected, the range over the others is appended. Worst verdict first.
pub fn joined(findings: Vec<Finding>) -> Vec<Finding> {
    let mut groups: Vec<Vec<Finding>> = Vec::new();
    for finding in findings {
        let same = |group: &&mut Vec<Finding>| {
            let first = &group[0];
            (first.check, first.verdict, &first.key) == (finding.check, finding.verdict, &finding.key)
                && matches!((&first.place, &finding.place), (Place::Heads(_), Place::Heads(_)))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    let mut findings: Vec<Finding> = groups.into_iter().map(join).collect();
    findings.sort_by_key(|finding| (finding.verdict, finding.check));
    findings
}

fn join(group: Vec<Finding>) -> Finding {
    let mut places: Vec<(usize, usize)> = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut worst = 0;
    for (index, finding) in group.iter().enumerate() {
        if let Place::Heads(heads) = &finding.place {
            places.extend(heads);
        }
        if let Some(measured) = finding.measured {
            (low, high) = (low.min(measured), high.max(measured));
        }
        if finding.distance() > group[worst].distance() {
            worst = index;
        }
    }
    places.sort_unstable();
    places.dedup();
    let count = places.len();
    let mut finding = group[worst].clone();
    if let Place::Heads(own) = &finding.place
        && count > own.len()
    {
        let at = format!("batch {}, head {}", own[0].0, own[0].1);
        if finding.verdict == Verdict::Pass {
            // One line is enough for what is right, and its numbers are one head's.
            if group.iter().any(|other| other.explanation != finding.explanation) {
                finding.explanation.push_str(&format!(" (that of {at}, the farthest of {count})"));
            }
        } else if finding.unit == "head" {
            finding.symptoms.push(format!("head by head: {}", head_by_head(&group)));
        } else if significant(low, 4) != significant(high, 4) {
            finding.symptoms.push(format!(
                "over the {count} heads from {} to {}; the sentence above is that of {at}",
                significant(low, 4),
                significant(high, 4)
            ));
        }
    }
    if !places.is_empty() {
        finding.place = Place::Heads(places);
    }
    finding
}

/// Most pairs of heads that are listed.
const LISTED_HEADS: usize = 12;

/// `0 → 1, 1 → 0`: which head each head's number is.
fn head_by_head(group: &[Finding]) -> String {
    let mut pairs: Vec<(usize, f64)> = Vec::new();
    for finding in group {
        if let (Place::Heads(own), Some(other)) = (&finding.place, finding.measured) {
            pairs.extend(own.iter().map(|place| (place.1, other)));
        }
    }
    pairs.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    pairs.dedup();
    let more = if pairs.len() > LISTED_HEADS { ", …" } else { "" };
    let listed: Vec<String> = pairs.iter().take(LISTED_HEADS).map(|(own, other)| format!("{own} → {other}")).collect();
    listed.join(", ") + more
}

/// `value` with `digits` significant digits, without an exponent from 1e-3 to 1e6.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let exponent = value.abs().log10().floor() as i64;
    if (-4..6).contains(&exponent) {
        format!("{value:.*}", (digits as i64 - 1 - exponent).max(0) as usize)
    } else {
        format!("{value:.*e}", digits - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_joined_in_words() {
        let words = |places: &[(usize, usize)]| Place::Heads(places.to_vec()).words(2, 3);
        assert_eq!(words(&[(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]), "all heads");
        assert_eq!(words(&[(1, 0), (1, 1), (1, 2)]), "batch 1, all heads");
        assert_eq!(words(&[(0, 2), (1, 2)]), "head 2 of every batch entry");
        assert_eq!(words(&[(0, 0), (0, 1)]), "batch 0, heads 0, 1");
        assert_eq!(words(&[(0, 0), (1, 2)]), "batch 0, heads 0; batch 1, heads 2");
        assert_eq!(Place::Heads(vec![(0, 0)]).words(1, 1), "the only head");
        assert_eq!(ranges(&[0, 2, 3, 4, 7, 8]), "0, 2–4, 7, 8");
    }

    #[test]
    fn one_cause_in_many_heads_is_one_finding_with_the_farthest_number() {
        let of = |head, measured, key: &str| {
            Finding::new(Check::Scale, Verdict::Fail, key, "sentence")
                .with_numbers(measured, 1.0, "factor")
                .in_head(0, head)
        };
        let pass = Finding::new(Check::Finite, Verdict::Pass, "", "").in_head(0, 0);
        let joined = joined(vec![pass, of(2, 3.0, "a"), of(0, 7.0, "a"), of(1, 2.0, "b")]);
        assert_eq!(joined.len(), 3);
        assert_eq!(joined[0].place, Place::Heads(vec![(0, 0), (0, 2)]));
        assert_eq!(joined[0].measured, Some(7.0));
        assert!(joined[0].symptoms[0].contains("from 3.000 to 7.000"), "{:?}", joined[0].symptoms);
        assert_eq!(joined[2].verdict, Verdict::Pass);
    }

    #[test]
    fn numbers_have_the_digits_asked_for() {
        assert_eq!(significant(0.125, 5), "0.12500");
        assert_eq!(significant(1234.5, 3), "1234");
        assert_eq!(significant(5.4321e-7, 2), "5.4e-7");
        assert_eq!(significant(0.0, 3), "0");
    }
}
