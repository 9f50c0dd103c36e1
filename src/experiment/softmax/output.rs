//! The output of a few rows: does its variance equal Σp²?

use crate::attention::kernel::gram::cross_sum;
use crate::attention::kernel::signed_sums::{GROUP_KEYS, GROUP_WORDS, add_signed_sums};
use crate::attention::kernel::{Element, InstructionSet};
use crate::sampling::{MatrixId, TrialStream, sign_words};

/// Keys whose values are drawn and used at a time: memory does not grow with m.
const KEYS: usize = 2048;

/// The signs of some rows of V, in memory that is used again.
#[derive(Default)]
pub(super) struct Signs(Vec<u32>);

impl Signs {
    /// Mean square of the entries of PV less the mean Σp² of the same rows, for each P of `weights` (one below the other, `rows` × m each)
    /// and as many columns of V, at most 512, as `columns` says for it; V is independent ±1, the same for each P.
    pub(super) fn excess<T: Element>(
        &mut self,
        weights: &[T],
        m: usize,
        rows: usize,
        columns: &[usize],
        stream: &TrialStream,
    ) -> Vec<f64> {
        let set = InstructionSet::detect();
        let of_each = || weights.chunks_exact(rows * m).zip(columns);
        let mut outputs: Vec<Vec<f64>> = columns.iter().map(|columns| vec![0.0; rows * columns]).collect();
        for start in (0..m).step_by(KEYS) {
            let keys = start..m.min(start + KEYS);
            self.0.resize(keys.len().div_ceil(GROUP_KEYS) * GROUP_WORDS, 0);
            sign_words(stream, MatrixId::VALUES, start / GROUP_KEYS, &mut self.0);
            for ((weights, &columns), output) in of_each().zip(&mut outputs) {
                add_signed_sums(set, weights, m, keys.clone(), &self.0, columns, output);
            }
        }
        let excess = |((weights, _), output): ((&[T], &usize), &Vec<f64>)| {
            let squares = [cross_sum(set, output, output, 0.0), cross_sum(set, weights, weights, 0.0)];
            squares[0] / output.len() as f64 - squares[1] / rows as f64
        };
        of_each().zip(&outputs).map(excess).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_on_one_key_give_the_values_themselves_and_even_ones_their_mean() {
        // One-hot: O is ±1, O² = 1 = Σp². Even over m = 4099 keys (two pieces and a part): E O² = 1/m, and over 512
        // columns the mean of m·O², a χ²₁ but for terms in 1/m, is within 5·√(2/512) of 1.
        let m = 4099;
        let mut one_hot = vec![0.0f64; m];
        one_hot[4098] = 1.0;
        let even = vec![1.0 / m as f64; m];
        let stream = TrialStream::new(1, 2, 3);
        let excess = Signs::default().excess(&[one_hot, even].concat(), m, 1, &[512, 512], &stream);
        assert_eq!(excess[0], 0.0);
        let relative = excess[1] * m as f64;
        assert!(relative != 0.0 && relative.abs() < 5.0 * (2.0f64 / 512.0).sqrt(), "{relative}");
    }
}
