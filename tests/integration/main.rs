//! Behaviour of the whole program and of its parts in processes of their own.

mod architecture;
mod depth;
mod exit_codes;
mod golden;
mod interrupt;
mod multi_head;
mod output;
mod per_trial;
mod precisions;
mod program;
mod reproducibility;
mod rows;
mod softmax_spikiness;
mod terminal;
mod usage_errors;
