//! From a recipe to a case: every number is a function of the seed, the recipe's name and its place.

use super::case::{Block, Capability, Case, Inputs, MaskForm, Options, Shape};
use crate::diagnosis::contract::alibi_slope;
use crate::diagnosis::matrix::Storage;
use crate::sampling::{Entries, MatrixId, TrialStream, fill, parameter_point};

/// What V holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueKind {
    /// Normal entries.
    Normal,
    /// The identity: the output is the weights.
    Identity,
    /// Ones: the output is the row sums of the weights.
    Ones,
    /// Normal entries; those that padding hides are this many times larger, so that a leak is loud.
    LoudPadding(f64),
    /// Normal entries; what padding hides is NaN.
    BrokenPadding,
}

/// What Q and K hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LogitKind {
    /// Normal entries times the factor.
    Normal(f64),
    /// Scaled logits are whole multiples of `step` from `base` on, exactly, in every arithmetic that holds them (d a power of 4).
    Steps {
        /// The smallest logit.
        base: f64,
        /// Distance of neighbouring logits.
        step: f64,
    },
}

/// What `mask` holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MaskKind {
    /// No mask.
    None,
    /// Cells at random, at least one in a row; leading axes as given.
    Random {
        /// Length of the first axis, b or 1.
        batches: usize,
        /// Length of the second axis, h or 1.
        heads: usize,
        /// What an additive mask adds to hidden cells.
        hidden: f64,
    },
    /// As `Random` over batch and one head, but these rows see no key.
    EmptyRows(&'static [usize]),
    /// The lengths of the batch entries.
    Lengths(&'static [usize]),
    /// Normal numbers times the factor, none hidden; leading axes as given.
    Bias {
        /// Length of the first axis, b or 1.
        batches: usize,
        /// Length of the second axis, h or 1.
        heads: usize,
        /// Standard deviation.
        factor: f64,
    },
}

/// What makes a case of the drawn tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// Keys and values in another order.
    Keys,
    /// Queries in another order.
    Queries,
    /// One batch entry alone.
    Entry(usize),
    /// One batch entry 64 times as large.
    Loud(usize),
}

/// A case before its numbers.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub name: String,
    pub capability: Capability,
    pub purpose: String,
    pub storage: Storage,
    pub shape: Shape,
    pub values: ValueKind,
    pub logits: LogitKind,
    pub mask: MaskKind,
    pub options: Options,
    /// The name whose numbers are drawn; its own if `None`.
    pub numbers_of: Option<String>,
    pub change: Change,
    pub same_as: Option<String>,
}

/// Matrices beyond those of attention.
const MASK: MatrixId = MatrixId(32);

impl Recipe {
    /// The case under `seed`.
    pub(super) fn case(&self, seed: u64) -> Case {
        let name = self.numbers_of.as_deref().unwrap_or(&self.name);
        let parts: Vec<u64> = name.bytes().map(u64::from).collect();
        let draw = Drawer { stream: TrialStream::new(seed, parameter_point(&parts), 0), storage: self.storage };
        let mut inputs = self.inputs(&draw);
        match self.change {
            Change::None => {}
            Change::Keys => {
                for block in [&mut inputs.keys, &mut inputs.values] {
                    *block = permuted_rows(block);
                }
            }
            Change::Queries => inputs.queries = permuted_rows(&inputs.queries),
            Change::Entry(entry) => {
                for block in [&mut inputs.queries, &mut inputs.keys, &mut inputs.values] {
                    *block = one_entry(block, entry);
                }
            }
            Change::Loud(entry) => {
                for block in [&mut inputs.queries, &mut inputs.keys, &mut inputs.values] {
                    let length = block.numbers.len() / block.shape[0];
                    block.numbers[entry * length..(entry + 1) * length].iter_mut().for_each(|number| *number *= 64.0);
                }
            }
        }
        Case {
            name: self.name.clone(),
            capability: self.capability,
            purpose: self.purpose.clone(),
            storage: self.storage,
            options: self.options.clone(),
            same_as: self.same_as.clone(),
            inputs,
        }
    }

    fn inputs(&self, draw: &Drawer) -> Inputs {
        let Shape { batches, heads, key_heads, queries, keys, width, value_width } = self.shape;
        let (query_shape, key_shape) = ([batches, heads, queries, width], [batches, key_heads, keys, width]);
        let (query_block, key_block) = match self.logits {
            LogitKind::Normal(factor) => {
                (draw.normal(MatrixId::QUERIES, query_shape, factor), draw.normal(MatrixId::KEYS, key_shape, factor))
            }
            LogitKind::Steps { base, step } => draw.steps(query_shape, key_shape, base, step),
        };
        let lengths = match self.mask {
            MaskKind::Lengths(lengths) => Some(lengths.to_vec()),
            _ => None,
        };
        let value_shape = [batches, key_heads, keys, value_width];
        let mut values = match self.values {
            ValueKind::Identity => Block::zeros(value_shape),
            ValueKind::Ones => Block::zeros(value_shape).map(|_| 1.0),
            ValueKind::Normal | ValueKind::LoudPadding(_) | ValueKind::BrokenPadding => {
                draw.normal(MatrixId::VALUES, value_shape, 1.0)
            }
        };
        for (row, entries) in values.numbers.chunks_exact_mut(value_width).enumerate() {
            let (batch, key) = (row / keys / key_heads, row % keys);
            match (self.values, &lengths) {
                (ValueKind::Identity, _) => entries[key] = 1.0,
                (ValueKind::LoudPadding(factor), Some(lengths)) if key >= lengths[batch] => {
                    entries.iter_mut().for_each(|entry| *entry *= factor);
                }
                (ValueKind::BrokenPadding, Some(lengths)) if key >= lengths[batch] => entries.fill(f64::NAN),
                _ => {}
            }
        }
        let slopes = (0..heads).map(|head| Storage::F32.round(alibi_slope(head, heads))).collect();
        let output_gradient = draw.normal(MatrixId::GRADIENT, [batches, heads, queries, value_width], 1.0);
        Inputs {
            queries: query_block,
            keys: key_block,
            values,
            mask: self.mask_block(draw),
            lengths,
            slopes: self.options.alibi.then_some(slopes),
            output_gradient: self.options.gradients.then_some(output_gradient),
        }
    }

    fn mask_block(&self, draw: &Drawer) -> Option<Block> {
        let Shape { batches, queries, keys, .. } = self.shape;
        let of = |batches: usize, heads: usize, hidden: f64, hides: &dyn Fn(usize, usize, usize, f64) -> bool| {
            let visible = if self.options.mask == Some(MaskForm::Additive) { 0.0 } else { 1.0 };
            let mut block = draw.uniform([batches, heads, queries, keys]);
            for (index, cell) in block.numbers.iter_mut().enumerate() {
                let (batch, query, key) = (index / keys / queries / heads, index / keys % queries, index % keys);
                *cell = if hides(batch, query, key, *cell) { hidden } else { visible };
            }
            block
        };
        let hidden = if self.options.mask == Some(MaskForm::Additive) { f64::NEG_INFINITY } else { 0.0 };
        // A random cell of its own is always visible; 0.4 of the others are hidden.
        let random = |query: usize, key: usize, uniform: f64| uniform < 0.4 && key != (3 * query + 1) % keys;
        match self.mask {
            MaskKind::None => None,
            MaskKind::Random { batches, heads, hidden } => {
                Some(of(batches, heads, hidden, &|_, query, key, uniform| random(query, key, uniform)))
            }
            MaskKind::EmptyRows(rows) => Some(of(batches, 1, hidden, &|_, query, key, uniform| {
                rows.contains(&query) || random(query, key, uniform)
            })),
            MaskKind::Lengths(lengths) => Some(of(batches, 1, hidden, &|batch, _, key, _| key >= lengths[batch])),
            MaskKind::Bias { batches, heads, factor } => {
                Some(draw.normal(MASK, [batches, heads, queries, keys], factor))
            }
        }
    }
}

/// Draws for one case.
struct Drawer {
    stream: TrialStream,
    storage: Storage,
}

impl Drawer {
    fn entries(&self, law: Entries, matrix: MatrixId, shape: [usize; 4]) -> Block {
        let mut block = Block::zeros(shape);
        fill(law, &self.stream, matrix, 0, shape[3], &mut block.numbers);
        block
    }

    fn normal(&self, matrix: MatrixId, shape: [usize; 4], factor: f64) -> Block {
        self.entries(Entries::Normal, matrix, shape).map(|number| self.storage.round(factor * number))
    }

    /// Uniform on (0, 1).
    fn uniform(&self, shape: [usize; 4]) -> Block {
        self.entries(Entries::Uniform, MASK, shape).map(|number| 0.5 + number / 12f64.sqrt())
    }

    /// q = (a, x, 0, …) and k = (a′, y, 0, …) with a·a′ = base·√d and x·y = step·√d·(0, 1 or 2)·(0, …, 3), so that logits and all
    /// sums on the way are whole multiples of the step.
    fn steps(&self, query_shape: [usize; 4], key_shape: [usize; 4], base: f64, step: f64) -> (Block, Block) {
        let root = (query_shape[3] as f64).sqrt();
        let whole = |matrix: MatrixId, shape: [usize; 4], most: f64| {
            let uniform = self.entries(Entries::Uniform, matrix, [shape[0], shape[1], shape[2], 1]);
            uniform.map(|number| ((0.5 + number / 12f64.sqrt()) * (most + 1.0)).floor().min(most))
        };
        let fill_first = |shape: [usize; 4], first: f64, second: &Block| {
            let mut block = Block::zeros(shape);
            for (row, &second) in block.numbers.chunks_exact_mut(shape[3]).zip(&second.numbers) {
                (row[0], row[1]) = (first, second);
            }
            block
        };
        let queries = fill_first(query_shape, base.abs(), &whole(MatrixId::QUERIES, query_shape, 2.0));
        let multiples = whole(MatrixId::KEYS, key_shape, 3.0).map(|number| number * step * root);
        (queries, fill_first(key_shape, base.signum() * root, &multiples))
    }
}

/// Where row `row` of `rows` comes from; a permutation because `rows` is a prime above 5.
fn source_row(row: usize, rows: usize) -> usize {
    (5 * row + 2) % rows
}

fn permuted_rows(block: &Block) -> Block {
    let [batches, heads, rows, _] = block.shape;
    let mut permuted = block.clone();
    for batch in 0..batches {
        for head in 0..heads {
            for row in 0..rows {
                permuted.row_mut(batch, head, row).copy_from_slice(block.row(batch, head, source_row(row, rows)));
            }
        }
    }
    permuted
}

fn one_entry(block: &Block, entry: usize) -> Block {
    let [batches, heads, rows, columns] = block.shape;
    let length = block.numbers.len() / batches;
    Block { shape: [1, heads, rows, columns], numbers: block.numbers[entry * length..(entry + 1) * length].to_vec() }
}
