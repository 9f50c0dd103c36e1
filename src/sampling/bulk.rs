//! Element-addressed filling: groups of sixteen blocks, one instruction set or another, the same bits.
//!
//! Blocks 16 g, …, 16 g + 15 of a matrix form group g; word w of lane l is word w of block 16 g + l. A law turns the
//! 64 words of group g into elements `ELEMENTS · g` onwards, so an element depends on nothing but its number. The
//! lanes are side by side in the output: output o of block 16 g + l is element `ELEMENTS · g + 16 o + l`.
//! Sixteen is part of the promise, not of the machine: narrower registers take several to a group.

use super::stream::{MatrixId, TrialStream};
use super::threefry::{BlockGroup, LANES, threefry4x32_20_group};

/// Fills `out` from `place` on, which begins a group; the length is a multiple of four groups (a panic if it is not).
///
/// # Safety
/// The machine must have the instructions: AVX2 or AVX-512 (F, BW, DQ, VL).
pub(super) type FillQuads<T> = unsafe fn(place: Place, out: &mut [T]);

/// A law whose elements are a fixed function of a group's words.
pub(super) trait GroupLaw<T> {
    /// Elements made from one group.
    const ELEMENTS: usize;
    /// An array of `ELEMENTS` numbers.
    type Group: AsMut<[T]>;

    /// Registers side by side in the instructions of AVX2, where that is faster than [`Self::transform`] of one group after another.
    #[cfg(target_arch = "x86_64")]
    const QUADS_AVX2: Option<FillQuads<T>> = None;
    /// The same in AVX-512.
    #[cfg(target_arch = "x86_64")]
    const QUADS_AVX512: Option<FillQuads<T>> = None;

    /// Space for a group, filled with zeros.
    fn zeros() -> Self::Group;

    /// Turns the words of a group into elements; `out` holds `ELEMENTS` of them.
    ///
    /// Implementations are `#[inline(always)]`, free of branches and of fused or library arithmetic: they are
    /// compiled once for each instruction set and must agree in every bit.
    fn transform(words: &BlockGroup, out: &mut [T]);
}

/// One of the instruction sets the filling loop is compiled for, known to exist on this machine.
///
/// The only way to hold one is to be given it by [`available`](Self::available) or [`best`](Self::best).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSet(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Whatever the build targets (SSE2 on x86-64).
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// Those that this machine has, the baseline first, the fastest last.
    pub(super) fn available() -> impl DoubleEndedIterator<Item = Self> {
        [
            Some(Kind::Baseline),
            #[cfg(target_arch = "x86_64")]
            is_x86_feature_detected!("avx2").then_some(Kind::Avx2),
            #[cfg(target_arch = "x86_64")]
            (is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl"))
            .then_some(Kind::Avx512),
        ]
        .into_iter()
        .flatten()
        .map(Self)
    }

    /// The fastest one that this machine has.
    pub(super) fn best() -> Self {
        Self::available().next_back().unwrap_or(Self(Kind::Baseline))
    }
}

/// Where a run of elements lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub(super) stream: TrialStream,
    pub(super) matrix: MatrixId,
    /// Number of the first element, counted along the rows.
    pub(super) first: usize,
}

impl Place {
    /// Threefry's counter for the first block of a group.
    #[inline(always)]
    pub(super) const fn counter(&self, group: usize) -> [u32; 4] {
        self.stream.counter(self.matrix, group as u64 * LANES as u64)
    }
}

/// Fills `out` with the elements from `place.first` on.
pub(super) fn fill<T: Copy, L: GroupLaw<T>>(set: InstructionSet, place: Place, out: &mut [T]) {
    match set.0 {
        Kind::Baseline => fill_groups::<T, L>(place, out, None),
        // SAFETY: an `InstructionSet` is only made by `available`, which found these instructions here.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { fill_avx2::<T, L>(place, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { fill_avx512::<T, L>(place, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2<T: Copy, L: GroupLaw<T>>(place: Place, out: &mut [T]) {
    fill_groups::<T, L>(place, out, L::QUADS_AVX2);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn fill_avx512<T: Copy, L: GroupLaw<T>>(place: Place, out: &mut [T]) {
    fill_groups::<T, L>(place, out, L::QUADS_AVX512);
}

/// The one loop behind all instruction sets: a part of a group, whole groups, a part of a group. Where `quads` is given,
/// the machine must have its instructions.
#[inline(always)]
fn fill_groups<T: Copy, L: GroupLaw<T>>(place: Place, out: &mut [T], quads: Option<FillQuads<T>>) {
    let key = place.stream.key();
    let words = |group: usize| threefry4x32_20_group(place.counter(group), key);
    let mut group = place.first / L::ELEMENTS;
    let offset = place.first % L::ELEMENTS;
    let head = ((L::ELEMENTS - offset) % L::ELEMENTS).min(out.len());
    let (head, mut rest) = out.split_at_mut(head);
    if !head.is_empty() {
        let mut whole = L::zeros();
        L::transform(&words(group), whole.as_mut());
        head.copy_from_slice(&whole.as_mut()[offset..offset + head.len()]);
        group += 1;
    }
    if let Some(fill_quads) = quads {
        let count = rest.len() / (4 * L::ELEMENTS) * 4;
        let (quads, remainder) = rest.split_at_mut(count * L::ELEMENTS);
        // SAFETY: the caller's promise.
        unsafe { fill_quads(Place { first: group * L::ELEMENTS, ..place }, quads) };
        group += count;
        rest = remainder;
    }
    let mut pieces = rest.chunks_exact_mut(L::ELEMENTS);
    for piece in &mut pieces {
        L::transform(&words(group), piece);
        group += 1;
    }
    let tail = pieces.into_remainder();
    if !tail.is_empty() {
        let mut whole = L::zeros();
        L::transform(&words(group), whole.as_mut());
        tail.copy_from_slice(&whole.as_mut()[..tail.len()]);
    }
}
