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
pub mod complexity;
pub mod depth;
mod draw;
pub mod engine;
pub mod judge;
pub mod kv_cache;
pub mod mask;
pub mod multi_head;
pub mod per_trial;
pub mod plan;
pub mod positional;
pub mod progress;
pub mod series;
pub mod slope;
pub mod softmax;
pub mod trial_test;
pub mod variance;

pub use claim::{Claim, Estimator, Expected, Null};
pub use draw::{Draw, DrawRows, InputLaw};
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

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.index, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Reads `I/K`.
    fn from_str(text: &str) -> Result<Self, String> {
        let rule = "must be I/K with 1 ≤ I ≤ K, for example 2/8";
        let (index, of) = text.split_once('/').ok_or(rule)?;
        match (index.parse::<u64>(), of.parse::<u64>()) {
            (Ok(index), Ok(of)) if index >= 1 && index <= of => Ok(Self { index, of }),
            _ => Err(rule.to_string()),
        }
    }
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
    fn shards_are_read_and_written() {
        assert_eq!("2/8".parse(), Ok(Shard { index: 2, of: 8 }));
        assert_eq!(Shard { index: 2, of: 8 }.to_string(), "2/8");
        for wrong in ["0/8", "9/8", "2", "a/b", "2/", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_cover_every_trial_once() {
        for (trials, of) in [(10, 3), (2, 7), (100, 1), (0, 2)] {
            let all: Vec<u64> = (1..=of).flat_map(|index| Shard { index, of }.trials(trials)).collect();
            assert_eq!(all, (0..trials).collect::<Vec<_>>());
        }
    }
}
