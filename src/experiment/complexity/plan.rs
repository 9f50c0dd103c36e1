//! What is asked for: sizes, mask, kernels, and what is counted beside them.

use crate::attention::{Mask, MaskRule, Precision};
use crate::theory::cost::Layer;

/// Sizes of one attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Number of queries.
    pub n: usize,
    /// Number of keys.
    pub m: usize,
    /// Width of queries and keys.
    pub d_k: usize,
    /// Width of values.
    pub d_v: usize,
}

/// One way to compute attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// All n·m weights in memory, stage by stage.
    Materialised,
    /// Online softmax over blocks of keys.
    Streaming,
}

impl Kernel {
    /// The name in the rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Materialised => "materialised",
            Self::Streaming => "streaming",
        }
    }
}

/// What the exit code depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Counts and the agreement of the outputs.
    Counts,
    /// The fitted exponents as well.
    CountsAndTimes,
}

/// How much is counted beside one head's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    Attention,
    /// The layer around it, and the fully connected equivalent.
    Layer,
}

/// Whether tokens are decoded one by one as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decode {
    /// No.
    No,
    /// With and without a cache of keys and values.
    Cache,
}

/// A layer's sizes beyond those of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerWidths {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a token; None is heads times d_k.
    pub d_model: Option<usize>,
    /// Width inside the MLP; None is 4 times `d_model`.
    pub d_ff: Option<usize>,
}

impl LayerWidths {
    /// The layer at one point.
    pub fn at(&self, point: Point) -> Layer {
        let d_model = self.d_model.unwrap_or(self.heads * point.d_k) as u128;
        Layer {
            queries: point.n as u128,
            keys: point.m as u128,
            d_model,
            heads: self.heads as u128,
            kv_heads: self.kv_heads as u128,
            d_k: point.d_k as u128,
            d_v: point.d_v as u128,
            d_ff: self.d_ff.map_or(4 * d_model, |width| width as u128),
        }
    }
}

/// A checked request.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of queries, in the order typed.
    pub queries: Vec<usize>,
    /// Number of keys; None is as many as queries.
    pub keys: Option<usize>,
    /// Widths of queries and keys.
    pub widths: Vec<usize>,
    /// Width of values; None is that of keys.
    pub value_width: Option<usize>,
    /// The mask; None shows everything.
    pub rule: Option<MaskRule>,
    /// f32 or f64.
    pub precision: Precision,
    /// The kernels to run, at least one.
    pub kernels: Vec<Kernel>,
    /// Sizes of the layer that is counted.
    pub layer: LayerWidths,
    /// Whether it is.
    pub extent: Extent,
    /// Whether tokens are decoded one by one.
    pub decode: Decode,
    /// Threads that share the work.
    pub threads: usize,
    /// Seed of inputs and order.
    pub seed: u64,
    /// Seconds for the measurements.
    pub budget: f64,
    /// What the exit code depends on.
    pub gate: Gate,
}

impl Plan {
    /// The points of both sweeps: every n at the largest d_k, and every d_k at the largest n. There the work dominates the overhead.
    pub fn points(&self) -> Vec<Point> {
        let of_n = self.queries.iter().map(|&n| self.point(n, self.largest_width()));
        let of_d = self.widths.iter().map(|&d_k| self.point(self.largest_length(), d_k));
        let mut points: Vec<Point> = Vec::new();
        for point in of_n.chain(of_d) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// The points of one sweep, by size.
    pub fn sweep(&self, variable: Variable) -> Vec<Point> {
        let mut points = self.points();
        match variable {
            Variable::Length => points.retain(|point| point.d_k == self.largest_width()),
            Variable::Width => points.retain(|point| point.n == self.largest_length()),
        }
        points.sort_by_key(|point| (point.n, point.d_k));
        points
    }

    fn point(&self, n: usize, d_k: usize) -> Point {
        Point { n, m: self.keys.unwrap_or(n), d_k, d_v: self.value_width.unwrap_or(d_k) }
    }

    /// The largest n.
    pub fn largest_length(&self) -> usize {
        self.queries.iter().copied().max().unwrap_or(1)
    }

    /// The largest d_k.
    pub fn largest_width(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(1)
    }

    /// The mask at a point.
    ///
    /// # Errors
    /// A length that does not fit the sizes.
    pub fn mask(&self, point: Point) -> Result<Option<Mask>, String> {
        self.rule.as_ref().map(|rule| rule.at(point.n, point.m)).transpose()
    }

    /// Bytes of one number.
    pub fn width_of_number(&self) -> usize {
        if self.precision == Precision::F64 { 8 } else { 4 }
    }

    /// Bytes that the run holds at its largest, roughly: all inputs, one copy of the largest logits and one of what checks them.
    pub fn bytes(&self) -> f64 {
        let number = self.width_of_number() as f64;
        let inputs = |point: &Point| ((point.n + point.m) * (point.d_k + point.d_v)) as f64;
        let logits = |point: &Point| match self.kernels.contains(&Kernel::Materialised) {
            true => point.n as f64 * point.m as f64,
            false => 0.0,
        };
        let points = self.points();
        let largest = points.iter().map(logits).fold(0.0, f64::max);
        number * (2.0 * points.iter().map(inputs).sum::<f64>() + largest)
    }
}

/// What a sweep varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// n (and m, where keys follow queries).
    Length,
    /// d_k (and d_v, where it follows).
    Width,
}

impl Variable {
    /// The symbol in the rows.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Length => "n",
            Self::Width => "d_k",
        }
    }

    /// Its value at a point.
    pub fn of(self, point: Point) -> usize {
        match self {
            Self::Length => point.n,
            Self::Width => point.d_k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweeps_meet_at_the_largest_sizes() {
        let plan = Plan {
            queries: vec![13, 7, 11],
            keys: None,
            widths: vec![3, 5],
            value_width: None,
            rule: None,
            precision: Precision::F32,
            kernels: vec![Kernel::Streaming],
            layer: LayerWidths { heads: 6, kv_heads: 2, d_model: None, d_ff: None },
            extent: Extent::Attention,
            decode: Decode::No,
            threads: 1,
            seed: 0,
            budget: 1.0,
            gate: Gate::Counts,
        };
        let point = |n, d| Point { n, m: n, d_k: d, d_v: d };
        assert_eq!(plan.points(), [point(13, 5), point(7, 5), point(11, 5), point(13, 3)]);
        assert_eq!(plan.sweep(Variable::Length), [point(7, 5), point(11, 5), point(13, 5)]);
        assert_eq!(plan.sweep(Variable::Width), [point(13, 3), point(13, 5)]);
        let fixed = Plan { keys: Some(17), value_width: Some(2), ..plan };
        assert_eq!(fixed.points()[3], Point { n: 13, m: 17, d_k: 3, d_v: 2 });
        let layer = fixed.layer.at(point(13, 5));
        assert_eq!((layer.d_model, layer.d_ff), (30, 120));
    }
}
