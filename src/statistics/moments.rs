//! One-pass moments of columns, one row a trial: Welford 1962 with the merge of Chan, Golub & LeVeque 1983 and the third
//! moment of Pébay 2008.

use crate::number::larger;

/// Running moments of several columns. Memory is four numbers a column, whatever the number of trials.
///
/// Floating-point sums depend on their order: push trials in order, and merge shards in a fixed order, to get the
/// same bits from any number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMoments {
    count: u64,
    mean: Vec<f64>,
    /// Σ(x − mean)².
    squares: Vec<f64>,
    /// Σ(x − mean)³.
    cubes: Vec<f64>,
    /// The largest value; NaN once a value is.
    largest: Vec<f64>,
}

impl ColumnMoments {
    /// Empty moments of `columns` columns.
    pub fn new(columns: usize) -> Self {
        let zeros = || vec![0.0; columns];
        let largest = vec![f64::NEG_INFINITY; columns];
        ColumnMoments { count: 0, mean: zeros(), squares: zeros(), cubes: zeros(), largest }
    }

    /// Adds one row, shape (columns).
    ///
    /// # Panics
    /// If the row has another number of columns.
    pub fn push(&mut self, row: &[f64]) {
        assert_eq!(row.len(), self.mean.len(), "a row must have one value a column");
        let before = self.count as f64;
        self.count += 1;
        let after = self.count as f64;
        for (column, &value) in row.iter().enumerate() {
            // The deviation from the old mean carries the information; Σx² − (Σx)²/n would cancel.
            let deviation = value - self.mean[column];
            let step = deviation / after;
            let growth = deviation * step * before;
            self.cubes[column] += growth * step * (after - 2.0) - 3.0 * step * self.squares[column];
            self.squares[column] += growth;
            self.mean[column] += step;
            self.largest[column] = larger(self.largest[column], value);
        }
    }

    /// Adds the rows of `other`, as if they had been pushed after one's own (up to rounding).
    ///
    /// # Panics
    /// If the numbers of columns differ.
    pub fn merge(&mut self, other: &ColumnMoments) {
        assert_eq!(other.mean.len(), self.mean.len(), "only moments of the same columns can be merged");
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let total = own + others;
        for column in 0..self.mean.len() {
            let distance = other.mean[column] - self.mean[column];
            let share = distance / total;
            self.cubes[column] += other.cubes[column]
                + distance * share * share * own * others * (own - others)
                + 3.0 * share * (own * other.squares[column] - others * self.squares[column]);
            self.squares[column] += other.squares[column] + distance * share * own * others;
            self.mean[column] += share * others;
            self.largest[column] = larger(self.largest[column], other.largest[column]);
        }
        self.count += other.count;
    }

    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.mean.len()
    }

    /// Mean of a column; None without rows or for a column that does not exist.
    pub fn mean(&self, column: usize) -> Option<f64> {
        self.mean.get(column).copied().filter(|_| self.count > 0)
    }

    /// Largest value of a column, NaN if any value was; None without rows or for a column that does not exist.
    pub fn largest(&self, column: usize) -> Option<f64> {
        self.largest.get(column).copied().filter(|_| self.count > 0)
    }

    /// Unbiased sample variance of a column, divisor T − 1; None below two rows.
    pub fn sample_variance(&self, column: usize) -> Option<f64> {
        let squares = *self.squares.get(column)?;
        (self.count > 1).then(|| squares / (self.count - 1) as f64)
    }

    /// Mean square deviation of a column, divisor T (the plug-in variance, biased by (T−1)/T); None without rows.
    pub fn population_variance(&self, column: usize) -> Option<f64> {
        let squares = *self.squares.get(column)?;
        (self.count > 0).then(|| squares / self.count as f64)
    }

    /// √(sample variance / T), the standard error of the mean of independent rows; None below two rows.
    pub fn standard_error(&self, column: usize) -> Option<f64> {
        Some((self.sample_variance(column)? / self.count as f64).sqrt())
    }

    /// Sample skewness m₃/m₂^{3/2} of a column, both with divisor T (g₁, biased towards 0); None below three rows or
    /// without spread.
    pub fn skewness(&self, column: usize) -> Option<f64> {
        let variance = self.population_variance(column)?;
        (self.count > 2 && variance > 0.0)
            .then(|| self.cubes[column] / self.count as f64 / (variance * variance.sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, 4, 8, 16: mean 31/5, Σ(x−x̄)² = 341 − 961/5 = 744/5, Σ(x−x̄)³ = 4681 − 3·(31/5)·341 + 2·5·(31/5)³
    /// = 4681 − 6342.6 + 2383.28 = 721.68 (exact fractions, worked by hand).
    const POWERS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

    fn close(got: Option<f64>, expected: f64, tolerance: f64) {
        let got = got.expect("a value");
        assert!((got / expected - 1.0).abs() < tolerance, "{got} instead of {expected}");
    }

    fn powers_shifted(by: f64, rows: std::ops::Range<usize>) -> ColumnMoments {
        let mut moments = ColumnMoments::new(2);
        POWERS[rows].iter().for_each(|&x| moments.push(&[x + by, -3.0 * x]));
        moments
    }

    #[test]
    fn moments_match_exact_fractions_in_each_column() {
        let moments = powers_shifted(0.0, 0..5);
        close(moments.mean(0), 6.2, 1e-15);
        close(moments.sample_variance(0), 37.2, 1e-15);
        close(moments.population_variance(0), 29.76, 1e-15);
        close(moments.standard_error(0), 7.44f64.sqrt(), 1e-15);
        let skewness = 721.68 / 5.0 / 29.76f64.powf(1.5);
        close(moments.skewness(0), skewness, 1e-14);
        close(moments.mean(1), -18.6, 1e-15);
        close(moments.sample_variance(1), 9.0 * 37.2, 1e-15);
        close(moments.skewness(1), -skewness, 1e-14);
    }

    #[test]
    fn a_large_offset_does_not_drown_the_variance() {
        // Offset 1e8: one rounding of a value is 1.5e-8, so deviations of size 6 carry 1e-8 at most; the naive
        // Σx² − (Σx)²/n would lose all 16 digits (x² = 1e16).
        close(powers_shifted(1e8, 0..5).sample_variance(0), 37.2, 1e-8);
    }

    #[test]
    fn merging_any_split_gives_the_moments_of_the_whole() {
        let whole = powers_shifted(0.5, 0..5);
        for split in 0..=5 {
            let mut merged = powers_shifted(0.5, 0..split);
            merged.merge(&powers_shifted(0.5, split..5));
            assert_eq!(merged.count(), 5);
            for column in 0..2 {
                close(merged.mean(column), whole.mean(column).unwrap(), 1e-14);
                close(merged.sample_variance(column), whole.sample_variance(column).unwrap(), 1e-14);
                close(merged.skewness(column), whole.skewness(column).unwrap(), 1e-13);
            }
        }
    }

    #[test]
    fn the_largest_value_of_a_column_is_kept_and_a_nan_is_never_passed_over() {
        for split in 0..=5 {
            let mut merged = powers_shifted(0.0, 0..split);
            merged.merge(&powers_shifted(0.0, split..5));
            assert_eq!((merged.largest(0), merged.largest(1)), (Some(16.0), Some(-3.0)));
        }
        assert_eq!((ColumnMoments::new(1).largest(0), powers_shifted(0.0, 0..1).largest(2)), (None, None));
        for order in [[1.0, f64::NAN, 2.0], [f64::NAN, 1.0, 2.0], [1.0, 2.0, f64::NAN]] {
            let mut moments = ColumnMoments::new(1);
            order.iter().for_each(|&value| moments.push(&[value]));
            assert!(moments.largest(0).is_some_and(f64::is_nan));
        }
    }

    #[test]
    fn too_few_rows_give_no_statistic() {
        let empty = ColumnMoments::new(1);
        assert_eq!((empty.mean(0), empty.population_variance(0)), (None, None));
        let mut moments = ColumnMoments::new(1);
        moments.push(&[7.0]);
        assert_eq!((moments.mean(0), moments.sample_variance(0)), (Some(7.0), None));
        moments.push(&[7.0]);
        moments.push(&[7.0]);
        assert_eq!((moments.sample_variance(0), moments.skewness(0)), (Some(0.0), None));
        assert_eq!((moments.mean(1), moments.columns()), (None, 1));
    }
}
