use super::*;
use crate::attention::MaskRule;
use crate::attention::reference::scaled_dot_product_attention;
use crate::theory::cost::{Decoding, HeadShape, Layer, cells, fully_connected};
use nalgebra::DMatrix;

/// n, m, d_k, d_v.
const SIZES: [(usize, usize, usize, usize); 3] = [(7, 11, 3, 5), (13, 5, 2, 7), (1, 17, 11, 3)];

fn dense(rows: &Rows<f64>) -> DMatrix<f64> {
    DMatrix::from_fn(rows.len(), rows.first().map_or(0, Vec::len), |row, column| rows[row][column])
}

#[test]
fn what_is_counted_is_attention() {
    for (n, m, d_k, d_v) in SIZES {
        for rule in ["causal", "causal@bottom-right", "window:3@bottom-right"] {
            let mask = rule.parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
            let visible = |i: usize, j: usize| mask.is_visible(i, j);
            let (q, k, v) = (matrix::<f64>(n, d_k), matrix(m, d_k), matrix(m, d_v));
            let cells = DMatrix::from_fn(n, m, visible);
            let expected = scaled_dot_product_attention(&dense(&q), &dense(&k), &dense(&v), 0.5, Some(&cells)).output;
            let staged = dense(&pv(&scale_softmax(&qk(&q, &k, &visible), 0.5), &v));
            let streamed = dense(&streaming((&q, &k, &v), 0.5, 3, &visible));
            for found in [staged, streamed] {
                // Entries below 1 in size, at most 17 terms: a few hundred roundings of 1.1e-16.
                assert!(found.iter().zip(expected.iter()).all(|(a, b)| (a - b).abs() < 1e-13), "{rule} {n} {m}");
            }
        }
    }
}

#[test]
fn every_stage_takes_what_the_formula_says_for_every_kind_of_mask() {
    for (n, m, d_k, d_v) in SIZES {
        let (queries, keys) = (n as u128, m as u128);
        let shift = keys as i128 - queries as i128;
        let rules = [
            ("causal", cells::causal(queries, keys, 0)),
            ("causal@bottom-right", cells::causal(queries, keys, shift)),
            ("window:3", cells::window(queries, keys, 0, 3)),
            ("window:2@bottom-right", cells::window(queries, keys, shift, 2)),
            ("prefix:4", cells::prefix(queries, keys, 0, 4)),
            ("padding:5", cells::full(queries, 5)),
            ("window:18446744073709551615+padding:5", cells::causal(queries, 5, 0)),
            ("padding:0", Ok(0)),
        ];
        for (rule, visible) in rules {
            let mask = rule.parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
            let sees = |i: usize, j: usize| mask.is_visible(i, j);
            let visible = visible.expect("fits");
            let shape = HeadShape { heads: 1, d_k: d_k as u128, d_v: d_v as u128 };
            let cost = shape.cost(visible).expect("fits");
            let (q, k, v) = (matrix::<Counted>(n, d_k), matrix(m, d_k), matrix(m, d_v));
            let (mut logits, mut weights) = (Vec::new(), Vec::new());
            assert_eq!(operations_of(|| logits = qk(&q, &k, &sees)), cost.qk, "{rule} {n} {m}");
            assert_eq!(
                operations_of(|| weights = scale_softmax(&logits, Counted::of(0.5))),
                cost.scale_softmax,
                "{rule}"
            );
            assert_eq!(operations_of(|| drop(pv(&weights, &v))), cost.pv, "{rule} {n} {m}");
            // The streaming form, in blocks of 3 keys: block by block from the cells.
            let meets = |i: usize, first: usize| (first..m.min(first + 3)).any(|j| sees(i, j));
            let blocks = (0..n).map(|i| (0..m).step_by(3).filter(|&first| meets(i, first)).count()).sum::<usize>();
            let rows = n - mask.fully_masked_rows();
            let counted = operations_of(|| drop(streaming((&q, &k, &v), Counted::of(0.5), 3, &sees)));
            assert_eq!(Ok(counted), shape.streaming(visible, blocks as u128, rows as u128), "{rule} {n} {m}");
        }
    }
}

/// Multi-head attention with grouped keys and values and its layer: 7 queries, 11 keys, D = 13, 6 heads on 2, d_k = 5, d_v = 3, d_ff = 17.
const LAYER: Layer = Layer { queries: 7, keys: 11, d_model: 13, heads: 6, kv_heads: 2, d_k: 5, d_v: 3, d_ff: 17 };

#[test]
fn every_part_of_a_layer_takes_what_the_formula_says() {
    let size = |value: u128| value as usize;
    let (n, m, d, f) = (size(LAYER.queries), size(LAYER.keys), size(LAYER.d_model), size(LAYER.d_ff));
    let (heads, groups, d_k, d_v) = (size(LAYER.heads), size(LAYER.kv_heads), size(LAYER.d_k), size(LAYER.d_v));
    let mask = "causal@bottom-right".parse::<MaskRule>().and_then(|rule| rule.at(n, m)).expect("fits");
    let sees = |i: usize, j: usize| mask.is_visible(i, j);
    let cost = LAYER.cost(cells::causal(7, 11, 4).expect("fits")).expect("fits");

    let (tokens, sources) = (matrix::<Counted>(n, d), matrix::<Counted>(m, d));
    let (mut q, mut k, mut v) = (Vec::new(), Vec::new(), Vec::new());
    let mut projections = operations_of(|| {
        q = (0..heads).map(|_| linear(&tokens, &matrix(d, d_k))).collect();
        k = (0..groups).map(|_| linear(&sources, &matrix(d, d_k))).collect();
        v = (0..groups).map(|_| linear(&sources, &matrix(d, d_v))).collect();
    });
    let mut outputs: Vec<Rows<Counted>> = Vec::new();
    let attention = operations_of(|| {
        for (head, queries) in q.iter().enumerate() {
            let group = head * groups / heads;
            outputs.push(pv(&scale_softmax(&qk(queries, &k[group], &sees), Counted::of(0.4)), &v[group]));
        }
    });
    assert_eq!(Ok(attention), cost.attention.total());
    let joined: Rows<Counted> =
        (0..n).map(|row| outputs.iter().flat_map(|head| head[row].iter().copied()).collect()).collect();
    let mut mixed = Vec::new();
    projections += operations_of(|| mixed = linear(&joined, &matrix(heads * d_v, d)));
    assert_eq!(projections, cost.projections);

    let (gain, bias) = (vec![Counted::of(1.5); d], vec![Counted::of(0.5); d]);
    let (mut summed, mut normed, mut wide, mut activated, mut narrow) = Default::default();
    let mut sums = operations_of(|| summed = residual(&mixed, &tokens));
    let mut norms = operations_of(|| normed = layer_norm(&summed, &gain, &bias));
    let mut products = operations_of(|| wide = linear(&normed, &matrix(d, f)));
    let activation = operations_of(|| activated = rectified(&wide));
    products += operations_of(|| narrow = linear(&activated, &matrix(f, d)));
    sums += operations_of(|| summed = residual(&narrow, &normed));
    norms += operations_of(|| normed = layer_norm(&summed, &gain, &bias));
    assert_eq!((products, activation), (cost.mlp, cost.activation));
    assert_eq!((norms, sums), (cost.layer_norm, cost.residual));
    assert_eq!(Ok(projections + attention + products + activation + norms + sums), cost.total());

    let flat = |rows: usize| matrix::<Counted>(1, rows * d);
    let connected = operations_of(|| drop(linear(&flat(m), &matrix(m * d, n * d))));
    assert_eq!(Ok(connected), fully_connected(7, 11, 13));
}

#[test]
fn a_layer_norm_has_mean_0_and_variance_1_before_gain_and_bias() {
    let normed = layer_norm(&matrix::<f64>(3, 11), &[1.0; 11], &[0.0; 11]);
    for row in normed {
        let mean = row.iter().sum::<f64>() / 11.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 11.0;
        // ε = 1e-5 takes about that much from the variance.
        assert!(mean.abs() < 1e-14 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
    }
}

#[test]
fn a_generated_token_takes_what_the_formula_says_with_and_without_a_cache() {
    let decoding = Decoding { layer: LAYER };
    let cost = decoding.token(11).expect("fits");
    let (k, v) = (matrix::<Counted>(11, 5), matrix::<Counted>(11, 3));
    let of = |queries: usize, sees: &dyn Fn(usize, usize) -> bool| {
        let q = matrix::<Counted>(queries, 5);
        // Six heads: six times the same.
        6 * operations_of(|| drop(pv(&scale_softmax(&qk(&q, &k, sees), Counted::of(0.4)), &v)))
    };
    assert_eq!(Ok(of(1, &|_, _| true)), cost.cached.total());
    assert_eq!(Ok(of(11, &|i, j| j <= i)), cost.recomputed.total());
}
