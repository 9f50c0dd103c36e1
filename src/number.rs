//! The number types of matrices.

pub(crate) mod elementary;

/// `f32` or `f64`, as far as code that serves both needs to know.
pub trait Real: Copy + Default + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;

    /// The same number as f64, exactly.
    fn to_f64(self) -> f64;

    /// The nearest number of this type.
    fn from_f64(number: f64) -> Self;
}

/// The larger of two numbers; NaN if one is (`f64::max` would pass over it).
pub fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

impl Real for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn from_f64(number: f64) -> Self {
        number as f32
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn from_f64(number: f64) -> Self {
        number
    }
}
