//! Arguments of `attn probe`.

use clap::{Args, Subcommand};

use super::output::OutputArguments;

/// Does my attention implementation do what attention should?
///
/// Writes cases as .safetensors, has your implementation answer them through an adapter of a few lines in any language, and judges the answers against
/// an f64 reference under bounds derived from the types: right, wrong (with the cause), unsupported, failed or nondeterministic, for each
/// capability. docs/probe.md describes the files.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 wrong usage or unreadable folder · 3 \
    nothing was answered\n\n\
    Examples:\n  \
    attn probe run --adapter numpy\n      \
    the whole round: cases, answers, judgement\n  \
    attn probe new DIR; my-adapter DIR DIR/out; attn probe judge DIR"
)]
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

impl ProbeAction {
    /// Where its result goes; None where it has none.
    pub fn results(&self) -> Option<&OutputArguments> {
        match self {
            Self::Judge(arguments) => Some(&arguments.results),
            Self::Run(arguments) => Some(&arguments.results),
            Self::New(_) | Self::Adapter(_) => None,
        }
    }
}

/// Arguments of `attn probe new`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe new probe                                  all cases\n  \
    attn probe new probe --seed 7 --only causal window")]
pub struct NewArguments {
    /// Folder for the cases, e.g. probe: an empty one, one that is not there yet, or an earlier probe, which is replaced
    #[arg(value_name = "DIR")]
    pub folder: String,

    /// Seed of every number, a number, e.g. 7
    #[arg(long, value_name = "S", default_value = "0", allow_hyphen_values = true)]
    pub seed: String,

    /// Only these capabilities, e.g. causal window [default: all]
    #[arg(long, value_name = "KIND", num_args = 1..)]
    pub only: Vec<String>,

    /// Write beside files that are no probe's
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `attn probe judge`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 unreadable folder · 3 nothing was \
    answered\n\n\
    Examples:\n  \
    attn probe judge probe\n      \
    answers are in probe/out\n  \
    attn probe judge probe --format csv -o judgement.csv"
)]
pub struct JudgeArguments {
    /// The folder of the probe, e.g. probe
    #[arg(value_name = "DIR")]
    pub folder: String,

    /// Where the judgement goes.
    #[command(flatten)]
    pub results: OutputArguments,
}

/// Arguments of `attn probe run`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "{cases} stands for DIR and {outputs} for DIR/out in CMD; with {case} and {output} instead, CMD is run once for each case.\n\n\
    Exit codes: 0 all right or unsupported · 1 something wrong, failed or nondeterministic · 2 wrong usage · 3 nothing was answered\n\n\
    Examples:\n  \
    attn probe run --adapter torch\n      \
    in ./attn-probe, with python3\n  \
    attn probe run probe --timeout 20 -- ./my-adapter {cases} {outputs}"
)]
pub struct RunArguments {
    /// The folder of the probe, e.g. probe; made with all cases where there is none
    #[arg(value_name = "DIR", default_value = "attn-probe")]
    pub folder: String,

    /// One of the adapters that come with the program, e.g. torch (see 'attn probe adapter') [default: CMD]
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub adapter: Option<String>,

    /// The Python that runs --adapter, e.g. venv/bin/python
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub python: String,

    /// Seconds without an answer after which the command is ended, e.g. 20; the case counts as failed and the rest is tried again
    #[arg(long, value_name = "S", default_value = "60", allow_hyphen_values = true)]
    pub timeout: String,

    /// Keep the answers that are there already
    #[arg(long)]
    pub resume: bool,

    /// Where the judgement goes.
    #[command(flatten)]
    pub results: OutputArguments,

    /// The command that answers the cases, e.g. ./my-adapter {cases} {outputs} [default: --adapter]
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Arguments of `attn probe adapter`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    attn probe adapter                          the names\n  \
    attn probe adapter numpy > my_adapter.py")]
pub struct AdapterArguments {
    /// Which one, e.g. numpy [default: their names are printed]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
