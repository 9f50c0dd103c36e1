//! The command line: what was typed, in clap's terms. Nothing here knows any mathematics.
//!
//! Every value arrives as text and is checked in [`crate::commands::config`], so that each error names the
//! option, the value and the rule in one line.

pub mod audit;
pub mod complexity;
pub mod depth;
pub mod kv_cache;
pub mod mask;
pub mod multi_head;
pub mod positional;
pub mod probe;
pub mod shared;
pub mod softmax_spikiness;
pub mod variance;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;
use crate::report::json;

/// Exit code for wrong usage or unreadable input; nothing was written.
const EXIT_USAGE: u8 = 2;

/// What `attn` was asked to do.
#[derive(Debug, Parser)]
#[command(
    name = "attn",
    version,
    about = "Statistical verification of scaled dot-product attention",
    long_about = "Draws i.i.d. Q and K, runs attention, and holds what comes out against the mathematics: \
                  E[QKᵀ] = 0, Var[QKᵀ] = d_k, unit variance after the scale. Every verdict keeps the \
                  false-alarm and miss rates you chose.",
    after_help = "Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage, nothing written · \
                  3 undecided (too few trials).\n\n\
                  Examples:\n  attn variance --dk 64\n  attn variance --dk 16..1024 -o sweep.csv\n  attn mask --kind window:65 --claim window:64\n  \
                  attn complexity --plot cost.png"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One question, one subcommand.
#[derive(Debug, Subcommand)]
enum Command {
    Audit(audit::AuditArguments),
    Variance(variance::VarianceArguments),
    SoftmaxSpikiness(softmax_spikiness::SoftmaxSpikinessArguments),
    Mask(mask::MaskArguments),
    Complexity(complexity::ComplexityArguments),
    MultiHead(multi_head::MultiHeadArguments),
    Positional(positional::PositionalArguments),
    KvCache(kv_cache::KvCacheArguments),
    Depth(depth::DepthArguments),
    Probe(probe::ProbeArguments),
}

/// Runs the program on `arguments` (the first is its own name) and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error, &arguments),
    };
    let invocation = invocation(&arguments);
    let result = match cli.command {
        Command::Audit(arguments) => commands::audit::run(&arguments, &invocation),
        Command::Variance(arguments) => commands::variance::run(&arguments, &invocation),
        Command::SoftmaxSpikiness(arguments) => commands::softmax_spikiness::run(&arguments, &invocation),
        Command::Mask(arguments) => commands::mask::run(&arguments, &invocation),
        Command::Complexity(arguments) => commands::complexity::run(&arguments, &invocation),
        Command::MultiHead(arguments) => commands::multi_head::run(&arguments, &invocation),
        Command::Positional(arguments) => commands::positional::run(&arguments, &invocation),
        Command::KvCache(arguments) => commands::kv_cache::run(&arguments, &invocation),
        Command::Depth(arguments) => commands::depth::run(&arguments, &invocation),
        Command::Probe(arguments) => commands::probe::run(&arguments, &invocation),
    };
    match result {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            eprintln!("attn: error: {}", one_line(&format!("{error:#}")));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Help and version go to stdout with code 0; anything else is one line on stderr with code 2.
fn usage_error(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe (`attn --help | head -1`) is not an error.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprintln!("attn: error: a subcommand is needed, for example variance (see 'attn --help')");
            ExitCode::from(EXIT_USAGE)
        }
        _ => {
            let text = error.to_string();
            let message: Vec<&str> = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with("Usage:"))
                .filter(|line| !line.starts_with("For more information"))
                .collect();
            let message = one_line(&message.join(" ")).replace(" tip: ", "; tip: ");
            let message = message.strip_prefix("error: ").unwrap_or(&message);
            let subcommand = (arguments.get(1).and_then(|word| word.to_str()))
                .filter(|word| Cli::command().find_subcommand(word).is_some())
                .map_or(String::new(), |word| format!(" {word}"));
            eprintln!("attn: error: {message} (see 'attn{subcommand} --help')");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// What was typed, as one line that a shell reads back, with the program's bare name in front.
fn invocation(arguments: &[OsString]) -> String {
    let typed = arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    json::invocation(std::iter::once("attn".to_string()).chain(typed))
}

/// Folds white space, so that an error is one line whatever it quotes.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
