//! `attn complexity` as a program.

use std::process::{Command, Output};

use crate::program::{Record, number, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("complexity").args(arguments).output();
    program.expect("the program starts")
}

/// Small and fast: 4 points, a quarter of a second for the times.
const SMALL: [&str; 10] =
    ["-n", "13,29,61", "--dk", "5,11", "--time-budget", "250ms", "--format", "csv", "-q", "--threads=1"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

fn run(more: &[&str]) -> (Vec<Record>, Option<i32>) {
    let output = attn(&[&SMALL[..], more].concat());
    let found = rows(&output);
    assert!(!found.is_empty(), "{}", text(&output.stderr));
    (found, output.status.code())
}

/// Operations of a stage (of one kernel, where it has one) at n and d_k.
fn operations(rows: &[Record], stage: &str, n: &str, d_k: &str) -> u64 {
    let row = rows
        .iter()
        .find(|row| row["stage"] == stage && row["n"] == n && row["d_k"] == d_k && row["exponent_of"].is_empty());
    row.unwrap_or_else(|| panic!("{stage} at {n}, {d_k}"))["operations"].parse().expect("a count")
}

#[test]
fn the_counts_are_those_of_the_theory_and_the_outputs_agree() {
    let (rows, code) = run(&[]);
    assert_eq!(code, Some(0));
    // THEORY.md, section 6: 2nmd_k, 6nm, 2nmd_v.
    assert_eq!(operations(&rows, "qk", "61", "5"), 2 * 61 * 61 * 5);
    assert_eq!(operations(&rows, "scale_softmax", "29", "11"), 6 * 29 * 29);
    assert_eq!(operations(&rows, "pv", "13", "11"), 2 * 13 * 13 * 11);
    assert_eq!(operations(&rows, "total", "61", "11"), 61 * 61 * (22 + 6 + 22));
    let checks: Vec<&Record> = rows.iter().filter(|row| !row["bound"].is_empty()).collect();
    // At each of 4 points: counts, two kernels against the definition, one against the other.
    assert_eq!(checks.len(), 16);
    assert!(checks.iter().all(|row| row["verdict"] == "upheld" && number(row, "difference") <= number(row, "bound")));
    let timed: Vec<&Record> = rows.iter().filter(|row| !row["seconds"].is_empty()).collect();
    assert_eq!(timed.len(), 4 * 5);
    for row in timed {
        let rate = number(row, "operations") / number(row, "seconds");
        assert!((number(row, "operations_per_second") / rate - 1.0).abs() < 1e-12);
        if !row["seconds_low"].is_empty() {
            assert!(
                number(row, "seconds_low") <= number(row, "seconds")
                    && number(row, "seconds") <= number(row, "seconds_high")
            );
        }
    }
}

#[test]
fn masks_sizes_that_differ_and_values_of_their_own_width_are_counted() {
    let (rows, code) = run(&["--mask", "causal@bottom-right", "--keys", "67", "--dv", "3"]);
    assert_eq!(code, Some(0));
    // Query i of 61 stands at key i + 6: 7 + … + 67 = 61·37 cells.
    let cells = 61 * 37;
    assert_eq!(operations(&rows, "qk", "61", "11"), 2 * cells * 11);
    assert_eq!(operations(&rows, "pv", "61", "11"), 2 * cells * 3);
    let (rows, _) = run(&["--mask", "causal"]);
    assert_eq!(
        operations(&rows, "qk", "61", "11"),
        61 * 62 * 11,
        "a causal mask leaves half, and half of the diagonal"
    );
    let (rows, _) = run(&["--mask", "window:7"]);
    assert_eq!(operations(&rows, "scale_softmax", "61", "11"), 6 * (61 * 7 - 21));
    let expected = rows.iter().find(|row| row["exponent_of"] == "n" && row["stage"] == "qk").expect("a fit");
    assert!(number(expected, "exponent_expected") < 1.3, "a window makes the cost linear in n: {expected:?}");
}

#[test]
fn memory_is_counted_beside_its_law() {
    let (rows, _) = run(&[]);
    let total = |kernel: &str| {
        rows.iter()
            .find(|row| row["stage"] == "total" && row["kernel"] == kernel && row["n"] == "61" && row["d_k"] == "11")
            .cloned()
    };
    let materialised = total("materialised").expect("a row");
    assert_eq!(number(&materialised, "bytes_law"), 61.0 * 61.0 * 4.0);
    assert!(number(&materialised, "bytes") >= 61.0 * 61.0 * 4.0, "the logits alone take that");
    let streaming = total("streaming").expect("a row");
    assert_eq!(number(&streaming, "bytes_law"), (61.0 * 22.0 + 61.0 * 11.0) * 4.0);
}

#[test]
fn long_sequences_need_n_m_numbers_materialised_and_n_d_streaming() {
    let output = attn(&["-n", "1024,2048", "--dk", "16", "--time-budget", "50ms", "--format", "csv", "-q"]);
    let rows = rows(&output);
    let bytes = |kernel: &str, n: &str| {
        let row = rows.iter().find(|row| row["stage"] == "total" && row["kernel"] == kernel && row["n"] == n);
        number(row.expect("a row"), "bytes")
    };
    // 2048² numbers of 4 bytes; what else there is (packed operands, the output) grows as n·d and is below a quarter of it.
    let logits = 4.0 * 2048.0 * 2048.0;
    assert!((1.0..1.25).contains(&(bytes("materialised", "2048") / logits)));
    assert!(bytes("materialised", "2048") / bytes("materialised", "1024") > 3.0);
    assert!(bytes("streaming", "2048") / bytes("streaming", "1024") < 2.2);
    assert!(bytes("streaming", "2048") < logits / 10.0);
}

#[test]
fn a_layer_its_equivalent_and_the_crossing_are_counted() {
    let (rows, code) = run(&["--layer", "--heads", "6", "--kv-heads", "2", "--d-model", "17", "--d-ff", "19"]);
    assert_eq!(code, Some(0));
    // n = 61, d_k = d_v = 11, 6 heads on 2.
    assert_eq!(operations(&rows, "projections", "61", "11"), 2 * 61 * 17 * (6 * 11 + 2 * 22 + 6 * 11));
    assert_eq!(operations(&rows, "mlp", "61", "11"), 4 * 61 * 17 * 19);
    assert_eq!(operations(&rows, "layer_norm", "61", "11"), 2 * 61 * (7 * 17 + 4));
    assert_eq!(operations(&rows, "fully_connected", "61", "11"), 2 * 61 * 61 * 17 * 17);
    let output = attn(&["-n", "16,32", "--dk", "64", "--layer", "--time-budget", "50ms", "--format", "table", "-q"]);
    // The base model: N·2096 ≥ 24·512² from N = 3002.
    assert!(text(&output.stdout).contains("N* = 3002 tokens"), "{}", text(&output.stdout));
}

#[test]
fn a_token_is_counted_and_timed_with_and_without_a_cache() {
    let (rows, code) = run(&["--cache", "--layer"]);
    assert_eq!(code, Some(0));
    let of = |stage: &str| {
        rows.iter()
            .find(|row| row["stage"] == stage && row["m"] == "61" && !row["operations"].is_empty())
            .cloned()
            .expect("a row")
    };
    let per_cell = 22.0 + 6.0 + 22.0;
    assert_eq!(number(&of("cached_token"), "operations"), 61.0 * per_cell);
    assert_eq!(number(&of("recomputed_token"), "operations"), 61.0 * 31.0 * per_cell);
    assert!(number(&of("cached_token"), "seconds") > 0.0 && number(&of("recomputed_token"), "seconds") > 0.0);
    assert!(number(&of("cached_token_layer"), "operations") < number(&of("recomputed_token_layer"), "operations"));
    let expected = |stage: &str| {
        number(
            rows.iter().find(|row| row["stage"] == stage && row["exponent_of"] == "n").expect("a fit"),
            "exponent_expected",
        )
    };
    assert!((expected("cached_token") - 1.0).abs() < 1e-9);
    // n(n + 1)/2 lies a little below n² at small n.
    assert!((1.9..2.0).contains(&expected("recomputed_token")));
}

#[test]
fn times_decide_the_exit_code_only_where_they_are_asked_to() {
    // Two sizes have no limits: undecided, if the times count.
    let two = ["-n", "13,29", "--dk", "5", "--time-budget", "100ms", "--format", "csv", "-q"];
    assert_eq!(attn(&two).status.code(), Some(0));
    let gated = attn(&[&two[..], &["--gate-time"]].concat());
    assert_eq!(gated.status.code(), Some(3), "{}", text(&gated.stdout));
    assert!(rows(&gated).iter().filter(|row| !row["exponent_of"].is_empty()).all(|row| row["verdict"] == "undecided"));
}

#[test]
fn one_kernel_alone_is_held_against_the_definition() {
    let (rows, code) = run(&["--kernel", "streaming", "--precision", "f64"]);
    assert_eq!(code, Some(0));
    assert!(rows.iter().all(|row| row["kernel"] != "materialised" && row["stage"] != "output_between_kernels"));
    let check = rows.iter().find(|row| row["stage"] == "output_against_definition").expect("a check");
    // 67 terms in f64: thousands of roundings at most.
    assert!(number(check, "bound") < 1e-11 && check["verdict"] == "upheld");
}

#[test]
fn a_table_says_the_law_in_words_and_a_picture_shows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("cost.svg");
    let arguments = ["-n", "32..256", "--dk", "8..32", "--time-budget", "500ms", "--format", "table", "-q", "--plot"];
    let output = attn(&[&arguments[..], &[picture.to_str().expect("UTF-8")]].concat());
    let table = text(&output.stdout);
    for part in
        ["The law: for each of the n·n cells QKᵀ takes 2·d_k operations", "O(n²·d_k)", "Peak memory", "0 failed"]
    {
        assert!(table.contains(part), "'{part}' in\n{table}");
    }
    let drawn = std::fs::read_to_string(picture).expect("the picture");
    assert!(drawn.contains("Time of attention by stage") && drawn.contains("total, streaming"));
}

#[test]
fn wrong_options_are_one_line_with_flag_value_and_rule() {
    let cases: [(&[&str], &str); 9] = [
        (&["--mask", "window:0"], "--mask window:0"),
        (&["--mask", "padding:3000"], "--mask padding:3000: there are only 512 keys"),
        (&["--kernel", "flash"], "--kernel flash: must be materialised, streaming or both"),
        (&["--precision", "bf16"], "--precision bf16: must be f32 or f64"),
        (&["--heads", "8"], "--heads 8: belongs to the layer"),
        (&["--layer", "--heads", "8", "--kv-heads", "3"], "--kv-heads 3: must divide --heads 8"),
        (&["--time-budget", "0s"], "--time-budget 0s: must be a time above 0"),
        (&["--keys", "5,7"], "--keys 5,7: must be one number"),
        (&["-n", "4000000000"], "--queries 4000000000 --dk 64,128,256,512: these sizes need"),
    ];
    for (arguments, message) in cases {
        let output = attn(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(message) && error.lines().count() == 1, "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_ends_with_examples_that_run() {
    let output = attn(&["--help"]);
    let help = text(&output.stdout);
    let examples = help.split("Examples:").nth(1).expect("examples");
    assert!(examples.lines().filter(|line| line.trim().starts_with("attn complexity")).count() >= 2);
}
