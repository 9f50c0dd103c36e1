//! `attn depth` as a program.

use std::collections::HashMap;
use std::process::{Command, Output};

use crate::program::{Record, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("depth").args(arguments).output();
    program.expect("the program starts")
}

fn small(extra: &[&str]) -> Output {
    let sizes = [
        "--d-model",
        "12",
        "--heads",
        "3",
        "-n",
        "13",
        "--layers",
        "5",
        "--trials",
        "3000",
        "--false-alarm",
        "0.01",
        "--detect",
        "50%",
        "-q",
    ];
    attn(&[&sizes, extra].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Rows by statistic.
fn rows(output: &Output) -> HashMap<String, Record> {
    records(&text(&output.stdout)).into_iter().map(|row| (row["statistic"].clone(), row)).collect()
}

fn estimate(output: &Output, statistic: &str) -> f64 {
    let rows = rows(output);
    let row = rows.get(statistic).unwrap_or_else(|| panic!("no {statistic}: {}", text(&output.stdout)));
    row["estimate"].parse().expect("a number")
}

#[test]
fn pure_attention_collapses_and_the_residual_stops_it() {
    let pure = small(&["--norm", "none", "--no-residual", "--no-mlp", "--format", "csv"]);
    assert_eq!(pure.status.code(), Some(0), "{}{}", text(&pure.stdout), text(&pure.stderr));
    let cosines: Vec<f64> = (0..=5).map(|layer| estimate(&pure, &format!("token_cosine:layer{layer}"))).collect();
    assert!(cosines[0].abs() < 0.05 && cosines[4] > 0.999, "{cosines:?}");
    // Uniform weights: ln 13 nats; the logits of tokens that are alike do not vary.
    assert!((estimate(&pure, "entropy:layer5") - 13f64.ln()).abs() < 1e-3);
    assert!(estimate(&pure, "logit_variance:layer5") < 1e-4);
    let residual = small(&["--norm", "none", "--no-mlp", "--format", "csv"]);
    assert!(estimate(&residual, "token_cosine:layer5") < 0.7);
    assert!((estimate(&residual, "carried_over:layer5") - 1.0).abs() < 0.1);
    let table = |extra: &[&str]| text(&small(&[extra, &["--format", "table"]].concat()).stdout).replace('\n', " ");
    let words = table(&["--norm", "none", "--no-residual", "--no-mlp"]);
    assert!(words.contains("Pure attention, no norm: the tokens collapse to one"), "{words}");
    assert!(words.contains("Dong et al. 2021"), "{words}");
    let words = table(&["--norm", "none", "--no-mlp"]);
    assert!(words.contains("the residual slows the collapse"), "{words}");
}

#[test]
fn claims_are_upheld_where_theory_has_a_value_and_the_rest_is_measured() {
    let output = small(&["--format", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let rows = rows(&output);
    assert_eq!(rows.len(), 3 + 8 * 5);
    for (statistic, theory) in [
        ("token_mean:layer0", "0"),
        ("token_cosine:layer0", "0"),
        ("token_mean:layer5", "0"),
        ("token_variance:layer5", "1"),
    ] {
        let row = &rows[statistic];
        assert_eq!((row["theory"].as_str(), row["verdict"].as_str()), (theory, "upheld"), "{statistic}");
    }
    let number = |statistic: &str| rows[statistic]["theory"].parse::<f64>().expect("a number");
    assert!((number("token_variance:layer0") - 11.0 / 12.0).abs() < 1e-15);
    // N = 156 pairs of 13 tokens, D = 12: (155 − 1/12)/155 after the scale 1/√d_k.
    assert!((number("logit_variance:layer1") - (155.0 - 1.0 / 12.0) / 155.0).abs() < 1e-15);
    for statistic in ["token_cosine:layer3", "entropy:layer1", "gradient_scale:layer5", "logit_variance:layer2"] {
        assert_eq!((rows[statistic]["theory"].as_str(), rows[statistic]["verdict"].as_str()), ("", "measured"));
    }
}

#[test]
fn a_deeper_stack_begins_with_the_same_layers() {
    let run = |layers: &str| {
        let output = attn(&[
            "--d-model",
            "8",
            "--heads",
            "2",
            "-n",
            "3",
            "--layers",
            layers,
            "--trials",
            "40",
            "-q",
            "--format",
            "csv",
        ]);
        (estimate(&output, "gradient_scale:layer2"), estimate(&output, "token_cosine:layer2"))
    };
    assert_eq!(run("2"), run("4"));
}

#[test]
fn threads_do_not_change_a_bit_and_the_picture_has_a_panel_for_each_statistic() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("depth.svg").to_string_lossy().into_owned();
    let run =
        |threads: &str| small(&["--norm", "pre", "--threads", threads, "--format", "csv", "--plot", &file]).stdout;
    let one = run("1");
    assert!(one.len() > 1000);
    assert_eq!(one, run("3"));
    let picture = std::fs::read_to_string(&file).expect("written");
    for name in ["depth by layer", "token_cosine", "gradient_scale", "entropy, scale 1/√d_k"] {
        assert!(picture.contains(name), "{name}");
    }
}

#[test]
fn bad_input_is_one_line_that_names_option_value_and_rule() {
    for (arguments, expected) in [
        (&["--layers", "0"][..], "--layers 0: must be a whole number, at least 1"),
        (&["--layers", "5000"], "--layers 5000: must be at most 4096"),
        (&["--d-model", "1"], "--d-model 1: must be at least 2"),
        (&["--heads", "3"], "--heads 3: must divide --d-model 64"),
        (&["--norm", "both"], "--norm both: must be post, pre or none"),
        (&["--d-ff", "9", "--no-mlp"], "--d-ff 9: there is no MLP with --no-mlp"),
        (&["--scale", "none,inv-dk"], "--scale none,inv-dk: a stack has one scale"),
        (&["-n", "1"], "--queries 1: must be at least 2"),
        (&["-m", "5"], "--keys 5: depth takes keys from"),
        (&["--mean", "1"], "--mean 1: depth draws"),
        (&["--precision", "f32"], "--precision f32: depth computes in f64"),
    ] {
        let output = attn(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.starts_with(&format!("attn: error: {expected}")) && error.lines().count() == 1, "{error}");
    }
}
