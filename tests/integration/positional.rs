//! `attn positional` as a program.

use std::process::{Command, Output};

use crate::program::{Record, number, records};

fn attn(arguments: &[&str]) -> Output {
    let program = Command::new(env!("CARGO_BIN_EXE_attn")).arg("positional").args(arguments).output();
    program.expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn rows(output: &Output) -> Vec<Record> {
    records(&text(&output.stdout))
}

fn found<'a>(rows: &'a [Record], statistic: &str) -> &'a Record {
    rows.iter().find(|row| row["statistic"] == statistic).expect(statistic)
}

#[test]
fn a_correct_table_is_upheld_and_its_products_are_those_of_the_offset() {
    let output = attn(&["--dk", "22", "-n", "101", "--detect", "5%", "--format", "csv", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let measured = rows(&output);
    let product: f64 = (0..11).map(|i| (4.0 * 10_000f64.powf(-(f64::from(i)) / 11.0)).cos()).sum();
    let row = found(&measured, "dot_product:4");
    assert!((number(row, "theory") - product).abs() < 1e-13 && (number(row, "estimate") - product).abs() < 1e-12);
    assert!((number(found(&measured, "norm"), "estimate") - 11f64.sqrt()).abs() < 1e-14);
    for statistic in ["map_residual", "map_error", "map_transfer_error", "offset_dependence"] {
        let row = found(&measured, statistic);
        assert!(number(row, "estimate") > 0.0 && number(row, "min_detectable") < 1e-6, "{statistic}");
    }
    // Var[(x + a)·(y + b)] = d + |a|² + |b|² = 2d for unit-variance tokens.
    let variances: Vec<f64> =
        measured.iter().filter(|row| row["statistic"] == "logit_variance").map(|row| number(row, "theory")).collect();
    assert_eq!(variances, [44.0, 2.0]);
}

#[test]
fn rotation_leaves_logits_alone_in_both_layouts() {
    for kind in ["rotary", "rotary:half-split", "rotary:interleaved"] {
        let output =
            attn(&["--kind", kind, "--dk", "10", "-n", "37", "-m", "41", "--detect", "10%", "--format", "csv", "-q"]);
        assert_eq!(output.status.code(), Some(0), "{kind} {}{}", text(&output.stdout), text(&output.stderr));
        let measured = rows(&output);
        let row = found(&measured, "logit_variance");
        assert_eq!((number(row, "theory"), row["theory_kind"].as_str()), (10.0, "exact"));
        let score = (2.0 / 10.0) * (0..5).map(|i| (8.0 * 10_000f64.powf(-f64::from(i) / 5.0)).cos()).sum::<f64>();
        assert!((number(found(&measured, "self_score:8"), "theory") - score).abs() < 1e-14);
    }
}

#[test]
fn pr06_angles_rounded_to_bf16_are_rejected_with_the_number_and_angles_in_f32_are_not() {
    // Position 15962 becomes 15936 in bf16: 26 radians, 0.87 more than four turns.
    let start = ["--kind", "rotary", "--dk", "2", "-n", "1", "--offset", "1", "--start", "15962", "--trials", "20"];
    let shared = ["--format", "csv", "-q", "--precision", "bf16"];
    let output = attn(&[&start[..], &shared].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let measured = rows(&output);
    let row = found(&measured, "angle_error");
    assert_eq!(row["verdict"], "rejected");
    let expected = 26.0 - 4.0 * std::f64::consts::TAU;
    // Cosine and sine are stored in bf16: 2⁻⁸ of an angle.
    assert!((number(row, "estimate") - expected).abs() < 2f64.powi(-8), "{} {expected}", row["estimate"]);
    let right = rows(&attn(&[&start[..], &shared, &["--angles", "f32"]].concat()));
    assert_eq!(found(&right, "angle_error")["verdict"], "upheld");
    assert!(number(found(&right, "angle_error"), "estimate") < 2f64.powi(-8));
    let table = attn(&[&start[..], &["--precision", "bf16", "--format", "table", "-q"]].concat());
    assert!(text(&table.stdout).contains("257 becomes 256"), "{}", text(&table.stdout));
}

#[test]
fn every_precision_with_sound_angles_is_upheld() {
    for (precision, angles) in [("f32", "f32"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f64")] {
        for kind in ["rotary", "sinusoidal"] {
            let output = attn(&[
                "--kind",
                kind,
                "--dk",
                "6",
                "-n",
                "29",
                "--precision",
                precision,
                "--angles",
                angles,
                "--detect",
                "20%",
                "--false-alarm",
                "0.001",
                "--format",
                "csv",
                "-q",
            ]);
            let measured = rows(&output);
            assert!(measured.iter().all(|row| row["verdict"] != "rejected"), "{precision} {}", text(&output.stdout));
            assert_eq!(found(&measured, "angle_error")["verdict"], "upheld");
        }
    }
}

#[test]
fn bad_input_is_one_line_that_names_option_value_and_rule() {
    for (arguments, words) in [
        (&["--dk", "7"][..], "--dk 7: must be even"),
        (&["--dk", "8,1"], "--dk 1: must be even"),
        (&["--base", "1"], "--base 1: must be above 1"),
        (&["--base", "0"], "--base 0: must be above 1"),
        (&["--base", "-5"], "--base -5: must be above 1"),
        (&["--base", "nan"], "--base nan: must be a finite number"),
        (&["--kind", "alibi"], "--kind alibi: must be sinusoidal, rotary"),
        (&["--kind", "rotary:quarter"], "--kind rotary:quarter: must be half-split or interleaved"),
        (&["--start", "-1"], "--start -1: must be a whole number"),
        (&["--angles", "f8"], "--angles f8: must be one of"),
        (&["-n", "64", "--offset", "64"], "--offset 64: must be below the number of tokens, 64"),
        (&["--mean", "0.5"], "--mean 0.5: must be 0 here"),
        (&["--correlation", "0.5"], "--correlation 0.5: must be 0 here"),
        (
            &["--precision", "f32", "--start", "4194304"],
            "an angle means nothing beyond position 4194304; see --angles f64",
        ),
        (&["--precision", "f16", "--kind", "rotary", "--start", "65504"], "beyond position 65504"),
        (&["-n", "4000000000"], "may hold at most 134217728 numbers"),
        (&["--kind", "rotary", "-n", "8", "--offset", "1,4000000000"], "may hold at most 134217728 numbers"),
        (&["--start", "18446744073709551615"], "beyond position 2251799813685248"),
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
}

#[test]
fn too_few_positions_for_a_map_are_undecided_and_say_so() {
    let output = attn(&["--dk", "8", "-n", "5", "--trials", "100", "--format", "json", "-q"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("none: the positions are too few"), "{}", text(&output.stdout));
}

#[test]
fn threads_do_not_change_a_bit() {
    for kind in ["sinusoidal", "rotary"] {
        let run = |threads: &str| {
            attn(&[
                "--kind",
                kind,
                "--dk",
                "6,16",
                "-n",
                "37",
                "-m",
                "41",
                "--trials",
                "60",
                "--threads",
                threads,
                "-q",
            ])
            .stdout
        };
        let one = run("1");
        assert!(one.len() > 1000);
        assert_eq!(one, run("3"));
    }
}

#[test]
fn the_picture_holds_the_exact_curve_and_every_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("decay.svg");
    let output = attn(&[
        "--kind",
        "rotary",
        "--dk",
        "16",
        "-n",
        "32",
        "--offset",
        "1..512",
        "--trials",
        "40",
        "-q",
        "--plot",
        file.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.code().is_some_and(|code| code != 2), "{}", text(&output.stderr));
    let picture = std::fs::read_to_string(&file).expect("written");
    assert!(picture.contains("Score of a query with itself") && picture.contains("exact"), "{picture}");
    // Ten offsets and the legend.
    assert!(picture.matches("<circle").count() == 11, "{}", picture.matches("<circle").count());
}
