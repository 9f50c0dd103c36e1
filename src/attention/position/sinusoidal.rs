//! The encoding that is added to the tokens.

use std::ops::Range;

use super::PairAngles;

/// A table of position encodings; tests pass faulty ones.
pub trait Encoding: Sync {
    /// The encodings of `positions`, one row of d numbers each, as they are stored.
    fn table(&self, positions: Range<u64>) -> Vec<f64>;
}

/// PE(p)\[2i\] = sin(p·ω_i), PE(p)\[2i + 1\] = cos(p·ω_i) with ω_i = base^(−2i/d), i = 0, …, d/2 − 1 (Vaswani et al. 2017, section
/// 3.5). Sine and cosine of a pair share one frequency.
///
/// ```
/// use attn::attention::Precision::F64;
/// use attn::attention::position::{Encoding, PairAngles, Sinusoidal};
///
/// let encoding = Sinusoidal { angles: PairAngles::new(4, 100.0, F64, F64)? };
/// // ω = 1 and 1/10.
/// assert_eq!(encoding.table(3..4), [3f64.sin(), 3f64.cos(), (3.0 * 0.1f64).sin(), (3.0 * 0.1f64).cos()]);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sinusoidal {
    /// The angles.
    pub angles: PairAngles,
}

impl Encoding for Sinusoidal {
    fn table(&self, positions: Range<u64>) -> Vec<f64> {
        positions.flat_map(|position| self.angles.turns(position).flat_map(|(cosine, sine)| [sine, cosine])).collect()
    }
}
