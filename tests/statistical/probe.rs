//! The judgement of a probe: no sound implementation is called wrong, and every fault is named.
//!
//! The sound implementation (probe_implementation.rs) shares no code with the probe and computes in another order: online softmax in
//! blocks, exp2, log₂e folded into the scale, four partial sums a product. A false alarm would be a case beyond the bound; the bound is
//! no quantile but a multiple of the definition's own error, so that the budget of this test is 0 of all cases.

use std::collections::BTreeMap;

use attn::probe::bound::MULTIPLE;
use attn::probe::case::{Capability, Case};
use attn::probe::catalogue::cases;
use attn::probe::judge::{CaseJudgement, Measured, Verdict, judge};

use crate::probe_implementation::{Fault, answer};

/// Seeds under which no sound answer may be called wrong.
const SEEDS: u64 = if cfg!(debug_assertions) { 2 } else { 200 };

fn judged(cases: &[Case], fault: Fault) -> Vec<CaseJudgement> {
    let answers: Vec<_> = cases.iter().enumerate().map(|(call, case)| answer(case, fault, call as u64 + 1)).collect();
    judge(cases, &answers, &|| {})
}

/// Large cases under few seeds only.
fn capabilities(seed: u64) -> Vec<Capability> {
    let large = |capability: &Capability| matches!(capability, Capability::Determinism | Capability::LongRows);
    Capability::ALL.into_iter().filter(|capability| seed < 11 || !large(capability)).collect()
}

#[test]
fn no_sound_implementation_is_called_wrong_in_any_type() {
    let mut worst: BTreeMap<String, (f64, String)> = BTreeMap::new();
    for seed in 0..SEEDS {
        let cases = cases(seed, &capabilities(seed));
        for (judgement, case) in judged(&cases, Fault::None).iter().zip(&cases) {
            assert_eq!(judgement.verdict, Verdict::Right, "seed {seed}: {judgement:?}");
            let ratio = judgement.measured.as_ref().map_or(0.0, Measured::ratio);
            let of_type = worst.entry(case.storage.name().to_string()).or_default();
            if ratio > of_type.0 {
                *of_type = (ratio, format!("{} under seed {seed}", judgement.name));
            }
        }
    }
    println!("{worst:?}");
    assert_eq!(worst.len(), 4, "every type was judged");
    // The multiple leaves room: the largest ratio of a sound implementation is at most half of it.
    assert!(worst.values().all(|(ratio, _)| *ratio <= 0.5 * MULTIPLE), "{worst:?}");
}

#[test]
fn every_fault_is_named() {
    let faults: [(Fault, &str, Capability); 26] = [
        (Fault::ScaleWidth, "scale", Capability::DefaultScale),
        (Fault::NoScale, "scale", Capability::DefaultScale),
        (Fault::ScaleModelWidth, "scale", Capability::DefaultScale),
        (Fault::ScaleIgnored, "scale", Capability::ExplicitScale),
        (Fault::CausalTransposed, "causal-transposed", Capability::Causal),
        (Fault::CausalOff, "causal", Capability::Causal),
        (Fault::OtherAlignment, "alignment", Capability::Causal),
        (Fault::MaskPolarity, "mask-polarity", Capability::BooleanMask),
        (Fault::MaskMultiplied, "mask-multiplied", Capability::AdditiveMask),
        (Fault::BiasScaled, "bias", Capability::Bias),
        (Fault::WindowWide, "window", Capability::Window),
        (Fault::SoftcapIgnored, "softcap", Capability::Softcap),
        (Fault::SoftcapAfterMask, "softcap", Capability::Softcap),
        (Fault::AlibiIgnored, "alibi", Capability::Alibi),
        (Fault::SoftmaxAxis, "axis", Capability::BatchAndHeads),
        (Fault::NoMaximum, "maximum", Capability::HugeLogits),
        (Fault::GroupsTiled, "groups", Capability::GroupedQueries),
        (Fault::MergeWithoutTranspose, "merge", Capability::BatchAndHeads),
        (Fault::LseBaseTwo, "lse-base", Capability::LogSumExp),
        (Fault::GradientWithoutScale, "gradient", Capability::Gradients),
        (Fault::BatchLeak, "batch", Capability::BatchIndependence),
        (Fault::HalfSums, "precision", Capability::LongRows),
        (Fault::Dropout, "dropout", Capability::DropoutOff),
        (Fault::Nondeterminism, "nondeterministic", Capability::Determinism),
        (Fault::BfloatWeights, "precision", Capability::F32),
        (Fault::Noise, "nondeterministic", Capability::Determinism),
    ];
    for seed in 0..if cfg!(debug_assertions) { 1 } else { 5 } {
        for (fault, name, capability) in faults {
            let cases = cases(seed, &[capability]);
            let judgements = judged(&cases, fault);
            let named = |judgement: &&CaseJudgement| judgement.cause.as_ref().is_some_and(|cause| cause.name == name);
            assert!(judgements.iter().any(|judgement| named(&judgement)), "seed {seed}, {fault:?}: {judgements:#?}");
            // What is wrong is wrong by this fault and no other.
            for judgement in judgements.iter().filter(|judgement| judgement.cause.is_some()) {
                assert!(named(&judgement), "seed {seed}, {fault:?}: {judgement:?}");
                assert!(matches!(judgement.verdict, Verdict::Wrong | Verdict::Nondeterministic), "{judgement:?}");
            }
        }
    }
}

#[test]
fn a_fault_is_called_wrong_where_it_shows_and_nowhere_else() {
    // One capability's fault leaves the others right.
    for (fault, touched) in [
        (Fault::WindowWide, &[Capability::Window][..]),
        (Fault::SoftcapIgnored, &[Capability::Softcap]),
        (Fault::AlibiIgnored, &[Capability::Alibi]),
        (Fault::LseBaseTwo, &[Capability::LogSumExp]),
        (Fault::GradientWithoutScale, &[Capability::Gradients]),
    ] {
        let small: Vec<Capability> = capabilities(11);
        let cases = cases(3, &small);
        for judgement in judged(&cases, fault) {
            let expected = if touched.contains(&judgement.capability) { Verdict::Wrong } else { Verdict::Right };
            assert_eq!(judgement.verdict, expected, "{fault:?}: {judgement:?}");
        }
    }
}

#[test]
fn answers_that_are_no_numbers_everywhere_prove_no_cause() {
    let chosen = [Capability::F32, Capability::F64, Capability::F16, Capability::HugeLogits, Capability::BooleanMask];
    let judgements = judged(&cases(3, &chosen), Fault::NotANumber);
    for judgement in &judgements {
        assert_eq!(judgement.verdict, Verdict::Wrong);
        let name = judgement.cause.as_ref().map(|cause| cause.name.as_str());
        assert_eq!(name, Some("not-finite"), "{judgement:?}");
    }
    // The same answers to huge logits alone are those of a missing maximum, in the type that overflows first.
    let huge = cases(3, &[Capability::F32, Capability::F64, Capability::HugeLogits]);
    for (judgement, case) in judged(&huge, Fault::NoMaximum).iter().zip(&huge) {
        let Some(cause) = &judgement.cause else { continue };
        let own = if case.storage.name() == "f64" { "f64" } else { "f32" };
        assert!(cause.words.ends_with(&format!("overflows in {own}")), "{}: {}", case.name, cause.words);
    }
}

#[test]
fn weights_that_go_through_bf16_are_said_to() {
    for seed in 0..5 {
        let judgements = judged(&cases(seed, &[Capability::F32]), Fault::BfloatWeights);
        let words =
            |judgement: &CaseJudgement| judgement.cause.as_ref().map_or(String::new(), |cause| cause.words.clone());
        assert!(judgements.iter().all(|judgement| judgement.verdict == Verdict::Wrong), "{judgements:#?}");
        let proved =
            judgements.iter().filter(|judgement| words(judgement).starts_with("the weights are rounded to bf16"));
        assert!(proved.count() >= 1, "seed {seed}: {judgements:#?}");
        assert!(
            judgements.iter().all(|judgement| words(judgement).contains("weights are rounded to bf16")),
            "seed {seed}: {judgements:#?}"
        );
    }
}

#[test]
fn noise_from_call_to_call_is_named_beside_the_rounding_it_looks_like() {
    // f64 holds noise of 3e-8 as errors of the size of f32's; the repeated cases show what it is.
    let judgements = judged(&cases(5, &[Capability::F64, Capability::Determinism]), Fault::Noise);
    let f64: Vec<_> = judgements.iter().filter(|judgement| judgement.capability == Capability::F64).collect();
    assert!(f64.len() >= 3);
    for judgement in f64 {
        assert_eq!(judgement.verdict, Verdict::Wrong);
        assert!(judgement.explanation.contains("other bits each time"), "{judgement:?}");
    }
    let again: Vec<_> = judgements.iter().filter(|judgement| judgement.name.ends_with("f32-again")).collect();
    assert!(again.iter().all(|judgement| judgement.verdict == Verdict::Nondeterministic), "{again:?}");
    assert_eq!(again.len(), 1);
}
