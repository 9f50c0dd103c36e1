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
    none             every key\n  \
    file:MASK.npy    what the file says (see below)\n\n\
    A mask file holds booleans or 0/1 (1 is visible, see --true-means), or numbers added to the logits, where −∞ or one constant below -50 and far \
    from the rest hides; one row or column is repeated; n and m are the file's if not given.\n\n\
    With -inf hidden keys are left out of the softmax and of the product with V, as fused kernels do. \
    softmax(logits.masked_fill(-inf)) @ V multiplies hidden values by 0, which is NaN for a NaN: say --hidden-values multiply.\n\n\
    A row's p-value comes from the trials; a fixed value (a weight of exactly 0) is refuted by one trial.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn mask\n      \
    the causal mask\n  \
    attn mask --kind causal@bottom-right -n 64 -m 512\n      \
    decoding with a cache\n  \
    attn mask --kind causal --fill -20 --precision f32\n      \
    a finite fill that leaks\n  \
    attn mask --kind window:65 --claim window:64\n      \
    off by one: what it does to the numbers\n  \
    attn mask --kind file:mask.npy --claim causal --plot mask.png"
)]
pub struct MaskArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// The mask that is applied, e.g. window:64, causal+padding:400, file:mask.npy (see below)
    #[arg(long, value_name = "KIND", default_value = "causal", help_heading = "The mask", allow_hyphen_values = true)]
    pub kind: String,

    /// Where queries stand among the keys if n ≠ m, e.g. bottom-right: top-left (query i at key i) or bottom-right (the last at the last); also @… behind a kind [default: top-left]
    #[arg(long, value_name = "WHERE", help_heading = "The mask", allow_hyphen_values = true)]
    pub align: Option<String>,

    /// The mask that should be applied, e.g. causal@bottom-right: what is hidden and what theory says follow this one [default: the one that is]
    #[arg(long, value_name = "KIND", help_heading = "The mask", allow_hyphen_values = true)]
    pub claim: Option<String>,

    /// What stands for a hidden logit: -inf, min (the arithmetic's most negative finite number), or a number, e.g. -1e4 [default: -inf, or what an additive file adds]
    #[arg(long, value_name = "X", help_heading = "The mask", allow_hyphen_values = true)]
    pub fill: Option<String>,

    /// When to hide, e.g. after: before the softmax (in the logits) or after it (in the weights, without renormalising)
    #[arg(long, value_name = "WHEN", default_value = "before", help_heading = "The mask", allow_hyphen_values = true)]
    pub apply: String,

    /// Hidden keys in the product with V, e.g. multiply: select (left out) or multiply (by their weight; 0·NaN is NaN) [default: select for --fill -inf, else multiply]
    #[arg(long, value_name = "HOW", help_heading = "The mask", allow_hyphen_values = true)]
    pub hidden_values: Option<String>,

    /// What true, or 1, means in a mask file, e.g. hidden: visible (scaled_dot_product_attention) or hidden (key_padding_mask)
    #[arg(long, value_name = "WHAT", default_value = "visible", help_heading = "The mask", allow_hyphen_values = true)]
    pub true_means: String,

    /// A row of results for each query with a visible key beside the averages; the default of --detect is then 10%
    #[arg(long, help_heading = "Output")]
    pub by_row: bool,
}
