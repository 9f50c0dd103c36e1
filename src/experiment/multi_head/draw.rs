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

/// A source of tokens and weights; tests pass faulty ones.
pub trait DrawLayer: Sync {
    /// The draw that `stream` names: X n×d_model and, from another source, Y m×d_model, entries of variance 1; projections
    /// of variance 1/d_model, W_o of variance 1/(h·d_v), biases of the variance of their matrix.
    fn draw(&self, stream: &TrialStream, layer: &Layer, sizes: Sizes, source: KeySource) -> LayerDraw;
}

impl DrawLayer for Entries {
    fn draw(&self, stream: &TrialStream, layer: &Layer, sizes: Sizes, source: KeySource) -> LayerDraw {
        let &Layer { d_model, heads, key_heads, d_k, d_v, keys, bias } = layer;
        let draw = |matrix, rows, columns, variance: f64| scaled(*self, stream, matrix, (rows, columns), variance);
        let projection = |which: u32, count: usize, columns: usize| -> Vec<DMatrix<f64>> {
            let one = |head: usize| draw(of_head(head, which), d_model, columns, 1.0 / d_model as f64);
            (0..count).map(one).collect()
        };
        let bias_row = |which: u32, count: usize, width: usize| -> Vec<RowDVector<f64>> {
            let one = |head: usize| row(draw(of_head(head, which), width, 1, 1.0 / d_model as f64));
            (0..count).map(one).collect()
        };
        let of_output = 1.0 / (heads * d_v) as f64;
        let biases = (bias == Bias::Drawn).then(|| Biases {
            queries: bias_row(3, heads, d_k),
            keys: if keys == KeyWeights::Tied { Vec::new() } else { bias_row(4, key_heads, d_k) },
            values: bias_row(5, key_heads, d_v),
            output: row(draw(OUTPUT_BIAS, d_model, 1, of_output)),
        });
        LayerDraw {
            weights: MultiHeadWeights {
                queries: projection(0, heads, d_k),
                keys: match keys {
                    KeyWeights::Separate => KeyProjections::Separate(projection(1, key_heads, d_k)),
                    KeyWeights::Tied => KeyProjections::Tied,
                },
                values: projection(2, key_heads, d_v),
                output: draw(OUTPUT, heads * d_v, d_model, of_output),
                biases,
            },
            queries_from: draw(MatrixId::INPUTS, sizes.queries, d_model, 1.0),
            keys_from: (source == KeySource::OtherTokens).then(|| draw(KEY_SOURCE, sizes.keys, d_model, 1.0)),
        }
    }
}

fn of_head(head: usize, which: u32) -> MatrixId {
    MatrixId(FIRST_HEAD + 8 * head as u32 + which)
}

/// A matrix of i.i.d. entries of that variance, filled column by column (as it lies in memory).
pub(in crate::experiment) fn scaled(
    entries: Entries,
    stream: &TrialStream,
    matrix: MatrixId,
    (rows, columns): (usize, usize),
    variance: f64,
) -> DMatrix<f64> {
    let mut data = vec![0.0; rows * columns];
    fill(entries, stream, matrix, 0, rows, &mut data);
    if variance != 1.0 {
        let deviation = variance.sqrt();
        data.iter_mut().for_each(|entry| *entry *= deviation);
    }
    DMatrix::from_vec(rows, columns, data)
}

fn row(column: DMatrix<f64>) -> RowDVector<f64> {
    RowDVector::from_vec(column.as_slice().to_vec())
}
