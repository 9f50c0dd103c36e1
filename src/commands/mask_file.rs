//! Reading a mask from a file.

use anyhow::{Result, anyhow, bail};

use crate::diagnosis::mask_numbers::{MaskNumbers, OneMeans};
use crate::tensors::{DType, TensorFile};

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
