//! Expected values and exact cumulants; never uses the code that is measured.

pub mod cache;
pub mod cost;
mod double_double;
pub mod entry_moments;
pub mod logits;
pub mod multi_head;
pub mod position;
mod set_partitions;
pub mod softmax;
pub mod trial_cumulants;
