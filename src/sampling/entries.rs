//! The laws that matrix entries can follow, and filling a matrix with one.

use std::fmt;
use std::str::FromStr;

use crate::number::Real;

use rand_distr::{Distribution, StudentT};

use super::bulk::{self, GroupLaw, InstructionSet, Place};
use super::laws::{LaplaceLaw, RademacherLaw, UniformLaw, WordLaw};
use super::normal::NormalLaw;
use super::stream::{MatrixId, TrialStream};

/// A law for the entries of a matrix, standardised: mean 0, variance 1, symmetric about 0.
///
/// As text (`FromStr`, `Display`): `normal`, `uniform`, `rademacher`, `laplace`, `student-t:NU`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entries {
    /// N(0, 1); excess kurtosis 0.
    Normal,
    /// Uniform on (−√3, √3); excess kurtosis −6/5.
    Uniform,
    /// −1 or 1, each with probability ½; excess kurtosis −2.
    Rademacher,
    /// Laplace with scale 1/√2; excess kurtosis 3.
    Laplace,
    /// Student's t with NU degrees of freedom, divided by √(NU / (NU − 2)); excess kurtosis 6 / (NU − 4).
    /// NU is finite and greater than 4.
    StudentT(f64),
}

/// Why a text names no law of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseEntriesError {
    /// No law has this name.
    UnknownLaw(String),
    /// What follows `student-t:` is not a number.
    NotANumber(String),
    /// NU is infinite.
    NotFinite(String),
    /// NU is at most 4 (or not a number): the fourth moment, which every error bar here rests on, is infinite.
    TooFewDegrees(String),
}

impl fmt::Display for ParseEntriesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLaw(text) => {
                write!(
                    formatter,
                    "unknown entries '{text}': must be one of normal, uniform, rademacher, laplace, student-t:NU"
                )
            }
            Self::NotANumber(text) => {
                write!(formatter, "student-t:{text}: NU must be a number greater than 4, as in student-t:5")
            }
            Self::NotFinite(text) => {
                write!(formatter, "student-t:{text}: NU must be finite (its limit is the law 'normal')")
            }
            Self::TooFewDegrees(text) => write!(
                formatter,
                "student-t:{text}: NU must be greater than 4 (the fourth moment of the entries must exist)"
            ),
        }
    }
}

impl std::error::Error for ParseEntriesError {}

impl FromStr for Entries {
    type Err = ParseEntriesError;

    fn from_str(text: &str) -> Result<Self, ParseEntriesError> {
        match text {
            "normal" => return Ok(Self::Normal),
            "uniform" => return Ok(Self::Uniform),
            "rademacher" => return Ok(Self::Rademacher),
            "laplace" => return Ok(Self::Laplace),
            _ => {}
        }
        let Some(degrees) = text.strip_prefix("student-t:") else {
            return Err(ParseEntriesError::UnknownLaw(text.to_owned()));
        };
        match degrees.parse::<f64>() {
            Err(_) => Err(ParseEntriesError::NotANumber(degrees.to_owned())),
            Ok(nu) if nu == f64::INFINITY => Err(ParseEntriesError::NotFinite(degrees.to_owned())),
            Ok(nu) if nu > 4.0 => Ok(Self::StudentT(nu)),
            Ok(_) => Err(ParseEntriesError::TooFewDegrees(degrees.to_owned())),
        }
    }
}

impl fmt::Display for Entries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => formatter.write_str("normal"),
            Self::Uniform => formatter.write_str("uniform"),
            Self::Rademacher => formatter.write_str("rademacher"),
            Self::Laplace => formatter.write_str("laplace"),
            Self::StudentT(nu) => write!(formatter, "student-t:{nu}"),
        }
    }
}

/// The number types that entries are drawn in: `f32` and `f64`. Sealed.
pub trait Drawable: Real + sealed::Drawn {}

impl Drawable for f32 {}
impl Drawable for f64 {}

/// Fills `out` with the elements `first_element`, `first_element + 1`, … of a row-major matrix whose rows have
/// `width` elements.
///
/// An element depends only on (stream, matrix, its number, the law, the type), so a matrix filled in pieces, in any
/// order and by any number of threads, equals the matrix filled at once. For every law but Student's t the bits are
/// also the same on every machine, and `width` plays no part.
///
/// Student's t is drawn by rejection (`rand_distr`: a normal and a chi-squared variate in f64, the quotient then
/// rounded to `T`) from one generator per row, so it is filled in whole rows and depends on `width`. `rand_distr`
/// calls the platform's logarithm and exponential in its rejection tests, and the logarithm for the normal's tail
/// (|x| > 3.65, one normal in 3900): there the last bits can differ between platforms.
///
/// # Panics
/// For Student's t: if `width` is 0, if `first_element` or `out.len()` is no multiple of `width`, if NU is
/// not above 4, or if a row number reaches 2³¹.
pub fn fill<T: Drawable>(
    entries: Entries,
    stream: &TrialStream,
    matrix: MatrixId,
    first_element: usize,
    width: usize,
    out: &mut [T],
) {
    let place = Place { stream: *stream, matrix, first: first_element };
    fill_with(InstructionSet::best(), entries, place, width, out);
}

/// Independent random bits, 64 words a group from group `first_group` on: word 64 g + 16 w + l is word w of block 16 g + l of the matrix.
///
/// Its bit b is the sign of [`Entries::Rademacher`]'s element 2048 g + 512 w + 16 b + l, set for −1.
pub fn sign_words(stream: &TrialStream, matrix: MatrixId, first_group: usize, words: &mut [u32]) {
    let place = Place { stream: *stream, matrix, first: first_group * WordLaw::ELEMENTS };
    bulk::fill::<u32, WordLaw>(InstructionSet::best(), place, words);
}

/// [`fill`] with a chosen instruction set.
fn fill_with<T: Drawable>(set: InstructionSet, entries: Entries, place: Place, width: usize, out: &mut [T]) {
    match entries {
        Entries::Normal => T::fill_normal(set, place, out),
        Entries::Uniform => T::fill_uniform(set, place, out),
        Entries::Rademacher => T::fill_rademacher(set, place, out),
        Entries::Laplace => T::fill_laplace(set, place, out),
        Entries::StudentT(nu) => fill_student_t(nu, place, width, out),
    }
}

fn fill_student_t<T: Drawable>(nu: f64, place: Place, width: usize, out: &mut [T]) {
    assert!(nu > 4.0, "Student's t needs NU > 4, got {nu}");
    assert!(
        width > 0 && place.first.is_multiple_of(width) && out.len().is_multiple_of(width),
        "Student's t fills whole rows: first element {} and length {} must be multiples of the width {width}",
        place.first,
        out.len(),
    );
    let law = StudentT::new(nu).expect("NU > 4 is positive");
    let standard_deviation = (nu / (nu - 2.0)).sqrt();
    let first_row = place.first / width;
    for (index, row) in out.chunks_exact_mut(width).enumerate() {
        let number = u32::try_from(first_row + index).expect("row number below 2^31");
        let mut rng = place.stream.rng(place.matrix, number);
        for entry in row {
            *entry = T::from_f64(law.sample(&mut rng) / standard_deviation);
        }
    }
}

mod sealed {
    use super::*;

    /// The element-addressed laws in one precision.
    pub trait Drawn: Sized {
        fn fill_normal(set: InstructionSet, place: Place, out: &mut [Self]);
        fn fill_uniform(set: InstructionSet, place: Place, out: &mut [Self]);
        fn fill_rademacher(set: InstructionSet, place: Place, out: &mut [Self]);
        fn fill_laplace(set: InstructionSet, place: Place, out: &mut [Self]);
    }

    macro_rules! drawn {
        ($real:ty) => {
            impl Drawn for $real {
                fn fill_normal(set: InstructionSet, place: Place, out: &mut [Self]) {
                    bulk::fill::<Self, NormalLaw>(set, place, out);
                }

                fn fill_uniform(set: InstructionSet, place: Place, out: &mut [Self]) {
                    bulk::fill::<Self, UniformLaw>(set, place, out);
                }

                fn fill_rademacher(set: InstructionSet, place: Place, out: &mut [Self]) {
                    bulk::fill::<Self, RademacherLaw>(set, place, out);
                }

                fn fill_laplace(set: InstructionSet, place: Place, out: &mut [Self]) {
                    bulk::fill::<Self, LaplaceLaw>(set, place, out);
                }
            }
        };
    }

    drawn!(f32);
    drawn!(f64);
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "goodness_tests.rs"]
mod goodness_tests;
