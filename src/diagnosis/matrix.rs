//! Numbers as they were stored, and how far storing and computing in a type can move them.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use super::given_mask::MaskKind;
use crate::attention::Mask;

/// The type numbers are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
}

impl Storage {
    /// The largest relative error of one rounding, half the distance of neighbouring numbers.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            Self::F64 => 2f64.powi(-53),
            Self::F32 => 2f64.powi(-24),
            Self::F16 => 2f64.powi(-11),
            Self::Bf16 => 2f64.powi(-8),
        }
    }

    /// The smallest number of full precision; below it a processor may give 0.
    pub fn smallest_normal(self) -> f64 {
        match self {
            Self::F64 => f64::MIN_POSITIVE,
            Self::F32 | Self::Bf16 => f64::from(f32::MIN_POSITIVE),
            Self::F16 => 2f64.powi(-14),
        }
    }

    /// How far from the true value a number below [`Storage::smallest_normal`] may be stored: binary16 keeps its subnormal
    /// numbers everywhere, the other types may lose them.
    pub fn underflow(self) -> f64 {
        match self {
            Self::F16 => 2f64.powi(-24),
            other => other.smallest_normal(),
        }
    }

    /// The largest finite number.
    pub fn largest(self) -> f64 {
        match self {
            Self::F64 => f64::MAX,
            Self::F32 => f64::from(f32::MAX),
            Self::F16 => 65504.0,
            Self::Bf16 => half::bf16::MAX.to_f64(),
        }
    }

    /// The nearest number of this type.
    pub fn round(self, value: f64) -> f64 {
        match self {
            Self::F64 => value,
            Self::F32 => f64::from(value as f32),
            Self::F16 => half::f16::from_f64(value).to_f64(),
            Self::Bf16 => half::bf16::from_f64(value).to_f64(),
        }
    }

    /// `f32`, `bf16`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Numbers as they are stored, or in the narrowest type that holds them.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers {
    /// The bits of [`Storage::F16`] or [`Storage::Bf16`], whichever the matrix has.
    Half(Vec<u16>),
    /// What f32 holds.
    F32(Vec<f32>),
    /// The rest.
    F64(Vec<f64>),
}

/// `rows` × `columns` numbers, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Numbers in a row.
    pub columns: usize,
    /// The type they were stored in.
    pub storage: Storage,
    /// `rows`·`columns` of them.
    pub numbers: Numbers,
}

impl Matrix {
    /// A matrix from its numbers.
    ///
    /// # Panics
    /// If there are not `rows`·`columns` of them, or for halves of a type that is none.
    pub fn new(rows: usize, columns: usize, storage: Storage, numbers: Numbers) -> Self {
        let is_half = matches!(storage, Storage::F16 | Storage::Bf16);
        assert!(is_half || !matches!(numbers, Numbers::Half(_)), "{} is no half type", storage.name());
        let length = match &numbers {
            Numbers::Half(numbers) => numbers.len(),
            Numbers::F32(numbers) => numbers.len(),
            Numbers::F64(numbers) => numbers.len(),
        };
        assert_eq!(length, rows * columns, "a matrix has rows times columns numbers");
        Self { rows, columns, storage, numbers }
    }

    /// The number at (`row`, `column`).
    pub fn at(&self, row: usize, column: usize) -> f64 {
        let index = row * self.columns + column;
        match &self.numbers {
            Numbers::Half(bits) if self.storage == Storage::Bf16 => half::bf16::from_bits(bits[index]).to_f64(),
            Numbers::Half(bits) => half::f16::from_bits(bits[index]).to_f64(),
            Numbers::F32(numbers) => f64::from(numbers[index]),
            Numbers::F64(numbers) => numbers[index],
        }
    }

    /// Copies `row` to `out`; a matrix of one row has it for every query.
    pub fn row(&self, row: usize, out: &mut [f64]) {
        let start = if self.rows == 1 { 0 } else { row * self.columns };
        match &self.numbers {
            Numbers::Half(bits) => widen(self.storage, &bits[start..start + self.columns], out),
            Numbers::F32(numbers) => {
                for (out, &number) in out.iter_mut().zip(&numbers[start..start + self.columns]) {
                    *out = f64::from(number);
                }
            }
            Numbers::F64(numbers) => out.copy_from_slice(&numbers[start..start + self.columns]),
        }
    }

    /// Every number, row by row.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.numbers {
            Numbers::Half(bits) => {
                let mut numbers = vec![0.0; bits.len()];
                widen(self.storage, bits, &mut numbers);
                numbers
            }
            Numbers::F32(numbers) => numbers.iter().map(|&number| f64::from(number)).collect(),
            Numbers::F64(numbers) => numbers.clone(),
        }
    }

    /// The narrowest type that the numbers may have been computed in before they were stored in a wider one: all of them are
    /// numbers of that type, and at least a quarter need its full significand (small whole numbers fit any type).
    pub fn computed_in(&self) -> Storage {
        if matches!(self.storage, Storage::F16 | Storage::Bf16) {
            return self.storage;
        }
        let Numbers::F32(numbers) = &self.numbers else {
            return match self.to_f32_exactly() {
                Some(narrow) => narrow.computed_in(),
                None => self.storage,
            };
        };
        for (storage, kept_bits) in [(Storage::Bf16, 16), (Storage::F16, 13)] {
            let fits = |&number: &f32| !number.is_finite() || storage.round(f64::from(number)) == f64::from(number);
            if numbers.iter().all(fits) {
                let full = |&&number: &&f32| (number.to_bits() >> kept_bits) & 3 != 0;
                let used = numbers.iter().filter(full).count();
                if 4 * used >= numbers.len() && used >= 8 {
                    return storage;
                }
            }
        }
        if self.storage == Storage::F64 { Storage::F32 } else { self.storage }
    }

    /// The same numbers as f32, if f32 holds all of them and most need all of its bits.
    fn to_f32_exactly(&self) -> Option<Self> {
        let Numbers::F64(numbers) = &self.numbers else { return None };
        let fits = |&number: &f64| f64::from(number as f32).to_bits() == number.to_bits() || !number.is_finite();
        if numbers.len() < 8 || !numbers.iter().all(fits) {
            return None;
        }
        let narrow: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
        let full = narrow.iter().filter(|number| number.to_bits() & 3 != 0).count();
        let halves = narrow.iter().filter(|number| (number.to_bits() >> 13) & 0xff != 0).count();
        (4 * full >= narrow.len() || 2 * halves >= narrow.len())
            .then(|| Self::new(self.rows, self.columns, Storage::F64, Numbers::F32(narrow)))
    }
}

/// Halves as f64; by way of f32, to which several are converted at a time where the processor can.
fn widen(storage: Storage, bits: &[u16], out: &mut [f64]) {
    let mut batch = [0f32; 256];
    for (bits, out) in bits.chunks(batch.len()).zip(out.chunks_mut(256)) {
        let batch = &mut batch[..bits.len()];
        match storage {
            Storage::Bf16 => bits.reinterpret_cast::<half::bf16>().convert_to_f32_slice(batch),
            _ => bits.reinterpret_cast::<half::f16>().convert_to_f32_slice(batch),
        }
        out.iter_mut().zip(batch).for_each(|(out, number)| *out = f64::from(*number));
    }
}

/// What one query sees, as given in a file or by the contract.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenMask {
    /// Visible cells.
    pub visible: Mask,
    /// What is added to the logits of visible cells, if it is not 0 everywhere; n×m, or one row for all.
    pub added: Option<Matrix>,
    /// The finite number that stands for "hidden", if it is not −∞.
    pub fill: Option<f64>,
    /// How it was read.
    pub kind: MaskKind,
    /// Whether the user said how to read it.
    pub kind_is_declared: bool,
    /// Cells that are NaN.
    pub broken: Vec<(usize, usize)>,
}

/// All there is of one batch entry and head. n queries, m keys, d wide; values d_v wide.
#[derive(Debug, Clone)]
pub struct Head {
    /// Batch entry.
    pub batch: usize,
    /// Head.
    pub head: usize,
    /// n × d, as it enters the product.
    pub queries: Matrix,
    /// m × d.
    pub keys: Matrix,
    /// m × d_v.
    pub values: Option<Matrix>,
    /// n × m, after the softmax.
    pub weights: Option<Matrix>,
    /// n × d_v.
    pub output: Option<Matrix>,
    /// n × m, scaled, before mask and softmax.
    pub logits: Option<Matrix>,
    /// What the file's mask says.
    pub mask: Option<GivenMask>,
    /// One cell per key, true where the token is real.
    pub padding: Option<Vec<bool>>,
    /// n × m (or one row), added to the logits.
    pub bias: Option<Matrix>,
    /// n: ln Σ exp(logit).
    pub log_sum_exp: Option<Matrix>,
    /// n × d, before the position rotation.
    pub queries_before_rotation: Option<Matrix>,
    /// m × d, before the position rotation.
    pub keys_before_rotation: Option<Matrix>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_numbers_that_their_bits_say() {
        // 1, -2, the largest number, the smallest subnormal one of IEEE binary16; and bf16, the upper half of f32.
        let f16 = Matrix::new(2, 2, Storage::F16, Numbers::Half(vec![0x3C00, 0xC000, 0x7BFF, 0x0001]));
        assert_eq!(f16.to_f64(), [1.0, -2.0, 65504.0, 2f64.powi(-24)]);
        let bf16 = Matrix::new(1, 3, Storage::Bf16, Numbers::Half(vec![0x3F80, 0x4049, 0x7F80]));
        assert_eq!(bf16.to_f64(), [1.0, 3.140625, f64::INFINITY]);
        let mut row = [0.0; 2];
        f16.row(1, &mut row);
        assert_eq!((row, f16.at(0, 1), bf16.at(0, 1)), ([65504.0, 2f64.powi(-24)], -2.0, 3.140625));
        assert_eq!((f16.computed_in(), bf16.computed_in()), (Storage::F16, Storage::Bf16));
        // Longer than one batch of conversions.
        let long = Matrix::new(1, 1031, Storage::F16, Numbers::Half(vec![0x3C00; 1031]));
        assert_eq!(long.to_f64(), vec![1.0; 1031]);
    }
}
