//! Scalar functions the integrals of the random energy model are made of.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::LazyLock;

/// Euler's constant γ (DLMF 5.2.3).
pub(super) const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// 1/√(2π).
pub(super) const INVERSE_ROOT_TWO_PI: f64 = 0.398_942_280_401_432_7;

/// Density of the standard normal law.
pub(super) fn normal_density(z: f64) -> f64 {
    INVERSE_ROOT_TWO_PI * (-0.5 * z * z).exp()
}

/// Step of the trapezoid rule behind [`normal_distribution`].
const TAIL_STEP: f64 = 0.5;

/// k² TAIL_STEP² and e^{−k² TAIL_STEP²} for k = 1, 2, ...
static TAIL_TERMS: LazyLock<[(f64, f64); 13]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let square = ((index + 1) as f64 * TAIL_STEP).powi(2);
        (square, (-square).exp())
    })
});

/// Distribution function Φ of the standard normal law, small values with their full relative accuracy (1e-14 to z = −10).
///
/// erfc(x) = (2x/π) e^{−x²} ∫₀^∞ e^{−s²}/(s² + x²) ds by the trapezoid rule of step h, whose error is e^{−π²/h²} once the
/// residue 2/(1 − e^{2πx/h}) of the pole at s = ix is added, which is due for x < π/h (Chiarella and Reichel 1968). Near
/// 0, where the pole spoils the rule, the Maclaurin series. (The erfc of the statistics crate in use errs by 1e-10.)
pub(super) fn normal_distribution(z: f64) -> f64 {
    let x = z.abs() * FRAC_1_SQRT_2;
    if x < 0.5 {
        // Φ(z) = 1/2 + n(z) (z + z³/3 + z⁵/(3·5) + ...)
        let square = z * z;
        let (mut term, mut sum) = (z, 0.0);
        for k in 0..16 {
            sum += term;
            term *= square / f64::from(2 * k + 3);
        }
        return 0.5 + normal_density(z) * sum;
    }
    let square = 0.5 * z * z;
    let sum: f64 = TAIL_TERMS.iter().map(|&(node, weight)| weight / (node + square)).sum();
    let mut complement = 2.0 * x * TAIL_STEP / PI * (-square).exp() * (0.5 / square + sum);
    if x < PI / TAIL_STEP {
        complement += 2.0 / (1.0 - (2.0 * PI * x / TAIL_STEP).exp());
    }
    if z < 0.0 { 0.5 * complement } else { 1.0 - 0.5 * complement }
}

/// 1 − e^{−t} for t ≥ 0 without cancellation; a short series where t is small, which is most of what the integrals ask for.
pub(super) fn one_minus_exp(t: f64) -> f64 {
    if t < 0.03 {
        // The first term left out is t⁸/40320 of t, below 2⁻⁵² here.
        t * (1.0 - t / 2.0 * (1.0 - t / 3.0 * (1.0 - t / 4.0 * (1.0 - t / 5.0 * (1.0 - t / 6.0 * (1.0 - t / 7.0))))))
    } else {
        -(-t).exp_m1()
    }
}

/// The kernel K(v) = E₁(eᵛ) + (v + γ) e^{−eᵛ}, positive, of which −K′(v) = (v + γ) e^{v − eᵛ}.
///
/// It turns the entropy into an integral of positive terms (see [`super::gaussian_row`]). It decays like eᵛ(1 − γ − v) to
/// the left and like e^{−eᵛ} to the right. E₁ is the exponential integral (DLMF 6.2.1, 6.6.2 and 6.9.1).
pub(super) fn entropy_kernel(v: f64) -> f64 {
    let t = v.exp();
    if t <= 1.0 {
        // E₁(t) = −γ − v + Ein(t), so that the logarithm meets 1 − e^{−t} instead of cancelling.
        let mut power = 1.0;
        let mut sum = 0.0;
        for k in 1..40 {
            power *= -t / f64::from(k);
            let term = -power / f64::from(k);
            sum += term;
            if term.abs() <= sum * 1e-18 {
                break;
            }
        }
        sum - (v + EULER_GAMMA) * one_minus_exp(t)
    } else {
        // The continued fraction 1/(t+1−1/(t+3−4/(t+5−…))), summed from its end; 120 levels are enough from t = 1 on.
        let mut tail = t + 241.0;
        for k in (1..=120).rev() {
            let level = f64::from(k);
            tail = t + 2.0 * level - 1.0 - level * level / tail;
        }
        (-t).exp() * (1.0 / tail + v + EULER_GAMMA)
    }
}

/// Nodes and weights of the Gauss–Legendre rule with `count` nodes on [`low`, `high`].
///
/// Roots of the Legendre polynomial by Newton's method from Tricomi's starting values.
pub(super) fn gauss_legendre(count: usize, low: f64, high: f64) -> Vec<(f64, f64)> {
    let middle = 0.5 * (low + high);
    let half = 0.5 * (high - low);
    let order = count as f64;
    (0..count)
        .map(|index| {
            let mut x = -(PI * (index as f64 + 0.75) / (order + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..8 {
                let (mut previous, mut value) = (1.0, x);
                for k in 2..=count {
                    let k = k as f64;
                    (previous, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * previous) / k);
                }
                slope = order * (x * value - previous) / (x * x - 1.0);
                let step = value / slope;
                x -= step;
                if step.abs() < 1e-15 {
                    break;
                }
            }
            (middle + half * x, half * 2.0 / ((1.0 - x * x) * slope * slope))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_relative(actual: f64, expected: f64, tolerance: f64, argument: f64) {
        assert!((actual / expected - 1.0).abs() < tolerance, "at {argument}: {actual:e} instead of {expected:e}");
    }

    #[test]
    fn the_normal_distribution_equals_mpmath_down_its_tail() {
        // mpmath.ncdf, 30 digits. e^{−z²/2} amplifies the rounding of z²/2, at most 50, to 1e-14.
        for (z, expected) in [
            (-10.0, 7.619_853_024_160_525e-24),
            (-8.5, 9.479_534_822_203_318e-18),
            (-4.25, 1.068_852_577_493_442e-5),
            (-1.0, 0.158_655_253_931_457_05),
            (-0.71, 0.23885206808998674),
            (-0.7, 0.241_963_652_223_073_03),
            (-0.3, 0.382_088_577_811_047_4),
            (0.0, 0.5),
            (0.5, 0.691_462_461_274_013_1),
            (1.5, 0.933_192_798_731_141_9),
            (3.0, 0.998_650_101_968_369_9),
        ] {
            assert_relative(normal_distribution(z), expected, 1e-14, z);
        }
    }

    #[test]
    fn the_entropy_kernel_equals_mpmath() {
        // mpmath: e1(e^v) + (v + euler) exp(−e^v), 30 digits. At v = 3 rounding e³ ≈ 20 costs 4e-15.
        for (v, expected) in [
            (-40.0, 1.717_303_078_407_489_4e-16),
            (-7.0, 0.006_765_825_776_000_432),
            (-0.625, 0.491_173_851_702_315_64),
            (-0.3, 0.478_341_514_261_502_23),
            (0.0, 0.431_729_710_634_898_7),
            (0.0625, 0.417_749_069_978_822_94),
            (1.0, 0.122_809_833_404_619_05),
            (3.0, 6.858_655_533_700_363e-9),
        ] {
            assert_relative(entropy_kernel(v), expected, 1e-14, v);
        }
    }

    #[test]
    fn one_minus_exp_keeps_its_digits_on_both_sides_of_the_change_of_method() {
        // −mpmath.expm1(−t), 30 digits.
        for (t, expected) in [
            (1e-12, 9.999_999_999_995e-13),
            (0.0299, 0.029_457_417_045_747_558),
            (0.0301, 0.029_651_506_152_780_74),
            (2.0, 0.864_664_716_763_387_3),
        ] {
            assert_relative(one_minus_exp(t), expected, 4.0 * f64::EPSILON, t);
        }
        assert_eq!(one_minus_exp(0.0), 0.0);
    }

    #[test]
    fn gauss_legendre_is_exact_for_polynomials_of_degree_2n_minus_1() {
        for count in [1usize, 2, 3, 7, 44] {
            let rule = gauss_legendre(count, 1.0, 3.0);
            for degree in [0, 1, count, 2 * count - 1] {
                let sum: f64 = rule.iter().map(|(x, weight)| weight * (x - 1.0).powi(degree as i32)).sum();
                let exact = 2f64.powi(degree as i32 + 1) / (degree as f64 + 1.0);
                // Rounding of the nodes, about 2⁻⁵², times the degree, at most 87.
                assert_relative(sum, exact, 1e-13, degree as f64);
            }
            // ∫ (x−1)^{2n} is underestimated by the square norm of the Legendre polynomial: the rule has no spare degree.
            if count <= 7 {
                let degree = 2 * count as i32;
                let sum: f64 = rule.iter().map(|(x, weight)| weight * (x - 1.0).powi(degree)).sum();
                assert!(sum < 2f64.powi(degree + 1) / f64::from(degree + 1) * (1.0 - 1e-9));
            }
        }
    }
}
