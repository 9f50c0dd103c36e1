//! Adapters in scripts/adapters against the judgement: NumPy by definition is right everywhere, and each fault that it can plant
//! (scripts/adapters/numpy_faults.py, with where it was reported) is named. Without Python and NumPy these tests say so and pass.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::program::{Record, Run, attn_words, folder, records};

/// A Python that has NumPy: ATTN_PYTHON, else python3.
fn python() -> Option<String> {
    let python = std::env::var("ATTN_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let works = Command::new(&python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("skipped: {python} is not there or has no NumPy (ATTN_PYTHON names another)");
    }
    works.then_some(python)
}

fn adapter() -> String {
    let path = [env!("CARGO_MANIFEST_DIR"), "scripts", "adapters", "numpy_adapter.py"].iter().collect::<PathBuf>();
    path.display().to_string()
}

/// A round on the cases of `capabilities` (all if empty), with the options of `run` and of the adapter.
fn round(python: &str, capabilities: &[&str], options: &[&str], of_adapter: &[&str]) -> Run {
    let folder = folder();
    let mut new = vec!["probe", "new", "probe", "--seed", "11"];
    if !capabilities.is_empty() {
        new.push("--only");
        new.extend(capabilities);
    }
    assert_eq!(attn_words(folder.path(), &new).code, Some(0), "{new:?}");
    let adapter = adapter();
    let words = [
        &["probe", "run", "probe", "--quiet", "--format", "csv"],
        options,
        &["--", python, &adapter],
        of_adapter,
        &["{cases}", "{outputs}"],
    ]
    .concat();
    attn_words(folder.path(), &words)
}

fn with_fault(python: &str, fault: &str, capabilities: &[&str]) -> (Run, Vec<Record>) {
    let run = round(python, capabilities, &[], &["--fault", fault]);
    let rows = records(&run.stdout).into_iter().filter(|row| !row["case"].is_empty()).collect();
    (run, rows)
}

/// Fault, cause that the judgement gives it, a part of the words, capabilities that show it. A second cause is one that some case cannot tell
/// from the first: infinite logits, or a first batch entry without padding.
type Expected = (&'static str, &'static str, &'static str, &'static [&'static str]);

const NAMED: [Expected; 35] = [
    ("no_scale", "scale", "QKᵀ is not scaled", &["default-scale"]),
    ("scale_twice", "scale", "1/√d_k on top", &["explicit-scale"]),
    ("scale_d", "scale", "1/d_k", &["default-scale"]),
    ("scale_model_width", "scale", "1/√d_model", &["default-scale"]),
    ("scale_argument_ignored", "scale", "the scale that was asked for is ignored", &["explicit-scale"]),
    ("softcap_ignored", "softcap", "is not applied", &["softcap"]),
    ("softcap_wrong_formula", "softcap", "logit·tanh(logit/c)", &["softcap"]),
    ("softcap_before_scale", "softcap", "before the scale", &["softcap"]),
    ("softcap_on_mask", "softcap", "after the mask", &["softcap"]),
    ("softmax_over_queries", "axis", "over the queries", &["default-scale"]),
    ("softmax_over_batch", "batch", "over the batch", &["batch-and-heads"]),
    ("no_max_subtraction", "maximum overflow", "is not taken off", &["huge-logits"]),
    ("dropout_on", "dropout", "dropout is on", &["dropout-off"]),
    ("lse_base_two", "lse-base", "in base 2", &["log-sum-exp"]),
    ("lse_offset", "lse-offset", "off by 0.693", &["log-sum-exp"]),
    ("lse_centred_keys", "lse-centred", "mean was taken off", &["log-sum-exp"]),
    ("causal_transposed", "causal-transposed", "transposed", &["causal"]),
    ("causal_diagonal_hidden", "causal-own", "does not see its own key", &["causal"]),
    ("causal_ignored", "causal", "is not applied", &["causal"]),
    ("causal_other_alignment", "alignment", "was asked for", &["causal"]),
    ("mask_polarity", "mask-polarity", "the other way round", &["boolean-mask"]),
    ("mask_multiplied", "mask-multiplied", "multiplied by the mask", &["boolean-mask"]),
    ("mask_ignored", "mask", "is not applied", &["boolean-mask"]),
    ("window_off_by_one", "window", "off by one", &["window"]),
    ("window_ignored", "window", "is not applied", &["window"]),
    ("padding_ignored", "padding", "is not applied", &["padding"]),
    ("padding_first_batch_only", "mask-batch padding", "batch entry 0", &["padding"]),
    ("row_sum_in_f16", "precision", "sums kept in f16", &["long-rows"]),
    ("groups_tiled", "groups", "tiled", &["grouped-queries"]),
    ("heads_merged_without_transpose", "merge", "without a transpose", &["batch-and-heads"]),
    ("batch_leak", "batch", "entry 0", &["batch-and-heads"]),
    ("alibi_slopes_reversed", "alibi", "in reverse order", &["alibi"]),
    ("alibi_scaled", "alibi", "before the scale", &["alibi"]),
    ("gradient_without_scale", "gradient", "lack the scale", &["gradients"]),
    ("gradient_of_groups_not_summed", "gradient", "last query head of a group", &["gradients"]),
];

#[test]
fn numpy_by_definition_is_right_in_every_case() {
    let Some(python) = python() else { return };
    let run = round(&python, &[], &[], &[]);
    let rows = records(&run.stdout);
    let wrong: Vec<_> = rows.iter().filter(|row| row["verdict"] != "right").collect();
    assert!(wrong.is_empty() && rows.len() > 100, "{wrong:#?}\n{}", run.stderr);
    assert_eq!(run.code, Some(0));
}

#[test]
fn every_planted_fault_is_named_and_nothing_else_is() {
    let Some(python) = python() else { return };
    for (fault, cause, words, capabilities) in NAMED {
        let (run, rows) = with_fault(&python, fault, capabilities);
        let wrong: Vec<&Record> = rows.iter().filter(|row| row["verdict"] != "right").collect();
        assert_eq!(run.code, Some(1), "{fault}: {}", run.stderr);
        let causes: BTreeSet<&str> = wrong.iter().map(|row| row["cause"].as_str()).collect();
        let allowed: BTreeSet<&str> = cause.split(' ').collect();
        let first = cause.split(' ').next().expect("a name");
        assert!(causes.contains(first) && causes.is_subset(&allowed), "{fault}: {causes:?}, {wrong:#?}");
        assert!(wrong.iter().any(|row| row["explanation"].contains(words)), "{fault}: {wrong:#?}");
    }
}

#[test]
fn a_correct_variant_is_not_called_wrong() {
    let Some(python) = python() else { return };
    for (variant, capabilities) in [
        ("sound_scale_split", &["default-scale", "explicit-scale", "f16"][..]),
        ("sound_row_constant", &["default-scale", "log-sum-exp"]),
        ("sound_mask_after_softmax", &["boolean-mask", "causal"]),
        ("sound_empty_rows_uniform", &["empty-rows", "causal"]),
        ("sound_empty_rows_nan", &["empty-rows", "causal"]),
    ] {
        let (run, rows) = with_fault(&python, variant, capabilities);
        let wrong: Vec<_> = rows.iter().filter(|row| row["verdict"] != "right").collect();
        assert!(wrong.is_empty() && !rows.is_empty(), "{variant}: {wrong:#?}\n{}", run.stderr);
        assert_eq!(run.code, Some(0), "{variant}");
    }
}

#[test]
fn programs_that_misbehave_are_told_from_wrong_numbers() {
    let Some(python) = python() else { return };
    // A crash or a hang ends the soft-capped cases and no other. A start of Python may take as long as the hang's limit, so there the others are left out.
    for (fault, words, seconds, capabilities) in
        [("crash", "134", "60", &["softcap", "default-scale"][..]), ("hang", "timed out", "2", &["softcap"])]
    {
        let run = round(&python, capabilities, &["--timeout", seconds], &["--fault", fault]);
        let rows: Vec<Record> = records(&run.stdout).into_iter().filter(|row| !row["case"].is_empty()).collect();
        assert!(!rows.is_empty(), "{fault}: {}", run.stderr);
        for row in &rows {
            let expected = if row["capability"] == "softcap" { "failed" } else { "right" };
            assert_eq!(row["verdict"], expected, "{fault}: {row:?}");
            assert!(expected == "right" || row["explanation"].contains(words), "{fault}: {row:?}");
        }
        // Where not one case was answered nothing is decided.
        let expected = if rows.iter().any(|row| row["verdict"] == "right") { 1 } else { 3 };
        assert_eq!(run.code, Some(expected), "{fault}");
    }
    // Which verdict or cause, and what its words say.
    for (fault, verdict, words, capabilities) in [
        ("nondeterministic", "nondeterministic", "", &["determinism"][..]),
        ("wrong_shape", "failed", "shape", &["default-scale"]),
        ("missing_output", "failed", "no array 'o' in the answer", &["default-scale"]),
        ("nan_output", "wrong", "NaN", &["default-scale"]),
    ] {
        let (run, rows) = with_fault(&python, fault, capabilities);
        let named = |row: &Record| row["verdict"] == verdict || row["cause"] == verdict;
        let seen = rows.iter().any(|row| named(row) && row["explanation"].contains(words));
        assert!(seen, "{fault}: {rows:#?}\n{}", run.stderr);
        assert_eq!(run.code, Some(1), "{fault}");
    }
}
