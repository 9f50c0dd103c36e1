//! From the bytes of a file to numbers, exactly.

use anyhow::{Result, bail, ensure};
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

use super::dtype::{ByteOrder, DType};

/// Entries that are converted at a time where a bulk routine does it.
const BATCH: usize = 1024;

/// The bits of each entry, as the unsigned integer `$bits`.
macro_rules! bits {
    ($bits:ty, $byte_order:expr, $bytes:expr, $out:expr, $convert:expr) => {{
        const SIZE: usize = size_of::<$bits>();
        let (entries, _) = $bytes.as_chunks::<SIZE>();
        let pairs = $out.iter_mut().zip(entries);
        match $byte_order {
            ByteOrder::Little => pairs.for_each(|(out, entry)| *out = $convert(<$bits>::from_le_bytes(*entry))),
            ByteOrder::Big => pairs.for_each(|(out, entry)| *out = $convert(<$bits>::from_be_bytes(*entry))),
        }
    }};
}

/// Entries of a type that f32 holds ([`DType::fits_f32`]).
///
/// # Panics
/// Unless there are exactly the bytes of `out.len()` entries of such a type.
pub(super) fn to_f32(dtype: DType, byte_order: ByteOrder, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(bytes.len(), out.len() * dtype.size());
    match dtype {
        DType::F32 => bits!(u32, byte_order, bytes, out, f32::from_bits),
        DType::F16 => {
            halves(byte_order, bytes, out, |bits, out| bits.reinterpret_cast::<f16>().convert_to_f32_slice(out))
        }
        DType::Bf16 => {
            halves(byte_order, bytes, out, |bits, out| bits.reinterpret_cast::<bf16>().convert_to_f32_slice(out))
        }
        DType::Bool => bits!(u8, byte_order, bytes, out, |bits| f32::from(u8::from(bits != 0))),
        DType::U8 => bits!(u8, byte_order, bytes, out, f32::from),
        DType::U16 => bits!(u16, byte_order, bytes, out, f32::from),
        DType::I8 => bits!(u8, byte_order, bytes, out, |bits: u8| f32::from(bits.cast_signed())),
        DType::I16 => bits!(u16, byte_order, bytes, out, |bits: u16| f32::from(bits.cast_signed())),
        DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => unreachable!("{dtype} does not fit f32"),
    }
}

/// The bits of entries of two bytes.
///
/// # Panics
/// Unless there are exactly the bytes of `out.len()` of them.
pub(super) fn to_bits(byte_order: ByteOrder, bytes: &[u8], out: &mut [u16]) {
    assert_eq!(bytes.len(), 2 * out.len());
    bits!(u16, byte_order, bytes, out, |bits| bits);
}

/// Halves by the batch: half converts several at a time where the processor can.
fn halves(byte_order: ByteOrder, bytes: &[u8], out: &mut [f32], convert: impl Fn(&[u16], &mut [f32])) {
    let mut batch = [0; BATCH];
    for (bytes, out) in bytes.chunks(2 * BATCH).zip(out.chunks_mut(BATCH)) {
        let batch = &mut batch[..out.len()];
        bits!(u16, byte_order, bytes, batch, |bits| bits);
        convert(batch, out);
    }
}

/// Entries of a type that f32 does not hold.
///
/// # Errors
/// A 64-bit integer that f64 cannot hold either.
///
/// # Panics
/// Unless there are exactly the bytes of `out.len()` entries of such a type.
pub(super) fn to_f64(dtype: DType, byte_order: ByteOrder, bytes: &[u8], out: &mut [f64]) -> Result<()> {
    assert_eq!(bytes.len(), out.len() * dtype.size());
    // The first integer that was rounded, if any.
    let mut rounded: Option<i128> = None;
    let mut checked = |integer: i128, number: f64| {
        // Below 2^127, a conversion back is exact.
        if number as i128 != integer {
            rounded.get_or_insert(integer);
        }
        number
    };
    match dtype {
        DType::F64 => bits!(u64, byte_order, bytes, out, f64::from_bits),
        DType::I32 => bits!(u32, byte_order, bytes, out, |bits: u32| f64::from(bits.cast_signed())),
        DType::U32 => bits!(u32, byte_order, bytes, out, f64::from),
        DType::I64 => bits!(u64, byte_order, bytes, out, |bits: u64| {
            checked(i128::from(bits.cast_signed()), bits.cast_signed() as f64)
        }),
        DType::U64 => bits!(u64, byte_order, bytes, out, |bits: u64| checked(i128::from(bits), bits as f64)),
        _ => unreachable!("{dtype} is read as f32"),
    }
    match rounded {
        Some(integer) => bail!("the entry {integer} of type {dtype} cannot be held by f64"),
        None => Ok(()),
    }
}

/// A vector of zeros, unless the memory is not there.
pub(super) fn zeros<T: Clone + Default>(length: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    ensure!(
        values.try_reserve_exact(length).is_ok(),
        "{} GiB of memory are needed and cannot be had",
        length.saturating_mul(size_of::<T>()) >> 30
    );
    values.resize(length, T::default());
    Ok(values)
}
