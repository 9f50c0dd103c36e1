//! What the process tells its caller: 0 upheld, 1 rejected, 3 undecided (2 is in `usage_errors`).

use crate::program::{Record, SMALL, assert_close, attn, number, records, row};

fn verdicts(rows: &[Record], wanted: impl Fn(&Record) -> bool) -> Vec<(String, String)> {
    rows.iter()
        .filter(|row| wanted(row))
        .map(|row| (format!("{}:{}", row["statistic"], row["scale"]), row["verdict"].clone()))
        .collect()
}

fn is_of_logits(row: &Record) -> bool {
    !row["scale"].is_empty()
}

/// A field that must be there and small enough that the row sees what was asked for.
fn assert_sees(rows: &[Record], detect: f64) {
    for row in rows.iter().filter(|row| row["verdict"] == "upheld") {
        assert!(number(row, "min_detectable") <= detect, "{row:?}");
    }
}

#[test]
fn a_planned_run_of_correct_attention_is_upheld_row_by_row_with_code_0() {
    for line in [
        "variance --dk 8 -n 32 --detect 5%",
        "variance --dk 3 -n 7 -m 11 --detect 20% --entries uniform --scale inv-dk",
        "variance --dk 5 -n 8 --detect 20% --entries rademacher",
        "variance --dk 4,7,9 -n 16 --detect 20% --false-alarm 1e-3 --miss 0.1",
    ] {
        let run = attn(line);
        let rows = records(&run.stdout);
        assert!(verdicts(&rows, |_| true).iter().all(|(_, verdict)| verdict == "upheld"), "{line}\n{}", run.stdout);
        assert_eq!(run.code, Some(0), "{line}");
        assert_sees(&rows, if line.contains("5%") { 0.05 } else { 0.2 });
    }
}

#[test]
fn a_plan_keeps_its_promise_and_no_more() {
    // THEORY.md: T ≈ (z₁₋α/₂ + z₁₋β)² Var(V̂)/(δd)²; the row that needs most decides, so a smaller detect needs
    // about the inverse square as many.
    let trials = |detect: &str| {
        let rows = records(&attn(&format!("variance -q --dk 64 -n 64 --detect {detect}")).stdout);
        number(&rows[0], "trials")
    };
    let ratio = trials("0.8%") / trials("1.6%");
    assert!((3.2..=4.8).contains(&ratio), "{ratio}");
}

#[test]
fn too_few_trials_are_undecided_with_code_3() {
    let run = attn("variance --dk 8 -n 32 --detect 5% --trials 2");
    let rows = records(&run.stdout);
    assert_eq!(run.code, Some(3));
    for statistic in ["logit_variance", "logit_kurtosis"] {
        assert_eq!(row(&rows, statistic, "none", "8")["verdict"], "undecided");
    }
    assert!(rows.iter().all(|row| row["verdict"] != "rejected"));
}

#[test]
fn a_row_whose_law_has_too_few_moments_is_undecided_however_many_the_trials() {
    // Student's t with 5 degrees of freedom has no eighth moment: the mean square has no known law.
    let run = attn("variance -q --dk 8 -n 32 --trials 2000 --entries student-t:5 --detect 20%");
    let rows = records(&run.stdout);
    assert_eq!(row(&rows, "logit_variance", "none", "8")["verdict"], "undecided");
    assert_eq!(run.code, Some(3));
}

/// THEORY.md sections 1 and 2 for entries of mean μ and standard deviation σ in both matrices: E S, and the
/// expectation of the sample variance of one trial's n·m logits.
fn general_law(n: f64, m: f64, d: f64, mean: f64, sd: f64) -> (f64, f64) {
    let (mean_square, variance) = (mean * mean, sd * sd);
    let of_one = d * ((variance + mean_square).powi(2) - mean_square.powi(2));
    let shared = d * variance * mean_square;
    (d * mean_square, of_one - ((m - 1.0) * shared + (n - 1.0) * shared) / (n * m - 1.0))
}

#[test]
fn broken_assumptions_are_rejected_with_code_1_while_the_logits_follow_the_general_law() {
    for (line, mean, sd, broken) in [
        ("--mean 0.5", 0.5, 1.0, ["q_mean:", "k_mean:"]),
        ("--mean -0.5", -0.5, 1.0, ["q_mean:", "k_mean:"]),
        ("--sd 1.1", 0.0, 1.1, ["q_variance:", "k_variance:"]),
        ("--sd 0.5", 0.0, 0.5, ["q_variance:", "k_variance:"]),
    ] {
        let run = attn(&format!("variance -q --dk 5 -n 16 -m 11 --detect 5% {line}"));
        assert_eq!(run.code, Some(1), "{line}\n{}", run.stdout);
        let rows = records(&run.stdout);
        for (name, verdict) in verdicts(&rows, |row| !is_of_logits(row)) {
            let expected = if broken.contains(&name.as_str()) { "rejected" } else { "upheld" };
            assert_eq!(verdict, expected, "{line} {name}");
        }
        assert!(verdicts(&rows, is_of_logits).iter().all(|(_, verdict)| verdict == "upheld"), "{line}\n{}", run.stdout);
        let (expected, variance) = general_law(16.0, 11.0, 5.0, mean, sd);
        for (scale, factor) in [("none", 1.0), ("inv-sqrt-dk", 0.2f64.sqrt())] {
            let theory = |statistic: &str| number(row(&rows, statistic, scale, "5"), "theory");
            assert_close(theory("logit_mean"), expected * factor, 1e-13, line);
            assert_close(theory("logit_variance"), variance * factor * factor, 1e-13, line);
        }
    }
}

#[test]
fn the_assumption_rows_keep_the_derivations_values_as_theory() {
    let rows = records(&attn("variance -q --dk 5 -n 16 --trials 200 --mean 0.5 --sd 1.1").stdout);
    for (statistic, theory) in [("q_mean", 0.0), ("q_variance", 1.0), ("k_mean", 0.0), ("k_variance", 1.0)] {
        let row = row(&rows, statistic, "", "5");
        assert_eq!(number(row, "theory"), theory);
        assert_eq!(row["verdict"], "rejected", "{statistic}");
    }
}

#[test]
fn a_correlation_of_query_and_key_is_rejected_and_its_diagonal_follows_theory() {
    let run = attn("variance -q --dk 16 -n 64 --trials 4000 --detect 20% --false-alarm 1e-2 --correlation -0.5");
    let rows = records(&run.stdout);
    assert_eq!(run.code, Some(1));
    assert_eq!(row(&rows, "qk_correlation", "", "16")["verdict"], "rejected");
    for scale in ["none", "inv-sqrt-dk"] {
        for statistic in ["logit_mean", "logit_variance", "diagonal_mean", "diagonal_variance"] {
            let row = row(&rows, statistic, scale, "16");
            assert_eq!(row["verdict"], "upheld", "{row:?}");
        }
        // Without theory there is nothing to uphold.
        assert_eq!(row(&rows, "logit_kurtosis", scale, "16")["verdict"], "measured");
    }
}

#[test]
fn a_planned_run_with_correlated_tokens_judges_every_row_that_has_a_theory() {
    let run = attn("variance -q --dk 5 -n 16 --detect 20% --correlation 0.5");
    let rows = records(&run.stdout);
    for row in rows.iter().filter(|row| !row["theory"].is_empty()) {
        let expected = if row["statistic"] == "qk_correlation" { "rejected" } else { "upheld" };
        assert_eq!(row["verdict"], expected, "{row:?}");
    }
}

#[test]
fn a_rejection_outranks_what_is_undecided() {
    let run = attn(&format!("{SMALL} --sd 3"));
    let rows = records(&run.stdout);
    let all: Vec<String> = verdicts(&rows, |_| true).into_iter().map(|(_, verdict)| verdict).collect();
    assert!(all.contains(&"rejected".to_string()) && all.contains(&"undecided".to_string()), "{all:?}");
    assert_eq!(run.code, Some(1));
}

#[test]
fn the_exit_code_is_the_same_in_every_format() {
    for format in ["csv", "json", "markdown", "table"] {
        assert_eq!(attn(&format!("{SMALL} --format {format}")).code, Some(3), "{format}");
        assert_eq!(attn(&format!("{SMALL} --sd 3 --format {format}")).code, Some(1), "{format}");
    }
}
