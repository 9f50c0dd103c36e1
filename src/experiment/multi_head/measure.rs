//! What one trial of multi-head attention measures, from its logits.

use nalgebra::DMatrix;

use crate::attention::multi_head::{Heads, KeyProjections, MultiHeadWeights};

/// The pairs (i, j) whose logits are claims: in self-attention those of different tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    DifferentTokens,
    All,
}

impl Pairs {
    fn count(self, logits: &DMatrix<f64>) -> f64 {
        let (n, m) = logits.shape();
        match self {
            Self::DifferentTokens => n as f64 * (m as f64 - 1.0),
            Self::All => n as f64 * m as f64,
        }
    }

    fn mean(self, logits: &DMatrix<f64>, mut value: impl FnMut(usize, usize) -> f64) -> f64 {
        let (n, m) = logits.shape();
        let mut sum = 0.0;
        for j in 0..m {
            for i in 0..n {
                if self == Self::All || i != j {
                    sum += value(i, j);
                }
            }
        }
        sum / self.count(logits)
    }
}

/// Mean of the logits over `pairs`, and their mean square about `center`.
pub(super) fn moments(logits: &DMatrix<f64>, pairs: Pairs, center: f64) -> (f64, f64) {
    let mean = pairs.mean(logits, |i, j| logits[(i, j)]);
    (mean, pairs.mean(logits, |i, j| (logits[(i, j)] - center).powi(2)))
}

/// Mean over heads and pairs i ≠ j of (S_ij − center)(S_ji − center).
pub(super) fn transpose_products(heads: &[DMatrix<f64>], center: f64) -> f64 {
    let of_head = |logits: &DMatrix<f64>| {
        Pairs::DifferentTokens.mean(logits, |i, j| (logits[(i, j)] - center) * (logits[(j, i)] - center))
    };
    heads.iter().map(of_head).sum::<f64>() / heads.len() as f64
}

/// Mean over the pairs of heads and over `pairs` of (S_ij − center)(S′_ij − center): [(Σ_a)² − Σ_a²] over heads a.
pub(super) fn head_products(heads: &[DMatrix<f64>], pairs: Pairs, center: f64) -> f64 {
    let count = heads.len() as f64;
    let of_pair = |i: usize, j: usize| {
        let centred = || heads.iter().map(|logits| logits[(i, j)] - center);
        (centred().sum::<f64>().powi(2) - centred().map(|x| x * x).sum::<f64>()) / (count * (count - 1.0))
    };
    pairs.mean(&heads[0], of_pair)
}

/// Mean over heads of the mean S_ii.
pub(super) fn diagonal_mean(heads: &[DMatrix<f64>]) -> f64 {
    heads.iter().map(|logits| logits.diagonal().mean()).sum::<f64>() / heads.len() as f64
}

/// Largest |S_ij − S_ji| over the size of its terms ([`Sizes`]).
pub(super) fn asymmetry(heads: &[DMatrix<f64>], sizes: &Sizes) -> f64 {
    largest(heads.len(), heads[0].shape(), |head, i, j| {
        (heads[head][(i, j)] - heads[head][(j, i)]).abs() / sizes.of(head, i, j)
    })
}

/// Largest |S_ij − S′_ij| over the size of its terms, over the entries of `others`: the logits of the first tokens.
pub(super) fn difference(heads: &[DMatrix<f64>], others: &[DMatrix<f64>], sizes: &Sizes) -> f64 {
    largest(heads.len(), others[0].shape(), |head, i, j| {
        (heads[head][(i, j)] - others[head][(i, j)]).abs() / sizes.of(head, i, j)
    })
}

/// The largest of all values; NaN where one is not a number.
fn largest(heads: usize, (n, m): (usize, usize), value: impl Fn(usize, usize, usize) -> f64) -> f64 {
    let mut largest = 0.0f64;
    for head in 0..heads {
        for (i, j) in (0..n).flat_map(|i| (0..m).map(move |j| (i, j))) {
            let found = value(head, i, j);
            if found.is_nan() {
                return found;
            }
            largest = largest.max(found);
        }
    }
    largest
}

/// |x_i|·‖W_q‖_F·‖W_k‖_F·|y_j| of each logit, at least the sum of the sizes of its terms, Σ |x_ia W_q,ah W_k,bh y_jb|
/// (Cauchy and Schwarz); a bias counts as one more row of its matrix.
pub(super) struct Sizes {
    queries: Vec<f64>,
    keys: Vec<f64>,
    heads: Vec<f64>,
}

impl Sizes {
    pub(super) fn new(
        weights: &MultiHeadWeights,
        projected: &Heads,
        queries_from: &DMatrix<f64>,
        keys_from: &DMatrix<f64>,
    ) -> Self {
        let biases = weights.biases.as_ref();
        let one = if biases.is_some() { 1.0 } else { 0.0 };
        let of_rows =
            |source: &DMatrix<f64>| source.row_iter().map(|row| (row.norm_squared() + one).sqrt()).collect::<Vec<_>>();
        let of_matrix = |matrix: &DMatrix<f64>, bias: Option<f64>| (matrix.norm_squared() + bias.unwrap_or(0.0)).sqrt();
        let of_head = |head: usize| {
            let key_head = projected.key_head(head);
            let query_bias = biases.map(|biases| biases.queries[head].norm_squared());
            let key_bias = match weights.keys {
                KeyProjections::Tied => query_bias,
                KeyProjections::Separate(_) => biases.map(|biases| biases.keys[key_head].norm_squared()),
            };
            of_matrix(&weights.queries[head], query_bias) * of_matrix(&weights.key_matrices()[key_head], key_bias)
        };
        Self {
            queries: of_rows(queries_from),
            keys: of_rows(keys_from),
            heads: (0..weights.heads()).map(of_head).collect(),
        }
    }

    fn of(&self, head: usize, i: usize, j: usize) -> f64 {
        self.queries[i] * self.heads[head] * self.keys[j]
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dmatrix;

    use super::*;

    #[test]
    fn moments_leave_the_diagonal_out_of_self_attention() {
        let logits = dmatrix![100.0, 1.0, 2.0; 3.0, 100.0, 5.0; 7.0, 6.0, 100.0];
        // By hand: 1, 2, 3, 5, 6, 7 have mean 4 and squares about 3 of 4, 1, 0, 4, 9, 16.
        assert_eq!(moments(&logits, Pairs::DifferentTokens, 3.0), (4.0, 34.0 / 6.0));
        assert_eq!(moments(&dmatrix![1.0, 4.0], Pairs::All, 1.0), (2.5, 4.5));
        assert_eq!(diagonal_mean(std::slice::from_ref(&logits)), 100.0);
        // 1·3, 2·7 and 5·6, twice each.
        assert_eq!(transpose_products(&[logits], 0.0), 94.0 / 6.0);
    }

    #[test]
    fn products_of_heads_go_over_all_pairs_of_heads() {
        let heads = [dmatrix![1.0, 2.0], dmatrix![3.0, 4.0], dmatrix![5.0, 7.0]];
        // (1·3 + 1·5 + 3·5)/3 and (2·4 + 2·7 + 4·7)/3.
        assert!((head_products(&heads, Pairs::All, 0.0) - (23.0 + 50.0) / 6.0).abs() < 1e-14);
    }

    #[test]
    fn a_difference_that_is_no_number_is_the_largest() {
        assert!(largest(1, (2, 2), |_, i, _| if i == 1 { f64::NAN } else { 3.0 }).is_nan());
        assert_eq!(largest(1, (2, 3), |_, i, j| (i + 2 * j) as f64), 5.0);
    }
}
