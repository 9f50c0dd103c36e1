//! A file of arrays.

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};

use super::dtype::{TensorInfo, VoidType};
use super::read::{self, Source, Tensor};
use super::store::Store;
use super::{npy, npz, safetensors};

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One array of NumPy.
    Npy,
    /// Arrays of NumPy in a zip archive.
    Npz,
    /// .safetensors of Hugging Face.
    Safetensors,
}

/// One array of a file.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: String,
    /// What it is and where, or why it cannot be read.
    pub array: Result<(TensorInfo, Source), String>,
}

/// A file of arrays, open for reading. Several threads may read at once.
///
/// ```no_run
/// use attn::tensors::TensorFile;
///
/// let file = TensorFile::open("layer3.npy")?;
/// for name in file.names() {
///     let info = file.info(name)?;
///     println!("{name}: {} {:?}", info.dtype, info.shape);
/// }
/// let head = file.read_block("layer3", &[0, 2])?; // batch 0, head 2: a matrix
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    format: FileFormat,
    /// Sorted by name, no two the same.
    entries: Vec<Entry>,
}

impl TensorFile {
    /// Opens the file at `path` and reads what it says of its arrays, not the arrays.
    ///
    /// Two-byte voids of .npy are bf16; [`TensorFile::open_with`] can say otherwise. From a pipe all bytes are read, at most 1 GiB.
    ///
    /// # Errors
    /// The file cannot be opened or is none of the formats, or its header is broken; one line each, with the path. An array that
    /// cannot be read is an error only when it is asked for.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, VoidType::default())
    }

    /// As [`TensorFile::open`], with two-byte voids read as `void`.
    ///
    /// # Errors
    /// As [`TensorFile::open`].
    pub fn open_with(path: impl AsRef<Path>, void: VoidType) -> Result<Self> {
        let path = path.as_ref();
        let store = Store::open(path).map_err(|error| at(path, &error))?;
        Self::from_store(path, store, void)
    }

    /// The file whose content is `bytes`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`TensorFile::open`].
    pub fn from_bytes(path: impl AsRef<Path>, bytes: Vec<u8>, void: VoidType) -> Result<Self> {
        Self::from_store(path.as_ref(), Store::Memory(bytes), void)
    }

    fn from_store(path: &Path, store: Store, void: VoidType) -> Result<Self> {
        let open = || {
            let store = Arc::new(store);
            let (format, mut entries) = entries(&store, path, void)?;
            entries.sort_by(|left, right| left.name.cmp(&right.name));
            if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
                bail!("two arrays have the name {}", shown_name(&pair[0].name));
            }
            Ok(Self { path: path.to_owned(), format, entries })
        };
        open().map_err(|error| at(path, &error))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of the file.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// The names of all arrays, sorted, also of those that cannot be read. The one of .npy has the name of the file without its
    /// ending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Whether there is an array of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// What is known of an array without reading it.
    ///
    /// # Errors
    /// There is no such array, or it cannot be read: its type is not supported, or its header is broken.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        Ok(self.readable(name)?.0)
    }

    /// The whole array.
    ///
    /// # Errors
    /// As [`TensorFile::read_rows`].
    pub fn read(&self, name: &str) -> Result<Tensor> {
        self.read_block(name, &[])
    }

    /// The block at the `leading` indices: of shape (batch, head, rows, columns), `[b, h]` gives the matrix of a head.
    ///
    /// # Errors
    /// As [`TensorFile::read_rows`].
    pub fn read_block(&self, name: &str, leading: &[usize]) -> Result<Tensor> {
        self.read_part(name, leading, None)
    }

    /// The rows `rows` of the block at the `leading` indices; a row is an index of the first axis that remains.
    ///
    /// # Errors
    /// There is no such array or block or rows, the array cannot be read, the file has become shorter, the memory is not there, or
    /// a 64-bit integer cannot be held by f64; one line each, with path and name. The checksum of .npz is compared when the whole
    /// array is read, or the last block of a compressed one.
    pub fn read_rows(&self, name: &str, leading: &[usize], rows: Range<usize>) -> Result<Tensor> {
        self.read_part(name, leading, Some(rows))
    }

    /// The bits of the block at the `leading` indices of an array of f16 or bf16, in C order: half the memory of
    /// [`TensorFile::read_block`].
    ///
    /// # Errors
    /// As [`TensorFile::read_rows`], and an array of another type.
    pub fn read_halves(&self, name: &str, leading: &[usize]) -> Result<Vec<u16>> {
        let (info, source) = self.readable(name)?;
        read::read_halves(info, source, leading).map_err(|error| self.of(name, &error))
    }

    fn read_part(&self, name: &str, leading: &[usize], rows: Option<Range<usize>>) -> Result<Tensor> {
        let (info, source) = self.readable(name)?;
        read::read(info, source, leading, rows).map_err(|error| self.of(name, &error))
    }

    fn readable(&self, name: &str) -> Result<(&TensorInfo, &Source)> {
        let entry = self.find(name).ok_or_else(|| self.without(name))?;
        let (info, source) = entry.array.as_ref().map_err(|reason| self.of(name, reason))?;
        Ok((info, source))
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        let index = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        self.entries.get(index)
    }

    fn of(&self, name: &str, error: &dyn Display) -> anyhow::Error {
        match self.format {
            FileFormat::Npy => at(&self.path, error),
            _ => at(&self.path, &format_args!("{}: {error}", shown_name(name))),
        }
    }

    fn without(&self, name: &str) -> anyhow::Error {
        let mut names: Vec<String> = self.names().take(13).map(shown_name).collect();
        if names.len() == 13 {
            names[12] = format!("{} more", self.entries.len() - 12);
        }
        at(&self.path, &format_args!("no array {}; there are {}", shown_name(name), names.join(", ")))
    }
}

/// The most characters of an error, which may quote a file.
const LONGEST_ERROR: usize = 600;

/// What is wrong with the file at `path`, on one line whatever the file holds.
fn at(path: &Path, error: &dyn Display) -> anyhow::Error {
    let text = error.to_string();
    let mut shown = String::with_capacity(text.len().min(LONGEST_ERROR));
    for character in text.chars().take(LONGEST_ERROR) {
        match character.is_control() {
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    let rest = if text.chars().nth(LONGEST_ERROR).is_some() { "…" } else { "" };
    anyhow!("{}: {shown}{rest}", path.display())
}

/// A name from a file, which may hold anything, on one line.
pub(super) fn shown_name(name: &str) -> String {
    let shown: String = name.chars().take(100).flat_map(char::escape_debug).collect();
    if name.chars().nth(100).is_some() { format!("'{shown}…'") } else { format!("'{shown}'") }
}

/// The arrays in the file, by its first bytes.
fn entries(store: &Arc<Store>, path: &Path, void: VoidType) -> Result<(FileFormat, Vec<Entry>)> {
    let head = store.head(npy::PREFIX)?;
    if head.starts_with(npy::MAGIC) {
        let head = store.head(npy::head_length(&head))?;
        let header = npy::read_header(&head, store.len(), void)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let source = Source::Plain { store: Arc::clone(store), start: header.data_start };
        let array = header.info.map(|info| (info, source)).map_err(|error| error.to_string());
        return Ok((FileFormat::Npy, vec![Entry { name, array }]));
    }
    if npz::begins(&head) {
        return Ok((FileFormat::Npz, npz::entries(store, void)?));
    }
    if safetensors::begins(&head) {
        return Ok((FileFormat::Safetensors, safetensors::entries(store)?));
    }
    let what = match &head[..] {
        [] => "is empty",
        [0x80, 0..=5, ..] => "is a pickle, which is never run",
        [0x89, b'H', b'D', b'F', ..] => "is HDF5",
        [b'G', b'G', b'U', b'F', ..] => "is GGUF",
        [0x1f, 0x8b, ..] => "is compressed by gzip; unpack it first",
        _ => "is none of the formats that can be read",
    };
    bail!("{what}; .npy, .npz and .safetensors are read")
}
