//! The yardstick: the definition in f64 whose logits and sums are compensated, so that its own error is that of a few last roundings
//! and an f64 implementation can be held against it too.
//!
//! Products and sums carry their rounding errors along (Ogita, Rump & Oishi, *Accurate Sum and Dot Product*, 2005): a logit is known
//! to about u·|logit| + d²u²·Σ|q k| with its own rounding kept as a second number, u = 2⁻⁵³, so that a weight's relative error is a
//! few u however large the logit. Beside each result stands what one rounding of each logit, each weight and the result would move it
//! by ([`Yardstick::noise`]), for the bound of [`super::bound`].

use super::attend::{Outcome, source};
use super::behaviour::{Arithmetic, Behaviour};
use super::case::{Block, Case, MaskForm, Shape};

/// Values, and how sensitive they are to rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct Yardstick {
    /// The values.
    pub values: Outcome,
    /// For each value, what one rounding of each logit and each term can move it by: relative to the unit roundoff of the arithmetic.
    pub noise: Outcome,
    /// Whether a query sees a key, (b, h, 1, n), 1 or 0.
    pub sees: Block,
}

/// a + b and its rounding error (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// a·b and its rounding error (Dekker, Veltkamp).
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let split = |x: f64| {
        let scaled = 134_217_729.0 * x;
        let high = scaled - (scaled - x);
        (high, x - high)
    };
    let product = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
    (product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)
}

/// A number and the part that did not fit.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let (high, error) = two_sum(self.high, term);
        (self.high, self.low) = (high, self.low + error);
    }

    fn add_product(&mut self, a: f64, b: f64) {
        let (product, error) = two_product(a, b);
        self.add(product);
        self.low += error;
    }

    fn times(self, factor: f64) -> Self {
        let (high, error) = two_product(self.high, factor);
        Self { high, low: error + self.low * factor }
    }

    fn value(self) -> f64 {
        self.high + self.low
    }
}

/// The right results of `case` under `behaviour`, which must be one of [`super::behaviour::right`].
pub fn yardstick(case: &Case, behaviour: &Behaviour) -> Yardstick {
    let shape = case.inputs.shape();
    let Shape { batches, heads, queries: n, keys: m, value_width, .. } = shape;
    let empty = || Outcome {
        output: Block::zeros([batches, heads, n, value_width]),
        weights: Block::zeros([batches, heads, n, m]),
        log_sum_exp: Block::zeros([batches, heads, 1, n]),
        gradients: case.options.gradients.then(|| {
            let inputs = &case.inputs;
            [&inputs.queries, &inputs.keys, &inputs.values].map(|block| Block::zeros(block.shape))
        }),
    };
    let (mut values, mut noise) = (empty(), empty());
    let mut sees = Block::zeros([batches, heads, 1, n]);
    for batch in 0..batches {
        for head in 0..heads {
            for query in 0..n {
                let row = Row::new(case, behaviour, &shape, batch, head, query);
                sees.row_mut(batch, head, 0)[query] = f64::from(u8::from(row.total > 0.0));
                row.write(case, &mut values, &mut noise);
                if let Some(gradient) = &case.inputs.output_gradient {
                    row.write_gradients(case, behaviour.scale, gradient, &mut values, &mut noise);
                }
            }
        }
    }
    Yardstick { values, noise, sees }
}

struct Row {
    place: (usize, usize, usize),
    key_place: (usize, usize),
    weights: Vec<f64>,
    /// How far one rounding of the products, the logit and the exponential moves a weight, in unit roundoffs.
    sizes: Vec<f64>,
    /// Derivative of the soft cap.
    through: Vec<f64>,
    log_sum_exp: f64,
    total: f64,
}

impl Row {
    fn new(case: &Case, behaviour: &Behaviour, shape: &Shape, batch: usize, head: usize, query: usize) -> Self {
        let inputs = &case.inputs;
        let (key_batch, key_head) = source(behaviour, shape, batch, head);
        let entries = inputs.queries.row(batch, head, query);
        let mut logits = vec![None; shape.keys];
        let (mut sizes, mut through) = (vec![0.0; shape.keys], vec![1.0; shape.keys]);
        for key in 0..shape.keys {
            let mut logit = Sum::default();
            let mut size = 0.0;
            for (&q, &k) in entries.iter().zip(inputs.keys.row(key_batch, key_head, key)) {
                logit.add_product(q, k);
                size += (q * k).abs();
            }
            logit = logit.times(behaviour.scale);
            size *= behaviour.scale.abs();
            if let Some(cap) = case.options.softcap {
                let tanh = (logit.value() / cap).tanh();
                through[key] = 1.0 - tanh * tanh;
                // An error of the capped logit is the slope times that of the logit, and its own rounding.
                size = size * through[key] + (cap * tanh).abs();
                logit = Sum { high: cap * tanh, low: 0.0 };
            }
            if let Some(slopes) = &inputs.slopes {
                let penalty = slopes[head] * (key as f64 - query as f64).abs();
                logit.add(-penalty);
                size += penalty;
            }
            let mut visible = behaviour.shows(query, key, shape.queries, shape.keys);
            if let Some(mask) = &inputs.mask {
                let cell = mask.row(batch, head, query)[key];
                match case.options.mask {
                    Some(MaskForm::Additive) if cell == f64::NEG_INFINITY => visible = false,
                    Some(MaskForm::Additive) => {
                        logit.add(cell);
                        size += cell.abs();
                    }
                    _ => visible &= cell != 0.0,
                }
            }
            // What is hidden counts for nothing, not even as NaN.
            logits[key] = visible.then_some(logit);
            sizes[key] = if visible { size + 1.0 } else { 0.0 };
        }
        let maximum = logits.iter().flatten().map(|logit| logit.high).fold(f64::NEG_INFINITY, f64::max);
        let mut total = Sum::default();
        let mut weights: Vec<f64> = logits
            .iter()
            .map(|logit| {
                logit.map_or(0.0, |logit| {
                    let (difference, error) = two_sum(logit.high, -maximum);
                    difference.exp() * (1.0 + (error + logit.low))
                })
            })
            .collect();
        weights.iter().for_each(|&weight| total.add(weight));
        let total = total.value();
        if total > 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        Self {
            place: (batch, head, query),
            key_place: (key_batch, key_head),
            weights,
            sizes,
            through,
            log_sum_exp: maximum + total.ln(),
            total,
        }
    }

    fn write(&self, case: &Case, values: &mut Outcome, noise: &mut Outcome) {
        let (batch, head, query) = self.place;
        let mean_size: f64 = self.weights.iter().zip(&self.sizes).map(|(weight, size)| weight * size).sum();
        values.weights.row_mut(batch, head, query).copy_from_slice(&self.weights);
        for (key, cell) in noise.weights.row_mut(batch, head, query).iter_mut().enumerate() {
            *cell = self.weights[key] * (self.sizes[key] + mean_size);
        }
        values.log_sum_exp.row_mut(batch, head, 0)[query] = self.log_sum_exp;
        noise.log_sum_exp.row_mut(batch, head, 0)[query] = mean_size;
        let width = case.inputs.values.shape[3];
        for channel in 0..width {
            let entry = |key: usize| case.inputs.values.row(self.key_place.0, self.key_place.1, key)[channel];
            let mut sum = Sum::default();
            let seen = || self.weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
            seen().for_each(|(key, &weight)| sum.add_product(weight, entry(key)));
            let output = sum.value();
            values.output.row_mut(batch, head, query)[channel] = output;
            // A logit's error moves the output by p·(v − o) times it; each term is rounded once.
            noise.output.row_mut(batch, head, query)[channel] = seen()
                .map(|(key, &weight)| weight * ((entry(key) - output).abs() * self.sizes[key] + entry(key).abs()))
                .sum();
        }
    }

    fn write_gradients(&self, case: &Case, scale: f64, upstream: &Block, values: &mut Outcome, noise: &mut Outcome) {
        let (Some(results), Some(noises)) = (&mut values.gradients, &mut noise.gradients) else { return };
        let ((batch, head, query), (key_batch, key_head)) = (self.place, self.key_place);
        let inputs = &case.inputs;
        let own = upstream.row(batch, head, query);
        let by_weight: Vec<f64> = (0..self.weights.len())
            .map(|key| {
                let mut sum = Sum::default();
                own.iter().zip(inputs.values.row(key_batch, key_head, key)).for_each(|(&a, &b)| sum.add_product(a, b));
                sum.value()
            })
            .collect();
        let sizes_by_weight: Vec<f64> = (0..self.weights.len())
            .map(|key| own.iter().zip(inputs.values.row(key_batch, key_head, key)).map(|(a, b)| (a * b).abs()).sum())
            .collect();
        let mut mean = Sum::default();
        self.weights.iter().zip(&by_weight).for_each(|(&weight, &slope)| mean.add_product(weight, slope));
        let mean = mean.value();
        let mean_size: f64 = self.weights.iter().zip(&sizes_by_weight).map(|(weight, size)| weight * size).sum();
        let mean_logit: f64 = self.weights.iter().zip(&self.sizes).map(|(weight, size)| weight * size).sum();
        let entries = inputs.queries.row(batch, head, query);
        for key in 0..self.weights.len() {
            let (weight, through) = (self.weights[key], self.through[key]);
            let slope = scale * through * weight * (by_weight[key] - mean);
            let moved = self.sizes[key] + mean_logit;
            let slope_noise = (scale * through * weight).abs()
                * ((by_weight[key] - mean).abs() * moved + sizes_by_weight[key] + mean_size);
            let mut add =
                |index: usize, place: (usize, usize, usize), factor: f64, factor_noise: f64, entries: &[f64]| {
                    let sums = results[index].row_mut(place.0, place.1, place.2);
                    sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += factor * entry);
                    let sums = noises[index].row_mut(place.0, place.1, place.2);
                    sums.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += factor_noise * entry.abs());
                };
            let of_key = (key_batch, key_head, key);
            add(0, self.place, slope, slope_noise, inputs.keys.row(key_batch, key_head, key));
            add(1, of_key, slope, slope_noise, entries);
            add(2, of_key, weight, weight * (moved + 1.0), own);
        }
    }
}

/// What the definition computed in `case`'s own type gives.
pub fn same_precision(case: &Case, behaviour: &Behaviour) -> Outcome {
    super::attend::attend(case, behaviour, Arithmetic::of(case.storage))
}
