//! Exact finite-size softmax statistics of attention rows with normal entries (THEORY.md section 3).
//!
//! A row: a query q of `d_k` independent standard normal entries meets m such keys; the logits are scale·(q·k_j), their
//! softmax is p. Given |q| the logits are β z_j with z_j independent N(0, 1) and β = |scale|·|q|: the random energy model
//! (Derrida, Phys. Rev. B 24, 2613, 1981). Every statistic is then an integral over u = ln t from 1/Zᵃ = ∫ t^{a−1} e^{−tZ} dt/Γ(a),
//! in which the keys factorise, averaged over |q| with the chi law.
//!
//! # Error
//!
//! For 1 ≤ m ≤ 10⁶, any `d_k` and any scale up to 10¹², each field is within 1e-11 of its value, relative (`sum_p_fourth`
//! within 1e-10; `normalisation` within 1e-13 of 1). That is the change when every step, node count and window is refined by a
//! third to a half, and the difference from independent implementations in the tests. Small complements (the entropy,
//! ‖J‖²_F and tr J of a nearly one-hot row) keep their relative accuracy too; beyond a scale of 10¹² those three, then below
//! 1e-10, are within 1e-20.
//!
//! # Cost
//!
//! A point takes 1 to 5 ms and [`max_weight`] 4 to 12 ms on one core of a desktop processor. Where ever shorter queries matter,
//! for a `d_k` up to about 11 with a scale above 10, it is two to four times that, at most 20 and 90 ms (`d_k` = 1, scale 10⁹).
//! [`expectations_by_keys`] shares the tables among numbers of keys.
//!
//! # Large rows
//!
//! For fixed β and m → ∞, E\[H\] − ln m → −β²/2 and m E\[Σp²\] → e^{β²}: with the scale 1/√d_k and d_k large, β = 1 and these
//! are [`scaled_entropy_limit`] and [`scaled_participation_limit`]. They need β well below √(2 ln m): at [`freezing`]
//! above about 1/2 rare rows carry the mean of Σp², and beyond 1 the row condenses on a few keys, [`frozen_participation_limit`].

mod gaussian_row;
mod maximum;
mod radius;
mod special;
#[cfg(test)]
mod tests;

use gaussian_row::RowTables;
use std::fmt;

/// The largest number of keys accepted. The stated error was established to 10⁶; beyond, the self-checks still hold.
pub const MOST_KEYS: usize = 1_000_000_000;

/// Larger β are taken for this one, which differs from one-hot by less than 1e-299.
const LARGEST_BETA: f64 = 1e300;

/// Expected statistics of one softmax row p of m weights, J = diag(p) − p pᵀ its Jacobian.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftmaxExpectations {
    /// E\[−Σ p ln p\], in nats, from 0 (one-hot) to ln m (uniform).
    pub entropy: f64,
    /// E\[Σ p²\], from 1/m to 1; also the mean square of the output for independent values of unit variance.
    pub participation: f64,
    /// E\[Σ p³\].
    pub sum_p_cubed: f64,
    /// E\[Σ p⁴\].
    pub sum_p_fourth: f64,
    /// E\[(Σ p²)²\]; with `participation` it gives the variance of Σ p² over independent rows.
    pub participation_squared: f64,
    /// E‖J‖²_F, also E|J g|² for g with independent entries of mean 0 and variance 1.
    pub jacobian_frobenius: f64,
    /// E\[tr J\] = 1 − E\[Σ p²\], computed on its own, so that `participation + jacobian_trace` = 1 is a check.
    pub jacobian_trace: f64,
    /// E\[Σ p\], computed by the same integrals as the rest: must be 1.
    pub normalisation: f64,
    /// E\[ln Σ e^{logit}\], nats.
    pub log_partition: f64,
}

/// Why an expectation was not computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SoftmaxTheoryError {
    /// `d_k` was 0.
    NoDimensions,
    /// A row of 0 keys has no softmax.
    NoKeys,
    /// More keys than [`MOST_KEYS`].
    TooManyKeys(usize),
    /// The scale, or β, was infinite or not a number.
    ScaleNotFinite(f64),
}

impl fmt::Display for SoftmaxTheoryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDimensions => write!(formatter, "softmax theory needs d_k of at least 1"),
            Self::NoKeys => write!(formatter, "a row without keys has no softmax"),
            Self::TooManyKeys(keys) => write!(formatter, "softmax theory covers up to {MOST_KEYS} keys, not {keys}"),
            Self::ScaleNotFinite(scale) => write!(formatter, "softmax theory needs a finite scale, not {scale}"),
        }
    }
}

impl std::error::Error for SoftmaxTheoryError {}

impl SoftmaxExpectations {
    const ZERO: Self = Self {
        entropy: 0.0,
        participation: 0.0,
        sum_p_cubed: 0.0,
        sum_p_fourth: 0.0,
        participation_squared: 0.0,
        jacobian_frobenius: 0.0,
        jacobian_trace: 0.0,
        normalisation: 0.0,
        log_partition: 0.0,
    };

    /// All logits equal: p = 1/m.
    fn uniform(keys: usize) -> Self {
        let m = keys as f64;
        Self {
            entropy: m.ln(),
            participation: 1.0 / m,
            sum_p_cubed: 1.0 / (m * m),
            sum_p_fourth: 1.0 / (m * m * m),
            participation_squared: 1.0 / (m * m),
            jacobian_frobenius: (m - 1.0) / (m * m),
            jacobian_trace: (m - 1.0) / m,
            normalisation: 1.0,
            log_partition: m.ln(),
        }
    }

    fn add(&mut self, weight: f64, other: &Self) {
        self.entropy += weight * other.entropy;
        self.participation += weight * other.participation;
        self.sum_p_cubed += weight * other.sum_p_cubed;
        self.sum_p_fourth += weight * other.sum_p_fourth;
        self.participation_squared += weight * other.participation_squared;
        self.jacobian_frobenius += weight * other.jacobian_frobenius;
        self.jacobian_trace += weight * other.jacobian_trace;
        self.normalisation += weight * other.normalisation;
        self.log_partition += weight * other.log_partition;
    }
}

/// Expected statistics of a row of `m` logits β z_j with z_j independent N(0, 1): one query of known length.
///
/// `beta` may be any finite number (its sign does not matter), 1 ≤ `m` ≤ [`MOST_KEYS`].
///
/// # Errors
///
/// [`SoftmaxTheoryError`] if an argument is outside that domain.
pub fn conditional(beta: f64, m: usize) -> Result<SoftmaxExpectations, SoftmaxTheoryError> {
    let beta = checked_scale(beta)?;
    check_keys(m)?;
    // A row of one key is uniform whatever its logit is.
    if beta == 0.0 || m == 1 {
        return Ok(SoftmaxExpectations::uniform(m));
    }
    Ok(RowTables::new(beta.min(LARGEST_BETA), m, m).expectations(m))
}

/// Expected statistics of a row of `m` keys and width `d_k`, query and keys with independent N(0, 1) entries.
///
/// `d_k` ≥ 1, 1 ≤ `m` ≤ [`MOST_KEYS`], any finite `scale` (its sign does not matter).
///
/// # Errors
///
/// [`SoftmaxTheoryError`] if an argument is outside that domain.
pub fn expectations(d_k: u32, m: usize, scale: f64) -> Result<SoftmaxExpectations, SoftmaxTheoryError> {
    Ok(expectations_by_keys(d_k, scale, &[m])?[0])
}

/// [`expectations`] for every number of keys in `keys`, in its order; the rows of a causal mask are 1, 2, ..., n.
///
/// The tables over u depend on β alone, so a further entry of `keys` costs one sum over them, about 0.06 ms, not a point.
///
/// # Errors
///
/// [`SoftmaxTheoryError`] if an argument or an entry of `keys` is outside the domain of [`expectations`].
pub fn expectations_by_keys(
    d_k: u32,
    scale: f64,
    keys: &[usize],
) -> Result<Vec<SoftmaxExpectations>, SoftmaxTheoryError> {
    let scale = checked_scale(scale)?;
    check_dimensions(d_k)?;
    keys.iter().try_for_each(|&m| check_keys(m))?;
    let several = || keys.iter().copied().filter(|&m| m > 1);
    let (Some(fewest), Some(most), true) = (several().min(), several().max(), scale > 0.0) else {
        return Ok(keys.iter().map(|&m| SoftmaxExpectations::uniform(m)).collect());
    };
    let mut totals = vec![SoftmaxExpectations::ZERO; keys.len()];
    for (radius, weight) in radius::radial_rule(d_k, scale) {
        let tables = RowTables::new((scale * radius).min(LARGEST_BETA), fewest, most);
        for (total, &m) in totals.iter_mut().zip(keys) {
            if m > 1 {
                total.add(weight, &tables.expectations(m));
            }
        }
    }
    for (total, &m) in totals.iter_mut().zip(keys) {
        if m == 1 {
            *total = SoftmaxExpectations::uniform(1);
        }
    }
    Ok(totals)
}

/// E\[max_j p_j\] of a row of `m` logits β z_j with z_j independent N(0, 1), relative error below 1e-11.
///
/// # Errors
///
/// As for [`conditional`].
pub fn conditional_max_weight(beta: f64, m: usize) -> Result<f64, SoftmaxTheoryError> {
    let beta = checked_scale(beta)?;
    check_keys(m)?;
    Ok(max_weight_given(beta, m))
}

/// E\[max_j p_j\] of a row of `m` keys and width `d_k`, query and keys with independent N(0, 1) entries.
///
/// Apart from [`expectations`] because it is a double integral for each β. Relative error below 1e-11.
///
/// # Errors
///
/// As for [`expectations`].
pub fn max_weight(d_k: u32, m: usize, scale: f64) -> Result<f64, SoftmaxTheoryError> {
    let scale = checked_scale(scale)?;
    check_dimensions(d_k)?;
    check_keys(m)?;
    if m == 1 || scale == 0.0 {
        return Ok(1.0 / m as f64);
    }
    let rule = radius::radial_rule(d_k, scale);
    Ok(rule.into_iter().map(|(radius, weight)| weight * max_weight_given(scale * radius, m)).sum())
}

/// The freezing parameter: standard deviation |scale|·√`d_k` of the logits over √(2 ln m), the transition of the random
/// energy model for large m. `None` for m ≤ 1, where it is infinite.
///
/// Far below 1 many keys share the weight, above 1 a few keys hold it.
pub fn freezing(d_k: u32, m: usize, scale: f64) -> Option<f64> {
    (m > 1).then(|| scale.abs() * f64::from(d_k).sqrt() / (2.0 * (m as f64).ln()).sqrt())
}

/// ln m − 1/2, the entropy (nats) that scaled rows approach for large `d_k` and m; 0.014 below the truth at m = 128.
pub fn scaled_entropy_limit(m: usize) -> f64 {
    (m as f64).ln() - 0.5
}

/// e/m, the E\[Σp²\] that scaled rows approach for large `d_k` and m; 5 % above the truth at m = 128.
pub fn scaled_participation_limit(m: usize) -> f64 {
    std::f64::consts::E / m as f64
}

/// The large-m limit of E\[Σp²\] by the [`freezing`] parameter γ: 0 up to γ = 1, then 1 − 1/γ (Derrida 1981).
///
/// The limit is slow: at m = 1024 and γ = 2.15 (`d_k` = 64, raw) it is 0.53 and the truth 0.60.
pub fn frozen_participation_limit(freezing: f64) -> f64 {
    (1.0 - 1.0 / freezing).max(0.0)
}

fn max_weight_given(beta: f64, m: usize) -> f64 {
    // m E[max p] − 1 is β E[max z], at most 7 β for the numbers of keys accepted.
    if m == 1 || beta < 1e-15 {
        return 1.0 / m as f64;
    }
    maximum::conditional(beta.min(LARGEST_BETA), m).min(1.0)
}

fn checked_scale(scale: f64) -> Result<f64, SoftmaxTheoryError> {
    if scale.is_finite() { Ok(scale.abs()) } else { Err(SoftmaxTheoryError::ScaleNotFinite(scale)) }
}

fn check_dimensions(d_k: u32) -> Result<(), SoftmaxTheoryError> {
    if d_k == 0 { Err(SoftmaxTheoryError::NoDimensions) } else { Ok(()) }
}

fn check_keys(m: usize) -> Result<(), SoftmaxTheoryError> {
    match m {
        0 => Err(SoftmaxTheoryError::NoKeys),
        _ if m > MOST_KEYS => Err(SoftmaxTheoryError::TooManyKeys(m)),
        _ => Ok(()),
    }
}
