//! Is E\[QKᵀ\] = 0 and Var\[QKᵀ\] = d_k, and does the scale bring the variance to what it promises?
//!
//! One trial draws Q (n×d_k) and K (m×d_k) and measures, for each scale c, over all n·m logits x = c·q_i·k_j:
//!
//! | measure | formula | divisor |
//! |---|---|---|
//! | `logit_mean` | (1/nm) Σ x | nm |
//! | `logit_variance` | Σ (x − x̄)² / (nm − 1), x̄ the trial's mean | nm − 1 |
//! | `logit_second_moment` | (1/nm) Σ (x − E x)² | nm |
//! | `logit_fourth_moment` | (1/nm) Σ (x − E x)⁴ | nm |
//! | `logit_kurtosis_linear` | κ(1 + M₄/E M₄ − 2(M₂/E M₂) + 1): the kurtosis linearised about theory | – |
//!
//! and of the entries themselves the mean, the sample variance (divisor N − 1) and the correlation of q and k at
//! the same token and depth. What scatters how is in `claims`.

mod claims;
mod entry_sums;
pub mod second_moments;

use std::fmt;
use std::str::FromStr;

use super::engine::Experiment;
use super::{Claim, Draw, InputLaw, Inside, Sizes};
use crate::attention::kernel::{Element, InstructionSet, PackedKeys, PowerSums};
use crate::attention::{Logits, Precision, Scale, ScaledDotProduct};
use crate::sampling::{Drawable, TrialStream};
use claims::LogitTheory;
use entry_sums::EntrySums;

/// Statistics of the entries themselves: the derivation's assumptions.
const ENTRY_MEASURES: [&str; 5] = ["q_mean", "q_variance", "k_mean", "k_variance", "qk_correlation"];
/// Statistics of the logits, for each scale.
const LOGIT_MEASURES: [&str; 5] =
    ["logit_mean", "logit_variance", "logit_second_moment", "logit_fourth_moment", "logit_kurtosis_linear"];
/// How many moments of the logits are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// Mean and variance.
    Two,
    /// Mean, variance and kurtosis.
    Four,
}

impl Moments {
    /// The measures of one scale.
    fn measures(self) -> &'static [&'static str] {
        match self {
            Self::Two => &LOGIT_MEASURES[..2],
            Self::Four => &LOGIT_MEASURES,
        }
    }
}

impl FromStr for Moments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "2" => Ok(Self::Two),
            "4" => Ok(Self::Four),
            _ => Err("must be 2 (mean and variance) or 4 (kurtosis as well)".to_string()),
        }
    }
}

/// How the moments of the logits are formed: column `method` of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From all n·m logits.
    Logits,
    /// From the Gram matrices of the Q and K that are drawn.
    Gram,
    /// From Gram matrices that are drawn themselves.
    GramDraw,
}

impl Method {
    /// What a reader of the rows must know of it.
    pub fn remark(self) -> Option<&'static str> {
        match self {
            Self::Logits => None,
            Self::Gram => Some(
                "Mean and variance come from column means and Gram matrices of the Q and K that were drawn, by the identity \
                 Σ S² = tr[(QᵀQ)(KᵀK)]: the numbers that the logits give, up to rounding, but no logit was formed and the kurtosis \
                 is not measured.",
            ),
            Self::GramDraw => Some(
                "No Q and no K were drawn: their column means and Gram matrices were, from their own law (Wishart), which is \
                 exact for normal entries. Mean and variance of the logits have the law that they have for Q and K of this size; \
                 no attention was computed, and the correlation of q and k is not measured.",
            ),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Logits => "logits",
            Self::Gram => "gram",
            Self::GramDraw => "gram-draw",
        })
    }
}

/// Statistics of the diagonal logits, for each scale, where q and k of a token are correlated.
const DIAGONAL_MEASURES: [&str; 2] = ["diagonal_mean", "diagonal_variance"];

/// The experiment of `attn variance` at one parameter point: `source` draws, `logits` is the attention under test.
pub struct VarianceExperiment<D = InputLaw, L = ScaledDotProduct> {
    sizes: Sizes,
    scales: Vec<Scale>,
    precision: Precision,
    source: D,
    logits: L,
    theory: LogitTheory,
}

impl VarianceExperiment {
    /// The experiment with the draws and the attention that it claims to have.
    pub fn new(sizes: Sizes, law: InputLaw, scales: &[Scale], precision: Precision) -> Self {
        Self::with_parts(sizes, law, scales, precision, law, ScaledDotProduct { precision })
    }
}

impl<D: Draw, L: Logits> VarianceExperiment<D, L> {
    /// The same claims for another source of draws or another attention.
    pub fn with_parts(
        sizes: Sizes,
        law: InputLaw,
        scales: &[Scale],
        precision: Precision,
        source: D,
        logits: L,
    ) -> Self {
        let theory = LogitTheory::new(sizes, law, precision);
        Self { sizes, scales: scales.to_vec(), precision, source, logits, theory }
    }

    /// Measures one draw in element type T.
    fn trial_in<T: Element + Drawable>(
        &self,
        stream: &TrialStream,
        inside: Inside,
        buffers: &mut Buffers<T>,
    ) -> Vec<f64> {
        let Sizes { d_k, queries: n, keys: m } = self.sizes;
        let law = self.theory.law();
        buffers.queries.resize(n * d_k, T::ZERO);
        buffers.keys.resize(m * d_k, T::ZERO);
        self.source.draw(stream, self.sizes, inside, &mut buffers.queries, &mut buffers.keys);
        self.precision.round_matrix(&mut buffers.queries);
        self.precision.round_matrix(&mut buffers.keys);
        let mut values = EntrySums::new(&buffers.queries, &buffers.keys, law.mean, inside).measures(law.mean).to_vec();

        let packed = buffers.packed.get_or_insert_with(|| PackedKeys::empty(InstructionSet::detect()));
        packed.repack(&buffers.keys, m, d_k);
        let factors: Vec<f64> = self.scales.iter().map(|scale| scale.factor(d_k)).collect();
        let center = self.theory.raw_mean();
        let sums = self.logits.power_sums(&buffers.queries, packed, center, &factors, inside == Inside::Parallel);
        for (sums, &factor) in sums.iter().zip(&factors) {
            values.extend(self.logit_measures(sums, factor));
            if law.correlation != 0.0 {
                values.extend(mean_and_variance(&self.logits.diagonal(&buffers.queries, &buffers.keys, d_k, factor)));
            }
        }
        values
    }

    /// The measures of one scale from its power sums about the expected mean.
    fn logit_measures(&self, sums: &PowerSums, factor: f64) -> [f64; 5] {
        let count = sums.count as f64;
        let [first, second, _, fourth] = sums.sums;
        let (second_moment, fourth_moment) = (second / count, fourth / count);
        [
            self.theory.raw_mean() * factor + first / count,
            // About the expected mean nothing cancels unless the logits are wrong by many standard deviations.
            (second - first * first / count) / (count - 1.0),
            second_moment,
            fourth_moment,
            self.theory.linear_kurtosis(second_moment / factor.powi(2), fourth_moment / factor.powi(4)),
        ]
    }
}

/// Buffers of one running trial.
#[derive(Default)]
pub struct Workspace {
    single: Buffers<f32>,
    double: Buffers<f64>,
}

/// Q, K and the packed K in one element type.
struct Buffers<T> {
    queries: Vec<T>,
    keys: Vec<T>,
    packed: Option<PackedKeys<T>>,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self { queries: Vec::new(), keys: Vec::new(), packed: None }
    }
}

impl<D: Draw, L: Logits> Experiment for VarianceExperiment<D, L> {
    type Workspace = Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn measures(&self) -> Vec<String> {
        let diagonal = if self.theory.law().correlation != 0.0 { &DIAGONAL_MEASURES[..] } else { &[] };
        let of_scale = |scale: &Scale| {
            let scale = *scale;
            LOGIT_MEASURES.iter().chain(diagonal).map(move |measure| format!("{measure}:{scale}"))
        };
        ENTRY_MEASURES.iter().map(ToString::to_string).chain(self.scales.iter().flat_map(of_scale)).collect()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut Workspace) -> Vec<f64> {
        match self.precision {
            Precision::F64 => self.trial_in(stream, inside, &mut workspace.double),
            Precision::F32 | Precision::Bf16 | Precision::F16 => self.trial_in(stream, inside, &mut workspace.single),
        }
    }

    fn claims(&self) -> Vec<Claim> {
        let per_scale = self.measures().len().saturating_sub(ENTRY_MEASURES.len()) / self.scales.len();
        let of_scale = |(index, scale): (usize, &Scale)| {
            self.theory.logit_claims(*scale, ENTRY_MEASURES.len() + index * per_scale, Moments::Four)
        };
        self.scales.iter().enumerate().flat_map(of_scale).chain(self.theory.entry_claims()).collect()
    }

    fn operations(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let (d, n, m) = (d_k as f64, queries as f64, keys as f64);
        // Multiply-adds of QKᵀ, about eight operations a logit for its powers, about 30 a drawn entry.
        n * m * (2.0 * d + 8.0) + 30.0 * (n + m) * d
    }

    fn bytes(&self) -> f64 {
        let Sizes { d_k, queries, keys } = self.sizes;
        let element = if self.precision == Precision::F64 { 8.0 } else { 4.0 };
        (queries as f64 + 2.0 * keys as f64) * d_k as f64 * element
    }
}

/// Mean and sample variance (divisor N − 1; not a number for N = 1) of a short series.
fn mean_and_variance(values: &[f64]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    [mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)]
}
