//! Reading a mask from a file.

use std::fs::File;
use std::io::{self, Write};

use anyhow::{Context, Result, anyhow, bail};

use crate::diagnosis::mask_numbers::{MaskNumbers, OneMeans};
use crate::tensors::{DType, TensorFile};

/// What stands before the path of a file.
pub const PREFIX: &str = "file:";

/// `crc32:…` of each file among the sources of masks, apart by blanks: two runs with the same parameters can still have read different files.
///
/// # Errors
/// A file cannot be read.
pub fn check_sums<'a>(sources: impl IntoIterator<Item = Option<&'a str>>) -> Result<String> {
    let paths = sources.into_iter().flatten().filter_map(|text| text.strip_prefix(PREFIX));
    let sums = paths.map(|path| check_sum(path).with_context(|| path.to_string()));
    Ok(sums.collect::<Result<Vec<_>>>()?.join(" "))
}

fn check_sum(path: &str) -> io::Result<String> {
    let mut writer = flate2::CrcWriter::new(io::sink());
    io::copy(&mut File::open(path)?, &mut writer)?;
    writer.flush()?;
    Ok(format!("crc32:{:08x}", writer.crc().sum()))
}

/// Reads the one array of a file as a mask, whose true and 1 mean `one`.
///
/// # Errors
/// The file cannot be read, holds several arrays or several masks, or numbers that no mask can have.
pub fn read(path: &str, one: OneMeans) -> Result<MaskNumbers> {
    let file = TensorFile::open(path)?;
    let names: Vec<&str> = file.names().collect();
    let [name] = names[..] else {
        bail!("{path}: holds {} arrays ({}); a file with one is needed", names.len(), names.join(", "));
    };
    let tensor = file.read(name)?;
    let label = file.path().file_name().map_or(path.to_string(), |name| name.to_string_lossy().into_owned());
    let is_boolean = tensor.dtype == DType::Bool;
    MaskNumbers::new(&label, &tensor.shape, tensor.values.into_f64(), is_boolean, one)
        .map_err(|rule| anyhow!("{path}: {rule}"))
}
