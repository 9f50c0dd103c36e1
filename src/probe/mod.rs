//! A conformance test for any attention implementation: cases as files, answers as files, a judgement with causes.
//!
//! [`catalogue`] holds the cases, [`manifest`] writes and reads them.

pub mod answer;
pub mod case;
pub mod catalogue;
pub mod manifest;
mod recipe;
