//! Sinusoidal encodings: the table itself, and what it does to tokens that it is added to.
//!
//! | measure | formula |
//! |---|---|
//! | `angle_error` | largest \|atan2(sin, cos) − p·ω_i\| over positions and pairs, radians |
//! | `map_residual` | largest entry of PE(p + k) − M_k·PE(p), M_k the best d×d matrix (least squares) |
//! | `map_error` | largest entry of M_k − rotation by k·ω_i, M_k fitted pair by pair |
//! | `map_transfer_error` | the same M_k from the first half of the positions: largest error of its prediction in the second half |
//! | `norm` | the \|PE(p)\| farthest from √(d/2) |
//! | `offset_dependence` | largest over k of max_p − min_p of PE(p)·PE(p + k) |
//! | `dot_product:K` | the PE(p)·PE(p + K) farthest from Σ cos(K·ω_i) |
//! | `embedding_variance` | sample variance of the n·d entries of X + PE, divisor nd − 1 |
//! | `logit_mean` | mean of all logits c·(x_i + a_i)·(y_j + a_j), x and y independent draws, a = PE |
//! | `logit_variance` | mean square of the logits less their expectation c·a_i·a_j |
//!
//! For entries of variance s²: E of the sample variance is s² + Σ(PE − mean)²/(nd − 1); E\[S_ij\] = c·a_i·a_j, and Var\[S_ij\] =
//! c²(d·s⁴ + s²|a_i|² + s²|a_j|²) = c²·d·(s⁴ + s²): adding positions doubles the variance of logits of unit-variance tokens.

use super::super::trial_test::TrialTest;
use super::super::{Claim, Draw, Estimator, Expected, Experiment, InputLaw, Inside, Null, Sizes};
use super::bounds::Bounds;
use super::linear_map::{self, Bounded};
use super::{PositionSettings, fixed, turned_back, without_test};
use crate::attention::kernel::{Element, InstructionSet, PackedKeys, logit_block};
use crate::attention::position::Encoding;
use crate::attention::{Precision, Scale};
use crate::report::TheoryKind;
use crate::sampling::{Drawable, TrialStream};
use crate::theory::position::ExactAngles;

/// Rows of logits that are formed at a time.
const ROWS: usize = 64;
/// Multiply-adds spent on all offsets of `offset_dependence`, roughly; more positions are sampled evenly.
const OFFSET_WORK: f64 = 1e9;

/// The experiment of `attn positional --kind sinusoidal` at one parameter point; `encoding` is under test.
pub struct SinusoidalExperiment {
    sizes: Sizes,
    scales: Vec<Scale>,
    law: InputLaw,
    precision: Precision,
    /// Encodings of max(n, m) positions.
    table: Vec<f64>,
    /// Exact PE(p)·PE(p + k), by k.
    products: Vec<f64>,
    /// What the table alone shows, the same in every trial.
    fixed_values: Vec<f64>,
    names: Vec<String>,
    claims: Vec<Claim>,
}

impl SinusoidalExperiment {
    /// Measures `encoding` at `sizes` (even d_k) with tokens drawn from `law` (mean 0, no correlation).
    pub fn new(
        sizes: Sizes,
        law: InputLaw,
        scales: &[Scale],
        settings: &PositionSettings,
        encoding: &impl Encoding,
    ) -> Self {
        let width = sizes.d_k;
        let positions = sizes.queries.max(sizes.keys);
        let exact = ExactAngles::new(width, settings.base);
        let table = encoding.table(settings.start..settings.start + positions as u64);
        let products: Vec<f64> = (0..positions).map(|k| exact.sum_of_cosines(k as u64)).collect();
        let structure = Structure { table: &table, width, settings, exact: &exact, products: &products };
        let (fixed_values, mut claims) = structure.measure();
        let mut names: Vec<String> = claims.iter().map(|claim| claim.statistic.clone()).collect();
        let theory = TokenTheory { sizes, law, precision: settings.precision, exact: &exact, start: settings.start };
        names.push("embedding_variance".to_string());
        claims.push(theory.embedding_variance(names.len() - 1));
        for &scale in scales {
            let first = names.len();
            names.extend(["logit_mean", "logit_variance"].map(|name| format!("{name}:{scale}")));
            claims.extend(theory.logits(scale, first, &products));
        }
        let precision = settings.precision;
        Self { sizes, scales: scales.to_vec(), law, precision, table, products, fixed_values, names, claims }
    }

    fn trial_in<T: Element + Drawable>(
        &self,
        stream: &TrialStream,
        inside: Inside,
        buffers: &mut Buffers<T>,
    ) -> Vec<f64> {
        let Sizes { d_k, queries: n, keys: m } = self.sizes;
        buffers.queries.resize(n * d_k, T::ZERO);
        buffers.keys.resize(m * d_k, T::ZERO);
        self.law.draw(stream, self.sizes, inside, &mut buffers.queries, &mut buffers.keys);
        for rows in [&mut buffers.queries, &mut buffers.keys] {
            for (entry, position) in rows.iter_mut().zip(&self.table) {
                *entry = self.rounded(entry.to_f64() + position);
            }
        }
        let mut values = self.fixed_values.clone();
        values.push(sample_variance(&buffers.queries));
        let packed = buffers.packed.get_or_insert_with(|| PackedKeys::empty(InstructionSet::detect()));
        packed.repack(&buffers.keys, m, d_k);
        buffers.logits.resize(ROWS * m, T::ZERO);
        let factors: Vec<f64> = self.scales.iter().map(|scale| scale.factor(d_k)).collect();
        let mut sums = vec![(0.0, 0.0); factors.len()];
        for (block, queries) in buffers.queries.chunks(ROWS * d_k).enumerate() {
            let rows = queries.len() / d_k;
            logit_block(queries, rows, packed, 0..m, &mut buffers.logits[..rows * m], m);
            for (row, logits) in buffers.logits[..rows * m].chunks(m).enumerate() {
                let query = block * ROWS + row;
                for (sums, &factor) in sums.iter_mut().zip(&factors) {
                    let (mut sum, mut squares) = (0.0, 0.0);
                    for (key, logit) in logits.iter().enumerate() {
                        let scaled: T = self.rounded(logit.to_f64() * factor);
                        let beyond = scaled.to_f64() - factor * self.products[query.abs_diff(key)];
                        sum += scaled.to_f64();
                        squares += beyond * beyond;
                    }
                    sums.0 += sum;
                    sums.1 += squares;
                }
            }
        }
        let count = n as f64 * m as f64;
        values.extend(sums.iter().flat_map(|(sum, squares)| [sum / count, squares / count]));
        values
    }

    fn rounded<T: Element>(&self, value: f64) -> T {
        match self.precision {
            Precision::F64 => T::from_f64(value),
            precision => T::from_f64(f64::from(precision.round_f32(value as f32))),
        }
    }
}

/// Sample variance about the mean, divisor N − 1, N at least 2.
fn sample_variance<T: Element>(entries: &[T]) -> f64 {
    let count = entries.len() as f64;
    let mean = entries.iter().map(|entry| entry.to_f64()).sum::<f64>() / count;
    entries.iter().map(|entry| (entry.to_f64() - mean).powi(2)).sum::<f64>() / (count - 1.0)
}

/// The table and what it is held against.
struct Structure<'a> {
    table: &'a [f64],
    width: usize,
    settings: &'a PositionSettings,
    exact: &'a ExactAngles,
    products: &'a [f64],
}

impl Structure<'_> {
    fn row(&self, position: usize) -> &[f64] {
        &self.table[position * self.width..(position + 1) * self.width]
    }

    fn positions(&self) -> usize {
        self.table.len() / self.width
    }

    /// The values and the claim on each, in the same order.
    fn measure(&self) -> (Vec<f64>, Vec<Claim>) {
        let pairs = self.width as f64 / 2.0;
        let bounds = Bounds::new(self.settings.precision, self.settings.start + self.positions() as u64);
        let offsets: Vec<usize> =
            self.settings.offsets(self.positions()).into_iter().filter(|&k| k < self.positions()).collect();
        let maps = linear_map::fit(self.table, self.width, &offsets, self.exact, &bounds);
        let product_bound = pairs * bounds.product(self.width);
        let (mut values, mut claims) = (Vec::new(), Vec::new());
        let mut add = |value: f64, claim: &dyn Fn(usize) -> Claim| {
            claims.push(claim(values.len()));
            values.push(value);
        };
        add(self.angle_error(), &|column| fixed("angle_error", column, 0.0, bounds.turn(), 1.0));
        for (name, found, why) in [
            ("map_residual", maps.residual, "a full fit needs more than 2·d_k positions"),
            ("map_error", maps.error, "the positions are too few, or their angles too rough, to determine a map"),
            (
                "map_transfer_error",
                maps.transfer,
                "the positions are too few, or their angles too rough, to determine a map",
            ),
        ] {
            match found {
                Some(Bounded { error, bound }) => add(error, &|column| fixed(name, column, 0.0, bound, 1.0)),
                None if name == "map_residual" && self.width > linear_map::WIDEST => {
                    add(f64::NAN, &|column| Claim { null: Null::Measured, ..without_test(name, column, why) });
                }
                None => add(f64::NAN, &|column| without_test(name, column, why)),
            }
        }
        let norm = pairs.sqrt();
        add(self.norm(), &|column| fixed("norm", column, norm, norm * bounds.norm(self.width), norm));
        add(self.offset_dependence(), &|column| fixed("offset_dependence", column, 0.0, 2.0 * product_bound, pairs));
        for &offset in &offsets {
            let name = format!("dot_product:{offset}");
            let expected = self.products[offset];
            add(self.dot_product(offset), &|column| fixed(&name, column, expected, product_bound, pairs));
        }
        (values, claims)
    }

    fn angle_error(&self) -> f64 {
        let error = |position: usize, pair: usize| {
            let row = self.row(position);
            let found = row[2 * pair].atan2(row[2 * pair + 1]);
            turned_back(found - self.exact.angle(self.settings.start + position as u64, pair)).abs()
        };
        let pairs = |position| (0..self.width / 2).map(move |pair| (position, pair));
        farthest((0..self.positions()).flat_map(pairs).map(|(position, pair)| error(position, pair)), 0.0)
    }

    fn norm(&self) -> f64 {
        let norm = |position| self.row(position).iter().map(|x| x * x).sum::<f64>().sqrt();
        farthest((0..self.positions()).map(norm), (self.width as f64 / 2.0).sqrt())
    }

    fn product(&self, position: usize, offset: usize) -> f64 {
        self.row(position).iter().zip(self.row(position + offset)).map(|(a, b)| a * b).sum()
    }

    fn dot_product(&self, offset: usize) -> f64 {
        let products = (0..self.positions() - offset).map(|position| self.product(position, offset));
        farthest(products, self.products[offset])
    }

    fn offset_dependence(&self) -> f64 {
        let n = self.positions();
        let step = (n as f64 * n as f64 * self.width as f64 / OFFSET_WORK).ceil().max(1.0) as usize;
        let spread = |offset: usize| {
            let products = (0..n - offset).map(|position| self.product(position, offset));
            let (low, high) = products.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                if x.is_nan() { (x, x) } else { (low.min(x), high.max(x)) }
            });
            high - low
        };
        farthest((0..n).step_by(step).map(spread), 0.0)
    }
}

/// The value farthest from `expected`; not a number if one is.
pub(super) fn farthest(values: impl Iterator<Item = f64>, expected: f64) -> f64 {
    values.fold(expected, |farthest, value| {
        if (value - expected).abs() <= (farthest - expected).abs() || farthest.is_nan() { farthest } else { value }
    })
}

/// What theory says of tokens with positions added.
struct TokenTheory<'a> {
    sizes: Sizes,
    law: InputLaw,
    precision: Precision,
    exact: &'a ExactAngles,
    start: u64,
}

impl TokenTheory<'_> {
    fn claim(&self, name: &str, scale: Option<Scale>, column: usize, expected: f64, unit: f64) -> Claim {
        let rounds = matches!(self.precision, Precision::Bf16 | Precision::F16);
        let kind = if rounds { TheoryKind::Approximate } else { TheoryKind::Exact };
        let epsilon = self.precision.epsilon();
        // Rounding errors are uncorrelated with the value to first order: squares move by their square, with room.
        let rounding = if rounds { 4.0 * epsilon * epsilon + 1e-6 } else { 16.0 * epsilon };
        let size = if unit > 0.0 { unit } else { expected.abs() };
        Claim {
            index: None,
            statistic: name.to_string(),
            scale,
            family: std::borrow::Cow::Owned(name.to_string()),
            estimator: Estimator::Mean { column },
            expected: Some(Expected { value: expected, kind }),
            null: Null::Trials(TrialTest { allowance: rounding * size, ..TrialTest::student(unit) }),
        }
    }

    fn embedding_variance(&self, column: usize) -> Claim {
        let entries: Vec<f64> =
            (0..self.sizes.queries as u64).flat_map(|p| self.exact.encoding(self.start + p)).collect();
        let expected = self.law.sd.powi(2) + sample_variance(&entries);
        self.claim("embedding_variance", None, column, expected, 0.0)
    }

    fn logits(&self, scale: Scale, first: usize, products: &[f64]) -> [Claim; 2] {
        let Sizes { d_k, queries, keys } = self.sizes;
        let (factor, variance) = (scale.factor(d_k), self.law.sd.powi(2));
        let of_row = |query: usize| (0..keys).map(move |key| products[query.abs_diff(key)]).sum::<f64>();
        let mean = factor * (0..queries).map(of_row).sum::<f64>() / (queries as f64 * keys as f64);
        let raw = d_k as f64 * (variance * variance + variance);
        let natural = factor.abs() * raw.sqrt();
        [
            self.claim("logit_mean", Some(scale), first, mean, natural.max(mean.abs())),
            self.claim("logit_variance", Some(scale), first + 1, scale.of_variance(raw, d_k), 0.0),
        ]
    }
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    single: Buffers<f32>,
    double: Buffers<f64>,
}

struct Buffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    logits: Vec<T>,
    packed: Option<PackedKeys<T>>,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self { queries: Vec::new(), keys: Vec::new(), logits: Vec::new(), packed: None }
    }
}

impl Experiment for SinusoidalExperiment {
    type Workspace = Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn measures(&self) -> Vec<String> {
        self.names.clone()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut Workspace) -> Vec<f64> {
        match self.precision {
            Precision::F64 => self.trial_in(stream, inside, &mut workspace.double),
            Precision::F32 | Precision::Bf16 | Precision::F16 => self.trial_in(stream, inside, &mut workspace.single),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        self.claims.clone()
    }

    fn operations(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let (d, n, m, scales) = (d_k as f64, queries as f64, keys as f64, self.scales.len() as f64);
        n * m * (2.0 * d + 8.0 * scales) + 30.0 * (n + m) * d
    }

    fn bytes(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let element = if self.precision == Precision::F64 { 8.0 } else { 4.0 };
        let (n, m) = (queries as f64, keys as f64);
        ((n + 2.0 * m) * d_k as f64 + ROWS as f64 * m) * element + n.max(m) * d_k as f64 * 8.0
    }
}
