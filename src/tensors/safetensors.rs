//! .safetensors: a length (eight bytes, little-endian), a header in JSON, and the data.
//!
//! The header has an entry for each array, `"q": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}`, and may have one of
//! text, `__metadata__`. Data must lie one after the other, without gap or overlap, to the end of the file; the library checks
//! that. (Specification: the README of huggingface/safetensors, version 0.8.)

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ::safetensors::tensor::{Dtype, Metadata, SafeTensorError, TensorInfo as Declared};
use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};

use super::dtype::{ByteOrder, DType, Order, SUPPORTED, TensorInfo};
use super::file::{Entry, shown_name};
use super::read::Source;
use super::store::Store;

/// The longest header that is read, enough for a hundred thousand arrays.
const LARGEST_HEADER: u64 = 1 << 24;

/// The name of the entry that is no array.
pub(super) const METADATA: &str = "__metadata__";

/// Whether a file that begins with `head` claims to be .safetensors.
pub(super) fn begins(head: &[u8]) -> bool {
    head.get(8) == Some(&b'{')
}

/// The arrays of the file.
///
/// # Errors
/// The header is broken, or what it says does not fit the length of the file.
pub(super) fn entries(store: &Arc<Store>) -> Result<Vec<Entry>> {
    let mut bytes = [0; 8];
    store.read_exact_at(0, &mut bytes)?;
    let length = u64::from_le_bytes(bytes);
    let held = store.len() - 8;
    ensure!(
        length <= held,
        "a header of {length} bytes is promised, {held} bytes follow: truncated, or no .safetensors"
    );
    ensure!(length <= LARGEST_HEADER, "a header of {length} bytes; up to {LARGEST_HEADER} are read");
    let mut header = vec![0; usize::try_from(length)?];
    store.read_exact_at(8, &mut header)?;
    let declared = declared(&header).map_err(|error| anyhow!("the header of .safetensors is broken: {error}"))?;
    // The library checks that the data are of the right size, side by side.
    let metadata = Metadata::new(None, declared.clone()).map_err(|error| in_words(&error))?;
    let (needed, held) = (metadata.data_len() as u64, held - length);
    ensure!(
        needed == held,
        "the header promises {needed} bytes of data, the file holds {held}: it is truncated or its header is wrong"
    );
    let entry = |(name, declared): (String, Declared)| {
        let start = 8 + length + declared.data_offsets.0 as u64;
        let source = Source::Plain { store: Arc::clone(store), start };
        let info = entry_type(declared.dtype)
            .and_then(|dtype| TensorInfo::new(dtype, declared.shape, Order::C, ByteOrder::Little));
        Entry { name, array: info.map(|info| (info, source)).map_err(|error| error.to_string()) }
    };
    Ok(declared.into_iter().map(entry).collect())
}

fn entry_type(dtype: Dtype) -> Result<DType> {
    Ok(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::Bf16,
        Dtype::BOOL => DType::Bool,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        _ => bail!("type {dtype}; supported are {SUPPORTED}"),
    })
}

/// What the library calls a type.
pub(super) fn type_in_file(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::Bf16 => Dtype::BF16,
        DType::Bool => Dtype::BOOL,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
    }
}

fn in_words(error: &SafeTensorError) -> anyhow::Error {
    match error {
        SafeTensorError::InvalidOffset(name) => {
            anyhow!("the data of {} overlap another's, leave a gap, or end before they begin", shown_name(name))
        }
        SafeTensorError::TensorInvalidInfo | SafeTensorError::MisalignedSlice => {
            anyhow!("an array's shape and type do not fit the length of its data")
        }
        SafeTensorError::ValidationOverflow => anyhow!("an array's shape is larger than any memory"),
        _ => anyhow!("the header of .safetensors is broken: {error}"),
    }
}

/// The arrays the header declares, sorted by where their data begin.
fn declared(header: &[u8]) -> Result<Vec<(String, Declared)>, serde_json::Error> {
    let text = std::str::from_utf8(header).map_err(|_| Error::custom("it is not UTF-8"))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut declared = deserializer.deserialize_map(Header)?;
    deserializer.end()?;
    declared.sort_by_key(|(_, declared)| declared.data_offsets);
    Ok(declared)
}

/// Reads the header entry by entry. The library's own reader keeps the last of two entries of one name without a word, and takes
/// some thirty times the header's length of memory for a hostile shape.
struct Header;

impl<'de> Visitor<'de> for Header {
    type Value = Vec<(String, Declared)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with an entry for each array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut declared, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(Error::custom(format_args!("two entries have the name {}", shown_name(&name))));
            }
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
            } else {
                declared.push((name, map.next_value()?));
            }
        }
        Ok(declared)
    }
}
