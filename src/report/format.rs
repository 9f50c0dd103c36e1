//! Which form the rows take.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The forms rows are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, on a terminal.
    Table,
    /// The tidy CSV.
    Csv,
    /// One object with the run and its rows.
    Json,
    /// A GitHub table.
    Markdown,
}

/// A form that cannot be told from what was typed; the text names flag, value and rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(String);

impl fmt::Display for FormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

impl Format {
    /// Whether programs read it rather than people.
    pub fn is_data(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }

    /// The form for a run: `--format` if it was given; else by the ending of `--output` (.csv, .json, .md, any case);
    /// else, on standard output (`output` missing or `-`), a table on a terminal and CSV otherwise.
    ///
    /// # Errors
    /// `--output` names a file with another ending and there is no `--format`.
    pub fn choose(asked: Option<Self>, output: Option<&Path>, terminal: bool) -> Result<Self, FormatError> {
        if let Some(format) = asked {
            return Ok(format);
        }
        match output {
            Some(path) if !is_stdout(path) => Self::of_path(path),
            _ if terminal => Ok(Self::Table),
            _ => Ok(Self::Csv),
        }
    }

    fn of_path(path: &Path) -> Result<Self, FormatError> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "md" => Ok(Self::Markdown),
            _ => Err(FormatError(format!(
                "--output '{}': the ending must be .csv, .json or .md, or --format must say table, csv, json or markdown",
                path.display()
            ))),
        }
    }
}

/// Whether `--output` means standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl FromStr for Format {
    type Err = FormatError;

    // The rule alone: clap puts flag and value before it.
    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "markdown" => Ok(Self::Markdown),
            _ => Err(FormatError("must be table, csv, json or markdown".to_owned())),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Markdown => "markdown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(asked: Option<Format>, output: Option<&str>, terminal: bool) -> Result<Format, FormatError> {
        Format::choose(asked, output.map(Path::new), terminal)
    }

    #[test]
    fn standard_output_is_a_table_on_a_terminal_and_csv_elsewhere() {
        for output in [None, Some("-")] {
            assert_eq!(choose(None, output, true), Ok(Format::Table));
            assert_eq!(choose(None, output, false), Ok(Format::Csv));
        }
    }

    #[test]
    fn the_ending_decides_for_a_file_whatever_standard_output_is() {
        for terminal in [false, true] {
            assert_eq!(choose(None, Some("a/b.c/x.csv"), terminal), Ok(Format::Csv));
            assert_eq!(choose(None, Some("x.JSON"), terminal), Ok(Format::Json));
            assert_eq!(choose(None, Some("./x.y.md"), terminal), Ok(Format::Markdown));
        }
    }

    #[test]
    fn the_format_flag_wins_over_ending_and_terminal() {
        assert_eq!(choose(Some(Format::Json), Some("x.csv"), false), Ok(Format::Json));
        assert_eq!(choose(Some(Format::Markdown), None, true), Ok(Format::Markdown));
        assert_eq!(choose(Some(Format::Table), Some("x.unknown"), false), Ok(Format::Table));
    }

    #[test]
    fn an_unknown_ending_names_flag_value_and_rule() {
        for path in ["x.parquet", "csv", ".csv", "dir/"] {
            let error = choose(None, Some(path), true).expect_err("no known ending").to_string();
            assert!(
                error.starts_with(&format!("--output '{path}'")) && error.contains(".csv, .json or .md"),
                "{error}"
            );
        }
        let error = "tsv".parse::<Format>().expect_err("not a format").to_string();
        assert_eq!(error, "must be table, csv, json or markdown");
    }

    #[test]
    fn every_format_reads_back_from_its_name() {
        for format in [Format::Table, Format::Csv, Format::Json, Format::Markdown] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
    }
}
