//! Completions and manual pages, by the shells and readers that use them where they are installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{ATTN, attn, attn_in, folder, names};

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "powershell", "elvish"];

/// What a program said on standard output, or None where it is not installed.
fn said(program: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stderr.trim().is_empty(), "{program} {arguments:?}: {stderr}");
    Some(stdout.into_owned())
}

fn skipped(program: &str) {
    eprintln!("skipped: this test needs {program}");
}

fn script(shell: &str) -> String {
    let run = attn(&format!("completions {shell}"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{shell}");
    run.stdout
}

#[test]
fn every_shell_gets_a_script_that_names_every_subcommand() {
    for shell in SHELLS {
        let script = script(shell);
        for subcommand in ["variance", "softmax-spikiness", "audit", "probe", "check", "merge", "completions", "man"] {
            assert!(script.contains(subcommand), "{shell}: no {subcommand}");
        }
    }
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let folder = folder();
    fs::write(folder.path().join("attn.bash"), script("bash")).expect("room");
    let complete = |words: &[&str]| {
        let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (last, before) = (words.len() - 1, words.len().saturating_sub(2));
        let program = format!(
            "source ./attn.bash; COMP_WORDS=({list}); COMP_CWORD={last}; \
             _attn attn \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{before}]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        said("bash", &["--norc", "-c", &program], folder.path())
    };
    let Some(subcommands) = complete(&["attn", "so"]) else { return skipped("bash") };
    assert_eq!(subcommands.trim(), "softmax-spikiness");
    let lines = |words: &[&str]| complete(words).map(|text| text.lines().map(str::to_string).collect::<Vec<_>>());
    assert_eq!(lines(&["attn", "variance", "--fa"]), Some(vec!["--false-alarm".to_string()]));
    let formats = ["table", "csv", "json", "markdown"].map(str::to_string).to_vec();
    assert_eq!(lines(&["attn", "variance", "--format", ""]), Some(formats));
    assert_eq!(lines(&["attn", "probe", "ru"]), Some(vec!["run".to_string()]));
    assert_eq!(lines(&["attn", "completions", "po"]), Some(vec!["powershell".to_string()]));
    for (words, value) in [
        (&["attn", "variance", "--draw", "g"], "gram"),
        (&["attn", "variance", "--moments", "2"], "2"),
        (&["attn", "positional", "--kind", "s"], "sinusoidal"),
        (&["attn", "mask", "--kind", "w"], "window"),
        (&["attn", "audit", "--explain", "ag"], "agreement"),
        (&["attn", "depth", "--color", "al"], "always"),
        (&["attn", "merge", "--format", "j"], "json"),
    ] {
        assert_eq!(lines(words), Some(vec![value.to_string()]), "{words:?}");
    }
}

#[test]
fn fish_completes_subcommands_options_and_values() {
    let folder = folder();
    fs::write(folder.path().join("attn.fish"), script("fish")).expect("room");
    let complete = |line: &str| {
        let program = format!("source ./attn.fish; complete -C '{line}'");
        said("fish", &["--no-config", "-c", &program], folder.path())
    };
    let Some(subcommands) = complete("attn so") else { return skipped("fish") };
    assert!(subcommands.starts_with("softmax-spikiness"), "{subcommands}");
    let options = complete("attn variance --fa").expect("it is installed");
    assert!(options.starts_with("--false-alarm"), "{options}");
    let values = complete("attn variance --precision b").expect("it is installed");
    assert_eq!(values.split_whitespace().next(), Some("bf16"), "{values}");
}

#[test]
fn zsh_reads_its_script() {
    let folder = folder();
    fs::write(folder.path().join("_attn"), script("zsh")).expect("room");
    // The function is loaded as the completion system loads it, and its body parsed.
    let program = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; autoload +X _attn; whence -w _attn; print $_comps[attn]";
    let Some(text) = said("zsh", &["-f", "-c", program], folder.path()) else { return skipped("zsh") };
    assert_eq!(text, "_attn: function\n_attn\n");
}

#[test]
fn there_is_a_manual_page_for_every_subcommand_and_readers_find_no_fault() {
    let folder = folder();
    let run = attn_in(folder.path(), "man pages");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let pages = folder.path().join("pages");
    let written = names(&pages);
    for page in ["attn.1", "attn-variance.1", "attn-probe.1", "attn-probe-new.1", "attn-man.1"] {
        assert!(written.iter().any(|name| name == page), "no {page} in {written:?}");
    }
    for page in &written {
        let text = fs::read_to_string(pages.join(page)).expect("written");
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES"] {
            assert!(text.contains(section), "{page}: no {section}");
        }
        // Style is another matter: the page has no date, so that it is the same on every day.
        match said("mandoc", &["-Tlint", "-Wwarning", page], &pages) {
            Some(faults) => {
                let faults: Vec<&str> = faults.lines().filter(|line| !line.contains("missing date")).collect();
                assert!(faults.is_empty(), "{page}: {faults:#?}");
            }
            None => skipped("mandoc"),
        }
        if let Some(text) = said("groff", &["-man", "-Kutf8", "-Tutf8", "-ww", page], &pages) {
            // Headings are struck over or escaped, text is as it stands.
            assert!(text.contains("attn "), "{page}: {text}");
        } else {
            skipped("groff");
        }
    }
}

#[test]
fn without_a_folder_the_page_of_the_program_goes_to_standard_output() {
    let folder = folder();
    let run = attn_in(folder.path(), "man");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    attn_in(folder.path(), "man pages");
    let page = fs::read_to_string(folder.path().join("pages/attn.1")).expect("written");
    assert_eq!(run.stdout, page);
}

#[test]
fn a_folder_that_is_a_file_is_refused_in_one_line() {
    let folder = folder();
    fs::write(folder.path().join("taken"), "x").expect("room");
    let run = attn_in(folder.path(), "man taken");
    assert_eq!((run.code, run.stderr.lines().count()), (Some(2), 1), "{}", run.stderr);
    assert!(run.stderr.contains("DIR taken"), "{}", run.stderr);
}

#[test]
fn the_program_starts_in_the_time_of_a_blink() {
    // Wall clock of the fastest of many, so that other programs do not matter; a debug build on a slow machine is allowed ten times as long.
    let start = |_| {
        let started = std::time::Instant::now();
        Command::new(ATTN).arg("--version").output().expect("it runs");
        started.elapsed().as_secs_f64()
    };
    let fastest = (0..20).map(start).fold(f64::INFINITY, f64::min);
    assert!(fastest < 0.03, "{fastest} s");
}
