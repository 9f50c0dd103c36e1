//! Causes: suspects that explain a wrong answer, proved by computing what they give.

use std::collections::BTreeSet;

use super::attend::{Outcome, attend};
use super::behaviour::{Arithmetic, Axis, Behaviour};
use super::bound::{MULTIPLE, is_judged, largest_error};
use super::case::{Block, Case};
use super::suspects::{Cause, Suspect, suspects};
use crate::diagnosis::matrix::Storage;

/// An array of an answer beside its bound.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Its name.
    pub name: &'static str,
    /// What the answer says.
    pub found: &'a Block,
    /// How far it is from the right values.
    pub error: f64,
    /// The bound of the right values.
    pub bound: f64,
}

impl Seen<'_> {
    /// Whether it is out of its bound.
    pub fn is_wrong(&self) -> bool {
        self.error.is_nan() || self.error > self.bound
    }
}

/// Suspects that reproduce an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explained {
    /// The nearest; one that is listed earlier wins where both are about as near.
    pub best: Option<Cause>,
    /// Every one, the first of each name, in the order of the list.
    pub all: Vec<Cause>,
}

/// Suspects of these names (all if `None`) that reproduce every array, right ones included.
pub fn explain(
    case: &Case,
    right: &Behaviour,
    arrays: &[Seen<'_>],
    sees: &Block,
    names: Option<&BTreeSet<String>>,
) -> Explained {
    let mut best: Option<(f64, Cause)> = None;
    let mut all: Vec<Cause> = Vec::new();
    let wanted = |suspect: &Suspect| names.is_none_or(|names| names.contains(&suspect.cause.name));
    for suspect in suspects(case, right).into_iter().filter(wanted) {
        let exact = attend(case, &suspect.behaviour, suspect.arithmetic);
        let rounded = attend(case, &suspect.behaviour, Arithmetic::of(case.storage));
        // Over another axis the logarithm of the sum has no row.
        let has_row = |array: &&Seen<'_>| array.name != "lse" || suspect.behaviour.axis == Axis::Keys;
        let distances = arrays.iter().filter(has_row).map(|array| distance(case, array, &exact, &rounded, sees));
        let distance = distances.fold(0.0, f64::max);
        if distance > 1.0 {
            continue;
        }
        if all.iter().all(|known| known.name != suspect.cause.name) {
            all.push(suspect.cause.clone());
        }
        if best.as_ref().is_none_or(|(nearest, _)| 2.0 * distance < *nearest) {
            best = Some((distance, suspect.cause));
        }
    }
    Explained { best: best.map(|(_, cause)| cause), all }
}

/// Whether no judged number of any array is finite: such an answer agrees with every suspect that gives none, and proves none of them.
pub fn is_without_numbers(arrays: &[Seen<'_>], sees: &Block) -> bool {
    let none = |array: &Seen<'_>| {
        (array.found.numbers.iter().enumerate())
            .all(|(index, number)| !number.is_finite() || !is_judged(array.name, array.found, index, sees))
    };
    !arrays.is_empty() && arrays.iter().all(none)
}

/// How far the array is from what a suspect gives, in what rounding allows; above 1 it is not that.
fn distance(case: &Case, array: &Seen<'_>, exact: &Outcome, rounded: &Outcome, sees: &Block) -> f64 {
    let (Some(exact), Some(rounded)) = (exact.array(array.name), rounded.array(array.name)) else {
        return f64::INFINITY;
    };
    let (distance, _) = largest_error(array.name, array.found, exact, sees);
    let (own, _) = largest_error(array.name, rounded, exact, sees);
    let size = exact
        .numbers
        .iter()
        .copied()
        .filter(|number| number.is_finite())
        .fold(0.0, |size: f64, number| size.max(number.abs()));
    let own = if own.is_finite() { own } else { 0.0 };
    let allowed = (2.0 * MULTIPLE * own.max(case.storage.unit_roundoff() * size)).max(array.bound);
    // A suspect that is not much nearer than the truth explains nothing.
    let explains = distance <= array.bound || (distance <= allowed && 8.0 * distance < array.error);
    if explains { distance / allowed } else { f64::INFINITY }
}

/// How the words of a narrower arithmetic begin, which only the size of the errors shows.
pub(super) const LARGE_ERRORS: &str = "errors as large as those of";

/// The narrower arithmetic whose definition has errors as large as the answer's.
pub fn explain_rounding(
    case: &Case,
    right: &Behaviour,
    wrong: &[Seen<'_>],
    values: &Outcome,
    sees: &Block,
) -> Option<Cause> {
    let of = |step: Storage, stored: Storage, words: String| (Arithmetic { step, stored }, words);
    let computed = |storage: Storage| {
        of(Arithmetic::of(storage).step, storage, format!("{LARGE_ERRORS} arithmetic in {}", storage.name()))
    };
    let sums = |storage: Storage| {
        of(storage, storage, format!("{LARGE_ERRORS} sums kept in {}: accumulate in f32", storage.name()))
    };
    let narrower = match case.storage {
        Storage::F64 => vec![computed(Storage::F32), computed(Storage::F16), computed(Storage::Bf16)],
        Storage::F32 => vec![computed(Storage::F16), computed(Storage::Bf16), sums(Storage::F16), sums(Storage::Bf16)],
        Storage::F16 => vec![sums(Storage::F16), computed(Storage::Bf16)],
        Storage::Bf16 => vec![sums(Storage::Bf16)],
    };
    narrower.into_iter().find_map(|(arithmetic, words)| {
        let outcome = attend(case, right, arithmetic);
        let fits = wrong.iter().all(|array| {
            let own = outcome.array(array.name).zip(values.array(array.name));
            own.is_some_and(|(found, expected)| {
                let (error, _) = largest_error(array.name, found, expected, sees);
                array.error <= MULTIPLE * error && error.is_finite()
            })
        });
        fits.then(|| Cause::new("precision", words))
    })
}

/// The logarithm of the sum is off by one constant in every row.
pub fn explain_offset(found: &Block, expected: &Block, sees: &Block, bound: f64) -> Option<Cause> {
    let offsets = (found.numbers.iter().zip(&expected.numbers).zip(&sees.numbers)).filter(|(_, sees)| **sees != 0.0);
    let offsets: Vec<f64> = offsets.map(|((found, expected), _)| found - expected).collect();
    let first = *offsets.first()?;
    let same = offsets.iter().all(|offset| (offset - first).abs() <= 2.0 * bound);
    same.then(|| Cause::new("lse-offset", format!("the log-sum-exp is off by {first:.6} in every row")))
}

/// Dropout: some weights are 0, the others multiplied by one factor.
pub fn explain_dropout(weights: &Block, expected: &Block, sees: &Block) -> Option<Cause> {
    let mut ratios = Vec::new();
    let (mut zeros, mut cells) = (0_usize, 0_usize);
    for (index, (&found, &expected_weight)) in weights.numbers.iter().zip(&expected.numbers).enumerate() {
        if sees.numbers[index / weights.shape[3]] == 0.0 || expected_weight < 1e-6 {
            continue;
        }
        cells += 1;
        if found == 0.0 {
            zeros += 1;
        } else {
            ratios.push(found / expected_weight);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let factor = *ratios.get(ratios.len() / 2)?;
    let share = zeros as f64 / cells as f64;
    let same = ratios.iter().all(|ratio| (ratio / factor - 1.0).abs() < 0.02);
    // A share of p zeros goes with a factor of 1/(1 − p); five standard errors of a binomial share.
    let probability = 1.0 - 1.0 / factor;
    let scatter = (probability * (1.0 - probability) / cells as f64).sqrt();
    (zeros > 0 && same && factor > 1.0 && (share - probability).abs() <= 5.0 * scatter).then(|| {
        Cause::new(
            "dropout",
            format!(
                "dropout is on: {:.0} % of the weights are 0, the others {factor:.3} times as large",
                100.0 * share
            ),
        )
    })
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
