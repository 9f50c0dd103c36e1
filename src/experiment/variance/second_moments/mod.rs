//! `attn variance --moments 2`: mean and variance of the logits by algebra, in time that grows with n and not with n·m.
//!
//! The statistics are those of [`super::VarianceExperiment`], and so are their claims; the kurtosis is not measured, and no logit is
//! formed ([`crate::attention::second_moments`]). What the source gives of a trial:
//!
//! - [`Streamed`]: Q and K are drawn, the same entries as ever, some tokens at a time, and only their sums are kept;
//! - [`DrawnScatter`]: column means and scatter matrices are drawn from their own law; there are no Q and K.

mod drawn;
mod streamed;

use super::claims::LogitTheory;
use super::{DIAGONAL_MEASURES, ENTRY_MEASURES, Moments};
use crate::attention::second_moments::{Scatter, of_logits};
use crate::attention::{Precision, Scale};
use crate::experiment::{Claim, Experiment, InputLaw, Inside, Sizes};
use crate::sampling::TrialStream;

pub use drawn::DrawnScatter;
pub use streamed::Streamed;

/// What a source tells of the Q and K of one trial.
#[derive(Debug, Clone)]
pub struct TrialMoments {
    /// Column means and scatter of Q.
    pub queries: Scatter,
    /// Those of K.
    pub keys: Scatter,
    /// `q_mean, q_variance, k_mean, k_variance`, then `qk_correlation` where the source has it.
    pub entries: Vec<f64>,
    /// Mean and sample variance of the raw logits of each token with itself, where q and k of a token are correlated.
    pub diagonal: Option<[f64; 2]>,
}

/// Where column means and scatter matrices come from.
pub trait MomentSource: Sync {
    /// Buffers that a trial reuses.
    type Workspace: Default + Send;

    /// Whether [`TrialMoments::entries`] has `qk_correlation`.
    fn has_correlation(&self) -> bool;

    /// The moments of the trial that `stream` names; `diagonal_center` is near the raw logits of each token with itself.
    fn moments(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        law: InputLaw,
        diagonal_center: f64,
        inside: Inside,
        workspace: &mut Self::Workspace,
    ) -> TrialMoments;

    /// Floating-point operations of one trial, roughly.
    fn operations(&self, sizes: Sizes) -> f64;

    /// Bytes that one running trial holds, roughly.
    fn bytes(&self, sizes: Sizes) -> f64;
}

/// The experiment of `attn variance --moments 2` at one parameter point.
pub struct SecondMomentExperiment<S = Streamed> {
    sizes: Sizes,
    scales: Vec<Scale>,
    source: S,
    theory: LogitTheory,
}

impl<S: MomentSource> SecondMomentExperiment<S> {
    /// The claims of the law on what `source` gives. `precision` is that of the entries and of the sums over a block of them, f64 or f32.
    ///
    /// # Panics
    /// For a half type: its logits are rounded one by one, and here there are none.
    pub fn new(sizes: Sizes, law: InputLaw, scales: &[Scale], precision: Precision, source: S) -> Self {
        assert!(!precision.is_half(), "{precision} rounds logits, and no logit is formed");
        Self { sizes, scales: scales.to_vec(), source, theory: LogitTheory::new(sizes, law, precision) }
    }

    fn entry_measures(&self) -> &'static [&'static str] {
        if self.source.has_correlation() { &ENTRY_MEASURES } else { &ENTRY_MEASURES[..4] }
    }

    fn scale_measures(&self) -> impl Iterator<Item = &'static str> {
        let diagonal = if self.theory.law().correlation != 0.0 { &DIAGONAL_MEASURES[..] } else { &[] };
        Moments::Two.measures().iter().chain(diagonal).copied()
    }
}

impl<S: MomentSource> Experiment for SecondMomentExperiment<S> {
    type Workspace = S::Workspace;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn measures(&self) -> Vec<String> {
        let of_scale =
            |scale: &Scale| self.scale_measures().map(|measure| format!("{measure}:{scale}")).collect::<Vec<_>>();
        let entries = self.entry_measures().iter().map(ToString::to_string);
        entries.chain(self.scales.iter().flat_map(of_scale)).collect()
    }

    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut S::Workspace) -> Vec<f64> {
        let center = self.theory.raw_diagonal_mean();
        let moments = self.source.moments(stream, self.sizes, self.theory.law(), center, inside, workspace);
        let logits = of_logits(&moments.queries, &moments.keys);
        let mut values = moments.entries;
        for scale in &self.scales {
            let factor = scale.factor(self.sizes.d_k);
            values.extend([logits.mean * factor, logits.variance * factor * factor]);
            if let Some([mean, variance]) = moments.diagonal {
                values.extend([mean * factor, variance * factor * factor]);
            }
        }
        values
    }

    fn claims(&self) -> Vec<Claim> {
        let entries = self.entry_measures().len();
        let per_scale = self.scale_measures().count();
        let of_scale = |(index, scale): (usize, &Scale)| {
            self.theory.logit_claims(*scale, entries + index * per_scale, Moments::Two)
        };
        let of_logits = self.scales.iter().enumerate().flat_map(of_scale);
        of_logits.chain(self.theory.entry_claims().into_iter().take(entries)).collect()
    }

    fn operations(&self) -> f64 {
        self.source.operations(self.sizes)
    }

    fn bytes(&self) -> f64 {
        self.source.bytes(self.sizes)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
