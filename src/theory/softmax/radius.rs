//! Quadrature over the length of a query, |q| = √r with r ~ χ²_d.

use super::special::gauss_legendre;

/// The window ends where the density has fallen to e^{−DEPTH} of its maximum: about ±10 standard deviations for large d.
const DEPTH: f64 = 50.0;

/// Step of the trapezoid rule where the window ends before |q| = 0. The density is close to normal with variance 1/2, which
/// the rule integrates with an error of e^{−4π²·(1/2)/(2·STEP²)} = e^{−49}.
const STEP: f64 = 0.45;
/// Nodes of the Gauss–Legendre rule where it does not and the statistics change little in the window.
const SINGLE: usize = 44;
/// Nodes of the Gauss–Legendre rule on each panel otherwise.
const PANEL: usize = 32;

/// Lengths |q| and weights, which sum to 1, of a rule for averages of functions of `scale`·|q|.
///
/// From about a dozen dimensions on the density vanishes with many derivatives at both ends and the trapezoid rule converges
/// geometrically. Below that the window starts at |q| = 0 and the rule is Gauss–Legendre. Queries short enough for an even
/// row then count as well: if `scale` is large the statistics change in a layer of width 1/`scale`, so the axis is cut into
/// panels at `scale`·|q| = 2.5, 10, 100, 1000 and so on.
pub(super) fn radial_rule(d_k: u32, scale: f64) -> Vec<(f64, f64)> {
    let (low, high) = window(d_k);
    let mut rule = Vec::new();
    if low > 0.0 {
        let count = ((high - low) / STEP).ceil() as u32;
        rule.extend((0..=count).map(|index| (low + f64::from(index) * STEP, 1.0)));
    } else {
        let mut edges = vec![low];
        // Shorter queries have a probability of about this to the power d, e^{−69} = 1e-30, which is nothing to tr J ≈ 1/scale.
        let shortest = (-69.0 / f64::from(d_k)).exp();
        let mut edge = 2.5 / scale;
        while edge < 0.7 * high {
            if edge > 1.1 * shortest {
                edges.push(edge);
            }
            edge *= if edge * scale < 5.0 { 4.0 } else { 10.0 };
        }
        let count = if edges.len() == 1 { SINGLE } else { PANEL };
        edges.push(high);
        for pair in edges.windows(2) {
            rule.extend(gauss_legendre(count, pair[0], pair[1]));
        }
    }
    for (radius, weight) in &mut rule {
        *weight *= relative_density(d_k, *radius);
    }
    let total: f64 = rule.iter().map(|&(_, weight)| weight).sum();
    for (_, weight) in &mut rule {
        *weight /= total;
    }
    rule
}

/// Density of the chi law with `d_k` degrees of freedom over its value at its mode √(d_k − 1).
fn relative_density(d_k: u32, radius: f64) -> f64 {
    log_relative_density(d_k, radius).exp()
}

fn log_relative_density(d_k: u32, radius: f64) -> f64 {
    if d_k == 1 {
        return -0.5 * radius * radius;
    }
    let freedom = f64::from(d_k) - 1.0;
    let mode = freedom.sqrt();
    let offset = radius - mode;
    let relative = offset / mode;
    // The parts of (d−1) ln q and q²/2 that are linear in the offset cancel; they must not be formed when d is large.
    freedom * (relative.ln_1p() - relative) - 0.5 * offset * offset
}

/// Where the density has fallen by e^{−DEPTH} on either side; the lower end is 0 when it is close to it.
fn window(d_k: u32) -> (f64, f64) {
    let mode = (f64::from(d_k) - 1.0).sqrt();
    // The logarithm of the density has a second derivative below −1 everywhere.
    let reach = (2.0 * DEPTH).sqrt();
    let bisect = |mut inside: f64, mut outside: f64| {
        for _ in 0..40 {
            let middle = 0.5 * (inside + outside);
            if log_relative_density(d_k, middle) > -DEPTH { inside = middle } else { outside = middle }
        }
        outside
    };
    let low = bisect(mode, (mode - reach).max(0.0));
    (if low < 0.1 { 0.0 } else { low }, bisect(mode, mode + reach))
}
