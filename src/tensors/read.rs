//! Blocks of an array, in C order whatever the order in the file.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};

use super::decode;
use super::dtype::{DType, Order, TensorInfo, shown_shape};
use super::member::Member;
use super::store::Store;

/// Entries that are read at a time.
const CHUNK: usize = 1 << 16;

/// Numbers in the narrower of two types that holds them exactly.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Of f32, f16, bf16, bool, and integers of 8 and 16 bits.
    F32(Vec<f32>),
    /// Of f64, and integers of 32 and 64 bits.
    F64(Vec<f64>),
}

impl Values {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `index`, exactly.
    ///
    /// # Panics
    /// There are fewer.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::F32(values) => f64::from(values[index]),
            Self::F64(values) => values[index],
        }
    }

    /// All as f64, exactly.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.into_iter().map(f64::from).collect(),
            Self::F64(values) => values,
        }
    }

    /// The numbers, if they are kept as f32.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Self::F32(values) => Some(values),
            Self::F64(_) => None,
        }
    }
}

/// An array or a block of one: numbers in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The type they are stored in.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// As many as the product of the shape.
    pub values: Values,
}

/// Where the bytes of an array are.
#[derive(Debug)]
pub(super) enum Source {
    /// In the file as they are, from `start` on.
    Plain {
        /// The file.
        store: Arc<Store>,
        /// The first byte of the array.
        start: u64,
    },
    /// In a member of an archive.
    Member {
        /// The member.
        member: Member,
        /// Where in it the entries begin, after the header.
        data_start: u64,
    },
}

impl Source {
    /// Fills `buffer` with the array's bytes from `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::Plain { store, start } => Ok(store.read_exact_at(start + offset, buffer)?),
            Self::Member { member, data_start } => member.read_at(data_start + offset, buffer),
        }
    }

    /// Compares the checksum of the whole array, if it has one.
    fn verify(&self) -> Result<()> {
        match self {
            Self::Plain { .. } => Ok(()),
            Self::Member { member, .. } => member.verify(),
        }
    }
}

/// A part of an array: some rows of what remains when the first axes are fixed.
#[derive(Debug)]
struct Block<'a> {
    info: &'a TensorInfo,
    /// The indices of the first axes.
    leading: &'a [usize],
    /// Which entries of the first axis that remains; 0..1 if none does.
    rows: Range<usize>,
}

/// Reads the rows `rows` (all if `None`) of the block at the `leading` indices.
///
/// # Errors
/// There is no such block, the file cannot be read or has become shorter, the memory is not there, or an integer cannot be held
/// by f64.
pub(super) fn read(
    info: &TensorInfo,
    source: &Source,
    leading: &[usize],
    rows: Option<Range<usize>>,
) -> Result<Tensor> {
    let whole = leading.is_empty() && rows.is_none();
    let block = Block::new(info, leading, rows)?;
    let (shape, dtype) = (block.shape(), info.dtype);
    let count = shape.iter().product();
    let values = if dtype.fits_f32() {
        let mut values = decode::zeros(count)?;
        let decode = |bytes: &[u8], out: &mut [f32]| {
            decode::to_f32(dtype, info.byte_order, bytes, out);
            Ok(())
        };
        block.fill(source, &mut values, decode)?;
        Values::F32(values)
    } else {
        let mut values = decode::zeros(count)?;
        block.fill(source, &mut values, |bytes, out| decode::to_f64(dtype, info.byte_order, bytes, out))?;
        Values::F64(values)
    };
    if whole {
        source.verify()?;
    }
    Ok(Tensor { dtype, shape, values })
}

/// The bits of the block at the `leading` indices of an array of f16 or bf16, as they are stored.
///
/// # Errors
/// As [`read`], and another type.
pub(super) fn read_halves(info: &TensorInfo, source: &Source, leading: &[usize]) -> Result<Vec<u16>> {
    ensure!(matches!(info.dtype, DType::F16 | DType::Bf16), "{} is no half type", info.dtype);
    let block = Block::new(info, leading, None)?;
    let mut bits = decode::zeros(block.shape().iter().product())?;
    block.fill(source, &mut bits, |bytes, out| {
        decode::to_bits(info.byte_order, bytes, out);
        Ok(())
    })?;
    if leading.is_empty() {
        source.verify()?;
    }
    Ok(bits)
}

impl<'a> Block<'a> {
    fn new(info: &'a TensorInfo, leading: &'a [usize], rows: Option<Range<usize>>) -> Result<Self> {
        let shape = &info.shape;
        let inside = leading.len() <= shape.len() && leading.iter().zip(shape).all(|(index, length)| index < length);
        ensure!(inside, "no block {} in the shape {}", shown_shape(leading), shown_shape(shape));
        let rows = match (rows, shape.get(leading.len())) {
            (None, length) => 0..length.copied().unwrap_or(1),
            (Some(rows), Some(&length)) if rows.start <= rows.end && rows.end <= length => rows,
            (Some(rows), length) => {
                let length = length.copied().unwrap_or(0);
                return Err(anyhow!("no rows {}..{} where there are {length}", rows.start, rows.end));
            }
        };
        Ok(Self { info, leading, rows })
    }

    /// The axes that remain, in the file.
    fn inner(&self) -> &[usize] {
        &self.info.shape[self.leading.len()..]
    }

    /// The shape of the result.
    fn shape(&self) -> Vec<usize> {
        match self.inner() {
            [] => Vec::new(),
            [_, rest @ ..] => [&[self.rows.len()], rest].concat(),
        }
    }

    /// The entries of one row.
    fn row_length(&self) -> usize {
        self.inner().iter().skip(1).product()
    }

    fn fill<T: Copy + Default>(
        &self,
        source: &Source,
        out: &mut [T],
        decode: impl Fn(&[u8], &mut [T]) -> Result<()>,
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        match self.info.order {
            Order::C => self.fill_from_c(source, out, decode),
            Order::Fortran => self.fill_from_fortran(source, out, decode),
        }
    }

    /// In C order a block is one run of entries.
    fn fill_from_c<T>(
        &self,
        source: &Source,
        out: &mut [T],
        decode: impl Fn(&[u8], &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let (shape, size) = (&self.info.shape, self.info.dtype.size());
        let block = self.leading.iter().zip(shape).fold(0, |block, (index, length)| block * length + index);
        let inner: usize = self.inner().iter().product();
        let first = block * inner + self.rows.start * self.row_length();
        let mut bytes = vec![0; out.len().min(CHUNK) * size];
        for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
            let bytes = &mut bytes[..out.len() * size];
            source.read_at(((first + chunk * CHUNK) * size) as u64, bytes)?;
            decode(bytes, out)?;
        }
        Ok(())
    }

    /// In Fortran order the entries of a block lie `step` apart, its rows running fastest. They are taken in the order of the
    /// file, which a compressed one cannot be read against.
    fn fill_from_fortran<T: Copy + Default>(
        &self,
        source: &Source,
        out: &mut [T],
        decode: impl Fn(&[u8], &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let (shape, size) = (&self.info.shape, self.info.dtype.size());
        let step: usize = shape[..self.leading.len()].iter().product();
        let block: usize =
            self.leading.iter().zip(shape).rev().fold(0, |block, (index, length)| block * length + index);
        let (all_rows, rows) = (self.inner().first().copied().unwrap_or(1), self.rows.len());
        let (row_length, most) = (self.row_length(), CHUNK.div_ceil(step));
        // Several whole columns at a time where they are short, else a part of one.
        let columns = if rows == all_rows { (most / rows).max(1) } else { 1 };
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        for column in (0..row_length).step_by(columns) {
            let places: Vec<usize> =
                (column..row_length.min(column + columns)).map(|column| self.place_in_row(column)).collect();
            for start in (0..rows).step_by(most) {
                let part = (rows - start).min(most);
                let taken = part * places.len();
                let first = block + (column * all_rows + self.rows.start + start) * step;
                bytes.resize(((taken - 1) * step + 1) * size, 0);
                source.read_at((first * size) as u64, &mut bytes)?;
                if step > 1 {
                    for entry in 1..taken {
                        bytes.copy_within(entry * step * size..(entry * step + 1) * size, entry * size);
                    }
                }
                numbers.resize(taken, T::default());
                decode(&bytes[..taken * size], &mut numbers)?;
                for row in 0..part {
                    let out = &mut out[(start + row) * row_length..][..row_length];
                    for (place, number) in places.iter().zip(numbers[row..].iter().step_by(part)) {
                        out[*place] = *number;
                    }
                }
            }
        }
        Ok(())
    }

    /// Where in a row of the result the `column`-th entry in the order of the file goes.
    fn place_in_row(&self, mut column: usize) -> usize {
        let axes = self.inner().get(1..).unwrap_or_default();
        let (mut place, mut stride) = (0, self.row_length());
        for length in axes {
            stride /= length;
            place += column % length * stride;
            column /= length;
        }
        place
    }
}
