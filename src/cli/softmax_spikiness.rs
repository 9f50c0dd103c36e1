//! Arguments of `attn softmax-spikiness`.

use clap::Args;

use super::shared::SharedArguments;

/// Does softmax saturate, and does the scale keep it from it?
///
/// Draws Q (n×d_k), K (m×d_k) and V, runs softmax(QKᵀ times each scale) and holds its entropy, Σp², largest weight, the
/// trace and norm of its Jacobian and the variance of the output against exact theory at these sizes. Entries other than
/// normal have an approximate theory; means other than 0 and correlated entries are measured only.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "What --detect is relative to: the theory value. Near freezing (logit standard deviation 0.55 to 1 of √(2 ln m)), where rare rows \
    carry the means and only a bet on bounded values is honest, the statistic's range: ln m for entropy, 1/4 for jacobian_frobenius, 3 \
    for output_variance, 1 for the others.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn softmax-spikiness --dk 64\n      \
    raw logits freeze, scaled ones do not\n  \
    attn softmax-spikiness --dk 4..1024 -o sweep.csv\n      \
    raw rows freeze as d_k passes 2 ln m\n  \
    attn softmax-spikiness --precision f16 --scale none\n      \
    underflow and rounding of the weights"
)]
pub struct SoftmaxSpikinessArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// A row is saturated if its largest weight (a share, between 0 and 1) is above this, e.g. 0.95
    #[arg(long, value_name = "X", default_value = "0.99", help_heading = "What is run", allow_hyphen_values = true)]
    pub saturated_above: String,
}
