//! One file per subcommand: arguments → checked configuration → experiment → report. No mathematics here.

pub mod audit;
mod audit_arrays;
mod audit_contract;
pub mod complexity;
pub mod config;
pub mod deliver;
pub mod depth;
pub mod kv_cache;
mod layer;
pub mod mask;
mod mask_file;
pub mod multi_head;
mod parse;
pub mod positional;
pub mod probe;
mod simulate;
pub mod softmax_spikiness;
pub mod variance;

/// What the process tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Every claim upheld (or the shard written).
    Upheld = 0,
    /// A claim is rejected.
    Rejected = 1,
    /// Nothing rejected, but too few trials to see a deviation of `--detect`.
    Undecided = 3,
}
