//! What the numbers of a mask file mean: which cells they hide, and what they add to the logits.
//!
//! Implementations disagree on it (true hides in one function of a library and shows in another), so it is read off the
//! numbers: booleans and 0/1 show where they are 1, unless only their complement follows a known rule; any other numbers are
//! added to the logits, where −∞ or one large negative constant hides.

use super::mask_pattern::{Pattern, Placement, Shape, recognise};
use crate::attention::{Alignment, Mask, MaskKind, MaskRule};

/// A constant hides from here on: e^−50 of a weight is below any rounding of f32.
const HIDING: f64 = -50.0;
/// …and if it is so many times as far from 0 as any other number: biases that grow with the distance are no masks.
const APART: f64 = 10.0;

/// How the numbers of a mask are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Polarity {
    /// 1, or true, is visible.
    Keep,
    /// 1, or true, is hidden.
    Hide,
    /// Added to the logits. −∞ hides, or this finite constant.
    Additive {
        /// The constant that hides; none if −∞ does, or nothing.
        constant: Option<f64>,
    },
}

/// The numbers of a mask file.
#[derive(Debug, Clone)]
pub struct MaskNumbers {
    name: String,
    shape: Vec<usize>,
    rows: usize,
    columns: usize,
    values: Vec<f64>,
    polarity: Polarity,
    words: Vec<String>,
}

/// A mask file at given numbers of queries and keys.
#[derive(Debug, Clone)]
pub struct MaskMeaning {
    /// What is visible.
    pub mask: Mask,
    /// What is left for the softmax if the numbers are used as they are: a finite constant hides by its size alone.
    pub before_constant: Mask,
    /// The rule with exactly these cells, where there is one.
    pub rule: Option<MaskRule>,
    /// The rule's name, or that of the file.
    pub name: String,
    /// What is added to the logits, n×m: none where −∞ and 0 are all there is.
    pub bias: Option<Vec<f32>>,
    /// Whether visible logits are changed, too.
    pub biases_visible: bool,
    /// The finite constant that hides.
    pub constant: Option<f64>,
}

impl MaskNumbers {
    /// Reads `values`, an array of `shape` in C order; `is_boolean` if the file says so. `name` is the file's, for messages.
    ///
    /// # Errors
    /// More than one matrix, no number at all, NaN or +∞: one line, with the shape or the first such cell.
    pub fn new(name: &str, shape: &[usize], values: Vec<f64>, is_boolean: bool) -> Result<Self, String> {
        let (rows, columns) = match shape {
            [] => (1, 1),
            [columns] => (1, *columns),
            [leading @ .., rows, columns] if leading.iter().all(|&axis| axis == 1) => (*rows, *columns),
            _ => {
                return Err(format!(
                    "{name} holds several masks (shape {}); a file with one is needed, n×m or what repeats to it",
                    shape_words(shape)
                ));
            }
        };
        if rows == 0 || columns == 0 {
            return Err(format!("{name} holds no number (shape {})", shape_words(shape)));
        }
        refuse_what_cannot_be_added(name, columns, &values)?;
        let zero_or_one = values.iter().all(|&value| value == 0.0 || value == 1.0);
        let mut numbers = Self {
            name: name.to_string(),
            shape: shape.to_vec(),
            rows,
            columns,
            values,
            polarity: Polarity::Keep,
            words: Vec::new(),
        };
        if is_boolean || zero_or_one {
            numbers.read_cells(is_boolean);
        } else {
            numbers.read_additive();
        }
        Ok(numbers)
    }

    /// Number of queries that the file itself has; none if its one row is repeated.
    pub fn queries(&self) -> Option<usize> {
        (self.rows > 1).then_some(self.rows)
    }

    /// Number of keys that the file itself has; none if its one column is repeated.
    pub fn keys(&self) -> Option<usize> {
        (self.columns > 1).then_some(self.columns)
    }

    /// How the numbers are read.
    pub fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// What was found, in sentences.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The mask at `queries` × `keys`; one row or one column is repeated.
    ///
    /// # Errors
    /// The shapes do not fit; both are named.
    pub fn at(&self, queries: usize, keys: usize) -> Result<MaskMeaning, String> {
        let fits = |own: usize, wanted: usize| own == wanted || own == 1;
        if !(fits(self.rows, queries) && fits(self.columns, keys)) {
            return Err(format!(
                "{}: the mask has shape {}, the logits have {queries} × {keys} (queries × keys)",
                self.name,
                shape_words(&self.shape)
            ));
        }
        let value = |query: usize, key: usize| {
            let (row, column) = (if self.rows == 1 { 0 } else { query }, if self.columns == 1 { 0 } else { key });
            self.values[row * self.columns + column]
        };
        let values: Vec<f64> = (0..queries).flat_map(|query| (0..keys).map(move |key| value(query, key))).collect();
        let cells: Vec<bool> = values.iter().map(|&value| self.shows(value)).collect();
        let biases_visible = matches!(self.polarity, Polarity::Additive { .. })
            && values.iter().zip(&cells).any(|(&value, &visible)| visible && value != 0.0);
        let constant = match self.polarity {
            Polarity::Additive { constant } => constant,
            Polarity::Keep | Polarity::Hide => None,
        };
        let finite = values.iter().map(|&value| value != f64::NEG_INFINITY).collect();
        let mask = Mask::from_cells(queries, keys, cells);
        let before_constant = if constant.is_some() { Mask::from_cells(queries, keys, finite) } else { mask.clone() };
        let rule = rule_of(&recognise(&mask));
        let name = match &rule {
            Some(rule) if !biases_visible => rule.name(queries, keys),
            _ => format!("file:{}", self.name),
        };
        let bias = (biases_visible || constant.is_some()).then(|| values.iter().map(|&value| value as f32).collect());
        Ok(MaskMeaning { mask, before_constant, rule, name, bias, biases_visible, constant })
    }

    /// Whether a number shows its key.
    fn shows(&self, value: f64) -> bool {
        match self.polarity {
            Polarity::Keep => value != 0.0,
            Polarity::Hide => value == 0.0,
            Polarity::Additive { constant } => value != f64::NEG_INFINITY && Some(value) != constant,
        }
    }

    /// Finds out whether 1 shows or hides.
    fn read_cells(&mut self, is_boolean: bool) {
        let (kind, one) = if is_boolean { ("booleans", "true") } else { ("numbers 0 and 1", "1") };
        let kept = self.pattern(|value| value != 0.0);
        let hidden = self.pattern(|value| value == 0.0);
        let known = |pattern: &Pattern| {
            pattern.disagreeing == 0
                && matches!(
                    pattern.shape,
                    Shape::Causal { .. }
                        | Shape::Window { .. }
                        | Shape::Prefix { .. }
                        | Shape::CausalPadding { .. }
                        | Shape::Documents { .. }
                )
        };
        // Only the future visible makes no sense; its complement is the commonest mask there is.
        let senseless = matches!(kept.shape, Shape::Other | Shape::Transposed { diagonal: false });
        let matrix = self.rows > 1 && self.columns > 1;
        self.polarity = if matrix && senseless && known(&hidden) { Polarity::Hide } else { Polarity::Keep };
        let (verb, pattern) = match self.polarity {
            Polarity::Hide => ("hides", hidden),
            _ => ("shows", kept),
        };
        let mut words = format!("{}: {} of {kind}, {one} {verb}: {pattern}.", self.name, shape_words(&self.shape));
        if self.polarity == Polarity::Hide {
            words += " Read the other way round, as PyTorch's scaled_dot_product_attention does, it would show what this hides.";
        }
        self.words.push(words);
        if !is_boolean && self.values.contains(&1.0) {
            self.words.push(format!(
                "{}: added to the logits, numbers 0 and 1 would hide nothing; they are read as hidden and visible.",
                self.name
            ));
        }
    }

    /// Finds the constant that hides.
    fn read_additive(&mut self) {
        let lowest = self.values.iter().copied().filter(|value| value.is_finite()).fold(f64::INFINITY, f64::min);
        let has_infinite = self.values.contains(&f64::NEG_INFINITY);
        let next = self.values.iter().copied().filter(|&value| value > lowest).map(f64::abs).fold(0.0, f64::max);
        let constant = (lowest <= HIDING && -lowest >= APART * next).then_some(lowest);
        self.polarity = Polarity::Additive { constant };
        let pattern = self.pattern(|value| value != f64::NEG_INFINITY && Some(value) != constant);
        let by = match (constant, has_infinite) {
            (Some(constant), true) => format!("{constant:e} and −∞ hide"),
            (Some(constant), false) => format!("{constant:e} hides"),
            (None, true) => "−∞ hides".to_string(),
            (None, false) => "nothing hides".to_string(),
        };
        let shape = shape_words(&self.shape);
        self.words.push(format!("{}: {shape} of numbers that are added to the logits, {by}: {pattern}.", self.name));
        let visible = || self.values.iter().copied().filter(|&value| self.shows(value));
        let (low, high) =
            visible().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
        if low < high || low != 0.0 && low.is_finite() {
            self.words.push(format!(
                "{}: visible logits are changed, too, by {} to {}: a bias; softmax theory has no value for it.",
                self.name,
                low + 0.0,
                high + 0.0
            ));
        }
    }

    fn pattern(&self, shows: impl Fn(f64) -> bool) -> Pattern {
        recognise(&Mask::from_cells(self.rows, self.columns, self.values.iter().map(|&value| shows(value)).collect()))
    }
}

/// NaN and +∞ make NaN of every row they touch.
fn refuse_what_cannot_be_added(name: &str, columns: usize, values: &[f64]) -> Result<(), String> {
    for (what, wrong) in [("NaN", f64::is_nan as fn(f64) -> bool), ("+∞", |value| value == f64::INFINITY)] {
        let Some(first) = values.iter().position(|&value| wrong(value)) else { continue };
        let count = values.iter().filter(|&&value| wrong(value)).count();
        let hint = match what {
            "NaN" if values.contains(&f64::NEG_INFINITY) => {
                "; a constant that overflowed to −∞ (−1e9 in f16) and was multiplied by 0 gives this"
            }
            _ => "",
        };
        return Err(format!(
            "{name}: {what} in {count} of {} entries, the first at query {}, key {}{hint}",
            values.len(),
            first / columns,
            first % columns
        ));
    }
    Ok(())
}

/// The rule with the cells of a pattern, if it is one of [`MaskKind`]'s and no cell disagrees.
fn rule_of(pattern: &Pattern) -> Option<MaskRule> {
    if pattern.disagreeing > 0 {
        return None;
    }
    let rule = |kinds: Vec<MaskKind>, placement: Option<&Placement>| {
        let alignment = match placement {
            None | Some(Placement::Square | Placement::TopLeft) => Alignment::TopLeft,
            Some(Placement::BottomRight) => Alignment::BottomRight,
            Some(Placement::Offset(_)) => return None,
        };
        Some(MaskRule { kinds, alignment })
    };
    match &pattern.shape {
        Shape::Causal { placement } => rule(vec![MaskKind::Causal], Some(placement)),
        Shape::Window { keys, placement } => rule(vec![MaskKind::Window { keys: *keys }], Some(placement)),
        Shape::Prefix { length, placement } => rule(vec![MaskKind::Prefix { length: *length }], Some(placement)),
        Shape::Padding { real } if real.start == 0 => rule(vec![MaskKind::Padding { length: real.end }], None),
        Shape::CausalPadding { real, placement } if real.start == 0 => {
            rule(vec![MaskKind::Causal, MaskKind::Padding { length: real.end }], Some(placement))
        }
        Shape::Documents { lengths, causal } => {
            let documents = MaskKind::Documents { lengths: lengths.clone() };
            let kinds = if *causal { vec![MaskKind::Causal, documents] } else { vec![documents] };
            rule(kinds, None)
        }
        _ => None,
    }
}

/// `4 × 5`, or `7` for a vector.
fn shape_words(shape: &[usize]) -> String {
    match shape {
        [] => "of one number".to_string(),
        axes => axes.iter().map(usize::to_string).collect::<Vec<_>>().join(" × "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(shape: &[usize], values: &[f64], is_boolean: bool) -> MaskNumbers {
        MaskNumbers::new("x.npy", shape, values.to_vec(), is_boolean).expect("a mask")
    }

    /// n×m numbers by a rule on (query, key).
    fn made(n: usize, m: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..n).flat_map(|query| (0..m).map(move |key| (query, key))).map(|(query, key)| value(query, key)).collect()
    }

    fn keep(visible: bool) -> f64 {
        if visible { 1.0 } else { 0.0 }
    }

    #[test]
    fn booleans_are_read_by_the_rule_they_or_their_complement_follow() {
        let causal = made(5, 5, |query, key| keep(key <= query));
        let shown = numbers(&[5, 5], &causal, true);
        assert_eq!(shown.polarity(), Polarity::Keep);
        assert!(shown.words()[0].contains("5 × 5 of booleans, true shows: causal"), "{:?}", shown.words());
        // torch.triu(ones, diagonal=1): nn.MultiheadAttention's attn_mask hides where it is true.
        let upper = made(5, 5, |query, key| keep(key > query));
        let hidden = numbers(&[1, 1, 5, 5], &upper, true);
        assert_eq!(hidden.polarity(), Polarity::Hide);
        assert!(hidden.words()[0].contains("true hides: causal"), "{:?}", hidden.words());
        for mask in [&shown, &hidden] {
            let meaning = mask.at(5, 5).expect("fits");
            assert_eq!((meaning.name.as_str(), meaning.bias, meaning.constant), ("causal", None, None));
            assert_eq!(meaning.mask.visible_keys(), [1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn every_kind_of_rule_is_named_with_its_numbers() {
        let cases: [(usize, usize, Vec<f64>, &str); 7] = [
            (5, 7, made(5, 7, |query, key| keep(key <= query)), "causal@top-left"),
            (5, 7, made(5, 7, |query, key| keep(key <= query + 2)), "causal@bottom-right"),
            (7, 7, made(7, 7, |query, key| keep(key <= query && key + 3 > query)), "window:3"),
            (7, 7, made(7, 7, |query, key| keep(key <= query || key < 3)), "prefix:3"),
            (5, 7, made(5, 7, |_, key| keep(key < 4)), "padding:4"),
            (7, 7, made(7, 7, |query, key| keep((query < 3) == (key < 3))), "documents:3,4"),
            (7, 7, made(7, 7, |query, key| keep((query < 3) == (key < 3) && key <= query)), "causal+documents:3,4"),
        ];
        for (n, m, values, name) in cases {
            let meaning = numbers(&[n, m], &values, false).at(n, m).expect("fits");
            assert_eq!(meaning.name, name);
            // The rule gives the cells that the file has.
            let rule = meaning.rule.expect("a rule").at(n, m).expect("fits");
            assert!(
                (0..n).all(|query| (0..m).all(|key| rule.is_visible(query, key) == (values[query * m + key] == 1.0)))
            );
        }
        let odd = numbers(&[2, 3], &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0], true).at(2, 3).expect("fits");
        assert_eq!((odd.name.as_str(), odd.rule), ("file:x.npy", None));
    }

    #[test]
    fn additive_masks_hide_by_infinity_or_by_one_constant_far_from_the_rest() {
        let causal = |hidden: f64| made(4, 4, move |query, key| if key <= query { 0.0 } else { hidden });
        let infinite = numbers(&[4, 4], &causal(f64::NEG_INFINITY), false);
        assert_eq!(infinite.polarity(), Polarity::Additive { constant: None });
        let meaning = infinite.at(4, 4).expect("fits");
        assert_eq!((meaning.name.as_str(), meaning.bias), ("causal", None));
        let finite = numbers(&[4, 4], &causal(-1e4), false);
        assert_eq!(finite.polarity(), Polarity::Additive { constant: Some(-1e4) });
        assert!(finite.words()[0].contains("-1e4 hides: causal"), "{:?}", finite.words());
        let meaning = finite.at(4, 4).expect("fits");
        assert_eq!(meaning.bias.expect("added")[1], -1e4);
        assert!(!meaning.biases_visible && meaning.constant == Some(-1e4));
        // ALiBi (Press et al. 2022), slope 1, 200 keys: no number is apart from the others.
        let alibi = numbers(&[200, 200], &made(200, 200, |query, key| -(query.abs_diff(key) as f64)), false);
        assert_eq!(alibi.polarity(), Polarity::Additive { constant: None });
        assert!(alibi.words()[0].contains("nothing hides") && alibi.words()[1].contains("by -199 to 0: a bias"));
        assert!(alibi.at(200, 200).expect("fits").biases_visible);
    }

    #[test]
    fn one_row_or_one_column_is_repeated_and_another_shape_refused_with_both_named() {
        let keys = numbers(&[3], &[1.0, 1.0, 0.0], true);
        assert_eq!((keys.queries(), keys.keys()), (None, Some(3)));
        assert_eq!(keys.at(5, 3).expect("fits").mask.visible_keys(), [2; 5]);
        let queries = numbers(&[3, 1], &[1.0, 0.0, 1.0], true);
        assert_eq!(queries.at(3, 4).expect("fits").mask.visible_keys(), [4, 0, 4]);
        let error = numbers(&[2, 3], &[1.0; 6], true).at(3, 2).expect_err("another shape");
        assert_eq!(error, "x.npy: the mask has shape 2 × 3, the logits have 3 × 2 (queries × keys)");
    }

    #[test]
    fn what_is_no_mask_is_refused() {
        let refused = |shape: &[usize], values: &[f64]| {
            MaskNumbers::new("x.npy", shape, values.to_vec(), false).expect_err("no mask")
        };
        assert!(refused(&[2, 2, 2], &[0.0; 8]).contains("several masks (shape 2 × 2 × 2)"));
        assert!(refused(&[0, 3], &[]).contains("no number (shape 0 × 3)"));
        // Field reports PR-02.
        let nan = refused(&[2, 2], &[f64::NAN, f64::NEG_INFINITY, f64::NAN, f64::NAN]);
        assert!(
            nan.contains("NaN in 3 of 4 entries, the first at query 0, key 0; a constant that overflowed"),
            "{nan}"
        );
        assert!(
            refused(&[2, 2], &[0.0, -1.0, f64::INFINITY, 0.0])
                .contains("+∞ in 1 of 4 entries, the first at query 1, key 0")
        );
    }
}
