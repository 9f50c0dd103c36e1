//! Kind heads: HE-02, order, grouped keys.

use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::{Declared, GroupOrder};
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Shape, only, shown, sound, verdict};

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
