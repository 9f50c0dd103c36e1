//! Arguments of `attn depth`.

use clap::Args;

use super::multi_head::PER_HEAD;
use super::shared::{DETECT_HELP, SharedArguments};

/// What do layers make of tokens: rank collapse, variance, spikiness and gradients through a stack of blocks?
///
/// Draws tokens (n×d_model, variance 1) and the weights of every block, runs the stack and writes for each layer mean and
/// variance of the tokens, their mean cosine, variance of the logits, entropy and Σp² of the weights, and the scale of the
/// gradient by forward-mode differentiation. Where theory has a value it is a claim, elsewhere the row is measured.
#[derive(Debug, Clone, Args)]
#[command(
    mut_arg("dk", |dk| dk.default_value(PER_HEAD).help("Width of queries, keys and values of a head in columns: a list or a doubling range, e.g. 8,16")),
    mut_arg("queries", |n| n.default_value("32").help("Number of tokens n: a list or a doubling range, e.g. 16..64")),
    mut_arg("detect", |detect| detect.default_value("2%").help(DETECT_HELP)),
    mut_arg("scale", |scale| scale.default_value("inv-sqrt-dk").help(
        "Factor on QKᵀ (dimensionless), e.g. none: none (1), inv-sqrt-dk (1/√d_k), inv-dk (1/d_k), or a number; one alone"
    )),
    mut_arg("entries", |law| law.help(
        "Law of the entries of tokens and weights, standardised, e.g. laplace: normal, uniform, rademacher, laplace, student-t:NU"
    )),
    mut_arg("keys", |keys| keys.hide(true)),
    mut_arg("mean", |mean| mean.hide(true)),
    mut_arg("sd", |sd| sd.hide(true)),
    mut_arg("correlation", |correlation| correlation.hide(true)),
    mut_arg("precision", |precision| precision.hide(true)),
    after_help = "Rows of one layer are named token_cosine:layer3 and so on; layer 0 is the input. The defaults run in some seconds; the trials are \
    planned from a pilot of 512 trials.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn depth --norm none --no-residual --no-mlp\n      \
    pure attention: the tokens collapse to one\n  \
    attn depth --layers 12 --plot depth.svg\n      \
    post-norm with residual and MLP: far slower\n  \
    attn depth --norm pre --layers 24 --trials 100\n      \
    pre-norm, deeper"
)]
pub struct DepthArguments {
    /// Number of blocks, e.g. 12
    #[arg(long, value_name = "L", default_value = "6", help_heading = "Sizes", allow_hyphen_values = true)]
    pub layers: String,

    /// Width of a token in columns, e.g. 128
    #[arg(long, value_name = "D", default_value = "64", help_heading = "Sizes", allow_hyphen_values = true)]
    pub d_model: String,

    /// Number of heads h, e.g. 8
    #[arg(long, value_name = "H", default_value = "4", help_heading = "Sizes", allow_hyphen_values = true)]
    pub heads: String,

    /// Width of the hidden layer of the MLP in columns, e.g. 256 [default: 4·d_model]
    #[arg(long, value_name = "D_FF", help_heading = "Sizes", allow_hyphen_values = true)]
    pub d_ff: Option<String>,

    /// Place of LayerNorm, e.g. pre: post (after each part), pre (before it), none
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "post",
        help_heading = "What is run",
        allow_hyphen_values = true
    )]
    pub norm: String,

    /// Leave the residual out of both parts of a block
    #[arg(long, help_heading = "What is run")]
    pub no_residual: bool,

    /// Leave the MLP out
    #[arg(long, help_heading = "What is run")]
    pub no_mlp: bool,

    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,
}
