//! What rows of every shape have in common, so that each form of output is written once.

use serde::Serialize;

/// A row that can be written as CSV and JSON.
pub trait Record: Serialize {
    /// Names of the columns of the CSV, in order. Later versions only add names at the end.
    const COLUMNS: &'static [&'static str];

    /// The fields as exact text, one for each column; missing is empty.
    fn fields(&self) -> Vec<String>;
}

impl Record for super::Row {
    const COLUMNS: &'static [&'static str] = &super::row::COLUMNS;

    fn fields(&self) -> Vec<String> {
        super::Row::fields(self).to_vec()
    }
}
