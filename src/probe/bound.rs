//! How far a sound implementation may be from the reference.
//!
//! # The rule
//!
//! error ≤ [`MULTIPLE`] · max(E, F), each the largest over an array, where
//!
//! * E is the error of the *definition computed in the same precision*: the plain eager implementation with sums in order. In f64 and
//!   f32 every operation is rounded to the type. In f16 and bf16, Q, K, V are exact; logits are summed in f32 and stored in the type,
//!   scaled and stored again; the softmax is computed in f32 and its weights stored in the type; their product with V is summed in f32 and
//!   stored in the type. (That is what matmul, softmax, matmul do in every framework.)
//! * F is what a single rounding of the result to the type, and of each logit's products, each exponential and each term in the
//!   arithmetic's type (f32 for half types), can move the value by to first order: u_T·|o| + u·Σ_j p_j(|v_j − o|·(|c|Σ|q k| + |s| + 1) + |v_j|) for the
//!   output. It keeps the rule from asking for more than the type can give where E is small by luck (one-hot rows), and is never
//!   reached by E·8 otherwise.
//!
//! # Why a multiple, and why this one
//!
//! Both errors are largest values of sums of rounding errors in different orders: √m-like for a plain sum of m terms, less in blocks
//! (Higham, *Accuracy and Stability*, 2002, section 4.2). What fused kernels add to the definition is bounded by few roundings: exp2 with
//! log₂e folded into the scale rounds each logit once more (|s|·u, as E has), each rescaling of the online softmax
//! multiplies by a rounded factor (one u for each of the blocks whose maximum rose, O(ln m) of them for keys in random order), the sum is divided out once. So a
//! sound kernel's error is a small multiple of E or F, not growing with m beyond what E grows. The largest ratio
//! measured of a sound implementation is 1.9 (docs/probe.md has the list); [`MULTIPLE`] leaves a factor of four beyond it.

use super::attend::Outcome;
use super::behaviour::Arithmetic;
use super::case::{Block, Case};
use super::reference::Yardstick;
use crate::diagnosis::matrix::Storage;

/// How many times the error of the same-precision definition a sound implementation may have.
pub const MULTIPLE: f64 = 8.0;

/// The bound of one array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// E: the largest error of the definition in the same precision.
    pub definition_error: f64,
    /// F: what single roundings can do.
    pub floor: f64,
}

impl Bound {
    /// max(E, F), the unit of the ratio.
    pub fn unit(&self) -> f64 {
        self.definition_error.max(self.floor)
    }

    /// The largest error that is accepted.
    pub fn largest(&self) -> f64 {
        MULTIPLE * self.unit()
    }
}

/// Whether the numbers of each row of an array belong to queries (which may see no key) or to keys.
pub fn belongs_to_queries(name: &str) -> bool {
    !matches!(name, "dk" | "dv")
}

/// Whether number `index` of the array `name` of this shape is judged: not those of queries that see no key.
pub fn is_judged(name: &str, block: &Block, index: usize, sees: &Block) -> bool {
    if !belongs_to_queries(name) {
        return true;
    }
    // `lse` is one row of n; the others have a row for each query.
    let row = if name == "lse" { index } else { index / block.shape[3] };
    sees.numbers[row] != 0.0
}

/// The largest |a − b| over judged numbers; infinite where only one of them is finite.
pub fn largest_error(name: &str, found: &Block, expected: &Block, sees: &Block) -> (f64, usize) {
    let mut worst = (0.0, 0);
    for (index, (&found_number, &expected_number)) in found.numbers.iter().zip(&expected.numbers).enumerate() {
        if !is_judged(name, found, index, sees) {
            continue;
        }
        let error = match (found_number.is_finite(), expected_number.is_finite()) {
            (true, true) => (found_number - expected_number).abs(),
            (false, false) => 0.0,
            _ => f64::INFINITY,
        };
        if error > worst.0 {
            worst = (error, index);
        }
    }
    worst
}

/// The bound of the array `name`.
pub fn bound(case: &Case, yardstick: &Yardstick, definition: &Outcome, name: &str) -> Option<Bound> {
    let (values, noise) = (yardstick.values.array(name)?, yardstick.noise.array(name)?);
    let (error, _) = largest_error(name, definition.array(name)?, values, &yardstick.sees);
    // An overflow on the way is no rounding: then the floor alone counts.
    let definition_error = if error.is_finite() { error } else { 0.0 };
    let arithmetic = Arithmetic::of(case.storage);
    let (step, stored) = (arithmetic.step.unit_roundoff(), case.storage.unit_roundoff());
    let floor = (values.numbers.iter().zip(&noise.numbers).enumerate())
        .filter(|(index, _)| is_judged(name, values, *index, &yardstick.sees))
        .map(|(_, (value, noise))| stored * value.abs() + step * noise)
        .fold(underflow(case.storage), f64::max);
    Some(Bound { definition_error, floor })
}

/// The smallest difference that can be asked for: below it numbers are lost.
fn underflow(storage: Storage) -> f64 {
    storage.underflow()
}
