//! The mathematics under test: pure functions on matrices, each argument's shape said; no randomness, clock or I/O.

pub mod cache;
#[cfg(test)]
mod golden;
pub mod kernel;
pub mod layer_norm;
mod logits;
mod mask;
pub mod masked;
pub mod mlp;
pub mod multi_head;
pub mod position;
mod precision;
mod product;
pub mod reference;
mod scale;
pub mod second_moments;
pub mod softmax;
pub mod transformer_block;

pub use logits::{Logits, ScaledDotProduct};
pub use mask::{Alignment, Mask, MaskKind, MaskRule, VisibleKeys};
pub use precision::Precision;
pub use product::product;
pub use scale::Scale;
pub use softmax::{ScaledSoftmax, Softmax};
