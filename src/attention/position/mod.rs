//! Where a token stands, told to attention by angles.
//!
//! Both encodings turn pair i of the d columns (i = 0, …, d/2 − 1) at position p by the angle p·ω_i with
//! ω_i = base^(−2i/d): the sinusoidal encoding adds sine and cosine of it to the token (Vaswani et al. 2017, section 3.5),
//! the rotary one turns query and key by it (Su et al. 2021, "RoFormer", equation 34).

mod rotary;
mod sinusoidal;

pub use rotary::{Layout, Rotary, Rotation, Side, rotate_pair_columns};
pub use sinusoidal::{Encoding, Sinusoidal};

use crate::attention::Precision;

/// The base of Vaswani et al. 2017.
pub const USUAL_BASE: f64 = 10_000.0;
/// Above this the slowest pair does not turn at all in any arithmetic here.
const LARGEST_BASE: f64 = 1e30;

/// Cosine and sine of the angles p·ω_i, computed in one arithmetic and stored in another.
#[derive(Debug, Clone, PartialEq)]
pub struct PairAngles {
    width: usize,
    base: f64,
    arithmetic: Precision,
    storage: Precision,
    frequencies: Vec<f64>,
}

impl PairAngles {
    /// Angles for `width` = d columns (even, at least 2) and a `base` above 1. Position, frequency and their product are
    /// rounded to `arithmetic`; cosine and sine are rounded to `storage`.
    ///
    /// # Errors
    /// An odd width or a base that is not above 1; the text is the rule.
    pub fn new(width: usize, base: f64, arithmetic: Precision, storage: Precision) -> Result<Self, String> {
        check_width(width)?;
        check_base(base)?;
        let frequency = |pair: usize| match arithmetic {
            Precision::F64 => base.powf(-((2 * pair) as f64) / width as f64),
            _ => f64::from(arithmetic.round_f32((base as f32).powf(-((2 * pair) as f32) / width as f32))),
        };
        Ok(Self { width, base, arithmetic, storage, frequencies: (0..width / 2).map(frequency).collect() })
    }

    /// Number of columns d.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The base of the frequencies.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Arithmetic of the angles.
    pub fn arithmetic(&self) -> Precision {
        self.arithmetic
    }

    /// What cosine and sine are rounded to.
    pub fn storage(&self) -> Precision {
        self.storage
    }

    /// (cosine, sine) of each pair at `position`, in the order of the pairs.
    pub fn turns(&self, position: u64) -> impl Iterator<Item = (f64, f64)> + '_ {
        let place = match self.arithmetic {
            Precision::F64 => position as f64,
            arithmetic => f64::from(arithmetic.round_f32(position as f32)),
        };
        self.frequencies.iter().map(move |&frequency| {
            let (cosine, sine) = match self.arithmetic {
                Precision::F64 => {
                    let angle = place * frequency;
                    (angle.cos(), angle.sin())
                }
                arithmetic => {
                    let angle = arithmetic.round_f32(place as f32 * frequency as f32);
                    (f64::from(angle.cos()), f64::from(angle.sin()))
                }
            };
            (self.stored(cosine), self.stored(sine))
        })
    }

    fn stored(&self, value: f64) -> f64 {
        match self.storage {
            Precision::F64 => value,
            storage => f64::from(storage.round_f32(value as f32)),
        }
    }
}

/// Columns are turned in pairs.
///
/// # Errors
/// The rule, where `width` breaks it.
pub fn check_width(width: usize) -> Result<(), String> {
    if width >= 2 && width.is_multiple_of(2) {
        Ok(())
    } else {
        Err("must be even: positions turn pairs of columns".to_string())
    }
}

/// Frequencies fall from 1 with the pair: that needs a base above 1.
///
/// # Errors
/// The rule, where `base` breaks it.
pub fn check_base(base: f64) -> Result<(), String> {
    if base > 1.0 && base <= LARGEST_BASE {
        Ok(())
    } else {
        Err(format!(
            "must be above 1 and at most {LARGEST_BASE:e}, for example 10000 (at 1 every pair would turn alike)"
        ))
    }
}

/// The last position whose angles mean anything in `arithmetic`.
///
/// The fastest pair turns by p radians, of which the arithmetic is wrong by up to 4·u·p (u = ε/2; [`PairAngles`] rounds
/// frequency, position and product): where that reaches 1 radian, 2⁵¹ in f64 and 2²² in f32, no digit is left. bf16 is at
/// that point at position 64 already, which is what `attn positional` is there to show: of the half types only what has no
/// finite number is refused, f16 above 65,504.
pub fn last_position(arithmetic: Precision) -> u64 {
    match arithmetic {
        Precision::F64 => 1 << 51,
        Precision::F32 | Precision::Bf16 => 1 << 22,
        Precision::F16 => 65_504,
    }
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
