//! One query's cells: raw logits beside the observed weights, and what the contract says of each.

/// The keys a query sees: the smallest range that holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The first visible key.
    pub start: usize,
    /// Behind the last.
    pub end: usize,
    /// Whether every key between is visible.
    pub is_solid: bool,
}

/// One query's cells.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    /// The query.
    pub query: usize,
    /// Key at which the query stands.
    pub position: i64,
    /// Width of queries and keys.
    pub width: usize,
    /// Raw logits.
    pub raw: &'a [f64],
    /// Observed weights; empty if there are none.
    pub weights: &'a [f64],
    /// Cells the contract shows.
    pub visible: &'a [bool],
    /// Where those are.
    pub span: Span,
    /// Cells found to be visible, once that is known.
    pub observed: Option<&'a [bool]>,
    /// Finite numbers of an additive mask; empty if there are none.
    pub added: &'a [f64],
    /// The bias; empty if there is none.
    pub bias: &'a [f64],
    /// ‖q‖.
    pub query_norm: f64,
    /// ‖k‖ of every key.
    pub key_norms: &'a [f64],
}

impl RowView<'_> {
    /// |position − key|.
    pub fn distance(&self, key: usize) -> f64 {
        (self.position - key as i64).unsigned_abs() as f64
    }

    /// The number of an additive mask at `key`.
    pub fn added_at(&self, key: usize) -> f64 {
        self.added.get(key).copied().unwrap_or_default()
    }

    /// The bias at `key`.
    pub fn bias_at(&self, key: usize) -> f64 {
        self.bias.get(key).copied().unwrap_or_default()
    }

    /// Whether a weight of the row is not a finite number.
    pub fn is_broken(&self) -> bool {
        // Without a way out, so that it vectorises.
        !self.weights.iter().fold(true, |all, weight| all & weight.is_finite())
    }

    /// Whether the contract shows the row any key.
    pub fn has_keys(&self) -> bool {
        self.span.start < self.span.end
    }
}

/// One row's own buffers.
#[derive(Debug, Clone, Default)]
pub struct RowBuffer {
    pub(super) query: usize,
    pub(super) position: i64,
    pub(super) width: usize,
    pub(super) raw: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) visible: Vec<bool>,
    pub(super) span: Span,
    /// Cells found to be visible.
    pub observed: Option<Vec<bool>>,
    pub(super) added: Vec<f64>,
    pub(super) bias: Vec<f64>,
    pub(super) query_norm: f64,
}

impl RowBuffer {
    /// Puts what was expected where a weight is 0: what dropout took is no deviation.
    pub fn keep_where_zero(&mut self, expected: &[f64]) {
        for (weight, &expected) in self.weights.iter_mut().zip(expected) {
            if *weight == 0.0 {
                *weight = expected;
            }
        }
    }

    /// The row as seen by a model.
    pub fn view<'a>(&'a self, key_norms: &'a [f64]) -> RowView<'a> {
        RowView {
            query: self.query,
            position: self.position,
            width: self.width,
            raw: &self.raw,
            weights: &self.weights,
            visible: &self.visible,
            span: self.span,
            observed: self.observed.as_deref(),
            added: &self.added,
            bias: &self.bias,
            query_norm: self.query_norm,
            key_norms,
        }
    }
}

/// Three rows of numbers to work in.
pub type Scratch = [Vec<f64>; 3];
