//! Kinds softmax axis and normalisation: NO-01 to NO-07.

use attn::diagnosis::arrays::Role;
use attn::diagnosis::finding::{Check, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, Draws, Shape, close, only, shown, sound};

/// Softmax along the axis whose index `of` gives cells of one sum the same number.
fn softmax_along(case: &Case, scale: f64, of: impl Fn(usize, usize, usize, usize) -> usize) -> Vec<f64> {
    let s = case.shape;
    let mut cells = Vec::new();
    for b in 0..s.batches {
        for h in 0..s.heads {
            for i in 0..s.queries {
                for j in 0..s.keys {
                    cells.push((of(b, h, i, j), (scale * case.raw(b, h, h, i, j)).exp()));
                }
            }
        }
    }
    let mut totals = std::collections::BTreeMap::new();
    cells.iter().for_each(|(group, e)| *totals.entry(*group).or_insert(0.0) += e);
    cells.iter().map(|(group, e)| e / totals[group]).collect()
}

#[test]
fn no_01_softmax_over_the_batch_axis() {
    // Q (1,1,3), K (1,2,3): every weight is 1, each row sums to the number of keys.
    let mut one = Case::draw(21, Shape::of(1, 1, 1, 2, 3), Storage::F32);
    one.p = vec![1.0, 1.0];
    let finding = only(&one.file().audit(), Verdict::Fail, Check::Normalisation);
    close(finding.measured, 2.0, 1e-12);
    assert!(finding.explanation.contains("batch axis"), "{}", finding.explanation);
    let mut several = Case::draw(22, Shape::of(5, 2, 3, 7, 11), Storage::F32);
    several.p = softmax_along(&several, 0.3, |_, h, i, j| (h * 100 + i) * 100 + j);
    let finding = only(&several.file().without(Role::Output).audit(), Verdict::Fail, Check::Normalisation);
    assert!(finding.explanation.contains("sums along the batch axis are 1"), "{}", finding.explanation);
    let mut heads = Case::draw(23, Shape::of(2, 5, 3, 7, 11), Storage::F32);
    heads.p = softmax_along(&heads, 0.3, |b, _, i, j| (b * 100 + i) * 100 + j);
    let finding = only(&heads.file().audit(), Verdict::Fail, Check::Normalisation);
    assert!(finding.explanation.contains("sums along the head axis are 1"), "{}", finding.explanation);
}

#[test]
fn no_03_softmax_over_the_query_axis_and_its_false_alarm() {
    for (queries, keys) in [(11, 13), (13, 13)] {
        let mut case = Case::draw(24, Shape::of(1, 3, queries, keys, 16), Storage::F32);
        case.p = softmax_along(&case, 0.25, |_, h, _, j| h * 100 + j);
        case.o = case.times_values(&case.p);
        let finding = only(&case.file().audit(), Verdict::Fail, Check::Normalisation);
        assert!(finding.explanation.contains("query axis"), "{}", finding.explanation);
        sound(
            &Case::draw(24, Shape::of(1, 3, queries, keys, 16), Storage::F32)
                .attend(&|_, _, _, _, raw| 0.25 * raw)
                .file()
                .audit(),
        );
    }
}

#[test]
fn no_06_log_sum_exp_in_another_unit() {
    let shape = Shape::of(1, 2, 11, 13, 16);
    let case = Case::draw(25, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let lse: Vec<f64> = (0..2)
        .flat_map(|h| (0..11).map(move |i| (h, i)))
        .map(|(h, i)| (0..13).map(|j| (0.25 * case.raw(0, h, h, i, j)).exp()).sum::<f64>().ln())
        .collect();
    let with = |numbers: Vec<f64>| case.file().with(Role::LogSumExp, [1, 2, 1, 11], Storage::F32, numbers).audit();
    sound(&with(lse.clone()));
    let base_2 =
        only(&with(lse.iter().map(|value| value / std::f64::consts::LN_2).collect()), Verdict::Fail, Check::Lse);
    close(base_2.measured, 1.0 / std::f64::consts::LN_2, 1e-6);
    assert!(base_2.explanation.contains("base-2"), "{}", base_2.explanation);
    let offset =
        only(&with(lse.iter().map(|value| value + std::f64::consts::LN_2).collect()), Verdict::Fail, Check::Lse);
    close(offset.measured, std::f64::consts::LN_2, 1e-5);
    let centred: Vec<f64> = lse
        .iter()
        .enumerate()
        .map(|(row, value)| {
            value - (0..13).map(|j| 0.25 * case.raw(0, row / 11, row / 11, row % 11, j)).sum::<f64>() / 13.0
        })
        .collect();
    let finding = only(&with(centred), Verdict::Fail, Check::Lse);
    assert!(finding.explanation.contains("K was centred"), "{}", finding.explanation);
    // The row's maximum not added back; and one row off, which is none of these.
    let largest =
        |row: usize| (0..13).map(|j| 0.25 * case.raw(0, row / 11, row / 11, row % 11, j)).fold(f64::MIN, f64::max);
    let bare = lse.iter().enumerate().map(|(row, value)| value - largest(row)).collect();
    let finding = only(&with(bare), Verdict::Fail, Check::Lse);
    assert!(finding.explanation.contains("maximum was not added back"), "{}", finding.explanation);
    let mut other = lse;
    other[5] += 0.5;
    let finding = only(&with(other), Verdict::Fail, Check::Lse);
    assert!(finding.explanation.contains("by up to 0.5"), "{}", finding.explanation);
}

#[test]
fn no_07_dropout_in_evaluation() {
    let mut case = Case::draw(26, Shape::of(1, 4, 23, 29, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let mut draws = Draws(27);
    case.p.iter_mut().for_each(|weight| *weight = if draws.uniform() < 0.1 { 0.0 } else { *weight / 0.9 });
    case.o = case.times_values(&case.p);
    let audit = case.file().audit();
    let finding = only(&audit, Verdict::Fail, Check::Dropout);
    close(finding.measured, 0.1, 1e-3);
    assert!(finding.explanation.contains("1.1111x softmax"), "{}", finding.explanation);
    let trained = case.file().contract(|contract| contract.dropout = Some(0.1)).audit();
    sound(&trained);
    assert!(trained.of(Check::Dropout).any(|f| f.verdict == Verdict::Pass), "{}", shown(&trained));
    // Declared, and dumped before it: told. A probability of 0 promises nothing.
    let right = Case::draw(26, Shape::of(1, 1, 7, 11, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let declared = |p: f64| right.file().contract(|contract| contract.dropout = Some(p)).audit();
    assert!(declared(0.1).of(Check::Dropout).any(|f| f.explanation.contains("no weight is dropped")));
    assert_eq!(declared(0.0).of(Check::Dropout).count(), 0);
    // One visible key: 0 or 1.1111.
    let mut one = Case::draw(28, Shape::of(1, 1, 37, 1, 16), Storage::F32);
    one.p = (0..37).map(|_| if draws.uniform() < 0.1 { 0.0 } else { 1.0 / 0.9 }).collect();
    let finding = only(&one.file().audit(), Verdict::Fail, Check::Dropout);
    close(finding.measured, 0.1, 1e-3);
}
