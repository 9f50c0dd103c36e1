//! A name for a fitted scale: simple expressions of every dimension in sight that lie within its error.

use super::finding::significant;

/// The sizes in sight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// Width of queries and keys.
    pub width: usize,
    /// Width of values, if there are any.
    pub value_width: Option<usize>,
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub key_heads: usize,
    /// Queries.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
    /// Width of the model, if declared.
    pub model_width: Option<f64>,
    /// Layer number, if declared.
    pub layer: Option<f64>,
}

/// What a scale seems to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// An expression, e.g. `1/sqrt(512)`.
    pub text: String,
    /// Its value.
    pub value: f64,
    /// What it means, e.g. `unscaled`.
    pub meaning: Meaning,
}

/// What the user may have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The expected scale.
    Expected,
    /// 1/√d where another scale is expected.
    Standard,
    /// 1.
    Unscaled,
    /// 1/d.
    InverseWidth,
    /// 1/√(heads·d).
    InverseSqrtModelWidth,
    /// The expected scale with the other sign.
    Negated,
    /// The expected scale twice.
    Twice,
    /// √d or d: multiplied instead of divided.
    Multiplied,
    /// 1/√ of some other size.
    OtherSize,
    /// The expected scale times ln 2 or log2 e.
    OtherBase,
    /// The expected scale times or divided by a small whole number.
    Ratio,
    /// 1/√k for a whole number k.
    OtherWidth,
    /// Nothing simple.
    None,
}

/// Every name within `error` of `scale`, the likeliest first; never empty.
pub fn names(scale: f64, error: f64, expected: f64, expected_text: &str, sizes: &Sizes) -> Vec<Name> {
    let d = sizes.width as f64;
    let mut candidates: Vec<Name> = Vec::new();
    let mut offer = |text: String, value: f64, meaning: Meaning| candidates.push(Name { text, value, meaning });
    offer(expected_text.to_string(), expected, Meaning::Expected);
    offer(format!("1/sqrt({d})"), 1.0 / d.sqrt(), Meaning::Standard);
    offer("1".to_string(), 1.0, Meaning::Unscaled);
    offer(format!("1/{d}"), 1.0 / d, Meaning::InverseWidth);
    if sizes.heads > 1 {
        let model = d * sizes.heads as f64;
        offer(format!("1/sqrt({model})"), 1.0 / model.sqrt(), Meaning::InverseSqrtModelWidth);
    }
    if let Some(layer) = sizes.layer {
        // Declared, so likelier than a whole number that happens to give the same.
        let divisor = layer + 1.0;
        offer(format!("({expected_text}) / {divisor} = layer + 1"), expected / divisor, Meaning::Ratio);
    }
    if let Some(model) = sizes.model_width {
        offer(format!("1/sqrt({model})"), 1.0 / model.sqrt(), Meaning::InverseSqrtModelWidth);
        let share = model / sizes.heads as f64;
        offer(format!("1/sqrt({share})"), 1.0 / share.sqrt(), Meaning::OtherSize);
    }
    offer(format!("-{expected_text}"), -expected, Meaning::Negated);
    offer(format!("({expected_text}) twice"), expected * expected, Meaning::Twice);
    offer(format!("sqrt({d})"), d.sqrt(), Meaning::Multiplied);
    offer(format!("{d}"), d, Meaning::Multiplied);
    offer(format!("({expected_text}) * ln 2"), expected * std::f64::consts::LN_2, Meaning::OtherBase);
    offer(format!("({expected_text}) * log2(e)"), expected * std::f64::consts::LOG2_E, Meaning::OtherBase);
    let others =
        [(sizes.value_width, "d_v"), (Some(sizes.heads), "heads"), (Some(sizes.queries), "n"), (Some(sizes.keys), "m")];
    for (size, name) in others {
        let Some(size) = size.filter(|&size| size > 1 && size != sizes.width) else { continue };
        offer(format!("1/sqrt({size}), {size} = {name}"), 1.0 / (size as f64).sqrt(), Meaning::OtherSize);
    }
    offer("1/d^(1/4)".to_string(), d.powf(-0.25), Meaning::OtherSize);
    // 1/√k for the one whole number k nearest, if the error tells it from its neighbours.
    let k = (1.0 / (scale * scale)).round();
    if scale > 0.0 && (2.0..1e6).contains(&k) && error < scale / (4.0 * k) {
        offer(format!("1/sqrt({k})"), 1.0 / k.sqrt(), Meaning::OtherWidth);
    }
    for ratio in 2..=64 {
        offer(format!("({expected_text}) / {ratio}"), expected / f64::from(ratio), Meaning::Ratio);
        offer(format!("({expected_text}) * {ratio}"), expected * f64::from(ratio), Meaning::Ratio);
    }
    let mut seen: Vec<f64> = Vec::new();
    let mut found: Vec<Name> = Vec::new();
    for name in candidates {
        let is_new = !seen.iter().any(|&value| (value - name.value).abs() <= 1e-12 * value.abs());
        if (name.value - scale).abs() <= error && is_new {
            seen.push(name.value);
            found.push(name);
        }
    }
    if found.is_empty() {
        let mut text = "no simple expression of the sizes".to_string();
        if scale > error && scale < 0.8 {
            let of = |scale: f64| significant(1.0 / (scale * scale), 4);
            text.push_str(&format!(" (1/sqrt of a number from {} to {})", of(scale + error), of(scale - error)));
        }
        found.push(Name { text, value: scale, meaning: Meaning::None });
    }
    found
}

/// `0.044194 ± 2.1e-5`: the value to the second digit of its error.
pub fn with_error(value: f64, error: f64) -> String {
    let digits = if error > 0.0 && value != 0.0 {
        ((value.abs().log10().floor() - error.log10().floor()) as i64 + 2).clamp(3, 9) as usize
    } else {
        6
    };
    format!("{} ± {}", significant(value, digits), significant(error, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        width: 64,
        value_width: Some(64),
        heads: 8,
        key_heads: 8,
        queries: 31,
        keys: 37,
        model_width: None,
        layer: Some(5.0),
    };

    fn first(scale: f64, error: f64) -> (String, Meaning) {
        let name = names(scale, error, 0.125, "1/sqrt(64)", &SIZES).remove(0);
        (name.text, name.meaning)
    }

    #[test]
    fn faulty_scales_of_the_field_reports_have_their_names() {
        // SC-01, SC-03, SC-05, SC-07 (1/√40), SC-10 (ratio 6 = layer + 1), and a multiplication.
        for (scale, text, meaning) in [
            (0.125, "1/sqrt(64)", Meaning::Expected),
            (0.0441942, "1/sqrt(512)", Meaning::InverseSqrtModelWidth),
            (1.0, "1", Meaning::Unscaled),
            (0.015625, "1/64", Meaning::InverseWidth),
            (0.1581139, "1/sqrt(40)", Meaning::OtherWidth),
            (0.125 / 6.0, "(1/sqrt(64)) / 6 = layer + 1", Meaning::Ratio),
            (8.0, "sqrt(64)", Meaning::Multiplied),
            (0.0866434, "(1/sqrt(64)) * ln 2", Meaning::OtherBase),
            (0.1643990, "1/sqrt(37), 37 = m", Meaning::OtherSize),
            (0.1147, "no simple expression of the sizes (1/sqrt of a number from 76.01 to 76.01)", Meaning::None),
        ] {
            assert_eq!(first(scale, 1e-6), (text.to_string(), meaning), "{scale}");
        }
    }

    #[test]
    fn a_vague_scale_has_every_name_within_its_error_and_no_whole_number_invented() {
        let found = names(0.1245, 0.001, 0.125, "1/sqrt(64)", &SIZES);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(first(0.137, 0.002).1, Meaning::None);
    }

    #[test]
    fn a_value_is_shown_with_the_digits_its_error_allows() {
        assert_eq!(with_error(0.0441942, 0.0000213), "0.044194 ± 2.1e-5");
        assert_eq!(with_error(0.125, 0.0), "0.125000 ± 0");
    }
}
