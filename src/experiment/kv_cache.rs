//! Does decoding token by token with cached keys and values equal the full causal pass, and what does it save?
//!
//! One trial draws Q (n × h × d_k), K (n × h_kv × d_k) and V (n × h_kv × d_v), a decoder layer and an encoder's tokens, and measures
//!
//! | measure | formula |
//! |---|---|
//! | `bound_share` | largest \|decoded − full pass\| over the bound of that output ([`full::causal_pass`]) |
//! | `output_difference` | largest \|decoded − full pass\| |
//! | `rounding_bound` | largest bound |
//! | `sequence_difference` | largest \|generated with − without cache\| |
//! | `operations_per_token` | operations of attention counted while decoding, mean over the tokens after the prompt |
//! | `operations_cached:P`, `operations_uncached:P` | the same at position P, with the cache and with nothing kept |
//! | `cache_numbers`, `cache_bytes` | what the cache holds at the end |
//! | `seconds_per_token`, `seconds_uncached:P` | with `--time` only: wall-clock time of the run through the cache over n, and of position P with nothing kept |
//!
//! Everything but the seconds is fixed by theory, in every trial.

mod draw;

use std::borrow::Cow;
use std::time::Instant;

use half::{bf16, f16};

use super::{Claim, Estimator, Expected, Experiment, InputLaw, Inside, Null, Sizes};
use crate::attention::cache::{
    CacheRules, HeadShape, Problem, Reach, Schedule, SoundRules, Stored, decode, decode_without_cache, full, generate,
};
use crate::attention::position::{Layout, PairAngles, Rotary};
use crate::attention::{Precision, Scale};
use crate::number::Real;
use crate::number::larger;
use crate::report::{Row, TheoryKind};
use crate::sampling::{Drawable, TrialStream};
use crate::statistics::NullModel;
use crate::theory::cache::CacheCost;

/// Positions at which decoding with and without a cache are compared.
const COMPARED: usize = 5;

/// More tokens than this are a slip of the keyboard; counts of operations stay below 2⁶⁴.
const MOST_TOKENS: usize = 1 << 20;
const LARGEST_TOKEN: u128 = 1 << 22;
const LARGEST_MATRIX: u128 = 1 << 28;

/// Whether time is measured: then a run is no longer the same to the last bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// No clock.
    Off,
    /// Rows of seconds, never judged.
    On,
}

/// What is decoded beside its sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSettings {
    /// Query heads h.
    pub heads: usize,
    /// Key and value heads h_kv, a divisor of h.
    pub key_value_heads: usize,
    /// Width of values; None for d_k.
    pub d_v: Option<usize>,
    /// Tokens of the prompt, at most n; None for half of them.
    pub prefill: Option<usize>,
    /// Tokens of a chunk of the prompt; None for all of it.
    pub chunk: Option<usize>,
    /// Which keys a token sees.
    pub reach: Reach,
    /// Rotary pairs; None for no positions.
    pub layout: Option<Layout>,
    /// Steps of generation; 0 for none.
    pub generate: usize,
    /// The factor on q·k.
    pub scale: Scale,
    /// Type of the cache.
    pub precision: Precision,
    /// Whether time is measured.
    pub timing: Timing,
}

impl CacheSettings {
    /// Sizes at which every count is exact and every matrix can be addressed.
    ///
    /// # Errors
    /// The rule: at most 2²⁰ tokens, h·(2d_k + 2d_v + 6) at most 2²², and tokens times h·(d_k + d_v) at most 2²⁸.
    pub fn check_sizes(&self, sizes: Sizes) -> Result<(), String> {
        let HeadShape { heads, d_k, d_v, .. } = self.shape(sizes.d_k);
        let tokens = sizes.queries.max(sizes.keys).max(self.generate);
        let width = (heads as u128) * (d_k as u128 + d_v as u128);
        let small = tokens <= MOST_TOKENS
            && 2 * width + 6 * heads as u128 <= LARGEST_TOKEN
            && width * tokens as u128 <= LARGEST_MATRIX;
        if small {
            return Ok(());
        }
        Err(format!(
            "--queries {} --keys {} --heads {heads} --dk {d_k} --dv {d_v} --generate {}: too large; at most {MOST_TOKENS} tokens, \
             h·(2·d_k + 2·d_v + 6) at most {LARGEST_TOKEN}, tokens times h·(d_k + d_v) at most {LARGEST_MATRIX}",
            sizes.queries, sizes.keys, self.generate
        ))
    }

    fn shape(&self, d_k: usize) -> HeadShape {
        let Self { heads, key_value_heads, d_v, .. } = *self;
        HeadShape { heads, key_value_heads, d_k, d_v: d_v.unwrap_or(d_k) }
    }

    fn schedule(&self, tokens: usize) -> Schedule {
        let prefill = self.prefill.unwrap_or(tokens / 2);
        Schedule { prefill, chunk: self.chunk.unwrap_or(prefill).clamp(1, prefill.max(1)) }
    }

    /// The cost theory at width `d_k`.
    pub fn cost(&self, d_k: usize) -> CacheCost {
        let HeadShape { heads, key_value_heads, d_k, d_v } = self.shape(d_k);
        let [heads, key_value_heads, d_k, d_v] = [heads, key_value_heads, d_k, d_v].map(|size| size as u64);
        let window = match self.reach {
            Reach::All => None,
            Reach::Window(keys) => Some(keys as u64),
        };
        CacheCost { heads, key_value_heads, d_k, d_v, window }
    }

    /// Positions of decoded tokens at which costs with and without a cache are compared, evenly from the first to the last.
    pub fn compared(&self, tokens: usize) -> Vec<usize> {
        let first = self.schedule(tokens).prefill;
        let Some(span) = tokens.checked_sub(first + 1) else { return Vec::new() };
        let mut positions: Vec<usize> = (0..COMPARED).map(|index| first + span * index / (COMPARED - 1)).collect();
        positions.dedup();
        positions
    }

    fn rotary(&self, width: usize, positions: usize) -> Option<Rotary> {
        let arithmetic = if self.precision == Precision::F64 { Precision::F64 } else { Precision::F32 };
        let angles = PairAngles::new(width, crate::attention::position::USUAL_BASE, arithmetic, self.precision);
        let rotary = self.layout.map(|layout| Rotary::new(angles.expect("a checked width"), layout));
        rotary.map(|rotary| rotary.remembering(0..positions as u64 + 2))
    }
}

/// Operations with and without a cache by position (up to a few hundred points), from the closed formulas.
pub fn cost_curve(settings: &CacheSettings, sizes: Sizes) -> Vec<(f64, f64, f64)> {
    let cost = settings.cost(sizes.d_k);
    let step = (sizes.queries / 256).max(1);
    let at = |position: usize| {
        let position = position as u64;
        (position as f64, cost.operations(position) as f64, cost.operations_without_cache(position) as f64)
    };
    (0..sizes.queries).step_by(step).chain([sizes.queries - 1]).map(at).collect()
}

/// The experiment of `attn kv-cache` at one parameter point; `R` is under test. Sizes: n tokens as `queries`, the encoder's as `keys`.
pub struct CacheExperiment<R = SoundRules> {
    sizes: Sizes,
    law: InputLaw,
    settings: CacheSettings,
    rotary: Option<Rotary>,
    rules: R,
    names: Vec<String>,
    claims: Vec<Claim>,
}

impl CacheExperiment {
    /// The experiment with the cache that it claims to have.
    pub fn new(sizes: Sizes, law: InputLaw, settings: CacheSettings) -> Self {
        Self::with_rules(sizes, law, settings, SoundRules)
    }
}

impl<R: CacheRules> CacheExperiment<R> {
    /// The same claims for another cache.
    pub fn with_rules(sizes: Sizes, law: InputLaw, settings: CacheSettings, rules: R) -> Self {
        let tokens = sizes.queries;
        let rotary = settings.rotary(sizes.d_k, tokens.max(settings.generate));
        let claims = claims(sizes, &settings);
        let names = claims.iter().map(|claim| claim.statistic.clone()).collect();
        Self { sizes, law, settings, rotary, rules, names, claims }
    }

    fn trial_in<S: Stored>(&self, stream: &TrialStream, inside: Inside) -> Vec<f64>
    where
        S::Arithmetic: Drawable,
    {
        let Self { sizes, settings, .. } = self;
        let n = sizes.queries;
        let problem: Problem<S> = self.problem(stream, inside);
        let schedule = settings.schedule(n);
        let full = full::causal_pass(&problem);
        let started = Instant::now();
        let decoded = decode(&problem, schedule, &self.rules);
        let seconds = started.elapsed().as_secs_f64();
        let (mut share, mut difference) = (0.0, 0.0);
        for ((a, b), bound) in full.output.iter().zip(&decoded.output).zip(&full.bounds) {
            let apart = (a.to_f64() - b.to_f64()).abs();
            difference = larger(difference, apart);
            // 0/0 where all values seen are 0.
            share = larger(share, if apart == 0.0 { 0.0 } else { apart / bound });
        }
        let mut values = vec![share, difference, full.bounds.iter().copied().fold(0.0, larger)];
        if settings.generate > 0 {
            values.push(self.sequence_difference::<S>(stream));
        }
        let after_prompt = &decoded.operations[schedule.prefill..];
        values.push(after_prompt.iter().sum::<u64>() as f64 / after_prompt.len() as f64);
        let mut times = vec![seconds / n as f64];
        for position in settings.compared(n) {
            let started = Instant::now();
            let (_, operations) = decode_without_cache(&problem, position + 1);
            times.push(started.elapsed().as_secs_f64());
            values.extend([decoded.operations[position] as f64, operations as f64]);
        }
        values.extend([decoded.cache.numbers() as f64, decoded.cache.bytes() as f64]);
        if settings.timing == Timing::On {
            values.extend(times);
        }
        values
    }
}

/// What theory says, in the order of the columns.
fn claims(sizes: Sizes, settings: &CacheSettings) -> Vec<Claim> {
    let Sizes { d_k, queries: n, .. } = sizes;
    let (cost, schedule) = (settings.cost(d_k), settings.schedule(n));
    let mut claims: Vec<Claim> = Vec::new();
    let mut add = |statistic: &str, expected: Option<f64>, bound: f64| {
        let column = claims.len();
        let model =
            |value: f64| NullModel { unit: value.abs().max(f64::from(value == 0.0)), ..NullModel::fixed(value) };
        claims.push(Claim {
            index: None,
            statistic: statistic.to_string(),
            scale: Some(settings.scale),
            family: Cow::Owned(statistic.to_string()),
            estimator: if expected.is_some() { Estimator::Largest { column } } else { Estimator::Mean { column } },
            expected: expected.map(|value| Expected { value, kind: TheoryKind::Exact }),
            null: expected.map_or(Null::Measured, |value| Null::Exact { model: model(value), rounding: bound }),
        });
    };
    add("bound_share", Some(0.0), 1.0);
    add("output_difference", None, 0.0);
    add("rounding_bound", None, 0.0);
    if settings.generate > 0 {
        add("sequence_difference", Some(0.0), 0.0);
    }
    let decoded = schedule.prefill..n;
    let total: u64 = decoded.clone().map(|position| cost.operations(position as u64)).sum();
    add("operations_per_token", Some(total as f64 / decoded.len() as f64), 0.0);
    let compared = settings.compared(n);
    for &position in &compared {
        let at = position as u64;
        add(&format!("operations_cached:{position}"), Some(cost.operations(at) as f64), 0.0);
        add(&format!("operations_uncached:{position}"), Some(cost.operations_without_cache(at) as f64), 0.0);
    }
    let numbers = cost.numbers(schedule.slots(settings.reach, n) as u64) as f64;
    add("cache_numbers", Some(numbers), 0.0);
    let bytes = match settings.precision {
        Precision::F64 => 8.0,
        Precision::F32 => 4.0,
        Precision::Bf16 | Precision::F16 => 2.0,
    };
    add("cache_bytes", Some(numbers * bytes), 0.0);
    if settings.timing == Timing::On {
        add("seconds_per_token", None, 0.0);
        compared.iter().for_each(|position| add(&format!("seconds_uncached:{position}"), None, 0.0));
    }
    claims
}

impl<R: CacheRules> Experiment for CacheExperiment<R> {
    type Workspace = ();

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn mask(&self) -> Option<String> {
        Some(match self.settings.reach {
            Reach::All => "causal".to_string(),
            Reach::Window(keys) => format!("window:{keys}"),
        })
    }

    fn measures(&self) -> Vec<String> {
        self.names.clone()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, (): &mut ()) -> Vec<f64> {
        match self.settings.precision {
            Precision::F64 => self.trial_in::<f64>(stream, inside),
            Precision::F32 => self.trial_in::<f32>(stream, inside),
            Precision::Bf16 => self.trial_in::<bf16>(stream, inside),
            Precision::F16 => self.trial_in::<f16>(stream, inside),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let n = self.sizes.queries;
        let cost = self.settings.cost(self.sizes.d_k);
        let anew: u64 = self.settings.compared(n).iter().map(|&p| cost.operations_without_cache(p as u64)).sum();
        let shape = self.settings.shape(self.sizes.d_k);
        let steps = self.settings.generate as f64;
        let width = (shape.heads * shape.d_k) as f64;
        let cached = cost.operations_without_cache(n as u64 - 1);
        2.0 * cached as f64
            + anew as f64
            + steps * steps * width * (shape.key_value_heads * (shape.d_k + shape.d_v)) as f64
    }

    fn bytes(&self) -> f64 {
        let HeadShape { heads, key_value_heads, d_k, d_v } = self.settings.shape(self.sizes.d_k);
        let width = heads * d_k;
        let token = 3 * heads * (d_k + d_v) + 3 * key_value_heads * (d_k + d_v);
        let weights = width * (3 * width + 2 * heads * d_v + key_value_heads * (d_k + d_v));
        let encoder = self.sizes.keys * 2 * key_value_heads * (d_k + d_v);
        8.0 * (self.sizes.queries as f64 * (token + 64) as f64 + (weights + encoder) as f64)
    }
}

/// One sentence a run: how close decoding came to the full pass, and what the cache saves at the last position.
pub fn remarks(rows: &[Row]) -> Vec<String> {
    let value = |name: &str| rows.iter().find(|row| row.statistic == name).and_then(|row| row.estimate);
    let mut remarks = Vec::new();
    if let (Some(share), Some(difference), Some(bound)) =
        (value("bound_share"), value("output_difference"), value("rounding_bound"))
    {
        remarks.push(format!(
            "Decoded outputs differ from the full pass by {difference:.1e} at most (mean over the trials); rounding may move one by up to \
             {bound:.1e}. The nearest that any came to its own bound is {:.2} % of it.",
            100.0 * share
        ));
    }
    let last = |prefix: &str| {
        let of_prefix = |row: &&Row| row.statistic.starts_with(prefix);
        rows.iter().rfind(of_prefix).and_then(|row| Some((row.statistic.split_once(':')?.1, row.estimate?)))
    };
    if let (Some((position, cached)), Some((_, uncached))) = (last("operations_cached:"), last("operations_uncached:"))
    {
        remarks.push(format!(
            "At position {position} the cache saves a factor of {:.0} in operations of attention ({cached:.3e} for {uncached:.3e}).",
            uncached / cached
        ));
    }
    remarks
}
