//! Which head of which layer stands where in the picture of an audit.

use super::palette::{FAINT, INK};
use super::picture::{Anchor, Picture, width_of};
use super::standing::{Standing, shortened};
use crate::report::findings::{FindingRow, HeadRow};

/// More columns than this cannot be told apart; then a column is a layer.
const MOST_COLUMNS: usize = 72;

/// What a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Head,
    /// A layer, or one dump of a series.
    Group,
    /// Nothing is said of single heads.
    Whole,
}

/// A group of heads in one file.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    file: String,
    name: String,
    heads: usize,
    /// Its first column.
    start: usize,
}

/// The columns and their places.
#[derive(Clone, Debug)]
pub struct Columns {
    groups: Vec<Group>,
    unit: Unit,
    count: usize,
    left: f64,
    right: f64,
}

impl Columns {
    /// The columns of an audit between `left` and `right`.
    pub fn of(findings: &[FindingRow], heads: &[HeadRow], left: f64, right: f64) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut add = |file: &str, name: &str, heads: usize| match groups
            .iter_mut()
            .find(|group| group.file == file && group.name == name)
        {
            Some(group) => group.heads = group.heads.max(heads),
            None => groups.push(Group { file: file.into(), name: name.into(), heads, start: 0 }),
        };
        heads.iter().for_each(|head| add(&head.file, &head.group, head.head + 1));
        if heads.is_empty() {
            for finding in findings {
                add(&finding.file, &finding.group, finding.places.iter().map(|place| place.1 + 1).max().unwrap_or(0));
            }
        }
        // Layer 10 after layer 9; dumps of a series stay in the order in which they were named.
        let places: Vec<String> = groups.iter().map(|group| group.file.clone()).collect();
        let of_file = |file: &str| places.iter().position(|known| known == file);
        groups.sort_by_cached_key(|group| (of_file(&group.file), natural(&group.name)));
        let all: usize = groups.iter().map(|group| group.heads).sum();
        let unit = match (all, groups.len()) {
            (0, 0 | 1) => Unit::Whole,
            (0, _) => Unit::Group,
            (_, 1) => Unit::Head,
            (all, _) if all > MOST_COLUMNS => Unit::Group,
            _ => Unit::Head,
        };
        let mut count = 0;
        for group in &mut groups {
            group.heads = group.heads.max(1);
            group.start = count;
            count += if unit == Unit::Head { group.heads } else { 1 };
        }
        Self { groups, unit, count: count.max(1), left, right }
    }

    /// What a column is.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    fn width(&self) -> f64 {
        (self.right - self.left) / self.count as f64
    }

    fn at(&self, column: usize) -> f64 {
        self.left + self.width() * (column as f64 + 0.5)
    }

    /// Half the length of the line that a column is held against.
    pub fn reach(&self) -> f64 {
        (0.42 * self.width()).min(24.0)
    }

    /// The same for a single head, where several share a column.
    pub fn head_reach(&self) -> f64 {
        let shared = self.groups.iter().map(|group| group.heads).max().unwrap_or(1);
        if self.unit == Unit::Head { self.reach() } else { (self.reach() / shared as f64).max(1.0) }
    }

    /// Size of marks: neighbours must not touch.
    pub fn mark_size(&self) -> f64 {
        (self.width() / 15.0).clamp(0.35, 1.0)
    }

    /// Size of the marks of single heads: several share the column of a layer.
    pub fn head_mark_size(&self) -> f64 {
        if self.unit == Unit::Head { self.mark_size() } else { 0.45 }
    }

    /// The place of a head.
    pub fn of_head(&self, head: &HeadRow) -> Option<f64> {
        let group = self.groups.iter().find(|group| group.file == head.file && group.name == head.group)?;
        let place = self.at(self.column(group, head.head));
        // The heads of a layer side by side, so that they do not hide each other.
        let aside = match self.unit {
            Unit::Head => 0.0,
            _ => 2.0 * self.reach() * ((head.head as f64 + 0.5) / group.heads as f64 - 0.5),
        };
        Some(place + aside)
    }

    fn column(&self, group: &Group, head: usize) -> usize {
        if self.unit == Unit::Head { group.start + head.min(group.heads - 1) } else { group.start }
    }

    /// The worst of what is said of each column, and its place. A finding on files that are no column of their own, such as a series of
    /// dumps, is one on all of them.
    pub fn worst<'a>(&self, findings: impl Iterator<Item = (&'a FindingRow, Standing)>) -> Vec<(f64, Standing)> {
        let mut worst: Vec<Option<Standing>> = vec![None; self.count];
        for (finding, standing) in findings {
            let own_file = self.groups.iter().any(|group| group.file == finding.file);
            let own_name = self.groups.iter().any(|group| group.name == finding.group);
            let fits = |group: &&Group| {
                (group.file == finding.file || !own_file) && (group.name == finding.group || !own_name)
            };
            for group in self.groups.iter().filter(fits) {
                let places = finding.places.iter().map(|place| place.1);
                let heads: Vec<usize> =
                    if finding.places.is_empty() { (0..group.heads).collect() } else { places.collect() };
                for column in heads.into_iter().map(|head| self.column(group, head)) {
                    worst[column] = worst[column].max(Some(standing));
                }
            }
        }
        let place = |(column, found): (usize, Option<Standing>)| found.map(|found| (self.at(column), found));
        worst.into_iter().enumerate().filter_map(place).collect()
    }

    /// Lines between the groups.
    pub fn separate(&self, picture: &mut Picture, top: f64, bottom: f64) {
        if self.unit != Unit::Head {
            return;
        }
        for group in self.groups.iter().skip(1) {
            let x = self.left + self.width() * group.start as f64;
            picture.line(&[(x, top), (x, bottom)], FAINT, 1.0);
        }
    }

    /// Names below the columns: numbers of heads, and the groups.
    pub fn label(&self, picture: &mut Picture, bottom: f64) {
        let names = self.names();
        let middle = 0.5 * (self.left + self.right);
        match self.unit {
            Unit::Whole => {}
            Unit::Head => {
                for group in &self.groups {
                    let step = (24.0 / self.width()).ceil().max(1.0) as usize;
                    for head in (0..group.heads).step_by(step) {
                        let x = self.at(group.start + head);
                        picture.text((x, bottom + 13.0), head.to_string(), 13.0, Anchor::Centre, INK);
                    }
                }
                if self.groups.len() == 1 {
                    picture.text((middle, bottom + 33.0), "head", 14.0, Anchor::Centre, INK);
                } else {
                    picture.text((self.left - 8.0, bottom + 13.0), "head", 13.0, Anchor::Right, INK);
                    self.label_groups(picture, &names, bottom + 33.0);
                }
            }
            Unit::Group => self.label_groups(picture, &names, bottom + 15.0),
        }
        if self.groups.len() > 1 {
            let y = if self.unit == Unit::Head { bottom + 33.0 } else { bottom + 15.0 };
            let word = if self.is_series() { "dump" } else { "layer" };
            picture.text((self.left - 8.0, y), word, 13.0, Anchor::Right, INK);
        }
    }

    fn is_series(&self) -> bool {
        self.groups.iter().all(|group| group.name == self.groups[0].name)
    }

    /// Names of groups in the middle of their columns, as many as there is room for.
    fn label_groups(&self, picture: &mut Picture, names: &[String], y: f64) {
        let columns = |group: &Group| if self.unit == Unit::Head { group.heads } else { 1 };
        let mut free_from = f64::NEG_INFINITY;
        let room = (self.right - self.left) / self.groups.len() as f64;
        let most = (room - 4.0).max(36.0);
        for (group, name) in self.groups.iter().zip(names) {
            let x = self.left + self.width() * (group.start as f64 + 0.5 * columns(group) as f64);
            let name = shortened(name, most, 13.0);
            let half = 0.5 * width_of(&name, 13.0);
            if x - half >= free_from {
                picture.text((x, y), name, 13.0, Anchor::Centre, INK);
                free_from = x + half + 4.0;
            }
        }
    }

    /// The part of each group's name that differs from the others'.
    fn names(&self) -> Vec<String> {
        let whole: Vec<&str> =
            self.groups.iter().map(|group| if self.is_series() { &group.file } else { &group.name }.as_str()).collect();
        distinct_parts(&whole)
    }
}

/// A name as text and numbers in turn, for an order in which 9 comes before 10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|letter: char| !letter.is_ascii_digit()).map_or(rest.len(), |end| text + end);
        parts.push((rest[..text].to_owned(), rest[text..digits].parse().unwrap_or(0)));
        rest = &rest[digits..];
    }
    parts
}

/// What is left of names without their common beginning and end; whole words, so that `layer10` and `layer11` are 10 and 11.
fn distinct_parts(names: &[&str]) -> Vec<String> {
    let [first, rest @ ..] = names else { return Vec::new() };
    if rest.is_empty() {
        return vec![(*first).to_owned()];
    }
    let common = |one: &str, other: &str, from_end: bool| {
        let same = |(one, other): &(char, char)| one == other && !one.is_ascii_digit();
        match from_end {
            false => one.chars().zip(other.chars()).take_while(same).count(),
            true => one.chars().rev().zip(other.chars().rev()).take_while(same).count(),
        }
    };
    let shared = |from_end: bool| rest.iter().map(|name| common(first, name, from_end)).min().unwrap_or(0);
    let (start, end) = (shared(false), shared(true));
    let part = |name: &&str| {
        let count = name.chars().count();
        let part: String = name.chars().skip(start).take(count.saturating_sub(start + end)).collect();
        if part.is_empty() { (*name).to_owned() } else { part }
    };
    names.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(groups: &[(&str, usize)]) -> Vec<HeadRow> {
        let of_group = |(name, count): &(&str, usize)| {
            let name = name.to_string();
            (0..*count).map(move |head| HeadRow { group: name.clone(), head, ..HeadRow::default() }).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of_group).collect()
    }

    #[test]
    fn a_column_is_a_head_until_there_are_too_many_of_them() {
        let few = Columns::of(&[], &heads(&[("a", 3), ("b", 5)]), 0.0, 80.0);
        assert_eq!((few.unit(), few.count), (Unit::Head, 8));
        // The head 1 of b is the fifth of eight columns, each 10 wide.
        assert_eq!(few.of_head(&HeadRow { group: "b".into(), head: 1, ..HeadRow::default() }), Some(45.0));
        let many = Columns::of(&[], &heads(&[("a", 37), ("b", 41)]), 0.0, 80.0);
        assert_eq!((many.unit(), many.count), (Unit::Group, 2));
        assert_eq!(
            many.of_head(&HeadRow { group: "b".into(), head: 40, ..HeadRow::default() }),
            Some(60.0 + 2.0 * 16.8 * (40.5 / 41.0 - 0.5))
        );
        let alone = Columns::of(&[], &heads(&[("", 127)]), 0.0, 80.0);
        assert_eq!((alone.unit(), alone.count), (Unit::Head, 127));
    }

    #[test]
    fn the_worst_verdict_of_a_column_is_shown_where_its_finding_is() {
        let columns = Columns::of(&[], &heads(&[("a", 2), ("b", 3)]), 0.0, 50.0);
        let at = |group: &str, places: &[(usize, usize)]| FindingRow {
            group: group.into(),
            places: places.to_vec(),
            ..FindingRow::default()
        };
        let (all, some, other) = (at("b", &[]), at("b", &[(0, 1), (1, 1)]), at("no group", &[(0, 0)]));
        let found =
            columns.worst([(&all, Standing::Good), (&some, Standing::Bad), (&other, Standing::Noted)].into_iter());
        let expected = [(5.0, Standing::Noted), (25.0, Standing::Noted), (35.0, Standing::Bad), (45.0, Standing::Good)];
        assert_eq!(found, expected);
    }

    #[test]
    fn layers_stand_in_the_order_of_their_numbers() {
        let columns = Columns::of(&[], &heads(&[("l1", 1), ("l10", 1), ("l2", 1)]), 0.0, 30.0);
        assert_eq!(columns.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["l1", "l2", "l10"]);
    }

    #[test]
    fn names_of_layers_are_what_differs_in_them() {
        assert_eq!(distinct_parts(&["layer0.attn", "layer10.attn"]), ["0", "10"]);
        assert_eq!(distinct_parts(&["encoder.0", "decoder.0"]), ["encoder.0", "decoder.0"]);
        assert_eq!(distinct_parts(&["step1.npz", "step2.npz", "step2.npz.old"]), ["1.npz", "2.npz", "2.npz.old"]);
        assert_eq!(distinct_parts(&["one"]), ["one"]);
    }
}
