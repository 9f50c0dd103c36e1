//! Does a measured value lie where the user says it should?

use super::results::{claim, in_bounds, name_of};
use super::{Interval, Item};
use crate::report::Row;
use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::statistics::StudentModel;

/// Holds every interval of `item` against the rows that it selects, with an error of `share` for all of them together.
///
/// The value's own (1 − error) interval by Student's t decides: upheld if it lies inside, rejected if it lies outside, undecided
/// if it reaches over an end. Fewer than 30 trials say nothing. An interval that selects no row is a claim without data.
pub fn claims(item: &Item, rows: &[Row], share: f64) -> Vec<ClaimRow> {
    let selected: Vec<(&Interval, Vec<&Row>)> = (item.intervals.iter())
        .map(|interval| (interval, rows.iter().filter(|row| interval.selects(row)).collect()))
        .collect();
    let held: usize = selected.iter().map(|(_, rows)| rows.len()).sum();
    let error = share / held.max(1) as f64;
    let of_interval = |(interval, rows): &(&Interval, Vec<&Row>)| match rows.is_empty() {
        true => vec![without_data(item, interval)],
        false => rows.iter().map(|row| held_against(item, interval, row, error)).collect(),
    };
    selected.iter().flat_map(of_interval).collect()
}

impl Interval {
    fn selects(&self, row: &Row) -> bool {
        fn fits<T: PartialEq>(asked: &Option<T>, found: &Option<T>) -> bool {
            asked.is_none() || asked == found
        }
        self.statistic == row.statistic
            && fits(&self.scale, &row.scale)
            && fits(&self.mask, &row.mask)
            && fits(&self.index, &row.index)
            && fits(&self.d_k, &row.d_k)
            && fits(&self.n_queries, &row.n_queries)
            && fits(&self.n_keys, &row.n_keys)
    }
}

fn without_data(item: &Item, interval: &Interval) -> ClaimRow {
    let explanation = "no row of its command has this statistic with these values".to_string();
    let row = claim(item, "interval", interval.statistic.clone(), ClaimVerdict::Error);
    ClaimRow { expected_low: interval.low, expected_high: interval.high, explanation, ..row }
}

fn held_against(item: &Item, interval: &Interval, row: &Row, error: f64) -> ClaimRow {
    let (verdict, explanation) = match (row.estimate, own_interval(row, error)) {
        (None, _) => (ClaimVerdict::Error, "it has no value".to_string()),
        (_, None) => (ClaimVerdict::Undecided, "too few trials for an interval of its own".to_string()),
        (_, Some((low, high))) => {
            let said = format!("its own interval is {low:.6} to {high:.6}, at an error of {error:.1e}");
            let above = interval.low.is_none_or(|end| low >= end);
            let below = interval.high.is_none_or(|end| high <= end);
            let outside = interval.low.is_some_and(|end| high < end) || interval.high.is_some_and(|end| low > end);
            match (above && below, outside) {
                (true, _) => (ClaimVerdict::Upheld, said),
                (false, true) => (ClaimVerdict::Rejected, said),
                (false, false) => (ClaimVerdict::Undecided, format!("{said}: it reaches over an end; use more trials")),
            }
        }
    };
    ClaimRow {
        estimate: row.estimate,
        expected_low: interval.low,
        expected_high: interval.high,
        deviation_in_bounds: row.estimate.zip(interval.low.zip(interval.high)).and_then(|(estimate, (low, high))| {
            in_bounds(Some(estimate - 0.5 * (low + high)), Some(0.5 * (high - low)))
        }),
        explanation,
        seed: row.seed,
        ..claim(item, "interval", name_of(row), verdict)
    }
}

/// Student's interval of the row's value; without scatter it is the value.
fn own_interval(row: &Row, error: f64) -> Option<(f64, f64)> {
    let (estimate, standard_error, trials) = (row.estimate?, row.std_error?, row.trials?);
    if standard_error == 0.0 {
        return Some((estimate, estimate));
    }
    let sample_variance = standard_error * standard_error * trials as f64;
    StudentModel { expected: 0.0, sample_variance, skewness: 0.0, trials, unit: 1.0 }.interval(estimate, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    fn item(interval: &str) -> Item {
        let text =
            format!("[[check]]\nname = 'one'\nrun = 'variance'\n[[check.interval]]\nstatistic = 'entropy'\n{interval}");
        Suite::read(&text).expect("a suite").items.remove(0)
    }

    fn row() -> Row {
        Row {
            d_k: Some(5),
            trials: Some(31),
            estimate: Some(2.0),
            std_error: Some(0.1),
            ..Row::new("variance", "entropy")
        }
    }

    fn verdict(interval: &str, row: Row, share: f64) -> ClaimVerdict {
        let claims = claims(&item(interval), &[row], share);
        assert_eq!(claims.len(), 1);
        claims[0].verdict
    }

    #[test]
    fn the_values_own_interval_decides() {
        // scipy: t.ppf(0.975, 30) = 2.042272456: 2 ± 0.2042.
        assert_eq!(verdict("low = 1.7957\nhigh = 2.2043", row(), 0.05), ClaimVerdict::Upheld);
        assert_eq!(verdict("low = 1.7959\nhigh = 2.2043", row(), 0.05), ClaimVerdict::Undecided);
        assert_eq!(verdict("high = 1.7957", row(), 0.05), ClaimVerdict::Rejected);
        assert_eq!(verdict("high = 1.7959", row(), 0.05), ClaimVerdict::Undecided);
        assert_eq!(verdict("low = 2.2043", row(), 0.05), ClaimVerdict::Rejected);
        assert_eq!(verdict("low = 2.2043", row(), 1e-6), ClaimVerdict::Undecided);
    }

    #[test]
    fn few_trials_decide_nothing_and_a_fixed_value_needs_none() {
        assert_eq!(verdict("low = 0.0", Row { trials: Some(29), ..row() }, 0.05), ClaimVerdict::Undecided);
        let fixed = Row { trials: Some(2), std_error: Some(0.0), ..row() };
        assert_eq!(verdict("low = 2.0\nhigh = 2.0", fixed.clone(), 0.05), ClaimVerdict::Upheld);
        assert_eq!(verdict("low = 2.5", fixed, 0.05), ClaimVerdict::Rejected);
        assert_eq!(verdict("low = 0.0", Row { estimate: None, ..row() }, 0.05), ClaimVerdict::Error);
    }

    #[test]
    fn an_interval_that_selects_nothing_is_without_data() {
        assert_eq!(verdict("low = 0.0\nd_k = 7", row(), 0.05), ClaimVerdict::Error);
        assert_eq!(verdict("low = 0.0\nscale = 'none'", row(), 0.05), ClaimVerdict::Error);
        assert_eq!(verdict("low = 0.0\nd_k = 5", row(), 0.05), ClaimVerdict::Upheld);
    }
}
