//! Wrong usage: one line on standard error that names option, value and rule; exit code 2; nothing written.

use std::fs;
use std::path::Path;

use crate::program::{Run, attn_in, attn_words, folder, names, text};

/// Words of a wrong command line, and what the error must say of option, value and rule.
type Case = (&'static str, &'static [&'static str]);

const SIZES: &[Case] = &[
    ("--dk 0", &["--dk 0", "at least 1"]),
    ("--dk 4,0,8", &["--dk 4,0,8", "at least 1"]),
    ("--dk 4,,8", &["--dk 4,,8", "empty item"]),
    ("--dk 8..2", &["--dk 8..2", "smaller end first"]),
    ("--dk 1.5", &["--dk 1.5", "whole number"]),
    ("--dk -3", &["--dk -3", "whole number"]),
    ("--dk many", &["--dk many", "whole number"]),
    ("--dk 99999999999", &["--dk 99999999999", "at most 4294967295"]),
    ("--keys 0", &["--keys 0", "at least 1"]),
    ("-m 0", &["--keys 0", "at least 1"]),
    ("--queries 0", &["--queries 0", "at least 1"]),
    ("-n nan", &["--queries nan", "whole number"]),
    ("-n 4000000000", &["--queries 4000000000", "GB"]),
    ("-n 3 -m 4000000000 --dk 512", &["--keys 4000000000", "GB"]),
    ("--dk 4294967295 -n 4294967295", &["--dk 4294967295", "GB"]),
    ("--trials 1e9 -n 65536 --dk 1024", &["--trials 1000000000", "days"]),
    ("--trials 0", &["--trials 0", "at least 1"]),
    ("--trials -5", &["--trials -5", "at least 1"]),
    ("--trials 1.5", &["--trials 1.5", "whole number"]),
    ("--trials 1e30", &["--trials 1e30", "at most"]),
    ("--trials nan", &["--trials nan", "whole number"]),
];

const RATES: &[Case] = &[
    ("--detect nan", &["--detect nan", "above 0"]),
    ("--detect 0", &["--detect 0", "above 0"]),
    // Within the rule, but beyond what the largest number of trials can see in any row.
    ("--detect 1e-9", &["--detect", "trials"]),
    ("--detect -1%", &["--detect -1%", "above 0"]),
    ("--detect 100%", &["--detect 100%", "below 100 %"]),
    ("--miss -1", &["--miss -1", "probability"]),
    ("--miss 0", &["--miss 0", "probability"]),
    ("--miss nan", &["--miss nan", "probability"]),
    ("--false-alarm 0", &["--false-alarm 0", "probability"]),
    ("--false-alarm 1", &["--false-alarm 1", "probability"]),
    ("--false-alarm inf", &["--false-alarm inf", "probability"]),
];

const LAWS: &[Case] = &[
    ("--entries cauchy", &["--entries cauchy", "normal, uniform, rademacher, laplace, student-t:NU"]),
    ("--entries student-t:3", &["--entries student-t:3", "4"]),
    ("--entries student-t:4", &["--entries student-t:4", "4"]),
    ("--entries student-t:nan", &["--entries student-t:nan"]),
    ("--entries student-t:x", &["--entries student-t:x", "number"]),
    ("--mean nan", &["--mean nan", "finite"]),
    ("--mean inf", &["--mean inf", "finite"]),
    ("--mean 1e9", &["--mean 1e9", "1000"]),
    ("--sd 0", &["--sd 0", "above 0"]),
    ("--sd -1", &["--sd -1", "above 0"]),
    ("--sd 1e9", &["--sd 1e9", "1000"]),
    ("--correlation 2", &["--correlation 2", "between -1 and 1"]),
    ("--correlation nan", &["--correlation nan", "finite"]),
    ("--correlation 0.5 -n 7 -m 11", &["--correlation 0.5", "--queries 7 --keys 11", "as many keys as queries"]),
    ("--correlation 0.5 --entries uniform", &["--correlation 0.5", "--entries normal only", "uniform"]),
];

const RUN: &[Case] = &[
    ("--scale 0", &["--scale 0", "no logits"]),
    ("--scale 1e-81", &["--scale 1e-81", "between 1e-20 and 1e20"]),
    ("--scale none,-1e160", &["--scale none,-1e160", "between 1e-20 and 1e20"]),
    ("--scale nan", &["--scale nan", "inv-sqrt-dk"]),
    ("--scale sqrt", &["--scale sqrt", "inv-sqrt-dk"]),
    ("--scale none,", &["--scale none,", "inv-sqrt-dk"]),
    ("--moments 3", &["--moments 3", "must be 2", "or 4"]),
    ("--draw wishart", &["--draw wishart", "matrices, gram"]),
    ("--draw gram --moments 4", &["--moments 4", "--draw gram"]),
    ("--draw gram --entries uniform", &["--entries uniform", "--draw gram", "normal"]),
    ("--draw gram --correlation 0.5", &["--correlation 0.5", "--draw gram"]),
    ("--draw gram --precision f32", &["--precision f32", "--draw gram", "f64"]),
    ("--draw gram --precision f16", &["--precision f16", "--draw gram", "f64 or f32"]),
    ("--moments 2 --precision bf16", &["--precision bf16", "--moments 2", "f64 or f32"]),
    ("--precision f8", &["--precision f8", "f64", "bf16"]),
    ("--seed -1", &["--seed -1", "whole number", "random"]),
    ("--seed 1.5", &["--seed 1.5", "whole number"]),
    ("--seed 18446744073709551616", &["--seed 18446744073709551616", "18446744073709551615"]),
    ("--threads 0", &["--threads 0", "at least 1"]),
    ("--threads 99999", &["--threads 99999", "at most"]),
    ("--shard 1/2", &["--shard 1/2", "--per-trial"]),
    ("--shard 0/2", &["--shard 0/2", "1 ≤ I ≤ K"]),
    ("--shard 0/2 --per-trial p.csv", &["--shard 0/2", "1 ≤ I ≤ K"]),
    ("--shard 3/2 --per-trial p.csv", &["--shard 3/2", "1 ≤ I ≤ K"]),
    ("--shard half --per-trial p.csv", &["--shard half", "I/K"]),
    ("--format xml", &["--format", "xml", "table, csv, json or markdown"]),
    ("--format csv --format json", &["--format", "multiple times"]),
    ("--colour", &["--colour", "unexpected argument"]),
    ("--dk", &["--dk", "value is required"]),
    ("64", &["64", "unexpected argument"]),
];

/// Cases that name files themselves.
const FILES: &[Case] = &[
    ("-o x.txt", &["--output", "x.txt", ".csv, .json or .md"]),
    ("-o x", &["--output", "'x'", ".csv, .json or .md"]),
    ("-o missing/x.csv", &["--output", "missing/x.csv", "'missing' does not exist"]),
    ("--per-trial missing/x.csv", &["--per-trial", "missing/x.csv", "'missing' does not exist"]),
    ("--plot missing/x.svg", &["--plot", "missing/x.svg", "'missing' does not exist"]),
    ("--per-trial -", &["--per-trial -", "must name a file"]),
    ("--plot -", &["--plot -", "must name a file"]),
    ("-o . --format csv", &["--output", "'.'", "folder"]),
    ("--per-trial .", &["--per-trial", "'.'", "folder"]),
    ("--plot x.pdf", &["--plot", "x.pdf", ".svg or .png"]),
    ("--plot x", &["--plot", "'x'", ".svg or .png"]),
    ("-o x.csv --per-trial x.csv", &["--per-trial x.csv", "--output", "two files"]),
    ("-o x.csv --per-trial ./x.csv", &["--per-trial ./x.csv", "--output", "two files"]),
    ("-o x.svg --plot x.svg --format csv", &["--plot x.svg", "--output", "two files"]),
    ("--per-trial x.svg --plot x.svg", &["--plot x.svg", "--per-trial", "two files"]),
];

fn assert_refused(run: &Run, wanted: &[&str], what: &str) {
    assert_eq!(run.code, Some(2), "{what}: {run:?}");
    assert_eq!(run.stdout, "", "{what}");
    assert_eq!(run.stderr.lines().count(), 1, "{what}: one line, not\n{}", run.stderr);
    assert!(run.stderr.starts_with("attn: error: ") && run.stderr.ends_with('\n'), "{what}: {}", run.stderr);
    for part in wanted {
        assert!(run.stderr.contains(part), "{what}: no '{part}' in {}", run.stderr);
    }
    assert!(!run.stderr.contains("panicked"), "{what}");
}

/// Runs every case in an empty folder, and again among files that it must leave alone.
fn check(cases: &[Case], outputs: &str) {
    for (line, wanted) in cases {
        let empty = folder();
        assert_refused(&attn_in(empty.path(), &format!("variance {line}")), wanted, line);
        assert_eq!(names(empty.path()), [""; 0], "{line}: something was written");

        let full = folder();
        let old = ["trials.csv", "x.csv", "x.svg", "p.csv", "x.txt", "x", "x.pdf"];
        for name in old {
            fs::write(full.path().join(name), "old").expect("room");
        }
        // Where the case names a file of the same kind, its own error or "multiple times" comes first: either way
        // nothing is touched.
        let run = attn_in(full.path(), &format!("variance {outputs} {line}"));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (Some(2), "", 1), "{line}: {run:?}");
        assert_untouched(full.path(), &old);
    }
}

fn assert_untouched(folder: &Path, old: &[&str]) {
    let mut sorted: Vec<&str> = old.to_vec();
    sorted.sort_unstable();
    assert_eq!(names(folder), sorted);
    for name in old {
        assert_eq!(text(folder, name), "old", "{name}");
    }
}

/// Results that a right command line would have written.
const OUTPUTS: &str = "-o x.csv --plot x.svg";

#[test]
fn impossible_sizes_and_trials_are_refused() {
    check(SIZES, "-o x.csv --plot x.svg --per-trial trials.csv");
}

#[test]
fn impossible_error_rates_are_refused() {
    check(RATES, "-o x.csv --plot x.svg --per-trial trials.csv");
}

#[test]
fn unknown_laws_and_assumptions_without_a_meaning_are_refused() {
    check(LAWS, "-o x.csv --plot x.svg --per-trial trials.csv");
}

#[test]
fn unknown_ways_to_run_are_refused() {
    let (with_file, without): (Vec<Case>, Vec<Case>) =
        RUN.iter().copied().partition(|(line, _)| line.contains("--shard"));
    check(&with_file, OUTPUTS);
    check(&without, "-o x.csv --plot x.svg --per-trial trials.csv");
}

#[test]
fn unwritable_and_ambiguous_files_are_refused_before_anything_runs() {
    // The note on the run would be a second line: that there is one says that nothing was begun.
    check(FILES, "-n 3 --trials 2");
}

#[test]
fn a_second_name_for_one_file_is_no_second_file() {
    let folder = folder();
    let whole = folder.path().join("x.csv");
    let run =
        attn_in(folder.path(), &format!("variance --trials 2 -n 3 --dk 2 -o x.csv --per-trial {}", whole.display()));
    assert_refused(&run, &["--per-trial", "--output", "two files"], "relative and absolute");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn an_empty_value_is_shown_as_one() {
    for (option, rule) in
        [("--dk", "empty item"), ("--entries", "one of"), ("--seed", "whole number"), ("-o", "path is empty")]
    {
        let folder = folder();
        let run = attn_words(folder.path(), &["variance", option, "", "--format", "csv"]);
        assert_refused(&run, &["''", rule], option);
    }
}

#[test]
fn a_value_with_line_breaks_still_gives_one_line() {
    let folder = folder();
    for option in ["--dk", "--entries", "--scale", "--format", "--per-trial", "-o", "--shard"] {
        let run = attn_words(folder.path(), &["variance", "-n", "3", option, "two\nlines/x"]);
        assert_refused(&run, &["two lines/x"], option);
    }
    assert_eq!(names(folder.path()), [""; 0]);
}

#[cfg(unix)]
#[test]
fn a_value_that_is_no_text_gives_one_line() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let run = attn_words(folder.path(), &[OsStr::new("variance"), OsStr::new("--dk"), OsStr::from_bytes(b"\xff")]);
    assert_refused(&run, &["UTF-8"], "not UTF-8");
}

#[test]
fn no_subcommand_and_an_unknown_one_are_refused() {
    let folder = folder();
    assert_refused(&attn_in(folder.path(), ""), &["subcommand", "attn --help"], "none");
    assert_refused(&attn_in(folder.path(), "varience"), &["varience", "subcommand"], "unknown");
    assert_refused(&attn_in(folder.path(), "--dk 64"), &["--dk", "unexpected argument"], "option first");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[cfg(unix)]
#[test]
fn a_read_only_file_is_refused_and_kept() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let file = folder.path().join("x.csv");
    fs::write(&file, "old").expect("room");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("ours");
    for option in ["-o", "--per-trial"] {
        let run = attn_in(folder.path(), &format!("variance --trials 2 -n 3 --dk 2 {option} x.csv"));
        assert_refused(&run, &["x.csv", "read-only"], option);
    }
    assert_untouched(folder.path(), &["x.csv"]);
}

#[test]
fn the_largest_values_that_the_rules_allow_are_not_refused() {
    let folder = folder();
    for line in [
        "--detect 99% --miss 0.499 --false-alarm 0.499",
        "--mean 0 --sd 1 --correlation 1",
        "--correlation -1",
        "--entries student-t:4.5",
        "--seed 18446744073709551615 --threads 64",
        "--scale -0.5,1e-3",
        "--mean -1000 --sd 1000",
    ] {
        let run = attn_in(folder.path(), &format!("variance -n 3 --dk 2 --trials 5 {line}"));
        assert_ne!(run.code, Some(2), "{line}: {}", run.stderr);
        assert!(run.code.is_some() && !run.stdout.is_empty(), "{line}");
    }
}
