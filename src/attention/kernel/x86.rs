//! The micro-kernels in x86-64 intrinsics, one macro for both widths and both element types.
//!
//! AVX-512: 14 rows × 2 registers of logits (28 of 32 registers); AVX2: 6 rows × 2 (12 of 16). Each step
//! in depth loads two registers of keys and broadcasts one component per query, so that the
//! multiply-add units, not the loads, are the limit. The safe twin is `portable`.

use super::LaneTotals;
use super::dispatch::{Panel, TileShape};

macro_rules! micro_kernels {
    (
        element: $element:ident, vector: $vector:ident, lanes: $lanes:literal, features: $features:literal,
        rows: $rows:literal, partial: [$($partial:literal)*],
        splat: $splat:ident, load: $load:ident, store: $store:ident, and: $and:ident,
        add: $add:ident, mul: $mul:ident, fma: $fma:ident, add_to_totals: $add_to_totals:ident
    ) => {
        pub mod $element {
            use super::*;

            /// Logits held in registers.
            pub const TILE: TileShape = TileShape { rows: $rows, columns: 2 * $lanes };

            /// Logits of the first `R` rows of a tile, each summed from `start` in depth order.
            ///
            /// # Safety
            /// `depth` must not be 0; `queries` must be readable for `depth * TILE.rows` elements, `keys` for
            /// `depth * TILE.columns`.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize>(
                mut queries: *const $element,
                mut keys: *const $element,
                depth: usize,
                start: $vector,
            ) -> [[$vector; 2]; R] {
                let mut logits = [[start; 2]; R];
                let mut steps = depth;
                // The depth is never 0: tested at the end, the loop keeps one copy of the start.
                loop {
                    // SAFETY: step h < depth reads line h of both panels.
                    unsafe {
                        let left = $load(keys);
                        let right = $load(keys.add($lanes));
                        for r in 0..R {
                            let query = $splat(*queries.add(r));
                            logits[r][0] = $fma(query, left, logits[r][0]);
                            logits[r][1] = $fma(query, right, logits[r][1]);
                        }
                    }
                    steps -= 1;
                    if steps == 0 {
                        break;
                    }
                    // SAFETY: a further line follows.
                    unsafe {
                        queries = queries.add($rows);
                        keys = keys.add(2 * $lanes);
                    }
                }
                logits
            }

            /// Adds the power sums of `R` rows to the totals; `mask` clears padding columns.
            ///
            /// # Safety
            /// As [`tile`].
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn reduce_tile<const R: usize>(
                queries: *const $element,
                keys: *const $element,
                depth: usize,
                start: $vector,
                mask: Option<[$vector; 2]>,
                totals: &mut LaneTotals,
            ) {
                // SAFETY: the caller's promise.
                let mut logits = unsafe { tile::<R>(queries, keys, depth, start) };
                if let Some(mask) = mask {
                    for row in &mut logits {
                        *row = [$and(row[0], mask[0]), $and(row[1], mask[1])];
                    }
                }
                // Two chains per sum hide the latency of the additions. No closures here: one that is not inlined lacks
                // the instructions, and builds without link-time optimisation leave some as calls.
                let [left, right] = logits[0];
                let squares = [$mul(left, left), $mul(right, right)];
                let cubes = [$mul(squares[0], left), $mul(squares[1], right)];
                let fourths = [$mul(squares[0], squares[0]), $mul(squares[1], squares[1])];
                let mut sums = [[left, right], squares, cubes, fourths];
                for row in &logits[1..] {
                    for side in 0..2 {
                        let x = row[side];
                        let square = $mul(x, x);
                        sums[0][side] = $add(sums[0][side], x);
                        sums[1][side] = $add(sums[1][side], square);
                        sums[2][side] = $fma(square, x, sums[2][side]);
                        sums[3][side] = $fma(square, square, sums[3][side]);
                    }
                }
                for power in 0..4 {
                    $add_to_totals(&mut totals[power], $add(sums[power][0], sums[power][1]));
                }
            }

            /// Adds the power sums of the panel's first `columns` columns to `totals`.
            #[target_feature(enable = $features)]
            pub fn power_sums(
                panel: Panel<'_, $element>,
                center: $element,
                columns: usize,
                totals: &mut LaneTotals,
            ) {
                panel.check(TILE);
                let start = $splat(-center);
                let mut mask = None;
                if columns < TILE.columns {
                    let mut lanes = [0.0; 2 * $lanes];
                    lanes[..columns].fill($element::from_bits(!0));
                    // SAFETY: `lanes` holds two registers.
                    mask = Some(unsafe { [$load(lanes.as_ptr()), $load(lanes.as_ptr().add($lanes))] });
                }
                let mut queries = panel.queries.as_ptr();
                let (keys, depth) = (panel.keys.as_ptr(), panel.depth);
                // SAFETY: `check` has made sure that every tile of queries is there in full.
                unsafe {
                    for _ in 0..panel.rows / $rows {
                        reduce_tile::<$rows>(queries, keys, depth, start, mask, totals);
                        queries = queries.add(depth * $rows);
                    }
                    match panel.rows % $rows {
                        $($partial => {
                            reduce_tile::<$partial>(queries, keys, depth, start, mask, totals)
                        })*
                        _ => {}
                    }
                }
            }

            /// Writes `R` rows of logits to `out`, `stride` elements apart.
            ///
            /// # Safety
            /// As [`tile`], and `out` must be writable for `(R - 1) * stride + TILE.columns` elements.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store_tile<const R: usize>(
                queries: *const $element,
                keys: *const $element,
                depth: usize,
                out: *mut $element,
                stride: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    let logits = tile::<R>(queries, keys, depth, $splat(0.0));
                    for (r, row) in logits.iter().enumerate() {
                        $store(out.add(r * stride), row[0]);
                        $store(out.add(r * stride + $lanes), row[1]);
                    }
                }
            }

            /// Writes all logits of the panel to `out`: logit (i, j) at `i * stride + j`.
            #[target_feature(enable = $features)]
            pub fn logits(panel: Panel<'_, $element>, out: &mut [$element], stride: usize) {
                panel.check(TILE);
                assert!(out.len() >= (panel.rows - 1) * stride + TILE.columns);
                let mut queries = panel.queries.as_ptr();
                let mut out = out.as_mut_ptr();
                let (keys, depth) = (panel.keys.as_ptr(), panel.depth);
                // SAFETY: `check` has made sure that every tile of queries is there in full, and
                // the assertion that the last row of `out` is; `wrapping_add` since the
                // step past the last tile may leave `out`.
                unsafe {
                    for _ in 0..panel.rows / $rows {
                        store_tile::<$rows>(queries, keys, depth, out, stride);
                        queries = queries.add(depth * $rows);
                        out = out.wrapping_add(stride * $rows);
                    }
                    match panel.rows % $rows {
                        $($partial => store_tile::<$partial>(queries, keys, depth, out, stride),)*
                        _ => {}
                    }
                }
            }
        }
    };
}

pub mod avx512 {
    //! 512-bit kernels.
    use super::*;
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn add_f32_to_totals(totals: &mut [f64; 16], sums: __m512) {
        let halves = [_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps::<1>(sums)];
        for (total, half) in totals.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
            add_f64(total, _mm512_cvtps_pd(half));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn add_f64_to_totals(totals: &mut [f64; 16], sums: __m512d) {
        add_f64(&mut totals.as_chunks_mut::<8>().0[0], sums);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn add_f64(total: &mut [f64; 8], sums: __m512d) {
        // SAFETY: the array is one register long.
        unsafe {
            let sum = _mm512_add_pd(_mm512_loadu_pd(total.as_ptr()), sums);
            _mm512_storeu_pd(total.as_mut_ptr(), sum);
        }
    }

    micro_kernels! {
        element: f32, vector: __m512, lanes: 16, features: "avx512f,avx512dq",
        rows: 14, partial: [1 2 3 4 5 6 7 8 9 10 11 12 13],
        splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, and: _mm512_and_ps,
        add: _mm512_add_ps, mul: _mm512_mul_ps, fma: _mm512_fmadd_ps, add_to_totals: add_f32_to_totals
    }

    micro_kernels! {
        element: f64, vector: __m512d, lanes: 8, features: "avx512f,avx512dq",
        rows: 14, partial: [1 2 3 4 5 6 7 8 9 10 11 12 13],
        splat: _mm512_set1_pd, load: _mm512_loadu_pd, store: _mm512_storeu_pd, and: _mm512_and_pd,
        add: _mm512_add_pd, mul: _mm512_mul_pd, fma: _mm512_fmadd_pd, add_to_totals: add_f64_to_totals
    }
}

pub mod avx2 {
    //! 256-bit kernels.
    use super::*;
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add_f32_to_totals(totals: &mut [f64; 16], sums: __m256) {
        let halves = [_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums)];
        for (total, half) in totals.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
            add_f64(total, _mm256_cvtps_pd(half));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add_f64_to_totals(totals: &mut [f64; 16], sums: __m256d) {
        add_f64(&mut totals.as_chunks_mut::<4>().0[0], sums);
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add_f64(total: &mut [f64; 4], sums: __m256d) {
        // SAFETY: the array is one register long.
        unsafe {
            let sum = _mm256_add_pd(_mm256_loadu_pd(total.as_ptr()), sums);
            _mm256_storeu_pd(total.as_mut_ptr(), sum);
        }
    }

    micro_kernels! {
        element: f32, vector: __m256, lanes: 8, features: "avx2,fma",
        rows: 6, partial: [1 2 3 4 5],
        splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, and: _mm256_and_ps,
        add: _mm256_add_ps, mul: _mm256_mul_ps, fma: _mm256_fmadd_ps, add_to_totals: add_f32_to_totals
    }

    micro_kernels! {
        element: f64, vector: __m256d, lanes: 4, features: "avx2,fma",
        rows: 6, partial: [1 2 3 4 5],
        splat: _mm256_set1_pd, load: _mm256_loadu_pd, store: _mm256_storeu_pd, and: _mm256_and_pd,
        add: _mm256_add_pd, mul: _mm256_mul_pd, fma: _mm256_fmadd_pd, add_to_totals: add_f64_to_totals
    }
}

pub mod transpose {
    //! Transposes for packing, in SSE2, which every x86-64 processor has. Single elements written a
    //! line apart would take a cycle each.
    use super::super::portable;
    use std::arch::x86_64::*;

    macro_rules! transpose_rows {
        ($element:ident, $side:literal, |$rows:ident| $columns:expr, $load:ident, $store:ident) => {
            /// Writes four equally long rows to the columns `first..first + 4` of lines of `width`.
            pub fn $element(rows: [&[$element]; 4], lines: &mut [$element], width: usize, first: usize) {
                let steps = rows[0].len();
                assert!(rows.iter().all(|row| row.len() == steps));
                assert!(lines.len() == steps * width && first + 4 <= width);
                let blocks = steps / $side;
                let (whole, rest) = lines.split_at_mut(blocks * $side * width);
                for block in 0..blocks {
                    for upper in (0..4).step_by($side) {
                        // SAFETY: block·side + side ≤ steps, the length of each row; the line written to
                        // is one of the first blocks·side, and its columns end at first + 4 ≤ width.
                        unsafe {
                            let $rows: [_; $side] =
                                std::array::from_fn(|row| $load(rows[upper + row].as_ptr().add(block * $side)));
                            let corner = whole.as_mut_ptr().add(block * $side * width + first + upper);
                            for (line, column) in $columns.into_iter().enumerate() {
                                $store(corner.add(line * width), column);
                            }
                        }
                    }
                }
                let tails = rows.map(|row| &row[blocks * $side..]);
                portable::transpose_rows(tails, rest, width, first);
            }
        };
    }

    transpose_rows!(
        f32,
        4,
        |rows| {
            let [a, b, c, d] = rows;
            let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
            let (ef, gh) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
            [_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab), _mm_movelh_ps(ef, gh), _mm_movehl_ps(gh, ef)]
        },
        _mm_loadu_ps,
        _mm_storeu_ps
    );

    transpose_rows!(
        f64,
        2,
        |rows| {
            let [a, b] = rows;
            [_mm_unpacklo_pd(a, b), _mm_unpackhi_pd(a, b)]
        },
        _mm_loadu_pd,
        _mm_storeu_pd
    );
}
