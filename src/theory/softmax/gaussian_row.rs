//! One row of m logits β z_j with z_j independent standard normal: tables that do not depend on m, and the sums that do.
//!
//! With v = u + βz and t = eᵘ the building blocks are
//! B_a(u) = E[exp(a v − eᵛ)], 1 − φ(u) = E[1 − exp(−eᵛ)] and k(u) = E[K(v)], all Gaussian smoothings of fixed functions of v.
//! The textbook forms lose digits when a row is nearly one-hot, as differences of numbers near 1 or β². Everything here
//! is instead a sum of positive terms, by counting ordered pairs and triples of different keys (X_j = e^{βz_j}):
//!
//! - E[tr J] = E[Σ_{i≠j} p_i p_j] = m(m−1) ∫ B₁² φ^{m−2} du
//! - E‖J‖²_F = E[Σ p_i²(1−p_i)² + Σ_{i≠j} p_i²p_j²] = m(m−1)/6 ∫ (2 B₂² φ^{m−2} + (m−2) B₂ B₁² φ^{m−3}) du
//! - E\[H\] = −d/da E[Σp^a] at a = 1 = −m ∫ E[(v+γ) e^{v−eᵛ}] φ^{m−1} du, by parts = m(m−1) ∫ k B₁ φ^{m−2} du
//! - E[ln Z] = E\[H\] + β² E[tr J]
//!
//! The smoothing is a trapezoid sum, in z for narrow kernels (β < 1/2) and over a fixed v grid for the others, with the kernel
//! from a table, from products of exponentials or, for β ≥ 100, expanded in 1/β. On the grid 1 − φ is the smoothing of
//! 1 − e^{−eᵛ} − Φ(v/σ), which decays on both sides, plus Φ(u/√(β² + σ²)).

use super::SoftmaxExpectations;
use super::special::{
    EULER_GAMMA, INVERSE_ROOT_TWO_PI, entropy_kernel, normal_density, normal_distribution, one_minus_exp,
};
use std::sync::OnceLock;

/// Step of the v grid. The trapezoid error is about |Γ(a + 2πi/step)|, below 1e-17 of the integral for a ≤ 4.
const STEP: f64 = 0.2;
/// The v grid runs from `−GRID_BELOW · STEP` = −64 ...
const GRID_BELOW: i64 = 320;
/// ... to `GRID_ABOVE · STEP` = 4.4, where e^{4v − eᵛ} is below 1e-27.
const GRID_ABOVE: i64 = 22;
/// Below this β the normal density is narrower than the v grid resolves and the average is taken over z itself.
const NARROW: f64 = 0.5;
/// From this β on, the smoothing kernel varies slowly enough to be built row by row from products of exponentials.
const WIDE: f64 = 8.0;
/// From this β on, a series in v/β replaces the sum over the v grid.
const HUGE: f64 = 100.0;
/// Terms of that series. As ∫ eᵛ |v|ᵏ/k! dv = 1, term k is about (x/β)ᵏ with |x| up to 11: below 1e-16 for the first one left out.
const TERMS: usize = 18;
/// Events rarer than e^{−RARE}/m are left out.
const RARE: f64 = 46.0;
/// Standard deviation of the normal distribution function split off 1 − e^{−eᵛ} to leave a function that decays.
const SPLIT: f64 = 0.5;
/// Points of the v grid that share one exponential in the wide regime.
const BLOCK: usize = 16;

/// The functions smoothed: e^{av − eᵛ} for a = 1, 2, 3, 4, then K(v), then 1 − e^{−eᵛ} − Φ(v/SPLIT); times `STEP`.
type Lanes = [f64; 6];

/// What one point of the u grid holds.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// ln φ.
    log_phi: f64,
    /// φ.
    phi: f64,
    /// B₁ to B₄, over `density`.
    b: [f64; 4],
    /// k(u) over `density`, or E[(v+γ) e^{v−eᵛ}] in the narrow regime.
    entropy: f64,
}

/// The tables of one β. They serve every number of keys within the range they were built for.
#[derive(Debug)]
pub(super) struct RowTables {
    beta: f64,
    /// Step in u times `density`.
    step: f64,
    points: Vec<Point>,
    /// Factor of every smoothed function in `points`, left out so that nothing underflows: 1/β, or 1 in the narrow regime.
    density: f64,
    /// Whether `Point::entropy` is k(u), the form without cancellation.
    by_parts: bool,
}

fn lane_grid() -> &'static [Lanes] {
    static GRID: OnceLock<Vec<Lanes>> = OnceLock::new();
    GRID.get_or_init(|| {
        (-GRID_BELOW..=GRID_ABOVE)
            .map(|index| {
                let v = index as f64 * STEP;
                let t = v.exp();
                let power = |a: f64| STEP * (a * v - t).exp();
                let rest = if v < 0.0 {
                    one_minus_exp(t) - normal_distribution(v / SPLIT)
                } else {
                    normal_distribution(-v / SPLIT) - (-t).exp()
                };
                [power(1.0), power(2.0), power(3.0), power(4.0), STEP * entropy_kernel(v), STEP * rest]
            })
            .collect()
    })
}

/// ln φ and φ from 1 − φ, with the full relative accuracy of both where it counts.
fn logarithm(one_minus_phi: f64) -> (f64, f64) {
    let phi = (1.0 - one_minus_phi).max(1e-300);
    let log_phi = if one_minus_phi < 0.5 { (-one_minus_phi).ln_1p() } else { phi.ln() };
    (log_phi, phi)
}

impl RowTables {
    /// Tables for logits of standard deviation `beta` (0 ≤ β, finite) that serve 2 ≤ `fewest` ≤ m ≤ `most` keys.
    pub(super) fn new(beta: f64, fewest: usize, most: usize) -> Self {
        let extent = Extent::new(fewest, most);
        if beta < NARROW {
            Self::narrow(beta, &extent)
        } else if beta < WIDE {
            Self::medium(beta, &extent)
        } else if beta < HUGE {
            Self::wide(beta, &extent)
        } else {
            Self::huge(beta, &extent)
        }
    }

    /// Averages over z by the trapezoid rule with step 1/2, at every u.
    fn narrow(beta: f64, extent: &Extent) -> Self {
        let half_count = (extent.deviations * 2.0).ceil() as i64;
        let nodes: Vec<[f64; 3]> = (-half_count..=half_count)
            .map(|index| {
                let z = index as f64 * 0.5;
                [beta * z, (beta * z).exp(), 0.5 * normal_density(z)]
            })
            .collect();
        let mut points = Vec::new();
        let first = (extent.lowest(beta) / STEP).floor() as i64;
        let last = (extent.highest(beta) / STEP).ceil() as i64;
        for index in first..=last {
            let u = index as f64 * STEP;
            let t = u.exp();
            let (mut lanes, mut one_minus_phi) = ([0.0; 5], 0.0);
            for &[shift, factor, weight] in &nodes {
                let x = t * factor;
                if x > 100.0 {
                    one_minus_phi += weight;
                    continue;
                }
                let complement = one_minus_exp(x);
                one_minus_phi += weight * complement;
                let b1 = weight * x * (1.0 - complement);
                lanes[0] += b1;
                lanes[1] += b1 * x;
                lanes[2] += b1 * x * x;
                lanes[3] += b1 * x * x * x;
                lanes[4] += b1 * (u + shift + EULER_GAMMA);
            }
            let (log_phi, phi) = logarithm(one_minus_phi);
            points.push(Point { log_phi, phi, b: [lanes[0], lanes[1], lanes[2], lanes[3]], entropy: lanes[4] });
            if extent.is_spent(log_phi) {
                break;
            }
        }
        Self { beta, step: STEP, points, density: 1.0, by_parts: false }
    }

    /// Convolution on the v grid with a table of the normal kernel; u steps over whole numbers of v steps.
    fn medium(beta: f64, extent: &Extent) -> Self {
        let stride = ((beta * extent.resolution).floor() as i64).max(1);
        let reach = (extent.deviations * beta / STEP).ceil() as i64;
        let kernel: Vec<f64> = (-reach..=reach).map(|index| normal_density(index as f64 * STEP / beta)).collect();
        let grid = lane_grid();
        let lowest_v = (-(extent.exponent / STEP).ceil() as i64).max(-GRID_BELOW);
        let first = (extent.lowest(beta) / (STEP * stride as f64)).floor() as i64;
        let last = (extent.highest(beta) / (STEP * stride as f64)).ceil() as i64;
        let mut points = Vec::new();
        for index in (first..=last).map(|index| index * stride) {
            let from = (index - reach).max(lowest_v);
            let to = (index + reach).min(GRID_ABOVE);
            let mut sums = [0.0; 6];
            if from <= to {
                let lanes = &grid[(from + GRID_BELOW) as usize..=(to + GRID_BELOW) as usize];
                let kernel = &kernel[(from - index + reach) as usize..=(to - index + reach) as usize];
                for (lane, &weight) in lanes.iter().zip(kernel) {
                    for (sum, value) in sums.iter_mut().zip(lane) {
                        *sum += weight * value;
                    }
                }
            }
            let point = Point::from_lanes(index as f64 * STEP / beta, beta, &sums);
            points.push(point);
            if extent.is_spent(point.log_phi) {
                break;
            }
        }
        Self { beta, step: STEP * stride as f64 / beta, points, density: 1.0 / beta, by_parts: true }
    }

    /// The same convolution in units of β, with exp(−(x−w)²/2) = exp(xw − x²/2) exp(−w²/2) for x = u/β and w = v/β.
    fn wide(beta: f64, extent: &Extent) -> Self {
        let lowest_v = (-(extent.exponent / STEP).ceil() as i64).max(-GRID_BELOW);
        let spacing = STEP / beta;
        let lanes: Vec<Lanes> = lane_grid()[(lowest_v + GRID_BELOW) as usize..]
            .iter()
            .zip(lowest_v..)
            .map(|(lane, index)| {
                let w = index as f64 * spacing;
                let factor = INVERSE_ROOT_TWO_PI * (-0.5 * w * w).exp();
                lane.map(|value| value * factor)
            })
            .collect();
        Self::scan_wide(beta, extent, |x| {
            let mut within = [1.0; BLOCK];
            let ratio = (x * spacing).exp();
            for position in 1..BLOCK {
                within[position] = within[position - 1] * ratio;
            }
            let mut sums = [0.0; 6];
            for (block, lanes) in lanes.chunks(BLOCK).enumerate() {
                let w = (lowest_v + (block * BLOCK) as i64) as f64 * spacing;
                let base = (x * w - 0.5 * x * x).exp();
                let mut partial = [0.0; 6];
                for (lane, &weight) in lanes.iter().zip(&within) {
                    for (sum, value) in partial.iter_mut().zip(lane) {
                        *sum += weight * value;
                    }
                }
                for (sum, value) in sums.iter_mut().zip(partial) {
                    *sum += base * value;
                }
            }
            sums
        })
    }

    /// The same with exp(xw − w²/2) = Σ_k He_k(x) w^k/k!, so that only moments of the smoothed functions are needed.
    fn huge(beta: f64, extent: &Extent) -> Self {
        let mut moments = [[0.0; 6]; TERMS];
        for (lane, index) in lane_grid().iter().zip(-GRID_BELOW..) {
            let w = index as f64 * STEP / beta;
            let mut factor = INVERSE_ROOT_TWO_PI;
            for (k, moment) in moments.iter_mut().enumerate() {
                for (sum, value) in moment.iter_mut().zip(lane) {
                    *sum += factor * value;
                }
                factor *= w / (k + 1) as f64;
            }
        }
        Self::scan_wide(beta, extent, |x| {
            let density = (-0.5 * x * x).exp();
            let (mut previous, mut hermite) = (0.0, density);
            let mut sums = [0.0; 6];
            for (k, moment) in moments.iter().enumerate() {
                for (sum, value) in sums.iter_mut().zip(moment) {
                    *sum += hermite * value;
                }
                (previous, hermite) = (hermite, x * hermite - k as f64 * previous);
            }
            sums
        })
    }

    /// Walks the u axis in units of β, where `smoothed` gives the lanes at x = u/β over 1/β.
    fn scan_wide(beta: f64, extent: &Extent, smoothed: impl Fn(f64) -> Lanes) -> Self {
        let step = STEP * extent.resolution.max(1.0 / beta);
        let first = (extent.lowest(beta) / beta / step).floor() as i64;
        let last = (extent.highest(beta) / beta / step).ceil() as i64;
        let mut points = Vec::new();
        for index in first..=last {
            let x = index as f64 * step;
            let point = Point::from_lanes(x, beta, &smoothed(x));
            points.push(point);
            if extent.is_spent(point.log_phi) {
                break;
            }
        }
        Self { beta, step, points, density: 1.0 / beta, by_parts: true }
    }

    /// Expected statistics of a row of `keys` keys (within the range of [`RowTables::new`]).
    pub(super) fn expectations(&self, keys: usize) -> SoftmaxExpectations {
        let m = keys as f64;
        let (mut one, mut two, mut three, mut four) = (0.0, 0.0, 0.0, 0.0);
        let (mut pairs, mut square_pairs, mut triples, mut entropy) = (0.0, 0.0, 0.0, 0.0);
        for point in &self.points {
            let [b1, b2, b3, b4] = point.b;
            let (power3, power2) = if keys >= 3 {
                let exponent = (m - 3.0) * point.log_phi;
                if exponent < -745.0 {
                    break; // φ falls with u, so nothing follows
                }
                let power3 = exponent.exp();
                (power3, power3 * point.phi)
            } else {
                (0.0, 1.0)
            };
            let power1 = power2 * point.phi;
            one += b1 * power1;
            two += b2 * power1;
            three += b3 * power1;
            four += b4 * power1;
            pairs += b1 * b1 * power2;
            square_pairs += b2 * b2 * power2;
            triples += b2 * b1 * b1 * power3;
            entropy += if self.by_parts { point.entropy * b1 * power2 } else { -point.entropy * power1 };
        }
        let single = m * self.step;
        let ordered = m * (m - 1.0) * self.step * self.density;
        let entropy = if self.by_parts { ordered * entropy } else { single * entropy };
        let jacobian_trace = ordered * pairs;
        let sum_p_fourth = single * four / 6.0;
        SoftmaxExpectations {
            entropy,
            participation: single * two,
            sum_p_cubed: single * three / 2.0,
            sum_p_fourth,
            participation_squared: sum_p_fourth + ordered * square_pairs / 6.0,
            jacobian_frobenius: ordered * (2.0 * square_pairs + (m - 2.0) * triples * self.density) / 6.0,
            jacobian_trace,
            normalisation: single * one,
            // β (β tr J): tr J falls like 1/β, β² alone may overflow.
            log_partition: entropy + self.beta * (self.beta * jacobian_trace),
        }
    }
}

/// The part of the u axis that counts.
struct Extent {
    /// A key this many standard deviations out has probability below e^{−RARE}/m.
    deviations: f64,
    /// RARE + ln m.
    exponent: f64,
    /// Largest step relative to β that still resolves φ^m, whose fall has the width β/√(2 ln m) of a Gumbel law.
    resolution: f64,
    /// The smallest number of keys.
    fewest: f64,
}

impl Extent {
    fn new(fewest: usize, most: usize) -> Self {
        let log_most = (most as f64).ln();
        Self {
            deviations: (2.0 * (RARE + log_most)).sqrt(),
            exponent: RARE + log_most,
            resolution: 1.0 / (1.0 + 2.0 * log_most).sqrt(),
            fewest: fewest as f64,
        }
    }

    /// Below this u, m B₁(u) is under e^{−RARE}: B₁ is about e^{u+β²/2} or, where that average sits beyond all keys, Φ(u/β).
    fn lowest(&self, beta: f64) -> f64 {
        let half_square = 0.5 * beta * beta;
        if half_square >= self.exponent { -self.deviations * beta } else { -(self.exponent + half_square) }
    }

    /// Above this u every B_a is negligible, even with no power of φ beside it.
    fn highest(&self, beta: f64) -> f64 {
        self.deviations * beta + 4.0
    }

    /// Whether the powers of φ, which falls with u, have put an end to every integral.
    fn is_spent(&self, log_phi: f64) -> bool {
        self.fewest > 3.0 && (self.fewest - 3.0) * log_phi < -(self.exponent + 20.0)
    }
}

impl Point {
    /// From the smoothed lanes at u = xβ.
    fn from_lanes(x: f64, beta: f64, sums: &Lanes) -> Self {
        // SPLIT convolved with the kernel is again a normal distribution function.
        let whole = normal_distribution(x / 1f64.hypot(SPLIT / beta));
        let (log_phi, phi) = logarithm((whole + sums[5] / beta).max(0.0));
        Self { log_phi, phi, b: [sums[0], sums[1], sums[2], sums[3]], entropy: sums[4] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The methods are different sums, so they check each other where one takes over from the next.
    #[test]
    fn neighbouring_methods_agree_where_they_meet() {
        type Method = fn(f64, &Extent) -> RowTables;
        let pairs: [(f64, Method, Method); 3] = [
            (NARROW, RowTables::narrow, RowTables::medium),
            (WIDE, RowTables::medium, RowTables::wide),
            (HUGE, RowTables::wide, RowTables::huge),
        ];
        for (beta, below, above) in pairs {
            for keys in [2, 3, 31, 1009, 1_000_003] {
                let extent = Extent::new(keys, keys);
                let below = below(beta, &extent).expectations(keys);
                let above = above(beta, &extent).expectations(keys);
                // Sums of a few hundred terms, each rounded, and the powers φ^m, which multiply relative errors by up to 60.
                for (one, other) in [
                    (below.entropy, above.entropy),
                    (below.participation, above.participation),
                    (below.sum_p_cubed, above.sum_p_cubed),
                    (below.sum_p_fourth, above.sum_p_fourth),
                    (below.jacobian_frobenius, above.jacobian_frobenius),
                    (below.jacobian_trace, above.jacobian_trace),
                    (below.normalisation, above.normalisation),
                ] {
                    assert!((one / other - 1.0).abs() < 1e-13, "beta {beta}, m = {keys}: {one:e} and {other:e}");
                }
            }
        }
    }
}
