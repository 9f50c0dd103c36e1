//! One transformer block, and how it carries a small change of its tokens on.
//!
//! With Y multi-head self-attention and tokens X (n×d_model):
//!
//! | norm | with the residual |
//! |---|---|
//! | post (Vaswani et al. 2017) | Z = LayerNorm(Y(X) + X), out = LayerNorm(MLP(Z) + Z) |
//! | pre (Xiong et al. 2020) | Z = Y(LayerNorm(X)) + X, out = MLP(LayerNorm(Z)) + Z |
//! | none | Z = Y(X) + X, out = MLP(Z) + Z |
//!
//! Without the residual the "+ X" and "+ Z" are left out, without the MLP out = Z. The change that a small X′ makes is the
//! derivative along X′ (forward mode): exact but for rounding, at the cost of about two more passes.

use nalgebra::DMatrix;

use super::layer_norm::{LayerNorm, Normalised};
use super::mask::Mask;
use super::mlp::Mlp;
use super::multi_head::{Heads, MultiHeadWeights};
use super::product::product;
use super::reference::Attention;

/// Where a block normalises.
#[derive(Debug, Clone, PartialEq)]
pub enum Norm {
    /// After each of the two parts (residual included).
    Post(NormPair),
    /// Before each of the two parts, on their own path.
    Pre(NormPair),
    /// Nowhere.
    None,
}

/// The two normalisations of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct NormPair {
    /// That of the attention.
    pub attention: LayerNorm,
    /// That of the MLP.
    pub mlp: LayerNorm,
}

/// Whether a part is added to the tokens it was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// f(X) + X.
    Added,
    /// f(X) alone.
    LeftOut,
}

/// One block. Tokens are rows of width d_model.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformerBlock {
    /// Weights of the self-attention.
    pub attention: MultiHeadWeights,
    /// The feed-forward part, if there is one.
    pub mlp: Option<Mlp>,
    /// Normalisation.
    pub norm: Norm,
    /// Residual of both parts.
    pub residual: Residual,
    /// Factor on Q Kᵀ.
    pub scale: f64,
}

/// What one pass through a block gives.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockPass {
    /// n×d_model.
    pub output: DMatrix<f64>,
    /// Queries, keys and values of the block's attention.
    pub heads: Heads,
    /// Weights and output of each head.
    pub attention: Vec<Attention>,
    /// Variance of each token before the last normalisation of post-norm; None elsewhere.
    pub variances: Option<Vec<f64>>,
}

/// Which of a block's two parts.
#[derive(Clone, Copy)]
enum Part {
    Attention,
    Mlp,
}

impl TransformerBlock {
    /// The block on `tokens`, n×d_model; `mask`, where given, is n×n.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn apply(&self, tokens: &DMatrix<f64>, mask: Option<&Mask>) -> BlockPass {
        self.pass(tokens, None, mask).0
    }

    /// The block on `tokens`, and the derivative of its output along `change`, both n×d_model.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn apply_with_change(
        &self,
        tokens: &DMatrix<f64>,
        change: &DMatrix<f64>,
        mask: Option<&Mask>,
    ) -> (BlockPass, DMatrix<f64>) {
        let (pass, change) = self.pass(tokens, Some(change), mask);
        (pass, change.expect("a change goes in and one comes out"))
    }

    fn pass(
        &self,
        tokens: &DMatrix<f64>,
        change: Option<&DMatrix<f64>>,
        mask: Option<&Mask>,
    ) -> (BlockPass, Option<DMatrix<f64>>) {
        let mut seen = None;
        let (between, change, mut variances) = self.part(Part::Attention, tokens, change, |tokens, change| {
            let heads = self.attention.project(tokens, tokens);
            let attention: Vec<Attention> =
                (0..self.attention.heads()).map(|head| heads.attend(head, self.scale, mask)).collect();
            let output = self.attention.combine(&attention.iter().map(|head| head.output.clone()).collect::<Vec<_>>());
            let change = change.map(|change| self.attention_change(&heads, &attention, change));
            seen = Some((heads, attention));
            (output, change)
        });
        let (output, change) = match &self.mlp {
            None => (between, change),
            Some(mlp) => {
                let (output, change, of_mlp) = self.part(Part::Mlp, &between, change.as_ref(), |tokens, change| {
                    (mlp.apply(tokens), change.map(|change| mlp.change(tokens, change)))
                });
                variances = of_mlp;
                (output, change)
            }
        };
        let (heads, attention) = seen.expect("the attention has run");
        (BlockPass { output, heads, attention, variances }, change)
    }

    /// One part with its normalisation and residual: output, its change, and the variances before a post-norm.
    #[allow(clippy::type_complexity)] // three results of one step, named right here
    fn part(
        &self,
        part: Part,
        tokens: &DMatrix<f64>,
        change: Option<&DMatrix<f64>>,
        compute: impl FnOnce(&DMatrix<f64>, Option<&DMatrix<f64>>) -> (DMatrix<f64>, Option<DMatrix<f64>>),
    ) -> (DMatrix<f64>, Option<DMatrix<f64>>, Option<Vec<f64>>) {
        let chosen = |pair: &'_ NormPair| match part {
            Part::Attention => pair.attention.clone(),
            Part::Mlp => pair.mlp.clone(),
        };
        let (mut output, mut changed) = match &self.norm {
            Norm::Pre(pair) => {
                let norm = chosen(pair);
                let normalised = norm.apply(tokens).output;
                compute(&normalised, change.map(|change| norm.change(tokens, change)).as_ref())
            }
            Norm::Post(_) | Norm::None => compute(tokens, change),
        };
        if self.residual == Residual::Added {
            output += tokens;
            if let (Some(changed), Some(change)) = (&mut changed, change) {
                *changed += change;
            }
        }
        match &self.norm {
            Norm::Post(pair) => {
                let norm = chosen(pair);
                let changed = changed.map(|change| norm.change(&output, &change));
                let Normalised { output, variances } = norm.apply(&output);
                (output, changed, Some(variances))
            }
            Norm::Pre(_) | Norm::None => (output, changed, None),
        }
    }

    /// The derivative of multi-head self-attention along `change`: with S = c·QKᵀ and S′ = c(Q′Kᵀ + QK′ᵀ), a row of weights
    /// changes by P ∘ (S′ − Σ P∘S′), and the head's output by P′V + PV′.
    fn attention_change(&self, heads: &Heads, attention: &[Attention], change: &DMatrix<f64>) -> DMatrix<f64> {
        let changes = self.attention.project_change(change, change);
        let of_head = |(index, head): (usize, &Attention)| {
            let key_head = heads.key_head(index);
            let (queries, keys, values) = (&heads.queries[index], &heads.keys[key_head], &heads.values[key_head]);
            let of_queries = product(&changes.queries[index], &keys.transpose());
            let of_keys = product(queries, &changes.keys[key_head].transpose());
            let logits = (of_queries + of_keys) * self.scale;
            let mut weights = head.weights.component_mul(&logits);
            for (mut row, of_head) in weights.row_iter_mut().zip(head.weights.row_iter()) {
                let sum = row.sum();
                row -= of_head * sum;
            }
            product(&weights, values) + product(&head.weights, &changes.values[key_head])
        };
        let outputs: Vec<DMatrix<f64>> = attention.iter().enumerate().map(of_head).collect();
        self.attention.combine_change(&outputs)
    }
}

/// A stack's blocks that are under test; tests pass faulty ones.
pub trait Transformer: Sync {
    /// One block on `tokens` without a mask, and the derivative along `change`, as [`TransformerBlock::apply_with_change`].
    fn apply(
        &self,
        block: &TransformerBlock,
        tokens: &DMatrix<f64>,
        change: &DMatrix<f64>,
    ) -> (BlockPass, DMatrix<f64>);
}

/// Blocks as this file defines them.
#[derive(Debug, Clone, Copy)]
pub struct StandardTransformer;

impl Transformer for StandardTransformer {
    fn apply(
        &self,
        block: &TransformerBlock,
        tokens: &DMatrix<f64>,
        change: &DMatrix<f64>,
    ) -> (BlockPass, DMatrix<f64>) {
        block.apply_with_change(tokens, change, None)
    }
}

#[cfg(test)]
#[path = "transformer_block_tests.rs"]
mod tests;
