//! Do the rows of `attn multi-head` keep the rates that were asked for, over draws of tokens AND weights, and do they see faults?
//!
//! Budget: 6 cells of at most 12 rows at 2 levels and a whole run, each comparison with `ERROR`: 2e-4 of the suite's 1e-3.

use attn::attention::Scale;
use attn::attention::multi_head::{Heads, KeyProjections, MultiHead, MultiHeadWeights, StandardMultiHead};
use attn::attention::reference::Attention;
use attn::experiment::calibration::{calibrate, outcome_of};
use attn::experiment::judge;
use attn::experiment::multi_head::{DrawLayer, KeySource, LayerDraw, Memory, MultiHeadExperiment, MultiHeadSetting};
use attn::experiment::{ErrorRates, Sizes};
use attn::report::Verdict;
use attn::sampling::{Entries, TrialStream};
use attn::statistics::binomial::acceptance_region;
use attn::theory::multi_head::{Bias, KeyWeights, Layer};
use nalgebra::DMatrix;

const LEVELS: [f64; 2] = [0.05, 0.01];
/// Chance that a correct rate fails one of the comparisons here.
const ERROR: f64 = 1e-6;
/// What the test over trials may add to a rate (its `DISTORTION_LIMIT`).
const DISTORTION: f64 = 0.1;

fn setting(layer: Layer, source: KeySource, entries: Entries) -> MultiHeadSetting {
    let keys = if source == KeySource::OtherTokens { 17 } else { 13 };
    let sizes = Sizes { d_k: layer.d_k, queries: 13, keys };
    MultiHeadSetting { layer, sizes, source, entries, scales: vec![Scale::InverseSqrtWidth] }
}

const LAYER: Layer =
    Layer { d_model: 23, heads: 2, key_heads: 2, d_k: 5, d_v: 5, keys: KeyWeights::Separate, bias: Bias::Absent };

fn rates_hold(setting: MultiHeadSetting) {
    let (trials, seeds) = (500, if cfg!(debug_assertions) { 40 } else { 503 });
    let experiment = MultiHeadExperiment::new(setting.clone());
    let (rows, runs) = calibrate(&experiment, trials, seeds, &LEVELS);
    let mut judged = 0;
    for row in &rows {
        println!("{:<24} {:<5} judged {:>5} rejected {:>4}", row.statistic, row.level, row.judged, row.rejected);
        if row.judged > 0 {
            judged += 1;
            // Over all seeds: which runs are judged depends on their sample skewness, and an undecided one accuses nobody.
            let (_, most) = acceptance_region(seeds, row.level * (1.0 + DISTORTION), ERROR);
            assert!(row.rejected <= most, "{setting:?}: {} {} of {seeds}", row.statistic, row.rejected);
        }
    }
    for run in runs {
        let (_, most) = acceptance_region(run.seeds, run.false_alarm * (1.0 + DISTORTION), ERROR);
        assert!(run.rejected <= most, "{setting:?}: whole run {} of {}", run.rejected, run.seeds);
    }
    assert!(judged >= 2 * 8, "{judged} rows were judged");
}

#[test]
fn heads_of_their_own_keep_the_rate() {
    rates_hold(setting(LAYER, KeySource::SameTokens, Entries::Normal));
    rates_hold(setting(LAYER, KeySource::SameTokens, Entries::Rademacher));
}

#[test]
fn grouped_heads_of_heavy_tails_with_wider_values_keep_the_rate() {
    let layer = Layer { heads: 4, key_heads: 2, d_v: 7, ..LAYER };
    rates_hold(setting(layer, KeySource::SameTokens, Entries::Laplace));
}

#[test]
fn tied_heads_with_and_without_bias_keep_the_rate() {
    let tied = Layer { keys: KeyWeights::Tied, ..LAYER };
    rates_hold(setting(tied, KeySource::SameTokens, Entries::Uniform));
    rates_hold(setting(Layer { bias: Bias::Drawn, ..tied }, KeySource::SameTokens, Entries::Normal));
}

#[test]
fn cross_attention_keeps_the_rate() {
    rates_hold(setting(Layer { bias: Bias::Drawn, ..LAYER }, KeySource::OtherTokens, Entries::Normal));
}

/// A way to draw or to compute a layer wrongly.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Projections of variance 1: the initialisation's 1/√d_model is missing.
    NoInitialScale,
    /// W_o of variance 1/d_model where its input has h·d_v columns.
    OutputOfWrongWidth,
    /// W_k is W_q.
    TiedUnsaid,
    /// The second head has the matrices of the first.
    CopiedHead,
    /// Q of all heads, n×h·d_k, read as h×n×d_k without the transpose.
    SplitWithoutTranspose,
    /// Weights sum to 1 over the queries of each key.
    WrongAxis,
    /// The bias of the keys is left out.
    NoKeyBias,
    /// Q_i Q_iᵀ in place of Q_i K_iᵀ.
    QueriesForKeys,
}

impl DrawLayer for Fault {
    fn draw(
        &self,
        stream: &TrialStream,
        layer: &Layer,
        sizes: Sizes,
        source: KeySource,
        memory: &mut Memory,
    ) -> LayerDraw {
        let mut drawn = Entries::Normal.draw(stream, layer, sizes, source, memory);
        let weights = &mut drawn.weights;
        let width = layer.d_model as f64;
        match self {
            Self::NoInitialScale => weights.queries.iter_mut().for_each(|matrix| *matrix *= width.sqrt()),
            Self::OutputOfWrongWidth => weights.output *= ((layer.heads * layer.d_v) as f64 / width).sqrt(),
            Self::TiedUnsaid => weights.keys = KeyProjections::Separate(weights.queries.clone()),
            Self::CopiedHead => {
                weights.queries[1] = weights.queries[0].clone();
                let mut keys = weights.key_matrices().to_vec();
                keys[1] = keys[0].clone();
                weights.keys = KeyProjections::Separate(keys);
            }
            _ => {}
        }
        drawn
    }
}

impl MultiHead for Fault {
    fn project(&self, weights: &MultiHeadWeights, x: &DMatrix<f64>, y: &DMatrix<f64>) -> Heads {
        let mut heads = StandardMultiHead.project(weights, x, y);
        match self {
            Self::SplitWithoutTranspose => {
                let (n, d_k, count) = (x.nrows(), heads.queries[0].ncols(), heads.queries.len());
                let joined: Vec<f64> = (0..n * count * d_k)
                    .map(|at| heads.queries[at / d_k % count][(at / d_k / count, at % d_k)])
                    .collect();
                heads.queries = joined.chunks(n * d_k).map(|part| DMatrix::from_row_slice(n, d_k, part)).collect();
            }
            Self::NoKeyBias => heads.keys = weights.project_change(x, y).keys,
            Self::QueriesForKeys => heads.keys = heads.queries.clone(),
            _ => {}
        }
        heads
    }

    fn attend(&self, heads: &Heads, head: usize, scale: f64) -> Attention {
        let mut attention = StandardMultiHead.attend(heads, head, scale);
        if *self == Self::WrongAxis {
            for mut column in attention.weights.column_iter_mut() {
                let sum = column.sum();
                column /= sum;
            }
        }
        attention
    }
}

/// The statistics that are rejected at the default false-alarm rate with 5000 trials, without the number of the head, at sizes
/// where a trial's variance of logits is not too skewed to be judged at that rate.
fn rejected(fault: Fault, layer: Layer) -> Vec<String> {
    let layer = Layer { d_model: 31, d_k: 7, ..layer };
    let sizes = Sizes { d_k: 7, queries: 13, keys: 13 };
    let setting = MultiHeadSetting { sizes, ..setting(layer, KeySource::SameTokens, Entries::Normal) };
    let experiment = MultiHeadExperiment::with_parts(setting, fault, fault);
    let rates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.5 };
    let rows = judge::rows(&[outcome_of(&experiment, 5000, 5)], &[], &rates, |row| row);
    let names = rows.iter().filter(|row| row.verdict == Verdict::Rejected);
    names.map(|row| row.statistic.split(':').next().unwrap_or_default().to_string()).collect()
}

#[test]
fn every_fault_is_rejected_by_the_row_that_names_it() {
    let with_bias = Layer { bias: Bias::Drawn, ..LAYER };
    assert_eq!(rejected(Fault::None, with_bias), [""; 0]);
    for (fault, layer, statistic) in [
        (Fault::NoInitialScale, LAYER, "logit_variance"),
        (Fault::OutputOfWrongWidth, LAYER, "output_gain"),
        (Fault::TiedUnsaid, LAYER, "transpose_correlation"),
        (Fault::TiedUnsaid, LAYER, "diagonal_mean"),
        (Fault::CopiedHead, LAYER, "head_correlation"),
        (Fault::SplitWithoutTranspose, LAYER, "length_difference"),
        (Fault::WrongAxis, LAYER, "row_sum_error"),
        (Fault::NoKeyBias, with_bias, "bias_difference"),
        (Fault::QueriesForKeys, LAYER, "diagonal_mean"),
    ] {
        let found = rejected(fault, layer);
        assert!(found.iter().any(|name| name == statistic), "{fault:?}: {found:?}");
    }
}
