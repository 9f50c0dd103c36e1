//! Do the claims of `attn depth` keep their rates, and do they see a forgotten residual or a wrong norm?
//!
//! Budget: 4 cells of at most 12 rows at 2 levels and a whole run, each comparison with `ERROR`: 1.2e-4 of the suite's 1e-3.

use attn::attention::Scale;
use attn::attention::transformer_block::{
    BlockPass, Norm, Residual, StandardTransformer, Transformer, TransformerBlock,
};
use attn::experiment::calibration::{calibrate, outcome_of};
use attn::experiment::depth::{DepthExperiment, DepthSetting, MlpPart, NormPlace};
use attn::experiment::{ErrorRates, Sizes, judge};
use attn::report::Verdict;
use attn::sampling::Entries;
use attn::statistics::binomial::acceptance_region;
use attn::theory::multi_head::{Bias, KeyWeights, Layer};
use nalgebra::DMatrix;

const LEVELS: [f64; 2] = [0.05, 0.01];
const ERROR: f64 = 1e-6;
const DISTORTION: f64 = 0.1;

fn setting(norm: NormPlace, residual: Residual, mlp: MlpPart) -> DepthSetting {
    sized(norm, residual, mlp, (23, 5, 13))
}

fn sized(
    norm: NormPlace,
    residual: Residual,
    mlp: MlpPart,
    (d_model, d_k, tokens): (usize, usize, usize),
) -> DepthSetting {
    let (keys, bias) = (KeyWeights::Separate, Bias::Absent);
    let layer = Layer { d_model, heads: 2, key_heads: 2, d_k, d_v: d_k, keys, bias };
    let sizes = Sizes { d_k, queries: tokens, keys: tokens };
    let (entries, scale) = (Entries::Normal, Scale::InverseSqrtWidth);
    DepthSetting { layers: 3, layer, sizes, norm, residual, mlp, entries, scale }
}

#[test]
fn claims_of_every_kind_of_stack_keep_their_rates() {
    let (trials, seeds) = (500, if cfg!(debug_assertions) { 13 } else { 307 });
    for (setting, least) in [
        (setting(NormPlace::Post, Residual::Added, MlpPart::Width(13)), 10),
        (setting(NormPlace::Pre, Residual::Added, MlpPart::Width(13)), 7),
        (setting(NormPlace::None, Residual::LeftOut, MlpPart::LeftOut), 4),
        (
            DepthSetting {
                entries: Entries::Uniform,
                ..setting(NormPlace::Post, Residual::LeftOut, MlpPart::Width(13))
            },
            11,
        ),
    ] {
        let (rows, runs) = calibrate(&DepthExperiment::new(setting), trials, seeds, &LEVELS);
        let mut judged = 0;
        for row in rows.iter().filter(|row| row.judged > 0) {
            println!("{:<24} {:<5} judged {:>5} rejected {:>4}", row.statistic, row.level, row.judged, row.rejected);
            judged += 1;
            // Over all seeds: which runs are judged depends on their sample skewness, and an undecided one accuses nobody.
            let (_, most) = acceptance_region(seeds, row.level * (1.0 + DISTORTION), ERROR);
            assert!(row.rejected <= most, "{setting:?}: {} {} of {seeds}", row.statistic, row.rejected);
        }
        for run in runs {
            let (_, most) = acceptance_region(run.seeds, run.false_alarm * (1.0 + DISTORTION), ERROR);
            assert!(run.rejected <= most, "{setting:?}: whole run {} of {}", run.rejected, run.seeds);
        }
        assert!(judged >= 2 * least, "{setting:?}: {judged} judged");
    }
}

/// A way to build a block wrongly.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// f(X) in place of f(X) + X.
    ForgottenResidual,
    /// A residual where there is none.
    AddedResidual,
    /// The norm divides by d − 1.
    SampleVariance,
    /// The norm does not take the mean away.
    NotCentred,
    /// The norm is not run.
    NoNorm,
    /// Projections of variance 1.
    NoInitialScale,
}

impl Transformer for Fault {
    fn apply(
        &self,
        block: &TransformerBlock,
        tokens: &DMatrix<f64>,
        change: &DMatrix<f64>,
    ) -> (BlockPass, DMatrix<f64>) {
        let mut block = block.clone();
        match self {
            Self::ForgottenResidual => block.residual = Residual::LeftOut,
            Self::AddedResidual => block.residual = Residual::Added,
            Self::NoNorm => block.norm = Norm::None,
            Self::NoInitialScale => {
                let width = tokens.ncols() as f64;
                block.attention.queries.iter_mut().for_each(|matrix| *matrix *= width.sqrt());
            }
            _ => {}
        }
        let (mut pass, change) = StandardTransformer.apply(&block, tokens, change);
        let width = tokens.ncols() as f64;
        match self {
            Self::SampleVariance => pass.output *= ((width - 1.0) / width).sqrt(),
            Self::NotCentred => pass.output.add_scalar_mut(1e-6),
            _ => {}
        }
        (pass, change)
    }
}

fn rejected(fault: Fault, setting: DepthSetting) -> Vec<String> {
    let rates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.5 };
    let outcome = outcome_of(&DepthExperiment::with_parts(setting, fault), 5000, 3);
    let rows = judge::rows(&[outcome], &[], &rates, |row| row);
    rows.into_iter().filter(|row| row.verdict == Verdict::Rejected).map(|row| row.statistic).collect()
}

#[test]
fn every_fault_is_rejected_by_the_row_that_names_it() {
    // Large enough that a trial's variance of logits is not too skewed to be judged at 1e-6.
    let large = (31, 7, 13);
    let post = sized(NormPlace::Post, Residual::Added, MlpPart::Width(17), large);
    let pre = sized(NormPlace::Pre, Residual::Added, MlpPart::Width(17), large);
    let pure = sized(NormPlace::None, Residual::LeftOut, MlpPart::LeftOut, large);
    for right in [post, pre, pure] {
        assert_eq!(rejected(Fault::None, right), [""; 0]);
    }
    for (fault, setting, statistic) in [
        (Fault::ForgottenResidual, pre, "carried_over:layer1"),
        (Fault::AddedResidual, pure, "carried_over:layer1"),
        (Fault::SampleVariance, post, "token_variance:layer3"),
        (Fault::NotCentred, post, "token_mean:layer1"),
        (Fault::NoNorm, post, "token_variance:layer1"),
        (Fault::NoInitialScale, post, "logit_variance:layer1"),
    ] {
        let found = rejected(fault, setting);
        assert!(found.iter().any(|name| name == statistic), "{fault:?}: {found:?}");
    }
}
