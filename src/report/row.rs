//! One result as data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::number::finite;

/// The columns of the tidy CSV, in their order. Later versions only add names at the end.
pub const COLUMNS: [&str; 25] = [
    "command",
    "statistic",
    "scale",
    "mask",
    "d_k",
    "n_queries",
    "n_keys",
    "entries",
    "precision",
    "trials",
    "seed",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "theory",
    "theory_kind",
    "deviation",
    "p_value",
    "min_detectable",
    "verdict",
    "version",
    "index",
    "method",
    "instructions",
];

/// One statistic at one parameter point, held against its theory value.
///
/// `None` means missing: an empty field in CSV, `null` in JSON. A number that is not finite is written as missing too,
/// so NaN never reaches a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The subcommand that measured it.
    pub command: String,
    /// Name of the statistic, for example `logit_variance`.
    pub statistic: String,
    /// Scale of the logits: `none`, `inv-sqrt-dk`, `inv-dk` or a number; missing where the statistic has none.
    pub scale: Option<String>,
    /// The mask, missing where there is none.
    pub mask: Option<String>,
    /// d_k, the number of columns of Q and K; missing for rows over a sweep.
    pub d_k: Option<u64>,
    /// Rows of Q.
    pub n_queries: Option<u64>,
    /// Rows of K.
    pub n_keys: Option<u64>,
    /// The law of the entries of Q and K.
    pub entries: Option<String>,
    /// The arithmetic: `f64`, `f32`, `bf16`, `f16`.
    pub precision: Option<String>,
    /// Number of independent trials.
    pub trials: Option<u64>,
    /// The seed of the run.
    pub seed: Option<u64>,
    /// The measured value, in the statistic's own unit.
    #[serde(serialize_with = "finite_or_null")]
    pub estimate: Option<f64>,
    /// Standard error of the estimate, same unit.
    #[serde(serialize_with = "finite_or_null")]
    pub std_error: Option<f64>,
    /// Lower 95 % limit, same unit.
    #[serde(serialize_with = "finite_or_null")]
    pub ci_low: Option<f64>,
    /// Upper 95 % limit, same unit.
    #[serde(serialize_with = "finite_or_null")]
    pub ci_high: Option<f64>,
    /// What the mathematics predicts, same unit.
    #[serde(serialize_with = "finite_or_null")]
    pub theory: Option<f64>,
    /// How good the prediction is.
    pub theory_kind: Option<TheoryKind>,
    /// (estimate − theory)/|theory|, or in units of the statistic's natural scale where theory is 0 or that scale is larger.
    #[serde(serialize_with = "finite_or_null")]
    pub deviation: Option<f64>,
    /// Two-sided p-value before correction over the rows.
    #[serde(serialize_with = "finite_or_null")]
    pub p_value: Option<f64>,
    /// Smallest deviation that this many trials detect, in the unit of `deviation`.
    #[serde(serialize_with = "finite_or_null")]
    pub min_detectable: Option<f64>,
    /// What the row amounts to.
    pub verdict: Verdict,
    /// Version of the program that measured it.
    pub version: String,
    /// Which one of several, from 0, where a statistic is measured on each: the query of a row, the head, the layer.
    #[serde(default)]
    pub index: Option<u64>,
    /// How the figures are formed, where there are several ways: in `variance` `logits`, `gram` (from Gram matrices of the Q and K that are drawn) or
    /// `gram-draw` (from Gram matrices that are drawn).
    #[serde(default)]
    pub method: Option<String>,
    /// The instruction set of the kernels on the machine that wrote the row: `AVX-512`, `AVX2` or `portable`.
    #[serde(default)]
    pub instructions: Option<String>,
    /// How the p-value was obtained, in words. In JSON only.
    #[serde(default)]
    pub test: Option<String>,
}

impl Row {
    /// A row of which nothing is known but its name: every value is missing, the verdict is [`Verdict::Measured`] and the
    /// version is that of this crate. Meant for the struct update syntax, `Row { estimate: …, ..Row::new(…) }`.
    pub fn new(command: impl Into<String>, statistic: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            statistic: statistic.into(),
            scale: None,
            mask: None,
            d_k: None,
            n_queries: None,
            n_keys: None,
            entries: None,
            precision: None,
            trials: None,
            seed: None,
            estimate: None,
            std_error: None,
            ci_low: None,
            ci_high: None,
            theory: None,
            theory_kind: None,
            deviation: None,
            p_value: None,
            min_detectable: None,
            verdict: Verdict::Measured,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            index: None,
            method: None,
            instructions: None,
            test: None,
        }
    }

    /// The fields as exact text, in the order of [`COLUMNS`]; missing is empty.
    pub fn fields(&self) -> [String; COLUMNS.len()] {
        let word = |value: &Option<String>| value.clone().unwrap_or_default();
        let count = |value: Option<u64>| value.map(|number| number.to_string()).unwrap_or_default();
        let real = super::number::exact_or_empty;
        [
            self.command.clone(),
            self.statistic.clone(),
            word(&self.scale),
            word(&self.mask),
            count(self.d_k),
            count(self.n_queries),
            count(self.n_keys),
            word(&self.entries),
            word(&self.precision),
            count(self.trials),
            count(self.seed),
            real(self.estimate),
            real(self.std_error),
            real(self.ci_low),
            real(self.ci_high),
            real(self.theory),
            self.theory_kind.map(|kind| kind.to_string()).unwrap_or_default(),
            real(self.deviation),
            real(self.p_value),
            real(self.min_detectable),
            self.verdict.to_string(),
            self.version.clone(),
            count(self.index),
            word(&self.method),
            word(&self.instructions),
        ]
    }

    /// The statistic for people, `entropy[17]` where it is one of several.
    pub fn name(&self) -> String {
        self.index.map_or_else(|| self.statistic.clone(), |index| format!("{}[{index}]", self.statistic))
    }
}

fn finite_or_null<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    finite(*value).serialize(serializer)
}

/// How good a theory value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TheoryKind {
    /// Holds for these sizes, up to rounding.
    Exact,
    /// Holds up to an error that is small but not zero at these sizes.
    Approximate,
    /// Holds in a limit only.
    Asymptotic,
}

/// What a row amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The claim holds, and a deviation of the size asked for would have been seen.
    Upheld,
    /// The claim does not hold.
    Rejected,
    /// Not rejected, but too few trials to see a deviation of the size asked for.
    Undecided,
    /// There is no claim to judge.
    Measured,
}

impl Verdict {
    /// The sign that stands before the word in tables and pictures.
    pub fn mark(self) -> char {
        match self {
            Self::Upheld => '✔',
            Self::Rejected => '✘',
            Self::Undecided => '?',
            Self::Measured => '·',
        }
    }
}

impl fmt::Display for TheoryKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Exact => "exact",
            Self::Approximate => "approximate",
            Self::Asymptotic => "asymptotic",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Upheld => "upheld",
            Self::Rejected => "rejected",
            Self::Undecided => "undecided",
            Self::Measured => "measured",
        })
    }
}

impl FromStr for Verdict {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "upheld" => Ok(Self::Upheld),
            "rejected" => Ok(Self::Rejected),
            "undecided" => Ok(Self::Undecided),
            "measured" => Ok(Self::Measured),
            _ => Err(format!("'{text}' is not a verdict: upheld, rejected, undecided, measured")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_the_product_description_in_order() {
        // PRODUCT.md, "The tidy CSV of the simulating subcommands"; what follows `version` came later.
        let expected = "command,statistic,scale,mask,d_k,n_queries,n_keys,entries,precision,trials,seed,estimate,std_error,ci_low,\
            ci_high,theory,theory_kind,deviation,p_value,min_detectable,verdict,version,index,method,instructions";
        assert_eq!(COLUMNS.join(","), expected);
    }

    #[test]
    fn verdicts_and_kinds_are_written_in_lower_case_and_honour_a_width() {
        let verdicts = [Verdict::Upheld, Verdict::Rejected, Verdict::Undecided, Verdict::Measured];
        assert_eq!(verdicts.map(|verdict| verdict.to_string()), ["upheld", "rejected", "undecided", "measured"]);
        for verdict in verdicts {
            assert_eq!(verdict.to_string().parse(), Ok(verdict));
        }
        assert!("Upheld".parse::<Verdict>().is_err());
        assert_eq!(format!("{:>12}|", TheoryKind::Asymptotic), "  asymptotic|");
        assert_eq!([TheoryKind::Exact, TheoryKind::Approximate].map(|kind| kind.to_string()), ["exact", "approximate"]);
    }

    #[test]
    fn a_new_row_has_no_value_that_could_be_taken_for_a_measurement() {
        let fields = Row::new("mask", "leak").fields();
        let filled: Vec<&str> = fields.iter().map(String::as_str).filter(|field| !field.is_empty()).collect();
        assert_eq!(filled, ["mask", "leak", "measured", env!("CARGO_PKG_VERSION")]);
        let row = Row { index: Some(17), ..Row::new("mask", "entropy") };
        assert_eq!((row.name(), Row::new("mask", "leak").name()), ("entropy[17]".to_string(), "leak".to_string()));
    }
}
