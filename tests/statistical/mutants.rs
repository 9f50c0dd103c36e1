//! Every mutant that touches logits or entries is rejected; the correct program, put through the same assertions, is
//! not. Default rates (false alarm 1e-6 over the run, miss 1e-3 a row), trials planned for the size. Each assertion
//! that a correct run upholds fails with probability 1e-6; each fault here is many times what the plan detects, so
//! a miss has probability far below 1e-3.

use attn::attention::{Logits, Precision, Scale, ScaledDotProduct};
use attn::experiment::calibration::outcome_of;
use attn::experiment::judge::rows;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{Draw, ErrorRates, InputLaw, Sizes, plan};
use attn::report::{Row, Verdict};
use attn::sampling::Entries;

use crate::faults::{BiasedNormal, BiasedVariance, ClippedNormal, TiedKeys, WrongFactor};

const SCALES: [Scale; 2] = [Scale::None, Scale::InverseSqrtWidth];
const RATES: ErrorRates = ErrorRates { false_alarm: 1e-6, miss: 1e-3, detect: 0.05 };
const CORRECT: ScaledDotProduct = ScaledDotProduct { precision: Precision::F64 };
const STANDARD: InputLaw = InputLaw { entries: Entries::Normal, mean: 0.0, sd: 1.0, correlation: 0.0 };

/// Plans and runs the claims of `sizes` on a source of draws and an attention, either of which may be faulty.
fn verdicts<D: Draw, L: Logits>(sizes: Sizes, rates: ErrorRates, source: D, logits: L) -> Vec<Row> {
    let experiment = VarianceExperiment::with_parts(sizes, STANDARD, &SCALES, Precision::F64, source, logits);
    let trials = plan::plan(std::slice::from_ref(&experiment), |_| Vec::new(), &rates, 0).expect("a plan")[0];
    let outcome = outcome_of(&experiment, trials, 0);
    rows(&[outcome], &[], &rates, |row| row)
}

/// Asserts that exactly the named rows are rejected (`statistic` or `statistic:scale`) and the others upheld.
fn assert_rejected(rows: &[Row], expected: &[&str]) {
    for row in rows {
        let scaled = format!("{}:{}", row.statistic, row.scale.as_deref().unwrap_or(""));
        let fault = expected.contains(&row.statistic.as_str()) || expected.contains(&scaled.as_str());
        let verdict = if fault { Verdict::Rejected } else { Verdict::Upheld };
        assert_eq!(
            row.verdict, verdict,
            "{scaled}: estimate {:?}, theory {:?}, p {:?}",
            row.estimate, row.theory, row.p_value
        );
    }
}

const SIZES: Sizes = Sizes { d_k: 16, queries: 61, keys: 47 };

#[test]
fn the_correct_program_is_upheld_in_every_row() {
    assert_rejected(&verdicts(SIZES, RATES, STANDARD, CORRECT), &[]);
}

#[test]
fn no_scale_at_all_is_rejected_where_a_scale_was_claimed() {
    let rows = verdicts(SIZES, RATES, STANDARD, WrongFactor(|_, _| 1.0));
    assert_rejected(&rows, &["logit_variance:inv-sqrt-dk"]);
}

#[test]
fn one_over_d_for_one_over_root_d_is_rejected() {
    let rows =
        verdicts(SIZES, RATES, STANDARD, WrongFactor(|factor, _| if factor == 1.0 { 1.0 } else { factor * factor }));
    assert_rejected(&rows, &["logit_variance:inv-sqrt-dk"]);
}

#[test]
fn a_product_with_root_d_for_a_division_by_it_is_rejected() {
    let rows = verdicts(SIZES, RATES, STANDARD, WrongFactor(|factor, d| if factor == 1.0 { 1.0 } else { d.sqrt() }));
    // Logits that are 16 times too large carry their mean with them: it may be rejected as well.
    for row in rows.iter().filter(|row| row.statistic == "logit_variance") {
        let wrong = row.scale.as_deref() == Some("inv-sqrt-dk");
        assert_eq!(row.verdict, if wrong { Verdict::Rejected } else { Verdict::Upheld }, "{:?}", row.scale);
    }
}

#[test]
fn a_scale_that_is_off_by_three_percent_is_rejected() {
    // A factor 1.03 is a variance 1.061: just above the 5 % that the plan must see.
    let rows =
        verdicts(SIZES, RATES, STANDARD, WrongFactor(|factor, _| if factor == 1.0 { 1.0 } else { 1.03 * factor }));
    assert_rejected(&rows, &["logit_variance:inv-sqrt-dk"]);
}

#[test]
fn a_variance_with_divisor_n_is_rejected_where_the_matrix_is_small() {
    // 3 × 5 logits: the divisor 15 for 14 lowers the variance by 6.7 %.
    let sizes = Sizes { d_k: 7, queries: 3, keys: 5 };
    // The fault is planted in the second power sum, from which the kurtosis is made as well.
    assert_rejected(&verdicts(sizes, RATES, STANDARD, BiasedVariance), &["logit_variance", "logit_kurtosis"]);
    assert_rejected(&verdicts(sizes, RATES, STANDARD, CORRECT), &[]);
}

#[test]
fn a_normal_with_a_shifted_mean_is_rejected() {
    // The mean moves by 0.2, the mean logit by 16·0.04 of √16: 0.16 units, and the variance of a logit by 8 %.
    let rows = verdicts(SIZES, RATES, BiasedNormal { mean: 0.2, sd: 1.0 }, CORRECT);
    for statistic in ["q_mean", "k_mean", "logit_mean"] {
        for row in rows.iter().filter(|row| row.statistic == statistic) {
            assert_eq!(row.verdict, Verdict::Rejected, "{statistic}");
        }
    }
}

#[test]
fn a_normal_that_is_six_percent_too_wide_is_rejected() {
    let rows = verdicts(SIZES, RATES, BiasedNormal { mean: 0.0, sd: 1.06 }, CORRECT);
    assert_rejected(&rows, &["q_variance", "k_variance", "logit_variance"]);
}

#[test]
fn a_clipped_normal_is_rejected() {
    let rates = ErrorRates { detect: 0.02, ..RATES };
    let rows = verdicts(SIZES, rates, ClippedNormal, CORRECT);
    // Variance 0.9205, its square 0.847 for the logits.
    for statistic in ["q_variance", "k_variance", "logit_variance"] {
        for row in rows.iter().filter(|row| row.statistic == statistic) {
            assert_eq!(row.verdict, Verdict::Rejected, "{statistic}");
        }
    }
}

#[test]
fn tied_keys_are_rejected_by_the_correlation() {
    let sizes = Sizes { d_k: 16, queries: 47, keys: 47 };
    let rows = verdicts(sizes, RATES, TiedKeys, CORRECT);
    let correlation = rows.iter().find(|row| row.statistic == "qk_correlation").expect("the row");
    assert_eq!((correlation.verdict, correlation.estimate.map(|r| (r * 1e9).round())), (Verdict::Rejected, Some(1e9)));
}
