//! The bytes of a file, read at a position.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};

/// The most that is read from a pipe, which cannot be read at a position and must be kept.
const LARGEST_PIPE: u64 = 1 << 30;

/// Bytes that can be read at any position, by several threads at once.
#[derive(Debug)]
pub(super) enum Store {
    /// A regular file, and its length when it was opened.
    File {
        /// Open for reading.
        file: File,
        /// In bytes.
        length: u64,
    },
    /// All bytes: what came from a pipe.
    Memory(Vec<u8>),
}

impl Store {
    /// The file at `path`, or what comes out of the pipe there.
    ///
    /// # Errors
    /// It cannot be opened, is a folder, or is a pipe with more than 1 GiB.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            bail!("is a folder; a file is needed: .npy, .npz or .safetensors");
        }
        if metadata.is_file() {
            return Ok(Self::File { file, length: metadata.len() });
        }
        let mut bytes = Vec::new();
        file.take(LARGEST_PIPE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST_PIPE {
            bail!("a pipe with more than 1 GiB; write it to a file first");
        }
        Ok(Self::Memory(bytes))
    }

    /// The number of bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// The bytes end before the buffer does (`UnexpectedEof`), or cannot be read.
    pub(super) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file_read_exact_at(file, offset, buffer).map_err(|error| match error.kind() {
                // Nobody asks for more than the length at the opening.
                kind @ io::ErrorKind::UnexpectedEof => {
                    io::Error::new(kind, "the file has become shorter since it was opened")
                }
                _ => error,
            }),
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).ok();
                let end = start.and_then(|start| start.checked_add(buffer.len()));
                let part = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
                buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// The first `count` bytes, or all if there are fewer.
    pub(super) fn head(&self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len()).unwrap_or(usize::MAX).min(count)];
        self.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(unix)]
fn file_read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn file_read_exact_at(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Some of a store's bytes as a reader, for libraries that want one.
#[derive(Debug, Clone)]
pub(super) struct Section {
    store: Arc<Store>,
    start: u64,
    length: u64,
    position: u64,
}

impl Section {
    /// The bytes from `start` on, `length` of them or as many as there are.
    pub(super) fn new(store: Arc<Store>, start: u64, length: u64) -> Self {
        let start = start.min(store.len());
        let length = length.min(store.len() - start);
        Self { store, start, length, position: 0 }
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if count == 0 {
            return Ok(0); // The position may be anywhere after the end.
        }
        self.store.read_exact_at(self.start + self.position, &mut buffer[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Section {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let position = match target {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
