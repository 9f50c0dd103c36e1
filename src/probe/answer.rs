//! The answers of an implementation, as files in the folder `out` of a probe.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::case::Block;
use super::manifest::{CaseLine, Manifest};
use crate::diagnosis::matrix::Storage;
use crate::tensors::{DType, TensorFile};

/// The endings of an answer's file: arrays, a reason not to answer, a failure.
pub const ENDINGS: [&str; 3] = ["safetensors", "unsupported", "error"];

/// The arrays an answer may hold.
pub const ARRAYS: [&str; 6] = ["o", "weights", "lse", "dq", "dk", "dv"];

/// The folder of answers.
pub fn folder_of(probe: &Path) -> PathBuf {
    probe.join("out")
}

/// The file of `line`'s answer with `ending`.
pub fn path_of(probe: &Path, line: &CaseLine, ending: &str) -> PathBuf {
    folder_of(probe).join(format!("{}.{ending}", line.name))
}

/// Whether the case has an answer of any kind.
pub fn is_answered(probe: &Path, line: &CaseLine) -> bool {
    ENDINGS.iter().any(|ending| path_of(probe, line, ending).exists())
}

/// Removes the answers to the cases of `manifest`, and returns how many there were. Other files stay.
pub fn remove(probe: &Path, manifest: &Manifest) -> usize {
    let mut removed = 0;
    for line in &manifest.cases {
        // What an adapter was writing when it ended.
        let _ = fs::remove_file(path_of(probe, line, "partial"));
        for ending in ENDINGS {
            removed += usize::from(fs::remove_file(path_of(probe, line, ending)).is_ok());
        }
    }
    // What an earlier implementation said of itself does not hold for the next.
    let _ = fs::remove_file(folder_of(probe).join("about.json"));
    removed
}

/// One array of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerArray {
    /// The type it is stored in.
    pub storage: Storage,
    /// Its numbers; `lse` has one row of n for each head.
    pub block: Block,
}

/// What there is for a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Arrays by name, in the order of [`ARRAYS`].
    Arrays(Vec<(&'static str, AnswerArray)>),
    /// The implementation does not do it, and why.
    Unsupported(String),
    /// It did not come to an answer, and why.
    Failed(String),
    /// No file.
    Missing,
}

impl Answer {
    /// An array of the answer.
    pub fn array(&self, name: &str) -> Option<&AnswerArray> {
        match self {
            Self::Arrays(arrays) => arrays.iter().find(|(own, _)| *own == name).map(|(_, array)| array),
            _ => None,
        }
    }
}

/// The most text that is shown of a reason.
const LONGEST_REASON: usize = 400;

/// The first line of a text file, cut and on one line.
fn reason(path: &Path, last: bool) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = if last { lines.next_back() } else { lines.next() };
    let shown: String = line
        .unwrap_or("no reason given")
        .chars()
        .filter(|character| !character.is_control())
        .take(LONGEST_REASON)
        .collect();
    shown
}

/// Reads the answer to a case whose tensors have these shapes; whatever is wrong with it is [`Answer::Failed`].
pub fn read(probe: &Path, line: &CaseLine, shape: &super::case::Shape) -> Answer {
    let arrays = path_of(probe, line, "safetensors");
    let (unsupported, error) = (path_of(probe, line, "unsupported"), path_of(probe, line, "error"));
    if error.exists() {
        // A traceback says what happened in its last line.
        let text = reason(&error, false);
        let text = if text.starts_with("Traceback") { reason(&error, true) } else { text };
        return Answer::Failed(text);
    }
    if arrays.exists() {
        return read_arrays(&arrays, line, shape).unwrap_or_else(Answer::Failed);
    }
    if unsupported.exists() {
        return Answer::Unsupported(reason(&unsupported, false));
    }
    Answer::Missing
}

fn read_arrays(path: &Path, line: &CaseLine, shape: &super::case::Shape) -> Result<Answer, String> {
    let without_path = |error: anyhow::Error| {
        let text = error.to_string();
        text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_string()
    };
    let file = TensorFile::open(path).map_err(|error| format!("unreadable file: {}", without_path(error)))?;
    let names = || file.names().take(12).map(|name| name.escape_debug().to_string()).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    for name in ARRAYS {
        if !file.contains(name) {
            continue;
        }
        let info = file.info(name).map_err(without_path)?;
        let storage = match info.dtype {
            DType::F64 => Storage::F64,
            DType::F32 => Storage::F32,
            DType::F16 => Storage::F16,
            DType::Bf16 => Storage::Bf16,
            other => return Err(format!("{name} is of type {other}, expected f64, f32, f16 or bf16")),
        };
        let expected = expected_shape(name, shape);
        if info.shape != expected {
            return Err(wrong_shape(name, &info.shape, &expected));
        }
        let tensor = file.read(name).map_err(without_path)?;
        let mut axes = [1; 4];
        // lse is one row of n for each head.
        let place = if expected.len() == 3 { [0, 1, 3].as_slice() } else { [0, 1, 2, 3].as_slice() };
        for (&axis, &length) in place.iter().zip(&expected) {
            axes[axis] = length;
        }
        found.push((name, AnswerArray { storage, block: Block { shape: axes, numbers: tensor.values.into_f64() } }));
    }
    if !found.iter().any(|(name, _)| *name == "o") {
        return Err(format!(
            "no array 'o' in the answer; it holds {}",
            if file.names().next().is_none() { "nothing".to_string() } else { names() }
        ));
    }
    let _ = line;
    Ok(Answer::Arrays(found))
}

fn expected_shape(name: &str, shape: &super::case::Shape) -> Vec<usize> {
    let (b, h, g, n, m) = (shape.batches, shape.heads, shape.key_heads, shape.queries, shape.keys);
    match name {
        "o" => vec![b, h, n, shape.value_width],
        "weights" => vec![b, h, n, m],
        "lse" => vec![b, h, n],
        "dq" => vec![b, h, n, shape.width],
        "dk" => vec![b, g, m, shape.width],
        _ => vec![b, g, m, shape.value_width],
    }
}

fn wrong_shape(name: &str, found: &[usize], expected: &[usize]) -> String {
    let hint = match (found, expected) {
        ([b, n, h, d], [eb, eh, en, ed]) if (b, h, n, d) == (eb, eh, en, ed) && eh != en => {
            "; it looks like (batch, token, head, width)"
        }
        _ if found.iter().filter(|&&axis| axis != 1).eq(expected.iter().filter(|&&axis| axis != 1)) => {
            "; axes of length 1 must be there"
        }
        _ => "",
    };
    format!("{name} has the shape {found:?}, expected {expected:?}{hint}")
}

/// What an adapter says of the implementation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct About {
    /// Its name.
    #[serde(default)]
    pub implementation: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Where it ran.
    #[serde(default)]
    pub device: String,
    /// Anything else.
    #[serde(default)]
    pub notes: String,
}

impl About {
    /// Reads `about.json`; nothing where there is none or it is broken.
    pub fn read(probe: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder_of(probe).join("about.json")).ok()?).ok()
    }

    /// In one line.
    pub fn words(&self) -> String {
        let device = if self.device.is_empty() { String::new() } else { format!("on {}", self.device) };
        let parts = [&self.implementation, &self.version, &device, &self.notes];
        let words: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
        words.join(" ").chars().filter(|character| !character.is_control()).take(LONGEST_REASON).collect()
    }
}

/// Files among the answers that belong to no case.
pub fn strangers(probe: &Path, manifest: &Manifest) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder_of(probe)) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let belongs = |name: &String| {
        ["about.json", "run.log"].contains(&name.as_str())
            || ENDINGS.iter().chain(&["partial"]).any(|ending| {
                let stem = name.strip_suffix(ending).and_then(|stem| stem.strip_suffix('.'));
                stem.is_some_and(|stem| manifest.cases.iter().any(|line| line.name == stem))
            })
    };
    let mut names: Vec<String> = names.filter(|name| !belongs(name)).collect();
    names.sort();
    names
}
