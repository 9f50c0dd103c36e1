//! The mathematics under test: pure functions on matrices, each argument's shape said; no randomness, clock or I/O.

pub mod kernel;
mod logits;
mod mask;
pub mod masked;
mod precision;
pub mod reference;
mod scale;
pub mod softmax;

pub use logits::{Logits, ScaledDotProduct};
pub use mask::{Alignment, Mask, MaskKind, MaskRule, VisibleKeys};
pub use precision::Precision;
pub use scale::Scale;
pub use softmax::{ScaledSoftmax, Softmax};
