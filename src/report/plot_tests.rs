use super::*;
use crate::report::row::{TheoryKind, Verdict};

fn variance(scale: &str, d_k: u64, theory: f64) -> Row {
    Row {
        scale: Some(scale.into()),
        d_k: Some(d_k),
        n_queries: Some(31),
        n_keys: Some(37),
        trials: Some(11),
        seed: Some(5),
        estimate: Some(1.01 * theory),
        ci_low: Some(0.98 * theory),
        ci_high: Some(1.04 * theory),
        theory: Some(theory),
        theory_kind: Some(TheoryKind::Exact),
        deviation: Some(0.01),
        min_detectable: Some(0.05),
        verdict: Verdict::Upheld,
        ..Row::new("variance", "logit_variance")
    }
}

fn sweep() -> Vec<Row> {
    let at = |d: u64| {
        let x = d as f64;
        [
            variance("none", d, x),
            variance("inv-sqrt-dk", d, 1.0),
            variance("inv-dk", d, 1.0 / x),
            variance("0.5", d, 0.25 * x),
        ]
    };
    [13, 67, 257].map(at).concat()
}

fn svg(rows: &[Row]) -> String {
    let mut bytes = Vec::new();
    let picture = of_rows(rows).expect("something to draw");
    picture.write(PictureFormat::Svg, &mut bytes).expect("a vector takes every byte");
    String::from_utf8(bytes).expect("UTF-8")
}

/// The texts of an SVG document; panics unless every tag is closed in the right order and every `&` begins an entity.
fn texts(document: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for part in document.split('<').skip(1) {
        let (tag, after) = part.split_once('>').expect("every tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in pairs: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closes what is open");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
        for entity in after.split('&').skip(1) {
            assert!(["lt;", "gt;", "amp;", "quot;", "apos;"].iter().any(|known| entity.starts_with(known)), "{after}");
        }
        if !after.trim().is_empty() {
            assert_eq!(open.last(), Some(&"text"), "text stands in a text element: {after}");
            found.push(after.trim().to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    found
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|found| found == text)
}

#[test]
fn a_sweep_is_well_formed_svg_with_axes_units_and_a_legend_for_each_scale() {
    let texts = texts(&svg(&sweep()));
    for label in [
        "Variance of the logits against d_k",
        "variance (dimensionless)",
        "d_k, columns of Q and K (dimensionless)",
        "no scale",
        "theory d_k",
        "scale 1/√d_k",
        "theory 1",
        "scale 1/d_k",
        "theory 1/d_k",
        "scale 0.5",
        "theory",
        "13",
        "67",
        "257",
        "bars: 95 % intervals",
        &format!("n = 31 · m = 37 · 11 trials · seed 5 · attn {}", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(has(&texts, label), "no text '{label}' in {texts:?}");
    }
}

#[test]
fn a_single_point_is_a_line_for_each_claim_with_its_verdict() {
    let mut rows = vec![variance("none", 67, 67.0), variance("inv-sqrt-dk", 67, 1.0)];
    rows[0].verdict = Verdict::Rejected;
    (rows[0].deviation, rows[0].estimate) = (Some(-0.9), Some(6.7));
    rows.push(Row { theory: None, ..variance("inv-dk", 67, 1.0) });
    let texts = texts(&svg(&rows));
    // The deviation in units of what could be seen: −0.9/0.05 = −18.
    for label in ["logit_variance, no scale", "rejected", "✘", "← -18", "logit_variance, scale 1/√d_k", "upheld", "✔"]
    {
        assert!(has(&texts, label), "no text '{label}' in {texts:?}");
    }
    assert!(!texts.iter().any(|text| text.contains("1/d_k")), "a row without theory is not a claim: {texts:?}");
}

#[test]
fn names_with_markup_stay_text() {
    let row = Row { statistic: "a<b>&c".into(), ..variance("none", 67, 67.0) };
    assert!(has(&texts(&svg(&[row])), "a&lt;b&gt;&amp;c, no scale"));
}

#[test]
fn a_png_can_be_decoded_and_holds_ink_of_every_series() {
    let mut bytes = Vec::new();
    let picture = of_rows(&sweep()).expect("something to draw");
    picture.write(PictureFormat::Png, &mut bytes).expect("a vector takes every byte");
    let mut reader = png::Decoder::new(io::Cursor::new(bytes)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a small picture")];
    let frame = reader.next_frame(&mut pixels).expect("whole");
    // 800 by 620 units, two pixels each.
    assert_eq!((frame.width, frame.height), (1600, 1240));
    let count = |colour: plotters::style::RGBColor| {
        pixels.chunks(3).filter(|pixel| *pixel == [colour.0, colour.1, colour.2]).count()
    };
    for colour in [palette::BLUE, palette::VERMILLION, palette::GREEN, palette::PURPLE] {
        assert!(count(colour) > 500, "three markers of some 150 pixels in two panels and a line");
    }
    assert!(count(palette::INK) > 500, "the letters are drawn, so the font is found");
}

#[test]
fn every_character_of_both_pictures_is_in_the_font_that_is_shipped() {
    use ab_glyph::{Font, FontRef};
    let font = FontRef::try_from_slice(include_bytes!("../../data/fonts/DejaVuSans-subset.ttf")).expect("a font");
    let documents = [svg(&sweep()), svg(&[variance("none", 67, 67.0)])].concat();
    let characters = texts(&documents).concat() + "✔✘?·×÷≈→←−±√";
    for character in characters.chars() {
        assert_ne!(font.glyph_id(character).0, 0, "no '{character}'");
    }
}

#[test]
fn extreme_and_missing_values_are_drawn_without_failing() {
    let mut rows = sweep();
    rows[0].estimate = Some(f64::NAN);
    rows[1].ci_low = Some(-1.0);
    rows[2].theory = None;
    rows[4].estimate = Some(1e300);
    rows[5].ci_high = Some(f64::INFINITY);
    rows[6].theory = Some(0.0);
    let document = svg(&rows);
    texts(&document);
    assert!(!document.contains("NaN") && !document.contains("inf"), "{document}");
    let one = Row { deviation: Some(0.0), theory: Some(0.0), estimate: Some(0.0), ..variance("none", 67, 67.0) };
    assert!(!svg(&[one]).contains("NaN"));
}

#[test]
fn nothing_to_draw_is_no_picture_and_an_unknown_ending_an_error_that_names_the_flag() {
    assert!(of_rows(&[Row::new("mask", "leak")]).is_none());
    let error = PictureFormat::of_path(Path::new("x.jpg")).expect_err("not a known ending");
    assert_eq!(error.to_string(), "--plot 'x.jpg': the ending must be .svg or .png");
}

#[test]
fn the_ending_decides_the_file_type() {
    let picture = of_rows(&sweep()).expect("something to draw");
    for (name, start) in [("x.svg", b"<svg".as_slice()), ("x.PNG", b"\x89PNG".as_slice())] {
        let mut bytes = Vec::new();
        let format = PictureFormat::of_path(Path::new(name)).expect("a known ending");
        picture.write(format, &mut bytes).expect("a vector takes every byte");
        assert!(bytes.starts_with(start));
    }
}

#[test]
fn of_very_many_claims_the_largest_are_drawn_and_the_title_says_so() {
    let row = |index: u32| Row {
        statistic: format!("claim_{index}"),
        deviation: Some(0.001 * f64::from(index)),
        ..variance("none", 67, 67.0)
    };
    let texts = texts(&svg(&(0..1009).map(row).collect::<Vec<_>>()));
    assert!(has(&texts, "Deviation from theory, the 60 largest of 1009 claims"), "{texts:?}");
    assert!(has(&texts, "claim_949, no scale") && !has(&texts, "claim_948, no scale"), "1009 - 60 = 949");
}
