//! False-alarm rates, power and mutants: does the tool keep the rates it was asked for, and does it see faults?
//!
//! Run in release: `cargo test --release --test statistical`. Seeds are fixed, so a run always gives the same answer;
//! what is stated for each test is the probability that a correct program fails it for a seed not yet seen, and the
//! smallest fault that it must see. The whole suite's budget is 1e-3, divided over its assertions.
//!
//! In a debug build only the small cells run (`SEEDS` is cut), so that `cargo test` stays short.

mod baseline;
mod calibration;
mod depth;
mod exponential;
mod faults;
mod kv_cache;
mod mask;
mod memory;
mod multi_head;
mod mutants;
mod normals;
mod positional;
mod power;
mod probe;
mod probe_implementation;
mod second_moments;
mod softmax_spikiness;
