//! What a page shows of a file, whatever subcommand wrote it.

use std::collections::BTreeSet;

use super::meanings::Meaning;
use crate::report::plot::Picture;
use crate::report::row::Verdict;

/// What a line amounts to, in the words common to all subcommands; worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A claim that does not hold: rejected, FAIL, wrong.
    Rejected,
    /// A claim without data: an error, a failed case.
    NoData,
    /// Nothing against it, but too little to tell.
    Undecided,
    /// Something that is wrong unless it is meant: WARN.
    Warned,
    /// What was asked and could not be told: CANNOT TELL, an exponent that is not judged.
    Untold,
    /// A claim that holds: upheld, PASS, right.
    Upheld,
    /// Worth reading, no claim: unsupported.
    Noted,
    /// A number without a claim.
    Measured,
}

impl Standing {
    /// Every standing, worst first.
    pub const ALL: [Self; 8] = [
        Self::Rejected,
        Self::NoData,
        Self::Undecided,
        Self::Warned,
        Self::Untold,
        Self::Upheld,
        Self::Noted,
        Self::Measured,
    ];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::NoData => "without data",
            Self::Undecided => "undecided",
            Self::Warned => "warned",
            Self::Untold => "could not be told",
            Self::Upheld => "upheld",
            Self::Noted => "noted",
            Self::Measured => "measured",
        }
    }

    /// The sign before the word.
    pub fn mark(self) -> char {
        match self {
            Self::Rejected => '✘',
            Self::NoData => '!',
            Self::Undecided => '?',
            Self::Warned => '!',
            Self::Untold => '?',
            Self::Upheld => '✔',
            Self::Noted => 'i',
            Self::Measured => '·',
        }
    }

    /// The class that colours it.
    pub fn class(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::NoData => "no-data",
            Self::Undecided | Self::Warned | Self::Untold => "undecided",
            Self::Upheld => "upheld",
            Self::Noted => "noted",
            Self::Measured => "measured",
        }
    }

    /// The verdict whose colour and form it has in pictures.
    pub fn look(self) -> Verdict {
        match self {
            Self::Rejected | Self::NoData => Verdict::Rejected,
            Self::Undecided | Self::Warned | Self::Untold | Self::Noted => Verdict::Undecided,
            Self::Upheld => Verdict::Upheld,
            Self::Measured => Verdict::Measured,
        }
    }
}

impl From<Verdict> for Standing {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Upheld => Self::Upheld,
            Verdict::Rejected => Self::Rejected,
            Verdict::Undecided => Self::Undecided,
            Verdict::Measured => Self::Measured,
        }
    }
}

/// How many lines have each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: [usize; 8],
}

impl Tally {
    /// Counts.
    pub fn of(standings: impl IntoIterator<Item = Standing>) -> Self {
        let mut tally = Self::default();
        standings.into_iter().for_each(|standing| tally.counts[standing as usize] += 1);
        tally
    }

    /// Both together.
    pub fn and(mut self, other: Self) -> Self {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self
    }

    /// Lines with this standing.
    pub fn number(&self, standing: Standing) -> usize {
        self.counts[standing as usize]
    }

    /// Lines that hold a claim.
    pub fn claims(&self) -> usize {
        [Standing::Rejected, Standing::NoData, Standing::Undecided, Standing::Upheld]
            .map(|of| self.number(of))
            .iter()
            .sum()
    }

    /// The verdict of all together: the worst there is. With neither a claim nor a warning nothing was checked, which is no pass.
    pub fn worst(&self) -> Standing {
        match self.claims() + self.number(Standing::Warned) {
            0 => Standing::NoData,
            _ => self.first(),
        }
    }

    /// The worst line, whether it holds a claim or not.
    pub fn first(&self) -> Standing {
        Standing::ALL.into_iter().find(|standing| self.number(*standing) > 0).unwrap_or(Standing::Measured)
    }

    /// `1 warning, 2 could not be told`; empty without any.
    pub fn reserve(&self) -> String {
        let warnings = match self.number(Standing::Warned) {
            0 => None,
            1 => Some("1 warning".to_owned()),
            count => Some(format!("{count} warnings")),
        };
        let untold = Some(self.number(Standing::Untold)).filter(|count| *count > 0);
        let untold = untold.map(|count| format!("{count} could not be told"));
        warnings.into_iter().chain(untold).collect::<Vec<_>>().join(", ")
    }

    /// `11 claims: 9 upheld, 2 rejected; 1 measured`.
    pub fn sentence(&self) -> String {
        let parts = |standings: &[Standing]| {
            let shown = standings.iter().filter(|standing| self.number(**standing) > 0);
            shown
                .map(|standing| format!("{} {}", self.number(*standing), standing.word()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let claims = parts(&[Standing::Upheld, Standing::Rejected, Standing::Undecided, Standing::NoData]);
        let claims = match self.claims() {
            0 => "no claim was judged".to_owned(),
            1 => format!("1 claim: {claims}"),
            count => format!("{count} claims: {claims}"),
        };
        let beside = match parts(&[Standing::Noted, Standing::Measured]).as_str() {
            "" => String::new(),
            others => format!("{others} beside them"),
        };
        [claims, self.reserve(), beside].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// How the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Lines with their cells; the first cell names the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name and alignment.
    pub columns: Vec<(String, Alignment)>,
    /// One cell for each column.
    pub lines: Vec<Line>,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it amounts to.
    pub standing: Standing,
    /// The verdict in the subcommand's own word.
    pub word: String,
    /// The other cells.
    pub cells: Vec<String>,
    /// Scale and width in words, for where the line stands alone.
    pub setting: String,
}

impl Table {
    /// A table from columns, each with the cells of all lines; columns without any text are left out, the first excepted.
    pub fn of(columns: Vec<(&str, Alignment, Vec<String>)>, verdicts: Vec<(Standing, String)>) -> Self {
        let is_shown = |index: usize, cells: &[String]| index == 0 || cells.iter().any(|cell| !cell.is_empty());
        let shown: Vec<_> = columns
            .into_iter()
            .enumerate()
            .filter(|(index, (.., cells))| is_shown(*index, cells))
            .map(|(_, column)| column)
            .collect();
        let line = |(index, (standing, word)): (usize, (Standing, String))| Line {
            standing,
            word,
            setting: String::new(),
            cells: shown.iter().map(|(.., cells)| cells.get(index).cloned().unwrap_or_default()).collect(),
        };
        Self {
            lines: verdicts.into_iter().enumerate().map(line).collect(),
            columns: shown.iter().map(|(name, alignment, _)| ((*name).to_owned(), *alignment)).collect(),
        }
    }

    /// The verdicts of its lines.
    pub fn tally(&self) -> Tally {
        Tally::of(self.lines.iter().map(|line| line.standing))
    }
}

/// A picture with what it shows in words.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The picture.
    pub picture: Picture,
    /// Its name.
    pub title: String,
    /// What is seen in it.
    pub description: String,
}

/// A claim with everything that belongs to it: a statistic, a check, a capability, an item of a suite.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What is claimed, with the name where there are several.
    pub meanings: Vec<(String, &'static Meaning)>,
    /// What is done, in paragraphs, where it is a check of an audit.
    pub explanation: String,
    /// Sentences below the table.
    pub notes: Vec<String>,
    /// Pictures.
    pub drawings: Vec<Drawing>,
    /// The numbers.
    pub table: Table,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The subcommand.
    pub command: String,
    /// The file as it was named.
    pub file: String,
    /// Parameters, seed and version.
    pub facts: Vec<(String, String)>,
    /// What the rows show, in sentences.
    pub remarks: Vec<String>,
    /// Commands that give the rows again.
    pub commands: Vec<String>,
    /// What is to be known about them.
    pub note_on_commands: String,
    /// The picture of all claims.
    pub overview: Option<Drawing>,
    /// The claims.
    pub groups: Vec<Group>,
}

impl Section {
    /// The verdicts of all lines.
    pub fn tally(&self) -> Tally {
        self.groups.iter().fold(Tally::default(), |tally, group| tally.and(group.table.tally()))
    }
}

/// What is the same in all rows that have it, if it is.
pub fn common<'a, R: 'a>(
    rows: impl IntoIterator<Item = &'a R>,
    value: impl Fn(&R) -> Option<String>,
) -> Option<String> {
    let values: BTreeSet<String> = rows.into_iter().filter_map(value).collect();
    if values.len() == 1 { values.into_iter().next() } else { None }
}

/// The rows by name, in the order in which the names come first.
pub fn grouped<R, N: AsRef<str>>(rows: &[R], name: impl Fn(&R) -> N) -> Vec<(String, Vec<&R>)> {
    let mut groups: Vec<(String, Vec<&R>)> = Vec::new();
    let mut places: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for row in rows {
        let name = name(row).as_ref().to_owned();
        let place = *places.entry(name.clone()).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(row);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_claim_is_the_verdict_and_no_claim_is_no_pass() {
        use Standing::{Measured, NoData, Noted, Rejected, Undecided, Untold, Upheld, Warned};
        let worst = |standings: &[Standing]| Tally::of(standings.iter().copied()).worst();
        assert_eq!(worst(&[Upheld, Measured, Noted]), Upheld);
        assert_eq!(worst(&[Upheld, Undecided]), Undecided);
        assert_eq!((worst(&[Upheld, Warned, Untold]), worst(&[Upheld, Untold])), (Warned, Untold));
        assert_eq!((worst(&[Warned]), worst(&[Untold]), worst(&[Warned, Undecided])), (Warned, NoData, Undecided));
        assert_eq!(worst(&[Upheld, NoData, Undecided]), NoData);
        assert_eq!(worst(&[NoData, Rejected]), Rejected);
        assert_eq!((worst(&[]), worst(&[Measured, Noted])), (NoData, NoData));
    }

    #[test]
    fn the_sentence_counts_claims_and_what_stands_beside_them() {
        use Standing::{Measured, Rejected, Untold, Upheld, Warned};
        let sentence = |standings: &[Standing]| Tally::of(standings.iter().copied()).sentence();
        assert_eq!(sentence(&[Upheld, Upheld, Rejected]), "3 claims: 2 upheld, 1 rejected");
        assert_eq!(sentence(&[Upheld, Measured]), "1 claim: 1 upheld; 1 measured beside them");
        assert_eq!(sentence(&[]), "no claim was judged");
        assert_eq!(
            sentence(&[Upheld, Warned, Untold, Untold, Measured]),
            "1 claim: 1 upheld; 1 warning, 2 could not be told; 1 measured beside them"
        );
    }

    #[test]
    fn columns_without_text_are_left_out_and_lines_keep_their_cells() {
        let text = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let columns = vec![
            ("name", Alignment::Left, text(["", ""])),
            ("empty", Alignment::Left, text(["", ""])),
            ("n", Alignment::Right, text(["", "5"])),
        ];
        let table = Table::of(columns, vec![(Standing::Upheld, "PASS".into()), (Standing::Rejected, "FAIL".into())]);
        assert_eq!(table.columns, [("name".into(), Alignment::Left), ("n".into(), Alignment::Right)]);
        assert_eq!((table.lines[1].cells.clone(), table.lines[1].word.as_str()), (text(["", "5"]), "FAIL"));
    }

    #[test]
    fn names_keep_their_order_and_rows_their_group() {
        let groups = grouped(&["b1", "a1", "b2"], |row| row[..1].to_owned());
        assert_eq!(groups, [("b".into(), vec![&"b1", &"b2"]), ("a".into(), vec![&"a1"])]);
        assert_eq!(common([3, 3].iter(), |row: &i32| Some(row.to_string())), Some("3".into()));
        assert_eq!(common([3, 4].iter(), |row: &i32| Some(row.to_string())), None);
    }
}
