//! Multi-head attention: how many matrices and parameters a layer has, and the moments of its logits.
//!
//! Tokens x_i have D = d_model i.i.d. entries of mean 0 and variance 1, the entries of the projections are i.i.d. of the same
//! law with variance 1/D, and S_ij = (x_i W_q)·(y_j W_k) = x_i A y_jᵀ with A = W_q W_kᵀ (D×D). A bias drawn like a row of W
//! is one more row under a column of ones: x̃ = (x, 1), b = 1; without it b = 0. Over W alone, d = d_k and κ = μ₄ − 3:
//!
//! * W_q and W_k independent: E A = 0, E\[A_ab A_ce\] = δ_ac δ_be·d/D²;
//! * tied, A = W Wᵀ: E A_ab = δ_ab·d/D, E\[A_ab A_ce\] = \[d² δ_ab δ_ce + d(δ_ac δ_be + δ_ae δ_bc) + dκ δ_abce\]/D².
//!
//! Over tokens i ≠ j (or of two sources): E x̃_i·x̃_j = b, E(x̃_i·x̃_j)² = E Σ_a x̃_ia² x̃_ja² = D + b, E|x̃_i|²|x̃_j|² = (D + b)².
//! What follows is exact at every size and for every law with four moments:
//!
//! | | independent | tied |
//! |---|---|---|
//! | E S_ij, i ≠ j | 0 | b·d/D |
//! | Var S_ij, i ≠ j | d(1 + b/D)² | \[d²(D + b) + d(D + b)² + d(1 + κ)(D + b)\]/D² − (b·d/D)² |
//! | E S_ii | 0 | d(1 + b/D) |
//! | Var S_ii, b = 0 | d(1 + (μ₄ − 1)/D) | |
//! | Cov(S_ij, S_ji) | d(D + b)/D² | Var S_ij: S = Sᵀ |
//! | Cov(S_ij, S′_ij) of two heads | 0, also where they share W_k | d²/D |
//!
//! so that b = 0 and independent matrices give E = 0 and Var = d_k, and tied ones d_k(1 + (d_k + 1 + κ)/D): uncorrelated
//! logits and heads are not independent ones, they share x_i and y_j.

use super::entry_moments::standardised_moment;
use crate::sampling::Entries;

/// Whether keys have projections of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyWeights {
    /// W_k is drawn by itself.
    Separate,
    /// W_k = W_q.
    Tied,
}

/// Whether projections have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// None.
    Absent,
    /// Of the law of the projections' entries.
    Drawn,
}

/// The sizes of one layer; every number is at least 1, `key_heads` divides `heads` and equals it where keys are tied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Width of a token, D.
    pub d_model: usize,
    /// Heads of queries, h.
    pub heads: usize,
    /// Heads of keys and values, h_kv.
    pub key_heads: usize,
    /// Width of queries and keys.
    pub d_k: usize,
    /// Width of values.
    pub d_v: usize,
    /// Where keys come from.
    pub keys: KeyWeights,
    /// Biases of all projections.
    pub bias: Bias,
}

/// Moments of raw logits (scale 1) over tokens and weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitMoments {
    /// E S_ij for i ≠ j.
    pub mean: f64,
    /// Var S_ij for i ≠ j.
    pub variance: f64,
    /// E S_ii of self-attention.
    pub diagonal_mean: f64,
    /// Cov(S_ij, S_ji)/Var S_ij of self-attention.
    pub transpose_correlation: f64,
    /// Cov(S_ij, S′_ij)/Var S_ij of two heads.
    pub head_correlation: f64,
}

/// The width that h heads share d_model by, d_model/h; None where h does not divide it.
pub fn width_of_a_head(d_model: usize, heads: usize) -> Option<usize> {
    d_model.is_multiple_of(heads).then_some(d_model / heads)
}

impl Layer {
    /// Distinct weight matrices: h + 2h_kv + 1 (3h + 1 for h_kv = h); tied, 2h + 1.
    pub fn matrices(&self) -> usize {
        let of_keys = if self.keys == KeyWeights::Tied { 0 } else { self.key_heads };
        self.heads + of_keys + self.key_heads + 1
    }

    /// Learned numbers: D·(h·d_k + h_kv·d_k + h_kv·d_v) + h·d_v·D, and with biases h·d_k + h_kv·d_k + h_kv·d_v + D; the
    /// terms of the keys are missing where they are tied.
    pub fn parameters(&self) -> usize {
        let of_keys = if self.keys == KeyWeights::Tied { 0 } else { self.key_heads * self.d_k };
        let columns = self.heads * self.d_k + of_keys + self.key_heads * self.d_v;
        let biases = if self.bias == Bias::Drawn { columns + self.d_model } else { 0 };
        self.d_model * columns + self.heads * self.d_v * self.d_model + biases
    }

    /// Moments of the logits for tokens and weights of law `entries`; None where it has no fourth moment.
    pub fn logit_moments(&self, entries: Entries) -> Option<LogitMoments> {
        let fourth = standardised_moment(entries, 4)?;
        let (width, d) = (self.d_model as f64, self.d_k as f64);
        let b = if self.bias == Bias::Drawn { 1.0 } else { 0.0 };
        let ones = width + b;
        Some(match self.keys {
            KeyWeights::Separate => {
                let variance = d * (ones / width).powi(2);
                LogitMoments {
                    mean: 0.0,
                    variance,
                    diagonal_mean: 0.0,
                    transpose_correlation: d * ones / (width * width) / variance,
                    head_correlation: 0.0,
                }
            }
            KeyWeights::Tied => {
                let mean = b * d / width;
                let square = (d * d * ones + d * ones * ones + d * (fourth - 2.0) * ones) / (width * width);
                let variance = square - mean * mean;
                LogitMoments {
                    mean,
                    variance,
                    diagonal_mean: d * ones / width,
                    transpose_correlation: 1.0,
                    head_correlation: d * d / width / variance,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER: Layer =
        Layer { d_model: 3, heads: 5, key_heads: 5, d_k: 2, d_v: 7, keys: KeyWeights::Separate, bias: Bias::Absent };

    #[test]
    fn the_counts_are_those_by_hand() {
        assert_eq!((LAYER.matrices(), LAYER.parameters()), (16, 5 * (6 + 6 + 21) + 35 * 3));
        let tied = Layer { keys: KeyWeights::Tied, bias: Bias::Drawn, ..LAYER };
        // 5·2 + 5·7 biases of the projections, 3 of the output.
        assert_eq!((tied.matrices(), tied.parameters()), (11, 5 * (6 + 21) + 105 + 45 + 3));
        let grouped = Layer { heads: 6, key_heads: 2, bias: Bias::Drawn, ..LAYER };
        assert_eq!((grouped.matrices(), grouped.parameters()), (11, 36 + 12 + 42 + 126 + 12 + 4 + 14 + 3));
    }

    #[test]
    fn the_derivation_is_the_case_of_separate_matrices_without_bias() {
        for entries in [Entries::Normal, Entries::Rademacher, Entries::StudentT(5.0)] {
            let layer = Layer { d_model: 512, d_k: 64, ..LAYER };
            let moments = layer.logit_moments(entries).expect("four moments");
            assert_eq!((moments.mean, moments.variance, moments.head_correlation), (0.0, 64.0, 0.0));
            assert_eq!(moments.transpose_correlation, 1.0 / 512.0);
        }
    }

    /// Every sign of tokens and weights of Rademacher entries at D = 2, d = 1, added up: exact.
    fn enumerated(keys: KeyWeights, bias: bool) -> [f64; 5] {
        let rows = if bias { 3 } else { 2 };
        // x_i, x_j: 4 bits; per head W_q and W_k of `rows` entries each.
        let bits = 4 + 4 * rows;
        let (mut mean, mut square, mut diagonal, mut transpose, mut heads) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for word in 0..1u32 << bits {
            let sign = |bit: usize| if word >> bit & 1 == 1 { 1.0 } else { -1.0 };
            let token = |t: usize| -> Vec<f64> {
                let mut x = vec![sign(2 * t), sign(2 * t + 1)];
                x.resize(rows, 1.0);
                x
            };
            let (x, y) = (token(0), token(1));
            let project = |token: &[f64], matrix: usize| -> f64 {
                (0..rows).map(|a| token[a] * sign(4 + matrix * rows + a) / 2f64.sqrt()).sum()
            };
            let logit = |from: &[f64], to: &[f64], head: usize| {
                let keys = if keys == KeyWeights::Tied { 2 * head } else { 2 * head + 1 };
                project(from, 2 * head) * project(to, keys)
            };
            let s = logit(&x, &y, 0);
            mean += s;
            square += s * s;
            diagonal += logit(&x, &x, 0);
            transpose += s * logit(&y, &x, 0);
            heads += s * logit(&x, &y, 1);
        }
        [mean, square, diagonal, transpose, heads].map(|sum| sum / f64::from(1u32 << bits))
    }

    #[test]
    fn the_moments_are_those_of_all_signs_added_up() {
        for keys in [KeyWeights::Separate, KeyWeights::Tied] {
            for bias in [Bias::Absent, Bias::Drawn] {
                let layer = Layer { d_model: 2, d_k: 1, keys, bias, ..LAYER };
                let found = layer.logit_moments(Entries::Rademacher).expect("all moments");
                let [mean, square, diagonal, transpose, heads] = enumerated(keys, bias == Bias::Drawn);
                let variance = square - mean * mean;
                let expected = [
                    (found.mean, mean),
                    (found.variance, variance),
                    (found.diagonal_mean, diagonal),
                    (found.transpose_correlation, (transpose - mean * mean) / variance),
                    (found.head_correlation, (heads - mean * mean) / variance),
                ];
                for (found, expected) in expected {
                    assert!((found - expected).abs() < 1e-12, "{keys:?} {bias:?}: {found} for {expected}");
                }
            }
        }
    }
}
