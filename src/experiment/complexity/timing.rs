//! When to run what, how often, and when to stop.
//!
//! Times on a shared machine drift and scatter to one side. So every task is run once before it counts (memory touched, caches and
//! clock warm), then round by round, each round in another order drawn from the seed: drift hits all sizes alike. A sample is as many calls
//! as fill [`SHORTEST_SAMPLE`], so that the clock's resolution and the caches that the task before left cold play no part. What is reported is the median, with limits from the
//! order statistics (at least 6 samples). A task rests once its limits are narrow; the run ends when all rest or the budget is spent.

use crate::sampling::parameter_point;
use crate::statistics::median;

/// Seconds that one sample takes at least.
pub const SHORTEST_SAMPLE: f64 = 2e-3;
/// Samples of a task before it may rest.
pub const FEWEST_SAMPLES: usize = 11;
/// A task rests when half the width of its 95 % limits is below this share of the median, at every stage.
pub const NARROW: f64 = 0.01;
/// Error of the limits: 95 %.
pub const INTERVAL_ERROR: f64 = 0.05;
/// Calls in one sample at most.
const MOST_CALLS: f64 = 1e5;

/// When to stop, and the seed of the order.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Seconds for everything that counts, the first runs included.
    pub budget: f64,
    /// Seed of the order in each round.
    pub seed: u64,
}

/// What runs a task and tells the time; a test passes one of its own.
pub trait Laboratory {
    /// Runs task `task` `calls` times and returns the seconds of one call, stage by stage.
    fn run(&mut self, task: usize, calls: usize) -> Vec<f64>;
    /// Seconds since some moment.
    fn now(&self) -> f64;
    /// Told after every sample how many seconds of the budget it took.
    fn spent(&mut self, seconds: f64);
}

/// The samples of each task, stage by stage.
pub fn measure(laboratory: &mut impl Laboratory, tasks: usize, schedule: Schedule) -> Vec<Vec<Vec<f64>>> {
    let start = laboratory.now();
    let mut told = start;
    let mut calls = vec![1; tasks];
    let mut samples: Vec<Vec<Vec<f64>>> = vec![Vec::new(); tasks];
    for task in order(schedule.seed, 0, tasks) {
        let first = laboratory.run(task, 1);
        let seconds: f64 = first.iter().sum();
        calls[task] = (SHORTEST_SAMPLE / seconds.max(1e-9)).ceil().clamp(1.0, MOST_CALLS) as usize;
        samples[task] = vec![Vec::new(); first.len()];
        tell(laboratory, &mut told);
    }
    for round in 1.. {
        let open: Vec<usize> =
            order(schedule.seed, round, tasks).into_iter().filter(|&task| !is_narrow(&samples[task])).collect();
        if open.is_empty() {
            break;
        }
        for task in open {
            if laboratory.now() - start >= schedule.budget {
                return samples;
            }
            let seconds = laboratory.run(task, calls[task]);
            samples[task].iter_mut().zip(seconds).for_each(|(samples, seconds)| samples.push(seconds));
            tell(laboratory, &mut told);
        }
    }
    samples
}

fn tell(laboratory: &mut impl Laboratory, told: &mut f64) {
    let now = laboratory.now();
    laboratory.spent(now - *told);
    *told = now;
}

/// All tasks in an order of this round's own.
fn order(seed: u64, round: u64, tasks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks).collect();
    order.sort_by_key(|&task| parameter_point(&[seed, round, task as u64]));
    order
}

/// Whether every stage is known well enough.
fn is_narrow(stages: &[Vec<f64>]) -> bool {
    let narrow = |samples: &Vec<f64>| {
        samples.len() >= FEWEST_SAMPLES
            && median(samples, INTERVAL_ERROR).is_some_and(|found| {
                found.low.zip(found.high).is_some_and(|(low, high)| high - low <= 2.0 * NARROW * found.median)
            })
    };
    stages.iter().all(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks that take a fixed time each, with some scatter, on a clock of their own.
    struct Made {
        seconds: Vec<f64>,
        scatter: f64,
        now: f64,
        runs: Vec<(usize, usize)>,
        spent: f64,
    }

    impl Laboratory for Made {
        fn run(&mut self, task: usize, calls: usize) -> Vec<f64> {
            let wobble = 1.0 + self.scatter * ((self.runs.len() * 7 % 11) as f64 / 10.0);
            let seconds = self.seconds[task] * wobble;
            self.now += seconds * calls as f64;
            self.runs.push((task, calls));
            vec![seconds]
        }
        fn now(&self) -> f64 {
            self.now
        }
        fn spent(&mut self, seconds: f64) {
            self.spent += seconds;
        }
    }

    fn made(seconds: &[f64], scatter: f64) -> Made {
        Made { seconds: seconds.to_vec(), scatter, now: 0.0, runs: Vec::new(), spent: 0.0 }
    }

    #[test]
    fn steady_tasks_rest_after_the_fewest_samples() {
        let mut laboratory = made(&[0.01, 0.02, 0.03], 0.0);
        let samples = measure(&mut laboratory, 3, Schedule { budget: 1e3, seed: 0 });
        assert!(samples.iter().all(|stages| stages[0].len() == FEWEST_SAMPLES));
        assert_eq!(laboratory.runs.len(), 3 * (FEWEST_SAMPLES + 1), "one more of each, which does not count");
        assert!((laboratory.spent - laboratory.now).abs() < 1e-9);
    }

    #[test]
    fn scattered_tasks_go_on_until_the_budget_ends() {
        let mut laboratory = made(&[0.01, 0.02], 1.0);
        let samples = measure(&mut laboratory, 2, Schedule { budget: 2.0, seed: 0 });
        assert!(laboratory.now >= 2.0 && laboratory.now < 2.05, "{}", laboratory.now);
        let counts: Vec<usize> = samples.iter().map(|stages| stages[0].len()).collect();
        assert!(counts[0].abs_diff(counts[1]) <= 1 && counts[0] > 30, "{counts:?}");
    }

    #[test]
    fn short_tasks_are_called_many_times_in_a_sample() {
        let mut laboratory = made(&[1e-6, 1.0], 0.0);
        measure(&mut laboratory, 2, Schedule { budget: 1e3, seed: 3 });
        // 2 ms of 1 µs each; the division may round up to one more.
        let (short, long): (Vec<_>, Vec<_>) = laboratory.runs[2..].iter().partition(|&&(task, _)| task == 0);
        assert!(
            short.iter().all(|&&(_, calls)| calls == 2000 || calls == 2001)
                && long.iter().all(|&&(_, calls)| calls == 1)
        );
    }

    #[test]
    fn each_round_has_an_order_of_its_own_that_the_seed_fixes() {
        let orders: Vec<Vec<usize>> = (0..9).map(|round| order(5, round, 6)).collect();
        assert!(orders.iter().all(|order| {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            sorted == [0, 1, 2, 3, 4, 5]
        }));
        assert!(orders.iter().any(|other| *other != orders[0]));
        assert_eq!(order(5, 3, 6), orders[3]);
        assert_ne!(order(6, 3, 6), orders[3]);
    }
}
