use super::*;

/// A claim with made-up numbers of the usual lengths.
fn claim(statistic: &str, scale: Option<&str>, d_k: u64, estimate: f64, error: f64, theory: f64) -> Row {
    Row {
        scale: scale.map(str::to_owned),
        d_k: Some(d_k),
        n_queries: Some(512),
        n_keys: Some(512),
        entries: Some("normal".into()),
        precision: Some("f64".into()),
        trials: Some(90),
        seed: Some(0),
        estimate: Some(estimate),
        std_error: Some(error),
        ci_low: Some(estimate - 1.96 * error),
        ci_high: Some(estimate + 1.96 * error),
        theory: Some(theory),
        theory_kind: Some(TheoryKind::Exact),
        deviation: Some(-0.00163),
        p_value: Some(0.0312),
        min_detectable: Some(0.00958),
        verdict: Verdict::Upheld,
        ..Row::new("variance", statistic)
    }
}

fn point(d_k: u64) -> Vec<Row> {
    let d = d_k as f64;
    vec![
        claim("qk_correlation", None, d_k, -0.000352, 0.00058, 0.0),
        claim("logit_variance", Some("none"), d_k, 0.9984 * d, 0.0012 * d, d),
        Row {
            verdict: Verdict::Undecided,
            ..claim("logit_kurtosis", Some("inv-sqrt-dk"), d_k, 3.0953, 0.004, 3.09375)
        },
    ]
}

fn plain(width: usize) -> Layout {
    Layout { width, colour: Colour::Plain, false_alarm: Some(1e-6) }
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// The text without the escapes of colour.
fn stripped(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').expect("every escape here ends with m").1)
}

#[test]
fn one_point_is_the_table_written_by_hand() {
    // Half-widths: 1.96 × 0.00058 = 0.0011368, 1.96 × 0.0768 = 0.150528, 1.96 × 0.004 = 0.00784; estimates rounded to the same place.
    let expected = "\
d_k = 64 · n = m = 512 · normal entries · f64 · 90 trials · seed 0

statistic       scale    estimate (95 %)   theory  deviation  detects      p  verdict
─────────────────────────────────────────────────────────────────────────────────────────
qk_correlation          -0.0004 ± 0.0011        0    -0.16 %   0.96 %  0.031  ✔ upheld
logit_variance  none        63.90 ± 0.15       64    -0.16 %   0.96 %  0.031  ✔ upheld
logit_kurtosis  1/√d_k   3.0953 ± 0.0078  3.09375    -0.16 %   0.96 %  0.031  ? undecided

% is of theory, or of the statistic's natural scale where that is larger; detects: the smallest
deviation this run would have seen.
2 claims upheld, 0 rejected, 1 undecided (false-alarm rate 1e-6 over the whole run)
undecided logit_kurtosis: too few trials to see what --detect asks for; leave --trials out to plan
them
";
    assert_eq!(render(&point(64), &plain(100)), expected);
}

#[test]
fn typical_rows_fit_in_100_and_in_80_columns() {
    for rows in [point(64), [point(16), point(64)].concat(), [3, 64, 257, 1024, 4096].map(point).concat()] {
        assert!(widest(&render(&rows, &plain(100))) <= 100, "{}", render(&rows, &plain(100)));
        assert!(widest(&render(&rows, &plain(80))) <= 80, "{}", render(&rows, &plain(80)));
    }
    let narrow = render(&point(64), &plain(80));
    assert!(narrow.contains("✔") && !narrow.contains("✔ upheld") && narrow.contains("detects"), "{narrow}");
}

#[test]
fn colour_stands_around_the_verdict_only_and_moves_nothing() {
    let mut rows = point(64);
    rows[0].verdict = Verdict::Rejected;
    rows.push(Row { verdict: Verdict::Measured, ..rows[1].clone() });
    for width in [100, 80] {
        let coloured = render(&rows, &Layout { colour: Colour::Ansi, ..plain(width) });
        assert_eq!(stripped(&coloured), render(&rows, &plain(width)));
        assert_eq!(coloured.matches("\u{1b}[").count(), 6, "two escapes for each of three verdicts");
    }
    let coloured = render(&rows, &Layout { colour: Colour::Ansi, ..plain(120) });
    for word in [
        "\u{1b}[31m✘ rejected\u{1b}[0m\n",
        "\u{1b}[32m✔ upheld\u{1b}[0m\n",
        "\u{1b}[33m? undecided\u{1b}[0m\n",
        " · measured\n",
    ] {
        assert!(coloured.contains(word), "{word:?} not in {coloured:?}");
    }
}

#[test]
fn few_points_are_blocks_and_many_are_one_table() {
    let headings = |text: &str| text.lines().filter(|line| line.starts_with("statistic")).count();
    let three = render(&[3, 5, 7].map(point).concat(), &plain(100));
    assert_eq!(headings(&three), 3);
    for heading in ["d_k = 3\n", "d_k = 5\n", "d_k = 7\n"] {
        assert_eq!(three.matches(heading).count(), 1, "{three}");
    }
    let four = render(&[3, 5, 7, 11].map(point).concat(), &plain(100));
    assert_eq!(headings(&four), 1);
    assert!(!four.contains("d_k ="), "{four}");
    assert_eq!(four.matches("logit_variance").count(), 1, "the name stands once: {four}");
    let order: Vec<&str> = four
        .lines()
        .filter(|line| line.contains('✔'))
        .filter_map(|line| line.split_whitespace().find(|word| word.parse::<u64>().is_ok()))
        .collect();
    assert_eq!(order, ["3", "5", "7", "11", "3", "5", "7", "11"], "{four}");
}

#[test]
fn a_row_over_the_sweep_keeps_the_common_heading_and_has_its_own_block() {
    let mut rows = [point(3), point(5)].concat();
    rows.push(Row { d_k: None, trials: None, ..claim("variance_slope", Some("none"), 3, 1.0005, 0.0008, 1.0) });
    let text = render(&rows, &plain(100));
    assert!(text.starts_with("n = m = 512 · normal entries · f64 · 90 trials · seed 0\n\nd_k = 3\n"), "{text}");
    assert_eq!(text.matches("statistic   ").count(), 3, "{text}");
}

#[test]
fn theory_values_show_how_good_they_are_and_a_measured_row_has_none() {
    let mut row = claim("entropy", None, 64, 5.7, 0.01, 5.738_291_4);
    row.theory_kind = Some(TheoryKind::Approximate);
    assert_eq!(theory_text(&row), "≈ 5.73829");
    row.theory_kind = Some(TheoryKind::Asymptotic);
    assert_eq!(theory_text(&row), "→ 5.73829");
    row.theory = None;
    assert_eq!(theory_text(&row), "");
}

#[test]
fn line_breaks_and_escapes_in_a_name_do_not_reach_the_terminal() {
    let mut rows = point(64);
    rows[0].statistic = "a\nb\u{1b}[2J".into();
    let text = render(&rows, &plain(100));
    assert!(text.contains("a\u{fffd}b\u{fffd}[2J"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_long_heading_is_broken_between_phrases() {
    let phrases = ["d_k = 64", "n = m = 512", "student-t:5 entries"].map(str::to_owned);
    assert_eq!(wrapped(&phrases, 24), "d_k = 64 · n = m = 512\nstudent-t:5 entries\n");
}

#[test]
fn no_rows_give_the_closing_line() {
    assert_eq!(render(&[], &plain(100)), "no claims were judged\n");
}
