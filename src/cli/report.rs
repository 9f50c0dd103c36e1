//! Arguments of `attn report`.

use clap::Args;

/// One page from results: verdict first, then each claim with its formula, its picture and its table.
///
/// Reads what any subcommand wrote as JSON or CSV (variance, softmax-spikiness, mask, complexity, multi-head, positional, kv-cache, depth, audit, probe,
/// check, merge) and writes one HTML file that needs nothing else: no network, no script. It opens from a disk, on a phone and on paper, light and dark.
/// JSON has the command line, the remarks and how each row was tested; CSV has the rows alone, and the page says so.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 the page was written, whatever the verdicts in it · 2 wrong usage, or a file that is no result; nothing written\n\n\
    Examples:\n  \
    attn report sweep.json -o report.html\n      \
    of attn variance --dk 16..1024 -o sweep.json\n  \
    attn report a.json audit.csv -o report.html --title 'attention v2'\n  \
    attn report - -o mask.html\n      \
    behind a pipe: attn mask --format json | attn report - -o mask.html"
)]
pub struct ReportArguments {
    /// Results as JSON or CSV, e.g. sweep.json, in the order of the page; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,

    /// File for the page, .html or .htm, e.g. report.html; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: String,

    /// Title of the page, e.g. 'attention v2'
    #[arg(long, value_name = "TEXT", default_value = "attn report", allow_hyphen_values = true)]
    pub title: String,

    /// No note on what was written; errors only
    #[arg(short, long)]
    pub quiet: bool,
}
