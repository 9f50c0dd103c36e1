//! Writing .npy and .safetensors.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use ::safetensors::tensor::{self, Dtype, View};
use anyhow::{Context, Result, bail, ensure};
use half::{bf16, f16};

use super::dtype::{DType, shown_shape};
use super::file::shown_name;
use super::npy;
use super::read::{Tensor, Values};
use super::safetensors::{METADATA, type_in_file};

/// Writes one array as .npy, version 1.0, little-endian, C order.
///
/// The values are rounded to `tensor.dtype`: floating-point types to nearest, ties to even, infinity beyond the largest; bool
/// and integers must be held exactly. bf16, which .npy has no name for, becomes two-byte voids (`|V2`), as ml_dtypes writes them.
///
/// # Errors
/// A value that the type cannot hold, values that are not as many as the shape says, or what the writer says.
pub fn write_npy(writer: &mut dyn Write, tensor: &Tensor) -> Result<()> {
    let data = encode(tensor)?;
    let descr = match tensor.dtype {
        DType::F64 => "<f8",
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::Bf16 => "|V2",
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
    };
    writer.write_all(&npy::header(descr, &tensor.shape))?;
    Ok(writer.write_all(&data)?)
}

/// Writes named arrays as .safetensors. The bytes do not depend on the order of the arrays: they lie by type, the longer
/// entries first, then by name. Values are rounded as by [`write_npy`].
///
/// # Errors
/// Two arrays of one name, the name `__metadata__`, and the errors of [`write_npy`].
pub fn write_safetensors<'a>(
    writer: &mut dyn Write,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<()> {
    write_safetensors_with(writer, &BTreeMap::new(), tensors)
}

/// As [`write_safetensors`], with `text` in the header's `__metadata__`, its names in their order.
///
/// # Errors
/// Those of [`write_safetensors`].
pub fn write_safetensors_with<'a>(
    writer: &mut dyn Write,
    text: &BTreeMap<String, String>,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<()> {
    let (mut seen, mut encoded) = (BTreeSet::new(), Vec::new());
    for (name, tensor) in tensors {
        ensure!(name != METADATA, "an array cannot be called {METADATA}, which .safetensors has for text");
        ensure!(seen.insert(name), "two arrays have the name {}", shown_name(name));
        let data = encode(tensor)?;
        encoded.push((name, Encoded { dtype: type_in_file(tensor.dtype), shape: &tensor.shape, data }));
    }
    let bytes = tensor::serialize(encoded, None)?;
    if text.is_empty() {
        return Ok(writer.write_all(&bytes)?);
    }
    // The library takes the text in a map without an order, and the same file would not come out twice.
    let (length, rest) = bytes.split_first_chunk::<8>().context("the library wrote no header")?;
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length))?);
    let entries = std::str::from_utf8(header)?.trim_end().trim_start_matches('{');
    let separator = if entries == "}" { "" } else { "," };
    let mut header = format!("{{\"{METADATA}\":{}{separator}{entries}", serde_json::to_string(text)?);
    // Data begin at a multiple of eight bytes.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    writer.write_all(&(header.len() as u64).to_le_bytes())?;
    writer.write_all(header.as_bytes())?;
    Ok(writer.write_all(data)?)
}

/// An array as the library takes it.
struct Encoded<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    data: Vec<u8>,
}

impl View for Encoded<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }

    fn data_len(&self) -> usize {
        self.data.len()
    }
}

/// The bytes of the entries, little-endian, in C order.
fn encode(tensor: &Tensor) -> Result<Vec<u8>> {
    let Tensor { dtype, shape, values } = tensor;
    let count = shape.iter().try_fold(1_usize, |product, &axis| product.checked_mul(axis));
    ensure!(count == Some(values.len()), "{} values for the shape {}", values.len(), shown_shape(shape));
    let numbers = (0..values.len()).map(|index| values.at(index));
    let mut bytes = Vec::with_capacity(values.len() * dtype.size());
    match (dtype, values) {
        (DType::F64, _) => numbers.for_each(|number| bytes.extend(number.to_le_bytes())),
        // Without the way over f64, which may change the bits of NaN.
        (DType::F32, Values::F32(values)) => values.iter().for_each(|number| bytes.extend(number.to_le_bytes())),
        (DType::F32, Values::F64(values)) => {
            values.iter().for_each(|number| bytes.extend((*number as f32).to_le_bytes()))
        }
        (DType::F16, _) => numbers.for_each(|number| bytes.extend(f16::from_f32(to_odd(number)).to_le_bytes())),
        (DType::Bf16, _) => numbers.for_each(|number| bytes.extend(bf16::from_f32(to_odd(number)).to_le_bytes())),
        _ => {
            for number in numbers {
                let integer = integer(*dtype, number)?;
                // Two's complement: the lowest bytes are those of the narrower type.
                bytes.extend(&integer.to_le_bytes()[..dtype.size()]);
            }
        }
    }
    Ok(bytes)
}

/// The number as an integer of the type.
fn integer(dtype: DType, number: f64) -> Result<i128> {
    let range = match dtype {
        DType::Bool => 0..=1,
        DType::I8 => i128::from(i8::MIN)..=i128::from(i8::MAX),
        DType::I16 => i128::from(i16::MIN)..=i128::from(i16::MAX),
        DType::I32 => i128::from(i32::MIN)..=i128::from(i32::MAX),
        DType::I64 => i128::from(i64::MIN)..=i128::from(i64::MAX),
        DType::U8 => 0..=i128::from(u8::MAX),
        DType::U16 => 0..=i128::from(u16::MAX),
        DType::U32 => 0..=i128::from(u32::MAX),
        DType::U64 => 0..=i128::from(u64::MAX),
        DType::F64 | DType::F32 | DType::F16 | DType::Bf16 => unreachable!("{dtype} is no type of integers"),
    };
    if number.fract() != 0.0 || !range.contains(&(number as i128)) {
        bail!("the value {number} cannot be held by {dtype}");
    }
    Ok(number as i128)
}

/// f64 to f32 by rounding to odd, after which rounding to a half is as if it had been done at once (Boldo and Melquiond 2008: two
/// more digits suffice). The library goes over the nearest f32, which rounds twice.
fn to_odd(number: f64) -> f32 {
    let nearest = number as f32;
    if f64::from(nearest) == number || number.is_nan() {
        return nearest;
    }
    let away_from_zero = f64::from(nearest).abs() > number.abs();
    f32::from_bits((nearest.to_bits() - u32::from(away_from_zero)) | 1)
}
