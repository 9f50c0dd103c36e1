//! Do the heads of multi-head attention have logits of mean 0 and variance d_k, in matrices that hold no n?
//!
//! One trial draws tokens X (n×d_model, entries of variance 1), in cross-attention Y (m×d_model), and all weights (variance
//! 1/d_model, W_o 1/(h·d_v)); logits S_ij = (x_i W_q)·(y_j W_k). The unit of replication is the draw of tokens AND weights:
//! the logits of one draw share both. In self-attention the pairs are those of different tokens, i ≠ j: S_ii has another
//! law (variance d_k(1 + (μ₄ − 1)/d_model); tied W_q = W_k, mean d_k).
//!
//! | measure | formula |
//! |---|---|
//! | `weight_matrices`, `parameters` | counted from the matrices |
//! | `length_difference` | largest \|S_ij − S′_ij\| over the size of its terms; S′ are the logits of the first tokens (at most 8, at most half of them) alone, by the same matrices |
//! | `bias_difference` | the same for S′ by a column of ones in place of explicit biases |
//! | `symmetry_error` | the same for S_ij − S_ji, tied self-attention only |
//! | `transpose_correlation` | mean (S_ij − μ)(S_ji − μ) over heads and i ≠ j, over Var S of theory; separate W_k, self-attention |
//! | `head_correlation` | mean (S_ij − μ)(S′_ij − μ) over pairs of heads and tokens, over Var S of theory |
//! | `logit_mean:headI`, `logit_variance:headI` | mean of S_ij, mean of (S_ij − μ)², μ the expected mean |
//! | `diagonal_mean` | mean of S_ii over heads |
//! | `row_sum_error` | largest \|Σ_j p_ij − 1\| over heads and the first 8 queries |
//! | `output_gain` | mean square of an output entry (less that of the bias) over that of the heads' outputs, first 8 queries: E = 1 over W_o |
//! | `output_variance` | mean square of an output entry |
//!
//! The size of the terms of S_ij is |x_i|·‖W_q‖_F·‖W_k‖_F·|y_j|, at least the sum of their absolute values.

mod claims;
mod draw;
mod measure;
pub mod remarks;

use nalgebra::DMatrix;

use super::engine::Experiment;
use super::{Claim, Inside, Sizes};
use crate::attention::Scale;
use crate::attention::multi_head::{Heads, MultiHead, StandardMultiHead};
use crate::sampling::{Entries, TrialStream, parameter_point};
use crate::theory::multi_head::{Bias, KeyWeights, Layer};
use measure::Pairs;

pub(in crate::experiment) use claims::{Judged, gamma};
pub use draw::{DrawLayer, KeySource, LayerDraw, Memory};
pub(in crate::experiment) use draw::{layer_weights, scaled};

/// Queries that go through the softmax and the output projection, and tokens of the second length, at most.
const FEW: usize = 8;

/// What is run at one parameter point.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiHeadSetting {
    /// The layer.
    pub layer: Layer,
    /// n, m and d_k; m = n in self-attention, which needs n ≥ 2.
    pub sizes: Sizes,
    /// Self- or cross-attention.
    pub source: KeySource,
    /// Law of the entries of tokens and weights, before their scale.
    pub entries: Entries,
    /// Factors on Q Kᵀ.
    pub scales: Vec<Scale>,
}

/// The experiment of `attn multi-head` at one parameter point: `source` draws, `attention` is under test.
pub struct MultiHeadExperiment<D = Entries, A = StandardMultiHead> {
    setting: MultiHeadSetting,
    source: D,
    attention: A,
    claims: Vec<Claim>,
}

impl MultiHeadExperiment {
    /// The experiment with the draws and the attention that it claims to have.
    pub fn new(setting: MultiHeadSetting) -> Self {
        let entries = setting.entries;
        Self::with_parts(setting, entries, StandardMultiHead)
    }
}

impl<D: DrawLayer, A: MultiHead> MultiHeadExperiment<D, A> {
    /// The same claims for another source of draws or another attention.
    ///
    /// # Panics
    /// If the sizes do not fit each other (see [`MultiHeadSetting`] and [`Layer`]).
    pub fn with_parts(setting: MultiHeadSetting, source: D, attention: A) -> Self {
        let MultiHeadSetting { layer, sizes, .. } = &setting;
        assert_eq!(layer.d_k, sizes.d_k, "one width of queries and keys");
        assert!(setting.source == KeySource::OtherTokens || sizes.queries == sizes.keys && sizes.queries > 1);
        assert!(layer.heads.is_multiple_of(layer.key_heads));
        assert!(layer.keys == KeyWeights::Separate || layer.heads == layer.key_heads);
        let claims = claims::claims(&setting);
        Self { setting, source, attention, claims }
    }

    /// The setting, for sentences about it.
    pub fn setting(&self) -> &MultiHeadSetting {
        &self.setting
    }

    fn pairs(&self) -> Pairs {
        match self.setting.source {
            KeySource::SameTokens => Pairs::DifferentTokens,
            KeySource::OtherTokens => Pairs::All,
        }
    }

    /// Raw logits of every head, by the softmax's own inputs.
    fn logits(&self, heads: &Heads) -> Vec<DMatrix<f64>> {
        (0..heads.queries.len()).map(|head| heads.logits(head, 1.0)).collect()
    }

    /// Row sums, output gain and output variance of the first queries.
    fn output_measures(&self, drawn: &LayerDraw, heads: &Heads, scale: f64) -> [f64; 3] {
        let few = self.setting.sizes.queries.min(FEW);
        let first = Heads {
            queries: heads.queries.iter().map(|queries| queries.rows(0, few).into_owned()).collect(),
            ..heads.clone()
        };
        let attended: Vec<_> =
            (0..first.queries.len()).map(|head| self.attention.attend(&first, head, scale)).collect();
        let errors = (attended.iter()).flat_map(|head| head.weights.row_iter().map(|row| (row.sum() - 1.0).abs()));
        // NaN stays.
        let row_sum_error =
            errors.fold(0.0, |largest: f64, error| if error > largest || error.is_nan() { error } else { largest });
        let outputs: Vec<DMatrix<f64>> = attended.into_iter().map(|head| head.output).collect();
        let mean_square = |matrix: &DMatrix<f64>| matrix.norm_squared() / matrix.len() as f64;
        let of_heads = outputs.iter().map(&mean_square).sum::<f64>() / outputs.len() as f64;
        let output = drawn.weights.combine(&outputs);
        let of_bias = drawn
            .weights
            .biases
            .as_ref()
            .map_or(0.0, |biases| biases.output.norm_squared() / biases.output.len() as f64);
        let variance = mean_square(&output);
        [row_sum_error, (variance - of_bias) / of_heads, variance]
    }

    fn measure(&self, drawn: &LayerDraw) -> Vec<f64> {
        let Layer { d_k, bias, keys, .. } = self.setting.layer;
        let queries_from = &drawn.queries_from;
        let keys_from = drawn.keys_from.as_ref().unwrap_or(queries_from);
        let heads = self.attention.project(&drawn.weights, queries_from, keys_from);
        let logits = self.logits(&heads);
        let sizes = measure::Sizes::new(&drawn.weights, &heads, queries_from, keys_from);
        let (first_queries, first_keys) = (first_half(queries_from), first_half(keys_from));
        let alone = self.attention.project(&drawn.weights, &first_queries, &first_keys);
        let mut values = vec![drawn.weights.matrices().len() as f64, drawn.weights.parameters() as f64];
        values.push(measure::difference(&logits, &self.logits(&alone), &sizes));
        if bias == Bias::Drawn {
            let of_ones = drawn.weights.with_biases_as_rows().project(&first_queries, &first_keys);
            values.push(measure::difference(&logits, &self.logits(&of_ones), &sizes));
        }
        let same_tokens = self.setting.source == KeySource::SameTokens;
        let moments = self.setting.layer.logit_moments(self.setting.entries);
        let (center, variance) = moments.map_or((0.0, 1.0), |moments| (moments.mean, moments.variance));
        if same_tokens {
            values.push(match keys {
                KeyWeights::Tied => measure::asymmetry(&logits, &sizes),
                KeyWeights::Separate => measure::transpose_products(&logits, center) / variance,
            });
        }
        if logits.len() > 1 {
            values.push(measure::head_products(&logits, self.pairs(), center) / variance);
        }
        let of_heads: Vec<(f64, f64)> =
            logits.iter().map(|logits| measure::moments(logits, self.pairs(), center)).collect();
        let diagonal = same_tokens.then(|| measure::diagonal_mean(&logits));
        for scale in &self.setting.scales {
            let factor = scale.factor(d_k);
            values.extend(of_heads.iter().flat_map(|&(mean, square)| [mean * factor, scale.of_variance(square, d_k)]));
            values.extend(diagonal.map(|diagonal| diagonal * factor));
            values.extend(self.output_measures(drawn, &heads, factor));
        }
        values
    }
}

/// The first tokens, at most [`FEW`] and at most half of them (rounded up).
fn first_half(tokens: &DMatrix<f64>) -> DMatrix<f64> {
    tokens.rows(0, tokens.nrows().div_ceil(2).min(FEW)).into_owned()
}

impl<D: DrawLayer, A: MultiHead> Experiment for MultiHeadExperiment<D, A> {
    type Workspace = Memory;

    fn sizes(&self) -> Sizes {
        self.setting.sizes
    }

    fn point(&self) -> u64 {
        let Layer { d_model, heads, key_heads, d_k, d_v, .. } = self.setting.layer;
        let Sizes { queries, keys, .. } = self.setting.sizes;
        parameter_point(&[d_model, heads, key_heads, d_k, d_v, queries, keys].map(|size| size as u64))
    }

    fn measures(&self) -> Vec<String> {
        let name = |claim: &Claim| match claim.scale {
            Some(scale) => format!("{}:{scale}", claim.statistic),
            None => claim.statistic.clone(),
        };
        self.claims.iter().map(name).collect()
    }

    fn trial(&self, stream: &TrialStream, _: Inside, memory: &mut Memory) -> Vec<f64> {
        let MultiHeadSetting { layer, sizes, source, .. } = &self.setting;
        let drawn = self.source.draw(stream, layer, *sizes, *source, memory);
        let values = self.measure(&drawn);
        memory.keep_weights(drawn.weights);
        memory.keep(drawn.queries_from);
        drawn.keys_from.into_iter().for_each(|tokens| memory.keep(tokens));
        values
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let Sizes { queries, keys, .. } = self.setting.sizes;
        let (n, m) = (queries as f64, keys as f64);
        let Layer { d_model, heads, key_heads, d_k, d_v, .. } = self.setting.layer;
        let [width, h, h_kv, d_k, d_v] = [d_model, heads, key_heads, d_k, d_v].map(|size| size as f64);
        let projections = 2.0 * width * (n * h * d_k + m * h_kv * (d_k + d_v));
        let few = n.min(FEW as f64) * h * (2.0 * width * d_v + m * (2.0 * d_k + 2.0 * d_v + 40.0));
        // About 30 a drawn entry, about 10 a logit for its sums.
        let drawn = 30.0 * (self.setting.layer.parameters() as f64 + (n + m) * width);
        projections + h * n * m * (2.0 * d_k + 10.0) + few * self.setting.scales.len() as f64 + drawn
    }

    fn bytes(&self) -> f64 {
        let Sizes { queries, keys, .. } = self.setting.sizes;
        let Layer { d_model, heads, d_k, d_v, .. } = self.setting.layer;
        let (n, m, h) = (queries as f64, keys as f64, heads as f64);
        let tokens = (n + m) * (d_model as f64 + 2.0 * h * (d_k + d_v) as f64);
        8.0 * (3.0 * self.setting.layer.parameters() as f64 + tokens + h * n * m)
    }
}
