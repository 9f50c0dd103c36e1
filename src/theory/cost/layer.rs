//! A transformer layer, and the fully connected layer that sees the same input.

use super::{AttentionCost, Count, CountOverflow, HeadShape, product, sum};

/// Sizes of a layer: attention with its four projections, a residual, a layer norm, an MLP, a residual, a layer norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Tokens n that ask, and for which the rest of the layer is computed.
    pub queries: u128,
    /// Tokens m that are attended to; their keys and values are computed here.
    pub keys: u128,
    /// Width D of a token.
    pub d_model: u128,
    /// Heads h of queries.
    pub heads: u128,
    /// Heads g of keys and values: h (each its own), fewer (grouped; Ainslie et al. 2023), or 1 (shared by all; Shazeer 2019).
    pub kv_heads: u128,
    /// Width of queries and keys in one head.
    pub d_k: u128,
    /// Width of values in one head.
    pub d_v: u128,
    /// Width between the two products of the MLP.
    pub d_ff: u128,
}

/// Operations of a layer by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCost {
    /// The four projections: queries, keys, values, output.
    pub projections: u128,
    /// The three stages of attention, all heads.
    pub attention: AttentionCost,
    /// The two products of the MLP.
    pub mlp: u128,
    /// Its activation: one comparison a number (ReLU).
    pub activation: u128,
    /// Both layer norms.
    pub layer_norm: u128,
    /// Both residual sums.
    pub residual: u128,
}

impl Layer {
    /// What its heads have in common.
    pub fn attention(&self) -> HeadShape {
        HeadShape { heads: self.heads, d_k: self.d_k, d_v: self.d_v }
    }

    /// Operations of the four projections, 2·n·D·h·d_k + 2·m·D·g·(d_k + d_v) + 2·n·h·d_v·D.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn projections(&self) -> Count {
        let of_queries = product(&[2, self.queries, self.d_model, self.heads, self.d_k])?;
        let of_keys_and_values = product(&[2, self.keys, self.d_model, self.kv_heads, sum(&[self.d_k, self.d_v])?])?;
        let of_output = product(&[2, self.queries, self.heads, self.d_v, self.d_model])?;
        sum(&[of_queries, of_keys_and_values, of_output])
    }

    /// Operations of the MLP's products, 4·n·D·d_ff.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn mlp(&self) -> Count {
        product(&[4, self.queries, self.d_model, self.d_ff])
    }

    /// Operations of the whole layer, `visible` cells in each head.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn cost(&self, visible: u128) -> Result<LayerCost, CountOverflow> {
        Ok(LayerCost {
            projections: self.projections()?,
            attention: self.attention().cost(visible)?,
            mlp: self.mlp()?,
            activation: product(&[self.queries, self.d_ff])?,
            // Mean: D additions, 1 division. Deviations: D. Variance: D squares, D additions, 1 division. ε: 1. √: 1.
            // Then D divisions, D multiplications by the gain, D additions of the bias.
            layer_norm: product(&[2, self.queries, sum(&[product(&[7, self.d_model])?, 4])?])?,
            residual: product(&[2, self.queries, self.d_model])?,
        })
    }

    /// The length N* from which attention (its three stages, quadratic in N without a mask) takes at least as many operations as
    /// projections and MLP together (linear in N), if there is one up to 2⁶⁴ tokens.
    ///
    /// `visible` gives the cells in one head of N tokens; its share N⁻¹·visible(N) must not fall with N. A window has no
    /// crossing once it is shorter than that of the causal mask: then attention is linear too. `queries` and `keys` play no part.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn crossing(&self, visible: impl Fn(u128) -> Count) -> Result<Option<u128>, CountOverflow> {
        let attention_leads = |tokens: u128| -> Result<bool, CountOverflow> {
            let layer = Self { queries: tokens, keys: tokens, ..*self };
            Ok(layer.attention().cost(visible(tokens)?)?.total()? >= sum(&[layer.projections()?, layer.mlp()?])?)
        };
        let mut high = 1;
        while !attention_leads(high)? {
            if high == 1 << 64 {
                return Ok(None);
            }
            high *= 2;
        }
        let mut low = high / 2;
        // Attention does not lead at `low` (no token at all leads nothing), and does at `high`.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if attention_leads(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(Some(high))
    }
}

impl LayerCost {
    /// All parts.
    ///
    /// # Errors
    /// When a count does not fit.
    pub fn total(&self) -> Count {
        let Self { projections, attention, mlp, activation, layer_norm, residual } = *self;
        sum(&[projections, attention.total()?, mlp, activation, layer_norm, residual])
    }
}

/// One matrix from all m·D inputs to all n·D outputs, 2·n·m·D²: what a layer without attention needs to see the same input.
///
/// # Errors
/// When the count does not fit.
pub fn fully_connected(queries: u128, keys: u128, d_model: u128) -> Count {
    product(&[2, queries, keys, d_model, d_model])
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    /// The base model of Vaswani et al. 2017: D = 512, 8 heads of 64, d_ff = 2048.
    fn base(tokens: u128) -> Layer {
        Layer { queries: tokens, keys: tokens, d_model: 512, heads: 8, kv_heads: 8, d_k: 64, d_v: 64, d_ff: 2048 }
    }

    #[test]
    fn the_parts_are_those_of_the_theory() {
        // THEORY.md, section 6: projections 2n·D·h(2d_k + d_v) + 2n·h·d_v·D; MLP 4n·D·d_ff; n = 7, D = 11, h = 3, d_k = 5, d_v = 2, d_ff = 13.
        let layer = Layer { queries: 7, keys: 7, d_model: 11, heads: 3, kv_heads: 3, d_k: 5, d_v: 2, d_ff: 13 };
        let cost = layer.cost(49).expect("fits");
        assert_eq!(cost.projections, 2 * 7 * 11 * 3 * 12 + 2 * 7 * 3 * 2 * 11);
        assert_eq!((cost.mlp, cost.activation), (4 * 7 * 11 * 13, 91));
        assert_eq!(cost.attention.total(), Ok(3 * 49 * (10 + 6 + 4)));
        let parts = 6468 + 2940 + 4004 + 91 + 2 * 7 * 81 + 2 * 77;
        assert_eq!(cost.total(), Ok(parts));
        // Keys and values shared by all heads: two projections of a third of the size.
        let shared = Layer { kv_heads: 1, ..layer };
        assert_eq!(shared.projections(), Ok(2 * 7 * 11 * (15 + 7 + 6)));
    }

    #[test]
    fn the_base_model_needs_25_million_operations_a_token_beside_its_cells() {
        // Its layer has 4·512² + 2·512·2048 = 3 145 728 weights in matrices: two operations each.
        let cost = base(1).cost(1).expect("fits");
        assert_eq!(cost.projections + cost.mlp, 2 * 3_145_728);
    }

    #[test]
    fn attention_overtakes_the_rest_where_the_counts_say() {
        // Without a mask N·8·(2·64 + 2·64 + 6) ≥ 24·512², so N ≥ 6291456/2096 = 3001.65…
        let full = base(1).crossing(|tokens| cells::full(tokens, tokens));
        assert_eq!(full, Ok(Some(3002)));
        // Causal: (N + 1)/2 in place of N.
        assert_eq!(base(1).crossing(|tokens| cells::causal(tokens, tokens, 0)), Ok(Some(6003)));
        // In a window of 1024 attention never catches up.
        assert_eq!(base(1).crossing(|tokens| cells::window(tokens, tokens, 0, 1024)), Ok(None));
        // No MLP, all widths 1: 10·N operations a token against 8, so attention leads from the first token on.
        let narrow = Layer { d_model: 1, heads: 1, kv_heads: 1, d_k: 1, d_v: 1, d_ff: 0, ..base(1) };
        assert_eq!(narrow.crossing(|tokens| cells::full(tokens, tokens)), Ok(Some(1)));
    }

    #[test]
    fn the_fully_connected_layer_is_a_matrix_of_all_by_all() {
        // 5·3 outputs, each a dot product of 7·3 inputs.
        assert_eq!(fully_connected(5, 7, 3), Ok(15 * 2 * 21));
        assert_eq!(fully_connected(1 << 40, 1 << 40, 1 << 30), Err(CountOverflow));
    }
}
