//! What a person sees: notes, the progress bar, quiet.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::program::{ATTN, SMALL, attn};

/// A run of at least half a second, after which a bar shows, on any machine: 1001 trials of 2·512·512·64 operations
/// and more are about 5 s on one core of 2020.
const LONG: &str = "variance --trials 1001 --detect 50%";

#[test]
fn a_run_says_its_seed_and_its_plan_in_one_line_on_standard_error() {
    assert_eq!(attn(&format!("{SMALL} --seed 3")).stderr, "attn: seed 3, 20 trials\n");
    let stderr = attn("variance --dk 5 -n 16 --detect 20% --miss 0.01 --false-alarm 1e-4").stderr;
    assert_eq!(stderr.lines().count(), 1);
    for part in ["attn: seed 0, ", " trials, planned", "20 %", "1e-4", "1e-2"] {
        assert!(stderr.contains(part), "no '{part}' in {stderr}");
    }
}

#[test]
fn quiet_leaves_standard_error_empty_and_changes_no_result() {
    for quiet in ["-q", "--quiet"] {
        let run = attn(&format!("{SMALL} {quiet}"));
        assert_eq!(run.stderr, "", "{quiet}");
        assert_eq!(run.stdout, attn(SMALL).stdout);
    }
    let error = attn("variance -q --dk 0");
    assert!(error.code == Some(2) && error.stderr.contains("--dk 0"), "errors are told all the same");
}

/// Runs `line` with all streams on a pseudo-terminal; `None` where util-linux's `script` is missing.
fn on_a_terminal(line: &str) -> Option<String> {
    if !cfg!(target_os = "linux") || Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: this test needs `script` of util-linux");
        return None;
    }
    let output = Command::new("script")
        .args(["-qec", &format!("'{ATTN}' {line}"), "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .output()
        .expect("script runs");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_long_run_has_a_bar_on_a_terminal_and_never_in_a_pipe() {
    let started = Instant::now();
    let piped = attn(LONG);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(piped.stderr, "attn: seed 0, 1001 trials\n", "in a pipe: the note alone");
    assert!(!piped.stdout.contains(['\r', '\u{1b}']));
    if seconds < 1.0 {
        eprintln!("skipped the terminal: the run is too short here to have a bar ({seconds} s)");
        return;
    }
    let Some(shown) = on_a_terminal(LONG) else { return };
    assert!(shown.contains(" gone, about "), "a bar: {shown}");
    let Some(quiet) = on_a_terminal(&format!("{LONG} --quiet")) else { return };
    assert!(!quiet.contains(" gone, about ") && !quiet.contains("seed 0,"), "{quiet}");
}

#[test]
fn a_terminal_gets_the_coloured_table_and_a_short_run_no_bar() {
    let Some(shown) = on_a_terminal(SMALL) else { return };
    assert!(shown.contains("logit_variance") && !shown.contains("command,statistic,scale"), "{shown}");
    assert!(shown.contains('\u{1b}'), "verdicts are coloured: {shown}");
    assert!(!shown.contains(" gone, about "), "{shown}");
    let Some(csv) = on_a_terminal(&format!("{SMALL} --format csv")) else { return };
    assert!(csv.contains("command,statistic,scale"), "the flag wins: {csv}");
}

#[test]
fn no_color_is_honoured() {
    // `env` sets it for the program alone.
    let Some(shown) = on_a_terminal(SMALL) else { return };
    assert!(shown.contains('\u{1b}'));
    let output = Command::new("script")
        .args(["-qec", &format!("NO_COLOR=1 '{ATTN}' {SMALL}"), "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm")
        .output()
        .expect("script runs");
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(plain.contains("logit_variance") && !plain.contains('\u{1b}'), "{plain}");
}
