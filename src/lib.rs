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
//! # Theory values
//!
//! Closed forms and exact finite-size expectations, without a single draw ([`theory`]):
//!
//! ```
//! use attn::sampling::Entries;
//! use attn::theory::{entry_moments::EntryLaw, logits, multi_head, softmax};
//!
//! // Var[QKᵀ] = d and kurtosis 3 + 6/d for normal entries; d(σ⁴ + 2μ²σ²) where the mean is not 0.
//! let normal = EntryLaw::new(Entries::Normal, 0.0, 1.0)?;
//! assert_eq!(logits::variance(64, normal, normal), 64.0);
//! assert_eq!(logits::kurtosis(64, normal, normal), Some(3.0 + 6.0 / 64.0));
//! let shifted = EntryLaw::new(Entries::Normal, 0.5, 1.0)?;
//! assert_eq!(logits::variance(64, shifted, shifted), 64.0 * (1.0 + 2.0 * 0.25));
//!
//! // Raw logits of width 64 over 512 keys are beyond freezing, √64/√(2 ln 512) = 2.26; scaled ones are far from it.
//! let raw = softmax::expectations(64, 512, 1.0)?;
//! let scaled = softmax::expectations(64, 512, 1.0 / 8.0)?;
//! assert!(raw.participation > 0.5 && scaled.participation < 0.01, "one or two keys, or some hundred");
//! assert!((softmax::freezing(64, 512, 1.0).unwrap() - 8.0 / (2.0 * 512f64.ln()).sqrt()).abs() < 1e-15);
//! assert_eq!(multi_head::width_of_a_head(512, 8), Some(64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verdicts
//!
//! Draws held against theory at rates of your choice ([`experiment`]): here 400 trials at a false-alarm rate of one in a million, which see
//! a deviation of 10 % with probability 0.999. A trial is one draw of Q and K:
//!
//! ```
//! use attn::attention::{Precision, Scale};
//! use attn::experiment::calibration::outcome_of;
//! use attn::experiment::judge;
//! use attn::experiment::variance::VarianceExperiment;
//! use attn::experiment::{ErrorRates, InputLaw, Sizes};
//! use attn::report::Verdict;
//! use attn::sampling::Entries;
//!
//! let (sizes, trials) = (Sizes { d_k: 64, queries: 61, keys: 67 }, 400);
//! let law = InputLaw::standard(Entries::Normal);
//! let experiment = VarianceExperiment::new(sizes, law, &[Scale::InverseSqrtWidth], Precision::F32);
//! let outcome = outcome_of(&experiment, trials, 0);
//! let rates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.1 };
//! let rows = judge::rows(&[outcome], &[], &rates, |row| row);
//! assert!(rows.iter().all(|row| row.verdict == Verdict::Upheld));
//! assert!(rows.iter().all(|row| row.min_detectable.is_some_and(|deviation| deviation < rates.detect)));
//! ```
//!
//! # Audits
//!
//! What an implementation made of given Q and K, held against what it promises ([`diagnosis`]). Here a row whose softmax was taken of logits
//! scaled by 1/d, not by 1/√d:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use attn::diagnosis::arrays::{Array, ArraySource, Role};
//! use attn::diagnosis::audit::audit;
//! use attn::diagnosis::contract::{Contract, Declared};
//! use attn::diagnosis::finding::{Check, Verdict};
//! use attn::diagnosis::matrix::Storage;
//! use attn::diagnosis::scale_expression::ScaleExpression;
//!
//! let array = |shape, numbers: &[f64]| Array::of(shape, Storage::F64, numbers.to_vec());
//! // Raw logits 4 and 0 of one query and two keys, d = 4: 2 and 0 by the textbook, but 1 and 0 here.
//! let total = 1f64.exp() + 1.0;
//! let arrays = BTreeMap::from([
//!     (Role::Queries, array([1, 1, 1, 4], &[1.0, 1.0, 1.0, 1.0])),
//!     (Role::Keys, array([1, 1, 2, 4], &[1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0])),
//!     (Role::Weights, array([1, 1, 1, 2], &[1f64.exp() / total, 1.0 / total])),
//! ]);
//! let scale = ScaleExpression::parse("1/sqrt(dk)")?;
//! let contract = Contract { scale: Declared::Yes(scale), ..Contract::default() };
//! let found = audit(&ArraySource::new(arrays, &contract, None)?, &contract, &|_, _| {})?;
//! let finding = found.of(Check::Scale).next().ok_or("no finding")?;
//! assert_eq!(finding.verdict, Verdict::Fail);
//! assert!((finding.measured.ok_or("no number")? - 0.25).abs() < 1e-12);
//! # Ok::<(), String>(())
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
