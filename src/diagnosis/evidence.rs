//! The cells of one head, row by row: raw logits beside the observed weights, and what the contract says of each cell.

use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::contract::Contract;
use super::matrix::{Head, Matrix, Storage};
use super::model::{Misfit, Model, compare_row};
use super::rows::{RowBuffer, Scratch, Span};
use crate::attention::kernel::{InstructionSet, PackedKeys, PackedQueries, packed_logits};
use crate::attention::{Alignment, Mask, VisibleKeys};

/// Cells kept at once for fits; larger heads are fitted on evenly spread rows, and compared on all.
pub const MOST_CELLS: usize = 1 << 20;

/// Rows whose logits are formed together: enough for the product, few enough to stay in cache.
const BLOCK: usize = 28;

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

/// Which raw logits a visit of rows needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// Those of every key.
    All,
    /// Those of visible keys; what stands at others is unspecified.
    Visible,
    /// None: the weights are enough.
    None,
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
    /// K for the product of a block of rows.
    packed: PackedKeys<f64>,
    /// ‖k‖.
    pub key_norms: Vec<f64>,
    /// Rows for fits.
    sample: Vec<usize>,
    /// Those rows, once they were asked for.
    sampled: OnceLock<Vec<RowBuffer>>,
    /// Whether the contract has a bias in the file.
    pub has_bias: bool,
    /// The declared window.
    pub window: Option<usize>,
    /// The declared probability of a weight being dropped, if it is above 0.
    pub dropout: Option<f64>,
}

/// What a thread needs to visit blocks of rows.
struct Workspace {
    packed: PackedQueries<f64>,
    entries: Vec<f64>,
    raw: Vec<f64>,
    row: RowBuffer,
    scratch: Scratch,
}

impl<'a> Evidence<'a> {
    /// The evidence of `head` under `contract`. Fits use about `most_cells` cells (whole rows, at least two), spread evenly.
    pub fn new(head: &'a Head, contract: &Contract, most_cells: usize) -> Self {
        let (queries, keys, width) = (head.queries.rows, head.keys.rows, head.queries.columns);
        let alignment = contract.causal.as_ref().map_or(Alignment::TopLeft, |causal| *causal.value());
        let causal = contract.causal.is_some() || contract.window.is_some();
        let offset = match (causal, alignment) {
            (true, Alignment::TopLeft) => 0,
            _ => keys as i64 - queries as i64,
        };
        let declared = causal.then(|| declared_mask(queries, keys, offset, contract.window));
        let visible = contract_mask(head, declared.as_ref(), queries, keys);
        let entries = head.keys.to_f64();
        let key_norms = entries.chunks(width.max(1)).map(norm).collect();
        let packed = PackedKeys::new(InstructionSet::detect(), &entries, keys, width);
        let wanted = (most_cells / keys.max(1)).clamp(2, queries.max(2)).min(queries);
        Self {
            head,
            queries,
            keys,
            width,
            visible,
            declared,
            offset,
            precisions: Precisions::of(head, contract.tolerance),
            packed,
            key_norms,
            sample: (0..wanted).map(|index| spread(index, wanted, queries)).collect(),
            sampled: OnceLock::new(),
            has_bias: head.bias.is_some(),
            window: contract.window,
            dropout: contract.dropout.filter(|&p| p > 0.0),
        }
    }

    /// The instructions its products are formed with.
    pub fn instruction_set(&self) -> InstructionSet {
        self.packed.instruction_set()
    }

    /// Rows for fits, ascending: all of them, or some that are spread evenly.
    pub fn sample(&self) -> &[usize] {
        &self.sample
    }

    /// Takes `rows` into the sample.
    pub fn add_to_sample(&mut self, rows: impl IntoIterator<Item = usize>) {
        self.sample.extend(rows);
        self.sample.sort_unstable();
        self.sample.dedup();
        self.sampled = OnceLock::new();
    }

    /// In words, if fits use only some of the rows.
    pub fn sample_in_words(&self) -> Option<String> {
        (self.sample.len() < self.queries)
            .then(|| format!("fitted on {} of {} rows, spread evenly", self.sample.len(), self.queries))
    }

    /// The cells of `query`.
    pub fn row(&self, query: usize) -> RowBuffer {
        let mut rows = self.map_rows(&[query], Columns::All, |row, _| std::mem::take(row));
        rows.pop().unwrap_or_default()
    }

    /// The rows of the sample.
    pub fn sampled(&self) -> &[RowBuffer] {
        self.sampled.get_or_init(|| self.map_rows(&self.sample, Columns::All, |row, _| row.clone()))
    }

    /// Rows for fits, those that are whole.
    pub fn sampled_rows(&self) -> Vec<&RowBuffer> {
        self.sampled().iter().filter(|row| !row.view(&self.key_norms).is_broken()).collect()
    }

    /// Visits rows, block by block on all threads; the results are in the order of `queries`, whichever thread made them.
    pub fn map_rows<T: Send>(
        &self,
        queries: &[usize],
        columns: Columns,
        visit: impl Fn(&mut RowBuffer, &mut Scratch) -> T + Sync,
    ) -> Vec<T> {
        let one = |results: &mut Vec<T>, row: &mut RowBuffer, scratch: &mut Scratch| results.push(visit(row, scratch));
        self.map_blocks(queries, columns, Vec::new, std::mem::take, one)
    }

    /// As [`Evidence::map_rows`], with a state of each thread's own: `visit` sees every row of a block, `end` turns what
    /// it has gathered into one result for each of them.
    pub fn map_blocks<S, T: Send>(
        &self,
        queries: &[usize],
        columns: Columns,
        state: impl Fn() -> S + Sync + Send,
        end: impl Fn(&mut S) -> Vec<T> + Sync + Send,
        visit: impl Fn(&mut S, &mut RowBuffer, &mut Scratch) + Sync + Send,
    ) -> Vec<T> {
        let zeros = || vec![0.0; self.keys];
        let start = || {
            let work = Workspace {
                packed: PackedQueries::empty(self.instruction_set()),
                entries: Vec::new(),
                raw: Vec::new(),
                row: RowBuffer::default(),
                scratch: [zeros(), zeros(), zeros()],
            };
            (work, state())
        };
        let of_block = |(work, state): &mut (Workspace, S), block: &[usize]| -> Vec<T> {
            let reach = self.form(block, columns, work);
            let Workspace { entries, raw, row, scratch, .. } = work;
            for (index, &query) in block.iter().enumerate() {
                let entries = &entries[index * self.width..(index + 1) * self.width];
                row.query_norm = norm(entries);
                row.raw.resize(self.keys, 0.0);
                row.raw[reach.clone()].copy_from_slice(&raw[index * reach.len()..(index + 1) * reach.len()]);
                self.fill_cells(query, row);
                visit(state, row, scratch);
            }
            end(state)
        };
        let blocks = queries.par_chunks(BLOCK).map_init(start, of_block).collect::<Vec<_>>();
        blocks.into_iter().flatten().collect()
    }

    /// Forms the raw logits of a block of rows and says of which keys.
    fn form(&self, block: &[usize], columns: Columns, work: &mut Workspace) -> Range<usize> {
        work.entries.resize(block.len() * self.width, 0.0);
        for (&query, entries) in block.iter().zip(work.entries.chunks_mut(self.width.max(1))) {
            self.head.queries.row(query, entries);
        }
        let spans = block.iter().map(|&query| span(&self.visible.row(query)));
        let reach = match columns {
            Columns::All => 0..self.keys,
            Columns::None => 0..0,
            Columns::Visible => {
                let seen = spans.filter(|span| span.start < span.end);
                let (start, end) = seen.fold((self.keys, 0), |(a, b), span| (a.min(span.start), b.max(span.end)));
                start.min(end)..end
            }
        };
        if !reach.is_empty() {
            work.packed.repack(&work.entries, block.len(), self.width);
            work.raw.resize(block.len() * reach.len(), 0.0);
            packed_logits(&work.packed, &self.packed, reach.clone(), &mut work.raw, reach.len());
        }
        reach
    }

    fn fill_cells(&self, query: usize, row: &mut RowBuffer) {
        (row.query, row.position, row.width) = (query, query as i64 + self.offset, self.width);
        row.observed = None;
        let fill = |matrix: &Matrix, out: &mut Vec<f64>| {
            out.resize(self.keys, 0.0);
            matrix.row(query, out);
        };
        if let Some(weights) = &self.head.weights {
            fill(weights, &mut row.weights);
        }
        if let Some(added) = self.head.mask.as_ref().and_then(|mask| mask.added.as_ref()) {
            fill(added, &mut row.added);
        }
        if let Some(bias) = &self.head.bias {
            fill(bias, &mut row.bias);
        }
        let visible = self.visible.row(query);
        row.span = span(&visible);
        row.visible.clear();
        match visible {
            VisibleKeys::Cells(cells) => row.visible.extend_from_slice(cells),
            VisibleKeys::Range(range) => {
                row.visible.resize(self.keys, false);
                row.visible[range].fill(true);
            }
        }
    }

    /// Every query.
    pub fn every_row(&self) -> Vec<usize> {
        (0..self.queries).collect()
    }

    /// Compares the weights of every row that is whole and sees a key with the model's.
    pub fn compare(&self, model: &Model) -> Misfit {
        self.compare_rows(model, &self.precisions, &self.every_row())
    }

    /// As [`Evidence::compare`]; but where already the sample refutes the model, only that is compared.
    pub fn try_model(&self, model: &Model) -> Misfit {
        if self.sample.len() < self.queries {
            let misfit = self.compare_rows(model, &self.precisions, &self.sample);
            if !misfit.fits() {
                return misfit;
            }
        }
        self.compare(model)
    }

    /// Compares the weights of `rows` with the model's under other precisions.
    pub fn compare_rows(&self, model: &Model, precisions: &Precisions, rows: &[usize]) -> Misfit {
        let misfits = self.map_rows(rows, model.columns(), |row, scratch| {
            let view = row.view(&self.key_norms);
            if !view.has_keys() || view.is_broken() {
                return Misfit::NONE;
            }
            compare_row(model, &view, precisions, scratch)
        });
        misfits.into_iter().fold(Misfit::NONE, Misfit::merge)
    }
}

fn norm(entries: &[f64]) -> f64 {
    entries.iter().map(|entry| entry * entry).sum::<f64>().sqrt()
}

/// Row `index` of `wanted` spread over `rows`, first and last included.
fn spread(index: usize, wanted: usize, rows: usize) -> usize {
    if wanted <= 1 { 0 } else { index * (rows - 1) / (wanted - 1) }
}

fn span(visible: &VisibleKeys<'_>) -> Span {
    match visible {
        VisibleKeys::Range(range) => Span { start: range.start, end: range.end, is_solid: true },
        VisibleKeys::Cells(cells) => {
            let Some(start) = cells.iter().position(|&visible| visible) else { return Span::default() };
            let end = 1 + cells.iter().rposition(|&visible| visible).unwrap_or(start);
            Span { start, end, is_solid: cells[start..end].iter().all(|&visible| visible) }
        }
    }
}

fn declared_mask(queries: usize, keys: usize, offset: i64, window: Option<usize>) -> Mask {
    let row = |query: usize| {
        let position = query as i64 + offset;
        let first = window.map_or(0, |window| (position + 1).saturating_sub_unsigned(window as u64).max(0));
        let end = (position + 1).clamp(0, keys as i64) as usize;
        (first as usize).min(end)..end
    };
    Mask::from_ranges(keys, (0..queries).map(row).collect())
}

fn contract_mask(head: &Head, declared: Option<&Mask>, queries: usize, keys: usize) -> Mask {
    if head.mask.is_none() && head.padding.is_none() {
        return declared.cloned().unwrap_or_else(|| Mask::all_visible(queries, keys));
    }
    let given = head.mask.as_ref().map(|mask| &mask.visible);
    if let (Some(given), None, None) = (given, declared, &head.padding) {
        return given.clone();
    }
    let mut cells = vec![true; queries * keys];
    for (query, row) in cells.chunks_mut(keys.max(1)).enumerate() {
        for mask in [given, declared].into_iter().flatten() {
            match mask.row(query) {
                VisibleKeys::Range(range) => {
                    row[..range.start].fill(false);
                    row[range.end..].fill(false);
                }
                VisibleKeys::Cells(cells) => row.iter_mut().zip(cells).for_each(|(cell, &visible)| *cell &= visible),
            }
        }
        if let Some(padding) = &head.padding {
            row.iter_mut().zip(padding).for_each(|(cell, &real)| *cell &= real);
        }
    }
    Mask::from_cells(queries, keys, cells).compact()
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
