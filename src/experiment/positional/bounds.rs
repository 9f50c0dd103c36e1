//! How far rounding alone can move what the angles fix.
//!
//! u is half the distance of neighbouring numbers: u_s of the type that cosine and sine are stored in, u_a of the arithmetic that
//! angles are claimed to be formed in, which is f64 for f64 and at least f32 for everything else. Angles formed in a half type break these
//! bounds from position 4 or so on; that is the fault they are there to show (field reports: positions rounded to bf16).

use crate::attention::Precision;

/// Bounds for positions up to `last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    storage: f64,
    arithmetic: f64,
    last: f64,
}

/// u of the f64 in which everything is measured.
const MEASURING: f64 = 0.5 * f64::EPSILON;

impl Bounds {
    pub(super) fn new(precision: Precision, last: u64) -> Self {
        let arithmetic = if precision == Precision::F64 { Precision::F64 } else { Precision::F32 };
        Self { storage: 0.5 * precision.epsilon(), arithmetic: 0.5 * arithmetic.epsilon(), last: last as f64 }
    }

    /// Length of the error of one stored (cosine, sine), and so of its angle in radians.
    ///
    /// ω = base^(−x), x = 2i/d: the exponent's rounding moves ω by x·ln(base)·u_a of itself, powf by 2u_a; p·base^(−x)·(2 + x ln base) is largest at
    /// x = 0, 2p. The product adds p·u_a: 3p·u_a in all. Cosine and sine are each wrong by at most 2u_a, √8 together; storing
    /// them moves each by u_s of itself, a length of u_s. One u_a·p and one u_a are left for second-order terms.
    pub(super) fn turn(&self) -> f64 {
        self.storage + 4.0 * self.arithmetic * (self.last + 1.0)
    }

    /// Relative error of a norm: an angle, however wrong, keeps cos² + sin² = 1.
    ///
    /// Stored cosine and sine u_s, their functions 3u_a; forming a cos − b sin and a sin + b cos in f64 and rounding them once is
    /// covered by 5u_s; the norm is summed in f64.
    pub(super) fn norm(&self, width: usize) -> f64 {
        7.0 * self.storage + 4.0 * self.arithmetic + (width as f64 + 8.0) * MEASURING
    }

    /// Error of a product of two encodings, or of a rotated query and key, over the product of their lengths.
    pub(super) fn product(&self, width: usize) -> f64 {
        let one = self.turn() + self.norm(width);
        2.0 * one + one * one + width as f64 * MEASURING
    }

    /// u of the f64 in which everything is measured.
    pub(super) fn measuring(&self) -> f64 {
        MEASURING
    }
}
