//! Against PyTorch (`scripts/reference/multi_head.py`) and by hand.

use std::collections::BTreeMap;

use nalgebra::dmatrix;

use super::*;
use crate::attention::golden::{assert_close, layer as weights, matrices};
use crate::attention::{MaskKind, MaskRule};

const GOLDEN: &str = include_str!("../../tests/golden/multi_head.csv");

fn golden(case: &str) -> BTreeMap<String, DMatrix<f64>> {
    matrices(GOLDEN, case)
}

/// Sums of at most 20 terms of size 1 in a chain of four products, each result off by a few units of 2⁻⁵³ a term.
const TOLERANCE: f64 = 4.0 * 20.0 * 1.2e-16;

#[test]
fn self_attention_with_biases_is_that_of_pytorch() {
    let case = golden("self");
    let weights = weights(&case);
    assert_eq!((weights.heads(), weights.queries[0].shape()), (2, (6, 3)));
    let attention = multi_head_attention(&weights, &case["x"], &case["x"], 1.0 / 3f64.sqrt(), None);
    assert_close(&attention.output, &case["output"], TOLERANCE);
    for (index, head) in attention.heads.iter().enumerate() {
        assert_close(&head.weights, &case[&format!("p{}", index + 1)], TOLERANCE);
    }
}

#[test]
fn masked_cross_attention_is_that_of_pytorch() {
    let case = golden("cross");
    let weights = weights(&case);
    let cells: Vec<bool> = case["visible"].transpose().iter().map(|&seen| seen == 1.0).collect();
    let mask = Mask::from_cells(5, 7, cells);
    let attention = multi_head_attention(&weights, &case["x"], &case["y"], 1.0 / 2f64.sqrt(), Some(&mask));
    assert_close(&attention.output, &case["output"], TOLERANCE);
    assert_close(&attention.heads[2].weights, &case["p3"], TOLERANCE);
    let unmasked = multi_head_attention(&weights, &case["x"], &case["y"], 1.0 / 2f64.sqrt(), None);
    assert!((unmasked.output - &case["output"]).amax() > 0.01, "the mask plays a part");
}

#[test]
fn grouped_heads_with_wider_values_are_those_of_pytorch() {
    let case = golden("grouped");
    let weights = weights(&case);
    assert_eq!((weights.heads(), weights.key_heads()), (4, 2));
    assert_eq!((weights.queries[0].ncols(), weights.values[0].ncols()), (3, 5));
    let causal = MaskRule { kinds: vec![MaskKind::Causal], alignment: Default::default() };
    let mask = causal.at(7, 7).expect("fits");
    let attention = multi_head_attention(&weights, &case["x"], &case["x"], 1.0 / 3f64.sqrt(), Some(&mask));
    assert_close(&attention.output, &case["output"], TOLERANCE);
}

#[test]
fn the_matrices_are_listed_and_their_entries_counted() {
    let cross = weights(&golden("cross"));
    let shapes = cross.matrices();
    // 3h + 1 with h = 3.
    assert_eq!(shapes.len(), 10);
    assert_eq!(shapes[5], NamedShape { name: "W_k,3".into(), rows: 6, columns: 2 });
    assert_eq!(shapes[9], NamedShape { name: "W_o".into(), rows: 6, columns: 6 });
    // By hand: 9 matrices of 6×2, one of 6×6, and 4·6 biases.
    assert_eq!(cross.parameters(), 9 * 12 + 36 + 24);
    // h + 2h_kv + 1; 4·33 + 2·33 + 2·55 + 20·11.
    let grouped = weights(&golden("grouped"));
    assert_eq!((grouped.matrices().len(), grouped.parameters()), (9, 132 + 66 + 110 + 220));
    // Tied keys are no matrices and no biases of their own: 2h + 1.
    let tied = MultiHeadWeights { keys: KeyProjections::Tied, ..cross };
    assert_eq!((tied.matrices().len(), tied.parameters()), (7, 6 * 12 + 36 + 18));
}

#[test]
fn a_bias_is_a_column_of_ones() {
    let case = golden("cross");
    let weights = weights(&case);
    let explicit = weights.project(&case["x"], &case["y"]);
    let of_ones = weights.with_biases_as_rows().project(&case["x"], &case["y"]);
    for head in 0..3 {
        assert_close(&explicit.queries[head], &of_ones.queries[head], TOLERANCE);
        assert_close(&explicit.keys[head], &of_ones.keys[head], TOLERANCE);
        assert_close(&explicit.values[head], &of_ones.values[head], TOLERANCE);
    }
    let bare = MultiHeadWeights { biases: None, ..weights.clone() };
    assert!((&bare.project(&case["x"], &case["y"]).keys[0] - &explicit.keys[0]).amax() > 0.01);
}

#[test]
fn tied_keys_make_symmetric_logits() {
    let case = golden("self");
    let tied = MultiHeadWeights { keys: KeyProjections::Tied, ..weights(&case) };
    let logits = tied.project(&case["x"], &case["x"]).logits(1, 0.5);
    assert_close(&logits, &logits.transpose(), TOLERANCE);
    let separate = weights(&case).project(&case["x"], &case["x"]).logits(1, 0.5);
    assert!((&separate - separate.transpose()).amax() > 0.1);
}

#[test]
fn heads_share_keys_in_runs() {
    let one = |value: f64| dmatrix![value];
    let weights = MultiHeadWeights {
        queries: vec![one(1.0), one(2.0), one(3.0), one(5.0)],
        keys: KeyProjections::Separate(vec![one(7.0), one(11.0)]),
        values: vec![one(1.0), one(1.0)],
        output: DMatrix::zeros(4, 1),
        biases: None,
    };
    let heads = weights.project(&one(1.0), &one(1.0));
    let logits: Vec<f64> = (0..4).map(|head| heads.logits(head, 1.0)[(0, 0)]).collect();
    assert_eq!(logits, [7.0, 14.0, 33.0, 55.0]);
}

#[test]
#[should_panic(expected = "W_o is h·d_v by d_model")]
fn an_output_projection_of_another_width_is_refused() {
    let weights = weights(&golden("self"));
    let output = weights.output.clone().remove_row(0);
    MultiHeadWeights { output, ..weights }.project(&DMatrix::zeros(5, 6), &DMatrix::zeros(5, 6));
}
