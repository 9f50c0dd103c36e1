//! The definition of attention by plain matrix products: slow, small, and the yardstick of the
//! fast path (`attention::kernel`).
//!
//! Vaswani et al., *Attention Is All You Need*, 2017, equation 1: softmax(c·Q Kᵀ) V, the softmax
//! over the keys of each query. Everything is f64 and held in memory at once.

use nalgebra::DMatrix;

use super::product::product;

/// What attention gives, and what it had to leave out.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// n × m; each row sums to 1, or is zero if its query sees no key.
    pub weights: DMatrix<f64>,
    /// n × d_v: weights · values.
    pub output: DMatrix<f64>,
    /// Queries that see no key: their weights and output are zero, never 0/0.
    pub queries_without_keys: usize,
}

/// Logits S = scale · Q Kᵀ, n × m.
///
/// `queries` is n × d_k and `keys` m × d_k, one token per row.
///
/// # Panics
/// If queries and keys differ in their number of columns d_k.
pub fn logits(queries: &DMatrix<f64>, keys: &DMatrix<f64>, scale: f64) -> DMatrix<f64> {
    assert_eq!(queries.ncols(), keys.ncols(), "queries and keys differ in depth");
    product(queries, &keys.transpose()) * scale
}

/// Scaled dot-product attention.
///
/// `queries` is n × d_k, `keys` m × d_k, `values` m × d_v. `visible`, where given, is n × m: a
/// weight is exactly 0 where it is `false`, and the softmax is taken over the other keys. Entries
/// are expected to be finite; a logit that is not (an overflow, say) makes its row NaN, except that −∞
/// counts as a key that is not seen.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// use attn::attention::reference::scaled_dot_product_attention;
/// use nalgebra::dmatrix;
///
/// // Logits ln 3 and 0 give weights 3/4 and 1/4.
/// let attention = scaled_dot_product_attention(
///     &dmatrix![3_f64.ln()], &dmatrix![1.0; 0.0], &dmatrix![8.0; 4.0], 1.0, None,
/// );
/// assert!((attention.output[(0, 0)] - 7.0).abs() < 1e-14);
/// ```
pub fn scaled_dot_product_attention(
    queries: &DMatrix<f64>,
    keys: &DMatrix<f64>,
    values: &DMatrix<f64>,
    scale: f64,
    visible: Option<&DMatrix<bool>>,
) -> Attention {
    assert_eq!(keys.nrows(), values.nrows(), "keys and values differ in number");
    let mut weights = logits(queries, keys, scale);
    if let Some(visible) = visible {
        assert_eq!(visible.shape(), weights.shape(), "the mask is not queries by keys");
        weights.zip_apply(visible, |logit, seen| {
            if !seen {
                *logit = f64::NEG_INFINITY;
            }
        });
    }
    let queries_without_keys = softmax_rows(&mut weights);
    let output = product(&weights, values);
    Attention { weights, output, queries_without_keys }
}

/// Replaces each row of logits by its softmax, shifted by the row's maximum so that no exponential
/// overflows. A row without a logit above −∞ becomes zero; how many there were is returned.
fn softmax_rows(logits: &mut DMatrix<f64>) -> usize {
    let mut rows_without_keys = 0;
    for mut row in logits.row_iter_mut() {
        let maximum = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if row.iter().all(|&logit| logit == f64::NEG_INFINITY) {
            rows_without_keys += 1;
            row.fill(0.0);
            continue;
        }
        row.apply(|logit| *logit = (*logit - maximum).exp());
        let sum = row.sum();
        row.apply(|weight| *weight /= sum);
    }
    rows_without_keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::dmatrix;

    /// Entry by entry, so that NaN fails: nalgebra's `amax` passes over it.
    fn assert_close(found: &DMatrix<f64>, expected: &DMatrix<f64>, tolerance: f64) {
        assert_eq!(found.shape(), expected.shape());
        let mut pairs = found.iter().zip(expected.iter());
        assert!(pairs.all(|(a, b)| (a - b).abs() < tolerance), "{found} for {expected}");
    }

    #[test]
    fn logits_are_scaled_products_of_rows() {
        // By hand; 2, 3 and 5 so that a swapped axis shows.
        let queries = dmatrix![1.0, 2.0, -1.0, 0.0, 3.0; 0.0, -2.0, 5.0, 1.0, 1.0];
        let keys = dmatrix![
            2.0, 1.0, 0.0, 7.0, -1.0;
            1.0, 1.0, 1.0, 1.0, 1.0;
            0.0, 3.0, -2.0, 5.0, 0.0
        ];
        assert_eq!(logits(&queries, &keys, 0.5), dmatrix![0.5, 2.5, 4.0; 2.0, 2.5, -5.5]);
    }

    #[test]
    fn weights_follow_the_closed_form_of_two_keys_in_each_row() {
        // Logits ln 3, 0 and 0, ln 7: weights 3/4, 1/4 and 1/8, 7/8 exactly, up to a few roundings.
        let queries = dmatrix![3_f64.ln(), 0.0; 0.0, 7_f64.ln()] * 2.0;
        let attention = scaled_dot_product_attention(
            &queries,
            &DMatrix::identity(2, 2),
            &dmatrix![8.0, 0.0, 1.0; 0.0, 16.0, 1.0],
            0.5,
            None,
        );
        let weights = dmatrix![0.75, 0.25; 0.125, 0.875];
        let output = dmatrix![6.0, 4.0, 1.0; 1.0, 14.0, 1.0];
        assert_close(&attention.weights, &weights, 4.0 * f64::EPSILON);
        assert_close(&attention.output, &output, 64.0 * f64::EPSILON);
        assert_eq!(attention.queries_without_keys, 0);
    }

    #[test]
    fn a_hidden_key_has_no_weight_and_the_others_share_the_row() {
        let visible = dmatrix![true, false, true; false, false, false];
        let attention = scaled_dot_product_attention(
            &dmatrix![1.0; 1.0],
            &dmatrix![0.0; 900.0; 0.0],
            &dmatrix![2.0; f64::MAX; 4.0],
            1.0,
            Some(&visible),
        );
        assert_eq!(attention.weights, dmatrix![0.5, 0.0, 0.5; 0.0, 0.0, 0.0]);
        assert_eq!(attention.output, dmatrix![3.0; 0.0]);
        assert_eq!(attention.queries_without_keys, 1);
    }

    #[test]
    fn logits_beyond_the_range_of_exp_still_give_weights() {
        // Negative logits throughout: a maximum that started at 0 would give 0/0.
        let keys = dmatrix![-1000.0; -1000.0 - 2_f64.ln()];
        let attention = scaled_dot_product_attention(&dmatrix![1.0; -1.0], &keys, &dmatrix![1.0; 1.0], 1.0, None);
        // The argument of exp carries half an ulp of 1000, 6e-14.
        let expected = dmatrix![2.0 / 3.0, 1.0 / 3.0; 1.0 / 3.0, 2.0 / 3.0];
        assert_close(&attention.weights, &expected, 6e-14);
    }

    #[test]
    fn no_key_at_all_is_a_row_without_keys() {
        let none = DMatrix::zeros(0, 3);
        let attention = scaled_dot_product_attention(&DMatrix::zeros(2, 3), &none, &DMatrix::zeros(0, 5), 1.0, None);
        assert_eq!(attention.output, DMatrix::zeros(2, 5));
        assert_eq!(attention.queries_without_keys, 2);
    }

    #[test]
    fn a_nan_logit_is_not_hidden() {
        let attention =
            scaled_dot_product_attention(&dmatrix![f64::NAN], &dmatrix![1.0; 2.0], &dmatrix![1.0; 1.0], 1.0, None);
        assert!(attention.weights.iter().all(|weight| weight.is_nan()));
        assert_eq!(attention.queries_without_keys, 0);
    }

    #[test]
    #[should_panic(expected = "differ in depth")]
    fn queries_and_keys_of_different_depth_are_refused() {
        logits(&DMatrix::zeros(2, 3), &DMatrix::zeros(5, 7), 1.0);
    }
}
