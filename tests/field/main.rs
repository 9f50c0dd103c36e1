//! Real faults of public projects (field reports), each built as tensors and diagnosed: verdict, place, number and cause.
//!
//! # Entries that tensors of one attention cannot show
//!
//! | entry | why |
//! |---|---|
//! | SC-10, second half ("the scale argument is ignored") | needs two runs with different declared scales; the first half is here |
//! | NO-06, merging of shards | needs two shards; the log-sum-exp in the wrong unit is here |
//! | NO-07, two dumps that differ | needs two dumps; active dropout is here |
//! | MA-09 and MA-13, padded against unpadded run, prefill against decode | needs two dumps; what one shows is here |
//! | PO-02 | a permutation that only K has, inside a head, is another K: Q, K and weights agree with each other |
//! | CA-02, comparison of a decode step with the whole pass | needs two dumps; the wrong offset of a step is here, from Q before and after its rotation |
//! | HE-02, input viewed as (batch·heads, n, d) | Q, K and V are then scrambled alike before the dump |
//! | TR-*, ST-*, UX-* | training runs, statistics of tests, and tools; UX-05 to UX-07 belong to the readers, UX-07's P and O are here |

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
