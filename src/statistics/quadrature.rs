//! Integration of tails and root finding, the two numerical tools the laws rest on.

use std::sync::OnceLock;

const NODES: usize = 64;

/// Gauss–Legendre nodes and weights on [0, 1].
fn gauss_legendre() -> &'static [(f64, f64); NODES] {
    static RULE: OnceLock<[(f64, f64); NODES]> = OnceLock::new();
    RULE.get_or_init(|| {
        let n = NODES as f64;
        let mut rule = [(0.0, 0.0); NODES];
        for index in 0..NODES / 2 {
            // Newton from the usual cosine guess, right to a hundred-thousandth: three steps, and one for the slope.
            let mut x = (std::f64::consts::PI * (index as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..4 {
                let (mut previous, mut current) = (1.0, x);
                for degree in 2..=NODES {
                    let k = degree as f64;
                    (previous, current) = (current, ((2.0 * k - 1.0) * x * current - (k - 1.0) * previous) / k);
                }
                slope = n * (x * current - previous) / (x * x - 1.0);
                x -= current / slope;
            }
            let weight = 1.0 / ((1.0 - x * x) * slope * slope);
            rule[index] = (0.5 * (1.0 + x), weight);
            rule[NODES - 1 - index] = (0.5 * (1.0 - x), weight);
        }
        rule
    })
}

/// ∫₀^∞ exp(g(t)) dt for a concave g with g(0) = 0 that may rise a little at first and then falls for good.
///
/// The integral is cut where the integrand has fallen to e^−42 ≈ 6e-19 and evaluated by 64 Gauss–Legendre nodes: for
/// concave exponents of that depth the rule is exact to rounding (tests compare with closed forms). `scale` is the
/// first guess of the length over which g changes.
pub(crate) fn tail_integral(scale: f64, exponent: impl Fn(f64) -> f64) -> f64 {
    panel_integral(fall_length(scale, &exponent), exponent)
}

/// ∫₀^length exp(g(t)) dt by one panel of 64 Gauss–Legendre nodes.
pub(crate) fn panel_integral(length: f64, exponent: impl Fn(f64) -> f64) -> f64 {
    let weighted = |&(node, weight): &(f64, f64)| weight * exponent(length * node).exp();
    length * gauss_legendre().iter().map(weighted).sum::<f64>()
}

/// The t > 0 at which a concave falling function has come down to between −42 and −44 (or a step of it jumps past).
pub(crate) fn fall_length(scale: f64, exponent: impl Fn(f64) -> f64) -> f64 {
    const DEPTH: f64 = -42.0;
    let mut inside = 0.0;
    let mut outside = scale;
    while exponent(outside) > DEPTH && outside < 1e300 {
        inside = outside;
        outside *= 2.0;
    }
    while exponent(outside) < DEPTH - 2.0 {
        let middle = 0.5 * (inside + outside);
        if middle <= inside || middle >= outside {
            break;
        }
        if exponent(middle) > DEPTH {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    outside
}

/// The root of a monotone function between `start` and `end`, which must bracket it (one value may be infinite).
///
/// Chandrupatla's method (1997, Advances in Engineering Software 28): inverse quadratic interpolation where it is
/// safe, bisection elsewhere. Ends when the bracket is a few units in the last place wide.
pub(crate) fn root(start: f64, end: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut a, mut b) = (end, start);
    let (mut value_a, mut value_b) = (function(a), function(b));
    let (mut c, mut value_c);
    let mut fraction = 0.5;
    for _ in 0..400 {
        let x = a + fraction * (b - a);
        let value = function(x);
        if (value > 0.0) == (value_a > 0.0) {
            (c, value_c) = (a, value_a);
        } else {
            (c, value_c, b, value_b) = (b, value_b, a, value_a);
        }
        (a, value_a) = (x, value);
        let best = if value_a.abs() < value_b.abs() { a } else { b };
        let tolerance = 4.0 * f64::EPSILON * best.abs() + 1e-18;
        let limit = tolerance / (b - a).abs();
        if limit > 0.5 || value_a == 0.0 {
            return if value_a == 0.0 { a } else { best };
        }
        let xi = (a - b) / (c - b);
        let phi = (value_a - value_b) / (value_c - value_b);
        let interpolated = value_a / (value_b - value_a) * value_c / (value_b - value_c)
            + (c - a) / (b - a) * value_a / (value_c - value_a) * value_b / (value_c - value_b);
        fraction = if phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi && interpolated.is_finite() {
            interpolated.clamp(limit, 1.0 - limit)
        } else {
            0.5
        };
    }
    0.5 * (a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_integrals_match_closed_forms() {
        // ∫e^{−3t}dt = 1/3; ∫e^{−t²/2}dt = √(π/2); the rule is exact to rounding, 1e-14 leaves a margin for 64 sums.
        assert!((tail_integral(1.0, |t| -3.0 * t) * 3.0 - 1.0).abs() < 1e-14);
        let half_normal = (std::f64::consts::PI / 2.0).sqrt();
        for scale in [1e-3, 1.0, 77.0] {
            assert!((tail_integral(scale, |t| -0.5 * t * t) / half_normal - 1.0).abs() < 1e-14);
        }
        // ∫ sech(t)dt = π/2, poles at ±iπ/2.
        let sech = tail_integral(1.0, |t: f64| -t.cosh().ln());
        assert!((sech / (std::f64::consts::PI / 2.0) - 1.0).abs() < 1e-13, "{sech}");
    }

    #[test]
    fn roots_are_found_in_hard_brackets() {
        assert!((root(0.0, 3.0, |x| x * x * x - 2.0) - 2f64.cbrt()).abs() < 1e-15);
        // An infinite end value and a flat stretch.
        assert!((root(0.0, 1.0, |x| x.ln() + 20.0) / (-20f64).exp() - 1.0).abs() < 1e-13);
    }
}
