//! What an implementation gives to queries that see no key. The definition says 0/0; libraries differ, and none of three ways is wrong.

use super::answer::AnswerArray;
use super::attend::attend;
use super::behaviour::{Arithmetic, MaskUse, right};
use super::bound::MULTIPLE;
use super::case::{Block, Case};

/// A way to fill the output of such a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Convention {
    /// 0.
    Zeros,
    /// NaN: 0/0 as it stands.
    NotANumber,
    /// The mean of V: a finite number in place of −∞ that swallows the logits.
    Uniform,
    /// As if there were no mask: hidden keys keep their order.
    AsUnmasked,
    /// None of these.
    Other,
}

impl Convention {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::NotANumber => "NaN",
            Self::Uniform => "the mean of V (uniform weights)",
            Self::AsUnmasked => {
                "queries that see no key give what they would without the mask: hidden keys show through"
            }
            Self::Other => "queries that see no key give neither zeros, NaN nor the mean of V",
        }
    }
}

/// The conventions found, each once, and the first place that has none of the accepted ones.
pub fn conventions(case: &Case, output: &AnswerArray, sees: &Block) -> (Vec<Convention>, Option<[usize; 3]>) {
    let mut behaviour = right(case).swap_remove(0);
    behaviour.mask = MaskUse::Ignored;
    let unmasked = attend(case, &behaviour, Arithmetic::EXACT).output;
    let shape = case.inputs.shape();
    let group = shape.heads / shape.key_heads;
    let roundoff = case.storage.unit_roundoff().max(output.storage.unit_roundoff());
    let (mut found, mut first_wrong) = (Vec::new(), None);
    for (index, _) in sees.numbers.iter().enumerate().filter(|(_, sees)| **sees == 0.0) {
        let (batch, head, query) =
            (index / shape.queries / shape.heads, index / shape.queries % shape.heads, index % shape.queries);
        let row = output.block.row(batch, head, query);
        let mut mean = vec![0.0; shape.value_width];
        let mut size = 0.0f64;
        for key in 0..shape.keys {
            for (mean, &value) in mean.iter_mut().zip(case.inputs.values.row(batch, head / group, key)) {
                *mean += value / shape.keys as f64;
                size = size.max(value.abs());
            }
        }
        // A mean of m numbers, its weights 1/m rounded once: m·u·size/m each, with room for the order of the sum.
        let near = |expected: &[f64]| {
            let bound = MULTIPLE * 4.0 * roundoff * size;
            row.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= bound)
        };
        let convention = if row.iter().all(|&number| number == 0.0) {
            Convention::Zeros
        } else if row.iter().all(|number| number.is_nan()) {
            Convention::NotANumber
        } else if near(&mean) {
            Convention::Uniform
        } else if near(unmasked.row(batch, head, query)) {
            Convention::AsUnmasked
        } else {
            Convention::Other
        };
        if !found.contains(&convention) {
            found.push(convention);
        }
        if convention > Convention::Uniform && first_wrong.is_none() {
            first_wrong = Some([batch, head, query]);
        }
    }
    found.sort();
    (found, first_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::matrix::Storage;
    use crate::probe::case::Capability;
    use crate::probe::catalogue::cases;
    use crate::probe::reference::yardstick;

    /// The conventions of an answer whose empty rows are filled by `fill` of (batch, key head, channel).
    fn found(name: &str, fill: impl Fn(&Case, usize, usize, usize) -> f64) -> (Vec<Convention>, Option<[usize; 3]>) {
        let all = cases(1, &[Capability::EmptyRows]);
        let case = all.iter().find(|case| case.name == name).expect("listed");
        let yardstick = yardstick(case, &right(case)[0]);
        let mut block = yardstick.values.output.clone();
        let shape = case.inputs.shape();
        for (index, _) in yardstick.sees.numbers.iter().enumerate().filter(|(_, sees)| **sees == 0.0) {
            let (batch, head) = (index / shape.queries / shape.heads, index / shape.queries % shape.heads);
            let row = block.row_mut(batch, head, index % shape.queries);
            row.iter_mut().enumerate().for_each(|(channel, number)| *number = fill(case, batch, head, channel));
        }
        conventions(case, &AnswerArray { storage: Storage::F32, block }, &yardstick.sees)
    }

    #[test]
    fn zeros_nan_and_the_mean_of_the_values_are_told_apart_and_anything_else_has_its_place() {
        for name in ["empty-rows-boolean", "empty-rows-additive", "empty-rows-padding"] {
            assert_eq!(found(name, |_, _, _, _| 0.0), (vec![Convention::Zeros], None));
            assert_eq!(found(name, |_, _, _, _| f64::NAN), (vec![Convention::NotANumber], None));
            let mean = |case: &Case, batch: usize, head: usize, channel: usize| {
                let keys = case.inputs.keys.shape[2];
                (0..keys).map(|key| case.inputs.values.row(batch, head, key)[channel]).sum::<f64>() / keys as f64
            };
            assert_eq!(found(name, mean), (vec![Convention::Uniform], None));
            let (conventions, place) = found(name, |_, _, _, _| 0.25);
            assert_eq!((conventions, place.is_some()), (vec![Convention::Other], true));
        }
    }
}
