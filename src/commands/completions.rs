//! `attn completions`: what a shell completes.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use super::ExitStatus;
use super::config::option;
use crate::cli;
use crate::cli::completions::CompletionsArguments;
use crate::diagnosis::finding::Check;
use crate::report::stdout;

/// Values that a shell can offer. Lists and numbers are taken too, so this is no part of the definition that checks what was typed.
const VALUES: [(&str, &[&str]); 19] = [
    ("format", &["table", "csv", "json", "markdown"]),
    ("color", &["auto", "always", "never"]),
    ("entries", &["normal", "uniform", "rademacher", "laplace", "student-t:9"]),
    ("scale", &["none", "inv-sqrt-dk", "inv-dk"]),
    ("precision", &["f64", "f32", "bf16", "f16"]),
    ("angles", &["f64", "f32", "bf16", "f16"]),
    ("seed", &["random"]),
    ("align", &["top-left", "bottom-right"]),
    ("fill", &["-inf", "min"]),
    ("apply", &["before", "after"]),
    ("hidden_values", &["select", "multiply"]),
    ("true_means", &["visible", "hidden"]),
    ("kernel", &["both", "materialised", "streaming"]),
    ("norm", &["post", "pre", "none"]),
    ("layout", &["bhnd", "bnhd", "hnd", "nd", "bijh"]),
    ("void_as", &["bf16", "f16"]),
    ("draw", &["matrices", "gram"]),
    ("moments", &["4", "2"]),
    ("shell", &["bash", "zsh", "fish", "powershell", "elvish"]),
];

/// Values of options whose name has another meaning in each subcommand. Of a mask the words, behind which `:` and a number follow.
const VALUES_OF_SUBCOMMAND: [(&str, &str, &[&str]); 2] = [
    ("positional", "kind", &["sinusoidal", "rotary", "rotary:half-split", "rotary:interleaved"]),
    ("mask", "kind", &MASKS),
];

/// Kinds of masks by their first word.
const MASKS: [&str; 7] = ["none", "causal", "window", "prefix", "padding", "documents", "file"];

/// Runs the subcommand.
///
/// # Errors
/// A shell that is not known; a full disk.
pub fn run(typed: &CompletionsArguments) -> Result<ExitStatus> {
    let rule = "must be bash, zsh, fish, powershell or elvish";
    let shell: Shell = option("SHELL", &typed.shell, |text| text.parse().map_err(|_| rule.to_string()))?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut hinted(cli::definition()), "attn", &mut script);
    stdout::print(|output| output.write_all(&script))?;
    Ok(ExitStatus::Upheld)
}

/// The definition, with what a shell can offer for each value.
fn hinted(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_string()).collect();
    let command = names.iter().fold(command, |command, name| command.mut_subcommand(name, hinted));
    let subcommand = command.get_name().to_owned();
    command.mut_args(|argument| {
        let values = values(&subcommand, argument.get_id().as_str());
        match (values, hint(&argument)) {
            (Some(values), _) => argument.value_parser(PossibleValuesParser::new(values)),
            (None, Some(hint)) => argument.value_hint(hint),
            (None, None) => argument,
        }
    })
}

/// What a shell can offer for an option of a subcommand.
fn values(subcommand: &str, id: &str) -> Option<Vec<&'static str>> {
    if (subcommand, id) == ("audit", "explain") {
        return Some(Check::ALL.into_iter().map(Check::explained_as).collect());
    }
    let of_subcommand = VALUES_OF_SUBCOMMAND.iter().find(|(named, known, _)| (*named, *known) == (subcommand, id));
    let anywhere = VALUES.iter().find(|(known, _)| *known == id).map(|(_, values)| *values);
    of_subcommand.map(|(.., values)| *values).or(anywhere).map(<[&str]>::to_vec)
}

/// What a value names, by the word that help shows for it.
fn hint(argument: &Arg) -> Option<ValueHint> {
    match argument.get_value_names()?.first()?.as_str() {
        "FILE" | "REFERENCE" | "SUITE" => Some(ValueHint::FilePath),
        "DIR" | "FOLDER" => Some(ValueHint::DirPath),
        "PATH" => Some(ValueHint::ExecutablePath),
        "CMD" => Some(ValueHint::CommandWithArguments),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_values_are_offered_for_exists() {
        fn ids(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().map(|argument| argument.get_id().to_string()));
            command.get_subcommands().for_each(|below| ids(below, found));
        }
        let mut found = Vec::new();
        ids(&cli::definition(), &mut found);
        for (id, _) in VALUES {
            assert!(found.iter().any(|known| known == id), "no option has the id {id}");
        }
        for (subcommand, id, _) in VALUES_OF_SUBCOMMAND.into_iter().chain([("audit", "explain", &[][..])]) {
            let definition = cli::definition();
            let below = definition.find_subcommand(subcommand).expect("a subcommand");
            assert!(below.get_arguments().any(|argument| argument.get_id() == id), "{subcommand} has no {id}");
        }
    }

    #[test]
    fn the_definition_with_hints_is_consistent() {
        hinted(cli::definition()).debug_assert();
    }
}
