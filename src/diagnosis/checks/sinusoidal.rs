//! The table of sines and cosines.

use crate::diagnosis::finding::{Check, Finding, Verdict, significant};
use crate::diagnosis::matrix::Matrix;

/// Shown by `--explain sinusoidal`.
pub const EXPLANATION: &str = "\
Is the table PE(pos, 2i) = sin(pos/10000^(2i/d)), PE(pos, 2i+1) = cos of the same?
Formula: every entry against the table, alternating or sines first; the known slip (exponent 2c/d for every channel c, so that sine and cosine of a pair \
differ) is tried too. sin² + cos² of each pair and the spread of E·Eᵀ along its diagonals are printed.
Verdict: PASS for either order (a permutation of channels); FAIL for the slip and for tables without unit pairs; WARN for unit pairs with other frequencies.
Blind spots: position 0.";

/// Paired alternately, or sines first; the slip in both orders.
const FORMS: [(&str, bool, bool); 4] = [
    ("alternating sines and cosines", true, true),
    ("sines then cosines", false, true),
    ("alternating, exponent 2i/d for every channel i", true, false),
    ("sines then cosines, exponent 2i/d for every channel i", false, false),
];

fn entry(position: usize, channel: usize, width: usize, alternating: bool, paired: bool) -> f64 {
    let half = width.div_ceil(2);
    let (pair, sine) =
        if alternating { (channel / 2, channel.is_multiple_of(2)) } else { (channel % half, channel < half) };
    let exponent = match (paired, alternating) {
        (true, _) => 2.0 * pair as f64 / width as f64,
        (false, true) => 2.0 * channel as f64 / width as f64,
        (false, false) => 2.0 * (2 * pair + usize::from(!sine)) as f64 / width as f64,
    };
    let angle = position as f64 / 10_000f64.powf(exponent);
    if sine { angle.sin() } else { angle.cos() }
}

/// What the table says.
pub fn findings(table: &Matrix) -> Vec<Finding> {
    let (rows, width) = (table.rows, table.columns);
    if rows < 2 || width < 2 {
        return vec![Finding::new(
            Check::Sinusoidal,
            Verdict::CannotTell,
            "small",
            "a table of one position or one channel",
        )];
    }
    // An angle in f32 errs by position·2⁻²⁴.
    let tolerance = 4.0 * table.storage.unit_roundoff() + rows as f64 * 2f64.powi(-22);
    for (name, alternating, paired) in FORMS {
        let fits = |first: usize| {
            (0..rows).all(|row| {
                (0..width).all(|channel| {
                    let expected = entry(row + first, channel, width, alternating, paired);
                    (table.at(row, channel) - expected).abs() <= tolerance
                })
            })
        };
        if !fits(0) && !fits(1) {
            continue;
        }
        if paired {
            return vec![
                Finding::new(
                    Check::Sinusoidal,
                    Verdict::Pass,
                    "right",
                    format!("{name}, as published (the order of channels is a permutation)"),
                )
                .with_numbers(spread(table), 0.0, "spread along a diagonal of E·Eᵀ"),
            ];
        }
        let words = format!(
            "sin² + cos² of channel pairs is not 1; E·Eᵀ is not a function of distance (spread along a diagonal {}); frequencies fit exponent 2i/d instead of 2·floor(i/2)/d",
            significant(spread(table), 2)
        );
        return vec![
            Finding::new(Check::Sinusoidal, Verdict::Fail, "exponent", words)
                .with_numbers(spread(table), 0.0, "spread along a diagonal of E·Eᵀ")
                .with_cause(
                    "the exponent runs over channels, not over pairs: use 2 * (i // 2) / d",
                    "sin² + cos² of channels 0 and 1 at any position must be 1",
                ),
        ];
    }
    let half = width / 2;
    let unit = |alternating: bool| {
        (0..rows).all(|row| {
            (0..half).all(|pair| {
                let (a, b) = if alternating { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
                (table.at(row, a).hypot(table.at(row, b)) - 1.0).abs() < 1e-3 + tolerance
            })
        })
    };
    let spread = spread(table);
    let finding = if unit(true) || unit(false) {
        let words = format!(
            "pairs have norm 1, but other frequencies than 10000^(-2i/d); spread along a diagonal of E·Eᵀ {}",
            significant(spread, 2)
        );
        Finding::new(Check::Sinusoidal, Verdict::Warn, "frequencies", words)
            .with_cause("another base, or positions scaled", "the angle of pair 0 at position 1 must be 1")
    } else {
        let words = format!("no table of unit pairs: spread along a diagonal of E·Eᵀ {}", significant(spread, 2));
        Finding::new(Check::Sinusoidal, Verdict::Fail, "other", words)
            .with_cause("the table is scaled, learned, or not sinusoidal", "sin² + cos² of each pair must be 1")
    };
    vec![finding.with_numbers(spread, 0.0, "spread along a diagonal of E·Eᵀ")]
}

/// Largest difference within a diagonal of E·Eᵀ, over the first 256 positions.
fn spread(table: &Matrix) -> f64 {
    let rows = table.rows.min(256);
    let dot = |a: usize, b: usize| (0..table.columns).map(|c| table.at(a, c) * table.at(b, c)).sum::<f64>();
    let mut widest = 0.0f64;
    for distance in 0..rows {
        let along = (0..rows - distance).map(|row| dot(row, row + distance));
        let (low, high) = along.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        widest = widest.max(high - low);
    }
    widest
}
