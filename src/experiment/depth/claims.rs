//! What theory says of a stack of blocks at its initialisation, layer by layer.
//!
//! * Input: E of an entry 0, E of a token's variance 1 − 1/d_model, E cosine 0 (all laws are symmetric).
//! * After a post-norm: mean 0 and, with what ε takes added, variance 1 in every trial, to rounding.
//! * First block, post-norm or none: the logits are those of [`crate::theory::multi_head`]. The N = n(n − 1) logits of a head have
//!   Cov(S_ij, S_ji) = d/D and no other covariance, so their sample variance has expectation d(N − 1 − 1/D)/(N − 1). With
//!   pre-norm |x|² = Dσ²/(σ² + ε) up to the norm and E(x·y)² = D²/(D − 1) on its sphere: the same to a share of
//!   2ε·E σ⁻² + 1/(N(D − 1)), stated as an allowance.
//! * `carried_over`: the last matrix of each part is independent of what stands before it, with mean 0. So E is 1 with the
//!   residual (no norm or pre-norm), and 0 without it, whatever the norm (LayerNorm is odd). It is claimed where the input's
//!   length scatters little: in the first block, and in all of a pre-norm stack with residual. Deeper in the others a trial's
//!   value has heavy tails, which no test over trials here keeps its rate with (6.7 % measured for 5 %).
//!
//! All other rows are measured.

use super::super::multi_head::{Judged, gamma};
use super::{DepthSetting, EPSILON, NormPlace};
use crate::attention::transformer_block::Residual;
use crate::experiment::trial_test::TrialTest;
use crate::experiment::{Claim, Expected, Null};
use crate::report::TheoryKind;
use crate::sampling::Entries;
use crate::theory::entry_moments::standardised_moment;

/// The claims in the order of the columns: three of the input, then eight of each layer.
pub(super) fn claims(setting: &DepthSetting) -> Vec<Claim> {
    let width = setting.layer.d_model as f64;
    let trials = |expected: f64, unit: f64| Judged::Trials { expected: Some(expected), unit, unjudged: None };
    let mut claims: Vec<Claim> = Vec::new();
    let mut push = |name: &str, layer: usize, judged: Judged| {
        let column = claims.len();
        claims.push(judged.claim(format!("{name}:layer{layer}"), None, column));
    };
    push("token_mean", 0, trials(0.0, 1.0));
    push("token_variance", 0, trials(1.0 - 1.0 / width, 0.0));
    push("token_cosine", 0, trials(0.0, 1.0));
    for layer in 1..=setting.layers {
        let (mean, variance) = match setting.norm {
            // A token's entries are (x − x̄)/σ, each off by γ_{d+3} of (|x| + |x̄|)/σ, at most √d; so is their sum's error.
            NormPlace::Post => {
                let rounding = 4.0 * width.sqrt() * gamma(setting.layer.d_model + 3);
                (Judged::Fixed { value: 0.0, rounding }, Judged::Fixed { value: 1.0, rounding: 2.0 * rounding })
            }
            NormPlace::Pre | NormPlace::None => (Judged::Measured, Judged::Measured),
        };
        push("token_mean", layer, mean);
        push("token_variance", layer, variance);
        push("token_cosine", layer, Judged::Measured);
        push(
            "carried_over",
            layer,
            match (setting.residual, setting.norm) {
                (Residual::LeftOut, _) if layer == 1 => trials(0.0, 1.0),
                (Residual::Added, NormPlace::Pre) => trials(1.0, 0.0),
                (Residual::Added, NormPlace::None) if layer == 1 => trials(1.0, 0.0),
                _ => Judged::Measured,
            },
        );
        push("logit_variance", layer, Judged::Measured);
        push("entropy", layer, Judged::Measured);
        push("participation", layer, Judged::Measured);
        push("gradient_scale", layer, Judged::Measured);
    }
    for claim in &mut claims {
        let of_logits = ["logit_variance", "entropy", "participation"];
        if of_logits.iter().any(|name| claim.statistic.starts_with(name)) {
            claim.scale = Some(setting.scale);
        }
        if claim.statistic == "logit_variance:layer1" {
            (claim.expected, claim.null) = first_logit_variance(setting);
        }
    }
    claims
}

/// Theory of the logits' variance in the first block.
fn first_logit_variance(setting: &DepthSetting) -> (Option<Expected>, Null) {
    let Some(moments) = setting.layer.logit_moments(setting.entries) else { return (None, Null::Measured) };
    let width = setting.layer.d_model as f64;
    let tokens = setting.sizes.queries as f64;
    let pairs = tokens * (tokens - 1.0);
    let raw = moments.variance * (pairs - 1.0 - 1.0 / width) / (pairs - 1.0);
    let value = setting.scale.of_variance(raw, setting.layer.d_k);
    if standardised_moment(setting.entries, 8).is_none() {
        let expected = Expected { value, kind: TheoryKind::Exact };
        return (Some(expected), Null::Unjudged(format!("{} entries have no moment 8", setting.entries)));
    }
    match setting.norm {
        NormPlace::Post | NormPlace::None => {
            (Some(Expected { value, kind: TheoryKind::Exact }), Null::Trials(TrialTest::student(0.0)))
        }
        // The inverse variance of a token is known to be finite for many normal entries: E σ⁻² = D/(D − 3).
        NormPlace::Pre if setting.entries == Entries::Normal && setting.layer.d_model > 7 => {
            let allowance = value * (2.0 * EPSILON * width / (width - 3.0) + 1.0 / (pairs * (width - 1.0)));
            let test = TrialTest { allowance, ..TrialTest::student(0.0) };
            (Some(Expected { value, kind: TheoryKind::Approximate }), Null::Trials(test))
        }
        NormPlace::Pre => (None, Null::Measured),
    }
}
