//! Where a result goes: the options that every subcommand with a result has.

use clap::Args;

/// Where a result goes and how it looks, as typed.
#[derive(Debug, Clone, Args)]
pub struct OutputArguments {
    /// File for the result, format by ending (.csv, .json, .md), e.g. result.csv; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub output: String,

    /// Format of the result, e.g. json: table, csv, json or markdown [default: by the ending of --output; table on a terminal, csv in a pipe]
    #[arg(long, value_name = "F", help_heading = "Output", allow_hyphen_values = true)]
    pub format: Option<String>,

    /// File for a picture of the result, theory drawn beside measurement, .svg or .png, e.g. result.svg [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<String>,

    /// Colour of verdicts on standard output, e.g. never: auto (terminals only, see NO_COLOR and CLICOLOR), always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output", allow_hyphen_values = true)]
    pub color: String,

    /// No progress bar, no notes; results and errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}
