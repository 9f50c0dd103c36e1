//! What an array is: the type of its entries, its shape, and how it lies in the file.

use std::fmt;

use anyhow::{Result, anyhow, bail};

/// The most axes of an array: (batch, head, rows, columns).
pub const LARGEST_RANK: usize = 4;

/// The types that can be read, for messages.
pub(super) const SUPPORTED: &str = "f64, f32, f16, bf16, bool, i8 to i64, u8 to u64";

/// The type of an array's entries as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    Bf16,
    /// One byte: 0 is false, everything else is true, as in NumPy.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

impl DType {
    /// Every type, in the order of the enum.
    pub const ALL: [Self; 13] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
    ];

    /// The bytes of one entry.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// `f32`, `bf16`, `bool`, `i64`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }

    /// Whether entries are floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Whether f32 holds every value of this type; otherwise it is read as f64.
    pub fn fits_f32(self) -> bool {
        !matches!(self, Self::F64 | Self::I32 | Self::U32 | Self::I64 | Self::U64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Which index of an array runs fastest in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The last: row by row.
    C,
    /// The first: column by column, what NumPy writes for `x.T`.
    Fortran,
}

/// Which byte of an entry comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest.
    Little,
    /// The highest.
    Big,
}

/// What the two-byte voids (`|V2`) of .npy are. NumPy has no name for bf16, so that `np.save` writes its entries as voids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VoidType {
    /// bf16, which is what ml_dtypes and JAX leave there.
    #[default]
    Bf16,
    /// f16.
    F16,
}

impl VoidType {
    /// The type of the entries.
    pub fn dtype(self) -> DType {
        match self {
            Self::Bf16 => DType::Bf16,
            Self::F16 => DType::F16,
        }
    }
}

/// What is known of an array without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The type of the entries.
    pub dtype: DType,
    /// The length of each axis, at most four; none for a single number.
    pub shape: Vec<usize>,
    /// Which index runs fastest in the file. What is read comes in C order, whatever it is here.
    pub order: Order,
    /// Which byte comes first.
    pub byte_order: ByteOrder,
    /// What a reader should know, each one line: two-byte voids, axes of length zero, bytes after the array.
    pub notices: Vec<String>,
}

impl TensorInfo {
    /// An array whose size is sound.
    ///
    /// # Errors
    /// More than four axes, or more bytes than an address can count.
    pub(super) fn new(dtype: DType, shape: Vec<usize>, order: Order, byte_order: ByteOrder) -> Result<Self> {
        if shape.len() > LARGEST_RANK {
            let shown = shown_shape(&shape);
            bail!("the shape {shown} has {} axes; up to 4 are read: (batch, head, rows, columns)", shape.len());
        }
        // An axis of length zero must not hide the overflow of the others: strides are products of them.
        let bytes = shape.iter().try_fold(dtype.size(), |product, &axis| product.checked_mul(axis.max(1)));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(anyhow!("the shape {} of {dtype} is larger than any memory", shown_shape(&shape)));
        }
        let mut notices = Vec::new();
        if let Some(axis) = shape.iter().position(|&length| length == 0) {
            notices
                .push(format!("axis {axis} of the shape {} has length 0: there are no entries", shown_shape(&shape)));
        }
        Ok(Self { dtype, shape, order, byte_order, notices })
    }

    /// The number of entries; 1 for a single number, 0 if an axis has length zero.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether an axis has length zero.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }
}

/// `(2, 12, 18)`, as Python writes a shape.
pub(super) fn shown_shape(shape: &[usize]) -> String {
    match shape {
        [single] => format!("({single},)"),
        _ => {
            let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", axes.join(", "))
        }
    }
}
