//! `attn probe`: cases as files, any program as the adapter, and a judgement that loses nothing of the rest.

use std::fs;
use std::path::Path;

use attn::probe::answer::Answer;
use attn::probe::attend::{Outcome, attend};
use attn::probe::behaviour::{Arithmetic, Behaviour, right};
use attn::probe::case::{Block, Case};
use attn::probe::manifest::{Manifest, read_case};
use attn::tensors::{DType, Tensor, TensorFile, Values, write_safetensors};

use crate::program::{Record, Run, attn, attn_in, attn_words, folder, names, number, records, text};

/// The definition's answer under a changed behaviour, written as a program of another language would.
fn answer_with(probe: &Path, change: impl Fn(&Case, &mut Behaviour)) {
    for line in &Manifest::read(probe).expect("own manifest").cases {
        let case = read_case(probe, line).expect("own case");
        let mut behaviour = right(&case).swap_remove(0);
        change(&case, &mut behaviour);
        let outcome = attend(&case, &behaviour, Arithmetic::of(case.storage));
        write_answer(&probe.join(&line.output), &outcome.output, "o", DType::F32);
    }
}

fn write_answer(path: &Path, block: &Block, name: &str, dtype: DType) {
    let tensor = Tensor { dtype, shape: block.shape.to_vec(), values: Values::F64(block.numbers.clone()) };
    let mut bytes = Vec::new();
    write_safetensors(&mut bytes, [(name, &tensor)]).expect("a vector takes every byte");
    fs::write(path, bytes).expect("room");
}

fn judged(folder: &Path) -> (Run, Vec<Record>) {
    let run = attn_in(folder, "probe judge p --format csv");
    let rows = records(&run.stdout);
    (run, rows)
}

fn case_row<'a>(rows: &'a [Record], case: &str) -> &'a Record {
    rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("no row for {case}"))
}

fn new_probe(only: &str) -> tempfile::TempDir {
    let folder = folder();
    let run = attn_in(folder.path(), &format!("probe new p {only}"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    folder
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let folder = folder();
    for line in ["probe new a", "probe new b", "probe new c --seed 7"] {
        assert_eq!(attn_in(folder.path(), line).code, Some(0));
    }
    let read = |probe: &str, name: &str| fs::read(folder.path().join(probe).join(name)).expect("there");
    let cases = names(&folder.path().join("a/cases"));
    assert!(cases.len() > 100, "{} cases", cases.len());
    let mut total = 0;
    for name in cases.iter().map(|name| format!("cases/{name}")).chain(["manifest.json".to_string()]) {
        assert!(read("a", &name) == read("b", &name), "{name}");
        total += read("a", &name).len();
    }
    assert!(total < 20_000_000, "{total} bytes");
    let name = "cases/default-scale-output.safetensors";
    assert!(read("a", name) != read("c", name), "the seed matters");
}

#[test]
fn a_file_alone_says_what_is_asked_for_and_every_case_is_one_line() {
    let folder = new_probe("--only window");
    let manifest = text(folder.path(), "p/manifest.json");
    let lines: Vec<&str> = manifest.lines().filter(|line| line.starts_with("{\"name\"")).collect();
    assert_eq!(lines.len(), names(&folder.path().join("p/cases")).len());
    let bytes = fs::read(folder.path().join("p/cases/window-left.safetensors")).expect("there");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
    assert!(length.is_multiple_of(8), "data begin at a multiple of eight");
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a JSON header");
    let text = &header["__metadata__"];
    assert_eq!((&text["window"], &text["causal"]), (&"[6,0]".into(), &"either".into()));
    assert_eq!(
        (&text["name"], &text["capability"], &text["dtype"]),
        (&"window-left".into(), &"window".into(), &"f32".into())
    );
    let file = TensorFile::open(folder.path().join("p/cases/window-left.safetensors")).expect("readable");
    assert_eq!(file.names().collect::<Vec<_>>(), ["k", "q", "v"]);
}

#[test]
fn the_definition_is_right_and_a_wrong_scale_is_named_with_its_numbers() {
    let folder = new_probe("--only default-scale causal");
    answer_with(&folder.path().join("p"), |_, _| {});
    let (run, rows) = judged(folder.path());
    assert_eq!(run.code, Some(0), "{}", run.stdout);
    assert!(rows.iter().all(|row| row["verdict"] == "right"), "{}", run.stdout);
    // One row for each capability, then its cases.
    assert_eq!((rows[0]["capability"].as_str(), rows[0]["case"].as_str()), ("default-scale", ""));
    assert!(case_row(&rows, "causal-more-keys")["explanation"].contains("top-left"));
    answer_with(&folder.path().join("p"), |case, behaviour| {
        behaviour.scale = 1.0 / case.inputs.shape().width as f64;
    });
    let (run, rows) = judged(folder.path());
    assert_eq!(run.code, Some(1));
    let row = case_row(&rows, "default-scale-output");
    assert_eq!((row["verdict"].as_str(), row["cause"].as_str(), row["array"].as_str()), ("wrong", "scale", "o"));
    assert!(row["explanation"].contains("1/d_k"), "{row:?}");
    // The ratio is in units of which the bound is `multiple`.
    let (error, bound) = (number(row, "error"), number(row, "bound"));
    assert!((number(row, "ratio") * bound / number(row, "multiple") / error - 1.0).abs() < 1e-12, "{row:?}");
}

#[test]
fn what_is_wrong_with_one_answer_is_said_and_the_rest_is_judged() {
    let folder = new_probe("--only non-square explicit-scale");
    let probe = folder.path().join("p");
    answer_with(&probe, |_, _| {});
    let out = |name: &str| probe.join("out").join(name);
    fs::write(out("non-square-more-keys.safetensors"), b"\x07\0\0").expect("room");
    let block = Block::zeros([1, 23, 2, 5]);
    write_answer(&out("non-square-more-queries.safetensors"), &block, "o", DType::F32);
    write_answer(&out("non-square-one-query.safetensors"), &Block::zeros([2, 3, 1, 11]), "out", DType::F32);
    write_answer(&out("non-square-one-key.safetensors"), &Block::zeros([2, 3, 11, 7]), "o", DType::I64);
    write_answer(
        &out("non-square-width-one.safetensors"),
        &Block::zeros([1, 2, 5, 1]).map(|_| f64::NAN),
        "o",
        DType::F32,
    );
    fs::remove_file(out("non-square-wide-values.safetensors")).expect("there");
    fs::remove_file(out("explicit-scale-odd.safetensors")).expect("there");
    fs::write(out("explicit-scale-odd.unsupported"), "no scale but powers of two\n").expect("room");
    fs::remove_file(out("explicit-scale-one.safetensors")).expect("there");
    fs::write(out("explicit-scale-one.error"), "Traceback (most recent call last):\n  File x\nValueError: why\n")
        .expect("room");
    write_answer(&out("explicit-scal.safetensors"), &block, "o", DType::F32);
    let (run, rows) = judged(folder.path());
    assert_eq!(run.code, Some(1));
    for (case, verdict, words) in [
        ("non-square-more-keys", "failed", "unreadable file"),
        ("non-square-more-queries", "failed", "looks like (batch, token, head, width)"),
        ("non-square-one-query", "failed", "it holds out"),
        ("non-square-one-key", "failed", "o is of type i64"),
        ("non-square-width-one", "wrong", "NaN"),
        ("non-square-wide-values", "failed", "no answer"),
        ("explicit-scale-odd", "unsupported", "no scale but powers of two"),
        ("explicit-scale-one", "failed", "ValueError: why"),
        ("explicit-scale-small", "right", ""),
    ] {
        let row = case_row(&rows, case);
        assert_eq!(row["verdict"], verdict, "{row:?}");
        assert!(row["explanation"].contains(words), "{row:?}");
    }
    let table = attn_in(folder.path(), "probe judge p --format table").stdout;
    assert!(table.contains("out/explicit-scal.safetensors: no case has this name"), "{table}");
}

#[test]
fn without_any_answer_nothing_is_decided() {
    let folder = new_probe("--only padding");
    assert_eq!(judged(folder.path()).0.code, Some(3));
    fs::write(folder.path().join("p/out/padding-loud.unsupported"), "no padding\n").expect("room");
    assert_eq!(judged(folder.path()).0.code, Some(3), "a capability without data does not pass");
}

#[test]
fn the_picture_of_a_probe_has_a_line_for_each_capability_and_names_the_cause() {
    let folder = new_probe("--only default-scale f32");
    answer_with(&folder.path().join("p"), |case, behaviour| {
        if case.name.starts_with("default-scale") {
            behaviour.scale = 1.0;
        }
    });
    let run = attn_in(folder.path(), "probe judge p --format csv --plot x.svg");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(run.stdout, judged(folder.path()).0.stdout);
    let picture = text(folder.path(), "x.svg");
    for words in [">\ndefault-scale\n<", ">\nf32\n<", ">\n4/4 right\n<", ">\n0/4 right\n<", ">\nwrong\n<", "4 cases"] {
        assert!(picture.contains(words), "{words}");
    }
    let refused = attn_in(folder.path(), "probe judge p --plot x.jpg");
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(2), 1));
    assert!(refused.stderr.contains("--plot 'x.jpg': the ending must be .svg or .png"), "{}", refused.stderr);
}

#[test]
fn wrong_usage_is_one_line_with_the_rule() {
    for (line, words) in [
        ("probe new p --seed -1", "--seed -1"),
        ("probe new p --only scales", "default-scale"),
        ("probe judge nowhere", "'attn probe new nowhere' makes a probe"),
        ("probe run p", "--adapter NAME, or -- CMD"),
        ("probe run p --adapter nump", "numpy"),
        ("probe run p --adapter numpy --timeout 0", "--timeout 0"),
        ("probe adapter nump", "must be one of"),
    ] {
        let run = attn(line);
        assert_eq!((run.code, run.stderr.lines().count()), (Some(2), 1), "{line}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{line}: {}", run.stderr);
    }
}

#[test]
fn a_folder_with_other_files_is_refused_and_an_old_probe_replaced() {
    let folder = folder();
    fs::create_dir(folder.path().join("p")).expect("room");
    fs::write(folder.path().join("p/thesis.txt"), "mine").expect("room");
    let run = attn_in(folder.path(), "probe new p --only window");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(names(&folder.path().join("p")), ["thesis.txt"]);
    assert_eq!(attn_in(folder.path(), "probe new p --only window --force").code, Some(0));
    fs::write(folder.path().join("p/out/window-left.error"), "old\n").expect("room");
    let run = attn_in(folder.path(), "probe new p --only causal --seed 3");
    assert!(run.stdout.contains("replaced the probe of seed 0"), "{}", run.stdout);
    assert_eq!(text(folder.path(), "p/thesis.txt"), "mine");
    assert!(names(&folder.path().join("p/out")).is_empty(), "answers to the old cases are gone");
    assert!(names(&folder.path().join("p/cases")).iter().all(|name| name.starts_with("causal-")));
}

#[test]
fn the_manifest_cannot_name_files_outside_its_folder() {
    let folder = new_probe("--only alibi");
    let manifest = text(folder.path(), "p/manifest.json");
    for (from, to) in [("\"alibi-output\"", "\"../alibi-output\""), ("cases/alibi-output", "../alibi-output")] {
        fs::write(folder.path().join("p/manifest.json"), manifest.replace(from, to)).expect("room");
        let run = judged(folder.path()).0;
        assert_eq!((run.code, run.stderr.lines().count()), (Some(2), 1), "{}", run.stderr);
    }
    fs::write(folder.path().join("p/manifest.json"), manifest.replace("\"protocol\":1", "\"protocol\":2"))
        .expect("room");
    assert!(judged(folder.path()).0.stderr.contains("protocol 2"));
}

/// Adapters in a shell: a POSIX system has one.
#[cfg(unix)]
mod running {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Answers the cases but for two: one at which it dies, one at which it and a child of its own never end.
    const SHELL: &str = r#"
for case in $(sed -n 's/^{"name":"\([^"]*\)".*/\1/p' "$1/manifest.json"); do
  for kind in safetensors unsupported error; do [ -e "$2/$case.$kind" ] && continue 2; done
  case $case in
    *-small) echo "segmentation fault, they say" >&2; kill -9 $$;;
    *-odd) sleep 300 & echo $! > "$2/../child"; sleep 300;;
    *) cp "$1/ready/$case.safetensors" "$2/";;
  esac
done
"#;

    #[test]
    fn a_command_that_dies_or_hangs_costs_one_case_and_leaves_no_child() {
        let folder = new_probe("--only explicit-scale");
        let probe = folder.path().join("p");
        answer_with(&probe, |_, _| {});
        fs::rename(probe.join("out"), probe.join("ready")).expect("same disk");
        fs::write(folder.path().join("adapter.sh"), SHELL).expect("room");
        let start = Instant::now();
        let words = [
            "probe",
            "run",
            "p",
            "--timeout",
            "2",
            "--format",
            "csv",
            "--",
            "sh",
            "adapter.sh",
            "{cases}",
            "{outputs}",
        ];
        let run = attn_words(folder.path(), &words);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(start.elapsed() < Duration::from_secs(100), "it does not wait for what hangs");
        let rows = records(&run.stdout);
        let died = case_row(&rows, "explicit-scale-small");
        assert_eq!(died["verdict"], "failed");
        assert!(died["explanation"].contains("signal 9"), "{died:?}");
        assert!(died["explanation"].contains("segmentation fault, they say"), "{died:?}");
        let hung = case_row(&rows, "explicit-scale-odd");
        assert!(hung["explanation"].contains("timed out"), "{hung:?}");
        for case in ["explicit-scale-one", "explicit-scale-one-weights"] {
            assert_eq!(case_row(&rows, case)["verdict"], "right");
        }
        assert!(is_gone(&text(&probe, "child")), "the sleeping child was ended with its parent");
    }

    /// Whether the process has ended (a zombie counts).
    fn is_gone(id: &str) -> bool {
        let running = || {
            let shown = Command::new("ps").args(["-o", "stat=", "-p", id.trim()]).output().expect("ps exists");
            String::from_utf8_lossy(&shown.stdout).trim().chars().next().is_some_and(|state| state != 'Z')
        };
        (0..100).any(|_| {
            let gone = !running();
            if !gone {
                std::thread::sleep(Duration::from_millis(50));
            }
            gone
        })
    }

    #[test]
    fn a_command_for_each_case_gets_its_files() {
        let folder = new_probe("--only explicit-scale");
        let probe = folder.path().join("p");
        answer_with(&probe, |_, _| {});
        fs::rename(probe.join("out"), probe.join("cases/ready")).expect("same disk");
        let script = "cp \"$(dirname \"$1\")/ready/$(basename \"$1\")\" \"$2\"; case $1 in *-odd.*) exit 3;; esac";
        let words = ["probe", "run", "p", "--format", "csv", "--", "sh", "-c", script, "adapter", "{case}", "{output}"];
        let run = attn_words(folder.path(), &words);
        let rows = records(&run.stdout);
        assert_eq!(case_row(&rows, "explicit-scale-one")["verdict"], "right", "{}", run.stdout);
        let failed = case_row(&rows, "explicit-scale-odd");
        assert!(
            failed["explanation"].contains("exit status 3"),
            "an answer of a command that failed is none: {failed:?}"
        );
    }

    #[test]
    fn a_command_that_never_answers_is_given_up() {
        let folder = new_probe("--only causal");
        let words = ["probe", "run", "p", "--format", "csv", "--", "sh", "-c", "echo start >> p/starts; exit 7"];
        let run = attn_words(folder.path(), &words);
        // Not one answer: as where the command does nothing.
        assert_eq!(run.code, Some(3));
        assert_eq!(text(folder.path(), "p/starts").lines().count(), 3);
        assert!(
            records(&run.stdout).iter().filter(|row| !row["case"].is_empty()).all(|row| row["verdict"] == "failed")
        );
        let run = attn_words(folder.path(), &["probe", "run", "p", "--", "./no-such-program"]);
        assert_eq!((run.code, run.stderr.lines().count()), (Some(2), 1), "{}", run.stderr);
    }

    #[test]
    fn a_command_that_ends_by_itself_too_early_is_said_so() {
        let folder = new_probe("--only explicit-scale");
        let probe = folder.path().join("p");
        answer_with(&probe, |_, _| {});
        fs::rename(probe.join("out"), probe.join("cases/ready")).expect("same disk");
        let cases = Manifest::read(&probe).expect("own").cases;
        assert!(cases.len() >= 3, "a first, a second, and those after");
        let answered = &cases[1].name;
        let script = format!("cp \"$1/cases/ready/{answered}.safetensors\" \"$2\"");
        let run =
            attn_words(folder.path(), &["probe", "run", "p", "--format", "csv", "--", "sh", "-c", &script, "adapter"]);
        let rows = records(&run.stdout);
        assert_eq!(run.code, Some(1), "{}", run.stdout);
        let words = |index: usize| case_row(&rows, &cases[index].name)["explanation"].clone();
        assert_eq!(case_row(&rows, answered)["verdict"], "right");
        assert_eq!(words(0), "no answer: the command left this case out, and ended with exit code 0");
        assert_eq!(words(2), "no answer: the command ended with exit code 0 before this case");
        // Nothing at all, whatever the exit code.
        for command in ["true", "false"] {
            let run = attn_words(folder.path(), &["probe", "run", "p", "--format", "table", "--", command]);
            assert_eq!(run.code, Some(3), "{}", run.stdout);
            assert!(run.stdout.contains("no case was answered: nothing is decided"), "{}", run.stdout);
            assert!(run.stdout.contains("ended with exit "), "{}", run.stdout);
        }
        let run = attn_words(folder.path(), &["probe", "run", "p", "--format", "csv", "--", "test", "-e", "{case}"]);
        assert_eq!(run.code, Some(3), "{}", run.stdout);
        assert!(run.stdout.contains("no answer: the command ended with exit code 0 and wrote none"), "{}", run.stdout);
    }

    #[test]
    fn an_interrupt_ends_the_command_and_its_children() {
        let folder = new_probe("--only alibi");
        let script = "sleep 300 & echo $! > p/child.tmp; mv p/child.tmp p/child; sleep 300";
        let mut run = Command::new(crate::program::ATTN)
            .args(["probe", "run", "p", "--", "sh", "-c", script])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let child = folder.path().join("p/child");
        assert!((0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            child.exists()
        }));
        Command::new("kill").arg("-TERM").arg(run.id().to_string()).status().expect("kill exists");
        assert_eq!(run.wait().expect("a child").code(), Some(143));
        assert!(is_gone(&fs::read_to_string(child).expect("there")));
    }
}

#[test]
fn the_names_of_the_adapters_are_printed_and_one_is_a_file_to_copy_from() {
    let run = attn("probe adapter");
    assert!(run.stdout.lines().any(|name| name == "numpy"), "{}", run.stdout);
    let run = attn("probe adapter numpy");
    assert!(run.stdout.starts_with("#!/usr/bin/env python3"), "{}", &run.stdout[..60]);
}

#[test]
fn answers_of_the_library_are_what_the_files_say() {
    // Outcome's names are those of the protocol.
    let folder = new_probe("--only gradients");
    let probe = folder.path().join("p");
    let line = &Manifest::read(&probe).expect("own").cases[0];
    let case = read_case(&probe, line).expect("own");
    let outcome: Outcome = attend(&case, &right(&case)[0], Arithmetic::of(case.storage));
    for name in &line.wants {
        assert!(outcome.array(name).is_some(), "{name}");
    }
    assert_eq!(attn::probe::answer::read(&probe, line, &case.inputs.shape()), Answer::Missing);
}
