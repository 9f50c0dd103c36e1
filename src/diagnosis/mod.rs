//! From Q, K and weights (or output) to findings: pure functions of arrays and a contract. No file is opened and nothing printed here.
//!
//! [`audit::audit`] runs every check of [`checks`] over the heads of a [`audit::Source`] (in memory: [`arrays::ArraySource`]) under a
//! [`contract::Contract`], and joins what it finds over heads.
//!
//! # How a fault is found
//!
//! A [`model::Model`] turns raw logits into weights; the contract is one. Observed weights are first held against the contract's, cell by
//! cell, under a bound derived from the types ([`model::logit_noise`]); if they fit, nothing fails. If not, [`mod@explain`] finds the
//! model that does reproduce them, stage by stage (scale, form, hidden cells, sums), and the difference between both models is the
//! diagnosis. So a cause is proved by recomputation, and what it explains is not reported beside it. [`slope`] fits the scale,
//! [`naming`] names it, [`mask_pattern`] names the cells with weight; [`output_search`] does the same from the output alone.
//!
//! # Large heads
//!
//! Rows are formed in blocks on all threads ([`evidence::Evidence::map_rows`]): logits by the kernels in f64, so that their own
//! rounding is nothing beside any bound, weights from what the file stores (halves stay two bytes). [`mod@survey`] takes what a sound
//! head needs in one pass, [`product`] forms P·V. Fits use a sample of rows above [`evidence::MOST_CELLS`] cells; what they find is then
//! compared on every row. Results are folded in the order of the rows, so that threads change no bit.
//!
//! ```
//! use std::collections::BTreeMap;
//! use attn::diagnosis::arrays::{Array, ArraySource, Role};
//! use attn::diagnosis::audit::audit;
//! use attn::diagnosis::contract::Contract;
//! use attn::diagnosis::finding::{Check, Verdict};
//! use attn::diagnosis::matrix::Storage;
//!
//! // One query, two keys, d = 4; logits 2 and 0 unscaled, 1 and 0 by the textbook.
//! let array = |shape, numbers: &[f64]| Array::of(shape, Storage::F64, numbers.to_vec());
//! let total = 2f64.exp() + 1.0;
//! let arrays = BTreeMap::from([
//!     (Role::Queries, array([1, 1, 1, 4], &[1.0, 1.0, 0.0, 0.0])),
//!     (Role::Keys, array([1, 1, 2, 4], &[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0])),
//!     (Role::Weights, array([1, 1, 1, 2], &[2f64.exp() / total, 1.0 / total])),
//! ]);
//! let contract = Contract::default();
//! let source = ArraySource::new(arrays, &contract, None)?;
//! let found = audit(&source, &contract, &|_, _| {})?;
//! assert_eq!(found.findings[0].check, Check::Scale);
//! assert_eq!(found.findings[0].verdict, Verdict::Warn); // 1 may be meant: nobody declared a scale
//! # Ok::<(), String>(())
//! ```

pub mod arrays;
pub mod audit;
pub mod checks;
pub mod comparison;
pub mod contract;
pub mod evidence;
pub mod explain;
pub mod finding;
pub mod given_mask;
pub mod growth;
mod mask_counts;
pub mod mask_numbers;
pub mod mask_pattern;
pub mod matrix;
pub mod model;
pub mod naming;
pub mod output_search;
pub mod product;
mod progress;
pub mod rows;
pub mod scale_expression;
pub mod slope;
pub mod summary;
pub mod survey;
mod variants;
