//! Trials on all cores, folded in trial order.

use std::ops::Range;
use std::sync::Mutex;

use anyhow::Result;
use rayon::prelude::*;

use super::progress::Progress;
use super::{Claim, Inside, Sizes};
use crate::sampling::{TrialStream, parameter_point};
use crate::statistics::ColumnMoments;

/// What one trial of one parameter point measures, and what theory expects of it.
pub trait Experiment: Sync {
    /// Buffers that a trial reuses; fresh memory is dear.
    type Workspace: Default + Send;

    /// The sizes of this parameter point.
    fn sizes(&self) -> Sizes;

    /// A number that names the parameter point's draws, the same alone and in a sweep.
    fn point(&self) -> u64 {
        let Sizes { d_k, queries, keys } = self.sizes();
        parameter_point(&[d_k as u64, queries as u64, keys as u64])
    }

    /// The mask as the rows name it; None where every query sees every key.
    fn mask(&self) -> Option<String> {
        None
    }

    /// Names of what one trial measures, in order: the columns of the per-trial file.
    fn measures(&self) -> Vec<String>;

    /// Measures one independent draw: one value for each name; not finite where a value does not exist.
    fn trial(&self, stream: &TrialStream, inside: Inside, workspace: &mut Self::Workspace) -> Vec<f64>;

    /// What theory says of the measures.
    fn claims(&self) -> Vec<Claim>;

    /// Floating-point operations of one trial, roughly.
    fn operations(&self) -> f64;

    /// Bytes that one running trial holds, roughly.
    fn bytes(&self) -> f64;
}

/// A trial with fewer operations is never worth more than one thread.
const LARGE_TRIAL: f64 = 5e8;
/// Bytes of a trial, at most, for a copy of it on every thread: Q, K and the packed K of 16384 tokens at d_k = 64 in f32.
const MODEST_TRIAL: f64 = 16.0 * 1024.0 * 1024.0;
/// Trials per round at most: their values are held until they are folded.
const LONGEST_ROUND: u64 = 1024;
/// Operations per round, roughly: the progress bar moves once a round.
const OPERATIONS_PER_ROUND: f64 = 4e10;
/// Operations of what a thread takes of a round at a time, roughly: some tenths of a millisecond, so that at the end of a round none waits longer
/// for another that was slower.
const OPERATIONS_PER_PIECE: f64 = 1e7;

/// How many trials of `experiment` run side by side on `threads`, each on one, as long as there are as many to run; 1 if each is spread over
/// all threads.
///
/// Whole trials keep all threads busy to the end: drawing, packing and folding then wait for nobody. Only what is both long and large is
/// spread, so that memory does not grow with the threads.
pub fn side_by_side<E: Experiment>(experiment: &E, threads: usize) -> usize {
    if is_long(experiment) && experiment.bytes() > MODEST_TRIAL { 1 } else { threads }
}

/// Whether one trial is worth all threads.
fn is_long<E: Experiment>(experiment: &E) -> bool {
    experiment.operations() >= LARGE_TRIAL
}

/// Runs `trials` of `experiment` and folds them in trial order, so that neither threads nor rounds change a bit.
///
/// `each` sees every trial's values in order; its error stops the run.
///
/// # Errors
/// Whatever `each` returns.
pub fn run<E: Experiment>(
    experiment: &E,
    seed: u64,
    trials: Range<u64>,
    progress: &Progress,
    mut each: impl FnMut(u64, &[f64]) -> Result<()>,
) -> Result<ColumnMoments> {
    let mut columns = ColumnMoments::new(experiment.measures().len());
    draw(experiment, seed, trials, progress, |trial, values| {
        columns.push(values);
        each(trial, values)
    })?;
    Ok(columns)
}

/// Runs `trials` of `experiment` and hands their values to `each` in trial order; its error stops the run.
///
/// A value that is not finite is handed on as NaN, so that what is read back from a per-trial file, where it is an empty field, is folded alike.
///
/// # Errors
/// Whatever `each` returns.
pub fn draw<E: Experiment>(
    experiment: &E,
    seed: u64,
    trials: Range<u64>,
    progress: &Progress,
    mut each: impl FnMut(u64, &[f64]) -> Result<()>,
) -> Result<()> {
    let workspaces = Mutex::new(Vec::new());
    let threads = rayon::current_num_threads();
    let side_by_side = side_by_side(experiment, threads) as u64;
    let is_long = is_long(experiment);
    let round = ((OPERATIONS_PER_ROUND / experiment.operations()) as u64).clamp(1, LONGEST_ROUND);
    let round = round.next_multiple_of(side_by_side);
    let piece = ((OPERATIONS_PER_PIECE / experiment.operations()) as usize).max(1);
    let point = experiment.point();
    let one = |trial: u64, inside: Inside| {
        let stream = TrialStream::new(seed, point, trial as u32);
        let mut workspace: E::Workspace =
            workspaces.lock().expect("no trial panics while it holds the lock").pop().unwrap_or_default();
        let mut values = experiment.trial(&stream, inside, &mut workspace);
        values.iter_mut().filter(|value| !value.is_finite()).for_each(|value| *value = f64::NAN);
        workspaces.lock().expect("no trial panics while it holds the lock").push(workspace);
        values
    };
    let mut start = trials.start;
    while start < trials.end {
        let mut end = (start + round).min(trials.end);
        // Long trials side by side come in whole sets; what is left over is spread, so that no thread waits for long.
        let left_over = is_long && end - start < side_by_side;
        if is_long && !left_over {
            end -= (end - start) % side_by_side;
        }
        let is_spread = threads > 1 && (side_by_side == 1 || left_over);
        let inside = if is_spread { Inside::Parallel } else { Inside::Sequential };
        let values: Vec<Vec<f64>> = match side_by_side {
            1 => (start..end).map(|trial| one(trial, inside)).collect(),
            // Those left over too: not every experiment spreads its trials.
            _ => {
                let trials = (0..(end - start) as usize).into_par_iter().with_max_len(piece);
                trials.map(|index| one(start + index as u64, inside)).collect()
            }
        };
        for (trial, values) in (start..end).zip(&values) {
            each(trial, values)?;
        }
        progress.advance((end - start) as f64 * experiment.operations());
        start = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures the number of its trial.
    struct Numbers {
        operations: f64,
        bytes: f64,
    }

    impl Experiment for Numbers {
        type Workspace = ();

        fn sizes(&self) -> Sizes {
            Sizes { d_k: 1, queries: 1, keys: 1 }
        }

        fn measures(&self) -> Vec<String> {
            vec!["trial".to_string()]
        }

        fn trial(&self, stream: &TrialStream, _: Inside, (): &mut ()) -> Vec<f64> {
            vec![f64::from(stream.trial())]
        }

        fn claims(&self) -> Vec<Claim> {
            Vec::new()
        }

        fn operations(&self) -> f64 {
            self.operations
        }

        fn bytes(&self) -> f64 {
            self.bytes
        }
    }

    #[test]
    fn every_trial_is_drawn_once_and_handed_on_in_order_whatever_the_threads_pieces_and_rounds() {
        // Pieces of all trials, of some and of one; long trials side by side with some left over, and spread ones.
        for (operations, bytes) in [(1.0, 1.0), (3e5, 1.0), (2e7, 1.0), (1e9, 1.0), (1e9, 1e9), (1e11, 1.0)] {
            for threads in [1, 2, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let mut seen = Vec::new();
                let experiment = Numbers { operations, bytes };
                let each = |trial: u64, values: &[f64]| {
                    seen.push((trial, values[0] as u64));
                    Ok(())
                };
                pool.install(|| draw(&experiment, 1, 7..2111, &Progress::silent(), each)).expect("nothing fails");
                let expected: Vec<(u64, u64)> = (7..2111).map(|trial| (trial, trial)).collect();
                assert!(seen == expected, "{operations} operations, {bytes} bytes, {threads} threads");
            }
        }
    }
}
