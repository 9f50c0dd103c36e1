//! Arguments of `attn kv-cache`.

use clap::Args;

use super::shared::SharedArguments;

/// Does decoding token by token with cached keys and values equal the full causal pass, and what does it save?
///
/// Runs n tokens (--queries) through a cache, a prompt in chunks and then token by token, and holds every output against the full pass within a
/// derived bound on rounding. Generates tokens with and without a cache: masked self-attention over what was generated, then
/// cross-attention to an encoder of --keys tokens. Counts operations with and without the cache, and what the cache holds.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "bound_share is the largest difference from the full pass as a share of the bound on rounding of that output: above 1 \
    the cache is wrong. Nothing here is left to chance: --trials [default: 10] says how many draws are tried, and one that fails \
    rejects.\n\nExamples:\n  \
    attn kv-cache -n 512 --heads 8 --kv-heads 2 --precision bf16    grouped heads in bf16\n  \
    attn kv-cache -n 512 --window 128 --prefill 300 --chunk 64      a ring of 191 slots, a prompt in chunks\n  \
    attn kv-cache -n 1024 --time --threads 1 --plot cost.svg        operations and time with and without a cache\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)"
)]
pub struct KvCacheArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// Query heads h
    #[arg(long, value_name = "H", default_value = "4", help_heading = "Sizes", allow_hyphen_values = true)]
    pub heads: String,

    /// Key and value heads h_kv, a divisor of --heads [default: --heads]
    #[arg(long, value_name = "H", help_heading = "Sizes", allow_hyphen_values = true)]
    pub kv_heads: Option<String>,

    /// Width of values d_v [default: --dk]
    #[arg(long, value_name = "D", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dv: Option<String>,

    /// Tokens of the prompt, below --queries; 0 for none [default: half of --queries]
    #[arg(long, value_name = "P", help_heading = "Sizes", allow_hyphen_values = true)]
    pub prefill: Option<String>,

    /// Tokens of the prompt that are appended at a time [default: all of it]
    #[arg(long, value_name = "C", help_heading = "Sizes", allow_hyphen_values = true)]
    pub chunk: Option<String>,

    /// Each token sees this many keys, its own counted [default: all before it]
    #[arg(long, value_name = "W", help_heading = "What is run", allow_hyphen_values = true)]
    pub window: Option<String>,

    /// Rotary positions: half-split, interleaved or none
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "half-split",
        help_heading = "What is run",
        allow_hyphen_values = true
    )]
    pub rotary: String,

    /// Tokens to generate with and without a cache; 0 for none
    #[arg(long, value_name = "T", default_value = "32", help_heading = "What is run", allow_hyphen_values = true)]
    pub generate: String,

    /// Measure time too (never judged); the output is then not the same in every run
    #[arg(long, help_heading = "What is run")]
    pub time: bool,
}
