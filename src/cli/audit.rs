//! Arguments of `attn audit`.

use clap::Args;

use super::output::OutputArguments;

/// What is wrong with my attention?
///
/// Reads Q, K and weights (or V and output) of any framework from .safetensors, .npy or .npz, and says what they contradict: the scale that was really used,
/// softmax over a wrong axis, masks that leak, heads in another order, rounding that is none. Each finding has its number, its place, the likeliest
/// cause and what would confirm it.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "What was not declared and leaves the textbook is a WARN that names the option which makes it legal; what contradicts a declaration is a FAIL, \
    and so is dropout that was not declared: evaluation must not be random.\n\n\
    Exit codes: 0 no FAIL · 1 a FAIL · 2 wrong usage or unreadable file\n\n\
    Examples:\n  \
    attn audit dump.safetensors\n      \
    q, k, p (and v, o, mask, …) by their names\n  \
    attn audit dump.npz --causal --scale 1\n      \
    what the implementation promises\n  \
    attn audit dump.safetensors --group 'layer3*'\n      \
    some layers of many\n  \
    attn audit q.npy k.npy p.npy\n      \
    one array a file\n  \
    attn audit step1.npz step2.npz step3.npz\n      \
    a series: each dump, and whether Q and K grow\n  \
    attn audit fused.npz --against eager.npz\n      \
    what differs between two dumps, and what turns one into the other\n  \
    attn audit --explain scale\n      \
    what a check does, and where it is blind"
)]
pub struct AuditArguments {
    /// One or more files, e.g. dump.safetensors; arrays are found by name. Several files with Q and K each are a series of dumps [default: none, with
    /// --explain only]
    #[arg(value_name = "FILE", required_unless_present = "explain")]
    pub files: Vec<String>,

    /// Print what a check does, its formula and its blind spots, e.g. scale [default: audit the files]
    #[arg(long, value_name = "CHECK", exclusive = true)]
    pub explain: Option<String>,

    /// Compare with another dump of the same attention instead, e.g. eager.npz: arrays are paired by role and group; may be given once per file [default: no comparison]
    #[arg(long, value_name = "REFERENCE", help_heading = "Comparison")]
    pub against: Vec<String>,

    /// Factor on QKᵀ (dimensionless) in the reference, if it was declared to differ, e.g. 1/8 [default: --scale]
    #[arg(long, value_name = "EXPR", requires = "against", help_heading = "Comparison", allow_hyphen_values = true)]
    pub against_scale: Option<String>,

    /// Only groups (layers) whose name fits, with * and ?, e.g. 'layer3*' [default: all]
    #[arg(long, value_name = "GLOB", help_heading = "Arrays")]
    pub group: Option<String>,

    /// Name of the queries, e.g. q_proj [default: q, query, queries]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub q: Option<String>,

    /// Name of the keys, e.g. k_proj [default: k, key, keys]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub k: Option<String>,

    /// Name of the values, e.g. v_proj [default: v, value, values]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub v: Option<String>,

    /// Name of the weights after softmax, e.g. attn_probs [default: p, weights, attn, attention, probs]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub weights: Option<String>,

    /// Name of the output, e.g. attn_out [default: o, out, output, context]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub output_name: Option<String>,

    /// Name of the logits, scaled, before mask and softmax, e.g. raw_scores [default: s, scores, logits]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub logits: Option<String>,

    /// Name of the mask, e.g. bool_mask [default: mask, attn_mask, attention_mask]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub mask: Option<String>,

    /// Kind of the mask, e.g. additive: additive, boolean (as keep), keep or hide [default: guessed]
    #[arg(long, value_name = "KIND", help_heading = "Arrays")]
    pub mask_kind: Option<String>,

    /// Name of the padding, (batch, token), e.g. pad [default: padding, key_padding_mask]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub padding: Option<String>,

    /// Sense of the padding, e.g. hide: keep (1 = real token) or hide (1 = padding, as PyTorch's key_padding_mask) [default: keep, or hide if only that gives the weights]
    #[arg(long, value_name = "KIND", help_heading = "Arrays")]
    pub padding_kind: Option<String>,

    /// Name of the additive bias, e.g. rel_bias [default: bias]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub bias: Option<String>,

    /// Name of the log-sum-exp, e.g. softmax_lse [default: lse]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub lse: Option<String>,

    /// Name of the queries before the position rotation, e.g. q_raw [default: q_pre]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub q_pre: Option<String>,

    /// Name of the keys before the position rotation, e.g. k_raw [default: k_pre]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub k_pre: Option<String>,

    /// Name of a sinusoidal table, e.g. pos_emb [default: pe, position_encoding]
    #[arg(long, value_name = "NAME", help_heading = "Arrays")]
    pub pe: Option<String>,

    /// Axes of Q, K, V and O, e.g. bnhd: bhnd, bnhd, hnd, nd; bijh: bnhd, with weights and logits (batch, query, key, head) [default: by the number of axes]
    #[arg(long, value_name = "AXES", help_heading = "Arrays")]
    pub layout: Option<String>,

    /// Type of 2-byte voids of .npy and .npz, e.g. f16: f16 or bf16 [default: bf16, which NumPy has no name for]
    #[arg(long, value_name = "TYPE", help_heading = "Arrays")]
    pub void_as: Option<String>,

    /// Factor on QKᵀ (dimensionless): a number, or an expression of dk, dmodel, heads, n, m, layer, e.g. 1/sqrt(dmodel) [default: 1/sqrt(dk), deviations may be meant]
    #[arg(long, value_name = "EXPR", help_heading = "Contract", allow_hyphen_values = true)]
    pub scale: Option<String>,

    /// Number of the layer, for --scale, e.g. 3 [default: none]
    #[arg(long, value_name = "N", help_heading = "Contract", allow_hyphen_values = true)]
    pub layer: Option<String>,

    /// Width of the model in columns, e.g. 768 [default: heads times dk]
    #[arg(long, value_name = "N", help_heading = "Contract", allow_hyphen_values = true)]
    pub dmodel: Option<String>,

    /// Keys after the query's position are hidden; where queries and keys differ in number also the alignment, top-left or bottom-right, e.g. --causal=bottom-right [default: not declared]
    #[arg(long, value_name = "ALIGNMENT", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Contract")]
    pub causal: Option<String>,

    /// Causal, and only the last W keys are visible, the own one counted, e.g. 128 [default: not declared]
    #[arg(long, value_name = "W", help_heading = "Contract", allow_hyphen_values = true)]
    pub window: Option<String>,

    /// Logits become C·tanh(logit/C), C in units of the logits (dimensionless), e.g. 50 [default: no cap]
    #[arg(long, value_name = "C", help_heading = "Contract", allow_hyphen_values = true)]
    pub softcap: Option<String>,

    /// An extra logit in the denominator (dimensionless), e.g. 0 [default: none]
    #[arg(long, value_name = "VALUE", help_heading = "Contract", allow_hyphen_values = true)]
    pub sink: Option<String>,

    /// Logits fall linearly with distance, with the published slopes
    #[arg(long, help_heading = "Contract")]
    pub alibi: bool,

    /// Q and K are rotated by their position, in half-split or interleaved pairs, e.g. --rotary=interleaved [default: not declared; half-split without a value]
    #[arg(long, value_name = "PAIRS", num_args = 0..=1, require_equals = true, default_missing_value = "half-split", help_heading = "Contract")]
    pub rotary: Option<String>,

    /// Base of the rotation's frequencies (dimensionless), e.g. 500000
    #[arg(long, value_name = "B", default_value = "10000", help_heading = "Contract", allow_hyphen_values = true)]
    pub base: String,

    /// Position of the first query, in tokens, e.g. 128
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Contract", allow_hyphen_values = true)]
    pub offset: String,

    /// How fewer key heads serve the query heads, e.g. tile: repeat (h / group) or tile (h mod key heads) [default: repeat]
    #[arg(long, value_name = "ORDER", help_heading = "Contract")]
    pub kv_groups: Option<String>,

    /// Weights were dumped in training, after dropout with this probability, e.g. 0.1 [default: no dropout]
    #[arg(long, value_name = "P", help_heading = "Contract", allow_hyphen_values = true)]
    pub dropout: Option<String>,

    /// Largest accepted error of a weight (absolute), and of an output relative to max |V|, e.g. 1e-3 [default: derived from types and sizes]
    #[arg(long, value_name = "X", help_heading = "Contract", allow_hyphen_values = true)]
    pub tolerance: Option<String>,

    /// Where the result goes.
    #[command(flatten)]
    pub results: OutputArguments,
}
