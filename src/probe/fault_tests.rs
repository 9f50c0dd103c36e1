use super::*;
use crate::probe::behaviour::right;
use crate::probe::case::Capability;
use crate::probe::catalogue::cases;

#[test]
fn no_suspect_is_the_right_behaviour_in_exact_arithmetic() {
    for case in cases(0, &[]) {
        for right in right(&case) {
            for suspect in suspects(&case, &right) {
                let exact = suspect.arithmetic == Arithmetic::EXACT;
                assert!(!exact || suspect.behaviour != right, "{}: {}", case.name, suspect.cause.words);
            }
        }
    }
}

fn weights(numbers: &[f64]) -> Block {
    Block { shape: [1, 1, 1, numbers.len()], numbers: numbers.to_vec() }
}

#[test]
fn dropout_is_told_by_zeros_and_one_factor_that_fit_each_other() {
    // Eight weights of 1/8, two dropped: p = 1/4, factor 4/3.
    let (expected, sees) = (weights(&[0.125; 8]), weights(&[1.0]));
    let mut dropped = [1.0 / 6.0; 8];
    (dropped[2], dropped[5]) = (0.0, 0.0);
    let cause = explain_dropout(&weights(&dropped), &expected, &sees).expect("dropout");
    assert!(cause.words.contains("25 %") && cause.words.contains("1.333"), "{}", cause.words);
    // Zeros without the factor are no dropout, nor is the factor without zeros, nor factors that differ.
    assert_eq!(explain_dropout(&weights(&[0.0, 0.125, 0.125, 0.125]), &weights(&[0.125; 4]), &sees), None);
    assert_eq!(explain_dropout(&weights(&[1.0 / 6.0; 8]), &expected, &sees), None);
    (dropped[0], dropped[1]) = (0.3, 0.1);
    assert_eq!(explain_dropout(&weights(&dropped), &expected, &sees), None);
}

#[test]
fn a_constant_in_every_row_of_the_logarithm_is_an_offset() {
    let (expected, sees) = (weights(&[1.0, 2.0, -3.0]), weights(&[1.0; 3]));
    let offset = weights(&[1.5, 2.5, -2.5]);
    assert!(explain_offset(&offset, &expected, &sees, 1e-6).is_some_and(|cause| cause.words.contains("0.500000")));
    assert_eq!(explain_offset(&weights(&[1.5, 2.5, -3.0]), &expected, &sees, 1e-6), None);
}

#[test]
fn sums_in_f16_are_told_from_a_wrong_scale() {
    let all = cases(0, &[Capability::LongRows]);
    let case = all.iter().find(|case| case.name == "long-rows-f16-sums").expect("listed");
    let behaviour = &right(case)[0];
    let yardstick = crate::probe::reference::yardstick(case, behaviour);
    let half = attend(case, behaviour, Arithmetic { step: Storage::F16, stored: Storage::F16 });
    let (error, _) = largest_error("o", &half.output, &yardstick.values.output, &yardstick.sees);
    // Sums of 4099 terms in f16 lose small addends; the denominator loses about as much as the numerator, but not the same. One rounding
    // of the output is 2⁻¹².
    assert!(error > 40.0 * 2f64.powi(-12), "{error}");
    let wrong = [Seen { name: "o", found: &half.output, error, bound: 0.004 }];
    assert_eq!(explain(case, behaviour, &wrong, &yardstick.sees, None), Explained::default());
    let cause = explain_rounding(case, behaviour, &wrong, &yardstick.values, &yardstick.sees).expect("rounding");
    assert!(cause.words.contains("sums kept in f16"), "{}", cause.words);
}
