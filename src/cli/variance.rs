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
    see the derivation fail where its assumption does\n  \
    attn variance -n 1e6 --moments 2 --trials 1\n      \
    mean and variance of 10¹² logits in seconds, none formed\n  \
    attn variance -n 65536 --draw gram --trials 1e4\n      \
    the same from the law of QᵀQ and KᵀK: no Q, no K"
)]
pub struct VarianceArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// Number of the highest moment of the logits, e.g. 2: 4 (mean, variance, kurtosis) or 2 (mean and variance, from QᵀQ and KᵀK without the logits: time grows with n, not n·m) [default: 4, or 2 with --draw gram]
    #[arg(long, value_name = "R", help_heading = "What is run", allow_hyphen_values = true)]
    pub moments: Option<String>,

    /// What is drawn, e.g. gram: matrices (Q and K), or gram (column means and Gram matrices from their own law, Wishart; normal entries; implies --moments 2)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "matrices",
        help_heading = "What is drawn",
        allow_hyphen_values = true
    )]
    pub draw: String,
}
