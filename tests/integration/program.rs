//! Running the built program in a folder of its own, and reading what it wrote by other means than its own reader.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

/// The built program.
pub const ATTN: &str = env!("CARGO_BIN_EXE_attn");

/// A run that takes longer has hung; it is ended and counts as killed.
const LONGEST: Duration = Duration::from_secs(300);

/// Sizes at which a run takes milliseconds.
pub const SMALL: &str = "variance --queries 16 --dk 5 --trials 20";

/// What a finished run left.
#[derive(Debug)]
pub struct Run {
    /// The exit code; a run that was killed has none.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A folder without anything in it.
pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

/// Runs `attn` with the words of `line`, both streams being pipes, in a folder that is empty before and after.
pub fn attn(line: &str) -> Run {
    let folder = folder();
    let run = attn_in(folder.path(), line);
    assert_eq!(names(folder.path()), [""; 0], "{line}: files that nobody asked for");
    run
}

/// Runs `attn` with the words of `line` in `folder`.
pub fn attn_in(folder: &Path, line: &str) -> Run {
    attn_words(folder, &line.split_whitespace().collect::<Vec<_>>())
}

/// Runs `attn` with `words` in `folder`.
pub fn attn_words<W: AsRef<std::ffi::OsStr>>(folder: &Path, words: &[W]) -> Run {
    let output = assert_cmd::Command::new(ATTN)
        .args(words)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .timeout(LONGEST)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The text of a file that must be there.
pub fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One record of a CSV, by column name.
pub type Record = BTreeMap<String, String>;

/// The records of a CSV text.
pub fn records(csv: &str) -> Vec<Record> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header: Vec<String> = reader.headers().expect("a header").iter().map(String::from).collect();
    let record = |record: csv::StringRecord| header.iter().cloned().zip(record.iter().map(String::from)).collect();
    reader.records().map(|found| record(found.expect("as many fields as the header"))).collect()
}

/// The number in a field.
pub fn number(record: &Record, column: &str) -> f64 {
    record[column].parse().unwrap_or_else(|_| panic!("{column} '{}' in {record:?}", record[column]))
}

/// The one record of `statistic`, at `scale` and `d_k` (empty where it has none).
pub fn row<'a>(rows: &'a [Record], statistic: &str, scale: &str, d_k: &str) -> &'a Record {
    let wanted = |row: &&Record| row["statistic"] == statistic && row["scale"] == scale && row["d_k"] == d_k;
    let found: Vec<&Record> = rows.iter().filter(wanted).collect();
    assert_eq!(found.len(), 1, "{statistic} {scale} {d_k}: {} rows", found.len());
    found[0]
}

/// Asserts that two numbers agree to `tolerance`, relative or absolute, whichever is larger.
#[track_caller]
pub fn assert_close(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (measured - expected).abs();
    assert!(error <= tolerance * expected.abs().max(1.0), "{what}: {measured} is not {expected} (off by {error:e})");
}
