//! Arguments of `attn audit`.

use clap::Args;

/// What is wrong with my attention?
///
/// Reads Q, K and weights (or V and output) of any framework from .safetensors, .npy or .npz, and says what they contradict: the scale that was really used,
/// softmax over a wrong axis, masks that leak, heads in another order, rounding that is none. Each finding has its number, its place, the likeliest
/// cause and what would confirm it.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "What was not declared and leaves the textbook is a WARN that names the option which makes it legal; what contradicts a declaration is a FAIL.\n\n\
    Examples:\n  \
    attn audit dump.safetensors                      q, k, p (and v, o, mask, …) by their names\n  \
    attn audit dump.npz --causal --scale 1           what the implementation promises\n  \
    attn audit dump.safetensors --group 'layer3*'    some layers of many\n  \
    attn audit q.npy k.npy p.npy                     one array a file\n  \
    attn audit step1.npz step2.npz step3.npz         a series: each dump, and whether Q and K grow\n  \
    attn audit fused.npz --against eager.npz         what differs between two dumps, and what turns one into the other\n  \
    attn audit --explain scale                       what a check does, and where it is blind\n\n\
    Exit codes: 0 no FAIL · 1 a FAIL · 2 wrong usage or unreadable file"
)]
pub struct AuditArguments {
    /// One or more files; arrays are found by name. Several files with Q and K each are a series of dumps
    #[arg(value_name = "FILE", required_unless_present = "explain")]
    pub files: Vec<String>,

    /// Print what a check does, its formula and its blind spots
    #[arg(long, value_name = "CHECK", exclusive = true)]
    pub explain: Option<String>,

    /// Compare with another dump of the same attention instead: arrays are paired by role and group; may be given once per file
    #[arg(long, value_name = "REFERENCE", help_heading = "Comparison")]
    pub against: Vec<String>,

    /// Factor on QKᵀ in the reference, if it was declared to differ from --scale
    #[arg(long, value_name = "EXPR", requires = "against", help_heading = "Comparison", allow_hyphen_values = true)]
    pub against_scale: Option<String>,

    /// Only groups (layers) whose name fits, with * and ?
    #[arg(long, value_name = "GLOB", help_heading = "Arrays")]
    pub group: Option<String>,

    /// Name of the queries [default: q, query, queries]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub q: Option<String>,

    /// Name of the keys [default: k, key, keys]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub k: Option<String>,

    /// Name of the values [default: v, value, values]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub v: Option<String>,

    /// Name of the weights after softmax [default: p, weights, attn, attention, probs]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub weights: Option<String>,

    /// Name of the output [default: o, out, output, context]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub output_name: Option<String>,

    /// Name of the logits, scaled, before mask and softmax [default: s, scores, logits]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub logits: Option<String>,

    /// Name of the mask [default: mask, attn_mask, attention_mask]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub mask: Option<String>,

    /// additive, boolean (as keep), keep or hide [default: guessed]
    #[arg(long, value_name = "KIND", help_heading = "Arrays")]
    pub mask_kind: Option<String>,

    /// Name of the padding, (batch, token) [default: padding, key_padding_mask]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub padding: Option<String>,

    /// keep (1 = real token) or hide (1 = padding, as PyTorch's key_padding_mask) [default: keep, or hide if only that gives the weights]
    #[arg(long, value_name = "KIND", help_heading = "Arrays")]
    pub padding_kind: Option<String>,

    /// Name of the additive bias [default: bias]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub bias: Option<String>,

    /// Name of the log-sum-exp [default: lse]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub lse: Option<String>,

    /// Name of the queries before the position rotation [default: q_pre]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub q_pre: Option<String>,

    /// Name of the keys before the position rotation [default: k_pre]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub k_pre: Option<String>,

    /// Name of a sinusoidal table [default: pe, position_encoding]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub pe: Option<String>,

    /// Axes of Q, K, V and O: bhnd, bnhd, hnd, nd; bijh: bnhd, with weights and logits (batch, query, key, head) [default: by the number of axes]
    #[arg(long, value_name = "AXES", help_heading = "Arrays")]
    pub layout: Option<String>,

    /// What 2-byte voids of .npy and .npz are: f16 or bf16 [default: bf16, which NumPy has no name for]
    #[arg(long, value_name = "TYPE", help_heading = "Arrays")]
    pub void_as: Option<String>,

    /// Factor on QKᵀ: a number, or an expression of dk, dmodel, heads, n, m, layer [default: 1/sqrt(dk), deviations may be meant]
    #[arg(long, value_name = "EXPR", help_heading = "Contract", allow_hyphen_values = true)]
    pub scale: Option<String>,

    /// Number of the layer, for --scale
    #[arg(long, value_name = "N", help_heading = "Contract", allow_hyphen_values = true)]
    pub layer: Option<String>,

    /// Width of the model [default: heads times dk]
    #[arg(long, value_name = "N", help_heading = "Contract", allow_hyphen_values = true)]
    pub dmodel: Option<String>,

    /// Keys after the query's position are hidden; top-left or bottom-right where queries and keys differ in number
    #[arg(long, value_name = "ALIGNMENT", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Contract")]
    pub causal: Option<String>,

    /// Causal, and only the last W keys are visible, the own one counted
    #[arg(long, value_name = "W", help_heading = "Contract", allow_hyphen_values = true)]
    pub window: Option<String>,

    /// Logits become C·tanh(logit/C)
    #[arg(long, value_name = "C", help_heading = "Contract", allow_hyphen_values = true)]
    pub softcap: Option<String>,

    /// An extra logit in the denominator
    #[arg(long, value_name = "VALUE", help_heading = "Contract", allow_hyphen_values = true)]
    pub sink: Option<String>,

    /// Logits fall linearly with distance, with the published slopes
    #[arg(long, help_heading = "Contract")]
    pub alibi: bool,

    /// Q and K are rotated by their position: half-split or interleaved pairs
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, require_equals = true, default_missing_value = "half-split", help_heading = "Contract")]
    pub rotary: Option<String>,

    /// Base of the rotation's frequencies
    #[arg(long, value_name = "B", default_value = "10000", help_heading = "Contract", allow_hyphen_values = true)]
    pub base: String,

    /// Position of the first query
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Contract", allow_hyphen_values = true)]
    pub offset: String,

    /// How fewer key heads serve the query heads: repeat (h / group) or tile (h mod key heads)
    #[arg(long, value_name = "ORDER", help_heading = "Contract")]
    pub kv_groups: Option<String>,

    /// Weights were dumped in training, after dropout with this probability
    #[arg(long, value_name = "P", help_heading = "Contract", allow_hyphen_values = true)]
    pub dropout: Option<String>,

    /// Largest accepted error of a weight, and of an output relative to max |V| [default: derived from types and sizes]
    #[arg(long, value_name = "X", help_heading = "Contract", allow_hyphen_values = true)]
    pub tolerance: Option<String>,

    /// Where the findings go, format by ending (.csv, .json, .md); `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub output: String,

    /// table, csv, json or markdown [default: by the ending of --output; table on a terminal, csv in a pipe]
    #[arg(long, value_name = "F", help_heading = "Output", allow_hyphen_values = true)]
    pub format: Option<String>,

    /// A picture, head by head: scale, entropy and largest weight beside theory, and what each check says (.svg or .png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<String>,

    /// No progress bar, no notices of the readers; findings and errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}
