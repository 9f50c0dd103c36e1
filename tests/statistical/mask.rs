//! Do the rows of `attn mask` keep the rates that were asked for, and does each fault of a mask show in the row that is
//! meant for it?

use attn::attention::masked::{Apply, Fill, GradientPoint, HiddenValues, MaskedAttention, MaskedRow, MaskedSoftmax};
use attn::attention::{Mask, MaskRule, Precision, Scale};
use attn::experiment::calibration::calibrate;
use attn::experiment::mask::{Detail, MaskClaim, MaskExperiment, VisibleBias};
use attn::experiment::{InputLaw, Sizes};
use attn::number::Real;
use attn::sampling::Entries;
use attn::statistics::binomial::acceptance_region;

/// Chance that a correct rate fails one of the comparisons here.
const ERROR: f64 = 1e-6;
/// What the tests over trials may add to a rate: their documented distortion.
const DISTORTION: f64 = 0.1;

fn mask(rule: &str, sizes: Sizes) -> Mask {
    rule.parse::<MaskRule>().and_then(|rule| rule.at(sizes.queries, sizes.keys)).expect("a mask that fits")
}

fn claim(rule: &str, sizes: Sizes, detail: Detail) -> MaskClaim {
    MaskClaim { mask: mask(rule, sizes), name: rule.to_string(), detail, bias: VisibleBias::None }
}

fn correct(rule: &str, sizes: Sizes, precision: Precision) -> MaskedSoftmax {
    MaskedSoftmax {
        mask: mask(rule, sizes),
        bias: None,
        fill: Fill::Infinite,
        apply: Apply::Before,
        hidden_values: HiddenValues::Select,
        precision,
    }
}

/// Runs a correct masked attention over many seeds; no rate may exceed what was asked for.
fn rates_hold(rule: &str, sizes: Sizes, law: InputLaw, scale: Scale, detail: Detail, precision: Precision) {
    let seeds = if cfg!(debug_assertions) { 20 } else { 251 };
    let (levels, trials) = ([0.05, 0.01], 300);
    let attention = correct(rule, sizes, precision);
    let experiment = MaskExperiment::new(sizes, law, &[scale], claim(rule, sizes, detail), attention);
    let (rows, runs) = calibrate(&experiment, trials, seeds, &levels);
    for row in &rows {
        println!("{rule} {scale} {} {}: {} of {}", row.statistic, row.level, row.rejected, row.judged);
        if row.judged > 0 {
            let (_, most) = acceptance_region(row.judged, row.level * (1.0 + DISTORTION), ERROR);
            assert!(row.rejected <= most, "{rule} {}: {} of {}", row.statistic, row.rejected, row.judged);
        }
    }
    // The averages, which everyone sees, are judged at these sizes.
    for statistic in ["logit_mean", "logit_variance", "entropy", "participation"] {
        assert!(rows.iter().any(|row| row.statistic == statistic && 2 * row.judged > seeds), "{rule}: {statistic}");
    }
    for run in runs {
        let (_, most) = acceptance_region(run.seeds, run.false_alarm * (1.0 + DISTORTION), ERROR);
        assert!(run.rejected <= most, "{rule}, whole run: {} of {}", run.rejected, run.seeds);
    }
}

const NORMAL: InputLaw = InputLaw { entries: Entries::Normal, mean: 0.0, sd: 1.0, correlation: 0.0 };

#[test]
fn averaged_rows_keep_their_rates_under_every_kind_of_mask() {
    // Budget: some 11 rows and a run at two rates each, 1e-6 a comparison.
    let square = Sizes { d_k: 16, queries: 37, keys: 37 };
    let wide = Sizes { d_k: 5, queries: 23, keys: 41 };
    let scaled = Scale::InverseSqrtWidth;
    for rule in ["causal", "window:7", "prefix:11", "padding:19", "documents:13,24", "causal+documents:13,24"] {
        rates_hold(rule, square, NORMAL, scaled, Detail::Averaged, Precision::F64);
    }
    for rule in ["causal@bottom-right", "window:5@bottom-right"] {
        rates_hold(rule, wide, NORMAL, scaled, Detail::Averaged, Precision::F32);
    }
}

#[test]
fn rows_one_by_one_and_other_arithmetics_keep_their_rates() {
    let sizes = Sizes { d_k: 16, queries: 17, keys: 17 };
    rates_hold("causal", sizes, NORMAL, Scale::InverseSqrtWidth, Detail::ByRow, Precision::F64);
    rates_hold("causal", sizes, NORMAL, Scale::InverseSqrtWidth, Detail::Averaged, Precision::F16);
    rates_hold("causal", sizes, NORMAL, Scale::InverseSqrtWidth, Detail::Averaged, Precision::Bf16);
}

#[test]
fn entries_that_leave_the_assumptions_keep_the_rates_of_the_logits() {
    let sizes = Sizes { d_k: 8, queries: 29, keys: 29 };
    for law in [
        InputLaw { mean: 0.5, sd: 2.0, ..NORMAL },
        InputLaw { correlation: 0.6, ..NORMAL },
        InputLaw { correlation: -0.3, mean: 0.25, sd: 0.5, ..NORMAL },
    ] {
        let experiment = MaskExperiment::new(
            sizes,
            law,
            &[Scale::InverseSqrtWidth],
            claim("causal", sizes, Detail::Averaged),
            correct("causal", sizes, Precision::F64),
        );
        let seeds = if cfg!(debug_assertions) { 20 } else { 251 };
        let (rows, _) = calibrate(&experiment, 300, seeds, &[0.01]);
        for row in rows.iter().filter(|row| row.statistic.starts_with("logit")) {
            let (_, most) = acceptance_region(row.judged, 0.01 * (1.0 + DISTORTION), ERROR);
            assert!(2 * row.judged > seeds && row.rejected <= most, "{law:?} {}: {}", row.statistic, row.rejected);
        }
    }
}

#[test]
fn a_condensed_row_near_freezing_is_judged_by_a_bet_that_keeps_its_rate() {
    // Raw logits at d = 4 and 64 keys: 0.69 of the freezing point.
    let sizes = Sizes { d_k: 4, queries: 16, keys: 64 };
    rates_hold("padding:61", sizes, NORMAL, Scale::None, Detail::Averaged, Precision::F64);
}

/// A way to get a mask wrong that no option of the program makes.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Every query sees one key too many.
    OneTooMany,
    /// The diagonal is hidden, too.
    StrictlyPast,
    /// Rows and columns of the mask are exchanged.
    Transposed,
    /// What should be visible is hidden and the other way round.
    Inverted,
    /// No mask at all.
    Forgotten,
    /// The hidden keys of the last query are seen by it.
    LastRow,
    /// Softmax without normalisation by the sum of the visible weights: that of all of them.
    HalfOfTheSum,
}

struct Faulty(MaskedSoftmax);

impl Faulty {
    fn new(fault: Fault, sizes: Sizes) -> Self {
        let Sizes { queries: n, keys: m, .. } = sizes;
        let cells = |visible: &dyn Fn(usize, usize) -> bool| {
            let cells = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).map(|(i, j)| visible(i, j)).collect();
            Mask::from_cells(n, m, cells)
        };
        let mask = match fault {
            Fault::OneTooMany => cells(&|i, j| j <= i + 1),
            Fault::StrictlyPast => cells(&|i, j| j < i),
            Fault::Transposed => cells(&|i, j| j >= i),
            Fault::Inverted => cells(&|i, j| j > i),
            Fault::Forgotten => cells(&|_, _| true),
            Fault::LastRow => cells(&|i, j| j <= i || i + 1 == n),
            Fault::HalfOfTheSum => cells(&|i, j| j <= i),
        };
        let apply = if matches!(fault, Fault::HalfOfTheSum) { Apply::After } else { Apply::Before };
        let hidden_values = HiddenValues::Select;
        Self(MaskedSoftmax { mask, bias: None, fill: Fill::Infinite, apply, hidden_values, precision: Precision::F64 })
    }
}

impl MaskedAttention for Faulty {
    fn weights<T: Real>(&self, row: MaskedRow<T>, weights: &mut Vec<T>) {
        self.0.weights(row, weights);
    }

    fn output<T: Real>(&self, index: usize, weights: &[T], values: &[T], output: &mut [T]) {
        self.0.output(index, weights, values, output);
    }

    fn gradient<T: Real>(&self, point: GradientPoint<T>, keys: &[usize]) -> f64 {
        self.0.gradient(point, keys)
    }
}

/// The statistics that are rejected on each of three seeds where `causal` is claimed.
fn rejected(fault: Fault) -> Vec<String> {
    let sizes = Sizes { d_k: 16, queries: 31, keys: 37 };
    let experiment = MaskExperiment::with_parts(
        (sizes, NORMAL, Precision::F64),
        &[Scale::InverseSqrtWidth],
        claim("causal", sizes, Detail::Averaged),
        None,
        NORMAL,
        Faulty::new(fault, sizes),
    );
    let seeds = 3;
    let (rows, runs) = calibrate(&experiment, 1500, seeds, &[1e-3]);
    assert_eq!(runs[0].rejected, seeds, "{fault:?}: the run is rejected on every seed");
    rows.into_iter().filter(|row| row.rejected == seeds).map(|row| row.statistic).collect()
}

#[test]
fn every_wrong_mask_is_rejected_by_the_rows_that_are_meant_for_it() {
    let leaks = ["masked_weight_max", "leak", "leak_nonfinite", "gradient_leak", "visible_share"];
    for (fault, expected, innocent) in [
        (Fault::OneTooMany, &leaks[..], &["fully_masked_rows", "row_sum_error", "logit_variance"][..]),
        (
            Fault::StrictlyPast,
            &["visible_share", "fully_masked_rows", "entropy", "participation"],
            &["masked_weight_max", "leak", "logit_mean"],
        ),
        (Fault::Transposed, &leaks, &["row_sum_error", "logit_mean"]),
        (Fault::Inverted, &leaks, &["logit_variance"]),
        (Fault::Forgotten, &leaks, &["fully_masked_rows"]),
        (Fault::LastRow, &["masked_weight_max", "leak", "visible_share"], &["fully_masked_rows"]),
        (
            Fault::HalfOfTheSum,
            &["row_sum_error", "leak", "gradient_leak", "entropy"],
            &["masked_weight_max", "visible_share"],
        ),
    ] {
        let rejected = rejected(fault);
        for statistic in expected {
            assert!(rejected.iter().any(|name| name == statistic), "{fault:?}, {statistic}: {rejected:?}");
        }
        for statistic in innocent {
            assert!(!rejected.iter().any(|name| name == statistic), "{fault:?}, {statistic}: {rejected:?}");
        }
    }
}

#[test]
fn a_wrong_entropy_of_one_row_is_rejected_by_that_row() {
    let sizes = Sizes { d_k: 16, queries: 13, keys: 17 };
    let experiment = MaskExperiment::with_parts(
        (sizes, NORMAL, Precision::F64),
        &[Scale::InverseSqrtWidth],
        claim("causal", sizes, Detail::ByRow),
        None,
        NORMAL,
        Faulty::new(Fault::LastRow, sizes),
    );
    let (rows, _) = calibrate(&experiment, 2000, 2, &[1e-4]);
    let entropies: Vec<u64> = rows.iter().filter(|row| row.statistic == "entropy").map(|row| row.rejected).collect();
    // The average and thirteen rows: the average and the last row show it.
    assert_eq!(entropies.len(), 14);
    assert_eq!((entropies[13], &entropies[1..13]), (2, &[0; 12][..]));
}
