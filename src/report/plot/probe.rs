//! The judgement of a probe: a line for each capability, a mark for each case at its error in units of what the arithmetic explains.

use super::picture::Picture;
use super::standing::{Remark, Standing};
use super::strips::{Bound, Point, Strip, Strips};
use crate::report::number::{significant, trimmed};
use crate::report::probe::ProbeRow;

const NAMES: [&str; 5] = ["right", "wrong", "failed", "nondeterministic", "unsupported"];

fn standing(verdict: &str) -> Standing {
    match verdict {
        "right" => Standing::Good,
        "unsupported" => Standing::Noted,
        "nondeterministic" => Standing::Open,
        "failed" => Standing::Lost,
        _ => Standing::Bad,
    }
}

/// The picture of a judgement; `conditions` stand below its title. None without a capability.
///
/// A mark stands at the `ratio` of its row, on a logarithmic axis; up to `multiple` is right. Answers without a ratio (unsupported,
/// failed, infinite) stand beside the axis.
pub fn draw(rows: &[ProbeRow], conditions: &str) -> Option<Picture> {
    let multiple = rows.iter().find_map(|row| row.multiple);
    let cases = |capability: &str| -> Vec<&ProbeRow> {
        rows.iter().filter(|row| !row.case.is_empty() && row.capability == capability).collect()
    };
    let strip = |row: &ProbeRow| {
        let cases = cases(&row.capability);
        let right = cases.iter().filter(|case| case.verdict == "right").count();
        let point = |case: &&ProbeRow| Point {
            value: case.ratio.filter(|ratio| ratio.is_finite()),
            standing: standing(&case.verdict),
        };
        Strip {
            label: row.capability.clone(),
            points: cases.iter().map(point).collect(),
            standing: standing(&row.verdict),
            words: format!("{right}/{} right", cases.len()),
        }
    };
    Strips {
        title: title(rows),
        conditions: conditions.to_owned(),
        axis: match multiple {
            Some(multiple) => format!(
                "largest error ÷ that of the definition in the same type (shaded: up to {}, right)",
                trimmed(&significant(multiple, 2))
            ),
            None => "largest error ÷ that of the definition in the same type: nothing was answered".to_owned(),
        },
        bound: Bound::UpTo(multiple.unwrap_or(1.0)),
        names: NAMES.map(|name| (standing(name), name.to_owned())).to_vec(),
        strips: rows.iter().filter(|row| row.case.is_empty()).map(strip).collect(),
        remarks: remarks(rows),
    }
    .draw()
}

fn title(rows: &[ProbeRow]) -> String {
    let count = |verdict: &str| rows.iter().filter(|row| !row.case.is_empty() && row.verdict == verdict).count();
    let parts: Vec<String> =
        NAMES.into_iter().filter(|name| count(name) > 0).map(|name| format!("{} {name}", count(name))).collect();
    format!("attn probe: {}", parts.join(", "))
}

/// What is wrong and where, the most frequent first.
fn remarks(rows: &[ProbeRow]) -> Vec<Remark> {
    let mut groups: Vec<(Standing, String, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.case.is_empty()) {
        let standing = standing(&row.verdict);
        if matches!(standing, Standing::Good | Standing::Noted) {
            continue;
        }
        let words = if row.cause.is_empty() { &row.explanation } else { &row.cause };
        let words = format!("{}: {words}", row.verdict);
        match groups.iter_mut().find(|(_, known, _)| *known == words) {
            Some((.., cases)) => cases.push(&row.case),
            None => groups.push((standing, words, vec![&row.case])),
        }
    }
    groups.sort_by_key(|(.., cases)| std::cmp::Reverse(cases.len()));
    let remark = |(standing, words, cases): (Standing, String, Vec<&str>)| Remark {
        standing,
        text: format!(
            "{words} ({} case{}: {})",
            cases.len(),
            if cases.len() == 1 { "" } else { "s" },
            cases.join(", ")
        ),
    };
    groups.into_iter().map(remark).collect()
}
