//! Kind heads: HE-02, order, grouped keys.

use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::{Declared, GroupOrder};
use attn::diagnosis::finding::{Check, Place, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Logit, Shape, only, shown, sound, verdict};

#[test]
fn he_02_heads_joined_without_changing_axes() {
    for (heads, n) in [(2, 2), (3, 7), (4, 4)] {
        let shape = Shape::of(1, heads, n, 5, 8);
        let case = Case::draw(61, shape, Storage::F32).attend(&|_, _, _, _, raw| raw / 8f64.sqrt());
        sound(&case.file().audit());
        // (heads, n, d) read as (n, heads, d): token t of head h is row t·H + h of the buffer.
        let width = 8;
        let mut mixed = Vec::new();
        for head in 0..heads {
            for token in 0..n {
                let row = token * heads + head;
                mixed.extend_from_slice(&case.o[row * width..(row + 1) * width]);
            }
        }
        let file = case.file().with(Role::Output, [1, heads, n, width], Storage::F32, mixed);
        let finding = only(&file.audit(), Verdict::Fail, Check::Heads);
        assert!(finding.explanation.contains("reshaped without transpose (exact)"), "{}", finding.explanation);
        assert!(finding.cause.contains("without swapping axes"), "{}", finding.cause);
    }
    // One head or one token: nothing to tell.
    let one = Case::draw(61, Shape::of(1, 1, 7, 5, 8), Storage::F32).attend(&|_, _, _, _, raw| raw / 8f64.sqrt());
    assert_eq!(verdict(&one.file().audit(), Check::Heads), Verdict::CannotTell);
}

#[test]
fn heads_in_another_order_are_named() {
    let case = Case::draw(62, Shape::of(1, 3, 11, 13, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let mut turned = case.clone();
    turned.p.rotate_left(11 * 13);
    turned.o = Vec::new();
    let audit = turned.file().audit();
    let permuted: Vec<_> = audit.of(Check::Heads).filter(|f| f.verdict == Verdict::Fail).collect();
    assert_eq!(permuted.len(), 1, "{}", shown(&audit));
    assert!(permuted[0].explanation.contains("are those of Q of head"), "{}", permuted[0].explanation);
    only(&audit, Verdict::Fail, Check::Heads);
}

#[test]
fn grouped_keys_shared_by_tiling_instead_of_repeating() {
    // 6 query heads, 2 key heads: repeat 0 0 0 1 1 1, tile 0 1 0 1 0 1.
    let shape = Shape { key_heads: 2, ..Shape::of(1, 6, 11, 13, 16) };
    let case = Case::draw(63, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    sound(&case.file().audit());
    let mut tiled = case.clone();
    let raw = |h: usize, i: usize, j: usize| case.raw(0, h, h % 2, i, j);
    tiled.p = Vec::new();
    for h in 0..6 {
        for i in 0..11 {
            let e: Vec<f64> = (0..13).map(|j| (0.25 * raw(h, i, j)).exp()).collect();
            let total: f64 = e.iter().sum();
            tiled.p.extend(e.iter().map(|e| e / total));
        }
    }
    tiled.o = Vec::new();
    let audit = tiled.file().audit();
    let finding = only(&audit, Verdict::Warn, Check::Heads);
    assert!(finding.cause.contains("--kv-groups tile"), "{}", finding.cause);
    sound(&tiled.file().contract(|contract| contract.groups = Declared::Yes(GroupOrder::Tile)).audit());
    let declared = tiled.file().contract(|contract| contract.groups = Declared::Yes(GroupOrder::Repeat)).audit();
    only(&declared, Verdict::Fail, Check::Heads);
}

/// Attention whose 6 query heads use keys and values 0 1 0 1 0 1.
fn tiled(seed: u64, storage: Storage, logit: Logit<'_>) -> Case {
    let shape = Shape { key_heads: 2, ..Shape::of(1, 6, 37, 37, 16) };
    let shared = Case::draw(seed, shape, storage);
    let mut each = Case { shape: Shape { key_heads: 6, ..shape }, ..shared.clone() };
    (each.k, each.v) = (shared.k.repeat(3), shared.v.repeat(3));
    let each = each.attend(logit);
    Case { p: each.p, o: each.o, ..shared }
}

#[test]
fn an_undeclared_tiling_is_the_only_warning_whatever_is_in_the_file() {
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let case = tiled(64, storage, &|_, _, _, _, raw| 0.25 * raw);
        let (all, weights) = (case.file(), case.file().without(Role::Values).without(Role::Output));
        for file in [all, weights, case.file().without(Role::Weights)] {
            let finding = only(&file.audit(), Verdict::Warn, Check::Heads);
            assert!(finding.cause.contains("--kv-groups tile"), "{}", finding.cause);
            // Repeat is 0 0 0 1 1 1: only heads 1 and 4 use other keys.
            assert_eq!(finding.place, Place::Heads(vec![(0, 1), (0, 4)]));
        }
    }
    // Beside another thing that was not declared.
    let hide = |i: usize, j: usize, raw: f64| if j <= i { 0.25 * raw } else { f64::NEG_INFINITY };
    let case = tiled(65, Storage::F32, &|_, _, i, j, raw| hide(i, j, raw));
    for file in [case.file(), case.file().without(Role::Weights)] {
        let audit = file.audit();
        let alarms: Vec<_> = audit.findings.iter().filter(|f| f.verdict < Verdict::CannotTell).collect();
        assert!(alarms.iter().all(|f| f.verdict == Verdict::Warn), "{}", shown(&audit));
        let checks: Vec<Check> = alarms.iter().map(|f| f.check).collect();
        assert_eq!(checks, [Check::Causal, Check::Heads], "{}", shown(&audit));
    }
    // Not by the other sharing either.
    let mut wrong = tiled(66, Storage::F32, &|_, _, _, _, raw| 0.25 * raw);
    wrong.o.iter_mut().for_each(|entry| *entry += 0.5);
    assert!(wrong.file().without(Role::Weights).audit().count(Verdict::Fail) > 0);
}

#[test]
fn he_02_an_output_in_the_order_of_tokens_that_was_reshaped() {
    let case = Case::draw(67, Shape::of(2, 3, 7, 5, 8), Storage::F32).attend(&|_, _, _, _, raw| raw / 8f64.sqrt());
    // (n, heads, d) read as (heads, n, d).
    let mut mixed = Vec::new();
    for batch in 0..2 {
        for token in 0..7 {
            for head in 0..3 {
                let row = (batch * 3 + head) * 7 + token;
                mixed.extend_from_slice(&case.o[row * 8..(row + 1) * 8]);
            }
        }
    }
    let file = case.file().with(Role::Output, [2, 3, 7, 8], Storage::F32, mixed);
    let finding = only(&file.audit(), Verdict::Fail, Check::Heads);
    assert!(finding.explanation.contains("(batch, n, heads, d)"), "{}", finding.explanation);
    assert_eq!(finding.place, Place::Heads((0..6).map(|place| (place / 3, place % 3)).collect()));
}

#[test]
fn outputs_in_another_order_than_the_weights_are_named() {
    let case = Case::draw(68, Shape::of(1, 3, 11, 13, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let mut swapped = case.clone();
    swapped.o[..11 * 16].copy_from_slice(&case.o[11 * 16..2 * 11 * 16]);
    swapped.o[11 * 16..2 * 11 * 16].copy_from_slice(&case.o[..11 * 16]);
    let audit = swapped.file().audit();
    let finding = only(&audit, Verdict::Fail, Check::Heads);
    assert!(finding.explanation.contains("is P times V of head"), "{}", finding.explanation);
    assert_eq!(finding.place, Place::Heads(vec![(0, 0), (0, 1)]));
    assert_eq!(finding.symptoms, ["head by head: 0 → 1, 1 → 0"]);
}

#[test]
fn keys_that_are_tiled_beside_values_that_are_repeated_are_a_fault() {
    let shape = Shape { key_heads: 2, ..Shape::of(1, 4, 23, 29, 16) };
    let shared = Case::draw(69, shape, Storage::F32);
    let mut each = Case { shape: Shape { key_heads: 4, ..shape }, ..shared.clone() };
    let half = shared.v.len() / 2;
    each.k = shared.k.repeat(2);
    each.v = [&shared.v[..half], &shared.v[..half], &shared.v[half..], &shared.v[half..]].concat();
    let each = each.attend(&|_, _, _, _, raw| 0.25 * raw);
    let case = Case { p: each.p, o: each.o, ..shared.clone() };
    let finding = only(&case.file().audit(), Verdict::Fail, Check::Heads);
    assert!(finding.explanation.contains("K and V are not shared alike"), "{}", finding.explanation);
    assert_eq!(finding.place, Place::Heads(vec![(0, 1), (0, 2)]));
    // One key: every weight is 1, and only the values tell the order.
    let one = tiled_values_of_one_key();
    let finding = only(&one.file().audit(), Verdict::Warn, Check::Heads);
    assert!(finding.cause.contains("--kv-groups tile"), "{}", finding.cause);
}

fn tiled_values_of_one_key() -> Case {
    let shape = Shape { key_heads: 2, ..Shape::of(1, 4, 5, 1, 16) };
    let shared = Case::draw(70, shape, Storage::F32);
    let mut each = Case { shape: Shape { key_heads: 4, ..shape }, ..shared.clone() };
    (each.k, each.v) = (shared.k.repeat(2), shared.v.repeat(2));
    let each = each.attend(&|_, _, _, _, raw| 0.25 * raw);
    Case { p: each.p, o: each.o, ..shared }
}
