//! Statistical verification of scaled dot-product attention.
//!
//! # Notation
//!
//! | symbol | meaning |
//! |---|---|
//! | n, m | queries (rows of Q), keys (rows of K and V) |
//! | d = d_k, d_v | width of queries and keys, of values |
//! | S = c·QKᵀ | *logits*, n×m; c is the scale, raw logits have c = 1 |
//! | P | *weights*, softmax of the logits over the keys |
//! | O = PV | *output*, n×d_v |
//! | T | *trials*: independent draws of Q and K, the unit of replication |
//!
//! # Claims
//!
//! For i.i.d. entries of mean 0 and variance 1: E\[QKᵀ\] = 0, Var\[QKᵀ\] = d_k, Var\[QKᵀ/√d_k\] = 1 (Vaswani et al. 2017).
//! Position encodings turn pairs of columns by angles, so that products depend on the offset only, and rotary ones leave mean and variance of
//! the logits alone (Su et al. 2021). A cache of keys and values changes nothing but the order of sums.
//!
//! # Example
//!
//! Theory alone, and 400 draws held against it at a false-alarm rate of one in a million:
//!
//! ```
//! use attn::attention::{Precision, Scale};
//! use attn::experiment::calibration::outcome_of;
//! use attn::experiment::judge;
//! use attn::experiment::variance::VarianceExperiment;
//! use attn::experiment::{ErrorRates, InputLaw, Sizes};
//! use attn::report::Verdict;
//! use attn::sampling::Entries;
//! use attn::theory::{entry_moments::EntryLaw, logits};
//!
//! let entry = EntryLaw::new(Entries::Normal, 0.0, 1.0)?;
//! assert_eq!(logits::variance(64, entry, entry), 64.0);
//!
//! let (sizes, trials) = (Sizes { d_k: 64, queries: 61, keys: 67 }, 400);
//! let law = InputLaw::standard(Entries::Normal);
//! let experiment = VarianceExperiment::new(sizes, law, &[Scale::InverseSqrtWidth], Precision::F32);
//! let outcome = outcome_of(&experiment, trials, 0);
//! let rates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.1 };
//! let rows = judge::rows(&[outcome], &[], &rates, |row| row);
//! assert!(rows.iter().all(|row| row.verdict == Verdict::Upheld));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Modules
//!
//! [`sampling`] draws, [`attention`] is under test, [`theory`] says what to expect; these three do not know each
//! other beyond the names of the entry laws. [`statistics`] has the tests, [`experiment`] brings prediction and
//! measurement together. [`tensors`] reads arrays from files, and [`diagnosis`] says what they contradict; [`probe`] tests other
//! implementations through files. [`suite`] has what `attn check` expects of command lines. [`report`] writes rows, [`commands`] and
//! [`cli`] are the program.

pub mod attention;
pub mod cli;
pub mod commands;
pub mod diagnosis;
pub mod experiment;
pub mod number;
pub mod probe;
pub mod report;
pub mod sampling;
pub mod statistics;
pub mod suite;
pub mod tensors;
pub mod theory;
