use super::*;
use crate::statistics::special::scaled_erfc;
use std::cell::Cell;

/// Made by scripts/reference/laws.py with mpmath at 25 to 90 digits, from other formulas than the program's.
const GOLDEN: &str = include_str!("../../tests/golden/laws.csv");

fn golden_rows() -> impl Iterator<Item = (Law, f64, f64, f64)> {
    GOLDEN.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |index: usize| fields[index].parse::<f64>().expect("a number");
        let law = match fields[0] {
            "normal" => Law::Normal,
            "gamma" => Law::Gamma { skewness: number(1) },
            "product_normal" => Law::ProductNormal { degrees: number(1) },
            "student" => Law::Student { degrees: number(1) },
            other => panic!("unknown law {other}"),
        };
        (law, number(2), number(3), number(4))
    })
}

const LAWS: [Law; 15] = [
    Law::Normal,
    Law::Gamma { skewness: 1e-12 },
    Law::Gamma { skewness: 0.05 },
    Law::Gamma { skewness: 0.3 },
    Law::Gamma { skewness: -0.7 },
    Law::Gamma { skewness: 2.8 },
    Law::Gamma { skewness: -2.0 },
    Law::ProductNormal { degrees: 0.5 },
    Law::ProductNormal { degrees: 1.0 },
    Law::ProductNormal { degrees: 7.0 },
    Law::ProductNormal { degrees: 1e12 },
    Law::Student { degrees: 0.5 },
    Law::Student { degrees: 2.0 },
    Law::Student { degrees: 29.0 },
    Law::Student { degrees: 1e9 },
];

#[test]
fn tail_probabilities_match_mpmath() {
    let mut worst = 0.0f64;
    let mut rows = 0;
    for (law, z, survival, cumulative) in golden_rows() {
        for (got, expected) in [(law.survival(z), survival), (law.cumulative(z), cumulative)] {
            let error = (got / expected - 1.0).abs();
            worst = worst.max(error);
            // The promise is 1e-8. The tolerance 2e-12 allows for what f64 leaves: an exponent of up to 700 carries
            // 700·1e-16 per rounding, a handful of them.
            assert!(error < 2e-12, "{law:?} z = {z}: {got:e} instead of {expected:e}, relative {error:e}");
        }
        rows += 1;
    }
    println!("worst relative error {worst:e} over {rows} rows");
    assert!(rows > 330, "only {rows} golden rows were read");
}

#[test]
fn scaled_erfc_is_continuous_where_its_methods_meet() {
    // Slope of erfcx is below 1.13 in size, so values 2e-15 apart may differ by 3e-15 and rounding.
    for meeting in [0.5, 2.0 * PI] {
        let (left, right) = (scaled_erfc(meeting - 1e-15), scaled_erfc(meeting + 1e-15));
        assert!((left / right - 1.0).abs() < 2e-14, "{meeting}: {left} {right}");
    }
}

#[test]
fn both_tails_sum_to_one_and_fall_monotonically() {
    for law in LAWS {
        let mut previous = f64::INFINITY;
        for index in -400..=400 {
            let z = f64::from(index) * 0.05;
            let (lower, upper) = (law.cumulative(z), law.survival(z));
            assert!((lower + upper - 1.0).abs() < 1e-12, "{law:?} {z}");
            assert!((0.0..=1.0).contains(&upper) && (0.0..=1.0).contains(&lower), "{law:?} {z}");
            // 1e-13: where method changes or complements round, equal values may wobble by that much.
            assert!(upper <= previous * (1.0 + 1e-13), "{law:?} rises at {z}");
            previous = upper;
        }
    }
}

#[test]
fn quantiles_invert_the_tails_down_to_1e_minus_15() {
    for law in LAWS {
        for p in [1e-15, 3e-12, 1e-9, 1e-6, 0.001, 0.025, 0.3, 0.5, 0.8, 0.999] {
            let upper = law.upper_quantile(p);
            let lower = law.quantile(p);
            // Towards a finite end of the support the probability of one unit in the last place of z can exceed
            // 1e-10 of p (density infinite or steep in relative terms); there the neighbours must enclose p.
            let resolution = |z: f64, tail: &dyn Fn(f64) -> f64| {
                let step = 8.0 * f64::EPSILON * z.abs().max(1e-3);
                (tail(z + step) - tail(z - step)).abs() / p
            };
            let survival = |z: f64| law.survival(z);
            let cumulative = |z: f64| law.cumulative(z);
            let error = (law.survival(upper) / p - 1.0).abs();
            assert!(error < 1e-12 + resolution(upper, &survival), "{law:?} upper {p}: {error:e}");
            let error = (law.cumulative(lower) / p - 1.0).abs();
            assert!(error < 1e-12 + resolution(lower, &cumulative), "{law:?} lower {p}: {error:e}");
        }
    }
}

#[test]
fn quantiles_of_laws_near_the_normal_one_take_few_tails() {
    // Bracketing takes ten or eleven.
    let laws = [
        Law::Normal,
        Law::Gamma { skewness: 0.03 },
        Law::Gamma { skewness: -0.1 },
        Law::ProductNormal { degrees: 64.0 },
        Law::Student { degrees: 99.0 },
    ];
    for law in laws {
        for p in [1e-6, 2.5e-5, 0.025, 0.1] {
            for sign in [-1.0, 1.0] {
                let tails = Cell::new(0);
                let tail = |z: f64| {
                    tails.set(tails.get() + 1);
                    if sign < 0.0 { law.cumulative(z) } else { law.survival(z) }
                };
                let z = law.solve_near_normal(p, sign, tail).expect("it settles");
                assert!(tails.get() <= 5, "{law:?}, {p}: {} tails", tails.get());
                // An error of z in its last place, with room: the logarithm of the tail falls by z for each unit of z, and by more.
                let reached = tail(z);
                assert!((reached / p - 1.0).abs() < 1e-13, "{law:?}, {p}: {reached}");
            }
        }
    }
}

#[test]
fn quantiles_match_published_values() {
    // Normal: 1.959963984540054 (any table); χ²_2/2 is exponential, so its quantile is −ln p − 1; t_1 is Cauchy:
    // tan(π(½ − p)); the Laplace-like product law D = 2 has survival e^{−√2 z}/2.
    assert!((Law::Normal.upper_quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-14);
    assert!((Law::Normal.quantile(0.025) + 1.959_963_984_540_054).abs() < 1e-14);
    for p in [1e-15, 1e-6, 0.01, 0.4] {
        let p: f64 = p;
        let cases = [
            (Law::Gamma { skewness: 2.0 }, -p.ln() - 1.0),
            (Law::Student { degrees: 1.0 }, 1.0 / (PI * p).tan()),
            (Law::ProductNormal { degrees: 2.0 }, -(2.0 * p).ln() / 2f64.sqrt()),
        ];
        for (law, expected) in cases {
            let got = law.upper_quantile(p);
            assert!((got / expected - 1.0).abs() < 1e-12, "{law:?} {p}: {got} instead of {expected}");
        }
    }
}

#[test]
fn ends_and_nonsense_are_answered_as_documented() {
    let exponential = Law::Gamma { skewness: 2.0 };
    assert_eq!(exponential.quantile(0.0), -1.0);
    assert_eq!(exponential.quantile(1.0), f64::INFINITY);
    assert_eq!(Law::Gamma { skewness: -2.0 }.upper_quantile(0.0), 1.0);
    assert_eq!(exponential.survival(-1.5), 1.0);
    assert_eq!(exponential.two_sided_p(-1.5), 0.0);
    for law in LAWS {
        assert_eq!((law.survival(f64::INFINITY), law.cumulative(f64::NEG_INFINITY)), (0.0, 0.0), "{law:?}");
        assert!(law.survival(f64::NAN).is_nan() && law.two_sided_p(f64::NAN).is_nan(), "{law:?}");
        assert!(law.quantile(-0.1).is_nan() && law.quantile(f64::NAN).is_nan(), "{law:?}");
    }
    for law in [Law::Student { degrees: 0.0 }, Law::ProductNormal { degrees: -1.0 }, Law::Gamma { skewness: f64::NAN }]
    {
        assert!(law.survival(1.0).is_nan() && law.quantile(0.1).is_nan(), "{law:?}");
    }
}

#[test]
fn a_negative_skewness_mirrors_the_positive_one() {
    for skewness in [0.05, 0.3, 1.9] {
        for z in [-3.0, -0.2, 0.0, 0.7, 5.1] {
            let (plain, mirrored) = (Law::Gamma { skewness }, Law::Gamma { skewness: -skewness });
            assert_eq!(plain.survival(z), mirrored.cumulative(-z));
            assert_eq!(plain.two_sided_p(z), mirrored.two_sided_p(-z));
        }
        let plain = Law::Gamma { skewness }.upper_quantile(1e-6);
        assert_eq!(plain, -Law::Gamma { skewness: -skewness }.quantile(1e-6));
    }
}

#[test]
fn every_family_hands_over_to_the_normal_law_without_a_jump() {
    for z in [-7.0, -2.0, -0.1, 0.3, 1.96, 4.9, 7.9] {
        let normal = Law::Normal.survival(z);
        // First Edgeworth terms bound the distance: |z|³·skewness/6, z⁴·(6/D)/24, z⁴/(4ν), with 1 for small |z|.
        let size = 1.0 + z.abs().powi(4);
        for small in [1e-4f64, 1e-6, 1e-9, 1e-12, 1e-19, 1e-21, 0.0] {
            for law in [
                Law::Gamma { skewness: small },
                Law::ProductNormal { degrees: 1.0 / small },
                Law::Student { degrees: 1.0 / small },
            ] {
                let distance = (law.survival(z) / normal - 1.0).abs();
                assert!(distance <= size * small + 3e-14, "{law:?} {z}: {distance:e}");
            }
        }
    }
    // And the first-order term itself is right to second order: S/Φ̄ − 1 ≈ skewness·(z²−1)·φ(z)/(6Φ̄(z)).
    let z: f64 = 1.96;
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    let term = 1e-6 * (z * z - 1.0) * density / 6.0;
    let moved = Law::Gamma { skewness: 1e-6 }.survival(z) - Law::Normal.survival(z);
    assert!((moved / term - 1.0).abs() < 1e-4, "{moved:e} {term:e}");
}

#[test]
fn the_gamma_tail_does_not_jump_where_its_methods_meet() {
    // Shapes just below and above 100 (skewness 0.2): the tail moves by at most |z|³/6·2e-12 between them.
    for z in [-7.0, -3.0, -0.5, 0.5, 3.0, 8.0] {
        let below = Law::Gamma { skewness: 0.2 - 1e-12 };
        let above = Law::Gamma { skewness: 0.2 + 1e-12 };
        for (left, right) in [(below.survival(z), above.survival(z)), (below.cumulative(z), above.cumulative(z))] {
            assert!((left / right - 1.0).abs() < 1e-9, "{z}: {left:e} {right:e}");
        }
    }
}

#[test]
fn no_argument_gives_a_number_outside_zero_to_one() {
    let parameters = [0.01, 0.05, 0.3, 1.0, 2.5, 19.0, 200.0, 1e5, 1e9, 1e30, 1e300];
    let arguments =
        [0.0, 5e-324, 1e-300, 1e-20, 1e-5, 0.1, 1.0, 5.0, 38.0, 40.0, 1e3, 1e8, 1e20, 1e154, 1e155, 1e300, f64::MAX];
    for parameter in parameters {
        for law in [
            Law::Gamma { skewness: parameter },
            Law::Gamma { skewness: 1.0 / parameter },
            Law::ProductNormal { degrees: parameter },
            Law::Student { degrees: parameter },
            Law::Normal,
        ] {
            if !law.is_valid() {
                continue;
            }
            for z in arguments.into_iter().flat_map(|z| [z, -z]) {
                for value in [law.survival(z), law.cumulative(z), law.two_sided_p(z)] {
                    assert!((0.0..=1.0).contains(&value), "{law:?} {z}: {value}");
                }
            }
            for p in [1e-300, 1e-15, 0.4, 0.5, 0.7] {
                // At skewness 100 the lower half of the law lies within one unit in the last place of the end of the
                // support, where the root finder stops 4 units short: slack of 1e-14.
                let (lower, upper) = (law.quantile(p), law.upper_quantile(p.min(0.29)));
                assert!(lower <= upper + 1e-14 * upper.abs(), "{law:?} {p}: {lower} {upper}");
            }
        }
    }
}
