//! The progress bar: on a terminal, when a run is long, on stderr.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A run shorter than this shows no bar.
const QUIET_START: Duration = Duration::from_millis(500);
/// Positions of the bar; work is measured in operations, which overflow nothing as parts of this.
const STEPS: u64 = 10_000;

/// How far a run has come, in operations.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: f64,
    done: AtomicU64,
    started: Instant,
}

impl Progress {
    /// A bar over `total` operations, if stderr is a terminal and the user did not ask for quiet.
    pub fn new(total: f64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} gone, about {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, total: total.max(1.0), done: AtomicU64::new(0f64.to_bits()), started: Instant::now() }
    }

    /// A progress that shows nothing.
    pub fn silent() -> Self {
        Self { bar: None, total: 1.0, done: AtomicU64::new(0f64.to_bits()), started: Instant::now() }
    }

    /// Moves on by so many operations.
    pub fn advance(&self, operations: f64) {
        let Some(bar) = &self.bar else { return };
        let done = f64::from_bits(self.done.load(Ordering::Relaxed)) + operations;
        self.done.store(done.to_bits(), Ordering::Relaxed);
        if bar.is_hidden() && self.started.elapsed() >= QUIET_START {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_position(((done / self.total).min(1.0) * STEPS as f64) as u64);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
