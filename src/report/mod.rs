//! Results as data, and every form they leave the program in.
//!
//! A [`row::Row`] is one statistic at one parameter point. The same rows become a table for people ([`table`]), the tidy
//! CSV that is the contract with other programs ([`csv`]), [`json`], [`markdown`] and a picture ([`plot`]); files of any subcommand become one
//! page ([`page`]). Which form, and
//! where it goes, is decided by [`mod@format`]; [`mod@file`] writes files whole or not at all, also when the program is
//! interrupted ([`interrupt`]), [`partial`] files that a later run goes on with; [`stdout`] writes to a pipe that may close.

pub mod claims;
pub mod colour;
pub mod command_line;
pub mod cost;
pub mod csv;
pub mod file;
pub mod findings;
pub mod format;
pub mod interrupt;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod notes;
pub mod number;
pub mod page;
pub mod partial;
pub mod plot;

pub mod probe;
pub mod record;
pub mod row;
pub mod stdout;
pub mod summary;
pub mod table;

pub use cost::CostRow;
pub use file::AtomicFile;
pub use format::Format;
pub use partial::PartialFile;
pub use record::Record;
pub use row::{Row, TheoryKind, Verdict};

use std::io::{self, Write};

/// Writes a run in the form asked for. `layout` also holds the false-alarm rate that the closing line of tables names.
///
/// # Errors
/// Those of `output`, with their kind.
pub fn write(
    format: Format,
    run: &json::Run,
    rows: &[Row],
    layout: &table::Layout,
    output: impl Write,
) -> io::Result<()> {
    match format {
        Format::Table => table::write(rows, layout, output),
        Format::Csv => csv::write(rows, output),
        Format::Json => json::write(run, rows, output),
        Format::Markdown => markdown::write(rows, layout.false_alarm, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_begins_as_its_kind_of_file_does() {
        let run = json::Run {
            command: "variance".into(),
            invocation: "attn variance".into(),
            version: "0.1.0".into(),
            seed: None,
            remarks: Vec::new(),
        };
        let layout = table::Layout { width: 100, colour: table::Colour::Plain, false_alarm: None };
        let rows = [Row { seed: Some(7), ..Row::new("variance", "q_mean") }];
        let starts = [
            (Format::Table, "seed 7\n\nstatistic"),
            (Format::Csv, "command,statistic,"),
            (Format::Json, "{\n  \"command\": \"variance\",\n"),
            (Format::Markdown, "| statistic | verdict |\n"),
        ];
        for (format, start) in starts {
            let mut bytes = Vec::new();
            write(format, &run, &rows, &layout, &mut bytes).expect("a vector takes every byte");
            let text = String::from_utf8(bytes).expect("UTF-8");
            assert!(text.starts_with(start), "{format}: {text}");
        }
    }
}
