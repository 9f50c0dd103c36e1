//! What a run shows, in words.

use super::{Regime, regime};
use crate::report::Row;

/// From this many parameter points on, one sentence for each scale stands for all of them.
const LONG_SWEEP: usize = 4;

/// What is seen at one parameter point and scale.
struct Seen<'a> {
    scale: &'a str,
    d_k: u64,
    queries: u64,
    keys: u64,
    freezing: f64,
    participation: f64,
    saturated: f64,
}

/// One sentence for each scale and point, or for each scale of a long sweep: how far from freezing, how many keys share a
/// row, how many rows are saturated. `saturated_above` is the weight that counts as saturated.
pub fn remarks(rows: &[Row], saturated_above: f64) -> Vec<String> {
    let seen: Vec<Seen> =
        rows.iter().filter(|row| row.statistic == "freezing").filter_map(|row| of(rows, row)).collect();
    let mut scales: Vec<&str> = Vec::new();
    for point in &seen {
        if !scales.contains(&point.scale) {
            scales.push(point.scale);
        }
    }
    let points = |scale: &str| seen.iter().filter(|point| point.scale == scale).collect::<Vec<&Seen>>();
    let longest = scales.iter().map(|scale| points(scale).len()).max().unwrap_or(0);
    if longest >= LONG_SWEEP {
        scales.iter().map(|scale| of_sweep(scale, &points(scale), saturated_above)).collect()
    } else {
        seen.iter().map(|point| sentence(point, longest > 1, saturated_above)).collect()
    }
}

fn of<'a>(rows: &'a [Row], freezing: &'a Row) -> Option<Seen<'a>> {
    let beside = |statistic: &str| {
        let same = |row: &&Row| {
            row.statistic == statistic
                && (&row.scale, row.d_k, row.n_queries, row.n_keys)
                    == (&freezing.scale, freezing.d_k, freezing.n_queries, freezing.n_keys)
        };
        rows.iter().find(same).and_then(|row| row.estimate)
    };
    Some(Seen {
        scale: freezing.scale.as_deref()?,
        d_k: freezing.d_k?,
        queries: freezing.n_queries?,
        keys: freezing.n_keys?,
        freezing: freezing.estimate.filter(|value| value.is_finite())?,
        participation: beside("participation")?,
        saturated: beside("saturated_rows")?,
    })
}

fn sentence(seen: &Seen, name_point: bool, saturated_above: f64) -> String {
    let point = match name_point {
        true => format!(" at d_k = {}, n = {}, m = {}", seen.d_k, seen.queries, seen.keys),
        false => String::new(),
    };
    format!(
        "Scale {}{point}: {} (logit standard deviation {:.2} of the freezing point √(2 ln m)); {} of {} keys share a row; {}.",
        seen.scale,
        words(regime(seen.freezing)),
        seen.freezing,
        keys(1.0 / seen.participation),
        seen.keys,
        saturation(seen.saturated, saturated_above),
    )
}

/// A long sweep: where each regime lies, and both ends.
fn of_sweep(scale: &str, points: &[&Seen], saturated_above: f64) -> String {
    let in_regime = |wanted: Regime| {
        let here: Vec<String> = (points.iter())
            .filter(|point| regime(point.freezing) == wanted)
            .map(|point| point.d_k.to_string())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut widths: Vec<u64> = here.iter().filter_map(|text| text.parse().ok()).collect();
        widths.sort_unstable();
        let list = widths.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        (!widths.is_empty()).then(|| format!("{} at d_k = {list}", words(wanted)))
    };
    let regimes: Vec<String> = [Regime::Far, Regime::Near, Regime::Frozen].into_iter().filter_map(in_regime).collect();
    let number = |value: fn(&Seen) -> f64| {
        points
            .iter()
            .map(|point| value(point))
            .fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (fewest, most) = number(|point| 1.0 / point.participation);
    let (_, saturated) = number(|point| point.saturated);
    format!(
        "Scale {scale}: {}; between {} and {} keys share a row; {}.",
        regimes.join("; "),
        keys(fewest),
        keys(most),
        match saturated {
            0.0 => saturation(0.0, saturated_above),
            share => format!("up to {} of the rows are saturated (a weight above {saturated_above})", percent(share)),
        },
    )
}

fn words(regime: Regime) -> &'static str {
    match regime {
        Regime::Far => "far from freezing",
        Regime::Near => "near freezing, where rare condensed rows carry the means",
        Regime::Frozen => "frozen: a few keys hold the weight",
    }
}

fn saturation(share: f64, above: f64) -> String {
    match share {
        0.0 => format!("no row is saturated (no weight above {above})"),
        share => format!("{} of the rows are saturated (a weight above {above})", percent(share)),
    }
}

fn keys(count: f64) -> String {
    if count < 10.0 { format!("{count:.1}") } else { format!("{count:.0}") }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        percent if percent < 0.01 => format!("{percent:.1e} %"),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(d_k: u64, scale: &str, freezing: f64, participation: f64, saturated: f64) -> Vec<Row> {
        let values = [("freezing", freezing), ("participation", participation), ("saturated_rows", saturated)];
        let row = |(statistic, estimate)| Row {
            scale: Some(scale.to_string()),
            d_k: Some(d_k),
            n_queries: Some(64),
            n_keys: Some(128),
            estimate: Some(estimate),
            ..Row::new("softmax-spikiness", statistic)
        };
        values.map(row).to_vec()
    }

    #[test]
    fn each_regime_has_its_words() {
        let texts = |freezing| remarks(&point(16, "none", freezing, 0.5, 0.125), 0.9).concat();
        assert!(texts(0.54).starts_with("Scale none: far from freezing"));
        assert!(texts(0.56).starts_with("Scale none: near freezing"));
        assert!(texts(1.01).starts_with("Scale none: frozen"));
        assert!(
            texts(1.01)
                .ends_with("2.0 of 128 keys share a row; 12.5 % of the rows are saturated (a weight above 0.9).")
        );
        assert!(
            remarks(&point(16, "none", 0.5, 0.01, 0.0), 0.99)[0]
                .contains("100 of 128 keys share a row; no row is saturated")
        );
    }

    #[test]
    fn a_long_sweep_has_one_sentence_for_each_scale() {
        let rows: Vec<Row> = [(128, 2.0), (4, 0.5), (8, 0.7), (16, 1.2)]
            .into_iter()
            .flat_map(|(d_k, freezing)| {
                [point(d_k, "none", freezing, 0.5, 0.002), point(d_k, "inv-sqrt-dk", 0.3, 0.02, 0.0)].concat()
            })
            .collect();
        let texts = remarks(&rows, 0.99);
        assert_eq!(texts.len(), 2);
        assert!(
            texts[0].contains("far from freezing at d_k = 4; near freezing") && texts[0].contains("at d_k = 16, 128;")
        );
        assert!(texts[0].contains("up to 0.20 % of the rows are saturated"));
        assert!(texts[1].contains(
            "far from freezing at d_k = 4, 8, 16, 128; between 50 and 50 keys share a row; no row is saturated"
        ));
    }

    #[test]
    fn a_measurement_that_is_not_a_number_has_no_sentence() {
        assert!(remarks(&point(16, "none", f64::NAN, 0.5, 0.0), 0.9).is_empty());
        assert!(remarks(&[], 0.9).is_empty());
    }
}
