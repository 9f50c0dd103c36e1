//! The output of a few rows: does its variance equal Σp²?

use crate::attention::kernel::{Element, InstructionSet, PackedKeys, PackedQueries, packed_logits, pair_sums};
use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

/// Keys whose values are drawn and used at a time: memory does not grow with m.
const KEYS: usize = 2048;

/// Columns of V drawn and used at a time: with the weights of the same keys they stay in the L2 cache. As many as any panel holds, or a multiple.
const COLUMNS: usize = 32;

/// Buffers of the product PV.
pub(super) struct OutputBuffers<T> {
    /// The transpose of some rows of V.
    values: Vec<T>,
    /// The weights of the same keys.
    weights: Vec<T>,
    product: Vec<T>,
    left: Option<PackedQueries<T>>,
    right: Option<PackedKeys<T>>,
}

impl<T> Default for OutputBuffers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), weights: Vec::new(), product: Vec::new(), left: None, right: None }
    }
}

impl<T: Element + Drawable> OutputBuffers<T> {
    /// Mean square of the entries of PV less the mean Σp² of the same rows, for each P of `weights` (rows×m), V being
    /// m × `columns` independent ±1.
    pub(super) fn excess(&mut self, weights: &[Vec<T>], m: usize, columns: usize, stream: &TrialStream) -> Vec<f64> {
        let set = InstructionSet::detect();
        let left = self.left.get_or_insert_with(|| PackedQueries::empty(set));
        let right = self.right.get_or_insert_with(|| PackedKeys::empty(set));
        let rows = weights.first().map_or(0, |weights| weights.len() / m);
        let rows_of_all = rows * weights.len();
        let mut outputs = vec![0.0; rows_of_all * columns];
        for start in (0..m).step_by(KEYS) {
            let length = KEYS.min(m - start);
            // The rows of every P, one below the other.
            self.weights.clear();
            let all_rows = weights.iter().flat_map(|weights| weights.chunks(m));
            all_rows.for_each(|row| self.weights.extend_from_slice(&row[start..start + length]));
            left.repack(&self.weights, rows_of_all, length);
            for first in (0..columns).step_by(COLUMNS) {
                let taken = COLUMNS.min(columns - first);
                // One line of `length` values a column, so that the product is that of queries and keys.
                self.values.resize(taken * length, T::ZERO);
                let element = start * columns + first * length;
                fill(Entries::Rademacher, stream, MatrixId::VALUES, element, length, &mut self.values);
                right.repack(&self.values, taken, length);
                self.product.resize(rows_of_all * taken, T::ZERO);
                packed_logits(left, right, 0..taken, &mut self.product, taken);
                for (output, product) in outputs.chunks_mut(columns).zip(self.product.chunks(taken)) {
                    output[first..].iter_mut().zip(product).for_each(|(sum, value)| *sum += value.to_f64());
                }
            }
        }
        let excess = |(output, weights): (&[f64], &Vec<T>)| {
            let [_, square_sum, ..] = pair_sums(set, output, output, 0.0);
            let [_, weight_square_sum, ..] = pair_sums(set, weights, weights, 0.0);
            square_sum / output.len() as f64 - weight_square_sum / rows as f64
        };
        outputs.chunks(rows * columns).zip(weights).map(excess).collect()
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
        let excess = OutputBuffers::default().excess(&[one_hot, even], m, 512, &stream);
        assert_eq!(excess[0], 0.0);
        let relative = excess[1] * m as f64;
        assert!(relative != 0.0 && relative.abs() < 5.0 * (2.0f64 / 512.0).sqrt(), "{relative}");
    }
}
