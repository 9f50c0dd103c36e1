//! The cells of one head, row by row: raw logits beside the observed weights, and what the contract says of each cell.

use rayon::prelude::*;

use super::contract::Contract;
use super::matrix::{Head, Storage};
use super::model::{Misfit, Model, compare_row};
use crate::attention::{Alignment, Mask};

/// Cells kept at once for fits; larger heads are fitted on evenly spread rows, and compared on all.
const MOST_CELLS: usize = 1 << 20;

/// What the arithmetic may do, from the types in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precisions {
    /// Unit roundoff of the type of Q and K, in which logits may be rounded.
    pub logits: f64,
    /// Unit roundoff of sums and exponentials.
    pub arithmetic: f64,
    /// Type of the weights.
    pub weights: Storage,
    /// Type of the output.
    pub output: Storage,
    /// Error of a weight near 0: underflow, or what recovering it from the output costs.
    pub floor: f64,
    /// Smallest weight whose logarithm rounding leaves intact.
    pub smallest: f64,
    /// Accepted error of a weight, instead of the bound.
    pub tolerance: Option<f64>,
}

impl Precisions {
    /// Those of a head. Numbers that a half type holds exactly count as that type: models are often run in bf16 and their tensors
    /// stored as f32.
    pub fn of(head: &Head, tolerance: Option<f64>) -> Self {
        let wider = |a: Storage, b: Storage| if a.unit_roundoff() > b.unit_roundoff() { a } else { b };
        let inputs = wider(head.queries.computed_in(), head.keys.computed_in());
        let weights = head.weights.as_ref().map_or(inputs, |weights| weights.computed_in());
        let values = head.values.as_ref().map_or(inputs, |values| values.computed_in());
        let output = head.output.as_ref().map_or(values, |output| output.computed_in());
        let all_f64 = [inputs, weights, output, values].iter().all(|storage| *storage == Storage::F64);
        let arithmetic = if all_f64 { Storage::F64 } else { Storage::F32 };
        // Logits of an f64 file whose weights are f32 numbers were computed in f32.
        let logits = inputs.unit_roundoff().max(arithmetic.unit_roundoff());
        let weights = wider(weights, arithmetic);
        let (floor, smallest) = (weights.underflow(), 4.0 * weights.smallest_normal());
        Self { logits, arithmetic: arithmetic.unit_roundoff(), weights, output, floor, smallest, tolerance }
    }
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
    /// Cells found to be visible, once that is known.
    pub observed: Option<&'a [bool]>,
    /// Finite numbers of an additive mask.
    pub added: &'a [f64],
    /// The bias.
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

    /// Whether a weight of the row is not a finite number.
    pub fn is_broken(&self) -> bool {
        self.weights.iter().any(|weight| !weight.is_finite())
    }

    /// Whether the contract shows the row any key.
    pub fn has_keys(&self) -> bool {
        self.visible.iter().any(|&visible| visible)
    }
}

/// Everything needed to build rows.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The head.
    pub head: &'a Head,
    /// Queries n.
    pub queries: usize,
    /// Keys m.
    pub keys: usize,
    /// Width d.
    pub width: usize,
    /// Cells the contract shows (mask, padding, causal and window together).
    pub visible: Mask,
    /// Cells shown by causal and window alone, if declared.
    pub declared: Option<Mask>,
    /// Key at which query 0 stands.
    pub offset: i64,
    /// The arithmetic.
    pub precisions: Precisions,
    /// Keys, d × m.
    transposed: Vec<f64>,
    /// ‖k‖.
    pub key_norms: Vec<f64>,
    /// Rows for fits.
    pub sample: Vec<usize>,
    /// Whether the contract has a bias in the file.
    pub has_bias: bool,
    /// The declared window.
    pub window: Option<usize>,
}

/// One row's own buffers.
#[derive(Debug, Clone)]
pub struct RowBuffer {
    query: usize,
    position: i64,
    width: usize,
    raw: Vec<f64>,
    weights: Vec<f64>,
    visible: Vec<bool>,
    /// Cells found to be visible.
    pub observed: Option<Vec<bool>>,
    added: Vec<f64>,
    bias: Vec<f64>,
    query_norm: f64,
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
            observed: self.observed.as_deref(),
            added: &self.added,
            bias: &self.bias,
            query_norm: self.query_norm,
            key_norms,
        }
    }
}

impl<'a> Evidence<'a> {
    /// The evidence of `head` under `contract`.
    pub fn new(head: &'a Head, contract: &Contract) -> Self {
        let (queries, keys, width) = (head.queries.rows, head.keys.rows, head.queries.columns);
        let alignment = contract.causal.as_ref().map_or(Alignment::TopLeft, |causal| *causal.value());
        let causal = contract.causal.is_some() || contract.window.is_some();
        let offset = match (causal, alignment) {
            (true, Alignment::TopLeft) => 0,
            _ => keys as i64 - queries as i64,
        };
        let declared = causal.then(|| declared_mask(queries, keys, offset, contract.window));
        let visible = contract_mask(head, declared.as_ref(), queries, keys);
        let mut transposed = vec![0.0; width * keys];
        let mut key = vec![0.0; width];
        let mut key_norms = Vec::with_capacity(keys);
        for index in 0..keys {
            head.keys.row(index, &mut key);
            key_norms.push(key.iter().map(|entry| entry * entry).sum::<f64>().sqrt());
            for (channel, &entry) in key.iter().enumerate() {
                transposed[channel * keys + index] = entry;
            }
        }
        let wanted = (MOST_CELLS / keys.max(1)).clamp(2, queries.max(2)).min(queries);
        let sample = (0..wanted).map(|index| spread(index, wanted, queries)).collect();
        let precisions = Precisions::of(head, contract.tolerance);
        let has_bias = head.bias.is_some();
        Self {
            head,
            queries,
            keys,
            width,
            visible,
            declared,
            offset,
            precisions,
            transposed,
            key_norms,
            sample,
            has_bias,
            window: contract.window,
        }
    }

    /// The cells of `query`.
    pub fn row(&self, query: usize) -> RowBuffer {
        let mut row = RowBuffer {
            query,
            position: query as i64 + self.offset,
            width: self.width,
            raw: vec![0.0; self.keys],
            weights: Vec::new(),
            visible: Vec::new(),
            observed: None,
            added: vec![0.0; self.keys],
            bias: vec![0.0; self.keys],
            query_norm: 0.0,
        };
        self.fill(query, &mut row);
        row
    }

    /// The row without its raw logits, which are the costly part.
    pub fn row_of_weights(&self, query: usize) -> RowBuffer {
        let mut row = RowBuffer {
            query,
            position: query as i64 + self.offset,
            width: self.width,
            raw: Vec::new(),
            weights: Vec::new(),
            visible: Vec::new(),
            observed: None,
            added: vec![0.0; self.keys],
            bias: vec![0.0; self.keys],
            query_norm: 0.0,
        };
        self.fill_cells(query, &mut row);
        row
    }

    /// Writes the cells of `query` into `row`.
    pub fn fill(&self, query: usize, row: &mut RowBuffer) {
        (row.query, row.position) = (query, query as i64 + self.offset);
        let mut entries = vec![0.0; self.width];
        self.head.queries.row(query, &mut entries);
        row.query_norm = entries.iter().map(|entry| entry * entry).sum::<f64>().sqrt();
        row.raw.fill(0.0);
        for (channel, &entry) in entries.iter().enumerate() {
            let keys = &self.transposed[channel * self.keys..(channel + 1) * self.keys];
            for (raw, &key) in row.raw.iter_mut().zip(keys) {
                *raw += entry * key;
            }
        }
        self.fill_cells(query, row);
    }

    fn fill_cells(&self, query: usize, row: &mut RowBuffer) {
        if let Some(weights) = &self.head.weights {
            row.weights.resize(self.keys, 0.0);
            weights.row(query, &mut row.weights);
        }
        row.visible.clear();
        let visible = self.visible.row(query);
        row.visible.extend((0..self.keys).map(|key| visible.contains(key)));
        if let Some(added) = self.head.mask.as_ref().and_then(|mask| mask.added.as_ref()) {
            added.row(query, &mut row.added);
        }
        if let Some(bias) = &self.head.bias {
            bias.row(query, &mut row.bias);
        }
    }

    /// Rows for fits, those that are whole and see a key.
    pub fn sampled_rows(&self) -> Vec<RowBuffer> {
        let rows = self.sample.par_iter().map(|&query| self.row(query));
        rows.filter(|row| !row.view(&self.key_norms).is_broken()).collect()
    }

    /// Compares the weights of every row that is whole and sees a key with the model's.
    pub fn compare(&self, model: &Model) -> Misfit {
        let zeros = || vec![0.0; self.keys];
        let start = || (self.row(0), [zeros(), zeros(), zeros()]);
        if self.queries == 0 {
            return Misfit::NONE;
        }
        let rows: Vec<Misfit> = (0..self.queries)
            .into_par_iter()
            .map_init(start, |(row, scratch), query| {
                self.fill(query, row);
                let view = row.view(&self.key_norms);
                if view.is_broken() || !view.has_keys() {
                    return Misfit::NONE;
                }
                compare_row(model, &view, &self.precisions, scratch)
            })
            .collect();
        rows.into_iter().fold(Misfit::NONE, Misfit::merge)
    }
}

/// Row `index` of `wanted` spread over `rows`, first and last included.
fn spread(index: usize, wanted: usize, rows: usize) -> usize {
    if wanted <= 1 { 0 } else { index * (rows - 1) / (wanted - 1) }
}

fn declared_mask(queries: usize, keys: usize, offset: i64, window: Option<usize>) -> Mask {
    let mut cells = vec![false; queries * keys];
    for query in 0..queries {
        let position = query as i64 + offset;
        let first = window.map_or(0, |window| (position + 1 - window as i64).max(0));
        for key in first.max(0)..(position + 1).clamp(0, keys as i64) {
            cells[query * keys + key as usize] = true;
        }
    }
    Mask::from_cells(queries, keys, cells)
}

fn contract_mask(head: &Head, declared: Option<&Mask>, queries: usize, keys: usize) -> Mask {
    if head.mask.is_none() && head.padding.is_none() {
        return declared.cloned().unwrap_or_else(|| Mask::all_visible(queries, keys));
    }
    let mut cells = vec![true; queries * keys];
    for query in 0..queries {
        for key in 0..keys {
            let by_mask = head.mask.as_ref().is_none_or(|mask| mask.visible.is_visible(query, key));
            let by_padding = head.padding.as_ref().is_none_or(|padding| padding[key]);
            let by_rule = declared.is_none_or(|declared| declared.is_visible(query, key));
            cells[query * keys + key] = by_mask && by_padding && by_rule;
        }
    }
    Mask::from_cells(queries, keys, cells)
}
