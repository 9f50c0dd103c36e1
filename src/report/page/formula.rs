//! Formulas as MathML, which browsers set without script or font.

use pulldown_latex::{Parser, RenderConfig, Storage, push_mathml};

/// A formula written in LaTeX as MathML in the size of a display; the LaTeX itself where it cannot be read, as text.
pub fn display(latex: &str) -> String {
    let storage = Storage::new();
    let mut markup = String::new();
    let rendered = push_mathml(&mut markup, Parser::new(latex, &storage), RenderConfig::default());
    if rendered.is_err() || markup.contains("<merror") {
        return format!("<code>{}</code>", super::markup::escaped(latex));
    }
    // The renderer leaves two operators as they are, which is no XML, and escapes the spaces of texts twice.
    let whole = [
        ("<mo><</mo>", "<mo>&lt;</mo>"),
        ("<mo>></mo>", "<mo>&gt;</mo>"),
        ("&amp;nbsp;", "\u{a0}"),
        ("&nbsp;", "\u{a0}"),
    ];
    let markup = whole.iter().fold(markup, |markup, (from, to)| markup.replace(from, to));
    // A block of its own would stand in the middle of the line.
    markup.replacen("<math display=\"inline\">", "<math displaystyle=\"true\">", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_well_formed_mathml() {
        // MathML 3 (W3C 2014), sections 3.4.1 and 3.3.2: a subscript and a fraction.
        let markup = display(r"\frac{S_i}{d} < 1 \quad \text{for all } i");
        for part in [
            "<math displaystyle=\"true\">",
            "<mfrac>",
            "<msub><mi>S</mi><mi>i</mi></msub>",
            "<mo>&lt;</mo>",
            "<mtext>for",
            "</math>",
        ] {
            assert!(markup.contains(part), "{part} in {markup}");
        }
        assert!(!markup.contains("nbsp"), "{markup}");
    }

    #[test]
    fn what_is_no_formula_is_text() {
        assert_eq!(display(r"\frac<"), r"<code>\frac&lt;</code>");
    }
}
