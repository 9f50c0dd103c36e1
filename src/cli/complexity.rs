//! Arguments of `attn complexity`.

use clap::Args;

/// Options of `attn complexity`, as typed.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Does attention cost what the law says, O(n²·d_k)? Counted exactly, and measured",
    long_about = "Does attention cost what the law says, O(n²·d_k)? Counted exactly, and measured.\n\n\
                  Counts the operations of QKᵀ, of scale and softmax, and of PV by closed formulas and holds them against an instrumented \
                  computation; times each stage over a sweep of n (at the largest d_k) and one of d_k (at the largest n), and fits the \
                  exponents. Counts and the agreement of the kernels' outputs decide the exit code, times only with --gate-time.",
    after_help = "Examples:\n  \
    attn complexity                                          the law in words, and whether it was seen\n  \
    attn complexity -n 512..4096 --mask causal --plot c.png  half the cells, the same exponent\n  \
    attn complexity --layer --cache --heads 8                the layer around it, and decoding with a KV cache\n\n\
    Exit codes: 0 counts and outputs agree · 1 they do not (with --gate-time: or an exponent is outside its limits) · 2 wrong usage · \
    3 with --gate-time: too few sizes or times to judge"
)]
pub struct ComplexityArguments {
    /// Numbers of queries n: a list `512,1024` or a doubling range, swept at the largest d_k
    #[arg(
        short = 'n',
        long,
        value_name = "LIST",
        default_value = "512,768,1024,1536,2048",
        help_heading = "Sizes",
        allow_hyphen_values = true
    )]
    pub queries: String,

    /// Number of keys m, the same at every n [default: as many as queries]
    #[arg(short = 'm', long, value_name = "M", help_heading = "Sizes", allow_hyphen_values = true)]
    pub keys: Option<String>,

    /// Key widths d_k: a list or a doubling range, swept at the largest n
    #[arg(
        long,
        value_name = "LIST",
        default_value = "64,128,256,512",
        help_heading = "Sizes",
        allow_hyphen_values = true
    )]
    pub dk: String,

    /// Width of values d_v [default: d_k]
    #[arg(long, value_name = "D", help_heading = "Sizes", allow_hyphen_values = true)]
    pub dv: Option<String>,

    /// A mask: causal, window:W, prefix:P, padding:L, documents:L1,L2,… or several joined by +, then @bottom-right if n ≠ m
    #[arg(long, value_name = "RULE", help_heading = "What is run", allow_hyphen_values = true)]
    pub mask: Option<String>,

    /// materialised (all n·m weights in memory), streaming (online softmax over blocks of keys) or both
    #[arg(long, value_name = "NAME", default_value = "both", help_heading = "What is run", allow_hyphen_values = true)]
    pub kernel: String,

    /// Arithmetic: f32 or f64
    #[arg(long, value_name = "P", default_value = "f32", help_heading = "What is run", allow_hyphen_values = true)]
    pub precision: String,

    /// Cost of the n-th token with and without a KV cache, counted and measured
    #[arg(long, help_heading = "What is run")]
    pub cache: bool,

    /// Seconds for all measurements, e.g. 10s, 2m, 500ms; less is used if the times are steady
    #[arg(long, value_name = "TIME", default_value = "10s", help_heading = "What is run", allow_hyphen_values = true)]
    pub time_budget: String,

    /// Threads; one is timed by its own processor time, which other programs do not lengthen, more by the wall clock
    #[arg(long, value_name = "N", default_value = "1", help_heading = "What is run", allow_hyphen_values = true)]
    pub threads: String,

    /// Seed of the inputs and of the order of the measurements; a number, or `random`
    #[arg(long, value_name = "S", default_value = "0", help_heading = "What is run", allow_hyphen_values = true)]
    pub seed: String,

    /// The times decide the exit code as well: each exponent of the counts must lie inside the limits of the time's
    #[arg(long, help_heading = "What is run")]
    pub gate_time: bool,

    /// Count the layer around attention (projections, MLP, norms) and the fully connected layer that sees the same input
    #[arg(long, help_heading = "What is counted")]
    pub layer: bool,

    /// Heads of queries h [default: 8 with --layer]
    #[arg(long, value_name = "H", help_heading = "What is counted", allow_hyphen_values = true)]
    pub heads: Option<String>,

    /// Heads of keys and values, a divisor of --heads [default: as many as heads]
    #[arg(long, value_name = "G", help_heading = "What is counted", allow_hyphen_values = true)]
    pub kv_heads: Option<String>,

    /// Width of a token [default: heads times d_k]
    #[arg(long, value_name = "D", help_heading = "What is counted", allow_hyphen_values = true)]
    pub d_model: Option<String>,

    /// Width inside the MLP [default: 4 times d_model]
    #[arg(long, value_name = "F", help_heading = "What is counted", allow_hyphen_values = true)]
    pub d_ff: Option<String>,

    /// Where the result goes, format by ending (.csv, .json, .md); `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub output: String,

    /// table, csv, json or markdown [default: by the ending of --output; table on a terminal, csv in a pipe]
    #[arg(long, value_name = "F", help_heading = "Output", allow_hyphen_values = true)]
    pub format: Option<String>,

    /// A picture of the times against n and d_k with the fitted lines (.svg or .png)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub plot: Option<String>,

    /// Refused with the reason: times of one machine have no shards
    #[arg(long, value_name = "I/K", hide = true, allow_hyphen_values = true)]
    pub shard: Option<String>,

    /// Refused with the reason: there are no trials
    #[arg(long, value_name = "FILE", hide = true)]
    pub per_trial: Option<String>,

    /// Refused with the reason: there are no trials
    #[arg(long, value_name = "FILE", hide = true)]
    pub resume: Option<String>,

    /// No progress bar, no notes; results and errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}
