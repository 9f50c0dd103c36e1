//! Attention and the rest of a layer written out plainly over any kind of number: with f64 they compute, with [`Counted`] they count
//! what is done to their numbers. It is this count that the formulas of [`crate::theory::cost`] are held against.

use std::cell::Cell;
use std::ops::{Add, Div, Mul, Sub};

/// A number that can do what attention needs.
pub trait Arithmetic: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    /// A constant or an input: free.
    fn of(value: f64) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The larger of two: one comparison.
    fn larger(self, other: Self) -> Self;
}

impl Arithmetic for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn exp(self) -> Self {
        f64::exp(self)
    }
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

thread_local! {
    static OPERATIONS: Cell<u128> = const { Cell::new(0) };
}

/// An f64 every operation on which is counted, one each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted(f64);

fn counted(value: f64) -> Counted {
    OPERATIONS.with(|operations| operations.set(operations.get() + 1));
    Counted(value)
}

impl Add for Counted {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        counted(self.0 + other.0)
    }
}

impl Sub for Counted {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        counted(self.0 - other.0)
    }
}

impl Mul for Counted {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        counted(self.0 * other.0)
    }
}

impl Div for Counted {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        counted(self.0 / other.0)
    }
}

impl Arithmetic for Counted {
    fn of(value: f64) -> Self {
        Self(value)
    }
    fn exp(self) -> Self {
        counted(self.0.exp())
    }
    fn sqrt(self) -> Self {
        counted(self.0.sqrt())
    }
    fn larger(self, other: Self) -> Self {
        counted(self.0.max(other.0))
    }
}

/// The operations on [`Counted`] numbers that `work` does on this thread.
pub fn operations_of(work: impl FnOnce()) -> u128 {
    let before = OPERATIONS.with(Cell::get);
    work();
    OPERATIONS.with(Cell::get) - before
}

/// A matrix as its rows.
pub type Rows<N> = Vec<Vec<N>>;

/// A matrix whose entries differ from each other, between −1 and 1.
pub fn matrix<N: Arithmetic>(rows: usize, columns: usize) -> Rows<N> {
    let entry = |row: usize, column: usize| ((row * 7 + column * 13 + 3) % 19) as f64 / 9.0 - 1.0;
    (0..rows).map(|row| (0..columns).map(|column| N::of(entry(row, column))).collect()).collect()
}

fn dot<N: Arithmetic>(left: impl Iterator<Item = N>, right: impl Iterator<Item = N>) -> N {
    left.zip(right).fold(N::of(0.0), |sum, (left, right)| sum + left * right)
}

/// Raw logits of the cells that `visible` shows; None where it hides.
pub fn qk<N: Arithmetic>(queries: &Rows<N>, keys: &Rows<N>, visible: &dyn Fn(usize, usize) -> bool) -> Rows<Option<N>> {
    let logit = |i: usize, query: &[N], j: usize, key: &[N]| {
        visible(i, j).then(|| dot(query.iter().copied(), key.iter().copied()))
    };
    let row = |(i, query): (usize, &Vec<N>)| keys.iter().enumerate().map(|(j, key)| logit(i, query, j, key)).collect();
    queries.iter().enumerate().map(row).collect()
}

/// Softmax of the scaled logits over the visible keys of each row.
pub fn scale_softmax<N: Arithmetic>(logits: &Rows<Option<N>>, scale: N) -> Rows<Option<N>> {
    let row = |logits: &Vec<Option<N>>| {
        let scaled: Vec<Option<N>> = logits.iter().map(|logit| logit.map(|logit| logit * scale)).collect();
        let maximum = scaled.iter().flatten().fold(N::of(f64::NEG_INFINITY), |largest, &logit| largest.larger(logit));
        let powers: Vec<Option<N>> = scaled.iter().map(|logit| logit.map(|logit| (logit - maximum).exp())).collect();
        let sum = powers.iter().flatten().fold(N::of(0.0), |sum, &power| sum + power);
        powers.iter().map(|power| power.map(|power| power / sum)).collect()
    };
    logits.iter().map(row).collect()
}

/// Weights times values, over the visible keys of each row.
pub fn pv<N: Arithmetic>(weights: &Rows<Option<N>>, values: &Rows<N>) -> Rows<N> {
    let width = values.first().map_or(0, Vec::len);
    let seen = |row: &[Option<N>]| -> Vec<(usize, N)> {
        row.iter().enumerate().filter_map(|(key, weight)| weight.map(|weight| (key, weight))).collect()
    };
    let row = |row: &Vec<Option<N>>| {
        let seen = seen(row);
        let entry = |column: usize| {
            dot(seen.iter().map(|&(_, weight)| weight), seen.iter().map(|&(key, _)| values[key][column]))
        };
        (0..width).map(entry).collect()
    };
    weights.iter().map(row).collect()
}

/// Attention by online softmax over blocks of `block` keys (Dao et al. 2022, algorithm 1, one query at a time).
pub fn streaming<N: Arithmetic>(
    (queries, keys, values): (&Rows<N>, &Rows<N>, &Rows<N>),
    scale: N,
    block: usize,
    visible: &dyn Fn(usize, usize) -> bool,
) -> Rows<N> {
    let width = values.first().map_or(0, Vec::len);
    let row = |(i, query): (usize, &Vec<N>)| {
        let (mut maximum, mut sum) = (N::of(f64::NEG_INFINITY), N::of(0.0));
        let mut output = vec![N::of(0.0); width];
        let mut seen = false;
        for first in (0..keys.len()).step_by(block) {
            let cells: Vec<usize> = (first..keys.len().min(first + block)).filter(|&j| visible(i, j)).collect();
            if cells.is_empty() {
                continue;
            }
            seen = true;
            let dot_with = |&j: &usize| dot(query.iter().copied(), keys[j].iter().copied()) * scale;
            let logits: Vec<N> = cells.iter().map(dot_with).collect();
            let larger = logits.iter().fold(maximum, |largest, &logit| largest.larger(logit));
            let factor = (maximum - larger).exp();
            maximum = larger;
            sum = sum * factor;
            output.iter_mut().for_each(|entry| *entry = *entry * factor);
            for (&j, &logit) in cells.iter().zip(&logits) {
                let power = (logit - maximum).exp();
                sum = sum + power;
                output.iter_mut().zip(&values[j]).for_each(|(entry, &value)| *entry = *entry + power * value);
            }
        }
        if seen {
            output.iter_mut().for_each(|entry| *entry = *entry / sum);
        }
        output
    };
    queries.iter().enumerate().map(row).collect()
}

/// Rows times a matrix of `weights` (one row for each input).
pub fn linear<N: Arithmetic>(rows: &Rows<N>, weights: &Rows<N>) -> Rows<N> {
    let width = weights.first().map_or(0, Vec::len);
    let entry = |row: &[N], column: usize| dot(row.iter().copied(), weights.iter().map(|weights| weights[column]));
    rows.iter().map(|row| (0..width).map(|column| entry(row, column)).collect()).collect()
}

/// The activation max(x, 0) of every number.
pub fn rectified<N: Arithmetic>(rows: &Rows<N>) -> Rows<N> {
    rows.iter().map(|row| row.iter().map(|&entry| entry.larger(N::of(0.0))).collect()).collect()
}

/// Layer norm of each row: (x − mean)/√(variance + ε)·gain + bias (Ba, Kiros & Hinton 2016), the variance with divisor D.
pub fn layer_norm<N: Arithmetic>(rows: &Rows<N>, gain: &[N], bias: &[N]) -> Rows<N> {
    let row = |row: &Vec<N>| {
        let width = N::of(row.len() as f64);
        let mean = row.iter().fold(N::of(0.0), |sum, &entry| sum + entry) / width;
        let deviations: Vec<N> = row.iter().map(|&entry| entry - mean).collect();
        let variance = dot(deviations.iter().copied(), deviations.iter().copied()) / width;
        let spread = (variance + N::of(1e-5)).sqrt();
        let scaled = deviations.iter().zip(gain.iter().zip(bias));
        scaled.map(|(&deviation, (&gain, &bias))| deviation / spread * gain + bias).collect()
    };
    rows.iter().map(row).collect()
}

/// The sum of two matrices.
pub fn residual<N: Arithmetic>(left: &Rows<N>, right: &Rows<N>) -> Rows<N> {
    let row = |(left, right): (&Vec<N>, &Vec<N>)| left.iter().zip(right).map(|(&left, &right)| left + right).collect();
    left.iter().zip(right).map(row).collect()
}

#[cfg(test)]
#[path = "instrumented_tests.rs"]
mod tests;
