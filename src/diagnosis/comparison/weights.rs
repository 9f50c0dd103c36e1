//! Why weights differ: other keys visible, dropout, another scale, or what the difference of Q and K makes.

use super::grid::{Difference, Grid, coarser, dot, is_explained};
use super::relation::Relation;
use crate::attention::Mask;
use crate::diagnosis::mask_pattern::{Shape, recognise};
use crate::diagnosis::matrix::Storage;

/// Logarithms beyond which an error bound says nothing more.
const LARGEST_EXPONENT: f64 = 50.0;

/// Q, K of both dumps, cut to common rows, and the larger of both scales.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub queries: (&'a Grid, &'a Grid),
    pub keys: (&'a Grid, &'a Grid),
    pub scale: f64,
}

impl Inputs<'_> {
    /// Writes, for each key of a row, how far rounding may move its logit between both dumps, and how far the differences of Q and K do.
    pub fn errors(&self, row: usize, rounding: &mut [f64], inherited: &mut [f64]) {
        let width = self.queries.1.columns as f64;
        let of = |a: (&Grid, &Grid)| coarser(a.0, a.1).unit_roundoff();
        let stored = of(self.queries).max(of(self.keys));
        let arithmetic = if stored < Storage::F32.unit_roundoff() { stored } else { Storage::F32.unit_roundoff() };
        let per_product = 2.0 * stored + 4.0 * width.sqrt() * arithmetic;
        let (own, reference) = (self.queries.0.row(row), self.queries.1.row(row));
        let norm = dot(own, own).max(dot(reference, reference)).sqrt();
        for key in 0..rounding.len() {
            let (own_key, reference_key) = (self.keys.0.row(key), self.keys.1.row(key));
            let key_norm = dot(own_key, own_key).max(dot(reference_key, reference_key)).sqrt();
            // Both paths round.
            rounding[key] = 2.0 * self.scale * norm * key_norm * per_product;
            inherited[key] = self.scale * (dot(own, own_key) - dot(reference, reference_key)).abs();
        }
    }

    /// Whether QKᵀ is the same, up to rounding that accumulated.
    pub fn products_are_equal(&self) -> bool {
        let (own, reference) = (self.products(true), self.products(false));
        let Some((own, reference)) = own.zip(reference) else { return false };
        let difference = Difference::plain(&own, &reference);
        difference.fits() || difference.is_accumulated()
    }

    fn products(&self, of_own: bool) -> Option<Grid> {
        let (queries, keys) = if of_own { (self.queries.0, self.keys.0) } else { (self.queries.1, self.keys.1) };
        (queries.columns == keys.columns).then(|| {
            let numbers =
                (0..queries.rows).flat_map(|row| (0..keys.rows).map(move |key| dot(queries.row(row), keys.row(key))));
            Grid { rows: queries.rows, columns: keys.rows, numbers: numbers.collect(), storage: coarser(queries, keys) }
        })
    }
}

/// The difference of weights under the bound that rounding of logits and weights gives; `with_inputs` adds what Q and K differ by.
///
/// With e the possible error of a logit, a weight moves by P·(exp(e + Σ P e) − 1) at most, to which come its own roundings.
pub(super) fn difference(own: &Grid, reference: &Grid, inputs: Option<Inputs<'_>>, with_inputs: bool) -> Difference {
    let storage = coarser(own, reference);
    let keys = reference.columns;
    let arithmetic = storage.unit_roundoff().min(Storage::F32.unit_roundoff());
    let own_rounding = 8.0 * storage.unit_roundoff() + 2.0 * (8.0 + 4.0 * (keys as f64).sqrt()) * arithmetic;
    let (mut rounding, mut inherited) = (vec![0.0; keys], vec![0.0; keys]);
    Difference::measure(own, reference, |row, bounds| {
        match inputs {
            Some(inputs) => inputs.errors(row, &mut rounding, &mut inherited),
            // Nothing known of the logits: those of a row differ by ln of what its weights do.
            None => {
                let largest = reference.row(row).iter().copied().fold(f64::MIN_POSITIVE, f64::max);
                for (rounding, weight) in rounding.iter_mut().zip(reference.row(row)) {
                    let logit = if *weight > 0.0 { (largest / weight).ln() } else { 0.0 };
                    *rounding = 4.0 * storage.unit_roundoff() * (1.0 + logit);
                }
            }
        }
        let of_inputs = f64::from(u8::from(with_inputs));
        let weights: Vec<f64> = own.row(row).iter().zip(reference.row(row)).map(|(a, b)| a.max(*b)).collect();
        let error = |key: usize| (rounding[key] + of_inputs * inherited[key]).min(LARGEST_EXPONENT);
        let shared: f64 = (0..keys).map(|key| weights[key] * error(key)).sum::<f64>().min(LARGEST_EXPONENT);
        for (key, bound) in bounds.iter_mut().enumerate() {
            *bound = weights[key] * ((error(key) + shared).exp_m1() + own_rounding) + 4.0 * storage.underflow();
        }
    })
}

/// Why weights differ.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// Weights are 0 where the other's are not, at random, and the others are multiplied.
    Dropout(Dropout),
    /// Other keys have weight.
    Support(Support),
    /// P ∝ reference^ratio: the scale differs by this factor.
    Scale(f64),
    /// Rows are columns, or keys are in another order.
    Order(Relation),
    /// None of these.
    Other,
}

/// Weights dropped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dropout {
    /// Share of weights that are 0 in the file and not in the reference, and the other way round.
    pub dropped: (f64, f64),
    /// What the rest is multiplied by, file over reference.
    pub factor: f64,
}

/// Cells with weight in one dump only.
#[derive(Debug, Clone)]
pub(super) struct Support {
    /// Cells that only the file sees, that only the reference sees.
    pub only: (usize, usize),
    /// Mean weight on them in the dump that sees them, per row that has any.
    pub weight: f64,
    /// The first of them.
    pub first: (usize, usize),
    /// Whether all of them come after the query's own position.
    pub future: bool,
    /// Rows with such a cell.
    pub rows: usize,
    /// The file's and the reference's pattern.
    pub patterns: (String, String),
    /// Whether the weights agree on the keys that both see, up to their sum.
    pub rest_agrees: bool,
}

/// The cause of weights that rounding does not explain. `position` is that of the first query.
pub(super) fn cause(own: &Grid, reference: &Grid, inputs: Option<Inputs<'_>>, position: i64) -> Cause {
    if let Some(dropout) = dropout(own, reference) {
        return Cause::Dropout(dropout);
    }
    if let Some(support) = support(own, reference, inputs, position) {
        return Cause::Support(support);
    }
    if let Some(ratio) = temperature(own, reference) {
        return Cause::Scale(ratio);
    }
    match Relation::find(own, reference, None) {
        order @ (Relation::Transposed | Relation::Channels(_) | Relation::Rows(_)) => Cause::Order(order),
        _ => Cause::Other,
    }
}

/// A weight that no underflow explains.
fn has_weight(weight: f64, storage: Storage) -> bool {
    weight > 64.0 * storage.smallest_normal()
}

fn dropout(own: &Grid, reference: &Grid) -> Option<Dropout> {
    let storage = coarser(own, reference);
    let (mut own_zeros, mut reference_zeros, mut cells) = (0usize, 0usize, 0usize);
    let mut ratios = Vec::new();
    let mut reference_dropped = Vec::with_capacity(own.numbers.len());
    for (&a, &b) in own.numbers.iter().zip(&reference.numbers) {
        let (seen, expected) = (has_weight(a, storage), has_weight(b, storage));
        cells += usize::from(seen || expected);
        own_zeros += usize::from(a == 0.0 && expected);
        reference_zeros += usize::from(b == 0.0 && seen);
        reference_dropped.push(!(a == 0.0 && expected));
        if seen && expected {
            ratios.push(a / b);
        }
    }
    if own_zeros + reference_zeros == 0 || ratios.len() < 8 {
        return None;
    }
    let count = ratios.len() as f64;
    let factor = ratios.iter().sum::<f64>() / count;
    let scatter = (ratios.iter().map(|ratio| (ratio - factor).powi(2)).sum::<f64>() / count).sqrt();
    // A row that lost keys to a mask has a factor of its own.
    if scatter > 16.0 * storage.unit_roundoff() * factor.max(1.0) {
        return None;
    }
    let share = |zeros: usize| zeros as f64 / cells as f64;
    let dropped = (share(own_zeros), share(reference_zeros));
    // p zeros make the rest 1/(1 − p) times larger; five standard deviations of a share.
    let expected = 1.0 - factor.max(1.0 / factor).recip();
    let deviation = (expected * (1.0 - expected) / cells as f64).sqrt();
    let one_sided = dropped.0.min(dropped.1) == 0.0
        && expected > 1e-3
        && (dropped.0.max(dropped.1) - expected).abs() <= 5.0 * deviation + 1e-12;
    let both = own_zeros > 0 && reference_zeros > 0 && (factor - 1.0).abs() < 16.0 * storage.unit_roundoff();
    let pattern = recognise(&Mask::from_cells(own.rows, own.columns, reference_dropped));
    (one_sided || (both && pattern.shape == Shape::Other)).then_some(Dropout { dropped, factor })
}

fn support(own: &Grid, reference: &Grid, inputs: Option<Inputs<'_>>, position: i64) -> Option<Support> {
    let storage = coarser(own, reference);
    let (rows, keys) = (reference.rows, reference.columns);
    let mut found = Support {
        only: (0, 0),
        weight: 0.0,
        first: (0, 0),
        future: true,
        rows: 0,
        patterns: (String::new(), String::new()),
        rest_agrees: false,
    };
    let mut is_first = true;
    let mut common = (own.clone(), reference.clone());
    for row in 0..rows {
        let mut own_sum = 0.0;
        let mut any = false;
        for key in 0..keys {
            let (a, b) = (own.at(row, key), reference.at(row, key));
            let (by_own, by_reference) = (b == 0.0 && has_weight(a, storage), a == 0.0 && has_weight(b, storage));
            if !(by_own || by_reference) {
                own_sum += a;
                continue;
            }
            found.only.0 += usize::from(by_own);
            found.only.1 += usize::from(by_reference);
            found.weight += a.max(b);
            found.future &= key as i64 > position + row as i64;
            any = true;
            if std::mem::take(&mut is_first) {
                found.first = (row, key);
            }
            common.0.numbers[row * keys + key] = 0.0;
            common.1.numbers[row * keys + key] = 0.0;
        }
        found.rows += usize::from(any);
        let reference_sum: f64 = common.1.row(row).iter().sum();
        if own_sum > 0.0 && reference_sum > 0.0 {
            common.0.numbers[row * keys..(row + 1) * keys].iter_mut().for_each(|weight| *weight /= own_sum);
            common.1.numbers[row * keys..(row + 1) * keys].iter_mut().for_each(|weight| *weight /= reference_sum);
        }
    }
    if found.only == (0, 0) {
        return None;
    }
    found.weight /= found.rows as f64;
    let pattern = |grid: &Grid| {
        let cells = grid.numbers.iter().map(|weight| *weight != 0.0).collect();
        recognise(&Mask::from_cells(rows, keys, cells)).shape.to_string()
    };
    found.patterns = (pattern(own), pattern(reference));
    found.rest_agrees = difference(&common.0, &common.1, inputs, true).fits();
    Some(found)
}

/// The slope of ln own on ln reference within rows, if the weights are the reference's to that power.
pub(super) fn temperature(own: &Grid, reference: &Grid) -> Option<f64> {
    let slope = slope(own, reference)?;
    let storage = coarser(own, reference);
    let mut model = reference.clone();
    for row in 0..model.rows {
        let keys = model.columns;
        let own_sum: f64 = own.row(row).iter().sum();
        let row = &mut model.numbers[row * keys..(row + 1) * keys];
        row.iter_mut().filter(|weight| **weight > 0.0).for_each(|weight| *weight = weight.powf(slope));
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight *= own_sum / total);
    }
    // Powers multiply what rounding left in the logarithms.
    let roundoff = storage.unit_roundoff() * slope.abs().max(1.0);
    ((slope - 1.0).abs() > 4.0 * roundoff && is_explained(own, &model, roundoff)).then_some(slope)
}

/// Σ xy / Σ x² of logarithms less their row's mean.
fn slope(own: &Grid, reference: &Grid) -> Option<f64> {
    let storage = coarser(own, reference);
    let (mut products, mut squares) = (0.0, 0.0);
    for row in 0..reference.rows {
        let pairs: Vec<(f64, f64)> = own
            .row(row)
            .iter()
            .zip(reference.row(row))
            .filter(|(a, b)| has_weight(**a, storage) && has_weight(**b, storage))
            .map(|(a, b)| (b.ln(), a.ln()))
            .collect();
        let count = pairs.len().max(1) as f64;
        let mean = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / count, sum.1 + pair.1 / count));
        for (x, y) in pairs {
            products += (x - mean.0) * (y - mean.1);
            squares += (x - mean.0).powi(2);
        }
    }
    (squares > 0.0).then(|| products / squares)
}
