//! What a stage's time is measured by.

use std::sync::OnceLock;
use std::time::Instant;

use crate::attention::kernel::Threads;

/// A clock that stands still for nobody, or one that runs only while this thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Time as it passes.
    Wall,
    /// Processor time of the calling thread: on a shared machine, what other programs take does not count.
    Thread,
}

impl Clock {
    /// The thread's own clock where one thread does all the work and the system has such a clock (Unix); else the wall's.
    pub fn of(threads: Threads) -> Self {
        if threads == Threads::Caller && cfg!(unix) { Self::Thread } else { Self::Wall }
    }

    /// The name in the rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Thread => "thread",
        }
    }

    /// Seconds since some moment.
    pub fn seconds(self) -> f64 {
        match self {
            Self::Wall => wall_seconds(),
            Self::Thread => thread_seconds(),
        }
    }
}

fn wall_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

#[cfg(unix)]
fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

#[cfg(not(unix))]
fn thread_seconds() -> f64 {
    wall_seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_uses_no_time_of_its_own() {
        let (wall, thread) = (Clock::Wall.seconds(), Clock::Thread.seconds());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(Clock::Wall.seconds() - wall >= 0.05);
        if cfg!(unix) {
            assert!(Clock::Thread.seconds() - thread < 0.02);
        }
    }

    #[test]
    fn work_is_time_by_both_clocks() {
        let (wall, thread) = (Clock::Wall.seconds(), Clock::Thread.seconds());
        let mut sum = 0.0f64;
        while Clock::Wall.seconds() - wall < 0.05 {
            sum += std::hint::black_box(1.0);
        }
        assert!(sum > 0.0 && Clock::Thread.seconds() > thread);
    }
}
