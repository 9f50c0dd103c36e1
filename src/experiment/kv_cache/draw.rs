//! Drawing tokens, weights and an encoder.

use super::{CacheExperiment, CacheRules, HeadShape, InputLaw, Inside, Problem, Stored, generate};
use crate::experiment::{Draw, Sizes};
use crate::number::Real;
use crate::number::larger;
use crate::sampling::{Drawable, MatrixId, TrialStream, fill};

/// The first of the matrices of the layer; numbers below 16 have names.
const FIRST_WEIGHTS: u32 = 32;

impl<R: CacheRules> CacheExperiment<R> {
    /// Q, K and V of one trial.
    pub(super) fn problem<S: Stored>(&self, stream: &TrialStream, inside: Inside) -> Problem<S>
    where
        S::Arithmetic: Drawable,
    {
        let shape = self.settings.shape(self.sizes.d_k);
        let HeadShape { heads, key_value_heads, d_k, d_v } = shape;
        let n = self.sizes.queries;
        let mut queries = vec![S::Arithmetic::ZERO; n * heads * d_k];
        let mut keys = vec![S::Arithmetic::ZERO; n * key_value_heads * d_k];
        // One row a head of a token.
        let rows = Sizes { d_k, queries: n * heads, keys: n * key_value_heads };
        self.law.draw(stream, rows, inside, &mut queries, &mut keys);
        let values = self.matrix::<S>(stream, MatrixId::VALUES, n * key_value_heads, d_v, 1.0);
        Problem {
            shape,
            queries: queries.into_iter().map(S::rounded).collect(),
            keys: keys.into_iter().map(S::rounded).collect(),
            values: values.iter().map(|x| S::written(x.to_f64())).collect(),
            reach: self.settings.reach,
            rotary: self.rotary.clone(),
            scale: self.settings.scale.factor(d_k),
        }
    }

    /// Largest difference of generation with and without a cache.
    pub(super) fn sequence_difference<S: Stored>(&self, stream: &TrialStream) -> f64
    where
        S::Arithmetic: Drawable,
    {
        let layer = self.layer::<S>(stream);
        let width = layer.shape.heads * layer.shape.d_k;
        let start = self.matrix::<S>(stream, MatrixId::INPUTS, 1, width, 1.0);
        let steps = self.settings.generate;
        let with = generate::with_cache(&layer, &start, steps, &self.rules);
        let without = generate::without_cache(&layer, &start, steps);
        with.iter().zip(&without).map(|(a, b)| (a.to_f64() - b.to_f64()).abs()).fold(0.0, larger)
    }

    /// Weights of variance 1/(rows), so that unit-variance inputs give unit-variance rows; an encoder of `keys` tokens.
    fn layer<S: Stored>(&self, stream: &TrialStream) -> generate::Layer<S>
    where
        S::Arithmetic: Drawable,
    {
        let shape = self.settings.shape(self.sizes.d_k);
        let HeadShape { heads, key_value_heads, d_k, d_v } = shape;
        let width = heads * d_k;
        let weights = |index: u32, rows: usize, columns: usize| {
            self.matrix::<S>(stream, MatrixId(FIRST_WEIGHTS + index), rows, columns, 1.0 / (rows as f64).sqrt())
        };
        let encoder = |index: u32, columns: usize| {
            let rows = self.matrix::<S>(stream, MatrixId(FIRST_WEIGHTS + index), self.sizes.keys, columns, 1.0);
            rows.iter().map(|x| S::written(x.to_f64())).collect::<Vec<S>>()
        };
        generate::Layer {
            shape,
            own: [
                weights(0, width, width),
                weights(1, width, key_value_heads * d_k),
                weights(2, width, key_value_heads * d_v),
            ],
            own_output: weights(3, heads * d_v, width),
            cross_query: weights(4, width, width),
            cross_output: weights(5, heads * d_v, width),
            encoder_keys: encoder(6, key_value_heads * d_k),
            encoder_values: encoder(7, key_value_heads * d_v),
            reach: self.settings.reach,
            rotary: self.rotary.clone(),
            scale: self.settings.scale.factor(d_k),
        }
    }

    /// `rows` × `columns` entries of the law, times `factor`, rounded to S.
    fn matrix<S: Stored>(
        &self,
        stream: &TrialStream,
        matrix: MatrixId,
        rows: usize,
        columns: usize,
        factor: f64,
    ) -> Vec<S::Arithmetic>
    where
        S::Arithmetic: Drawable,
    {
        let InputLaw { entries, mean, sd, .. } = self.law;
        let mut values = vec![S::Arithmetic::ZERO; rows * columns];
        fill(entries, stream, matrix, 0, columns, &mut values);
        values.iter_mut().for_each(|x| *x = S::rounded(S::Arithmetic::from_f64((mean + sd * x.to_f64()) * factor)));
        values
    }
}
