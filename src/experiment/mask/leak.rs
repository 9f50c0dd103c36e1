//! Do hidden keys and values reach the output? They are replaced, and outputs are compared bit by bit.

use super::{MaskExperiment, SAMPLED_ROWS, larger};
use crate::attention::kernel::Element;
use crate::attention::masked::{GradientPoint, MaskedAttention, MaskedRow};
use crate::experiment::{Draw, Sizes};
use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

/// Other keys and values are so many times as large as the true ones: a small weight on them shows.
const OTHERS_SIZE: f64 = 10.0;

/// One trial's queries and keys, and where further matrices are drawn.
pub(super) struct Leaks<'a, T, D, A> {
    pub(super) experiment: &'a MaskExperiment<D, A>,
    pub(super) stream: &'a TrialStream,
    /// n×d_k, rounded to the arithmetic.
    pub(super) queries: &'a [T],
    /// m×d_k, rounded to the arithmetic.
    pub(super) keys: &'a [T],
}

/// Keys and values of one run.
struct Tokens<T> {
    keys: Vec<T>,
    values: Vec<T>,
}

/// One row's weights and output.
struct Answer<T> {
    weights: Vec<T>,
    output: Vec<T>,
}

impl<T: Element + Drawable, D: Draw, A: MaskedAttention> Leaks<'_, T, D, A> {
    /// `leak`, `leak_nonfinite` and `gradient_leak` under the scale `factor`; not a number where no key is hidden.
    pub(super) fn measure(&self, factor: f64) -> [f64; 3] {
        let sampled = self.sampled_rows();
        if sampled.is_empty() {
            return [f64::NAN; 3];
        }
        let Sizes { d_k, keys: m, .. } = self.experiment.sizes;
        let mut tokens = Tokens { keys: self.keys.to_vec(), values: self.drawn(MatrixId::VALUES, 1.0) };
        let own = Tokens { keys: tokens.keys.clone(), values: tokens.values.clone() };
        let others = Tokens {
            keys: self.drawn(MatrixId::INPUTS, OTHERS_SIZE),
            values: self.drawn(MatrixId::GRADIENT, OTHERS_SIZE),
        };
        let nonfinite: Vec<T> = (0..m * d_k).map(|entry| not_a_number(entry / d_k)).collect();
        let nonfinite = Tokens { keys: nonfinite.clone(), values: nonfinite };
        let (mut leak, mut gradient, mut changed) = (0.0, 0.0, 0usize);
        for &row in &sampled {
            let visible = self.experiment.claim.mask.row(row);
            let hidden: Vec<usize> = (0..m).filter(|&key| !visible.contains(key)).collect();
            let mut raw = vec![T::ZERO; m];
            self.form_logits(&mut raw, row, &tokens.keys, 0..m);
            let answer = self.answer(row, factor, &raw, &tokens.values);
            gradient = larger(gradient, self.gradient(row, factor, (&raw, &answer), &tokens.values, &hidden));
            let mut with = |replacement: &Tokens<T>| {
                self.replace(&mut tokens, replacement, &hidden);
                self.form_logits(&mut raw, row, &tokens.keys, hidden.iter().copied());
                self.answer(row, factor, &raw, &tokens.values).output
            };
            let (with_others, with_nonfinite) = (with(&others), with(&nonfinite));
            self.replace(&mut tokens, &own, &hidden);
            let apart = answer.output.iter().zip(&with_others).map(|(a, b)| (a.to_f64() - b.to_f64()).abs());
            leak = apart.fold(leak, larger);
            // A value that is not a number differs from itself, too.
            let differs = |(a, b): (&T, &T)| a.to_f64().to_bits() != b.to_f64().to_bits() || a.to_f64().is_nan();
            changed += answer.output.iter().zip(&with_nonfinite).filter(|&pair| differs(pair)).count();
        }
        [leak, changed as f64 / (sampled.len() * d_k) as f64, gradient]
    }

    /// Rows with a hidden key, evenly spread, others in each trial.
    fn sampled_rows(&self) -> Vec<usize> {
        let hiding = &self.experiment.hiding;
        let count = hiding.len().min(SAMPLED_ROWS);
        let shift = self.stream.trial() as usize;
        (0..count).map(|sample| hiding[(sample * hiding.len() / count + shift) % hiding.len()]).collect()
    }

    /// m×d_k entries ±`size`: 1 and 10 are numbers of every arithmetic.
    fn drawn(&self, matrix: MatrixId, size: f64) -> Vec<T> {
        let Sizes { d_k, keys: m, .. } = self.experiment.sizes;
        let mut drawn = vec![T::ZERO; m * d_k];
        fill(Entries::Rademacher, self.stream, matrix, 0, d_k, &mut drawn);
        drawn.iter_mut().for_each(|entry| *entry = T::from_f64(entry.to_f64() * size));
        drawn
    }

    /// Puts the rows of `other` in the place of hidden keys and values.
    fn replace(&self, tokens: &mut Tokens<T>, other: &Tokens<T>, hidden: &[usize]) {
        let d_k = self.experiment.sizes.d_k;
        for &key in hidden {
            let place = key * d_k..(key + 1) * d_k;
            tokens.keys[place.clone()].copy_from_slice(&other.keys[place.clone()]);
            tokens.values[place.clone()].copy_from_slice(&other.values[place]);
        }
    }

    /// The raw logits of some keys.
    fn form_logits(&self, raw: &mut [T], query: usize, keys: &[T], which: impl Iterator<Item = usize>) {
        let d_k = self.experiment.sizes.d_k;
        let query = &self.queries[query * d_k..(query + 1) * d_k];
        for key in which {
            raw[key] = T::from_f64(dot(query, &keys[key * d_k..(key + 1) * d_k]));
        }
    }

    /// Runs the attention for one query.
    fn answer(&self, index: usize, factor: f64, raw: &[T], values: &[T]) -> Answer<T> {
        let mut answer = Answer { weights: Vec::new(), output: vec![T::ZERO; self.experiment.sizes.d_k] };
        self.experiment.attention.weights(MaskedRow { index, raw, factor }, &mut answer.weights);
        self.experiment.attention.output(index, &answer.weights, values, &mut answer.output);
        answer
    }

    fn gradient(
        &self,
        index: usize,
        factor: f64,
        (raw, answer): (&[T], &Answer<T>),
        values: &[T],
        hidden: &[usize],
    ) -> f64 {
        let d_k = self.experiment.sizes.d_k;
        let query = &self.queries[index * d_k..(index + 1) * d_k];
        let query_size = query.iter().map(|entry| entry.to_f64().abs()).fold(0.0, larger);
        let row = MaskedRow { index, raw, factor };
        let point = GradientPoint { row, weights: &answer.weights, output: &answer.output, values, query_size };
        self.experiment.attention.gradient(point, hidden)
    }
}

/// q·k in eight sums, which the processor adds side by side.
fn dot<T: Element>(query: &[T], key: &[T]) -> f64 {
    let mut sums = [0.0; 8];
    let (queries, keys) = (query.chunks_exact(8), key.chunks_exact(8));
    let rest = queries.remainder().iter().zip(keys.remainder()).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>();
    for (query, key) in queries.zip(keys) {
        for (sum, (q, k)) in sums.iter_mut().zip(query.iter().zip(key)) {
            *sum += q.to_f64() * k.to_f64();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// NaN, ∞ and −∞ in turn.
fn not_a_number<T: Element>(key: usize) -> T {
    T::from_f64([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][key % 3])
}
