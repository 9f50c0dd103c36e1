//! Real faults of public projects (field reports), each built as tensors and diagnosed: verdict, place, number and cause.
//!
//! Entries that need two dumps are in [`comparison`], those of a series in [`training`].
//!
//! # Entries that tensors cannot show
//!
//! | entry | why |
//! |---|---|
//! | NO-06, merging of shards | needs the partial results of two shards; the log-sum-exp in the wrong unit is here |
//! | PO-02, from one dump | a permutation that only K has, inside a head, is another K: only a reference shows it |
//! | HE-02, input viewed as (batch·heads, n, d) | Q, K and V are then scrambled alike before the dump |
//! | CA-02, rows of a padded batch that share one counter | shows as a rotation of one batch entry beside a run alone; no test of its own |
//! | TR-03, TR-04 | weights before training, and a sweep over widths: `attn variance`, `attn multi-head` |
//! | ST-*, UX-01, UX-04, UX-08 | statistics of tests, and tools; UX-05 and UX-06 are in tests/integration/audit.rs, UX-03 and UX-07 here |

mod comparison;
mod definition;
mod detection;
mod heads;
mod large;
mod mask;
mod normalisation;
mod position;
mod precision;
mod real;
mod scale;
mod sound;
mod training;
mod undeclared;
