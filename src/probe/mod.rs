//! A conformance test for any attention implementation: cases as files, answers as files, a judgement with causes.
//!
//! [`catalogue`] holds the cases, [`manifest`] writes and reads them, [`answer`] reads what an implementation made of them.
//! [`judge`] holds the answers against the compensated f64 [`reference`](mod@reference) within [`bound`], and names what is wrong by computing
//! what each of the known [`suspects`] would give ([`fault`], [`attend`] under a [`behaviour`]); docs/probe.md has the protocol.

pub mod answer;
pub mod attend;
mod audited;
pub mod behaviour;
pub mod bound;
pub mod case;
pub mod catalogue;
pub mod empty_rows;
pub mod fault;
pub mod judge;
pub mod manifest;
mod recipe;
mod recipe_builder;
pub mod reference;
pub mod suspects;
pub mod together;
