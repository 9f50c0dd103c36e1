//! Mean and variance of all n·m logits S = QKᵀ from column means and scatter matrices, without a single logit.
//!
//! With column means q̄, k̄ and scatter matrices C_q = Σ_i (q_i − q̄)(q_i − q̄)ᵀ, C_k likewise,
//!
//! - the mean of all logits is q̄·k̄,
//! - Σ_ij (S_ij − q̄·k̄)² = tr(C_q C_k) + m·k̄ᵀC_q k̄ + n·q̄ᵀC_k q̄,
//!
//! since S_ij − q̄·k̄ = x_i·y_j + x_i·k̄ + q̄·y_j for the centred rows x_i, y_j, whose cross terms sum to zero. That is Σ S² = tr[(QᵀQ)(KᵀK)]
//! and Σ S = (Σq)·(Σk), rearranged: there (Σ S)²/nm is subtracted, and cancels most digits where entries have a mean; here the
//! terms are not negative. It takes O((n + m)·d²) operations in place of O(n·m·d). Third and fourth moments have no such identity in d × d matrices.

use super::kernel::gram::GramSums;

/// Column means and scatter of the rows of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    rows: f64,
    means: Vec<f64>,
    upper: Vec<f64>,
}

/// Mean and variance of the n·m logits of one draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitMoments {
    /// (1/nm) Σ S.
    pub mean: f64,
    /// Σ (S − mean)² / (nm − 1); not finite for a single logit.
    pub variance: f64,
}

impl Scatter {
    /// Of `rows` rows with these column means and the upper triangle of C, row by row, diagonal included: d(d + 1)/2 numbers.
    ///
    /// # Panics
    /// If there is no row, or the triangle is not that of as many columns.
    pub fn new(rows: u64, means: Vec<f64>, upper: Vec<f64>) -> Self {
        assert!(rows > 0, "the scatter of no rows");
        assert_eq!(upper.len(), means.len() * (means.len() + 1) / 2, "the triangle of {} columns", means.len());
        Self { rows: rows as f64, means, upper }
    }

    /// Of the rows that were summed: C = Σ(x − c)(x − c)ᵀ − s sᵀ/n with s = Σ(x − c). Little cancels where c is near the mean.
    ///
    /// # Panics
    /// If there is no row.
    pub fn of(sums: &GramSums) -> Self {
        let rows = sums.rows() as f64;
        let means = sums.sums().iter().map(|sum| sums.center() + sum / rows).collect();
        let line = |i: usize| {
            let others = sums.sums()[i..].iter().zip(sums.products_from(i));
            others.map(move |(other, product)| product - sums.sums()[i] * (other / rows))
        };
        Self::new(sums.rows(), means, (0..sums.width()).flat_map(line).collect())
    }

    /// Number of rows.
    pub fn rows(&self) -> f64 {
        self.rows
    }

    /// Mean of all n·d entries, and their sample variance about it (divisor nd − 1; not finite for a single entry).
    pub fn of_entries(&self) -> [f64; 2] {
        let width = self.means.len() as f64;
        let mean = self.means.iter().sum::<f64>() / width;
        let between: f64 = self.means.iter().map(|column| (column - mean).powi(2)).sum();
        let within: f64 = self.lines().map(|line| line[0]).sum();
        [mean, (within + self.rows * between) / (self.rows * width - 1.0)]
    }

    /// Lines of the upper triangle, each from its diagonal on.
    fn lines(&self) -> impl Iterator<Item = &[f64]> {
        let width = self.means.len();
        let mut rest = self.upper.as_slice();
        (0..width).map(move |i| {
            let (line, others) = rest.split_at(width - i);
            rest = others;
            line
        })
    }

    /// vᵀCv.
    fn quadratic_form(&self, vector: &[f64]) -> f64 {
        let line = |(i, line): (usize, &[f64])| {
            let beyond: f64 = line[1..].iter().zip(&vector[i + 1..]).map(|(product, v)| product * v).sum();
            vector[i] * (line[0] * vector[i] + 2.0 * beyond)
        };
        self.lines().enumerate().map(line).sum()
    }

    /// tr(C C′).
    fn trace_of_product(&self, other: &Self) -> f64 {
        let line = |(a, b): (&[f64], &[f64])| {
            let beyond: f64 = a[1..].iter().zip(&b[1..]).map(|(a, b)| a * b).sum();
            a[0] * b[0] + 2.0 * beyond
        };
        self.lines().zip(other.lines()).map(line).sum()
    }
}

/// Mean and sample variance of all raw logits q_i·k_j.
///
/// # Panics
/// If queries and keys differ in width.
pub fn of_logits(queries: &Scatter, keys: &Scatter) -> LogitMoments {
    assert_eq!(queries.means.len(), keys.means.len(), "queries and keys differ in depth");
    let squares = queries.trace_of_product(keys)
        + keys.rows * queries.quadratic_form(&keys.means)
        + queries.rows * keys.quadratic_form(&queries.means);
    LogitMoments {
        mean: queries.means.iter().zip(&keys.means).map(|(q, k)| q * k).sum(),
        variance: squares / (queries.rows * keys.rows - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::InstructionSet;
    use super::*;

    fn scatter(rows: &[f64], width: usize, center: f64) -> Scatter {
        let mut sums = GramSums::new::<f64>(width, center);
        sums.add_rows(InstructionSet::detect(), rows, &mut Vec::new());
        Scatter::of(&sums)
    }

    #[test]
    fn a_small_example_agrees_with_exact_fractions() {
        // Q = [[1, 2], [3, −1], [0, 5]], K = [[2, 1], [−1, 3]]: logits 4, 5, 5, −6, 5, 15 (by hand), mean 14/3,
        // Σ(S − mean)² = 16 + 25 + 25 + 36 + 25 + 225 − 6·(14/3)² = 664/3, over 5.
        for center in [0.0, 1.5] {
            let found = of_logits(
                &scatter(&[1.0, 2.0, 3.0, -1.0, 0.0, 5.0], 2, center),
                &scatter(&[2.0, 1.0, -1.0, 3.0], 2, center),
            );
            assert!((found.mean - 14.0 / 3.0).abs() < 1e-14, "{found:?}");
            assert!((found.variance - 664.0 / 15.0).abs() < 1e-13, "{found:?}");
        }
        // Entries of Q: 1, 2, 3, −1, 0, 5 have mean 5/3 and Σ(x − mean)² = 40 − 6·25/9 = 70/3, over 5.
        let [mean, variance] = scatter(&[1.0, 2.0, 3.0, -1.0, 0.0, 5.0], 2, 0.5).of_entries();
        assert!((mean - 5.0 / 3.0).abs() < 1e-15 && (variance - 14.0 / 3.0).abs() < 1e-14, "{mean} {variance}");
    }

    #[test]
    fn nothing_cancels_where_the_entries_have_a_large_mean() {
        // Whole numbers about 1000: the logits, near 5·10⁶, and their squares are exact in i128.
        let number = |index: usize| 1000 + (index as i128 * 7919 % 7) - 3;
        let (n, m, d) = (31_usize, 23, 5);
        let q: Vec<i128> = (0..n * d).map(number).collect();
        let k: Vec<i128> = (0..m * d).map(|index| number(index + 1009)).collect();
        let logits: Vec<i128> =
            (0..n * m).map(|cell| (0..d).map(|h| q[cell / m * d + h] * k[cell % m * d + h]).sum()).collect();
        let count = (n * m) as i128;
        let (sum, squares) = (logits.iter().sum::<i128>(), logits.iter().map(|s| s * s).sum::<i128>());
        // Both numerators are whole and below 2⁵³ after the division by their common factor's size.
        let exact = (count * squares - sum * sum) as f64 / (count * (count - 1)) as f64;
        let floats = |numbers: &[i128]| numbers.iter().map(|&number| number as f64).collect::<Vec<_>>();
        let found = of_logits(&scatter(&floats(&q), d, 1000.0), &scatter(&floats(&k), d, 1000.0));
        // A few hundred roundings of terms of one sign; subtracting (ΣS)²/nm would lose nine digits.
        assert!((found.variance / exact - 1.0).abs() < 1e-13, "{} {exact}", found.variance);
        assert!((found.mean * count as f64 / sum as f64 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn a_single_logit_has_no_variance() {
        let found = of_logits(&scatter(&[2.0, 3.0], 2, 0.0), &scatter(&[5.0, 7.0], 2, 0.0));
        assert_eq!(found.mean, 31.0);
        assert!(!found.variance.is_finite());
    }
}
