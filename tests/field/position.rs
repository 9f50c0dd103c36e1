//! Kinds position and cache: PO-04 to PO-07, PR-06, CA-02, ALiBi, bias, sink.

use attn::diagnosis::arrays::Role;
use attn::diagnosis::contract::{Rotary, RotaryLayout};
use attn::diagnosis::finding::{Check, Place, Verdict};
use attn::diagnosis::matrix::Storage;

use crate::definition::{Case, File, Shape, close, only, shown, sound, verdict};

/// Rotates each vector of (head, token, width) by the angle `position(head, token)`·base^(−2h/d), after Su et al. 2021.
fn rotate(
    vectors: &[f64],
    tokens: usize,
    width: usize,
    half_split: bool,
    base: f64,
    position: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let mut out = vectors.to_vec();
    for (index, vector) in out.chunks_mut(width).enumerate() {
        let at = position(index / tokens, index % tokens);
        for pair in 0..width / 2 {
            let (sine, cosine) = (at / base.powf(2.0 * pair as f64 / width as f64)).sin_cos();
            let (x, y) = if half_split { (pair, pair + width / 2) } else { (2 * pair, 2 * pair + 1) };
            let (a, b) = (vector[x], vector[y]);
            (vector[x], vector[y]) = (a * cosine - b * sine, a * sine + b * cosine);
        }
    }
    out
}

/// Q of `heads` × `tokens` before and after a rotation, keys of as many tokens; no weights.
fn rotated(
    heads: usize,
    tokens: usize,
    width: usize,
    half_split: bool,
    base: f64,
    position: impl Fn(usize, usize) -> f64,
) -> File {
    let mut case = Case::draw(51, Shape::of(1, heads, tokens, tokens.max(2), width), Storage::F32);
    let before = case.q.clone();
    case.q = rotate(&before, tokens, width, half_split, base, position);
    case.file().with(Role::QueriesBeforeRotation, [1, heads, tokens, width], Storage::F32, before)
}

fn declared(file: File, layout: RotaryLayout, offset: i64) -> File {
    file.contract(|contract| contract.rotary = Some(Rotary { layout, base: 10_000.0, offset }))
}

#[test]
fn pr_06_positions_rounded_to_bf16() {
    let file = rotated(2, 300, 32, true, 10_000.0, |_, token| Storage::Bf16.round(token as f64));
    let finding = only(&declared(file, RotaryLayout::HalfSplit, 0).audit(), Verdict::Fail, Check::Rotary);
    assert!(
        finding.explanation.contains("positions rounded to bf16 (257 -> 256); first error at position 257"),
        "{}",
        finding.explanation
    );
    assert_eq!((finding.measured, finding.expected), (Some(256.0), Some(257.0)));
}

#[test]
fn po_04_sine_and_cosine_of_a_pair_with_different_exponents() {
    let table = |exponent: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let entry = |position: usize, channel: usize| {
            let angle = position as f64 / 10_000f64.powf(exponent(channel));
            if channel.is_multiple_of(2) { angle.sin() } else { angle.cos() }
        };
        (0..32).flat_map(|position| (0..64).map(move |channel| (position, channel))).map(|(p, c)| entry(p, c)).collect()
    };
    let with = |table: Vec<f64>| {
        Case::draw(52, Shape::of(1, 1, 3, 5, 16), Storage::F32)
            .file()
            .with(Role::PositionTable, [1, 1, 32, 64], Storage::F32, table)
            .audit()
    };
    let right = with(table(&|channel| 2.0 * (channel / 2) as f64 / 64.0));
    sound(&right);
    assert_eq!(verdict(&right, Check::Sinusoidal), Verdict::Pass);
    let finding = only(&with(table(&|channel| 2.0 * channel as f64 / 64.0)), Verdict::Fail, Check::Sinusoidal);
    // The report: spread along a diagonal 3.9 at d 64, n 32.
    close(finding.measured, 3.9, 0.03);
    assert!(finding.cause.contains("i // 2"), "{}", finding.cause);
    // PO-07, second: sines then cosines are a permutation.
    let halves: Vec<f64> = (0..32)
        .flat_map(|p| (0..64).map(move |c| (p as f64 / 10_000f64.powf(2.0 * (c % 32) as f64 / 64.0), c < 32)))
        .map(|(angle, sine)| if sine { angle.sin() } else { angle.cos() })
        .collect();
    sound(&with(halves));
}

#[test]
fn po_06_only_the_first_head_is_rotated_or_the_table_is_indexed_by_head() {
    // Four heads, one query at position 5: heads 1 to 3 are as they were.
    let file = rotated(4, 1, 32, true, 10_000.0, |head, _| if head == 0 { 5.0 } else { 0.0 });
    let finding = only(&declared(file, RotaryLayout::HalfSplit, 5).audit(), Verdict::Fail, Check::Rotary);
    assert!(finding.explanation.contains("not rotated (post == pre)"), "{}", finding.explanation);
    assert_eq!(finding.place, Place::Heads(vec![(0, 1), (0, 2), (0, 3)]));
    let by_head = rotated(4, 7, 32, true, 10_000.0, |head, _| head as f64);
    let audit = declared(by_head, RotaryLayout::HalfSplit, 0).audit();
    let finding =
        audit.of(Check::Rotary).find(|f| f.key.contains("head axis")).unwrap_or_else(|| panic!("{}", shown(&audit)));
    assert!(
        finding.explanation.contains("grows with the head index and is constant along tokens"),
        "{}",
        finding.explanation
    );
    assert_eq!(finding.place, Place::Heads(vec![(0, 1), (0, 2), (0, 3)]));
}

#[test]
fn po_07_false_alarm_of_the_pairing() {
    for (half_split, layout) in [(true, RotaryLayout::HalfSplit), (false, RotaryLayout::Interleaved)] {
        let file = || rotated(2, 13, 32, half_split, 10_000.0, |_, token| token as f64);
        for audit in [declared(file(), layout, 0).audit(), file().audit()] {
            sound(&audit);
            assert_eq!(verdict(&audit, Check::Rotary), Verdict::Pass, "{}", shown(&audit));
        }
        // The other pairing declared is another contract.
        let other = if half_split { RotaryLayout::Interleaved } else { RotaryLayout::HalfSplit };
        let finding = only(&declared(file(), other, 0).audit(), Verdict::Fail, Check::Rotary);
        assert!(finding.explanation.contains("the other pairing was declared"), "{}", finding.explanation);
    }
}

#[test]
fn ca_02_wrong_rotary_position_while_decoding() {
    // Prefill 7, decode 1: position 7. Seen: length + 1, and 0.
    let step =
        |position: f64| declared(rotated(2, 1, 32, true, 10_000.0, move |_, _| position), RotaryLayout::HalfSplit, 7);
    sound(&step(7.0).audit());
    let finding = only(&step(8.0).audit(), Verdict::Fail, Check::Rotary);
    close(finding.measured, 1.0, 1e-12);
    assert!(finding.explanation.contains("rotated by +1 position"), "{}", finding.explanation);
    let finding = only(&step(0.0).audit(), Verdict::Fail, Check::Rotary);
    assert!(finding.cause.contains("every decoded token gets position 0"), "{}", finding.cause);
    // A chunk of five tokens from position 7 that starts at 0.
    let chunk = rotated(2, 5, 32, true, 10_000.0, |_, token| token as f64);
    let finding = only(&declared(chunk, RotaryLayout::HalfSplit, 7).audit(), Verdict::Fail, Check::Rotary);
    close(finding.measured, -7.0, 1e-12);
    let base = rotated(2, 13, 32, true, 500_000.0, |_, token| token as f64);
    let finding = only(&declared(base, RotaryLayout::HalfSplit, 0).audit(), Verdict::Fail, Check::Rotary);
    close(finding.measured, 5e5, 1e-3);
}

#[test]
fn alibi_bias_and_sink_are_recovered_with_their_number() {
    let shape = Shape::of(1, 4, 13, 13, 16);
    let distance = |i: usize, j: usize| (i as f64 - j as f64).abs();
    // Slopes of 4 heads, from the paper: 2^-2, 2^-4, 2^-6, 2^-8.
    let slope = |head: usize| 2f64.powi(-2 * (head as i32 + 1));
    let with = |slope: &dyn Fn(usize) -> f64| {
        Case::draw(53, shape, Storage::F32).attend(&|_, h, i, j, raw| 0.25 * raw - slope(h) * distance(i, j)).file()
    };
    sound(&with(&slope).contract(|contract| contract.alibi = true).audit());
    let ignored = only(&with(&|_| 0.0).contract(|contract| contract.alibi = true).audit(), Verdict::Fail, Check::Alibi);
    assert!(ignored.cause.contains("not applied"), "{}", ignored.cause);
    let reversed =
        only(&with(&|h| slope(3 - h)).contract(|contract| contract.alibi = true).audit(), Verdict::Fail, Check::Alibi);
    assert!(reversed.cause.contains("slope of head"), "{}", reversed.cause);
    assert!(only(&with(&slope).audit(), Verdict::Warn, Check::Alibi).cause.contains("--alibi"));
    let bias: Vec<f64> = crate::definition::Draws(54).normals(169).into_iter().map(|b| Storage::F32.round(b)).collect();
    let biased = |coefficient: f64| {
        let case =
            Case::draw(55, shape, Storage::F32).attend(&|_, _, i, j, raw| 0.25 * raw + coefficient * bias[i * 13 + j]);
        case.file().with(Role::Bias, [1, 1, 13, 13], Storage::F32, bias.clone()).audit()
    };
    sound(&biased(1.0));
    for (coefficient, words) in
        [(0.0, "ignored"), (0.25, "before the scale"), (-1.0, "subtracted"), (2.0, "twice"), (3.0, "multiplied")]
    {
        let finding = only(&biased(coefficient), Verdict::Fail, Check::Bias);
        assert!(finding.cause.contains(words), "{}", finding.cause);
        assert!((finding.measured.expect("a coefficient") - coefficient).abs() < 1e-4);
    }
    // softmax with exp(0.7) more in the denominator.
    let plain = Case::draw(56, shape, Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
    let mut sunk = plain.clone();
    for head in 0..4 {
        for i in 0..13 {
            let z: f64 = (0..13).map(|j| (0.25 * plain.raw(0, head, head, i, j)).exp()).sum();
            (0..13).for_each(|j| *sunk.p_at(0, head, i, j) *= z / (z + 0.7f64.exp()));
        }
    }
    sunk.o = sunk.times_values(&sunk.p);
    let finding = only(&sunk.file().audit(), Verdict::Warn, Check::Sink);
    close(finding.measured, 0.7, 1e-4);
    sound(&sunk.file().contract(|contract| contract.sink = Some(0.7)).audit());
    let finding =
        only(&plain.file().contract(|contract| contract.sink = Some(0.7)).audit(), Verdict::Fail, Check::Sink);
    assert!(finding.explanation.contains("not in the denominator"), "{}", finding.explanation);
}

#[test]
fn a_sink_of_0_is_the_softmax_with_1_added_and_a_sinusoidal_table_of_another_base_is_a_warning() {
    let sink = |value: f64| {
        let mut case = Case::draw(57, Shape::of(1, 2, 13, 17, 16), Storage::F32).attend(&|_, _, _, _, raw| 0.25 * raw);
        for row in 0..26 {
            let total: f64 = (0..17).map(|key| (0.25 * case.raw(0, row / 13, row / 13, row % 13, key)).exp()).sum();
            case.p[row * 17..(row + 1) * 17]
                .iter_mut()
                .for_each(|weight| *weight = Storage::F32.round(*weight * total / (total + value.exp())));
        }
        only(&case.file().without(Role::Output).audit(), Verdict::Warn, Check::Sink).explanation
    };
    assert!(sink(0.0).contains("with 1 added"), "{}", sink(0.0));
    assert!(!sink(1.0).contains("with 1 added"), "{}", sink(1.0));
    let table = |base: f64, size: f64| {
        let entries = (0..31 * 8).map(|at| {
            let angle = (at / 8) as f64 / base.powf((at % 8 / 2 * 2) as f64 / 8.0);
            size * if at % 2 == 0 { angle.sin() } else { angle.cos() }
        });
        let numbers = attn::diagnosis::matrix::Numbers::F64(entries.collect());
        let table = attn::diagnosis::matrix::Matrix::new(31, 8, Storage::F64, numbers);
        let found = attn::diagnosis::checks::sinusoidal_findings(&table);
        (found[0].verdict, found[0].key.clone())
    };
    assert_eq!(table(10_000.0, 1.0).0, Verdict::Pass);
    assert_eq!(table(500.0, 1.0), (Verdict::Warn, "frequencies".to_string()));
    assert_eq!(table(500.0, 2.0), (Verdict::Fail, "other".to_string()));
}
