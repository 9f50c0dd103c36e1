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
//!
//! # Modules
//!
//! [`sampling`] draws, [`attention`] is under test, [`theory`] says what to expect; these three do not know each
//! other beyond the names of the entry laws. [`statistics`] has the tests, [`experiment`] brings prediction and
//! measurement together, [`report`] writes rows, [`commands`] and [`cli`] are the program.

pub mod attention;
pub mod cli;
pub mod commands;
pub mod experiment;
pub mod number;
pub mod report;
pub mod sampling;
pub mod statistics;
pub mod theory;
