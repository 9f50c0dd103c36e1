//! Do hidden keys and values reach the output? They are replaced, and outputs are compared bit by bit.

use super::{MaskExperiment, SAMPLED_ROWS};
use crate::attention::kernel::Element;
use crate::attention::masked::{GradientPoint, MaskedAttention, MaskedRow};
use crate::experiment::{Draw, Sizes};
use crate::number::larger;
use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

/// Other keys and values are so many times as large as the true ones: a small weight on them shows.
const OTHERS_SIZE: f64 = 10.0;

/// One trial's queries, keys and values, and what its hidden keys and values are replaced by.
pub(super) struct Leaks<'a, T, D, A> {
    experiment: &'a MaskExperiment<D, A>,
    /// Rows whose hidden keys are replaced.
    sampled: Vec<usize>,
    /// n×d_k, rounded to the arithmetic.
    queries: &'a [T],
    /// m×d_k, rounded to the arithmetic.
    keys: &'a [T],
    buffers: &'a mut TokenBuffers<T>,
}

/// Matrices of m×d_k.
pub(super) struct TokenBuffers<T> {
    /// The values of the trial.
    values: Vec<T>,
    /// The tokens that are replaced and put back.
    tokens: Tokens<T>,
    /// The ones they are replaced by.
    others: Tokens<T>,
}

/// Keys and values of one run.
struct Tokens<T> {
    keys: Vec<T>,
    values: Vec<T>,
}

impl<T> Default for TokenBuffers<T> {
    fn default() -> Self {
        let none = || Tokens { keys: Vec::new(), values: Vec::new() };
        Self { values: Vec::new(), tokens: none(), others: none() }
    }
}

/// What stands in the place of hidden keys and values.
#[derive(Clone, Copy)]
enum Replacement {
    Own,
    Others,
    /// NaN, ∞ and −∞ in turn.
    NotNumbers,
}

/// One row's weights and output.
struct Answer<T> {
    weights: Vec<T>,
    output: Vec<T>,
}

impl<'a, T: Element + Drawable, D: Draw, A: MaskedAttention> Leaks<'a, T, D, A> {
    /// Draws the values and the others of the trial that `stream` names; `queries` and `keys` are its own.
    pub(super) fn new(
        experiment: &'a MaskExperiment<D, A>,
        stream: &TrialStream,
        queries: &'a [T],
        keys: &'a [T],
        buffers: &'a mut TokenBuffers<T>,
    ) -> Self {
        let sampled = sampled_rows(&experiment.hiding, stream.trial() as usize);
        if !sampled.is_empty() {
            let Sizes { d_k, keys: m, .. } = experiment.sizes;
            // ±1 and ±10 are numbers of every arithmetic.
            let draw = |matrix: MatrixId, size: f64, into: &mut Vec<T>| {
                into.resize(m * d_k, T::ZERO);
                fill(Entries::Rademacher, stream, matrix, 0, d_k, into);
                into.iter_mut().for_each(|entry| *entry = T::from_f64(entry.to_f64() * size));
            };
            draw(MatrixId::VALUES, 1.0, &mut buffers.values);
            draw(MatrixId::INPUTS, OTHERS_SIZE, &mut buffers.others.keys);
            draw(MatrixId::GRADIENT, OTHERS_SIZE, &mut buffers.others.values);
            buffers.tokens.keys.clear();
            buffers.tokens.keys.extend_from_slice(keys);
            buffers.tokens.values.clone_from(&buffers.values);
        }
        Self { experiment, sampled, queries, keys, buffers }
    }

    /// `leak`, `leak_nonfinite` and `gradient_leak` under the scale `factor`; not a number where no key is hidden.
    pub(super) fn measure(&mut self, factor: f64) -> [f64; 3] {
        if self.sampled.is_empty() {
            return [f64::NAN; 3];
        }
        let Sizes { d_k, keys: m, .. } = self.experiment.sizes;
        let (mut leak, mut gradient, mut changed) = (0.0, 0.0, 0usize);
        for row in self.sampled.clone() {
            let visible = self.experiment.claim.mask.row(row);
            let hidden: Vec<usize> = (0..m).filter(|&key| !visible.contains(key)).collect();
            let mut raw = vec![T::ZERO; m];
            self.form_logits(&mut raw, row, 0..m);
            let answer = self.answer(row, factor, &raw);
            gradient = larger(gradient, self.gradient(row, factor, (&raw, &answer), &hidden));
            let mut with = |replacement: Replacement| {
                self.replace(replacement, &hidden);
                self.form_logits(&mut raw, row, hidden.iter().copied());
                self.answer(row, factor, &raw).output
            };
            let (with_others, with_nonfinite) = (with(Replacement::Others), with(Replacement::NotNumbers));
            self.replace(Replacement::Own, &hidden);
            let apart = answer.output.iter().zip(&with_others).map(|(a, b)| (a.to_f64() - b.to_f64()).abs());
            leak = apart.fold(leak, larger);
            // A value that is not a number differs from itself, too.
            let differs = |(a, b): (&T, &T)| a.to_f64().to_bits() != b.to_f64().to_bits() || a.to_f64().is_nan();
            changed += answer.output.iter().zip(&with_nonfinite).filter(|&pair| differs(pair)).count();
        }
        [leak, changed as f64 / (self.sampled.len() * d_k) as f64, gradient]
    }

    /// Puts others in the place of hidden keys and values.
    fn replace(&mut self, replacement: Replacement, hidden: &[usize]) {
        let d_k = self.experiment.sizes.d_k;
        let TokenBuffers { values, tokens, others } = &mut *self.buffers;
        for &key in hidden {
            let place = key * d_k..(key + 1) * d_k;
            let (keys, values) = match replacement {
                Replacement::Own => (&self.keys[place.clone()], &values[place.clone()]),
                Replacement::Others => (&others.keys[place.clone()], &others.values[place.clone()]),
                Replacement::NotNumbers => {
                    let number = T::from_f64([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][key % 3]);
                    tokens.keys[place.clone()].fill(number);
                    tokens.values[place].fill(number);
                    continue;
                }
            };
            tokens.keys[place.clone()].copy_from_slice(keys);
            tokens.values[place].copy_from_slice(values);
        }
    }

    /// The raw logits of some keys.
    fn form_logits(&self, raw: &mut [T], query: usize, which: impl Iterator<Item = usize>) {
        let (d_k, keys) = (self.experiment.sizes.d_k, &self.buffers.tokens.keys);
        let query = &self.queries[query * d_k..(query + 1) * d_k];
        for key in which {
            raw[key] = T::from_f64(dot(query, &keys[key * d_k..(key + 1) * d_k]));
        }
    }

    /// Runs the attention for one query.
    fn answer(&self, index: usize, factor: f64, raw: &[T]) -> Answer<T> {
        let mut answer = Answer { weights: Vec::new(), output: vec![T::ZERO; self.experiment.sizes.d_k] };
        self.experiment.attention.weights(MaskedRow { index, raw, factor }, &mut answer.weights);
        self.experiment.attention.output(index, &answer.weights, &self.buffers.tokens.values, &mut answer.output);
        answer
    }

    fn gradient(&self, index: usize, factor: f64, (raw, answer): (&[T], &Answer<T>), hidden: &[usize]) -> f64 {
        let values = &self.buffers.tokens.values;
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

/// Rows of `hiding`, evenly spread, others in each trial.
fn sampled_rows(hiding: &[usize], trial: usize) -> Vec<usize> {
    let count = hiding.len().min(SAMPLED_ROWS);
    (0..count).map(|sample| hiding[(sample * hiding.len() / count + trial) % hiding.len()]).collect()
}
