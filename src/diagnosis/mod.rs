//! From Q, K and weights (or output) to findings: pure functions of arrays and a contract.

pub mod arrays;
pub mod audit;
pub mod checks;
pub mod contract;
pub mod evidence;
pub mod explain;
pub mod finding;
pub mod given_mask;
pub mod mask_numbers;
pub mod mask_pattern;
pub mod matrix;
pub mod model;
pub mod naming;
pub mod output_search;
pub mod scale_expression;
pub mod slope;
pub mod summary;
