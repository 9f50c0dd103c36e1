//! `--scale EXPR`: a number or an expression of the sizes, e.g. `1/sqrt(dk)`.
//!
//! Grammar: sums and products of numbers, `dk`, `dmodel`, `heads`, `n`, `m`, `layer`, parentheses, `sqrt(…)`, and powers `x^y`
//! (right to left; `**` is the same).

use std::collections::BTreeMap;
use std::fmt;

/// An expression that gives the factor on QKᵀ.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleExpression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(f64),
    Size(String),
    Negative(Box<Node>),
    SquareRoot(Box<Node>),
    Operation(char, Box<Node>, Box<Node>),
}

/// Names that an expression may use.
pub const SIZE_NAMES: [&str; 6] = ["dk", "dmodel", "heads", "n", "m", "layer"];

/// Parentheses deeper than this are no scale.
const DEEPEST: usize = 50;

impl ScaleExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is not understood, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, next: 0, depth: 0 };
        let root = parser.sum()?;
        match parser.peek() {
            None => Ok(Self { text: text.trim().to_string(), root }),
            Some(token) => Err(format!("'{token}' is not expected there; for example 1/sqrt(dk)")),
        }
    }

    /// The factor at the given sizes.
    ///
    /// # Errors
    /// A size that is not known, or a value that is not finite.
    pub fn value(&self, sizes: &BTreeMap<&str, f64>) -> Result<f64, String> {
        let value = self.root.value(sizes)?;
        if value.is_finite() { Ok(value) } else { Err(format!("{} is {value} at these sizes", self.text)) }
    }

    /// The standard scale 1/√d_k.
    pub fn standard() -> Self {
        Self {
            text: "1/sqrt(dk)".to_string(),
            root: Node::Operation(
                '/',
                Box::new(Node::Number(1.0)),
                Box::new(Node::SquareRoot(Box::new(Node::Size("dk".to_string())))),
            ),
        }
    }
}

impl fmt::Display for ScaleExpression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Node {
    fn value(&self, sizes: &BTreeMap<&str, f64>) -> Result<f64, String> {
        Ok(match self {
            Self::Number(number) => *number,
            Self::Size(name) => *sizes.get(name.as_str()).ok_or_else(|| {
                let option = if name == "layer" { "--layer" } else { "the file" };
                format!("{name} is not known ({option} does not say it)")
            })?,
            Self::Negative(inner) => -inner.value(sizes)?,
            Self::SquareRoot(inner) => inner.value(sizes)?.sqrt(),
            Self::Operation(operation, left, right) => {
                let (left, right) = (left.value(sizes)?, right.value(sizes)?);
                match operation {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    _ => left.powf(right),
                }
            }
        })
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let characters: Vec<char> = text.replace("**", "^").chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let start = at;
        let first = characters[at];
        at += 1;
        if first.is_whitespace() {
            continue;
        }
        if first.is_ascii_digit() || first == '.' {
            while at < characters.len() {
                let exponent_sign = matches!(characters[at], '+' | '-') && matches!(characters[at - 1], 'e' | 'E');
                if !(characters[at].is_ascii_alphanumeric() || characters[at] == '.' || exponent_sign) {
                    break;
                }
                at += 1;
            }
        } else if first.is_ascii_alphabetic() {
            while at < characters.len() && (characters[at].is_ascii_alphanumeric() || characters[at] == '_') {
                at += 1;
            }
        } else if !"+-*/^()".contains(first) {
            return Err(format!("'{first}' is not part of a scale; for example 1/sqrt(dk), 1/dk, 0.1147"));
        }
        tokens.push(characters[start..at].iter().collect());
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: &'a [String],
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.next).map(String::as_str)
    }

    fn take(&mut self, wanted: &str) -> Result<(), String> {
        match self.peek() {
            Some(token) if token == wanted => {
                self.next += 1;
                Ok(())
            }
            Some(token) => Err(format!("'{wanted}' is expected before '{token}'")),
            None => Err(format!("'{wanted}' is missing at the end")),
        }
    }

    fn chain(&mut self, operations: &str, inner: fn(&mut Self) -> Result<Node, String>) -> Result<Node, String> {
        let mut left = inner(self)?;
        while let Some(operation) =
            self.peek().and_then(|token| token.chars().next()).filter(|c| operations.contains(*c))
        {
            self.next += 1;
            left = Node::Operation(operation, Box::new(left), Box::new(inner(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} parentheses inside each other"));
        }
        let sum = self.chain("+-", Self::product);
        self.depth -= 1;
        sum
    }

    fn product(&mut self) -> Result<Node, String> {
        self.chain("*/", Self::power)
    }

    fn power(&mut self) -> Result<Node, String> {
        let mut negative = false;
        while self.peek() == Some("-") {
            self.next += 1;
            negative = !negative;
        }
        let mut base = self.atom()?;
        if self.peek() == Some("^") {
            self.next += 1;
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(format!("more than {DEEPEST} powers inside each other"));
            }
            base = Node::Operation('^', Box::new(base), Box::new(self.power()?));
            self.depth -= 1;
        }
        Ok(if negative { Node::Negative(Box::new(base)) } else { base })
    }

    fn atom(&mut self) -> Result<Node, String> {
        let Some(token) = self.peek().map(str::to_string) else {
            return Err("a number or a size is missing at the end".to_string());
        };
        self.next += 1;
        if token == "(" {
            let inner = self.sum()?;
            self.take(")")?;
            return Ok(inner);
        }
        if token == "sqrt" {
            self.take("(")?;
            let inner = self.sum()?;
            self.take(")")?;
            return Ok(Node::SquareRoot(Box::new(inner)));
        }
        if SIZE_NAMES.contains(&token.as_str()) {
            return Ok(Node::Size(token));
        }
        match token.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Node::Number(number)),
            _ => Err(format!("'{token}' is neither a number nor one of {} or sqrt(…)", SIZE_NAMES.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let sizes = BTreeMap::from([("dk", 64.0), ("heads", 8.0), ("dmodel", 512.0), ("n", 5.0), ("m", 7.0)]);
        ScaleExpression::parse(text)?.value(&sizes)
    }

    #[test]
    fn expressions_mean_what_they_mean_in_python() {
        // By hand.
        for (text, expected) in [
            ("1/sqrt(dk)", 0.125),
            ("1", 1.0),
            ("1/dk", 0.015625),
            ("0.1147", 0.1147),
            ("dk**-0.5", 0.125),
            ("dk^-0.5", 0.125),
            ("sqrt(dk)/dk", 0.125),
            ("1/(dk*heads)", 1.0 / 512.0),
            ("2^3^2", 512.0),
            ("-2^2", -4.0),
            ("1/2/4", 0.125),
            ("1e-2*n + m", 7.05),
            ("8-3-2", 3.0),
            (" ( 1 ) ", 1.0),
        ] {
            assert!((value(text).expect(text) - expected).abs() < 1e-15, "{text}: {:?}", value(text));
        }
    }

    #[test]
    fn what_is_no_scale_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "missing at the end"),
            ("1/", "missing at the end"),
            ("1/sqrt dk", "'(' is expected"),
            ("1/sqrt(dk", "')' is missing"),
            ("1 2", "not expected"),
            ("dv", "neither a number nor one of"),
            ("1/$", "not part of a scale"),
            ("1/(dk-64)", "is inf"),
            ("sqrt(0-1)", "is NaN"),
            ("layer", "--layer"),
            ("1e999", "neither"),
        ] {
            let error = value(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(value(&"(".repeat(10_000)).is_err() && value(&"2^".repeat(10_000)).is_err());
    }

    #[test]
    fn the_standard_scale_is_what_its_text_says() {
        assert_eq!(ScaleExpression::standard(), ScaleExpression::parse("1/sqrt(dk)").expect("valid"));
    }
}
