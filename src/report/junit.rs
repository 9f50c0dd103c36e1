//! Claims as JUnit XML, in the form that CI systems read (the schema of Jenkins' xUnit plugin): a test suite for each item,
//! a test case for each claim.

use std::io::{self, Write};
use std::time::Duration;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::claims::{ClaimRow, ClaimVerdict, Count, reason};

/// An item of the suite: its name, how long it took, its claims.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// Name in the suite.
    pub name: &'a str,
    /// Wall time.
    pub time: Duration,
    /// Its claims, in order.
    pub rows: &'a [ClaimRow],
}

/// Writes the report. A rejected claim is a failure and so is an undecided one (it never passes; their `type` says which), a claim
/// without data an error, what is only noted is skipped. The command line and the seed are properties of the test suite.
///
/// # Errors
/// Those of `output`.
pub fn write(items: &[Item], mut output: impl Write) -> io::Result<()> {
    let mut writer = Writer::new_with_indent(&mut output, b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all: Vec<ClaimRow> = items.iter().flat_map(|item| item.rows.iter().cloned()).collect();
    let [tests, failures, errors, _] = counts(&all);
    let time = seconds(items.iter().map(|item| item.time).sum());
    writer
        .create_element("testsuites")
        .with_attributes([
            ("name", "attn check"),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("time", &time),
        ])
        .write_inner_content(|writer| items.iter().try_for_each(|item| suite(item, writer)))?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Tests, failures, errors, skipped.
fn counts(rows: &[ClaimRow]) -> [String; 4] {
    let count = Count::of(rows);
    let failures = count.number(ClaimVerdict::Rejected) + count.number(ClaimVerdict::Undecided);
    let errors = count.number(ClaimVerdict::Error);
    [rows.len(), failures, errors, count.number(ClaimVerdict::Noted)].map(|number| number.to_string())
}

/// The schema allows three digits after the point.
fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn suite<W: Write>(item: &Item, writer: &mut Writer<W>) -> io::Result<()> {
    let [tests, failures, errors, skipped] = counts(item.rows);
    let time = seconds(item.time);
    let name = legal(item.name);
    let attributes = [
        ("name", name.as_str()),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
        ("time", &time),
    ];
    writer.create_element("testsuite").with_attributes(attributes).write_inner_content(|writer| {
        writer.create_element("properties").write_inner_content(|writer| {
            let Some(first) = item.rows.first() else { return Ok(()) };
            let seed = first.seed.map(|seed| seed.to_string());
            let properties =
                [("command", Some(legal(&first.invocation))), ("version", Some(legal(&first.version))), ("seed", seed)];
            for (name, value) in properties.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                writer.create_element("property").with_attributes([("name", name), ("value", &value)]).write_empty()?;
            }
            Ok(())
        })?;
        item.rows.iter().try_for_each(|row| case(row, writer))
    })?;
    Ok(())
}

fn case<W: Write>(row: &ClaimRow, writer: &mut Writer<W>) -> io::Result<()> {
    let (claim, class) = (legal(&row.claim), legal(&format!("attn.{}.{}", row.item.replace('.', "_"), row.kind)));
    let element = writer.create_element("testcase").with_attributes([("name", claim.as_str()), ("classname", &class)]);
    let outcome = match row.verdict {
        ClaimVerdict::Upheld => return element.write_empty().map(|_| ()),
        ClaimVerdict::Rejected | ClaimVerdict::Undecided => "failure",
        ClaimVerdict::Error => "error",
        ClaimVerdict::Noted => "skipped",
    };
    element.write_inner_content(|writer| {
        let why = legal(&reason(row));
        let outcome = writer.create_element(outcome).with_attributes([("type", row.verdict.word()), ("message", &why)]);
        outcome.write_text_content(BytesText::new(&why)).map(|_| ())
    })?;
    Ok(())
}

/// XML 1.0 has no control characters but tab and line ends, not even escaped.
fn legal(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\t' | '\n' | '\r')).collect()
}
