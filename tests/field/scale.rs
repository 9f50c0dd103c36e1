//! Kind scale: SC-01 to SC-13.

use attn::attention::Alignment;
use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::Declared;
use attn::diagnosis::finding::{Check, Place, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Draws, Shape, close, only, shown, sound, verdict};

const EIGHT_HEADS: Shape = Shape::of(1, 8, 31, 37, 64);

fn scaled(shape: Shape, storage: Storage, scale: f64) -> Case {
    Case::draw(11, shape, storage).attend(&|_, _, _, _, raw| scale * raw)
}

#[test]
fn sc_01_the_width_of_the_model_taken_for_that_of_a_head() {
    // d_model 512, 8 heads, d 64: 1/22.6 used, 1/8 right; also width 64, head 16.
    for (shape, used, text, ratio) in [
        (EIGHT_HEADS, 512f64.powf(-0.5), "1/sqrt(512)", "2.828"),
        (Shape::of(1, 4, 29, 31, 16), 0.125, "1/sqrt(64)", "2.000"),
    ] {
        for storage in [Storage::F64, Storage::F32, Storage::F16, Storage::Bf16] {
            let audit = scaled(shape, storage, used).file().audit();
            let finding = only(&audit, Verdict::Fail, Check::Scale);
            close(finding.measured, used, if storage == Storage::Bf16 { 0.01 } else { 1e-3 });
            close(finding.expected, 1.0 / (shape.width as f64).sqrt(), 1e-12);
            assert!(
                finding.explanation.contains(text) && finding.explanation.contains("too FLAT"),
                "{}",
                finding.explanation
            );
            assert!(
                matches!(storage, Storage::F16 | Storage::Bf16) || finding.explanation.contains(ratio),
                "{}",
                finding.explanation
            );
            assert!(finding.cause.contains("d_model = heads*d"), "{}", finding.cause);
            assert_eq!(finding.place, Place::Heads((0..shape.heads).map(|head| (0, head)).collect()));
        }
    }
    // With one head both widths are the same: the scale passes, and nothing else can be said.
    let one = scaled(Shape::of(1, 1, 31, 37, 64), Storage::F32, 0.125).file().audit();
    sound(&one);
    assert_eq!(verdict(&one, Check::Heads), Verdict::CannotTell);
}

#[test]
fn sc_03_no_scale_on_the_fallback_path() {
    let audit = scaled(EIGHT_HEADS, Storage::F32, 1.0).file().scale("1/sqrt(dk)").audit();
    let alarms: Vec<_> = audit.findings.iter().filter(|f| f.verdict == Verdict::Fail).collect();
    assert_eq!(alarms.len(), 1, "{}", shown(&audit));
    close(alarms[0].measured, 1.0, 1e-5);
    assert!(alarms[0].explanation.contains("8.000 times too large, weights too PEAKED"), "{}", alarms[0].explanation);
    assert!(alarms[0].cause.contains("unscaled"), "{}", alarms[0].cause);
    // Keras: 2 tokens, d 4.
    let keras = scaled(Shape::of(1, 1, 2, 2, 4), Storage::F32, 1.0).file().scale("1/sqrt(dk)").audit();
    assert!(only(&keras, Verdict::Fail, Check::Scale).cause.contains("unscaled"));
}

#[test]
fn sc_05_the_scale_applied_twice() {
    let audit = scaled(EIGHT_HEADS, Storage::F32, 1.0 / 64.0).file().scale("1/sqrt(dk)").audit();
    let finding = only(&audit, Verdict::Fail, Check::Scale);
    close(finding.measured, 1.0 / 64.0, 1e-5);
    assert!(finding.explanation.contains("= 1/64"), "{}", finding.explanation);
    assert!(finding.cause.contains("applied twice") && finding.cause.contains("muP"), "{}", finding.cause);
    // Undeclared it may be muP.
    let warned = only(&scaled(EIGHT_HEADS, Storage::F32, 1.0 / 64.0).file().audit(), Verdict::Warn, Check::Scale);
    assert!(warned.cause.contains("--scale '1/dk'"), "{}", warned.cause);
    // Q dumped after its own scaling: the fit gives 0.125 on top, and the audit says that Q looks pre-scaled.
    let mut case = Case::draw(11, EIGHT_HEADS, Storage::F32);
    case.q.iter_mut().for_each(|entry| *entry *= 0.125);
    let pre_scaled = case.attend(&|_, _, _, _, raw| 0.125 * raw).file().audit();
    let note = pre_scaled.of(Check::Scale).next().expect("a scale").symptoms.join(" ");
    assert!(note.contains("pre-scaled"), "{}", shown(&pre_scaled));
}

#[test]
fn sc_07_a_width_from_hidden_over_heads() {
    // hidden 5120, 128 heads, width 192: 1/√40 used.
    let audit = scaled(Shape::of(1, 2, 23, 29, 192), Storage::F32, 40f64.powf(-0.5)).file().scale("1/sqrt(dk)").audit();
    let finding = only(&audit, Verdict::Fail, Check::Scale);
    close(finding.measured, 0.158_113_88, 1e-5);
    assert!(
        finding.explanation.contains("1/sqrt(40)") && finding.explanation.contains("d = 192"),
        "{}",
        finding.explanation
    );
    // Gemma 2 9B: 224 used, 256 right, 7 % apart, in bf16.
    let gemma =
        scaled(Shape::of(1, 2, 53, 59, 256), Storage::Bf16, 224f64.powf(-0.5)).file().scale("1/sqrt(dk)").audit();
    let finding = only(&gemma, Verdict::Fail, Check::Scale);
    close(finding.measured, 1.0 / 224f64.sqrt(), 0.01);
    assert!(finding.explanation.contains("1/sqrt of a number from 22"), "{}", finding.explanation);
    assert!(finding.standard_error.is_some_and(|error| error > 0.0 && error < 0.002), "{:?}", finding.standard_error);
}

#[test]
fn sc_10_a_configured_scale_that_is_ignored() {
    let layer = |file: crate::definition::File| {
        file.contract(|contract| contract.layer = Some(5.0)).scale("1/sqrt(dk)/(layer+1)")
    };
    let audit = layer(scaled(EIGHT_HEADS, Storage::F32, 0.125).file()).audit();
    let finding = only(&audit, Verdict::Fail, Check::Scale);
    close(finding.measured, 0.125, 1e-5);
    close(finding.expected, 0.125 / 6.0, 1e-9);
    assert!(
        finding.explanation.contains("1/sqrt(64)") && finding.explanation.contains("6.000 times too large"),
        "{}",
        finding.explanation
    );
    assert!(finding.cause.contains("ratio is 6.000 = layer + 1"), "{}", finding.cause);
    sound(&layer(scaled(EIGHT_HEADS, Storage::F32, 0.125 / 6.0).file()).audit());
}

#[test]
fn sc_11_a_scale_of_1_is_a_contract_of_its_own() {
    let shape = Shape::of(1, 2, 31, 37, 256);
    let mut case = Case::draw(12, shape, Storage::F32);
    // Unit RMS per vector, so that raw logits stay moderate.
    for vectors in [&mut case.q, &mut case.k] {
        vectors.iter_mut().for_each(|entry| *entry /= 16.0);
    }
    let meant = case.clone().attend(&|_, _, _, _, raw| raw);
    let warned = only(&meant.file().audit(), Verdict::Warn, Check::Scale);
    close(warned.measured, 1.0, 1e-5);
    assert!(warned.cause.contains("pass --scale '1'"), "{}", warned.cause);
    sound(&meant.file().scale("1").audit());
    let forced = case.attend(&|_, _, _, _, raw| raw / 16.0);
    let finding = only(&forced.file().scale("1").audit(), Verdict::Fail, Check::Scale);
    close(finding.measured, 0.0625, 1e-5);
    assert!(finding.explanation.contains("1/sqrt(256)"), "{}", finding.explanation);
}

#[test]
fn sc_12_false_alarm_of_a_scale_split_between_q_and_k() {
    let case = scaled(EIGHT_HEADS, Storage::F32, 0.125);
    let plain = case.file().audit();
    sound(&plain);
    assert_eq!(verdict(&plain, Check::Scale), Verdict::Pass);
    // Q·d^(−1/4) and K·d^(−1/4) dumped: the scale is 1 on top, declared as such.
    let mut split = Case::draw(11, EIGHT_HEADS, Storage::F32);
    let quarter = 64f64.powf(-0.25);
    split.q.iter_mut().chain(&mut split.k).for_each(|entry| *entry = Storage::F32.round(*entry * quarter));
    let audit = split.attend(&|_, _, _, _, raw| raw).file().scale("1").audit();
    sound(&audit);
    let note = audit.of(Check::Scale).next().expect("a scale").symptoms.join(" ");
    assert!(note.contains("split between Q and K") && note.contains("0.354"), "{note}");
    // The same permutation of channels in Q and K changes nothing.
    let mut permuted = case.clone();
    for vectors in [&mut permuted.q, &mut permuted.k] {
        vectors.chunks_mut(64).for_each(|vector| vector.rotate_left(17));
    }
    sound(&permuted.file().audit());
}

#[test]
fn sc_13_soft_caps() {
    let capped = |form: &dyn Fn(f64) -> f64| {
        // Logits up to 100 at c 50: entries three times unit size.
        let case = Case::draw_with_size(13, Shape::of(1, 2, 31, 37, 64), Storage::F32, 4.0);
        case.attend(&|_, _, _, _, raw| form(0.125 * raw)).file().contract(|contract| contract.softcap = Some(50.0))
    };
    let right = capped(&|x| 50.0 * (x / 50.0).tanh());
    sound(&right.audit());
    let ignored = only(&capped(&|x| x).audit(), Verdict::Fail, Check::Softcap);
    assert!(ignored.explanation.contains("no curvature"), "{}", ignored.explanation);
    let times = only(&capped(&|x| x * (x / 50.0).tanh()).audit(), Verdict::Fail, Check::Softcap);
    assert!(times.explanation.contains("x·tanh(x/C)"), "{}", times.explanation);
    let order = only(&capped(&|x| 0.125 * 50.0 * (8.0 * x / 50.0).tanh()).audit(), Verdict::Fail, Check::Softcap);
    assert!(order.explanation.contains("before the scale"), "{}", order.explanation);
    let undeclared = capped(&|x| 50.0 * (x / 50.0).tanh()).contract(|contract| contract.softcap = None);
    let warned = only(&undeclared.audit(), Verdict::Warn, Check::Softcap);
    close(warned.measured, 50.0, 1e-12);
    // A cap that no published model has, in single and in half precision.
    for (storage, cap) in [(Storage::F32, 37.0), (Storage::F32, 8.25), (Storage::F16, 14.0)] {
        let case = Case::draw_with_size(13, Shape::of(1, 2, 31, 37, 64), storage, 4.0);
        let file = case.attend(&|_, _, _, _, raw| cap * (0.125 * raw / cap).tanh()).file();
        close(only(&file.audit(), Verdict::Warn, Check::Softcap).measured, cap, 0.01);
    }
    // The mask added before tanh: masked keys keep exp(−c − lse). At c 5 it is visible.
    let shape = Shape::of(1, 2, 13, 13, 16);
    let case = Case::draw(14, shape, Storage::F32)
        .attend(&|_, _, i, j, raw| if j <= i { 5.0 * (0.25 * raw / 5.0).tanh() } else { -5.0 });
    let file = case.file().contract(|contract| {
        contract.softcap = Some(5.0);
        contract.causal = Some(attn::diagnosis::contract::Declared::Default(attn::attention::Alignment::TopLeft));
    });
    let audit = file.audit();
    let on_mask = audit.of(Check::Softcap).find(|f| f.verdict == Verdict::Fail);
    assert!(on_mask.is_some_and(|f| f.explanation.contains("applied to the mask")), "{}", shown(&audit));
}

#[test]
fn the_scale_is_recovered_to_1e_5_in_f32_and_half_types_tell_64_from_65_where_they_can() {
    for used in [0.125, 0.3, 1.0] {
        let audit = scaled(Shape::of(1, 1, 31, 37, 64), Storage::F32, used).file().scale(&used.to_string()).audit();
        let scale = audit.of(Check::Scale).next().expect("a scale");
        assert_eq!(scale.verdict, Verdict::Pass, "{}", shown(&audit));
        close(scale.measured, used, 1e-5);
    }
    // 1/√65 where 1/√64 is declared: 0.8 % apart.
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let audit = scaled(Shape::of(1, 1, 211, 223, 64), storage, 65f64.powf(-0.5)).file().scale("1/sqrt(dk)").audit();
        let finding = only(&audit, Verdict::Fail, Check::Scale);
        close(finding.measured, 65f64.powf(-0.5), 0.004);
    }
    // Twelve weights in bf16 do not tell them apart, whichever was used.
    for used in [64f64.powf(-0.5), 65f64.powf(-0.5)] {
        let audit = scaled(Shape::of(1, 1, 3, 4, 64), Storage::Bf16, used).file().scale("1/sqrt(dk)").audit();
        assert_eq!(verdict(&audit, Check::Scale), Verdict::CannotTell, "{}", shown(&audit));
    }
}

#[test]
fn one_key_says_nothing_of_the_scale() {
    let audit = scaled(Shape::of(1, 2, 7, 1, 16), Storage::F32, 3.0).file().audit();
    sound(&audit);
    assert_eq!(verdict(&audit, Check::Scale), Verdict::CannotTell);
}

#[test]
fn a_wrong_scale_in_one_head_of_one_batch_entry_is_placed_there() {
    let case = Case::draw(15, Shape::of(2, 3, 11, 13, 16), Storage::F32)
        .attend(&|b, h, _, _, raw| if (b, h) == (1, 2) { 0.5 * raw } else { 0.25 * raw });
    let finding = only(&case.file().scale("1/sqrt(dk)").audit(), Verdict::Fail, Check::Scale);
    assert_eq!(finding.place, Place::Heads(vec![(1, 2)]));
}

#[test]
fn without_weights_the_scale_is_read_off_the_output() {
    // Keys not more than d_v: weights by least squares. More keys: the definition with every likely scale.
    for keys in [13, 41] {
        let shape = Shape { value_width: 17, ..Shape::of(1, 2, 31, keys, 16) };
        let case = Case::draw(16, shape, Storage::F32).attend(&|_, _, _, _, raw| raw);
        let finding =
            only(&case.file().without(Role::Weights).scale("1/sqrt(dk)").audit(), Verdict::Fail, Check::Scale);
        close(finding.measured, 1.0, 1e-3);
        let right = Case::draw(16, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
        let audit = right.file().without(Role::Weights).audit();
        sound(&audit);
        assert_eq!(verdict(&audit, Check::Scale), Verdict::Pass, "{}", shown(&audit));
        close(audit.of(Check::Scale).next().expect("a scale").measured, 0.25, 1e-3);
    }
}

#[test]
fn logits_in_the_file_are_held_against_the_scaled_products() {
    let case = scaled(Shape::of(1, 2, 13, 17, 16), Storage::F32, 0.25);
    let with = |factor: f64| {
        let cells =
            (0..2 * 13 * 17).map(|cell| factor * case.raw(0, cell / 221, cell / 221, cell % 221 / 17, cell % 17));
        case.file().scale("1/sqrt(dk)").with(Role::Logits, [1, 2, 13, 17], Storage::F32, cells.collect()).audit()
    };
    sound(&with(0.25));
    let finding = only(&with(1.0), Verdict::Fail, Check::Scale);
    close(finding.measured, 1.0, 1e-6);
    assert!(finding.explanation.contains("the logits in the file are"), "{}", finding.explanation);
}

#[test]
fn logits_far_below_a_declared_cap_do_not_show_it_and_rows_that_are_one_hot_are_told() {
    let with = |size: f64| {
        let case = Case::draw_with_size(17, Shape::of(1, 2, 13, 17, 16), Storage::F32, size);
        case.attend(&|_, _, _, _, raw| 50.0 * (0.25 * raw / 50.0).tanh())
            .file()
            .contract(|contract| contract.softcap = Some(50.0))
            .audit()
    };
    let small = with(0.05);
    sound(&small);
    assert_eq!(verdict(&small, Check::Softcap), Verdict::CannotTell);
    assert_eq!(verdict(&with(2.0), Check::Softcap), Verdict::Pass);
    // Q and K 24 times as large as i.i.d. entries of unit variance: logits of standard deviation 576.
    let case = Case::draw_with_size(18, Shape::of(1, 2, 31, 37, 16), Storage::F32, 24.0);
    let warned = only(&case.attend(&|_, _, _, _, raw| 0.25 * raw).file().audit(), Verdict::Warn, Check::Saturation);
    assert!(warned.explanation.contains("of the rows are one-hot"), "{}", warned.explanation);
}

#[test]
fn logits_of_another_head_and_logits_with_noise_are_no_multiple_of_the_products() {
    let shape = Shape::of(1, 3, 11, 13, 16);
    let case = Case::draw(91, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let logits = |head: &dyn Fn(usize) -> usize, noise: f64| {
        let mut draws = Draws(92);
        let mut numbers = Vec::new();
        for h in 0..3 {
            for i in 0..11 {
                for j in 0..13 {
                    let other = head(h);
                    numbers.push(Storage::F32.round(0.25 * case.raw(0, other, other, i, j) + noise * draws.normal()));
                }
            }
        }
        numbers
    };
    let with = |numbers: Vec<f64>| case.file().with(Role::Logits, [1, 3, 11, 13], Storage::F32, numbers);
    sound(&with(logits(&|h| h, 0.0)).audit());
    for numbers in [logits(&|h| (h + 1) % 3, 0.0), logits(&|h| h, 0.01)] {
        let finding = only(&with(numbers).audit(), Verdict::Fail, Check::Scale);
        assert!(finding.explanation.contains("no multiple of QKᵀ"), "{}", finding.explanation);
    }
    // After the mask: hidden logits are -inf, or a large negative number.
    for fill in [f64::NEG_INFINITY, -1e9] {
        let causal = case.clone().attend(&|_, _, i, j, raw| if j <= i { 0.25 * raw } else { f64::NEG_INFINITY });
        let mut masked = logits(&|h| h, 0.0);
        for (cell, logit) in masked.iter_mut().enumerate() {
            let (i, j) = (cell / 13 % 11, cell % 13);
            *logit = if j <= i { *logit } else { fill };
        }
        let file = causal.file().with(Role::Logits, [1, 3, 11, 13], Storage::F32, masked);
        sound(&file.contract(|c| c.causal = Some(Declared::Yes(Alignment::TopLeft))).audit());
    }
}

#[test]
fn a_turned_sign_has_its_name_and_weights_of_no_logits_have_scale_0() {
    let case = Case::draw(93, Shape::of(1, 2, 37, 41, 16), Storage::F32);
    let turned = case.clone().attend(&|_, _, _, _, raw| -0.25 * raw);
    for file in [turned.file(), turned.file().without(Role::Weights)] {
        let finding = only(&file.audit(), Verdict::Fail, Check::Scale);
        assert!(finding.explanation.contains("= -1/sqrt(dk)"), "{}", finding.explanation);
        assert!(finding.cause.contains("minus sign"), "{}", finding.cause);
    }
    let even = case.attend(&|_, _, _, _, _| 0.0);
    let finding = only(&even.file().audit(), Verdict::Fail, Check::Scale);
    assert!(finding.explanation.contains("do not depend on QKᵀ"), "{}", finding.explanation);
}

#[test]
fn weights_of_another_origin_get_no_scale() {
    let shape = Shape::of(1, 1, 23, 29, 16);
    let case = Case::draw(94, shape, Storage::F32);
    let other = Case::draw(95, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let foreign = Case { p: other.p, ..case };
    let audit = foreign.file().without(Role::Values).audit();
    only(&audit, Verdict::Fail, Check::Precision);
    assert_eq!(audit.of(Check::Scale).count(), 0, "{}", shown(&audit));
    // The table of heads uses the contract's scale, 1/4.
    assert!((audit.heads[0].scaled_variance / audit.heads[0].raw_variance - 0.0625).abs() < 1e-6);
}
