//! Generation: each step's output becomes the next input.
//!
//! One decoder layer as Vaswani et al. 2017 (figure 1) have it, without the feed-forward part: masked self-attention over what was generated, then
//! cross-attention, without a mask, to the keys and values of an encoder; each followed by the residual and a normalisation.

use super::{CacheRules, HeadShape, KeyValueCache, Reach, SoundRules, Stored};
use crate::attention::position::Rotary;
use crate::number::Real;

/// Weights of the layer, row by row; each matrix has as many rows as its input has numbers.
#[derive(Debug, Clone)]
pub struct Layer<S: Stored> {
    /// Heads and widths; d_model is h · d_k.
    pub shape: HeadShape,
    /// Self-attention: d_model × h·d_k, d_model × h_kv·d_k, d_model × h_kv·d_v.
    pub own: [Vec<S::Arithmetic>; 3],
    /// h·d_v × d_model.
    pub own_output: Vec<S::Arithmetic>,
    /// Queries of cross-attention: d_model × h·d_k.
    pub cross_query: Vec<S::Arithmetic>,
    /// h·d_v × d_model.
    pub cross_output: Vec<S::Arithmetic>,
    /// Keys of the encoder, M × h_kv × d_k.
    pub encoder_keys: Vec<S>,
    /// Values of the encoder, M × h_kv × d_v.
    pub encoder_values: Vec<S>,
    /// Which of its own outputs a step sees.
    pub reach: Reach,
    /// Turns queries and keys of self-attention.
    pub rotary: Option<Rotary>,
    /// The factor on q·k.
    pub scale: f64,
}

impl<S: Stored> Layer<S> {
    fn width(&self) -> usize {
        self.shape.heads * self.shape.d_k
    }

    /// The encoder's tokens as a cache that never grows.
    fn encoder(&self) -> KeyValueCache<S> {
        let HeadShape { key_value_heads, d_k, d_v, .. } = self.shape;
        let (keys, values) =
            (self.encoder_keys.chunks(key_value_heads * d_k), self.encoder_values.chunks(key_value_heads * d_v));
        let mut encoder = KeyValueCache::new(self.shape, keys.len());
        keys.zip(values).for_each(|(keys, values)| encoder.append(keys, values, &SoundRules));
        encoder
    }

    /// Appends keys and values of `input`.
    fn append(&self, input: &[S::Arithmetic], cache: &mut KeyValueCache<S>, rules: &impl CacheRules) {
        let mut keys = product::<S>(input, &self.own[1]);
        if let Some(rotary) = &self.rotary {
            rotary.rotate_token(&mut keys, rules.position(cache.appended()));
        }
        let stored = |row: Vec<S::Arithmetic>| row.iter().map(|x| S::written(x.to_f64())).collect::<Vec<S>>();
        cache.append(&stored(keys), &stored(product::<S>(input, &self.own[2])), rules);
    }

    /// The output of the last token appended, whose input is `input`.
    fn step(
        &self,
        input: &[S::Arithmetic],
        cache: &KeyValueCache<S>,
        encoder: &KeyValueCache<S>,
        rules: &impl CacheRules,
    ) -> Vec<S::Arithmetic> {
        let position = cache.appended() - 1;
        let mut attended = vec![S::Arithmetic::ZERO; self.shape.heads * self.shape.d_v];
        let mut queries = product::<S>(input, &self.own[0]);
        if let Some(rotary) = &self.rotary {
            rotary.rotate_token(&mut queries, rules.position(position));
        }
        cache.attend(&queries, rules.visible(self.reach, position), self.scale, rules, &mut attended);
        let own = normalised::<S>(input, &product::<S>(&attended, &self.own_output));
        let queries = product::<S>(&own, &self.cross_query);
        encoder.attend(&queries, 0..encoder.appended(), self.scale, &SoundRules, &mut attended);
        normalised::<S>(&own, &product::<S>(&attended, &self.cross_output))
    }
}

/// `steps` outputs of `layer` from the input `start` (d_model numbers) on, with the past kept in a cache.
pub fn with_cache<S: Stored>(
    layer: &Layer<S>,
    start: &[S::Arithmetic],
    steps: usize,
    rules: &impl CacheRules,
) -> Vec<S::Arithmetic> {
    let encoder = layer.encoder();
    let mut cache = KeyValueCache::new(layer.shape, slots(layer.reach, steps));
    let mut sequence: Vec<S::Arithmetic> = Vec::with_capacity(steps * layer.width());
    let mut input = start.to_vec();
    for _ in 0..steps {
        layer.append(&input, &mut cache, rules);
        input = layer.step(&input, &cache, &encoder, rules);
        sequence.extend(&input);
    }
    sequence
}

/// The same with nothing kept: each step computes keys and values of all inputs so far again. The arithmetic of a token is the
/// same, so the sequence is the same to the last bit.
pub fn without_cache<S: Stored>(layer: &Layer<S>, start: &[S::Arithmetic], steps: usize) -> Vec<S::Arithmetic> {
    let encoder = layer.encoder();
    let width = layer.width();
    let mut inputs = start.to_vec();
    for step in 0..steps {
        let mut cache = KeyValueCache::new(layer.shape, step + 1);
        inputs.chunks(width).for_each(|input| layer.append(input, &mut cache, &SoundRules));
        let output = layer.step(&inputs[step * width..], &cache, &encoder, &SoundRules);
        inputs.extend(output);
    }
    inputs.split_off(width)
}

/// Slots that generation of `steps` tokens needs.
fn slots(reach: Reach, steps: usize) -> usize {
    match reach {
        Reach::All => steps.max(1),
        Reach::Window(keys) => keys.min(steps.max(1)),
    }
}

/// row · matrix, rounded to S.
fn product<S: Stored>(row: &[S::Arithmetic], matrix: &[S::Arithmetic]) -> Vec<S::Arithmetic> {
    let width = matrix.len() / row.len();
    let mut sums = vec![S::Arithmetic::ZERO; width];
    for (&x, weights) in row.iter().zip(matrix.chunks(width)) {
        sums.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum = *sum + x * weight);
    }
    sums.into_iter().map(S::rounded).collect()
}

/// The sum of both rows brought to mean 0 and variance 1 (divisor the width), rounded to S; zeros where it does not vary.
fn normalised<S: Stored>(residual: &[S::Arithmetic], update: &[S::Arithmetic]) -> Vec<S::Arithmetic> {
    let sums: Vec<f64> = residual.iter().zip(update).map(|(a, b)| a.to_f64() + b.to_f64()).collect();
    let count = sums.len() as f64;
    let mean = sums.iter().sum::<f64>() / count;
    let variance = sums.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let factor = if variance > 0.0 { variance.sqrt().recip() } else { 0.0 };
    sums.into_iter().map(|x| S::rounded(S::Arithmetic::from_f64((x - mean) * factor))).collect()
}
