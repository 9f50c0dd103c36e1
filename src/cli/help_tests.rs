//! What every page of help promises, walked over the whole definition of the command line.

use clap::{Arg, ArgAction, Command};

use super::*;

/// Every command that is typed, with the words it is typed by.
fn commands() -> Vec<(String, Command)> {
    fn walk(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            walk(&format!("{path} {}", below.get_name()), below, found);
        }
        found.push((path.to_string(), command.clone()));
    }
    let mut command = definition();
    command.build();
    let mut found = Vec::new();
    walk("attn", &command, &mut found);
    found
}

/// Arguments that help shows and that take a value.
fn valued(command: &Command) -> Vec<&Arg> {
    let takes_value = |argument: &&Arg| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    command.get_arguments().filter(takes_value).filter(|argument| !argument.is_hide_set()).collect()
}

fn help(argument: &Arg) -> String {
    argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// The lines below "Examples:", without what explains them.
fn examples(command: &Command) -> Vec<String> {
    let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some((_, examples)) = closing.rsplit_once("Examples:\n") else { return Vec::new() };
    let typed = examples.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with("attn "));
    typed.map(|line| line.split("  ").next().unwrap_or_default().to_string()).collect()
}

#[test]
fn every_value_has_an_example_and_a_default_or_is_required() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for (path, command) in commands() {
        for argument in valued(&command) {
            let (id, help) = (argument.get_id(), help(argument));
            let told = help.matches("[default: ").count() + usize::from(!argument.get_default_values().is_empty());
            if !help.contains("e.g. ") || (told != 1 && !argument.is_required_set()) {
                wrong.push(format!("{path}: {id}: {told} defaults: {help}"));
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 150, "only {checked} options were found");
}

#[test]
fn every_number_says_what_it_counts_or_that_it_has_no_unit() {
    let mut wrong = Vec::new();
    // The words that help shows for numbers; others are names, files and rules.
    let numbers = [
        "LIST", "T", "PCT", "A", "B", "X", "R", "S", "N", "H", "G", "D", "D_V", "D_FF", "L", "M", "W", "C", "P",
        "EXPR", "VALUE", "TIME",
    ];
    let units = [
        "columns",
        "rows",
        "number",
        "Number",
        "dimensionless",
        "robability",
        "relative",
        "orrelation",
        "share",
        "seconds",
        "Seconds",
        "Seed",
        "between positions",
        "in tokens",
        "Position",
        "the last W keys",
        "after dropout with this probability",
        "lock",
        "Arithmetic",
    ];
    for (path, command) in commands() {
        for argument in valued(&command) {
            let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            if name.as_deref().is_some_and(|name| numbers.contains(&name)) {
                let help = help(argument);
                if !units.iter().any(|unit| help.contains(unit)) {
                    wrong.push(format!("{path}: {}: {help}", argument.get_id()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_of_help_ends_with_two_examples_or_more_that_parse() {
    let mut wrong = Vec::new();
    for (path, command) in commands() {
        let examples = examples(&command);
        if examples.len() < 2 {
            wrong.push(format!("{path}: {examples:?}"));
        }
        for example in examples {
            // Up to the next command, or to where the output goes.
            let end = ["; ", " && ", " > "].iter().filter_map(|sign| example.find(sign)).min().unwrap_or(example.len());
            let words = shlex::split(&example[..end]).expect("a shell reads it");
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            if let Err(error) = parse(&words) {
                wrong.push(format!("{path}: '{example}': {}", message(&error)));
            }
            // Shards are made by another subcommand than the one that joins them.
            if !example.starts_with(&path) && path != "attn merge" {
                wrong.push(format!("{path}: '{example}' is of another subcommand"));
            }
        }
        let last = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let last = last.split("\n\n").last().unwrap_or_default().to_string();
        if !last.starts_with("Examples:\n") {
            wrong.push(format!("{path} ends with: {last}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_line_of_help_is_wider_than_a_terminal_of_80_columns_and_no_example_is_broken() {
    let mut wrong = Vec::new();
    for (path, command) in commands() {
        let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for text in [command.clone().term_width(80).render_help(), command.clone().term_width(80).render_long_help()] {
            let text = text.to_string();
            wrong.extend(
                text.lines().filter(|line| line.chars().count() > 80).map(|line| format!("{path}: wide: {line}")),
            );
            // What begins with blanks is an example or a table: wrapping would begin its rest at the margin.
            let kept = closing.lines().filter(|line| line.starts_with("  "));
            wrong.extend(
                kept.filter(|kept| !text.lines().any(|line| line == *kept))
                    .map(|kept| format!("{path}: broken: {kept}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_missing_or_wrong_word_leads_to_the_help_of_the_deepest_subcommand() {
    let typed = |line: &str| typed_command(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).0;
    assert_eq!(typed("attn"), "attn");
    assert_eq!(typed("attn nonsense"), "attn");
    assert_eq!(typed("attn probe"), "attn probe");
    assert_eq!(typed("attn probe new --seed 3"), "attn probe new");
    assert_eq!(typed("attn variance mask"), "attn variance");
}
