//! Arguments of `attn multi-head`.

use clap::Args;

use super::shared::{DETECT_HELP, SharedArguments};

/// The width of a head where --dk is not given: a word that no list of sizes is.
pub const PER_HEAD: &str = "d_model/heads";

/// Do the heads have logits of mean 0 and variance d_k, in 3h + 1 matrices that hold no n?
///
/// Draws tokens X (n×d_model, variance 1) and the weights of one layer (variance 1/d_model), projects X to queries, keys and
/// values of every head, and holds E and Var of each head's logits of different tokens, their correlation between heads, the
/// number of matrices and parameters, and what must be equal to rounding against exact theory. A trial is a draw of tokens
/// and weights.
#[derive(Debug, Clone, Args)]
#[command(
    mut_arg("dk", |dk| dk.default_value(PER_HEAD).help("Width of queries and keys of a head in columns: a list or a doubling range, e.g. 32,64")),
    mut_arg("queries", |n| n.default_value("64").help("Number of tokens n (of queries, with --cross): a list or a doubling range, e.g. 16..64")),
    mut_arg("detect", |detect| detect.default_value("2%").help(DETECT_HELP)),
    mut_arg("entries", |law| law.help(
        "Law of the entries of tokens and weights, standardised, e.g. laplace: normal, uniform, rademacher, laplace, student-t:NU"
    )),
    mut_arg("keys", |keys| keys.hide(true)),
    mut_arg("mean", |mean| mean.hide(true)),
    mut_arg("sd", |sd| sd.hide(true)),
    mut_arg("correlation", |correlation| correlation.hide(true)),
    mut_arg("precision", |precision| precision.hide(true)),
    after_help = "Rows of one head are named logit_mean:head1 and so on. The defaults run in some seconds on two cores; the trials are planned from \
    a pilot of 512 trials.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn multi-head\n      \
    8 heads of width 64 in a model of width 512\n  \
    attn multi-head --tied --scale inv-sqrt-dk\n      \
    W_k = W_q: symmetric logits, a diagonal at √d_k\n  \
    attn multi-head --heads 8 --kv-heads 2 --bias\n      \
    grouped heads, biases as a column of ones\n  \
    attn multi-head --cross 96 --dv 32 -o cross.csv\n      \
    64 queries, 96 keys from another source"
)]
pub struct MultiHeadArguments {
    /// Width of a token in columns, rows of the projections, e.g. 256
    #[arg(long, value_name = "D", default_value = "512", help_heading = "Sizes", allow_hyphen_values = true)]
    pub d_model: String,

    /// Number of heads h, e.g. 4
    #[arg(long, value_name = "H", default_value = "8", help_heading = "Sizes", allow_hyphen_values = true)]
    pub heads: String,

    /// Number of heads of keys and values, a divisor of --heads, e.g. 2; each serves H/G heads of queries [default: as many as --heads]
    #[arg(long, value_name = "G", help_heading = "Sizes", allow_hyphen_values = true)]
    pub kv_heads: Option<String>,

    /// Width of values of a head in columns, e.g. 32 [default: that of queries and keys]
    #[arg(long, value_name = "D_V", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dv: Option<String>,

    /// Number of keys of another source, e.g. 96: cross-attention of n queries and M keys and values, no mask; a list or a doubling range [default: self-attention]
    #[arg(long, value_name = "M", help_heading = "Sizes", allow_hyphen_values = true)]
    pub cross: Option<String>,

    /// W_k = W_q in every head
    #[arg(long, help_heading = "What is drawn")]
    pub tied: bool,

    /// Biases in every projection, drawn like a row of its matrix; also run as a column of ones
    #[arg(long, help_heading = "What is drawn")]
    pub bias: bool,

    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,
}
