//! `attn kv-cache` as a program.

use std::process::{Command, Output};

use crate::program::{Record, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("kv-cache").args(arguments).output();
    program.expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

fn number(rows: &[Record], statistic: &str, field: &str) -> f64 {
    let row = rows.iter().find(|row| row["statistic"] == statistic).expect(statistic);
    row[field].parse().unwrap_or_else(|_| panic!("{field} of {statistic} is '{}'", row[field]))
}

const SMALL: [&str; 14] =
    ["--dk", "10", "--dv", "7", "-n", "37", "-m", "11", "--heads", "6", "--kv-heads", "2", "--trials", "3"];

#[test]
fn decoding_equals_the_full_pass_and_costs_what_the_formulas_say() {
    for precision in ["f64", "f32", "bf16", "f16"] {
        for extra in [&[][..], &["--window", "5", "--chunk", "3"], &["--prefill", "0"], &["--rotary", "interleaved"]] {
            let shared = ["--generate", "5", "--precision", precision, "--format", "csv", "-q"];
            let output = attn(&[&SMALL[..], &shared, extra].concat());
            assert_eq!(output.status.code(), Some(0), "{extra:?} {}{}", text(&output.stdout), text(&output.stderr));
            let rows = rows(&output);
            let share = number(&rows, "bound_share", "estimate");
            // Rounded to a half type, outputs of two orders of the sums are mostly the same.
            let differs = share > 0.0 || precision.ends_with("16");
            assert!(differs && share < 1.0, "{precision} {extra:?}: {share}");
            assert_eq!(number(&rows, "sequence_difference", "estimate"), 0.0);
            assert!(number(&rows, "output_difference", "estimate") <= number(&rows, "rounding_bound", "estimate"));
        }
    }
}

#[test]
fn counts_and_memory_are_those_of_the_closed_formulas() {
    let rows = rows(&attn(&[&SMALL[..], &["--generate", "0", "--precision", "f16", "--format", "csv", "-q"]].concat()));
    // h·v·(2d_k + 2d_v + 6) = 6·v·40; positions 18 to 36 see 19 to 37 keys, 28 on average.
    assert_eq!(number(&rows, "operations_per_token", "estimate"), 240.0 * 28.0);
    assert_eq!(number(&rows, "operations_cached:36", "estimate"), 240.0 * 37.0);
    assert_eq!(number(&rows, "operations_uncached:36", "estimate"), 240.0 * 37.0 * 38.0 / 2.0);
    // n·h_kv·(d_k + d_v) numbers of two bytes.
    assert_eq!(number(&rows, "cache_numbers", "estimate"), 37.0 * 2.0 * 17.0);
    assert_eq!(number(&rows, "cache_bytes", "estimate"), 2.0 * 37.0 * 2.0 * 17.0);
    assert!(
        rows.iter().all(|row| row["statistic"] != "sequence_difference" && !row["statistic"].starts_with("seconds"))
    );
}

#[test]
fn a_window_keeps_as_many_tokens_as_it_needs_and_names_itself() {
    let output = attn(&[&SMALL[..], &["--window", "5", "--chunk", "3", "--format", "csv", "-q"]].concat());
    let rows = rows(&output);
    // W + C − 1 = 7 slots of f64.
    assert_eq!(number(&rows, "cache_bytes", "estimate"), 8.0 * 7.0 * 2.0 * 17.0);
    assert_eq!(number(&rows, "operations_cached:36", "estimate"), 240.0 * 5.0);
    assert!(rows.iter().all(|row| row["mask"] == "window:5"));
}

#[test]
fn time_is_measured_when_asked_for_and_never_judged() {
    let output = attn(&[&SMALL[..], &["--time", "--format", "csv", "-q"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let seconds: Vec<Record> =
        rows(&output).into_iter().filter(|row| row["statistic"].starts_with("seconds")).collect();
    assert_eq!(seconds.len(), 6);
    assert!(
        seconds.iter().all(|row| row["verdict"] == "measured" && row["estimate"].parse::<f64>().is_ok_and(|s| s > 0.0))
    );
}

#[test]
fn bad_input_is_one_line_that_names_option_value_and_rule() {
    for (arguments, words) in [
        (&["--heads", "0"][..], "--heads 0: must be a whole number, at least 1"),
        (&["--heads", "6", "--kv-heads", "4"], "--kv-heads 4: must divide --heads 6"),
        (&["--dk", "7"], "--dk 7: must be even"),
        (&["-n", "8", "--prefill", "8"], "--prefill 8: must be below --queries 8"),
        (&["--prefill", "-1"], "--prefill -1: must be a whole number"),
        (&["--chunk", "0"], "--chunk 0: must be a whole number, at least 1"),
        (&["--window", "0"], "--window 0: must be a whole number, at least 1"),
        (&["--dv", "x"], "--dv x: must be a whole number"),
        (&["--rotary", "yes"], "--rotary yes: must be half-split or interleaved, or none"),
        (&["--generate", "-3"], "--generate -3: must be a whole number"),
        (&["--scale", "none,inv-dk"], "--scale none,inv-dk: must be one scale here"),
        (&["--correlation", "0.5"], "--correlation 0.5: must be 0 here"),
        (&["-n", "4000000000"], "at most 1048576 tokens"),
        (&["--dk", "4000000000", "-n", "3"], "at most 4194304"),
        (&["-m", "1000000", "--dk", "512", "-n", "3"], "at most 268435456"),
    ] {
        let output = attn(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            output.stdout.is_empty() && error.starts_with("attn: error: ") && error.lines().count() == 1,
            "{error}"
        );
        assert!(error.contains(words), "{error}");
    }
    // Without rotary positions an odd width is as good as any.
    let odd = attn(&["--dk", "7", "-n", "9", "--rotary", "none", "--trials", "1", "-q", "--generate", "3"]);
    assert_eq!(odd.status.code(), Some(0), "{}", text(&odd.stderr));
}

#[test]
fn threads_do_not_change_a_bit_and_one_token_is_enough() {
    let run = |threads: &str| attn(&[&SMALL[..], &["--threads", threads, "-q"]].concat()).stdout;
    let one = run("1");
    assert!(one.len() > 1000);
    assert_eq!(one, run("3"));
    let single = attn(&["--dk", "2", "-n", "1", "-m", "1", "--heads", "1", "--trials", "1", "--generate", "1", "-q"]);
    assert_eq!(single.status.code(), Some(0), "{}", text(&single.stderr));
}

#[test]
fn the_picture_holds_both_laws_and_a_table_says_what_is_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cost.svg");
    let output = attn(&[&SMALL[..], &["-q", "--format", "table", "--plot", file.to_str().expect("UTF-8")]].concat());
    let picture = std::fs::read_to_string(&file).expect("written");
    assert!(picture.contains("without it") && picture.contains("closed formula"), "{picture}");
    // 37·38/2 over 37.
    let table = text(&output.stdout).replace('\n', " ");
    assert!(table.contains("At position 36 the cache saves a factor of 19"), "{table}");
}
