//! What happens to tokens in a stack of transformer blocks? Rank collapse, its remedies, and the size of gradients.
//!
//! One trial draws tokens X (n×d_model, entries of variance 1), a direction of ±1, and the weights of every block: projections
//! of variance 1/d_model, W_o 1/(h·d_v), MLP 1/d_model and 2/d_ff (so that ReLU keeps the mean square), no biases,
//! normalisations with gain 1 and shift 0. Per layer, `:layer0` being the input and `:layerL` the output of block L:
//!
//! | measure | formula |
//! |---|---|
//! | `token_mean` | mean of all n·d_model entries |
//! | `token_variance` | mean over tokens of (1/d_model) Σ (x − x̄)²; after a post-norm with ε/(σ² + ε) added, what ε takes away |
//! | `token_cosine` | mean over pairs of tokens of x·y/(\|x\|\|y\|); 0 for a token of length 0 |
//! | `carried_over` | Σ out·in/Σ in²: the weight of the block's input in its output |
//! | `logit_variance` | mean over heads of the sample variance (divisor N − 1) of the N = n(n − 1) scaled logits of different tokens in block L |
//! | `entropy`, `participation` | mean over heads and queries of −Σ p ln p (nats) and Σ p² in block L |
//! | `gradient_scale` | \|J u\|²/\|u\|², J the derivative of the tokens after block L by X, u the direction: in expectation over u ‖J‖²_F/(n·d_model), also the mean square of a gradient that reaches the input for one of unit entries after block L |

mod claims;
pub mod remarks;

use nalgebra::{DMatrix, RowDVector};

use super::engine::Experiment;
use super::multi_head::{Memory, layer_weights, scaled};
use super::{Claim, Inside, Sizes};
use crate::attention::Scale;
use crate::attention::layer_norm::LayerNorm;
use crate::attention::mlp::Mlp;
use crate::attention::transformer_block::{
    BlockPass, Norm, NormPair, Residual, StandardTransformer, Transformer, TransformerBlock,
};
use crate::sampling::{Entries, MatrixId, TrialStream, parameter_point};
use crate::theory::multi_head::Layer;

/// What normalisations add to the variance of a token (PyTorch's default).
pub const EPSILON: f64 = 1e-5;
/// Numbers of matrices of one block: block b has those from b times this on.
const MATRICES: u32 = 1 << 16;
/// Numbers of the two matrices of an MLP within a block; heads have those from 32 on.
const MLP_MATRICES: [u32; 2] = [24, 25];

/// Where blocks normalise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlace {
    /// After each part: LayerNorm(f(X) + X).
    Post,
    /// Before each part: f(LayerNorm(X)) + X.
    Pre,
    /// Nowhere.
    None,
}

/// What a block has beside its attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MlpPart {
    /// A hidden layer of this width.
    Width(usize),
    /// None.
    LeftOut,
}

impl MlpPart {
    /// Four times as wide as a token (Vaswani et al. 2017).
    pub fn standard(d_model: usize) -> Self {
        Self::Width(4 * d_model)
    }
}

/// What is run at one parameter point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DepthSetting {
    /// Number of blocks, at least 1.
    pub layers: usize,
    /// The attention of each block: separate keys, no biases.
    pub layer: Layer,
    /// n = m and d_k; n at least 2.
    pub sizes: Sizes,
    /// Normalisation.
    pub norm: NormPlace,
    /// Residual.
    pub residual: Residual,
    /// MLP.
    pub mlp: MlpPart,
    /// Law of the entries of tokens and weights, before their scale.
    pub entries: Entries,
    /// Factor on Q Kᵀ.
    pub scale: Scale,
}

/// The experiment of `attn depth` at one parameter point: `transformer` is under test.
pub struct DepthExperiment<T = StandardTransformer> {
    setting: DepthSetting,
    transformer: T,
    claims: Vec<Claim>,
}

impl DepthExperiment {
    /// The experiment with the blocks that it claims to have.
    pub fn new(setting: DepthSetting) -> Self {
        Self::with_parts(setting, StandardTransformer)
    }
}

impl<T: Transformer> DepthExperiment<T> {
    /// The same claims for other blocks.
    ///
    /// # Panics
    /// If the sizes do not fit each other (see [`DepthSetting`]).
    pub fn with_parts(setting: DepthSetting, transformer: T) -> Self {
        assert!(setting.sizes.queries == setting.sizes.keys && setting.sizes.queries > 1);
        assert!(setting.layers > 0 && setting.layer.d_k == setting.sizes.d_k && setting.layer.d_model > 1);
        Self { claims: claims::claims(&setting), setting, transformer }
    }

    /// The setting, for sentences about it.
    pub fn setting(&self) -> &DepthSetting {
        &self.setting
    }

    fn block(&self, stream: &TrialStream, index: usize, memory: &mut Memory) -> TransformerBlock {
        let DepthSetting { layer, norm, residual, mlp, entries, scale, .. } = self.setting;
        let (first, width) = (MATRICES * index as u32, layer.d_model);
        let norms =
            || NormPair { attention: LayerNorm::standard(width, EPSILON), mlp: LayerNorm::standard(width, EPSILON) };
        let mlp = match mlp {
            MlpPart::LeftOut => None,
            MlpPart::Width(hidden) => {
                let mut draw = |which: usize, rows: usize, columns: usize, variance: f64| {
                    let matrix = MatrixId(first + MLP_MATRICES[which]);
                    scaled(entries, stream, matrix, rows, variance, memory.take(rows * columns))
                };
                Some(Mlp {
                    first: draw(0, width, hidden, 1.0 / width as f64),
                    first_bias: RowDVector::zeros(hidden),
                    second: draw(1, hidden, width, 2.0 / hidden as f64),
                    second_bias: RowDVector::zeros(width),
                })
            }
        };
        TransformerBlock {
            attention: layer_weights(entries, stream, &layer, first, memory),
            mlp,
            norm: match norm {
                NormPlace::Post => Norm::Post(norms()),
                NormPlace::Pre => Norm::Pre(norms()),
                NormPlace::None => Norm::None,
            },
            residual,
            scale: scale.factor(layer.d_k),
        }
    }
}

/// Mean of all entries.
fn token_mean(tokens: &DMatrix<f64>) -> f64 {
    tokens.sum() / tokens.len() as f64
}

/// Mean over tokens of their variance, divisor d_model, with what ε takes from the variances before a post-norm.
fn token_variance(tokens: &DMatrix<f64>, before: Option<&[f64]>) -> f64 {
    let width = tokens.ncols() as f64;
    let of_token = |(index, token): (usize, RowDVector<f64>)| {
        let taken = before.map_or(0.0, |variances| EPSILON / (variances[index] + EPSILON));
        token.add_scalar(-token.sum() / width).norm_squared() / width + taken
    };
    let rows = tokens.row_iter().map(|row| row.into_owned()).enumerate();
    rows.map(of_token).sum::<f64>() / tokens.nrows() as f64
}

/// Mean cosine over pairs of tokens: with unit tokens e_i it is (|Σ e_i|² − Σ |e_i|²)/(n(n − 1)).
fn token_cosine(tokens: &DMatrix<f64>) -> f64 {
    let mut sum = RowDVector::zeros(tokens.ncols());
    let mut squares = 0.0;
    for token in tokens.row_iter() {
        let length = token.norm();
        // A token that is not a number must stay one.
        if length != 0.0 {
            let unit = token / length;
            squares += unit.norm_squared();
            sum += unit;
        }
    }
    let count = tokens.nrows() as f64;
    (sum.norm_squared() - squares) / (count * (count - 1.0))
}

/// Sample variance of the logits of different tokens, mean over heads.
fn logit_variance(pass: &BlockPass, scale: f64) -> f64 {
    let heads = pass.heads.queries.len();
    let of_head = |head: usize| {
        let logits = pass.heads.logits(head, scale);
        let different = || (0..logits.ncols()).flat_map(|j| (0..logits.nrows()).map(move |i| (i, j)));
        let values: Vec<f64> = different().filter(|(i, j)| i != j).map(|place| logits[place]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
    };
    (0..heads).map(of_head).sum::<f64>() / heads as f64
}

/// Mean entropy and Σp² of a row of weights.
fn spread_of_weights(pass: &BlockPass) -> [f64; 2] {
    let rows = (pass.attention.len() * pass.output.nrows()) as f64;
    let weights = || pass.attention.iter().flat_map(|head| head.weights.iter());
    // 0 ln 0 = 0.
    let entropy = weights().map(|&p| if p == 0.0 { 0.0 } else { -p * p.ln() }).sum::<f64>();
    [entropy / rows, weights().map(|p| p * p).sum::<f64>() / rows]
}

impl<T: Transformer> Experiment for DepthExperiment<T> {
    type Workspace = Memory;

    fn sizes(&self) -> Sizes {
        self.setting.sizes
    }

    fn point(&self) -> u64 {
        let DepthSetting { layer, sizes, mlp, .. } = self.setting;
        let hidden = if let MlpPart::Width(width) = mlp { width } else { 0 };
        let Layer { d_model, heads, key_heads, d_k, d_v, .. } = layer;
        // Not the number of layers: a deeper stack begins with the same blocks.
        parameter_point(&[d_model, heads, key_heads, d_k, d_v, sizes.queries, hidden].map(|size| size as u64))
    }

    fn measures(&self) -> Vec<String> {
        self.claims.iter().map(|claim| claim.statistic.clone()).collect()
    }

    fn trial(&self, stream: &TrialStream, _: Inside, memory: &mut Memory) -> Vec<f64> {
        let DepthSetting { layers, layer, sizes, entries, scale, .. } = self.setting;
        let count = sizes.queries;
        let mut draw =
            |entries, matrix| scaled(entries, stream, matrix, count, 1.0, memory.take(count * layer.d_model));
        let mut tokens = draw(entries, MatrixId::INPUTS);
        let mut change = draw(Entries::Rademacher, MatrixId::GRADIENT);
        let mut values = vec![token_mean(&tokens), token_variance(&tokens, None), token_cosine(&tokens)];
        for index in 0..layers {
            let block = self.block(stream, index, memory);
            let (pass, changed) = self.transformer.apply(&block, &tokens, &change);
            let output = &pass.output;
            values.extend([
                token_mean(output),
                token_variance(output, pass.variances.as_deref()),
                token_cosine(output),
                output.dot(&tokens) / tokens.norm_squared(),
                logit_variance(&pass, scale.factor(layer.d_k)),
            ]);
            values.extend(spread_of_weights(&pass));
            // The entries of the direction are ±1.
            values.push(changed.norm_squared() / changed.len() as f64);
            memory.keep_weights(block.attention);
            if let Some(mlp) = block.mlp {
                memory.keep(mlp.first);
                memory.keep(mlp.second);
            }
            let entered = [std::mem::replace(&mut tokens, pass.output), std::mem::replace(&mut change, changed)];
            if index == 0 {
                // Only what was taken is given back: what a block returns is new memory, and keeping it would never end.
                entered.into_iter().for_each(|matrix| memory.keep(matrix));
            }
        }
        values
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let DepthSetting { layers, layer, sizes, mlp, .. } = self.setting;
        let (n, width) = (sizes.queries as f64, layer.d_model as f64);
        let hidden = if let MlpPart::Width(width) = mlp { width as f64 } else { 0.0 };
        let parameters = layer.parameters() as f64 + 2.0 * width * hidden;
        let attention = n * n * layer.heads as f64 * (6.0 * layer.d_k as f64 + 4.0 * layer.d_v as f64 + 60.0);
        // Two passes, the second for the change; about 30 a drawn entry.
        layers as f64 * (4.0 * n * parameters + attention + 30.0 * parameters)
    }

    fn bytes(&self) -> f64 {
        let DepthSetting { layer, sizes, mlp, .. } = self.setting;
        let (n, width) = (sizes.queries as f64, layer.d_model as f64);
        let hidden = if let MlpPart::Width(width) = mlp { width as f64 } else { 0.0 };
        let parameters = layer.parameters() as f64 + 2.0 * width * hidden;
        8.0 * (2.0 * parameters + n * (8.0 * width + 4.0 * hidden) + 4.0 * layer.heads as f64 * n * n)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dmatrix;

    use super::*;

    #[test]
    fn memory_does_not_grow_with_the_trials() {
        let (keys, bias) = (crate::theory::multi_head::KeyWeights::Separate, crate::theory::multi_head::Bias::Absent);
        let experiment = DepthExperiment::new(DepthSetting {
            layers: 3,
            layer: Layer { d_model: 6, heads: 2, key_heads: 2, d_k: 3, d_v: 3, keys, bias },
            sizes: Sizes { d_k: 3, queries: 5, keys: 5 },
            norm: NormPlace::Post,
            residual: Residual::Added,
            mlp: MlpPart::Width(7),
            entries: Entries::Normal,
            scale: crate::attention::Scale::InverseSqrtWidth,
        });
        let mut memory = Memory::default();
        let mut held = |trial| {
            let values = experiment.trial(&TrialStream::new(1, 2, trial), Inside::Sequential, &mut memory);
            (values, memory.held())
        };
        let (first, once) = held(0);
        assert_eq!((2..7).map(|_| held(1).1).collect::<Vec<_>>(), [once; 5]);
        // And memory that is used again changes no bit.
        assert_eq!(held(0).0, first);
    }

    #[test]
    fn statistics_of_tokens_are_those_by_hand() {
        let tokens = dmatrix![3.0, 4.0; -4.0, 3.0; 0.0, 2.0];
        // Cosines 0, 4/5 and 3/5 over three pairs; variances 1/4, 49/4 and 1.
        assert!((token_cosine(&tokens) - 1.4 / 3.0).abs() < 1e-15);
        assert!((token_variance(&tokens, None) - 13.5 / 3.0).abs() < 1e-14);
        assert_eq!(token_mean(&tokens), 8.0 / 6.0);
        // A token of length 0 has cosine 0 with the others; one that is not a number is not passed over.
        assert!((token_cosine(&dmatrix![1.0, 1.0; 0.0, 0.0; 2.0, 2.0]) - 1.0 / 3.0).abs() < 1e-15);
        assert!(token_cosine(&dmatrix![1.0, f64::NAN; 2.0, 2.0]).is_nan());
        // What ε = 1e-5 takes from a token of variance 1e-5 is half.
        assert!((token_variance(&dmatrix![0.0, 0.0], Some(&[EPSILON])) - 0.5).abs() < 1e-15);
    }
}
