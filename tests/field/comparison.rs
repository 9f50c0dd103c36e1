//! Two dumps of one attention, for the entries that one dump cannot show: SC-05, SC-10, SC-12, NO-06, NO-07, MA-09, MA-13, PO-02, PO-07, CA-02,
//! UX-03, UX-07, and false alarms (PR-07).

use attn::diagnosis::arrays::Role;
use attn::diagnosis::comparison::{Comparison, Dump, compare};
use attn::diagnosis::contract::{Declared, Rotary, RotaryLayout};
use attn::diagnosis::finding::{Check, Finding, Place, Verdict};
use attn::diagnosis::matrix::Storage;
use attn::diagnosis::scale_expression::ScaleExpression;

use crate::definition::{Case, Draws, File, Shape, close};

const SHAPE: Shape = Shape::of(1, 3, 13, 17, 16);

fn dump(file: File) -> Dump {
    Dump { arrays: file.arrays, contract: file.contract }
}

fn against(own: File, reference: File) -> Comparison {
    compare(&dump(own), &dump(reference), &|_, _| {}).expect("comparable")
}

fn shown(found: &Comparison) -> String {
    let lines = found.findings.iter().map(|f| {
        format!(
            "{} {} [{}] {:?} {:?} {:?}: {} | {}",
            f.verdict, f.check, f.key, f.measured, f.place, f.cell, f.explanation, f.cause
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The only FAIL or WARN.
#[track_caller]
fn only(found: &Comparison, verdict: Verdict, check: Check) -> Finding {
    let alarms: Vec<&Finding> =
        found.findings.iter().filter(|f| matches!(f.verdict, Verdict::Fail | Verdict::Warn)).collect();
    assert!(
        alarms.len() == 1 && (alarms[0].verdict, alarms[0].check) == (verdict, check),
        "expected {verdict} {check} alone\n{}",
        shown(found)
    );
    alarms[0].clone()
}

#[track_caller]
fn all_pass(found: &Comparison) {
    assert!(found.findings.iter().all(|f| f.verdict == Verdict::Pass), "\n{}", shown(found));
}

#[track_caller]
fn of(found: &Comparison, check: Check) -> Finding {
    let own: Vec<&Finding> = found.findings.iter().filter(|f| f.check == check).collect();
    assert_eq!(own.len(), 1, "{check}\n{}", shown(found));
    own[0].clone()
}

fn all_heads(shape: Shape) -> Place {
    Place::Heads((0..shape.batches).flat_map(|batch| (0..shape.heads).map(move |head| (batch, head))).collect())
}

fn right(seed: u64, shape: Shape, storage: Storage) -> Case {
    let scale = 1.0 / (shape.width as f64).sqrt();
    Case::draw(seed, shape, storage).attend(&|_, _, _, _, raw| scale * raw)
}

fn causal(case: Case) -> Case {
    let (scale, ahead) = (1.0 / (case.shape.width as f64).sqrt(), case.shape.keys as i64 - case.shape.queries as i64);
    case.attend(&|_, _, i, j, raw| if j as i64 <= i as i64 + ahead { scale * raw } else { f64::NEG_INFINITY })
}

/// Rows of every head, turned by `by(row)` positions, half-split, base 10000.
fn turned(numbers: &[f64], rows: usize, width: usize, by: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let mut turned = numbers.to_vec();
    for (index, row) in turned.chunks_mut(width).enumerate() {
        for pair in 0..width / 2 {
            let angle = by(index % rows) * 10_000f64.powf(-2.0 * pair as f64 / width as f64);
            let (a, b) = (row[pair], row[pair + width / 2]);
            row[pair] = a * angle.cos() - b * angle.sin();
            row[pair + width / 2] = a * angle.sin() + b * angle.cos();
        }
    }
    turned
}

/// Channel c of every row is channel `order(c)`.
fn permuted(numbers: &[f64], width: usize, order: &dyn Fn(usize) -> usize) -> Vec<f64> {
    numbers.chunks(width).flat_map(|row| (0..width).map(|channel| row[order(channel)]).collect::<Vec<_>>()).collect()
}

fn rounded(numbers: &[f64], storage: Storage) -> Vec<f64> {
    numbers.iter().map(|&number| storage.round(number)).collect()
}

/// The same Q, K, V in a narrower type, attended to in it.
fn narrower(case: &Case, storage: Storage) -> Case {
    let scale = 1.0 / (case.shape.width as f64).sqrt();
    let narrow = Case {
        storage,
        q: rounded(&case.q, storage),
        k: rounded(&case.k, storage),
        v: rounded(&case.v, storage),
        ..case.clone()
    };
    narrow.attend(&|_, _, _, _, raw| scale * raw)
}

#[test]
fn a_dump_agrees_with_itself_bit_by_bit() {
    let case = right(1, SHAPE, Storage::F32);
    let found = against(case.file(), case.file());
    all_pass(&found);
    assert_eq!(found.findings.len(), 5, "{}", shown(&found));
    for finding in &found.findings {
        assert!(finding.explanation.contains("identical (f32)"), "{}", finding.explanation);
        assert_eq!((finding.measured, &finding.place), (Some(0.0), &all_heads(SHAPE)));
    }
}

#[test]
fn pr_07_rounding_between_types_and_orders_of_sums_passes_with_its_yardstick() {
    for seed in 0..8 {
        for shape in [SHAPE, Shape::of(1, 2, 31, 67, 64), Shape { key_heads: 2, ..Shape::of(2, 4, 11, 29, 32) }] {
            let exact = right(100 + seed, shape, Storage::F64);
            for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
                let found = against(narrower(&exact, storage).file(), exact.file());
                all_pass(&found);
                let weights = of(&found, Check::Agreement(Role::Weights));
                assert!(weights.measured.is_some_and(|ratio| ratio > 0.0 && ratio < 1.0), "{}", shown(&found));
                if storage != Storage::F32 {
                    let name = format!("that of a plain {} computation", storage.name());
                    assert!(weights.explanation.contains(&name), "{}", weights.explanation);
                }
            }
            // Log-sum-exps of half types, stored in single precision.
            if shape.batches == 1 && shape.key_heads == shape.heads {
                let halved = with_lse(&narrower(&exact, Storage::F16), &|_, lse| lse);
                all_pass(&against(halved, with_lse(&exact, &|_, lse| lse)));
            }
            // Two half types, and the outputs alone.
            let (half, brain) = (narrower(&exact, Storage::F16).file(), narrower(&exact, Storage::Bf16).file());
            all_pass(&against(half, brain));
            let outputs = |case: Case| case.file().without(Role::Weights);
            all_pass(&against(outputs(narrower(&exact, Storage::F16)), outputs(exact.clone())));
        }
    }
}

#[test]
fn a_wrong_scale_is_seen_in_half_types_too_and_named() {
    // SC-05: the scale applied twice on one path, in the types in which rounding is largest.
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let case = right(2, SHAPE, storage);
        let twice = case.clone().attend(&|_, _, _, _, raw| raw / 16.0);
        let found = against(twice.file(), case.file());
        let finding = only(&found, Verdict::Fail, Check::Scale);
        close(finding.measured, 0.25, 0.02);
        assert!(
            finding.explanation.contains("the file's is 0.06") && finding.explanation.contains("FLATTER"),
            "{}",
            finding.explanation
        );
        assert_eq!(finding.place, all_heads(SHAPE));
        // The output differs as the weights make it.
        assert_eq!(of(&found, Check::Agreement(Role::Output)).verdict, Verdict::CannotTell);
    }
}

#[test]
fn sc_05_and_sc_12_a_factor_in_q_that_is_undone_later_is_no_fault() {
    let case = right(3, Shape::of(1, 2, 13, 17, 64), Storage::F32);
    // Q dumped after its own scaling; weights the same.
    let mut pre_scaled = case.clone();
    pre_scaled.q.iter_mut().for_each(|entry| *entry *= 0.125);
    let found = against(pre_scaled.file(), case.file());
    all_pass(&found);
    let finding = of(&found, Check::Agreement(Role::Queries));
    close(finding.measured, 0.125, 1e-6);
    assert!(
        finding.explanation.contains("1/sqrt(64)") && finding.explanation.contains("undone later"),
        "{}",
        finding.explanation
    );
    // Without weights or output it cannot be said whether it is.
    let bare = |case: &Case| case.file().without(Role::Weights).without(Role::Output);
    let warned = only(&against(bare(&pre_scaled), bare(&case)), Verdict::Warn, Check::Agreement(Role::Queries));
    close(warned.measured, 0.125, 1e-6);
    // Applied again: Q is scaled, and the weights follow it. One cause.
    let twice = pre_scaled.clone().attend(&|_, _, _, _, raw| 0.125 * raw);
    let finding = only(&against(twice.file(), case.file()), Verdict::Fail, Check::Agreement(Role::Queries));
    assert!(finding.cause.contains("applied again"), "{}", finding.cause);
    // d^(-1/4) on each.
    let mut split = case.clone();
    let quarter = 64f64.powf(-0.25);
    split.q.iter_mut().chain(&mut split.k).for_each(|entry| *entry = Storage::F32.round(*entry * quarter));
    let found = against(split.file(), case.file());
    all_pass(&found);
    assert!(of(&found, Check::Agreement(Role::Keys)).explanation.contains("64^(-1/4)"), "{}", shown(&found));
}

#[test]
fn sc_10_the_scale_argument_is_ignored() {
    let scaled = |case: &Case, text: &str| {
        let scale = ScaleExpression::parse(text).expect("a scale");
        case.file().contract(|contract| contract.scale = Declared::Yes(scale))
    };
    let case = right(4, SHAPE, Storage::F32);
    let found = against(scaled(&case, "1/sqrt(dk)/6"), scaled(&case, "1/sqrt(dk)"));
    let finding = only(&found, Verdict::Fail, Check::Scale);
    assert!(
        finding
            .explanation
            .contains("same P for two different declared scales (0.041667 and 0.25000): scale argument ignored"),
        "{}",
        finding.explanation
    );
    close(finding.expected, 1.0 / 6.0, 1e-12);
    close(finding.measured, 1.0, 1e-12);
    // A scale that is followed, and one that is followed wrongly.
    let at = |scale: f64| case.clone().attend(&|_, _, _, _, raw| scale * raw);
    let found = against(scaled(&at(0.25 / 6.0), "1/sqrt(dk)/6"), scaled(&case, "1/sqrt(dk)"));
    assert_eq!(of(&found, Check::Scale).verdict, Verdict::Pass, "{}", shown(&found));
    assert!(!found.findings.iter().any(|f| matches!(f.verdict, Verdict::Fail | Verdict::Warn)), "{}", shown(&found));
    let found = against(scaled(&at(0.25 / 5.0), "1/sqrt(dk)/6"), scaled(&case, "1/sqrt(dk)"));
    close(only(&found, Verdict::Fail, Check::Scale).measured, 0.2, 1e-4);
    // Outputs alone.
    let outputs = |text: &str| scaled(&case, text).without(Role::Weights);
    let finding = only(&against(outputs("1"), outputs("1/sqrt(dk)")), Verdict::Fail, Check::Scale);
    assert!(finding.explanation.contains("same O"), "{}", finding.explanation);
}

fn with_lse(case: &Case, change: &dyn Fn(usize, f64) -> f64) -> File {
    let s = case.shape;
    let scale = 1.0 / (s.width as f64).sqrt();
    let mut values = Vec::new();
    for head in 0..s.heads {
        for query in 0..s.queries {
            let total: f64 =
                (0..s.keys).map(|key| (scale * case.raw(0, head, case.key_head(head), query, key)).exp()).sum();
            values.push(change(head * s.queries + query, total.ln()));
        }
    }
    case.file().with(Role::LogSumExp, [1, s.heads, 1, s.queries], Storage::F32, values)
}

#[test]
fn no_06_log_sum_exps_in_other_units_or_with_offsets() {
    let shape = Shape::of(1, 2, 31, 17, 16);
    let case = right(5, shape, Storage::F32);
    let plain = || with_lse(&case, &|_, lse| lse);
    let check = Check::Agreement(Role::LogSumExp);
    all_pass(&against(plain(), plain()));
    let base_2 =
        only(&against(with_lse(&case, &|_, lse| lse * std::f64::consts::LOG2_E), plain()), Verdict::Fail, check);
    close(base_2.measured, std::f64::consts::LOG2_E, 1e-6);
    assert!(
        base_2.explanation.contains("1.442695") && base_2.explanation.contains("the file is in base-2 units"),
        "{}",
        base_2.explanation
    );
    let reference =
        only(&against(plain(), with_lse(&case, &|_, lse| lse * std::f64::consts::LOG2_E)), Verdict::Fail, check);
    close(reference.measured, std::f64::consts::LN_2, 1e-6);
    let ln_2 = only(&against(with_lse(&case, &|_, lse| lse + std::f64::consts::LN_2), plain()), Verdict::Fail, check);
    close(ln_2.measured, std::f64::consts::LN_2, 1e-5);
    assert!(ln_2.explanation.contains("± ln 2"), "{}", ln_2.explanation);
    let offset = only(&against(with_lse(&case, &|_, lse| lse - 0.75), plain()), Verdict::Fail, check);
    close(offset.measured, -0.75, 1e-5);
    // K centred: −s·q·mean(K); and another vector added to all keys.
    let along = |index: usize, vector: &dyn Fn(usize, usize) -> f64| -> f64 {
        let head = index / shape.queries;
        (0..16).map(|channel| case.q[index * 16 + channel] * vector(head, channel)).sum()
    };
    let mean =
        |head: usize, channel: usize| (0..17).map(|key| case.k[(head * 17 + key) * 16 + channel]).sum::<f64>() / 17.0;
    let centred =
        only(&against(with_lse(&case, &|index, lse| lse - 0.25 * along(index, &mean)), plain()), Verdict::Fail, check);
    close(centred.measured, -0.25, 1e-3);
    assert!(
        centred.explanation.contains("q·mean(K)") && centred.explanation.contains("K was centred"),
        "{}",
        centred.explanation
    );
    let other = |_: usize, channel: usize| 0.1 * (channel as f64 - 3.0);
    let linear =
        only(&against(with_lse(&case, &|index, lse| lse + along(index, &other)), plain()), Verdict::Fail, check);
    assert!(linear.explanation.contains("linear in q"), "{}", linear.explanation);
    // Noise of one row is none of these; its place is told.
    let noise = only(
        &against(with_lse(&case, &|index, lse| if index == 33 { lse + 0.5 } else { lse }), plain()),
        Verdict::Fail,
        check,
    );
    assert_eq!((noise.place, noise.cell), (Place::Heads(vec![(0, 1)]), Some((0, Some(2)))));
}

#[test]
fn logits_of_another_scale_with_a_bias_or_with_a_number_per_row() {
    let case = right(17, Shape::of(1, 2, 13, 13, 16), Storage::F32);
    let with = |change: &dyn Fn(usize, usize, f64) -> f64| {
        let cells = (0..2).flat_map(|head| (0..169).map(move |at| (head, at / 13, at % 13)));
        let logits = cells.map(|(head, i, j)| change(i, j, 0.25 * case.raw(0, head, head, i, j))).collect();
        case.file().with(Role::Logits, [1, 2, 13, 13], Storage::F32, logits)
    };
    let plain = || with(&|_, _, logit| logit);
    let check = Check::Agreement(Role::Logits);
    all_pass(&against(plain(), plain()));
    let half = only(&against(with(&|_, _, logit| logit / 2.0), plain()), Verdict::Fail, Check::Scale);
    close(half.measured, 0.5, 1e-6);
    let found = against(with(&|i, _, logit| logit + i as f64), plain());
    all_pass(&found);
    assert!(of(&found, check).explanation.contains("a number per row apart (up to 12.0)"), "{}", shown(&found));
    let biased = only(&against(with(&|i, j, logit| logit - 0.5 * i.abs_diff(j) as f64), plain()), Verdict::Fail, check);
    assert_eq!((biased.cell, biased.place), (Some((0, Some(1))), all_heads(case.shape)));
    // Hidden in both is the same, hidden in one is not.
    let hidden = || with(&|i, j, logit| if j > i { f64::NEG_INFINITY } else { logit });
    all_pass(&against(hidden(), hidden()));
    let finding = only(&against(hidden(), plain()), Verdict::Fail, Check::Finite);
    assert!(
        finding.explanation.contains("78 infinities in the file, 0 and 0 in the reference"),
        "{}",
        finding.explanation
    );
    // KQᵀ for QKᵀ.
    let cells = (0..2).flat_map(|head| (0..169).map(move |at| (head, at % 13, at / 13)));
    let turned = cells.map(|(head, i, j)| 0.25 * case.raw(0, head, head, i, j)).collect();
    let turned = case.file().with(Role::Logits, [1, 2, 13, 13], Storage::F32, turned);
    assert!(only(&against(turned, plain()), Verdict::Fail, check).explanation.contains("rows are the columns"));
}

fn dropped(case: &Case, seed: u64, p: f64) -> Case {
    let mut draws = Draws(seed);
    let mut dropped = case.clone();
    for weight in &mut dropped.p {
        *weight = if draws.uniform() < p { 0.0 } else { case.storage.round(*weight / (1.0 - p)) };
    }
    dropped.o = dropped.times_values(&dropped.p);
    dropped
}

#[test]
fn no_07_dropout_in_one_dump_or_in_both_and_runs_that_differ() {
    let case = right(6, Shape::of(1, 2, 23, 29, 16), Storage::F32);
    let found = against(dropped(&case, 60, 0.1).file(), case.file());
    let one = only(&found, Verdict::Fail, Check::Dropout);
    close(one.measured, 0.1, 1e-3);
    assert!(
        one.explanation.contains("weights of the file") && one.explanation.contains("1.1111x"),
        "{}",
        one.explanation
    );
    // The other way round, and declared.
    let found = against(case.file(), dropped(&case, 60, 0.1).file());
    assert!(
        only(&found, Verdict::Fail, Check::Dropout).explanation.contains("weights of the reference"),
        "{}",
        shown(&found)
    );
    let training = dropped(&case, 60, 0.1).file().contract(|contract| contract.dropout = Some(0.1));
    assert_eq!(of(&against(training, case.file()), Check::Dropout).verdict, Verdict::Pass);
    // Two runs of one input.
    let found = against(dropped(&case, 61, 0.1).file(), dropped(&case, 62, 0.1).file());
    let both = only(&found, Verdict::Fail, Check::Dropout);
    assert!(both.explanation.contains("nondeterministic"), "{}", both.explanation);
    close(both.measured, 0.09, 0.25); // p(1 − p) of the weights, 1334 of them: standard error 9 %.
    // Without structure: weights of another softmax for the same Q and K.
    let mut draws = Draws(63);
    let noisy = case.clone().attend(&|_, _, _, _, raw| 0.25 * raw + 0.1 * (draws_at(raw) - 0.5));
    let found = against(noisy.file(), case.file());
    let other = only(&found, Verdict::Fail, Check::Agreement(Role::Weights));
    assert!(other.cause.contains("nondeterministic"), "{}", other.cause);
    // Outputs alone.
    let outputs = |case: Case| case.file().without(Role::Weights);
    let found = against(outputs(dropped(&case, 64, 0.1)), outputs(case.clone()));
    assert!(
        only(&found, Verdict::Fail, Check::Agreement(Role::Output)).explanation.contains("nondeterministic"),
        "{}",
        shown(&found)
    );
    let _ = draws.bits();
}

/// A fixed number from 0 to 1 for each logit.
fn draws_at(raw: f64) -> f64 {
    Draws(raw.to_bits()).uniform()
}

#[test]
fn ma_09_one_path_sees_future_keys() {
    let case = Case::draw(7, Shape::of(1, 2, 11, 11, 16), Storage::F32);
    let (right, open) = (causal(case.clone()), case.clone().attend(&|_, _, _, _, raw| 0.25 * raw));
    let found = against(open.file(), right.file());
    let finding = only(&found, Verdict::Fail, Check::Causal);
    // 11·10/2 future cells a head; the first is (0, 1).
    assert!(finding.explanation.contains("the file has weight on 55 future cells"), "{}", finding.explanation);
    assert!(
        finding.explanation.contains("up to their sum") && finding.cause.contains("prefill"),
        "{}",
        finding.explanation
    );
    assert_eq!((finding.cell, finding.place), (Some((0, Some(1))), all_heads(case.shape)));
    let found = against(right.file(), open.file());
    assert!(
        only(&found, Verdict::Fail, Check::Causal).explanation.contains("the reference has weight on 55 future"),
        "{}",
        shown(&found)
    );
    // A prefill of 7 tokens without a mask beside the whole pass: 7·6/2 cells.
    let prefill = |case: &Case, masked: bool| {
        let first = |numbers: &[f64]| -> Vec<f64> {
            numbers.chunks(11 * 16).flat_map(|head| head[..7 * 16].to_vec()).collect()
        };
        let cut = Case {
            shape: Shape::of(1, 2, 7, 7, 16),
            q: first(&case.q),
            k: first(&case.k),
            v: first(&case.v),
            ..case.clone()
        };
        if masked { causal(cut) } else { cut.attend(&|_, _, _, _, raw| 0.25 * raw) }
    };
    let found = against(prefill(&case, false).file(), right.file());
    assert!(only(&found, Verdict::Fail, Check::Causal).explanation.contains("on 21 future cells"), "{}", shown(&found));
    all_pass(&against(prefill(&case, true).file(), right.file()));
    // A window on one path: past cells.
    let window =
        case.clone().attend(&|_, _, i, j, raw| if j <= i && j + 4 > i { 0.25 * raw } else { f64::NEG_INFINITY });
    let found = against(window.file(), right.file());
    let finding = only(&found, Verdict::Fail, Check::Mask);
    assert!(finding.explanation.contains("window"), "{}", finding.explanation);
}

/// The rows of `case` from `first` on as a decode step: its queries, all keys.
fn step(case: &Case, first: usize) -> Case {
    let s = case.shape;
    let rows = |numbers: &[f64], width: usize| -> Vec<f64> {
        numbers.chunks(s.queries * width).flat_map(|head| head[first * width..].to_vec()).collect()
    };
    Case {
        shape: Shape { queries: s.queries - first, ..s },
        q: rows(&case.q, s.width),
        p: if case.p.is_empty() { Vec::new() } else { rows(&case.p, s.keys) },
        o: if case.o.is_empty() { Vec::new() } else { rows(&case.o, s.value_width) },
        ..case.clone()
    }
}

#[test]
fn ca_02_a_decode_step_at_another_position() {
    let shape = Shape::of(1, 2, 8, 8, 16);
    let mut case = Case::draw(8, shape, Storage::F32);
    case.q = rounded(&turned(&case.q, 8, 16, &|row| row as f64), Storage::F32);
    case.k = rounded(&turned(&case.k, 8, 16, &|row| row as f64), Storage::F32);
    let whole = causal(case.clone());
    all_pass(&against(step(&whole, 7).file(), whole.file()));
    let rotary = |file: File| {
        file.contract(|contract| {
            contract.rotary = Some(Rotary { layout: RotaryLayout::HalfSplit, base: 10_000.0, offset: 0 });
        })
    };
    for (by, words) in
        [(1.0, "by +1 position "), (-2.0, "by -2 positions "), (-7.0, "by -7 positions: it stands at position 0")]
    {
        for declared in [false, true] {
            // The last query of the step is turned too far or not far enough; the keys are right.
            let mut wrong = step(&case, 7);
            wrong.q = rounded(&turned(&wrong.q, 1, 16, &|_| by), Storage::F32);
            let wrong = wrong.attend(&|_, _, _, _, raw| 0.25 * raw).file();
            let wrong = if declared { rotary(wrong) } else { wrong };
            let found = against(wrong, whole.file());
            let finding = only(&found, Verdict::Fail, Check::Cache);
            close(finding.measured, by, 1e-12);
            assert!(
                finding.explanation.contains("decode row 0 of queries equals the full-forward row rotated")
                    && finding.explanation.contains(words),
                "{}",
                finding.explanation
            );
            assert_eq!(finding.place, all_heads(shape));
        }
    }
    // Layers above the first see length + 1: rows of K from 5 on, in a dump of the same length.
    let mut late = case.clone();
    late.k = rounded(&turned(&case.k, 8, 16, &|row| if row >= 5 { 1.0 } else { 0.0 }), Storage::F32);
    let found = against(causal(late).file(), whole.file());
    let finding = only(&found, Verdict::Fail, Check::Cache);
    assert!(finding.explanation.contains("3 rows of keys from 5 on"), "{}", finding.explanation);
    assert_eq!(finding.cell, Some((5, None)));
    // Q and K turned alike: positions enter as differences.
    let mut shifted = case.clone();
    shifted.q = rounded(&turned(&case.q, 8, 16, &|_| 3.0), Storage::F32);
    shifted.k = rounded(&turned(&case.k, 8, 16, &|_| 3.0), Storage::F32);
    let found = against(causal(shifted).file(), whole.file());
    all_pass(&found);
    assert!(of(&found, Check::Agreement(Role::Keys)).explanation.contains("as differences"), "{}", shown(&found));
}

/// `case` with `more` keys and queries of other tokens before (left) or after (right), attended to without a padding mask.
fn padded(case: &Case, more: usize, left: bool, logit: crate::definition::Logit<'_>) -> Case {
    let s = case.shape;
    let mut draws = Draws(99);
    let mut longer = |numbers: &[f64], rows: usize, width: usize| -> Vec<f64> {
        let parts = numbers.chunks(rows * width).map(|head| {
            let pad: Vec<f64> = draws.normals(more * width).iter().map(|x| case.storage.round(3.0 * x)).collect();
            if left { [&pad[..], head].concat() } else { [head, &pad[..]].concat() }
        });
        parts.collect::<Vec<_>>().concat()
    };
    let (q, k, v) =
        (longer(&case.q, s.queries, s.width), longer(&case.k, s.keys, s.width), longer(&case.v, s.keys, s.value_width));
    Case { shape: Shape { queries: s.queries + more, keys: s.keys + more, ..s }, q, k, v, ..case.clone() }.attend(logit)
}

#[test]
fn ma_13_padding_leaks_into_real_tokens() {
    let shape = Shape::of(1, 2, 4, 4, 16);
    let case = right(9, shape, Storage::F32);
    for left in [false, true] {
        let real = |j: usize| if left { j >= 4 } else { j < 4 };
        let leaking = padded(&case, 4, left, &|_, _, _, _, raw| 0.25 * raw);
        let hidden = padded(&case, 4, left, &|_, _, _, j, raw| if real(j) { 0.25 * raw } else { f64::NEG_INFINITY });
        all_pass(&against(hidden.file(), case.file()));
        let found = against(leaking.file(), case.file());
        let finding = only(&found, Verdict::Fail, Check::Padding);
        let side = if left { "aligned right" } else { "aligned left" };
        assert!(
            finding.explanation.contains("the 4 keys that only the file has receive 0.")
                && finding.explanation.contains(side),
            "{}",
            finding.explanation
        );
        // The number by definition, of the head where it is largest: RMS of the difference over that of the unpadded rows.
        let start = if left { 4 } else { 0 };
        let of_head = |head: usize| {
            let own = &leaking.o[(head * 8 + start) * 16..(head * 8 + start + 4) * 16];
            let reference = &case.o[head * 64..(head + 1) * 64];
            let apart: f64 = own.iter().zip(reference).map(|(a, b)| (a - b) * (a - b)).sum();
            (apart / reference.iter().map(|b| b * b).sum::<f64>()).sqrt()
        };
        close(finding.measured, of_head(0).max(of_head(1)), 1e-9);
        // Outputs alone: 10 times the RMS, as in the report.
        let loud = |case: &Case| {
            case.file().without(Role::Weights).without(Role::Queries).without(Role::Keys).without(Role::Values)
        };
        let found = against(loud(&leaking), loud(&case));
        let finding = only(&found, Verdict::Fail, Check::Padding);
        assert!(
            finding.explanation.contains("real-token rows differ by")
                && finding.explanation.contains("x RMS between padded and unpadded"),
            "{}",
            finding.explanation
        );
    }
}

#[test]
fn po_02_keys_permuted_inside_heads() {
    let case = right(10, SHAPE, Storage::F32);
    let halves = |channel: usize| if channel < 8 { 2 * channel } else { 2 * (channel - 8) + 1 };
    let mut wrong = case.clone();
    wrong.k = permuted(&case.k, 16, &halves);
    let wrong = wrong.attend(&|_, _, _, _, raw| 0.25 * raw);
    let found = against(wrong.file(), case.file());
    let finding = only(&found, Verdict::Fail, Check::Agreement(Role::Keys));
    assert!(
        finding.explanation.contains("[0, 2, 4, 6, …, 1, 3, 5, 7, …]: half-split from interleaved pairs"),
        "{}",
        finding.explanation
    );
    close(finding.measured, 14.0, 1e-12); // channels 0 and 15 stay
    assert_eq!(finding.place, all_heads(SHAPE));
    assert_eq!(of(&found, Check::Agreement(Role::Weights)).verdict, Verdict::CannotTell);
    // The log-sum-exp differs as the keys do, and no more; one that is off by itself is a finding.
    let found = against(with_lse(&wrong, &|_, lse| lse), with_lse(&case, &|_, lse| lse));
    assert_eq!(of(&found, Check::Agreement(Role::LogSumExp)).verdict, Verdict::CannotTell);
    let found = against(with_lse(&wrong, &|_, lse| lse + 40.0), with_lse(&case, &|_, lse| lse));
    assert_eq!(of(&found, Check::Agreement(Role::LogSumExp)).verdict, Verdict::Fail);
    // Twice as many heads assumed: blocks of 8 channels.
    let mut blocks = case.clone();
    blocks.k = permuted(&case.k, 16, &|channel| {
        channel / 8 * 8 + if channel % 8 < 4 { 2 * (channel % 8) } else { 2 * (channel % 8 - 4) + 1 }
    });
    let finding = only(&against(blocks.file(), case.file()), Verdict::Fail, Check::Agreement(Role::Keys));
    assert!(
        finding.explanation.contains("blocks of 8 channels, as if there were 2 times as many heads"),
        "{}",
        finding.explanation
    );
    // The inverse, and in bf16 beside f32.
    let mut inverse = case.clone();
    inverse.k =
        rounded(&permuted(&case.k, 16, &|channel| channel / 2 + if channel % 2 == 0 { 0 } else { 8 }), Storage::Bf16);
    let finding = only(&against(inverse.file(), case.file()), Verdict::Fail, Check::Agreement(Role::Keys));
    assert!(finding.explanation.contains("interleaved from half-split pairs"), "{}", finding.explanation);
}

#[test]
fn po_07_one_layout_in_q_and_k_alike_is_no_fault() {
    let case = right(11, SHAPE, Storage::F32);
    let halves = |channel: usize| if channel < 8 { 2 * channel } else { 2 * (channel - 8) + 1 };
    let mut alike = case.clone();
    (alike.q, alike.k) = (permuted(&case.q, 16, &halves), permuted(&case.k, 16, &halves));
    let found = against(alike.clone().attend(&|_, _, _, _, raw| 0.25 * raw).file(), case.file());
    all_pass(&found);
    let finding = of(&found, Check::Agreement(Role::Keys));
    assert!(
        finding.explanation.contains("half-split from interleaved")
            && finding.explanation.contains("no fault of attention"),
        "{}",
        finding.explanation
    );
}

#[test]
fn ux_03_nan_in_either_dump_is_a_finding_and_never_a_pass() {
    let case = right(12, SHAPE, Storage::F32);
    let broken = |role: Role| {
        let mut broken = case.clone();
        let numbers = if role == Role::Weights { &mut broken.p } else { &mut broken.k };
        numbers[17 * 16 + 5] = f64::NAN;
        broken.file()
    };
    for role in [Role::Weights, Role::Keys] {
        for swapped in [false, true] {
            let (own, reference) = if swapped { (case.file(), broken(role)) } else { (broken(role), case.file()) };
            let found = against(own, reference);
            let finding = only(&found, Verdict::Fail, Check::Finite);
            assert!(
                finding.explanation.contains(if swapped {
                    "1 and 0 in the reference"
                } else {
                    "1 NaN and 0 infinities in the file"
                }),
                "{}",
                finding.explanation
            );
            // Q of 13 rows of 17 keys: number 277 of the weights is head 1, row 3, key 5; of the keys head 1, row 0.
            let cell = if role == Role::Weights { (3, 5) } else { (0, 5) };
            assert_eq!((finding.cell, finding.place), (Some((cell.0, Some(cell.1))), Place::Heads(vec![(0, 1)])));
            let agreement =
                found.findings.iter().find(|f| f.check == Check::Agreement(role) && f.verdict == Verdict::CannotTell);
            assert_eq!(agreement.expect("cannot tell").place, Place::Heads(vec![(0, 1)]));
        }
    }
    // NaN in both at one place agree no more.
    let found = against(broken(Role::Weights), broken(Role::Weights));
    assert_eq!(only(&found, Verdict::Fail, Check::Finite).measured, Some(2.0));
}

#[test]
fn ux_07_equal_weights_and_other_outputs_come_from_two_code_paths() {
    let case = right(13, SHAPE, Storage::F32);
    // The fused path adds a bias that the eager one, asked for weights, does not have.
    let mut fused = case.clone();
    let biased = case.softmax(&|_, _, i, j, raw| 0.25 * raw - 0.5 * (i as f64 - j as f64).abs());
    fused.o = case.times_values(&biased);
    for (own, reference, which) in [
        (&fused, &case, "the reference's output is its P·V, the file's is not"),
        (&case, &fused, "the file's output is its P·V, the reference's is not"),
    ] {
        let finding = only(&against(own.file(), reference.file()), Verdict::Fail, Check::Agreement(Role::Output));
        assert!(
            finding.explanation.contains("the weights (and V) are equal: outputs come from different code paths")
                && finding.explanation.contains(which),
            "{}",
            finding.explanation
        );
        assert!(finding.cause.contains("asking for the weights runs other code"), "{}", finding.cause);
    }
}

#[test]
fn heads_in_another_order_and_transposed_arrays_are_named() {
    let case = right(14, Shape::of(1, 3, 13, 13, 16), Storage::F32);
    let reordered = |numbers: &[f64], of_head: usize| -> Vec<f64> {
        [2, 0, 1].iter().flat_map(|&head| numbers[head * of_head..(head + 1) * of_head].to_vec()).collect()
    };
    let mut weights = case.clone();
    weights.p = reordered(&case.p, 13 * 13);
    let finding = only(&against(weights.file(), case.file()), Verdict::Fail, Check::Heads);
    assert!(
        finding.explanation.contains("heads of weights are heads [2, 0, 1] of the reference"),
        "{}",
        finding.explanation
    );
    let all = Case {
        q: reordered(&case.q, 13 * 16),
        k: reordered(&case.k, 13 * 16),
        v: reordered(&case.v, 13 * 16),
        p: reordered(&case.p, 13 * 13),
        o: reordered(&case.o, 13 * 16),
        ..case.clone()
    };
    let warned = only(&against(all.file(), case.file()), Verdict::Warn, Check::Heads);
    assert!(warned.explanation.contains("every array alike"), "{}", warned.explanation);
    // Weights whose rows are columns; keys as (d, n); heads and tokens exchanged.
    let mut turned = case.clone();
    turned.p = case
        .p
        .chunks(169)
        .flat_map(|head| (0..169).map(|at| head[at % 13 * 13 + at / 13]).collect::<Vec<_>>())
        .collect();
    let finding = only(
        &against(turned.file().without(Role::Output), case.file().without(Role::Output)),
        Verdict::Fail,
        Check::Agreement(Role::Weights),
    );
    assert!(finding.explanation.contains("rows are the columns"), "{}", finding.explanation);
    let keys: Vec<f64> = case
        .k
        .chunks(13 * 16)
        .flat_map(|head| (0..208).map(|at| head[at % 13 * 16 + at / 13]).collect::<Vec<_>>())
        .collect();
    let file = case.file().with(Role::Keys, [1, 3, 16, 13], Storage::F32, keys);
    let finding = only(&against(file, case.file()), Verdict::Fail, Check::Agreement(Role::Keys));
    assert!(
        finding.explanation.contains("axes row and column are exchanged, the numbers are the same"),
        "{}",
        finding.explanation
    );
    let values: Vec<f64> = (0..13 * 3).flat_map(|at| case.v[(at % 3 * 13 + at / 3) * 16..][..16].to_vec()).collect();
    let file = case.file().with(Role::Values, [1, 13, 3, 16], Storage::F32, values);
    let finding = only(&against(file, case.file()), Verdict::Fail, Check::Agreement(Role::Values));
    assert!(finding.explanation.contains("axes head and row are exchanged"), "{}", finding.explanation);
}

#[test]
fn one_wrong_number_is_found_in_its_place() {
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let case = right(15, Shape { batches: 2, ..SHAPE }, storage);
        let mut wrong = case.clone();
        // Batch 1, head 2, row 4, channel 7.
        let at = ((3 + 2) * 17 + 4) * 16 + 7;
        wrong.v[at] += 1.0;
        let found = against(wrong.file(), case.file());
        let finding = only(&found, Verdict::Fail, Check::Agreement(Role::Values));
        assert_eq!((finding.place, finding.cell), (Place::Heads(vec![(1, 2)]), Some((4, Some(7)))));
        assert!(finding.explanation.contains("1 of 272 cells differ"), "{}", finding.explanation);
    }
}

#[test]
fn an_undeclared_array_of_one_dump_is_told_and_no_array_in_common_is_an_error() {
    let case = right(16, SHAPE, Storage::F32);
    let found = against(case.file().without(Role::Weights), case.file());
    let missing = of(&found, Check::Agreement(Role::Weights));
    assert_eq!(missing.verdict, Verdict::CannotTell);
    assert!(missing.explanation.contains("only the reference has weights"), "{}", missing.explanation);
    let bare = |role: Role| {
        let mut file = case.file();
        file.arrays.retain(|&other, _| other == role);
        dump(file)
    };
    let error = compare(&bare(Role::Queries), &bare(Role::Keys), &|_, _| {}).unwrap_err();
    assert_eq!(error, "no array in common: the file has queries, the reference keys");
}
