//! Kind mask: MA-01 to MA-13.

use attn::attention::Alignment;
use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::Declared;
use attn::diagnosis::finding::{Check, Place, Verdict};
use attn::diagnosis::given_mask::MaskKind;
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, File, Shape, close, only, shown, sound, verdict};

const HIDDEN: f64 = f64::NEG_INFINITY;

fn masked(shape: Shape, visible: impl Fn(usize, usize) -> bool) -> Case {
    let scale = 1.0 / (shape.width as f64).sqrt();
    Case::draw(31, shape, Storage::F32).attend(&|_, _, i, j, raw| if visible(i, j) { scale * raw } else { HIDDEN })
}

fn causal(file: File) -> File {
    file.contract(|contract| contract.causal = Some(Declared::Default(Alignment::TopLeft)))
}

fn aligned(file: File, alignment: Alignment) -> File {
    file.contract(|contract| contract.causal = Some(Declared::Yes(alignment)))
}

fn additive(n: usize, m: usize, visible: impl Fn(usize, usize) -> bool) -> Vec<f64> {
    (0..n * m).map(|cell| if visible(cell / m, cell % m) { 0.0 } else { HIDDEN }).collect()
}

#[test]
fn ma_01_the_diagonal_is_masked_and_its_false_alarms() {
    let shape = Shape::of(1, 2, 13, 13, 16);
    let case = masked(shape, |i, j| j < i);
    // The first row is NaN in a naive softmax.
    let mut broken = case.clone();
    for head in 0..2 {
        (0..13).for_each(|key| *broken.p_at(0, head, 0, key) = f64::NAN);
    }
    let mask = additive(13, 13, |i, j| j < i);
    let audit =
        causal(broken.file().without(Role::Output)).with(Role::Mask, [1, 1, 13, 13], Storage::F32, mask).audit();
    let finding = audit
        .of(Check::Causal)
        .find(|f| f.verdict == Verdict::Fail)
        .unwrap_or_else(|| panic!("{}", shown(&audit)))
        .clone();
    assert!(finding.explanation.contains("0 of 13 diagonal entries allowed"), "{}", finding.explanation);
    assert!(finding.cause.contains("offset 0"), "{}", finding.cause);
    // Weights alone, zeros for the row without keys.
    let finding = only(&causal(case.file()).audit(), Verdict::Fail, Check::Causal);
    assert!(finding.explanation.contains("diagonal is hidden"), "{}", finding.explanation);
    // triu(diagonal=1) and tril()==0 hide what is after the query: right.
    for hides in [|i: usize, j: usize| j > i, |i: usize, j: usize| (j as f64 - i as f64).max(0.0) != 0.0] {
        let mask = (0..169).map(|cell| f64::from(u8::from(hides(cell / 13, cell % 13)))).collect();
        let file = masked(shape, |i, j| j <= i).file().with(Role::Mask, [1, 1, 13, 13], Storage::F32, mask);
        let audit = causal(file.kind(MaskKind::Hide)).audit();
        sound(&audit);
        assert!(audit.of(Check::Causal).any(|f| f.verdict == Verdict::Pass), "{}", shown(&audit));
    }
}

#[test]
fn ma_02_the_causal_mask_is_transposed() {
    let case = masked(Shape::of(1, 2, 13, 13, 16), |i, j| j >= i);
    let finding = only(&causal(case.file()).audit(), Verdict::Fail, Check::Causal);
    assert!(finding.explanation.contains("mask is transposed"), "{}", finding.explanation);
    // n 3 with the mask in the file: rows [0,0,0], [-inf,0,0], [-inf,-inf,0].
    let mask = additive(3, 3, |i, j| j >= i);
    let case = masked(Shape::of(1, 1, 3, 3, 16), |i, j| j >= i);
    let audit = causal(case.file()).with(Role::Mask, [1, 1, 3, 3], Storage::F32, mask).audit();
    let found = audit
        .of(Check::Causal)
        .find(|f| f.verdict == Verdict::Fail)
        .unwrap_or_else(|| panic!("{}", shown(&audit)))
        .clone();
    assert!(found.explanation.contains("100 % of future keys and 0 % of strictly past keys"), "{}", found.explanation);
    assert!(found.cause.contains("transposed"), "{}", found.cause);
}

#[test]
fn ma_03_a_boolean_mask_with_reversed_meaning() {
    let keeps = |i: usize, j: usize| (i * 7 + j * 3) % 5 < 2;
    let case = masked(Shape::of(1, 2, 11, 13, 16), |i, j| !keeps(i, j));
    let mask: Vec<f64> = (0..143).map(|cell| f64::from(u8::from(keeps(cell / 13, cell % 13)))).collect();
    let with = |file: File| file.with(Role::Mask, [1, 1, 11, 13], Storage::F32, mask.clone());
    let finding = only(&with(case.file()).kind(MaskKind::Keep).audit(), Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("polarity reversed"), "{}", finding.explanation);
    assert_eq!(finding.measured, Some(0.0));
    sound(&with(case.file()).kind(MaskKind::Hide).audit());
    // Guessed, it is only suspicious.
    assert!(only(&with(case.file()).audit(), Verdict::Warn, Check::Mask).cause.contains("--mask-kind"));
}

#[test]
fn ma_05_scores_multiplied_by_the_mask() {
    let shape = Shape::of(1, 2, 5, 6, 16);
    let mask = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    let case = Case::draw(32, shape, Storage::F32).attend(&|_, _, _, j, raw| 0.25 * raw * mask[j]);
    let file = case.file().with(Role::Mask, [1, 1, 1, 6], Storage::F32, mask.to_vec());
    let finding = only(&file.audit(), Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("implied logit of every masked key is 0.000"), "{}", finding.explanation);
    assert!(finding.cause.contains("scores * mask"), "{}", finding.cause);
    // The report's own numbers: masked weights 0.124 each, top weight 0.335. A query of 1 and keys that are the scores.
    let scores = [0.43, -0.21, 0.99, 0.32, -0.35, 0.04];
    let mut own = Case::draw(33, Shape::of(1, 1, 1, 6, 1), Storage::F64);
    (own.q, own.k) = (vec![1.0], scores.to_vec());
    let own = own.attend(&|_, _, _, j, raw| raw * mask[j]);
    assert!((own.p[3] - 0.124).abs() < 5e-4 && (own.p[2] - 0.335).abs() < 5e-4, "{:?}", own.p);
    let file = own.file().scale("1").with(Role::Mask, [1, 1, 1, 6], Storage::F32, mask.to_vec());
    only(&file.audit(), Verdict::Fail, Check::Mask);
}

#[test]
fn ma_08_top_left_against_bottom_right() {
    for (n, m) in [(1, 16), (2, 5), (5, 2), (7, 11)] {
        let shape = Shape::of(1, 4, n, m, 64);
        let top_left = masked(shape, |i, j| j <= i);
        let bottom_right = masked(shape, |i, j| j as i64 <= i as i64 + m as i64 - n as i64);
        sound(&aligned(top_left.file(), Alignment::TopLeft).audit());
        sound(&aligned(bottom_right.file(), Alignment::BottomRight).audit());
        let audit = aligned(top_left.file(), Alignment::BottomRight).audit();
        let finding = audit
            .of(Check::Causal)
            .find(|f| f.verdict == Verdict::Fail)
            .unwrap_or_else(|| panic!("{n} {m}\n{}", shown(&audit)));
        if n > 1 && n < m {
            assert!(finding.explanation.contains("TOP-LEFT"), "{}", finding.explanation);
            close(finding.measured, 1.0, 1e-12);
            close(finding.expected, (m - n + 1) as f64, 1e-12);
        }
        let audit = aligned(bottom_right.file(), Alignment::TopLeft).audit();
        assert!(audit.of(Check::Causal).any(|f| f.verdict == Verdict::Fail), "{n} {m}\n{}", shown(&audit));
    }
    let square = aligned(masked(Shape::of(1, 2, 7, 7, 16), |i, j| j <= i).file(), Alignment::BottomRight).audit();
    sound(&square);
    assert!(square.of(Check::Causal).any(|f| f.verdict == Verdict::CannotTell), "{}", shown(&square));
}

#[test]
fn ma_09_no_causal_mask_on_one_path() {
    let shape = Shape::of(2, 3, 13, 13, 16);
    let leaks = |b: usize, h: usize| (b, h) == (1, 0) || b == 0;
    let case = Case::draw(34, shape, Storage::F32)
        .attend(&|b, h, i, j, raw| if j <= i || leaks(b, h) { 0.25 * raw } else { HIDDEN });
    let audit = causal(case.file()).audit();
    // Entropy is that of the keys with weight, all 13 where the contract is broken: by hand, and never above their logarithm.
    let entropy = |row: &[f64]| row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum::<f64>();
    let leaking = case.p[..13 * 13].chunks(13).map(|row| entropy(row) / 13f64.ln()).sum::<f64>() / 13.0;
    close(audit.heads[0].relative_entropy, leaking, 1e-9);
    assert!(audit.heads.iter().all(|head| head.relative_entropy.is_some_and(|share| share <= 1.0)));
    let finding = only(&audit, Verdict::Fail, Check::Causal);
    assert!(finding.explanation.contains("no causal mask at all"), "{}", finding.explanation);
    assert_eq!(finding.place, Place::Heads(vec![(0, 0), (0, 1), (0, 2), (1, 0)]));
    assert_eq!(finding.cell, Some((0, Some(1))));
    // Future mass, by hand: the mean over rows 0 to 11 of the weight after the diagonal, in the head that the sentence is of.
    assert!(finding.measured.is_some_and(|leak| (0.2..0.8).contains(&leak)), "{:?}", finding.measured);
    // Prefill of 5 tokens without a mask, then decoding.
    let prefill = masked(Shape::of(1, 2, 13, 13, 16), |i, j| j <= i || j < 5);
    let finding = only(&causal(prefill.file()).audit(), Verdict::Fail, Check::Causal);
    assert!(
        finding.explanation.contains("first 5 keys") && finding.cause.contains("prefill"),
        "{}",
        finding.explanation
    );
    // The weights are causal and the output is not: they come from different paths.
    let mut dropped = masked(Shape::of(1, 2, 13, 13, 16), |i, j| j <= i);
    dropped.o = masked(Shape::of(1, 2, 13, 13, 16), |_, _| true).o;
    let finding = only(&causal(dropped.file()).audit(), Verdict::Fail, Check::Output);
    assert!(finding.explanation.contains("different code paths"), "{}", finding.explanation);
    // The output alone shows it as well.
    let blind = masked(Shape::of(1, 2, 23, 23, 16), |_, _| true);
    let finding = only(&causal(blind.file().without(Role::Weights)).audit(), Verdict::Fail, Check::Causal);
    assert!(finding.explanation.contains("no causal mask at all"), "{}", finding.explanation);
}

#[test]
fn ma_10_rows_without_keys_and_nan_in_masked_keys() {
    // 6 queries, 10 keys, the last row masked.
    let shape = Shape::of(1, 1, 6, 10, 16);
    let mask = additive(6, 10, |i, _| i < 5);
    let case = masked(shape, |i, _| i < 5);
    for (convention, number) in [("zeros", 0.0), ("uniform", 0.1), ("NaN", f64::NAN)] {
        let mut case = case.clone();
        (0..10).for_each(|key| *case.p_at(0, 0, 5, key) = number);
        case.o = case.times_values(&case.p);
        let audit = case.file().with(Role::Mask, [1, 1, 6, 10], Storage::F32, mask.clone()).audit();
        if convention == "NaN" {
            let finding = only(&audit, Verdict::Fail, Check::Finite);
            assert!(
                finding.explanation.contains("row (0, 0, 5) has no allowed key: got NaN"),
                "{}",
                finding.explanation
            );
            assert_eq!(finding.cell, Some((5, None)));
        } else {
            sound(&audit);
            let words = &audit.of(Check::Finite).next().expect("a finding").explanation;
            assert!(words.contains(&format!("got {convention}")), "{words}");
        }
    }
    let mut broken = masked(Shape::of(1, 1, 6, 10, 16), |_, j| j != 1);
    broken.v[16] = f64::NAN;
    broken.o = vec![f64::NAN; 6 * 16];
    let hides = additive(1, 10, |_, j| j != 1);
    let finding =
        only(&broken.file().with(Role::Mask, [1, 1, 1, 10], Storage::F32, hides).audit(), Verdict::Fail, Check::Finite);
    assert!(
        finding.explanation.contains("V[1,0]") && finding.explanation.contains("selected away"),
        "{}",
        finding.explanation
    );
}

#[test]
fn ma_11_a_window_off_by_one() {
    let window = |file: File, keys: usize| causal(file).contract(|contract| contract.window = Some(keys));
    for (n, declared) in [(5, 3), (67, 31)] {
        // triu(diagonal = -declared) keeps declared + 1 keys.
        let one_more = masked(Shape::of(1, 2, n, n, 16), |i, j| j <= i && j + declared >= i);
        let finding = only(&window(one_more.file(), declared).audit(), Verdict::Fail, Check::Window);
        close(finding.measured, declared as f64 + 1.0, 1e-12);
        assert!(finding.explanation.contains("off by one"), "{}", finding.explanation);
        let right = masked(Shape::of(1, 2, n, n, 16), |i, j| j <= i && j + declared > i);
        sound(&window(right.file(), declared).audit());
        let none = masked(Shape::of(1, 2, n, n, 16), |i, j| j <= i);
        let finding = only(&window(none.file(), declared).audit(), Verdict::Fail, Check::Window);
        assert!(finding.explanation.contains("without a window"), "{}", finding.explanation);
    }
    let short = window(masked(Shape::of(1, 2, 5, 5, 16), |i, j| j <= i).file(), 7).audit();
    sound(&short);
    assert_eq!(verdict(&short, Check::Window), Verdict::CannotTell);
}

#[test]
fn ma_13_padding_keys_leak() {
    // Lengths 4 and 8, right-padded to 8; then left-padded.
    for left in [false, true] {
        let shape = Shape::of(2, 2, 8, 8, 16);
        let real = move |b: usize, j: usize| b == 1 || if left { j >= 4 } else { j < 4 };
        let padding = (0..16).map(|cell| f64::from(u8::from(real(cell / 8, cell % 8)))).collect::<Vec<_>>();
        let with = |case: &Case| case.file().with(Role::Padding, [2, 1, 1, 8], Storage::F32, padding.clone()).audit();
        let right =
            Case::draw(35, shape, Storage::F32).attend(&|b, _, _, j, raw| if real(b, j) { 0.25 * raw } else { HIDDEN });
        sound(&with(&right));
        let leak = Case::draw(35, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
        let finding = only(&with(&leak), Verdict::Fail, Check::Padding);
        assert_eq!(finding.place, Place::Heads(vec![(0, 0), (0, 1)]));
        assert!(finding.measured.is_some_and(|weight| (0.3..0.7).contains(&weight)), "{:?}", finding.measured);
    }
}

#[test]
fn a_mask_that_comes_too_late_or_is_not_low_enough() {
    let shape = Shape::of(1, 2, 13, 13, 16);
    let visible = |i: usize, j: usize| j <= i;
    let all = masked(shape, |_, _| true);
    // Masked after the softmax: rows sum below 1; divided again it is the same as before the softmax.
    let mut late = all.clone();
    let mut again = all.clone();
    for head in 0..2 {
        for i in 0..13 {
            let sum: f64 = (0..=i).map(|j| *late.p_at(0, head, i, j)).sum();
            for j in 0..13 {
                let weight = *late.p_at(0, head, i, j);
                *late.p_at(0, head, i, j) = if visible(i, j) { weight } else { 0.0 };
                *again.p_at(0, head, i, j) = if visible(i, j) { weight / sum } else { 0.0 };
            }
        }
    }
    late.o = late.times_values(&late.p);
    again.o = again.times_values(&again.p);
    let finding = only(&causal(late.file()).audit(), Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("set to 0 after"), "{}", finding.explanation);
    sound(&causal(again.file()).audit());
    // A fill of −4, and −4 added.
    let fill =
        Case::draw(31, shape, Storage::F32).attend(&|_, _, i, j, raw| if visible(i, j) { 0.25 * raw } else { -4.0 });
    let finding = only(&causal(fill.file()).audit(), Verdict::Fail, Check::Mask);
    close(finding.measured, -4.0, 1e-4);
    let added = Case::draw(31, shape, Storage::F32)
        .attend(&|_, _, i, j, raw| 0.25 * raw + if visible(i, j) { 0.0 } else { -4.0 });
    let finding = only(&causal(added.file()).audit(), Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("keep their logit less 4.000"), "{}", finding.explanation);
    // softmax(scores) + mask.
    let mut after = all.clone();
    for head in 0..2 {
        for i in 0..13 {
            (i + 1..13).for_each(|j| *after.p_at(0, head, i, j) = HIDDEN);
        }
    }
    let finding = only(&causal(after.file().without(Role::Output)).audit(), Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("added after the softmax"), "{}", finding.explanation);
}

#[test]
fn masks_that_nobody_declared_are_named_with_their_option() {
    let causal = masked(Shape::of(1, 2, 13, 13, 16), |i, j| j <= i);
    assert!(only(&causal.file().audit(), Verdict::Warn, Check::Causal).cause.contains("--causal"));
    let window = masked(Shape::of(1, 2, 13, 13, 16), |i, j| j <= i && j + 4 > i);
    assert!(only(&window.file().audit(), Verdict::Warn, Check::Window).cause.contains("--window 4"));
}

#[test]
fn a_padding_mask_beside_a_declared_rule_is_no_contradiction() {
    // Both hide; the file's mask shows future keys, which the rule hides, and hides past ones, which the rule shows.
    let shape = Shape::of(1, 2, 13, 13, 16);
    let padding = additive(13, 13, |_, j| (2..13).contains(&j));
    let both = masked(shape, |i, j| j <= i && j >= 2);
    sound(&causal(both.file()).with(Role::Mask, [1, 1, 13, 13], Storage::F32, padding).audit());
}

#[test]
fn a_mask_of_few_tokens_looks_like_a_rule_by_chance() {
    for (n, warned) in [(3, false), (5, true)] {
        let turned = |i: usize, j: usize| j >= i;
        let case = masked(Shape::of(1, 2, n, n, 16), turned);
        let audit = case.file().with(Role::Mask, [1, 1, n, n], Storage::F32, additive(n, n, turned)).audit();
        if warned {
            assert!(only(&audit, Verdict::Warn, Check::Causal).explanation.contains("mask in the file"));
        } else {
            sound(&audit);
        }
    }
}
