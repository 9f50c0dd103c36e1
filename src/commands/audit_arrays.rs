//! Arrays in files → roles of an attention: by name, by group, by layout.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};

use super::audit_names::{fits, named, role_of};
use crate::cli::audit::AuditArguments;
use crate::diagnosis::arrays::{Array, Read, Role};
use crate::diagnosis::matrix::{Matrix, Numbers, Storage};
use crate::tensors::{DType, Order, Tensor, TensorFile, Values, VoidType};

/// Axes of Q, K, V and O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// (batch, head, token, channel), or fewer from the right, at most so many.
    HeadsFirst {
        /// 4, or fewer where the user says that Q and K have no batch or no heads.
        most_axes: usize,
    },
    /// (batch, token, head, channel).
    TokensFirst,
    /// As `TokensFirst`, and weights and logits (batch, query, key, head), as einsum "bihd,bjhd->bijh" leaves them.
    HeadsLast,
}

/// One attention in the files.
pub struct Group {
    /// The common prefix of the names, without the separator; empty if there is none.
    pub name: String,
    /// Its arrays.
    pub arrays: BTreeMap<Role, Array>,
    /// Each array's role, name, type and shape in the file.
    pub described: Vec<String>,
    /// What readers of the arrays should know, one line each.
    pub notices: Vec<String>,
}

impl Group {
    /// Tells what the readers noticed on stderr, unless `quiet`.
    pub fn give_notice(&self, quiet: bool) {
        for notice in self.notices.iter().filter(|_| !quiet) {
            super::simulate::warn(notice);
        }
    }

    /// Root mean square of V, if there is one.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn value_size(&self) -> Result<Option<f64>, String> {
        self.arrays.get(&Role::Values).map(Array::size).transpose()
    }

    /// The arrays, their types and shapes, on one line behind `heading`.
    pub fn remark(&self, heading: &str) -> String {
        let of = if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) };
        format!("{heading}{of}: {}.", self.described.join("; "))
    }
}

/// What a group must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// Q and K, or a position table alone.
    QueriesAndKeys,
    /// Any array with a role.
    AnyArray,
}

/// Every attention in the files at `paths`, by name.
///
/// # Errors
/// Unreadable files, names that are not there, no group with what is needed, in one line.
pub fn groups(typed: &AuditArguments, paths: &[String], needed: Needed) -> Result<Vec<Group>> {
    let layout = match typed.layout.as_deref() {
        None | Some("bhnd") => Layout::HeadsFirst { most_axes: 4 },
        Some("hnd") => Layout::HeadsFirst { most_axes: 3 },
        Some("nd") => Layout::HeadsFirst { most_axes: 2 },
        Some("bnhd") => Layout::TokensFirst,
        Some("bijh") => Layout::HeadsLast,
        Some(other) => bail!("--layout {other}: must be bhnd, bnhd, bijh, hnd or nd"),
    };
    let void = match typed.void_as.as_deref() {
        None | Some("bf16") => VoidType::Bf16,
        Some("f16") => VoidType::F16,
        Some(other) => bail!("--void-as {other}: must be f16 or bf16"),
    };
    let files: Vec<Arc<TensorFile>> =
        paths.iter().map(|path| TensorFile::open_with(path, void).map(Arc::new)).collect::<Result<_>>()?;
    let mut found: BTreeMap<String, BTreeMap<Role, (Arc<TensorFile>, String)>> = BTreeMap::new();
    let given = named(typed);
    for file in &files {
        for name in file.names() {
            if let Some((role, prefix)) = role_of(name)
                && !given.iter().any(|(given, ..)| *given == role)
            {
                let roles = found.entry(prefix).or_default();
                if let Some((other, known)) = roles.get(&role)
                    && known == name
                {
                    bail!(
                        "{}: {name}: {} has it too; leave out one file",
                        file.path().display(),
                        other.path().display()
                    );
                }
                roles.entry(role).or_insert((Arc::clone(file), name.to_string()));
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
        needed == Needed::AnyArray
            || (roles.contains_key(&Role::Queries) && roles.contains_key(&Role::Keys))
            || (roles.len() == 1 && roles.contains_key(&Role::PositionTable))
    };
    let pattern = typed.group.as_deref().unwrap_or("*");
    let mut groups = Vec::new();
    for (name, roles) in found.iter().filter(|(name, roles)| whole(roles) && fits(pattern, name)) {
        let (described, notices) = described(roles, typed.void_as.is_some())?;
        groups.push(Group { name: name.clone(), arrays: arrays(roles, layout)?, described, notices });
    }
    if groups.is_empty() {
        let any: Vec<&str> = found.iter().filter(|(_, roles)| whole(roles)).map(|(name, _)| name.as_str()).collect();
        if !any.is_empty() {
            let named: Vec<&str> = any.into_iter().filter(|name| !name.is_empty()).collect();
            match named.is_empty() {
                true => bail!(
                    "--group {pattern}: the names in the file have no common prefix, so there are no groups; leave it out"
                ),
                false => bail!("--group {pattern}: no group fits; there are {}", named.join(", ")),
            }
        }
        let what = if needed == Needed::AnyArray { "no array with a known name" } else { "no queries and keys" };
        bail!("{what} among the arrays {}; name them with --q and --k", listed(&files));
    }
    Ok(groups)
}

/// What each array is, and what is to be known of it. `void_is_said`: the user chose how two-byte voids are read.
fn described(
    roles: &BTreeMap<Role, (Arc<TensorFile>, String)>,
    void_is_said: bool,
) -> Result<(Vec<String>, Vec<String>)> {
    let mut described = Vec::new();
    // What holds for several arrays of a file is said once.
    let mut notices: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (role, (file, name)) in roles {
        let info = file.info(name)?;
        let shape: Vec<String> = info.shape.iter().map(usize::to_string).collect();
        let order = if info.order == Order::Fortran { " (Fortran order)" } else { "" };
        described.push(format!("{role} {name} {} ({}){order}", info.dtype, shape.join(", ")));
        let is_void = |notice: &&String| notice.contains("void");
        for notice in info.notices.iter().filter(|notice| !(void_is_said && is_void(notice))) {
            notices.entry((file.path().display().to_string(), notice.clone())).or_default().push(name);
        }
    }
    let line =
        |((file, notice), names): ((String, String), Vec<&str>)| format!("{file}: {}: {notice}", names.join(", "));
    Ok((described, notices.into_iter().map(line).collect()))
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
    if let Layout::HeadsFirst { most_axes } = layout {
        for (role, shape) in [(Role::Queries, &queries), (Role::Keys, &keys)] {
            if shape.len() > most_axes {
                bail!("--layout: {role} have the shape {shape:?}, more axes than the layout");
            }
        }
    }
    let heads_and_rows = |shape: &[usize]| match (shape, layout) {
        ([_, heads, rows, _], Layout::HeadsFirst { .. }) | ([_, rows, heads, _], _) => (*heads, *rows),
        ([heads, rows, _], Layout::HeadsFirst { .. }) | ([rows, heads, _], _) => (*heads, *rows),
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
            Role::Weights | Role::Logits if layout == Layout::HeadsLast => heads_last(place, &shape),
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
        [b, rows, own_heads, width] if !matches!(layout, Layout::HeadsFirst { .. }) => {
            let read: Read = Box::new(move |batch, head| {
                Ok(part(&place.block(&[batch], rows, own_heads * width)?, head * width, width))
            });
            (read, [b, own_heads, rows, width])
        }
        [rows, own_heads, width] if !matches!(layout, Layout::HeadsFirst { .. }) => {
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

/// (batch, query, key, head), or (query, key, head).
fn heads_last(place: Place, shape: &[usize]) -> Result<Array, String> {
    let (batches, rows, columns, heads, with_batch) = match *shape {
        [b, rows, columns, heads] => (b, rows, columns, heads, true),
        [rows, columns, heads] => (1, rows, columns, heads, false),
        _ => return Err(format!("{} axes; --layout bijh has 3 or 4", shape.len())),
    };
    let read: Read = Box::new(move |batch, head| {
        let leading: &[usize] = if with_batch { &[batch] } else { &[] };
        let own = part(&place.block(leading, rows * columns, heads)?, head, 1);
        Ok(Matrix::new(rows, columns, own.storage, own.numbers))
    });
    Ok(Array { shape: [batches, heads, rows, columns], read })
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
