//! Arguments of `attn complexity`.

use clap::Args;

use super::output::OutputArguments;

/// Options of `attn complexity`, as typed.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Does attention cost what the law says, O(n²·d_k)? Counted exactly, and measured",
    long_about = "Does attention cost what the law says, O(n²·d_k)? Counted exactly, and measured.\n\n\
                  Counts the operations of QKᵀ, of scale and softmax, and of PV by closed formulas and holds them against an instrumented \
                  computation; times each stage over a sweep of n (at the largest d_k) and one of d_k (at the largest n), and fits the \
                  exponents. Counts and the agreement of the kernels' outputs decide the exit code, times only with --gate-time.",
    after_help = "Exit codes: 0 counts and outputs agree · 1 they do not (with --gate-time: or an exponent is outside its limits) · 2 wrong usage · \
    3 with --gate-time: too few sizes or times to judge\n\n\
    Examples:\n  \
    attn complexity\n      \
    the law in words, and whether it was seen\n  \
    attn complexity -n 512..4096 --mask causal --plot c.png\n      \
    half the cells, the same exponent\n  \
    attn complexity --layer --cache --heads 8\n      \
    the layer around it, and decoding with a KV cache"
)]
pub struct ComplexityArguments {
    /// Numbers of queries n, rows of Q: a list or a doubling range, e.g. 512..4096, swept at the largest d_k
    #[arg(
        short = 'n',
        long,
        value_name = "LIST",
        default_value = "512,768,1024,1536,2048",
        help_heading = "Sizes",
        allow_hyphen_values = true
    )]
    pub queries: String,

    /// Number of keys m, rows of K, the same at every n, e.g. 1024 [default: as many as queries]
    #[arg(short = 'm', long, value_name = "M", help_heading = "Sizes", allow_hyphen_values = true)]
    pub keys: Option<String>,

    /// Key widths d_k in columns: a list or a doubling range, e.g. 64..512, swept at the largest n
    #[arg(
        long,
        value_name = "LIST",
        default_value = "64,128,256,512",
        help_heading = "Sizes",
        allow_hyphen_values = true
    )]
    pub dk: String,

    /// Width of values d_v in columns, e.g. 32 [default: d_k]
    #[arg(long, value_name = "D", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dv: Option<String>,

    /// A mask, e.g. window:128: causal, window:W, prefix:P, padding:L, documents:L1,L2,… or several joined by +, then @bottom-right if n ≠ m [default: none]
    #[arg(long, value_name = "RULE", help_heading = "What is run", allow_hyphen_values = true)]
    pub mask: Option<String>,

    /// Kernel to run, e.g. streaming: materialised (all n·m weights in memory), streaming (online softmax over blocks of keys) or both
    #[arg(long, value_name = "NAME", default_value = "both", help_heading = "What is run", allow_hyphen_values = true)]
    pub kernel: String,

    /// Arithmetic, f32 or f64, e.g. f64
    #[arg(long, value_name = "P", default_value = "f32", help_heading = "What is run", allow_hyphen_values = true)]
    pub precision: String,

    /// Cost of the n-th token with and without a KV cache, counted and measured
    #[arg(long, help_heading = "What is run")]
    pub cache: bool,

    /// Time for all measurements, in seconds or with a unit, e.g. 2m or 500ms; less is used if the times are steady
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "What is run", allow_hyphen_values = true)]
    pub time_budget: String,

    /// Number of threads, e.g. 2; one is timed by its own processor time, which other programs do not lengthen, more by the wall clock
    #[arg(long, value_name = "N", default_value = "1", help_heading = "What is run", allow_hyphen_values = true)]
    pub threads: String,

    /// Seed of the inputs and of the order of the measurements, a number or `random`, e.g. 7
    #[arg(long, value_name = "S", default_value = "0", help_heading = "What is run", allow_hyphen_values = true)]
    pub seed: String,

    /// The times decide the exit code as well: each exponent of the counts must lie inside the limits of the time's
    #[arg(long, help_heading = "What is run")]
    pub gate_time: bool,

    /// Count the layer around attention (projections, MLP, norms) and the fully connected layer that sees the same input
    #[arg(long, help_heading = "What is counted")]
    pub layer: bool,

    /// Number of heads of queries h, e.g. 16 [default: 8 with --layer]
    #[arg(long, value_name = "H", help_heading = "What is counted", allow_hyphen_values = true)]
    pub heads: Option<String>,

    /// Number of heads of keys and values, a divisor of --heads, e.g. 2 [default: as many as heads]
    #[arg(long, value_name = "G", help_heading = "What is counted", allow_hyphen_values = true)]
    pub kv_heads: Option<String>,

    /// Width of a token in columns, e.g. 1024 [default: heads times d_k]
    #[arg(long, value_name = "D", help_heading = "What is counted", allow_hyphen_values = true)]
    pub d_model: Option<String>,

    /// Width inside the MLP in columns, e.g. 4096 [default: 4 times d_model]
    #[arg(long, value_name = "F", help_heading = "What is counted", allow_hyphen_values = true)]
    pub d_ff: Option<String>,

    /// Refused with the reason: times of one machine have no shards
    #[arg(long, value_name = "I/K", hide = true, allow_hyphen_values = true)]
    pub shard: Option<String>,

    /// Refused with the reason: there are no trials
    #[arg(long, value_name = "FILE", hide = true)]
    pub per_trial: Option<String>,

    /// Refused with the reason: there are no trials
    #[arg(long, value_name = "FILE", hide = true)]
    pub resume: Option<String>,

    /// Where the result goes.
    #[command(flatten)]
    pub results: OutputArguments,
}
