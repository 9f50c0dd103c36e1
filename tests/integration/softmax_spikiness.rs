//! `attn softmax-spikiness` as a program.

use std::process::{Command, Output};

use crate::program::{Record, number, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("softmax-spikiness").args(arguments).output();
    program.expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

#[test]
fn the_theory_column_is_that_of_the_independent_golden_values() {
    let golden =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/theory/golden.csv")).expect("readable");
    let mut reader = csv::Reader::from_reader(golden.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let mut compared = 0;
    for record in reader.records() {
        let record = record.expect("a row");
        let field = |name: &str| record[names.iter().position(|other| other == name).expect(name)].to_string();
        let (d_k, keys, scale) = (field("d_k"), field("n_keys"), field("scale"));
        // A few points are enough here; the unit tests of the theory go through all of them.
        if !["4", "64"].contains(&d_k.as_str()) || !["16", "128"].contains(&keys.as_str()) {
            continue;
        }
        let output =
            attn(&["--dk", &d_k, "-n", "3", "-m", &keys, "--scale", &scale, "--trials", "40", "--format", "csv", "-q"]);
        let measured = rows(&output);
        let theory = |statistic: &str| {
            let row = measured.iter().find(|row| row["statistic"] == statistic).expect(statistic);
            assert_eq!(row["theory_kind"], "exact", "{statistic}");
            number(row, "theory")
        };
        for (statistic, column, digits) in [
            ("entropy", "entropy", "digits"),
            ("participation", "participation", "digits"),
            ("output_variance", "participation", "digits"),
            ("jacobian_frobenius", "jacobian_frobenius", "digits"),
            ("max_weight", "max_weight", "digits_max_weight"),
        ] {
            let (Ok(expected), Ok(digits)) = (field(column).parse::<f64>(), field(digits).parse::<i32>()) else {
                continue;
            };
            // The last digit the file claims is left out, as it says itself.
            let tolerance = 10f64.powi(1 - digits);
            let found = theory(statistic);
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "{statistic} at {d_k}, {keys}, {scale}: {found} {expected}"
            );
            compared += 1;
        }
        let trace = 1.0 - field("participation").parse::<f64>().expect("a number");
        assert!((theory("jacobian_trace") - trace).abs() < 1e-10);
    }
    assert!(compared >= 25, "{compared} values compared");
}

#[test]
fn a_correct_run_is_upheld_and_says_in_words_what_is_seen() {
    let shared = ["--dk", "64", "-n", "64", "--false-alarm", "0.001", "--detect", "5%", "--format", "table"];
    let output = attn(&shared);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}{}", text(&output.stderr));
    // √64/√(2 ln 64) = 2.77 and 1/√(2 ln 64) = 0.35.
    assert!(table.contains("Scale none: frozen: a few keys hold the weight"), "{table}");
    assert!(table.contains("Scale inv-sqrt-dk: far from freezing"), "{table}");
    assert!(table.contains("no row is saturated"), "{table}");
    let csv = attn(&[&shared[..8], &["--format", "csv"]].concat());
    assert!(!text(&csv.stdout).contains("frozen"), "remarks are no rows");
    assert_eq!(rows(&csv).len(), 16);
}

#[test]
fn a_sweep_shows_the_raw_rows_freezing_and_the_scaled_ones_not() {
    // 2 ln 64 = 8.3.
    let output = attn(&["--dk", "4..32", "-n", "64", "--trials", "40", "--format", "table", "-q"]);
    let table = text(&output.stdout).replace('\n', " ");
    assert!(
        table.contains("Scale none: near freezing, where rare condensed rows carry the means at d_k = 4, 8;"),
        "{table}"
    );
    assert!(table.contains("frozen: a few keys hold the weight at d_k = 16, 32;"), "{table}");
    assert!(table.contains("Scale inv-sqrt-dk: far from freezing at d_k = 4, 8, 16, 32;"), "{table}");
}

#[test]
fn threads_do_not_change_a_bit() {
    let run = |threads: &str| {
        attn(&["--dk", "7,16", "-n", "37", "-m", "41", "--trials", "60", "--threads", threads, "--format", "csv", "-q"])
            .stdout
    };
    let one = run("1");
    assert!(one.len() > 1000);
    assert_eq!(one, run("2"));
    assert_eq!(one, run("5"));
}

#[test]
fn bad_input_is_one_line_that_names_option_value_and_rule() {
    for value in ["2", "1", "0", "-0.5", "nan", "inf", "x", ""] {
        let output = attn(&["--saturated-above", value]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{value}: {error}");
        assert!(output.stdout.is_empty());
        assert!(error.starts_with("attn: error: --saturated-above") && error.lines().count() == 1, "{error}");
        assert!(error.contains("must be"), "{error}");
    }
    assert_eq!(attn(&["--scale", "0"]).status.code(), Some(2));
}

#[test]
fn rows_without_theory_are_measured_and_rough_theory_does_not_reject() {
    let small = |extra: &[&str]| {
        attn(&[&["--dk", "16", "-n", "24", "--trials", "120", "--format", "csv", "-q"], extra].concat())
    };
    for extra in [["--mean", "0.5"], ["--correlation", "0.5"]] {
        let measured = rows(&small(&extra));
        let entropies: Vec<_> = measured.iter().filter(|row| row["statistic"] == "entropy").collect();
        assert_eq!(entropies.len(), 2);
        assert!(entropies.iter().all(|row| row["theory"].is_empty() && row["verdict"] == "measured"), "{extra:?}");
    }
    let output = small(&["--entries", "rademacher"]);
    let rough = rows(&output);
    assert!(rough.iter().all(|row| row["verdict"] != "rejected"), "{}", text(&output.stdout));
    let entropy = rough.iter().find(|row| row["statistic"] == "entropy").expect("a row");
    assert_eq!(entropy["theory_kind"], "approximate");
    let freezing = rough.iter().find(|row| row["statistic"] == "freezing").expect("a row");
    assert_eq!(freezing["theory_kind"], "exact");
}

#[test]
fn half_types_show_underflow_and_row_sums() {
    let output = attn(&["--dk", "256", "-n", "64", "--trials", "40", "--precision", "f16", "--format", "csv", "-q"]);
    let measured = rows(&output);
    let value = |statistic: &str, scale: &str| {
        let row = measured.iter().find(|row| row["statistic"] == statistic && row["scale"] == scale).expect(statistic);
        assert_eq!(row["verdict"], "measured");
        number(row, "estimate")
    };
    // Raw logits have a standard deviation of 16: most weights are more than ln(2^25) = 17.3 below the largest.
    assert!(value("underflowed_weights", "none") > 0.5);
    assert_eq!(value("underflowed_weights", "inv-sqrt-dk"), 0.0);
    // 64 weights of about 1/64, each rounded to 2^-12 of itself at most.
    let error = value("row_sum_error", "inv-sqrt-dk");
    assert!(error > 0.0 && error < 2f64.powi(-11), "{error}");
}

#[test]
fn one_key_is_one_hot_and_two_keys_are_judged() {
    let output = attn(&["--dk", "3", "-n", "5", "-m", "1", "--format", "csv", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let fixed = rows(&output);
    let value = |statistic: &str| {
        let row = fixed.iter().find(|row| row["statistic"] == statistic).expect(statistic);
        (number(row, "estimate"), number(row, "theory"))
    };
    assert_eq!(
        (value("entropy"), value("participation"), value("jacobian_trace")),
        ((0.0, 0.0), (1.0, 1.0), (0.0, 0.0))
    );
    assert!(fixed.iter().all(|row| row["statistic"] != "freezing"), "one key has no freezing point");
    let two = rows(&attn(&[
        "--dk",
        "3",
        "-n",
        "16",
        "-m",
        "2",
        "--trials",
        "400",
        "--false-alarm",
        "0.01",
        "--format",
        "csv",
        "-q",
    ]));
    assert!(two.iter().all(|row| row["verdict"] != "rejected"));
    assert!(two.iter().any(|row| row["statistic"] == "entropy" && !row["p_value"].is_empty()));
}
