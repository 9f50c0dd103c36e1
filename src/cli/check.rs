//! Arguments of `attn check`.

use clap::Args;

/// Options of `attn check`, as typed.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Does everything still hold? A suite for CI with one false-alarm rate and an exit code",
    long_about = "Does everything still hold? Runs a suite of command lines, simulations, audits and probes, under one false-alarm \
                  rate, and says of every claim what became of it. Without a file it runs the built-in suite: every claim of the \
                  derivation, in under half a minute on two cores. `attn check --init` writes that suite as a file to start from.",
    after_help = "Examples:\n  \
    attn check                                        every claim of the derivation\n  \
    attn check --init && attn check attn-suite.toml   your own suite, beginning with the built-in one\n  \
    attn check suite.toml --junit attn.xml --markdown summary.md\n                                                    \
    for a pull request\n  \
    attn check suite.toml --per-trial base/           keep the trials of this version ...\n  \
    attn check suite.toml --baseline base/            ... and compare a later one with them\n\n\
    Exit codes, the first that holds: 1 a claim rejected · 2 wrong usage, or a claim that got no data · \
    3 undecided (too few trials) · 0 every claim upheld"
)]
pub struct CheckArguments {
    /// The suite, a TOML file [default: the built-in suite]
    #[arg(value_name = "SUITE")]
    pub suite: Option<String>,

    /// Write the built-in suite, with comments, to FILE [default: attn-suite.toml], and end
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "attn-suite.toml", help_heading = "Suite")]
    pub init: Option<String>,

    /// Probability that anything fails although all is right, over the whole suite, e.g. 1e-6 [default: the suite's]
    #[arg(long, value_name = "A", help_heading = "Error rates", allow_hyphen_values = true)]
    pub false_alarm: Option<String>,

    /// A number, or `random` [default: the suite's, else 0]
    #[arg(
        long,
        value_name = "S",
        help_heading = "What is run",
        allow_hyphen_values = true,
        conflicts_with = "fresh_seed"
    )]
    pub seed: Option<String>,

    /// A new seed for this run, printed and in every output: for nightly jobs, which a pinned seed would only repeat
    #[arg(long, help_heading = "What is run")]
    pub fresh_seed: bool,

    /// Threads of each command; results do not depend on it [default: all cores]
    #[arg(long, value_name = "N", help_heading = "What is run", allow_hyphen_values = true)]
    pub threads: Option<String>,

    /// Compare the trials of every simulation with those of an earlier version: the folder that --per-trial wrote, or one file where the suite
    /// has one simulation
    #[arg(long, value_name = "FOLDER", help_heading = "Baseline")]
    pub baseline: Option<String>,

    /// Smallest drift against a baseline that must be seen, relative to the earlier mean, e.g. 1% or 0.01
    #[arg(long, value_name = "PCT", default_value = "1%", help_heading = "Baseline", allow_hyphen_values = true)]
    pub drift: String,

    /// Keep every simulation's trials in this folder, a CSV for each, for a later --baseline
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub per_trial: Option<String>,

    /// JUnit XML for CI systems: a test case for each claim
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub junit: Option<String>,

    /// Markdown for a pull-request summary
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub markdown: Option<String>,

    /// Where the claims go, format by ending (.csv, .json, .md); `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub output: String,

    /// table, csv, json or markdown [default: by the ending of --output; table on a terminal, csv in a pipe]
    #[arg(long, value_name = "F", help_heading = "Output", allow_hyphen_values = true)]
    pub format: Option<String>,

    /// A picture: how far every claim is from its bound, by item (.svg or .png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<String>,

    /// No progress, no notes; results and errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}
