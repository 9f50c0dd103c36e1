//! Who knows whom: prediction and measurement meet only in an experiment, so that one mistake cannot hide in both.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules at the top of the crate.
const MODULES: [&str; 13] = [
    "number",
    "tensors",
    "attention",
    "sampling",
    "statistics",
    "theory",
    "report",
    "diagnosis",
    "probe",
    "experiment",
    "suite",
    "commands",
    "cli",
];

/// What each module may mention beside itself.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("number", &[]),
    ("tensors", &["number"]),
    ("attention", &["number"]),
    ("sampling", &["number"]),
    ("statistics", &["number"]),
    // The names of the laws of entries, and nothing of how they are drawn.
    ("theory", &["sampling"]),
    ("report", &["number"]),
    ("diagnosis", &["attention", "number", "statistics", "theory"]),
    ("probe", &["attention", "diagnosis", "number", "sampling", "tensors"]),
    ("experiment", &["attention", "number", "report", "sampling", "statistics", "theory"]),
    ("suite", &["number", "report", "statistics"]),
    (
        "commands",
        &[
            "attention",
            "cli",
            "diagnosis",
            "experiment",
            "number",
            "probe",
            "report",
            "sampling",
            "statistics",
            "suite",
            "tensors",
            "theory",
        ],
    ),
    ("cli", &["commands", "report"]),
];

/// Files that contain `unsafe`, each with the reason; all have a safe twin that tests hold them against.
const UNSAFE: [(&str, &str); 12] = [
    ("attention/kernel/attention_loops.rs", "registers over slices; calls of functions for one instruction set"),
    ("attention/kernel/compiled.rs", "calls of functions for one instruction set"),
    ("attention/kernel/dispatch.rs", "calls of functions for one instruction set"),
    ("attention/kernel/exponential.rs", "arithmetic of registers"),
    ("attention/kernel/gram.rs", "registers over slices; calls of functions for one instruction set"),
    ("attention/kernel/registers.rs", "the intrinsics behind the registers"),
    ("attention/kernel/row_sums.rs", "registers over slices; calls of functions for one instruction set"),
    ("attention/kernel/signed_sums.rs", "intrinsics over slices; calls of functions for one instruction set"),
    ("attention/kernel/weighted_values.rs", "registers over slices"),
    ("attention/kernel/x86.rs", "intrinsics over slices"),
    ("sampling/bulk.rs", "calls of functions for one instruction set"),
    ("sampling/normal_x86.rs", "intrinsics over arrays"),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every file below src, as path from there with `/`, and text.
fn files() -> Vec<(String, String)> {
    let mut folders = vec![source()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(source()).expect("below src").to_string_lossy().replace('\\', "/");
                files.push((name, fs::read_to_string(&path).expect("readable")));
            }
        }
    }
    files.sort();
    files
}

/// The code without comments; white space only where it parts two words.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        for word in line.split_once("//").map_or(line, |(code, _)| code).split_whitespace() {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            if code.ends_with(is_word) && word.starts_with(is_word) {
                code.push(' ');
            }
            code.push_str(word);
        }
    }
    code
}

/// Names that follow `prefix`, one alone or several in braces; nested braces belong to what is before them.
fn after(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices(prefix) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|character| character.is_alphanumeric() || character == '_' || character == ':') {
            continue;
        }
        let rest = &code[start + prefix.len()..];
        let name = |text: &str| -> String {
            text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
        };
        match rest.strip_prefix('{') {
            None => found.push(name(rest)),
            Some(list) => {
                let (mut depth, mut at_name) = (0, true);
                for (index, character) in list.char_indices() {
                    if at_name {
                        found.push(name(&list[index..]));
                    }
                    at_name = depth == 0 && character == ',';
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

/// The modules at the top of the crate that `text`, the file at `path`, mentions beside its own.
fn mentions(path: &str, text: &str) -> BTreeSet<String> {
    let code = code(text);
    let own = module_of(path);
    let mut names = after(&code, "crate::");
    names.extend(after(&code, "attn::"));
    // `super` as often as the file is deep is the top of the crate, once more in an inline module of tests.
    let depth = path.trim_end_matches("/mod.rs").split('/').count();
    for climbs in [depth, depth + 1] {
        names.extend(after(&code, &"super::".repeat(climbs)));
    }
    names.into_iter().filter(|name| MODULES.contains(&name.as_str()) && *name != own).collect()
}

fn module_of(path: &str) -> String {
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_string()
}

#[test]
fn every_module_mentions_only_what_is_below_it() {
    let files = files();
    assert!(files.len() > 50, "the source was found");
    let mut seen = BTreeSet::new();
    for (path, text) in &files {
        let own = module_of(path);
        if own == "lib" || own == "main" {
            continue;
        }
        let allowed = ALLOWED.iter().find(|(module, _)| *module == own);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("say in this test what '{own}' may mention"));
        if path.ends_with("_tests.rs") {
            continue; // A unit test may bring in what it checks against.
        }
        for mentioned in mentions(path, text) {
            assert!(allowed.contains(&mentioned.as_str()), "src/{path} mentions {mentioned}");
            seen.insert((own.clone(), mentioned));
        }
    }
    // What there is, is found: an experiment brings prediction and measurement together.
    for pair in [("experiment", "theory"), ("experiment", "attention"), ("theory", "sampling"), ("cli", "commands")] {
        assert!(seen.contains(&(pair.0.to_string(), pair.1.to_string())), "{pair:?} was not found");
    }
}

#[test]
fn the_order_of_the_modules_has_no_circle_but_that_of_commands_and_arguments() {
    for (module, allowed) in ALLOWED {
        for below in allowed {
            let (_, back) = ALLOWED.iter().find(|(name, _)| name == below).expect("listed");
            let together = [module, *below].iter().all(|name| ["cli", "commands"].contains(name));
            assert!(!back.contains(&module) || together, "{module} and {below}");
        }
    }
}

#[test]
fn theory_takes_from_sampling_the_names_of_the_laws_alone() {
    for (path, text) in files().iter().filter(|(path, _)| module_of(path) == "theory") {
        let code = code(text);
        for (start, found) in code.match_indices("sampling::") {
            let rest = &code[start + found.len()..];
            assert!(
                rest.starts_with("Entries;") || rest.starts_with("Entries::"),
                "src/{path}: {}",
                &rest[..rest.len().min(40)]
            );
        }
    }
}

#[test]
fn only_the_files_of_the_list_are_unsafe() {
    let is_unsafe = |text: &str| {
        let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
        let mut words =
            lines.flat_map(|line| line.split(|character: char| !character.is_alphanumeric() && character != '_'));
        words.any(|word| word == "unsafe")
    };
    let found: Vec<String> = files().into_iter().filter(|(_, text)| is_unsafe(text)).map(|(path, _)| path).collect();
    // Both ways: a file that needs it no more leaves the list.
    assert_eq!(found, UNSAFE.map(|(path, _)| path));
}

#[test]
fn nothing_below_the_commands_prints() {
    for (path, text) in files() {
        let code = code(&text);
        let may_print = ["main.rs", "report/notes.rs"];
        if !may_print.contains(&path.as_str()) {
            // Tests may say why they were skipped.
            let shipped = code.split("#[cfg(test)]").next().unwrap_or_default();
            let is_test = path.ends_with("tests.rs") || path.ends_with("test_draws.rs");
            for print in ["println!", "eprintln!", "eprint!", "dbg!"] {
                assert!(is_test || !shipped.contains(print), "src/{path} prints with {print}");
            }
        }
    }
}

#[test]
fn the_reader_of_this_test_sees_every_way_to_mention_a_module() {
    let seen = |path: &str, text: &str| mentions(path, text).into_iter().collect::<Vec<_>>();
    assert_eq!(seen("theory/logits.rs", "use crate::attention::Scale;"), ["attention"]);
    assert_eq!(seen("theory/logits.rs", "let x = crate :: statistics :: mean();"), ["statistics"]);
    assert_eq!(
        seen("theory/logits.rs", "use crate::{\n    number::Real,\n    report::{Row, cli},\n    sampling,\n};"),
        ["number", "report", "sampling"]
    );
    assert_eq!(seen("theory/logits.rs", "use super::super::experiment::Claim;"), ["experiment"]);
    assert_eq!(seen("theory/mod.rs", "use super::attention;"), ["attention"]);
    assert_eq!(seen("theory/a/mod.rs", "use super::super::attention;"), ["attention"]);
    assert_eq!(seen("number.rs", "mod tests { use super::super::report; }"), ["report"]);
    // Its own module, a comment, and a deeper module of the same name are none.
    assert!(seen("theory/logits.rs", "use crate::theory::x; // crate::report\nuse super::report;").is_empty());
}
