//! Every mark of a small data set stands where its number says: places are read back from the SVG and held against the labelled ticks.

use super::*;
use crate::report::claims::{ClaimRow, ClaimVerdict, Heading};
use crate::report::findings::{FindingRow, HeadRow};
use crate::report::json::Run;
use crate::report::probe::ProbeRow;

/// What an SVG draws: the middle of each mark with its colour and form, and each text with its place.
#[derive(Debug, Default)]
struct Drawn {
    marks: Vec<(&'static str, String, f64, f64)>,
    texts: Vec<(String, f64, f64)>,
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next()
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).and_then(|text| text.parse().ok()).expect("a number")
}

fn drawn(picture: Option<Picture>) -> Drawn {
    let document = picture.expect("something to draw").to_svg().expect("drawn");
    assert!(!document.contains("NaN") && !document.contains("inf\""), "{document}");
    let mut drawn = Drawn::default();
    for part in document.split('<').skip(1) {
        let (tag, after) = part.split_once('>').expect("every tag ends");
        let fill = attribute(tag, "fill").unwrap_or_default().to_owned();
        if tag.starts_with("circle") {
            drawn.marks.push(("circle", fill, number(tag, "cx"), number(tag, "cy")));
        } else if tag.starts_with("text") {
            drawn.texts.push((after.trim().to_owned(), number(tag, "x"), number(tag, "y")));
        } else if tag.starts_with("polygon") {
            let corners: Vec<(f64, f64)> = (attribute(tag, "points").unwrap_or_default().split_whitespace())
                .filter_map(|point| point.split_once(','))
                .map(|(x, y)| (x.parse().expect("x"), y.parse().expect("y")))
                .collect();
            let ends = |pick: fn(&(f64, f64)) -> f64| {
                let values = corners.iter().map(pick);
                values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
            };
            let ((left, right), (top, bottom)) = (ends(|at| at.0), ends(|at| at.1));
            // Marks are about 10 wide; anything larger is a background.
            if right - left < 13.0 {
                let form = match corners.len() {
                    3 => "triangle",
                    _ if corners.iter().any(|corner| (corner.0 - 0.5 * (left + right)).abs() < 1.0) => "diamond",
                    _ => "square",
                };
                drawn.marks.push((form, fill, 0.5 * (left + right), 0.5 * (top + bottom)));
            }
        }
    }
    drawn
}

impl Drawn {
    /// The places of a text.
    fn places(&self, text: &str) -> Vec<(f64, f64)> {
        self.texts.iter().filter(|(found, ..)| found == text).map(|(_, x, y)| (*x, *y)).collect()
    }

    fn only(&self, text: &str) -> (f64, f64) {
        let places = self.places(text);
        assert_eq!(places.len(), 1, "'{text}' once in {:?}", self.texts);
        places[0]
    }

    /// Where `value` belongs horizontally, by two ticks and their labels.
    fn along(&self, value: f64, low: (&str, f64), high: (&str, f64)) -> f64 {
        let (start, end) = (self.only(low.0).0, self.only(high.0).0);
        start + (value - low.1) / (high.1 - low.1) * (end - start)
    }

    fn of_line(&self, y: f64) -> Vec<(&'static str, f64)> {
        // A text and its marks are in the middle of one line; places are whole units.
        self.marks.iter().filter(|mark| (mark.3 - y).abs() < 2.0).map(|mark| (mark.0, mark.2)).collect()
    }
}

/// Two roundings to whole units: of a mark, and of the ticks it is held against.
const ROUNDING: f64 = 1.6;

fn case(name: &str, verdict: &str, ratio: Option<f64>) -> ProbeRow {
    ProbeRow {
        capability: "causal".into(),
        case: name.into(),
        verdict: verdict.into(),
        ratio,
        multiple: ratio.map(|_| 8.0),
        cause: if verdict == "wrong" { "no scale".into() } else { String::new() },
        ..ProbeRow::default()
    }
}

#[test]
fn the_marks_of_a_probe_stand_at_their_ratios_with_the_form_of_their_verdict() {
    let rows = [
        case("", "wrong", Some(90.0)),
        case("causal-a", "right", Some(0.5)),
        case("causal-b", "right", Some(3.0)),
        case("causal-c", "wrong", Some(90.0)),
        case("causal-d", "unsupported", None),
    ];
    let drawn = drawn(probe(&rows, "numpy · 4 cases"));
    let line = drawn.of_line(drawn.only("causal").1);
    let found: Vec<&str> = line.iter().map(|mark| mark.0).collect();
    // Painted from what is least to what matters most; the mark without a number first.
    assert_eq!(found, ["square", "circle", "circle", "diamond"]);
    for (mark, ratio) in [(line[1], 0.5f64), (line[2], 3.0), (line[3], 90.0)] {
        let expected = drawn.along(ratio.log10(), ("1", 0.0), ("10", 1.0));
        assert!((mark.1 - expected).abs() < ROUNDING, "{ratio}: {} for {expected}", mark.1);
    }
    assert!((line[0].1 - drawn.only("no number").0).abs() < ROUNDING, "what has no ratio stands at the side");
    for text in
        ["attn probe: 2 right, 1 wrong, 1 unsupported", "2/4 right", "wrong: no scale (1 case: causal-c)", "wrong"]
    {
        drawn.only(text);
    }
    assert!(drawn.places("failed").is_empty(), "the legend names what is there");
    assert!(probe(&[], "").is_none());
}

fn claim(item: &str, verdict: ClaimVerdict, deviation_in_bounds: Option<f64>) -> ClaimRow {
    ClaimRow {
        item: item.into(),
        kind: "theory".into(),
        claim: "logit_variance".into(),
        verdict,
        estimate: Some(64.5),
        expected_low: Some(64.0),
        expected_high: Some(64.0),
        p_value: Some(0.5),
        min_detectable: Some(0.01),
        deviation_in_bounds,
        explanation: String::new(),
        invocation: "attn variance".into(),
        seed: Some(7),
        version: "0".into(),
    }
}

#[test]
fn the_marks_of_a_suite_stand_at_their_deviations_in_units_of_their_bounds() {
    let rows = [
        claim("first", ClaimVerdict::Upheld, Some(-0.25)),
        claim("first", ClaimVerdict::Undecided, Some(0.75)),
        claim("second", ClaimVerdict::Rejected, Some(-1.75)),
        claim("second", ClaimVerdict::Upheld, None),
    ];
    let run = Run {
        command: "check".into(),
        invocation: "attn check".into(),
        version: "0".into(),
        seed: Some(7),
        remarks: vec![],
    };
    let drawn = drawn(suite(&Heading { suite: "s.toml".into(), false_alarm: 1e-6, run }, &rows));
    let places = |item: &str| drawn.of_line(drawn.only(item).1);
    let (first, second) = (places("first"), places("second"));
    assert_eq!(first.iter().map(|mark| mark.0).collect::<Vec<_>>(), ["circle", "triangle"]);
    assert_eq!(second.iter().map(|mark| mark.0).collect::<Vec<_>>(), ["circle", "diamond"]);
    for (mark, deviation) in [(first[0], -0.25), (first[1], 0.75), (second[1], -1.75)] {
        let expected = drawn.along(deviation, ("-1", -1.0), ("+1", 1.0));
        assert!((mark.1 - expected).abs() < ROUNDING, "{deviation}: {} for {expected}", mark.1);
    }
    drawn.only("attn check: 4 claims: 2 upheld, 1 rejected, 1 undecided");
    drawn.only("rejected: second: logit_variance; 64.50 against 64.00, p 0.50");
    drawn.only("1/2 rejected");
}

#[test]
fn a_deviation_beyond_the_axis_has_an_arrow_at_its_end() {
    let run =
        Run { command: "check".into(), invocation: String::new(), version: "0".into(), seed: None, remarks: vec![] };
    let heading = Heading { suite: "s".into(), false_alarm: 1e-6, run };
    let far = drawn(suite(&heading, &[claim("one", ClaimVerdict::Rejected, Some(34.0))]));
    assert_eq!(far.places("→").len(), 1);
    let near = drawn(suite(&heading, &[claim("one", ClaimVerdict::Rejected, Some(3.0))]));
    assert!(near.places("→").is_empty());
}

fn head(number: usize, fitted: f64, entropy: f64) -> HeadRow {
    HeadRow {
        file: "x.npz".into(),
        head: number,
        expected_scale: 0.25,
        fitted_scale: Some(fitted),
        fitted_scale_error: Some(0.005),
        relative_entropy: Some(entropy),
        control_relative_entropy: Some(0.875),
        ..HeadRow::default()
    }
}

fn finding(check: &str, verdict: &str, places: &[(usize, usize)]) -> FindingRow {
    FindingRow {
        file: "x.npz".into(),
        check: check.into(),
        verdict: verdict.into(),
        places: places.to_vec(),
        place: "head 2".into(),
        explanation: "wrong".into(),
        ..FindingRow::default()
    }
}

#[test]
fn the_marks_of_an_audit_stand_at_head_and_value_and_verdicts_where_they_were_found() {
    let heads = [head(0, 0.25, 0.9), head(1, 0.26, 0.75), head(2, 0.5, 0.25)];
    let findings = [
        finding("scale", "FAIL", &[(0, 2)]),
        finding("scale", "PASS", &[(0, 0), (0, 1)]),
        finding("finite", "PASS", &[]),
    ];
    let drawn = drawn(audit(&findings, &heads, "x.npz"));
    let columns: Vec<f64> = ["0", "1", "2"].map(|name| drawn.places(name).last().expect("a label below").0).to_vec();
    // Blue circles: three of the scale, then three of the entropy.
    let blue: Vec<&(&str, String, f64, f64)> = drawn.marks.iter().filter(|mark| mark.1 == "#0072B2").collect();
    assert_eq!(blue.len(), 6);
    for (index, mark) in blue.iter().enumerate() {
        assert!((mark.2 - columns[index % 3]).abs() < ROUNDING, "{mark:?}");
    }
    // Fitted ÷ declared: 1, 1.04, 2, between the ticks 1 and 2 of the first panel, which is the highest.
    let upper = |text: &str| drawn.places(text).iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
    let (one, two) = (upper("1"), upper("2"));
    for (mark, value) in blue.iter().zip([1.0, 1.04, 2.0]) {
        let expected = one + (value - 1.0) * (two - one);
        assert!((mark.3 - expected).abs() < ROUNDING, "scale {value}: {} for {expected}", mark.3);
    }
    // The ticks 0 and 0.5 of the second; 0 is also a head's number, below.
    let zero = drawn.places("0").iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
    let half = drawn.places("0.5").last().expect("a tick").1;
    for (mark, value) in blue[3..].iter().zip([0.9, 0.75, 0.25]) {
        let expected = zero + value / 0.5 * (half - zero);
        assert!((mark.3 - expected).abs() < ROUNDING, "entropy {value}: {} for {expected}", mark.3);
    }
    let line = drawn.of_line(drawn.only("scale").1);
    assert_eq!(line.iter().map(|mark| mark.0).collect::<Vec<_>>(), ["circle", "circle", "diamond"]);
    assert!((line[2].1 - columns[2]).abs() < ROUNDING);
    assert_eq!(drawn.of_line(drawn.only("finite").1).len(), 3, "what holds everywhere is said of every head");
    for text in ["attn audit: 1 FAIL, 2 PASS", "FAIL scale: head 2: wrong", "declared", "independent entries", "head"] {
        drawn.only(text);
    }
    assert!(drawn.places("WARN").is_empty());
    assert!(audit(&[], &[], "").is_none());
}

#[test]
fn an_audit_without_heads_shows_its_checks() {
    let drawn = drawn(audit(&[finding("agreement_q", "FAIL", &[])], &[], "a against b"));
    assert_eq!(
        drawn.of_line(drawn.only("agreement_q").1),
        [("diamond", drawn.of_line(drawn.only("agreement_q").1)[0].1)]
    );
    drawn.only("verdict of each check");
}

fn row(d_k: u64, scale: &str, estimate: f64, theory: f64) -> Row {
    Row {
        d_k: Some(d_k),
        scale: Some(scale.into()),
        estimate: Some(estimate),
        theory: Some(theory),
        ..Row::new("variance", "logit_variance")
    }
}

#[test]
fn the_marks_of_a_sweep_stand_at_d_k_and_variance_on_logarithmic_axes() {
    let rows = [row(13, "none", 17.0, 13.0), row(257, "none", 200.0, 257.0)];
    let drawn = drawn(of_rows(&rows));
    let blue: Vec<(f64, f64)> =
        drawn.marks.iter().filter(|mark| mark.1 == "#0072B2").map(|mark| (mark.2, mark.3)).collect();
    // Two in the upper panel, two deviations in the lower, one in the legend.
    assert_eq!(blue.len(), 5);
    let (low, high) = (drawn.only("20").1, drawn.only("200").1);
    for (mark, value) in blue[..2].iter().zip([17.0f64, 200.0]) {
        let expected = low + (value / 20.0).log10() * (high - low);
        assert!((mark.1 - expected).abs() < ROUNDING, "{value}: {} for {expected}", mark.1);
    }
    assert!((blue[0].0 - drawn.only("13").0).abs() < ROUNDING && (blue[1].0 - drawn.only("257").0).abs() < ROUNDING);
    // 17/13 − 1 and 200/257 − 1, below.
    let (zero, tick) = (drawn.only("0 %").1, drawn.only("+20 %").1);
    for (mark, deviation) in blue[2..4].iter().zip([17.0 / 13.0 - 1.0, 200.0 / 257.0 - 1.0]) {
        let expected = zero + deviation / 0.2 * (tick - zero);
        assert!((mark.1 - expected).abs() < ROUNDING, "{deviation}: {} for {expected}", mark.1);
    }
}

#[test]
fn an_interval_is_drawn_in_the_unit_of_the_deviation_and_not_of_theory() {
    // A mean of logits: theory 0.64, but deviations are in units of the natural scale 8. From 0.56 to 0.72 is ±0.01, five times 0.002.
    let mean = Row {
        estimate: Some(0.648),
        ci_low: Some(0.56),
        ci_high: Some(0.72),
        theory: Some(0.64),
        deviation: Some(0.001),
        min_detectable: Some(0.01),
        ..Row::new("variance", "logit_mean")
    };
    let rows = [mean];
    let document = of_rows(&rows).expect("a claim").to_svg().expect("drawn");
    let drawn = drawn(of_rows(&rows));
    let (start, end) = (drawn.along(-1.0, ("-1", -1.0), ("+1", 1.0)), drawn.along(1.0, ("-1", -1.0), ("+1", 1.0)));
    // (0.56 − 0.64)/8/0.01 = −1 and (0.72 − 0.64)/8/0.01 = 1.
    let bar = document.lines().find(|line| line.contains("polyline") && line.contains("#0072B2")).expect("a bar");
    let points: Vec<f64> = (attribute(bar, "points").expect("points").split_whitespace())
        .filter_map(|point| point.split_once(',')?.0.parse().ok())
        .collect();
    assert!((points[0] - start).abs() < ROUNDING && (points[1] - end).abs() < ROUNDING, "{points:?}: {start} to {end}");
}
