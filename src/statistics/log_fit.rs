//! Growth exponents: weighted least squares of ln y on ln x.

use std::fmt;

/// One measured point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Size, > 0.
    pub x: f64,
    /// Unbiased measurement at that size, > 0.
    pub y: f64,
    /// Relative standard error cv of y, known, ≥ 0 and well below 1. Either every point has a positive one or none has.
    pub relative_standard_error: f64,
}

/// Result of [`log_fit`]: y ≈ e^intercept · x^slope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogFit {
    /// The exponent.
    pub slope: f64,
    /// Its standard error from the known errors; 0 when the points are exact.
    pub slope_standard_error: f64,
    /// ln of the factor.
    pub intercept: f64,
    /// Standard error of the intercept.
    pub intercept_standard_error: f64,
    /// Σ w·residual²: under a pure power law about χ² with `degrees_of_freedom`, so far larger values mean that no single
    /// power fits. For exact points the plain sum of squared residuals.
    pub residual_chi_square: f64,
    /// Number of points − 2.
    pub degrees_of_freedom: usize,
}

/// Why a fit is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFitError {
    /// Fewer than two different sizes.
    TooFewSizes,
    /// A size or measurement is not positive and finite (index of the point).
    NotPositive(usize),
    /// A relative standard error is negative, not below 1, or 0 for some points only (index of the point).
    BadStandardError(usize),
}

impl fmt::Display for LogFitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogFitError::TooFewSizes => {
                write!(formatter, "a slope needs at least two different sizes")
            }
            LogFitError::NotPositive(index) => {
                write!(formatter, "point {index}: size and measurement must be positive and finite")
            }
            LogFitError::BadStandardError(index) => write!(
                formatter,
                "point {index}: relative standard errors must lie in (0, 1) for all points, or be 0 for all"
            ),
        }
    }
}

impl std::error::Error for LogFitError {}

/// Fits ln y = intercept + slope·ln x with weights 1/cv² (Aitken 1936).
///
/// To second order `E[ln y] = ln E[y] − cv²/2`, so cv²/2 is added to each ln y; without it, measurements that are noisier
/// at one end tilt the line. The next term, cv³·skewness/3, is left out: for cv = 0.1 and skewness 1 it is 3e-4.
/// The standard errors are those of known weights; they do not use the scatter of the residuals.
pub fn log_fit(points: &[Measured]) -> Result<LogFit, LogFitError> {
    let exact = points.iter().all(|point| point.relative_standard_error == 0.0);
    for (index, point) in points.iter().enumerate() {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !positive(point.x) || !positive(point.y) {
            return Err(LogFitError::NotPositive(index));
        }
        let error = point.relative_standard_error;
        if !(exact || error > 0.0 && error < 1.0) {
            return Err(LogFitError::BadStandardError(index));
        }
    }
    if points.iter().all(|point| point.x == points[0].x) {
        return Err(LogFitError::TooFewSizes);
    }
    let weighted: Vec<(f64, f64, f64)> = points
        .iter()
        .map(|point| {
            let square = point.relative_standard_error.powi(2);
            (if exact { 1.0 } else { 1.0 / square }, point.x.ln(), point.y.ln() + 0.5 * square)
        })
        .collect();
    let total: f64 = weighted.iter().map(|&(w, _, _)| w).sum();
    let centre = weighted.iter().map(|&(w, x, _)| w * x).sum::<f64>() / total;
    let level = weighted.iter().map(|&(w, _, y)| w * y).sum::<f64>() / total;
    let spread: f64 = weighted.iter().map(|&(w, x, _)| w * (x - centre).powi(2)).sum();
    let slope = weighted.iter().map(|&(w, x, y)| w * (x - centre) * (y - level)).sum::<f64>() / spread;
    let intercept = level - slope * centre;
    let residual = weighted.iter().map(|&(w, x, y)| w * (y - level - slope * (x - centre)).powi(2)).sum();
    let known = if exact { 0.0 } else { 1.0 };
    Ok(LogFit {
        slope,
        slope_standard_error: known * (1.0 / spread).sqrt(),
        intercept,
        intercept_standard_error: known * (1.0 / total + centre * centre / spread).sqrt(),
        residual_chi_square: residual,
        degrees_of_freedom: points.len() - 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::test_draws::Draws;

    fn points(values: &[(f64, f64, f64)]) -> Vec<Measured> {
        values.iter().map(|&(x, y, relative_standard_error)| Measured { x, y, relative_standard_error }).collect()
    }

    #[test]
    fn an_exact_power_law_is_recovered() {
        let exact: Vec<_> = [3.0f64, 7.0, 11.0, 131.0].map(|x| (x, 0.7 * x.powf(1.9), 0.0)).to_vec();
        let fit = log_fit(&points(&exact)).expect("a fit");
        assert!((fit.slope - 1.9).abs() < 1e-14 && (fit.intercept - 0.7f64.ln()).abs() < 1e-13, "{fit:?}");
        assert_eq!(fit.slope_standard_error, 0.0);
        assert!(fit.residual_chi_square < 1e-25 && fit.degrees_of_freedom == 2);
    }

    #[test]
    fn a_weighted_fit_matches_numpy() {
        // scripts/reference/statistics_scipy.py: numpy.linalg.lstsq on the weighted design.
        let fit = log_fit(&points(&[
            (3.0, 7.1, 0.02),
            (5.0, 21.0, 0.05),
            (11.0, 118.0, 0.01),
            (17.0, 270.0, 0.03),
            (29.0, 870.0, 0.04),
        ]))
        .expect("a fit");
        for (got, expected) in [
            (fit.intercept, -0.364_455_075_344_138_3),
            (fit.slope, 2.133_919_744_581_748),
            (fit.intercept_standard_error, 0.033_058_890_361_247_53),
            (fit.slope_standard_error, 0.014_361_087_170_361_603),
            (fit.residual_chi_square, 13.776_776_694_155_396),
        ] {
            assert!((got / expected - 1.0).abs() < 1e-11, "{got} instead of {expected}");
        }
    }

    #[test]
    fn the_slope_is_unbiased_and_its_standard_error_true_by_simulation() {
        // y = x²(1 + cv·Z) with cv 0.02 at small and 0.2 at large sizes, 20011 fits. Mean slope within 5 standard errors
        // of 2 plus the fourth-order bias (3/4·cv⁴ = 1.2e-3 over a lever of ln 81 ≈ 4.4, so 3e-4).
        let sizes = [(1.0f64, 0.02), (3.0, 0.02), (9.0, 0.1), (81.0, 0.2)];
        let mut draws = Draws::new(3);
        let (mut sum, mut squares, mut claimed, mut uncorrected) = (0.0, 0.0, 0.0, 0.0);
        let runs = 20_011;
        for _ in 0..runs {
            let noisy: Vec<_> = sizes.iter().map(|&(x, cv)| (x, x * x * (1.0 + cv * draws.normal()), cv)).collect();
            let fit = log_fit(&points(&noisy)).expect("a fit");
            claimed = fit.slope_standard_error;
            sum += fit.slope - 2.0;
            squares += (fit.slope - 2.0).powi(2);
            // Undoing the correction: ln y − cv²/2 is the raw logarithm.
            let raw: Vec<_> = noisy.iter().map(|&(x, y, cv)| (x, y * (-0.5 * cv * cv).exp(), cv)).collect();
            uncorrected += log_fit(&points(&raw)).expect("a fit").slope - 2.0;
        }
        let runs = f64::from(runs);
        let (bias, spread) = (sum / runs, (squares / runs).sqrt());
        let allowed = 5.0 * spread / runs.sqrt() + 3e-4;
        assert!(bias.abs() < allowed, "bias {bias:e} over {allowed:e}");
        assert!((spread / claimed - 1.0).abs() < 0.04, "spread {spread} claimed {claimed}");
        assert!((uncorrected / runs).abs() > allowed, "the uncorrected fit should show its bias");
    }

    #[test]
    fn impossible_fits_say_why() {
        assert_eq!(log_fit(&[]), Err(LogFitError::TooFewSizes));
        assert_eq!(log_fit(&points(&[(2.0, 1.0, 0.1), (2.0, 3.0, 0.1)])), Err(LogFitError::TooFewSizes));
        assert_eq!(log_fit(&points(&[(2.0, 1.0, 0.1), (3.0, -3.0, 0.1)])), Err(LogFitError::NotPositive(1)));
        assert_eq!(log_fit(&points(&[(2.0, 1.0, 0.1), (3.0, 3.0, 0.0)])), Err(LogFitError::BadStandardError(1)));
        assert!(LogFitError::NotPositive(1).to_string().contains("point 1"));
    }
}
