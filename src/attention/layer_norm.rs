//! Layer normalisation (Ba, Kiros & Hinton 2016).

use nalgebra::{DMatrix, RowDVector};

/// Each token x (a row of width d) becomes gain ∘ (x − μ)/√(σ² + ε) + shift, with μ = (1/d) Σ x and σ² = (1/d) Σ (x − μ)²: the
/// divisor is d, not d − 1. With gain 1 and shift 0 a token has mean 0 and variance σ²/(σ² + ε) after it. Width at least 1.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNorm {
    /// Length d.
    pub gain: RowDVector<f64>,
    /// Length d.
    pub shift: RowDVector<f64>,
    /// ε, added to the variance, in its unit; not negative.
    pub epsilon: f64,
}

/// Tokens after normalisation, and their variance before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalised {
    /// n×d.
    pub output: DMatrix<f64>,
    /// σ² of each token before, n of them, divisor d.
    pub variances: Vec<f64>,
}

impl LayerNorm {
    /// Gain 1, shift 0.
    pub fn standard(width: usize, epsilon: f64) -> Self {
        Self { gain: RowDVector::from_element(width, 1.0), shift: RowDVector::zeros(width), epsilon }
    }

    /// Normalises each row of `tokens`, n×d.
    ///
    /// # Panics
    /// If the width is not that of the gain.
    pub fn apply(&self, tokens: &DMatrix<f64>) -> Normalised {
        let (mut output, variances) = self.standardised(tokens);
        for mut row in output.row_iter_mut() {
            row.component_mul_assign(&self.gain);
            row += &self.shift;
        }
        Normalised { output, variances }
    }

    /// The derivative at `tokens` along `change`, both n×d: with y = (x − μ)/√(σ² + ε) and x′ the change,
    /// gain ∘ (x′ − mean x′ − y·mean(y ∘ x′))/√(σ² + ε).
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn change(&self, tokens: &DMatrix<f64>, change: &DMatrix<f64>) -> DMatrix<f64> {
        assert_eq!(tokens.shape(), change.shape(), "a change for each entry");
        let (standardised, variances) = self.standardised(tokens);
        let width = tokens.ncols() as f64;
        let mut result = change.clone();
        for (index, mut row) in result.row_iter_mut().enumerate() {
            let y = standardised.row(index);
            let (mean, along) = (row.sum() / width, y.dot(&row) / width);
            row.add_scalar_mut(-mean);
            row -= y * along;
            row /= (variances[index] + self.epsilon).sqrt();
            row.component_mul_assign(&self.gain);
        }
        result
    }

    /// (x − μ)/√(σ² + ε) and σ².
    fn standardised(&self, tokens: &DMatrix<f64>) -> (DMatrix<f64>, Vec<f64>) {
        assert_eq!(tokens.ncols(), self.gain.len(), "tokens are as wide as the gain");
        let width = tokens.ncols() as f64;
        let mut output = tokens.clone();
        let mut variances = Vec::with_capacity(tokens.nrows());
        for mut row in output.row_iter_mut() {
            let mean = row.sum() / width;
            row.add_scalar_mut(-mean);
            // About the mean: Σx² − dμ² would cancel for tokens far from 0.
            let variance = row.norm_squared() / width;
            row /= (variance + self.epsilon).sqrt();
            variances.push(variance);
        }
        (output, variances)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::dmatrix;

    use super::*;

    #[test]
    fn a_token_is_normalised_by_the_divisor_d() {
        // By hand: mean 3, σ² = (4 + 1 + 9)/3 = 14/3; ε makes it 5.
        let norm = LayerNorm {
            gain: RowDVector::from_vec(vec![1.0, 2.0, 1.0]),
            shift: RowDVector::from_vec(vec![0.0, 0.0, 10.0]),
            epsilon: 1.0 / 3.0,
        };
        let found = norm.apply(&dmatrix![1.0, 2.0, 6.0]);
        let root = 5f64.sqrt();
        let expected = dmatrix![-2.0 / root, -2.0 / root, 3.0 / root + 10.0];
        assert!((found.output - expected).amax() < 1e-15);
        assert!((found.variances[0] - 14.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn a_token_without_variance_becomes_the_shift() {
        let found = LayerNorm::standard(2, 1e-5).apply(&dmatrix![7.0, 7.0]);
        assert_eq!((found.output, found.variances), (dmatrix![0.0, 0.0], vec![0.0]));
    }

    #[test]
    fn a_token_far_from_0_keeps_its_digits() {
        // Steps of 1 at 2^40 are exact; the naive Σx² − dμ² is not.
        let far = 2f64.powi(40);
        let found = LayerNorm::standard(3, 0.0).apply(&dmatrix![far, far + 1.0, far + 2.0]);
        assert_eq!(found.variances, [2.0 / 3.0]);
    }
}
