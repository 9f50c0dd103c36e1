//! Rows of `attn complexity`: what a stage of attention costs at one size, how it grows, and what was checked.

mod table;

pub use table::{Closing, bytes as bytes_text, write_markdown, write_table};

use serde::{Deserialize, Serialize};

use super::number::{exact_or_empty, finite};
use super::record::Record;
use super::row::Verdict;

/// One cost, one exponent or one check.
///
/// Rows are of four kinds, told apart by what is filled: a *cost* has `seconds` (and `operations`); a *count* has operations and
/// nothing measured; a *growth* has `exponent_of`; a *check* has `difference`. `None` is an empty field in CSV and `null` in JSON.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct CostRow {
    /// The subcommand.
    pub command: String,
    /// What is counted, timed or checked: `qk`, `scale_softmax`, `pv`, `total`, …
    pub stage: String,
    /// Number of queries.
    pub n: Option<u64>,
    /// Number of keys.
    pub m: Option<u64>,
    /// Width of queries and keys.
    pub d_k: Option<u64>,
    /// Width of values.
    pub d_v: Option<u64>,
    /// Exact number of operations that the mathematics asks for.
    pub operations: Option<u128>,
    /// Peak bytes allocated beside Q, K and V.
    pub bytes: Option<u64>,
    /// Median time.
    #[serde(serialize_with = "finite_or_null")]
    pub seconds: Option<f64>,
    /// Lower 95 % limit of the median.
    #[serde(serialize_with = "finite_or_null")]
    pub seconds_low: Option<f64>,
    /// Upper 95 % limit of the median.
    #[serde(serialize_with = "finite_or_null")]
    pub seconds_high: Option<f64>,
    /// `operations` over `seconds`.
    #[serde(serialize_with = "finite_or_null")]
    pub operations_per_second: Option<f64>,
    /// What the exponent is of: `n` or `d_k`.
    pub exponent_of: Option<String>,
    /// Fitted exponent of the time less what it takes beside the cells.
    #[serde(serialize_with = "finite_or_null")]
    pub exponent: Option<f64>,
    /// Lower 95 % limit.
    #[serde(serialize_with = "finite_or_null")]
    pub exponent_low: Option<f64>,
    /// Upper 95 % limit.
    #[serde(serialize_with = "finite_or_null")]
    pub exponent_high: Option<f64>,
    /// Exponent of the exact counts at the same sizes.
    #[serde(serialize_with = "finite_or_null")]
    pub exponent_expected: Option<f64>,
    /// Whether the expected exponent lies between the limits; missing without limits.
    pub expected_inside: Option<bool>,
    /// Number of sizes that the fit rests on.
    pub sizes_fitted: Option<u64>,
    /// Bytes that the law of the memory gives: n·m numbers (materialised), m·(d_k + d_v) + n·d_v numbers (streaming).
    pub bytes_law: Option<u64>,
    /// What a check found: the difference that is largest beside its bound.
    #[serde(serialize_with = "finite_or_null")]
    pub difference: Option<f64>,
    /// The largest difference that rounding explains; 0 for counts.
    #[serde(serialize_with = "finite_or_null")]
    pub bound: Option<f64>,
    /// What the row amounts to; missing for counts, which claim nothing.
    pub verdict: Option<Verdict>,
    /// `materialised` or `streaming`.
    pub kernel: Option<String>,
    /// The mask; missing where every query sees every key.
    pub mask: Option<String>,
    /// Heads of queries that are counted together; 1 for what is timed.
    pub heads: Option<u64>,
    /// Heads of keys and values.
    pub kv_heads: Option<u64>,
    /// `f32` or `f64`.
    pub precision: Option<String>,
    /// Threads that shared the work.
    pub threads: Option<u64>,
    /// Number of times that the median is of.
    pub repetitions: Option<u64>,
    /// `thread` (processor time of the thread) or `wall`.
    pub clock: Option<String>,
    /// Seed of the inputs and of the order of the sizes.
    pub seed: Option<u64>,
    /// Version of the program.
    pub version: String,
}

impl Record for CostRow {
    const COLUMNS: &'static [&'static str] = &[
        "command",
        "stage",
        "n",
        "m",
        "d_k",
        "d_v",
        "operations",
        "bytes",
        "seconds",
        "seconds_low",
        "seconds_high",
        "operations_per_second",
        "exponent_of",
        "exponent",
        "exponent_low",
        "exponent_high",
        "exponent_expected",
        "expected_inside",
        "sizes_fitted",
        "bytes_law",
        "difference",
        "bound",
        "verdict",
        "kernel",
        "mask",
        "heads",
        "kv_heads",
        "precision",
        "threads",
        "repetitions",
        "clock",
        "seed",
        "version",
    ];

    fn fields(&self) -> Vec<String> {
        let word = |value: &Option<String>| value.clone().unwrap_or_default();
        fn text<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        let real = exact_or_empty;
        vec![
            self.command.clone(),
            self.stage.clone(),
            text(self.n),
            text(self.m),
            text(self.d_k),
            text(self.d_v),
            text(self.operations),
            text(self.bytes),
            real(self.seconds),
            real(self.seconds_low),
            real(self.seconds_high),
            real(self.operations_per_second),
            word(&self.exponent_of),
            real(self.exponent),
            real(self.exponent_low),
            real(self.exponent_high),
            real(self.exponent_expected),
            text(self.expected_inside),
            text(self.sizes_fitted),
            text(self.bytes_law),
            real(self.difference),
            real(self.bound),
            text(self.verdict),
            word(&self.kernel),
            word(&self.mask),
            text(self.heads),
            text(self.kv_heads),
            word(&self.precision),
            text(self.threads),
            text(self.repetitions),
            word(&self.clock),
            text(self.seed),
            self.version.clone(),
        ]
    }
}

fn finite_or_null<S: serde::Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    finite(*value).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{csv, json};

    /// One row with every field filled, each differently.
    fn full() -> CostRow {
        CostRow {
            command: "complexity".into(),
            stage: "qk".into(),
            n: Some(7),
            m: Some(11),
            d_k: Some(3),
            d_v: Some(5),
            operations: Some(1 << 100),
            bytes: Some(13),
            seconds: Some(0.5),
            seconds_low: Some(0.25),
            seconds_high: Some(0.75),
            operations_per_second: Some(17.0),
            exponent_of: Some("n".into()),
            exponent: Some(1.875),
            exponent_low: Some(1.75),
            exponent_high: Some(2.125),
            exponent_expected: Some(2.0),
            expected_inside: Some(true),
            sizes_fitted: Some(4),
            bytes_law: Some(19),
            difference: Some(1e-7),
            bound: Some(1e-6),
            verdict: Some(Verdict::Upheld),
            kernel: Some("streaming".into()),
            mask: Some("documents:3,4".into()),
            heads: Some(23),
            kv_heads: Some(1),
            precision: Some("f32".into()),
            threads: Some(2),
            repetitions: Some(29),
            clock: Some("wall".into()),
            seed: Some(31),
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn the_csv_of_a_full_row_is_the_one_written_by_hand() {
        let mut bytes = Vec::new();
        csv::write(&[full()], &mut bytes).expect("a vector takes every byte");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let record = "complexity,qk,7,11,3,5,1267650600228229401496703205376,13,0.5,0.25,0.75,17,n,1.875,1.75,2.125,2,true,4,19,\
            1e-7,1e-6,upheld,streaming,\"documents:3,4\",23,1,f32,2,29,wall,31,0.1.0";
        assert_eq!(text.lines().nth(1), Some(record));
    }

    #[test]
    fn json_has_the_columns_of_the_csv_in_their_order_and_null_for_what_is_missing() {
        let run = json::Run {
            command: "complexity".into(),
            invocation: "attn complexity".into(),
            version: "0.1.0".into(),
            seed: Some(0),
            remarks: Vec::new(),
        };
        let mut bytes = Vec::new();
        let empty = CostRow { seconds: Some(f64::NAN), ..CostRow::default() };
        json::write(&run, &[full(), empty], &mut bytes).expect("a vector takes every byte");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let mut at = 0;
        for column in CostRow::COLUMNS {
            let name = format!("\"{column}\":");
            let rest = text.split_once("\"rows\"").expect("rows").1;
            let found = rest[at..].find(&name).unwrap_or_else(|| panic!("{column} in its place"));
            at += found;
        }
        assert!(text.contains("1267650600228229401496703205376") && text.contains("\"seconds\":null"), "{text}");
    }
}
