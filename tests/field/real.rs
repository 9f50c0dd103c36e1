//! Trained attention (data/real): sound, quick, and with the values that its README states.

use std::process::{Command, Output};

use serde_json::Value;

fn attn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_attn"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = attn(&[&["audit"], arguments, &["--format", "json"]].concat());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

fn head<'a>(audit: &'a Value, group: &str, batch: u64, head: u64) -> &'a Value {
    let rows = audit["heads"].as_array().expect("heads");
    rows.iter().find(|row| row["group"] == group && row["batch"] == batch && row["head"] == head).expect("the head")
}

#[test]
fn minilm_is_sound_and_has_the_values_of_its_readme() {
    let audit = json(&["data/real/minilm/minilm.safetensors"]);
    let findings = audit["findings"].as_array().expect("findings");
    for finding in findings {
        // One head attends to one token in every row: worth a word.
        assert!(
            finding["verdict"] != "FAIL" && (finding["verdict"] != "WARN" || finding["check"] == "saturation"),
            "{finding}"
        );
    }
    // Layer, head: Var Q, Var K, mean and Var of raw QKᵀ, Var scaled, entropy, mean row maximum (README, numpy in f64).
    for (layer, index, expected) in [
        (0, 2, [6.998, 6.826, 1.167, 5358.6, 167.46, 0.003, 1.000]),
        (0, 11, [0.271, 0.931, -0.784, 8.758, 0.274, 3.982, 0.070]),
        (3, 8, [2.072, 2.428, -15.084, 277.8, 8.682, 1.890, 0.445]),
        (5, 6, [0.771, 0.648, -1.464, 48.156, 1.505, 3.458, 0.167]),
    ] {
        let row = head(&audit, &format!("single.layer{layer}"), 0, index);
        let fields = [
            "query_variance",
            "key_variance",
            "raw_mean",
            "raw_variance",
            "scaled_variance",
            "entropy",
            "mean_largest_weight",
        ];
        for (field, expected) in fields.into_iter().zip(expected) {
            // Half a unit of the last digit shown there.
            let digit = if expected > 1000.0 {
                0.05
            } else if expected > 100.0 {
                0.06
            } else {
                0.000_51
            };
            let found = number(row, field);
            assert!((found - expected).abs() <= digit, "{layer}.{index} {field}: {found} for {expected}");
        }
        // real-attention-facts.md: i.i.d. control at d_k 32, n 64, by simulation.
        assert!((number(row, "control_relative_entropy") - 0.887).abs() < 0.002, "{row}");
        assert!((number(row, "control_largest_weight") - 0.107).abs() < 0.001, "{row}");
    }
    let scales: Vec<&Value> = findings.iter().filter(|finding| finding["check"] == "scale").collect();
    assert_eq!(scales.len(), 6, "one a layer and text");
    for scale in scales {
        assert_eq!(scale["verdict"], "PASS");
        assert!((number(scale, "measured") * 32f64.sqrt() - 1.0).abs() < 1e-5, "{scale}");
    }
}

#[test]
fn whisper_is_sound_causal_and_has_the_values_of_the_facts() {
    let path = "data/real/whisper-tiny-en/whisper_tiny_en.safetensors";
    let audit = json(&[path]);
    for finding in audit["findings"].as_array().expect("findings") {
        assert!(finding["verdict"] != "FAIL" && finding["verdict"] != "WARN", "{finding}");
    }
    let causal = json(&[path, "--group", "layer*", "--causal"]);
    let passed = causal["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|f| f["check"] == "causal" && f["verdict"] == "PASS");
    assert_eq!(passed.count(), 4);
    // L.H: Var scaled, within-row, dependence, entropy / ln visible, mean row maximum, weight on the first token.
    for (layer, index, expected) in [
        (0, 2, [26.769, 25.780, 2.71, 0.019, 0.992, 0.051]),
        (1, 4, [0.480, 0.599, 6.32, 0.669, 0.532, 0.540]),
        (3, 5, [5.046, 3.636, 1.85, 0.440, 0.599, 0.564]),
    ] {
        let row = head(&audit, &format!("layer{layer}"), 0, index);
        let fields = [
            "scaled_variance",
            "within_row_variance",
            "dependence",
            "relative_entropy",
            "mean_largest_weight",
            "first_key_weight",
        ];
        for (field, expected) in fields.into_iter().zip(expected) {
            let digit = if field == "dependence" { 0.005_1 } else { 0.000_51 };
            let found = number(row, field);
            assert!((found - expected).abs() <= digit, "{layer}.{index} {field}: {found} for {expected}");
        }
        assert!((number(row, "control_relative_entropy") - 0.859).abs() < 0.003, "{row}");
    }
}

#[test]
fn exit_codes_csv_and_explanations_are_as_promised() {
    let wrong = attn(&[
        "audit",
        "data/real/minilm/minilm.safetensors",
        "--group",
        "single.layer3",
        "--scale",
        "1/sqrt(dk+1)",
        "--format",
        "csv",
    ]);
    assert_eq!(wrong.status.code(), Some(1));
    let text = String::from_utf8(wrong.stdout).expect("UTF-8");
    assert!(
        text.starts_with("file,group,batch,head,check,verdict,measured,expected,unit,where,explanation,version\n"),
        "{text}"
    );
    assert_eq!(text.matches(",FAIL,").count(), 1, "{text}");
    assert!(
        text.contains(
            "data/real/minilm/minilm.safetensors,single.layer3,0,0 1 2 3 4 5 6 7 8 9 10 11,scale,FAIL,0.1767"
        ),
        "{text}"
    );
    for (arguments, words) in [
        (vec!["audit", "nowhere.npz"], "nowhere.npz"),
        (vec!["audit"], "FILE"),
        (vec!["audit", "Cargo.toml"], "none of the formats"),
        (vec!["audit", "data/real/minilm/minilm.safetensors", "--scale", "1/dv"], "--scale 1/dv"),
        (vec!["audit", "data/real/minilm/minilm.safetensors", "--group", "x"], "no group fits"),
        (vec!["audit", "data/real/minilm/minilm.safetensors", "--q", "queries"], "--q queries: no array of this name"),
        (vec!["audit", "--explain", "everything"], "must be one of finite"),
        (vec!["audit", "data/real/minilm/minilm.safetensors", "--causal=middle"], "--causal middle"),
    ] {
        let output = attn(&arguments);
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(words), "{error}");
    }
    for check in attn::diagnosis::finding::Check::ALL {
        let output = attn(&["audit", "--explain", check.name()]);
        let text = String::from_utf8(output.stdout).expect("UTF-8").replace('\n', " ");
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text.contains("Formula:") && text.contains("Verdict:") && text.contains("Blind spots:"),
            "{check}: {text}"
        );
    }
}
