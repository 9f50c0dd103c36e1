//! From one option's text to one value. Each error states the rule; the caller adds option and value.

use rand::TryRng;

use crate::sampling::{Entries, ParseEntriesError};

/// The largest size in one dimension: a row index is 32 bits of a draw's address.
const LARGEST_SIZE: u64 = u32::MAX as u64;
/// More sizes than this in one list is a slip of the keyboard, not a sweep.
const LONGEST_LIST: usize = 10_000;

/// A list `16,64,256` or a doubling range `16..1024` (both ends included), in the order typed, without repeats.
pub fn sizes(text: &str) -> Result<Vec<usize>, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        if part.is_empty() {
            return Err("an empty item in the list; expected for example 64, or 16,64,256, or 16..1024".to_string());
        }
        match part.split_once("..") {
            None => sizes.push(size(part)?),
            Some((low, high)) => {
                let (low, high) = (size(low)?, size(high)?);
                if low > high {
                    return Err(format!("the range runs from {low} down to {high}; write the smaller end first"));
                }
                let mut next = low;
                while next < high {
                    sizes.push(next);
                    next = next.saturating_mul(2);
                }
                sizes.push(high);
            }
        }
    }
    let mut distinct = Vec::with_capacity(sizes.len());
    for size in sizes {
        if !distinct.contains(&size) {
            distinct.push(size);
        }
    }
    if distinct.len() > LONGEST_LIST { Err(format!("at most {LONGEST_LIST} sizes")) } else { Ok(distinct) }
}

/// One size where a list makes no sense.
pub fn one_size(text: &str) -> Result<usize, String> {
    match sizes(text)?.as_slice() {
        [size] => Ok(*size),
        _ => Err("must be one number, not a list".to_string()),
    }
}

/// A time in seconds: `10s`, `2m`, `500ms`, or a number of seconds; above 0, at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let read = |(unit, factor): (&str, f64)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * factor);
    match units.into_iter().find_map(read) {
        Some(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("must be a time above 0 and at most a day, for example 10s, 2m or 500ms".to_string()),
    }
}

/// One size: a whole number ≥ 1.
fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let whole = text.parse::<u64>().ok().or_else(|| count(text, u64::MAX).ok());
    match whole {
        Some(0) => Err("must be at least 1".to_string()),
        Some(value) if value <= LARGEST_SIZE => Ok(value as usize),
        Some(_) => Err(format!("must be at most {LARGEST_SIZE}")),
        None => Err(format!("'{}' is not a whole number; expected for example 64, 16,64,256 or 16..1024", text.trim())),
    }
}

/// A count ≥ 1 that may be written `1e6`.
pub fn count(text: &str, largest: u64) -> Result<u64, String> {
    let value = match text.parse::<u64>() {
        Ok(value) => value as f64,
        Err(_) => text.parse::<f64>().map_err(|_| "must be a whole number, at least 1".to_string())?,
    };
    if value.is_nan() || value < 1.0 || value.fract() != 0.0 {
        return Err("must be a whole number, at least 1".to_string());
    }
    if value > largest as f64 {
        return Err(format!("must be at most {largest}"));
    }
    Ok(value as u64)
}

/// A relative size `1%` or `0.01`, above 0 and below 1.
pub fn relative(text: &str) -> Result<f64, String> {
    let rule = "must be above 0 and below 100 %, for example 1% or 0.01";
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 100.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value / unit < 1.0 => Ok(value / unit),
        _ => Err(rule.to_string()),
    }
}

/// A probability of error: above 0 and below ½ (at ½ a coin would do).
pub fn error_rate(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1e-15..0.5).contains(&value) => Ok(value),
        _ => Err("must be a probability, at least 1e-15 and below 0.5, for example 1e-6".to_string()),
    }
}

/// A finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("must be a finite number".to_string()),
    }
}

/// The law of the entries.
pub fn entries(text: &str) -> Result<Entries, String> {
    let text = text.trim();
    // The caller shows the value: only the rule is wanted here.
    text.parse().map_err(|error: ParseEntriesError| {
        let error = error.to_string();
        match error.strip_prefix(&format!("{text}: ")) {
            Some(rule) => rule.to_string(),
            None => error.replacen(&format!("unknown entries '{text}': "), "", 1),
        }
    })
}

/// A seed: a whole number below 2⁶⁴, or `random`, which asks the operating system.
pub fn seed(text: &str) -> Result<u64, String> {
    if text == "random" {
        return rand::rngs::SysRng
            .try_next_u64()
            .map_err(|error| format!("the operating system gave no random number ({error})"));
    }
    text.parse().map_err(|_| "must be a whole number from 0 to 18446744073709551615, or random".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_doubling_ranges_are_read_in_the_order_typed() {
        assert_eq!(sizes("16,64,256"), Ok(vec![16, 64, 256]));
        assert_eq!(sizes("16..128"), Ok(vec![16, 32, 64, 128]));
        // The upper end belongs to the range even off the doubling grid.
        assert_eq!(sizes("3..20"), Ok(vec![3, 6, 12, 20]));
        assert_eq!(sizes("64, 2..4,64"), Ok(vec![64, 2, 4]));
        assert_eq!(sizes("7..7"), Ok(vec![7]));
    }

    #[test]
    fn a_size_that_cannot_be_is_refused_with_its_rule() {
        for (text, rule) in [
            ("0", "at least 1"),
            ("", "empty item"),
            ("64,,8", "empty item"),
            ("8..2", "smaller end first"),
            ("-3", "not a whole number"),
            ("1.5", "not a whole number"),
            ("4294967296", "at most 4294967295"),
            ("0..4", "at least 1"),
        ] {
            let error = sizes(text).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_outside_their_domain_are_refused() {
        assert_eq!(relative("1%"), Ok(0.01));
        assert_eq!(relative("0.5 %"), Ok(0.005));
        assert_eq!(error_rate("1e-6"), Ok(1e-6));
        assert_eq!(count("1e6", u64::MAX), Ok(1_000_000));
        for wrong in ["nan", "-1", "0", "inf", "", "x", "100%", "1"] {
            assert!(relative(wrong).is_err(), "{wrong}");
        }
        for wrong in ["nan", "-0.1", "0", "0.5", "1", "1e-16"] {
            assert!(error_rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["nan", "0", "-1", "1.5", "inf", "1e30"] {
            assert!(count(wrong, 1_000_000_000).is_err(), "{wrong}");
        }
        assert!(finite("nan").is_err() && finite("inf").is_err() && finite("-2.5") == Ok(-2.5));
    }

    #[test]
    fn times_are_read_in_their_units() {
        let cases = [("10s", 10.0), ("2m", 120.0), ("500ms", 0.5), ("0.25", 0.25), ("1h", 3600.0), (" 3 s ", 3.0)];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["0s", "-1s", "nan", "inf", "", "s", "10 days", "25h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(one_size("17"), Ok(17));
        assert!(one_size("3,5").is_err() && one_size("0").is_err());
    }

    #[test]
    fn seeds_are_read() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert!(seed("-1").is_err() && seed("2.0").is_err());
        assert_ne!(seed("random"), seed("random"));
    }
}
