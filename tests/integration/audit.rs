//! `attn audit` as a program: files, notices, layouts, two dumps, exit codes. What the checks find is in tests/field.

use std::fs::File;
use std::path::Path;

use attn::tensors::{DType, Tensor, Values, write_npy, write_safetensors};

use crate::program::{attn, attn_in, folder, records};

/// Two heads, 3 queries, 5 keys, d = 4: numbers without any pattern.
const SHAPE: [usize; 4] = [1, 2, 3, 5];

fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| f64::from(2.0 * next() as f32)).collect()
}

fn tensor(dtype: DType, shape: &[usize], numbers: &[f64]) -> Tensor {
    Tensor { dtype, shape: shape.to_vec(), values: Values::F64(numbers.to_vec()) }
}

/// q, k and p = softmax(scale QKᵀ) over `axis` 3 (keys) or 2 (queries).
fn attention(scale: f64, over_keys: bool) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let [_, heads, n, m] = SHAPE;
    let (q, k) = (numbers(1, heads * n * 4), numbers(2, heads * m * 4));
    let mut p = vec![0.0; heads * n * m];
    for head in 0..heads {
        let e = |i: usize, j: usize| -> f64 {
            let dot: f64 = (0..4).map(|c| q[(head * n + i) * 4 + c] * k[(head * m + j) * 4 + c]).sum();
            (scale * dot).exp()
        };
        for i in 0..n {
            for j in 0..m {
                let total: f64 = if over_keys { (0..m).map(|j| e(i, j)).sum() } else { (0..n).map(|i| e(i, j)).sum() };
                p[(head * n + i) * m + j] = e(i, j) / total;
            }
        }
    }
    (q, k, p)
}

fn save(path: &Path, dtype: DType, arrays: &[(&str, &[usize], &[f64])]) {
    let tensors: Vec<(&str, Tensor)> =
        arrays.iter().map(|(name, shape, numbers)| (*name, tensor(dtype, shape, numbers))).collect();
    let mut file = File::create(path).expect("a file");
    write_safetensors(&mut file, tensors.iter().map(|(name, tensor)| (*name, tensor))).expect("written");
}

fn save_attention(path: &Path, scale: f64) {
    let (q, k, p) = attention(scale, true);
    save(path, DType::F32, &[("q", &[1, 2, 3, 4], &q), ("k", &[1, 2, 5, 4], &k), ("p", &SHAPE, &p)]);
}

#[test]
fn two_dumps_are_compared_array_by_array_and_the_exit_code_tells() {
    let folder = folder();
    save_attention(&folder.path().join("a.safetensors"), 0.5);
    save_attention(&folder.path().join("b.safetensors"), 0.5);
    save_attention(&folder.path().join("c.safetensors"), 0.25);
    let same = attn_in(folder.path(), "audit a.safetensors --against b.safetensors --quiet");
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""));
    let rows = records(&same.stdout);
    let checks: Vec<&str> = rows.iter().map(|row| row["check"].as_str()).collect();
    assert_eq!(checks, ["agreement_q", "agreement_k", "agreement_weights"]);
    for row in &rows {
        assert_eq!(
            (row["verdict"].as_str(), row["measured"].as_str(), row["unit"].as_str()),
            ("PASS", "0", "of the bound")
        );
        assert_eq!(row["file"], "a.safetensors against b.safetensors");
    }
    let other = attn_in(folder.path(), "audit c.safetensors --against b.safetensors --quiet");
    assert_eq!(other.code, Some(1));
    assert_eq!(records(&other.stdout)[0]["check"], "scale");
    // Declared to differ, it follows the declaration; a scale that is ignored does not.
    let followed = "audit c.safetensors --against b.safetensors --scale 1/4 --against-scale 1/2 --quiet";
    assert_eq!(attn_in(folder.path(), followed).code, Some(0));
    let ignored =
        attn_in(folder.path(), "audit a.safetensors --against b.safetensors --scale 1/4 --against-scale 1/2 --quiet");
    assert_eq!(ignored.code, Some(1));
    assert!(ignored.stdout.contains("scale argument ignored"), "{}", ignored.stdout);
    // The table says which arrays were read, of which type.
    let table = attn_in(folder.path(), "audit a.safetensors --against b.safetensors --quiet --format table").stdout;
    assert!(table.starts_with("File: queries q f32 (1, 2, 3, 4); keys k f32 (1, 2, 5, 4);"), "{table}");
    assert!(!table.contains("In the table:"), "{table}");
    let json = attn_in(folder.path(), "audit a.safetensors --against b.safetensors --quiet --format json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["remarks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_cannot_be_compared_is_one_line_with_code_2() {
    let folder = folder();
    save_attention(&folder.path().join("a.safetensors"), 0.5);
    save(&folder.path().join("v.safetensors"), DType::F32, &[("v", &[2, 3], &numbers(3, 6))]);
    save(&folder.path().join("x.safetensors"), DType::F32, &[("x", &[2, 3], &numbers(3, 6))]);
    for (line, words) in [
        (
            "audit a.safetensors --against v.safetensors",
            "no array in common: the file has queries, keys, weights, the reference values",
        ),
        ("audit a.safetensors --against x.safetensors", "no array with a known name among the arrays x"),
        ("audit a.safetensors --against none.safetensors", "none.safetensors"),
        ("audit a.safetensors --against a.safetensors --against-scale 1/", "--against-scale"),
        ("audit a.safetensors --against-scale 1", "--against"),
        ("audit a.safetensors --void-as f32", "--void-as f32: must be f16 or bf16"),
        ("audit a.safetensors --layout hbnd", "--layout hbnd: must be bhnd, bnhd, bijh, hnd or nd"),
    ] {
        let run = attn_in(folder.path(), line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}");
        assert_eq!(run.stderr.trim_end().lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{line}: {}", run.stderr);
    }
}

#[test]
fn weights_with_the_heads_last_are_read_by_their_layout_and_axes_are_named() {
    // NO-03: axes (batch, query, key, head); softmax over the keys passes, over the queries it does not.
    let folder = folder();
    let [_, heads, n, m] = SHAPE;
    let tokens_first = |numbers: &[f64], rows: usize| -> Vec<f64> {
        (0..rows * heads).flat_map(|at| numbers[(at % heads * rows + at / heads) * 4..][..4].to_vec()).collect()
    };
    for over_keys in [true, false] {
        let (q, k, p) = attention(0.5, over_keys);
        let heads_last: Vec<f64> = (0..n * m * heads).map(|at| p[at % heads * n * m + at / heads]).collect();
        let (q, k) = (tokens_first(&q, n), tokens_first(&k, m));
        let arrays: [(&str, &[usize], &[f64]); 3] =
            [("q", &[1, 3, 2, 4], &q), ("k", &[1, 5, 2, 4], &k), ("attn", &[1, 3, 5, 2], &heads_last)];
        save(&folder.path().join("bijh.safetensors"), DType::F32, &arrays);
        let run = attn_in(folder.path(), "audit bijh.safetensors --layout bijh --scale 1/sqrt(dk) --quiet");
        let rows = records(&run.stdout);
        let normalisation = rows.iter().find(|row| row["check"] == "normalisation").expect("a row");
        if over_keys {
            assert_eq!((run.code, normalisation["verdict"].as_str()), (Some(0), "PASS"), "{}", run.stdout);
            assert!(normalisation["explanation"].contains("over the keys (axis 2)"), "{normalisation:?}");
        } else {
            assert_eq!((run.code, normalisation["verdict"].as_str()), (Some(1), "FAIL"), "{}", run.stdout);
            assert!(
                normalisation["explanation"].contains("sums over the queries (axis 1) are 1, over the keys (axis 2)"),
                "{normalisation:?}"
            );
        }
    }
}

#[test]
fn two_byte_voids_are_told_once_and_read_as_the_user_says() {
    // UX-05. The numbers are exact in bf16 and written as its two bytes; read as f16 they are others.
    let folder = folder();
    let whole =
        |seed: u64, count: usize| -> Vec<f64> { numbers(seed, count).iter().map(|x| (4.0 * x).round()).collect() };
    for (name, rows, seed) in [("q", 3, 1), ("k", 5, 2)] {
        let mut file = File::create(folder.path().join(format!("{name}.npy"))).expect("a file");
        write_npy(&mut file, &tensor(DType::Bf16, &[rows, 4], &whole(seed, rows * 4))).expect("written");
    }
    let read = |options: &str| attn_in(folder.path(), &format!("audit q.npy k.npy --format json {options}"));
    let (plain, quiet, said, other) = (read(""), read("--quiet"), read("--void-as bf16"), read("--void-as f16"));
    let notices = |stderr: &str| stderr.lines().filter(|line| line.contains("void")).count();
    assert_eq!(notices(&plain.stderr), 2, "{}", plain.stderr);
    assert!(
        plain.stderr.contains("attn: warning: q.npy: q: two-byte voids (|V2) are read as bf16; --void-as"),
        "{}",
        plain.stderr
    );
    for run in [&quiet, &said, &other] {
        assert_eq!(notices(&run.stderr), 0, "{}", run.stderr);
    }
    let mean = |run: &crate::program::Run| -> f64 {
        let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert!(json["remarks"][0].as_str().is_some_and(|remark| remark.contains("queries q")), "{}", json["remarks"]);
        json["heads"][0]["query_mean"].as_f64().expect("a mean")
    };
    let expected = whole(1, 12).iter().sum::<f64>() / 12.0;
    assert!((mean(&plain) - expected).abs() < 1e-12 && (mean(&said) - expected).abs() < 1e-12);
    assert!((mean(&other) - expected).abs() > 1e-3);
    assert!(read("").stdout.contains("queries q bf16 (3, 4)") && other.stdout.contains("queries q f16 (3, 4)"));
}

#[test]
fn keys_that_look_transposed_are_called_so() {
    // UX-06.
    let folder = folder();
    save(
        &folder.path().join("t.safetensors"),
        DType::F32,
        &[("q", &[1, 1, 3, 8], &numbers(1, 24)), ("k", &[1, 1, 8, 5], &numbers(2, 40))],
    );
    let run = attn_in(folder.path(), "audit t.safetensors");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("K is (8, 5); Q has d = 8: K looks transposed"), "{}", run.stderr);
}

#[test]
fn several_dumps_are_a_series_and_several_arrays_are_one_dump() {
    let folder = folder();
    let (q, k, _) = attention(0.5, true);
    for (name, growth) in [("a", 1.0), ("b", 2.0), ("c", 4.0)] {
        let grown = |numbers: &[f64]| numbers.iter().map(|number| number * growth).collect::<Vec<f64>>();
        let arrays: [(&str, &[usize], &[f64]); 2] =
            [("q", &[1, 2, 3, 4], &grown(&q)), ("k", &[1, 2, 5, 4], &grown(&k))];
        save(&folder.path().join(format!("{name}.safetensors")), DType::F32, &arrays);
    }
    let run = attn_in(folder.path(), "audit a.safetensors b.safetensors c.safetensors --quiet");
    assert_eq!(run.code, Some(0));
    let rows = records(&run.stdout);
    let files: std::collections::BTreeSet<&str> = rows.iter().map(|row| row["file"].as_str()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    let growth: Vec<_> = rows.iter().filter(|row| row["check"] == "growth").collect();
    assert_eq!((growth.len(), growth[0]["verdict"].as_str()), (1, "WARN"));
    let ratio: f64 = growth[0]["measured"].parse().expect("a number");
    assert!((ratio / 16.0 - 1.0).abs() < 1e-6, "{ratio}");
    let table = attn_in(folder.path(), "audit a.safetensors b.safetensors --quiet --format table").stdout;
    assert!(table.contains("\na.safetensors\n") && table.contains("\nb.safetensors\n"), "{table}");
    // One array a file: no series.
    for (name, rows, numbers) in [("q", 3, &q), ("k", 5, &k)] {
        let mut file = File::create(folder.path().join(format!("{name}.npy"))).expect("a file");
        write_npy(&mut file, &tensor(DType::F32, &[2, rows, 4], numbers)).expect("written");
    }
    let rows = records(&attn_in(folder.path(), "audit q.npy k.npy --quiet").stdout);
    assert!(rows.iter().all(|row| row["file"] == "q.npy k.npy" && row["check"] != "growth"), "{rows:?}");
}

#[test]
fn the_checks_of_two_dumps_have_their_explanations() {
    for name in ["agreement", "agreement_weights", "cache", "growth"] {
        let run = attn(&format!("audit --explain {name}"));
        assert_eq!(run.code, Some(0), "{name}");
        let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["Formula:", "Verdict:", "Blind spots:"] {
            assert!(text.contains(part), "{name}: {part}");
        }
    }
    let run = attn("audit --explain nothing");
    assert!(run.stderr.contains("agreement") && !run.stderr.contains("agreement_q"), "{}", run.stderr);
}

#[test]
fn what_would_overwrite_or_hide_an_input_is_refused() {
    let folder = folder();
    let path = folder.path().join("a.safetensors");
    save_attention(&path, 0.5);
    save(&folder.path().join("q.safetensors"), DType::F32, &[("q", &[1, 2, 3, 4], &numbers(7, 24))]);
    let before = std::fs::read(&path).expect("the dump");
    for (line, words) in [
        (
            "audit a.safetensors --format csv -o ./a.safetensors",
            "--output ./a.safetensors: is also a file that is read",
        ),
        ("audit q.safetensors --against a.safetensors --format csv -o a.safetensors", "is also a file that is read"),
        ("audit a.safetensors q.safetensors", "q.safetensors: q: a.safetensors has it too"),
        ("audit --causal bottom-right a.safetensors", "write --causal=bottom-right"),
        (
            "audit a.safetensors --padding-kind ignore",
            "--padding-kind ignore: must be keep (1 = real) or hide (1 = padding)",
        ),
    ] {
        let run = attn_in(folder.path(), line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}");
        assert!(run.stderr.contains(words), "{line}: {}", run.stderr);
    }
    assert_eq!(std::fs::read(&path).expect("the dump"), before);
}

#[test]
fn the_picture_of_an_audit_names_what_is_wrong_and_changes_nothing_else() {
    let folder = folder();
    save_attention(&folder.path().join("a.safetensors"), 1.0);
    let line = "audit a.safetensors --scale 1/sqrt(dk) --format csv";
    let without = attn_in(folder.path(), line);
    for name in ["x.svg", "x.png"] {
        let run = attn_in(folder.path(), &format!("{line} --plot {name}"));
        assert_eq!((run.code, run.stdout, run.stderr), (Some(1), without.stdout.clone(), without.stderr.clone()));
    }
    let picture = crate::program::text(folder.path(), "x.svg");
    for words in
        [">\nscale\n<", "FAIL scale", "entropy of a row ÷ ln(visible keys), mean", ">\nhead\n<", ">\ndeclared\n<"]
    {
        assert!(picture.contains(words), "{words}");
    }
    // Width and height in the header of the PNG specification: 1600 pixels for 800 units.
    let bytes = std::fs::read(folder.path().join("x.png")).expect("there");
    assert_eq!(bytes[16..20], 1600u32.to_be_bytes());
    for (name, rule) in [("x.jpg", ".svg or .png"), ("-", "must name a file"), ("a.safetensors", ".svg or .png")] {
        let run = attn_in(folder.path(), &format!("{line} --plot {name}"));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (Some(2), "", 1), "{name}");
        assert!(run.stderr.contains("--plot") && run.stderr.contains(rule), "{}", run.stderr);
    }
}

#[test]
fn grouped_keys_agree_with_the_same_keys_repeated() {
    let folder = folder();
    let (q, k) = (numbers(1, 2 * 3 * 4), numbers(2, 5 * 4));
    let twice = [k.clone(), k.clone()].concat();
    let other = [k.clone(), numbers(9, 5 * 4)].concat();
    for (name, heads, keys) in [("one", 1, &k), ("two", 2, &twice), ("other", 2, &other)] {
        let path = folder.path().join(format!("{name}.safetensors"));
        save(&path, DType::F32, &[("q", &[1, 2, 3, 4], &q), ("k", &[1, heads, 5, 4], keys)]);
    }
    for (file, reference, code) in [("one", "two", 0), ("two", "one", 0), ("one", "other", 1)] {
        let run =
            attn_in(folder.path(), &format!("audit {file}.safetensors --against {reference}.safetensors --quiet"));
        assert_eq!(run.code, Some(code), "{file} {reference} {}", run.stdout);
    }
}
