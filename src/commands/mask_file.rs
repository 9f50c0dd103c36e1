//! Reading a mask from an .npy file.

use std::path::Path;

use anyhow::{Result, anyhow, bail};

use crate::diagnosis::mask_numbers::MaskNumbers;
use crate::tensors::{DType, FileFormat, TensorFile};

/// Reads the one array of an .npy file as a mask.
///
/// # Errors
/// The file cannot be read, holds several masks, or numbers that no mask can have.
pub fn read(path: &str) -> Result<MaskNumbers> {
    let file = TensorFile::open(path)?;
    if file.format() != FileFormat::Npy {
        bail!("{path}: a mask is read from an .npy file (attn audit reads the others)");
    }
    let name = file.names().next().ok_or_else(|| anyhow!("{path}: holds no array"))?.to_string();
    let tensor = file.read(&name)?;
    let label = Path::new(path).file_name().map_or(path.to_string(), |name| name.to_string_lossy().into_owned());
    let is_boolean = tensor.dtype == DType::Bool;
    MaskNumbers::new(&label, &tensor.shape, tensor.values.into_f64(), is_boolean).map_err(|rule| anyhow!("{rule}"))
}
