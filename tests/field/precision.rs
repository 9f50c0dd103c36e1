//! Kind precision: PR-02 to PR-07.

use attn::attention::Alignment;
use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::Declared;
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Shape, close, only, shown, sound, verdict};

#[test]
fn pr_02_a_mask_constant_that_does_not_fit_f16() {
    // 0 · (−inf) on the allowed side: the lower triangle is NaN, the upper −inf.
    let mask = (0..16).map(|cell| if cell % 4 <= cell / 4 { f64::NAN } else { f64::NEG_INFINITY }).collect();
    let mut case = Case::draw(41, Shape::of(1, 2, 4, 4, 16), Storage::F16);
    case.p = vec![f64::NAN; 32];
    let file = case.file().with(Role::Mask, [1, 1, 4, 4], Storage::F16, mask);
    let file = file.contract(|contract| contract.causal = Some(Declared::Default(Alignment::TopLeft)));
    let finding = only(&file.audit(), Verdict::Fail, Check::Mask);
    assert!(
        finding.explanation.contains("NaN on 10 of 16 entries, all on or below the diagonal"),
        "{}",
        finding.explanation
    );
    assert!(finding.cause.contains("overflowed the half type") && finding.cause.contains("65504"), "{}", finding.cause);
    assert_eq!(finding.measured, Some(10.0));
}

#[test]
fn pr_04_products_beyond_the_range_of_f16() {
    // Entries of a few hundred: 64·300·300 = 5.8e6.
    let mut case = Case::draw(42, Shape::of(1, 1, 3, 5, 64), Storage::F16);
    case.q = vec![300.0; 3 * 64];
    case.k = vec![300.0; 5 * 64];
    let finding = only(&case.file().audit(), Verdict::Warn, Check::Precision);
    close(finding.measured, 5.76e6, 1e-12);
    assert!(
        finding.explanation.contains("88x") && finding.explanation.contains("scaled value"),
        "{}",
        finding.explanation
    );
    // With the logits in the file, infinities are in them.
    let logits = vec![f64::INFINITY; 15];
    let audit = case.file().with(Role::Logits, [1, 1, 3, 5], Storage::F16, logits).audit();
    let finding =
        audit.of(Check::Finite).find(|f| f.verdict == Verdict::Fail).unwrap_or_else(|| panic!("{}", shown(&audit)));
    assert!(finding.explanation.contains("15 logits are not finite"), "{}", finding.explanation);
}

#[test]
fn pr_05_a_softmax_without_subtracting_the_maximum() {
    // One row with scores (151.29, 0, 0), among sound ones.
    let mut case = Case::draw(43, Shape::of(1, 1, 5, 3, 2), Storage::F32);
    case.q = vec![0.5, 0.25, 151.29, 0.0, -0.75, 0.5, 1.0, 1.0, 0.125, -1.0];
    case.k = vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.5];
    let mut case = case.attend(&|_, _, _, _, raw| raw);
    sound(&case.file().scale("1").audit());
    (0..3).for_each(|key| *case.p_at(0, 0, 1, key) = f64::NAN);
    let finding = only(&case.file().without(Role::Output).scale("1").audit(), Verdict::Fail, Check::Finite);
    assert!(finding.explanation.contains("softmax does not subtract the row's maximum"), "{}", finding.explanation);
    assert_eq!((finding.measured, finding.cell), (Some(1.0), Some((1, None))));
}

#[test]
fn pr_07_the_yardstick_between_rounding_and_a_bug() {
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let case = Case::draw(44, Shape::of(1, 2, 31, 37, 64), storage).attend(&|_, _, _, _, raw| 0.125 * raw);
        let audit = case.file().audit();
        sound(&audit);
        let finding = audit.of(Check::Precision).next().expect("a yardstick");
        // The same computation: about 1.
        assert!(
            finding.measured.is_some_and(|ratio| (0.2..3.0).contains(&ratio)),
            "{storage:?} {:?}",
            finding.measured
        );
    }
    // Products in bf16, kept as f32: no fault of structure, and worth a word.
    let mut case = Case::draw(45, Shape::of(1, 2, 31, 37, 64), Storage::F32);
    let rounded = |vectors: &[f64]| vectors.iter().map(|&entry| Storage::Bf16.round(entry)).collect::<Vec<_>>();
    let (q, k) = (case.q.clone(), case.k.clone());
    (case.q, case.k) = (rounded(&q), rounded(&k));
    let mut case = case.attend(&|_, _, _, _, raw| 0.125 * raw);
    (case.q, case.k) = (q, k);
    let finding = only(&case.file().audit(), Verdict::Warn, Check::Precision);
    assert!(finding.cause.contains("bf16") || finding.cause.contains("f16"), "{}", finding.cause);
    assert!(finding.cause.contains("--tolerance"), "{}", finding.cause);
    sound(&case.file().contract(|contract| contract.tolerance = Some(0.05)).audit());
    // One weight off by a hundredth, in f32, is no rounding.
    let mut case = Case::draw(46, Shape::of(1, 2, 31, 37, 64), Storage::F32).attend(&|_, _, _, _, raw| 0.125 * raw);
    *case.p_at(0, 1, 7, 11) += 0.01;
    case.o = case.times_values(&case.p);
    let finding = only(&case.file().audit(), Verdict::Fail, Check::Precision);
    assert_eq!(finding.cell, Some((7, Some(11))));
    close(finding.measured, 0.01, 1e-3);
}

#[test]
fn tensors_that_were_computed_in_bf16_and_stored_as_f32_are_judged_as_bf16() {
    let case = Case::draw(47, Shape::of(1, 2, 31, 37, 64), Storage::Bf16).attend(&|_, _, _, _, raw| 0.125 * raw);
    let mut file = case.file();
    for (role, shape, numbers) in [
        (Role::Queries, [1, 2, 31, 64], &case.q),
        (Role::Keys, [1, 2, 37, 64], &case.k),
        (Role::Values, [1, 2, 37, 64], &case.v),
        (Role::Weights, [1, 2, 31, 37], &case.p),
        (Role::Output, [1, 2, 31, 64], &case.o),
    ] {
        file = file.with(role, shape, Storage::F32, numbers.clone());
    }
    let audit = file.audit();
    sound(&audit);
    assert_eq!(verdict(&audit, Check::Precision), Verdict::Pass);
}

#[test]
fn ux_07_weights_and_output_from_different_code_paths() {
    let shape = Shape::of(1, 2, 11, 13, 16);
    let mut case = Case::draw(48, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    case.o = Case::draw(48, shape, Storage::F32).attend(&|_, _, _, j, raw| 0.25 * raw - 0.3 * j as f64).o;
    let finding = only(&case.file().audit(), Verdict::Fail, Check::Output);
    assert!(finding.explanation.contains("although P is a correct softmax"), "{}", finding.explanation);
    // The other way round: the output is right, asking for the weights changed them.
    let mut other = Case::draw(48, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    other.p = Case::draw(48, shape, Storage::F32).attend(&|_, _, _, _, raw| raw).p;
    let audit = other.file().scale("1/sqrt(dk)").audit();
    let output =
        audit.of(Check::Output).find(|f| f.verdict == Verdict::Fail).unwrap_or_else(|| panic!("{}", shown(&audit)));
    assert!(output.explanation.contains("O is what the contract gives, the weights are not"), "{}", output.explanation);
}

#[test]
fn errors_far_above_the_type_s_own_are_a_warning_within_the_bound() {
    // Alternating relative errors, so that no scale and no sum explains them. c·‖q‖‖k‖·(2 + 4√16)·2^-24 is about 4e-6 for a logit, twice that for
    // a weight and some 2e-6 for its own roundings: 5e-6 is half of the bound, and some 40 times what a plain computation in f32 errs.
    let with = |error: f64| {
        let mut case = Case::draw(47, Shape::of(1, 2, 31, 38, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
        for (index, weight) in case.p.iter_mut().enumerate() {
            *weight *= 1.0 + if index % 2 == 0 { error } else { -error };
        }
        case.file().without(Role::Output).audit()
    };
    assert_eq!(verdict(&with(0.0), Check::Precision), Verdict::Pass);
    let warned = only(&with(5e-6), Verdict::Warn, Check::Precision);
    assert!(warned.measured.is_some_and(|ratio| ratio > 8.0), "{:?}", warned.measured);
    // Many times the type's own error, but so far inside the bound that it is none to warn of.
    let small = with(1e-6);
    assert_eq!(verdict(&small, Check::Precision), Verdict::Pass, "{}", shown(&small));
}

#[test]
fn weights_that_went_through_a_half_type_are_a_warning() {
    for half in [Storage::Bf16, Storage::F16] {
        let case = Case::draw(59, Shape::of(1, 2, 37, 41, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
        sound(&case.file().audit());
        let mut cast = case.clone();
        cast.p.iter_mut().for_each(|weight| *weight = half.round(*weight));
        cast.o = cast.times_values(&cast.p);
        let finding = only(&cast.file().audit(), Verdict::Warn, Check::Precision);
        assert!(
            finding.explanation.contains(&format!("every weight is a {} number", half.name())),
            "{}",
            finding.explanation
        );
        // Half a unit in the last place of a weight below 1, and more than that of weights below 1/64.
        let largest = finding.measured.expect("a number");
        assert!(largest < half.unit_roundoff() && largest > half.unit_roundoff() / 64.0, "{largest}");
        sound(&cast.file().contract(|contract| contract.tolerance = Some(0.004)).audit());
    }
}

#[test]
fn an_infinity_in_k_is_no_mask_and_no_sum_of_all_rows() {
    let mut case = Case::draw(60, Shape::of(1, 1, 7, 11, 8), Storage::F32);
    case.k[3 * 8 + 5] = f64::INFINITY;
    let case = case.attend(&|_, _, _, _, raw| raw / 8f64.sqrt());
    let audit = case.file().audit();
    let finding = audit.of(Check::Finite).next().expect("a finding");
    assert_eq!(finding.verdict, Verdict::Fail);
    assert!(
        finding.explanation.starts_with("1 entry of K (infinite) not finite, first (3, 5)"),
        "{}",
        finding.explanation
    );
    assert!(finding.cause.contains("overflow") && !finding.cause.contains("mask"), "{}", finding.cause);
    // Keys of weight inf leave NaN, keys of -inf leave the softmax over the others.
    let broken = case.p.chunks(11).filter(|row| row.iter().any(|weight| weight.is_nan())).count();
    assert!(broken > 0 && broken < 7, "{broken}");
    for sums in audit.of(Check::Normalisation).filter(|f| f.verdict == Verdict::Pass) {
        assert!(
            sums.explanation.starts_with(&format!("the {} rows that are finite", 7 - broken)),
            "{}",
            sums.explanation
        );
    }
}
