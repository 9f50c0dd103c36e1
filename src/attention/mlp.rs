//! The position-wise feed-forward network of a transformer block (Vaswani et al. 2017, section 3.3).

use nalgebra::{DMatrix, RowDVector};

use super::product::product;

/// MLP(x) = max(0, x W₁ + b₁) W₂ + b₂ on each token.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// W₁, d_model×d_ff.
    pub first: DMatrix<f64>,
    /// b₁, length d_ff.
    pub first_bias: RowDVector<f64>,
    /// W₂, d_ff×d_model.
    pub second: DMatrix<f64>,
    /// b₂, length d_model.
    pub second_bias: RowDVector<f64>,
}

impl Mlp {
    /// The network on each row of `tokens`, n×d_model.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn apply(&self, tokens: &DMatrix<f64>) -> DMatrix<f64> {
        let mut output = product(&self.hidden(tokens).map(|x| if x < 0.0 { 0.0 } else { x }), &self.second);
        output.row_iter_mut().for_each(|mut row| row += &self.second_bias);
        output
    }

    /// The derivative at `tokens` along `change`, both n×d_model; 0 is taken where a hidden unit is at its kink.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn change(&self, tokens: &DMatrix<f64>, change: &DMatrix<f64>) -> DMatrix<f64> {
        let mut hidden = product(change, &self.first);
        hidden.zip_apply(&self.hidden(tokens), |change, x| {
            if x <= 0.0 {
                *change = 0.0;
            }
        });
        product(&hidden, &self.second)
    }

    fn hidden(&self, tokens: &DMatrix<f64>) -> DMatrix<f64> {
        let mut hidden = product(tokens, &self.first);
        hidden.row_iter_mut().for_each(|mut row| row += &self.first_bias);
        hidden
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dmatrix;

    use super::*;

    #[test]
    fn negative_hidden_units_are_cut_and_nan_is_not_hidden() {
        let mlp = Mlp {
            first: dmatrix![1.0, -1.0],
            first_bias: RowDVector::from_vec(vec![0.5, 0.0]),
            second: dmatrix![2.0; 3.0],
            second_bias: RowDVector::from_vec(vec![0.25]),
        };
        // 2·2.5 + 0.25 and 3·1 + 0.25; slopes 2 and −3.
        assert_eq!(mlp.apply(&dmatrix![2.0; -1.0]), dmatrix![5.25; 3.25]);
        assert_eq!(mlp.change(&dmatrix![2.0; -1.0], &dmatrix![1.0; 1.0]), dmatrix![2.0; -3.0]);
        assert!(mlp.apply(&dmatrix![f64::NAN])[(0, 0)].is_nan());
    }
}
