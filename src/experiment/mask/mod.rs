//! Does a mask keep what it promises? Hidden keys have no weight and no influence, visible ones have the statistics that
//! theory gives for as many keys.
//!
//! One trial draws Q (n×d_k), K (m×d_k) and V (m×d_k) and measures, for each scale c, with *hidden* and *visible* meaning
//! the mask that is claimed and p the weights of a row:
//!
//! | measure | formula |
//! |---|---|
//! | `masked_weight_max` | largest weight of a hidden key |
//! | `row_sum_error` | largest \|Σ_j p_j − 1\| over the rows with a visible key |
//! | `leak` | largest change of an output of some rows when their hidden keys and values are replaced by others, ten times as large |
//! | `leak_nonfinite` | share of those outputs that change when hidden keys and values are replaced by NaN and ±∞ |
//! | `gradient_leak` | largest derivative of an output of those rows by an entry of a hidden key or value |
//! | `fill_margin` | smallest (largest visible logit of a row − fill), where the fill is a number of moderate size |
//! | `logit_mean`, `logit_variance` | mean of the visible logits, mean square about their expectation |
//! | `entropy`, `participation` | mean over the rows with a visible key of −Σ p ln p (nats) and Σ p²; with `by_row` also of each row |
//!
//! Two more belong to no scale and no draw: with all queries zero every visible key has the same logit, so a weight that
//! is not 0 is a key that is seen. `visible_share` is the share of such weights, `fully_masked_rows` the number of rows
//! without any.
//!
//! At most four rows with a hidden key are replaced and differentiated in a trial, others in the next.

mod claims;
mod leak;
pub mod portrait;
pub mod remarks;

use std::sync::OnceLock;

use rayon::prelude::*;

use super::engine::Experiment;
use super::{Claim, Draw, InputLaw, Inside, Sizes};
use crate::attention::kernel::{Element, InstructionSet, PackedKeys, PackedQueries, packed_logits};
use crate::attention::masked::{MaskedAttention, MaskedRow, MaskedSoftmax};
use crate::attention::{Mask, Precision, Scale};
use crate::number::larger;
use crate::sampling::{Drawable, TrialStream};
use leak::{Leaks, TokenBuffers};

/// A finite fill beyond this is its own distance from any logit.
const LARGEST_FILL_MEASURED: f64 = 1e6;
/// Rows of one trial whose hidden keys are replaced: four, as said above.
const SAMPLED_ROWS: usize = 4;
/// Logits formed at once.
const BLOCK_LOGITS: usize = 1 << 16;

/// Measures of the mask alone.
const MASK_MEASURES: [&str; 2] = ["visible_share", "fully_masked_rows"];
/// Measures of each scale, in the order of the columns.
const MEASURES: [&str; 9] = [
    "masked_weight_max",
    "row_sum_error",
    "leak",
    "leak_nonfinite",
    "gradient_leak",
    "logit_mean",
    "logit_variance",
    "entropy",
    "participation",
];
/// Measured of each scale where the fill is finite.
const FILL_MEASURE: &str = "fill_margin";
/// Measures of each row and scale.
const ROW_MEASURES: [&str; 2] = ["entropy", "participation"];

/// Whether each row has its own claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Rows are averaged.
    Averaged,
    /// Each row with a visible key has its own claims beside the averages.
    ByRow,
}

/// Whether visible logits are changed by what a mask file adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibleBias {
    /// They are not: softmax theory holds.
    None,
    /// They are: softmax statistics are measured without a claim.
    Some,
}

/// What is claimed: the mask and what is run with it.
#[derive(Debug, Clone)]
pub struct MaskClaim {
    /// Which keys are hidden, n×m.
    pub mask: Mask,
    /// The mask as the rows name it.
    pub name: String,
    /// Rows averaged or one by one.
    pub detail: Detail,
    /// Whether there is softmax theory.
    pub bias: VisibleBias,
}

/// The experiment of `attn mask` at one parameter point: `source` draws, `attention` is under test.
pub struct MaskExperiment<D = InputLaw, A = MaskedSoftmax> {
    sizes: Sizes,
    scales: Vec<Scale>,
    precision: Precision,
    claim: MaskClaim,
    /// Visible keys of each row.
    counts: Vec<usize>,
    /// Rows with a hidden key.
    hiding: Vec<usize>,
    /// The fill, where it is measured.
    fill: Option<f64>,
    source: D,
    attention: A,
    law: InputLaw,
    claims: Vec<Claim>,
    seen: OnceLock<[f64; 2]>,
}

impl MaskExperiment {
    /// The experiment with the draws that it claims to have.
    ///
    /// # Panics
    /// If the masks are not n×m.
    pub fn new(sizes: Sizes, law: InputLaw, scales: &[Scale], claim: MaskClaim, attention: MaskedSoftmax) -> Self {
        let fill = Some(attention.fill.value(attention.precision)).filter(|fill| fill.abs() <= LARGEST_FILL_MEASURED);
        let precision = attention.precision;
        Self::with_parts((sizes, law, precision), scales, claim, fill, law, attention)
    }
}

impl<D: Draw, A: MaskedAttention> MaskExperiment<D, A> {
    /// The same claims for another source of draws or another attention. The first argument is what is claimed of the
    /// draws, `fill` the fill whose distance from the logits is measured.
    pub fn with_parts(
        (sizes, law, precision): (Sizes, InputLaw, Precision),
        scales: &[Scale],
        claim: MaskClaim,
        fill: Option<f64>,
        source: D,
        attention: A,
    ) -> Self {
        assert_eq!((claim.mask.queries(), claim.mask.keys()), (sizes.queries, sizes.keys), "the mask is not n×m");
        let counts = claim.mask.visible_keys();
        let hiding = (0..sizes.queries).filter(|&row| counts[row] < sizes.keys).collect();
        let theory =
            claims::MaskTheory { sizes, law, precision, counts: &counts, mask: &claim.mask, fill, bias: claim.bias };
        let claims = theory.claims(scales, claim.detail);
        let scales = scales.to_vec();
        let seen = OnceLock::new();
        Self { sizes, scales, precision, claim, counts, hiding, fill, source, attention, law, claims, seen }
    }

    /// Share of the cells that are seen and number of rows that see nothing, from the attention itself with queries of 0.
    fn seen(&self) -> [f64; 2] {
        *self.seen.get_or_init(|| {
            let Sizes { queries, keys, .. } = self.sizes;
            let zeros = vec![0.0f64; keys];
            let in_row = |index: usize| {
                let mut weights = Vec::new();
                self.attention.weights(MaskedRow { index, raw: &zeros, factor: 1.0 }, &mut weights);
                weights.iter().filter(|&&weight| weight != 0.0).count()
            };
            let counts: Vec<usize> = (0..queries).map(in_row).collect();
            let share = counts.iter().sum::<usize>() as f64 / (queries as f64 * keys as f64);
            [share, counts.iter().filter(|&&count| count == 0).count() as f64]
        })
    }

    /// Draws Q and K of one trial, rounded to the arithmetic.
    fn draw<T: Element + Drawable>(&self, stream: &TrialStream, inside: Inside, buffers: &mut Buffers<T>) {
        let Sizes { d_k, queries: n, keys: m } = self.sizes;
        buffers.queries.resize(n * d_k, T::ZERO);
        buffers.keys.resize(m * d_k, T::ZERO);
        self.source.draw(stream, self.sizes, inside, &mut buffers.queries, &mut buffers.keys);
        self.precision.round_matrix(&mut buffers.queries);
        self.precision.round_matrix(&mut buffers.keys);
        let packed = buffers.packed.get_or_insert_with(|| PackedKeys::empty(InstructionSet::detect()));
        packed.repack(&buffers.keys, m, d_k);
    }

    /// Measures one draw in element type T.
    fn trial_in<T: Element + Drawable>(
        &self,
        stream: &TrialStream,
        inside: Inside,
        buffers: &mut Buffers<T>,
    ) -> Vec<f64> {
        self.draw(stream, inside, buffers);
        let Buffers { queries, keys, packed, block, tokens } = buffers;
        let packed = packed.as_ref().expect("packed by the draw");
        let rows = self.rows(queries, packed, inside, block);
        let mut values = self.seen().to_vec();
        let mut leaks = Leaks::new(self, stream, queries, keys, tokens);
        for (index, &scale) in self.scales.iter().enumerate() {
            let rows: Vec<&MeasuredRow> = rows.iter().skip(index).step_by(self.scales.len()).collect();
            values.extend(self.scale_measures(&rows, leaks.measure(scale.factor(self.sizes.d_k))));
        }
        values
    }

    /// Every row under every scale: row i under scale s at i·scales + s.
    fn rows<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        inside: Inside,
        buffers: &mut BlockBuffers<T>,
    ) -> Vec<MeasuredRow> {
        let d_k = self.sizes.d_k;
        let block = (BLOCK_LOGITS / self.sizes.keys).clamp(4, 256);
        let measure = |buffers: &mut BlockBuffers<T>, (index, part): (usize, &[T])| {
            self.block(index * block, part, keys, buffers)
        };
        let parts: Vec<Vec<MeasuredRow>> = match inside {
            Inside::Sequential => {
                queries.chunks(block * d_k).enumerate().map(|part| measure(&mut *buffers, part)).collect()
            }
            Inside::Parallel => {
                queries.par_chunks(block * d_k).enumerate().map_init(BlockBuffers::default, measure).collect()
            }
        };
        parts.into_iter().flatten().collect()
    }

    /// The rows of a block of queries, the first of which is number `first`.
    fn block<T: Element>(
        &self,
        first: usize,
        queries: &[T],
        keys: &PackedKeys<T>,
        BlockBuffers { packed, raw }: &mut BlockBuffers<T>,
    ) -> Vec<MeasuredRow> {
        let (d_k, m) = (self.sizes.d_k, self.sizes.keys);
        let rows = queries.len() / d_k;
        raw.resize(rows * m, T::ZERO);
        let packed = packed.get_or_insert_with(|| PackedQueries::empty(keys.instruction_set()));
        packed.repack(queries, rows, d_k);
        packed_logits(packed, keys, 0..m, raw, m);
        let mut weights = Vec::new();
        let mut measured = Vec::with_capacity(rows * self.scales.len());
        for (offset, raw) in raw.chunks_exact(m).enumerate() {
            for scale in &self.scales {
                let row = MaskedRow { index: first + offset, raw, factor: scale.factor(d_k) };
                self.attention.weights(row, &mut weights);
                measured.push(self.measured(row, &weights));
            }
        }
        measured
    }

    /// What one row amounts to.
    fn measured<T: Element>(&self, row: MaskedRow<T>, weights: &[T]) -> MeasuredRow {
        let visible = self.claim.mask.row(row.index);
        let center = row.factor * claims::expected_logit(self.law, self.sizes.d_k);
        let mut measured = MeasuredRow { largest_logit: f64::NEG_INFINITY, ..MeasuredRow::default() };
        for (key, (weight, raw)) in weights.iter().zip(row.raw).enumerate() {
            let weight = weight.to_f64();
            if weight != 0.0 {
                measured.sum += weight;
                measured.participation += weight * weight;
                measured.entropy -= weight * weight.ln();
            }
            if visible.contains(key) {
                let logit = self.rounded(raw.to_f64() * row.factor);
                let deviation = logit - center;
                measured.logit_sum += logit;
                measured.logit_squares += deviation * deviation;
                measured.largest_logit = larger(measured.largest_logit, logit);
            } else {
                measured.hidden_weight = larger(measured.hidden_weight, weight);
            }
        }
        measured
    }

    fn rounded(&self, logit: f64) -> f64 {
        match self.precision {
            Precision::F64 | Precision::F32 => logit,
            half => f64::from(half.round_f32(logit as f32)),
        }
    }

    /// The measures of one scale from its rows, added in order.
    fn scale_measures(&self, rows: &[&MeasuredRow], [leak, leak_nonfinite, gradient_leak]: [f64; 3]) -> Vec<f64> {
        let seeing = || rows.iter().zip(&self.counts).filter(|&(_, &count)| count > 0).map(|(row, _)| row);
        let visible_rows = seeing().count() as f64;
        let visible_cells = self.counts.iter().sum::<usize>() as f64;
        let largest = |of: fn(&MeasuredRow) -> f64| rows.iter().map(|row| of(row)).fold(0.0, larger);
        let mean = |of: fn(&MeasuredRow) -> f64| seeing().map(|row| of(row)).sum::<f64>() / visible_rows;
        let per_cell = |of: fn(&MeasuredRow) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / visible_cells;
        let margin = |fill: f64| seeing().map(|row| row.largest_logit - fill).fold(f64::INFINITY, f64::min);
        let mut values = vec![
            largest(|row| row.hidden_weight),
            seeing().map(|row| (row.sum - 1.0).abs()).fold(0.0, larger),
            leak,
            leak_nonfinite,
            gradient_leak,
            per_cell(|row| row.logit_sum),
            per_cell(|row| row.logit_squares),
            mean(|row| row.entropy),
            mean(|row| row.participation),
        ];
        values.extend(self.fill.map(margin));
        if self.claim.detail == Detail::ByRow {
            values.extend(seeing().flat_map(|row| [row.entropy, row.participation]));
        }
        values
    }

    /// Names of the rows with a visible key.
    fn seeing_rows(&self) -> impl Iterator<Item = usize> {
        self.counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(row, _)| row)
    }
}

/// What is kept of one row of weights.
#[derive(Debug, Clone, Copy, Default)]
struct MeasuredRow {
    sum: f64,
    entropy: f64,
    participation: f64,
    /// Largest weight of a hidden key.
    hidden_weight: f64,
    /// Of the visible logits.
    logit_sum: f64,
    /// About their expectation.
    logit_squares: f64,
    largest_logit: f64,
}

/// A block of queries and its logits.
struct BlockBuffers<T> {
    packed: Option<PackedQueries<T>>,
    raw: Vec<T>,
}

impl<T> Default for BlockBuffers<T> {
    fn default() -> Self {
        Self { packed: None, raw: Vec::new() }
    }
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    single: Buffers<f32>,
    double: Buffers<f64>,
}

/// Q, K and the packed K in one element type, and what is reused with them: fresh memory is dear.
struct Buffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    packed: Option<PackedKeys<T>>,
    block: BlockBuffers<T>,
    tokens: TokenBuffers<T>,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self {
            queries: Vec::new(),
            keys: Vec::new(),
            packed: None,
            block: BlockBuffers::default(),
            tokens: TokenBuffers::default(),
        }
    }
}

impl<D: Draw, A: MaskedAttention> Experiment for MaskExperiment<D, A> {
    type Workspace = Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn mask(&self) -> Option<String> {
        Some(self.claim.name.clone())
    }

    fn measures(&self) -> Vec<String> {
        let mut names: Vec<String> = MASK_MEASURES.map(str::to_string).to_vec();
        for scale in &self.scales {
            names.extend(MEASURES.iter().map(|measure| format!("{measure}:{scale}")));
            names.extend(self.fill.map(|_| format!("{FILL_MEASURE}:{scale}")));
            if self.claim.detail == Detail::ByRow {
                let of_row = |row| ROW_MEASURES.map(|measure| format!("{measure}[{row}]:{scale}"));
                names.extend(self.seeing_rows().flat_map(of_row));
            }
        }
        names
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
        let sampled = (SAMPLED_ROWS as f64).min(n);
        // Multiply-adds of QKᵀ, about 60 a weight for its exponential, logarithm and sums; replaced keys and outputs.
        n * m * (2.0 * d + 60.0 * scales) + sampled * scales * m * 20.0 * d + 30.0 * (n + 4.0 * m) * d
    }

    fn bytes(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let element = if self.precision == Precision::F64 { 8.0 } else { 4.0 };
        let (n, m, scales) = (queries as f64, keys as f64, self.scales.len() as f64);
        let block = (BLOCK_LOGITS as f64).max(4.0 * m);
        ((n + 6.0 * m) * d_k as f64 + block) * element + scales * n * size_of::<MeasuredRow>() as f64
    }
}
