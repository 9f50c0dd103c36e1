//! Sections as HTML.

use super::claim::{badge, claim, figure, standing, verdict_cell};
use super::markup::Markup;
use super::section::{Group, Line, Section, Standing, Tally};
use super::{Frame, overall};

const STYLE: &str = include_str!("style.css");
/// Nothing may be loaded and nothing may run, whatever a file has in it.
const POLICY: &str = include_str!("policy.txt");
/// What no number of claims that hold can take away.
const CAVEAT: &str = " Upheld is no proof: a deviation smaller than ‘detects’ can hide.";
/// Claims that do not hold which are named at the top.
const NAMED_AT_TOP: usize = 24;
/// A longer word of a command may be broken, so that it has room on a phone.
const LONGEST_WHOLE_WORD: usize = 28;
/// A taller picture of all claims is shown where it is asked for.
const TALLEST_OVERVIEW: u32 = 1200;

/// The page.
pub fn render(frame: &Frame, sections: &[Section]) -> String {
    let mut markup = Markup::default();
    markup.verbatim("<!DOCTYPE html>\n");
    markup.open("html", &[("lang", "en"), ("xmlns", "http://www.w3.org/1999/xhtml")]);
    head(&mut markup, frame, sections);
    markup.open("body", &[]);
    top(&mut markup, frame, sections);
    markup.element("main", &[], |markup| {
        for (number, section) in sections.iter().enumerate() {
            file(markup, number + 1, section);
        }
        reading(markup);
    });
    markup.element("footer", &[], |markup| {
        markup.leaf("p", &[], concat!("This page was made by attn ", env!("CARGO_PKG_VERSION"), " with"));
        command(markup, frame.invocation);
        markup.leaf("p", &[], "It is whole in itself: it loads nothing and runs no script.");
    });
    markup.finish()
}

fn head(markup: &mut Markup, frame: &Frame, sections: &[Section]) {
    markup.element("head", &[], |markup| {
        markup.void("meta", &[("charset", "utf-8")]);
        markup.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
        markup.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY.trim_end())]);
        markup.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
        markup.void("meta", &[("name", "generator"), ("content", concat!("attn ", env!("CARGO_PKG_VERSION")))]);
        // Without it a browser asks a server for one.
        markup.void("link", &[("rel", "icon"), ("href", "data:,")]);
        markup.leaf("title", &[], &format!("{}: {}", frame.title, words(overall(sections), sections)));
        markup.element("style", &[], |markup| markup.verbatim(STYLE));
    });
}

/// The verdict in words.
fn words(standing: Standing, sections: &[Section]) -> String {
    let tally = together(sections);
    let reserve = || match tally.reserve().as_str() {
        "" => String::new(),
        found => format!("; {found}"),
    };
    match standing {
        Standing::Rejected => "not every claim holds".to_owned(),
        Standing::Undecided => "undecided: nothing is rejected, but not every claim could be judged".to_owned(),
        Standing::Warned | Standing::Untold => format!("no claim is rejected{}", reserve()),
        Standing::Upheld | Standing::Noted | Standing::Measured => "every claim holds".to_owned(),
        Standing::NoData if tally.claims() == 0 => "nothing was judged".to_owned(),
        Standing::NoData => "not everything was judged".to_owned(),
    }
}

fn together(sections: &[Section]) -> Tally {
    sections.iter().fold(Tally::default(), |tally, section| tally.and(section.tally()))
}

fn top(markup: &mut Markup, frame: &Frame, sections: &[Section]) {
    markup.element("header", &[], |markup| {
        markup.element("h1", &[], |markup| markup.foreign(frame.title));
        let standing = overall(sections);
        let tally = together(sections);
        markup.element("p", &[("class", &format!("overall {}", standing.class())), ("id", "verdict")], |markup| {
            let words = words(standing, sections);
            let (first, rest) = words.split_at(1);
            markup.leaf("strong", &[], &format!("{} {}{rest}.", standing.mark(), first.to_uppercase()));
            let files = if sections.len() == 1 { "1 file".to_owned() } else { format!("{} files", sections.len()) };
            markup.leaf("span", &[], &format!(" {files}, {}.", tally.sentence()));
            if tally.number(Standing::Upheld) > 0 {
                markup.leaf("span", &[], CAVEAT);
            }
        });
        files(markup, sections);
        wrong(markup, sections);
    });
}

/// One line a file.
fn files(markup: &mut Markup, sections: &[Section]) {
    markup.open("div", &[("class", "scroll"), ("role", "region"), ("aria-label", "Files"), ("tabindex", "0")]);
    markup.open("table", &[("id", "files")]);
    markup.leaf("caption", &[], "The files of this page");
    markup.element("thead", &[], |markup| {
        markup.element("tr", &[], |markup| {
            for name in ["verdict", "file", "command", "claims"] {
                markup.leaf("th", &[("scope", "col")], name);
            }
        });
    });
    markup.open("tbody", &[]);
    for (number, section) in sections.iter().enumerate() {
        let tally = section.tally();
        markup.element("tr", &[], |markup| {
            let word = if tally.worst() == Standing::NoData && tally.claims() == 0 {
                "nothing judged"
            } else {
                tally.worst().word()
            };
            verdict_cell(markup, tally.worst(), word);
            markup.element("th", &[("scope", "row")], |markup| {
                markup.element("a", &[("href", &format!("#file-{}", number + 1))], |markup| {
                    markup.foreign(&section.file)
                });
            });
            markup.leaf("td", &[], &format!("attn {}", section.command));
            markup.leaf("td", &[], &tally.sentence());
        });
    }
    markup.close();
    markup.close();
    markup.close();
}

/// What does not hold or could not be judged, by name.
fn wrong(markup: &mut Markup, sections: &[Section]) {
    let mut found: Vec<(Standing, String, &Section, &Group, &Line)> = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        for (place, group) in section.groups.iter().enumerate() {
            let lines = group.table.lines.iter().filter(|line| line.standing < Standing::Upheld);
            found.extend(lines.map(|line| (line.standing, claim_id(number + 1, place + 1), section, group, line)));
        }
    }
    if found.is_empty() {
        return;
    }
    found.sort_by_key(|(standing, ..)| *standing);
    let (first, last) = (found[0].0, found[found.len() - 1].0);
    let is_warned = found.iter().any(|(standing, ..)| *standing == Standing::Warned);
    let heading = match (first == Standing::Rejected, last == Standing::Rejected, is_warned) {
        (true, true, _) => "What does not hold",
        (true, false, false) => "What does not hold or could not be judged",
        (true, false, true) => "What does not hold, was warned of or could not be judged",
        (false, _, true) if first == Standing::Warned && last == Standing::Warned => "Warnings",
        (false, _, true) => "What was warned of or could not be judged",
        (false, _, false) => "What could not be judged",
    };
    markup.leaf("h2", &[], heading);
    markup.element("ul", &[], |markup| {
        for (standing, id, section, group, line) in found.iter().take(NAMED_AT_TOP) {
            markup.element("li", &[], |markup| {
                badge(markup, *standing, &line.word);
                markup.text(" ");
                markup.element("a", &[("href", &format!("#{id}"))], |markup| markup.foreign(&group.name));
                markup.text(": ");
                markup.foreign(&described(group, line));
                // On paper a link leads nowhere.
                markup.text("; in ");
                markup.foreign(&section.file);
            });
        }
    });
    if found.len() > NAMED_AT_TOP {
        markup.leaf("p", &[("class", "faint")], &format!("And {} more, below.", found.len() - NAMED_AT_TOP));
    }
}

/// Columns of what to do about it.
const ADVICE: [&str; 2] = ["likeliest cause", "what would confirm it"];

/// Columns that the setting of a line has in words.
const SETTING: [&str; 2] = ["scale", "d_k"];

/// A line of a table in one line of text.
fn described(group: &Group, line: &Line) -> String {
    let named = group.table.columns.iter().zip(&line.cells).enumerate().filter(|(_, (_, cell))| !cell.is_empty());
    // The first cell names the line, where the name of the group does not do it.
    let parts = named.filter(|(index, (_, cell))| *index > 0 || **cell != group.name);
    let parts = parts.filter(|(_, ((name, _), _))| !ADVICE.contains(&name.as_str()));
    let parts = parts.filter(|(_, ((name, _), _))| line.setting.is_empty() || !SETTING.contains(&name.as_str()));
    let parts = parts.map(|(index, ((name, _), cell))| match name.as_str() {
        "what is seen" => cell.clone(),
        _ if index == 0 => cell.clone(),
        name => format!("{name} {cell}"),
    });
    let setting = Some(line.setting.clone()).filter(|words| !words.is_empty());
    setting.into_iter().chain(parts).collect::<Vec<_>>().join(", ")
}

fn claim_id(file: usize, claim: usize) -> String {
    format!("file-{file}-claim-{claim}")
}

fn file(markup: &mut Markup, number: usize, section: &Section) {
    let tally = section.tally();
    markup.open("section", &[("id", &format!("file-{number}")), ("class", "file")]);
    markup.element("h2", &[], |markup| {
        markup.text(&format!("attn {}: ", section.command));
        markup.foreign(&section.file);
    });
    markup.element("p", &[], |markup| {
        badge(markup, tally.worst(), &words(tally.worst(), std::slice::from_ref(section)));
        markup.text(&format!(" ({})", tally.sentence()));
    });
    for remark in &section.remarks {
        markup.element("p", &[("class", "remark")], |markup| markup.foreign(remark));
    }
    markup.element("dl", &[], |markup| {
        for (name, value) in &section.facts {
            markup.leaf("dt", &[], name);
            markup.element("dd", &[], |markup| markup.foreign(value));
        }
    });
    if !section.commands.is_empty() {
        markup.leaf("p", &[("class", "faint")], "To reproduce it:");
        command(markup, &section.commands.join("\n"));
    }
    if !section.note_on_commands.is_empty() {
        markup.leaf("p", &[("class", "faint")], &section.note_on_commands);
    }
    if let Some(drawing) = &section.overview {
        let id = format!("file-{number}-overview");
        match drawing.picture.height() > TALLEST_OVERVIEW {
            false => figure(markup, drawing, &id),
            true => markup.element("details", &[], |markup| {
                markup.leaf("summary", &[], &drawing.title);
                figure(markup, drawing, &id);
            }),
        }
    }
    if section.groups.len() > 1 {
        index(markup, number, section);
    }
    for (place, group) in section.groups.iter().enumerate() {
        claim(markup, &claim_id(number, place + 1), group);
    }
    markup.close();
}

fn command(markup: &mut Markup, line: &str) {
    // A browser would break a line between the two hyphens of an option and its name.
    let lines = line.split('\n').map(|line| line.split(' ').collect::<Vec<_>>()).collect::<Vec<_>>();
    markup.open("pre", &[]);
    markup.open("code", &[]);
    markup.open("bdi", &[]);
    for (number, words) in lines.iter().enumerate() {
        if number > 0 {
            markup.text("\n");
        }
        for (place, word) in words.iter().enumerate() {
            if place > 0 {
                markup.text(" ");
            }
            match word.starts_with('-') && word.chars().count() <= LONGEST_WHOLE_WORD {
                true => markup.leaf("span", &[("class", "whole")], word),
                false => markup.text(word),
            }
        }
    }
    (0..3).for_each(|_| markup.close());
}

/// Links to the claims of a file.
fn index(markup: &mut Markup, number: usize, section: &Section) {
    markup.element("nav", &[("aria-label", &format!("Claims of file {number}"))], |markup| {
        markup.element("ul", &[("class", "index")], |markup| {
            for (place, group) in section.groups.iter().enumerate() {
                markup.element("li", &[], |markup| {
                    let standing = standing(group);
                    let class = format!("badge {}", standing.class());
                    markup.leaf(
                        "span",
                        &[("class", &class), ("title", standing.word())],
                        &format!("{} ", standing.mark()),
                    );
                    markup.element("a", &[("href", &format!("#{}", claim_id(number, place + 1)))], |markup| {
                        markup.foreign(&group.name);
                    });
                });
            }
        });
    });
}

/// What the words on the page mean.
fn reading(markup: &mut Markup) {
    let terms = [
        (
            "Notation",
            "n queries, m keys, d_k columns of Q and K, c the scale. Logits S = c·QKᵀ, weights P = softmax of S over the keys, output O = PV. \
            A trial is one independent draw; it is the unit of replication.",
        ),
        (
            "Upheld",
            "The claim holds, and a deviation of the size asked for (--detect) would have been seen; PASS of an audit, right of a probe.",
        ),
        (
            "Rejected",
            "The claim does not hold: its p-value, corrected over all rows of the run (Holm 1979), is below the false-alarm rate; FAIL of an \
            audit, wrong of a probe.",
        ),
        ("Warned", "Wrong unless it is meant: WARN of an audit. The line says what to look at; it counts as no claim."),
        (
            "Could not be told",
            "Asked, but the file or the run does not hold enough to tell: CANNOT TELL of an audit, an exponent that is not judged.",
        ),
        ("Undecided", "Nothing against it, but too few trials to see a deviation of the size asked for."),
        ("Without data", "It could not be run, or gave no answer. That is never a pass."),
        ("Noted, measured", "Worth reading, but no claim: what is not supported, numbers without a theory."),
        ("Estimate (95 %)", "The measured value and its 95 % limits, rounded to two digits of their half-width."),
        (
            "Deviation, detects",
            "In per cent of theory, or of the statistic's natural scale where that is larger; detects is the smallest \
            deviation that the run would have seen. ≈ marks an approximate theory, → an asymptotic one.",
        ),
        (
            "False-alarm rate",
            "The probability that a correct implementation is rejected anywhere in one run. Each file has its own: for several files \
            the probability that any of them rejects is at most the sum.",
        ),
    ];
    markup.element("section", &[("id", "reading")], |markup| {
        markup.leaf("h2", &[], "How to read this page");
        markup.element("dl", &[], |markup| {
            for (term, meaning) in terms {
                markup.leaf("dt", &[], term);
                markup.leaf("dd", &[], meaning);
            }
        });
    });
}
