//! Numbers as text: exact for programs, rounded for people.

/// The shortest decimal text that reads back to exactly this number, bit for bit.
///
/// Magnitudes from 1e-5 up to 1e16 (and zero) are written in plain digits, others with an exponent (`1e-300`), so that no field
/// holds hundreds of zeros. Returns `None` for NaN and infinities: they are not numbers a file may hold.
pub fn exact(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-5..1e16).contains(&magnitude) {
        Some(format!("{value}"))
    } else {
        Some(format!("{value:e}"))
    }
}

/// The text of [`exact`], or the empty text where there is no finite number.
pub fn exact_or_empty(value: Option<f64>) -> String {
    value.and_then(exact).unwrap_or_default()
}

/// `value` when it is a finite number, otherwise missing.
pub fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|number| number.is_finite())
}

/// `value` with `digits` significant digits (at least 1), trailing zeros kept, exponent form outside 1e-4 … 1e7.
pub fn significant(value: f64, digits: usize) -> String {
    let last = digits.max(1) - 1;
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Rounding can carry into the next power of ten (9.99 → 10): take the exponent from the rounded text.
    let rounded = format!("{value:.last$e}");
    let exponent = exponent_of(&rounded);
    if (-4..7).contains(&exponent) { format!("{value:.*}", decimals_for(exponent, last)) } else { rounded }
}

/// Digits after the point that show a number of this power of ten with `last` digits after its first.
fn decimals_for(exponent: i32, last: usize) -> usize {
    usize::try_from(last as i32 - exponent).unwrap_or(0)
}

/// The power of ten in a text such as `9.1e-3`.
fn exponent_of(text: &str) -> i32 {
    text.rsplit('e').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Digits after the point that an error of this size justifies: its own first two significant digits.
pub fn justified_decimals(error: f64) -> usize {
    if !(error.is_finite() && error != 0.0) {
        return 0;
    }
    decimals_for(exponent_of(&format!("{error:.1e}")), 1)
}

/// An estimate and its 95 % limits for people: `64.013 ± 0.041`, or `0.21 [0.11, 0.51]` where the limits are plainly
/// not symmetric (half-widths that differ by more than 15 %).
///
/// Digits: as many as the first two of the half-width (1.96 standard errors) justify. Very small or large values share one exponent:
/// `(1.20 ± 0.31)e-9`. Without limits the estimate is shown with six significant digits.
pub fn with_interval(estimate: f64, low: Option<f64>, high: Option<f64>) -> String {
    let (Some(low), Some(high)) = (finite(low), finite(high)) else {
        return trimmed(&significant(estimate, 6));
    };
    let (below, above) = (estimate - low, high - estimate);
    let width = 0.5 * (high - low);
    if !(width > 0.0 && estimate.is_finite()) {
        return trimmed(&significant(estimate, 6));
    }
    let largest = estimate.abs().max(width);
    let exponent = exponent_of(&format!("{largest:.0e}"));
    if !(-4..7).contains(&exponent) {
        let unit = 10f64.powi(exponent);
        let inner = interval_text(estimate / unit, below / unit, above / unit, width / unit);
        return format!("({inner})e{exponent}");
    }
    interval_text(estimate, below, above, width)
}

fn interval_text(estimate: f64, below: f64, above: f64, width: f64) -> String {
    // An error far below the shown magnitude (a count that came out the same every time) must not print 300 digits.
    let decimals = justified_decimals(width).min(9);
    let text = |value: f64| signed_zero_free(format!("{value:.decimals$}"));
    let (low, high) = (estimate - below.max(0.0), estimate + above.max(0.0));
    let estimate = text(estimate);
    if (above - below).abs() <= 0.15 * width.max(f64::MIN_POSITIVE) * 2.0 {
        format!("{estimate} ± {width:.decimals$}")
    } else {
        format!("{estimate} [{}, {}]", text(low), text(high))
    }
}

/// `-0.00` reads as a slip: a value that rounds to zero has no sign.
pub fn signed_zero_free(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// Removes zeros at the end of a decimal fraction, and the point if nothing follows it: `3.0930` → `3.093`.
pub fn trimmed(text: &str) -> String {
    let (digits, exponent) = text.find('e').map_or((text, ""), |at| text.split_at(at));
    if !digits.contains('.') {
        return text.to_owned();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{exponent}")
}

/// A relative number in per cent with two significant digits: 0.0072 → `0.72 %`.
pub fn percent(value: f64) -> String {
    let scaled = 100.0 * value;
    if scaled.abs() >= 100.0 && scaled.abs() < 1e7 {
        return format!("{scaled:.0} %");
    }
    format!("{} %", significant(scaled, 2))
}

/// [`percent`] with a sign in front, zero excepted: `+0.31 %`, `-1.2 %`.
pub fn signed_percent(value: f64) -> String {
    let text = percent(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

/// A p-value for people: two significant digits from 0.001 upwards, one below (`3e-7`); 0 is an underflow and is shown as `<1e-300`.
pub fn probability(value: f64) -> String {
    if value == 0.0 {
        "<1e-300".to_owned()
    } else if value >= 0.001 {
        significant(value, 2)
    } else {
        format!("{value:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_text_is_short_and_uses_an_exponent_only_for_extreme_magnitudes() {
        // Shortest decimals that round to the same double: IEEE 754 facts (0.1 + 0.2 is 0.30000000000000004, the least positive double 5e-324).
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-300, "1e-300"),
            (5e-324, "5e-324"),
            (-1.5e-7, "-1.5e-7"),
            (0.00001, "0.00001"),
            (9.9e-6, "9.9e-6"),
            (262_144.0, "262144"),
            (1e16, "1e16"),
            (f64::MAX, "1.7976931348623157e308"),
        ];
        for (value, text) in cases {
            assert_eq!(exact(value).as_deref(), Some(text));
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(exact(value), None);
            assert_eq!(exact_or_empty(Some(value)), "");
        }
    }

    proptest! {
        #[test]
        fn exact_text_reads_back_bit_for_bit_and_stays_short(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if let Some(text) = exact(value) {
                prop_assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(bits));
                // 17 digits, sign, point, five leading zeros or an exponent of five characters.
                prop_assert!(text.len() <= 25, "{}", text);
            } else {
                prop_assert!(!value.is_finite());
            }
        }
    }

    #[test]
    fn significant_digits_carry_and_switch_form_at_the_stated_magnitudes() {
        let cases = [
            (9.996, 3, "10.0"),
            (0.000_123_4, 2, "0.00012"),
            (0.000_012_34, 2, "1.2e-5"),
            (1_234_567.8, 3, "1234568"),
            (12_345_678.0, 3, "1.23e7"),
            (-0.5, 1, "-0.5"),
            (0.0, 5, "0"),
        ];
        for (value, digits, text) in cases {
            assert_eq!(significant(value, digits), text);
        }
    }

    #[test]
    fn an_interval_is_rounded_to_two_digits_of_its_half_width() {
        let cases = [
            (63.8976, 63.7471, 64.0481, "63.90 ± 0.15"),
            (1.0, 0.99, 1.01, "1.000 ± 0.010"),
            (262_144.0, 261_000.0, 263_288.0, "262144 ± 1144"),
            (1.24e-9, 1.1e-9, 1.38e-9, "(1.24 ± 0.14)e-9"),
            (-0.000_001, -0.003, 0.002_998, "0.0000 ± 0.0030"),
            (0.5, 0.4, 0.8, "0.50 [0.40, 0.80]"),
        ];
        for (estimate, low, high, text) in cases {
            assert_eq!(with_interval(estimate, Some(low), Some(high)), text);
        }
    }

    #[test]
    fn an_estimate_without_a_usable_interval_stands_alone() {
        assert_eq!(with_interval(0.125, None, Some(1.0)), "0.125");
        assert_eq!(with_interval(17.0, Some(17.0), Some(17.0)), "17");
        assert_eq!(with_interval(17.0, Some(f64::NAN), Some(18.0)), "17");
    }

    #[test]
    fn per_cents_and_probabilities_have_two_digits() {
        assert_eq!(percent(0.0072), "0.72 %");
        assert_eq!(percent(60.02), "6002 %");
        assert_eq!(signed_percent(0.000_18), "+0.018 %");
        assert_eq!(signed_percent(-0.016), "-1.6 %");
        assert_eq!(signed_percent(0.0), "0 %");
        assert_eq!(probability(0.2), "0.20");
        assert_eq!(probability(0.001_23), "0.0012");
        assert_eq!(probability(3.2e-7), "3e-7");
        assert_eq!(probability(0.0), "<1e-300");
        assert_eq!(probability(1.0), "1.0");
    }

    #[test]
    fn zeros_at_the_end_go_and_others_stay() {
        for (text, short) in [("3.0930", "3.093"), ("100", "100"), ("1.000", "1"), ("1.50e-5", "1.5e-5"), ("0", "0")] {
            assert_eq!(trimmed(text), short);
        }
        assert_eq!(signed_zero_free("-0.00".into()), "0.00");
        assert_eq!(signed_zero_free("-0.01".into()), "-0.01");
    }
}
