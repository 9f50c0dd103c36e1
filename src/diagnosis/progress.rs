//! How far an audit has come, in blocks of rows.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of a step.
const ROWS: usize = 256;

/// Counts rows of all heads and announces every full block of them.
pub(super) struct Steps<'a> {
    per_head: usize,
    total: usize,
    /// Rows of this head so far.
    rows: AtomicUsize,
    announced: AtomicUsize,
    announce: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Steps<'a> {
    pub(super) fn new(heads: usize, rows: usize, announce: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        // One more for what comes after the rows.
        let per_head = rows / ROWS + 1;
        let (rows, announced) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { per_head, total: heads * per_head, rows, announced, announce }
    }

    /// One row is done.
    pub(super) fn row(&self) {
        if (self.rows.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(ROWS) {
            self.step();
        }
    }

    /// `heads` heads are done: whatever their rows announced, all their steps are.
    pub(super) fn end_of_head(&self, heads: usize) {
        self.rows.store(0, Ordering::Relaxed);
        while self.announced.load(Ordering::Relaxed) < heads * self.per_head {
            self.step();
        }
    }

    fn step(&self) {
        let done = self.announced.fetch_add(1, Ordering::Relaxed) + 1;
        (self.announce)(done, self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_step_is_announced_once_however_many_rows_are_visited() {
        let heard = Mutex::new(Vec::new());
        let announce = |done: usize, of: usize| heard.lock().expect("no panic").push((done, of));
        let steps = Steps::new(2, 2 * ROWS + 1, &announce);
        // The first head's rows are visited, the second head's are not.
        (0..2 * ROWS + 1).for_each(|_| steps.row());
        assert_eq!(*heard.lock().expect("no panic"), [(1, 6), (2, 6)]);
        steps.end_of_head(1);
        steps.end_of_head(2);
        assert_eq!(*heard.lock().expect("no panic"), [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]);
    }
}
