//! The engine every simulating subcommand shares.
//!
//! An [`Experiment`] says what one trial measures and what theory expects of it. Everything else is written once:
//! how many trials ([`plan`]), running them on all cores and folding them in trial order ([`engine`]), the file of
//! per-trial values ([`per_trial`]), and the verdicts ([`judge`]).
//!
//! The *trial* — one independent draw of Q and K — is the unit of replication: the n·m logits of one trial share
//! rows and are not independent, so no error bar here is ever computed from them as if they were.

pub mod calibration;
mod claim;
mod draw;
pub mod engine;
pub mod judge;
pub mod mask;
pub mod per_trial;
pub mod plan;
pub mod progress;
pub mod series;
pub mod slope;
pub mod softmax;
pub mod trial_test;
pub mod variance;

pub use claim::{Claim, Estimator, Expected, Null};
pub use draw::{Draw, InputLaw};
pub use engine::Experiment;

/// The largest number of trials: a trial index is 32 bits of a draw's address, and the uppermost indices are the
/// pilot's ([`trial_test::PILOT_TRIALS`]).
pub const LARGEST_TRIALS: u64 = (1 << 32) - (1 << 20);

/// One parameter point's sizes: Q is `queries`×`d_k`, K is `keys`×`d_k`. All are at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Width of queries and keys.
    pub d_k: usize,
    /// Rows of Q (n).
    pub queries: usize,
    /// Rows of K (m).
    pub keys: usize,
}

/// What the user chose to risk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRates {
    /// Probability that a correct implementation fails, over the whole invocation.
    pub false_alarm: f64,
    /// Probability that a deviation of `detect` goes unseen, per row.
    pub miss: f64,
    /// The smallest relative deviation that must be seen.
    pub detect: f64,
}

/// Part `index` of `of` (1-based) of every parameter point's trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, 1 ≤ index ≤ of.
    pub index: u64,
    /// How many parts.
    pub of: u64,
}

impl Shard {
    /// The trials of this shard out of `trials`: contiguous, without gap or overlap, as equal as can be.
    pub fn trials(self, trials: u64) -> std::ops::Range<u64> {
        let bound = |index: u64| (u128::from(trials) * u128::from(index) / u128::from(self.of)) as u64;
        bound(self.index - 1)..bound(self.index)
    }
}

/// Whether the work inside one trial may use other threads. It never changes a bit of the result: blocks and the
/// order in which they are added are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// One thread per trial (many small trials).
    Sequential,
    /// All threads in one trial (few large ones).
    Parallel,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_every_trial_once() {
        for (trials, of) in [(10, 3), (2, 7), (100, 1), (0, 2)] {
            let all: Vec<u64> = (1..=of).flat_map(|index| Shard { index, of }.trials(trials)).collect();
            assert_eq!(all, (0..trials).collect::<Vec<_>>());
        }
    }
}
