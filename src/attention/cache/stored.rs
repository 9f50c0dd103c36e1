//! Number types that a cache holds, and those it computes in.

use std::ops::{Add, Div, Mul, Sub};

use crate::attention::kernel::Element;
use crate::number::Real;

/// `f32` or `f64`, with what a cache computes.
pub trait Arithmetic:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// u, half the distance of neighbouring numbers at 1.
    const UNIT_ROUNDOFF: f64;

    /// e to this power, rounded once from f64.
    fn exponential(self) -> Self {
        Self::from_f64(self.to_f64().exp())
    }
}

impl Arithmetic for f32 {
    const UNIT_ROUNDOFF: f64 = 0.5 * f32::EPSILON as f64;
}

impl Arithmetic for f64 {
    const UNIT_ROUNDOFF: f64 = 0.5 * f64::EPSILON;
}

/// A number as a cache holds it.
pub trait Stored: Copy + Send + Sync + 'static {
    /// What it is computed with: f32 for the half types.
    type Arithmetic: Arithmetic;

    /// u of a rounding to this type where it is coarser than its arithmetic, else 0.
    const ROUNDING: f64;

    /// The number, exactly.
    fn read(self) -> Self::Arithmetic;

    /// The nearest number of this type.
    fn written(number: f64) -> Self;

    /// A value as it comes back from the cache; itself where the type is that of the arithmetic.
    fn rounded(value: Self::Arithmetic) -> Self::Arithmetic {
        Self::written(value.to_f64()).read()
    }
}

impl Stored for f64 {
    type Arithmetic = f64;
    const ROUNDING: f64 = 0.0;

    fn read(self) -> f64 {
        self
    }

    fn written(number: f64) -> Self {
        number
    }
}

impl Stored for f32 {
    type Arithmetic = f32;
    const ROUNDING: f64 = 0.0;

    fn read(self) -> f32 {
        self
    }

    fn written(number: f64) -> Self {
        number as f32
    }
}

impl Stored for half::bf16 {
    type Arithmetic = f32;
    const ROUNDING: f64 = 1.0 / 256.0;

    fn read(self) -> f32 {
        self.to_f32()
    }

    fn written(number: f64) -> Self {
        Self::from_f32(number as f32)
    }
}

impl Stored for half::f16 {
    type Arithmetic = f32;
    const ROUNDING: f64 = 1.0 / 2048.0;

    fn read(self) -> f32 {
        self.to_f32()
    }

    fn written(number: f64) -> Self {
        Self::from_f32(number as f32)
    }
}
