//! The median, with limits that hold for every law.

use super::binomial::lower_tail;

/// A sample's median and limits for that of its law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The middle value; the mean of the middle two for an even number.
    pub median: f64,
    /// Lower limit, a value of the sample; missing where there are too few.
    pub low: Option<f64>,
    /// Upper limit, likewise.
    pub high: Option<f64>,
}

/// The median of independent values and the limits x₍ₖ₎, x₍ₙ₊₁₋ₖ₎ of the law's median, wrong with probability at most `error`.
///
/// The number of values below the median of a continuous law is binomial with p = ½ whatever the law (Thompson 1936, "On confidence
/// ranges for the median and other expectation distributions for populations of unknown distribution form"); k is the
/// largest with P(fewer than k) ≤ `error`/2. At 95 % it takes 6 values for limits to exist (2·2⁻⁶ = 3.1 %). Ties make
/// them only safer. None without values, or if one is NaN.
pub fn median(values: &[f64], error: f64) -> Option<MedianInterval> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let median = 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
    let rank = (1..=count / 2).rev().find(|&rank| lower_tail(rank as u64 - 1, count as u64, 0.5) <= 0.5 * error);
    Some(MedianInterval { median, low: rank.map(|rank| sorted[rank - 1]), high: rank.map(|rank| sorted[count - rank]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::test_draws::Draws;

    #[test]
    fn the_ranks_are_those_of_the_tables() {
        // Conover, Practical Nonparametric Statistics, table A3 (binomial, p = 1/2): 95 % limits for 6, 10, 15, 25 values are the
        // values of rank 1, 2, 4, 8 from either end; for 5 there are none.
        for (count, rank) in [(6, 1), (10, 2), (15, 4), (25, 8)] {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let interval = median(&values, 0.05).expect("values");
            assert_eq!(interval.low, Some(f64::from(rank)), "{count}");
            assert_eq!(interval.high, Some(f64::from(count + 1 - rank)), "{count}");
            assert_eq!(interval.median, f64::from(count + 1) / 2.0);
        }
        let few = median(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.05).expect("values");
        assert_eq!(few, MedianInterval { median: 3.0, low: None, high: None });
        assert_eq!(median(&[], 0.05), None);
        assert_eq!(median(&[1.0, f64::NAN], 0.05), None);
    }

    #[test]
    fn limits_of_a_skewed_law_miss_its_median_as_rarely_as_they_say() {
        // exp(Z) has median 1. 11 values: ranks 2 and 10, error 2·(1 + 11)/2^11 = 1.17 %; 4001 samples, four standard errors.
        let mut draws = Draws::new(5);
        let mut missed = 0;
        for _ in 0..4001 {
            let values: Vec<f64> = (0..11).map(|_| draws.normal().exp()).collect();
            let interval = median(&values, 0.05).expect("values");
            let (low, high) = interval.low.zip(interval.high).expect("limits");
            missed += u32::from(low > 1.0 || high < 1.0);
        }
        let share = f64::from(missed) / 4001.0;
        let exact = 24.0 / 2048.0;
        assert!((share - exact).abs() < 4.0 * (exact / 4001.0f64).sqrt(), "{share} for {exact}");
    }
}
