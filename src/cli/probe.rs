//! Arguments of `attn probe`.

use clap::{Args, Subcommand};

/// Does my attention implementation do what attention should?
///
/// Writes cases as .safetensors, has your implementation answer them through an adapter of a few lines in any language, and judges the answers against
/// an f64 reference under bounds derived from the types: right, wrong (with the cause), unsupported, failed or nondeterministic, for each
/// capability. docs/probe.md describes the files.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe run --adapter numpy                   the whole round: cases, answers, judgement\n  \
    attn probe new DIR; my-adapter DIR DIR/out; attn probe judge DIR\n\n\
    Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 wrong usage or unreadable folder · \
    3 nothing was answered")]
pub struct ProbeArguments {
    /// What to do
    #[command(subcommand)]
    pub action: ProbeAction,
}

/// The parts of a round.
#[derive(Debug, Clone, Subcommand)]
pub enum ProbeAction {
    /// Write the cases
    New(NewArguments),
    /// Judge the answers in DIR/out
    Judge(JudgeArguments),
    /// Run an adapter on the cases (written if need be) and judge its answers
    Run(RunArguments),
    /// Print an adapter to copy from
    Adapter(AdapterArguments),
}

/// Arguments of `attn probe new`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe new probe                             all cases\n  \
    attn probe new probe --seed 7 --only causal window")]
pub struct NewArguments {
    /// Where the cases go: an empty folder, one that is not there yet, or an earlier probe, which is replaced
    #[arg(value_name = "DIR")]
    pub folder: String,

    /// Seed of every number
    #[arg(long, value_name = "S", default_value = "0", allow_hyphen_values = true)]
    pub seed: String,

    /// Only these capabilities
    #[arg(long, value_name = "KIND", num_args = 1..)]
    pub only: Vec<String>,

    /// Write beside files that are no probe's
    #[arg(long)]
    pub force: bool,
}

/// Where a judgement goes.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// Where the judgement goes, format by ending (.csv, .json, .md); `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub output: String,

    /// table, csv, json or markdown [default: by the ending of --output; table on a terminal, csv in a pipe]
    #[arg(long, value_name = "F", help_heading = "Output", allow_hyphen_values = true)]
    pub format: Option<String>,

    /// A picture: the error of every answer against its bound, by capability (.svg or .png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<String>,

    /// No progress bar; judgement and errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Arguments of `attn probe judge`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe judge probe                           answers are in probe/out\n  \
    attn probe judge probe --format csv -o judgement.csv\n\n\
    Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 unreadable folder · 3 nothing was answered")]
pub struct JudgeArguments {
    /// The folder of the probe
    #[arg(value_name = "DIR")]
    pub folder: String,

    /// Where the judgement goes
    #[command(flatten)]
    pub report: ReportArguments,
}

/// Arguments of `attn probe run`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "{cases} stands for DIR and {outputs} for DIR/out in CMD; with {case} and {output} instead, CMD is run once for each case.\n\n\
    Examples:\n  \
    attn probe run --adapter torch                   in ./attn-probe, with python3\n  \
    attn probe run probe --timeout 20 -- ./my-adapter {cases} {outputs}\n\n\
    Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 wrong usage · 3 nothing was answered"
)]
pub struct RunArguments {
    /// The folder of the probe; made with all cases where there is none
    #[arg(value_name = "DIR", default_value = "attn-probe")]
    pub folder: String,

    /// One of the adapters that come with the program (see 'attn probe adapter')
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub adapter: Option<String>,

    /// The Python that runs --adapter
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub python: String,

    /// Seconds without an answer after which the command is ended, the case counted as failed and the rest tried again
    #[arg(long, value_name = "S", default_value = "60", allow_hyphen_values = true)]
    pub timeout: String,

    /// Keep the answers that are there already
    #[arg(long)]
    pub resume: bool,

    /// Where the judgement goes
    #[command(flatten)]
    pub report: ReportArguments,

    /// The command that answers the cases
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Arguments of `attn probe adapter`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe adapter                               the names\n  \
    attn probe adapter numpy > my_adapter.py")]
pub struct AdapterArguments {
    /// Which one; without it their names are printed
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
