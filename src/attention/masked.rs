//! Masked attention, one query at a time: the attention under test of `attn mask`.
//!
//! The textbook way hides a key by a logit of −∞ before the softmax; implementations also use a finite fill value, add a
//! bias, or zero the weights after the softmax. All of them are here, in each arithmetic, so that what they let through can
//! be measured.

use std::fmt;
use std::str::FromStr;

use super::mask::{Mask, VisibleKeys};
use super::precision::Precision;
use crate::number::{Real, larger};

/// What stands in the place of a hidden logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// −∞: the key does not take part in the softmax.
    Infinite,
    /// The most negative finite number of the arithmetic (`finfo.min`).
    Smallest,
    /// A number, rounded to the arithmetic.
    Number(f64),
}

impl Fill {
    /// The fill as a number of `precision`; one that does not fit becomes infinite.
    pub fn value(self, precision: Precision) -> f64 {
        match (self, precision) {
            (Self::Infinite, _) => f64::NEG_INFINITY,
            (Self::Smallest, Precision::F64) => f64::MIN,
            (Self::Smallest, Precision::F32) => f64::from(f32::MIN),
            (Self::Smallest, Precision::Bf16) => half::bf16::MIN.to_f64(),
            (Self::Smallest, Precision::F16) => half::f16::MIN.to_f64(),
            (Self::Number(number), Precision::F64) => number,
            (Self::Number(number), precision) => f64::from(precision.round_f32(number as f32)),
        }
    }
}

/// When hidden keys are hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Apply {
    /// In the logits, before the softmax.
    #[default]
    Before,
    /// In the weights, after the softmax over all keys, without renormalising: rows sum to less than 1.
    After,
}

/// What becomes of hidden keys in the product with V.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HiddenValues {
    /// They are left out, as fused kernels do.
    #[default]
    Select,
    /// They are multiplied by their weight, as `softmax(…) @ V` does: 0·NaN is NaN.
    Multiply,
}

/// One query with what it needs of the keys.
#[derive(Debug, Clone, Copy)]
pub struct MaskedRow<'a, T> {
    /// Its number.
    pub index: usize,
    /// The logits q·k_j of all m keys, before the scale.
    pub raw: &'a [T],
    /// The scale.
    pub factor: f64,
}

/// A masked attention under test; tests pass faulty ones.
pub trait MaskedAttention: Sync {
    /// The m softmax weights of one query into `weights`.
    fn weights<T: Real>(&self, row: MaskedRow<T>, weights: &mut Vec<T>);

    /// The output Σ_j weights_j·values_j of one query into `output` (d_v numbers); `values` is m×d_v row by row.
    fn output<T: Real>(&self, index: usize, weights: &[T], values: &[T], output: &mut [T]);

    /// How far the output moves with any of `keys` and its value: the largest |∂O_h/∂k_jg| and |∂O_h/∂v_jh| over j in `keys`
    /// and all g and h.
    fn gradient<T: Real>(&self, point: GradientPoint<T>, keys: &[usize]) -> f64;
}

/// Where a gradient is taken.
#[derive(Debug, Clone, Copy)]
pub struct GradientPoint<'a, T> {
    /// The query.
    pub row: MaskedRow<'a, T>,
    /// Its weights.
    pub weights: &'a [T],
    /// Its output, d_v numbers.
    pub output: &'a [T],
    /// m×d_v values.
    pub values: &'a [T],
    /// The largest entry of the query in size, by which ∂(c·q·k)/∂k = c·q is bounded and reached.
    pub query_size: f64,
}

/// Attention with a mask, a fill value and an arithmetic.
#[derive(Debug, Clone)]
pub struct MaskedSoftmax {
    /// The mask that is applied.
    pub mask: Mask,
    /// n×m numbers added to the scaled logits (an additive mask file); none for rules.
    pub bias: Option<Vec<f32>>,
    /// What stands in the place of a hidden logit.
    pub fill: Fill,
    /// When hidden keys are hidden.
    pub apply: Apply,
    /// What becomes of hidden keys in the product with V.
    pub hidden_values: HiddenValues,
    /// f64 and f32 compute in the element type; the half types round logits (after scale and bias) and weights, computed in
    /// f32.
    pub precision: Precision,
}

impl MaskedSoftmax {
    /// Whether a hidden key takes no part in anything.
    fn leaves_out(&self) -> bool {
        self.apply == Apply::Before && self.fill.value(self.precision) == f64::NEG_INFINITY
    }

    /// The logit of one key in the arithmetic under test.
    fn logit<T: Real>(&self, row: &MaskedRow<T>, visible: &VisibleKeys, key: usize) -> f64 {
        if self.apply == Apply::Before && !visible.contains(key) {
            return self.fill.value(self.precision);
        }
        let bias = self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[row.index * self.mask.keys() + key]));
        let raw = row.raw[key].to_f64();
        match self.precision {
            Precision::F64 => raw * row.factor + bias,
            Precision::F32 => f64::from(raw as f32 * row.factor as f32 + bias as f32),
            half => f64::from(half.round_f32(raw as f32 * row.factor as f32 + bias as f32)),
        }
    }

    /// e^x in the arithmetic under test: f64, else f32.
    fn exponential(&self, x: f64) -> f64 {
        match self.precision {
            Precision::F64 => x.exp(),
            _ => f64::from((x as f32).exp()),
        }
    }

    /// `weight`/`sum` rounded to the arithmetic under test.
    fn share(&self, weight: f64, sum: f64) -> f64 {
        match self.precision {
            Precision::F64 => weight / sum,
            precision => f64::from(precision.round_f32(weight as f32 / sum as f32)),
        }
    }

    /// Adds in the arithmetic under test: f64, else f32.
    fn sum(&self, terms: impl Iterator<Item = f64>) -> f64 {
        match self.precision {
            Precision::F64 => terms.sum(),
            _ => f64::from(terms.map(|term| term as f32).sum::<f32>()),
        }
    }
}

impl MaskedAttention for MaskedSoftmax {
    fn weights<T: Real>(&self, row: MaskedRow<T>, weights: &mut Vec<T>) {
        let visible = self.mask.row(row.index);
        let keys = self.mask.keys();
        // A range of visible keys is all there is to look at where hidden ones take no part.
        let seen = match (&visible, self.leaves_out()) {
            (VisibleKeys::Range(range), true) => range.clone(),
            _ => 0..keys,
        };
        weights.clear();
        weights.resize(keys, T::ZERO);
        let mut logits: Vec<f64> = seen.clone().map(|key| self.logit(&row, &visible, key)).collect();
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, larger);
        if largest == f64::NEG_INFINITY {
            return; // 0/0: no key is seen, and no weight is given.
        }
        logits.iter_mut().for_each(|logit| *logit = self.exponential(*logit - largest));
        let sum = self.sum(logits.iter().copied());
        for (key, exponential) in seen.zip(logits) {
            if self.apply == Apply::Before || visible.contains(key) {
                weights[key] = T::from_f64(self.share(exponential, sum));
            }
        }
    }

    fn output<T: Real>(&self, index: usize, weights: &[T], values: &[T], output: &mut [T]) {
        let visible = self.mask.row(index);
        let width = output.len();
        let mut sums = vec![0.0; width];
        for (key, (weight, values)) in weights.iter().zip(values.chunks_exact(width)).enumerate() {
            // Hidden keys are selected away, not multiplied by 0: 0·NaN is NaN.
            if self.hidden_values == HiddenValues::Select && !visible.contains(key) {
                continue;
            }
            match self.precision {
                Precision::F64 => {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight.to_f64() * value.to_f64())
                }
                _ => sums.iter_mut().zip(values).for_each(|(sum, value)| {
                    *sum = f64::from(*sum as f32 + weight.to_f64() as f32 * value.to_f64() as f32)
                }),
            }
        }
        for (output, sum) in output.iter_mut().zip(sums) {
            *output = match self.precision {
                Precision::F64 => T::from_f64(sum),
                precision => T::from_f64(f64::from(precision.round_f32(sum as f32))),
            };
        }
    }

    /// With p the softmax over all keys that take part, v_j the value and O the output, by the chain rule:
    /// ∂O/∂k_j = c·p_j·(v_j − O) ⊗ q where the logit depends on the key, else 0, and ∂O/∂v_j = p_j; after the softmax, with s
    /// the weights before they are hidden, ∂O/∂k_j = −c·s_j·O ⊗ q and ∂O/∂v_j = 0 for a hidden key.
    fn gradient<T: Real>(&self, point: GradientPoint<T>, keys: &[usize]) -> f64 {
        let GradientPoint { row, weights, output, values, query_size } = point;
        let visible = self.mask.row(row.index);
        let by_logit = row.factor.abs() * query_size;
        let largest = |sizes: &mut dyn Iterator<Item = f64>| sizes.fold(0.0, larger);
        let before = (self.apply == Apply::After).then(|| {
            let all = Self { mask: Mask::all_visible(self.mask.queries(), self.mask.keys()), ..self.clone() };
            let mut before = Vec::new();
            all.weights(row, &mut before);
            before
        });
        let output_size = largest(&mut output.iter().map(|output| output.to_f64().abs()));
        let of_key = |&key: &usize| {
            let values = &values[key * output.len()..(key + 1) * output.len()];
            let weight = weights[key].to_f64();
            match (&before, visible.contains(key)) {
                (Some(before), false) => by_logit * before[key].to_f64() * output_size,
                // A fill value does not depend on the key.
                (None, false) => weight,
                (_, true) => {
                    let apart =
                        output.iter().zip(values).map(|(output, value)| (value.to_f64() - output.to_f64()).abs());
                    larger(weight, by_logit * weight * largest(&mut apart.into_iter()))
                }
            }
        };
        largest(&mut keys.iter().map(of_key))
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infinite => formatter.write_str("-inf"),
            Self::Smallest => formatter.write_str("min"),
            Self::Number(number) => formatter.write_str(&as_typed(*number)),
        }
    }
}

/// A number as people type it: −1e9 rather than nine zeros, −50 rather than −5e1.
pub fn as_typed(number: f64) -> String {
    // No minus before a zero.
    let number = number + 0.0;
    let (plain, scientific) = (format!("{number}"), format!("{number:e}"));
    if plain.len() <= scientific.len() { plain } else { scientific }
}

impl FromStr for Fill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "-inf" => Ok(Self::Infinite),
            "min" => Ok(Self::Smallest),
            "-Infinity" | "-infinity" => Ok(Self::Infinite),
            number => match number.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Self::Number(number)),
                _ => Err("must be -inf, min (the most negative finite number of the arithmetic) or a finite number"
                    .to_string()),
            },
        }
    }
}

impl HiddenValues {
    /// What goes with a fill and a time: those who put a number in the place of a logit have weights for all keys, and multiply.
    pub fn usual(fill: Fill, apply: Apply) -> Self {
        match (fill, apply) {
            (Fill::Infinite, Apply::Before) => Self::Select,
            _ => Self::Multiply,
        }
    }
}

impl FromStr for HiddenValues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "select" => Ok(Self::Select),
            "multiply" => Ok(Self::Multiply),
            _ => Err("must be select (hidden values are left out) or multiply (by their weight)".to_string()),
        }
    }
}

impl FromStr for Apply {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "before" => Ok(Self::Before),
            "after" => Ok(Self::After),
            _ => Err("must be before or after (the softmax)".to_string()),
        }
    }
}

#[cfg(test)]
#[path = "masked_tests.rs"]
mod tests;
