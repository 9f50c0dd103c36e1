//! How many cells (pairs of a query and a key that it sees) a mask leaves, in closed form.
//!
//! Query i, 0 ≤ i < n, stands at key i + s: s = 0 where queries and keys begin together (top-left), s = m − n where they end together
//! (bottom-right, decoding with a cache). A causal query sees min(max(i + 1 + s, 0), m) keys.

use super::{Count, CountOverflow, product, sum};

/// Every query sees every key: n·m.
///
/// # Errors
/// When the count does not fit.
pub fn full(queries: u128, keys: u128) -> Count {
    product(&[queries, keys])
}

/// Σ_i min(max(i + 1 + s, 0), m): keys up to and including the query's own position, `shift` = s.
///
/// For n = m and s = 0 it is n(n + 1)/2, a little more than half of n².
///
/// # Errors
/// When the count does not fit.
pub fn causal(queries: u128, keys: u128, shift: i128) -> Count {
    let last = i128::try_from(queries).ok().and_then(|queries| queries.checked_add(shift)).ok_or(CountOverflow)?;
    // Never negative: `triangle` grows with its first argument, and queries ≥ 0.
    triangle(last, keys)?.checked_sub(triangle(shift, keys)?).ok_or(CountOverflow)
}

/// As [`causal`], and of these keys only the last `window` (the query's own counted, at least 1).
///
/// # Errors
/// When the count does not fit.
pub fn window(queries: u128, keys: u128, shift: i128, window: u128) -> Count {
    // The first key before the window is w positions further back, so what lies before it is causal with s − w.
    let before = i128::try_from(window).ok().and_then(|window| shift.checked_sub(window));
    let hidden = before.map_or(Ok(0), |before| causal(queries, keys, before))?;
    causal(queries, keys, shift)?.checked_sub(hidden).ok_or(CountOverflow)
}

/// The first `length` ≤ m keys are seen by every query, the others as in [`causal`].
///
/// # Errors
/// When the count does not fit.
pub fn prefix(queries: u128, keys: u128, shift: i128, length: u128) -> Count {
    let before = i128::try_from(length).ok().and_then(|length| shift.checked_sub(length)).ok_or(CountOverflow)?;
    let behind = causal(queries, keys.checked_sub(length).ok_or(CountOverflow)?, before)?;
    sum(&[product(&[queries, length])?, behind])
}

/// Sequences packed one after the other, each seen by its own tokens only: Σ L².
///
/// # Errors
/// When the count does not fit.
pub fn documents(lengths: impl IntoIterator<Item = u128>) -> Count {
    lengths.into_iter().try_fold(0, |total, length| sum(&[total, product(&[length, length])?]))
}

/// Σ_{v = 1}^{x} min(v, m), 0 for x ≤ 0.
fn triangle(x: i128, m: u128) -> Count {
    let Ok(x) = u128::try_from(x) else { return Ok(0) };
    let rising = x.min(m);
    // One of two neighbours is even: halved before the product, nothing overflows that fits.
    let (even, odd) = if rising.is_multiple_of(2) { (rising, rising + 1) } else { (rising + 1, rising) };
    sum(&[product(&[even / 2, odd])?, product(&[x - rising, m])?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cell by cell, from the definition of each mask in words.
    fn counted(n: i128, m: i128, sees: impl Fn(i128, i128) -> bool) -> u128 {
        (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).filter(|&(i, j)| sees(i, j)).count() as u128
    }

    #[test]
    fn the_cells_drawn_in_papers_are_counted() {
        // PyTorch: ones(L, S).tril(): 3 × 3 has 6, 2 × 5 has 3; bottom-right 2 × 5: 4 + 5; 5 × 2: 1 + 2.
        assert_eq!(causal(3, 3, 0), Ok(6));
        assert_eq!(causal(2, 5, 0), Ok(3));
        assert_eq!(causal(2, 5, 3), Ok(9));
        assert_eq!(causal(5, 2, -3), Ok(3));
        // A window of 3 in 5 × 5: 1 + 2 + 3 + 3 + 3.
        assert_eq!(window(5, 5, 0, 3), Ok(12));
        // 11 tokens as 2 + 3 + 6: 4 + 9 + 36.
        assert_eq!(documents([2, 3, 6]), Ok(49));
        assert_eq!(full(7, 11), Ok(77));
    }

    #[test]
    fn a_causal_mask_halves_a_long_sequence_and_a_window_makes_it_linear() {
        let n = 1_000_003;
        assert_eq!(causal(n, n, 0), Ok(n * (n + 1) / 2));
        assert_eq!(window(n, n, 0, 101), Ok(n * 101 - 101 * 100 / 2));
        assert_eq!(window(n, n, 0, u128::MAX), causal(n, n, 0));
    }

    proptest! {
        #[test]
        fn closed_forms_are_the_sums_over_cells(n in 1i128..23, m in 1i128..29, s in -31i128..31, w in 1i128..40, p in 0i128..29) {
            let (queries, keys) = (n as u128, m as u128);
            prop_assert_eq!(causal(queries, keys, s), Ok(counted(n, m, |i, j| j <= i + s)));
            let inside = |i: i128, j: i128| j <= i + s && j > i + s - w;
            prop_assert_eq!(window(queries, keys, s, w as u128), Ok(counted(n, m, inside)));
            let p = p.min(m);
            prop_assert_eq!(prefix(queries, keys, s, p as u128), Ok(counted(n, m, |i, j| j < p || j <= i + s)));
        }
    }

    #[test]
    fn a_count_that_does_not_fit_is_an_error() {
        assert_eq!(full(1 << 64, 1 << 64), Err(CountOverflow));
        assert_eq!(causal(u128::MAX, 3, 0), Err(CountOverflow));
        assert_eq!(prefix(3, 5, 0, 7), Err(CountOverflow), "a prefix longer than the keys has no meaning");
        assert_eq!(documents([1 << 64]), Err(CountOverflow));
    }
}
