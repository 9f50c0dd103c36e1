//! The command line: what was typed, in clap's terms. Nothing here knows any mathematics.
//!
//! Every value arrives as text and is checked in [`crate::commands::config`], so that each error names the
//! option, the value and the rule in one line.

pub mod audit;
pub mod check;
pub mod completions;
pub mod complexity;
pub mod depth;
mod invocation;
pub mod kv_cache;
pub mod man;
pub mod mask;
pub mod merge;
pub mod multi_head;
pub mod output;
pub mod positional;
pub mod probe;
pub mod report;
pub mod shared;
pub mod softmax_spikiness;
pub mod variance;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{self, ExitStatus};
use crate::report::{command_line, notes, stdout};

/// Exit code for wrong usage or unreadable input; nothing was written.
const EXIT_USAGE: u8 = 2;

/// The definition of the whole command line, for completions and manual pages.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// What `attn` was asked to do.
#[derive(Debug, Parser)]
#[command(
    name = "attn",
    version,
    about = "Statistical verification of scaled dot-product attention",
    long_about = "Draws i.i.d. Q and K, runs attention, and holds what comes out against the mathematics: \
                  E[QKᵀ] = 0, Var[QKᵀ] = d_k, unit variance after the scale. Every verdict keeps the \
                  false-alarm and miss rates you chose.",
    after_help = "Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage, nothing written · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn variance --dk 64                          the claim at one size\n  \
    attn mask --kind window:65 --claim window:64   a fault, and its numbers\n  \
    attn audit dump.safetensors                    what is wrong with yours"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One question, one subcommand.
#[derive(Debug, Subcommand)]
enum Command {
    Variance(variance::VarianceArguments),
    SoftmaxSpikiness(softmax_spikiness::SoftmaxSpikinessArguments),
    Mask(mask::MaskArguments),
    Complexity(complexity::ComplexityArguments),
    MultiHead(multi_head::MultiHeadArguments),
    Positional(positional::PositionalArguments),
    KvCache(kv_cache::KvCacheArguments),
    Depth(depth::DepthArguments),
    Audit(audit::AuditArguments),
    Probe(probe::ProbeArguments),
    Check(check::CheckArguments),
    Merge(merge::MergeArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
    Report(report::ReportArguments),
}

/// Runs the program on `arguments` (the first is its own name) and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let (command, invocation) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage_error(&error, &arguments),
    };
    let result = match command {
        Command::Merge(arguments) => merge(&arguments),
        command => execute(command, &invocation),
    };
    match result {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            notes::say(&format!("attn: error: {}", one_line(&format!("{error:#}"))));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Options of every command that a suite gives itself: one seed, one budget, one place for the results.
const OF_THE_SUITE: [&str; 11] =
    ["false_alarm", "seed", "threads", "output", "format", "color", "per_trial", "plot", "shard", "resume", "quiet"];

/// Checks the words of a command line in a suite, without the program's name, as far as that can be done without running it.
///
/// # Errors
/// One line: what is wrong with which word.
pub fn suite_words(words: &[String]) -> Result<(), String> {
    let arguments: Vec<OsString> =
        std::iter::once("attn").chain(words.iter().map(String::as_str)).map(OsString::from).collect();
    let matches = Cli::command().try_get_matches_from(&arguments).map_err(|error| message(&error))?;
    let Some((_, given)) = matches.subcommand() else { return Ok(()) };
    let mut deepest = given;
    while let Some((_, below)) = deepest.subcommand() {
        deepest = below;
    }
    let typed = |id: &&str| {
        deepest.try_contains_id(id).unwrap_or(false) && deepest.value_source(id) == Some(ValueSource::CommandLine)
    };
    match OF_THE_SUITE.iter().find(|id| typed(id)) {
        Some(id) => Err(format!("--{} belongs to the whole suite, not to one command line", id.replace('_', "-"))),
        None => Ok(()),
    }
}

/// What was asked for, and the line that identifies it.
fn parse(arguments: &[OsString]) -> Result<(Command, String), clap::Error> {
    let name = arguments.get(1).and_then(|name| name.to_str());
    // What is wrong is said by the whole definition, which knows the other subcommands.
    match name.and_then(definition_of).map(|command| parse_by(command, arguments)) {
        Some(Ok(parsed)) => Ok(parsed),
        _ => parse_by(Cli::command(), arguments),
    }
}

/// Gives a subcommand its options.
type WithOptions = fn(clap::Command) -> clap::Command;

/// Subcommands that are started often.
const OFTEN: [(&str, WithOptions); 8] = [
    ("variance", variance::VarianceArguments::augment_args),
    ("softmax-spikiness", softmax_spikiness::SoftmaxSpikinessArguments::augment_args),
    ("mask", mask::MaskArguments::augment_args),
    ("multi-head", multi_head::MultiHeadArguments::augment_args),
    ("positional", positional::PositionalArguments::augment_args),
    ("kv-cache", kv_cache::KvCacheArguments::augment_args),
    ("depth", depth::DepthArguments::augment_args),
    ("audit", audit::AuditArguments::augment_args),
];

/// The command line with one subcommand alone: to define the options of all of them takes half a millisecond, a tenth of a short run.
fn definition_of(name: &str) -> Option<clap::Command> {
    let (name, with_options) = OFTEN.into_iter().find(|&(often, _)| often == name)?;
    Some(clap::Command::new("attn").subcommand_required(true).subcommand(with_options(clap::Command::new(name))))
}

/// [`parse`] by a definition of the command line.
fn parse_by(mut command: clap::Command, arguments: &[OsString]) -> Result<(Command, String), clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments)?;
    if let Some((shard, ())) =
        (matches.subcommand()).and_then(|(_, typed)| Some((raw(typed, "shard")?, drawn_seed(typed)?)))
    {
        let rule = format!("--shard {shard}: every shard must draw from one seed; name it in place of --seed random");
        return Err(command.error(ErrorKind::ArgumentConflict, rule));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let invocation = invocation::of(&command, &matches, arguments);
    Ok((cli.command, invocation))
}

/// An option as it was typed, if it was.
fn raw(matches: &clap::ArgMatches, id: &str) -> Option<String> {
    matches.try_get_raw(id).ok()??.next_back().map(|value| value.to_string_lossy().into_owned())
}

/// Whether the seed is to be drawn: what clap hands on is the number already.
fn drawn_seed(matches: &clap::ArgMatches) -> Option<()> {
    (raw(matches, "seed")? == "random").then_some(())
}

impl Command {
    /// Where its result goes; None where it has none of that kind.
    fn results(&self) -> Option<&output::OutputArguments> {
        match self {
            Self::Audit(arguments) => Some(&arguments.results),
            Self::Variance(arguments) => Some(&arguments.shared.results),
            Self::SoftmaxSpikiness(arguments) => Some(&arguments.shared.results),
            Self::Mask(arguments) => Some(&arguments.shared.results),
            Self::Complexity(arguments) => Some(&arguments.results),
            Self::MultiHead(arguments) => Some(&arguments.shared.results),
            Self::Positional(arguments) => Some(&arguments.shared.results),
            Self::KvCache(arguments) => Some(&arguments.shared.results),
            Self::Depth(arguments) => Some(&arguments.shared.results),
            Self::Probe(arguments) => arguments.action.results(),
            Self::Check(arguments) => Some(&arguments.results),
            Self::Merge(arguments) => Some(&arguments.results),
            Self::Completions(_) | Self::Man(_) | Self::Report(_) => None,
        }
    }
}

fn execute(command: Command, invocation: &str) -> Result<ExitStatus> {
    if let Some(results) = command.results() {
        commands::config::choose_colour(&results.color)?;
    }
    match command {
        Command::Audit(arguments) => commands::audit::run(&arguments, invocation),
        Command::Variance(arguments) => commands::variance::run(&arguments, invocation),
        Command::SoftmaxSpikiness(arguments) => commands::softmax_spikiness::run(&arguments, invocation),
        Command::Mask(arguments) => commands::mask::run(&arguments, invocation),
        Command::Complexity(arguments) => commands::complexity::run(&arguments, invocation),
        Command::MultiHead(arguments) => commands::multi_head::run(&arguments, invocation),
        Command::Positional(arguments) => commands::positional::run(&arguments, invocation),
        Command::KvCache(arguments) => commands::kv_cache::run(&arguments, invocation),
        Command::Depth(arguments) => commands::depth::run(&arguments, invocation),
        Command::Probe(arguments) => commands::probe::run(&arguments, invocation),
        Command::Check(arguments) => commands::check::run(&arguments, invocation),
        Command::Merge(arguments) => merge(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Man(arguments) => commands::man::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments, invocation),
    }
}

/// Does the run that the files are of, from their trials.
fn merge(arguments: &merge::MergeArguments) -> Result<ExitStatus> {
    commands::merge::refuse_results_in_place_of_shards(&arguments.files, &arguments.results())?;
    let invocation = commands::merge::common_invocation(&arguments.files)?;
    let refused = || anyhow!("{}: '{invocation}' is no run that has shards", arguments.files[0].display());
    let words = command_line::words(&invocation).ok_or_else(refused)?;
    let subcommand = words.get(1).and_then(|word| Cli::command().find_subcommand(word).cloned());
    if !subcommand.is_some_and(|subcommand| invocation::is_simulating(&subcommand)) {
        return Err(refused());
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    // A file says what was run, and nothing of where results go.
    match parse(&words) {
        Ok((_, same)) if same == invocation => {}
        _ => return Err(refused()),
    }
    let words: Vec<OsString> = words.into_iter().chain(arguments.options()).collect();
    let (command, invocation) = parse(&words).map_err(|error| anyhow!("{}", message(&error)))?;
    execute(command, &invocation)
}

/// Help and version go to stdout with code 0; anything else is one line on stderr with code 2.
fn usage_error(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            if std::io::stdout().is_terminal() {
                // In colour.
                let _ = error.print();
                return ExitCode::SUCCESS;
            }
            // A closed pipe (`attn --help | head -1`) is not an error, a full disk is one.
            match stdout::print(|output| write!(output, "{error}")) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    notes::say(&format!("attn: error: {error}"));
                    ExitCode::from(EXIT_USAGE)
                }
            }
        }
        kind => {
            let (path, command) = typed_command(arguments);
            let first = command.get_subcommands().next().map(clap::Command::get_name);
            let message = match (kind, first) {
                (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand, Some(first)) => {
                    format!("a subcommand is needed, for example {path} {first}")
                }
                _ => message(error),
            };
            notes::say(&format!("attn: error: {message} (see '{path} --help')"));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The deepest subcommand that was typed: its words, and its definition.
fn typed_command(arguments: &[OsString]) -> (String, clap::Command) {
    let mut command = Cli::command();
    let mut path = command.get_name().to_string();
    for word in arguments.iter().skip(1).map_while(|word| word.to_str()) {
        let Some(below) = command.find_subcommand(word).cloned() else { break };
        path = format!("{path} {word}");
        command = below;
    }
    (path, command)
}

/// What clap says, in one line.
fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let message: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:"))
        .filter(|line| !line.starts_with("For more information"))
        .collect();
    let message = one_line(&message.join(" ")).replace(" tip: ", "; tip: ");
    message.strip_prefix("error: ").unwrap_or(&message).to_string()
}

/// Folds white space, so that an error is one line whatever it quotes.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod help_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_subcommand_alone_has_the_options_that_it_has_in_the_whole_definition() {
        let options = |definition: clap::Command, name: &str| {
            let subcommand = definition.find_subcommand(name).expect("it is one of them");
            format!("{:?}", subcommand.get_arguments().collect::<Vec<_>>())
        };
        for (name, _) in OFTEN {
            let alone = definition_of(name).expect("it is started often");
            assert_eq!(options(alone, name), options(Cli::command(), name), "{name}");
        }
        assert!(definition_of("varience").is_none());
    }
}
