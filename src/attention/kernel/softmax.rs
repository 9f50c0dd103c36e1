//! The softmax of every row of logits, reduced to a few numbers while the logits are in cache.
//!
//! # Method
//! A tile of rows meets the keys in blocks of columns. The logits x of a block are formed, the largest M of each row is
//! found, and sums over the weights w = e^(c(x − M)) are taken; where a later block holds a larger logit, the sums so far are scaled
//! down (online softmax: Milakov and Gimelshein, 2018). **The maximum itself is left out of the sums**, exactly one of
//! several equal ones. With s_a = Σ w^a over the others, Z = 1 + s₁ and P = 1/Z, r_a = s_a/Z^a,
//!
//! ```text
//! ln Σ e^(cx) = cM + ln(1 + s₁)             Σp² = P² + r₂          Σp³ = P³ + r₃
//! H = ln(1 + s₁) − c Σ w(x − M) / Z         tr J = r₁(1 + P) − r₂
//! ‖J‖²_F = P²r₁² + r₂(1 + 2P² + r₂) − 2r₃   (J = diag p − ppᵀ, 1 − P = r₁)
//! ```
//!
//! so that nothing cancels where a row is nearly one-hot: there 1 − Σp² or Σp² − 2Σp³ + (Σp²)² would lose all digits.
//!
//! # Accuracy
//! With ε the unit roundoff of `T` (2⁻²⁴ or 2⁻⁵³), a weight is off by at most (2|c(x − M)| + 3)ε relatively: the difference and
//! its product with c are rounded (the product is exact if c is a power of two), and the exponential is good to a unit
//! in the last place. Sums take at most 64 terms a lane in `T` (128 with AVX2) before they are added in f64.
//!
//! Where one factor is another times 2, 4 or 8, its weights are repeated squares of the other's: one exponential for two.
//! Eight times the exponential's error and 7 roundings are 27ε at most, 1.6·10⁻⁶ in f32.
//!
//! Measured in f32 on raw logits of d = 64 (509 × 2053), the norm ‖J‖²_F of the *worst* row is off by 3·10⁻⁷ of its value in
//! f64 from the same logits, and by 10⁻⁶ where weights are repeated squares.
//!
//! Weights below the normal numbers (2⁻¹²⁶ in f32, 2⁻¹⁰²² in f64; the maximum's is 1) count as 0, and so do such
//! squares. So where the second largest weight is below 2⁻⁶³ (2⁻⁵¹¹) of the largest, ‖J‖²_F is only right to a factor of 4,
//! and where it is below 2⁻¹²⁶ the row is one-hot: entropy, tr J and ‖J‖²_F are 0.

use super::operands::assert_available;
use super::pack::{AlignedBuffer, PackedKeys, PackedQueries};
use super::row_statistics::{RowStatistics, SIDE_BY_SIDE, Statistics, Totals, work_out};
use super::row_sums::{MOST_DOUBLINGS, Rates, Survey, WeightSums};
use super::{Element, InstructionSet, ROW_BLOCK, assert_same_shape, dispatch};
use std::ops::Range;

/// The longest registers of logits in one block of a row: each lane takes as many terms before it is added in f64, and
/// twice as many in a register half as long.
const TERMS: usize = 64;

/// Rows that are looked through one after the other before they are weighed: what depends on the search
/// of one does not wait for it.
const TOGETHER: usize = 7;

/// One or two factors of the same sign that share their exponentials.
#[derive(Debug, Clone, Copy)]
struct Group<T> {
    /// The absolute values of the smaller factor and of the larger.
    rates: Rates<T>,
    /// Where the results of the smaller and of the larger go.
    factors: [usize; 2],
}

/// The factors of one sign, and the largest logit (times that sign) of each row so far.
#[derive(Debug)]
struct Side<T> {
    groups: Vec<Group<T>>,
    maxima: Vec<Option<T>>,
}

/// Memory for [`packed_row_statistics`], reused from call to call; one for each thread.
///
/// It holds one tile of rows (4, 6 or 14) by 64 registers of logits, at most 60 KiB, and for a group of
/// about [`ROW_BLOCK`] rows a few numbers for each row and factor.
#[derive(Debug)]
pub struct SoftmaxWorkspace<T> {
    logits: AlignedBuffer<T>,
    rounded: Vec<T>,
    positive: Side<T>,
    negative: Side<T>,
    sums: Vec<WeightSums>,
    power_sums: Vec<[f64; 2]>,
}

impl<T: Element> Default for SoftmaxWorkspace<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Element> SoftmaxWorkspace<T> {
    /// A workspace without memory yet.
    pub fn new() -> Self {
        let side = || Side { groups: Vec::new(), maxima: Vec::new() };
        Self {
            logits: AlignedBuffer::new(),
            rounded: Vec::new(),
            positive: side(),
            negative: side(),
            sums: Vec::new(),
            power_sums: Vec::new(),
        }
    }

    /// Sorts the factors into groups.
    fn plan(&mut self, factors: &[f64]) {
        self.rounded.clear();
        self.rounded.extend(factors.iter().map(|&factor| T::from_f64(factor)));
        for (&rounded, factor) in self.rounded.iter().zip(factors) {
            assert!(rounded.to_f64().is_finite(), "the factor {factor} is not finite in the type of the logits");
        }
        let rounded = &self.rounded;
        for (side, sign) in [(&mut self.positive, 1.0), (&mut self.negative, -1.0)] {
            side.groups.clear();
            let rate = |index: usize| sign * rounded[index].to_f64();
            let is_double =
                |small: usize, large: usize, doublings: u32| rate(large) == rate(small) * f64::from(1_u32 << doublings);
            let mut ascending: Vec<usize> = (0..rounded.len()).filter(|&index| rate(index) > 0.0).collect();
            ascending.sort_by(|&a, &b| rate(a).total_cmp(&rate(b)));
            let mut taken = vec![false; rounded.len()];
            for &small in &ascending {
                if taken[small] {
                    continue;
                }
                taken[small] = true;
                let mut group = Group { rates: Rates::new(T::from_f64(rate(small)), 0), factors: [small; 2] };
                'search: for doublings in 1..=MOST_DOUBLINGS {
                    for &large in &ascending {
                        if !taken[large] && is_double(small, large, doublings) {
                            taken[large] = true;
                            group = Group { rates: Rates::new(group.rates.rate(), doublings), factors: [small, large] };
                            break 'search;
                        }
                    }
                }
                side.groups.push(group);
            }
        }
    }
}

/// Statistics of the softmax of each row of factor · QKᵀ, for each factor:
/// `out[row * factors.len() + f]` is made of that of row `row` and `factors[f]`.
///
/// A factor may be any number that is finite in `T`, to which it is rounded; at 0 all weights are equal. Results of a row depend on
/// the row, the keys, the factors and the instruction set, not on the other rows. Where the sum of a row's
/// logits overflows or is NaN, all its statistics are NaN; the numbers must stay below a quarter of
/// the largest that `T` can hold.
///
/// # Panics
/// If queries and keys differ in depth or instruction set, if `out` is not queries × factors long, or if a
/// factor is not finite in `T`.
pub fn packed_row_statistics<T: Element, R: From<RowStatistics>>(
    queries: &PackedQueries<T>,
    keys: &PackedKeys<T>,
    factors: &[f64],
    workspace: &mut SoftmaxWorkspace<T>,
    out: &mut [R],
) {
    assert_same_shape(queries, keys);
    assert_eq!(Some(out.len()), queries.rows().checked_mul(factors.len()), "the output is not queries by factors");
    if factors.is_empty() {
        return;
    }
    workspace.plan(factors);
    let height = queries.0.width();
    let tiles = queries.rows().div_ceil(height);
    let group = ROW_BLOCK.div_ceil(height);
    for (first, out) in (0..tiles).step_by(group).zip(out.chunks_mut(group * height * factors.len())) {
        let packed = queries.0.span(first, tiles.min(first + group));
        reduce_rows(packed, out.len() / factors.len(), height, keys, workspace);
        workspace.finish(keys.instruction_set(), keys.rows(), out);
    }
}

/// [`packed_row_statistics`] of rows whose logits were formed before: `logits` is rows × m, row-major. Their statistics are the same bits.
///
/// # Panics
/// If `logits` is no whole number of rows, if `out` is not rows × factors long, or if a factor is not finite in `T`; if this machine
/// lacks the instruction set.
pub fn row_statistics_of_logits<T: Element, R: From<RowStatistics>>(
    set: InstructionSet,
    logits: &[T],
    m: usize,
    factors: &[f64],
    workspace: &mut SoftmaxWorkspace<T>,
    out: &mut [R],
) {
    assert_available(set);
    let rows = logits.len() / m;
    assert!(
        logits.len() == rows * m && out.len() == rows * factors.len(),
        "logits and output are rows by keys, by factors"
    );
    if factors.is_empty() {
        return;
    }
    workspace.plan(factors);
    workspace.clear(rows);
    let block = columns_at_once::<T>(T::tile(set).columns).min(m);
    let stride = block.next_multiple_of(T::MOST_LANES);
    workspace.logits.resize(rows.min(TOGETHER) * stride);
    for (first_row, logits) in (0..rows).step_by(TOGETHER).zip(logits.chunks(TOGETHER * m)) {
        for first in (0..m).step_by(block) {
            let columns = first..m.min(first + block);
            let lines = Lines { start: 0, stride, columns: columns.len(), count: logits.len() / m };
            let copies = workspace.logits.as_mut_slice().chunks_exact_mut(stride);
            for (copy, line) in copies.zip(logits.chunks_exact(m)) {
                copy[..columns.len()].copy_from_slice(&line[columns.clone()]);
            }
            workspace.take(set, first_row, lines);
        }
    }
    workspace.finish(set, m, out);
}

/// The columns of a block of a row, given those of a panel of keys.
fn columns_at_once<T: Element>(width: usize) -> usize {
    (TERMS * T::MOST_LANES).next_multiple_of(width)
}

/// Takes the sums of a group of rows over all keys. A block of columns serves all tiles of the group before the next,
/// so that its keys are read from the L2 cache.
fn reduce_rows<T: Element>(
    queries: &[T],
    rows: usize,
    height: usize,
    keys: &PackedKeys<T>,
    workspace: &mut SoftmaxWorkspace<T>,
) {
    let (set, width, depth) = (keys.instruction_set(), keys.0.width(), keys.depth());
    workspace.clear(rows);
    let panels = keys.rows().div_ceil(width);
    let block = columns_at_once::<T>(width) / width;
    // A line more than the block, so that the rows do not all map to the same sets of a cache.
    let stride = block.min(panels) * width + width.max(T::MOST_LANES);
    workspace.logits.resize(rows.min(height) * stride);
    for first in (0..panels).step_by(block) {
        let last = panels.min(first + block);
        let columns = keys.rows().min(last * width) - first * width;
        for (tile, queries) in queries.chunks_exact(height * depth).enumerate() {
            let first_row = tile * height;
            let rows = (rows - first_row).min(height);
            let logits = workspace.logits.as_mut_slice();
            for index in first..last {
                let panel = dispatch::Panel { queries, rows, keys: keys.0.span(index, index + 1), depth };
                T::logits(set, panel, &mut logits[(index - first) * width..], stride);
            }
            for row in (0..rows).step_by(TOGETHER) {
                let lines = Lines { start: row * stride, stride, columns, count: TOGETHER.min(rows - row) };
                workspace.take(set, first_row + row, lines);
            }
        }
    }
}

impl<T: Element> SoftmaxWorkspace<T> {
    /// Forgets all sums and makes room for those of so many rows.
    fn clear(&mut self, rows: usize) {
        self.sums.clear();
        self.sums.resize(rows * self.rounded.len(), WeightSums::default());
        self.power_sums.clear();
        self.power_sums.resize(rows, [0.0; 2]);
        for side in [&mut self.positive, &mut self.negative] {
            side.maxima.clear();
            side.maxima.resize(rows, None);
        }
    }

    /// Adds the logits of one block of some rows to the sums of the rows.
    fn take(&mut self, set: InstructionSet, first_row: usize, lines: Lines) {
        let logits = self.logits.as_mut_slice();
        let factors = self.rounded.len();
        let mut marks = [Mark::default(); TOGETHER];
        for (side, is_negative) in [(&mut self.positive, false), (&mut self.negative, true)] {
            if is_negative && side.groups.is_empty() {
                continue;
            }
            let each = || (0..lines.count).map(|index| (index, first_row + index, lines.range::<T>(index)));
            for (index, row, range) in each() {
                let padded = &mut logits[range];
                let line = &mut padded[..lines.columns];
                if is_negative {
                    line.iter_mut().for_each(|logit| *logit = -*logit);
                }
                let survey = T::survey(set, line);
                if !is_negative {
                    self.power_sums[row][0] += survey.sum;
                    self.power_sums[row][1] += survey.square_sum;
                }
                let mark = side.mark(set, row, line, &survey, &mut self.sums[row * factors..]);
                if let Some(group) = side.groups.first() {
                    group.leave_out(&mark, padded, lines.columns);
                }
                marks[index] = mark;
            }
            for (index, row, range) in each() {
                let line = &mut logits[range];
                side.weigh(set, line, lines.columns, &marks[index], &mut self.sums[row * factors..]);
                if let Some(place) = marks[index].place {
                    line[place] = marks[index].reference;
                }
            }
        }
    }
}

/// Some rows of a tile of logits.
#[derive(Clone, Copy)]
struct Lines {
    start: usize,
    stride: usize,
    columns: usize,
    count: usize,
}

impl Lines {
    /// Where one of them lies, padded to whole registers.
    fn range<T: Element>(&self, index: usize) -> Range<usize> {
        let start = self.start + index * self.stride;
        start..start + self.columns.next_multiple_of(T::MOST_LANES)
    }
}

/// What must be known of one block of a row before it is weighed.
#[derive(Clone, Copy, Default)]
struct Mark<T> {
    /// The largest logit of the row so far.
    reference: T,
    /// Where it is in this block, if it is the first there.
    place: Option<usize>,
    /// The smallest logit of the block.
    minimum: T,
}

impl<T: Element> Side<T> {
    /// Finds the largest logit of a row so far and makes the sums relative to it.
    fn mark(
        &mut self,
        set: InstructionSet,
        row: usize,
        line: &[T],
        survey: &Survey<T>,
        sums: &mut [WeightSums],
    ) -> Mark<T> {
        let &Survey { maximum, minimum, .. } = survey;
        let reference = &mut self.maxima[row];
        if !reference.is_none_or(|reference| maximum > reference) {
            return Mark { reference: reference.unwrap_or(maximum), place: None, minimum };
        }
        if let Some(before) = reference.replace(maximum) {
            let step = before.to_f64() - maximum.to_f64();
            for group in &self.groups {
                for (factor, rate) in group.members() {
                    rescale(&mut sums[factor], rate, step);
                }
            }
        }
        Mark { reference: maximum, place: T::find(set, line, maximum), minimum }
    }

    /// Adds the weights of one block of a row to its sums: the first `columns` numbers of `line`, from which what the first
    /// group leaves out has been taken.
    fn weigh(&self, set: InstructionSet, line: &mut [T], columns: usize, mark: &Mark<T>, sums: &mut [WeightSums]) {
        for (index, group) in self.groups.iter().enumerate() {
            if index > 0 {
                group.leave_out(mark, line, columns);
            }
            let is_mild = group.rates.is_mild(columns, mark.minimum, mark.reference);
            let found = T::weigh(set, line, mark.reference, &group.rates, is_mild);
            for ((factor, _), found) in group.members().zip(found) {
                let sum = &mut sums[factor];
                sum.first += found.first;
                sum.second += found.second;
                sum.third += found.third;
                sum.moment += found.moment;
            }
        }
    }
}

impl<T: Element> Group<T> {
    /// Gives one instance of the maximum and the padding logits without weight.
    fn leave_out(&self, mark: &Mark<T>, line: &mut [T], columns: usize) {
        let is_mild = self.rates.is_mild(columns, mark.minimum, mark.reference);
        let absent = if is_mild { self.rates.negligible(mark.reference) } else { T::ABSENT };
        if columns < line.len() {
            line[columns..].fill(absent);
        }
        if let Some(place) = mark.place {
            line[place] = absent;
        }
    }

    /// The factors of the group, by index, and their rates.
    fn members(&self) -> impl Iterator<Item = (usize, f64)> {
        let (rate, doublings) = (self.rates.rate().to_f64(), self.rates.doublings());
        let count = if doublings == 0 { 1 } else { 2 };
        let rates = [rate, rate * f64::from(1_u32 << doublings)];
        self.factors.into_iter().zip(rates).take(count)
    }
}

/// Turns sums of weights relative to an old maximum, itself left out, into sums relative to a larger one, the old one
/// now a weight among others; `step` = old − new < 0.
fn rescale(sums: &mut WeightSums, rate: f64, step: f64) {
    let weight = (rate * step).exp();
    if weight == 0.0 {
        // The step may be so large that its product with a sum overflows.
        *sums = WeightSums::default();
        return;
    }
    sums.moment = weight * (sums.moment + step * (sums.first + 1.0));
    sums.first = weight * (sums.first + 1.0);
    sums.second = weight * weight * (sums.second + 1.0);
    sums.third = weight * weight * weight * (sums.third + 1.0);
}

impl<T: Element> SoftmaxWorkspace<T> {
    /// Writes the statistics of the rows over `m` keys.
    fn finish<R: From<RowStatistics>>(&self, set: InstructionSet, m: usize, out: &mut [R]) {
        let factors = self.rounded.len();
        let (mut totals, mut found) = (Totals::default(), Statistics::default());
        for (index, out) in out.chunks_mut(SIDE_BY_SIDE * factors).enumerate() {
            let first = index * SIDE_BY_SIDE;
            for factor in 0..factors {
                let rows = out.len() / factors;
                for lane in 0..rows {
                    self.set_totals(m, first + lane, factor, &mut totals, lane);
                }
                work_out(set, &totals, self.rounded[factor].to_f64(), &mut found);
                for lane in 0..rows {
                    out[lane * factors + factor] = found.row(lane).into();
                }
            }
        }
    }

    /// Sets what was added up of one row under one factor.
    #[inline(always)]
    fn set_totals(&self, m: usize, row: usize, factor: usize, totals: &mut Totals, lane: usize) {
        let value = self.rounded[factor].to_f64();
        let side = if value < 0.0 { &self.negative } else { &self.positive };
        match side.maxima[row] {
            Some(maximum) if value != 0.0 => {
                let sums = &self.sums[row * self.rounded.len() + factor];
                totals.set(lane, sums, maximum.to_f64(), self.power_sums[row]);
            }
            // m equal weights.
            _ => {
                let others = (m - 1) as f64;
                let sums = WeightSums { first: others, second: others, third: others, moment: 0.0 };
                totals.set(lane, &sums, 0.0, self.power_sums[row]);
            }
        }
    }
}

#[cfg(test)]
#[path = "softmax_tests.rs"]
mod tests;
