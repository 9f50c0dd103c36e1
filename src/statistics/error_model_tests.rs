use super::*;
use crate::statistics::binomial::acceptance_region;
use crate::statistics::test_draws::Draws;
use crate::statistics::uniformity::{at_least_uniform, uniformity};

/// χ²_ν/ν: the sample variance of ν+1 normals of variance 1, exactly.
fn chi_square_model(degrees: f64) -> NullModel {
    NullModel {
        expected: 1.0,
        variance: 2.0 / degrees,
        skewness: (8.0 / degrees).sqrt(),
        excess_kurtosis: 12.0 / degrees,
        kind: ErrorShape::Scale,
        origin: LawOrigin::Exact,
        lattice_step: 0.0,
        unit: 0.0,
    }
}

/// The mean over one trial of products of normals, D = `degrees`, standardised.
fn product_model(degrees: f64) -> NullModel {
    NullModel {
        expected: 0.0,
        variance: 1.0,
        skewness: 0.0,
        excess_kurtosis: 6.0 / degrees,
        kind: ErrorShape::Location,
        origin: LawOrigin::Exact,
        lattice_step: 0.0,
        unit: 1.0,
    }
}

#[test]
fn averaging_over_trials_divides_the_cumulants() {
    let model = NullModel { lattice_step: 0.7, ..chi_square_model(3.0) };
    let average = model.over_trials(7);
    // The mean of 7 χ²_3/3 is χ²_21/21.
    let direct = chi_square_model(21.0);
    for (got, expected) in [
        (average.variance, direct.variance),
        (average.skewness, direct.skewness),
        (average.excess_kurtosis, direct.excess_kurtosis),
        (average.lattice_step, 0.1),
    ] {
        assert!((got / expected - 1.0).abs() < 1e-15);
    }
    assert!(!model.over_trials(0).judgeable(0.05));
}

#[test]
fn the_moments_choose_the_law() {
    assert_eq!(product_model(3.0).law(), Law::ProductNormal { degrees: 3.0 });
    assert_eq!(chi_square_model(2.0).law(), Law::Gamma { skewness: 2.0 });
    assert_eq!(NullModel { excess_kurtosis: -1.2, ..product_model(1.0) }.law(), Law::Normal);
    assert_eq!(NullModel { excess_kurtosis: f64::NAN, ..product_model(1.0) }.law(), Law::Normal);
}

#[test]
fn p_values_of_exact_laws_are_uniform_and_a_wrong_skewness_is_rejected() {
    let mut draws = Draws::new(7);
    let (model, trials) = (chi_square_model(1.0), 3);
    let average = model.over_trials(trials as u64);
    let estimates: Vec<f64> =
        (0..20_011).map(|_| 1.0 + average.standard_error() * draws.standard_chi_square(trials)).collect();
    let p_under = |model: &NullModel| -> Vec<f64> {
        estimates.iter().map(|&estimate| model.p_value(estimate, 0.0, 0.05).expect("judgeable")).collect()
    };
    assert!(uniformity(&p_under(&average)).expect("valid").p_value > 1e-3);
    // Mutants: a symmetric law, a mirrored one, a standard error off by a tenth.
    let mutants = [
        NullModel { skewness: 0.0, excess_kurtosis: 0.0, ..average },
        NullModel { skewness: -average.skewness, ..average },
        NullModel { variance: 1.21 * average.variance, ..average },
    ];
    for mutant in mutants {
        assert!(uniformity(&p_under(&mutant)).expect("valid").p_value < 1e-6, "{mutant:?}");
    }
    let product: Vec<f64> = (0..20_011).map(|_| draws.product_normal(2)).collect();
    let p_of = |model: NullModel| -> Vec<f64> {
        product.iter().map(|&z| model.p_value(z, 0.0, 0.05).expect("judgeable")).collect()
    };
    assert!(uniformity(&p_of(product_model(2.0))).expect("valid").p_value > 1e-3);
    assert!(uniformity(&p_of(product_model(1e9))).expect("valid").p_value < 1e-6);
}

#[test]
fn the_interval_holds_exactly_the_values_that_the_test_accepts() {
    for (model, estimates) in [
        (chi_square_model(5.0), [0.2, 1.0, 3.7]),
        (NullModel { lattice_step: 0.05, ..chi_square_model(31.0) }, [0.4, 1.1, 2.0]),
        (NullModel { skewness: 0.6, lattice_step: 0.1, ..product_model(7.0) }, [-2.0, 0.1, 1.5]),
    ] {
        for (estimate, error) in estimates.into_iter().flat_map(|estimate| [(estimate, 0.05), (estimate, 1e-6)]) {
            let (low, high) = model.interval(estimate, error).expect("judgeable");
            assert!(low < estimate && estimate < high);
            for (value, inside) in [(low, 1.0), (high, -1.0)] {
                for (nudge, accepted) in [(1e-6 * inside, true), (-1e-6 * inside, false)] {
                    let value = value + nudge * value.abs();
                    let variance = match model.kind {
                        ErrorShape::Location => model.variance,
                        ErrorShape::Scale => model.variance * (value / model.expected).powi(2),
                    };
                    let moved = NullModel { expected: value, variance, ..model };
                    let p = moved.p_value(estimate, 0.0, error).expect("judgeable");
                    assert_eq!(p > error, accepted, "{model:?} {estimate} {error} {value}");
                }
            }
        }
    }
}

#[test]
fn an_interval_matches_the_textbook_chi_square_interval() {
    // ν s²/χ²: ν = 10, s² = 2.5, 95 %: χ²_{0.975} = 20.483177350807…, χ²_{0.025} = 3.246972780236842 (scipy chi2.ppf).
    let (low, high) = chi_square_model(10.0).interval(2.5, 0.05).expect("exact");
    assert!((low / (25.0 / 20.483_177_350_807_39) - 1.0).abs() < 1e-12, "{low}");
    assert!((high / (25.0 / 3.246_972_780_236_84) - 1.0).abs() < 1e-12, "{high}");
}

#[test]
fn the_smallest_detectable_fault_is_seen_with_the_promised_power() {
    let (alpha, beta, runs) = (0.01, 0.1, 4001u64);
    let level = 1e-6;
    let mut draws = Draws::new(13);
    // Scale: θ·χ²_ν/ν. The worse side must have power 1 − β exactly, the other at least that.
    let model = chi_square_model(40.0);
    let detectable = model.min_detectable(alpha, beta).expect("exact");
    let mut rejected = |fault: f64, draw: &mut dyn FnMut(&mut Draws) -> f64, model: &NullModel| {
        let hits = (0..runs).filter(|_| {
            let z = draw(&mut draws);
            let estimate = match model.kind {
                ErrorShape::Scale => (1.0 + fault) * (1.0 + model.standard_error() * z),
                ErrorShape::Location => model.expected + fault * model.unit + model.standard_error() * z,
            };
            model.p_value(estimate, 0.0, alpha).expect("exact") <= alpha
        });
        hits.count() as u64
    };
    let (low, high) = acceptance_region(runs, 1.0 - beta, level);
    let mut chi = |draws: &mut Draws| draws.standard_chi_square(40);
    let (up, down) = (rejected(detectable, &mut chi, &model), rejected(-detectable, &mut chi, &model));
    assert!((low..=high).contains(&up.min(down)), "{up} {down} outside {low}..={high}");
    assert!(up.max(down) >= low);
    // Half the fault is seen less often: the promise is sharp.
    assert!(rejected(0.5 * detectable, &mut chi, &model) < low);
    // Location, symmetric: both sides have the promised power.
    let model = NullModel { variance: 0.04, expected: 3.0, unit: 0.5, ..product_model(3.0) };
    let detectable = model.min_detectable(alpha, beta).expect("exact");
    let mut product = |draws: &mut Draws| draws.product_normal(3);
    for fault in [detectable, -detectable] {
        let seen = rejected(fault, &mut product, &model);
        assert!((low..=high).contains(&seen), "{fault}: {seen} outside {low}..={high}");
    }
}

#[test]
fn detectable_faults_match_hand_formulas() {
    // Normal location: (1.959964 + 1.281552)·se/unit.
    let model = NullModel { excess_kurtosis: 0.0, variance: 0.25, unit: 2.0, ..product_model(1.0) };
    let expected = (1.959_963_984_540_054 + 1.281_551_565_544_600_5) * 0.25;
    assert!((model.min_detectable(0.05, 0.1).expect("normal") / expected - 1.0).abs() < 1e-13);
    // Without a unit the expected value is it; without either there is no answer.
    let relative = NullModel { unit: 0.0, expected: -2.0, ..model };
    assert!((relative.min_detectable(0.05, 0.1).expect("normal") / expected - 1.0).abs() < 1e-13);
    assert_eq!(NullModel { unit: 0.0, ..model }.min_detectable(0.05, 0.1), None);
    // Half a lattice step is added.
    let discrete = NullModel { lattice_step: 0.4, ..model };
    assert!((discrete.min_detectable(0.05, 0.1).expect("normal") - expected - 0.1).abs() < 1e-13);
    // Exponential scale model (χ²_2): quantiles −ln p, so upward ln(α/2)/ln(1−β) − 1.
    let upward = (0.025f64).ln() / (0.9f64).ln() - 1.0;
    let got = chi_square_model(2.0).min_detectable(0.05, 0.1).expect("exact");
    assert!((got / upward - 1.0).abs() < 1e-12, "{got} {upward}");
    // Skewness −2 is 1 − (exponential): quantiles 1 + ln p, and the downward side is the worse one. Location:
    // q_{0.9} − z_lo = ln 0.9 − ln 0.025; Scale with cv = 0.1: 1 − (1 + 0.1·z_lo)/(1 + 0.1·q_{0.9}).
    let (rejects, missed) = (1.0 + 0.025f64.ln(), 1.0 + 0.9f64.ln());
    let mirrored = NullModel { skewness: -2.0, ..product_model(1.0) };
    let got = mirrored.min_detectable(0.05, 0.1).expect("exact");
    assert!((got / (missed - rejects) - 1.0).abs() < 1e-12, "{got}");
    let mirrored = NullModel { skewness: -2.0, variance: 0.01, ..chi_square_model(2.0) };
    let downward = 1.0 - (1.0 + 0.1 * rejects) / (1.0 + 0.1 * missed);
    let got = mirrored.min_detectable(0.05, 0.1).expect("exact");
    assert!((got / downward - 1.0).abs() < 1e-12, "{got} {downward}");
    // A normal scale model with cv = 1 cannot see any fall to 0.
    let wide = NullModel { skewness: 0.0, excess_kurtosis: 0.0, variance: 1.0, ..chi_square_model(2.0) };
    assert_eq!(wide.min_detectable(0.05, 0.1), None);
}

#[test]
fn a_lattice_statistic_is_judged_conservatively() {
    // The share of heads among 101 fair coins: lattice step 1/101. Exact p by summing binomial probabilities.
    let (count, draws_count) = (101u64, 4001);
    let model = NullModel {
        expected: 0.5,
        variance: 0.25 / count as f64,
        excess_kurtosis: -2.0 / count as f64,
        origin: LawOrigin::Matched,
        lattice_step: 1.0 / count as f64,
        ..product_model(1.0)
    };
    let p_of =
        |model: &NullModel, heads: u64| model.p_value(heads as f64 / count as f64, 0.0, 0.05).expect("judgeable");
    for heads in [51, 55, 60, 65] {
        let exact = (2.0 * crate::statistics::binomial::upper_tail(heads, count, 0.5)).min(1.0);
        // What the correction leaves is the kurtosis term, whose size is the model's own distortion, plus terms of
        // the next order (below 1 % for 101 coins). It errs on the safe side: the excess kurtosis is negative.
        let ratio = p_of(&model, heads) / exact;
        let allowed = model.distortion(exact.min(0.999)) + 0.01;
        assert!((0.99..1.0 + allowed).contains(&ratio), "{heads}: {ratio} {allowed}");
    }
    let mut draws = Draws::new(17);
    let heads: Vec<u64> =
        (0..draws_count).map(|_| (0..count).filter(|_| draws.uniform() < 0.5).count() as u64).collect();
    let corrected: Vec<f64> = heads.iter().map(|&heads| p_of(&model, heads)).collect();
    assert!(at_least_uniform(&corrected).expect("valid").p_value > 1e-3);
    let plain = NullModel { lattice_step: 0.0, ..model };
    let liberal: Vec<f64> = heads.iter().map(|&heads| p_of(&plain, heads)).collect();
    assert!(at_least_uniform(&liberal).expect("valid").p_value < 1e-6, "the mutant without correction must show");
}

#[test]
fn a_fixed_statistic_is_judged_by_rounding_alone() {
    let fixed = NullModel { variance: 0.0, skewness: 0.0, excess_kurtosis: 0.0, ..product_model(1.0) };
    assert_eq!(fixed.p_value(1e-9, 1e-8, 1e-6), Some(1.0));
    assert_eq!(fixed.p_value(1e-7, 1e-8, 1e-6), Some(0.0));
    let undefined_shape = NullModel { skewness: f64::NAN, excess_kurtosis: f64::NAN, ..fixed };
    assert_eq!(undefined_shape.p_value(1e-7, 1e-8, 1e-6), Some(0.0));
    assert_eq!(fixed.interval(0.25, 0.05), Some((0.25, 0.25)));
    assert_eq!(fixed.min_detectable(1e-6, 0.1), Some(0.0));
}

#[test]
fn what_cannot_be_judged_has_no_p_value() {
    let matched = |skewness: f64, excess_kurtosis: f64| NullModel {
        skewness,
        excess_kurtosis,
        origin: LawOrigin::Matched,
        ..chi_square_model(100.0)
    };
    // The rows of the table at DISTORTION_LIMIT: honest at 0.05 does not mean honest at 1e-6.
    assert!(matched(0.808, 1.107).judgeable(0.05));
    assert!(!matched(0.808, 1.107).judgeable(1e-3));
    assert!(matched(0.204, 0.070).judgeable(1e-3));
    assert!(!matched(0.204, 0.070).judgeable(1e-6));
    assert!(matched(0.112, 0.021).judgeable(1e-6));
    assert_eq!(matched(0.204, 0.070).p_value(1.5, 0.0, 1e-6), None);
    // A gamma-like shape still stops at the skewness limit; an unknown excess costs trust.
    assert!(!matched(1.1, 1.5 * 1.21).judgeable(0.05));
    assert!(!matched(0.808, f64::NAN).judgeable(0.05) && matched(0.3, f64::NAN).judgeable(0.05));
    assert!(!matched(0.0, f64::NAN).judgeable(0.05));
    // Nonsense.
    let sound = chi_square_model(7.0);
    assert!(sound.judgeable(1e-12));
    for broken in [
        NullModel { variance: -1.0, ..sound },
        NullModel { variance: f64::NAN, ..sound },
        NullModel { skewness: f64::NAN, ..sound },
        NullModel { expected: 0.0, ..sound },
        NullModel { lattice_step: -0.1, ..sound },
    ] {
        assert_eq!(broken.p_value(1.0, 0.0, 0.05), None, "{broken:?}");
    }
    assert_eq!(sound.p_value(f64::NAN, 0.0, 0.05), None);
    assert_eq!(sound.p_value(1.0, 0.0, 0.0), None);
}

#[test]
fn planning_finds_the_smallest_number_of_trials() {
    let models = [chi_square_model(3.0), product_model(2.0)];
    let (alpha, beta, detect) = (1e-3, 0.05, 0.3);
    let trials = trials_needed(&models, alpha, beta, detect, 1_000_000).expect("reachable");
    let sees = |trials: u64| {
        models.iter().all(|model| model.over_trials(trials).min_detectable(alpha, beta).expect("exact") <= detect)
    };
    assert!(sees(trials) && !sees(trials - 1), "{trials}");
    // Close to the large-sample formula (z + z)²·Var/δ² with 3.290527 + 1.644854, which leaves out the skewness: 271
    // for the mean with Var 1; for the variance Var = 2/3 and a longer upper tail.
    let formula = (3.290_527f64 + 1.644_854).powi(2) / (detect * detect);
    assert!((trials as f64 / formula - 1.0).abs() < 0.1, "{trials} {formula}");
    assert_eq!(trials_needed(&models, alpha, beta, detect, trials - 1), None);
    assert_eq!(trials_needed(&models, alpha, beta, detect, trials), Some(trials));
    // Judgeability alone can set the number: huge faults, but a tail that must be trusted at 1e-6.
    let matched = NullModel { origin: LawOrigin::Matched, excess_kurtosis: 5.0, ..chi_square_model(3.0) };
    let needed = trials_needed(&[matched], 1e-6, 0.1, 100.0, 1 << 40).expect("reachable");
    assert!(matched.over_trials(needed).judgeable(1e-6) && !matched.over_trials(needed - 1).judgeable(1e-6));
}

#[test]
fn smallest_trials_finds_every_threshold() {
    for threshold in 1..=70 {
        for maximum in [1, 2, 63, 64, 65, 70] {
            let expected = (threshold <= maximum).then_some(threshold);
            assert_eq!(smallest_trials(maximum, |trials| trials >= threshold), expected, "{threshold} {maximum}");
        }
    }
    assert_eq!(smallest_trials(0, |_| true), None);
    assert_eq!(smallest_trials(u64::MAX, |trials| trials > u64::MAX - 2), Some(u64::MAX - 1));
}

#[test]
fn a_matched_law_that_is_judgeable_keeps_its_false_alarm_rate() {
    // The product of two independent χ²_41/41 (a variance of logits with d = 1, n = m = 41), whose moments are products
    // of those of gamma variables of shape 20.5; skewness 0.80, near the limit for α = 0.05. The same at shape 3 is not
    // judgeable, and rightly so: the matched law then gives a wrong rate in the lower tail.
    let model = |degrees: f64| {
        let shape = degrees / 2.0;
        let raw = |k: i32| (0..k).map(|i| (shape + f64::from(i)) / shape).product::<f64>().powi(2);
        let variance = raw(2) - 1.0;
        let third = raw(3) - 3.0 * raw(2) + 2.0;
        let fourth = raw(4) - 4.0 * raw(3) + 6.0 * raw(2) - 3.0;
        NullModel {
            variance,
            skewness: third / variance.powf(1.5),
            excess_kurtosis: fourth / variance.powi(2) - 3.0,
            origin: LawOrigin::Matched,
            ..chi_square_model(1.0)
        }
    };
    let (alpha, runs) = (0.05, 40_009u64);
    let judged = model(41.0);
    assert!(judged.judgeable(alpha) && (0.7..0.9).contains(&judged.skewness), "{judged:?}");
    assert!(!model(6.0).judgeable(alpha));
    let mut draws = Draws::new(31);
    let mut mean_square = |degrees: usize| 1.0 + (2.0 / degrees as f64).sqrt() * draws.standard_chi_square(degrees);
    let alarms = (0..runs).filter(|_| {
        let estimate = mean_square(41) * mean_square(41);
        judged.p_value(estimate, 0.0, alpha).expect("judgeable") <= alpha
    });
    let alarms = alarms.count() as u64;
    let low = acceptance_region(runs, alpha * (1.0 - DISTORTION_LIMIT), 1e-6).0;
    let high = acceptance_region(runs, alpha * (1.0 + DISTORTION_LIMIT), 1e-6).1;
    assert!((low..=high).contains(&alarms), "{alarms} outside {low}..={high}");
    // A normal law in its place: the upper tail alone already breaks the one-sided share.
    let upper = |model: &NullModel, z: f64| model.law().survival(z) <= 0.5 * 1e-3;
    let normal = NullModel { skewness: 0.0, excess_kurtosis: 0.0, ..judged };
    let mut exceed = [0u64; 2];
    for _ in 0..runs {
        let z = (mean_square(41) * mean_square(41) - 1.0) / judged.standard_error();
        exceed[0] += u64::from(upper(&judged, z));
        exceed[1] += u64::from(upper(&normal, z));
    }
    assert!(exceed[1] > 5 * exceed[0], "{exceed:?}");
}
