//! What the user says the implementation should do.

use std::fmt;

use super::scale_expression::ScaleExpression;
use crate::attention::Alignment;

/// A value that was typed, or the textbook's because nothing was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Declared<T> {
    /// By the user: a deviation is a fault.
    Yes(T),
    /// The textbook's: a deviation may be meant.
    Default(T),
}

impl<T> Declared<T> {
    /// The value, whoever said it.
    pub fn value(&self) -> &T {
        match self {
            Self::Yes(value) | Self::Default(value) => value,
        }
    }

    /// Whether the user said it.
    pub fn is_declared(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}

/// How the channels of a rotary encoding are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryLayout {
    /// Channel h with h + d/2 (GPT-NeoX, LLaMA in Hugging Face).
    HalfSplit,
    /// Channel 2h with 2h + 1 (the paper's).
    Interleaved,
}

/// A declared position rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotary {
    /// The pairing.
    pub layout: RotaryLayout,
    /// The base of the frequencies base^(−2h/d).
    pub base: f64,
    /// Position of query 0 (and of key 0 without the cache's length).
    pub offset: i64,
}

/// How keys of fewer heads serve more query heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupOrder {
    /// Neighbouring query heads share keys: head h uses h / (heads / kv_heads).
    #[default]
    Repeat,
    /// Key heads are tiled: head h uses h mod kv_heads.
    Tile,
}

impl GroupOrder {
    /// The one of the two that this is not.
    pub fn other(self) -> Self {
        match self {
            Self::Repeat => Self::Tile,
            Self::Tile => Self::Repeat,
        }
    }
}

impl fmt::Display for GroupOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Repeat => "repeat",
            Self::Tile => "tile",
        })
    }
}

/// What a padding array's non-zero entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PaddingKind {
    /// Real tokens (Hugging Face).
    #[default]
    Keep,
    /// Padding (PyTorch's `key_padding_mask`).
    Hide,
}

/// How the weights lie in the file, for the names of their axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightAxes {
    /// (batch, head, query, key).
    #[default]
    HeadsFirst,
    /// (batch, query, key, head).
    HeadsLast,
}

impl WeightAxes {
    /// The numbers of the axes of queries, keys and heads, counted from 0 with the batch, where they are not the usual ones: ` (axis 1)`.
    pub fn words(self) -> [&'static str; 3] {
        match self {
            Self::HeadsFirst => ["", "", ""],
            Self::HeadsLast => [" (axis 1)", " (axis 2)", " (axis 3)"],
        }
    }
}

/// What the implementation promises.
#[derive(Debug, Clone, PartialEq)]
pub struct Contract {
    /// The factor on QKᵀ.
    pub scale: Declared<ScaleExpression>,
    /// Number of the layer, for scales that depend on it.
    pub layer: Option<f64>,
    /// Width of the model, if not heads·d.
    pub model_width: Option<f64>,
    /// Causal, and where queries stand when n ≠ m.
    pub causal: Option<Declared<Alignment>>,
    /// Keys of a full row, the query's own counted.
    pub window: Option<usize>,
    /// Logits become C·tanh(logit/C).
    pub softcap: Option<f64>,
    /// A constant extra logit in the denominator.
    pub sink: Option<f64>,
    /// Whether logits fall linearly with distance, with the slopes of Press et al. 2022.
    pub alibi: bool,
    /// The rotation between `q_pre` and `q`.
    pub rotary: Option<Rotary>,
    /// How grouped keys are shared.
    pub groups: Declared<GroupOrder>,
    /// Probability of a weight being dropped; the others are divided by 1 − p.
    pub dropout: Option<f64>,
    /// Largest accepted error of a weight, and of an output relative to max |V|, instead of the derived bound.
    pub tolerance: Option<f64>,
    /// How the padding array is read.
    pub padding: Declared<PaddingKind>,
    /// How the weights lie in the file.
    pub weight_axes: WeightAxes,
}

impl Default for Contract {
    fn default() -> Self {
        Self {
            scale: Declared::Default(ScaleExpression::standard()),
            layer: None,
            model_width: None,
            causal: None,
            window: None,
            softcap: None,
            sink: None,
            alibi: false,
            rotary: None,
            groups: Declared::Default(GroupOrder::Repeat),
            dropout: None,
            tolerance: None,
            padding: Declared::Default(PaddingKind::Keep),
            weight_axes: WeightAxes::HeadsFirst,
        }
    }
}

/// The ALiBi slope of head `head` (0-based) of `heads`: 2^(−8(h+1)/H) for a power of two, else the published interleaving of
/// two such sequences (Press, Smith & Lewis, *Train Short, Test Long*, 2022).
pub fn alibi_slope(head: usize, heads: usize) -> f64 {
    let whole = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    if head < whole {
        2f64.powf(-8.0 * (head as f64 + 1.0) / whole as f64)
    } else {
        // Every other slope of the sequence twice as long.
        2f64.powf(-8.0 * (2.0 * (head - whole) as f64 + 1.0) / (2.0 * whole as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alibi_slopes_are_those_of_the_published_function() {
        // get_slopes of the paper's repository, by hand: 8 heads 1/2 … 1/256; 12 heads: those of 8, then 2^-0.5, 2^-1.5, …
        assert_eq!([0, 1, 7].map(|head| alibi_slope(head, 8)), [0.5, 0.25, 1.0 / 256.0]);
        assert_eq!(alibi_slope(7, 12), 1.0 / 256.0);
        for (head, exponent) in [(8, -0.5), (9, -1.5), (11, -3.5)] {
            assert!((alibi_slope(head, 12) - 2f64.powf(exponent)).abs() < 1e-15);
        }
    }
}
