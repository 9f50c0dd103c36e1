//! What the sums over the weights of a row amount to, for eight rows at a time.

use super::InstructionSet;
use super::compiled::compiled_for_each_set;
use super::operands::assert_available;
use super::row_sums::WeightSums;
use crate::number::elementary::ln_1p_f64;

/// What the softmax p of one row of m logits x amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RowStatistics {
    /// ln Σ eˣ.
    pub log_partition: f64,
    /// −Σ p ln p in nats, from 0 to ln m.
    pub entropy: f64,
    /// Σ p², from 1/m to 1: one over the effective number of keys.
    pub participation: f64,
    /// Σ p³.
    pub sum_p_cubed: f64,
    /// The largest p.
    pub max_weight: f64,
    /// tr J = 1 − Σ p² of the Jacobian J = diag p − ppᵀ.
    pub jacobian_trace: f64,
    /// ‖J‖²_F = Σ p² − 2 Σ p³ + (Σ p²)².
    pub jacobian_frobenius: f64,
    /// Σ x.
    pub logit_sum: f64,
    /// Σ x².
    pub logit_square_sum: f64,
}

impl RowStatistics {
    /// NaN, for a row whose logits are not finite.
    pub(super) const UNDEFINED: Self = Self {
        log_partition: f64::NAN,
        entropy: f64::NAN,
        participation: f64::NAN,
        sum_p_cubed: f64::NAN,
        max_weight: f64::NAN,
        jacobian_trace: f64::NAN,
        jacobian_frobenius: f64::NAN,
        logit_sum: f64::NAN,
        logit_square_sum: f64::NAN,
    };
}

/// Rows that are worked out side by side.
pub(super) const SIDE_BY_SIDE: usize = 8;

/// A number of each row.
type Lanes = [f64; SIDE_BY_SIDE];

/// What was added up of eight rows of logits x.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Sums over the weights e^(rate (x − maximum)) but for that of the maximum.
    first: Lanes,
    second: Lanes,
    third: Lanes,
    moment: Lanes,
    maximum: Lanes,
    sum: Lanes,
    square_sum: Lanes,
}

impl Totals {
    /// Sets those of one row: the sums over weights, the largest logit (times the sign of the factor), Σ x and Σ x².
    #[inline(always)]
    pub(super) fn set(&mut self, lane: usize, weights: &WeightSums, maximum: f64, [sum, square_sum]: [f64; 2]) {
        self.first[lane] = weights.first;
        self.second[lane] = weights.second;
        self.third[lane] = weights.third;
        self.moment[lane] = weights.moment;
        self.maximum[lane] = maximum;
        self.sum[lane] = sum;
        self.square_sum[lane] = square_sum;
    }
}

/// [`RowStatistics`] of eight rows.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    is_finite: [bool; SIDE_BY_SIDE],
    log_partition: Lanes,
    entropy: Lanes,
    participation: Lanes,
    sum_p_cubed: Lanes,
    max_weight: Lanes,
    jacobian_trace: Lanes,
    jacobian_frobenius: Lanes,
    logit_sum: Lanes,
    logit_square_sum: Lanes,
}

impl Statistics {
    /// Those of one row; NaN where the sum of its logits is not finite.
    #[inline(always)]
    pub(super) fn row(&self, lane: usize) -> RowStatistics {
        if !self.is_finite[lane] {
            return RowStatistics::UNDEFINED;
        }
        RowStatistics {
            log_partition: self.log_partition[lane],
            entropy: self.entropy[lane],
            participation: self.participation[lane],
            sum_p_cubed: self.sum_p_cubed[lane],
            max_weight: self.max_weight[lane],
            jacobian_trace: self.jacobian_trace[lane],
            jacobian_frobenius: self.jacobian_frobenius[lane],
            logit_sum: self.logit_sum[lane],
            logit_square_sum: self.logit_square_sum[lane],
        }
    }
}

compiled_for_each_set! {
    /// The statistics of eight rows under one factor, in f64 without fused operations: the same bits for every instruction set.
    work_out = side_by_side(totals: &Totals, factor: f64, found: &mut Statistics)
}

// At small m it is rows that cost: one division for three, and a logarithm that vectorises. No closures, which are not
// compiled for the instruction set.
#[inline(always)]
fn side_by_side(totals: &Totals, factor: f64, found: &mut Statistics) {
    let rate = factor.abs();
    for lane in 0..SIDE_BY_SIDE {
        let p = 1.0 / (1.0 + totals.first[lane]);
        let r1 = totals.first[lane] * p;
        let r2 = totals.second[lane] * (p * p);
        let r3 = totals.third[lane] * (p * p * p);
        let logarithm = ln_1p_f64(totals.first[lane]);
        found.is_finite[lane] = totals.sum[lane].is_finite();
        found.log_partition[lane] = rate * totals.maximum[lane] + logarithm;
        found.entropy[lane] = logarithm - rate * totals.moment[lane] * p;
        found.participation[lane] = p * p + r2;
        found.sum_p_cubed[lane] = p * p * p + r3;
        found.max_weight[lane] = p;
        found.jacobian_trace[lane] = r1 * (1.0 + p) - r2;
        found.jacobian_frobenius[lane] = p * p * r1 * r1 + r2 * (1.0 + 2.0 * p * p + r2) - 2.0 * r3;
        found.logit_sum[lane] = factor * totals.sum[lane];
        found.logit_square_sum[lane] = factor * factor * totals.square_sum[lane];
    }
}
