//! Which keys each query may attend to.
//!
//! A [`MaskRule`] says it in words for any number of queries and keys (`causal`, `window:4+padding:100`); a [`Mask`] is the
//! rule at given sizes, or cells read from a file. Query i sees key j iff the cell (i, j) is *visible*; what is not
//! visible is *hidden*.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Where a query stands among the keys when their numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alignment {
    /// Query i stands at key i: what a square lower-triangular mask gives, cut or continued.
    #[default]
    TopLeft,
    /// The last query stands at the last key, query i at key i + m − n: decoding with a cache.
    BottomRight,
}

/// One reason for which keys are hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskKind {
    /// Nothing is hidden.
    None,
    /// Keys after the query's own position are hidden; its own is visible.
    Causal,
    /// Causal, and of the visible keys only the last `keys` (the query's own counted; at least 1).
    Window {
        /// Keys that a query far from the start sees.
        keys: usize,
    },
    /// The first `length` keys are visible to every query, the others causally (prefix language model).
    Prefix {
        /// Keys that every query sees.
        length: usize,
    },
    /// Only the first `length` keys are real, the rest is padding.
    Padding {
        /// Number of real keys.
        length: usize,
    },
    /// Sequences packed one after the other: a query sees the keys of its own document only, in both directions.
    Documents {
        /// Tokens of each document, each at least 1; together the number of queries, and of keys.
        lengths: Vec<usize>,
    },
}

/// Kinds that hide together: a key is visible if every kind shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskRule {
    /// The kinds, at least one.
    pub kinds: Vec<MaskKind>,
    /// Where queries stand among the keys; plays no part for padding and documents.
    pub alignment: Alignment,
}

impl MaskRule {
    /// The mask at `queries` × `keys`.
    ///
    /// # Errors
    /// A length that does not fit the sizes, with both named.
    pub fn at(&self, queries: usize, keys: usize) -> Result<Mask, String> {
        self.kinds.iter().try_for_each(|kind| kind.check(queries, keys))?;
        let shift = match self.alignment {
            Alignment::TopLeft => 0,
            Alignment::BottomRight => keys as i64 - queries as i64,
        };
        let row = |query: usize| {
            let all = self.kinds.iter().map(|kind| kind.visible(query, query as i64 + shift, keys));
            let range = all.fold(0..keys, |a, b| a.start.max(b.start)..a.end.min(b.end));
            if range.start < range.end { range } else { 0..0 }
        };
        Ok(Mask { queries, keys, pattern: Pattern::Ranges((0..queries).map(row).collect()) })
    }

    /// Whether the alignment makes a difference for some numbers of queries and keys.
    pub fn is_aligned(&self) -> bool {
        self.kinds
            .iter()
            .any(|kind| !matches!(kind, MaskKind::None | MaskKind::Padding { .. } | MaskKind::Documents { .. }))
    }

    /// The rule in words; the alignment is named where `queries` ≠ `keys` and it matters.
    pub fn name(&self, queries: usize, keys: usize) -> String {
        let kinds: Vec<String> = self.kinds.iter().map(MaskKind::to_string).collect();
        let alignment =
            if queries != keys && self.is_aligned() { format!("@{}", self.alignment) } else { String::new() };
        kinds.join("+") + &alignment
    }
}

impl MaskKind {
    fn check(&self, queries: usize, keys: usize) -> Result<(), String> {
        match self {
            Self::Prefix { length } | Self::Padding { length } if *length > keys => {
                Err(format!("{self}: there are only {keys} keys"))
            }
            Self::Documents { lengths } => {
                let total = lengths.iter().map(|&length| length as u128).sum::<u128>();
                let of_both = if queries == keys {
                    format!("{keys} tokens")
                } else {
                    format!("{queries} queries and {keys} keys; documents need as many keys as queries")
                };
                if total == keys as u128 && queries == keys {
                    Ok(())
                } else {
                    Err(format!("{self}: the lengths add up to {total}, there are {of_both}"))
                }
            }
            _ => Ok(()),
        }
    }

    /// The keys that `query`, which stands at key `position` (it may be outside the keys), sees; empty ranges may be reversed.
    fn visible(&self, query: usize, position: i64, keys: usize) -> Range<usize> {
        // Keys up to and including the position.
        let end = (position + 1).clamp(0, keys as i64) as usize;
        match self {
            Self::None => 0..keys,
            Self::Causal => 0..end,
            Self::Window { keys } => (position + 1).saturating_sub_unsigned(*keys as u64).max(0) as usize..end,
            Self::Prefix { length } => 0..end.max(*length),
            Self::Padding { length } => 0..*length,
            Self::Documents { lengths } => {
                let mut start = 0;
                for length in lengths {
                    if query < start + length {
                        return start..start + length;
                    }
                    start += length;
                }
                0..0
            }
        }
    }
}

/// Visible and hidden cells of `queries` × `keys` logits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    queries: usize,
    keys: usize,
    pattern: Pattern,
}

/// Rules show each query one range of keys; a file may show anything.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Ranges(Vec<Range<usize>>),
    Cells(Vec<bool>),
}

/// What one query sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisibleKeys<'a> {
    /// The keys of one range, possibly none.
    Range(Range<usize>),
    /// One cell a key, true where visible.
    Cells(&'a [bool]),
}

impl VisibleKeys<'_> {
    /// Whether key `key` is visible.
    pub fn contains(&self, key: usize) -> bool {
        match self {
            Self::Range(range) => range.contains(&key),
            Self::Cells(cells) => cells[key],
        }
    }

    /// Number of visible keys.
    pub fn count(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Cells(cells) => cells.iter().filter(|&&visible| visible).count(),
        }
    }
}

impl Mask {
    /// Every query sees every key.
    pub fn all_visible(queries: usize, keys: usize) -> Self {
        Self { queries, keys, pattern: Pattern::Ranges(vec![0..keys; queries]) }
    }

    /// A mask from its cells, row by row, true where visible.
    ///
    /// # Panics
    /// If there are not `queries`·`keys` cells.
    pub fn from_cells(queries: usize, keys: usize, cells: Vec<bool>) -> Self {
        assert_eq!(cells.len(), queries * keys, "a mask has one cell for each query and key");
        Self { queries, keys, pattern: Pattern::Cells(cells) }
    }

    /// A mask that shows each query one range of keys.
    ///
    /// # Panics
    /// If a range is reversed or reaches beyond the keys.
    pub fn from_ranges(keys: usize, ranges: Vec<Range<usize>>) -> Self {
        let fits = |range: &Range<usize>| range.start <= range.end && range.end <= keys;
        assert!(ranges.iter().all(fits), "a range of visible keys lies among the keys");
        Self { queries: ranges.len(), keys, pattern: Pattern::Ranges(ranges) }
    }

    /// The same cells, kept as ranges if each query sees one range of keys.
    pub fn compact(self) -> Self {
        let Pattern::Cells(cells) = &self.pattern else { return self };
        let range = |row: &[bool]| {
            let Some(start) = row.iter().position(|&visible| visible) else { return Some(0..0) };
            let length = row[start..].iter().position(|&visible| !visible).unwrap_or(row.len() - start);
            let end = start + length;
            row[end..].iter().all(|&visible| !visible).then_some(start..end)
        };
        let rows = cells.chunks(self.keys.max(1));
        match rows.map(range).collect::<Option<Vec<_>>>() {
            Some(ranges) if ranges.len() == self.queries => Self::from_ranges(self.keys, ranges),
            _ => self,
        }
    }

    /// Number of queries n.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Number of keys m.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// What `query` sees.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn row(&self, query: usize) -> VisibleKeys<'_> {
        match &self.pattern {
            Pattern::Ranges(ranges) => VisibleKeys::Range(ranges[query].clone()),
            Pattern::Cells(cells) => VisibleKeys::Cells(&cells[query * self.keys..(query + 1) * self.keys]),
        }
    }

    /// Whether `query` sees `key`.
    pub fn is_visible(&self, query: usize, key: usize) -> bool {
        self.row(query).contains(key)
    }

    /// Number of keys that each query sees, in the order of the queries.
    pub fn visible_keys(&self) -> Vec<usize> {
        (0..self.queries).map(|query| self.row(query).count()).collect()
    }

    /// Share of the cells that are visible, 0 to 1.
    pub fn visible_share(&self) -> f64 {
        self.visible_keys().iter().sum::<usize>() as f64 / (self.queries as f64 * self.keys as f64)
    }

    /// Whether no query sees `key`.
    pub fn is_never_visible(&self, key: usize) -> bool {
        (0..self.queries).all(|query| !self.is_visible(query, key))
    }

    /// Number of queries that see no key.
    pub fn fully_masked_rows(&self) -> usize {
        self.visible_keys().iter().filter(|&&count| count == 0).count()
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::TopLeft => "top-left",
            Self::BottomRight => "bottom-right",
        })
    }
}

impl FromStr for Alignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "top-left" => Ok(Self::TopLeft),
            "bottom-right" => Ok(Self::BottomRight),
            _ => Err("must be top-left or bottom-right".to_string()),
        }
    }
}

impl fmt::Display for MaskKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Causal => formatter.write_str("causal"),
            Self::Window { keys } => write!(formatter, "window:{keys}"),
            Self::Prefix { length } => write!(formatter, "prefix:{length}"),
            Self::Padding { length } => write!(formatter, "padding:{length}"),
            Self::Documents { lengths } => {
                let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
                write!(formatter, "documents:{}", lengths.join(","))
            }
        }
    }
}

impl FromStr for MaskKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
        let number = |what: &str| -> Result<usize, String> {
            let value = value.ok_or_else(|| format!("{name} needs {what}, for example {name}:4"))?;
            value.trim().parse().map_err(|_| format!("{what} must be a whole number"))
        };
        match name.trim() {
            "none" if value.is_none() => Ok(Self::None),
            "causal" if value.is_none() => Ok(Self::Causal),
            "none" | "causal" => Err(format!("{name} takes no value")),
            "file" => Err("a file is not joined with others by +".to_string()),
            "window" => match number("the number of keys that a query sees")? {
                0 => Err("would hide every key: a window holds at least the query's own position".to_string()),
                keys => Ok(Self::Window { keys }),
            },
            "prefix" => Ok(Self::Prefix { length: number("the number of keys that every query sees")? }),
            "padding" => Ok(Self::Padding { length: number("the number of real keys")? }),
            "documents" => {
                let lengths = value.ok_or("documents needs the documents' lengths, for example documents:3,5")?;
                let length = |text: &str| match text.trim().parse::<usize>() {
                    Ok(length) if length > 0 => Ok(length),
                    _ => Err(format!("a length must be a whole number above 0, not '{text}'")),
                };
                Ok(Self::Documents { lengths: lengths.split(',').map(length).collect::<Result<_, _>>()? })
            }
            _ => Err(format!(
                "'{name}' is not a mask: causal, window:W, prefix:P, padding:L, documents:L1,L2,…, none, several joined by +, or \
                 file:MASK.npy"
            )),
        }
    }
}

impl FromStr for MaskRule {
    type Err = String;

    /// `KIND`, or `KIND+KIND`, with `@top-left` or `@bottom-right` behind it where it is not the default.
    fn from_str(text: &str) -> Result<Self, String> {
        let (kinds, alignment) = match text.split_once('@') {
            Some((_, rest)) if rest.contains('+') => {
                return Err("one alignment stands at the end for all kinds, for example causal+window:4@bottom-right"
                    .to_string());
            }
            Some((kinds, alignment)) => (kinds, alignment.trim().parse()?),
            None => (text, Alignment::default()),
        };
        Ok(Self { kinds: kinds.split('+').map(str::parse).collect::<Result<_, _>>()?, alignment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 1 (visible) and 0, as they are drawn in papers.
    fn drawn(rule: &str, queries: usize, keys: usize) -> String {
        let rule: MaskRule = rule.parse().expect("a mask");
        let mask = rule.at(queries, keys).expect("fits");
        let row = |query| (0..keys).map(|key| if mask.is_visible(query, key) { '1' } else { '0' }).collect::<String>();
        (0..queries).map(row).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_kind_shows_the_keys_that_its_definition_says() {
        // PyTorch's scaled_dot_product_attention, is_causal: ones(L, S).tril(diagonal=0).
        assert_eq!(drawn("causal", 3, 3), "100 110 111");
        assert_eq!(drawn("causal", 2, 5), "10000 11000");
        // Field reports MA-08: 2 queries, 5 keys, bottom-right; and more queries than keys.
        assert_eq!(drawn("causal@bottom-right", 2, 5), "11110 11111");
        assert_eq!(drawn("causal@bottom-right", 5, 2), "00 00 00 10 11");
        assert_eq!(drawn("causal", 5, 2), "10 11 11 11 11");
        // Field reports MA-11: a window of 3 keys, the query's own counted, is triu(diagonal=-2).
        assert_eq!(drawn("window:3", 5, 5), "10000 11000 11100 01110 00111");
        assert_eq!(drawn("window:2@bottom-right", 2, 5), "00110 00011");
        assert_eq!(drawn("window:2@bottom-right", 4, 2), "00 00 10 11");
        assert_eq!(drawn("window:2", 5, 3), "100 110 011 001 000");
        assert_eq!(drawn("window:18446744073709551615", 2, 3), "100 110");
        assert_eq!(drawn("prefix:2", 4, 4), "1100 1100 1110 1111");
        assert_eq!(drawn("padding:2", 2, 3), "110 110");
        assert_eq!(drawn("padding:0", 1, 3), "000");
        assert_eq!(drawn("documents:2,1", 3, 3), "110 110 001");
        assert_eq!(drawn("none", 2, 3), "111 111");
    }

    #[test]
    fn kinds_joined_hide_what_either_hides() {
        assert_eq!(drawn("causal+documents:2,3", 5, 5), "10000 11000 00100 00110 00111");
        assert_eq!(drawn("causal+padding:2", 4, 4), "1000 1100 1100 1100");
        assert_eq!(drawn("window:2+padding:1", 3, 3), "100 100 000");
    }

    #[test]
    fn counts_of_a_mask_are_those_of_its_cells() {
        let mask = "causal@bottom-right".parse::<MaskRule>().and_then(|rule| rule.at(5, 2)).expect("fits");
        assert_eq!(mask.visible_keys(), [0, 0, 0, 1, 2]);
        assert_eq!((mask.fully_masked_rows(), mask.visible_share()), (3, 0.3));
        let cells = Mask::from_cells(2, 3, vec![true, false, true, false, false, false]);
        assert_eq!((cells.visible_keys(), cells.fully_masked_rows()), (vec![2, 0], 1));
        assert!(cells.is_visible(0, 2) && !cells.is_visible(0, 1) && !cells.is_visible(1, 2));
        assert_eq!(Mask::all_visible(2, 3).visible_share(), 1.0);
    }

    #[test]
    fn cells_that_are_ranges_are_kept_as_ranges_and_others_as_they_are() {
        let cells = |drawn: &str| drawn.bytes().map(|cell| cell == b'1').collect::<Vec<bool>>();
        let causal = Mask::from_cells(4, 3, cells("000100110111")).compact();
        assert_eq!(causal, Mask::from_ranges(3, vec![0..0, 0..1, 0..2, 0..3]));
        assert_eq!(causal.row(2), VisibleKeys::Range(0..2));
        let holes = Mask::from_cells(2, 3, cells("101111"));
        assert_eq!(holes.clone().compact(), holes);
        assert_eq!(Mask::from_ranges(3, vec![1..3, 2..2]).visible_keys(), [2, 0]);
    }

    #[test]
    fn a_rule_reads_back_from_its_name() {
        for (name, queries, keys) in [
            ("causal", 4, 4),
            ("causal@bottom-right", 4, 6),
            ("causal@top-left", 4, 6),
            ("window:3+padding:2@top-left", 4, 6),
            ("padding:2", 4, 6),
            ("prefix:2", 6, 6),
            ("causal+documents:1,5", 6, 6),
        ] {
            let rule: MaskRule = name.parse().expect("a mask");
            assert_eq!(rule.name(queries, keys), name);
        }
        // Where it makes no difference, the alignment is not named.
        assert_eq!("causal@bottom-right".parse::<MaskRule>().expect("a mask").name(4, 4), "causal");
    }

    #[test]
    fn what_is_no_mask_is_refused_with_its_rule() {
        for (text, rule) in [
            ("window:0", "at least the query's own position"),
            ("window", "needs the number of keys"),
            ("window:x", "whole number"),
            ("window:-1", "whole number"),
            ("causal:3", "takes no value"),
            ("documents", "needs the documents' lengths"),
            ("documents:3,0", "above 0"),
            ("documents:", "above 0"),
            ("triangle", "is not a mask: causal, window:W"),
            ("", "is not a mask"),
            ("causal+", "is not a mask"),
            ("causal@middle", "top-left or bottom-right"),
            ("causal@top-left+window:4@bottom-right", "one alignment stands at the end"),
            ("causal+file:x.npy", "a file is not joined"),
        ] {
            let error = text.parse::<MaskRule>().expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
        for (text, queries, keys, rule) in [
            ("documents:3,5", 9, 9, "add up to 8, there are 9 tokens"),
            ("documents:3,5", 8, 9, "8 queries and 9 keys"),
            ("documents:3,5", 9, 8, "as many keys as queries"),
            ("padding:10", 9, 9, "only 9 keys"),
            ("causal+prefix:10", 9, 9, "only 9 keys"),
        ] {
            let error = text.parse::<MaskRule>().and_then(|rule| rule.at(queries, keys)).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
    }
}
