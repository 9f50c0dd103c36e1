//! How the time of a stage grows with one size, and how the counts say it should.
//!
//! The law is about cells, pairs of a query and a key. What a stage takes beside them (packing, the start of a row, the call) grows with n or m
//! alone; it is measured at few keys and few queries ([`super::workload::Bench::run_edges`]) and taken off before the fit, and
//! sizes in which it is a large part are left out.

use crate::statistics::{Law, LogFit, Measured, MedianInterval, log_fit};

/// A size is fitted if its work, at the stage's best rate, takes at least this many times its overhead.
pub const DOMINANCE: f64 = 3.0;
/// Smallest relative standard error of a median: below it lie effects that no repetition shows (frequency, placement in memory).
const LEAST_ERROR: f64 = 1e-3;
/// Quantile of the normal law at 97.5 %: half-width of 95 % limits in standard errors.
const HALF_WIDTH: f64 = 1.959_963_984_540_054;
/// Error of the limits: 95 %.
const ERROR: f64 = 0.05;
/// Half-width beyond which limits tell n² from no other law that matters.
pub const WIDEST: f64 = 0.25;

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// The size that varies: n or d_k.
    pub x: f64,
    /// Exact operations.
    pub operations: f64,
    /// Seconds of what grows more slowly than the work.
    pub overhead: f64,
    /// Seconds.
    pub time: MedianInterval,
}

/// A fitted exponent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exponent {
    /// Exponent of the time less the overhead.
    pub exponent: f64,
    /// 95 % limits; missing with fewer than three sizes, whose scatter about a line cannot be seen.
    pub limits: Option<(f64, f64)>,
    /// Exponent of the counts at these sizes, fitted with the same weights.
    pub expected: f64,
    /// ln of the time at x = 1 by the fitted line.
    pub intercept: f64,
}

impl Exponent {
    /// Whether the exponent of the counts lies between the limits; None where that would say nothing: there are no limits, or they
    /// hold the expected exponent and much else, being more than [`WIDEST`] away from the fitted one.
    pub fn expected_inside(&self) -> Option<bool> {
        let (low, high) = self.limits?;
        match (low..=high).contains(&self.expected) {
            true if high - low > 2.0 * WIDEST => None,
            inside => Some(inside),
        }
    }
}

/// The sizes in which the work dominates the overhead.
///
/// The work is judged by its count at the best rate of the sweep and not by its own time, so that a slow sample does not decide whether it
/// is used.
pub fn dominated_by_work(sizes: &[Size]) -> Vec<Size> {
    let rate = sizes.iter().map(|size| size.operations / size.time.median).fold(0.0, f64::max);
    let enough = |size: &&Size| size.operations / rate >= DOMINANCE * size.overhead && size.time.median > size.overhead;
    sizes.iter().filter(enough).copied().collect()
}

/// Fits ln(seconds − overhead) on ln(x), each median weighted by its limits, or all alike where one has none (fewer than 6 samples); None
/// without two different sizes.
///
/// Times scatter about a power of x by more than their limits say: caches fill, kernels reach their stride. So the standard error is
/// multiplied by √(χ²/(k − 2)) of the k residuals where that is above 1 (Birge 1932), and the limits are Student's with k − 2 degrees
/// of freedom.
pub fn fit(sizes: &[Size]) -> Option<Exponent> {
    let work = |size: &Size| size.time.median - size.overhead;
    let width = |size: &Size| size.time.high.zip(size.time.low).map(|(high, low)| high - low);
    let all_known = sizes.iter().all(|size| width(size).is_some());
    let weight = |size: &Size| {
        let width = width(size).filter(|_| all_known).unwrap_or(0.0);
        (width / (2.0 * HALF_WIDTH * work(size))).clamp(LEAST_ERROR, 0.9)
    };
    // log_fit takes y for an unbiased mean and adds cv²/2 to its logarithm; the logarithm of a median needs nothing.
    let fitted = |value: &dyn Fn(&Size) -> f64| -> Option<LogFit> {
        let point = |size: &Size| {
            let error = weight(size);
            Measured { x: size.x, y: value(size) * (-0.5 * error * error).exp(), relative_standard_error: error }
        };
        log_fit(&sizes.iter().map(point).collect::<Vec<_>>()).ok()
    };
    let (time, count) = (fitted(&work)?, fitted(&|size| size.operations)?);
    let limits = (time.degrees_of_freedom > 0).then(|| {
        let degrees = time.degrees_of_freedom as f64;
        let scatter = (time.residual_chi_square / degrees).sqrt().max(1.0);
        let half = Law::Student { degrees }.upper_quantile(0.5 * ERROR) * scatter * time.slope_standard_error;
        (time.slope - half, time.slope + half)
    });
    Some(Exponent {
        exponent: time.slope,
        limits,
        expected: (count.slope * 1e12).round() / 1e12 + 0.0,
        intercept: time.intercept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(x: f64, operations: f64, seconds: f64) -> Size {
        let time = MedianInterval { median: seconds, low: Some(0.99 * seconds), high: Some(1.01 * seconds) };
        Size { x, operations, overhead: 0.0, time }
    }

    #[test]
    fn a_power_is_recovered_and_its_count_beside_it() {
        let sizes: Vec<Size> =
            [64.0, 128.0, 256.0, 512.0].map(|n: f64| size(n, 7.0 * n * n, 3e-9 * n.powf(1.5))).to_vec();
        let found = fit(&sizes).expect("a fit");
        assert!((found.exponent - 1.5).abs() < 1e-12 && (found.expected - 2.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.expected_inside(), Some(false));
        let same: Vec<Size> = sizes.iter().map(|s| size(s.x, s.operations, 1e-10 * s.operations)).collect();
        assert_eq!(fit(&same).expect("a fit").expected_inside(), Some(true));
    }

    #[test]
    fn limits_widen_with_the_scatter_about_the_line() {
        // numpy.polyfit of ln y on ln x with equal weights: slope 2.0, residuals ±0.05 in the pattern + − − +, which no line explains.
        // Standard error of an ordinary fit: √(Σr²/2 / Σ(x − x̄)²) = √(0.01/2 / (5·ln²2)) = 0.04562; t(2) = 4.30265.
        let sizes: Vec<Size> = [(1.0f64, 0.05f64), (2.0, -0.05), (4.0, -0.05), (8.0, 0.05)]
            .map(|(x, residual)| size(x, x * x, 1e-3 * x * x * residual.exp()))
            .to_vec();
        let found = fit(&sizes).expect("a fit");
        let (low, high) = found.limits.expect("four sizes");
        assert!((found.exponent - 2.0).abs() < 1e-12);
        assert!(((high - low) / 2.0 - 4.302_65 * 0.045_62).abs() < 1e-4, "{low} {high}");
        assert_eq!(found.expected_inside(), Some(true));
        // Residuals of ±0.07: limits ±0.275 hold 2 and say nothing, but still exclude 3.
        let wide: Vec<Size> = sizes
            .iter()
            .map(|s| size(s.x, s.operations, (s.time.median / s.operations * 1e3).powf(1.4) * s.operations))
            .collect();
        let found = fit(&wide).expect("a fit");
        assert_eq!(found.expected_inside(), None, "{found:?}");
        assert_eq!(Exponent { expected: 3.0, ..found }.expected_inside(), Some(false));
    }

    #[test]
    fn sizes_without_limits_are_weighted_alike_and_the_scatter_gives_the_limits() {
        // One wide size would hardly count by its limits; without them it counts as the others: by hand the plain least-squares
        // slope of residuals (+r, 0, 0, 0) at ln x = 0, 1, 2, 3 times ln 2 is 2 − 1.5·r/(5·ln 2).
        let unknown = MedianInterval { median: 0.0, low: None, high: None };
        let sizes: Vec<Size> = [(1.0f64, 0.1f64), (2.0, 0.0), (4.0, 0.0), (8.0, 0.0)]
            .map(|(x, r)| size(x, x * x, 1e-3 * x * x * r.exp()))
            .map(|size| Size { time: MedianInterval { median: size.time.median, ..unknown }, ..size })
            .to_vec();
        let found = fit(&sizes).expect("a fit");
        assert!((found.exponent - (2.0 - 0.15 / (5.0 * 2f64.ln()))).abs() < 1e-9, "{found:?}");
        assert!(found.limits.is_some());
    }

    #[test]
    fn two_sizes_have_an_exponent_but_no_limits_and_one_has_none() {
        let sizes = [size(2.0, 4.0, 4.0), size(4.0, 16.0, 16.0)];
        let found = fit(&sizes).expect("a fit");
        assert_eq!((found.limits, found.expected_inside()), (None, None));
        assert_eq!(fit(&sizes[..1]), None);
    }

    #[test]
    fn sizes_that_the_overhead_dominates_are_left_out_by_their_counts() {
        // 1e9 operations a second; beside its cells a size takes 1e-6 s, so 3000 operations are enough and 2999 are not.
        let sizes = [size(1.0, 2_999.0, 2e-5), size(2.0, 3e3, 2e-5), size(3.0, 1e6, 1e-3)]
            .map(|size| Size { overhead: 1e-6, ..size });
        let kept: Vec<f64> = dominated_by_work(&sizes).iter().map(|size| size.x).collect();
        assert_eq!(kept, [2.0, 3.0]);
        let swallowed = Size { overhead: 2e-5, operations: 1e9, ..sizes[1] };
        assert!(dominated_by_work(&[swallowed]).is_empty(), "nothing is left of a time that is all overhead");
    }

    #[test]
    fn what_is_no_work_is_taken_off_before_the_fit() {
        // Time 3e-9·n² for the cells and 5e-7·n beside them.
        let made = |n: f64| Size { overhead: 5e-7 * n, ..size(n, n * n, 3e-9 * n * n + 5e-7 * n) };
        let sizes = [512.0, 1024.0, 2048.0, 4096.0].map(made);
        assert!((fit(&sizes).expect("a fit").exponent - 2.0).abs() < 1e-9);
        let plain = sizes.map(|size| Size { overhead: 0.0, ..size });
        assert!(fit(&plain).expect("a fit").exponent < 1.95, "the test shows a difference");
    }
}
