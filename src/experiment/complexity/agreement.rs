//! Do the kernels agree, with each other and with the definition in f64, as far as rounding lets them?
//!
//! # The bound
//! Let u be the unit roundoff, γ_k = ku/(1 − ku), and λ = c·|q|·max|k| ≥ every |logit| of a row. A logit is a dot product and
//! a scaling (the factor itself is rounded), so it is off by at most γ_(d+3)·λ (Higham 2002, section 3.1). Subtracting the maximum adds u·2λ. The exponential
//! adds ε ≤ 2u, relative. In the streaming kernel a power is rescaled once for each of at most B blocks of keys; the factors' arguments
//! add up to at most 2λ, so that this adds 4uλ + B(ε + u). Weight and normaliser may err in opposite directions, the sums of m
//! terms add γ_m each, the division u. So with
//!
//! r = 2(γ_(d+3)·λ + 6uλ + ε + B(ε + u)) + 2γ_m + 2u
//!
//! an output entry is off by at most (eʳ − 1)·Σ_j p_j·|v_j|.

use nalgebra::DMatrix;

use super::plan::{Kernel, Point};
use crate::attention::kernel::Element;
use crate::attention::{Mask, product, reference};
use crate::number::Real;
use crate::sampling::parameter_point;

/// Rows that are held against the definition.
const REFERENCE_ROWS: u64 = 8;
/// A block of keys holds at least one register's worth of the widest machine.
const SMALLEST_BLOCK: usize = 16;

/// Inputs of an attention.
pub struct Inputs<'a, T> {
    /// Sizes.
    pub point: Point,
    /// Q, n × d_k.
    pub queries: &'a [T],
    /// K, m × d_k.
    pub keys: &'a [T],
    /// V, m × d_v.
    pub values: &'a [T],
    /// The factor c.
    pub scale: f64,
    /// What queries see.
    pub mask: Option<&'a Mask>,
}

/// The difference that is largest beside its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// |found − expected|; NaN where one of them is.
    pub difference: f64,
    /// What rounding explains.
    pub bound: f64,
}

impl Difference {
    /// Whether rounding explains it. NaN is never explained.
    pub fn is_explained(&self) -> bool {
        self.difference <= self.bound
    }

    fn worse(self, other: Self) -> Self {
        let excess = |found: &Self| {
            if found.difference.is_nan() {
                f64::INFINITY
            } else if found.difference == 0.0 {
                0.0
            } else {
                found.difference / found.bound
            }
        };
        if excess(&other) > excess(&self) { other } else { self }
    }
}

const NONE: Difference = Difference { difference: 0.0, bound: 0.0 };

/// Unit roundoff of `T`.
fn roundoff<T: Real>() -> f64 {
    if T::from_f64(1.0 + 1e-12).to_f64() == 1.0 { 2f64.powi(-24) } else { 2f64.powi(-53) }
}

/// eʳ − 1 of the module's bound, for a row whose logits are at most `largest` in size.
fn relative_bound<T: Real>(point: Point, largest: f64) -> f64 {
    let unit = roundoff::<T>();
    let gamma = |terms: usize| terms as f64 * unit / (1.0 - terms as f64 * unit);
    let exponential = 2.0 * unit;
    let blocks = (point.m.div_ceil(SMALLEST_BLOCK) + 1) as f64;
    let weight = gamma(point.d_k + 3) * largest + 6.0 * unit * largest + exponential + blocks * (exponential + unit);
    (2.0 * weight + 2.0 * gamma(point.m) + 2.0 * unit).exp_m1()
}

fn norm<T: Real>(row: &[T]) -> f64 {
    row.iter().map(|entry| entry.to_f64().powi(2)).sum::<f64>().sqrt()
}

fn largest_norm<T: Real>(rows: &[T], width: usize) -> f64 {
    rows.chunks_exact(width).map(norm).fold(0.0, f64::max)
}

/// Two kernels' outputs, n × d_v each, entry by entry.
pub fn between<T: Element>(inputs: &Inputs<T>, first: &[T], second: &[T]) -> Difference {
    let Point { d_k, d_v, .. } = inputs.point;
    let key = largest_norm(inputs.keys, d_k);
    let value = inputs.values.iter().map(|value| value.to_f64().abs()).fold(0.0, f64::max);
    let rows = first.chunks_exact(d_v).zip(second.chunks_exact(d_v)).zip(inputs.queries.chunks_exact(d_k));
    rows.fold(NONE, |worst, ((first, second), query)| {
        let bound = 2.0 * relative_bound::<T>(inputs.point, inputs.scale.abs() * norm(query) * key) * value;
        first.iter().zip(second).fold(worst, |worst, (first, second)| {
            worst.worse(Difference { difference: (first.to_f64() - second.to_f64()).abs(), bound })
        })
    })
}

/// Some rows of a kernel's output against the definition in f64: the first, the last, and others that the seed chooses.
pub fn with_definition<T: Element>(inputs: &Inputs<T>, output: &[T], seed: u64) -> Difference {
    let Point { n, m, d_k, d_v } = inputs.point;
    let chosen = |index: u64| (parameter_point(&[seed, n as u64, index]) % n as u64) as usize;
    let mut rows: Vec<usize> = [0, n - 1].into_iter().chain((2..REFERENCE_ROWS).map(chosen)).collect();
    rows.sort_unstable();
    rows.dedup();
    let matrix = |entries: &[T], rows: usize, columns: usize| {
        DMatrix::from_row_iterator(rows, columns, entries.iter().map(|entry| entry.to_f64()))
    };
    let queries = DMatrix::from_fn(rows.len(), d_k, |row, h| inputs.queries[rows[row] * d_k + h].to_f64());
    let (keys, values) = (matrix(inputs.keys, m, d_k), matrix(inputs.values, m, d_v));
    let visible = inputs.mask.map(|mask| DMatrix::from_fn(rows.len(), m, |row, key| mask.is_visible(rows[row], key)));
    let exact = reference::scaled_dot_product_attention(&queries, &keys, &values, inputs.scale, visible.as_ref());
    let sizes = product(&exact.weights, &values.abs());
    let key = largest_norm(inputs.keys, d_k);
    let mut worst = NONE;
    for (index, &row) in rows.iter().enumerate() {
        let query = norm(&inputs.queries[row * d_k..(row + 1) * d_k]);
        let relative = relative_bound::<T>(inputs.point, inputs.scale.abs() * query * key);
        for column in 0..d_v {
            let difference = (output[row * d_v + column].to_f64() - exact.output[(index, column)]).abs();
            worst = worst.worse(Difference { difference, bound: relative * sizes[(index, column)] });
        }
    }
    worst
}

/// The name of a check in the rows.
pub fn name(kernel: Option<Kernel>) -> &'static str {
    match kernel {
        Some(_) => "output_against_definition",
        None => "output_between_kernels",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::MaskRule;
    use crate::attention::kernel::{AttentionInputs, AttentionShape, InstructionSet, Threads, streaming_attention};
    use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

    const POINT: Point = Point { n: 61, m: 67, d_k: 13, d_v: 11 };

    struct Drawn<T> {
        queries: Vec<T>,
        keys: Vec<T>,
        values: Vec<T>,
    }

    fn drawn<T: Drawable>() -> Drawn<T> {
        let stream = TrialStream::new(3, 0, 0);
        let matrix = |id, rows: usize, width: usize| {
            let mut entries = vec![T::default(); rows * width];
            fill(Entries::Normal, &stream, id, 0, width, &mut entries);
            entries
        };
        Drawn {
            queries: matrix(MatrixId::QUERIES, POINT.n, POINT.d_k),
            keys: matrix(MatrixId::KEYS, POINT.m, POINT.d_k),
            values: matrix(MatrixId::VALUES, POINT.m, POINT.d_v),
        }
    }

    fn run<T: Element>(drawn: &Drawn<T>, scale: f64, mask: Option<&Mask>) -> Vec<T> {
        let Point { n, m, d_k, d_v } = POINT;
        let shape = AttentionShape { queries: n, keys: m, d_k, d_v };
        let Drawn { queries, keys, values } = drawn;
        let inputs = AttentionInputs { queries, keys, values, shape };
        streaming_attention(InstructionSet::detect(), inputs, scale, mask, Threads::Caller).output
    }

    fn mask(rule: &str) -> Mask {
        rule.parse::<MaskRule>().and_then(|rule| rule.at(POINT.n, POINT.m)).expect("fits")
    }

    fn right_is_explained_and_faults_are_not<T: Element + Drawable>() {
        let drawn = drawn::<T>();
        let mask_used = mask("causal@bottom-right");
        let inputs = Inputs {
            point: POINT,
            queries: &drawn.queries,
            keys: &drawn.keys,
            values: &drawn.values,
            scale: 0.3,
            mask: Some(&mask_used),
        };
        let right = run(&drawn, 0.3, Some(&mask_used));
        assert!(with_definition(&inputs, &right, 0).is_explained());
        assert!(between(&inputs, &right, &right.clone()).is_explained());
        let faults = [
            run(&drawn, 0.3, Some(&mask("causal"))),
            run(&drawn, 0.3, Some(&mask("causal+padding:66@bottom-right"))),
            run(&drawn, 0.3, Some(&mask("window:60@bottom-right"))),
            run(&drawn, 0.301, Some(&mask_used)),
            run(&drawn, 1.0, Some(&mask_used)),
        ];
        for (index, fault) in faults.iter().enumerate() {
            assert!(!with_definition(&inputs, fault, 0).is_explained(), "fault {index}");
            assert!(!between(&inputs, &right, fault).is_explained(), "fault {index}");
        }
        let mut broken = right.clone();
        broken[0] = T::from_f64(f64::NAN);
        assert!(!with_definition(&inputs, &broken, 0).is_explained());
        assert!(!between(&inputs, &right, &broken).is_explained() && !between(&inputs, &broken, &right).is_explained());
    }

    #[test]
    fn rounding_is_explained_and_faults_are_not_in_f32() {
        right_is_explained_and_faults_are_not::<f32>();
    }

    #[test]
    fn rounding_is_explained_and_faults_are_not_in_f64() {
        right_is_explained_and_faults_are_not::<f64>();
    }

    #[test]
    fn the_bound_is_the_formula_at_one_point() {
        // u = 2⁻²⁴, d = 13, m = 67: B = 6; r = 2(16u·2 + 12u + 2u + 18u) + 134u + 2u = 264u, and u² terms; python3: 264*2**-24.
        let bound = relative_bound::<f32>(POINT, 2.0);
        assert!((bound / 1.573_562_6e-5 - 1.0).abs() < 1e-4, "{bound:e}");
    }
}
