//! Multi-head attention (Vaswani et al., *Attention Is All You Need*, 2017, section 3.2.2).
//!
//! head_i = softmax(c·(X W_q,i)(Y W_k,i)ᵀ) (Y W_v,i) and output = \[head_1 … head_h\] W_o, with the n queries taken from X
//! (n×d_model) and the m keys and values from Y (m×d_model): Y = X in self-attention, another source in cross-attention.
//! The matrices and their shapes, h heads and h_kv ≤ h heads of keys and values:
//!
//! | matrix | how many | shape |
//! |---|---|---|
//! | W_q,i | h | d_model × d_k |
//! | W_k,i | h_kv; none where tied to W_q,i | d_model × d_k |
//! | W_v,i | h_kv | d_model × d_v |
//! | W_o | 1 | h·d_v × d_model |
//!
//! With h_kv = h these are 3h + 1. No shape holds n or m: the same matrices serve any number of tokens. With h_kv < h each
//! head of keys and values serves h/h_kv successive heads of queries (Ainslie et al., *GQA*, 2023; h_kv = 1 is Shazeer's
//! multi-query attention, 2019). Everything is f64; a token is a row.

use nalgebra::{DMatrix, RowDVector};

use super::mask::Mask;
use super::product::product;
use super::reference::{self, Attention};

/// Where the projections of the keys come from.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyProjections {
    /// Matrices of their own, h_kv of d_model×d_k.
    Separate(Vec<DMatrix<f64>>),
    /// W_k,i = W_q,i: in self-attention the logits of a head are then symmetric. Needs h_kv = h.
    Tied,
}

/// What is added to each row of a projection: X W + 1bᵀ.
#[derive(Debug, Clone, PartialEq)]
pub struct Biases {
    /// h of length d_k.
    pub queries: Vec<RowDVector<f64>>,
    /// h_kv of length d_k; those of the queries take their place where the keys are tied.
    pub keys: Vec<RowDVector<f64>>,
    /// h_kv of length d_v.
    pub values: Vec<RowDVector<f64>>,
    /// Length d_model.
    pub output: RowDVector<f64>,
}

/// The weights of one layer of multi-head attention; shapes in the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiHeadWeights {
    /// W_q,1 … W_q,h.
    pub queries: Vec<DMatrix<f64>>,
    /// W_k,1 … W_k,h_kv.
    pub keys: KeyProjections,
    /// W_v,1 … W_v,h_kv.
    pub values: Vec<DMatrix<f64>>,
    /// W_o.
    pub output: DMatrix<f64>,
    /// Biases of all projections, or none.
    pub biases: Option<Biases>,
}

/// Queries, keys and values of every head.
#[derive(Debug, Clone, PartialEq)]
pub struct Heads {
    /// h of n×d_k.
    pub queries: Vec<DMatrix<f64>>,
    /// h_kv of m×d_k.
    pub keys: Vec<DMatrix<f64>>,
    /// h_kv of m×d_v.
    pub values: Vec<DMatrix<f64>>,
}

/// What multi-head attention gives.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiHeadOutput {
    /// n×d_model.
    pub output: DMatrix<f64>,
    /// Weights and output of each head, h of them.
    pub heads: Vec<Attention>,
}

/// One matrix of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedShape {
    /// For example `W_q,3` (heads count from 1) or `W_o`.
    pub name: String,
    /// Rows: d_model, or h·d_v for W_o.
    pub rows: usize,
    /// Columns: d_k, d_v, or d_model for W_o.
    pub columns: usize,
}

impl MultiHeadWeights {
    /// Number of heads of queries, h.
    pub fn heads(&self) -> usize {
        self.queries.len()
    }

    /// Number of heads of keys and values, h_kv.
    pub fn key_heads(&self) -> usize {
        self.values.len()
    }

    /// The matrices W_k,i, whether separate or tied.
    pub fn key_matrices(&self) -> &[DMatrix<f64>] {
        match &self.keys {
            KeyProjections::Separate(matrices) => matrices,
            KeyProjections::Tied => &self.queries,
        }
    }

    /// Every distinct matrix with its shape: h + 2h_kv + 1 of them (3h + 1 for h_kv = h), one set fewer where keys are tied.
    pub fn matrices(&self) -> Vec<NamedShape> {
        let keys: &[DMatrix<f64>] = match &self.keys {
            KeyProjections::Separate(matrices) => matrices,
            KeyProjections::Tied => &[],
        };
        let numbered = |symbol: &'static str, matrices: &[DMatrix<f64>]| {
            let shape = |(index, matrix): (usize, &DMatrix<f64>)| NamedShape {
                name: format!("{symbol},{}", index + 1),
                rows: matrix.nrows(),
                columns: matrix.ncols(),
            };
            matrices.iter().enumerate().map(shape).collect::<Vec<_>>()
        };
        let mut shapes = numbered("W_q", &self.queries);
        shapes.extend(numbered("W_k", keys));
        shapes.extend(numbered("W_v", &self.values));
        shapes.push(NamedShape { name: "W_o".into(), rows: self.output.nrows(), columns: self.output.ncols() });
        shapes
    }

    /// Numbers that are learned: the entries of all distinct matrices and biases.
    pub fn parameters(&self) -> usize {
        let entries: usize = self.matrices().iter().map(|shape| shape.rows * shape.columns).sum();
        let of_biases = self.biases.as_ref().map_or(0, |biases| {
            let keys = if self.keys == KeyProjections::Tied { 0 } else { length(&biases.keys) };
            length(&biases.queries) + keys + length(&biases.values) + biases.output.len()
        });
        entries + of_biases
    }

    /// The same layer without biases for sources with a column of ones ([`with_ones`]): each bias becomes the last row of
    /// its projection. The output's bias has no such column to stand on and stays.
    ///
    /// # Panics
    /// If there are no biases.
    pub fn with_biases_as_rows(&self) -> ProjectionsOfOnes {
        let biases = self.biases.as_ref().expect("only biases can become rows");
        let below = |matrices: &[DMatrix<f64>], rows: &[RowDVector<f64>]| {
            let one = |(matrix, row): (&DMatrix<f64>, &RowDVector<f64>)| {
                let mut extended = matrix.clone().insert_row(matrix.nrows(), 0.0);
                extended.set_row(matrix.nrows(), row);
                extended
            };
            matrices.iter().zip(rows).map(one).collect::<Vec<_>>()
        };
        let keys = match &self.keys {
            KeyProjections::Separate(matrices) => below(matrices, &biases.keys),
            KeyProjections::Tied => below(&self.queries, &biases.queries),
        };
        ProjectionsOfOnes {
            queries: below(&self.queries, &biases.queries),
            keys,
            values: below(&self.values, &biases.values),
        }
    }

    /// Panics where the shapes do not fit each other; returns d_model.
    fn assert_shapes(&self) -> usize {
        let (heads, key_heads) = (self.heads(), self.key_heads());
        assert!(heads > 0 && key_heads > 0 && heads.is_multiple_of(key_heads), "{heads} heads over {key_heads}");
        let tied = self.keys == KeyProjections::Tied;
        assert!(!tied || key_heads == heads, "tied keys need as many heads of keys as of queries");
        assert_eq!(self.key_matrices().len(), key_heads, "keys and values differ in their number of heads");
        let (d_model, d_k) = self.queries[0].shape();
        let d_v = self.values[0].ncols();
        let queries_and_keys = self.queries.iter().chain(self.key_matrices());
        assert!(queries_and_keys.into_iter().all(|w| w.shape() == (d_model, d_k)), "W_q and W_k are d_model by d_k");
        assert!(self.values.iter().all(|w| w.shape() == (d_model, d_v)), "W_v is d_model by d_v");
        assert_eq!(self.output.shape(), (heads * d_v, d_model), "W_o is h·d_v by d_model");
        if let Some(biases) = &self.biases {
            let fits = |rows: &[RowDVector<f64>], count, width| {
                rows.len() == count && rows.iter().all(|row| row.len() == width)
            };
            assert!(fits(&biases.queries, heads, d_k), "each query bias has d_k entries");
            assert!(tied || fits(&biases.keys, key_heads, d_k), "each key bias has d_k entries");
            assert!(fits(&biases.values, key_heads, d_v), "each value bias has d_v entries");
            assert_eq!(biases.output.len(), d_model, "the output bias has d_model entries");
        }
        d_model
    }

    /// Queries, keys and values of every head: X W_q,i (+ bias), Y W_k,i, Y W_v,i.
    ///
    /// `queries_from` is X, n×d_model; `keys_from` is Y, m×d_model.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn project(&self, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>) -> Heads {
        self.project_with(queries_from, keys_from, self.biases.as_ref())
    }

    /// The same without biases: the derivative of [`MultiHeadWeights::project`] along changes of X and Y.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn project_change(&self, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>) -> Heads {
        self.project_with(queries_from, keys_from, None)
    }

    fn project_with(&self, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>, biases: Option<&Biases>) -> Heads {
        let d_model = self.assert_shapes();
        assert_eq!(queries_from.ncols(), d_model, "the queries' source has d_model columns");
        assert_eq!(keys_from.ncols(), d_model, "the keys' source has d_model columns");
        let of_keys = match self.keys {
            KeyProjections::Separate(_) => biases.map(|biases| &biases.keys[..]),
            KeyProjections::Tied => biases.map(|biases| &biases.queries[..]),
        };
        Heads {
            queries: projections(queries_from, &self.queries, biases.map(|biases| &biases.queries[..])),
            keys: projections(keys_from, self.key_matrices(), of_keys),
            values: projections(keys_from, &self.values, biases.map(|biases| &biases.values[..])),
        }
    }

    /// \[head_1 … head_h\] W_o (+ bias), n×d_model, from the heads' outputs (h of n×d_v).
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn combine(&self, heads: &[DMatrix<f64>]) -> DMatrix<f64> {
        let mut output = self.combine_change(heads);
        if let Some(biases) = &self.biases {
            output.row_iter_mut().for_each(|mut row| row += &biases.output);
        }
        output
    }

    /// The same without the bias: the derivative of [`MultiHeadWeights::combine`] along changes of the heads' outputs.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn combine_change(&self, heads: &[DMatrix<f64>]) -> DMatrix<f64> {
        assert_eq!(heads.len(), self.heads(), "one output for each head");
        let d_v = self.output.nrows() / self.heads();
        let mut joined = DMatrix::zeros(heads[0].nrows(), self.output.nrows());
        for (index, head) in heads.iter().enumerate() {
            joined.columns_mut(index * d_v, d_v).copy_from(head);
        }
        product(&joined, &self.output)
    }
}

/// Projections that expect a last column of ones in their source: (d_model + 1)×d_k or ×d_v each.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectionsOfOnes {
    /// h matrices.
    pub queries: Vec<DMatrix<f64>>,
    /// h_kv matrices.
    pub keys: Vec<DMatrix<f64>>,
    /// h_kv matrices.
    pub values: Vec<DMatrix<f64>>,
}

impl ProjectionsOfOnes {
    /// As [`MultiHeadWeights::project`], for sources of d_model columns that get their column of ones here.
    pub fn project(&self, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>) -> Heads {
        let (queries_from, keys_from) = (with_ones(queries_from), with_ones(keys_from));
        Heads {
            queries: projections(&queries_from, &self.queries, None),
            keys: projections(&keys_from, &self.keys, None),
            values: projections(&keys_from, &self.values, None),
        }
    }
}

impl Heads {
    /// The head of keys and values that serves head `head` of the queries.
    pub fn key_head(&self, head: usize) -> usize {
        head / (self.queries.len() / self.keys.len())
    }

    /// Logits of head `head` (from 0), n×m: scale·Q_i K_iᵀ.
    pub fn logits(&self, head: usize, scale: f64) -> DMatrix<f64> {
        reference::logits(&self.queries[head], &self.keys[self.key_head(head)], scale)
    }

    /// Attention of head `head` (from 0) over its keys and values.
    pub fn attend(&self, head: usize, scale: f64, mask: Option<&Mask>) -> Attention {
        let visible = mask.map(|mask| DMatrix::from_fn(mask.queries(), mask.keys(), |i, j| mask.is_visible(i, j)));
        let (queries, of_keys) = (&self.queries[head], self.key_head(head));
        let (keys, values) = (&self.keys[of_keys], &self.values[of_keys]);
        reference::scaled_dot_product_attention(queries, keys, values, scale, visible.as_ref())
    }
}

/// Multi-head attention: `queries_from` is X (n×d_model), `keys_from` is Y (m×d_model), `scale` the factor on Q Kᵀ (1/√d_k
/// in the source), `mask` n×m. A query that sees no key has a zero row in every head.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// use attn::attention::multi_head::{KeyProjections, MultiHeadWeights, multi_head_attention};
/// use nalgebra::{DMatrix, dmatrix};
///
/// // One head, all projections the identity: logits ln 3 and 0 give weights 3/4 and 1/4.
/// let one = || DMatrix::identity(1, 1);
/// let weights = MultiHeadWeights {
///     queries: vec![one()], keys: KeyProjections::Separate(vec![one()]), values: vec![one()], output: one(), biases: None,
/// };
/// assert_eq!(weights.matrices().len(), 3 * 1 + 1);
/// let attention = multi_head_attention(&weights, &dmatrix![3_f64.ln()], &dmatrix![1.0; 0.0], 1.0, None);
/// assert!((attention.output[(0, 0)] - 0.75).abs() < 1e-14);
/// ```
pub fn multi_head_attention(
    weights: &MultiHeadWeights,
    queries_from: &DMatrix<f64>,
    keys_from: &DMatrix<f64>,
    scale: f64,
    mask: Option<&Mask>,
) -> MultiHeadOutput {
    let projected = weights.project(queries_from, keys_from);
    let heads: Vec<Attention> = (0..weights.heads()).map(|head| projected.attend(head, scale, mask)).collect();
    let outputs: Vec<DMatrix<f64>> = heads.iter().map(|head| head.output.clone()).collect();
    MultiHeadOutput { output: weights.combine(&outputs), heads }
}

/// A multi-head attention that is under test; tests pass faulty ones.
pub trait MultiHead: Sync {
    /// Queries, keys and values of every head, as [`MultiHeadWeights::project`].
    fn project(&self, weights: &MultiHeadWeights, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>) -> Heads;

    /// Attention of one head, as [`Heads::attend`] without a mask.
    fn attend(&self, heads: &Heads, head: usize, scale: f64) -> Attention;
}

/// Multi-head attention as this file defines it.
#[derive(Debug, Clone, Copy)]
pub struct StandardMultiHead;

impl MultiHead for StandardMultiHead {
    fn project(&self, weights: &MultiHeadWeights, queries_from: &DMatrix<f64>, keys_from: &DMatrix<f64>) -> Heads {
        weights.project(queries_from, keys_from)
    }

    fn attend(&self, heads: &Heads, head: usize, scale: f64) -> Attention {
        heads.attend(head, scale, None)
    }
}

/// X with a last column of ones, n×(d_model + 1).
pub fn with_ones(source: &DMatrix<f64>) -> DMatrix<f64> {
    source.clone().insert_column(source.ncols(), 1.0)
}

/// source·W + 1bᵀ for each matrix.
fn projections(
    source: &DMatrix<f64>,
    matrices: &[DMatrix<f64>],
    biases: Option<&[RowDVector<f64>]>,
) -> Vec<DMatrix<f64>> {
    let one = |(index, matrix): (usize, &DMatrix<f64>)| {
        let mut projected = product(source, matrix);
        if let Some(biases) = biases {
            projected.row_iter_mut().for_each(|mut row| row += &biases[index]);
        }
        projected
    };
    matrices.iter().enumerate().map(one).collect()
}

fn length(rows: &[RowDVector<f64>]) -> usize {
    rows.iter().map(|row| row.len()).sum()
}

#[cfg(test)]
#[path = "multi_head_tests.rs"]
mod tests;
