//! Which rows there are, and their theory column against closed forms (THEORY.md, sections 1 and 2) computed here.

use crate::program::{Record, assert_close, attn, number, records, row};

const ENTRY_STATISTICS: [(&str, f64); 5] =
    [("q_mean", 0.0), ("q_variance", 1.0), ("k_mean", 0.0), ("k_variance", 1.0), ("qk_correlation", 0.0)];

/// A few roundings of a number of order 1.
const ROUNDING: f64 = 1e-13;

fn rows_of(line: &str) -> Vec<Record> {
    records(&attn(&format!("variance -q {line}")).stdout)
}

#[test]
fn both_scales_have_mean_variance_and_kurtosis_and_the_assumptions_have_rows() {
    let rows = rows_of("-n 7 -m 11 --dk 5 --trials 20");
    let found: Vec<(&str, &str)> = rows.iter().map(|row| (row["statistic"].as_str(), row["scale"].as_str())).collect();
    let logits = ["none", "inv-sqrt-dk"]
        .into_iter()
        .flat_map(|scale| ["logit_mean", "logit_variance", "logit_kurtosis"].map(|statistic| (statistic, scale)));
    let entries = ENTRY_STATISTICS.iter().map(|(statistic, _)| (*statistic, ""));
    assert_eq!(found, logits.chain(entries).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["theory_kind"] == "exact"));
    assert!(rows.iter().all(|row| (row["n_queries"].as_str(), row["n_keys"].as_str()) == ("7", "11")));
}

#[test]
fn theory_of_every_law_is_its_closed_form() {
    // Fourth moments of the standardised laws: THEORY.md; Student's t: 3 + 6/(ν − 4).
    let laws = [("normal", 3.0f64), ("uniform", 1.8), ("rademacher", 1.0), ("laplace", 6.0), ("student-t:9", 4.2)];
    for (law, fourth) in laws {
        for d_k in [1usize, 2, 5, 64] {
            let rows = rows_of(&format!(
                "-n 7 -m 11 --dk {d_k} --trials 3 --entries {law} --scale none,inv-sqrt-dk,inv-dk,0.3"
            ));
            let d = d_k as f64;
            let width = d_k.to_string();
            for (scale, factor) in [("none", 1.0), ("inv-sqrt-dk", 1.0 / d.sqrt()), ("inv-dk", 1.0 / d), ("0.3", 0.3)] {
                let theory = |statistic: &str| number(row(&rows, statistic, scale, &width), "theory");
                let what = format!("{law} {d_k} {scale}");
                assert_eq!(theory("logit_mean"), 0.0, "{what}");
                assert_close(theory("logit_variance"), d * factor * factor, ROUNDING, &what);
                if scale == "inv-sqrt-dk" {
                    assert_eq!(theory("logit_variance"), 1.0, "{what}: what the scale is for, to the last digit");
                }
                assert_close(theory("logit_kurtosis"), 3.0 + (fourth * fourth - 3.0) / d, ROUNDING, &what);
            }
            for (statistic, theory) in ENTRY_STATISTICS {
                assert_eq!(number(row(&rows, statistic, "", &width), "theory"), theory, "{law} {statistic}");
            }
        }
    }
}

#[test]
fn a_deviation_is_relative_to_theory_or_in_units_of_the_statistics_own_size() {
    let rows = rows_of("-n 7 -m 11 --dk 5 --trials 20");
    for row in &rows {
        let d: f64 = 5.0;
        let unit = match (row["statistic"].as_str(), row["scale"].as_str()) {
            // √d_k for a mean of raw logits, 1 for a scaled one (PRODUCT.md).
            ("logit_mean", "none") => d.sqrt(),
            _ if number(row, "theory") == 0.0 => 1.0,
            _ => number(row, "theory"),
        };
        let expected = (number(row, "estimate") - number(row, "theory")) / unit;
        assert_close(number(row, "deviation"), expected, ROUNDING, &row["statistic"]);
    }
}

#[test]
fn the_standard_errors_are_those_of_section_2() {
    let (n, m, d, trials) = (7.0, 11.0, 5.0f64, 20.0);
    for (law, fourth) in [("normal", 3.0f64), ("uniform", 1.8), ("laplace", 6.0)] {
        let rows = rows_of(&format!("-n 7 -m 11 --dk 5 --trials 20 --entries {law}"));
        let error = |statistic: &str, scale: &str| number(row(&rows, statistic, scale, "5"), "std_error");
        let mean = (d / (n * m) / trials).sqrt();
        assert_close(error("logit_mean", "none"), mean, ROUNDING, law);
        assert_close(error("logit_mean", "inv-sqrt-dk"), mean / d.sqrt(), ROUNDING, law);
        // Var of the mean square; the sample variance agrees to a relative order of 1/(nm) + 1/n + 1/m of small terms.
        let square = (2.0 * d * d + d * (fourth * fourth - 3.0) + (n + m - 2.0) * d * (fourth - 1.0)) / (n * m);
        let ratio = error("logit_variance", "none") / (square / trials).sqrt();
        assert!((ratio - 1.0).abs() < 0.05, "{law}: {ratio}");
        // Not the naive one that takes the n·m logits for independent: (κ − 1)d²/(nm) is less by far.
        let kurtosis = 3.0 + (fourth * fourth - 3.0) / d;
        let naive = ((kurtosis - 1.0) * d * d / (n * m) / trials).sqrt();
        assert!(error("logit_variance", "none") > 1.2 * naive, "{law}");
    }
}

#[test]
fn the_interval_holds_the_estimate_and_has_95_per_cent_width() {
    for row in rows_of("-n 31 -m 29 --dk 5 --trials 1000") {
        let [estimate, error, low, high] =
            ["estimate", "std_error", "ci_low", "ci_high"].map(|name| number(&row, name));
        assert!(low < estimate && estimate < high, "{row:?}");
        // ±1.96 standard errors for a normal law; 1000 trials are near enough to one for every statistic here but
        // the kurtosis, whose law is skewed.
        let width = (high - low) / (2.0 * 1.959964 * error);
        let tolerance = if row["statistic"] == "logit_kurtosis" { 0.3 } else { 0.06 };
        assert!((width - 1.0).abs() < tolerance, "{} {width}", row["statistic"]);
    }
}

#[test]
fn a_sweep_has_slopes_without_a_width() {
    let rows = rows_of("-n 16 --dk 4..32 --trials 200 --scale none,inv-sqrt-dk,inv-dk,0.5");
    for (scale, slope) in [("none", 1.0), ("inv-sqrt-dk", 0.0), ("inv-dk", -1.0), ("0.5", 1.0)] {
        let row = row(&rows, "variance_slope", scale, "");
        assert_eq!(number(row, "theory"), slope, "{scale}");
        assert_eq!(row["theory_kind"], "exact");
        assert_eq!((row["n_queries"].as_str(), row["n_keys"].as_str()), ("16", "16"));
        // Six standard errors: a right slope strays that far once in 5e8 runs, and a wrong one is 0.5 off or more.
        assert!((number(row, "estimate") - slope).abs() < 6.0 * number(row, "std_error"), "{row:?}");
        assert!(number(row, "std_error") < 0.05, "{row:?}");
    }
    assert_eq!(rows.iter().filter(|row| row["statistic"] == "variance_slope").count(), 4);
    // Four points (4, 8, 16, 32) of 4 scales × 3 statistics + 5, and the slopes.
    assert_eq!(rows.len(), 4 * (4 * 3 + 5) + 4);
}

#[test]
fn a_single_width_has_no_slope_and_each_shape_of_a_sweep_has_its_own() {
    let slopes = |line: &str| {
        let rows = rows_of(line);
        rows.iter()
            .filter(|row| row["statistic"] == "variance_slope")
            .map(|row| row["n_keys"].clone())
            .collect::<Vec<_>>()
    };
    assert!(slopes("-n 7 --dk 5 --trials 20").is_empty());
    assert!(slopes("-n 7,11 --dk 5 --trials 20").is_empty());
    assert_eq!(slopes("-n 7 -m 11,13 --dk 5,7 --trials 50 --scale none"), ["11", "13"]);
}

#[test]
fn keys_follow_queries_and_lists_are_crossed_in_the_order_typed() {
    let rows = rows_of("-n 7,3 --dk 5,2 --trials 3 --scale none");
    let points: Vec<(String, String, String)> = (rows.iter())
        .filter(|row| row["statistic"] == "q_mean")
        .map(|row| (row["n_queries"].clone(), row["n_keys"].clone(), row["d_k"].clone()))
        .collect();
    let expected = [("7", "7", "5"), ("7", "7", "2"), ("3", "3", "5"), ("3", "3", "2")];
    assert_eq!(points, expected.map(|(n, m, d)| (n.to_string(), m.to_string(), d.to_string())));
}

#[test]
fn correlated_tokens_have_rows_for_the_diagonal() {
    let rows = rows_of("-n 16 --dk 5 --trials 200 --correlation 0.5 --scale none,inv-sqrt-dk");
    for (scale, square) in [("none", 1.0f64), ("inv-sqrt-dk", 0.2)] {
        // THEORY.md: E = dρ, Var = d(1 + ρ²) on the diagonal; E S_ij = dρ/n over all logits.
        let theory = |statistic: &str| number(row(&rows, statistic, scale, "5"), "theory");
        assert_close(theory("diagonal_mean"), 5.0 * 0.5 * square.sqrt(), ROUNDING, scale);
        assert_close(theory("diagonal_variance"), 5.0 * 1.25 * square, ROUNDING, scale);
        assert_close(theory("logit_mean"), 5.0 * 0.5 / 16.0 * square.sqrt(), ROUNDING, scale);
    }
    let verdict = &row(&rows, "qk_correlation", "", "5")["verdict"];
    assert_eq!(verdict, "rejected", "the assumption of independence");
}

#[test]
fn a_missing_value_is_an_empty_field_never_a_word() {
    // One query, one key, one trial: hardly a statistic exists.
    for line in ["-n 1 --dk 1 --trials 1", "-n 1 -m 2 --dk 1 --trials 1 --entries rademacher", "-n 2 --dk 1 --trials 1"]
    {
        for format in ["csv", "json", "markdown", "table"] {
            let text = attn(&format!("variance -q {line} --format {format}")).stdout;
            assert!(!text.is_empty());
            let words = text.split(|character: char| !character.is_ascii_alphanumeric());
            let faulty: Vec<&str> =
                words.filter(|word| ["nan", "inf", "infinity"].contains(&word.to_ascii_lowercase().as_str())).collect();
            // The scale `inv-…` is no infinity: only whole words count.
            assert!(faulty.is_empty(), "{line} {format}: {text}");
        }
    }
    let of_two = rows_of("-n 2 --dk 1 --trials 1");
    assert_eq!(row(&of_two, "logit_kurtosis", "none", "1")["verdict"], "undecided");
    let rows = rows_of("-n 1 --dk 1 --trials 1");
    let variance = row(&rows, "logit_variance", "none", "1");
    assert_eq!((variance["estimate"].as_str(), variance["p_value"].as_str()), ("", ""), "one logit has no variance");
}
