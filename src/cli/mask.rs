//! Arguments of `attn mask`.

use clap::Args;

use super::shared::SharedArguments;

/// Does the mask hide what it claims to hide, and nothing else?
///
/// Draws Q (n×d_k), K (m×d_k) and V, runs softmax(scale·QKᵀ + mask)V and holds what the mask promises against what comes
/// out: hidden keys have no weight, no gradient and no influence even if they are NaN; rows sum to 1; visible logits keep
/// mean 0 and their variance; entropy and Σp² of a row are those of as many keys as it sees, by exact theory.
#[derive(Debug, Clone, Args)]
#[command(
    mut_arg("scale", |argument| argument.default_value("inv-sqrt-dk")),
    after_help = "What each kind shows query i (a key is visible if every kind joined by + shows it):\n  \
    causal           keys j ≤ i (PyTorch's is_causal: hidden iff j > i)\n  \
    window:W         the last W of those, its own counted\n  \
    prefix:P         keys j ≤ i, and the first P keys\n  \
    padding:L        the first L keys; the rest is padding\n  \
    documents:A,B,…  the keys of its own document of A, B, … tokens\n  \
    file:MASK.npy    what the file says: bool (true = visible), 0/1 (1 = visible), or additive floats; broadcast to n×m\n\n\
    A row's p-value comes from the trials; a fixed value (a weight of exactly 0) is refuted by one trial.\n\n\
    Examples:\n  \
    attn mask                                               the causal mask\n  \
    attn mask --kind causal@bottom-right -n 64 -m 512       decoding with a cache\n  \
    attn mask --kind causal --fill -20 --precision f32      a finite fill that leaks\n  \
    attn mask --kind window:65 --claim window:64            off by one: what it does to the numbers\n  \
    attn mask --kind file:mask.npy --claim causal --plot mask.png\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)"
)]
pub struct MaskArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// The mask that is applied, e.g. causal, window:64, causal+padding:400, file:mask.npy (see below)
    #[arg(long, value_name = "KIND", default_value = "causal", help_heading = "The mask", allow_hyphen_values = true)]
    pub kind: String,

    /// Where queries stand among the keys if n ≠ m: top-left (query i at key i) or bottom-right (the last at the last); also @… behind a kind
    #[arg(long, value_name = "WHERE", help_heading = "The mask", allow_hyphen_values = true)]
    pub align: Option<String>,

    /// The mask that should be applied, e.g. causal@bottom-right: what is hidden and what theory says follow this one [default: the one that is]
    #[arg(long, value_name = "KIND", help_heading = "The mask", allow_hyphen_values = true)]
    pub claim: Option<String>,

    /// What stands for a hidden logit: -inf, min (the arithmetic's most negative finite number), or a number, e.g. -1e4 [default: -inf, or what an additive file adds]
    #[arg(long, value_name = "X", help_heading = "The mask", allow_hyphen_values = true)]
    pub fill: Option<String>,

    /// Hide before the softmax (in the logits) or after it (in the weights, without renormalising): before, after
    #[arg(long, value_name = "WHEN", default_value = "before", help_heading = "The mask", allow_hyphen_values = true)]
    pub apply: String,

    /// A row of results for each query with a visible key beside the averages; the default of --detect is then 10%
    #[arg(long, help_heading = "Output")]
    pub by_row: bool,
}
