//! The factor on QKᵀ.

use std::fmt;
use std::str::FromStr;

/// The factor c in the logits c·QKᵀ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// c = 1: raw logits, Var = d_k.
    None,
    /// c = 1/√d_k: scaled dot-product attention (Vaswani et al. 2017), Var = 1.
    InverseSqrtWidth,
    /// c = 1/d_k (the scale of the maximal update parametrisation, Yang & Hu 2021), Var = 1/d_k.
    InverseWidth,
    /// A fixed factor.
    Number(f64),
}

impl Scale {
    /// The factor at key width `d_k` ≥ 1 (dimensionless).
    pub fn factor(self, d_k: usize) -> f64 {
        match self {
            Scale::None => 1.0,
            Scale::InverseSqrtWidth => 1.0 / (d_k as f64).sqrt(),
            Scale::InverseWidth => 1.0 / d_k as f64,
            Scale::Number(factor) => factor,
        }
    }

    /// The variance of scaled logits from that of raw ones, c²·`variance`, without the roundings of √d_k: d_k becomes 1 exactly.
    pub fn of_variance(self, variance: f64, d_k: usize) -> f64 {
        let width = d_k as f64;
        match self {
            Scale::None => variance,
            Scale::InverseSqrtWidth => variance / width,
            Scale::InverseWidth => variance / (width * width),
            Scale::Number(factor) => variance * factor * factor,
        }
    }

    /// The exponent s in Var[c·QKᵀ] ∝ d_k^s for entries of fixed variance.
    pub fn variance_exponent(self) -> f64 {
        match self {
            Scale::None | Scale::Number(_) => 1.0,
            Scale::InverseSqrtWidth => 0.0,
            Scale::InverseWidth => -1.0,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scale::None => formatter.write_str("none"),
            Scale::InverseSqrtWidth => formatter.write_str("inv-sqrt-dk"),
            Scale::InverseWidth => formatter.write_str("inv-dk"),
            Scale::Number(factor) => write!(formatter, "{factor}"),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    /// Reads one of the words or a finite number other than 0.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Scale::None),
            "inv-sqrt-dk" => Ok(Scale::InverseSqrtWidth),
            "inv-dk" => Ok(Scale::InverseWidth),
            _ => match text.parse::<f64>() {
                Ok(factor) if factor.is_finite() => Ok(Scale::Number(factor)),
                _ => Err("must be none, inv-sqrt-dk, inv-dk or a finite number".to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_reads_back_as_it_is_written() {
        for scale in [Scale::None, Scale::InverseSqrtWidth, Scale::InverseWidth, Scale::Number(0.1147)] {
            assert_eq!(scale.to_string().parse(), Ok(scale));
        }
        for wrong in ["", "sqrt", "nan", "inf", "1/8"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variance_of_the_width_becomes_1_exactly_at_every_width() {
        for d_k in 1..=1000 {
            assert_eq!(Scale::InverseSqrtWidth.of_variance(d_k as f64, d_k), 1.0);
            // One rounding: the nearest number to 1/d_k.
            assert_eq!(Scale::InverseWidth.of_variance(d_k as f64, d_k), 1.0 / d_k as f64);
        }
        assert_eq!(Scale::None.of_variance(7.0, 7), 7.0);
        assert_eq!(Scale::Number(-0.5).of_variance(7.0, 7), 1.75);
    }

    #[test]
    fn the_factor_brings_the_variance_to_the_power_of_the_width_that_it_says() {
        // Var[c·QKᵀ] = c²·d_k: at 49 it is 49^exponent.
        for scale in [Scale::None, Scale::InverseSqrtWidth, Scale::InverseWidth] {
            let variance = scale.factor(49).powi(2) * 49.0;
            assert!((variance - 49f64.powf(scale.variance_exponent())).abs() < 1e-12, "{scale}");
        }
    }
}
