//! Expected values and exact cumulants; never uses the code that is measured.

mod double_double;
pub mod entry_moments;
pub mod logits;
pub mod multi_head;
mod set_partitions;
pub mod softmax;
pub mod trial_cumulants;
