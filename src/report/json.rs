//! JSON: one object with the run and its rows, fields by the names of the CSV columns.

use std::io::{self, Write};

use serde::Serialize;

use super::record::Record;

/// A run: what stands beside the rows in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The subcommand.
    pub command: String,
    /// The command line that reproduces the run, quoted for a POSIX shell (see [`invocation`]).
    pub invocation: String,
    /// Version of the program.
    pub version: String,
    /// The seed that was used.
    pub seed: Option<u64>,
    /// What the rows show, in sentences.
    pub remarks: Vec<String>,
}

/// Writes `{"command", "invocation", "version", "seed", "remarks": [...], "rows": [...]}`, one row a line so that two files can be compared by `diff`.
/// A row has the CSV columns (and `test`, where it has one); missing is `null`. A file always ends with a line break.
///
/// Numbers are the shortest text that reads back exactly in a correct reader (Python, R and browsers; in Rust, serde_json needs its
/// feature `float_roundtrip`). Seeds above 2^53 are exact in the text, but not for readers that hold integers as floating point.
///
/// # Errors
/// Those of `output`, with their kind.
pub fn write<R: Record>(run: &Run, rows: &[R], mut output: impl Write) -> io::Result<()> {
    let text = |value: &str| serde_json::to_string(value).map_err(io::Error::from);
    let seed = serde_json::to_string(&run.seed).map_err(io::Error::from)?;
    writeln!(output, "{{\n  \"command\": {},", text(&run.command)?)?;
    writeln!(output, "  \"invocation\": {},", text(&run.invocation)?)?;
    writeln!(output, "  \"version\": {},\n  \"seed\": {seed},", text(&run.version)?)?;
    let remarks = serde_json::to_string(&run.remarks).map_err(io::Error::from)?;
    write!(output, "  \"remarks\": {remarks},\n  \"rows\": [")?;
    for (index, row) in rows.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        write!(output, "{separator}\n    {}", serde_json::to_string(row).map_err(io::Error::from)?)?;
    }
    let close = if rows.is_empty() { "]" } else { "\n  ]" };
    writeln!(output, "{close}\n}}")?;
    output.flush()
}

/// Joins words to a command line that a POSIX shell splits into the same words.
pub fn invocation<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=+./:,%@^".contains(character);
    let quoted = |word: W| {
        let word = word.as_ref();
        if !word.is_empty() && word.chars().all(plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::{COLUMNS, Row, TheoryKind, Verdict};
    use serde_json::Value;

    fn run() -> Run {
        Run {
            command: "variance".into(),
            invocation: "attn variance --dk '3 5'".into(),
            version: "0.1.0".into(),
            seed: Some(7),
            remarks: Vec::new(),
        }
    }

    fn parsed(rows: &[Row]) -> Value {
        let mut bytes = Vec::new();
        write(&run(), rows, &mut bytes).expect("a vector takes every byte");
        assert_eq!(bytes.last(), Some(&b'\n'));
        serde_json::from_slice(&bytes).expect("valid JSON")
    }

    #[test]
    fn the_object_holds_the_run_and_rows_with_the_names_of_the_csv_columns() {
        let row = Row {
            estimate: Some(0.1),
            p_value: Some(f64::NAN),
            theory_kind: Some(TheoryKind::Exact),
            verdict: Verdict::Undecided,
            seed: Some(u64::MAX),
            test: Some("gamma law \"matched\"".into()),
            ..Row::new("variance", "logit_mean")
        };
        let value = parsed(&[row.clone(), row]);
        assert_eq!(value["command"], "variance");
        assert_eq!(value["invocation"], "attn variance --dk '3 5'");
        assert_eq!(value["version"], "0.1.0");
        assert_eq!(value["seed"], 7);
        let rows = value["rows"].as_array().expect("an array");
        assert_eq!(rows.len(), 2);
        let fields = rows[1].as_object().expect("an object");
        for name in COLUMNS {
            assert!(fields.contains_key(name), "no field {name}");
        }
        assert_eq!(fields.len(), COLUMNS.len() + 1);
        assert_eq!(fields["estimate"], 0.1);
        assert_eq!(fields["seed"], u64::MAX);
        assert_eq!(fields["p_value"], Value::Null);
        assert_eq!(fields["mask"], Value::Null);
        assert_eq!(fields["theory_kind"], "exact");
        assert_eq!(fields["verdict"], "undecided");
        assert_eq!(fields["test"], "gamma law \"matched\"");
    }

    #[test]
    fn an_empty_run_is_valid_json_too() {
        assert_eq!(parsed(&[])["rows"], Value::Array(Vec::new()));
    }

    #[test]
    fn a_row_comes_back_from_its_json() {
        let row =
            Row { estimate: Some(1e-300), d_k: Some(3), test: Some("exact".into()), ..Row::new("variance", "q_mean") };
        let back: Row =
            serde_json::from_value(parsed(std::slice::from_ref(&row))["rows"][0].take()).expect("own output");
        assert_eq!(back, row);
    }

    #[test]
    fn a_command_line_is_quoted_only_where_a_shell_needs_it() {
        // By hand after POSIX 2.2.2 (single quotes).
        assert_eq!(
            invocation(["attn", "variance", "--dk", "16..64", "--detect", "1%"]),
            "attn variance --dk 16..64 --detect 1%"
        );
        assert_eq!(invocation(["a b", "", "it's", "$x"]), r"'a b' '' 'it'\''s' '$x'");
    }

    proptest::proptest! {
        #[test]
        fn every_finite_number_stands_in_the_text_bit_for_bit(bits in proptest::prelude::any::<u64>()) {
            let value = f64::from_bits(bits);
            let row = Row { estimate: Some(value), ..Row::new("variance", "q_mean") };
            let mut bytes = Vec::new();
            write(&run(), &[row], &mut bytes).expect("a vector takes every byte");
            let text = String::from_utf8(bytes).expect("UTF-8");
            let after = text.split_once("\"estimate\":").expect("the field").1;
            let number = after.split(',').next().expect("text before a comma");
            if value.is_finite() {
                proptest::prop_assert_eq!(number.parse::<f64>().map(f64::to_bits), Ok(bits));
            } else {
                proptest::prop_assert_eq!(number, "null");
            }
        }
    }
}
