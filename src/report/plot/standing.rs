//! What became of something that was checked, drawn the same way in every picture: a colour, a form and a sign.

use plotters::style::RGBColor;

use super::palette::{BLUE, GREEN, INK, ORANGE, PURPLE, VERMILLION};
use super::picture::{Anchor, Marker, Picture, width_of};
use crate::report::row::Verdict;

/// How something stands, whatever its subcommand calls it. In the order of painting: what matters lies on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// As it should be.
    Good,
    /// Nothing to hold it against, or not there to be checked.
    Noted,
    /// Not known, or worth a look.
    Open,
    /// No data: it failed.
    Lost,
    /// Not as it should be.
    Bad,
}

impl Standing {
    pub fn colour(self) -> RGBColor {
        match self {
            Self::Good => GREEN,
            Self::Noted => BLUE,
            Self::Open => ORANGE,
            Self::Lost => PURPLE,
            Self::Bad => VERMILLION,
        }
    }

    pub fn marker(self) -> Marker {
        match self {
            Self::Good => Marker::Circle,
            Self::Noted => Marker::Square,
            Self::Open => Marker::Triangle,
            Self::Lost => Marker::Cross,
            Self::Bad => Marker::Diamond,
        }
    }

    /// The sign before the word.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Good => "✔",
            Self::Noted => "·",
            Self::Open => "?",
            Self::Lost | Self::Bad => "✘",
        }
    }
}

impl From<Verdict> for Standing {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Upheld => Self::Good,
            Verdict::Rejected => Self::Bad,
            Verdict::Undecided => Self::Open,
            Verdict::Measured => Self::Noted,
        }
    }
}

/// One line of markers and words: what the forms mean.
pub fn key(picture: &mut Picture, (mut x, y): (f64, f64), entries: &[(Standing, String)]) {
    for (standing, words) in entries {
        picture.mark((x, y), standing.marker(), standing.colour());
        picture.text((x + 11.0, y), words.as_str(), 14.0, Anchor::Left, INK);
        x += 34.0 + width_of(words, 14.0);
    }
}

/// The text cut to `width` units at this size of letters, with `…` for what is left out.
pub fn shortened(text: &str, width: f64, size: f64) -> String {
    if width_of(text, size) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    loop {
        kept.pop();
        let short = kept.iter().collect::<String>().trim_end().to_owned() + "…";
        if kept.is_empty() || width_of(&short, size) <= width {
            return short;
        }
    }
}

/// The text in at most `most` lines of `width` units at this size of letters.
pub fn in_lines(text: &str, width: f64, size: f64, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(last) = lines.last_mut() else { break };
        let longer = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        if last.is_empty() || width_of(&longer, size) <= width {
            *last = longer;
        } else {
            lines.push(word.to_owned());
        }
        if lines.len() > most {
            break;
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        lines.iter_mut().next_back().into_iter().for_each(|last| last.push_str(" …"));
    }
    lines.iter().map(|line| shortened(line, width, size)).collect()
}

/// A finding in words below a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub standing: Standing,
    pub text: String,
}

/// Height of a line of remarks.
const LINE: f64 = 19.0;
/// Length of a line of remarks, and the size of its letters.
const LENGTH: f64 = 744.0;
const LETTERS: f64 = 13.0;
/// Lines of one remark, and remarks that are shown.
const MOST_LINES: usize = 2;
const MOST_REMARKS: usize = 12;

/// The lines of the first remarks, the first line of each with its standing, and how many are left out.
fn remark_lines(remarks: &[Remark]) -> Vec<(Option<Standing>, String)> {
    let mut lines = Vec::new();
    for remark in remarks.iter().take(MOST_REMARKS) {
        for (index, line) in in_lines(&remark.text, LENGTH, LETTERS, MOST_LINES).into_iter().enumerate() {
            lines.push(((index == 0).then_some(remark.standing), line));
        }
    }
    if remarks.len() > MOST_REMARKS {
        lines.push((None, format!("and {} more", remarks.len() - MOST_REMARKS)));
    }
    lines
}

/// Height of the remarks in units of the picture.
pub fn remarks_height(remarks: &[Remark]) -> f64 {
    LINE * remark_lines(remarks).len() as f64
}

/// Writes the remarks below each other from `y` down.
pub fn write_remarks(picture: &mut Picture, remarks: &[Remark], y: f64) {
    for (index, (standing, line)) in remark_lines(remarks).into_iter().enumerate() {
        let y = y + LINE * (index as f64 + 0.5);
        if let Some(standing) = standing {
            picture.mark((28.0, y), standing.marker(), standing.colour());
        }
        picture.text((40.0, y), line, LETTERS, Anchor::Left, INK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standings_differ_in_form_and_colour() {
        let all = [Standing::Good, Standing::Noted, Standing::Open, Standing::Lost, Standing::Bad];
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(one.marker(), other.marker(), "{one:?} and {other:?}");
                assert_ne!(one.colour(), other.colour(), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn long_texts_are_cut_at_words_and_say_so() {
        assert_eq!(shortened("entropy", 1000.0, 13.0), "entropy");
        let short = shortened("entropies of rows", 71.0, 13.0);
        assert!(short.ends_with('…') && short.starts_with("entrop") && width_of(&short, 13.0) <= 71.0, "{short}");
        let wide = width_of("one two three", 13.0);
        assert_eq!(in_lines("one two three", wide, 13.0, 5), ["one two three"]);
        assert_eq!(in_lines("one two three", wide - 1.0, 13.0, 5), ["one two", "three"]);
        assert_eq!(
            in_lines("one two three four five", width_of("three four …", 13.0), 13.0, 2),
            ["one two", "three four …"]
        );
    }

    #[test]
    fn of_many_remarks_the_last_line_counts_what_is_left_out() {
        let remarks = vec![Remark { standing: Standing::Bad, text: "wrong".into() }; 17];
        let lines = remark_lines(&remarks);
        assert_eq!((lines.len(), lines[12].1.as_str()), (13, "and 5 more"));
        assert_eq!(remarks_height(&remarks), 13.0 * LINE);
    }
}
