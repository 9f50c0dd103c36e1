//! The arithmetic that the attention under test uses.

use std::fmt;
use std::str::FromStr;

use crate::number::Real;

/// Arithmetic of Q, K and the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// IEEE 754 binary64 throughout.
    F64,
    /// IEEE 754 binary32; sums are flushed to binary64 block by block.
    F32,
    /// Inputs and logits rounded to bfloat16 (8 bits of significand), accumulated in f32.
    Bf16,
    /// Inputs and logits rounded to IEEE 754 binary16 (11 bits of significand), accumulated in f32.
    F16,
}

impl Precision {
    /// Relative distance of neighbouring numbers: half of it bounds one rounding.
    pub fn epsilon(self) -> f64 {
        match self {
            Precision::F64 => f64::EPSILON,
            Precision::F32 => f64::from(f32::EPSILON),
            Precision::Bf16 => half::bf16::EPSILON.to_f64(),
            Precision::F16 => half::f16::EPSILON.to_f64(),
        }
    }

    /// Whether values are rounded to fewer bits than they are computed in.
    pub fn is_half(self) -> bool {
        matches!(self, Precision::Bf16 | Precision::F16)
    }

    /// Rounds the entries of a matrix to a half type; f32 and f64 leave them as they are.
    pub fn round_matrix<T: Real>(self, matrix: &mut [T]) {
        if self.is_half() {
            for entry in matrix {
                *entry = T::from_f64(f64::from(self.round_f32(entry.to_f64() as f32)));
            }
        }
    }

    /// Rounds to the nearest representable value, ties to even; f32 and f64 leave an f32 as it is.
    pub fn round_f32(self, value: f32) -> f32 {
        match self {
            Precision::F64 | Precision::F32 => value,
            Precision::Bf16 => half::bf16::from_f32(value).to_f32(),
            Precision::F16 => half::f16::from_f32(value).to_f32(),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Precision::F64 => "f64",
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        })
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f64" => Ok(Precision::F64),
            "f32" => Ok(Precision::F32),
            "bf16" => Ok(Precision::Bf16),
            "f16" => Ok(Precision::F16),
            _ => Err("must be one of f64, f32, bf16, f16".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_types_round_to_nearest_even() {
        // bfloat16 keeps 8 bits: 1 + 2⁻⁸ is a tie and goes to the even 1; binary16 keeps 11 and holds it.
        assert_eq!(Precision::Bf16.round_f32(1.0 + 2f32.powi(-8)), 1.0);
        assert_eq!(Precision::F16.round_f32(1.0 + 2f32.powi(-8)), 1.0 + 2f32.powi(-8));
        assert_eq!(Precision::F16.round_f32(65520.0), f32::INFINITY);
        assert_eq!(Precision::F32.round_f32(0.1), 0.1);
    }

    #[test]
    fn a_precision_reads_back_as_it_is_written() {
        for precision in [Precision::F64, Precision::F32, Precision::Bf16, Precision::F16] {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        assert!("f8".parse::<Precision>().is_err());
    }
}
