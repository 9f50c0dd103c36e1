//! Notes, warnings and errors on standard error.

use std::io::{self, Write};

/// Writes one line to standard error. Where nobody can read it (a closed pipe, a full disk) the run goes on without: what a run
/// came to is in its results and its exit code.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
