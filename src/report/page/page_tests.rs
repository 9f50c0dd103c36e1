use quick_xml::Reader;
use quick_xml::events::Event;

use super::source::{Content, Form, Source};
use super::*;
use crate::report::claims::{ClaimRow, ClaimVerdict};
use crate::report::cost::CostRow;
use crate::report::findings::FindingRow;
use crate::report::json::{self, Run};
use crate::report::probe::ProbeRow;
use crate::report::{Record, Row, TheoryKind, Verdict, csv};

/// Text that would be markup, leave an attribute, hide itself or end the terminal's colours.
const HOSTILE: &str =
    "</bdi></style><script>alert(1)</script>\"'><img src=http://x.invalid onerror=alert(1)>\u{202e}\u{1b}[31m]]>&amp;";

fn run(command: &str) -> Run {
    Run {
        command: command.into(),
        invocation: format!("attn {command} --false-alarm 1e-4"),
        version: "0.1.0".into(),
        seed: Some(7),
        remarks: vec!["What is seen.".into()],
    }
}

fn from_json<R: Record>(command: &str, rows: &[R]) -> Source {
    let mut bytes = Vec::new();
    json::write(&run(command), rows, &mut bytes).expect("a vector takes every byte");
    Source::read("a.json", &bytes).expect("own JSON")
}

fn from_csv<R: Record>(rows: &[R]) -> Source {
    let mut bytes = Vec::new();
    csv::write(rows, &mut bytes).expect("a vector takes every byte");
    Source::read("a.csv", &bytes).expect("own CSV")
}

fn statistic(name: &str, d_k: u64, verdict: Verdict) -> Row {
    Row {
        scale: Some("none".into()),
        d_k: Some(d_k),
        n_queries: Some(31),
        n_keys: Some(31),
        trials: Some(11),
        seed: Some(7),
        estimate: Some(1.01 * d_k as f64),
        ci_low: Some(0.9 * d_k as f64),
        ci_high: Some(1.1 * d_k as f64),
        theory: Some(d_k as f64),
        theory_kind: Some(TheoryKind::Exact),
        deviation: Some(0.01),
        p_value: Some(0.25),
        min_detectable: Some(0.02),
        verdict,
        ..Row::new("variance", name)
    }
}

fn case(verdict: &str) -> ProbeRow {
    ProbeRow {
        capability: "causal".into(),
        case: "causal-square".into(),
        verdict: verdict.into(),
        ratio: Some(0.5),
        multiple: Some(8.0),
        ..ProbeRow::default()
    }
}

fn finding(verdict: &str) -> FindingRow {
    FindingRow {
        file: "dump.npz".into(),
        check: "scale".into(),
        verdict: verdict.into(),
        measured: Some(0.25),
        expected: Some(0.125),
        ..FindingRow::default()
    }
}

fn claim(verdict: ClaimVerdict) -> ClaimRow {
    ClaimRow {
        item: "the derivation".into(),
        kind: "theory".into(),
        claim: "logit_variance at scale none, d_k 5".into(),
        verdict,
        estimate: Some(5.1),
        expected_low: Some(5.0),
        expected_high: Some(5.0),
        p_value: None,
        min_detectable: Some(0.05),
        explanation: String::new(),
        invocation: "attn variance --dk 5".into(),
        seed: Some(7),
        version: "0.1.0".into(),
        deviation_in_bounds: None,
    }
}

fn cost(n: u64, seconds: f64) -> CostRow {
    CostRow {
        command: "complexity".into(),
        stage: "qk".into(),
        n: Some(n),
        m: Some(n),
        d_k: Some(5),
        operations: Some(1 << 100),
        seconds: Some(seconds),
        verdict: Some(Verdict::Measured),
        ..CostRow::default()
    }
}

fn page(sources: &[Source]) -> String {
    let explain = |name: &str| Some(format!("What is {name}?\n\nFormula: a < b.\n\nBlind spots: none."));
    render(&Frame { title: "attn report", invocation: "attn report a.json", explain: &explain }, sources)
}

/// Names of the elements in order, after a reader of XML has found each closed where it should be.
fn elements(page: &str) -> Vec<String> {
    let mut reader = Reader::from_str(page);
    let mut names = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} at {}", reader.error_position())) {
            Event::Start(tag) | Event::Empty(tag) => {
                tag.attributes().for_each(|attribute| drop(attribute.expect("an attribute with a value, once")));
                names.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned());
            }
            Event::Text(text) => drop(text.xml10_content().expect("text of XML")),
            Event::Eof => return names,
            _ => {}
        }
    }
}

fn every_kind() -> Vec<Source> {
    let sweep = [5, 7, 11].map(|d_k| statistic("logit_variance", d_k, Verdict::Upheld));
    let audit = format!(
        "{{\"command\":\"audit\",\"invocation\":\"attn audit dump.npz\",\"version\":\"0.1.0\",\"remarks\":[],\"findings\":[{}],\"heads\":[\
         {{\"file\":\"dump.npz\",\"group\":\"\",\"batch\":0,\"head\":1,\"relative_entropy\":0.5,\"control_relative_entropy\":0.75,\
         \"query_mean\":null}}]}}",
        serde_json::to_string(&finding("PASS")).expect("a row")
    );
    vec![
        from_json("variance", &sweep),
        from_csv(&sweep),
        from_json("complexity", &[cost(64, 1e-3), cost(128, 4e-3)]),
        from_csv(&[cost(64, 1e-3)]),
        Source::read("audit.json", audit.as_bytes()).expect("own JSON"),
        from_json("probe", &[case("right")]),
        from_csv(&[case("right")]),
        from_json("check", &[claim(ClaimVerdict::Upheld)]),
        from_csv(&[claim(ClaimVerdict::Upheld)]),
    ]
}

#[test]
fn a_page_of_every_kind_of_file_is_well_formed_and_has_formula_picture_and_table_of_each() {
    for source in every_kind() {
        let text = page(std::slice::from_ref(&source));
        let names = elements(&text);
        let count = |name: &str| names.iter().filter(|found| *found == name).count();
        assert_eq!((names[0].as_str(), count("h1"), count("title") > 0), ("html", 1, true));
        let what = format!("{} {:?}", source.command, source.form);
        assert!(count("table") >= 2, "{what}: the files and a claim");
        // A single number beside nothing is no picture.
        let is_lone = matches!(&source.content, Content::Costs(rows) if rows.len() == 1);
        assert_eq!(count("svg") >= 1, !is_lone, "{what}");
        let has_formula = count("math") >= 1 || text.contains("Formula: a &lt; b.");
        assert!(has_formula, "{what}");
        assert_eq!(count("caption"), count("table"), "{what}");
    }
    elements(&page(&every_kind()));
}

#[test]
fn nothing_in_a_page_is_loaded_or_run() {
    let text = page(&every_kind());
    for forbidden in ["<script", "<img", "<iframe", "src=", "url(", "@import", "javascript:", " onload", "https://"] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    // The names of HTML and SVG are no addresses.
    let names = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"];
    let left = names.iter().fold(text.clone(), |text, name| text.replace(name, ""));
    assert!(!left.contains("http://"), "an address in the page");
    assert!(text.contains("default-src &apos;none&apos;"));
}

#[test]
fn hostile_text_stays_text_wherever_it_stands() {
    let hostile = || HOSTILE.to_owned();
    let row = Row {
        statistic: hostile(),
        scale: Some(hostile()),
        mask: Some(hostile()),
        entries: Some(hostile()),
        version: hostile(),
        test: Some(hostile()),
        ..statistic("x", 5, Verdict::Rejected)
    };
    let sources = [
        Source {
            name: hostile(),
            remarks: vec![hostile()],
            invocation: Some(hostile()),
            ..from_json("variance", &[row.clone(), statistic("logit_mean", 7, Verdict::Upheld)])
        },
        from_csv(&[row]),
        from_json(
            "probe",
            &[ProbeRow {
                capability: hostile(),
                case: hostile(),
                cause: hostile(),
                explanation: hostile(),
                verdict: hostile(),
                array: hostile(),
                ..case("")
            }],
        ),
        from_json(
            "check",
            &[ClaimRow {
                item: hostile(),
                kind: hostile(),
                claim: hostile(),
                explanation: hostile(),
                invocation: hostile(),
                ..claim(ClaimVerdict::Rejected)
            }],
        ),
        from_json(
            "complexity",
            &[
                CostRow { stage: hostile(), kernel: Some(hostile()), clock: Some(hostile()), ..cost(5, 1.0) },
                CostRow { stage: hostile(), kernel: Some(hostile()), ..cost(7, 2.0) },
            ],
        ),
        from_csv_of_findings(&FindingRow {
            file: hostile(),
            check: hostile(),
            unit: hostile(),
            place: hostile(),
            explanation: hostile(),
            ..finding("FAIL")
        }),
    ];
    let explain = |_: &str| Some(hostile());
    let text = render(&Frame { title: HOSTILE, invocation: HOSTILE, explain: &explain }, &sources);
    let names = elements(&text);
    for name in ["script", "img"] {
        assert!(!names.iter().any(|found| found == name), "{name}");
    }
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !text.contains("<script"));
    assert!(!text.contains(['\u{202e}', '\u{1b}']));
}

fn from_csv_of_findings(row: &FindingRow) -> Source {
    let layout =
        crate::report::table::Layout { width: 100, colour: crate::report::table::Colour::Plain, false_alarm: None };
    let mut bytes = Vec::new();
    let written = crate::report::findings::write(
        crate::report::Format::Csv,
        &run("audit"),
        std::slice::from_ref(row),
        &[],
        &layout,
        &mut bytes,
    );
    written.expect("a vector takes every byte");
    Source::read("audit.csv", &bytes).expect("own CSV")
}

#[test]
fn csv_and_json_of_the_same_rows_are_read_as_the_same_rows() {
    let rows = [statistic("logit_mean", 5, Verdict::Upheld), statistic("q_mean", 5, Verdict::Undecided)];
    let (json, csv) = (from_json("variance", &rows), from_csv(&rows));
    assert_eq!((json.form, csv.form), (Form::Json, Form::Csv));
    assert_eq!(json.content, Content::Statistics(rows.to_vec()));
    assert_eq!(csv.content, json.content);
    assert_eq!((json.seed, csv.seed), (Some(7), Some(7)));
    assert_eq!(from_csv(&[cost(5, 0.5)]).content, Content::Costs(vec![cost(5, 0.5)]));
    assert_eq!(from_json("complexity", &[cost(5, 0.5)]).content, Content::Costs(vec![cost(5, 0.5)]));
    assert_eq!(from_csv_of_findings(&finding("WARN")).content, Content::Findings(vec![finding("WARN")], Vec::new()));
}

#[test]
fn the_verdict_of_the_page_is_that_of_the_worst_file() {
    let of = |verdict: Verdict| from_json("variance", &[statistic("q_mean", 5, verdict)]);
    let verdict = |sources: &[Source]| {
        let text = page(sources);
        let start = text.find("id=\"verdict\"").expect("a verdict");
        text[start..]
            .split("<strong>")
            .nth(1)
            .and_then(|rest| rest.split("</strong>").next())
            .expect("words")
            .to_owned()
    };
    let upheld = of(Verdict::Upheld);
    assert_eq!(verdict(std::slice::from_ref(&upheld)), "✔ Every claim holds.");
    assert_eq!(verdict(&[upheld.clone(), of(Verdict::Rejected)]), "✘ Not every claim holds.");
    assert!(verdict(&[upheld.clone(), of(Verdict::Undecided)]).starts_with("? Undecided"));
    assert_eq!(verdict(&[of(Verdict::Measured)]), "! Nothing was judged.");
    // A file without a claim beside one with: that is no pass either.
    assert_eq!(verdict(&[upheld.clone(), of(Verdict::Measured)]), "! Not everything was judged.");
    assert_eq!(verdict(&[upheld, from_json("probe", &[case("failed")])]), "! Not everything was judged.");
    assert_eq!(verdict(&[from_json("probe", &[case("nondeterministic")])]), "✘ Not every claim holds.");
    assert_eq!(verdict(&[from_json("check", &[claim(ClaimVerdict::Error)])]), "! Not everything was judged.");
    assert_eq!(verdict(&[from_csv_of_findings(&finding("FAIL"))]), "✘ Not every claim holds.");
    assert_eq!(verdict(&[from_csv_of_findings(&finding("CANNOT TELL"))]), "! Nothing was judged.");
    // What is warned of or cannot be told is no claim, and no reason to say that all is well.
    let audit = |verdicts: &[&str]| Source {
        content: Content::Findings(verdicts.iter().map(|word| finding(word)).collect(), Vec::new()),
        ..from_csv_of_findings(&finding("PASS"))
    };
    assert_eq!(verdict(&[audit(&["PASS", "WARN"])]), "! No claim is rejected; 1 warning.");
    assert_eq!(
        verdict(&[audit(&["PASS", "CANNOT TELL", "WARN", "CANNOT TELL"])]),
        "! No claim is rejected; 1 warning, 2 could not be told."
    );
    assert_eq!(verdict(&[audit(&["PASS", "CANNOT TELL"])]), "? No claim is rejected; 1 could not be told.");
    assert_eq!(verdict(&[audit(&["PASS", "WARN", "FAIL"])]), "✘ Not every claim holds.");
    let suite = |explanation: &str| {
        let noted = ClaimRow { explanation: explanation.into(), ..claim(ClaimVerdict::Noted) };
        from_json("check", &[claim(ClaimVerdict::Upheld), noted])
    };
    assert_eq!(verdict(&[suite("WARN: saturated")]), "! No claim is rejected; 1 warning.");
    assert_eq!(verdict(&[suite("no value in either run")]), "✔ Every claim holds.");
    let exponent = |inside| CostRow {
        exponent_of: Some("n".into()),
        exponent: Some(1.9),
        exponent_expected: Some(2.0),
        expected_inside: inside,
        ..cost(5, 1.0)
    };
    let counted = CostRow { difference: Some(0.0), verdict: Some(Verdict::Upheld), ..cost(5, 1.0) };
    let costs = |inside| from_json("complexity", &[counted.clone(), exponent(inside)]);
    assert_eq!(verdict(&[costs(None)]), "? No claim is rejected; 1 could not be told.");
    assert_eq!(verdict(&[costs(Some(true))]), "✔ Every claim holds.");
}

#[test]
fn warnings_and_what_cannot_be_told_are_named_at_the_top_with_their_file_and_not_in_the_colour_of_a_pass() {
    let text = page(&[from_csv_of_findings(&finding("WARN"))]);
    let top = text.split("<main>").next().expect("a top");
    assert!(top.contains("<h2>Warnings</h2>") && top.contains("; in <bdi>a"), "{top}");
    assert!(top.contains("class=\"overall undecided\"") && !top.contains("Upheld is no proof"), "{top}");
    assert!(top.contains("<td class=\"verdict undecided\"><span aria-hidden=\"true\">! </span>warned</td>"), "{top}");
}

#[test]
fn a_claim_that_does_not_hold_is_named_with_scale_width_and_file_and_the_verdict_comes_with_its_caveat() {
    let rows = [
        Row { scale: Some("inv-sqrt-dk".into()), ..statistic("logit_mean", 61, Verdict::Rejected) },
        Row { scale: None, ..statistic("q_mean", 61, Verdict::Upheld) },
    ];
    let text = page(&[from_json("variance", &rows)]);
    let top = text.split("<main>").next().expect("a top");
    let named = top.split("<ul>").nth(1).and_then(|rest| rest.split("</ul>").next()).expect("a list");
    assert!(named.contains("<bdi>scale 1/√d_k, d_k = 61, estimate"), "{named}");
    assert!(named.contains("; in <bdi>a.json</bdi>"), "{named}");
    assert!(top.contains("Upheld is no proof: a deviation smaller than ‘detects’ can hide."), "{top}");
    // A row without a scale has none at the top either.
    let text =
        page(&[from_json("variance", &[rows[0].clone(), Row { verdict: Verdict::Rejected, ..rows[1].clone() }])]);
    assert!(text.contains("<bdi>d_k = 61, estimate"), "{text}");
}

#[test]
fn rows_of_several_runs_in_one_csv_file_are_refused() {
    let read = |rows: &[Row]| {
        let mut bytes = Vec::new();
        csv::write(rows, &mut bytes).expect("a vector takes every byte");
        Source::read("a.csv", &bytes).map(|source| source.content)
    };
    let row = statistic("q_mean", 5, Verdict::Upheld);
    let other = |change: &dyn Fn(&mut Row)| {
        let mut other = statistic("k_mean", 5, Verdict::Upheld);
        change(&mut other);
        read(&[row.clone(), other]).expect_err("two runs")
    };
    assert!(other(&|row| row.command = "mask".into()).contains("column command is 'variance' and 'mask'"));
    assert!(other(&|row| row.version = "9.9.9".into()).contains("column version is '0.1.0' and '9.9.9'"));
    let again = Row { trials: Some(13), seed: Some(8), verdict: Verdict::Rejected, ..row.clone() };
    assert!(read(&[row.clone(), again]).expect_err("twice").contains("q_mean stands twice"));
    for other in [Row { index: Some(1), ..row.clone() }, Row { scale: Some("2".into()), ..row.clone() }] {
        assert!(read(&[row.clone(), other]).is_ok());
    }
}

#[test]
fn a_json_file_gives_its_command_without_destinations_and_a_csv_file_says_that_it_has_none() {
    let rows = [
        Row { method: Some("gram-draw".into()), ..statistic("logit_mean", 5, Verdict::Upheld) },
        Row { method: Some("gram-draw".into()), ..statistic("logit_mean", 7, Verdict::Upheld) },
        Row { d_k: None, trials: Some(22), ..statistic("variance_slope", 5, Verdict::Upheld) },
    ];
    let source = from_json("variance", &rows);
    let invocation = Some("attn variance --false-alarm 1e-4 -o a.json -q --plot a.svg".to_owned());
    let text = page(&[Source { invocation, ..source }]);
    let command = "<bdi>attn variance <span class=\"whole\">--false-alarm</span> 1e-4</bdi>";
    assert!(text.contains("To reproduce it:") && text.contains(command), "{text}");
    assert!(text.contains("<dd><bdi>1e-4</bdi></dd>"));
    let text = page(&[from_csv(&rows)]);
    assert!(text.contains("The CSV does not hold the whole command line; write JSON (-o result.json) to keep it."));
    assert!(!text.contains("To reproduce it") && !text.contains("attn variance <span"), "{text}");
    // What the columns tell are facts; the trials of a slope are those of the whole sweep.
    let fact = |name: &str, value: &str| text.contains(&format!("<dt>{name}</dt>\n<dd><bdi>{value}</bdi></dd>"));
    assert!(fact("trials", "11") && fact("method", "gram-draw") && fact("scale of the logits", "none"), "{text}");
}

#[test]
fn a_claim_of_one_row_does_not_repeat_the_picture_of_all() {
    let row = |name: &str, d_k| statistic(name, d_k, Verdict::Upheld);
    let pictures = |rows: &[Row]| page(&[from_json("variance", rows)]).matches("<svg").count();
    assert_eq!(pictures(&[row("q_mean", 5), row("k_mean", 5)]), 1, "that of all");
    assert_eq!(pictures(&[row("q_mean", 5)]), 1, "its own");
    assert_eq!(pictures(&[row("q_mean", 5), row("k_mean", 5), row("k_mean", 7)]), 2);
}

#[test]
fn long_tables_show_what_does_not_hold_first() {
    let mut rows: Vec<Row> =
        (0..97).map(|index| Row { index: Some(index), ..statistic("entropy", 5, Verdict::Upheld) }).collect();
    rows[89].verdict = Verdict::Rejected;
    let text = page(&[from_csv(&rows)]);
    let (before, after) = text.split_once("All 97 lines").expect("the rest is folded");
    let lines = |text: &str| text.matches("<th scope=\"row\"><bdi>entropy[").count();
    assert_eq!((lines(before), lines(after)), (1, 97));
}

#[test]
fn what_is_no_result_is_told_what_it_should_be() {
    let read = |bytes: &[u8]| Source::read("x", bytes).expect_err("no result");
    for bytes in [&b"a,b\n1,2\n"[..], b"\xff\xfe\x00", b"{\"rows\":[]}", b"plain text", b"<html></html>"] {
        assert!(read(bytes).starts_with("is not a result of attn as JSON or CSV"), "{}", read(bytes));
    }
    assert!(read(b" \n").starts_with("is empty"));
    assert!(read(b"{\"command\":\"variance\"").starts_with("its JSON cannot be read"));
    assert!(read(b"{\"command\":\"merge\"}").contains("its command is 'merge'"));
    let wrong = "{\"command\":\"variance\",\"invocation\":\"\",\"version\":\"\",\"seed\":1,\"remarks\":[],\"rows\":[{\"statistic\":3}]}";
    assert!(read(wrong.as_bytes()).starts_with("its rows cannot be read"));
    let mut cut = Vec::new();
    csv::write(&[statistic("q_mean", 5, Verdict::Upheld)], &mut cut).expect("a vector takes every byte");
    assert!(read(&cut[..cut.len() - 12]).starts_with("a row cannot be read"));
    assert!(read(b"command,trial,invocation,version\n").contains("per-trial"));
    let layout = String::from_utf8(cut).expect("UTF-8").replace("variance,", "other,");
    assert!(read(layout.as_bytes()).contains("a row's command is 'other'"));
}

#[test]
fn a_word_that_is_no_verdict_of_an_audit_is_refused() {
    let text = format!(
        "{{\"command\":\"audit\",\"invocation\":\"\",\"version\":\"\",\"remarks\":[],\"findings\":[{}],\"heads\":[]}}",
        serde_json::to_string(&finding("pass")).expect("a row")
    );
    assert!(Source::read("x", text.as_bytes()).expect_err("no verdict").contains("verdict is 'pass'"));
}
