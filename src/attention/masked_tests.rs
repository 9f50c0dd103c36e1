use super::*;
use crate::attention::MaskRule;

/// Logits ln w: the weights are w_j over the sum of the visible w, exact fractions.
const NUMERATORS: [u32; 6] = [3, 1, 7, 2, 11, 5];
const VALUES: [[i32; 2]; 6] = [[2, -1], [0, 5], [-3, 4], [1, 1], [7, -2], [-5, 3]];

fn attention(mask: Mask, fill: Fill, apply: Apply, precision: Precision) -> MaskedSoftmax {
    let hidden_values = HiddenValues::usual(fill, apply);
    MaskedSoftmax { mask, bias: None, fill, apply, hidden_values, precision }
}

/// The weights and the output of the only query.
fn run<T: Real>(attention: &MaskedSoftmax, raw: &[f64], values: &[f64], width: usize) -> (Vec<f64>, Vec<f64>) {
    let convert = |numbers: &[f64]| numbers.iter().map(|&number| T::from_f64(number)).collect::<Vec<T>>();
    let (raw, values) = (convert(raw), convert(values));
    let (mut weights, mut output) = (Vec::new(), vec![T::ZERO; width]);
    attention.weights(MaskedRow { index: 0, raw: &raw, factor: 1.0 }, &mut weights);
    attention.output(0, &weights, &values, &mut output);
    let back = |numbers: Vec<T>| numbers.iter().map(|number| number.to_f64()).collect();
    (back(weights), back(output))
}

#[test]
fn every_mask_of_up_to_six_keys_gives_the_exact_fractions() {
    for (precision, unit) in [
        (Precision::F64, f64::EPSILON / 2.0),
        (Precision::F32, f64::from(f32::EPSILON) / 2.0),
        (Precision::F16, Precision::F16.epsilon() / 2.0),
        (Precision::Bf16, Precision::Bf16.epsilon() / 2.0),
    ] {
        for m in 1..=6 {
            for pattern in 0..1u32 << m {
                let cells: Vec<bool> = (0..m).map(|key| pattern >> key & 1 == 1).collect();
                let masked = attention(Mask::from_cells(1, m, cells.clone()), Fill::Infinite, Apply::Before, precision);
                let logits: Vec<f64> = NUMERATORS[..m].iter().map(|&numerator| f64::from(numerator).ln()).collect();
                let values: Vec<f64> = VALUES[..m].concat().iter().map(|&value| f64::from(value)).collect();
                let (weights, output) = match precision {
                    Precision::F64 => run::<f64>(&masked, &logits, &values, 2),
                    _ => run::<f32>(&masked, &logits, &values, 2),
                };
                let visible = || (0..m).filter(|&key| cells[key]);
                let total: u32 = visible().map(|key| NUMERATORS[key]).sum();
                // A logit below 2.4 and its difference from the largest carry 2.4·u each, exp and the division u each, and the
                // sum of at most six 5 u: 12 u and a little, relative.
                for key in 0..m {
                    match cells[key] {
                        false => assert_eq!(weights[key], 0.0, "{precision} {cells:?}"),
                        true => {
                            let exact = f64::from(NUMERATORS[key]) / f64::from(total);
                            let error = (weights[key] / exact - 1.0).abs();
                            assert!(error < 12.5 * unit, "{precision} {cells:?}: {error:e}");
                        }
                    }
                }
                for column in 0..2 {
                    let weighted = |key: usize| NUMERATORS[key] as i32 * VALUES[key][column];
                    let exact: i32 = visible().map(weighted).sum();
                    let size: i32 = visible().map(|key| weighted(key).abs()).sum();
                    if total == 0 {
                        assert_eq!(output[column], 0.0);
                        continue;
                    }
                    let error = (output[column] - f64::from(exact) / f64::from(total)).abs();
                    // The weights' error, and seven roundings of the sum.
                    let bound = 20.0 * unit * f64::from(size) / f64::from(total);
                    assert!(error <= bound, "{precision} {cells:?}: {error:e}");
                }
            }
        }
    }
}

#[test]
fn each_query_of_every_rule_sees_its_own_keys() {
    for n in 1..=6 {
        for m in 1..=6 {
            for rule in ["causal", "causal@bottom-right", "window:2", "window:3@bottom-right", "prefix:1", "padding:1"]
            {
                let mask = rule.parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
                let masked = attention(mask.clone(), Fill::Infinite, Apply::Before, Precision::F64);
                let raw: Vec<f64> = NUMERATORS[..m].iter().map(|&numerator| f64::from(numerator).ln()).collect();
                let mut weights: Vec<f64> = Vec::new();
                for index in 0..n {
                    masked.weights(MaskedRow { index, raw: &raw, factor: 1.0 }, &mut weights);
                    let visible: Vec<bool> = weights.iter().map(|&weight| weight > 0.0).collect();
                    assert_eq!(visible, (0..m).map(|key| mask.is_visible(index, key)).collect::<Vec<_>>());
                    let sum: f64 = weights.iter().sum();
                    let expected = if mask.row(index).count() == 0 { 0.0 } else { 1.0 };
                    assert!((sum - expected).abs() < 1e-15, "{rule} {n} {m}: {sum}");
                }
            }
        }
    }
}

#[test]
fn huge_logits_and_hidden_keys_that_are_not_numbers_leave_no_nan() {
    let mask = Mask::from_cells(1, 4, vec![true, false, true, false]);
    let masked = attention(mask, Fill::Infinite, Apply::Before, Precision::F32);
    let values = [1.0, f64::NAN, 3.0, f64::INFINITY];
    for (raw, first) in [([3e38, f64::NAN, -3e38, f64::INFINITY], 1.0), ([-3e38, f64::NAN, -3e38, f64::NAN], 0.5)] {
        let (weights, output) = run::<f32>(&masked, &raw, &values, 1);
        assert_eq!((weights[0], weights[1], weights[2]), (first, 0.0, 1.0 - first));
        assert_eq!(output, [first + 3.0 * (1.0 - first)]);
    }
    // A finite fill multiplies by 0 what should be left out.
    let filled = MaskedSoftmax { fill: Fill::Number(-1e9), hidden_values: HiddenValues::Multiply, ..masked };
    assert!(run::<f32>(&filled, &[0.0; 4], &values, 1).1[0].is_nan());
    // softmax(masked_fill(−∞)) @ V multiplies, too.
    let multiplied = MaskedSoftmax { fill: Fill::Infinite, ..filled.clone() };
    assert!(run::<f32>(&multiplied, &[0.0; 4], &values, 1).1[0].is_nan());
    let selected = MaskedSoftmax { hidden_values: HiddenValues::Select, ..filled };
    assert_eq!(run::<f32>(&selected, &[0.0; 4], &values, 1).1, [2.0]);
}

#[test]
fn a_finite_fill_leaks_what_its_distance_says() {
    let mask = Mask::from_cells(1, 3, vec![true, false, true]);
    let weight = |fill, precision| {
        let masked = attention(mask.clone(), fill, Apply::Before, precision);
        run::<f64>(&masked, &[0.0, 100.0, 0.0], &[0.0; 3], 1).0[1]
    };
    // exp(−20)/(2 + exp(−20)).
    let expected = (-20f64).exp() / (2.0 + (-20f64).exp());
    assert!((weight(Fill::Number(-20.0), Precision::F64) / expected - 1.0).abs() < 1e-15);
    for precision in [Precision::F64, Precision::F32, Precision::Bf16, Precision::F16] {
        assert_eq!(weight(Fill::Number(-1e4), precision), 0.0);
        assert_eq!(weight(Fill::Smallest, precision), 0.0);
        assert!((weight(Fill::Number(0.0), precision) - 1.0 / 3.0).abs() < precision.epsilon());
    }
    // A query without keys: the fill is all there is, and hidden keys share the row.
    let blind = attention(Mask::from_cells(1, 4, vec![false; 4]), Fill::Smallest, Apply::Before, Precision::F16);
    assert_eq!(run::<f32>(&blind, &[1.0, 2.0, 3.0, 4.0], &[0.0; 4], 1).0, [0.25; 4]);
    let infinite = MaskedSoftmax { fill: Fill::Number(-1e9), ..blind };
    assert_eq!(run::<f32>(&infinite, &[1.0, 2.0, 3.0, 4.0], &[0.0; 4], 1).0, [0.0; 4], "-1e9 is -inf in f16");
}

#[test]
fn masking_after_the_softmax_leaves_the_hidden_share_out_of_the_sum() {
    let mask = Mask::from_cells(1, 3, vec![true, false, true]);
    let masked = attention(mask, Fill::Infinite, Apply::After, Precision::F64);
    let raw = [3f64.ln(), 1f64.ln(), 7f64.ln()];
    let (weights, output) = run::<f64>(&masked, &raw, &[1.0, 100.0, 2.0], 1);
    // 3/11, 0 and 7/11; 17/11.
    for (found, expected) in weights.iter().zip([3.0 / 11.0, 0.0, 7.0 / 11.0]) {
        assert!((found - expected).abs() < 1e-15);
    }
    assert!((output[0] - 17.0 / 11.0).abs() < 1e-15);
}

#[test]
fn numbers_are_added_after_the_scale() {
    let mut masked = attention(Mask::all_visible(1, 2), Fill::Infinite, Apply::Before, Precision::F64);
    masked.bias = Some(vec![0.0, 4f32.ln()]);
    let raw = [2.0, 0.0];
    let mut weights = Vec::new();
    // 0.5·2 − 1 = 0 and 0.5·0 + ln 4: weights e : 4.
    masked.weights(MaskedRow { index: 0, raw: &raw, factor: 0.5 }, &mut weights);
    let e = std::f64::consts::E;
    // ln 4 as f32 is off by 3e-8 at most.
    assert!((weights[0] - e / (e + 4.0)).abs() < 1e-7, "{weights:?}");
}

/// A query and three keys of two entries with their values.
const QUERY: [f64; 2] = [0.7, -1.3];
const KEYS: [[f64; 2]; 3] = [[0.2, 0.5], [-1.1, 0.3], [0.9, -0.4]];
const TOKEN_VALUES: [[f64; 2]; 3] = [[1.0, -2.0], [0.5, 0.25], [-1.5, 3.0]];
const FACTOR: f64 = 0.6;

fn output_of(masked: &MaskedSoftmax, keys: &[[f64; 2]; 3], values: &[[f64; 2]; 3]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let raw: Vec<f64> = keys.iter().map(|key| QUERY[0] * key[0] + QUERY[1] * key[1]).collect();
    let (mut weights, mut output) = (Vec::new(), vec![0.0; 2]);
    masked.weights(MaskedRow { index: 0, raw: &raw, factor: FACTOR }, &mut weights);
    masked.output(0, &weights, &values.concat(), &mut output);
    (raw, weights, output)
}

/// The largest derivative of an output by an entry of key 1 or of its value, by central differences.
fn by_differences(masked: &MaskedSoftmax) -> f64 {
    let step = 1e-6;
    let mut largest: f64 = 0.0;
    for entry in 0..2 {
        let moved = |by: f64, of_value: bool| {
            let (mut keys, mut values) = (KEYS, TOKEN_VALUES);
            if of_value {
                values[1][entry] += by
            } else {
                keys[1][entry] += by
            }
            output_of(masked, &keys, &values).2
        };
        for of_value in [false, true] {
            let (up, down) = (moved(step, of_value), moved(-step, of_value));
            largest = up.iter().zip(&down).map(|(a, b)| ((a - b) / (2.0 * step)).abs()).fold(largest, f64::max);
        }
    }
    largest
}

#[test]
fn gradients_by_the_closed_form_are_those_by_differences() {
    let hidden = Mask::from_cells(1, 3, vec![true, false, true]);
    for (mask, fill, apply) in [
        (hidden.clone(), Fill::Infinite, Apply::Before),
        (hidden.clone(), Fill::Number(-0.5), Apply::Before),
        (hidden.clone(), Fill::Infinite, Apply::After),
        (Mask::all_visible(1, 3), Fill::Infinite, Apply::Before),
    ] {
        let masked = attention(mask, fill, apply, Precision::F64);
        let (raw, weights, output) = output_of(&masked, &KEYS, &TOKEN_VALUES);
        let values = TOKEN_VALUES.concat();
        let row = MaskedRow { index: 0, raw: &raw, factor: FACTOR };
        let point = GradientPoint { row, weights: &weights, output: &output, values: &values, query_size: 1.3 };
        let closed = masked.gradient(point, &[1]);
        // Central differences are off by step² of a third derivative and by rounding/step: 1e-10 and 2e-10.
        assert!((closed - by_differences(&masked)).abs() < 1e-9, "{fill} {apply:?}: {closed}");
        assert_eq!(closed == 0.0, fill == Fill::Infinite && apply == Apply::Before && masked.mask == hidden);
    }
}

#[test]
fn fills_and_times_are_read_and_written_as_people_type_them() {
    for text in ["-inf", "min", "-1e9", "-1e4", "-20", "-50", "0", "-0.5", "-65504"] {
        assert_eq!(text.parse::<Fill>().expect("a fill").to_string(), text);
    }
    for wrong in ["nan", "inf", "x", "", "-1e400"] {
        assert!(wrong.parse::<Fill>().is_err(), "{wrong}");
    }
    assert_eq!(("before".parse(), "after".parse()), (Ok(Apply::Before), Ok(Apply::After)));
    assert!("later".parse::<Apply>().is_err() && "x".parse::<HiddenValues>().is_err());
    assert_eq!("multiply".parse(), Ok(HiddenValues::Multiply));
    assert_eq!(Fill::Smallest.value(Precision::F16), -65504.0);
    assert_eq!(Fill::Number(-1e9).value(Precision::F16), f64::NEG_INFINITY);
    assert_eq!(Fill::Number(-1e9).value(Precision::Bf16), -998_244_352.0, "8 bits of significand: 238·2^22");
}
