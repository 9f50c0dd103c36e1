//! What most queries see: parameters of a mask's rule, read off its cells by majority. In time proportional to the ranges of
//! visible keys, of which most rules have one a row.

use std::ops::Range;

use super::mask_pattern::Shape;
use crate::attention::{Mask, VisibleKeys};

/// How often each of some places was counted, from the ranges that were.
struct Counts(Vec<isize>);

impl Counts {
    fn new(places: usize) -> Self {
        Self(vec![0; places + 1])
    }

    fn add(&mut self, places: Range<usize>) {
        if places.start < places.end {
            self.0[places.start] += 1;
            self.0[places.end] -= 1;
        }
    }

    fn totals(self) -> Vec<usize> {
        let (mut total, places) = (0, self.0.len() - 1);
        let sum = |step: isize| {
            total += step;
            total as usize
        };
        self.0.into_iter().take(places).map(sum).collect()
    }
}

/// The lowest and highest diagonal j − i of which more than half is visible.
pub(super) fn band(mask: &Mask) -> Option<(i64, i64)> {
    let (n, m) = (mask.queries(), mask.keys());
    if n == 0 || m == 0 {
        return None;
    }
    let mut visible = Counts::new(n + m - 1);
    for query in 0..n {
        let first = n - 1 - query;
        for_each_run(&mask.row(query), |run| visible.add(first + run.start..first + run.end));
    }
    let visible = visible.totals();
    let length = |index: usize| (index + 1).min(n + m - 1 - index).min(n).min(m);
    let majority: Vec<usize> = (0..n + m - 1).filter(|&index| 2 * visible[index] > length(index)).collect();
    let diagonal = |index: usize| index as i64 - (n as i64 - 1);
    Some((diagonal(*majority.first()?), diagonal(*majority.last()?)))
}

/// First and last key that more than half of the queries that `allowed` admits to it see.
pub(super) fn real_keys(mask: &Mask, allowed: impl Fn(usize) -> Range<usize>) -> Range<usize> {
    let (seen, possible) = seen_of(mask, allowed);
    let is_real = |key: &usize| 2 * seen[*key] > possible[*key];
    match ((0..mask.keys()).find(is_real), (0..mask.keys()).rfind(is_real)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}

/// Leading keys that more than half of the queries before them see.
pub(super) fn prefix(mask: &Mask, causal: &Shape) -> usize {
    let (n, m) = (mask.queries(), mask.keys());
    let (seen, possible) = seen_of(mask, |query| causal.visible(query, n, m).end..m);
    let last = (0..m).filter(|&key| possible[key] > 0).take_while(|&key| 2 * seen[key] > possible[key]).last();
    last.map_or(0, |key| key + 1)
}

/// For each key, how many of the queries that `allowed` admits to it see it, and how many those are.
fn seen_of(mask: &Mask, allowed: impl Fn(usize) -> Range<usize>) -> (Vec<usize>, Vec<usize>) {
    let (mut seen, mut possible) = (Counts::new(mask.keys()), Counts::new(mask.keys()));
    for query in 0..mask.queries() {
        let range = allowed(query);
        for_each_run(&mask.row(query), |run| seen.add(run.start.max(range.start)..run.end.min(range.end)));
        possible.add(range);
    }
    (seen.totals(), possible.totals())
}

/// The ranges of neighbouring visible keys.
pub(super) fn for_each_run(row: &VisibleKeys<'_>, mut act: impl FnMut(Range<usize>)) {
    match row {
        VisibleKeys::Range(range) => act(range.clone()),
        VisibleKeys::Cells(cells) => {
            let mut start = 0;
            for run in cells.chunk_by(|a, b| a == b) {
                if run[0] {
                    act(start..start + run.len());
                }
                start += run.len();
            }
        }
    }
}
