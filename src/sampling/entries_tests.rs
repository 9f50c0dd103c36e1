//! Text forms, pinned values, and the promise: pieces, instruction sets and threads make no difference.

// Numbers as the script prints them.
#![allow(clippy::excessive_precision)]

use super::*;
use crate::sampling::parameter_point;

const ADDRESSED: [Entries; 4] = [Entries::Normal, Entries::Uniform, Entries::Rademacher, Entries::Laplace];

/// The stream of scripts/reference/draws.py.
fn stream() -> TrialStream {
    TrialStream::new(0x0123_4567_89ab_cdef, parameter_point(&[64, 257]), 3)
}

fn drawn<T: Drawable>(entries: Entries, first: usize, count: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; count];
    fill(entries, &stream(), MatrixId::KEYS, first, 1, &mut out);
    out
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |value, byte| (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn laws_are_written_as_they_are_read() {
    let laws = [
        ("normal", Entries::Normal),
        ("uniform", Entries::Uniform),
        ("rademacher", Entries::Rademacher),
        ("laplace", Entries::Laplace),
        ("student-t:5", Entries::StudentT(5.0)),
        ("student-t:4.5", Entries::StudentT(4.5)),
    ];
    for (text, law) in laws {
        assert_eq!(text.parse(), Ok(law));
        assert_eq!(law.to_string(), text);
    }
}

#[test]
fn texts_that_name_no_law_are_refused_with_value_and_rule() {
    let refused = [
        ("gauss", "unknown entries 'gauss': must be one of normal, uniform, rademacher, laplace, student-t:NU"),
        ("student-t", "unknown entries 'student-t': must be one of normal, uniform, rademacher, laplace, student-t:NU"),
        ("Normal", "unknown entries 'Normal': must be one of normal, uniform, rademacher, laplace, student-t:NU"),
        ("student-t:3", "student-t:3: NU must be greater than 4 (the fourth moment of the entries must exist)"),
        ("student-t:4", "student-t:4: NU must be greater than 4 (the fourth moment of the entries must exist)"),
        ("student-t:NaN", "student-t:NaN: NU must be greater than 4 (the fourth moment of the entries must exist)"),
        ("student-t:-inf", "student-t:-inf: NU must be greater than 4 (the fourth moment of the entries must exist)"),
        ("student-t:inf", "student-t:inf: NU must be finite (its limit is the law 'normal')"),
        ("student-t:five", "student-t:five: NU must be a number greater than 4, as in student-t:5"),
        ("student-t:", "student-t:: NU must be a number greater than 4, as in student-t:5"),
    ];
    for (text, message) in refused {
        let error = text.parse::<Entries>().expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}

/// Elements 0, 17, …, 119 in exact arithmetic, from scripts/reference/draws.py.
const FIRST_F32: [(Entries, [f64; 8]); 3] = [
    (
        Entries::Normal,
        [
            0.409408073392,
            -0.304390446012,
            0.440923999525,
            0.127502731043,
            -1.24742340848,
            0.816743710065,
            -0.0153033249901,
            -1.01915665291,
        ],
    ),
    (
        Entries::Uniform,
        [
            -1.34562635973,
            -0.551585333988,
            -0.613518893497,
            -1.55141147408,
            1.28865834177,
            1.36338662374,
            -0.559033057541,
            -1.280674839,
        ],
    ),
    (
        Entries::Laplace,
        [
            -1.06074859627,
            -0.271102840732,
            -0.309210094675,
            -1.59845660869,
            0.209094665668,
            0.169234959601,
            -0.275578210137,
            -0.950889479908,
        ],
    ),
];

/// The same in f64.
const FIRST_F64: [(Entries, [f64; 8]); 3] = [
    (
        Entries::Normal,
        [
            0.52489505394559163344,
            -0.26396939134591058339,
            -0.41641019824724706955,
            1.1953004715977223769,
            1.4220321317955118352,
            -0.13494077237727588723,
            0.34375860885887980883,
            -1.4948465157341924952,
        ],
    ),
    (
        Entries::Uniform,
        [
            -1.3456263594689361635,
            -0.41490360636881833296,
            -0.29144570288387650363,
            1.258191720270686288,
            0.094410374389719527012,
            -0.92828317545168046397,
            0.51420466704644273075,
            -0.47042091214652921354,
        ],
    ),
    (
        Entries::Laplace,
        [
            -1.0607485965429072046,
            -0.19363267686080211274,
            -0.13027940922468411407,
            0.22601296248367452967,
            2.0572638641117520721,
            -0.54288208734283449984,
            0.85873879625540798094,
            -0.22408333503844092709,
        ],
    ),
];

#[test]
fn first_values_equal_the_exact_transform_of_the_words() {
    // Documented for normals, with eps = 2^-23 or 2^-52: a relative 3 eps from the rounded u on, and for the rounding
    // eps / r^2 in f32, half of it in f64. The radii here exceed 0.36: 11 eps and 7 eps. Laplace: eps / |ln u| for
    // the rounding, below 5 eps here, and 2 eps for the rest; uniform: 2 eps.
    for (entries, expected) in FIRST_F32 {
        let values = drawn::<f32>(entries, 0, 120);
        for (k, expected) in expected.into_iter().enumerate() {
            let value = f64::from(values[17 * k]);
            let tolerance = 11.0 * f64::from(f32::EPSILON) * expected.abs();
            assert!((value - expected).abs() <= tolerance, "{entries} {k}: {value} {expected}");
        }
    }
    for (entries, expected) in FIRST_F64 {
        let values = drawn::<f64>(entries, 0, 120);
        for (k, expected) in expected.into_iter().enumerate() {
            let value = values[17 * k];
            let tolerance = 7.0 * f64::EPSILON * expected.abs();
            assert!((value - expected).abs() <= tolerance, "{entries} {k}: {value} {expected}");
        }
    }
    let signs: String = drawn::<f32>(Entries::Rademacher, 0, 32)
        .into_iter()
        .map(|value| if value == 1.0 { '+' } else { '-' })
        .collect();
    assert_eq!(signs, "-+-+---++-+--+++++--+---++--+-++");
}

#[test]
fn the_bits_equal_those_replayed_by_numpy() {
    // Hashes of elements 0 to 4098 from scripts/reference/draws.py, which replays the arithmetic in numpy.
    let expected = [
        (Entries::Normal, 0x6baea9660ec83a4a, 0xe5fc4c34a9a3238c),
        (Entries::Uniform, 0x5b7a29e66dfd7c66, 0xca4b450d1fddc217),
        (Entries::Rademacher, 0xae44c315b83c2048, 0x081b1999d8face58),
        (Entries::Laplace, 0x31ba19d0f73b8b67, 0x6ffe074ff78be443),
    ];
    for (entries, single, double) in expected {
        let values = drawn::<f32>(entries, 0, 4099);
        let ours = hash(values.into_iter().flat_map(f32::to_le_bytes));
        assert_eq!(ours, single, "{entries} f32: {ours:#018x}");
        let values = drawn::<f64>(entries, 0, 4099);
        let ours = hash(values.into_iter().flat_map(f64::to_le_bytes));
        assert_eq!(ours, double, "{entries} f64: {ours:#018x}");
    }
}

#[test]
fn student_t_rows_equal_an_independent_ziggurat_and_gamma() {
    // scripts/reference/draws.py, whose ziggurat table is computed and agrees with rand_distr's to
    // 4e-14; 1e-12 leaves room for the order of operations and the platform's logarithm.
    let rows: [(usize, [f64; 8]); 2] = [
        (
            0,
            [
                -0.47886527293801984,
                -0.67633598943951512,
                -1.0312151919677446,
                0.26703716298020691,
                0.74079661031546085,
                -0.081476478201631272,
                1.2345094012132423,
                -0.048880853820758761,
            ],
        ),
        (
            5,
            [
                5.7010717901494479,
                -0.12299153450281639,
                -0.71927846279823249,
                0.88856054253375238,
                -0.2270320557678755,
                -0.21092983520894021,
                -0.28040146432226026,
                0.1538210912738148,
            ],
        ),
    ];
    for (row, expected) in rows {
        let mut double = [0.0_f64; 8];
        let mut single = [0.0_f32; 8];
        let law = Entries::StudentT(5.0);
        fill(law, &stream(), MatrixId::KEYS, 8 * row, 8, &mut double);
        fill(law, &stream(), MatrixId::KEYS, 8 * row, 8, &mut single);
        for k in 0..8 {
            let error = (double[k] - expected[k]).abs();
            assert!(error <= 1e-12 * expected[k].abs(), "{row} {k}: {error}");
            assert_eq!(single[k], double[k] as f32);
        }
    }
}

fn assert_pieces_equal_whole<T: Drawable + PartialEq + std::fmt::Debug>(entries: Entries) {
    // More than two groups of every law (Rademacher's have 2048 elements).
    let count = 4999;
    let whole = drawn::<T>(entries, 0, count);
    for step in [1, 7, 31, 64, 101, 2053] {
        let mut pieces = vec![T::ZERO; count];
        for (index, piece) in pieces.chunks_mut(step).enumerate().rev() {
            fill(entries, &stream(), MatrixId::KEYS, step * index, 1, piece);
        }
        assert_eq!(pieces, whole, "{entries} in steps of {step}");
    }
    assert!(drawn::<T>(entries, 13, 0).is_empty());
}

#[test]
fn a_matrix_filled_in_pieces_equals_the_matrix_filled_at_once() {
    for entries in ADDRESSED {
        assert_pieces_equal_whole::<f32>(entries);
        assert_pieces_equal_whole::<f64>(entries);
    }
    let (rows, width) = (11, 13);
    let mut whole = vec![0.0_f64; rows * width];
    let law = Entries::StudentT(5.0);
    fill(law, &stream(), MatrixId::KEYS, 0, width, &mut whole);
    let mut pieces = vec![0.0_f64; rows * width];
    for (index, piece) in pieces.chunks_mut(3 * width).enumerate().rev() {
        fill(law, &stream(), MatrixId::KEYS, 3 * width * index, width, piece);
    }
    assert_eq!(pieces, whole);
}

#[test]
fn a_matrix_filled_by_three_threads_equals_the_matrix_filled_by_one() {
    let whole = drawn::<f32>(Entries::Normal, 0, 9973);
    let mut shared = vec![0.0_f32; whole.len()];
    std::thread::scope(|scope| {
        for (index, piece) in shared.chunks_mut(3331).enumerate() {
            scope.spawn(move || {
                let first = 3331 * index;
                fill(Entries::Normal, &stream(), MatrixId::KEYS, first, 1, piece);
            });
        }
    });
    assert_eq!(shared, whole);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn elements_beyond_the_first_four_billion_are_new_ones() {
    // Their block numbers need the counter's second word.
    let far = (1_usize << 34) + 3;
    let near = drawn::<f32>(Entries::Normal, 3, 64);
    let distant = drawn::<f32>(Entries::Normal, far, 64);
    assert!(near.iter().zip(&distant).all(|(a, b)| a != b));
}

fn assert_sets_agree<T: Drawable>(entries: Entries, bits: fn(T) -> u64) {
    let place = Place { stream: stream(), matrix: MatrixId::QUERIES, first: 29 };
    let mut baseline = Vec::new();
    for set in InstructionSet::available() {
        let mut out = vec![T::ZERO; 100_003];
        fill_with(set, entries, place, 1, &mut out);
        let out: Vec<u64> = out.into_iter().map(bits).collect();
        if baseline.is_empty() {
            baseline = out;
        } else {
            assert!(out == baseline, "{entries}: {set:?} differs from the baseline");
        }
    }
}

#[test]
fn every_instruction_set_draws_the_bits_of_the_baseline() {
    for entries in ADDRESSED {
        assert_sets_agree::<f32>(entries, |value| u64::from(value.to_bits()));
        assert_sets_agree::<f64>(entries, f64::to_bits);
    }
}

#[test]
fn every_instruction_set_draws_pieces_of_any_size_from_any_place() {
    fn check<T: Drawable>(entries: Entries, bits: fn(T) -> u64) {
        // Around the groups of every law (32, 64 or 2048 elements), empty, one, and primes.
        const SIZES: [usize; 14] = [0, 1, 2, 15, 17, 31, 33, 63, 64, 65, 127, 2047, 2048, 2053];
        let whole: Vec<u64> = drawn_from(InstructionSet::available().next(), entries, 0, 5000).map(bits).collect();
        for set in InstructionSet::available() {
            for first in SIZES {
                for count in SIZES {
                    let found: Vec<u64> = drawn_from(Some(set), entries, first, count).map(bits).collect();
                    assert!(found == whole[first..first + count], "{entries}: {count} from {first} by {set:?}");
                }
            }
        }
    }
    /// Drawn between two numbers that must stay.
    fn drawn_from<T: Drawable>(
        set: Option<InstructionSet>,
        entries: Entries,
        first: usize,
        count: usize,
    ) -> impl Iterator<Item = T> {
        let mut out = vec![T::from_f64(77.0); count + 2];
        let place = Place { stream: stream(), matrix: MatrixId::QUERIES, first };
        fill_with(set.expect("the baseline"), entries, place, 1, &mut out[1..=count]);
        assert!(out[0].to_f64() == 77.0 && out[count + 1].to_f64() == 77.0, "{entries}: {count} from {first}");
        out.into_iter().skip(1).take(count)
    }
    for entries in ADDRESSED {
        check::<f32>(entries, |value| u64::from(value.to_bits()));
        check::<f64>(entries, f64::to_bits);
    }
}

#[test]
#[should_panic(expected = "must be multiples of the width 5")]
fn student_t_refuses_parts_of_rows() {
    fill(Entries::StudentT(5.0), &stream(), MatrixId::KEYS, 0, 5, &mut [0.0_f64; 7]);
}

#[test]
#[should_panic(expected = "NU > 4")]
fn student_t_refuses_too_few_degrees_of_freedom() {
    fill(Entries::StudentT(4.0), &stream(), MatrixId::KEYS, 0, 1, &mut [0.0_f64; 1]);
}

#[test]
fn words_hold_the_signs_of_rademacher_elements() {
    let stream = TrialStream::new(3, 5, 7);
    for first_group in [0, 9] {
        let mut words = [0; 3 * 64];
        sign_words(&stream, MatrixId::VALUES, first_group, &mut words);
        let mut elements = [0.0f32; 3 * 2048];
        fill(Entries::Rademacher, &stream, MatrixId::VALUES, 2048 * first_group, 1, &mut elements);
        for (index, element) in elements.into_iter().enumerate() {
            let (g, w, b, l) = (index / 2048, index / 512 % 4, index / 16 % 32, index % 16);
            let bit = words[64 * g + 16 * w + l] >> b & 1;
            assert_eq!(element, if bit == 1 { -1.0 } else { 1.0 }, "element {index}");
        }
    }
}
