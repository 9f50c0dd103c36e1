use half::{bf16, f16};

use super::*;
use crate::attention::Precision;
use crate::attention::position::{Layout, PairAngles, Rotary};
use crate::number::Real;

/// Number j of a matrix, as scripts/reference/cache.py has it.
fn number(j: usize, shift: usize) -> f64 {
    ((7 * j * j + 3 * j + shift) % 23) as f64 / 8.0 - 1.125
}

fn rotary(width: usize, precision: Precision) -> Rotary {
    let arithmetic = if precision == Precision::F64 { Precision::F64 } else { Precision::F32 };
    Rotary::new(PairAngles::new(width, 1e4, arithmetic, precision).expect("even"), Layout::HalfSplit)
}

fn problem<S: Stored>(shape: HeadShape, tokens: usize, reach: Reach, turn: Option<Precision>) -> Problem<S> {
    let HeadShape { heads, key_value_heads, d_k, d_v } = shape;
    let values = |count: usize, shift: usize| (0..count).map(move |j| S::written(number(j, shift)));
    Problem {
        shape,
        queries: values(tokens * heads * d_k, 2).map(S::read).collect(),
        keys: values(tokens * key_value_heads * d_k, 5).map(S::read).collect(),
        values: values(tokens * key_value_heads * d_v, 11).collect(),
        reach,
        rotary: turn.map(|precision| rotary(d_k, precision)),
        scale: 1.0 / (d_k as f64).sqrt(),
    }
}

/// The largest difference over its bound; not a number if one is.
fn share_of_bound<S: Stored>(problem: &Problem<S>, found: &[S::Arithmetic]) -> f64 {
    let full = full::causal_pass(problem);
    assert_eq!(full.output.len(), found.len());
    let pairs = full.output.iter().zip(found).zip(&full.bounds);
    pairs
        .map(|((a, b), bound)| (a.to_f64() - b.to_f64()).abs() / bound)
        .fold(0.0, |largest, share| if share <= largest { largest } else { share })
}

#[test]
fn decoding_and_the_full_pass_are_what_torch_computes() {
    let text = include_str!("../../../tests/golden/cache.csv");
    let rows: Vec<Vec<f64>> = (text.lines().skip(1))
        .map(|line| line.split(',').map(|field| field.parse().expect("a number")).collect())
        .collect();
    let mut compared = 0;
    for case in rows.chunk_by(|a, b| a[..7] == b[..7]) {
        let [heads, key_value_heads, d_k, d_v, tokens, window, turn] =
            std::array::from_fn(|index| case[0][index] as usize);
        let shape = HeadShape { heads, key_value_heads, d_k, d_v };
        let reach = if window == 0 { Reach::All } else { Reach::Window(window) };
        let problem = problem::<f64>(shape, tokens, reach, (turn == 1).then_some(Precision::F64));
        let decoded = decode(&problem, Schedule { prefill: 3, chunk: 2 }, &SoundRules).output;
        let full = full::causal_pass(&problem);
        for (index, row) in case.iter().enumerate() {
            // The bound of the full pass, and once more for torch's own angles at positions up to 13: 4·13·u on logits of at most 8.
            let bound = full.bounds[index] + 8.0 * 4.0 * 13.0 * f64::EPSILON;
            for found in [full.output[index], decoded[index]] {
                assert!((found - row[8]).abs() <= bound, "{:?}: {found}", &row[..]);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 7 * 6 * 5 + 11 * 6 * 5 + 5 * 3 * 7 + 13 * 2 * 3);
}

fn agrees_everywhere<S: Stored>(precision: Precision) {
    let mut largest = 0.0f64;
    for (heads, key_value_heads) in [(6, 2), (3, 3), (5, 1)] {
        for reach in [Reach::All, Reach::Window(1), Reach::Window(5), Reach::Window(100)] {
            let shape = HeadShape { heads, key_value_heads, d_k: 14, d_v: 11 };
            let problem = problem::<S>(shape, 23, reach, Some(precision));
            for (prefill, chunk) in [(0, 1), (1, 1), (7, 7), (7, 3), (13, 5), (22, 4), (23, 23)] {
                let decoded = decode(&problem, Schedule { prefill, chunk }, &SoundRules);
                let share = share_of_bound(&problem, &decoded.output);
                assert!(share <= 1.0, "{precision} {reach:?} {prefill} {chunk}: {share}");
                largest = largest.max(share);
            }
        }
    }
    // Rounded to a half type, outputs of two orders of the sums are mostly the same.
    assert!(largest > 0.0 || S::ROUNDING > 0.0, "another order of the sums: something differs");
}

#[test]
fn every_split_chunk_window_grouping_and_precision_agrees_with_the_full_pass() {
    agrees_everywhere::<f64>(Precision::F64);
    agrees_everywhere::<f32>(Precision::F32);
    agrees_everywhere::<bf16>(Precision::Bf16);
    agrees_everywhere::<f16>(Precision::F16);
}

/// Faults of caches (field reports CA-02, MA-11).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The position is read after the cache was advanced: layers above the first see length + 1.
    PositionOneOn,
    /// Every decoded token gets position 0.
    PositionZero,
    /// The newest key is not seen, an older one is.
    StaleSlot,
    /// A token is written over the one before it.
    SlotOneBack,
    /// One key more than the window.
    WindowOneMore,
    /// One key fewer than it should be.
    WindowOneLess,
    /// A rejected draft stays in the cache.
    NotTruncated,
}

struct Faulty(Fault, u64);

impl CacheRules for Faulty {
    fn position(&self, appended: u64) -> u64 {
        match self.0 {
            // While decoding only: a shift of all positions changes nothing.
            Fault::PositionOneOn if appended >= self.1 => appended + 1,
            Fault::PositionZero if appended >= self.1 => 0,
            _ => appended,
        }
    }

    fn slot(&self, position: u64, slots: usize) -> usize {
        let position = if self.0 == Fault::SlotOneBack && position >= self.1 { position - 1 } else { position };
        (position % slots as u64) as usize
    }

    fn visible(&self, reach: Reach, position: u64) -> Range<u64> {
        let Range { start, end } = reach.visible(position);
        match self.0 {
            Fault::StaleSlot if position >= self.1 => start.saturating_sub(1)..end - 1,
            Fault::WindowOneMore => start.saturating_sub(1)..end,
            Fault::WindowOneLess if end - start > 1 => start + 1..end,
            _ => start..end,
        }
    }

    fn truncated(&self, length: u64, appended: u64) -> u64 {
        if self.0 == Fault::NotTruncated { appended } else { length }
    }
}

#[test]
fn faulty_caches_break_the_bound_in_every_precision() {
    fn share<S: Stored>(precision: Precision, fault: Fault, reach: Reach) -> f64 {
        let shape = HeadShape { heads: 6, key_value_heads: 2, d_k: 14, d_v: 11 };
        let problem = problem::<S>(shape, 23, reach, Some(precision));
        let prefill = 13;
        share_of_bound(
            &problem,
            &decode(&problem, Schedule { prefill, chunk: 5 }, &Faulty(fault, prefill as u64)).output,
        )
    }
    for (fault, reach) in [
        (Fault::PositionOneOn, Reach::All),
        (Fault::PositionZero, Reach::All),
        (Fault::StaleSlot, Reach::All),
        (Fault::SlotOneBack, Reach::All),
        (Fault::NotTruncated, Reach::All),
        (Fault::PositionOneOn, Reach::Window(5)),
        (Fault::WindowOneMore, Reach::Window(5)),
        (Fault::WindowOneLess, Reach::Window(5)),
        (Fault::SlotOneBack, Reach::Window(5)),
    ] {
        let shares = [
            share::<f64>(Precision::F64, fault, reach),
            share::<f32>(Precision::F32, fault, reach),
            share::<f16>(Precision::F16, fault, reach),
            share::<bf16>(Precision::Bf16, fault, reach),
        ];
        println!(
            "{fault:?} {reach:?}: {:.3e} {:.3e} {:.1} {:.1} of the bound",
            shares[0], shares[1], shares[2], shares[3]
        );
        assert!(shares.iter().all(|&share| share > 1.0), "{fault:?} {reach:?}: {shares:?}");
    }
}

#[test]
fn a_ring_too_small_for_its_chunks_loses_keys_that_are_still_seen() {
    // W slots for chunks of C > 1 tokens: the last of a chunk overwrites what its first still sees.
    let shape = HeadShape { heads: 2, key_value_heads: 2, d_k: 6, d_v: 5 };
    let problem = problem::<f64>(shape, 13, Reach::Window(5), None);
    let needed = Schedule { prefill: 13, chunk: 3 }.slots(problem.reach, 13);
    assert_eq!(needed, 7);
    let mut found = Vec::new();
    for slots in [needed, needed - 1] {
        let mut cache = KeyValueCache::<f64>::new(shape, slots);
        let mut output = vec![0.0; 13 * 10];
        for start in (0..13).step_by(3) {
            let tokens = start..(start + 3).min(13);
            for token in tokens.clone() {
                let keys = &problem.keys[token * 12..(token + 1) * 12];
                cache.append(keys, &problem.values[token * 10..(token + 1) * 10], &SoundRules);
            }
            for token in tokens {
                let visible = problem.reach.visible(token as u64);
                let queries = &problem.queries[token * 12..(token + 1) * 12];
                cache.attend(queries, visible, problem.scale, &SoundRules, &mut output[token * 10..(token + 1) * 10]);
            }
        }
        found.push(share_of_bound(&problem, &output));
    }
    assert!(found[0] <= 1.0 && found[1] > 1e6, "{found:?}");
}

#[test]
fn what_is_held_is_what_the_formula_says() {
    // 2·n·h_kv·d numbers for d_v = d_k; a window holds W + C − 1 tokens at most.
    let shape = HeadShape { heads: 6, key_value_heads: 2, d_k: 14, d_v: 14 };
    let whole = decode(&problem::<f32>(shape, 23, Reach::All, None), Schedule { prefill: 7, chunk: 3 }, &SoundRules);
    assert_eq!((whole.cache.numbers(), whole.cache.bytes()), (2 * 23 * 2 * 14, 4 * 2 * 23 * 2 * 14));
    let window = problem::<bf16>(shape, 23, Reach::Window(5), None);
    let ring = decode(&window, Schedule { prefill: 7, chunk: 3 }, &SoundRules);
    assert_eq!((ring.cache.numbers(), ring.cache.bytes()), (2 * 7 * 2 * 14, 2 * 2 * 7 * 2 * 14));
}

#[test]
fn no_visible_key_gives_zeros_and_no_operation() {
    let shape = HeadShape { heads: 2, key_value_heads: 1, d_k: 3, d_v: 5 };
    let cache = KeyValueCache::<f32>::new(shape, 4);
    let mut out = [7.0; 10];
    assert_eq!(cache.attend(&[1.0; 6], 0..0, 1.0, &SoundRules, &mut out), 0);
    assert_eq!(out, [0.0; 10]);
}

fn layer<S: Stored>(reach: Reach) -> generate::Layer<S> {
    let shape = HeadShape { heads: 6, key_value_heads: 2, d_k: 4, d_v: 3 };
    let matrix = |rows: usize, columns: usize, shift: usize| {
        let scale = (rows as f64).sqrt();
        (0..rows * columns).map(|j| S::written(number(j, shift) / scale).read()).collect::<Vec<_>>()
    };
    let row = |count: usize, shift: usize| (0..count).map(|j| S::written(number(j, shift))).collect::<Vec<_>>();
    generate::Layer {
        shape,
        own: [matrix(24, 24, 2), matrix(24, 8, 5), matrix(24, 6, 11)],
        own_output: matrix(18, 24, 3),
        cross_query: matrix(24, 24, 7),
        cross_output: matrix(18, 24, 13),
        encoder_keys: row(11 * 8, 4),
        encoder_values: row(11 * 6, 9),
        reach,
        rotary: Some(rotary(4, Precision::F64)),
        scale: 0.5,
    }
}

#[test]
fn generation_with_and_without_a_cache_is_the_same_to_the_last_bit_and_faults_show() {
    for reach in [Reach::All, Reach::Window(5)] {
        let layer = layer::<f64>(reach);
        let start: Vec<f64> = (0..24).map(|j| number(j, 8)).collect();
        let plain = generate::without_cache(&layer, &start, 19);
        let bits = |row: &[f64]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(plain.len(), 19 * 24);
        assert_eq!(bits(&plain), bits(&generate::with_cache(&layer, &start, 19, &SoundRules)));
        let mean_square = plain[18 * 24..].iter().map(|x| x * x).sum::<f64>() / 24.0;
        assert!((mean_square - 1.0).abs() < 1e-12, "{mean_square}");
        let faults = match reach {
            Reach::All => [Fault::PositionOneOn, Fault::StaleSlot, Fault::SlotOneBack],
            Reach::Window(_) => [Fault::WindowOneMore, Fault::WindowOneLess, Fault::PositionZero],
        };
        for fault in faults {
            let wrong = generate::with_cache(&layer, &start, 19, &Faulty(fault, 7));
            let difference = plain.iter().zip(&wrong).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(difference > 1e-3, "{fault:?}: {difference}");
        }
    }
}

#[test]
fn one_step_of_generation_is_the_layer_written_out() {
    // The first token sees only itself: self-attention returns its own value, whatever its query and key.
    let layer = layer::<f64>(Reach::All);
    let start: Vec<f64> = (0..24).map(|j| number(j, 8)).collect();
    let matrix =
        |values: &[f64], columns: usize| nalgebra::DMatrix::from_row_slice(values.len() / columns, columns, values);
    let input = matrix(&start, 24);
    let normalised = |row: nalgebra::DMatrix<f64>| {
        let mean = row.mean();
        let centred = row.add_scalar(-mean);
        let deviation = (centred.norm_squared() / 24.0).sqrt();
        centred / deviation
    };
    let value = &input * matrix(&layer.own[2], 6);
    let heads: Vec<f64> = (0..6).flat_map(|head| value.as_slice()[head / 3 * 3..head / 3 * 3 + 3].to_vec()).collect();
    let own = normalised(&input + matrix(&heads, 18) * matrix(&layer.own_output, 24));
    let queries = &own * matrix(&layer.cross_query, 24);
    let (keys, values) = (matrix(&layer.encoder_keys, 8), matrix(&layer.encoder_values, 6));
    let mut attended = Vec::new();
    for head in 0..6 {
        let attention = crate::attention::reference::scaled_dot_product_attention(
            &queries.columns(4 * head, 4).into_owned(),
            &keys.columns(4 * (head / 3), 4).into_owned(),
            &values.columns(3 * (head / 3), 3).into_owned(),
            0.5,
            None,
        );
        attended.extend(attention.output.iter().copied());
    }
    let expected = normalised(&own + matrix(&attended, 18) * matrix(&layer.cross_output, 24));
    for found in [generate::with_cache(&layer, &start, 1, &SoundRules), generate::without_cache(&layer, &start, 1)] {
        // A few dozen roundings of numbers of size 1 to 5.
        assert!(found.iter().zip(expected.iter()).all(|(a, b)| (a - b).abs() < 1e-13), "{found:?} {expected}");
    }
}
