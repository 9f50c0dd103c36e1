//! One file per subcommand: arguments → checked configuration → experiment → report. No mathematics here.

pub mod audit;
mod audit_against;
mod audit_arrays;
mod audit_contract;
mod audit_names;
pub mod check;
mod check_item;
pub mod completions;
pub mod complexity;
pub mod config;
pub mod deliver;
pub mod depth;
pub mod kv_cache;
mod layer;
pub mod man;
pub mod mask;
mod mask_file;
pub mod merge;
pub mod multi_head;
pub(crate) mod parse;
pub mod positional;
pub mod probe;
mod recorded;
pub mod report;
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
    /// A claim of a suite got no data.
    NoData = 2,
    /// Nothing rejected, but too few trials to see a deviation of `--detect`.
    Undecided = 3,
}
