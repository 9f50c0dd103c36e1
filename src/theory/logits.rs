//! Expected values of the logits S_ij = q_i·k_j (scale 1; multiply by the scale c and its powers for scaled logits).
//!
//! S_ij is a sum of d i.i.d. products q k. With x = q − μ_q and y = k − μ_k, q k − μ_q μ_k = x y + μ_k x + μ_q y; expanded in
//! x and y about the means, nothing cancels when the means are large.

use crate::theory::entry_moments::EntryLaw;
use crate::theory::trial_cumulants::TrialShape;

/// E(S_ij) = d μ_q μ_k.
pub fn mean(depth: usize, query: EntryLaw, key: EntryLaw) -> f64 {
    depth as f64 * query.mean() * key.mean()
}

/// Var(S_ij) = d[(σ_q²+μ_q²)(σ_k²+μ_k²) − μ_q²μ_k²] = d[σ_q²σ_k² + μ_q²σ_k² + μ_k²σ_q²].
pub fn variance(depth: usize, query: EntryLaw, key: EntryLaw) -> f64 {
    depth as f64 * variance_of_product(query, key)
}

fn variance_of_product(query: EntryLaw, key: EntryLaw) -> f64 {
    let (query_variance, key_variance) = (query.variance(), key.variance());
    query_variance * key_variance + query.mean().powi(2) * key_variance + key.mean().powi(2) * query_variance
}

/// Skewness of S_ij, 6 μ_q μ_k σ_q² σ_k²/(Var(qk)^(3/2) √d), for the symmetric entry laws here: 0 when a mean is 0.
pub fn skewness(depth: usize, query: EntryLaw, key: EntryLaw) -> f64 {
    let (a, b) = means_in_standard_deviations(query, key);
    6.0 * a * b / ((1.0 + a * a + b * b).powf(1.5) * (depth as f64).sqrt())
}

/// Kurtosis of S_ij (3 for a normal law), 3 + (kurtosis of one product − 3)/d. With a = μ_q/σ_q, b = μ_k/σ_k and the
/// standardised fourth moments α of q and β of k (symmetric laws),
///
/// kurtosis − 3 = [αβ − 3 + 6b²(α−1) + 6a²(β−1) + b⁴(α−3) + a⁴(β−3)] / [d (1 + a² + b²)²].
///
/// Means 0: 3 + (αβ − 3)/d. `None` where an entry has no fourth moment.
pub fn kurtosis(depth: usize, query: EntryLaw, key: EntryLaw) -> Option<f64> {
    let (a, b) = means_in_standard_deviations(query, key);
    let alpha = query.central_moment_in_standard_deviations(4)?;
    let beta = key.central_moment_in_standard_deviations(4)?;
    let (a_square, b_square) = (a * a, b * b);
    let fourth = alpha * beta - 3.0
        + 6.0 * (b_square * (alpha - 1.0) + a_square * (beta - 1.0))
        + b_square.powi(2) * (alpha - 3.0)
        + a_square.powi(2) * (beta - 3.0);
    Some(3.0 + fourth / (depth as f64 * (1.0 + a_square + b_square).powi(2)))
}

fn means_in_standard_deviations(query: EntryLaw, key: EntryLaw) -> (f64, f64) {
    (query.mean() / query.standard_deviation(), key.mean() / key.standard_deviation())
}

/// Expectation of the sample variance of the n·m logits of one trial (mean subtracted, divisor nm − 1).
///
/// Logits that share a token are correlated when the other side has a mean: Cov(S_ij, S_ij') = d σ_q² μ_k² = c_q,
/// Cov(S_ij, S_i'j) = d σ_k² μ_q² = c_k, so it is Var(S_ij) − [(m−1) c_q + (n−1) c_k]/(nm−1), here in the form without
/// cancellation, d[σ_q²σ_k² + (m(n−1) σ_q²μ_k² + n(m−1) σ_k²μ_q²)/(nm−1)]. `None` if nm < 2.
pub fn expected_sample_variance(shape: TrialShape, query: EntryLaw, key: EntryLaw) -> Option<f64> {
    let (queries, keys) = (shape.queries() as f64, shape.keys() as f64);
    let divisor = shape.logits() - 1.0;
    if divisor < 1.0 {
        return None;
    }
    let (query_variance, key_variance) = (query.variance(), key.variance());
    let shared = keys * (queries - 1.0) * query_variance * key.mean().powi(2)
        + queries * (keys - 1.0) * key_variance * query.mean().powi(2);
    Some(shape.depth() as f64 * (query_variance * key_variance + shared / divisor))
}

/// Normal entries with mean μ and standard deviation σ in Q and K, and correlation ρ between q_ih and k_ih of the same
/// token i at the same depth h; n = m tokens. Logits off the diagonal, i ≠ j, keep the values of independent entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorrelatedTokens {
    /// n = m ≥ 1.
    pub tokens: usize,
    /// d ≥ 1.
    pub depth: usize,
    /// μ.
    pub mean: f64,
    /// σ > 0.
    pub standard_deviation: f64,
    /// ρ in [−1, 1].
    pub correlation: f64,
}

impl CorrelatedTokens {
    /// E(S_ii) = d(μ² + ρσ²).
    pub fn diagonal_mean(&self) -> f64 {
        self.depth as f64 * (self.mean.powi(2) + self.correlation * self.standard_deviation.powi(2))
    }

    /// Var(S_ii) = d[2μ²σ²(1+ρ) + σ⁴(1+ρ²)].
    pub fn diagonal_variance(&self) -> f64 {
        let (mean_square, variance) = (self.mean.powi(2), self.standard_deviation.powi(2));
        let products = 2.0 * mean_square * variance * (1.0 + self.correlation);
        self.depth as f64 * (products + variance.powi(2) * (1.0 + self.correlation.powi(2)))
    }

    /// Expectation of the mean of all n² logits: d(μ² + ρσ²/n).
    pub fn mean_of_logits(&self) -> f64 {
        let diagonal = self.correlation * self.standard_deviation.powi(2) / self.tokens as f64;
        self.depth as f64 * (self.mean.powi(2) + diagonal)
    }

    /// Expectation of the sample variance of all n² logits (mean subtracted, divisor n² − 1):
    /// d[σ⁴(n + 1 + ρ²) + 2nμ²σ² + dρ²σ⁴]/(n + 1). `None` for a single token.
    ///
    /// From E Σ (S_ij − M)² = Σ Var S_ij − n² Var M + (spread of the expectations), where the expectations spread by
    /// (dρσ²)²(n − 1) and n² Var M = d[2nμ²σ²(1+ρ) + σ⁴(1+ρ²)].
    pub fn expected_sample_variance(&self) -> Option<f64> {
        if self.tokens < 2 {
            return None;
        }
        let (tokens, depth) = (self.tokens as f64, self.depth as f64);
        let (mean_square, variance) = (self.mean.powi(2), self.standard_deviation.powi(2));
        let correlation_square = self.correlation.powi(2);
        let sum = variance.powi(2) * (tokens + 1.0 + (1.0 + depth) * correlation_square)
            + 2.0 * tokens * mean_square * variance;
        Some(depth * sum / (tokens + 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Entries;

    fn law(entries: Entries, mean: f64, standard_deviation: f64) -> EntryLaw {
        EntryLaw::new(entries, mean, standard_deviation).expect("a valid law")
    }

    fn close(value: f64, expected: f64) {
        // A handful of roundings, no cancellation.
        let tolerance = 1e-14 * expected.abs();
        assert!((value - expected).abs() <= tolerance, "{value} against {expected}");
    }

    #[test]
    fn standard_entries_have_mean_0_variance_d_and_kurtosis_from_the_fourth_moments() {
        for (entries, fourth) in
            [(Entries::Normal, 3.0), (Entries::Uniform, 1.8), (Entries::Rademacher, 1.0), (Entries::Laplace, 6.0)]
        {
            let standard = law(entries, 0.0, 1.0);
            close(mean(61, standard, standard), 0.0);
            close(variance(61, standard, standard), 61.0);
            close(skewness(61, standard, standard), 0.0);
            // E S⁴ = d μ₄² + 3d(d−1).
            let expected = (61.0 * fourth * fourth + 3.0 * 61.0 * 60.0) / (61.0 * 61.0);
            close(kurtosis(61, standard, standard).expect("it exists"), expected);
        }
    }

    #[test]
    fn two_valued_entries_with_means_agree_with_all_their_outcomes() {
        // q is 7 or 3, k is 3/2 or −1/2, d = 1: S takes 21/2, −7/2, 9/2, −3/2 with probability 1/4 each. Mean 5/2,
        // deviations 8, −6, 2, −4: variance 120/4, third 240/4, fourth 5664/4.
        let (query, key) = (law(Entries::Rademacher, 5.0, 2.0), law(Entries::Rademacher, 0.5, 1.0));
        close(mean(1, query, key), 2.5);
        close(variance(1, query, key), 30.0);
        close(skewness(1, query, key), 60.0 / 30_f64.powf(1.5));
        close(kurtosis(1, query, key).expect("it exists"), 1416.0 / 900.0);
        // A sum of 7 independent ones: cumulants times 7.
        close(mean(7, query, key), 17.5);
        close(variance(7, query, key), 210.0);
        close(kurtosis(7, query, key).expect("it exists"), 3.0 + (1416.0 / 900.0 - 3.0) / 7.0);
    }

    #[test]
    fn kurtosis_needs_fourth_moments_and_the_variance_does_not() {
        let heavy = law(Entries::StudentT(3.0), 0.0, 2.0);
        assert_eq!(kurtosis(5, heavy, heavy), None);
        close(variance(5, heavy, heavy), 80.0);
    }

    #[test]
    fn the_sample_variance_expects_what_enumeration_of_all_matrices_gives() {
        // n = 3, m = 2, d = 2, q in {7, 3}, k in {3/2, −1/2}: 198/5 (scripts/reference/trial_cumulants.py's enumeration
        // and a direct one over all 2^10 matrices).
        let (query, key) = (law(Entries::Rademacher, 5.0, 2.0), law(Entries::Rademacher, 0.5, 1.0));
        let shape = TrialShape::new(3, 2, 2).expect("a valid shape");
        close(expected_sample_variance(shape, query, key).expect("nm > 1"), 39.6);
        let single = TrialShape::new(1, 1, 2).expect("a valid shape");
        assert_eq!(expected_sample_variance(single, query, key), None);
    }

    #[test]
    fn the_sample_variance_is_the_variance_less_the_shared_covariances() {
        let (query, key) = (law(Entries::Uniform, 3.0, 1.0), law(Entries::Laplace, -2.0, 0.5));
        let (queries, keys, depth) = (11.0, 5.0, 7.0);
        let shape = TrialShape::new(11, 5, 7).expect("a valid shape");
        let sharing_query = depth * 1.0 * 4.0;
        let sharing_key = depth * 0.25 * 9.0;
        let expected = variance(7, query, key)
            - ((keys - 1.0) * sharing_query + (queries - 1.0) * sharing_key) / (queries * keys - 1.0);
        close(expected_sample_variance(shape, query, key).expect("nm > 1"), expected);
    }

    #[test]
    fn uncorrelated_tokens_agree_with_independent_entries() {
        let tokens = CorrelatedTokens { tokens: 13, depth: 5, mean: 0.75, standard_deviation: 1.5, correlation: 0.0 };
        let normal = law(Entries::Normal, 0.75, 1.5);
        let shape = TrialShape::new(13, 13, 5).expect("a valid shape");
        close(tokens.diagonal_mean(), mean(5, normal, normal));
        close(tokens.diagonal_variance(), variance(5, normal, normal));
        close(tokens.mean_of_logits(), mean(5, normal, normal));
        let expected = expected_sample_variance(shape, normal, normal).expect("nm > 1");
        close(tokens.expected_sample_variance().expect("two tokens"), expected);
    }

    #[test]
    fn equal_tokens_give_a_gram_matrix() {
        // ρ = 1, mean 0, n = 2, d = 1: S = x xᵀ, so Σ S² = (x₁² + x₂²)² with expectation 8 and ΣS = (x₁ + x₂)² with second
        // moment 3·2² = 12: (8 − 12/4)/3 = 5/3. The diagonal is chi-square: mean d, variance 2d.
        let tokens = CorrelatedTokens { tokens: 2, depth: 1, mean: 0.0, standard_deviation: 1.0, correlation: 1.0 };
        close(tokens.diagonal_mean(), 1.0);
        close(tokens.diagonal_variance(), 2.0);
        close(tokens.mean_of_logits(), 0.5);
        close(tokens.expected_sample_variance().expect("two tokens"), 5.0 / 3.0);
        let single = CorrelatedTokens { tokens: 1, ..tokens };
        assert_eq!(single.expected_sample_variance(), None);
    }

    #[test]
    fn correlated_tokens_with_a_mean_agree_with_symbolic_moments() {
        // Wick's theorem over all pairs of sites in exact fractions (scripts/reference/trial_cumulants.py).
        let cases = [
            ((3, 2, 0.5, 1.5, -0.6), [-2.2, 14.67, -0.4, 14.54625]),
            ((2, 3, -2.0, 0.5, 0.8), [12.6, 11.1075, 12.3, 4.3475]),
        ];
        for ((tokens, depth, mean, standard_deviation, correlation), expected) in cases {
            let tokens = CorrelatedTokens { tokens, depth, mean, standard_deviation, correlation };
            close(tokens.diagonal_mean(), expected[0]);
            close(tokens.diagonal_variance(), expected[1]);
            close(tokens.mean_of_logits(), expected[2]);
            close(tokens.expected_sample_variance().expect("two tokens"), expected[3]);
        }
    }
}
