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
        assert!(count("svg") >= 1, "{what}");
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
    let layout = crate::report::findings::Layout { width: 100, colour: crate::report::table::Colour::Plain };
    let mut bytes = Vec::new();
    let written = crate::report::findings::write(
        crate::report::Format::Csv,
        &run("audit"),
        std::slice::from_ref(row),
        &[],
        layout,
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
}

#[test]
fn a_json_file_gives_its_command_and_a_csv_file_what_its_columns_tell() {
    let rows = [statistic("logit_mean", 5, Verdict::Upheld), statistic("logit_mean", 7, Verdict::Upheld)];
    let text = page(&[from_json("variance", &rows)]);
    assert!(text.contains("attn variance --false-alarm 1e-4</bdi>") && text.contains("<bdi>1e-4</bdi>"));
    let text = page(&[from_csv(&rows)]);
    assert!(text.contains("attn variance --scale none --dk 5,7 --queries 31 --trials 11 --seed 7</bdi>"), "{text}");
    assert!(text.contains("a CSV file has no command line"));
    let masked = Row {
        command: "mask".into(),
        mask: Some("window:5 claimed window:4".into()),
        index: Some(3),
        ..statistic("leak", 5, Verdict::Rejected)
    };
    let text = page(&[from_csv(&[masked])]);
    assert!(text.contains("attn mask --scale none --kind window:5 --claim window:4 --dk 5 "), "{text}");
    assert!(text.contains(" --by-row --seed 7</bdi>"), "{text}");
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
