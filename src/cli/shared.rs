//! The options that every simulating subcommand shares (raw text; checked in [`crate::commands::config`]).

use std::path::PathBuf;

use clap::Args;

use super::output::OutputArguments;
use crate::commands::parse;

/// Options that change where results go and how they are made, but not what they are: they are no part of an invocation that
/// identifies a run. (`threads` changes the times of `kv-cache --time`, which no two runs share anyway.)
pub const NOT_OF_THE_RESULT: [&str; 10] =
    ["output", "format", "color", "per_trial", "plot", "quiet", "threads", "shard", "resume", "trials_from"];

/// What `--detect` says where a subcommand gives it another default.
pub const DETECT_HELP: &str = "Smallest relative deviation that must be seen, e.g. 1% or 0.01";

/// A seed as typed, `random` replaced by the number that the operating system gives: every part of the program then sees one seed.
fn seed(text: &str) -> Result<String, String> {
    if text == "random" { parse::seed(text).map(|seed| seed.to_string()) } else { Ok(text.to_string()) }
}

/// Options of every simulating subcommand, as typed.
#[derive(Debug, Clone, Args)]
pub struct SharedArguments {
    /// Key width d_k in columns: a list or a doubling range, e.g. 16,64,256 or 16..1024
    #[arg(long, value_name = "LIST", default_value = "64", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dk: String,

    /// Number of queries n, rows of Q: a list or a doubling range, e.g. 64,512; every combination with --dk and --keys is run [default: 512]
    #[arg(short = 'n', long, value_name = "LIST", help_heading = "Sizes", allow_hyphen_values = true)]
    pub queries: Option<String>,

    /// Number of keys m, rows of K: a list or a doubling range, e.g. 128 [default: as many as queries]
    #[arg(short = 'm', long, value_name = "LIST", help_heading = "Sizes", allow_hyphen_values = true)]
    pub keys: Option<String>,

    /// Number of independent trials, e.g. 1000 [default: planned from --detect, --false-alarm, --miss]
    #[arg(long, value_name = "T", help_heading = "Error rates", allow_hyphen_values = true)]
    pub trials: Option<String>,

    /// Smallest relative deviation that must be seen, e.g. 2% or 0.02 [default: 1%]
    #[arg(long, value_name = "PCT", help_heading = "Error rates", allow_hyphen_values = true)]
    pub detect: Option<String>,

    /// Probability that a correct implementation fails, over the WHOLE invocation, e.g. 1e-3
    #[arg(long, value_name = "A", default_value = "1e-6", help_heading = "Error rates", allow_hyphen_values = true)]
    pub false_alarm: String,

    /// Probability that a deviation of --detect goes unseen, per row, e.g. 0.01
    #[arg(long, value_name = "B", default_value = "1e-3", help_heading = "Error rates", allow_hyphen_values = true)]
    pub miss: String,

    /// Law of the entries, standardised, e.g. laplace: normal, uniform, rademacher, laplace, student-t:NU (NU > 4)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "normal",
        help_heading = "What is drawn",
        allow_hyphen_values = true
    )]
    pub entries: String,

    /// Mean of the entries of Q and K (dimensionless), e.g. 0.1; not 0 leaves the derivation's assumption
    #[arg(long, value_name = "X", default_value = "0", help_heading = "What is drawn", allow_hyphen_values = true)]
    pub mean: String,

    /// Standard deviation of the entries of Q and K (dimensionless), e.g. 1.1; not 1 leaves the assumption
    #[arg(long, value_name = "X", default_value = "1", help_heading = "What is drawn", allow_hyphen_values = true)]
    pub sd: String,

    /// Correlation between q and k of the same token, -1 to 1, e.g. 0.3 (normal entries, n = m)
    #[arg(long, value_name = "R", default_value = "0", help_heading = "What is drawn", allow_hyphen_values = true)]
    pub correlation: String,

    /// Factors on QKᵀ (dimensionless): a list of none (1), inv-sqrt-dk (1/√d_k), inv-dk (1/d_k) or a number, e.g. inv-sqrt-dk,0.1
    #[arg(
        long,
        value_name = "LIST",
        default_value = "none,inv-sqrt-dk",
        help_heading = "What is run",
        allow_hyphen_values = true
    )]
    pub scale: String,

    /// Arithmetic, e.g. bf16: f64, f32, bf16, f16 (half types: rounded inputs and logits, f32 accumulation)
    #[arg(long, value_name = "P", default_value = "f64", help_heading = "What is run", allow_hyphen_values = true)]
    pub precision: String,

    /// Seed of every draw, a number or `random`, e.g. 7; the seed used is in every output
    #[arg(long, value_name = "S", default_value = "0", value_parser = seed, help_heading = "What is run", allow_hyphen_values = true)]
    pub seed: String,

    /// Number of threads, e.g. 2; results do not depend on it, to the last bit [default: all cores]
    #[arg(long, value_name = "N", help_heading = "What is run", allow_hyphen_values = true)]
    pub threads: Option<String>,

    /// Use the kernels in plain Rust, whose results are the same on every x86-64 machine, in place of the fastest that this machine has
    #[arg(long, help_heading = "What is run")]
    pub portable: bool,

    /// Run only the trials of shard I of K (1-based) and write them to --per-trial or --resume, for attn merge, e.g. 2/8 [default: all trials]
    #[arg(long, value_name = "I/K", help_heading = "What is run", allow_hyphen_values = true)]
    pub shard: Option<String>,

    /// File for one CSV row per trial with the raw statistics, e.g. trials.csv [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub per_trial: Option<String>,

    /// As --per-trial, but it stays as FILE.partial when the run is interrupted, and the same command goes on from there, e.g. trials.csv [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub resume: Option<String>,

    /// Take the trials from these files: what `attn merge` calls
    #[arg(long, value_name = "FILE", hide = true)]
    pub trials_from: Vec<PathBuf>,

    /// Where the result goes.
    #[command(flatten)]
    pub results: OutputArguments,
}
