//! How many operations attention takes, exactly.
//!
//! # Conventions
//! One operation is one addition, subtraction, multiplication, division, comparison, exponential or square root of two numbers (or
//! one). So a multiply-add is 2 operations, a dot product of length d is 2d (a sum starts at 0 and takes one addition a term), and a
//! maximum over m numbers is m comparisons (it starts at −∞). Moving numbers is free. No bias is added in a projection or the MLP.
//!
//! A *cell* is a pair of a query and a key that it sees: a mask does not change the cost of a cell, only how many there are ([`cells`]).
//! Counters that leave the mask out, or take n² where there are n·m, or see nothing inside a fused kernel, are wrong by that much.
//!
//! | what | operations | |
//! |---|---|---|
//! | QKᵀ | 2·c·d_k | c cells: n·m without a mask |
//! | scale and softmax | 6·c | scale, maximum, subtract, exp, sum, divide |
//! | PV | 2·c·d_v | |
//! | projections | 2·n·D·h·d_k + 2·m·D·g·(d_k + d_v) + 2·n·h·d_v·D | D = d_model, h heads, g heads of keys and values |
//! | MLP | 4·n·D·d_ff | two products; its activation n·d_ff comparisons (ReLU) |
//! | layer norm | n·(7·D + 4) | mean, deviations, their squares' mean, √, divide, gain, bias |
//! | residual | n·D | |
//! | fully connected | 2·n·m·D² | one matrix from all inputs to all outputs |
//!
//! Attention is linear in c·(d_k + d_v), so O(n²·d_k) for n = m and d_v = d_k; a layer is O(N²D) + O(ND²), the fully connected one
//! O(N²D²) (Vaswani et al. 2017, table 1). An instrumented computation, whose numbers count what is done to them, confirms every
//! formula (`experiment::complexity::instrumented`).
//!
//! ```
//! use attn::theory::cost::{HeadShape, cells};
//!
//! // 5 queries, 7 keys, the last query at the last key: 3 + 4 + 5 + 6 + 7 cells.
//! let visible = cells::causal(5, 7, 2)?;
//! let cost = HeadShape { heads: 1, d_k: 3, d_v: 2 }.cost(visible)?;
//! assert_eq!((cost.qk, cost.scale_softmax, cost.pv), (2 * 25 * 3, 6 * 25, 2 * 25 * 2));
//! # Ok::<(), attn::theory::cost::CountOverflow>(())
//! ```

pub mod cells;
mod decoding;
mod layer;

pub use decoding::{Decoding, DecodingCost};
pub use layer::{Layer, LayerCost, fully_connected};

use std::fmt;

/// A count that does not fit 128 bits; sizes below 2³² each never get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountOverflow;

impl fmt::Display for CountOverflow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the number of operations does not fit 128 bits")
    }
}

impl std::error::Error for CountOverflow {}

/// A number of operations, cells or numbers.
pub type Count = Result<u128, CountOverflow>;

/// The product of all factors.
fn product(factors: &[u128]) -> Count {
    factors.iter().try_fold(1u128, |product, &factor| product.checked_mul(factor)).ok_or(CountOverflow)
}

/// The sum of all terms.
fn sum(terms: &[u128]) -> Count {
    terms.iter().try_fold(0u128, |sum, &term| sum.checked_add(term)).ok_or(CountOverflow)
}

/// What every head of an attention has in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Heads h of queries. How many heads of keys and values they share changes the projections and the cache, not the cells.
    pub heads: u128,
    /// Width of queries and keys.
    pub d_k: u128,
    /// Width of values.
    pub d_v: u128,
}

/// Operations of attention by stage, all heads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionCost {
    /// QKᵀ.
    pub qk: u128,
    /// Scale and softmax.
    pub scale_softmax: u128,
    /// Weights times values.
    pub pv: u128,
}

impl HeadShape {
    /// Operations for `visible` cells in each head.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn cost(&self, visible: u128) -> Result<AttentionCost, CountOverflow> {
        let cells = product(&[self.heads, visible])?;
        Ok(AttentionCost {
            qk: product(&[2, cells, self.d_k])?,
            scale_softmax: product(&[6, cells])?,
            pv: product(&[2, cells, self.d_v])?,
        })
    }

    /// Operations of the streaming form, the online softmax over blocks of keys (Milakov & Gimelshein 2018, Dao et al. 2022).
    ///
    /// `visible` cells, and in each head `rows` queries that see a key, which meet `row_blocks` blocks of keys in all. A cell costs
    /// 2·d_k + 2·d_v + 5 (scale, maximum, subtract, exp, sum). A block that a query meets costs d_v + 3 beside its cells: the
    /// difference of old and new maximum, its exponential, and by this factor the sum and the d_v numbers of the output. A
    /// query costs d_v divisions at its end.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn streaming(&self, visible: u128, row_blocks: u128, rows: u128) -> Count {
        let of_cells = product(&[visible, sum(&[product(&[2, self.d_k])?, product(&[2, self.d_v])?, 5])?])?;
        let of_blocks = product(&[row_blocks, sum(&[self.d_v, 3])?])?;
        product(&[self.heads, sum(&[of_cells, of_blocks, product(&[rows, self.d_v])?])?])
    }
}

impl AttentionCost {
    /// All stages.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn total(&self) -> Count {
        sum(&[self.qk, self.scale_softmax, self.pv])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_are_those_of_the_theory() {
        // THEORY.md, section 6: 2nmd_k, nm + 5nm, 2nmd_v; n = 7, m = 11, d_k = 3, d_v = 5, products by hand.
        let shape = HeadShape { heads: 1, d_k: 3, d_v: 5 };
        let cost = shape.cost(77).expect("fits");
        assert_eq!(cost, AttentionCost { qk: 462, scale_softmax: 462, pv: 770 });
        assert_eq!(cost.total(), Ok(1694));
        // Thirteen heads do it thirteen times.
        let heads = HeadShape { heads: 13, ..shape }.cost(77).expect("fits");
        assert_eq!(heads.total(), Ok(13 * 1694));
    }

    #[test]
    fn the_cost_grows_with_the_square_of_n_and_in_proportion_to_d() {
        let total = |n: u128, d: u128| {
            let cost = HeadShape { heads: 1, d_k: d, d_v: d }.cost(n * n).expect("fits");
            (cost.qk, cost.scale_softmax)
        };
        let ((qk, softmax), (qk_n, softmax_n), (qk_d, softmax_d)) = (total(17, 5), total(51, 5), total(17, 35));
        assert_eq!((qk_n, softmax_n), (9 * qk, 9 * softmax));
        assert_eq!((qk_d, softmax_d), (7 * qk, softmax));
    }

    #[test]
    fn a_count_that_does_not_fit_is_an_error() {
        let shape = HeadShape { heads: 1, d_k: 1 << 64, d_v: 1 };
        assert_eq!(shape.cost(1 << 63), Err(CountOverflow));
        assert_eq!(shape.streaming(1 << 63, 1, 1), Err(CountOverflow));
        // The largest sizes that the program reads are far from it.
        let most = u128::from(u32::MAX);
        assert!(HeadShape { heads: 1, d_k: most, d_v: most }.cost(most * most).is_ok_and(|cost| cost.total().is_ok()));
        assert_eq!(AttentionCost { qk: u128::MAX, scale_softmax: 1, pv: 0 }.total(), Err(CountOverflow));
    }
}
