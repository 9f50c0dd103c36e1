//! `attn mask` as a program: each fault that an option or a file can make, and the words that name it.

use std::path::Path;
use std::process::{Command, Output};

use crate::program::{Record, number, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("mask").args(arguments).output();
    program.expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

fn row<'a>(rows: &'a [Record], statistic: &str) -> &'a Record {
    rows.iter().find(|row| row["statistic"] == statistic).unwrap_or_else(|| panic!("no {statistic}"))
}

/// Runs few trials of a small size; returns the exit code, the rows and, from a second run, the table with its remarks.
fn run(arguments: &[&str]) -> (i32, Vec<Record>, String) {
    let common = ["--trials", "40", "--dk", "16", "-q", "--threads", "1"];
    let csv = attn(&[arguments, &common].concat());
    let table = attn(&[arguments, &common, &["--format", "table"]].concat());
    let code = csv.status.code().expect("an exit code");
    assert_eq!(table.status.code(), Some(code), "{}", text(&table.stderr));
    (code, rows(&csv), text(&table.stdout).split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_correct_mask_is_upheld_in_every_arithmetic() {
    for precision in ["f64", "f32", "bf16", "f16"] {
        let output = attn(&["-n", "24", "--detect", "5%", "--false-alarm", "1e-3", "-q", "--precision", precision]);
        assert_eq!(output.status.code(), Some(0), "{precision}: {}", text(&output.stdout));
        let rows = rows(&output);
        for statistic in ["masked_weight_max", "leak", "leak_nonfinite", "gradient_leak"] {
            assert_eq!(number(row(&rows, statistic), "estimate"), 0.0, "{precision} {statistic}");
        }
        // 1 + 2 + … + 24 = 300 of 576.
        assert_eq!(number(row(&rows, "visible_share"), "theory"), 300.0 / 576.0);
        assert_eq!(row(&rows, "entropy")["mask"], "causal");
    }
}

#[test]
fn theory_of_each_row_is_that_of_as_many_keys() {
    // Record i of a causal mask sees i + 1 keys: golden.csv has exact values for 2, 5 and 16 keys.
    let golden =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/theory/golden.csv")).expect("there");
    let mut reader = csv::Reader::from_reader(golden.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let output = attn(&["--dk", "64", "-n", "17", "--by-row", "--trials", "40", "-q", "--scale", "inv-sqrt-dk,none"]);
    let rows = rows(&output);
    let mut compared = 0;
    for record in reader.records() {
        let record = record.expect("a row");
        let field = |name: &str| record[names.iter().position(|other| other == name).expect(name)].to_string();
        let keys: usize = field("n_keys").parse().expect("a number");
        if field("d_k") != "64" || keys > 17 || field("scale") == "inv-dk" {
            continue;
        }
        for statistic in ["entropy", "participation"] {
            let own = |row: &&Record| {
                row["statistic"] == statistic
                    && row["index"] == (keys - 1).to_string()
                    && row["scale"] == field("scale")
            };
            let theory = number(rows.iter().find(own).expect("a row for each query"), "theory");
            let (Ok(expected), Ok(digits)) = (field(statistic).parse::<f64>(), field("digits").parse::<i32>()) else {
                continue;
            };
            assert!(
                (theory / expected - 1.0).abs() < 10f64.powi(1 - digits),
                "{statistic} {keys}: {theory} {expected}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared}");
    // The average is that of the rows.
    let of_rows: Vec<f64> = rows
        .iter()
        .filter(|row| row["statistic"] == "entropy" && !row["index"].is_empty() && row["scale"] == "none")
        .map(|row| number(row, "theory"))
        .collect();
    let averaged =
        rows.iter().find(|row| row["statistic"] == "entropy" && row["index"].is_empty() && row["scale"] == "none");
    let mean = of_rows.iter().sum::<f64>() / of_rows.len() as f64;
    assert_eq!(of_rows.len(), 17);
    assert!((number(averaged.expect("an average"), "theory") / mean - 1.0).abs() < 1e-14);
}

#[test]
fn fills_show_their_faults() {
    // A fill that leaks weight: exp(−20) of a row.
    let (code, rows, words) = run(&["-n", "13", "--fill", "-20"]);
    assert_eq!(code, 1);
    let weight = number(row(&rows, "masked_weight_max"), "estimate");
    assert!(weight > 0.1 * (-20f64).exp() && weight < 100.0 * (-20f64).exp(), "{weight:e}");
    assert!(words.contains("Fill -20 leaks: a hidden key has weight exp(fill"), "{words}");

    // Fills that hide by their size: no weight leaks, but NaN does.
    for arguments in [
        &["-n", "13", "--fill", "-1e9"][..],
        &["-n", "13", "--fill", "min"],
        &["-n", "13", "--fill", "-1e4", "--precision", "f16"],
    ] {
        let (code, rows, words) = run(arguments);
        assert_eq!(code, 1, "{arguments:?}");
        assert_eq!(number(row(&rows, "masked_weight_max"), "estimate"), 0.0);
        assert_eq!(number(row(&rows, "leak_nonfinite"), "estimate"), 1.0);
        assert_eq!(row(&rows, "leak_nonfinite")["verdict"], "rejected");
        assert!(words.contains("leaks no weight") && words.contains("0·NaN is NaN"), "{words}");
    }
    // −10⁴ lies so far below a row's largest logit.
    let (_, rows, _) = run(&["-n", "13", "--fill", "-1e4", "--precision", "f16"]);
    let margin = number(row(&rows, "fill_margin"), "estimate");
    assert!((9990.0..10010.0).contains(&margin), "{margin}");

    // Hidden values selected away, the same fills are sound (40 trials do not judge the entropy).
    for fill in ["-1e9", "min"] {
        let (code, rows, words) = run(&["-n", "13", "--fill", fill, "--hidden-values", "select"]);
        assert_eq!((code, number(row(&rows, "leak_nonfinite"), "estimate")), (3, 0.0));
        assert!(!words.contains("0·NaN"), "{words}");
    }
    // And −∞ is not where they are multiplied.
    let (code, rows, words) = run(&["-n", "13", "--hidden-values", "multiply"]);
    assert_eq!((code, number(row(&rows, "leak_nonfinite"), "estimate")), (1, 1.0));
    assert!(words.contains("0·NaN is NaN") && row(&rows, "leak")["mask"] == "causal multiplied", "{words}");

    // −10⁹ is −∞ in f16.
    let (code, _, words) = run(&["-n", "13", "--fill", "-1e9", "--precision", "f16", "--hidden-values", "select"]);
    assert_eq!(code, 3);
    assert!(words.contains("Fill -1e9 does not fit f16 and becomes −∞"), "{words}");
    let (_, _, words) = run(&["-n", "13", "--fill", "1e9"]);
    assert!(words.contains("A lost minus sign?"), "{words}");

    // Multiplied by a 0/1 mask (field reports MA-05).
    let (code, _, words) = run(&["-n", "13", "--fill", "0"]);
    assert_eq!(code, 1);
    assert!(words.contains("as if scores had been multiplied by a 0/1 mask"), "{words}");

    // Rows without keys under a finite fill (field reports MA-10): 1/11 for each hidden key.
    let (code, rows, words) = run(&["--kind", "causal@bottom-right", "-n", "17", "-m", "11", "--fill", "min"]);
    assert_eq!(code, 1);
    assert_eq!(number(row(&rows, "masked_weight_max"), "estimate"), 1.0 / 11.0);
    assert_eq!(
        (number(row(&rows, "fully_masked_rows"), "estimate"), number(row(&rows, "fully_masked_rows"), "theory")),
        (0.0, 6.0)
    );
    assert!(
        words.contains("each of 6 queries sees no key") && words.contains("With -inf such a row is zero"),
        "{words}"
    );
    let (code, rows, _) = run(&["--kind", "causal@bottom-right", "-n", "17", "-m", "11"]);
    assert_eq!((code, number(row(&rows, "fully_masked_rows"), "estimate")), (3, 6.0));
}

#[test]
fn a_mask_after_the_softmax_shows_in_the_row_sums() {
    let (code, rows, words) = run(&["-n", "13", "--apply", "after"]);
    assert_eq!(code, 1);
    // Query 0 keeps one of 13 weights.
    assert!(number(row(&rows, "row_sum_error"), "estimate") > 0.5);
    for statistic in ["row_sum_error", "leak", "gradient_leak"] {
        assert_eq!(row(&rows, statistic)["verdict"], "rejected", "{statistic}");
    }
    assert!(words.contains("set to 0 after the softmax") && words.contains("before the softmax"), "{words}");
    assert_eq!(row(&rows, "leak")["mask"], "causal after softmax");
}

#[test]
fn another_alignment_than_the_claimed_one_is_named() {
    let (code, rows, words) = run(&["--kind", "causal", "--claim", "causal@bottom-right", "-n", "5", "-m", "12"]);
    assert_eq!(code, 1);
    // 1 + … + 5 = 15 of 60 shown, 8 + … + 12 = 50 claimed.
    assert_eq!(number(row(&rows, "visible_share"), "estimate"), 0.25);
    assert_eq!(number(row(&rows, "visible_share"), "theory"), 50.0 / 60.0);
    assert!(words.contains("Wrong alignment: top-left where bottom-right is claimed"), "{words}");
    assert!(words.contains("every query stands 7 keys off"), "{words}");
    assert!(words.contains("it hides 35 (the first: query 0, key 1)"), "{words}");
    // Square, the two are one.
    let (code, _, words) = run(&["--kind", "causal", "--claim", "causal@bottom-right", "-n", "12"]);
    assert_eq!(code, 3);
    assert!(words.contains("this run does not tell them apart"), "{words}");
    // --align stands for a kind without its own.
    let (_, rows, _) = run(&["--kind", "causal", "--align", "bottom-right", "-n", "5", "-m", "12"]);
    assert_eq!(number(row(&rows, "visible_share"), "estimate"), 50.0 / 60.0);
}

#[test]
fn a_window_off_by_one_is_named() {
    let (code, rows, words) = run(&["--kind", "window:6", "--claim", "window:5", "-n", "13"]);
    assert_eq!(code, 1);
    assert!(words.contains("Window off by one: 6 keys with the query's own where 5 are claimed"), "{words}");
    // Queries 5 to 12 see one key too many.
    assert!(words.contains("it shows 8 (the first: query 5, key 0)"), "{words}");
    assert_eq!(row(&rows, "leak")["verdict"], "rejected");
    let (code, _, words) = run(&["--kind", "window:4", "--claim", "window:5", "-n", "13"]);
    assert_eq!(code, 1);
    assert!(words.contains("Window off by one: 4 keys"), "{words}");
}

#[test]
fn mask_files_are_described_and_checked() {
    let golden = |name: &str| format!("file:{}/tests/golden/masks/{name}.npy", env!("CARGO_MANIFEST_DIR"));
    for (name, arguments, code, sentence) in [
        ("causal_keep_bool", &[][..], 3, "7 × 7 of booleans, true shows: causal"),
        ("causal_hide_bool", &["--claim", "causal", "--true-means", "hidden"], 3, "true hides: causal"),
        ("causal_hide_bool", &["--claim", "causal"], 1, "One is the complement of the other: polarity reversed"),
        ("causal_hide_bool", &[], 3, "polarity reversed? Read the other way round it is causal: --true-means hidden"),
        ("causal_additive_f32", &["--claim", "causal@bottom-right"], 1, "-1e9 hides: causal, bottom-right"),
        ("causal_additive_inf", &[], 3, "−∞ hides: causal, top-left"),
        ("window_int", &["--claim", "window:3"], 1, "window of 4 keys"),
        ("padding_row", &["-n", "5", "--claim", "padding:4"], 3, "padding: keys 0..4 are real"),
        ("documents", &[], 3, "2 documents of 3, 4 tokens"),
        ("random", &[], 3, "no known rule"),
        ("strict", &["--claim", "causal"], 1, "causal with the diagonal hidden; 1 query sees no key"),
        ("alibi", &[], 3, "a bias; softmax theory has no value for it"),
    ] {
        let (found, _, words) = run(&[&["--kind", &golden(name)], arguments].concat());
        assert_eq!(found, code, "{name}: {words}");
        assert!(words.contains(sentence), "{name}: {words}");
    }
    // A file without a mask's zeros can be hidden after the softmax, too.
    let (code, rows, words) = run(&["--kind", &golden("causal_additive_inf"), "--apply", "after"]);
    assert_eq!((code, row(&rows, "row_sum_error")["verdict"].as_str()), (1, "rejected"), "{words}");
    // An additive file brings its own constant: no weight leaks, theory holds, NaN passes.
    let (_, rows, _) = run(&["--kind", &golden("causal_additive_f32")]);
    assert_eq!(row(&rows, "entropy")["theory_kind"], "exact");
    assert_eq!(number(row(&rows, "masked_weight_max"), "estimate"), 0.0);
    assert_eq!(row(&rows, "leak_nonfinite")["verdict"], "rejected");
    assert_eq!(row(&rows, "leak")["mask"], "causal@bottom-right fill -1e9");
}

#[test]
fn what_hides_nothing_or_everything_is_upheld_for_what_there_is() {
    // Decoding one token: nothing is hidden, and the rows that would need hidden keys are not there.
    let output = attn(&["-n", "1", "-m", "16", "--align", "bottom-right", "--detect", "10%", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let rows = rows(&output);
    assert!(rows.iter().all(|row| !row["statistic"].contains("leak") && row["statistic"] != "masked_weight_max"));
    assert_eq!(row(&rows, "entropy")["verdict"], "upheld");
    let (_, _, words) = run(&["--kind", "none", "-n", "5"]);
    assert!(words.contains("Nothing is hidden"), "{words}");
    let (code, rows, _) = run(&["--kind", "padding:0", "-n", "5"]);
    assert_eq!((code, number(row(&rows, "fully_masked_rows"), "estimate")), (0, 5.0));
    assert!(rows.iter().all(|row| row["statistic"] != "entropy"));
    // A forgotten mask (field reports MA-09).
    let (code, rows, _) = run(&["--kind", "none", "--claim", "causal", "-n", "7"]);
    assert_eq!((code, row(&rows, "masked_weight_max")["verdict"].as_str()), (1, "rejected"));
}

#[test]
fn even_weights_in_half_precision_are_no_fault() {
    // Logits near 0: every weight is 1/k rounded the same way in every trial.
    for (precision, scale) in [("f16", "1e-6"), ("bf16", "1e-6"), ("f16", "1e-20")] {
        for seed in ["1", "2"] {
            let arguments = ["-n", "16", "--scale", scale, "--precision", precision, "--trials", "300", "--seed", seed];
            let output = attn(&[&arguments[..], &["-q"]].concat());
            let rows = rows(&output);
            for statistic in ["entropy", "participation", "row_sum_error"] {
                assert_ne!(
                    row(&rows, statistic)["verdict"],
                    "rejected",
                    "{precision} {scale}: {}",
                    text(&output.stdout)
                );
            }
        }
    }
}

#[test]
fn a_fault_is_named_in_json_and_on_standard_error_where_the_rows_are_data() {
    let fault = ["-n", "13", "--trials", "40", "--kind", "window:6", "--claim", "window:5"];
    let json = attn(&[&fault[..], &["--format", "json", "-q"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let remarks = value["remarks"].as_array().expect("a list");
    assert!(remarks.iter().any(|remark| remark.as_str().is_some_and(|text| text.contains("Window off by one"))));
    assert!(json.stderr.is_empty());
    let csv = attn(&fault);
    assert!(
        text(&csv.stderr).contains("attn: The mask applied is window:6") && !text(&csv.stdout).contains("applied is")
    );
    // A sound run has nothing to say there.
    let sound = attn(&["-n", "13", "--trials", "40"]);
    assert!(!text(&sound.stderr).contains("Mask causal"), "{}", text(&sound.stderr));
}

#[test]
fn wrong_masks_are_one_line_that_names_the_option_and_the_rule() {
    let golden = |name: &str| format!("file:{}/tests/golden/masks/{name}.npy", env!("CARGO_MANIFEST_DIR"));
    for (arguments, words) in [
        (&["--kind", "window:0"][..], &["--kind window:0", "would hide every key"][..]),
        (&["--kind", "documents:3,5", "-n", "9"], &["--kind documents:3,5", "add up to 8, there are 9 tokens"]),
        (&["--kind", "padding:10", "-n", "9"], &["--kind padding:10", "only 9 keys"]),
        (&["--kind", "triangle"], &["--kind triangle", "is not a mask: causal, window:W"]),
        (&["--claim", "window"], &["--claim window", "needs the number of keys"]),
        (&["--fill", "-20", "--apply", "after"], &["--fill -20", "plays no part with --apply after"]),
        (&["--hidden-values", "x"], &["--hidden-values x", "must be select"]),
        (&["--true-means", "x"], &["--true-means x", "visible or hidden"]),
        (&["--kind", "causal+file:x.npy"], &["a file is not joined with others"]),
        (
            &["--kind", &golden("causal_additive_f32"), "--hidden-values", "select"],
            &["--hidden-values select", "say --fill"],
        ),
        (&["--fill", "nan"], &["--fill nan", "must be -inf, min"]),
        (&["--apply", "later"], &["--apply later", "before or after"]),
        (&["--align", "left"], &["--align left", "top-left or bottom-right"]),
        (&["--kind", &golden("causal_keep_bool"), "-n", "8"], &["shape 7 × 7, the logits have 8 × 7"]),
        (&["--kind", &golden("nan_f16")], &["--kind: ", "NaN in 10 of 16 entries, the first at query 0, key 0"]),
        (&["--kind", &golden("several")], &["several masks (shape 2 × 3 × 3)"]),
        (&["--kind", "file:nowhere.npy"], &["--kind: nowhere.npy", "No such file"]),
    ] {
        let output = attn(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(output.stdout.is_empty() && error.lines().count() == 1, "{error}");
        assert!(error.starts_with("attn: error: "), "{error}");
        for word in words {
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
    }
}

#[test]
fn the_picture_has_the_mask_the_weights_and_the_entropy() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for (name, kind) in [("a.svg", "causal"), ("b.png", "window:3"), ("c.svg", "padding:0")] {
        let output = attn(&["-n", "9", "--trials", "20", "-q", "--kind", kind, "--plot", &path(name)]);
        assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(Path::new(&path(name)).exists());
    }
    let svg = std::fs::read_to_string(path("a.svg")).expect("text");
    for words in ["mask as claimed", "mean weight", "entropy of a row (nats)", "theory", "ln visible keys"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(!svg.contains("NaN") && !std::fs::read_to_string(path("c.svg")).expect("text").contains("NaN"));
    // A weight on a hidden key has a colour of its own, and its words.
    let output = attn(&[
        "-n",
        "9",
        "--trials",
        "20",
        "-q",
        "--kind",
        "window:4",
        "--claim",
        "window:3",
        "--plot",
        &path("d.svg"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(std::fs::read_to_string(path("d.svg")).expect("text").contains("weight on hidden keys"));
    assert!(!svg.contains("weight on hidden keys"));
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let output = |threads: &str| {
        let output = attn(&[
            "-n",
            "65",
            "--trials",
            "30",
            "--kind",
            "causal+padding:50",
            "--by-row",
            "-q",
            "--threads",
            threads,
        ]);
        text(&output.stdout)
    };
    let one = output("1");
    assert!(one.contains("participation") && one == output("2") && one == output("7"));
}
