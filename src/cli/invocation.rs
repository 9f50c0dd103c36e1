//! The command line that identifies a run.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use super::shared::NOT_OF_THE_RESULT;
use crate::report::json;

/// Whether a subcommand draws trials: it has the options that all of those share.
pub fn is_simulating(subcommand: &Command) -> bool {
    NOT_OF_THE_RESULT.iter().all(|id| subcommand.get_arguments().any(|argument| argument.get_id() == id))
}

/// What was typed, as one line that a shell reads back. Of a run that draws trials only what its result depends on, by the options' long
/// names and in their order in the program, and the seed as a number: so that the line is the same for the run in one piece, for its shards,
/// and for their merge.
pub fn of(command: &Command, matches: &ArgMatches, typed: &[OsString]) -> String {
    let subcommand = matches.subcommand().and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    let words = match subcommand {
        Some((subcommand, matches)) if is_simulating(subcommand) => canonical(subcommand, matches),
        _ => typed.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    json::invocation(std::iter::once("attn".to_string()).chain(words))
}

fn canonical(subcommand: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut words = vec![subcommand.get_name().to_string()];
    for argument in subcommand.get_arguments() {
        let id = argument.get_id().as_str();
        let Some(name) = argument.get_long().filter(|_| !NOT_OF_THE_RESULT.contains(&id)) else { continue };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let name = format!("--{name}");
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            words.push(name);
            continue;
        }
        // As the program took it where that is a text (the seed), else as it was typed.
        let values: Vec<String> = match matches.try_get_many::<String>(id) {
            Ok(values) => values.into_iter().flatten().cloned().collect(),
            Err(_) => {
                matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
            }
        };
        for value in values {
            match value.starts_with('-') {
                true => words.push(format!("{name}={value}")),
                false => words.extend([name.clone(), value]),
            }
        }
    }
    words
}
