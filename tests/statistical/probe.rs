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
    let faults: [(Fault, &str, Capability); 24] = [
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
