//! The inner loops of full attention over rows of logits, written once for every register: maxima and weights.

use super::InstructionSet;
use super::exponential::{Exponential, exponential};
#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};
use super::registers::{Portable, Register};
use super::weighted_values::{self as products, Product};
use crate::number::Real;

/// Most rows of a tile, over all instruction sets, up to a whole number of registers.
pub const MOST_ROWS: usize = 16;

/// What a row amounts to so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running<T> {
    /// The largest logit M; −∞ before the first.
    pub maximum: T,
    /// Σ e^(x − M), or NaN if a logit was.
    pub sum: f64,
}

/// The loops of one element type, by instruction set.
pub trait AttentionLoops: Exponential + PartialOrd {
    /// Keys in a block: a tile of logits and the weights made of them stay in the L1 cache. A multiple of every panel's
    /// width.
    const BLOCK: usize;

    /// Elements from row to row of a tile of logits: a cache line more than the block, so that the rows do not all map to the
    /// same sets of the cache.
    const STRIDE: usize;

    /// The largest logit (−∞ for none) and whether any is NaN.
    fn survey_logits(set: InstructionSet, logits: &[Self]) -> (Self, bool);

    /// Replaces logits x by e^(x − reference), x ≤ reference, and returns their sum; 0 for NaN.
    fn weigh_logits(set: InstructionSet, logits: &mut [Self], reference: Self) -> f64;

    /// Multiplies each number by the factor.
    fn multiply(set: InstructionSet, numbers: &mut [Self], factor: Self);

    /// Turns the first `columns` logits of each row of a tile into weights relative to the row's largest logit so far. The
    /// factors bring what was summed before to the new reference.
    fn weigh_tile(
        set: InstructionSet,
        tile: &mut [Self],
        columns: usize,
        running: &mut [Running<Self>],
        factors: &mut [Self; MOST_ROWS],
    );

    /// Row by row out ← factor · out + weights · values; `out` is one line of the strip's width a row.
    fn accumulate(set: InstructionSet, product: Product<'_, Self>, factors: &[Self; MOST_ROWS], out: &mut [Self]);
}

#[inline(always)]
fn lowest<T: Real>() -> T {
    T::from_f64(f64::NEG_INFINITY)
}

/// What is left of a row behind the last whole register, filled up with −∞.
#[inline(always)]
fn padded<T: Real>(rest: &[T]) -> [T; MOST_ROWS] {
    let mut lanes = [lowest(); MOST_ROWS];
    lanes[..rest.len()].copy_from_slice(rest);
    lanes
}

#[inline(always)]
unsafe fn survey<R: Register<Element: AttentionLoops>>(logits: &[R::Element]) -> (R::Element, bool) {
    let chunks = logits.chunks_exact(2 * R::LANES);
    let rest = chunks.remainder();
    // SAFETY: the caller has the instructions; each chunk holds two registers.
    let (maximum, sum) = unsafe {
        let mut maximum = [R::splat(lowest()); 2];
        let mut sum = [R::splat(R::Element::ZERO); 2];
        for chunk in chunks {
            let x = [R::load(chunk.as_ptr()), R::load(chunk.as_ptr().add(R::LANES))];
            maximum = [x[0].maximum(maximum[0]), x[1].maximum(maximum[1])];
            sum = [sum[0].add(x[0]), sum[1].add(x[1])];
        }
        (maximum[0].maximum(maximum[1]).largest(), sum[0].add(sum[1]).total())
    };
    let larger = |a, &b| if b > a { b } else { a };
    let maximum = rest.iter().fold(maximum, larger);
    // A NaN shows in the sum; so does ∞ − ∞, hence the second look.
    let is_nan = |x: &R::Element| x.to_f64().is_nan();
    let any_nan = sum.is_nan() && logits.iter().any(is_nan) || rest.iter().any(is_nan);
    (maximum, any_nan)
}

#[inline(always)]
unsafe fn weigh<R: Register<Element: AttentionLoops>>(logits: &mut [R::Element], reference: R::Element) -> f64 {
    let mut chunks = logits.chunks_exact_mut(2 * R::LANES);
    // SAFETY: the caller has the instructions; each chunk holds two registers.
    unsafe {
        let reference = R::splat(reference);
        let mut sum = [R::splat(R::Element::ZERO); 2];
        for chunk in &mut chunks {
            // One from the other: a second borrow of the chunk would end what the first pointer may do.
            let left = chunk.as_mut_ptr();
            let right = left.add(R::LANES);
            // No closure: one that is not inlined lacks the instructions.
            let weights = exponential([R::load(left).subtract(reference), R::load(right).subtract(reference)]);
            weights[0].store(left);
            weights[1].store(right);
            sum = [sum[0].add(weights[0]), sum[1].add(weights[1])];
        }
        for rest in chunks.into_remainder().chunks_mut(R::LANES) {
            let mut lanes = padded(rest);
            let [weight] = exponential([R::load(lanes.as_ptr()).subtract(reference)]);
            weight.store(lanes.as_mut_ptr());
            sum[0] = sum[0].add(weight);
            rest.copy_from_slice(&lanes[..rest.len()]);
        }
        sum[0].add(sum[1]).total()
    }
}

#[inline(always)]
unsafe fn multiply<R: Register<Element: AttentionLoops>>(numbers: &mut [R::Element], factor: R::Element) {
    for chunk in numbers.chunks_mut(R::LANES) {
        // SAFETY: the caller has the instructions; a whole chunk holds a register, and so do the padded lanes.
        unsafe {
            if chunk.len() == R::LANES {
                R::load(chunk.as_ptr()).multiply(R::splat(factor)).store(chunk.as_mut_ptr());
            } else {
                let mut lanes = padded(chunk);
                R::load(lanes.as_ptr()).multiply(R::splat(factor)).store(lanes.as_mut_ptr());
                chunk.copy_from_slice(&lanes[..chunk.len()]);
            }
        }
    }
}

#[inline(always)]
unsafe fn weigh_tile<R: Register<Element: AttentionLoops>>(
    tile: &mut [R::Element],
    columns: usize,
    running: &mut [Running<R::Element>],
    factors: &mut [R::Element; MOST_ROWS],
) {
    let zero = R::Element::ZERO;
    let mut before = [zero; MOST_ROWS];
    let mut after = [zero; MOST_ROWS];
    let mut sums = [0.0; MOST_ROWS];
    for (row, (line, running)) in tile.chunks_mut(R::Element::STRIDE).zip(running.iter_mut()).enumerate() {
        let line = &mut line[..columns];
        // SAFETY: the caller has the instructions.
        let (maximum, any_nan) = unsafe { survey::<R>(line) };
        before[row] = running.maximum;
        if maximum > running.maximum {
            running.maximum = maximum;
        }
        // Where all logits are −∞, so are their distances from 0, but not from −∞.
        after[row] = if running.maximum == lowest() { zero } else { running.maximum };
        // SAFETY: as above.
        sums[row] = if any_nan { f64::NAN } else { 0.0 } + unsafe { weigh::<R>(line, after[row]) };
    }
    for lanes in (0..MOST_ROWS).step_by(R::LANES) {
        // SAFETY: as above; a whole number of registers makes up the arrays.
        unsafe {
            let step = R::load(before.as_ptr().add(lanes)).subtract(R::load(after.as_ptr().add(lanes)));
            let [factor] = exponential([step]);
            factor.store(factors.as_mut_ptr().add(lanes));
        }
    }
    for ((running, sum), factor) in running.iter_mut().zip(sums).zip(factors) {
        running.sum = running.sum * factor.to_f64() + sum;
    }
}

macro_rules! row_loops {
    ($name:ident, $element:ident, $register:ty $(, $features:literal)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn survey_logits(logits: &[$element]) -> ($element, bool) {
                // SAFETY: the caller's promise.
                unsafe { survey::<$register>(logits) }
            }

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn weigh_logits(logits: &mut [$element], reference: $element) -> f64 {
                // SAFETY: the caller's promise.
                unsafe { weigh::<$register>(logits, reference) }
            }

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn multiply(numbers: &mut [$element], factor: $element) {
                // SAFETY: the caller's promise.
                unsafe { super::multiply::<$register>(numbers, factor) }
            }

            /// # Safety
            /// The machine must have the instructions.
            $(#[target_feature(enable = $features)])?
            pub unsafe fn weigh_tile(
                tile: &mut [$element],
                columns: usize,
                running: &mut [Running<$element>],
                factors: &mut [$element; MOST_ROWS],
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::weigh_tile::<$register>(tile, columns, running, factors) }
            }
        }
    };
}

macro_rules! by_set {
    ($set:ident, [$($module:tt)*] $avx512:ident, $avx2:ident, $portable:ident, $($call:tt)*) => {
        // SAFETY: nothing is packed for an instruction set the machine lacks, and `assert_available` has made sure where
        // nothing is packed.
        unsafe {
            match $set {
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512 => $($module)* $avx512 $($call)*,
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 => $($module)* $avx2 $($call)*,
                _ => $($module)* $portable $($call)*,
            }
        }
    };
}

macro_rules! attention_loops {
    (
        $element:ident, block: $block:literal, line: $line:literal, $avx512:ident, $avx2:ident, $portable:ident
    ) => {
        impl AttentionLoops for $element {
            const BLOCK: usize = $block;
            const STRIDE: usize = $block + $line;

            fn survey_logits(set: InstructionSet, logits: &[Self]) -> (Self, bool) {
                by_set!(set, [] $avx512, $avx2, $portable, ::survey_logits(logits))
            }

            fn weigh_logits(set: InstructionSet, logits: &mut [Self], reference: Self) -> f64 {
                by_set!(set, [] $avx512, $avx2, $portable, ::weigh_logits(logits, reference))
            }

            fn multiply(set: InstructionSet, numbers: &mut [Self], factor: Self) {
                by_set!(set, [] $avx512, $avx2, $portable, ::multiply(numbers, factor))
            }

            fn weigh_tile(
                set: InstructionSet,
                tile: &mut [Self],
                columns: usize,
                running: &mut [Running<Self>],
                factors: &mut [Self; MOST_ROWS],
            ) {
                by_set!(set, [] $avx512, $avx2, $portable, ::weigh_tile(tile, columns, running, factors))
            }

            // The product in plain Rust is safe, and the only one elsewhere.
            #[cfg_attr(not(target_arch = "x86_64"), allow(unused_unsafe))]
            fn accumulate(
                set: InstructionSet,
                product: Product<'_, Self>,
                factors: &[Self; MOST_ROWS],
                out: &mut [Self],
            ) {
                by_set!(set, [products::] $avx512, $avx2, $portable, (product, factors, out))
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
row_loops!(avx512_f32, f32, Avx512F32, "avx512f,avx512dq");
#[cfg(target_arch = "x86_64")]
row_loops!(avx512_f64, f64, Avx512F64, "avx512f,avx512dq");
#[cfg(target_arch = "x86_64")]
row_loops!(avx2_f32, f32, Avx2F32, "avx2,fma");
#[cfg(target_arch = "x86_64")]
row_loops!(avx2_f64, f64, Avx2F64, "avx2,fma");
row_loops!(portable_f32, f32, Portable<f32, 16>);
row_loops!(portable_f64, f64, Portable<f64, 8>);

attention_loops!(f32, block: 512, line: 16, avx512_f32, avx2_f32, portable_f32);
attention_loops!(f64, block: 256, line: 8, avx512_f64, avx2_f64, portable_f64);
