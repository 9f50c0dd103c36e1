//! Arguments of `attn variance`.

use clap::Args;

use super::shared::SharedArguments;

/// Options of `attn variance`, as typed.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Is E[QKᵀ] = 0 and Var[QKᵀ] = d_k, and does the scale bring the variance to 1?",
    long_about = "Is E[QKᵀ] = 0 and Var[QKᵀ] = d_k, and does the scale bring the variance to 1?\n\n\
                  Draws Q (n×d_k) and K (m×d_k) with i.i.d. entries, forms the logits QKᵀ times each scale, and holds \
                  their mean, variance and kurtosis, and the moments of the entries themselves, against exact theory. \
                  A sweep over d_k also fits the slope of ln Var against ln d_k.",
    after_help = "Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn variance --dk 64\n      \
    the claim at one size, as a table\n  \
    attn variance --dk 16..1024 -o sweep.csv\n      \
    a sweep with the fitted slopes, as tidy CSV\n  \
    attn variance --dk 64 --mean 0.1\n      \
    see the derivation fail where its assumption does"
)]
pub struct VarianceArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,
}
