//! The tidy CSV: one line per row, columns of [`Record::COLUMNS`] in order, every number written so that it reads back exactly.

use std::io::{self, Read, Write};

use super::record::Record;
use super::row::{COLUMNS, Row};

/// Writes the header and one record per row (RFC 4180 quoting where needed, `\n` line ends, UTF-8).
///
/// # Errors
/// Those of `output`, with their kind.
pub fn write<R: Record>(rows: &[R], output: impl Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(output);
    writer.write_record(R::COLUMNS).map_err(to_io)?;
    for row in rows {
        writer.write_record(row.fields()).map_err(to_io)?;
    }
    writer.flush()
}

/// Reads rows by column name; columns that later versions added are passed over.
///
/// # Errors
/// Names the line and what is wrong with it, or the column that is missing.
pub fn read(input: impl Read) -> io::Result<Vec<Row>> {
    let mut reader = ::csv::Reader::from_reader(input);
    let header = reader.headers().map_err(to_io)?;
    // Files of earlier versions lack what was added behind the version.
    let needed = COLUMNS.iter().take_while(|name| **name != "index");
    if let Some(missing) = needed.into_iter().find(|name| !header.iter().any(|column| column == **name)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the CSV has no column '{missing}'")));
    }
    reader.deserialize().map(|record| record.map_err(to_io)).collect()
}

/// The kind of an I/O error must survive: a closed pipe is not a failure.
fn to_io(error: ::csv::Error) -> io::Error {
    let text = error.to_string();
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        _ => io::Error::new(io::ErrorKind::InvalidData, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::{TheoryKind, Verdict};
    use proptest::prelude::*;

    const HEADER: &str = "command,statistic,scale,mask,d_k,n_queries,n_keys,entries,precision,trials,seed,estimate,\
        std_error,ci_low,ci_high,theory,theory_kind,deviation,p_value,min_detectable,verdict,version,index,method,instructions\n";

    fn text(rows: &[Row]) -> String {
        let mut bytes = Vec::new();
        write(rows, &mut bytes).expect("a vector takes every byte");
        String::from_utf8(bytes).expect("CSV is UTF-8")
    }

    #[test]
    fn the_text_of_a_full_row_is_the_one_written_by_hand() {
        // Header from PRODUCT.md, record typed by hand.
        let row = Row {
            scale: Some("inv-sqrt-dk".into()),
            mask: Some("window:3".into()),
            d_k: Some(67),
            n_queries: Some(31),
            n_keys: Some(37),
            entries: Some("student-t:5".into()),
            precision: Some("bf16".into()),
            trials: Some(11),
            seed: Some(u64::MAX),
            estimate: Some(1.0625),
            std_error: Some(0.03125),
            ci_low: Some(1.0),
            ci_high: Some(1.125),
            theory: Some(1.0),
            theory_kind: Some(TheoryKind::Approximate),
            deviation: Some(-0.0625),
            p_value: Some(1e-300),
            min_detectable: Some(1.5e-7),
            verdict: Verdict::Rejected,
            index: Some(17),
            method: Some("gram".into()),
            instructions: Some("AVX2".into()),
            version: "0.1.0".into(),
            test: Some("never in a CSV".into()),
            ..Row::new("variance", "logit_variance")
        };
        let record = "variance,logit_variance,inv-sqrt-dk,window:3,67,31,37,student-t:5,bf16,11,18446744073709551615,1.0625,\
            0.03125,1,1.125,1,approximate,-0.0625,1e-300,1.5e-7,rejected,0.1.0,17,gram,AVX2\n";
        assert_eq!(text(&[row]), format!("{HEADER}{record}"));
    }

    #[test]
    fn missing_and_non_finite_values_are_empty_fields() {
        let row = Row {
            estimate: Some(f64::NAN),
            ci_high: Some(f64::INFINITY),
            theory: Some(0.0),
            version: "0.1.0".into(),
            ..Row::new("mask", "leak")
        };
        assert_eq!(text(&[row]), format!("{HEADER}mask,leak,,,,,,,,,,,,,,0,,,,,measured,0.1.0,,,\n"));
    }

    #[test]
    fn commas_quotes_and_line_breaks_are_quoted_and_come_back() {
        let row = Row {
            mask: Some("documents:3,5,7".into()),
            entries: Some("say \"x\"\nor y".into()),
            ..Row::new("mask", "leak")
        };
        let written = text(std::slice::from_ref(&row));
        assert!(written.contains(",\"documents:3,5,7\","), "{written}");
        assert!(written.contains(",\"say \"\"x\"\"\nor y\","), "{written}");
        assert_eq!(read(written.as_bytes()).expect("own output"), [row]);
    }

    #[test]
    fn no_rows_still_have_a_header() {
        assert_eq!(text(&[]), HEADER);
    }

    #[test]
    fn columns_that_later_versions_add_are_passed_over_those_that_earlier_ones_lack_are_empty_and_others_are_named() {
        let later = format!(
            "{}{}",
            HEADER.replace("instructions\n", "instructions,extra\n"),
            "mask,leak,,,,,,,,,,,,,,0,,,,,measured,9.0.0,,,,1\n"
        );
        let rows = read(later.as_bytes()).expect("a column more is fine");
        assert_eq!((rows.len(), rows[0].theory, rows[0].version.as_str()), (1, Some(0.0), "9.0.0"));
        let earlier = later.replace(",index,method,instructions,extra\n", "\n").replace(",,,,1\n", "\n");
        assert_eq!(read(earlier.as_bytes()).expect("columns that came later are missing")[0].method, None);
        let error = read("command,statistic\n".as_bytes()).expect_err("no scale");
        assert!(error.to_string().contains("'scale'"), "{error}");
    }

    struct Broken(io::ErrorKind);
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_write_error_keeps_its_kind() {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
            assert_eq!(write::<Row>(&[], Broken(kind)).expect_err("cannot be written").kind(), kind);
        }
    }

    proptest! {
        #[test]
        fn every_finite_number_reads_back_bit_for_bit_through_csv(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            let row = Row { estimate: Some(value), ..Row::new("variance", "logit_mean") };
            let back = read(text(&[row]).as_bytes()).expect("own output")[0].estimate;
            let expected = value.is_finite().then_some(bits);
            prop_assert_eq!(back.map(f64::to_bits), expected);
        }
    }
}
