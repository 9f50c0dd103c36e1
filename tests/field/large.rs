//! What holds for heads of any size, shown on small ones: fits on some of the rows, blocks of rows, threads, progress.

use std::sync::Mutex;

use attn::attention::Alignment;
use attn::diagnosis::arrays::{ArraySource, Role};
use attn::diagnosis::audit::{Audit, audit_with};
use attn::diagnosis::contract::Declared;
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, File, Shape, only, sound};

/// More rows than three blocks of any size up to 64, and than one step of progress.
const TALL: Shape = Shape::of(1, 2, 263, 67, 16);

fn causal(file: File) -> File {
    file.contract(|contract| contract.causal = Some(Declared::Yes(Alignment::TopLeft)))
}

fn attended(scale: f64) -> Case {
    Case::draw(7, TALL, Storage::F16).attend(&|_, _, i, j, raw| if j <= i { scale * raw } else { f64::NEG_INFINITY })
}

/// Every number and word of an audit, as it would be shown.
fn words(audit: &Audit) -> String {
    format!("{:?}\n{:?}", audit.findings, audit.heads)
}

#[test]
fn a_fit_on_some_rows_says_so_and_one_on_all_does_not() {
    let sampled = causal(attended(1.0 / 16.0).file()).scale("1/sqrt(dk)").audit_fitted_on(13 * TALL.keys);
    let finding = only(&sampled, Verdict::Fail, Check::Scale);
    assert!((finding.measured.expect("a number") - 1.0 / 16.0).abs() < 1e-4, "{finding:?}");
    // 13 rows, and the first and the last that leave the contract, and the worst, of which some are in the sample already.
    let said =
        finding.symptoms.iter().find(|text| text.contains("of 263 rows, spread evenly")).expect("the sample in words");
    let rows: usize = said.split(' ').nth(2).and_then(|word| word.parse().ok()).expect("a number of rows");
    assert!((13..=16).contains(&rows), "{said}");
    let whole = causal(attended(1.0 / 16.0).file()).scale("1/sqrt(dk)").audit();
    assert!(only(&whole, Verdict::Fail, Check::Scale).symptoms.iter().all(|text| !text.contains("rows, spread")));
}

#[test]
fn one_wrong_weight_between_the_rows_of_a_fit_is_found() {
    sound(&causal(attended(0.25).file()).audit_fitted_on(2 * TALL.keys));
    let mut case = attended(0.25);
    // Row 101 of head 1: the sample holds rows 0 and 262.
    case.p[(TALL.queries + 101) * TALL.keys + 5] += 0.01;
    let audit = causal(case.file().without(Role::Output)).audit_fitted_on(2 * TALL.keys);
    let finding = only(&audit, Verdict::Fail, Check::Precision);
    assert_eq!(finding.cell, Some((101, Some(5))), "{finding:?}");
    assert!((finding.measured.expect("a number") - 0.01).abs() < 1e-4, "{finding:?}");
}

#[test]
fn threads_change_no_bit() {
    let file = || causal(attended(0.3).file()).scale("1/sqrt(dk)");
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| (words(&file().audit()), words(&file().audit_fitted_on(5 * TALL.keys))))
    };
    let alone = on(1);
    for threads in [2, 5] {
        assert_eq!(on(threads), alone, "{threads} threads");
    }
}

#[test]
fn progress_moves_within_a_head_and_ends_at_all() {
    let heard = Mutex::new(Vec::new());
    let file = causal(attended(0.25).file());
    let source = ArraySource::new(file.arrays, &file.contract, file.mask_kind).expect("arrays that fit");
    audit_with(&source, &file.contract, 1 << 20, &|done, of| heard.lock().expect("no panic").push((done, of)))
        .expect("readable");
    // 256 rows, and what comes after them, of each of two heads.
    assert_eq!(heard.into_inner().expect("no panic"), [(1, 4), (2, 4), (3, 4), (4, 4)]);
}
