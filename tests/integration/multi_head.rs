//! `attn multi-head` as a program.

use std::process::{Command, Output};

use crate::program::{Record, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("multi-head").args(arguments).output();
    program.expect("the program starts")
}

/// A run of a small layer: 23 is no multiple of 3, so the width of a head is given.
fn small(extra: &[&str]) -> Output {
    let heads: &[&str] = if extra.contains(&"--heads") { &[] } else { &["--heads", "3"] };
    let sizes = [
        "--d-model",
        "23",
        "--dk",
        "5",
        "-n",
        "31",
        "--trials",
        "2000",
        "--false-alarm",
        "0.05",
        "--detect",
        "50%",
        "-q",
    ];
    attn(&[&sizes, heads, extra].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

/// Theory of a statistic at a scale.
fn theory(rows: &[Record], statistic: &str, scale: &str) -> f64 {
    let row = rows.iter().find(|row| row["statistic"] == statistic && row["scale"] == scale);
    let row = row.unwrap_or_else(|| panic!("no {statistic} {scale}"));
    row["theory"].parse().unwrap_or_else(|_| panic!("{statistic} has theory '{}'", row["theory"]))
}

#[test]
fn a_correct_layer_is_upheld_with_a_row_for_each_head() {
    let output = small(&["--format", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let rows = rows(&output);
    for head in 1..=3 {
        assert_eq!(theory(&rows, &format!("logit_mean:head{head}"), "none"), 0.0);
        assert_eq!(theory(&rows, &format!("logit_variance:head{head}"), "none"), 5.0);
        assert_eq!(theory(&rows, &format!("logit_variance:head{head}"), "inv-sqrt-dk"), 1.0);
    }
    assert!(!rows.iter().any(|row| row["statistic"] == "logit_mean:head4"));
    // 3h + 1, and 9·23·5 + 15·23.
    assert_eq!((theory(&rows, "weight_matrices", ""), theory(&rows, "parameters", "")), (10.0, 1380.0));
    assert_eq!(theory(&rows, "transpose_correlation", ""), 1.0 / 23.0);
    for row in &rows {
        let verdict = if row["statistic"] == "output_variance" { "measured" } else { "upheld" };
        assert_eq!(row["verdict"], verdict, "{row:?}");
        assert_eq!((row["d_k"].as_str(), row["n_queries"].as_str(), row["n_keys"].as_str()), ("5", "31", "31"));
    }
}

#[test]
fn tied_matrices_make_the_diagonal_stand_out_and_the_table_says_so() {
    let output = small(&["--tied", "--bias", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let found = rows(&output);
    // d(D + 1)/D, and what theory::multi_head derives at D + 1 = 24, by hand: (25·24 + 5·576 + 5·24)/529 − (5/23)².
    assert!((theory(&found, "diagonal_mean", "none") - 120.0 / 23.0).abs() < 1e-13);
    assert!((theory(&found, "logit_variance:head2", "none") - (3600.0 - 25.0) / 529.0).abs() < 1e-13);
    assert_eq!(theory(&found, "symmetry_error", ""), 0.0);
    assert_eq!(theory(&found, "weight_matrices", ""), 7.0);
    assert!(found.iter().any(|row| row["statistic"] == "bias_difference" && row["verdict"] == "upheld"));
    let table = text(&small(&["--tied", "--format", "table"]).stdout).replace('\n', " ");
    assert!(table.contains("2h + 1 = 7 matrices: W_q,1 … W_q,3 (23×5 each), W_k = W_q,"), "{table}");
    assert!(table.contains("√d_k = 2.24 in theory"), "{table}");
    assert!(table.contains("No shape holds the number of tokens"), "{table}");
}

#[test]
fn cross_attention_and_grouped_heads_have_their_sizes() {
    let output = small(&["--cross", "13", "--dv", "2", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let found = rows(&output);
    assert!(found.iter().all(|row| row["n_queries"] == "31" && row["n_keys"] == "13"));
    assert!(
        !found.iter().any(|row| row["statistic"] == "diagonal_mean" || row["statistic"] == "transpose_correlation")
    );
    // 2·3 matrices of 23×5, 3 of 23×2, one of 6×23.
    assert_eq!(theory(&found, "parameters", ""), 690.0 + 138.0 + 138.0);
    let grouped = small(&["--heads", "4", "--kv-heads", "2", "--format", "csv"]);
    assert_eq!(grouped.status.code(), Some(0), "{}", text(&grouped.stdout));
    let found = rows(&grouped);
    assert_eq!(theory(&found, "weight_matrices", ""), 9.0);
    assert_eq!(theory(&found, "head_correlation", ""), 0.0);
}

#[test]
fn threads_do_not_change_a_bit_and_trials_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let run = |threads: &str| {
        let (trials, plot) = (file(&format!("{threads}.csv")), file("heads.svg"));
        let output = small(&["--threads", threads, "--format", "csv", "--per-trial", &trials, "--plot", &plot]);
        (output.stdout, std::fs::read(trials).expect("written"))
    };
    let one = run("1");
    assert!(one.0.len() > 1000);
    assert_eq!(one, run("3"));
    let trials = text(&one.1);
    assert_eq!(trials.lines().count(), 2001);
    assert!(trials.lines().next().expect("a header").contains(",logit_variance:head3:inv-sqrt-dk"));
    let picture = std::fs::read_to_string(file("heads.svg")).expect("written");
    assert!(picture.contains("multi-head by head") && picture.contains("logit_variance, no scale"));
}

#[test]
fn bad_input_is_one_line_that_names_option_value_and_rule() {
    for (arguments, expected) in [
        (&["--heads", "3"][..], "--heads 3: must divide --d-model 512"),
        (&["--heads", "0"], "--heads 0: must be a whole number, at least 1"),
        (&["--d-model", "x"], "--d-model x: must be"),
        (&["--kv-heads", "3"], "--kv-heads 3: must divide --heads 8"),
        (&["--kv-heads", "2", "--tied"], "--kv-heads 2: tied matrices"),
        (&["--dv", "0"], "--dv 0: must be"),
        (&["--cross", "0"], "--cross 0: must be at least 1"),
        (&["-n", "1"], "--queries 1: self-attention needs at least 2 tokens"),
        (&["-m", "9"], "--keys 9: multi-head takes keys from"),
        (&["--mean", "1"], "--mean 1: multi-head draws"),
        (&["--sd", "2"], "--sd 2: multi-head draws"),
        (&["--correlation", "0.5"], "--correlation 0.5: multi-head draws"),
        (&["--precision", "f16"], "--precision f16: multi-head computes in f64"),
    ] {
        let output = attn(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
        assert!(error.starts_with(&format!("attn: error: {expected}")) && error.lines().count() == 1, "{error}");
    }
}
