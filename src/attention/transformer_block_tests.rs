//! Against PyTorch, outputs and forward-mode derivatives (`scripts/reference/transformer_block.py`), and derivatives against
//! finite differences.

use nalgebra::RowDVector;

use super::*;
use crate::attention::golden::{assert_close, layer, matrices};
use crate::attention::{Alignment, MaskKind, MaskRule};

const GOLDEN: &str = include_str!("../../tests/golden/transformer_block.csv");

/// Entries of size 10 at most, through about ten products of 7 terms and two divisions by a standard deviation of 1: some
/// 200 units of 2⁻⁵³ of 10.
const TOLERANCE: f64 = 200.0 * 1.2e-16 * 10.0;

fn row(name: &str) -> RowDVector<f64> {
    matrices(GOLDEN, "weights")[name].row(0).into_owned()
}

fn matrix(name: &str) -> DMatrix<f64> {
    matrices(GOLDEN, "weights")[name].clone()
}

fn norms() -> NormPair {
    let norm = |index: usize| LayerNorm {
        gain: row(&format!("gain_{index}")),
        shift: row(&format!("shift_{index}")),
        epsilon: 1e-3,
    };
    NormPair { attention: norm(1), mlp: norm(2) }
}

fn block(norm: Norm, residual: Residual) -> TransformerBlock {
    TransformerBlock {
        attention: layer(&matrices(GOLDEN, "weights")),
        mlp: Some(Mlp { first: matrix("w_1"), first_bias: row("b_1"), second: matrix("w_2"), second_bias: row("b_2") }),
        norm,
        residual,
        scale: 1.0 / 3f64.sqrt(),
    }
}

fn cases() -> [(&'static str, TransformerBlock); 5] {
    [
        ("post", block(Norm::Post(norms()), Residual::Added)),
        ("pre", block(Norm::Pre(norms()), Residual::Added)),
        ("bare", block(Norm::None, Residual::Added)),
        ("post_without_residual", block(Norm::Post(norms()), Residual::LeftOut)),
        ("attention_alone", TransformerBlock { mlp: None, ..block(Norm::None, Residual::LeftOut) }),
    ]
}

#[test]
fn outputs_and_derivatives_are_those_of_pytorch() {
    let (tokens, direction) = (matrix("x"), matrix("direction"));
    for (case, block) in cases() {
        let golden = matrices(GOLDEN, case);
        let (pass, change) = block.apply_with_change(&tokens, &direction, None);
        assert_close(&pass.output, &golden["output"], TOLERANCE);
        assert_close(&change, &golden["change"], TOLERANCE);
        assert_eq!(pass, block.apply(&tokens, None), "{case}: the change does not touch the pass");
    }
}

#[test]
fn derivatives_are_the_limit_of_finite_differences_also_under_a_mask() {
    let (tokens, direction) = (matrix("x"), matrix("direction"));
    let causal = MaskRule { kinds: vec![MaskKind::Causal], alignment: Alignment::TopLeft }.at(5, 5).expect("fits");
    // Central differences: off by h²/6 of a third derivative and by 2⁻⁵³/h of values of size 10; no hidden unit of these
    // tokens changes sign within h.
    let step = 1e-5;
    for (case, block) in cases() {
        for mask in [None, Some(&causal)] {
            let (_, change) = block.apply_with_change(&tokens, &direction, mask);
            let at = |sign: f64| block.apply(&(&tokens + &direction * (sign * step)), mask).output;
            let difference = (at(1.0) - at(-1.0)) / (2.0 * step);
            assert!((&change - &difference).amax() < 1e-7, "{case}: {change} for {difference}");
            assert!(change.amax() > 0.1);
        }
    }
}

#[test]
fn the_variances_before_the_last_norm_are_those_of_post_norm_only() {
    let tokens = matrix("x");
    for (case, block) in cases() {
        let pass = block.apply(&tokens, None);
        assert_eq!(pass.variances.is_some(), case.starts_with("post"), "{case}");
        // Undo gain and shift: what is left has variance σ²/(σ² + ε).
        let Some(variances) = pass.variances else { continue };
        for (token, variance) in pass.output.row_iter().zip(variances) {
            let standard = (token - &norms().mlp.shift).component_div(&norms().mlp.gain);
            let square = standard.norm_squared() / 6.0;
            assert!((square - variance / (variance + 1e-3)).abs() < 1e-13, "{case}");
        }
    }
}
