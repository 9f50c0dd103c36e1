//! Without weights: recover them from the output, or find the model whose output it is.

mod trials;

use nalgebra::DMatrix;

use super::checks::{Against, compare_output};
use super::evidence::{Columns, Evidence};
use super::explain::{Cause, Explanation};
use super::matrix::{Head, Matrix, Numbers, Storage};
use super::model::{MaskUse, Misfit, Model};
use super::naming::Sizes;
use super::product::{PackedValues, ProductWorkspace};
use super::rows::RowBuffer;
use super::slope::ScaleFit;
use trials::{Cells, mark, support, trials, window};

/// Rows on which models are tried before the whole is compared.
const ROWS: usize = 48;

/// Half octaves that the search for a scale goes up and down from the contract's.
const GRID_STEPS: i32 = 12;

/// Cells on which the scale of each trial is fitted.
const TRIAL_CELLS: usize = 1 << 17;

/// P = O V⁺ (least squares), with the largest error of a weight that rounding of O leaves; `None` if keys are more than d_v, V is
/// nearly singular, or an entry is not finite.
pub fn recover_weights(head: &Head) -> Option<(Matrix, f64)> {
    let (values, output) = (head.values.as_ref()?, head.output.as_ref()?);
    let (keys, width, queries) = (values.rows, values.columns, output.rows);
    if keys > width || keys == 0 || width > 1024 {
        return None;
    }
    let v = DMatrix::from_row_slice(keys, width, &values.to_f64());
    let o = DMatrix::from_row_slice(queries, width, &output.to_f64());
    if v.iter().chain(o.iter()).any(|number| !number.is_finite()) {
        return None;
    }
    let svd = v.clone().svd(true, true);
    let smallest = svd.singular_values.min();
    let largest = svd.singular_values.max();
    if smallest <= 1e-6 * largest {
        return None;
    }
    let inverse = svd.pseudo_inverse(1e-12 * largest).ok()?;
    let mut weights = &o * &inverse;
    // Refined, since the inverse itself is rounded.
    for _ in 0..2 {
        weights += (&o - &weights * &v) * &inverse;
    }
    let rest = &o - &weights * &v;
    let left = (0..queries).map(|query| rest.row(query).norm()).fold(0.0f64, f64::max);
    let storage = output.computed_in();
    let rounding = storage.unit_roundoff().max(Storage::F32.unit_roundoff().min(storage.unit_roundoff() * 8.0));
    // Rounding of O, and of the weights that made it, each relative to the row's own size.
    let row_error = (0..queries).map(|query| o.row(query).norm()).fold(0.0f64, f64::max);
    // What the refined weights leave of O is error of theirs as well.
    let floor = 8.0 * (rounding * (row_error + largest) + left) / smallest;
    if floor > 0.01 / keys as f64 {
        return None;
    }
    let numbers = (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key)));
    let numbers = numbers.map(|(query, key)| weights[(query, key)]).collect();
    Some((Matrix::new(queries, keys, storage, Numbers::F64(numbers)), floor))
}

/// What a model must leave at most of the squares that the contract leaves, to be taken for an explanation: where bounds are wide, as
/// at a large scale in a half type, any output is within them.
const LEFT_BY_FORM: f64 = 0.25;

/// As [`LEFT_BY_FORM`], of a model with a fitted scale.
const LEFT_BY_SCALE: f64 = 0.05;

/// Largest relative standard error of a scale that is named.
const NAMED_SCALE_ERROR: f64 = 0.05;

/// The model whose output is the file's: the contract's if it fits, else the first of its faulty relatives.
///
/// Forms at the contract's scale come before other scales: a wrong form fits best at a scale of no meaning. A fitted scale must be well
/// inside the range that was searched, and leave far less of the output than the contract does.
pub fn explain_output(
    evidence: &Evidence<'_>,
    contract: &Model,
    expected_names: &[f64],
    heads: usize,
) -> Option<Explanation> {
    let (values, output) = (evidence.head.values.as_ref()?, evidence.head.output.as_ref()?);
    let packed = PackedValues::new(values);
    let values = &packed;
    let search = Search { evidence, values, output };
    let every = evidence.every_row();
    let compare = |model: &Model, cells: &Cells, rows: &[usize]| {
        let prepare = |row: &mut RowBuffer| mark(row, cells, evidence);
        compare_output(evidence, Against::Model(model), values, output, rows, &prepare)
    };
    let contract_misfit = compare(contract, &Cells::Contract, &every);
    let start = if contract_misfit.fits() { Start::Contract } else { Start::Grid };
    let step = evidence.queries.div_ceil(ROWS).max(1);
    let few: Vec<usize> = (0..evidence.queries).step_by(step).collect();
    let mut result = Explanation {
        contract: contract.clone(),
        contract_misfit,
        model: contract.clone(),
        misfit: contract_misfit,
        fit: search.fit(contract, start, &Cells::Contract, &few),
        causes: Vec::new(),
    };
    if contract_misfit.fits() {
        // Roundings of one row's logits move all its outputs together: residuals of outputs are no honest scatter, and where the
        // contract's scale gives the output within rounding the distance to it is.
        if let Some(fit) = &mut result.fit {
            fit.standard_error = fit.standard_error.max((fit.scale - contract.scale).abs());
        }
        return Some(result);
    }
    let trial_rows = (TRIAL_CELLS / evidence.keys.max(1)).clamp(8, ROWS);
    let fewer: Vec<usize> = few.iter().step_by(few.len().div_ceil(trial_rows).max(1)).copied().collect();
    let contract_on_few = compare(contract, &Cells::Contract, &few).squares;
    let fits = |model: &Model, cells: &Cells, left: f64| {
        let on_few = compare(model, cells, &few);
        if !on_few.fits() || contract_on_few.is_finite() && on_few.squares > left * contract_on_few {
            return false;
        }
        let on_all = compare(model, cells, &every);
        on_all.fits() && (!contract_misfit.squares.is_finite() || on_all.squares <= left * contract_misfit.squares)
    };
    let at_scale = |model: &Model, cells: &Cells| {
        let fit = search.fit(model, Start::Contract, cells, &few);
        // As above: the scale is the one that gives the output within rounding.
        fit.map(|fit| ScaleFit {
            standard_error: fit.standard_error.max((fit.scale - model.scale).abs()),
            scale: model.scale,
            ..fit
        })
    };
    let trials = trials(evidence, contract, heads);
    for (model, cells, causes) in &trials {
        if fits(model, cells, LEFT_BY_FORM) {
            result.fit = at_scale(model, cells);
            return Some(explained(evidence, result, model.clone(), cells, causes.clone(), false));
        }
    }
    if let Some(cells) = window(evidence, contract, &few, &compare)
        && let model = (Model { mask: MaskUse::Observed, ..contract.clone() })
        && fits(&model, &cells, LEFT_BY_FORM)
    {
        result.fit = at_scale(&model, &cells);
        return Some(explained(evidence, result, model, &cells, Vec::new(), false));
    }
    for (model, cells, causes) in trials {
        let mut scales = expected_names.to_vec();
        let start = Model { scale: contract.scale, ..model.clone() };
        scales.extend(search.fit(&start, Start::Grid, &cells, &fewer).map(|fit| fit.scale));
        for scale in scales {
            let trial = Model { scale, ..model.clone() };
            if !fits(&trial, &cells, LEFT_BY_SCALE) {
                continue;
            }
            // Also among scales that all fit, the contract's among them or not, none is named.
            if let Some(fit) = search.fit(&trial, Start::Contract, &cells, &few)
                && fit.standard_error <= NAMED_SCALE_ERROR * fit.scale.abs()
                && (fit.scale - contract.scale).abs() > 8.0 * fit.standard_error
            {
                result.fit = Some(fit);
                return Some(explained(evidence, result, trial, &cells, causes, true));
            }
        }
    }
    result.causes.push(Cause::Unexplained);
    Some(result)
}

fn explained(
    evidence: &Evidence<'_>,
    mut result: Explanation,
    model: Model,
    cells: &Cells,
    mut causes: Vec<Cause>,
    other_scale: bool,
) -> Explanation {
    if other_scale {
        causes.insert(0, Cause::Scale);
        if let Some(fit) = &mut result.fit {
            fit.scale = model.scale;
        }
    }
    if *cells != Cells::Contract {
        causes.push(Cause::Support(support(evidence, cells)));
    }
    (result.model, result.causes, result.misfit) = (model, causes, Misfit::NONE);
    result
}

/// Scales that are tried where only the output is there.
pub fn likely_scales(sizes: &Sizes) -> Vec<f64> {
    let d = sizes.width as f64;
    let mut scales = vec![1.0, 1.0 / d, 1.0 / d.sqrt(), d.sqrt(), -1.0 / d.sqrt()];
    scales.push(1.0 / (d * sizes.heads as f64).sqrt());
    scales
}

/// Where the search for a scale begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At the model's own scale, which is about right.
    Contract,
    /// At the best of a coarse grid about it: far from the solution the derivative misleads.
    Grid,
}

/// A head whose output is searched for its scale.
struct Search<'a> {
    evidence: &'a Evidence<'a>,
    values: &'a PackedValues,
    output: &'a Matrix,
}

impl Search<'_> {
    /// The model's output of `rows`, row by row.
    fn output_of(&self, model: &Model, rows: &[RowBuffer]) -> Vec<f64> {
        let keys = self.evidence.keys;
        let mut weights = vec![0.0; rows.len() * keys];
        let mut logits = vec![0.0; keys];
        for (row, weights) in rows.iter().zip(weights.chunks_mut(keys.max(1))) {
            model.weights(&row.view(&self.evidence.key_norms), &mut logits, weights);
        }
        let mut out = vec![0.0; rows.len() * self.values.width()];
        self.values.multiply(&weights, &mut out, &mut [], &mut ProductWorkspace::new());
        out
    }

    /// The scale by Gauss–Newton on O(c), its error from the residuals.
    fn fit(&self, start: &Model, from: Start, cells: &Cells, rows: &[usize]) -> Option<ScaleFit> {
        let (evidence, width) = (self.evidence, self.values.width());
        if !self.values.is_finite {
            return None;
        }
        let mut prepared = evidence.map_rows(rows, Columns::All, |row, _| {
            mark(row, cells, evidence);
            row.clone()
        });
        let is_finite = |row: &RowBuffer| {
            let mut observed = vec![0.0; width];
            self.output.row(row.view(&evidence.key_norms).query, &mut observed);
            observed.iter().all(|value| value.is_finite())
        };
        prepared.retain(is_finite);
        let mut observed = vec![0.0; prepared.len() * width];
        for (row, observed) in prepared.iter().zip(observed.chunks_mut(width)) {
            self.output.row(row.view(&evidence.key_norms).query, observed);
        }
        let scaled = |scale: f64, model: &Model| self.output_of(&Model { scale, ..model.clone() }, &prepared);
        let squares_at =
            |scale: f64| -> f64 { scaled(scale, start).iter().zip(&observed).map(|(a, b)| (a - b).powi(2)).sum() };
        let mut model = start.clone();
        if from == Start::Grid {
            let grid = (-GRID_STEPS..=GRID_STEPS).map(|step| (step, start.scale * 2f64.powf(f64::from(step) / 2.0)));
            let tried = grid.map(|(step, scale)| (step, scale, squares_at(scale)));
            let (step, scale, _) = tried.min_by(|a, b| a.2.total_cmp(&b.2))?;
            // At the end of the range nothing says that the minimum is there: rows that are saturated, or even, at any scale beyond.
            if step.abs() == GRID_STEPS {
                return None;
            }
            model.scale = scale;
        }
        let (mut squares, mut slope_squares) = (0.0, 0.0f64);
        for _ in 0..20 {
            let small = 1e-5 * model.scale.abs().max(1e-9);
            let here = scaled(model.scale, start);
            let (above, below) = (scaled(model.scale + small, start), scaled(model.scale - small, start));
            let mut product = 0.0;
            (squares, slope_squares) = (0.0, 0.0);
            for (index, observed) in observed.iter().enumerate() {
                let slope = (above[index] - below[index]) / (2.0 * small);
                let residual = observed - here[index];
                product += slope * residual;
                slope_squares += slope * slope;
                squares += residual * residual;
            }
            if slope_squares <= 0.0 || !slope_squares.is_finite() {
                return None;
            }
            let step = (product / slope_squares).clamp(-model.scale.abs() / 2.0, model.scale.abs() / 2.0);
            model.scale += step;
            if step.abs() <= 1e-12 * model.scale.abs() {
                break;
            }
        }
        let reach = 2f64.powf(f64::from(GRID_STEPS) / 2.0);
        if from == Start::Grid && !(start.scale.abs() / reach..start.scale.abs() * reach).contains(&model.scale.abs()) {
            return None;
        }
        let entries = observed.len();
        let rounding = evidence.precisions.output.unit_roundoff() * self.values.root_mean_square;
        let variance = (squares / entries.saturating_sub(1).max(1) as f64).max(rounding * rounding);
        Some(ScaleFit {
            scale: model.scale,
            standard_error: (variance / slope_squares).sqrt(),
            systematic: evidence.precisions.logits + 16.0 * evidence.precisions.arithmetic,
            bias: None,
            alibi: None,
            chi_square: 1.0,
            entries,
            rows: prepared.len(),
        })
    }
}
