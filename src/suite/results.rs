//! What a command line printed as JSON, as claims.

use serde::Deserialize;
use serde_json::Value;

use super::{Expect, Item, Kind, Warnings};
use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::report::{Row, Verdict};

/// What a command line said.
#[derive(Debug, Clone)]
pub struct Results {
    /// Its claims.
    pub claims: Vec<ClaimRow>,
    /// Its rows as statistics; empty for those of another shape.
    pub rows: Vec<Row>,
}

/// A claim of `item` of which nothing is known yet but its name and verdict.
pub fn claim(item: &Item, kind: &str, claim: impl Into<String>, verdict: ClaimVerdict) -> ClaimRow {
    ClaimRow {
        item: item.name.clone(),
        kind: kind.to_string(),
        claim: claim.into(),
        verdict,
        estimate: None,
        expected_low: None,
        expected_high: None,
        p_value: None,
        min_detectable: None,
        deviation_in_bounds: None,
        explanation: String::new(),
        invocation: format!("attn {}", crate::report::json::invocation(&item.words)),
        seed: None,
        version: env!("CARGO_PKG_VERSION").to_string(),
    }
}

/// `deviation` in units of `bound`; an exact claim, of bound 0, that holds has deviated by nothing.
pub(super) fn in_bounds(deviation: Option<f64>, bound: Option<f64>) -> Option<f64> {
    match (deviation?, bound?) {
        (deviation, bound) if bound > 0.0 => Some(deviation / bound),
        (deviation, _) => (deviation == 0.0).then_some(0.0),
    }
}

/// Reads the JSON that the command line of `item` wrote. An item whose every row is measured or noted has checked nothing: that is a
/// claim without data, never a pass.
///
/// # Errors
/// JSON that is not the program's own.
pub fn read(item: &Item, json: &str) -> Result<Results, String> {
    let printed: Value = serde_json::from_str(json).map_err(|error| format!("its JSON cannot be read: {error}"))?;
    // An audit calls its rows findings.
    let rows = printed["rows"].as_array().or(printed["findings"].as_array()).ok_or("its JSON has no rows")?;
    let seed = printed["seed"].as_u64();
    let (mut claims, rows): (Vec<ClaimRow>, Vec<Row>) = match item.kind() {
        Kind::Simulation => {
            let rows: Vec<Row> = from_value(rows)?;
            (rows.iter().filter_map(|row| of_row(item, row)).collect(), rows)
        }
        Kind::Count => (from_value(rows)?.iter().filter_map(|row| of_count(item, row)).collect(), Vec::new()),
        Kind::Audit => (of_findings(item, &from_value(rows)?), Vec::new()),
        Kind::Probe => (from_value(rows)?.iter().filter_map(|row| of_case(item, row)).collect(), Vec::new()),
    };
    let mut claims = match item.expect {
        Expect::Upheld if !claims.iter().any(|row| row.verdict != ClaimVerdict::Noted) => {
            let nothing = claim(item, "run", "something is checked", ClaimVerdict::Error);
            let explanation = "nothing it measured is held against anything".to_string();
            claims.push(ClaimRow { explanation, ..nothing });
            claims
        }
        Expect::Upheld => claims,
        Expect::Rejected => vec![control(item, &claims)],
        Expect::Nothing => Vec::new(),
    };
    claims.iter_mut().for_each(|claim| claim.seed = seed);
    Ok(Results { claims, rows })
}

fn from_value<R: for<'de> Deserialize<'de>>(rows: &[Value]) -> Result<Vec<R>, String> {
    let read = |row: &Value| R::deserialize(row).map_err(|error| format!("a row of its JSON cannot be read: {error}"));
    rows.iter().map(read).collect()
}

/// Whether the suite sees a fault where there is one.
fn control(item: &Item, claims: &[ClaimRow]) -> ClaimRow {
    let rejected: Vec<&str> =
        claims.iter().filter(|row| row.verdict == ClaimVerdict::Rejected).map(|row| row.claim.as_str()).collect();
    let lost = claims.iter().filter(|row| row.verdict == ClaimVerdict::Error).count();
    let verdict = match (rejected.is_empty(), lost) {
        (false, _) => ClaimVerdict::Upheld,
        (true, 0) => ClaimVerdict::Rejected,
        (true, _) => ClaimVerdict::Error,
    };
    let explanation = match rejected.len() {
        0 if lost > 0 => format!("{lost} of its {} claims got no data, none was rejected", claims.len()),
        0 => format!("none of its {} claims was rejected, although one should be", claims.len()),
        count => format!("{count} of its {} claims rejected, as should be: {}", claims.len(), shortened(&rejected)),
    };
    ClaimRow { explanation, ..claim(item, "control", "a fault is seen", verdict) }
}

fn shortened(names: &[&str]) -> String {
    let shown = names.iter().take(3).copied().collect::<Vec<_>>().join("; ");
    if names.len() > 3 { format!("{shown}; …") } else { shown }
}

/// The statistic with what tells it from its neighbours.
pub fn name_of(row: &Row) -> String {
    let mut name = row.name();
    if let Some(scale) = &row.scale {
        name.push_str(&format!(" at scale {scale}"));
    }
    let count = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
    let mask = row.mask.as_ref().map(|mask| format!("mask {mask}"));
    let sizes = [mask, count("d_k", row.d_k), count("n", row.n_queries), count("m", row.n_keys)];
    sizes.into_iter().flatten().for_each(|part| name.push_str(&format!(", {part}")));
    name
}

fn of_row(item: &Item, row: &Row) -> Option<ClaimRow> {
    let verdict = match row.verdict {
        Verdict::Upheld => ClaimVerdict::Upheld,
        Verdict::Rejected => ClaimVerdict::Rejected,
        Verdict::Undecided => ClaimVerdict::Undecided,
        Verdict::Measured => return None,
    };
    let explanation = match verdict {
        ClaimVerdict::Rejected => row.test.clone().unwrap_or_default(),
        ClaimVerdict::Undecided => match (row.min_detectable, &row.test) {
            (Some(smallest), _) => format!("too few trials: only a deviation of {smallest:.2e} would be seen"),
            (None, Some(test)) => test.clone(),
            (None, None) => "too few trials".to_string(),
        },
        _ => String::new(),
    };
    Some(ClaimRow {
        estimate: row.estimate,
        expected_low: row.theory,
        expected_high: row.theory,
        p_value: row.p_value,
        min_detectable: row.min_detectable,
        deviation_in_bounds: in_bounds(row.deviation, row.min_detectable),
        explanation,
        ..claim(item, "theory", name_of(row), verdict)
    })
}

/// What a suite needs of a row of `attn complexity`.
#[derive(Debug, Deserialize)]
struct CountFields {
    stage: String,
    n: Option<u64>,
    m: Option<u64>,
    d_k: Option<u64>,
    kernel: Option<String>,
    exponent_of: Option<String>,
    exponent: Option<f64>,
    exponent_expected: Option<f64>,
    difference: Option<f64>,
    bound: Option<f64>,
    verdict: Verdict,
}

fn of_count(item: &Item, row: &CountFields) -> Option<ClaimRow> {
    let verdict = match row.verdict {
        Verdict::Upheld => ClaimVerdict::Upheld,
        Verdict::Rejected => ClaimVerdict::Rejected,
        Verdict::Undecided => ClaimVerdict::Undecided,
        Verdict::Measured => return None,
    };
    let mut name = row.stage.clone();
    let count = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
    let exponent = row.exponent_of.as_ref().map(|of| format!("exponent in {of}"));
    let parts = [row.kernel.clone(), exponent, count("d_k", row.d_k), count("n", row.n), count("m", row.m)];
    parts.into_iter().flatten().for_each(|part| name.push_str(&format!(", {part}")));
    let low = row.exponent_expected.or(row.bound.map(|_| 0.0));
    Some(ClaimRow {
        estimate: row.exponent.or(row.difference),
        expected_low: low,
        expected_high: row.exponent_expected.or(row.bound),
        deviation_in_bounds: in_bounds(row.difference, row.bound),
        ..claim(item, "count", name, verdict)
    })
}

/// What a suite needs of a finding of `attn audit`.
#[derive(Debug, Deserialize)]
struct FindingFields {
    file: String,
    group: String,
    check: String,
    verdict: String,
    measured: Option<f64>,
    expected: Option<f64>,
    #[serde(rename = "where")]
    place: String,
    explanation: String,
}

/// Checks that say nothing of what an implementation made of Q and K.
const OF_INPUTS: [&str; 3] = ["finite", "assumptions", "saturation"];

/// A claim for each finding. An audit that could hold nothing but Q and K against anything has checked no attention: a renamed array
/// must not switch the gate off. What the command line promises and the file cannot show is undecided.
fn of_findings(item: &Item, rows: &[FindingFields]) -> Vec<ClaimRow> {
    let told = |row: &&FindingFields| matches!(row.verdict.as_str(), "PASS" | "FAIL" | "WARN");
    let mut claims: Vec<ClaimRow> = rows.iter().map(|row| of_finding(item, row)).collect();
    for (claim, row) in claims.iter_mut().zip(rows).filter(|(_, row)| row.verdict == "CANNOT TELL") {
        let flag = format!("--{}", row.check);
        let promised = item.words.iter().any(|word| word.split('=').next() == Some(flag.as_str()));
        if promised && !rows.iter().filter(told).any(|other| other.check == row.check) {
            claim.verdict = ClaimVerdict::Undecided;
            claim.explanation = format!("{flag} is promised, but {}", claim.explanation);
        }
    }
    if !rows.iter().filter(told).any(|row| !OF_INPUTS.contains(&row.check.as_str())) {
        let nothing = claim(item, "run", "an attention is checked", ClaimVerdict::Error);
        let why = "nothing but Q and K could be held against anything: are the weights or the output there, under a known name?";
        claims.push(ClaimRow { explanation: why.to_string(), ..nothing });
    }
    claims
}

fn of_finding(item: &Item, row: &FindingFields) -> ClaimRow {
    let verdict = match row.verdict.as_str() {
        "PASS" => ClaimVerdict::Upheld,
        "FAIL" => ClaimVerdict::Rejected,
        "WARN" if item.warnings == Warnings::Reject => ClaimVerdict::Rejected,
        _ => ClaimVerdict::Noted,
    };
    let group = if row.group.is_empty() { &row.file } else { &row.group };
    let said = match verdict {
        ClaimVerdict::Noted | ClaimVerdict::Rejected => format!("{}: {}", row.verdict, row.explanation),
        _ => row.explanation.clone(),
    };
    ClaimRow {
        estimate: row.measured,
        expected_low: row.expected,
        expected_high: row.expected,
        explanation: said,
        ..claim(item, "audit", format!("{} of {group}, {}", row.check, row.place), verdict)
    }
}

/// What a suite needs of a row of `attn probe`.
#[derive(Debug, Deserialize)]
struct CaseFields {
    capability: String,
    /// Empty in the row that sums up a capability.
    case: String,
    verdict: String,
    ratio: Option<f64>,
    multiple: Option<f64>,
    explanation: String,
}

fn of_case(item: &Item, row: &CaseFields) -> Option<ClaimRow> {
    if row.case.is_empty() {
        return None;
    }
    let verdict = match row.verdict.as_str() {
        "right" => ClaimVerdict::Upheld,
        "unsupported" => ClaimVerdict::Noted,
        // It crashed, hung or gave no answer: nothing is known of it.
        "failed" => ClaimVerdict::Error,
        _ => ClaimVerdict::Rejected,
    };
    let explanation = match verdict {
        ClaimVerdict::Upheld => row.explanation.clone(),
        _ => format!("{}: {}", row.verdict, row.explanation),
    };
    let name = format!("{}: {}", row.capability, row.case);
    let expected_high = row.ratio.and(row.multiple);
    let deviation_in_bounds = in_bounds(row.ratio, row.multiple);
    let named = claim(item, "probe", name, verdict);
    Some(ClaimRow { estimate: row.ratio, expected_high, deviation_in_bounds, explanation, ..named })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    fn item(run: &str, more: &str) -> Item {
        let text = format!("[[check]]\nname = 'one'\nrun = '{run}'\n{more}");
        Suite::read(&text).expect("a suite").items.remove(0)
    }

    fn json(rows: &[Row]) -> String {
        format!("{{\"seed\":7,\"rows\":{}}}", serde_json::to_string(rows).expect("rows"))
    }

    fn row(statistic: &str, verdict: Verdict) -> Row {
        Row { d_k: Some(5), scale: Some("none".into()), verdict, ..Row::new("variance", statistic) }
    }

    #[test]
    fn judged_rows_are_claims_and_measured_ones_are_not() {
        let rows =
            [row("logit_mean", Verdict::Upheld), row("entropy", Verdict::Measured), row("q_mean", Verdict::Rejected)];
        let read = read(&item("variance --dk 5", ""), &json(&rows)).expect("own JSON");
        let seen: Vec<(&str, ClaimVerdict)> =
            read.claims.iter().map(|claim| (claim.claim.as_str(), claim.verdict)).collect();
        assert_eq!(
            seen,
            [
                ("logit_mean at scale none, d_k 5", ClaimVerdict::Upheld),
                ("q_mean at scale none, d_k 5", ClaimVerdict::Rejected)
            ]
        );
        assert_eq!((read.rows.len(), read.claims[0].seed), (3, Some(7)));
        assert_eq!(read.claims[0].invocation, "attn variance --dk 5");
    }

    #[test]
    fn an_item_that_checks_nothing_is_an_error() {
        let read = read(&item("variance", ""), &json(&[row("entropy", Verdict::Measured)])).expect("own JSON");
        assert_eq!(read.claims.len(), 1);
        assert_eq!(read.claims[0].verdict, ClaimVerdict::Error);
    }

    #[test]
    fn a_control_is_upheld_by_a_rejection_only() {
        let control = item("variance --scale 1", "expect = 'rejected'");
        for (verdict, expected) in [
            (Verdict::Rejected, ClaimVerdict::Upheld),
            (Verdict::Upheld, ClaimVerdict::Rejected),
            (Verdict::Undecided, ClaimVerdict::Rejected),
        ] {
            let read = read(&control, &json(&[row("a", Verdict::Upheld), row("b", verdict)])).expect("own JSON");
            assert_eq!((read.claims.len(), read.claims[0].verdict), (1, expected));
        }
    }

    #[test]
    fn findings_pass_fail_and_are_noted() {
        let finding = |verdict: &str| {
            format!(
                "{{\"findings\":[{{\"file\":\"a.npz\",\"group\":\"\",\"check\":\"scale\",\"verdict\":\"{verdict}\",\"measured\":0.5,\
                 \"expected\":0.25,\"where\":\"all heads\",\"explanation\":\"twice\"}},{{\"file\":\"a.npz\",\"group\":\"\",\
                 \"check\":\"mask\",\"verdict\":\"PASS\",\"measured\":null,\"expected\":null,\"where\":\"\",\"explanation\":\"\"}}]}}"
            )
        };
        let verdict = |run: &str, more: &str, verdict: &str| {
            read(&item(run, more), &finding(verdict)).expect("own JSON").claims[0].verdict
        };
        assert_eq!(verdict("audit a.npz", "", "PASS"), ClaimVerdict::Upheld);
        assert_eq!(verdict("audit a.npz", "", "FAIL"), ClaimVerdict::Rejected);
        assert_eq!(verdict("audit a.npz", "", "WARN"), ClaimVerdict::Noted);
        assert_eq!(verdict("audit a.npz", "warnings = 'reject'", "WARN"), ClaimVerdict::Rejected);
        assert_eq!(verdict("audit a.npz", "warnings = 'reject'", "CANNOT TELL"), ClaimVerdict::Noted);
    }

    #[test]
    fn cases_of_a_probe_are_right_or_not() {
        let case = |case: &str, verdict: &str| {
            format!(
                "{{\"capability\":\"causal\",\"case\":\"{case}\",\"verdict\":\"{verdict}\",\"ratio\":0.5,\"multiple\":8.0,\
                 \"explanation\":\"\"}}"
            )
        };
        let rows = [case("", "right"), case("a", "right"), case("b", "nondeterministic"), case("c", "unsupported")];
        let json = format!("{{\"rows\":[{}]}}", rows.join(","));
        let read = read(&item("probe judge cases", ""), &json).expect("own JSON");
        let seen: Vec<ClaimVerdict> = read.claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(seen, [ClaimVerdict::Upheld, ClaimVerdict::Rejected, ClaimVerdict::Noted]);
    }

    #[test]
    fn what_is_not_the_programs_json_is_an_error() {
        for text in ["", "{}", "{\"rows\":3}", "{\"rows\":[{\"statistic\":\"x\"}]}"] {
            assert!(read(&item("variance", ""), text).is_err(), "{text}");
        }
    }
}
