//! A claim as HTML.

use super::formula;
use super::markup::Markup;
use super::meanings::Meaning;
use super::section::{Alignment, Drawing, Group, Line, Standing, Table};

/// Lines of a table that are shown without being asked for.
const OPEN_LINES: usize = 60;
/// A column with a longer text gets room for it.
const LONG_CELL: usize = 36;
/// Of more statistics together the formulas stand alone; each says more where it has a place of its own.
const SPOKEN_MEANINGS: usize = 2;

/// A verdict in a line of text.
pub fn badge(markup: &mut Markup, standing: Standing, word: &str) {
    markup.element("span", &[("class", &format!("badge {}", standing.class()))], |markup| {
        markup.leaf("span", &[("aria-hidden", "true")], &format!("{} ", standing.mark()));
        markup.text(word);
    });
}

/// The worst claim of a group; without one, what stands there instead.
pub fn standing(group: &Group) -> Standing {
    group.table.tally().first()
}

/// A claim: its name and verdict, formula beside picture, table.
pub fn claim(markup: &mut Markup, id: &str, group: &Group) {
    let standing = standing(group);
    markup.open("section", &[("class", "claim"), ("id", id)]);
    markup.element("h3", &[], |markup| {
        markup.foreign(&group.name);
        markup.text(" ");
        badge(markup, standing, standing.word());
    });
    markup.element("div", &[("class", "beside")], |markup| {
        markup.element("div", &[("class", "meaning")], |markup| {
            match group.meanings.len() <= SPOKEN_MEANINGS {
                true => group.meanings.iter().for_each(|(name, meaning)| spoken(markup, name, meaning)),
                false => group.meanings.iter().for_each(|(name, meaning)| brief(markup, name, meaning)),
            }
            explanation(markup, &group.explanation);
        });
        if !group.drawings.is_empty() {
            markup.element("div", &[], |markup| {
                for (number, drawing) in group.drawings.iter().enumerate() {
                    figure(markup, drawing, &format!("{id}-picture-{}", number + 1));
                }
            });
        }
    });
    tables(markup, group);
    for note in &group.notes {
        markup.element("p", &[("class", "faint")], |markup| markup.foreign(note));
    }
    markup.close();
}

/// A statistic in words, with its formulas and where they come from.
fn spoken(markup: &mut Markup, name: &str, meaning: &Meaning) {
    markup.element("p", &[], |markup| {
        if !name.is_empty() {
            markup.leaf("strong", &[], &format!("{name} "));
        }
        markup.text(meaning.words);
    });
    meaning.formulas.iter().for_each(|latex| set(markup, latex));
    markup.leaf("p", &[("class", "faint")], &format!("{}.", meaning.source));
}

/// A statistic by its name and first formula.
fn brief(markup: &mut Markup, name: &str, meaning: &Meaning) {
    markup.element("div", &[("class", "brief")], |markup| {
        markup.leaf("strong", &[("title", meaning.words)], name);
        meaning.formulas.iter().take(1).for_each(|latex| set(markup, latex));
    });
}

fn set(markup: &mut Markup, latex: &str) {
    markup.element("div", &[("class", "formula")], |markup| markup.verbatim(&formula::display(latex)));
}

/// The question and the formula of a check; the rest where it is asked for.
fn explanation(markup: &mut Markup, text: &str) {
    let mut paragraphs = text.split("\n\n").flat_map(|block| block.split('\n')).filter(|line| !line.trim().is_empty());
    let Some(first) = paragraphs.next() else { return };
    markup.leaf("p", &[], first);
    let (formulas, others): (Vec<&str>, Vec<&str>) = paragraphs.partition(|line| line.starts_with("Formula"));
    formulas.iter().for_each(|line| markup.leaf("p", &[("class", "in-words")], line));
    if !others.is_empty() {
        markup.element("details", &[], |markup| {
            markup.leaf("summary", &[], "When it fails, and where it is blind");
            others.iter().for_each(|line| markup.leaf("p", &[], line));
        });
    }
}

/// A picture that scrolls in its own box where there is no room.
pub fn figure(markup: &mut Markup, drawing: &Drawing, id: &str) {
    markup.element("figure", &[], |markup| {
        let label = format!("Picture: {}", drawing.title);
        let attributes = [("class", "picture"), ("role", "region"), ("aria-label", label.as_str()), ("tabindex", "0")];
        markup.element("div", &attributes, |markup| {
            markup.verbatim(&drawing.picture.to_inline_svg(id, &drawing.title, &drawing.description));
        });
    });
}

/// The table; of a long one the lines that do not hold, and all where they are asked for.
fn tables(markup: &mut Markup, group: &Group) {
    let Table { columns, lines } = &group.table;
    let all: Vec<&Line> = lines.iter().collect();
    if all.len() <= OPEN_LINES {
        table(markup, &group.name, columns, &all);
        return;
    }
    let worst: Vec<&Line> = lines.iter().filter(|line| line.standing < Standing::Upheld).take(OPEN_LINES).collect();
    if !worst.is_empty() {
        table(markup, &format!("{}: what does not hold", group.name), columns, &worst);
    }
    markup.element("details", &[], |markup| {
        markup.leaf("summary", &[], &format!("All {} lines", all.len()));
        table(markup, &group.name, columns, &all);
    });
}

fn table(markup: &mut Markup, name: &str, columns: &[(String, Alignment)], lines: &[&Line]) {
    let label = format!("Table: {name}");
    markup.open("div", &[("class", "scroll"), ("role", "region"), ("aria-label", &label), ("tabindex", "0")]);
    markup.open("table", &[]);
    markup.element("caption", &[], |markup| {
        markup.foreign(name);
        markup.text(&format!(", {} line{}", lines.len(), if lines.len() == 1 { "" } else { "s" }));
    });
    let is_long = |index: usize| {
        lines.iter().any(|line| line.cells.get(index).is_some_and(|cell| cell.chars().count() > LONG_CELL))
    };
    let classes: Vec<&str> = (columns.iter().enumerate())
        .map(|(index, (_, alignment))| match alignment {
            Alignment::Right => "number",
            Alignment::Left if is_long(index) => "long",
            Alignment::Left => "",
        })
        .collect();
    markup.element("thead", &[], |markup| {
        markup.element("tr", &[], |markup| {
            // First, so that it is seen where the table is wider than the screen.
            markup.leaf("th", &[("scope", "col")], "verdict");
            for ((name, _), class) in columns.iter().zip(&classes) {
                markup.leaf("th", &[("scope", "col"), ("class", class)], name);
            }
        });
    });
    markup.open("tbody", &[]);
    for line in lines {
        markup.element("tr", &[], |markup| {
            verdict_cell(markup, line.standing, &line.word);
            for (index, (cell, class)) in line.cells.iter().zip(&classes).enumerate() {
                match (index, *class) {
                    (0, class) => {
                        markup.element("th", &[("scope", "row"), ("class", class)], |markup| markup.foreign(cell))
                    }
                    (_, "number") => markup.leaf("td", &[("class", "number")], cell),
                    (_, class) => markup.element("td", &[("class", class)], |markup| markup.foreign(cell)),
                }
            }
        });
    }
    markup.close();
    markup.close();
    markup.close();
}

/// The cell of a verdict.
pub fn verdict_cell(markup: &mut Markup, standing: Standing, word: &str) {
    markup.element("td", &[("class", &format!("verdict {}", standing.class()))], |markup| {
        markup.leaf("span", &[("aria-hidden", "true")], &format!("{} ", standing.mark()));
        markup.text(word);
    });
}
