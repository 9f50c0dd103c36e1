//! .npz: a zip archive of .npy, stored or deflated. Members are read when they are asked for.

use std::fmt::Display;
use std::io::BufReader;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use zip::{CompressionMethod, ZipArchive};

use super::dtype::{TensorInfo, VoidType};
use super::file::{Entry, shown_name};
use super::member::{Member, Method, Place};
use super::npy;
use super::read::Source;
use super::store::{Section, Store};

/// What a zip archive of files, and one of none, begin with.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// Whether a file that begins with `head` is a zip archive.
pub(super) fn begins(head: &[u8]) -> bool {
    MAGIC.iter().any(|magic| head.starts_with(magic))
}

/// The arrays of the archive.
///
/// # Errors
/// The archive is broken, has no array, or two members of one name.
pub(super) fn entries(store: &Arc<Store>, void: VoidType) -> Result<Vec<Entry>> {
    let broken = |error: &dyn Display| anyhow!("the zip archive is broken or truncated: {error}");
    let section = Section::new(Arc::clone(store), 0, store.len());
    let mut archive = ZipArchive::new(BufReader::new(section)).map_err(|error| broken(&error))?;
    let listed = listed(store, archive.central_directory_start())?;
    ensure!(listed <= archive.len(), "two members of the archive have one name");
    ensure!(listed == archive.len(), "{}", broken(&"its directory is not where it should be"));
    let mut entries = Vec::new();
    let mut other = None;
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(|error| broken(&error))?;
        let Ok(file_name) = std::str::from_utf8(member.name_raw()) else {
            bail!("the name of a member is not UTF-8: {}", shown_name(member.name()));
        };
        let Some(name) = file_name.strip_suffix(".npy") else {
            other.get_or_insert_with(|| file_name.to_string());
            continue;
        };
        let place = Place {
            start: member.data_start().ok_or_else(|| broken(&"it does not say where a member begins"))?,
            packed: member.compressed_size(),
            length: member.size(),
            crc: member.crc32(),
        };
        let described = if member.encrypted() { Err(anyhow!("encrypted")) } else { method(member.compression()) };
        let opened = described.and_then(|method| {
            let member = Member::new(store, place, method)?;
            let (info, data_start) = header(&member, void)?;
            Ok((info, Source::Member { member, data_start }))
        });
        entries.push(Entry { name: name.to_string(), array: opened.map_err(|error| error.to_string()) });
    }
    match other {
        Some(name) if entries.is_empty() => {
            // PyTorch's own files are zip archives of pickles.
            bail!("a zip archive without .npy (it has {}); .npy, .npz and .safetensors are read", shown_name(&name))
        }
        _ => Ok(entries),
    }
}

/// How many members the directory lists. The library keeps one of each name.
fn listed(store: &Store, mut position: u64) -> Result<usize> {
    let mut count = 0;
    let mut record = [0; 46];
    while store.read_exact_at(position, &mut record).is_ok() && record.starts_with(b"PK\x01\x02") {
        count += 1;
        let length = |at: usize| u64::from(u16::from_le_bytes([record[at], record[at + 1]]));
        position += 46 + length(28) + length(30) + length(32);
    }
    Ok(count)
}

fn method(method: CompressionMethod) -> Result<Method> {
    match method {
        CompressionMethod::Stored => Ok(Method::Stored),
        CompressionMethod::DEFLATE => Ok(Method::Deflated),
        other => bail!("compressed by {other}; stored and deflated members are read"),
    }
}

/// What the member is and where its entries begin.
fn header(member: &Member, void: VoidType) -> Result<(TensorInfo, u64)> {
    let least = |count: usize| count.min(usize::try_from(member.length()).unwrap_or(usize::MAX));
    let mut head = vec![0; least(npy::PREFIX)];
    member.read_at(0, &mut head)?;
    if head.starts_with(npy::MAGIC) {
        head.resize(least(npy::head_length(&head)), 0);
        member.read_at(0, &mut head)?;
    }
    let header = npy::read_header(&head, member.length(), void)?;
    let info = header.info?;
    let needed = header.data_start + info.bytes() as u64;
    ensure!(needed == member.length(), "the archive says {} bytes, the header of the array {needed}", member.length());
    Ok((info, header.data_start))
}
