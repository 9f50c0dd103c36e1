//! Behaviour of the whole program and of its parts in processes of their own.

mod architecture;
mod complexity;
mod depth;
mod exit_codes;
mod golden;
mod interrupt;
mod kv_cache;
mod mask;
mod multi_head;
mod output;
mod per_trial;
mod positional;
mod precisions;
mod probe;
mod probe_adapters;
mod program;
mod reproducibility;
mod rows;
mod softmax_spikiness;
mod tensors;
mod tensors_hostile;
mod terminal;
mod usage_errors;
