//! Has anything moved since an earlier version? Two per-trial files, held against each other column by column.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use super::Item;
use super::results::{claim, in_bounds};
use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::statistics::two_sample::{Pairing, TwoSample};
use crate::statistics::{holm_adjusted, planning_level};

/// Differences below this share of a column's size are rounding, not drift: another order of additions moves every
/// trial by about 1e-16 in f64 and 1e-7 in f32, and a paired test would see the first as well as the second.
const ROUNDING: f64 = 1e-6;
/// Chance with which the smallest visible drift goes unseen.
const MISS: f64 = 1e-3;

/// Columns that name the parameter point of a row; two runs are compared where these agree.
const POINT: [&str; 10] =
    ["command", "d_k", "n_queries", "n_keys", "mask", "entries", "mean", "sd", "correlation", "precision"];
/// Columns that are neither measured nor part of the point.
const OTHERS: [&str; 7] = ["version", "seed", "trials", "trial", "inputs", "shard", "invocation"];

/// The trials of one parameter point.
#[derive(Debug, Clone, Default)]
struct Point {
    seed: String,
    /// Trial indices, in the order of the file.
    trials: Vec<u64>,
    seen: BTreeSet<u64>,
    /// Trials of the whole run, as text.
    planned: String,
    /// A column for each measure, a value for each trial; NaN where there is none.
    columns: BTreeMap<String, Vec<f64>>,
}

/// A per-trial file.
#[derive(Debug, Clone, Default)]
pub struct PerTrial {
    points: BTreeMap<Vec<String>, Point>,
}

impl PerTrial {
    /// Reads a per-trial file of any version; columns are found by name.
    ///
    /// # Errors
    /// What is not such a file, in one line.
    pub fn read(input: impl Read) -> Result<Self, String> {
        let mut reader = csv::Reader::from_reader(input);
        let header = reader.headers().map_err(|error| error.to_string())?.clone();
        let place = |name: &str| header.iter().position(|column| column == name);
        let at = |name: &str| place(name).ok_or_else(|| format!("is no per-trial file: it has no column '{name}'"));
        let (seed, trial, planned) = (at("seed")?, at("trial")?, at("trials")?);
        let point_columns: Vec<usize> = POINT.iter().map(|name| at(name)).collect::<Result<_, _>>()?;
        let is_measure = |name: &&str| !POINT.contains(name) && !OTHERS.contains(name);
        let measures: Vec<(usize, &str)> = header.iter().enumerate().filter(|(_, name)| is_measure(name)).collect();
        let mut points: BTreeMap<Vec<String>, Point> = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(|error| error.to_string())?;
            let field = |index: usize| record.get(index).unwrap_or_default();
            let line = || record.position().map_or(0, csv::Position::line);
            let key = point_columns.iter().map(|index| field(*index).to_string()).collect();
            let point = points.entry(key).or_default();
            field(seed).clone_into(&mut point.seed);
            let number = field(trial).parse().map_err(|_| format!("line {}: trial is no number", line()))?;
            if !point.seen.insert(number) {
                return Err(format!("line {}: trial {number} of this parameter point stands twice", line()));
            }
            point.trials.push(number);
            field(planned).clone_into(&mut point.planned);
            for (index, name) in &measures {
                let value = match field(*index) {
                    "" => f64::NAN,
                    text => text.parse().map_err(|_| format!("line {}: {name} is no number", line()))?,
                };
                point.columns.entry((*name).to_string()).or_default().push(value);
            }
        }
        if points.is_empty() {
            return Err("holds no trials".to_string());
        }
        // A run that was cut off, or one shard of it, is not what the earlier version measured.
        if let Some(point) = points.values().find(|point| point.planned != point.trials.len().to_string()) {
            let (found, planned) = (point.trials.len(), &point.planned);
            return Err(format!("holds {found} of {planned} trials of a parameter point: it is cut off, or a shard"));
        }
        // A sweep's points need not measure the same: a column without any value is none of the point's.
        for point in points.values_mut() {
            point.columns.retain(|_, values| values.iter().any(|value| value.is_finite()));
        }
        Ok(Self { points })
    }
}

/// A comparison that waits for the others' p-values.
struct Compared {
    row: ClaimRow,
    /// The mean is clear of 0, so that a relative drift means something.
    has_size: bool,
}

/// Compares every column of every point, with an error of `share` for all together (Holm). A drift of `detect`, relative to the
/// earlier mean, must be visible, else the claim is undecided; columns whose mean is not clear of 0 have no such size, they are
/// held against the earlier run all the same.
///
/// A point or a column that only one of the files has is a claim without data. A value that is missing in one run only is rejected.
pub fn claims(item: &Item, before: &PerTrial, now: &PerTrial, share: f64, detect: f64) -> Vec<ClaimRow> {
    let columns: usize = now.points.values().map(|point| point.columns.len()).sum();
    let level = planning_level(share, columns);
    let mut compared = Vec::new();
    for (key, point) in &now.points {
        match before.points.get(key) {
            Some(earlier) => compared.extend(of_point(item, key, earlier, point, level)),
            None => compared.push(without_data(item, key, "the baseline has no such parameter point")),
        }
    }
    for key in before.points.keys().filter(|key| !now.points.contains_key(*key)) {
        compared.push(without_data(item, key, "the baseline has this parameter point, the run has not"));
    }
    let p_values: Vec<f64> = compared.iter().map(|compared| compared.row.p_value.unwrap_or(f64::NAN)).collect();
    let adjusted = holm_adjusted(&p_values);
    let settle = |(Compared { mut row, has_size }, adjusted): (Compared, f64)| {
        if row.verdict == ClaimVerdict::Undecided && row.p_value.is_some() {
            let seen = row.min_detectable.is_some_and(|smallest| smallest <= detect);
            row.verdict = match adjusted <= share {
                true => ClaimVerdict::Rejected,
                false if seen || !has_size => ClaimVerdict::Upheld,
                false => ClaimVerdict::Undecided,
            };
            if row.verdict == ClaimVerdict::Undecided {
                row.explanation
                    .push_str("; too few trials to see a drift of --drift: use more, or the baseline's seed");
            }
        }
        row
    };
    compared.into_iter().zip(adjusted).map(settle).collect()
}

fn name_of(key: &[String], column: &str) -> String {
    let mut name = format!("{column} as in the baseline");
    for (label, value) in ["", "d_k ", "n ", "m ", "mask "].iter().zip(key) {
        if !label.is_empty() && !value.is_empty() {
            name.push_str(&format!(", {label}{value}"));
        }
    }
    name
}

fn without_data(item: &Item, key: &[String], why: &str) -> Compared {
    let row = claim(item, "baseline", name_of(key, "all columns"), ClaimVerdict::Error);
    Compared { row: ClaimRow { explanation: why.to_string(), ..row }, has_size: false }
}

fn of_point(item: &Item, key: &[String], before: &Point, now: &Point, level: f64) -> Vec<Compared> {
    // Other trials of the same seed are other draws.
    let pairs: Vec<(usize, usize)> = match before.seed == now.seed {
        true => {
            let places: BTreeMap<u64, usize> =
                before.trials.iter().enumerate().map(|(at, trial)| (*trial, at)).collect();
            now.trials.iter().enumerate().filter_map(|(at, trial)| Some((*places.get(trial)?, at))).collect()
        }
        false => Vec::new(),
    };
    let same_draws = !pairs.is_empty();
    let names = now.columns.keys().chain(before.columns.keys().filter(|name| !now.columns.contains_key(*name)));
    let of_column = |name: &String| {
        let row = claim(item, "baseline", name_of(key, name), ClaimVerdict::Undecided);
        let (Some(earlier), Some(values)) = (before.columns.get(name), now.columns.get(name)) else {
            let explanation = "only one of the two runs measures it".to_string();
            return Compared { row: ClaimRow { verdict: ClaimVerdict::Error, explanation, ..row }, has_size: false };
        };
        let test = match same_draws {
            true => paired(earlier, values, &pairs),
            false => independent(earlier, values),
        };
        judged(row, test, level)
    };
    names.map(of_column).collect()
}

/// The values that are compared, before and now, and the comparison; or why there is none.
type Test = Result<(Vec<f64>, Vec<f64>, TwoSample), (ClaimVerdict, String)>;

fn missing(before: usize, now: usize) -> (ClaimVerdict, String) {
    (ClaimVerdict::Rejected, format!("values that do not exist: {before} in the baseline, {now} now"))
}

fn paired(before: &[f64], now: &[f64], pairs: &[(usize, usize)]) -> Test {
    let chosen: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (before[a], now[b])).collect();
    let one_sided = |(a, b): &&(f64, f64)| a.is_finite() != b.is_finite();
    if chosen.iter().any(|pair| one_sided(&pair)) {
        let lost = |pick: fn(&(f64, f64)) -> f64| chosen.iter().filter(|pair| !pick(pair).is_finite()).count();
        return Err(missing(lost(|pair| pair.0), lost(|pair| pair.1)));
    }
    let (a, b): (Vec<f64>, Vec<f64>) = chosen.into_iter().filter(|(a, _)| a.is_finite()).unzip();
    if a.is_empty() {
        return Err((ClaimVerdict::Noted, "no value in either run".to_string()));
    }
    let test = TwoSample::paired(&a, &b);
    Ok((a, b, test))
}

fn independent(before: &[f64], now: &[f64]) -> Test {
    let finite = |values: &[f64]| values.iter().copied().filter(|value| value.is_finite()).collect::<Vec<f64>>();
    let (a, b) = (finite(before), finite(now));
    match (before.len() - a.len(), now.len() - b.len()) {
        (0, lost) if lost > 0 => Err(missing(0, lost)),
        (lost, 0) if lost > 0 => Err(missing(lost, 0)),
        _ if a.is_empty() && b.is_empty() => Err((ClaimVerdict::Noted, "no value in either run".to_string())),
        _ => {
            let test = TwoSample::independent(&a, &b);
            Ok((a, b, test))
        }
    }
}

fn judged(row: ClaimRow, test: Test, level: f64) -> Compared {
    let (before, now, test) = match test {
        Ok(test) => test,
        Err((verdict, explanation)) => {
            return Compared { row: ClaimRow { verdict, explanation, ..row }, has_size: false };
        }
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let earlier = mean(&before);
    let spread = (before.iter().map(|value| (value - earlier).powi(2)).sum::<f64>() / before.len() as f64).sqrt();
    let row = ClaimRow { estimate: Some(mean(&now)), expected_low: Some(earlier), expected_high: Some(earlier), ..row };
    let has_size = earlier.abs() > 6.0 * spread / (before.len() as f64).sqrt() && earlier != 0.0;
    let size = if has_size { earlier.abs() } else { spread.max(earlier.abs()) };
    let tolerance = ROUNDING * size;
    let how = match test.pairing {
        Pairing::Paired => format!("{} trials with the same draws", test.trials),
        Pairing::Independent => "independent draws".to_string(),
    };
    let explanation = match test.judgeable(level) {
        true => format!("moved by {:+.3e} of its size; {how}", test.difference / size),
        false => format!("too few trials to compare; {how}"),
    };
    // The same draws gave the same values, up to rounding, in every trial: that needs no number of trials.
    let same = now.iter().zip(&before).all(|(now, before)| (now - before).abs() <= tolerance);
    if test.pairing == Pairing::Paired && same {
        let explanation = format!("the same, {how}");
        let (p_value, min_detectable) = (Some(1.0), Some(if size > 0.0 { tolerance / size } else { 0.0 }));
        let row = ClaimRow {
            verdict: ClaimVerdict::Upheld,
            p_value,
            min_detectable,
            deviation_in_bounds: Some(0.0),
            explanation,
            ..row
        };
        return Compared { row, has_size };
    }
    let smallest =
        test.min_detectable(tolerance, level, MISS).map(|smallest| if size > 0.0 { smallest / size } else { 0.0 });
    let p_value = test.p_value(tolerance, level);
    let moved = (size > 0.0).then(|| test.difference / size);
    let deviation_in_bounds = in_bounds(moved, smallest);
    Compared { row: ClaimRow { p_value, min_detectable: smallest, deviation_in_bounds, explanation, ..row }, has_size }
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod tests;
