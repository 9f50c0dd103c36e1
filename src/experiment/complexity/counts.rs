//! The closed formulas beside what is counted cell by cell.

use super::instrumented::{Counted, matrix, operations_of, pv, qk, scale_softmax};
use super::plan::Point;
use crate::attention::{Alignment, Mask, MaskKind, MaskRule};
use crate::theory::cost::{AttentionCost, Count, CountOverflow, HeadShape, cells};

/// Operations that the instrumented computation does at most at the sizes run; above it, one cell is instrumented and the cells counted.
const MOST_INSTRUMENTED: u128 = 4_000_000;

/// The formula's count and the one it is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountCheck {
    /// By the formulas, stage by stage.
    pub formula: AttentionCost,
    /// All stages, by counting.
    pub counted: u128,
}

/// Number of visible cells, row by row.
pub fn visible_cells(mask: Option<&Mask>, point: Point) -> u128 {
    match mask {
        Some(mask) => mask.visible_keys().into_iter().map(|keys| keys as u128).sum(),
        None => (0..point.n).map(|_| point.m as u128).sum(),
    }
}

/// The closed form of a rule of one kind (or none); None for kinds joined, which have no formula here.
pub fn closed_form(rule: Option<&MaskRule>, point: Point) -> Option<Count> {
    let (n, m) = (point.n as u128, point.m as u128);
    let Some(rule) = rule else { return Some(cells::full(n, m)) };
    let [kind] = rule.kinds.as_slice() else { return None };
    let shift = match rule.alignment {
        Alignment::TopLeft => 0,
        Alignment::BottomRight => m as i128 - n as i128,
    };
    Some(match kind {
        MaskKind::None => cells::full(n, m),
        MaskKind::Causal => cells::causal(n, m, shift),
        MaskKind::Window { keys } => cells::window(n, m, shift, *keys as u128),
        MaskKind::Prefix { length } => cells::prefix(n, m, shift, *length as u128),
        MaskKind::Padding { length } => cells::full(n, *length as u128),
        MaskKind::Documents { lengths } => cells::documents(lengths.iter().map(|&length| length as u128)),
    })
}

/// Holds the formulas against a count at one point.
///
/// # Errors
/// When a count does not fit.
pub fn check(rule: Option<&MaskRule>, mask: Option<&Mask>, point: Point) -> Result<CountCheck, CountOverflow> {
    let enumerated = visible_cells(mask, point);
    let shape = HeadShape { heads: 1, d_k: point.d_k as u128, d_v: point.d_v as u128 };
    let formula = shape.cost(closed_form(rule, point).unwrap_or(Ok(enumerated))?)?;
    let counted = if formula.total()? <= MOST_INSTRUMENTED && point.n * point.m <= MOST_INSTRUMENTED as usize {
        instrumented(point, &|i, j| mask.is_none_or(|mask| mask.is_visible(i, j)))
    } else {
        let cell = instrumented(Point { n: 1, m: 1, ..point }, &|_, _| true);
        cell.checked_mul(enumerated).ok_or(CountOverflow)?
    };
    Ok(CountCheck { formula, counted })
}

/// Operations of the instrumented attention.
fn instrumented(point: Point, visible: &dyn Fn(usize, usize) -> bool) -> u128 {
    let Point { n, m, d_k, d_v } = point;
    let (queries, keys, values) = (matrix::<Counted>(n, d_k), matrix(m, d_k), matrix(m, d_v));
    let scale = matrix(1, 1)[0][0];
    operations_of(|| drop(pv(&scale_softmax(&qk(&queries, &keys, visible), scale), &values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(rule: &str, point: Point) -> CountCheck {
        let rule: MaskRule = rule.parse().expect("a rule");
        let mask = rule.at(point.n, point.m).expect("fits");
        check(Some(&rule), Some(&mask), point).expect("fits")
    }

    #[test]
    fn formula_and_count_agree_for_every_kind_small_and_large() {
        for point in [Point { n: 7, m: 11, d_k: 3, d_v: 5 }, Point { n: 311, m: 307, d_k: 31, d_v: 37 }] {
            for rule in ["causal", "causal@bottom-right", "window:5", "window:3@bottom-right", "prefix:3", "padding:7"]
            {
                let found = checked(rule, point);
                assert_eq!(found.formula.total(), Ok(found.counted), "{rule} {point:?}");
            }
            let found = check(None, None, point).expect("fits");
            assert_eq!(found.formula.total(), Ok(found.counted));
        }
        let found = checked("documents:2,3,6", Point { n: 11, m: 11, d_k: 3, d_v: 5 });
        // 4 + 9 + 36 cells of 2·3 + 6 + 2·5 operations.
        assert_eq!((found.formula.total(), found.counted), (Ok(49 * 22), 49 * 22));
    }

    #[test]
    fn a_wrong_formula_is_seen() {
        // What public counters do: the mask is left out, or n² taken for n·m.
        let point = Point { n: 7, m: 11, d_k: 3, d_v: 5 };
        let rule: MaskRule = "causal".parse().expect("a rule");
        let mask = rule.at(7, 11).expect("fits");
        let unmasked = check(None, Some(&mask), point).expect("fits");
        assert_ne!(unmasked.formula.total(), Ok(unmasked.counted));
        let other: MaskRule = "causal@bottom-right".parse().expect("a rule");
        let misaligned = check(Some(&other), Some(&mask), point).expect("fits");
        assert_ne!(misaligned.formula.total(), Ok(misaligned.counted));
    }
}
