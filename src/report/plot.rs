//! Pictures of results, as SVG or PNG, theory drawn beside measurement.
//!
//! A sweep over d_k is drawn as variance against d_k (`plot/sweep.rs`), most else as one line per claim (`plot/claims.rs`); the times of
//! `attn complexity`, masks, audits, probes and suites have pictures of their own. All are lists of shapes first, so that one picture has
//! the same form in both file types (`plot/picture.rs`). What became of a claim looks the same in all of them (`plot/standing.rs`).

pub mod across;
mod audit;
mod audit_columns;
mod axis;
mod claims;
mod cost;
pub mod growth;
mod indexed;
mod inline;
pub mod mask;
mod picture;
mod positional;
mod probe;
mod standing;
mod strips;
mod suite;
mod sweep;
pub mod values;

use std::io;
use std::path::Path;

use super::row::Row;

pub use audit::draw as audit;
pub use claims::draw as claims;
pub use claims::narrow as narrow_claims;
pub use cost::draw as cost;
pub use picture::Picture;
pub use positional::draw as positional;
pub use probe::draw as probe;
pub use suite::draw as suite;

/// The file types of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// Vector graphics; text stays text.
    Svg,
    /// Pixels, two for each unit of length, so that it stays sharp on dense displays.
    Png,
}

impl PictureFormat {
    /// The type by the ending of the file, .svg or .png in any case.
    ///
    /// # Errors
    /// Another ending; the text names flag, value and rule.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("--plot '{}': the ending must be .svg or .png", path.display()),
            )),
        }
    }
}

/// The picture of rows: a sweep of `logit_variance` over d_k, or one line for each row with a smallest detectable deviation;
/// None where there is nothing of either.
pub fn of_rows(rows: &[Row]) -> Option<Picture> {
    sweep::draw(rows).or_else(|| claims::draw(rows))
}

/// The picture of rows that are numbered by head or layer (`entropy:layer3`): a panel for each statistic; else [`of_rows`].
pub fn of_indexed_rows(rows: &[Row]) -> Option<Picture> {
    indexed::draw(rows).or_else(|| of_rows(rows))
}

/// Colours that stay apart for the colour-blind (Okabe and Ito 2008, "Color Universal Design").
mod palette {
    use plotters::style::RGBColor;

    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    pub const VERMILLION: RGBColor = RGBColor(213, 94, 0);
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    pub const PURPLE: RGBColor = RGBColor(204, 121, 167);
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
    pub const SKY: RGBColor = RGBColor(86, 180, 233);
    pub const SERIES: [RGBColor; 6] = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY];
    pub const INK: RGBColor = RGBColor(34, 34, 34);
    pub const FAINT: RGBColor = RGBColor(102, 102, 102);
    pub const GRID: RGBColor = RGBColor(222, 222, 222);
    pub const BAND: RGBColor = RGBColor(226, 240, 250);
}

/// The scale in the words of a legend.
fn scale_words(row: &Row) -> Option<String> {
    row.scale.as_deref().map(words_of_scale)
}

/// A scale as the rows write it in the words of a legend.
pub fn words_of_scale(scale: &str) -> String {
    match scale {
        "none" => "no scale".to_owned(),
        "inv-sqrt-dk" => "scale 1/√d_k".to_owned(),
        "inv-dk" => "scale 1/d_k".to_owned(),
        number => format!("scale {number}"),
    }
}

/// The line under a title: what is the same in all rows.
pub(in crate::report) fn conditions(rows: &[&Row]) -> String {
    let mut parts = Vec::new();
    let mut add = |text: &dyn Fn(&Row) -> Option<String>| {
        let mut values = rows.iter().filter_map(|row| text(row));
        if let Some(first) = values.next()
            && values.all(|other| other == first)
        {
            parts.push(first);
        }
    };
    add(&|row| row.d_k.map(|value| format!("d_k = {value}")));
    add(&|row| match (row.n_queries, row.n_keys) {
        (Some(n), Some(m)) if n == m => Some(format!("n = m = {n}")),
        (Some(n), Some(m)) => Some(format!("n = {n} · m = {m}")),
        _ => None,
    });
    add(&|row| row.mask.as_ref().map(|mask| format!("mask {mask}")));
    add(&|row| row.entries.as_ref().map(|entries| format!("{entries} entries")));
    add(&|row| row.precision.clone());
    add(&|row| row.trials.map(|trials| format!("{trials} trial{}", if trials == 1 { "" } else { "s" })));
    add(&|row| row.seed.map(|seed| format!("seed {seed}")));
    add(&|row| Some(format!("attn {}", row.version)));
    parts.join(" · ")
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "plot_marks_tests.rs"]
mod marks_tests;
