use super::*;

/// (kind, width, base, position, column, input, value) of tests/golden/position.csv, made by scripts/reference/position.py
/// with mpmath and torch.
fn golden() -> Vec<(String, usize, f64, u64, usize, f64, f64)> {
    let text = include_str!("../../../tests/golden/position.csv");
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let whole = |index: usize| fields[index].parse::<u64>().expect("a whole number");
        let [kind, .., input, value] = fields[..] else { panic!("seven columns") };
        let (width, column) = (whole(1) as usize, whole(4) as usize);
        (kind.to_string(), width, number(fields[2]), whole(3), column, number(input), number(value))
    };
    text.lines().skip(1).map(row).collect()
}

fn angles(width: usize, base: f64) -> PairAngles {
    PairAngles::new(width, base, Precision::F64, Precision::F64).expect("even and above 1")
}

#[test]
fn the_sinusoidal_table_is_that_of_the_high_precision_reference() {
    let mut compared = 0;
    for (kind, width, base, position, column, _, expected) in golden() {
        if kind != "sinusoidal" {
            continue;
        }
        let found = Sinusoidal { angles: angles(width, base) }.table(position..position + 1)[column];
        // 3·u·p for frequency and product, 4·u for sine and cosine (u = ε/2).
        let bound = (3.0 * position as f64 + 4.0) * 0.5 * f64::EPSILON;
        assert!((found - expected).abs() <= bound, "{width} {base} {position} {column}: {found} {expected}");
        compared += 1;
    }
    assert_eq!(compared, 6 * 5 + 10 * 3);
}

#[test]
fn both_rotary_layouts_are_those_of_other_implementations() {
    let golden = golden();
    let mut compared = 0;
    for (layout, name) in [(Layout::HalfSplit, "half-split"), (Layout::Interleaved, "interleaved")] {
        for (width, base) in [(6, 1e4), (10, 5e5)] {
            for position in [0, 1, 5, 257, 15962] {
                let of_row: Vec<_> =
                    golden.iter().filter(|row| row.0 == name && row.1 == width && row.3 == position).collect();
                let mut row: Vec<f64> = of_row.iter().map(|row| row.5).collect();
                assert_eq!(row.len(), width);
                Rotary::new(angles(width, base), layout).rotate(Side::Key, &mut row, position);
                for (found, expected) in row.iter().zip(&of_row) {
                    // Both sides form angles in f64: 4·u·p each, on entries whose pairs are at most 2.3 long.
                    let bound = 2.3 * (8.0 * position as f64 + 16.0) * 0.5 * f64::EPSILON;
                    assert!((found - expected.6).abs() <= bound, "{name} {expected:?}: {found}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 2 * 5 * 16);
}

#[test]
fn scores_are_those_of_the_offset_alone_wherever_the_query_stands() {
    for (kind, width, base, offset, _, _, expected) in golden() {
        if kind != "score" {
            continue;
        }
        let inputs: Vec<f64> = (0..width).map(|j| ((7 * j * j + 3 * j + 2) % 23) as f64 / 8.0 - 1.125).collect();
        let reversed: Vec<f64> = inputs.iter().rev().copied().collect();
        let rotary = Rotary::new(angles(width, base), Layout::Interleaved);
        for position in [0, 3, 1009] {
            let (mut query, mut key) = (inputs.clone(), reversed.clone());
            rotary.rotate(Side::Query, &mut query, position);
            rotary.rotate(Side::Key, &mut key, position + offset);
            let score: f64 = query.iter().zip(&key).map(|(q, k)| q * k).sum();
            let length: f64 = inputs.iter().map(|x| x * x).sum();
            let bound = length * (8.0 * (position + offset) as f64 + 40.0) * f64::EPSILON;
            assert!((score - expected).abs() <= bound, "{width} {offset} at {position}: {score} {expected}");
        }
    }
}

#[test]
fn rounded_positions_turn_by_the_angle_of_another_position() {
    // Field report PR-06: 15962 is 15936 in bf16, 257 is 256; the first pair turns by the position itself.
    let angles = PairAngles::new(2, 1e4, Precision::Bf16, Precision::F64).expect("even");
    let cosine = |position| angles.turns(position).next().expect("one pair").0;
    assert!((cosine(15962) - 15936f64.cos()).abs() < 1e-7 && (cosine(15962) + 0.268).abs() < 1e-3);
    assert!((15962f64.cos() + 0.908).abs() < 1e-3);
    assert_eq!(cosine(257), cosine(256));
    let right = PairAngles::new(2, 1e4, Precision::F32, Precision::Bf16).expect("even");
    let (cosine, _) = right.turns(15962).next().expect("one pair");
    assert_eq!(cosine, f64::from(half::bf16::from_f64(15962f64.cos())));
}

#[test]
fn every_head_of_a_token_turns_by_the_same_angle() {
    // Field report PO-06: one query at position 5, four identical heads.
    let rotary = Rotary::new(angles(6, 1e4), Layout::HalfSplit);
    let head = [0.5, -1.0, 2.0, 0.25, 3.0, -0.75];
    let mut heads = head.repeat(4);
    rotary.rotate_token(&mut heads, 5);
    let mut alone = head;
    rotary.rotate(Side::Query, &mut alone, 5);
    assert!(alone != head && heads.chunks(6).all(|turned| turned == alone));
}

#[test]
fn odd_widths_and_bases_up_to_1_are_refused() {
    for width in [0, 1, 7] {
        assert!(PairAngles::new(width, 1e4, Precision::F64, Precision::F64).is_err_and(|rule| rule.contains("even")));
    }
    for base in [1.0, 0.5, 0.0, -10.0, f64::NAN, f64::INFINITY, 1e31] {
        assert!(PairAngles::new(6, base, Precision::F64, Precision::F64).is_err_and(|rule| rule.contains("above 1")));
    }
}

#[test]
fn both_layouts_are_one_rotation_up_to_the_order_of_the_columns() {
    // Field report PO-07: a fixed permutation of the columns of Q and K alike changes no score.
    let row = [0.5, -1.0, 2.0, 0.25, 3.0, -0.75, 1.5, 0.125, -2.5, 0.875];
    let mut half_split = row;
    Rotary::new(angles(10, 1e4), Layout::HalfSplit).rotate(Side::Query, &mut half_split, 13);
    let place = |pair: usize| [Layout::HalfSplit.columns(pair, 10), Layout::Interleaved.columns(pair, 10)];
    let mut interleaved = [0.0; 10];
    for [from, to] in (0..5).map(place) {
        (interleaved[to.0], interleaved[to.1]) = (row[from.0], row[from.1]);
    }
    Rotary::new(angles(10, 1e4), Layout::Interleaved).rotate(Side::Key, &mut interleaved, 13);
    for [from, to] in (0..5).map(place) {
        assert_eq!((half_split[from.0], half_split[from.1]), (interleaved[to.0], interleaved[to.1]));
    }
}

#[test]
fn remembered_turns_are_those_computed_and_positions_beyond_them_are_computed() {
    let plain = Rotary::new(angles(6, 1e4), Layout::HalfSplit);
    let remembering = plain.clone().remembering(5..11);
    for position in [0, 4, 5, 10, 11, 1009] {
        let mut rows = [[0.5, -1.0, 2.0, 0.25, 3.0, -0.75]; 2];
        plain.rotate(Side::Query, &mut rows[0], position);
        remembering.rotate(Side::Query, &mut rows[1], position);
        assert_eq!(rows[0], rows[1], "{position}");
    }
}
