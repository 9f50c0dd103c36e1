//! A prompt, then token by token.

use super::{CacheRules, HeadShape, KeyValueCache, Reach, SoundRules, Stored};
use crate::attention::position::Rotary;
use crate::number::Real;

/// Queries, keys and values of n tokens, before any rotation.
#[derive(Debug, Clone)]
pub struct Problem<S: Stored> {
    /// Heads and widths.
    pub shape: HeadShape,
    /// n × h × d_k, numbers of S.
    pub queries: Vec<S::Arithmetic>,
    /// n × h_kv × d_k, numbers of S.
    pub keys: Vec<S::Arithmetic>,
    /// n × h_kv × d_v.
    pub values: Vec<S>,
    /// Which keys a token sees.
    pub reach: Reach,
    /// Turns queries and keys by their position; None leaves them.
    pub rotary: Option<Rotary>,
    /// The factor on q·k.
    pub scale: f64,
}

impl<S: Stored> Problem<S> {
    /// Number of tokens n.
    pub fn tokens(&self) -> usize {
        self.queries.len() / (self.shape.heads * self.shape.d_k)
    }

    /// The rows of token `token` in a matrix of `width` numbers a token.
    pub(super) fn of_token<T>(matrix: &[T], token: usize, width: usize) -> &[T] {
        &matrix[token * width..(token + 1) * width]
    }

    /// `rows` (heads of d_k numbers) turned by `position`.
    pub(super) fn turned(&self, rows: &[S::Arithmetic], position: u64) -> Vec<S::Arithmetic> {
        let mut rows = rows.to_vec();
        if let Some(rotary) = &self.rotary {
            rotary.rotate_token(&mut rows, position);
        }
        rows
    }
}

/// How the tokens reach the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Tokens of the prompt, at most n.
    pub prefill: usize,
    /// Tokens of the prompt that are appended before their queries attend, at least 1.
    pub chunk: usize,
}

impl Schedule {
    /// Slots that a cache needs for `tokens` tokens.
    pub fn slots(&self, reach: Reach, tokens: usize) -> usize {
        match reach {
            Reach::All => tokens,
            Reach::Window(keys) => tokens.min(keys.saturating_add(self.chunk.min(self.prefill).max(1) - 1)),
        }
    }
}

/// What decoding gave.
#[derive(Debug, Clone)]
pub struct Decoded<S: Stored> {
    /// n × h × d_v.
    pub output: Vec<S::Arithmetic>,
    /// Operations of each token, the prompt's first.
    pub operations: Vec<u64>,
    /// The cache at the end.
    pub cache: KeyValueCache<S>,
}

/// Runs all tokens of `problem` through a cache: the prompt in chunks, then each token alone.
///
/// Where no window limits the cache, a draft token is appended after the prompt and taken back again, as speculative decoding
/// does.
pub fn decode<S: Stored>(problem: &Problem<S>, schedule: Schedule, rules: &impl CacheRules) -> Decoded<S> {
    let tokens = problem.tokens();
    let slots = schedule.slots(problem.reach, tokens);
    let cache = KeyValueCache::new(problem.shape, slots);
    let mut run = Run { problem, rules, cache, output: Vec::new(), operations: Vec::new() };
    for start in (0..schedule.prefill).step_by(schedule.chunk) {
        run.chunk(start, schedule.chunk.min(schedule.prefill - start));
    }
    if problem.reach == Reach::All && schedule.prefill > 0 && schedule.prefill < tokens {
        let length = run.cache.appended();
        run.append(0);
        run.cache.truncate(length, rules);
    }
    for token in schedule.prefill..tokens {
        run.chunk(token, 1);
    }
    Decoded { output: run.output, operations: run.operations, cache: run.cache }
}

/// The last token of the first `tokens`, its attention and that of all before it computed anew from keys and values: what
/// decoding costs without a cache. Returns its output and the operations.
pub fn decode_without_cache<S: Stored>(problem: &Problem<S>, tokens: usize) -> (Vec<S::Arithmetic>, u64) {
    let cache = KeyValueCache::new(problem.shape, tokens);
    let mut run = Run { problem, rules: &SoundRules, cache, output: Vec::new(), operations: Vec::new() };
    run.chunk(0, tokens);
    let width = problem.shape.heads * problem.shape.d_v;
    (run.output.split_off((tokens - 1) * width), run.operations.iter().sum())
}

struct Run<'a, S: Stored, R> {
    problem: &'a Problem<S>,
    rules: &'a R,
    cache: KeyValueCache<S>,
    output: Vec<S::Arithmetic>,
    operations: Vec<u64>,
}

impl<S: Stored, R: CacheRules> Run<'_, S, R> {
    /// Appends the tokens from `start` on, then lets each attend.
    fn chunk(&mut self, start: usize, count: usize) {
        let first = self.cache.appended();
        (start..start + count).for_each(|token| self.append(token));
        for index in 0..count {
            self.attend(start + index, first + index as u64);
        }
    }

    fn append(&mut self, token: usize) {
        let HeadShape { key_value_heads, d_k, d_v, .. } = self.problem.shape;
        let keys = Problem::<S>::of_token(&self.problem.keys, token, key_value_heads * d_k);
        let keys: Vec<S> = (self.problem.turned(keys, self.rules.position(self.cache.appended())).iter())
            .map(|key| S::written(key.to_f64()))
            .collect();
        let values = Problem::<S>::of_token(&self.problem.values, token, key_value_heads * d_v);
        self.cache.append(&keys, values, self.rules);
    }

    /// `position` is the token's place in the cache.
    fn attend(&mut self, token: usize, position: u64) {
        let HeadShape { heads, d_k, d_v, .. } = self.problem.shape;
        let queries = Problem::<S>::of_token(&self.problem.queries, token, heads * d_k);
        let queries = self.problem.turned(queries, self.rules.position(position));
        let start = self.output.len();
        self.output.resize(start + heads * d_v, S::Arithmetic::ZERO);
        let visible = self.rules.visible(self.problem.reach, position);
        let out = &mut self.output[start..];
        self.operations.push(self.cache.attend(&queries, visible, self.problem.scale, self.rules, out));
    }
}
