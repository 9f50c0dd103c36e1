use super::*;
use crate::experiment::variance::VarianceExperiment;
use crate::sampling::Entries;

const SCALES: [Scale; 2] = [Scale::None, Scale::InverseSqrtWidth];

fn streamed(sizes: Sizes, law: InputLaw, precision: Precision) -> SecondMomentExperiment {
    SecondMomentExperiment::new(sizes, law, &SCALES, precision, Streamed::new(law, precision))
}

/// The values of one trial by name.
fn trial<E: Experiment>(experiment: &E, trial: u32, inside: Inside) -> Vec<(String, f64)> {
    let stream = TrialStream::new(11, experiment.point(), trial);
    let values = experiment.trial(&stream, inside, &mut E::Workspace::default());
    experiment.measures().into_iter().zip(values).collect()
}

#[test]
fn every_statistic_agrees_with_the_logits_formed_one_by_one() {
    let normal = InputLaw::standard(Entries::Normal);
    let laws = [
        normal,
        InputLaw { mean: 0.5, sd: 1.5, ..normal },
        InputLaw { mean: 30.0, sd: 2.0, ..normal },
        InputLaw { correlation: -0.6, mean: 0.25, ..normal },
        InputLaw::standard(Entries::Rademacher),
        InputLaw::standard(Entries::StudentT(9.0)),
    ];
    let sizes = [(1, 1, 7), (7, 5, 3), (61, 131, 131), (64, 389, 257), (67, 257, 1031), (3, 7001, 11)];
    for law in laws {
        for (d_k, queries, keys) in sizes {
            if law.correlation != 0.0 && queries != keys {
                continue;
            }
            let sizes = Sizes { d_k, queries, keys };
            for (precision, roundoff) in [(Precision::F64, 2_f64.powi(-53)), (Precision::F32, 2_f64.powi(-24))] {
                let direct = VarianceExperiment::new(sizes, law, &SCALES, precision);
                let found = trial(&streamed(sizes, law, precision), 3, Inside::Sequential);
                let expected = trial(&direct, 3, Inside::Sequential);
                for (name, value) in &found {
                    let (_, other) = expected.iter().find(|(other, _)| other == name).expect("the same measure");
                    // Σ|q_h k_h| of a logit is at most about d(|μ| + 3σ)²: each logit is off by d roundings of that (kernel, "Rounding"), the
                    // Gram matrices by 128 of theirs; a variance by twice that times the logits' spread. 32 for tails.
                    let largest = d_k as f64 * (law.mean.abs() + 3.0 * law.sd).powi(2) * 32.0;
                    let steps = (d_k + 130) as f64 * roundoff;
                    let bound = match name.as_str() {
                        name if name.contains("variance:") => steps * largest * largest.sqrt().max(largest / 50.0),
                        name if name.contains("mean:") => steps * largest,
                        _ => 200.0 * roundoff * (law.mean.abs() + law.sd).powi(2),
                    };
                    // What does not exist is any number that is not finite.
                    let same = !value.is_finite() && !other.is_finite();
                    assert!(
                        same || (value - other).abs() <= bound,
                        "{law:?} {sizes:?} {precision} {name}: {value} {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn in_f64_the_digits_agree_to_a_part_in_a_thousand_million_million() {
    // The bound of the test above is generous; typical entries leave a few units of the last place.
    let sizes = Sizes { d_k: 61, queries: 389, keys: 257 };
    let law = InputLaw { mean: 0.25, ..InputLaw::standard(Entries::Normal) };
    let direct = trial(&VarianceExperiment::new(sizes, law, &SCALES, Precision::F64), 0, Inside::Sequential);
    for (name, value) in trial(&streamed(sizes, law, Precision::F64), 0, Inside::Sequential) {
        let (_, other) = direct.iter().find(|(other, _)| *other == name).expect("the same measure");
        assert!((value - other).abs() <= 2e-14 * other.abs().max(1e-2), "{name}: {value} {other}");
    }
}

#[test]
fn threads_change_no_bit() {
    for (d_k, queries, keys) in [(3, 40_009, 23), (67, 1031, 2053), (5, 12_007, 12_007)] {
        let law =
            InputLaw { correlation: if queries == keys { 0.5 } else { 0.0 }, ..InputLaw::standard(Entries::Normal) };
        for precision in [Precision::F32, Precision::F64] {
            let experiment = streamed(Sizes { d_k, queries, keys }, law, precision);
            let bits = |inside| {
                trial(&experiment, 1, inside).into_iter().map(|(_, value)| value.to_bits()).collect::<Vec<_>>()
            };
            let alone = bits(Inside::Sequential);
            for threads in [1, 2, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                assert_eq!(pool.install(|| bits(Inside::Parallel)), alone, "{threads} threads");
            }
        }
    }
    let drawn = SecondMomentExperiment::new(
        Sizes { d_k: 13, queries: 7, keys: 1009 },
        InputLaw::standard(Entries::Normal),
        &SCALES,
        Precision::F64,
        DrawnScatter,
    );
    assert_eq!(trial(&drawn, 5, Inside::Sequential), trial(&drawn, 5, Inside::Parallel));
}

#[test]
fn claims_are_those_of_the_direct_experiment_but_for_the_kurtosis() {
    let sizes = Sizes { d_k: 7, queries: 23, keys: 23 };
    for correlation in [0.0, 0.5] {
        let law = InputLaw { correlation, ..InputLaw::standard(Entries::Normal) };
        let direct = VarianceExperiment::new(sizes, law, &SCALES, Precision::F64);
        let own = streamed(sizes, law, Precision::F64);
        let named = |experiment: &dyn Fn() -> Vec<Claim>| {
            let claims = experiment().into_iter().filter(|claim| claim.statistic != "logit_kurtosis");
            claims.map(|claim| (claim.statistic, claim.scale, claim.expected)).collect::<Vec<_>>()
        };
        assert_eq!(named(&|| own.claims()), named(&|| direct.claims()));
        // Every column that a claim rests on is the one of its name.
        let measures = own.measures();
        for claim in own.claims() {
            let crate::experiment::Estimator::Mean { column } = claim.estimator else { panic!("{claim:?}") };
            let name = claim.scale.map_or(claim.statistic.clone(), |scale| format!("{}:{scale}", claim.statistic));
            assert_eq!(measures[column], name);
        }
    }
}

#[test]
#[should_panic(expected = "no logit is formed")]
fn half_types_are_refused() {
    let law = InputLaw::standard(Entries::Normal);
    streamed(Sizes { d_k: 3, queries: 5, keys: 7 }, law, Precision::Bf16);
}
