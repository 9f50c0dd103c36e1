//! Keys and values of the past, kept so that decoding a token attends to them without computing them again.
//!
//! [`KeyValueCache`] holds, for each token, h_kv keys of d_k numbers and h_kv values of d_v; h query heads share them in groups of h/h_kv (grouped-query
//! attention, Ainslie et al. 2023; h_kv = 1 is multi-query attention, Shazeer 2019). With a window it is a ring: the slot of a token is its position modulo the number of
//! slots. [`decode`](decode()) runs a prompt and then token by token; [`generate`] feeds each output back as the next input;
//! [`full::causal_pass`] is what they must agree with.

mod decode;
pub mod full;
pub mod generate;
mod stored;

use std::ops::Range;

pub use decode::{Decoded, Problem, Schedule, decode, decode_without_cache};
pub use stored::{Arithmetic, Stored};

use crate::number::Real;

/// Heads and widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads h.
    pub heads: usize,
    /// Key and value heads h_kv, a divisor of h.
    pub key_value_heads: usize,
    /// Width of queries and keys.
    pub d_k: usize,
    /// Width of values.
    pub d_v: usize,
}

impl HeadShape {
    /// The key and value head that query head `head` attends to.
    pub fn group_of(&self, head: usize) -> usize {
        head / (self.heads / self.key_value_heads)
    }
}

/// Which keys a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its own and all before it.
    All,
    /// Its own and those before it, this many in all (at least 1).
    Window(usize),
}

impl Reach {
    /// Positions that the token at `position` sees.
    pub fn visible(self, position: u64) -> Range<u64> {
        match self {
            Self::All => 0..position + 1,
            Self::Window(keys) => (position + 1).saturating_sub(keys as u64)..position + 1,
        }
    }
}

/// The decisions of a cache that go wrong in practice; tests pass faulty ones.
pub trait CacheRules: Sync {
    /// The position by which the next token is turned when `appended` tokens are in the cache.
    fn position(&self, appended: u64) -> u64 {
        appended
    }

    /// The slot of `position` among `slots`.
    fn slot(&self, position: u64, slots: usize) -> usize {
        (position % slots as u64) as usize
    }

    /// Positions that the token at `position` sees.
    fn visible(&self, reach: Reach, position: u64) -> Range<u64> {
        reach.visible(position)
    }

    /// How many of `appended` tokens count once all but the first `length` have been taken back.
    fn truncated(&self, length: u64, appended: u64) -> u64 {
        length.min(appended)
    }
}

/// The rules as they should be.
#[derive(Debug, Clone, Copy, Default)]
pub struct SoundRules;

impl CacheRules for SoundRules {}

/// Keys and values of the tokens appended so far, or of the last ones that fit.
#[derive(Debug, Clone)]
pub struct KeyValueCache<S> {
    shape: HeadShape,
    slots: usize,
    keys: Vec<S>,
    values: Vec<S>,
    appended: u64,
}

impl<S: Stored> KeyValueCache<S> {
    /// An empty cache with room for `slots` tokens (at least 1); a token beyond them takes the oldest one's place.
    ///
    /// With a window of W keys and prompts in chunks of C tokens, W + C − 1 slots are needed: the first token of a chunk still
    /// sees W − 1 keys before it when the last one has been appended.
    ///
    /// # Panics
    /// If h_kv does not divide h, or there is no slot.
    pub fn new(shape: HeadShape, slots: usize) -> Self {
        assert!(slots > 0, "a cache has room for a token");
        assert!(shape.heads.is_multiple_of(shape.key_value_heads), "key and value heads divide the query heads");
        let token = |width: usize| vec![S::written(0.0); slots * shape.key_value_heads * width];
        Self { shape, slots, keys: token(shape.d_k), values: token(shape.d_v), appended: 0 }
    }

    /// Tokens appended so far and not taken back.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Appends the keys (h_kv × d_k) and values (h_kv × d_v) of one token.
    ///
    /// # Panics
    /// If the lengths are others.
    pub fn append(&mut self, keys: &[S], values: &[S], rules: &impl CacheRules) {
        let slot = rules.slot(self.appended, self.slots);
        let (key_width, value_width) = (self.key_width(), self.value_width());
        self.keys[slot * key_width..(slot + 1) * key_width].copy_from_slice(keys);
        self.values[slot * value_width..(slot + 1) * value_width].copy_from_slice(values);
        self.appended += 1;
    }

    /// Takes back all but the first `length` tokens (a rejected draft). What a ring has overwritten does not come back: only
    /// caches that hold every token can be cut.
    ///
    /// # Panics
    /// If the ring has wrapped.
    pub fn truncate(&mut self, length: u64, rules: &impl CacheRules) {
        assert!(self.appended <= self.slots as u64, "a ring that has wrapped cannot be cut");
        self.appended = rules.truncated(length, self.appended);
    }

    /// Numbers held: slots · h_kv · (d_k + d_v).
    pub fn numbers(&self) -> usize {
        self.keys.len() + self.values.len()
    }

    /// Bytes held by them.
    pub fn bytes(&self) -> usize {
        size_of_val(self.keys.as_slice()) + size_of_val(self.values.as_slice())
    }

    /// Attention of one token's `queries` (h × d_k) over the `visible` positions, softmax(scale·q·k) v for each head, into `out` (h × d_v).
    ///
    /// Returns the operations, a multiply-add counted as 2: for each head and key 2·d_k for the product, 1 for the scale, 5 for the softmax
    /// (maximum, difference, exponential, sum, division) and 2·d_v for the value. Logits and output are rounded to S. No visible key leaves
    /// zeros.
    pub fn attend(
        &self,
        queries: &[S::Arithmetic],
        visible: Range<u64>,
        scale: f64,
        rules: &impl CacheRules,
        out: &mut [S::Arithmetic],
    ) -> u64 {
        let HeadShape { d_k, d_v, .. } = self.shape;
        let slots: Vec<usize> = visible.map(|position| rules.slot(position, self.slots)).collect();
        let scale = S::Arithmetic::from_f64(scale);
        let mut operations = 0;
        let mut weights = Vec::with_capacity(slots.len());
        for (head, (query, out)) in queries.chunks(d_k).zip(out.chunks_mut(d_v)).enumerate() {
            let group = self.shape.group_of(head);
            weights.clear();
            for &slot in &slots {
                let first = slot * self.key_width() + group * d_k;
                weights.push(S::rounded(dot::<S>(query, &self.keys[first..first + d_k]) * scale));
                operations += 2 * d_k as u64 + 1;
            }
            operations += softmax(&mut weights);
            out.fill(S::Arithmetic::ZERO);
            for (&slot, &weight) in slots.iter().zip(&weights) {
                let first = slot * self.value_width() + group * d_v;
                for (sum, value) in out.iter_mut().zip(&self.values[first..first + d_v]) {
                    *sum = *sum + weight * value.read();
                }
                operations += 2 * d_v as u64;
            }
            out.iter_mut().for_each(|sum| *sum = S::rounded(*sum));
        }
        operations
    }

    fn key_width(&self) -> usize {
        self.shape.key_value_heads * self.shape.d_k
    }

    fn value_width(&self) -> usize {
        self.shape.key_value_heads * self.shape.d_v
    }
}

/// q·k in eight partial sums, so that the processor can add them side by side.
fn dot<S: Stored>(query: &[S::Arithmetic], key: &[S]) -> S::Arithmetic {
    const LANES: usize = 8;
    let mut sums = [S::Arithmetic::ZERO; LANES];
    let (mut queries, mut keys) = (query.chunks_exact(LANES), key.chunks_exact(LANES));
    for (q, k) in queries.by_ref().zip(keys.by_ref()) {
        for lane in 0..LANES {
            sums[lane] = sums[lane] + q[lane] * k[lane].read();
        }
    }
    let rest = queries.remainder().iter().zip(keys.remainder());
    let tail = rest.fold(S::Arithmetic::ZERO, |sum, (q, k)| sum + *q * k.read());
    sums.into_iter().fold(tail, |sum, lane| sum + lane)
}

/// Replaces logits by their softmax, shifted by the largest; returns 5 operations a key.
fn softmax<A: Arithmetic>(logits: &mut [A]) -> u64 {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |largest, logit| largest.max(logit.to_f64()));
    let mut sum = A::ZERO;
    for logit in logits.iter_mut() {
        *logit = (*logit - A::from_f64(largest)).exponential();
        sum = sum + *logit;
    }
    logits.iter_mut().for_each(|weight| *weight = *weight / sum);
    5 * logits.len() as u64
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
