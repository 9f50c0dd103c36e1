//! Sums over the exponentials of one row of logits: the inner loops of the softmax statistics.

use super::InstructionSet;
use super::exponential::{Constants, Exponential, exponential, exponential_with};
#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
use super::registers::{Portable, Register};
use crate::number::Real;

/// Sums over weights w = e^(rate · Δ), Δ = x − reference ≤ 0, of logits x.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WeightSums {
    /// Σ w.
    pub first: f64,
    /// Σ w².
    pub second: f64,
    /// Σ w³.
    pub third: f64,
    /// Σ w Δ.
    pub moment: f64,
}

/// What can be said of a row without exponentials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Survey<T> {
    /// The largest logit; unspecified if one is NaN.
    pub maximum: T,
    /// The smallest logit; unspecified if one is NaN.
    pub minimum: T,
    /// Σ x.
    pub sum: f64,
    /// Σ x².
    pub square_sum: f64,
}

/// The sums of squares and cubes start from here, and not from 0: added to a normal number, a product below the normal
/// numbers rounds away, where subnormal sums would be slow. Subtracted again at the end.
const START: f64 = 1.0 / (1_u128 << 100) as f64;

/// Most doublings that [`RowSums::weigh`] does: each doubles the error of the weights and adds a rounding.
pub const MOST_DOUBLINGS: u32 = 3;

/// A rate, the rate 2^doublings times it, and from where on powers of their weights are normal numbers.
#[derive(Debug, Clone, Copy)]
pub struct Rates<T> {
    rate: T,
    doublings: u32,
    /// Least Δ = x − reference for w², for the smaller rate and for the larger.
    square_bounds: [T; 2],
    /// The same for w³.
    cube_bounds: [T; 2],
    /// The same for w of the larger.
    large_bound: T,
    /// From here on a row is mild.
    mild_bound: T,
    /// Where the weight is nothing beside those of a mild row.
    negligible: T,
    /// The constants of the exponential function with the smaller rate multiplied in, if it can be.
    constants: Option<Constants<T>>,
}

impl<T: Exponential> Rates<T> {
    /// `rate` and 2^`doublings` times it; both the same for no doubling.
    ///
    /// # Panics
    /// For more than [`MOST_DOUBLINGS`].
    pub fn new(rate: T, doublings: u32) -> Self {
        assert!(doublings <= MOST_DOUBLINGS, "at most {MOST_DOUBLINGS} doublings");
        let rates = [rate.to_f64(), rate.to_f64() * f64::from(1_u32 << doublings)];
        let bound = |rate: f64, power: f64| T::from_f64(T::LEAST.to_f64() / (rate * power));
        Self {
            rate,
            doublings,
            square_bounds: rates.map(|rate| bound(rate, 2.0)),
            cube_bounds: rates.map(|rate| bound(rate, 3.0)),
            large_bound: bound(rates[1], 1.0),
            mild_bound: bound(rate.to_f64(), f64::from(1_u32 << MOST_DOUBLINGS)),
            negligible: bound(rate.to_f64(), 2.0),
            constants: Constants::with_rate(rate),
        }
    }

    /// Whether a row of `columns` logits is mild: no weight is below 2⁻¹⁶ (f32) or 2⁻¹²⁸ (f64), and every lane of the longest register has two.
    ///
    /// Then neither weights nor squares can be subnormal, and nothing need be compared with bounds but the squares of weights to the power of 8.
    pub fn is_mild(&self, columns: usize, minimum: T, reference: T) -> bool
    where
        T: RowSums,
    {
        columns >= 2 * T::MOST_LANES && minimum.to_f64() - reference.to_f64() >= self.mild_bound.to_f64()
    }

    /// A logit whose weight, e^(LEAST / 2), leaves every sum over a mild row as it is: it rounds away beside any other of its lane. (Σ w Δ that is 0
    /// in a lane becomes 10⁻¹⁶, which rounds away beside the entropy.)
    pub fn negligible(&self, reference: T) -> T {
        T::from_f64(reference.to_f64() + self.negligible.to_f64())
    }

    /// The smaller rate.
    pub fn rate(&self) -> T {
        self.rate
    }

    /// The larger is 2^doublings times the smaller.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }
}

/// The loops of one element type, by instruction set.
pub trait RowSums: Exponential + PartialOrd {
    /// A logit this low has weight 0 and its difference from any other is finite.
    const ABSENT: Self;

    /// Lanes of the longest register: rows to be weighed are padded to a multiple.
    const MOST_LANES: usize;

    /// Maximum and power sums of a row.
    fn survey(set: InstructionSet, row: &[Self]) -> Survey<Self>;

    /// The first place that holds `value`.
    fn find(set: InstructionSet, row: &[Self], value: Self) -> Option<usize>;

    /// Sums over the weights e^(rate (x − reference)), and if the larger rate is another also over its weights,
    /// which are repeated squares of the first. The length of the row is a multiple of `MOST_LANES`. For a row that
    /// [is mild](Rates::is_mild), in which [`Rates::negligible`] stands in place of [`Self::ABSENT`], less work gives the same sums.
    fn weigh(set: InstructionSet, row: &[Self], reference: Self, rates: &Rates<Self>, is_mild: bool)
    -> [WeightSums; 2];

    /// Replaces each number by its exponential; the length is a multiple of `MOST_LANES`.
    fn exponentials(set: InstructionSet, numbers: &mut [Self]);
}

#[inline(always)]
unsafe fn survey<R: Register<Element: RowSums>>(row: &[R::Element]) -> Survey<R::Element> {
    // Two chains of sums hide the latency of the additions.
    let (pairs, rest) = (row.chunks_exact(2 * R::LANES), row.chunks_exact(2 * R::LANES).remainder());
    // SAFETY: the caller has the instructions; each chunk holds two registers.
    unsafe {
        let zero = R::splat(R::Element::ZERO);
        let mut maximum = [R::splat(R::Element::from_f64(f64::NEG_INFINITY)); 2];
        let mut minimum = [R::splat(R::Element::from_f64(f64::INFINITY)); 2];
        let mut sum = [zero; 2];
        let mut square_sum = [zero; 2];
        for pair in pairs {
            for side in 0..2 {
                let x = R::load(pair.as_ptr().add(side * R::LANES));
                maximum[side] = x.maximum(maximum[side]);
                minimum[side] = x.minimum(minimum[side]);
                sum[side] = sum[side].add(x);
                square_sum[side] = x.multiply_add(x, square_sum[side]);
            }
        }
        let mut survey = Survey {
            maximum: maximum[0].maximum(maximum[1]).largest(),
            minimum: minimum[0].minimum(minimum[1]).smallest(),
            sum: sum[0].total() + sum[1].total(),
            square_sum: square_sum[0].total() + square_sum[1].total(),
        };
        for &x in rest {
            survey.maximum = if x > survey.maximum { x } else { survey.maximum };
            survey.minimum = if x < survey.minimum { x } else { survey.minimum };
            survey.sum += x.to_f64();
            survey.square_sum += x.to_f64() * x.to_f64();
        }
        survey
    }
}

/// Registers that are searched without a branch, which a processor would foresee as badly as where the maximum is.
const SEARCHED: usize = 16;

#[inline(always)]
unsafe fn find<R: Register<Element: RowSums>>(row: &[R::Element], value: R::Element) -> Option<usize> {
    let whole = row.len() / R::LANES * R::LANES;
    // SAFETY: the caller has the instructions; each chunk holds a register.
    unsafe {
        let sought = R::splat(value);
        for (block, numbers) in row[..whole].chunks(SEARCHED * R::LANES).enumerate() {
            let mut place = usize::MAX;
            // From behind, so that the first is kept.
            for (index, chunk) in numbers.chunks_exact(R::LANES).enumerate().rev() {
                let equal = R::load(chunk.as_ptr()).equal_lanes(sought);
                let here = index * R::LANES + equal.trailing_zeros() as usize;
                place = if equal == 0 { place } else { here };
            }
            if place != usize::MAX {
                return Some(block * SEARCHED * R::LANES + place);
            }
        }
    }
    row[whole..].iter().position(|&x| x == value).map(|place| whole + place)
}

/// The sums while they are taken.
#[derive(Clone, Copy)]
struct Sums<R> {
    first: R,
    second: R,
    third: R,
    moment: R,
}

impl<R: Register> Sums<R> {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the caller has the instructions.
        unsafe {
            let (zero, start) = (R::splat(R::Element::ZERO), R::splat(R::Element::from_f64(START)));
            Self { first: zero, second: zero, third: start, moment: zero }
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, weight: R, square: R, difference: R, cube_bound: R) {
        // SAFETY: the caller has the instructions.
        unsafe {
            self.first = self.first.add(weight);
            self.second = self.second.add(square);
            let factor = if R::FUSED { weight } else { weight.kept_from(difference, cube_bound) };
            self.third = square.multiply_add(factor, self.third);
            self.moment = weight.multiply_add(difference, self.moment);
        }
    }

    #[inline(always)]
    unsafe fn total(self) -> WeightSums {
        // SAFETY: the caller has the instructions.
        unsafe {
            WeightSums {
                first: self.first.total(),
                second: self.second.total(),
                third: self.third.total() - R::LANES as f64 * START,
                moment: self.moment.total(),
            }
        }
    }
}

/// How a row is weighed.
mod how {
    /// Any row: what would be subnormal is left out, since such arithmetic is slow.
    pub const GUARDED: u8 = 0;
    /// A mild row.
    pub const MILD: u8 = 1;
    /// A mild row, the rate in the constants.
    pub const MILD_IN_CONSTANTS: u8 = 2;
}

/// What turns logits into weights.
#[derive(Clone, Copy)]
struct Weighing<R> {
    reference: R,
    rate: R,
    constants: Constants<R>,
    square_bounds: [R; 2],
    large_bound: R,
}

/// One register of logits as differences Δ, weights and their squares, for the smaller rate and for the larger.
#[derive(Clone, Copy)]
struct Terms<R> {
    difference: R,
    weights: [R; 2],
    squares: [R; 2],
}

impl<R: Register> Weighing<R> {
    /// Differences and weights for the smaller rate; `logits` must be readable for N registers.
    #[inline(always)]
    unsafe fn weights<const HOW: u8, const N: usize>(&self, logits: *const R::Element) -> ([R; N], [R; N]) {
        // SAFETY: the caller has the instructions.
        unsafe {
            let mut differences = [self.reference; N];
            for (i, difference) in differences.iter_mut().enumerate() {
                *difference = R::load(logits.add(i * R::LANES)).subtract(self.reference);
            }
            let mut scaled = differences;
            if HOW != how::MILD_IN_CONSTANTS {
                for scaled in &mut scaled {
                    *scaled = scaled.multiply(self.rate);
                }
            }
            let weights = if HOW == how::GUARDED {
                exponential_with::<R, true, N>(scaled, &self.constants)
            } else {
                exponential_with::<R, false, N>(scaled, &self.constants)
            };
            (differences, weights)
        }
    }

    /// The power where it can be multiplied on without becoming subnormal; of a mild row that is everywhere.
    #[inline(always)]
    unsafe fn kept<const HOW: u8>(power: R, difference: R, bound: R) -> R {
        // SAFETY: the caller has the instructions.
        unsafe { if HOW == how::GUARDED { power.kept_from(difference, bound) } else { power } }
    }

    /// The powers of one register of weights.
    #[inline(always)]
    unsafe fn terms<const DOUBLINGS: u32, const HOW: u8>(&self, difference: R, weight: R) -> Terms<R> {
        // SAFETY: the caller has the instructions.
        unsafe {
            let square = weight.multiply(Self::kept::<HOW>(weight, difference, self.square_bounds[0]));
            let mut large = square;
            let mut large_square = square;
            if DOUBLINGS > 0 {
                if DOUBLINGS > 1 {
                    // Where the last power is a normal number, so is every power on the way.
                    large = large.multiply(Self::kept::<HOW>(large, difference, self.large_bound));
                }
                for _ in 2..DOUBLINGS {
                    large = large.multiply(large);
                }
                // Of a mild row only the sixteenth power can be subnormal.
                let factor = if DOUBLINGS == MOST_DOUBLINGS {
                    large.kept_from(difference, self.square_bounds[1])
                } else {
                    Self::kept::<HOW>(large, difference, self.square_bounds[1])
                };
                large_square = large.multiply(factor);
            }
            Terms { difference, weights: [weight, large], squares: [square, large_square] }
        }
    }
}

impl<R: Register> Terms<R> {
    #[inline(always)]
    unsafe fn add_to<const DOUBLINGS: u32>(self, sums: &mut [Sums<R>; 2], cube_bounds: [R; 2]) {
        // SAFETY: the caller has the instructions.
        unsafe {
            sums[0].add(self.weights[0], self.squares[0], self.difference, cube_bounds[0]);
            if DOUBLINGS > 0 {
                sums[1].add(self.weights[1], self.squares[1], self.difference, cube_bounds[1]);
            }
        }
    }
}

#[inline(always)]
unsafe fn weigh<R: Register<Element: RowSums>, const DOUBLINGS: u32, const HOW: u8, const N: usize>(
    row: &[R::Element],
    reference: R::Element,
    rates: &Rates<R::Element>,
) -> [WeightSums; 2] {
    assert!(row.len().is_multiple_of(R::LANES), "the row is not padded");
    // SAFETY: the caller has the instructions; each chunk holds a register.
    unsafe {
        let constants = Weighing {
            reference: R::splat(reference),
            rate: R::splat(rates.rate),
            constants: match &rates.constants {
                Some(constants) if HOW == how::MILD_IN_CONSTANTS => Constants::splat(constants),
                _ => Constants::without_rate(),
            },
            square_bounds: [R::splat(rates.square_bounds[0]), R::splat(rates.square_bounds[1])],
            large_bound: R::splat(rates.large_bound),
        };
        let cube_bounds = [R::splat(rates.cube_bounds[0]), R::splat(rates.cube_bounds[1])];
        let mut sums = [Sums::<R>::new(); 2];
        // Several registers at a time, whose long chains of dependent instructions overlap; their terms are added in order.
        let several = row.chunks_exact(N * R::LANES);
        let rest = several.remainder();
        for registers in several {
            let (differences, weights) = constants.weights::<HOW, N>(registers.as_ptr());
            for i in 0..N {
                constants
                    .terms::<DOUBLINGS, HOW>(differences[i], weights[i])
                    .add_to::<DOUBLINGS>(&mut sums, cube_bounds);
            }
        }
        for register in rest.chunks_exact(R::LANES) {
            let ([difference], [weight]) = constants.weights::<HOW, 1>(register.as_ptr());
            constants.terms::<DOUBLINGS, HOW>(difference, weight).add_to::<DOUBLINGS>(&mut sums, cube_bounds);
        }
        [sums[0].total(), sums[1].total()]
    }
}

macro_rules! loops {
    ($name:ident, $element:ident, $register:ty, several: $several:literal $(, $features:literal)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn survey(row: &[$element]) -> Survey<$element> {
                // SAFETY: the caller's promise.
                unsafe { super::survey::<$register>(row) }
            }

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn find(row: &[$element], value: $element) -> Option<usize> {
                // SAFETY: the caller's promise.
                unsafe { super::find::<$register>(row, value) }
            }

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn weigh<const DOUBLINGS: u32, const HOW: u8>(
                row: &[$element],
                reference: $element,
                rates: &Rates<$element>,
            ) -> [WeightSums; 2] {
                // SAFETY: the caller's promise.
                unsafe { super::weigh::<$register, DOUBLINGS, HOW, $several>(row, reference, rates) }
            }

            /// Replaces each number by its exponential.
            ///
            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn exponentials(row: &mut [$element]) {
                for chunk in row.chunks_exact_mut(<$register>::LANES) {
                    // SAFETY: the caller's promise; a chunk is a register long.
                    unsafe {
                        let [exponential] = exponential([<$register>::load(chunk.as_ptr())]);
                        exponential.store(chunk.as_mut_ptr());
                    }
                }
            }
        }
    };
}

macro_rules! by_set {
    ($set:ident, $avx512:ident, $avx2:ident, $portable:ident, $($call:tt)*) => {
        match $set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => $avx512::$($call)*,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => $avx2::$($call)*,
            _ => $portable::$($call)*,
        }
    };
}
macro_rules! row_sums {
    ($element:ident, most_lanes: $most_lanes:literal, $avx512:ident, $avx2:ident, $portable:ident) => {
        impl RowSums for $element {
            const ABSENT: Self = -Self::MAX / 4.0;
            const MOST_LANES: usize = $most_lanes;

            fn survey(set: InstructionSet, row: &[Self]) -> Survey<Self> {
                // SAFETY: nothing is packed for an instruction set the machine lacks.
                unsafe { by_set!(set, $avx512, $avx2, $portable, survey(row)) }
            }

            fn find(set: InstructionSet, row: &[Self], value: Self) -> Option<usize> {
                // SAFETY: as above.
                unsafe { by_set!(set, $avx512, $avx2, $portable, find(row, value)) }
            }

            fn exponentials(set: InstructionSet, numbers: &mut [Self]) {
                // SAFETY: as above.
                unsafe { by_set!(set, $avx512, $avx2, $portable, exponentials(numbers)) }
            }

            fn weigh(
                set: InstructionSet,
                row: &[Self],
                reference: Self,
                rates: &Rates<Self>,
                is_mild: bool,
            ) -> [WeightSums; 2] {
                macro_rules! by_doublings {
                    ($how:expr) => {
                        match rates.doublings {
                            0 => by_set!(set, $avx512, $avx2, $portable, weigh::<0, { $how }>(row, reference, rates)),
                            1 => by_set!(set, $avx512, $avx2, $portable, weigh::<1, { $how }>(row, reference, rates)),
                            2 => by_set!(set, $avx512, $avx2, $portable, weigh::<2, { $how }>(row, reference, rates)),
                            _ => by_set!(
                                set,
                                $avx512,
                                $avx2,
                                $portable,
                                weigh::<MOST_DOUBLINGS, { $how }>(row, reference, rates)
                            ),
                        }
                    };
                }
                // SAFETY: as above.
                unsafe {
                    if !is_mild {
                        by_doublings!(how::GUARDED)
                    } else if rates.constants.is_some() {
                        by_doublings!(how::MILD_IN_CONSTANTS)
                    } else {
                        by_doublings!(how::MILD)
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
loops!(avx512_f32, f32, Avx512F32, several: 4, "avx512f,avx512dq");
#[cfg(target_arch = "x86_64")]
loops!(avx512_f64, f64, Avx512F64, several: 4, "avx512f,avx512dq");
#[cfg(target_arch = "x86_64")]
loops!(avx2_f32, f32, Avx2F32, several: 8, "avx2,fma");
#[cfg(target_arch = "x86_64")]
loops!(avx2_f64, f64, Avx2F64, several: 8, "avx2,fma");
loops!(portable_f32, f32, Portable<f32, 16>, several: 1);
loops!(portable_f64, f64, Portable<f64, 8>, several: 1);

row_sums!(f32, most_lanes: 16, avx512_f32, avx2_f32, portable_f32);
row_sums!(f64, most_lanes: 8, avx512_f64, avx2_f64, portable_f64);
