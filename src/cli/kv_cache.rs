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
    after_help = "bound_share is the largest difference from the full pass as a share of the bound on rounding of that output: above 1 the cache is \
    wrong. Nothing here is left to chance: --trials [default: 10] says how many draws are tried, and one that fails rejects.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn kv-cache -n 512 --heads 8 --kv-heads 2 --precision bf16\n      \
    grouped heads in bf16\n  \
    attn kv-cache -n 512 --window 128 --prefill 300 --chunk 64\n      \
    a ring of 191 slots, a prompt in chunks\n  \
    attn kv-cache -n 1024 --time --threads 1 --plot cost.svg\n      \
    operations and time with and without a cache"
)]
pub struct KvCacheArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// Number of query heads h, e.g. 8
    #[arg(long, value_name = "H", default_value = "4", help_heading = "Sizes", allow_hyphen_values = true)]
    pub heads: String,

    /// Number of key and value heads h_kv, a divisor of --heads, e.g. 2 [default: --heads]
    #[arg(long, value_name = "H", help_heading = "Sizes", allow_hyphen_values = true)]
    pub kv_heads: Option<String>,

    /// Width of values d_v in columns, e.g. 32 [default: --dk]
    #[arg(long, value_name = "D", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dv: Option<String>,

    /// Number of tokens of the prompt, below --queries, e.g. 300; 0 for none [default: half of --queries]
    #[arg(long, value_name = "P", help_heading = "Sizes", allow_hyphen_values = true)]
    pub prefill: Option<String>,

    /// Number of tokens of the prompt that are appended at a time, e.g. 64 [default: all of it]
    #[arg(long, value_name = "C", help_heading = "Sizes", allow_hyphen_values = true)]
    pub chunk: Option<String>,

    /// Number of keys that a token sees, its own counted, e.g. 128 [default: all before it]
    #[arg(long, value_name = "W", help_heading = "What is run", allow_hyphen_values = true)]
    pub window: Option<String>,

    /// Pairs of rotary positions, e.g. interleaved: half-split, interleaved or none
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "half-split",
        help_heading = "What is run",
        allow_hyphen_values = true
    )]
    pub rotary: String,

    /// Number of tokens to generate with and without a cache, e.g. 64; 0 for none
    #[arg(long, value_name = "T", default_value = "32", help_heading = "What is run", allow_hyphen_values = true)]
    pub generate: String,

    /// Measure time too (never judged); the output is then not the same in every run
    #[arg(long, help_heading = "What is run")]
    pub time: bool,
}
