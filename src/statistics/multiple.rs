//! Many rows, one false-alarm rate: Holm's step-down procedure over families (Holm 1979).
//!
//! Rows that are one statistic up to a known factor (the variance raw and scaled, say) are a FAMILY and count once:
//! correcting for them twice would only cost power. Holm's procedure needs no independence.

use std::collections::BTreeMap;

/// Holm-adjusted p-values: with p_(1) ≤ … ≤ p_(F), adjusted p_(i) = max_{j ≤ i} min(1, (F − j + 1)·p_(j)). Rejecting
/// where the adjusted p is ≤ α keeps the chance of any false rejection ≤ α. NaN stays NaN and does not count.
pub fn holm_adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&index| !p[index].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(((order.len() - rank) as f64 * p[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// Holm's procedure over families. `rows` holds (family, p) with None, or NaN, for a row that is not judged.
///
/// A family takes part with the smallest p of its members, and is adjusted to a_f = max over the families before it of
/// (F − rank)·p. A row is adjusted to max(a_f, (F − rank)·its own p): members that agree (one statistic up to a known
/// factor) all get a_f, and where only one of them is at fault the others are not condemned with it. No row's
/// adjusted p is below its family's, so the rate is kept; grouping statistics that truly differ would cheat.
pub fn holm_by_family<F: Ord + Clone>(rows: &[(F, Option<f64>)]) -> Vec<Option<f64>> {
    let mut smallest: BTreeMap<F, f64> = BTreeMap::new();
    for (family, p) in judged(rows) {
        smallest.entry(family.clone()).and_modify(|least| *least = least.min(p)).or_insert(p);
    }
    let values: Vec<f64> = smallest.values().copied().collect();
    let adjusted: BTreeMap<&F, (f64, f64)> =
        smallest.iter().zip(holm_adjusted(&values)).map(|((family, &p), adjusted)| (family, (p, adjusted))).collect();
    let families_from = |least: f64| values.iter().filter(|&&p| p >= least).count() as f64;
    let of_row = |(family, p): &(F, Option<f64>)| {
        let own = p.filter(|p| !p.is_nan())?;
        let &(least, adjusted) = adjusted.get(family)?;
        Some(adjusted.max((families_from(least) * own).min(1.0)))
    };
    rows.iter().map(of_row).collect()
}

/// The number of families with at least one judged row.
pub fn judged_families<F: Ord + Clone>(rows: &[(F, Option<f64>)]) -> usize {
    judged(rows).map(|(family, _)| family).collect::<std::collections::BTreeSet<_>>().len()
}

fn judged<F>(rows: &[(F, Option<f64>)]) -> impl Iterator<Item = (&F, f64)> {
    rows.iter().filter_map(|(family, p)| p.filter(|p| !p.is_nan()).map(|p| (family, p)))
}

/// Bonferroni's level α/F for one of F families: what Holm's procedure guarantees to a family whatever the others show,
/// hence what planning and judgeability use. State every family that WILL be judged; 0 counts as 1.
pub fn planning_level(alpha: f64, families: usize) -> f64 {
    alpha / families.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::test_draws::Draws;

    /// The definition as statsmodels' multipletests(method = "holm") states it, without sorting tricks: the adjusted p
    /// of i is the largest over j with p_j ≤ p_i of p_j times the number of hypotheses not before j.
    fn brute_force(p: &[f64]) -> Vec<f64> {
        let before = |j: usize, k: usize| p[k] < p[j] || (p[k] == p[j] && k < j);
        let value = |j: usize| {
            let earlier = (0..p.len()).filter(|&k| before(j, k)).count();
            (p[j] * (p.len() - earlier) as f64).min(1.0)
        };
        (0..p.len()).map(|i| (0..p.len()).filter(|&j| j == i || before(i, j)).map(value).fold(0.0, f64::max)).collect()
    }

    #[test]
    fn holm_agrees_with_a_hand_worked_example() {
        // 0.01·4 = 0.04, 0.02·3 = 0.06, 0.03·2 = 0.06, 0.04·1 → 0.06 by the running maximum.
        let adjusted = holm_adjusted(&[0.04, 0.01, 0.03, 0.02]);
        for (got, expected) in adjusted.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((got - expected).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm_adjusted(&[0.7, 0.9]), [1.0, 1.0]);
        assert!(holm_adjusted(&[]).is_empty());
    }

    #[test]
    fn holm_agrees_with_its_definition_on_random_p_values_and_ties() {
        let mut draws = Draws::new(11);
        for length in [1, 2, 3, 7, 13] {
            for _ in 0..50 {
                // Rounded to 1/16 so that ties are common.
                let p: Vec<f64> = (0..length).map(|_| (draws.uniform() * 16.0).floor() / 16.0).collect();
                assert_eq!(holm_adjusted(&p), brute_force(&p), "{p:?}");
            }
        }
    }

    #[test]
    fn a_family_counts_once_and_unjudged_rows_do_not_count() {
        let rows = [
            ("variance", Some(0.02)),
            ("mean", Some(0.03)),
            ("variance", Some(0.020_000_000_1)),
            ("kurtosis", None),
            ("entropy", Some(f64::NAN)),
            ("kurtosis", None),
        ];
        assert_eq!(judged_families(&rows), 2);
        // Two families: variance 2·0.02 = 0.04 for both its rows, mean max(0.04, 0.03) = 0.04.
        let expected = [Some(0.04), Some(0.04), Some(0.040_000_000_2), None, None, None];
        assert_eq!(holm_by_family(&rows), expected);
        // Raw and scaled variance of a wrong scale: the raw row is sound and stays so, 2·0.5 → 1.
        let fault = [("variance", Some(0.5)), ("variance", Some(1e-9)), ("mean", Some(0.2))];
        assert_eq!(holm_by_family(&fault), [Some(1.0), Some(2e-9), Some(0.2)]);
        // Rows counted one by one would have given 0.06.
        assert!((holm_adjusted(&[0.02, 0.03, 0.02])[0] - 0.06).abs() < 1e-15);
        assert_eq!(planning_level(0.05, 5), 0.01);
        assert_eq!(planning_level(0.05, 0), 0.05);
    }

    #[test]
    fn a_nan_keeps_its_place_and_leaves_the_others_alone() {
        let adjusted = holm_adjusted(&[0.2, f64::NAN, 0.01]);
        assert!(adjusted[1].is_nan());
        assert_eq!((adjusted[0], adjusted[2]), (0.2, 0.02));
    }
}
