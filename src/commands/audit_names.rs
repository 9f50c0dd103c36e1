//! Which role an array has by its name.

use crate::cli::audit::AuditArguments;
use crate::diagnosis::arrays::Role;

/// Spellings of each role.
const SPELLINGS: [(Role, &[&str]); 13] = [
    (Role::Queries, &["q", "query", "queries"]),
    (Role::Keys, &["k", "key", "keys"]),
    (Role::Values, &["v", "value", "values"]),
    (Role::Weights, &["p", "weights", "attn", "attention", "probs"]),
    (Role::Output, &["o", "out", "output", "context"]),
    (Role::Logits, &["s", "scores", "logits"]),
    (Role::Mask, &["mask", "attn_mask", "attention_mask"]),
    (Role::Padding, &["padding", "key_padding_mask"]),
    (Role::Bias, &["bias"]),
    (Role::LogSumExp, &["lse"]),
    (Role::QueriesBeforeRotation, &["q_pre"]),
    (Role::KeysBeforeRotation, &["k_pre"]),
    (Role::PositionTable, &["pe", "position_encoding"]),
];

/// Names that the user gave.
pub(super) fn named(typed: &AuditArguments) -> Vec<(Role, &'static str, &str)> {
    let options = [
        (Role::Queries, "--q", &typed.q),
        (Role::Keys, "--k", &typed.k),
        (Role::Values, "--v", &typed.v),
        (Role::Weights, "--weights", &typed.weights),
        (Role::Output, "--output-name", &typed.output_name),
        (Role::Logits, "--logits", &typed.logits),
        (Role::Mask, "--mask", &typed.mask),
        (Role::Padding, "--padding", &typed.padding),
        (Role::Bias, "--bias", &typed.bias),
        (Role::LogSumExp, "--lse", &typed.lse),
        (Role::QueriesBeforeRotation, "--q-pre", &typed.q_pre),
        (Role::KeysBeforeRotation, "--k-pre", &typed.k_pre),
        (Role::PositionTable, "--pe", &typed.pe),
    ];
    options.into_iter().filter_map(|(role, option, name)| Some((role, option, name.as_deref()?))).collect()
}

/// The role and the prefix that a name shows: the longest spelling at its end, alone or behind `.`, `/`, `_` or `:`.
pub(super) fn role_of(name: &str) -> Option<(Role, String)> {
    let lower = name.to_ascii_lowercase();
    let mut best: Option<(usize, Role, String)> = None;
    for (role, spellings) in SPELLINGS {
        for spelling in spellings {
            let Some(before) = lower.strip_suffix(spelling) else { continue };
            let separated = before.is_empty() || before.ends_with(['.', '/', '_', ':']);
            if separated && best.as_ref().is_none_or(|(length, ..)| spelling.len() > *length) {
                let prefix = name[..before.len()].trim_end_matches(['.', '/', '_', ':']).to_string();
                best = Some((spelling.len(), role, prefix));
            }
        }
    }
    best.map(|(_, role, prefix)| (role, prefix))
}

/// `text` against `*` and `?`.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from, mut star, mut mark) = (0, 0, None, 0);
    while from < text.len() {
        if at < pattern.len() && (pattern[at] == '?' || (pattern[at] != '*' && pattern[at] == text[from])) {
            (at, from) = (at + 1, from + 1);
        } else if at < pattern.len() && pattern[at] == '*' {
            (star, mark) = (Some(at), from);
            at += 1;
        } else if let Some(star) = star {
            mark += 1;
            (at, from) = (star + 1, mark);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&character| character == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_their_role_and_their_group() {
        for (name, role, prefix) in [
            ("q", Role::Queries, ""),
            ("layer3.K", Role::Keys, "layer3"),
            ("single.layer0.p", Role::Weights, "single.layer0"),
            ("blocks/2/attn_mask", Role::Mask, "blocks/2"),
            ("layer3_q_pre", Role::QueriesBeforeRotation, "layer3"),
            ("key_padding_mask", Role::Padding, ""),
            ("attention", Role::Weights, ""),
        ] {
            assert_eq!(role_of(name), Some((role, prefix.to_string())), "{name}");
        }
        assert_eq!(role_of("input_ids"), None);
    }

    #[test]
    fn globs_fit_what_they_say() {
        for (pattern, text, fit) in [
            ("*", "", true),
            ("layer?", "layer3", true),
            ("l*3", "layer13", true),
            ("layer", "layer3", false),
            ("*x", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), fit, "{pattern} {text}");
        }
    }
}
