//! Laws of standardised deviations, with relative accuracy in both tails.

use super::quadrature::{fall_length, panel_integral, root, tail_integral};
use super::special::{
    exponential_excess, incomplete_gamma, ln_gamma_star, ln_half_step_gamma_ratio, ln_normal_survival,
    logarithm_deficit, normal_hazard, normal_survival,
};
use std::f64::consts::PI;

/// Skewness below which a gamma law and the normal law agree in every digit: the first difference of the tails is
/// a relative z³·skewness/6, less than 1e-16 up to z = 38, where f64 tails end.
const SKEWNESS_OF_A_NORMAL: f64 = 1e-20;

/// Shape from which the gamma tail is integrated instead of expanded (series and fraction need about √shape steps).
const SHAPE_FOR_QUADRATURE: f64 = 100.0;

/// Exponent below which a tail is 0 in f64 whatever its factors.
const BELOW_ALL_NUMBERS: f64 = -1000.0;

/// The law of a standardised deviation z = (estimate − expected) / standard error.
///
/// Mean 0 and variance 1, except [`Law::Student`], which is the usual t. Tail probabilities carry a relative error
/// below 1e-8 down to 1e-300 (measured: 2e-13 at worst over 349 reference values), on the domain stated at each law; a parameter or an argument
/// outside it gives NaN, never a wrong number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// The standard normal law: the limit of all others.
    Normal,
    /// Pearson type III (Pearson 1895): a gamma law shifted and scaled to mean 0, variance 1 and this skewness. A
    /// negative skewness reflects it. χ²_ν standardised is the case skewness = √(8/ν). The support ends at
    /// −2/skewness. Domain: |skewness| ≤ 200; towards 0 it becomes the normal law without a jump.
    Gamma {
        /// The third standardised moment.
        skewness: f64,
    },
    /// Σ_{h≤D} Z_h Z'_h / √D for independent standard normals, extended to real D > 0: the symmetric variance-gamma
    /// law with excess kurtosis 6/D. It is the exact law of a logit, and of a mean of logits, of normal entries.
    /// Domain: D ≥ 0.05 (the cost grows like 1/D below 1).
    ProductNormal {
        /// The number D of products.
        degrees: f64,
    },
    /// Student's t (Student 1908): variance degrees/(degrees − 2), not 1. Domain: degrees ≥ 0.01.
    Student {
        /// Degrees of freedom.
        degrees: f64,
    },
}

impl Law {
    /// P(Z > z).
    pub fn survival(&self, z: f64) -> f64 {
        self.tails(z).1
    }

    /// P(Z ≤ z).
    pub fn cumulative(&self, z: f64) -> f64 {
        self.tails(z).0
    }

    /// min(1, 2·min(P(Z ≤ z), P(Z ≥ z))): uniform on (0, 1) when z follows the law, also for skewed laws, since the
    /// smaller tail probability is uniform on (0, ½).
    pub fn two_sided_p(&self, z: f64) -> f64 {
        let (lower, upper) = self.tails(z);
        if lower.is_nan() {
            return f64::NAN;
        }
        (2.0 * lower.min(upper)).min(1.0)
    }

    /// The z with P(Z ≤ z) = p; the ends of the support at p = 0 and 1, NaN outside [0, 1].
    ///
    /// Solved on the logarithm of the smaller tail, so it holds for p down to 1e-300. Where the density of a gamma law
    /// with skewness above 2 crowds at the end of the support, z is resolved to 1 unit in the last place only.
    pub fn quantile(&self, p: f64) -> f64 {
        self.solve(p, 1.0 - p, p <= 0.5)
    }

    /// The z with P(Z > z) = p: as [`Law::quantile`], for the upper tail.
    pub fn upper_quantile(&self, p: f64) -> f64 {
        self.solve(1.0 - p, p, p > 0.5)
    }

    /// The z with P(Z ≤ z) = p and that with P(Z > z) = p.
    pub fn quantiles(&self, p: f64) -> (f64, f64) {
        let upper = self.upper_quantile(p);
        (if self.is_symmetric() { -upper } else { self.quantile(p) }, upper)
    }

    /// Whether Z and −Z have the same law.
    fn is_symmetric(&self) -> bool {
        match *self {
            Law::Normal | Law::ProductNormal { .. } | Law::Student { .. } => true,
            Law::Gamma { skewness } => skewness.abs() < SKEWNESS_OF_A_NORMAL,
        }
    }

    /// Whether parameters lie in the domain of the law.
    pub fn is_valid(&self) -> bool {
        match *self {
            Law::Normal => true,
            Law::Gamma { skewness } => skewness.abs() <= 200.0,
            Law::ProductNormal { degrees } => degrees >= 0.05,
            Law::Student { degrees } => degrees >= 0.01,
        }
    }

    /// (P(Z ≤ z), P(Z > z)); the smaller is computed, the larger is its complement.
    fn tails(&self, z: f64) -> (f64, f64) {
        if z.is_nan() || !self.is_valid() {
            return (f64::NAN, f64::NAN);
        }
        match *self {
            Law::Normal => symmetric_tails(z, normal_survival),
            Law::Gamma { skewness } if skewness.abs() < SKEWNESS_OF_A_NORMAL => symmetric_tails(z, normal_survival),
            Law::Gamma { skewness } if skewness < 0.0 => {
                let (lower, upper) = gamma_tails(-skewness, -z);
                (upper, lower)
            }
            Law::Gamma { skewness } => gamma_tails(skewness, z),
            Law::ProductNormal { degrees } => symmetric_tails(z, |z| product_normal_survival(degrees, z)),
            Law::Student { degrees } => symmetric_tails(z, |z| student_survival(degrees, z)),
        }
    }

    /// (lower, upper) end of the support.
    fn support(&self) -> (f64, f64) {
        match *self {
            Law::Gamma { skewness } if skewness >= SKEWNESS_OF_A_NORMAL => (-2.0 / skewness, f64::INFINITY),
            Law::Gamma { skewness } if skewness <= -SKEWNESS_OF_A_NORMAL => (f64::NEG_INFINITY, -2.0 / skewness),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    fn solve(&self, lower: f64, upper: f64, from_below: bool) -> f64 {
        if !(0.0..=1.0).contains(&lower) || !(0.0..=1.0).contains(&upper) || !self.is_valid() {
            return f64::NAN;
        }
        let (first, last) = self.support();
        if lower == 0.0 {
            return first;
        }
        if upper == 0.0 {
            return last;
        }
        if lower == upper && self.is_symmetric() {
            return 0.0;
        }
        let tail = |z: f64| if from_below { self.tails(z).0 } else { self.tails(z).1 };
        let (sought, sign) = if from_below { (lower, -1.0) } else { (upper, 1.0) };
        if let Some(z) = self.solve_near_normal(sought, sign, tail) {
            return z;
        }
        // Increasing in z in both cases: ln F(z) − ln p, or ln p − ln S(z).
        let distance = |z: f64| sign * (sought.ln() - tail(z).ln());
        let at_zero = distance(0.0);
        if at_zero == 0.0 {
            return 0.0;
        }
        let direction = if at_zero < 0.0 { 1.0 } else { -1.0 };
        let mut inside = 0.0;
        // Most laws are near the normal one: a little beyond its quantile.
        let mut outside = direction * (1.05 * rough_normal_quantile(lower.min(upper)) + 0.01);
        loop {
            if outside <= first || outside >= last {
                outside = if direction < 0.0 { first } else { last };
                if outside.is_infinite() {
                    // Beyond the largest f64: Student's law with a fraction of a degree of freedom can get there.
                    return outside;
                }
                break;
            }
            if direction * distance(outside) >= 0.0 {
                break;
            }
            inside = outside;
            outside *= 2.0;
        }
        // Where it is near, a narrow bracket saves half the steps.
        let before = 0.9 * outside;
        if inside == 0.0 && before.is_finite() {
            if direction * distance(before) < 0.0 {
                inside = before;
            } else {
                outside = before;
            }
        }
        root(inside, outside, distance)
    }

    /// The z with tail(z) = p of a law near the normal one, by the secant method on the scores of tail probabilities, which are
    /// nearly linear in z; `sign` is that of an outer z. `None` where it does not settle within a few steps.
    fn solve_near_normal(&self, p: f64, sign: f64, tail: impl Fn(f64) -> f64) -> Option<f64> {
        const STEPS: usize = 8;
        let sought = sign * rough_normal_quantile(p);
        let mut z = self.rough_quantile(sought);
        // Of a normal law a step in the score is one in z.
        let mut slope = 1.0;
        let mut last: Option<(f64, f64)> = None;
        let (first, end) = self.support();
        for _ in 0..STEPS {
            if !(z > first && z < end) {
                return None;
            }
            let score = sign * rough_normal_quantile(tail(z));
            if score == sought {
                return Some(z);
            }
            if let Some((last_z, last_score)) = last {
                slope = (z - last_z) / (score - last_score);
            }
            let step = (sought - score) * slope;
            if !(slope > 0.0 && step.abs() < 1.0) {
                return None;
            }
            // The error left is a product of the last two, times the curvature, which is small.
            let is_last = last.is_some_and(|(last_z, _)| (step * (z - last_z)).abs() <= f64::EPSILON * 1e-2 * z.abs());
            last = Some((z, score));
            z += step;
            if is_last {
                return Some(z);
            }
        }
        None
    }

    /// The quantile to second order in skewness and first in excess kurtosis from that of the normal law (Cornish and Fisher 1938).
    fn rough_quantile(&self, normal: f64) -> f64 {
        let (skewness, excess, spread) = match *self {
            Law::Normal => (0.0, 0.0, 1.0),
            Law::Gamma { skewness } => (skewness, 1.5 * skewness * skewness, 1.0),
            Law::ProductNormal { degrees } => (0.0, 6.0 / degrees, 1.0),
            Law::Student { degrees } if degrees > 4.0 => {
                (0.0, 6.0 / (degrees - 4.0), (degrees / (degrees - 2.0)).sqrt())
            }
            Law::Student { .. } => return f64::NAN,
        };
        let square = normal * normal;
        let corrections = skewness * (square - 1.0) / 6.0 + excess * normal * (square - 3.0) / 24.0
            - skewness * skewness * normal * (2.0 * square - 5.0) / 36.0;
        spread * (normal + corrections)
    }
}

/// The z with P(Z > z) = p ≤ ½ for a standard normal Z, off by less than 0.003 (Hastings 1955, *Approximations for Digital Computers*,
/// sheet 67).
fn rough_normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t))
}

fn symmetric_tails(z: f64, survival: impl Fn(f64) -> f64) -> (f64, f64) {
    let outer = if z == 0.0 { 0.5 } else { survival(z.abs()) };
    if z < 0.0 { (outer, 1.0 - outer) } else { (1.0 - outer, outer) }
}

/// Both tails of the standardised gamma law, skewness > 0.
///
/// Shape a = 4/skewness², X = a(1 + μ) with μ = z·skewness/2, and the density of z is
/// exp(−a·(μ − ln(1+μ))) / ((1+μ)·√(2π)·Γ*(a)), which tends to the normal density term by term: forming X itself
/// would lose every digit at skewness 1e-12, where a = 4e24.
fn gamma_tails(skewness: f64, z: f64) -> (f64, f64) {
    let shape = 4.0 / (skewness * skewness);
    let to_mu = 0.5 * skewness;
    if shape < SHAPE_FOR_QUADRATURE {
        return incomplete_gamma(shape, z * to_mu);
    }
    if z * to_mu <= -1.0 {
        return (0.0, 1.0);
    }
    if z == f64::INFINITY {
        return (1.0, 0.0);
    }
    let exponent = |z: f64| {
        let mu = z * to_mu;
        if mu <= -1.0 { f64::NEG_INFINITY } else { -shape * logarithm_deficit(mu) - mu.ln_1p() }
    };
    let here = exponent(z);
    if here < BELOW_ALL_NUMBERS {
        return if z < 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
    }
    let direction = if z < 0.0 { -1.0 } else { 1.0 };
    // The density falls like e^{−|z|t} first, so 1/(1+|z|) is the length to start from.
    let integral = tail_integral(1.0 / (1.0 + z.abs()), |t| exponent(z + direction * t) - here);
    let tail = integral * (here - ln_gamma_star(shape)).exp() / (2.0 * PI).sqrt();
    if z < 0.0 { (tail, 1.0 - tail) } else { (1.0 - tail, tail) }
}

/// P(Z > z), z > 0, for Σ Z_h Z'_h/√D.
///
/// Given R² = ΣZ_h² (χ²_D) the sum is N(0, R²). With R = √D·e^v,
/// P = √(D/π)/Γ*(D/2) · ∫ exp(−D/2·(e^{2v} − 1 − 2v)) · P(N > z·e^{−v}) dv.
/// The logarithm of the integrand is concave in v and the integrand is analytic in a strip, so the trapezoid rule
/// around its own peak converges geometrically, for every D: no singular density at small D, no fixed window that the
/// tail walks out of, and for D → ∞ a Gaussian of width 1/√(2D) around v = 0, which gives the normal law.
fn product_normal_survival(degrees: f64, z: f64) -> f64 {
    if degrees == f64::INFINITY {
        return normal_survival(z);
    }
    if z == f64::INFINITY {
        return 0.0;
    }
    let exponent = |v: f64| -0.5 * degrees * exponential_excess(2.0 * v) + ln_normal_survival(z * (-v).exp());
    let slope = |v: f64| {
        let argument = z * (-v).exp();
        argument * normal_hazard(argument) - degrees * (2.0 * v).exp_m1()
    };
    // The slope is ≥ 0 at v = 0 and, since the first term only falls, ≤ 0 at the upper end.
    let (mut low, mut high) = (0.0, 0.5 * (z * normal_hazard(z) / degrees).ln_1p());
    let scale = 1.0 / (2.0 * degrees + z).sqrt();
    // A hundredth of the peak's width is near enough: the rule below needs no more of it than to be around it.
    for _ in 0..30 {
        if high - low <= 0.01 * scale {
            break;
        }
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    let peak = low;
    let height = exponent(peak);
    if height < BELOW_ALL_NUMBERS {
        return 0.0;
    }
    let left = fall_length(scale, |t| exponent(peak - t) - height);
    let right = fall_length(scale, |t| exponent(peak + t) - height);
    // 48 points over a peak that falls by e^42 on either side, 0.4 of a standard deviation apart, leave e^(−2π²/0.4²) of a normal one; and
    // never wider than 0.1: the strip of analyticity has half-width π/4.
    let points = (48.0f64).max(((left + right) / 0.1).ceil());
    let step = (left + right) / points;
    let mut sum = 0.0;
    let mut index = 0.0;
    while index <= points {
        sum += (exponent(peak - left + step * index) - height).exp();
        index += 1.0;
    }
    sum * step * (degrees / PI).sqrt() * (height - ln_gamma_star(0.5 * degrees)).exp()
}

/// P(T > t), t > 0, for Student's t.
///
/// With t = √ν·sinh w the density is Γ((ν+1)/2)/(√π·Γ(ν/2))·cosh(w)^{−ν}, whose logarithm is concave with an
/// exponential tail, so the same quadrature serves ν = 0.1 and ν = 1e12.
fn student_survival(degrees: f64, t: f64) -> f64 {
    if degrees == f64::INFINITY {
        return normal_survival(t);
    }
    if t == f64::INFINITY {
        return 0.0;
    }
    let start = (t / degrees.sqrt()).asinh();
    // ln cosh w relative to the start: cosh(w+s)/cosh w = cosh s + tanh w·sinh s, and cosh s − 1 = 2 sinh²(s/2).
    let tangent = start.tanh();
    let growth = |s: f64| {
        if s > 20.0 {
            s + (0.5 * (1.0 + tangent)).ln()
        } else {
            let half = (0.5 * s).sinh();
            (2.0 * half * half + tangent * s.sinh()).ln_1p()
        }
    };
    let scale = 1.0 / (degrees.sqrt() + degrees * tangent);
    let integral = if degrees < 2.0 {
        // The tail reaches out to 42/ν while the poles of 1/cosh stay within π/2 of the axis. From s = 20 on the
        // integrand is a pure exponential to e^−40, so only the part before it needs the rule.
        let beyond = (-degrees * growth(20.0)).exp() / degrees;
        panel_integral(20.0, |s| -degrees * growth(s)) + beyond
    } else {
        tail_integral(scale, |s| -degrees * growth(s))
    };
    let ratio = t / degrees.sqrt();
    let ln_cosh = if ratio < 1e100 { 0.5 * (ratio * ratio).ln_1p() } else { ratio.ln() };
    integral * (ln_half_step_gamma_ratio(0.5 * degrees) - degrees * ln_cosh).exp() / PI.sqrt()
}

#[cfg(test)]
#[path = "law_tests.rs"]
mod tests;
