//! Moments of the entries of Q and K, and their correlation token by token: the derivation's assumptions.

use rayon::prelude::*;

use super::super::Inside;
use crate::attention::kernel::{Element, InstructionSet, pair_sums};

/// Entries summed as one piece, so that the order of additions does not depend on threads.
const PIECE: usize = 1 << 14;
/// Σ x, Σ x², Σ y, Σ y², Σ x·y over pairs of entries, about the expected mean.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct PairSums([f64; 5]);

impl PairSums {
    fn of<T: Element>(x: &[T], y: &[T], center: f64) -> Self {
        Self(pair_sums(InstructionSet::detect(), x, y, center))
    }

    fn add(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(sum, part)| *sum += part);
        self
    }
}

/// Sums over the entries of Q and K.
pub(super) struct EntrySums {
    /// Over the pairs (q_ih, k_ih) of the first min(n, m) tokens.
    paired: PairSums,
    /// Over the entries of the longer matrix that have no partner (the shorter one's are zero).
    rest: [PairSums; 2],
    counts: [usize; 2],
}

impl EntrySums {
    /// Sums over `queries` and `keys` about `center`, in fixed order.
    pub(super) fn new<T: Element>(queries: &[T], keys: &[T], center: f64, inside: Inside) -> Self {
        let pairs = queries.len().min(keys.len());
        let sum = |x: &[T], y: &[T]| {
            let parts: Vec<PairSums> = match inside {
                Inside::Sequential => {
                    x.chunks(PIECE).zip(y.chunks(PIECE)).map(|(x, y)| PairSums::of(x, y, center)).collect()
                }
                Inside::Parallel => {
                    x.par_chunks(PIECE).zip(y.par_chunks(PIECE)).map(|(x, y)| PairSums::of(x, y, center)).collect()
                }
            };
            parts.into_iter().fold(PairSums::default(), PairSums::add)
        };
        let rest = |matrix: &[T]| sum(&matrix[pairs..], &matrix[pairs..]);
        Self {
            paired: sum(&queries[..pairs], &keys[..pairs]),
            rest: [rest(queries), rest(keys)],
            counts: [queries.len(), keys.len()],
        }
    }

    /// `q_mean, q_variance, k_mean, k_variance, qk_correlation`; not a number where it does not exist.
    pub(super) fn measures(&self, center: f64) -> [f64; 5] {
        let PairSums([q, qq, k, kk, qk]) = self.paired;
        let matrix = |count: usize, sum: f64, squares: f64| {
            let count = count as f64;
            [center + sum / count, (squares - sum * sum / count) / (count - 1.0)]
        };
        let [q_mean, q_variance] = matrix(self.counts[0], q + self.rest[0].0[0], qq + self.rest[0].0[1]);
        let [k_mean, k_variance] = matrix(self.counts[1], k + self.rest[1].0[0], kk + self.rest[1].0[1]);
        let pairs = self.counts[0].min(self.counts[1]) as f64;
        [q_mean, q_variance, k_mean, k_variance, correlation([q, qq, k, kk, qk], pairs)]
    }
}

/// The sample correlation of `count` pairs from Σ x, Σ x², Σ y, Σ y², Σ x·y about any center; not a number for a single pair.
pub(super) fn correlation([x, xx, y, yy, xy]: [f64; 5], count: f64) -> f64 {
    // Sums that were rounded differ from each other's squares, and would leave a quotient of rounding errors.
    if count < 2.0 {
        return f64::NAN;
    }
    (xy - x * y / count) / ((xx - x * x / count) * (yy - y * y / count)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_correlation_agree_with_a_hand_worked_example() {
        // q = 1, 2, 4 (mean 7/3, Σ(q−q̄)² = 14/3); k = 3, 1, 2, 6, over the first three: mean 2, Σ(k−k̄)² = 2,
        // Σ(q−q̄)(k−k̄) = 1·3 + 2·1 + 4·2 − 3·(7/3)·2 = −1, so the correlation is −1/√(28/3).
        for center in [0.0, 2.5] {
            let sums = EntrySums::new(&[1.0, 2.0, 4.0], &[3.0, 1.0, 2.0, 6.0], center, Inside::Sequential);
            let expected = [7.0 / 3.0, 7.0 / 3.0, 3.0, 14.0 / 3.0, -1.0 / (28.0f64 / 3.0).sqrt()];
            for (measured, expected) in sums.measures(center).iter().zip(expected) {
                assert!((measured - expected).abs() < 1e-14, "{measured} {expected}");
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let q: Vec<f64> = (0..50_021).map(|i| (i as f64 * 0.37).sin()).collect();
        let k: Vec<f64> = (0..70_001).map(|i| (i as f64 * 0.11).cos()).collect();
        let [one, many] =
            [Inside::Sequential, Inside::Parallel].map(|inside| EntrySums::new(&q, &k, 0.1, inside).measures(0.1));
        assert_eq!(one.map(f64::to_bits), many.map(f64::to_bits));
    }
}
