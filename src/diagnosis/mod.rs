//! From Q, K and weights (or output) to findings: pure functions of arrays and a contract.

pub mod mask_pattern;
