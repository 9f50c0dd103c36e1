//! What theory says of one trial of multi-head attention, and how each statistic is tested.
//!
//! Expectations are exact ([`crate::theory::multi_head`]). Tokens and weights are drawn anew in each trial: all logits of a
//! trial share them, so its scatter has no short closed form and the trials' values are tested by Student's t. What holds in
//! every trial but for rounding has a bound in its place, with u = 2⁻⁵³ and γ_k = ku/(1 − ku) (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, 2002, section 3.1).

use std::borrow::Cow;

use super::super::trial_test::TrialTest;
use super::super::{Claim, Estimator, Expected, Null};
use super::{KeySource, MultiHeadSetting};
use crate::attention::Scale;
use crate::report::TheoryKind;
use crate::statistics::NullModel;
use crate::theory::entry_moments::standardised_moment;
use crate::theory::multi_head::{Bias, KeyWeights, LogitMoments};

/// γ_k = ku/(1 − ku), the relative error of k successive roundings.
pub(in crate::experiment) fn gamma(roundings: usize) -> f64 {
    let error = roundings as f64 * 0.5 * f64::EPSILON;
    error / (1.0 - error)
}

/// The claims in the order of the columns ([`MultiHeadSetting::measures`]).
pub(super) fn claims(setting: &MultiHeadSetting) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut column = 0;
    let mut push = |statistic: String, scale: Option<Scale>, judged: Judged| {
        claims.push(judged.claim(statistic, scale, column));
        column += 1;
    };
    let layer = &setting.layer;
    let fixed = |value: usize| Judged::Fixed { value: value as f64, rounding: 0.0 };
    push("weight_matrices".into(), None, fixed(layer.matrices()));
    push("parameters".into(), None, fixed(layer.parameters()));
    // Two sums of d_model + 1 products and the bias, then one of d_k products, in either of the two ways.
    let rounding = 2.0 * gamma(2 * (layer.d_model + 2) + layer.d_k + 1);
    push("length_difference".into(), None, Judged::Within { rounding });
    if layer.bias == Bias::Drawn {
        push("bias_difference".into(), None, Judged::Within { rounding });
    }
    let moments = layer.logit_moments(setting.entries);
    let trials = |value: fn(&LogitMoments) -> f64, unit: f64| Judged::Trials {
        expected: moments.as_ref().map(value),
        unit,
        unjudged: None,
    };
    match (setting.source, layer.keys) {
        (KeySource::SameTokens, KeyWeights::Tied) => {
            push("symmetry_error".into(), None, Judged::Within { rounding });
        }
        (KeySource::SameTokens, KeyWeights::Separate) => {
            push("transpose_correlation".into(), None, trials(|moments| moments.transpose_correlation, 1.0));
        }
        (KeySource::OtherTokens, _) => {}
    }
    if layer.heads > 1 {
        push("head_correlation".into(), None, trials(|moments| moments.head_correlation, 1.0));
    }
    for &scale in &setting.scales {
        let factor = scale.factor(layer.d_k);
        let deviation = moments.map_or(1.0, |moments| moments.variance.sqrt()) * factor.abs();
        let location = |value: Option<f64>| {
            let value = value.map(|value| value * factor);
            // Relative to the larger of theory and the scatter of a logit.
            let unit = if value.is_some_and(|value| value.abs() > deviation) { 0.0 } else { deviation };
            Judged::Trials { expected: value, unit, unjudged: None }
        };
        for head in 1..=layer.heads {
            push(format!("logit_mean:head{head}"), Some(scale), location(moments.map(|moments| moments.mean)));
            let variance = moments.map(|moments| scale.of_variance(moments.variance, layer.d_k));
            let heavy = standardised_moment(setting.entries, 8).is_none();
            let unjudged = heavy.then(|| format!("{} entries have no moment 8", setting.entries));
            push(
                format!("logit_variance:head{head}"),
                Some(scale),
                Judged::Trials { expected: variance, unit: 0.0, unjudged },
            );
        }
        if setting.source == KeySource::SameTokens {
            push("diagonal_mean".into(), Some(scale), location(moments.map(|moments| moments.diagonal_mean)));
        }
        // Weights that are divided by their computed sum, m − 1 additions and a division, and added up again.
        push("row_sum_error".into(), Some(scale), Judged::Within { rounding: gamma(2 * setting.sizes.keys) });
        push("output_gain".into(), Some(scale), Judged::Trials { expected: Some(1.0), unit: 0.0, unjudged: None });
        push("output_variance".into(), Some(scale), Judged::Measured);
    }
    claims
}

/// How a statistic is held against theory.
pub(in crate::experiment) enum Judged {
    /// The same in every trial.
    Fixed { value: f64, rounding: f64 },
    /// Zero but for rounding; the largest over the trials.
    Within { rounding: f64 },
    /// Mean over trials; a `unit` of 0 is the size of the expected value.
    Trials { expected: Option<f64>, unit: f64, unjudged: Option<String> },
    /// No theory.
    Measured,
}

impl Judged {
    pub(in crate::experiment) fn claim(self, statistic: String, scale: Option<Scale>, column: usize) -> Claim {
        let exact = |value| Some(Expected { value, kind: TheoryKind::Exact });
        let mean = Estimator::Mean { column };
        let (estimator, expected, null) = match self {
            Self::Fixed { value, rounding } => {
                (mean, exact(value), Null::Exact { model: NullModel::fixed(value), rounding })
            }
            Self::Within { rounding } => {
                let null = Null::Exact { model: NullModel::fixed(0.0), rounding };
                (Estimator::Largest { column }, exact(0.0), null)
            }
            Self::Trials { expected: Some(value), unit, unjudged } => {
                let null = match unjudged {
                    Some(why) => Null::Unjudged(why),
                    None => Null::Trials(TrialTest::student(unit)),
                };
                (mean, exact(value), null)
            }
            Self::Trials { expected: None, .. } | Self::Measured => (mean, None, Null::Measured),
        };
        // Raw and scaled logits are one statistic up to a known factor.
        let family = Cow::Owned(statistic.clone());
        Claim { index: None, statistic, scale, family, estimator, expected, null }
    }
}
