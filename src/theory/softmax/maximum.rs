//! The expected largest weight of a row.
//!
//! Given that the largest of the m standard normals is z and that its weight is 1/(1 + R), R the sum of the others over it,
//! E[1/(1+R)] = ∫₀^∞ e^{−s} E[e^{−sR}] ds and the others are independent normals cut off at z:
//! E[max p] = m ∫ dz n(z) ∫₀^∞ ds e^{−s} G(s, z)^{m−1} with
//! Φ(z) − G(s, z) = ∫₀^∞ n(z − w/β) (1 − exp(−s e^{−w})) dw/β.

use super::special::{gauss_legendre, normal_density, normal_distribution, one_minus_exp};

/// Events rarer than e^{−RARE}/m are left out.
const RARE: f64 = 38.0;
/// Step in the variable y of s = exp(y − e^{−(y + ln m)}).
const STEP: f64 = 0.3;

/// E[max p] for a row of `keys` ≥ 2 logits β z_j, z_j independent standard normal, 0 < β.
pub(super) fn conditional(beta: f64, keys: usize) -> f64 {
    let m = keys as f64;
    let log_m = m.ln();
    let highest_z = (2.0 * (RARE + log_m)).sqrt();
    let z_step = 0.36 / (1.0 + 1.7 * log_m).sqrt();

    // The gap w to the largest: past 45 the factor is below e^{−41}, past 2·highest_z·β there are no keys.
    let longest = 45f64.min(2.0 * highest_z * beta);
    let cuts = [0.0, 0.12 * longest, 0.35 * longest, longest];
    let mut gaps = Vec::new();
    for pair in cuts.windows(2) {
        gaps.extend(gauss_legendre(20, pair[0], pair[1]));
    }

    // s runs over the scale 1/m .. 1 of 1/(1+R), with a double exponential start and the fall of e^{−s} as its end.
    let first = (-(log_m + 4.0) / STEP).floor() as i64;
    let last = (3.8 / STEP).ceil() as i64;
    let scales: Vec<(f64, f64)> = (first..=last)
        .map(|index| {
            let y = index as f64 * STEP;
            let start = (-(y + log_m)).exp();
            let s = (y - start).exp();
            (s, STEP * s * (1.0 + start) * (-s).exp())
        })
        .collect();
    let losses: Vec<Vec<f64>> = gaps
        .iter()
        .map(|&(gap, _)| {
            let factor = (-gap).exp();
            scales.iter().map(|&(s, _)| one_minus_exp(s * factor)).collect()
        })
        .collect();

    let mut total = 0.0;
    let mut missing = vec![0.0; scales.len()];
    let mut index = (highest_z / z_step).ceil() as i64;
    loop {
        let z = index as f64 * z_step;
        index -= 1;
        let above = normal_distribution(-z);
        // (m−1) ln Φ(z): the probability that no other key is larger.
        let none_larger = (m - 1.0) * if above < 0.5 { (-above).ln_1p() } else { normal_distribution(z).ln() };
        if none_larger < -RARE - log_m || z < -highest_z {
            break;
        }
        missing.fill(above);
        for (&(gap, weight), row) in gaps.iter().zip(&losses) {
            let density = weight / beta * normal_density(z - gap / beta);
            if density < 1e-30 {
                continue;
            }
            for (sum, loss) in missing.iter_mut().zip(row) {
                *sum += density * loss;
            }
        }
        let mut inner = 0.0;
        for (&(_, weight), &missing) in scales.iter().zip(&missing) {
            let exponent = (m - 1.0) * if missing < 1.0 { (-missing).ln_1p() } else { f64::NEG_INFINITY };
            if exponent < -60.0 {
                break; // G falls with s
            }
            inner += weight * exponent.exp();
        }
        total += normal_density(z) * inner;
    }
    m * z_step * total
}
