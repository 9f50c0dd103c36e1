//! Arguments of `attn positional`.

use clap::Args;

use super::shared::SharedArguments;

/// Do position encodings turn tokens by their position, and leave alone what they must?
///
/// Sinusoidal: finds the linear map between positions k apart by least squares from the table alone and holds it against the rotation by k·ω;
/// norms, products that depend on the offset only, and what adding the table does to tokens. Rotary: norms kept, scores
/// that depend on the offset only, mean and variance of the logits of rotated Q and K unchanged.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "angle_error, map_…, norm…, …offset_dependence, score_error and dot_product:K are fixed by theory: they are held against a derived \
    bound on rounding, and detects says twice that bound. The rest is tested over the trials.\n\n\
    Exit codes: 0 every claim upheld · 1 a claim rejected · 2 wrong usage · 3 undecided (too few trials)\n\n\
    Examples:\n  \
    attn positional -n 256\n      \
    the sinusoidal table and its maps\n  \
    attn positional --kind rotary --offset 1..4096 --plot decay.svg\n      \
    scores against offset\n  \
    attn positional --kind rotary --precision bf16 --start 15962 -n 64\n      \
    angles rounded to bf16: rejected\n  \
    attn positional --kind rotary --precision bf16 --angles f32 -n 64\n      \
    bf16 as it should be"
)]
pub struct PositionalArguments {
    /// Options shared by the simulating subcommands.
    #[command(flatten)]
    pub shared: SharedArguments,

    /// Encoding, e.g. rotary: sinusoidal, rotary (half-split pairs i and i + d/2), rotary:interleaved (pairs 2i and 2i + 1)
    #[arg(
        long,
        value_name = "KIND",
        default_value = "sinusoidal",
        help_heading = "What is run",
        allow_hyphen_values = true
    )]
    pub kind: String,

    /// Base of the frequencies base^(-2i/d), above 1 (dimensionless), e.g. 500000
    #[arg(long, value_name = "X", default_value = "10000", help_heading = "What is run", allow_hyphen_values = true)]
    pub base: String,

    /// Position of the first token, e.g. 100000 for a long context
    #[arg(long, value_name = "P", default_value = "0", help_heading = "Sizes", allow_hyphen_values = true)]
    pub start: String,

    /// Offsets k between positions: a list or a doubling range, e.g. 1..4096 [default: 1, 2, 4, … below the number of tokens]
    #[arg(long, value_name = "LIST", help_heading = "Sizes", allow_hyphen_values = true)]
    pub offset: Option<String>,

    /// Arithmetic of position, frequency and angle, e.g. f32: f64, f32, bf16, f16 [default: --precision]
    #[arg(long, value_name = "P", help_heading = "What is run", allow_hyphen_values = true)]
    pub angles: Option<String>,
}
