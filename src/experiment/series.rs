//! The trials' values of bounded statistics, in trial order: what a test by betting needs beyond moments.

use super::{Claim, Estimator, Null};

/// Most values held of one column. Longer runs are held as means of equal batches of successive trials: they are
/// independent, bounded and have the same mean, so every test of the trials holds for them as well.
const LONGEST: u64 = 1 << 16;

/// Values of some columns of a run of known length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    columns: Vec<usize>,
    values: Vec<Vec<f64>>,
    batch: u64,
    pending: u64,
    sums: Vec<f64>,
}

impl Series {
    /// For the columns that `claims` test by betting, in a run of `trials` trials.
    pub fn new(claims: &[Claim], trials: u64) -> Self {
        let column = |claim: &Claim| match (&claim.null, claim.estimator) {
            (Null::Trials(test), Estimator::Mean { column }) if test.needs_values() => Some(column),
            _ => None,
        };
        let columns: Vec<usize> = claims.iter().filter_map(column).collect();
        let values = vec![Vec::new(); columns.len()];
        let sums = vec![0.0; columns.len()];
        Self { columns, values, batch: trials.div_ceil(LONGEST).max(1), pending: 0, sums }
    }

    /// Adds one trial's values of all columns of the experiment.
    pub fn push(&mut self, trial: &[f64]) {
        if self.columns.is_empty() {
            return;
        }
        self.pending += 1;
        for (sum, &column) in self.sums.iter_mut().zip(&self.columns) {
            *sum += trial[column];
        }
        if self.pending == self.batch {
            self.flush();
        }
    }

    /// Ends the run: the last batch may be shorter.
    pub fn finish(mut self) -> Self {
        if self.pending > 0 {
            self.flush();
        }
        self
    }

    fn flush(&mut self) {
        for (sum, values) in self.sums.iter_mut().zip(&mut self.values) {
            values.push(*sum / self.pending as f64);
            *sum = 0.0;
        }
        self.pending = 0;
    }

    /// The values of a column, batch by batch; empty if it was not asked for.
    pub fn values(&self, column: usize) -> &[f64] {
        let position = self.columns.iter().position(|&held| held == column);
        position.map_or(&[], |position| &self.values[position])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::trial_test::{Method, TrialTest};

    fn claim(method: Method, column: usize) -> Claim {
        Claim {
            index: None,
            statistic: "share".to_string(),
            scale: None,
            family: "share".into(),
            estimator: Estimator::Mean { column },
            expected: None,
            null: Null::Trials(TrialTest { method, bounds: (0.0, 1.0), unit: 1.0, allowance: 0.0 }),
        }
    }

    #[test]
    fn values_are_kept_in_order_for_the_columns_that_bets_need() {
        let claims = [claim(Method::Student, 0), claim(Method::Betting, 2)];
        let mut series = Series::new(&claims, 3);
        (0..3).for_each(|trial| series.push(&[7.0, 8.0, f64::from(trial)]));
        let series = series.finish();
        assert_eq!((series.values(2), series.values(0)), (&[0.0, 1.0, 2.0][..], &[][..]));
    }

    #[test]
    fn long_runs_are_held_as_means_of_batches() {
        // 2 · 2^16 + 2 trials: batches of 3, the last one of 1; by hand the means of 0,1,2 and of 3,4,5.
        let trials = 2 * LONGEST + 2;
        let mut series = Series::new(&[claim(Method::Betting, 0)], trials);
        (0..trials).for_each(|trial| series.push(&[trial as f64]));
        let series = series.finish();
        let values = series.values(0);
        assert_eq!(values.len() as u64, trials.div_ceil(3));
        assert_eq!((values[0], values[1]), (1.0, 4.0));
        assert_eq!(values.last(), Some(&(trials as f64 - 1.0)));
    }
}
