//! Rotary encodings: queries and keys turned by their position.
//!
//! | measure | formula |
//! |---|---|
//! | those of `attn variance` | of the rotated Q and K |
//! | `angle_error` | largest \|angle by which a pair is turned − p·ω_i\| over positions and pairs, radians |
//! | `norm_change` | largest \|\|R_p q\|/\|q\| − 1\| over all rows of Q and K |
//! | `score_offset_dependence` | largest over k of max_p − min_p of (R_p q)·(R_{p+k} k') over \|q\|\|k'\|, q and k' the first rows |
//! | `score_error` | largest \|(R_p q)·(R_{p+k} k') − q·R_k k'\| over \|q\|\|k'\|, the second from exact angles |
//! | `self_score:K` | mean over tokens (at most 128) of (R_p q)·(R_{p+K} q)/d |
//!
//! Rotated rows of normal entries are normal again and independent: every exact error bar of `attn variance` holds as it stands. Pairs of
//! other entries stay uncorrelated but become dependent: expectations hold, the scatter is taken from the trials, and the kurtosis
//! is another. E of the self score is s²·(2/d)·Σ cos(K·ω_i).

use super::super::trial_test::TrialTest;
use super::super::variance::{self, VarianceExperiment};
use super::super::{Claim, Draw, Estimator, Expected, Experiment, InputLaw, Inside, Null, Sizes};
use super::bounds::Bounds;
use super::sinusoidal::farthest;
use super::{PositionSettings, fixed, turned_back};
use crate::attention::position::{Layout, Rotation, Side};
use crate::attention::{Precision, Scale, ScaledDotProduct};
use crate::number::Real;
use crate::report::TheoryKind;
use crate::sampling::{Drawable, Entries, TrialStream};
use crate::theory::position::ExactAngles;

/// Tokens whose score with themselves is taken, at most.
const SELF_SCORE_TOKENS: usize = 128;
/// Positions at which one pair of vectors is scored, at most, for each offset.
const SCORE_POSITIONS: usize = 8;
/// What is claimed of the rotated logits.
const LOGIT_STATISTICS: [&str; 3] = ["logit_mean", "logit_variance", "logit_kurtosis"];

/// Draws Q and K, then turns each row by its position.
#[derive(Debug, Clone, PartialEq)]
pub struct RotatedDraw<R> {
    /// Law of the entries before the rotation.
    pub law: InputLaw,
    /// The rotation.
    pub rotation: R,
    /// Position of the first row.
    pub start: u64,
    /// What entries are rounded to before they are turned.
    pub precision: Precision,
}

impl<R> RotatedDraw<R> {
    /// Q and K before the rotation.
    fn unrotated<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, q: &mut [T], k: &mut [T]) {
        self.law.draw(stream, sizes, inside, q, k);
        self.precision.round_matrix(q);
        self.precision.round_matrix(k);
    }
}

impl<R: Rotation> Draw for RotatedDraw<R> {
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]) {
        self.unrotated(stream, sizes, inside, queries, keys);
        self.rotation.rotate(Side::Query, queries, self.start);
        self.rotation.rotate(Side::Key, keys, self.start);
    }
}

/// The experiment of `attn positional --kind rotary` at one parameter point; `R` is under test.
pub struct RotaryExperiment<R> {
    sizes: Sizes,
    draw: RotatedDraw<R>,
    layout: Layout,
    offsets: Vec<usize>,
    exact: ExactAngles,
    logits: VarianceExperiment<RotatedDraw<R>, ScaledDotProduct>,
    angle_error: f64,
    names: Vec<String>,
    claims: Vec<Claim>,
}

impl<R: Rotation + Clone> RotaryExperiment<R> {
    /// Measures `rotation`, which claims to turn the pairs of `layout`, at `sizes` (even d_k), with entries from `law` (mean 0, no
    /// correlation).
    pub fn new(
        sizes: Sizes,
        law: InputLaw,
        scales: &[Scale],
        settings: &PositionSettings,
        layout: Layout,
        rotation: R,
    ) -> Self {
        let precision = settings.precision;
        let positions = sizes.queries.max(sizes.keys);
        let offsets = settings.offsets(positions);
        let exact = ExactAngles::new(sizes.d_k, settings.base);
        let draw = RotatedDraw { law, rotation, start: settings.start, precision };
        let attention = ScaledDotProduct { precision };
        let logits = VarianceExperiment::with_parts(sizes, law, scales, precision, draw.clone(), attention);
        let mut names = logits.measures();
        let mut claims: Vec<Claim> =
            logits.claims().into_iter().filter_map(|claim| of_logits(claim, law, sizes)).collect();
        let last = settings.start + (positions + offsets.iter().max().unwrap_or(&0)) as u64;
        let bounds = Bounds::new(precision, last);
        let width = sizes.d_k;
        for (name, bound) in [
            ("angle_error", bounds.turn()),
            ("norm_change", bounds.norm(width)),
            ("score_offset_dependence", 2.0 * bounds.product(width)),
            ("score_error", bounds.product(width)),
        ] {
            claims.push(fixed(name, names.len(), 0.0, bound, 1.0));
            names.push(name.to_string());
        }
        for &offset in &offsets {
            let name = format!("self_score:{offset}");
            let variance = law.sd * law.sd;
            let expected = variance * exact.sum_of_cosines(offset as u64) / exact.pairs() as f64;
            claims.push(self_score(&name, names.len(), expected, variance, precision));
            names.push(name);
        }
        let angle_error = angle_error(&draw.rotation, layout, settings.start, positions, &exact);
        Self { sizes, draw, layout, offsets, exact, logits, angle_error, names, claims }
    }

    /// What is measured beside the logits.
    fn positions<T: Drawable>(&self, stream: &TrialStream, inside: Inside, buffers: &mut Buffers<T>) -> Vec<f64> {
        let Sizes { d_k, queries: n, keys: m } = self.sizes;
        let Buffers { queries, keys, turned, other } = buffers;
        queries.resize(n * d_k, T::ZERO);
        keys.resize(m * d_k, T::ZERO);
        self.draw.unrotated(stream, self.sizes, inside, queries, keys);
        let norm_changes = [(Side::Query, &*queries), (Side::Key, &*keys)].map(|(side, rows)| {
            turned.clear();
            turned.extend_from_slice(rows);
            self.draw.rotation.rotate(side, turned, self.draw.start);
            let change = |(before, after): (&[T], &[T])| (dot(after, after) / dot(before, before)).sqrt() - 1.0;
            farthest(rows.chunks(d_k).zip(turned.chunks(d_k)).map(change).map(f64::abs), 0.0)
        });
        let (spread, error) = self.scores(&queries[..d_k], &keys[..d_k]);
        let mut values = vec![self.angle_error, farthest(norm_changes.into_iter(), 0.0), spread, error];
        let tokens = &queries[..n.min(SELF_SCORE_TOKENS) * d_k];
        turned.clear();
        turned.extend_from_slice(tokens);
        self.draw.rotation.rotate(Side::Query, turned, self.draw.start);
        for &offset in &self.offsets {
            other.clear();
            other.extend_from_slice(tokens);
            self.draw.rotation.rotate(Side::Key, other, self.draw.start + offset as u64);
            values.push(dot(turned, other) / tokens.len() as f64);
        }
        values
    }

    /// Spread over positions and error of the scores of one query and key, over their lengths.
    fn scores<T: Real>(&self, query: &[T], key: &[T]) -> (f64, f64) {
        let length = (dot(query, query) * dot(key, key)).sqrt();
        let positions = self.sizes.queries.max(self.sizes.keys);
        let places: Vec<usize> = (0..positions).step_by(positions.div_ceil(SCORE_POSITIONS)).collect();
        let turned = |side, row: &[T], position: u64| {
            let mut row = row.to_vec();
            self.draw.rotation.rotate(side, &mut row, position);
            row
        };
        let of_offset = |&offset: &usize| {
            let score = |&place: &usize| {
                let position = self.draw.start + place as u64;
                let (q, k) = (turned(Side::Query, query, position), turned(Side::Key, key, position + offset as u64));
                dot(&q, &k) / length
            };
            let scores: Vec<f64> = places.iter().map(score).collect();
            let exact = self.exact_score(query, key, offset) / length;
            let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
            let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let error = farthest(scores.iter().map(|score| (score - exact).abs()), 0.0);
            (if error.is_nan() { error } else { high - low }, error)
        };
        let all: Vec<(f64, f64)> = self.offsets.iter().map(of_offset).collect();
        (farthest(all.iter().map(|pair| pair.0), 0.0), farthest(all.iter().map(|pair| pair.1), 0.0))
    }

    /// q·R_k k' by exact angles.
    fn exact_score<T: Real>(&self, query: &[T], key: &[T], offset: usize) -> f64 {
        let pair = |pair: usize| {
            let (first, second) = self.layout.columns(pair, query.len());
            let (sine, cosine) = self.exact.angle(offset as u64, pair).sin_cos();
            let (a, b, c, d) =
                (query[first].to_f64(), query[second].to_f64(), key[first].to_f64(), key[second].to_f64());
            (a * c + b * d) * cosine + (b * c - a * d) * sine
        };
        (0..self.exact.pairs()).map(pair).sum()
    }
}

/// The claims on logits that rotation leaves as they are.
fn of_logits(claim: Claim, law: InputLaw, sizes: Sizes) -> Option<Claim> {
    if !LOGIT_STATISTICS.contains(&claim.statistic.as_str()) {
        return None;
    }
    if law.entries == Entries::Normal {
        return Some(claim);
    }
    let natural =
        claim.scale.map_or(1.0, |scale| scale.factor(sizes.d_k).abs()) * (sizes.d_k as f64).sqrt() * law.sd.powi(2);
    match claim.statistic.as_str() {
        "logit_mean" => Some(Claim { null: Null::Trials(TrialTest::student(natural)), ..claim }),
        "logit_variance" => Some(Claim { null: Null::Trials(TrialTest::student(0.0)), ..claim }),
        _ => None,
    }
}

fn self_score(name: &str, column: usize, expected: f64, unit: f64, precision: Precision) -> Claim {
    let rounds = matches!(precision, Precision::Bf16 | Precision::F16);
    let epsilon = precision.epsilon();
    // Rounding moves each of the two rotated rows by up to 2ε of its length, as often one way as the other.
    let allowance = unit * if rounds { 4.0 * epsilon * epsilon + 1e-6 } else { 16.0 * epsilon };
    Claim {
        index: None,
        statistic: name.to_string(),
        scale: None,
        family: std::borrow::Cow::Owned(name.to_string()),
        estimator: Estimator::Mean { column },
        expected: Some(Expected {
            value: expected,
            kind: if rounds { TheoryKind::Approximate } else { TheoryKind::Exact },
        }),
        null: Null::Trials(TrialTest { allowance, ..TrialTest::student(unit) }),
    }
}

/// Turns (1, 0) in every pair and reads the angle back; many rows at a time, as a rotation of the wrong axis shows only then.
fn angle_error(rotation: &impl Rotation, layout: Layout, start: u64, positions: usize, exact: &ExactAngles) -> f64 {
    const ROWS: usize = 64;
    let width = 2 * exact.pairs();
    let mut unit = vec![0.0f64; width];
    (0..exact.pairs()).for_each(|pair| unit[layout.columns(pair, width).0] = 1.0);
    let of_row = |(row, position): (&[f64], u64)| {
        let error = |pair: usize| {
            let (first, second) = layout.columns(pair, width);
            turned_back(row[second].atan2(row[first]) - exact.angle(position, pair)).abs()
        };
        farthest((0..exact.pairs()).map(error), 0.0)
    };
    let of_block = |block: usize| {
        let first = start + block as u64;
        let mut rows = unit.repeat(ROWS.min(positions - block));
        rotation.rotate(Side::Query, &mut rows, first);
        farthest(rows.chunks(width).zip(first..).map(of_row), 0.0)
    };
    farthest((0..positions).step_by(ROWS).map(of_block), 0.0)
}

fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    logits: variance::Workspace,
    single: Buffers<f32>,
    double: Buffers<f64>,
}

#[derive(Default)]
struct Buffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    turned: Vec<T>,
    other: Vec<T>,
}

impl<R: Rotation + Clone> Experiment for RotaryExperiment<R> {
    type Workspace = Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn measures(&self) -> Vec<String> {
        self.names.clone()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut Workspace) -> Vec<f64> {
        let mut values = self.logits.trial(stream, inside, &mut workspace.logits);
        values.extend(match self.draw.precision {
            Precision::F64 => self.positions(stream, inside, &mut workspace.double),
            Precision::F32 | Precision::Bf16 | Precision::F16 => self.positions(stream, inside, &mut workspace.single),
        });
        values
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let tokens = queries as f64 * 2.0 + keys as f64 * 2.0 + (self.offsets.len() * SELF_SCORE_TOKENS) as f64;
        self.logits.operations() + 30.0 * tokens * d_k as f64
    }

    fn bytes(&self) -> f64 {
        2.0 * self.logits.bytes()
    }
}
