//! Drawing the tokens and the weights of one trial.

use nalgebra::{DMatrix, RowDVector};

use crate::attention::multi_head::{Biases, KeyProjections, MultiHeadWeights};
use crate::experiment::Sizes;
use crate::sampling::{Entries, MatrixId, TrialStream, fill};
use crate::theory::multi_head::{Bias, KeyWeights, Layer};

/// The keys' and values' source Y of cross-attention.
const KEY_SOURCE: MatrixId = MatrixId(16);
const OUTPUT: MatrixId = MatrixId(17);
const OUTPUT_BIAS: MatrixId = MatrixId(18);
/// Head i has the matrices from 32 + 8i on: W_q, W_k, W_v and their biases.
const FIRST_HEAD: u32 = 32;

/// Tokens and weights of one trial.
#[derive(Debug, Clone)]
pub struct LayerDraw {
    /// The layer's matrices.
    pub weights: MultiHeadWeights,
    /// X, n×d_model.
    pub queries_from: DMatrix<f64>,
    /// Y, m×d_model, where keys and values have a source of their own.
    pub keys_from: Option<DMatrix<f64>>,
}

/// Where keys and values are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// The same tokens as the queries.
    SameTokens,
    /// Other, independent tokens.
    OtherTokens,
}

/// Memory of earlier draws, to be used again: fresh pages cost a third of a trial.
#[derive(Debug, Default)]
pub struct Memory(Vec<Vec<f64>>);

impl Memory {
    /// Numbers of any value.
    pub(in crate::experiment) fn take(&mut self, length: usize) -> Vec<f64> {
        let fitting = self.0.iter().position(|held| held.len() == length);
        fitting.map_or_else(|| vec![0.0; length], |index| self.0.swap_remove(index))
    }

    /// Number of matrices whose memory is kept.
    #[cfg(test)]
    pub(in crate::experiment) fn held(&self) -> usize {
        self.0.len()
    }

    /// Keeps the memory of a matrix that is no longer needed.
    pub(in crate::experiment) fn keep(&mut self, matrix: DMatrix<f64>) {
        self.0.push(Vec::from(matrix.data));
    }

    /// Keeps the memory of weights that are no longer needed.
    pub(in crate::experiment) fn keep_weights(&mut self, weights: MultiHeadWeights) {
        let MultiHeadWeights { queries, keys, values, output, .. } = weights;
        let keys = match keys {
            KeyProjections::Separate(keys) => keys,
            KeyProjections::Tied => Vec::new(),
        };
        queries.into_iter().chain(keys).chain(values).chain([output]).for_each(|matrix| self.keep(matrix));
    }
}

/// A source of tokens and weights; tests pass faulty ones.
pub trait DrawLayer: Sync {
    /// The draw that `stream` names: X n×d_model and, from another source, Y m×d_model, entries of variance 1; projections
    /// of variance 1/d_model, W_o of variance 1/(h·d_v), biases of the variance of their matrix.
    fn draw(
        &self,
        stream: &TrialStream,
        layer: &Layer,
        sizes: Sizes,
        source: KeySource,
        memory: &mut Memory,
    ) -> LayerDraw;
}

impl DrawLayer for Entries {
    fn draw(
        &self,
        stream: &TrialStream,
        layer: &Layer,
        sizes: Sizes,
        source: KeySource,
        memory: &mut Memory,
    ) -> LayerDraw {
        let d_model = layer.d_model;
        let mut tokens = |matrix, count: usize| scaled(*self, stream, matrix, count, 1.0, memory.take(count * d_model));
        let queries_from = tokens(MatrixId::INPUTS, sizes.queries);
        let keys_from = (source == KeySource::OtherTokens).then(|| tokens(KEY_SOURCE, sizes.keys));
        LayerDraw { weights: layer_weights(*self, stream, layer, 0, memory), queries_from, keys_from }
    }
}

/// The weights of a layer with the variances of [`DrawLayer::draw`], from the matrices whose numbers start `first` higher.
pub(in crate::experiment) fn layer_weights(
    entries: Entries,
    stream: &TrialStream,
    layer: &Layer,
    first: u32,
    memory: &mut Memory,
) -> MultiHeadWeights {
    let &Layer { d_model, heads, key_heads, d_k, d_v, keys, bias } = layer;
    let mut draw = |MatrixId(number), rows: usize, columns: usize, variance: f64| {
        scaled(entries, stream, MatrixId(first + number), rows, variance, memory.take(rows * columns))
    };
    let (of_projection, of_output) = (1.0 / d_model as f64, 1.0 / (heads * d_v) as f64);
    let mut projection = |which: u32, count: usize, columns: usize| -> Vec<DMatrix<f64>> {
        (0..count).map(|head| draw(of_head(head, which), d_model, columns, of_projection)).collect()
    };
    let queries = projection(0, heads, d_k);
    let of_keys = match keys {
        KeyWeights::Separate => KeyProjections::Separate(projection(1, key_heads, d_k)),
        KeyWeights::Tied => KeyProjections::Tied,
    };
    let values = projection(2, key_heads, d_v);
    let output = draw(OUTPUT, heads * d_v, d_model, of_output);
    let output_bias = (bias == Bias::Drawn).then(|| row(draw(OUTPUT_BIAS, d_model, 1, of_output)));
    let mut bias_rows = |which: u32, count: usize, width: usize| -> Vec<RowDVector<f64>> {
        (0..count).map(|head| row(draw(of_head(head, which), width, 1, of_projection))).collect()
    };
    let biases = output_bias.map(|output| Biases {
        queries: bias_rows(3, heads, d_k),
        keys: if keys == KeyWeights::Tied { Vec::new() } else { bias_rows(4, key_heads, d_k) },
        values: bias_rows(5, key_heads, d_v),
        output,
    });
    MultiHeadWeights { queries, keys: of_keys, values, output, biases }
}

fn of_head(head: usize, which: u32) -> MatrixId {
    MatrixId(FIRST_HEAD + 8 * head as u32 + which)
}

/// A matrix of `rows` rows of i.i.d. entries of that variance in the place of `data`, filled column by column (as it lies
/// in memory).
pub(in crate::experiment) fn scaled(
    entries: Entries,
    stream: &TrialStream,
    matrix: MatrixId,
    rows: usize,
    variance: f64,
    mut data: Vec<f64>,
) -> DMatrix<f64> {
    fill(entries, stream, matrix, 0, rows, &mut data);
    if variance != 1.0 {
        let deviation = variance.sqrt();
        data.iter_mut().for_each(|entry| *entry *= deviation);
    }
    DMatrix::from_vec(rows, data.len() / rows, data)
}

fn row(column: DMatrix<f64>) -> RowDVector<f64> {
    RowDVector::from_vec(column.as_slice().to_vec())
}
