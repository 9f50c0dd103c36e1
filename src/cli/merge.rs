//! Arguments of `attn merge`, and the run that they stand for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::output::OutputArguments;

/// Joins the shards of a run: what it says is, byte for byte, what the run in one piece says.
///
/// Reads the files that the runs with --shard I/K wrote (--per-trial or --resume), in any order, and does the run again from their trials:
/// rows, verdicts, picture, exit code and per-trial file. Every trial must be in one file and in one only, and all files from one version of
/// attn with the same parameters. A whole per-trial file is a run in one shard and is judged again.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: those of the run (0, 1, 3); 2 if the files do not make up one run, nothing written\n\n\
    Examples:\n  \
    attn variance --dk 64 --shard 1/2 --per-trial s1.csv\n      \
    on one machine\n  \
    attn variance --dk 64 --shard 2/2 --per-trial s2.csv\n      \
    on another\n  \
    attn merge s1.csv s2.csv -o result.csv\n      \
    as attn variance --dk 64 -o result.csv"
)]
pub struct MergeArguments {
    /// Per-trial files of all shards, e.g. s1.csv s2.csv
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Number of threads, for a picture of a mask and for the theory, e.g. 2 [default: all cores]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub threads: Option<String>,

    /// File for one CSV row per trial, as the run in one piece writes it, e.g. trials.csv [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub per_trial: Option<String>,

    /// Where the result goes.
    #[command(flatten)]
    pub results: OutputArguments,
}

impl MergeArguments {
    /// Options that name a file to write, and what was given for each.
    pub fn results(&self) -> [(&str, Option<&str>); 3] {
        [
            ("--output", Some(self.results.output.as_str())),
            ("--per-trial", self.per_trial.as_deref()),
            ("--plot", self.results.plot.as_deref()),
        ]
    }

    /// The options that the run of `attn merge` has beside those of the invocation.
    pub fn options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        // With `=`, for what begins with a hyphen.
        let mut add = |name: &str, value: &std::ffi::OsStr| {
            let mut option = OsString::from(format!("--{name}="));
            option.push(value);
            options.push(option);
        };
        self.files.iter().for_each(|file| add("trials-from", file.as_os_str()));
        let color = Some(self.results.color.clone());
        let given = [
            ("threads", &self.threads),
            ("format", &self.results.format),
            ("color", &color),
            ("per-trial", &self.per_trial),
            ("plot", &self.results.plot),
        ];
        given.iter().for_each(|(name, value)| value.iter().for_each(|value| add(name, value.as_ref())));
        add("output", self.results.output.as_ref());
        if self.results.quiet {
            options.push("--quiet".into());
        }
        options
    }
}
