//! Formulas as MathML, which browsers set without script, font or network.

use pulldown_latex::config::DisplayMode;
use pulldown_latex::{Parser, RenderConfig, Storage, push_mathml};

/// A formula written in LaTeX as a block of MathML; the LaTeX itself where it cannot be read, as text.
pub fn block(latex: &str) -> String {
    let storage = Storage::new();
    let config = RenderConfig { display_mode: DisplayMode::Block, ..RenderConfig::default() };
    let mut markup = String::new();
    match push_mathml(&mut markup, Parser::new(latex, &storage), config) {
        // The renderer leaves these two operators as they are, which is no XML.
        Ok(()) if !markup.contains("<merror") => {
            markup.replace("<mo><</mo>", "<mo>&lt;</mo>").replace("<mo>></mo>", "<mo>&gt;</mo>")
        }
        _ => format!("<code>{}</code>", super::markup::escaped(latex)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_well_formed_mathml() {
        // MathML 3 (W3C 2014), sections 3.4.1 and 3.3.2: a subscript and a fraction.
        let markup = block(r"\frac{S_i}{d} < 1");
        for part in ["<math", "<mfrac>", "<msub><mi>S</mi><mi>i</mi></msub>", "<mo>&lt;</mo>", "</math>"] {
            assert!(markup.contains(part), "{part} in {markup}");
        }
    }

    #[test]
    fn what_is_no_formula_is_text() {
        assert_eq!(block(r"\frac<"), r"<code>\frac&lt;</code>");
    }
}
