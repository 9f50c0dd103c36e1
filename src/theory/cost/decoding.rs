//! Token by token: with the keys and values of earlier tokens kept (a KV cache), and without.

use super::{AttentionCost, Count, CountOverflow, HeadShape, Layer, LayerCost, cells, product};

/// Decoding of one sequence, attention causal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoding {
    /// The layer; its numbers of queries and keys play no part.
    pub layer: Layer,
}

/// What the token at position t costs, t tokens (its own counted) being in sight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodingCost {
    /// Attention with a cache: 1 query, t keys, O(t·d).
    pub cached: AttentionCost,
    /// Attention without: the causal pass over all t tokens again, O(t²·d).
    pub recomputed: AttentionCost,
    /// The whole layer with a cache: one token's projections and MLP.
    pub cached_layer: LayerCost,
    /// The whole layer without: those of t tokens.
    pub recomputed_layer: LayerCost,
}

impl Decoding {
    fn shape(&self) -> HeadShape {
        self.layer.attention()
    }

    /// Operations of the token that is the t-th of its sequence, `context` = t ≥ 1.
    ///
    /// Without a cache the deeper layers need every token's output, so that the whole causal pass is done again.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn token(&self, context: u128) -> Result<DecodingCost, CountOverflow> {
        let triangle = cells::causal(context, context, 0)?;
        let of = |tokens: u128, visible: u128| Layer { queries: tokens, keys: tokens, ..self.layer }.cost(visible);
        Ok(DecodingCost {
            cached: self.shape().cost(context)?,
            recomputed: self.shape().cost(triangle)?,
            // The cache holds the other keys and values: only the new token's are projected.
            cached_layer: of(1, context)?,
            recomputed_layer: of(context, triangle)?,
        })
    }

    /// Numbers that the cache of `context` tokens holds in this layer: t·g·(d_k + d_v), 2·t·h·d_k for g = h and d_v = d_k.
    ///
    /// # Errors
    /// When the count does not fit.
    pub fn cached_numbers(&self, context: u128) -> Count {
        product(&[context, self.layer.kv_heads, super::sum(&[self.layer.d_k, self.layer.d_v])?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding() -> Decoding {
        let layer = Layer { queries: 1, keys: 1, d_model: 13, heads: 6, kv_heads: 2, d_k: 5, d_v: 3, d_ff: 17 };
        Decoding { layer }
    }

    #[test]
    fn a_token_costs_a_row_of_cells_with_a_cache_and_a_triangle_without() {
        // 11 tokens in sight: 11 cells against 66, 6 heads, 2·5 + 6 + 2·3 = 22 operations a cell.
        let cost = decoding().token(11).expect("fits");
        assert_eq!(cost.cached.total(), Ok(6 * 11 * 22));
        assert_eq!(cost.recomputed.total(), Ok(6 * 66 * 22));
        assert_eq!(cost.recomputed_layer.projections, 11 * cost.cached_layer.projections);
        assert_eq!(cost.recomputed_layer.mlp, 11 * cost.cached_layer.mlp);
    }

    #[test]
    fn all_tokens_of_a_cached_sequence_cost_what_one_causal_pass_costs() {
        let pass = decoding().token(19).expect("fits").recomputed_layer.total();
        let tokens: u128 =
            (1..=19).map(|t| decoding().token(t).expect("fits").cached_layer.total().expect("fits")).sum();
        assert_eq!(pass, Ok(tokens));
    }

    #[test]
    fn a_cache_holds_keys_and_values_of_each_group_of_heads() {
        // THEORY.md, section 5: 2·n·h·d_k numbers for d_v = d_k and every head its own.
        let layer = Layer { kv_heads: 6, d_v: 5, ..decoding().layer };
        assert_eq!(Decoding { layer }.cached_numbers(7), Ok(2 * 7 * 6 * 5));
        assert_eq!(decoding().cached_numbers(7), Ok(7 * 2 * 8));
    }
}
