//! Sound attentions of which something was not declared, or cannot be seen: no FAIL. Tensors by the plain definition.

use attn::attention::Alignment;
use attn::diagnosis::arrays::{ArraySource, Role};
use attn::diagnosis::audit::audit;
use attn::diagnosis::contract::{Declared, PaddingKind, Rotary, RotaryLayout};
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Draws, File, Shape, only, shown, sound};

const HIDDEN: f64 = f64::NEG_INFINITY;

/// n = m = 37 keys over d_v = 16 channels: weights cannot be recovered from the output.
fn case(seed: u64, storage: Storage) -> (Case, f64) {
    (Case::draw(seed, Shape::of(1, 2, 37, 37, 16), storage), 0.25)
}

#[test]
fn an_undeclared_causal_mask_in_the_output_alone_is_a_warning_in_every_type() {
    for storage in [Storage::Bf16, Storage::F16, Storage::F32, Storage::F64] {
        let (case, scale) = case(71, storage);
        let case = case.attend(&|_, _, i, j, raw| if j <= i { scale * raw } else { HIDDEN });
        let audit = case.file().without(Role::Weights).audit();
        let finding = only(&audit, Verdict::Warn, Check::Causal);
        assert!(finding.cause.contains("--causal"), "{}", shown(&audit));
    }
}

#[test]
fn undeclared_forms_in_the_output_alone_are_warnings() {
    for storage in [Storage::F32, Storage::F64] {
        let (case, scale) = case(72, storage);
        let hide = |seen: bool, logit: f64| if seen { logit } else { HIDDEN };
        let windowed = case.clone().attend(&|_, _, i, j, raw| hide(j <= i && j + 7 > i, scale * raw));
        let windowed = windowed.file().without(Role::Weights).audit();
        let finding = only(&windowed, Verdict::Warn, Check::Window);
        assert!(finding.cause.contains("--window 7"), "{}", shown(&windowed));
        // 2 heads: slopes 1/16 and 1/256 (Press et al. 2022).
        let slopes = [1.0 / 16.0, 1.0 / 256.0];
        let linear = |h: usize, i: usize, j: usize| -slopes[h] * (i as f64 - j as f64);
        let alibi = case.clone().attend(&|_, h, i, j, raw| hide(j <= i, scale * raw + linear(h, i, j)));
        let alibi = alibi.file().contract(causal).without(Role::Weights).audit();
        only(&alibi, Verdict::Warn, Check::Alibi);
        let capped = case.clone().attend(&|_, _, _, _, raw| 2.0 * (scale * raw / 2.0).tanh());
        let capped = capped.file().without(Role::Weights).audit();
        only(&capped, Verdict::Warn, Check::Softcap);
    }
}

fn causal(contract: &mut attn::diagnosis::contract::Contract) {
    contract.causal = Some(Declared::Default(Alignment::TopLeft));
}

/// Attention whose keys from 29 on are padding, and causal.
fn padded(seed: u64) -> Case {
    let (case, scale) = case(seed, Storage::F32);
    case.attend(&|_, _, i, j, raw| if j <= i && j < 29 { scale * raw } else { HIDDEN })
}

fn padding(real: f64) -> Vec<f64> {
    (0..37).map(|key| if key < 29 { real } else { 1.0 - real }).collect()
}

#[test]
fn a_mask_in_the_file_and_a_causal_one_are_one_contract() {
    let of = |role: Role| padded(73).file().with(role, [1, 1, 1, 37], Storage::F32, padding(1.0));
    for role in [Role::Mask, Role::Padding] {
        sound(&of(role).contract(causal).audit());
        for file in [of(role), of(role).without(Role::Weights)] {
            let audit = file.audit();
            let finding = only(&audit, Verdict::Warn, Check::Causal);
            assert!(finding.cause.contains("--causal"), "{}", shown(&audit));
        }
    }
    // Documents of 13 tokens.
    let (case, scale) = case(74, Storage::F32);
    let case = case.attend(&|_, _, i, j, raw| if j <= i && i / 13 == j / 13 { scale * raw } else { HIDDEN });
    let documents: Vec<f64> = (0..37 * 37).map(|cell| f64::from(u8::from(cell / 37 / 13 == cell % 37 / 13))).collect();
    let file = || case.file().with(Role::Mask, [1, 1, 37, 37], Storage::F32, documents.clone());
    sound(&file().contract(causal).audit());
    only(&file().audit(), Verdict::Warn, Check::Causal);
    sound(&file().contract(causal).without(Role::Weights).without(Role::Output).audit());
}

#[test]
fn padding_in_the_other_sense_is_told_by_the_weights_and_fixed_by_a_declaration() {
    let file = || padded(75).file().with(Role::Padding, [1, 1, 1, 37], Storage::F32, padding(0.0)).contract(causal);
    let audit = file().audit();
    let finding = only(&audit, Verdict::Warn, Check::Padding);
    assert!(finding.cause.contains("--padding-kind hide"), "{}", shown(&audit));
    let kind = |kind| file().contract(|contract| contract.padding = Declared::Yes(kind)).audit();
    sound(&kind(PaddingKind::Hide));
    assert!(kind(PaddingKind::Keep).count(Verdict::Fail) > 0);
}

/// `case` after dropout.
fn dropped(mut case: Case, p: f64, seed: u64) -> Case {
    let mut draws = Draws(seed);
    for weight in &mut case.p {
        *weight = if draws.uniform() < p { 0.0 } else { case.storage.round(*weight / (1.0 - p)) };
    }
    case.o = case.times_values(&case.p);
    case
}

fn declared(file: File, p: f64) -> File {
    file.contract(|contract| contract.dropout = Some(p))
}

#[test]
fn declared_dropout_raises_no_alarm_whatever_was_dropped() {
    for seed in 0..40 {
        let mut draws = Draws(1000 + seed);
        let sizes = [1, 2, 3, 8, 17, 64];
        let shape = Shape::of(1 + draws.below(2), 1 + draws.below(4), sizes[draws.below(6)], sizes[draws.below(6)], 8);
        let storage = [Storage::F32, Storage::Bf16, Storage::F16][draws.below(3)];
        let p = [0.01, 0.1, 0.5][draws.below(3)];
        let is_causal = draws.below(2) == 0;
        let scale = 1.0 / 8f64.sqrt();
        let case = Case::draw(draws.bits(), shape, storage);
        let case = case.attend(&|_, _, i, j, raw| if j <= i || !is_causal { scale * raw } else { HIDDEN });
        let file = || {
            let file = declared(dropped(case.clone(), p, seed).file(), p);
            if is_causal { file.contract(causal) } else { file }
        };
        for (what, audit) in [("whole", file().audit()), ("output", file().without(Role::Weights).audit())] {
            assert_eq!(audit.count(Verdict::Fail), 0, "seed {seed} {what} {shape:?} p {p}\n{}", shown(&audit));
        }
    }
}

#[test]
fn an_output_after_declared_dropout_cannot_be_told() {
    let (case, scale) = case(76, Storage::F32);
    let case = dropped(case.attend(&|_, _, _, _, raw| scale * raw), 0.1, 5);
    let audit = declared(case.file().without(Role::Weights), 0.1).audit();
    assert_eq!(
        audit.of(Check::Output).map(|f| f.verdict).collect::<Vec<_>>(),
        [Verdict::CannotTell],
        "{}",
        shown(&audit)
    );
    sound(&audit);
}

#[test]
fn weights_dropped_with_another_probability_than_the_declared_one_fail() {
    let (case, scale) = case(77, Storage::F32);
    let case = dropped(case.attend(&|_, _, _, _, raw| scale * raw), 0.3, 6);
    let audit = declared(case.file(), 0.1).audit();
    assert_eq!(audit.of(Check::Dropout).map(|f| f.verdict).collect::<Vec<_>>(), [Verdict::Fail], "{}", shown(&audit));
}

#[test]
fn what_is_declared_and_cannot_be_seen_is_said_to_be_so() {
    let (case, scale) = case(83, Storage::F32);
    let declare = |contract: &mut attn::diagnosis::contract::Contract| {
        causal(contract);
        contract.causal = Some(Declared::Yes(Alignment::TopLeft));
        contract.softcap = Some(7.0);
        contract.sink = Some(0.5);
        contract.alibi = true;
        contract.dropout = Some(0.1);
        contract.rotary = Some(Rotary { layout: RotaryLayout::Interleaved, base: 10_000.0, offset: 0 });
    };
    let audit = case.file().contract(declare).audit();
    for check in [Check::Causal, Check::Softcap, Check::Sink, Check::Alibi, Check::Dropout, Check::Rotary] {
        let found = audit.of(check).next().unwrap_or_else(|| panic!("{check}: {}", shown(&audit)));
        assert_eq!(found.verdict, Verdict::CannotTell, "{}", shown(&audit));
    }
    assert_eq!(audit.of(Check::Window).count(), 0, "it was not declared");
    // With weights the forms are seen, and only the rotation is not.
    let case = case.attend(&|_, _, _, _, raw| 7.0 * (scale * raw / 7.0).tanh());
    let rotary = Rotary { layout: RotaryLayout::Interleaved, base: 10_000.0, offset: 0 };
    let audit = case.file().contract(|c| (c.softcap, c.rotary) = (Some(7.0), Some(rotary))).audit();
    assert_eq!(audit.of(Check::Softcap).map(|f| f.verdict).collect::<Vec<_>>(), [Verdict::Pass]);
    assert_eq!(audit.of(Check::Rotary).map(|f| f.verdict).collect::<Vec<_>>(), [Verdict::CannotTell]);
}

#[test]
fn queries_that_are_all_zero_have_no_dependence_and_no_nan() {
    let (mut case, scale) = case(84, Storage::F32);
    case.q.fill(0.0);
    let audit = case.attend(&|_, _, _, _, raw| scale * raw).file().audit();
    assert_eq!(audit.count(Verdict::Fail), 0, "{}", shown(&audit));
    assert!(audit.heads.iter().all(|head| head.dependence.is_none()));
    assert!(!shown(&audit).contains("NaN"), "{}", shown(&audit));
}

#[test]
fn a_scale_of_0_is_refused() {
    let (case, scale) = case(85, Storage::F32);
    let file = case.attend(&|_, _, _, _, raw| scale * raw).file().scale("dk-16");
    let source = ArraySource::new(file.arrays, &file.contract, None).expect("arrays that fit");
    let error = audit(&source, &file.contract, &|_, _| {}).expect_err("16 - 16 is 0");
    assert!(error.starts_with("--scale dk-16: is 0"), "{error}");
}

/// Checks that are FAIL or WARN, worst first.
fn alarms(audit: &attn::diagnosis::audit::Audit) -> Vec<(Verdict, Check)> {
    let alarms = audit.findings.iter().filter(|f| f.verdict < Verdict::CannotTell);
    alarms.map(|f| (f.verdict, f.check)).collect()
}

#[test]
fn two_things_that_were_not_declared_are_two_warnings() {
    // Causal, and 1 added to the denominator (a sink of logit 0).
    let (case, scale) = case(86, Storage::F32);
    let mut both = case.clone().attend(&|_, _, i, j, raw| if j <= i { scale * raw } else { HIDDEN });
    let mut p = Vec::new();
    for h in 0..2 {
        for i in 0..37 {
            let e: Vec<f64> =
                (0..37).map(|j| if j <= i { (scale * case.raw(0, h, h, i, j)).exp() } else { 0.0 }).collect();
            let total: f64 = 1.0 + e.iter().sum::<f64>();
            p.extend(e.iter().map(|e| Storage::F32.round(e / total)));
        }
    }
    both.o = both.times_values(&p);
    both.p = p;
    for file in [both.file(), both.file().without(Role::Values).without(Role::Output)] {
        let audit = file.audit();
        assert_eq!(alarms(&audit), [(Verdict::Warn, Check::Causal), (Verdict::Warn, Check::Sink)], "{}", shown(&audit));
        let sink = audit.of(Check::Sink).next().expect("found");
        assert!(sink.cause.ends_with("--sink 0"), "{}", sink.cause);
    }
}

#[test]
fn an_undeclared_window_on_top_of_padding_is_a_warning_with_its_option() {
    let (case, scale) = case(87, Storage::F32);
    let case = case.attend(&|_, _, i, j, raw| if j <= i && j + 5 > i && j < 29 { scale * raw } else { HIDDEN });
    let file = || case.file().without(Role::Output).with(Role::Padding, [1, 1, 1, 37], Storage::F32, padding(1.0));
    let audit = file().audit();
    let finding = only(&audit, Verdict::Warn, Check::Window);
    assert!(finding.explanation.contains("a window of 5 keys on top of the padding"), "{}", finding.explanation);
    assert!(finding.cause.ends_with("--causal --window 5"), "{}", finding.cause);
    // A declared causal mask without a window is contradicted.
    assert!(file().contract(|c| c.causal = Some(Declared::Yes(Alignment::TopLeft))).audit().count(Verdict::Fail) > 0);
}

#[test]
fn dropout_that_is_not_made_up_for_is_called_so() {
    let (case, scale) = case(88, Storage::F32);
    let case = case.attend(&|_, _, _, _, raw| scale * raw);
    let mut halved = dropped(case, 0.2, 89);
    halved.p.iter_mut().for_each(|weight| *weight = Storage::F32.round(*weight * 0.8));
    halved.o = halved.times_values(&halved.p);
    let audit = declared(halved.file(), 0.2).audit();
    let finding = only(&audit, Verdict::Fail, Check::Dropout);
    assert!(finding.explanation.contains("not divided by 1 - p"), "{}", finding.explanation);
}

#[test]
fn masks_of_two_tokens_are_not_taken_for_triangles() {
    for cells in [[1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]] {
        let case = Case::draw(90, Shape::of(1, 2, 2, 2, 16), Storage::F32);
        let case = case.attend(&|_, _, i, j, raw| if j <= i && cells[2 * i + j] > 0.0 { 0.25 * raw } else { HIDDEN });
        let file = case.file().with(Role::Mask, [1, 1, 2, 2], Storage::F32, cells.to_vec());
        sound(&file.contract(|c| c.causal = Some(Declared::Yes(Alignment::TopLeft))).audit());
    }
}
