use super::*;
use crate::diagnosis::contract::Declared;
use crate::diagnosis::matrix::Numbers;
use crate::diagnosis::model::{Cap, Hidden, MaskUse, apply};
use crate::diagnosis::survey::survey;

const QUERIES: usize = 2 * BLOCK + 5;
const KEYS: usize = 43;
const WIDTH: usize = 13;

/// Weyl's sequence about 0.
fn numbers(count: usize, start: f64) -> Vec<f64> {
    (0..count).map(|index| 4.0 * (start + index as f64 * 0.754_877_666_246_692_7).fract() - 2.0).collect()
}

fn matrix(rows: usize, columns: usize, start: f64) -> Matrix {
    Matrix::new(rows, columns, Storage::F64, Numbers::F64(numbers(rows * columns, start)))
}

fn head() -> Head {
    let mut weights = numbers(QUERIES * KEYS, 0.3);
    weights.iter_mut().for_each(|weight| *weight = weight.abs() / (2 * KEYS) as f64);
    Head {
        batch: 0,
        head: 0,
        queries: matrix(QUERIES, WIDTH, 0.1),
        keys: matrix(KEYS, WIDTH, 0.2),
        values: None,
        weights: Some(Matrix::new(QUERIES, KEYS, Storage::F64, Numbers::F64(weights))),
        output: None,
        logits: None,
        mask: None,
        padding: None,
        bias: Some(matrix(QUERIES, KEYS, 0.4)),
        log_sum_exp: None,
        queries_before_rotation: None,
        keys_before_rotation: None,
    }
}

fn contract(window: Option<usize>) -> Contract {
    Contract { causal: Some(Declared::Yes(Alignment::TopLeft)), window, ..Contract::default() }
}

/// The misfit of one cell by its definition, in plain loops over the whole row: weights of the model, and the bound that
/// `noise_factors` and `compare_row` state in words.
fn row_by_definition(evidence: &Evidence<'_>, model: &Model, query: usize) -> Misfit {
    let head = evidence.head;
    let at = |matrix: &Matrix, row: usize, column: usize| matrix.at(row, column);
    let visible = |key: usize| evidence.visible.is_visible(query, key);
    // Rows without keys are judged by another check.
    if !(0..KEYS).any(visible) {
        return Misfit::NONE;
    }
    let norm = |matrix: &Matrix, row: usize| (0..WIDTH).map(|h| at(matrix, row, h).powi(2)).sum::<f64>().sqrt();
    let logit = |key: usize| {
        let raw: f64 = (0..WIDTH).map(|h| at(&head.queries, query, h) * at(&head.keys, key, h)).sum();
        let bias = head.bias.as_ref().map_or(0.0, |bias| model.bias * bias.at(query, key));
        apply(model.cap, model.scale, raw) + bias
            - model.alibi * ((query as i64 + evidence.offset - key as i64) as f64).abs()
    };
    let shown = |key: usize| match model.mask {
        MaskUse::Ignored => true,
        MaskUse::Inverted => !visible(key),
        _ => visible(key),
    };
    let logits: Vec<f64> = (0..KEYS)
        .map(|key| match model.hidden {
            _ if shown(key) => logit(key),
            Hidden::Excluded => f64::NEG_INFINITY,
            Hidden::Multiplied => 0.0,
            Hidden::Replaced(fill) => fill,
            Hidden::Added(fill) => logit(key) + fill,
            Hidden::ZeroedAfter | Hidden::AddedAfter(_) => logit(key),
        })
        .collect();
    let total: f64 = logits.iter().map(|l| l.exp()).sum::<f64>() + model.sink.map_or(0.0, f64::exp);
    let weights: Vec<f64> = (0..KEYS)
        .map(|key| match model.hidden {
            Hidden::ZeroedAfter if !shown(key) => 0.0,
            _ => model.factor * logits[key].exp() / total,
        })
        .collect();
    let precisions = evidence.precisions;
    let per_product = 2.0 * precisions.logits + 4.0 * (WIDTH as f64).sqrt() * precisions.arithmetic;
    let per_logit = 2.0 * precisions.logits + 4.0 * precisions.arithmetic;
    let noise: Vec<f64> = (0..KEYS)
        .map(|key| {
            let size = if logits[key].is_finite() { logits[key].abs() } else { 0.0 };
            let product = model.scale.abs() * norm(&head.queries, query) * norm(&head.keys, key);
            product * per_product + per_logit * size
        })
        .collect();
    let shared: f64 = weights.iter().zip(&noise).map(|(weight, noise)| weight * noise).sum();
    let rounding =
        4.0 * precisions.weights.unit_roundoff() + (8.0 + 4.0 * (KEYS as f64).sqrt()) * precisions.arithmetic;
    let mut misfit = Misfit::NONE;
    for key in 0..KEYS {
        let bound = weights[key] * ((noise[key] + shared).exp_m1() + rounding) + 2.0 * precisions.floor;
        let observed = head.weights.as_ref().map_or(0.0, |observed| observed.at(query, key));
        misfit.add(observed, weights[key], bound, (query, key));
    }
    misfit
}

#[test]
fn blocks_of_rows_give_what_the_definition_gives_cell_by_cell() {
    let head = head();
    let plain = Model {
        scale: 0.25,
        cap: None,
        bias: 0.0,
        alibi: 0.0,
        sink: None,
        hidden: Hidden::Excluded,
        mask: MaskUse::Contract,
        factor: 1.0,
    };
    let of = |hidden: Hidden| Model { hidden, ..plain.clone() };
    let models = [
        plain.clone(),
        Model { cap: Some(Cap::Tanh(2.0)), bias: 0.5, alibi: 0.01, ..plain.clone() },
        Model { sink: Some(0.5), factor: 1.25, ..plain.clone() },
        Model { mask: MaskUse::Ignored, ..plain.clone() },
        Model { mask: MaskUse::Inverted, hidden: Hidden::Added(-3.0), ..plain.clone() },
        of(Hidden::Multiplied),
        of(Hidden::Replaced(-1.0)),
        of(Hidden::Added(-2.0)),
        of(Hidden::ZeroedAfter),
    ];
    for contract in [contract(None), contract(Some(7)), Contract::default()] {
        let mut evidence = Evidence::new(&head, &contract, MOST_CELLS);
        // Weights this far off make any bound of f64 a ratio of 1e13, in which rounding shows; a half type's is moderate.
        evidence.precisions.logits = Storage::Bf16.unit_roundoff();
        evidence.precisions.weights = Storage::Bf16;
        evidence.precisions.floor = 1e-3;
        for model in &models {
            let whole = evidence.compare(model);
            let expected: Vec<Misfit> = (0..QUERIES).map(|query| row_by_definition(&evidence, model, query)).collect();
            let expected = expected.into_iter().fold(Misfit::NONE, Misfit::merge);
            assert_eq!(whole.cell, expected.cell, "{model:?}");
            for (a, b) in [
                (whole.ratio, expected.ratio),
                (whole.largest, expected.largest),
                (whole.squares, expected.squares),
                (whole.predicted, expected.predicted),
            ] {
                assert!((a - b).abs() <= 1e-11 * b.abs(), "{model:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn one_row_alone_is_the_same_row_in_its_block() {
    let head = head();
    let contract = contract(Some(11));
    let evidence = Evidence::new(&head, &contract, MOST_CELLS);
    let rows = evidence.map_rows(&evidence.every_row(), Columns::All, |row, _| row.clone());
    for (query, row) in rows.iter().enumerate() {
        let alone = evidence.row(query);
        assert_eq!((alone.query, &alone.raw, &alone.weights), (row.query, &row.raw, &row.weights));
        assert_eq!((&alone.visible, alone.span, &alone.bias), (&row.visible, row.span, &row.bias));
        let seen: Vec<usize> = (0..KEYS).filter(|&key| key <= query && key + 11 > query).collect();
        assert_eq!((0..KEYS).filter(|&key| row.visible[key]).collect::<Vec<_>>(), seen);
    }
}

#[test]
fn samples_hold_the_first_and_the_last_row_and_those_taken_in() {
    let head = head();
    let mut evidence = Evidence::new(&head, &Contract::default(), 5 * KEYS);
    let last = QUERIES - 1;
    assert_eq!(evidence.sample(), [0, last / 4, last / 2, 3 * last / 4, last]);
    evidence.add_to_sample([7, last, 7]);
    assert_eq!(evidence.sample(), [0, 7, last / 4, last / 2, 3 * last / 4, last]);
    assert_eq!(evidence.sample_in_words().as_deref(), Some("fitted on 6 of 61 rows, spread evenly"));
    assert_eq!(Evidence::new(&head, &Contract::default(), MOST_CELLS).sample_in_words(), None);
}

#[test]
fn a_survey_notes_of_each_row_what_its_definition_says() {
    let head = head();
    let contract = contract(None);
    let evidence = Evidence::new(&head, &contract, MOST_CELLS);
    let model = Model {
        scale: 0.25,
        cap: None,
        bias: 0.0,
        alibi: 0.0,
        sink: None,
        hidden: Hidden::Excluded,
        mask: MaskUse::Contract,
        factor: 1.0,
    };
    let facts = survey(&evidence, &model, &|| {});
    for (query, facts) in facts.iter().enumerate() {
        let row = evidence.row(query);
        let sum: f64 = row.weights.iter().sum();
        let entropy: f64 = row.weights.iter().filter(|weight| **weight > 0.0).map(|weight| -weight * weight.ln()).sum();
        let seen = &row.raw[..KEYS.min(query + 1)];
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        let weights = facts.weights.expect("a row with keys");
        assert!((facts.sum - sum).abs() < 1e-14 && (weights.entropy - entropy).abs() < 1e-13, "{query}");
        assert!((facts.raw.mean - mean).abs() < 1e-13 && facts.raw.count == seen.len() as f64, "{query}");
        assert_eq!(weights.first, row.weights[0]);
    }
}
