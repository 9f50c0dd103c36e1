//! Vector registers of every instruction set behind one trait, so that the loops over a row are written once.

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};

use super::exponential::Exponential;

/// A register of numbers.
///
/// # Safety of the methods
/// The machine must have the register's instructions. Every method is inlined into a function that enables them; elsewhere
/// each would be a call.
pub trait Register: Copy {
    /// The type of each lane.
    type Element: Exponential;

    /// Numbers held.
    const LANES: usize;

    /// Whether [`Self::multiply_add`] rounds once.
    const FUSED: bool;

    /// The number in every lane.
    unsafe fn splat(number: Self::Element) -> Self;
    /// The first `LANES` numbers. `from` must be readable for as many.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// Writes the lanes. `to` must be writable for `LANES` numbers.
    unsafe fn store(self, to: *mut Self::Element);
    /// self + other.
    unsafe fn add(self, other: Self) -> Self;
    /// self − other.
    unsafe fn subtract(self, other: Self) -> Self;
    /// self · other.
    unsafe fn multiply(self, other: Self) -> Self;
    /// self · factor + term, rounded once if the machine can, and twice in the portable register.
    unsafe fn multiply_add(self, factor: Self, term: Self) -> Self;
    /// The larger of both; `other` if either is NaN.
    unsafe fn maximum(self, other: Self) -> Self;
    /// The smaller of both; `other` if either is NaN.
    unsafe fn minimum(self, other: Self) -> Self;
    /// self where key ≥ bound, else 0; 0 where either is NaN.
    unsafe fn kept_from(self, key: Self, bound: Self) -> Self;
    /// self · 2^k, where the register `shifted` is `SHIFT` + k, and result and self are normal numbers.
    unsafe fn times_power_of_two(self, shifted: Self) -> Self;
    /// Bit i is set where lane i equals that of the other.
    unsafe fn equal_lanes(self, other: Self) -> u32;
    /// Σ of the lanes, in f64.
    unsafe fn total(self) -> f64;
    /// The lanes' largest number; unspecified if one is NaN.
    unsafe fn largest(self) -> Self::Element;
    /// The lanes' smallest number; unspecified if one is NaN.
    unsafe fn smallest(self) -> Self::Element;
}

/// A register in plain Rust, for machines without vector instructions of ours.
#[derive(Clone, Copy)]
pub struct Portable<T, const N: usize>([T; N]);

macro_rules! portable {
    ($element:ident, $lanes:literal, mantissa: $mantissa:literal) => {
        impl Portable<$element, $lanes> {
            #[inline(always)]
            fn with(self, other: Self, combine: impl Fn($element, $element) -> $element) -> Self {
                let mut lanes = self.0;
                // By index: iterators are left as calls where functions are not inlined across units of the build.
                for lane in 0..$lanes {
                    lanes[lane] = combine(lanes[lane], other.0[lane]);
                }
                Self(lanes)
            }
        }

        impl Register for Portable<$element, $lanes> {
            type Element = $element;
            const LANES: usize = $lanes;
            const FUSED: bool = false;

            #[inline(always)]
            unsafe fn splat(number: $element) -> Self {
                Self([number; $lanes])
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller's promise; an array of numbers is aligned as its elements are.
                Self(unsafe { from.cast::<[$element; $lanes]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<[$element; $lanes]>().write(self.0) };
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                self.with(other, |a, b| a + b)
            }
            #[inline(always)]
            unsafe fn subtract(self, other: Self) -> Self {
                self.with(other, |a, b| a - b)
            }
            #[inline(always)]
            unsafe fn multiply(self, other: Self) -> Self {
                self.with(other, |a, b| a * b)
            }
            #[inline(always)]
            unsafe fn multiply_add(self, factor: Self, term: Self) -> Self {
                // Not `mul_add`, which is a library call where the build does not assume the instruction.
                self.with(factor, |a, b| a * b).with(term, |a, b| a + b)
            }
            #[inline(always)]
            unsafe fn maximum(self, other: Self) -> Self {
                self.with(other, |a, b| if a > b { a } else { b })
            }
            #[inline(always)]
            unsafe fn minimum(self, other: Self) -> Self {
                self.with(other, |a, b| if a < b { a } else { b })
            }
            #[inline(always)]
            unsafe fn kept_from(self, key: Self, bound: Self) -> Self {
                let mut lanes = self.0;
                for lane in 0..$lanes {
                    lanes[lane] = if key.0[lane] >= bound.0[lane] { lanes[lane] } else { 0.0 };
                }
                Self(lanes)
            }
            #[inline(always)]
            unsafe fn times_power_of_two(self, shifted: Self) -> Self {
                // The sign and the top of the shift are shifted out.
                self.with(shifted, |a, b| $element::from_bits(a.to_bits().wrapping_add(b.to_bits() << $mantissa)))
            }
            #[inline(always)]
            unsafe fn equal_lanes(self, other: Self) -> u32 {
                let mut lanes = 0;
                for lane in 0..$lanes {
                    lanes |= u32::from(self.0[lane] == other.0[lane]) << lane;
                }
                lanes
            }
            #[inline(always)]
            unsafe fn total(self) -> f64 {
                self.0.iter().map(|&lane| f64::from(lane)).sum()
            }
            #[inline(always)]
            unsafe fn largest(self) -> $element {
                self.0.iter().fold($element::NEG_INFINITY, |a, &b| if b > a { b } else { a })
            }
            #[inline(always)]
            unsafe fn smallest(self) -> $element {
                self.0.iter().fold($element::INFINITY, |a, &b| if b < a { b } else { a })
            }
        }
    };
}

portable!(f32, 16, mantissa: 23);
portable!(f64, 8, mantissa: 52);

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! 256-bit and 512-bit registers.
    use super::Register;
    use std::arch::x86_64::*;

    macro_rules! register {
        (
            $name:ident, $register:ident, $element:ident, $lanes:literal, mantissa: $mantissa:literal,
            splat: $splat:ident, load: $load:ident, store: $store:ident,
            add: $add:ident, subtract: $subtract:ident, multiply: $multiply:ident, fma: $fma:ident, max: $max:ident, min: $min:ident,
            kept: |$number:ident, $key:ident, $bound:ident| $kept:expr, to_bits: $to_bits:ident,
            from_bits: $from_bits:ident, shift: $shift:ident, add_bits: $add_bits:ident,
            equal: |$left:ident, $right:ident| $equal:expr, total: |$lanes_of:ident| $total:expr,
            largest: |$all:ident| $largest:expr, smallest: |$each:ident| $smallest:expr
        ) => {
            #[doc = concat!("A register of ", stringify!($lanes), " numbers.")]
            #[derive(Clone, Copy)]
            pub struct $name($register);

            // SAFETY of the blocks: each caller promises that the machine has the instructions.
            impl Register for $name {
                type Element = $element;
                const LANES: usize = $lanes;
                const FUSED: bool = true;

                #[inline(always)]
                unsafe fn splat(number: $element) -> Self {
                    Self(unsafe { $splat(number) })
                }
                #[inline(always)]
                unsafe fn load(from: *const $element) -> Self {
                    Self(unsafe { $load(from) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $element) {
                    unsafe { $store(to, self.0) };
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    Self(unsafe { $add(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn subtract(self, other: Self) -> Self {
                    Self(unsafe { $subtract(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn multiply(self, other: Self) -> Self {
                    Self(unsafe { $multiply(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn multiply_add(self, factor: Self, term: Self) -> Self {
                    Self(unsafe { $fma(self.0, factor.0, term.0) })
                }
                #[inline(always)]
                unsafe fn maximum(self, other: Self) -> Self {
                    Self(unsafe { $max(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn minimum(self, other: Self) -> Self {
                    Self(unsafe { $min(self.0, other.0) })
                }
                #[inline(always)]
                unsafe fn kept_from(self, key: Self, bound: Self) -> Self {
                    let ($number, $key, $bound) = (self.0, key.0, bound.0);
                    Self(unsafe { $kept })
                }
                #[inline(always)]
                unsafe fn times_power_of_two(self, shifted: Self) -> Self {
                    // The sign and the top of the shift are shifted out.
                    Self(unsafe { $from_bits($add_bits($to_bits(self.0), $shift::<$mantissa>($to_bits(shifted.0)))) })
                }
                #[inline(always)]
                unsafe fn equal_lanes(self, other: Self) -> u32 {
                    let ($left, $right) = (self.0, other.0);
                    unsafe { $equal }
                }
                #[inline(always)]
                unsafe fn total(self) -> f64 {
                    let $lanes_of = self.0;
                    unsafe { $total }
                }
                #[inline(always)]
                unsafe fn largest(self) -> $element {
                    let $all = self.0;
                    unsafe { $largest }
                }
                #[inline(always)]
                unsafe fn smallest(self) -> $element {
                    let $each = self.0;
                    unsafe { $smallest }
                }
            }
        };
    }

    #[inline(always)]
    unsafe fn total_of_four(lanes: __m256d) -> f64 {
        // SAFETY: the caller has AVX.
        unsafe {
            let pairs = _mm_add_pd(_mm256_castpd256_pd128(lanes), _mm256_extractf128_pd::<1>(lanes));
            _mm_cvtsd_f64(_mm_add_sd(pairs, _mm_unpackhi_pd(pairs, pairs)))
        }
    }

    #[inline(always)]
    unsafe fn total_of_eight(lanes: __m512d) -> f64 {
        // SAFETY: the caller has AVX-512.
        unsafe { total_of_four(_mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd::<1>(lanes))) }
    }

    register! {
        Avx512F32, __m512, f32, 16, mantissa: 23, splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps,
        add: _mm512_add_ps, subtract: _mm512_sub_ps, multiply: _mm512_mul_ps, fma: _mm512_fmadd_ps, max: _mm512_max_ps, min: _mm512_min_ps,
        kept: |number, key, bound| _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(key, bound), number),
        to_bits: _mm512_castps_si512, from_bits: _mm512_castsi512_ps, shift: _mm512_slli_epi32,
        add_bits: _mm512_add_epi32,
        equal: |left, right| u32::from(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(left, right)),
        total: |lanes| total_of_eight(_mm512_add_pd(
            _mm512_cvtps_pd(_mm512_castps512_ps256(lanes)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(lanes))
        )),
        largest: |lanes| _mm512_reduce_max_ps(lanes), smallest: |lanes| _mm512_reduce_min_ps(lanes)
    }

    register! {
        Avx512F64, __m512d, f64, 8, mantissa: 52, splat: _mm512_set1_pd, load: _mm512_loadu_pd, store: _mm512_storeu_pd,
        add: _mm512_add_pd, subtract: _mm512_sub_pd, multiply: _mm512_mul_pd, fma: _mm512_fmadd_pd, max: _mm512_max_pd, min: _mm512_min_pd,
        kept: |number, key, bound| _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_GE_OQ>(key, bound), number),
        to_bits: _mm512_castpd_si512, from_bits: _mm512_castsi512_pd, shift: _mm512_slli_epi64,
        add_bits: _mm512_add_epi64,
        equal: |left, right| u32::from(_mm512_cmp_pd_mask::<_CMP_EQ_OQ>(left, right)),
        total: |lanes| total_of_eight(lanes), largest: |lanes| _mm512_reduce_max_pd(lanes),
        smallest: |lanes| _mm512_reduce_min_pd(lanes)
    }

    register! {
        Avx2F32, __m256, f32, 8, mantissa: 23, splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps,
        add: _mm256_add_ps, subtract: _mm256_sub_ps, multiply: _mm256_mul_ps, fma: _mm256_fmadd_ps, max: _mm256_max_ps, min: _mm256_min_ps,
        kept: |number, key, bound| _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(key, bound), number),
        to_bits: _mm256_castps_si256, from_bits: _mm256_castsi256_ps, shift: _mm256_slli_epi32,
        add_bits: _mm256_add_epi32,
        equal: |left, right| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(left, right)) as u32,
        total: |lanes| total_of_four(_mm256_add_pd(
            _mm256_cvtps_pd(_mm256_castps256_ps128(lanes)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(lanes))
        )),
        largest: |lanes| {
            let half = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
            let half = _mm_max_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps::<1>(half, half)))
        },
        smallest: |lanes| {
            let half = _mm_min_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
            let half = _mm_min_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_min_ss(half, _mm_shuffle_ps::<1>(half, half)))
        }
    }

    register! {
        Avx2F64, __m256d, f64, 4, mantissa: 52, splat: _mm256_set1_pd, load: _mm256_loadu_pd, store: _mm256_storeu_pd,
        add: _mm256_add_pd, subtract: _mm256_sub_pd, multiply: _mm256_mul_pd, fma: _mm256_fmadd_pd, max: _mm256_max_pd, min: _mm256_min_pd,
        kept: |number, key, bound| _mm256_and_pd(_mm256_cmp_pd::<_CMP_GE_OQ>(key, bound), number),
        to_bits: _mm256_castpd_si256, from_bits: _mm256_castsi256_pd, shift: _mm256_slli_epi64,
        add_bits: _mm256_add_epi64,
        equal: |left, right| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_EQ_OQ>(left, right)) as u32,
        total: |lanes| total_of_four(lanes),
        largest: |lanes| {
            let half = _mm_max_pd(_mm256_castpd256_pd128(lanes), _mm256_extractf128_pd::<1>(lanes));
            _mm_cvtsd_f64(_mm_max_sd(half, _mm_unpackhi_pd(half, half)))
        },
        smallest: |lanes| {
            let half = _mm_min_pd(_mm256_castpd256_pd128(lanes), _mm256_extractf128_pd::<1>(lanes));
            _mm_cvtsd_f64(_mm_min_sd(half, _mm_unpackhi_pd(half, half)))
        }
    }
}
