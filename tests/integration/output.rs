//! What goes to standard output and to files, in which form.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{ATTN, Record, SMALL, attn, attn_in, folder, names, number, records, text};

/// PRODUCT.md, "The tidy CSV of the simulating subcommands".
const HEADER: &str = "command,statistic,scale,mask,d_k,n_queries,n_keys,entries,precision,trials,seed,estimate,std_error,\
                      ci_low,ci_high,theory,theory_kind,deviation,p_value,min_detectable,verdict,version,index,method,instructions";

/// Columns that hold numbers.
const NUMBERS: [&str; 12] = [
    "d_k",
    "n_queries",
    "n_keys",
    "trials",
    "seed",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "theory",
    "deviation",
    "p_value",
];

/// What stands after `"name":` in one line of JSON, numbers as their text: serde_json's own reader is allowed to be
/// one bit off.
fn json_field(line: &str, name: &str) -> String {
    let after = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {line}")).1;
    let end = after.find([',', '}']).expect("a field ends");
    match after[..end].trim_matches('"') {
        "null" => String::new(),
        value => value.to_string(),
    }
}

#[test]
fn the_first_line_in_a_pipe_is_the_header_and_the_closed_pipe_is_silent() {
    let output = Command::new("sh")
        .args(["-c", r#""$0" variance --dk 64 | head -1"#, ATTN])
        .output()
        .expect("a shell, and head");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{HEADER}\n"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "the note on the run and nothing else: {stderr}");
    assert!(stderr.starts_with("attn: seed 0, "), "{stderr}");
}

#[test]
fn a_pipe_closed_at_once_is_no_error() {
    // Long enough a sweep that its rows do not fit into a pipe's buffer (64 KiB): a write does fail.
    let widths = (1..=200).map(|width| width.to_string()).collect::<Vec<_>>().join(",");
    for format in ["csv", "json", "markdown", "table"] {
        let mut child = Command::new(ATTN)
            .args(["variance", "--dk", &widths, "-n", "3", "--trials", "2", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        // Two trials are too few to judge: 3 is the code that the same run has with an open pipe.
        assert_eq!(output.status.code(), Some(3), "{format}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("attn: seed 0, 2 trials") && stderr.lines().count() == 1, "{format}: {stderr}");
    }
}

#[test]
fn help_and_version_into_a_closed_pipe_are_no_error() {
    for line in ["--help", "variance --help", "--version"] {
        let mut child = Command::new(ATTN)
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{line}");
        let run = attn(line);
        assert!(run.code == Some(0) && run.stdout.contains("attn") && run.stderr.is_empty(), "{line}");
    }
}

#[test]
fn a_pipe_gets_the_tidy_csv_whose_every_record_is_full() {
    let run = attn(SMALL);
    assert_eq!(run.stdout.lines().next(), Some(HEADER));
    // Three statistics for each of two scales, five of the entries.
    let rows = records(&run.stdout);
    assert_eq!(rows.len(), 2 * 3 + 5);
    for row in &rows {
        assert_eq!(row["command"], "variance");
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(row["entries"], "normal");
        assert_eq!(row["precision"], "f64");
        assert_eq!(row["mask"], "");
        let shared = ["d_k", "n_queries", "n_keys", "trials", "seed"].map(|column| number(row, column));
        assert_eq!(shared, [5.0, 16.0, 16.0, 20.0, 0.0]);
    }
}

#[test]
fn numbers_in_csv_read_back_to_themselves() {
    // Rust prints the shortest decimal that reads back exactly: what is read and printed again is the same text.
    for row in records(&attn(SMALL).stdout) {
        for column in ["estimate", "std_error", "ci_low", "ci_high", "deviation", "p_value", "min_detectable"] {
            let text = &row[column];
            if !text.is_empty() {
                let value: f64 = text.parse().expect("a number");
                let printed = [format!("{value}"), format!("{value:e}"), format!("{value:?}")];
                assert!(printed.contains(text), "{column} {text}");
            }
        }
    }
}

#[test]
fn json_carries_the_same_rows_number_for_number() {
    let csv: Vec<Record> = records(&attn(SMALL).stdout);
    let json = attn(&format!("{SMALL} --format json")).stdout;
    let value: Value = serde_json::from_str(&json).expect("valid JSON");
    assert_eq!(value["command"], "variance");
    assert_eq!(value["invocation"], "attn variance --dk 5 --queries 16 --trials 20");
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(value["seed"], 0);
    let parsed = value["rows"].as_array().expect("an array");
    let lines: Vec<&str> = json.lines().filter(|line| line.contains("\"statistic\":")).collect();
    assert_eq!((parsed.len(), lines.len()), (csv.len(), csv.len()), "one row a line");
    for ((row, line), parsed) in csv.iter().zip(&lines).zip(parsed) {
        for name in HEADER.split(',') {
            let field = json_field(line, name);
            if NUMBERS.contains(&name) && !row[name].is_empty() {
                let bits = |text: &str| text.parse::<f64>().expect("a number").to_bits();
                assert_eq!(bits(&field), bits(&row[name]), "{name} in {line}");
                let near = parsed[name].as_f64().expect("a JSON number");
                assert!((near - number(row, name)).abs() <= 1e-14 * near.abs(), "{name}");
            } else if name != "min_detectable" {
                assert_eq!(field, row[name], "{name} in {line}");
                assert!(!row[name].is_empty() || parsed[name].is_null(), "{name}: missing is null");
            }
        }
    }
}

#[test]
fn the_invocation_in_json_is_what_a_shell_reads_back() {
    let folder = folder();
    // Where results go, and what does not matter to them, is left out; the rest stands in the order of the options in the program.
    let words = "variance --quiet --trials 20 -n 16 --mean -0.5 --format json --threads 1 --dk";
    let run = crate::program::attn_words(folder.path(), &words.split_whitespace().chain(["3, 5"]).collect::<Vec<_>>());
    let value: Value = serde_json::from_str(&run.stdout).expect("valid JSON");
    // Quoted by hand after POSIX 2.2.2.
    assert_eq!(value["invocation"], "attn variance --dk '3, 5' --queries 16 --trials 20 --mean=-0.5");
    // What is no run of trials says all that was typed.
    let run = crate::program::attn_words(
        folder.path(),
        &["complexity", "-qn", "16", "--dk", "4", "--time-budget", "1ms", "--format", "json"],
    );
    let value: Value = serde_json::from_str(&run.stdout).expect("valid JSON");
    assert_eq!(value["invocation"], "attn complexity -qn 16 --dk 4 --time-budget 1ms --format json");
}

#[test]
fn a_table_is_for_people() {
    let run = attn(&format!("{SMALL} --format table"));
    assert!(!run.stdout.contains(HEADER) && !run.stdout.contains('\u{1b}'), "no CSV and, in a pipe, no colour");
    let statistics = ["logit_mean", "logit_variance", "logit_kurtosis", "q_mean", "q_variance", "k_mean", "k_variance"];
    for statistic in statistics.into_iter().chain(["qk_correlation", "1/√d_k", "none", "normal", "1e-6"]) {
        assert!(run.stdout.contains(statistic), "{statistic} in\n{}", run.stdout);
    }
    let longest = run.stdout.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?}");
}

#[test]
fn markdown_is_one_table_with_a_line_for_each_row() {
    let run = attn(&format!("{SMALL} --format markdown"));
    let table: Vec<&str> = run.stdout.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table.len(), 2 + 11, "{}", run.stdout);
    let cells = table[0].matches('|').count();
    assert!(table.iter().all(|line| line.matches('|').count() == cells), "{}", run.stdout);
    assert!(table[1].chars().all(|character| "|-: ".contains(character)), "{}", table[1]);
}

#[test]
fn the_ending_of_a_file_decides_its_form_and_standard_output_stays_empty() {
    let folder = folder();
    for (name, format) in [("x.csv", "csv"), ("x.json", "json"), ("x.md", "markdown"), ("Y.CSV", "csv")] {
        let run = attn_in(folder.path(), &format!("{SMALL} -o {name}"));
        assert_eq!(run.stdout, "", "{name}");
        // JSON says how it was made: the line is the only difference.
        let without = |text: &str| {
            text.lines()
                .filter(|line| !line.contains("\"invocation\""))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let expected = attn(&format!("{SMALL} --format {format}")).stdout;
        assert_eq!(without(&text(folder.path(), name)), without(&expected), "{name}");
    }
    assert_eq!(names(folder.path()), ["Y.CSV", "x.csv", "x.json", "x.md"]);
}

#[test]
fn the_flag_wins_over_the_ending() {
    let folder = folder();
    let run = attn_in(folder.path(), &format!("{SMALL} -o x.txt --format csv"));
    assert!(run.code == Some(3) && text(folder.path(), "x.txt").starts_with(HEADER), "{run:?}");
    attn_in(folder.path(), &format!("{SMALL} -o x.csv --format json"));
    assert!(text(folder.path(), "x.csv").starts_with('{'));
}

#[test]
fn a_hyphen_is_standard_output() {
    let plain = attn(SMALL);
    for line in [format!("{SMALL} -o -"), format!("{SMALL} --output -"), format!("{SMALL} --output=- --format csv")] {
        assert_eq!(attn(&line).stdout, plain.stdout, "{line}");
    }
}

#[test]
fn an_existing_file_is_replaced_when_the_run_has_succeeded() {
    let folder = folder();
    for name in ["x.csv", "trials.csv", "x.svg"] {
        std::fs::write(folder.path().join(name), "old").expect("room");
    }
    let run = attn_in(folder.path(), &format!("{SMALL} -o x.csv --per-trial trials.csv --plot x.svg"));
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""));
    assert_eq!(names(folder.path()), ["trials.csv", "x.csv", "x.svg"], "no temporary is left");
    assert!(text(folder.path(), "x.csv").starts_with(HEADER));
    assert!(text(folder.path(), "trials.csv").starts_with("command,version,seed,d_k,"));
    assert!(text(folder.path(), "x.svg").contains("<svg"));
}

#[test]
fn a_picture_with_the_ending_png_is_a_png() {
    let folder = folder();
    attn_in(folder.path(), &format!("{SMALL} -q --plot x.png"));
    // The signature of the PNG specification, section 5.2.
    assert!(std::fs::read(folder.path().join("x.png")).expect("there").starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[test]
fn the_example_in_the_help_works_without_a_terminal() {
    let run = attn("variance --help");
    for option in ["--dk", "--queries", "--trials", "--detect", "--false-alarm", "--miss", "--entries", "--seed"] {
        assert!(run.stdout.contains(option), "{option}");
    }
    assert!(run.stdout.contains("Exit codes: 0"), "{}", run.stdout);
}

#[test]
fn a_result_that_cannot_be_drawn_is_delivered_without_a_picture() {
    let folder = folder();
    // Three trials of four tokens: no row has a smallest detectable deviation.
    let run = attn_in(folder.path(), "softmax-spikiness -n 4 --dk 64 --trials 3 --plot x.png --format csv");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.starts_with(HEADER) && run.stdout.lines().count() > 10, "{}", run.stdout);
    assert!(run.stderr.contains("--plot: no row has a smallest detectable deviation"), "{}", run.stderr);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_row_rejected_for_an_overflow_says_so_below_the_table() {
    let run = attn("variance --precision f16 --sd 1000 -n 4 --trials 3 --format table");
    assert_eq!(run.code, Some(1));
    let words = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("rejected logit_mean, logit_variance, logit_kurtosis: the estimate does not exist, an overflow"),
        "{words}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn help_and_version_on_a_full_disk_are_an_error_in_one_line() {
    for option in ["--help", "--version", "variance --help"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = std::process::Command::new(crate::program::ATTN);
        let output = command.args(option.split(' ')).stdout(full).output().expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}: {error}");
        assert!(error.starts_with("attn: error: cannot write to standard output: No space left"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
