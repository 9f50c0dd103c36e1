//! Arithmetic other than f64: the claims still hold where it serves, and overflow is a finding, not a NaN.

use crate::program::{SMALL, attn, attn_in, folder, number, records, row, text};

#[test]
fn f32_is_held_against_the_same_exact_theory_as_f64() {
    let line = "variance -q --dk 5 -n 16 --detect 10%";
    let [double, single] = ["f64", "f32"].map(|precision| attn(&format!("{line} --precision {precision}")));
    assert_eq!((double.code, single.code), (Some(0), Some(0)), "{}", single.stdout);
    for (double, single) in records(&double.stdout).iter().zip(&records(&single.stdout)) {
        assert_eq!(single["precision"], "f32");
        assert_eq!(single["theory_kind"], "exact");
        for column in ["statistic", "scale", "trials", "theory", "std_error", "min_detectable"] {
            assert_eq!(double[column], single[column], "{column}");
        }
        // Its own draws: the seed gives other numbers in f32, not rounded ones.
        assert_ne!(double["estimate"], single["estimate"]);
    }
}

#[test]
fn the_half_types_run_and_say_that_theory_is_approximate() {
    for precision in ["bf16", "f16"] {
        let run = attn(&format!("variance -q --dk 5 -n 16 --detect 10% --precision {precision}"));
        assert_eq!(run.code, Some(0), "{precision}: {}", run.stdout);
        for row in records(&run.stdout) {
            assert_eq!(row["theory_kind"], "approximate");
            assert_eq!(row["precision"], precision);
            assert!(!row["estimate"].is_empty() && !row["p_value"].is_empty(), "{row:?}");
        }
    }
}

#[test]
fn half_precision_is_really_rounded() {
    // Rounded logits of one query and one key lie on the type's grid: 8 bits of significand for bf16, 11 for f16
    // (24 for f32: none of the trials' values is likely to need fewer).
    for (precision, bits, on_grid) in [("bf16", 8, true), ("f16", 11, true), ("f32", 11, false)] {
        let folder = folder();
        attn_in(
            folder.path(),
            &format!("variance -q -n 1 --dk 5 --trials 50 --precision {precision} --per-trial t.csv"),
        );
        let trials = records(&text(folder.path(), "t.csv"));
        let fits = |value: f64| {
            // Scaled so that the significand is a whole number of `bits` bits; logits here are far above the
            // subnormals of f16 (6e-5) all but once in thousands of trials.
            let exponent = value.abs().log2().floor();
            let significand = value / 2f64.powf(exponent - f64::from(bits - 1));
            significand == significand.round() || value.abs() < 1e-4
        };
        let fitting = trials.iter().filter(|trial| fits(number(trial, "logit_mean:none"))).count();
        if on_grid {
            assert_eq!(fitting, 50, "{precision}");
        } else {
            assert!(fitting < 5, "{precision}: {fitting}");
        }
    }
}

#[test]
fn an_overflow_is_rejected_and_no_nan_reaches_any_output() {
    // Raw logits have standard deviation 300²·√64 = 720,000; f16 ends at 65,504.
    let line = "variance --dk 64 -n 16 --trials 20 --precision f16 --sd 300";
    let folder = folder();
    let run = attn_in(folder.path(), &format!("{line} --per-trial t.csv --plot x.svg"));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let rows = records(&run.stdout);
    for scale in ["none", "inv-sqrt-dk"] {
        for statistic in ["logit_mean", "logit_variance", "logit_kurtosis"] {
            let row = row(&rows, statistic, scale, "64");
            assert_eq!(row["verdict"], "rejected", "{row:?}");
            assert_eq!((row["estimate"].as_str(), row["p_value"].as_str()), ("", ""), "{row:?}");
        }
    }
    let mut outputs = vec![run.stdout, run.stderr, text(folder.path(), "t.csv"), text(folder.path(), "x.svg")];
    outputs.extend(["json", "markdown", "table"].map(|format| attn(&format!("{line} --format {format}")).stdout));
    for output in &outputs {
        assert!(!output.is_empty());
        // Whole words: the scale `inv-…` is no infinity.
        let mut words = output.split(|character: char| !character.is_ascii_alphanumeric());
        let faulty = |word: &str| ["nan", "inf", "infinity"].contains(&word.to_ascii_lowercase().as_str());
        assert!(!words.any(faulty), "{output}");
        assert!(!output.contains('∞'));
    }
}

#[test]
fn the_same_run_without_overflow_follows_theory() {
    // The control of the test above: in f32 nothing overflows, and only the assumption on the variance is rejected.
    let run = attn("variance -q --dk 64 -n 16 --trials 20 --precision f32 --sd 300");
    for row in records(&run.stdout) {
        let broken = ["q_variance", "k_variance"].contains(&row["statistic"].as_str());
        assert_eq!(row["verdict"] == "rejected", broken, "{row:?}");
    }
}

#[test]
fn the_default_is_f64() {
    assert_eq!(attn(SMALL).stdout, attn(&format!("{SMALL} --precision f64")).stdout);
}
