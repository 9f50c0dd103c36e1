//! Arrays in files → roles of an attention: by name, by group, by layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};

use crate::cli::audit::AuditArguments;
use crate::diagnosis::arrays::{Array, Read, Role};
use crate::diagnosis::matrix::{Matrix, Numbers, Storage};
use crate::tensors::{DType, Tensor, TensorFile, Values};

/// Axes of Q, K, V and O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// (batch, head, token, channel), or fewer from the right.
    HeadsFirst,
    /// (batch, token, head, channel).
    TokensFirst,
}

/// One attention in the files.
pub struct Group {
    /// The common prefix of the names, without the separator; empty if there is none.
    pub name: String,
    /// Its arrays.
    pub arrays: BTreeMap<Role, Array>,
}

/// Spellings of each role.
const SPELLINGS: [(Role, &[&str]); 13] = [
    (Role::Queries, &["q", "query", "queries"]),
    (Role::Keys, &["k", "key", "keys"]),
    (Role::Values, &["v", "value", "values"]),
    (Role::Weights, &["p", "weights", "attn", "attention", "probs"]),
    (Role::Output, &["o", "out", "output", "context"]),
    (Role::Logits, &["s", "scores", "logits"]),
    (Role::Mask, &["mask", "attn_mask", "attention_mask"]),
    (Role::Padding, &["padding", "key_padding_mask"]),
    (Role::Bias, &["bias"]),
    (Role::LogSumExp, &["lse"]),
    (Role::QueriesBeforeRotation, &["q_pre"]),
    (Role::KeysBeforeRotation, &["k_pre"]),
    (Role::PositionTable, &["pe", "position_encoding"]),
];

/// Names that the user gave.
fn named(typed: &AuditArguments) -> Vec<(Role, &'static str, &str)> {
    let options = [
        (Role::Queries, "--q", &typed.q),
        (Role::Keys, "--k", &typed.k),
        (Role::Values, "--v", &typed.v),
        (Role::Weights, "--weights", &typed.weights),
        (Role::Output, "--output-name", &typed.output_name),
        (Role::Logits, "--logits", &typed.logits),
        (Role::Mask, "--mask", &typed.mask),
        (Role::Padding, "--padding", &typed.padding),
        (Role::Bias, "--bias", &typed.bias),
        (Role::LogSumExp, "--lse", &typed.lse),
        (Role::QueriesBeforeRotation, "--q-pre", &typed.q_pre),
        (Role::KeysBeforeRotation, "--k-pre", &typed.k_pre),
        (Role::PositionTable, "--pe", &typed.pe),
    ];
    options.into_iter().filter_map(|(role, option, name)| Some((role, option, name.as_deref()?))).collect()
}

/// The role and the prefix that a name shows: the longest spelling at its end, alone or behind `.`, `/`, `_` or `:`.
fn role_of(name: &str) -> Option<(Role, String)> {
    let lower = name.to_ascii_lowercase();
    let mut best: Option<(usize, Role, String)> = None;
    for (role, spellings) in SPELLINGS {
        for spelling in spellings {
            let Some(before) = lower.strip_suffix(spelling) else { continue };
            let separated = before.is_empty() || before.ends_with(['.', '/', '_', ':']);
            if separated && best.as_ref().is_none_or(|(length, ..)| spelling.len() > *length) {
                let prefix = name[..before.len()].trim_end_matches(['.', '/', '_', ':']).to_string();
                best = Some((spelling.len(), role, prefix));
            }
        }
    }
    best.map(|(_, role, prefix)| (role, prefix))
}

/// `text` against `*` and `?`.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from, mut star, mut mark) = (0, 0, None, 0);
    while from < text.len() {
        if at < pattern.len() && (pattern[at] == '?' || (pattern[at] != '*' && pattern[at] == text[from])) {
            (at, from) = (at + 1, from + 1);
        } else if at < pattern.len() && pattern[at] == '*' {
            (star, mark) = (Some(at), from);
            at += 1;
        } else if let Some(star) = star {
            mark += 1;
            (at, from) = (star + 1, mark);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&character| character == '*')
}

/// Every attention in the files, by name.
///
/// # Errors
/// Unreadable files, names that are not there, no group with Q and K, in one line.
pub fn groups(typed: &AuditArguments) -> Result<Vec<Group>> {
    let layout = match typed.layout.as_deref() {
        None | Some("bhnd" | "hnd" | "nd") => Layout::HeadsFirst,
        Some("bnhd") => Layout::TokensFirst,
        Some(other) => bail!("--layout {other}: must be bhnd, bnhd, hnd or nd"),
    };
    let files: Vec<Arc<TensorFile>> =
        typed.files.iter().map(|path| TensorFile::open(path).map(Arc::new)).collect::<Result<_>>()?;
    let mut found: BTreeMap<String, BTreeMap<Role, (Arc<TensorFile>, String)>> = BTreeMap::new();
    let given = named(typed);
    for file in &files {
        for name in file.names() {
            if let Some((role, prefix)) = role_of(name)
                && !given.iter().any(|(given, ..)| *given == role)
            {
                found.entry(prefix).or_default().entry(role).or_insert((Arc::clone(file), name.to_string()));
            }
        }
    }
    for (role, option, name) in given {
        let file = files.iter().find(|file| file.contains(name));
        let file =
            file.ok_or_else(|| anyhow!("{option} {name}: no array of this name; there are {}", listed(&files)))?;
        let prefix = role_of(name).map(|(_, prefix)| prefix).filter(|prefix| found.contains_key(prefix));
        found.entry(prefix.unwrap_or_default()).or_default().insert(role, (Arc::clone(file), name.to_string()));
    }
    let whole = |roles: &BTreeMap<Role, (Arc<TensorFile>, String)>| {
        (roles.contains_key(&Role::Queries) && roles.contains_key(&Role::Keys))
            || (roles.len() == 1 && roles.contains_key(&Role::PositionTable))
    };
    let pattern = typed.group.as_deref().unwrap_or("*");
    let mut groups = Vec::new();
    for (name, roles) in found.iter().filter(|(name, roles)| whole(roles) && fits(pattern, name)) {
        groups.push(Group { name: name.clone(), arrays: arrays(roles, layout)? });
    }
    if groups.is_empty() {
        let any: Vec<&str> = found.iter().filter(|(_, roles)| whole(roles)).map(|(name, _)| name.as_str()).collect();
        if !any.is_empty() {
            bail!("--group {pattern}: no group fits; there are {}", any.join(", "));
        }
        bail!("no queries and keys among the arrays {}; name them with --q and --k", listed(&files));
    }
    Ok(groups)
}

fn listed(files: &[Arc<TensorFile>]) -> String {
    let names: Vec<String> =
        files.iter().flat_map(|file| file.names().map(str::to_string).collect::<Vec<_>>()).collect();
    let more = if names.len() > 12 { format!(", {} more", names.len() - 12) } else { String::new() };
    names.into_iter().take(12).collect::<Vec<_>>().join(", ") + &more
}

fn arrays(roles: &BTreeMap<Role, (Arc<TensorFile>, String)>, layout: Layout) -> Result<BTreeMap<Role, Array>> {
    let shape_of = |role: Role| -> Result<Option<Vec<usize>>> {
        roles.get(&role).map(|(file, name)| Ok(file.info(name)?.shape.clone())).transpose()
    };
    let queries = shape_of(Role::Queries)?.unwrap_or_default();
    let keys = shape_of(Role::Keys)?.unwrap_or_default();
    let heads_and_rows = |shape: &[usize]| match (shape, layout) {
        ([_, heads, rows, _], Layout::HeadsFirst) | ([_, rows, heads, _], Layout::TokensFirst) => (*heads, *rows),
        ([heads, rows, _], Layout::HeadsFirst) | ([rows, heads, _], Layout::TokensFirst) => (*heads, *rows),
        ([rows, _], _) => (1, *rows),
        _ => (1, 1),
    };
    let (heads, n) = heads_and_rows(&queries);
    let m = heads_and_rows(&keys).1;
    let batches = if queries.len() == 4 { queries[0] } else { 1 };
    let mut arrays = BTreeMap::new();
    for (&role, (file, name)) in roles {
        let shape = file.info(name)?.shape.clone();
        let place = Place { file: Arc::clone(file), name: name.clone() };
        let array = match role {
            Role::Queries
            | Role::Keys
            | Role::Values
            | Role::Output
            | Role::QueriesBeforeRotation
            | Role::KeysBeforeRotation => vectors(place, &shape, layout, role, heads, n, batches),
            Role::Weights | Role::Logits => matrices(place, &shape),
            Role::Mask | Role::Bias => mask(place, &shape, n, m, heads, batches),
            Role::Padding => rows_of(place, &shape, m, batches),
            Role::LogSumExp => log_sums(place, &shape, n),
            Role::PositionTable => matrices(place, &shape),
        };
        arrays.insert(role, array.map_err(|error| anyhow!("{name}: {error}"))?);
    }
    Ok(arrays)
}

/// An array in a file.
struct Place {
    file: Arc<TensorFile>,
    name: String,
}

impl Place {
    /// The block at `leading`, as rows × columns.
    fn block(&self, leading: &[usize], rows: usize, columns: usize) -> Result<Matrix, String> {
        let in_words = |error| format!("{error:#}");
        let dtype = self.file.info(&self.name).map_err(in_words)?.dtype;
        if matches!(dtype, DType::F16 | DType::Bf16) {
            let bits = self.file.read_halves(&self.name, leading).map_err(in_words)?;
            return Ok(Matrix::new(rows, columns, storage(dtype), Numbers::Half(bits)));
        }
        let tensor = self.file.read_block(&self.name, leading).map_err(in_words)?;
        Ok(matrix(tensor, rows, columns))
    }
}

fn storage(dtype: DType) -> Storage {
    match dtype {
        DType::F16 => Storage::F16,
        DType::Bf16 => Storage::Bf16,
        DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => Storage::F64,
        _ => Storage::F32,
    }
}

fn matrix(tensor: Tensor, rows: usize, columns: usize) -> Matrix {
    let numbers = match tensor.values {
        Values::F32(values) => Numbers::F32(values),
        Values::F64(values) => Numbers::F64(values),
    };
    Matrix::new(rows, columns, storage(tensor.dtype), numbers)
}

/// Q, K, V, O: (batch, head, token, channel) by the layout; O also (batch, token, heads·channels) beside Q with heads.
fn vectors(
    place: Place,
    shape: &[usize],
    layout: Layout,
    role: Role,
    heads: usize,
    n: usize,
    batches: usize,
) -> Result<Array, String> {
    let joined = role == Role::Output && heads > 1;
    let read: (Read, [usize; 4]) = match *shape {
        [b, rows, columns]
            if joined && b == batches && rows == n && columns % heads == 0 && (b != heads || batches > 1) =>
        {
            let width = columns / heads;
            let read: Read =
                Box::new(move |batch, head| Ok(part(&place.block(&[batch], rows, columns)?, head * width, width)));
            (read, [b, heads, rows, width])
        }
        [rows, columns] if joined && rows == n && columns % heads == 0 => {
            let width = columns / heads;
            let read: Read = Box::new(move |_, head| Ok(part(&place.block(&[], rows, columns)?, head * width, width)));
            (read, [1, heads, rows, width])
        }
        [b, rows, own_heads, width] if layout == Layout::TokensFirst => {
            let read: Read = Box::new(move |batch, head| {
                Ok(part(&place.block(&[batch], rows, own_heads * width)?, head * width, width))
            });
            (read, [b, own_heads, rows, width])
        }
        [rows, own_heads, width] if layout == Layout::TokensFirst => {
            let read: Read =
                Box::new(move |_, head| Ok(part(&place.block(&[], rows, own_heads * width)?, head * width, width)));
            (read, [1, own_heads, rows, width])
        }
        _ => return matrices(place, shape),
    };
    Ok(Array { shape: read.1, read: read.0 })
}

/// Columns `start`..`start + width`.
fn part(matrix: &Matrix, start: usize, width: usize) -> Matrix {
    fn cut<T: Copy>(numbers: &[T], columns: usize, start: usize, width: usize) -> Vec<T> {
        numbers.chunks(columns).flat_map(|row| row[start..start + width].iter().copied()).collect()
    }
    let columns = matrix.columns;
    let numbers = match &matrix.numbers {
        Numbers::Half(bits) => Numbers::Half(cut(bits, columns, start, width)),
        Numbers::F32(numbers) => Numbers::F32(cut(numbers, columns, start, width)),
        Numbers::F64(numbers) => Numbers::F64(cut(numbers, columns, start, width)),
    };
    Matrix::new(matrix.rows, width, matrix.storage, numbers)
}

/// The last two axes are a matrix, those before batch and head; fewer axes are padded with 1 on the left.
fn matrices(place: Place, shape: &[usize]) -> Result<Array, String> {
    let (padded, rank) = match *shape {
        [b, h, rows, columns] => ([b, h, rows, columns], 4),
        [h, rows, columns] => ([1, h, rows, columns], 3),
        [rows, columns] => ([1, 1, rows, columns], 2),
        [columns] => ([1, 1, 1, columns], 1),
        _ => return Err(format!("{} axes; 1 to 4 are read", shape.len())),
    };
    let [_, _, rows, columns] = padded;
    let read: Read = Box::new(move |batch, head| match rank {
        4 => place.block(&[batch, head], rows, columns),
        3 => place.block(&[head], rows, columns),
        _ => place.block(&[], rows, columns),
    });
    Ok(Array { shape: padded, read })
}

/// (batch, head, n or 1, m), or fewer axes: (batch, n, m), (n, m), (batch, m), (m).
fn mask(place: Place, shape: &[usize], n: usize, m: usize, heads: usize, batches: usize) -> Result<Array, String> {
    match *shape {
        [first, rows, columns] if !(first == heads && first != batches && heads > 1) => {
            let read: Read = Box::new(move |batch, _| place.block(&[batch], rows, columns));
            Ok(Array { shape: [first, 1, rows, columns], read })
        }
        [first, columns] if columns == m && first != n && first == batches => rows_of(place, shape, m, batches),
        _ => matrices(place, shape),
    }
}

/// (batch, m), (m) or (batch, 1, 1, m): one row a batch entry.
fn rows_of(place: Place, shape: &[usize], m: usize, batches: usize) -> Result<Array, String> {
    match *shape {
        [first, columns] if columns == m && (first == batches || first == 1) => {
            let read: Read = Box::new(move |batch, _| place.block(&[batch], 1, columns));
            Ok(Array { shape: [first, 1, 1, columns], read })
        }
        [_] | [_, _, _, _] => matrices(place, shape),
        _ => Err(format!("shape {shape:?}; expected (batch, {m})")),
    }
}

/// (batch, head, n), (batch, head, n, 1), (head, n) or (n).
fn log_sums(place: Place, shape: &[usize], n: usize) -> Result<Array, String> {
    let (padded, rank) = match *shape {
        [b, h, rows, 1] if rows == n => ([b, h, 1, n], 2),
        [b, h, rows] if rows == n => ([b, h, 1, n], 2),
        [h, rows] if rows == n => ([1, h, 1, n], 1),
        [rows] if rows == n => ([1, 1, 1, n], 0),
        _ => return Err(format!("shape {shape:?}; expected (batch, head, {n})")),
    };
    let read: Read = Box::new(move |batch, head| match rank {
        2 => place.block(&[batch, head], 1, n),
        1 => place.block(&[head], 1, n),
        _ => place.block(&[], 1, n),
    });
    Ok(Array { shape: padded, read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_their_role_and_their_group() {
        for (name, role, prefix) in [
            ("q", Role::Queries, ""),
            ("layer3.K", Role::Keys, "layer3"),
            ("single.layer0.p", Role::Weights, "single.layer0"),
            ("blocks/2/attn_mask", Role::Mask, "blocks/2"),
            ("layer3_q_pre", Role::QueriesBeforeRotation, "layer3"),
            ("key_padding_mask", Role::Padding, ""),
            ("attention", Role::Weights, ""),
        ] {
            assert_eq!(role_of(name), Some((role, prefix.to_string())), "{name}");
        }
        assert_eq!(role_of("input_ids"), None);
    }

    #[test]
    fn globs_fit_what_they_say() {
        for (pattern, text, fit) in [
            ("*", "", true),
            ("layer?", "layer3", true),
            ("l*3", "layer13", true),
            ("layer", "layer3", false),
            ("*x", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), fit, "{pattern} {text}");
        }
    }
}
