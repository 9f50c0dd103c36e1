//! Cumulants of statistics of N i.i.d. entries of Q (or of N pairs of entries of Q and K).

use super::Cumulants;
use crate::theory::entry_moments::EntryLaw;

/// Cumulants of the mean of N entries: κ_r(x)/N^(r−1). `None` for N = 0; `third`, `fourth` where the entries lack them.
pub fn mean_of_entries(law: EntryLaw, count: u64) -> Option<Cumulants> {
    let size = positive(count)?;
    Some(Cumulants {
        mean: law.mean(),
        variance: law.variance() / size,
        third: law.cumulant(3).map(|third| third / size.powi(2)),
        fourth: law.cumulant(4).map(|fourth| fourth / size.powi(3)),
    })
}

/// Cumulants of the unbiased sample variance k_2 of N entries (divisor N − 1); κ_r below are those of an entry:
///
/// - E = κ_2
/// - Var = κ_4/N + 2κ_2²/(N−1)
/// - κ_3 = κ_6/N² + 12 κ_4 κ_2/(N(N−1)) + 4(N−2) κ_3²/(N(N−1)²) + 8 κ_2³/(N−1)²
///
/// Source: Fisher, "Moments and product moments of sampling distributions" (1929); κ(2²) and κ(2³) of Kendall and Stuart,
/// volume 1, chapter 12. `None` for N < 2 or without fourth moments; `third` is `None` without sixth moments.
pub fn sample_variance_of_entries(law: EntryLaw, count: u64) -> Option<Cumulants> {
    let size = positive(count)?;
    if count < 2 {
        return None;
    }
    let entry =
        Cumulants { mean: law.mean(), variance: law.variance(), third: law.cumulant(3), fourth: law.cumulant(4) };
    cumulants_of_sample_variance(entry, law.cumulant(6), size)
}

/// The formulas, for any law with these cumulants.
fn cumulants_of_sample_variance(entry: Cumulants, sixth: Option<f64>, size: f64) -> Option<Cumulants> {
    let less_one = size - 1.0;
    let (second, third, fourth) = (entry.variance, entry.third?, entry.fourth?);
    let third_cumulant = |sixth: f64| {
        sixth / size.powi(2)
            + 12.0 * fourth * second / (size * less_one)
            + 4.0 * (size - 2.0) * third * third / (size * less_one.powi(2))
            + 8.0 * second.powi(3) / less_one.powi(2)
    };
    Some(Cumulants {
        mean: second,
        variance: fourth / size + 2.0 * second * second / less_one,
        third: sixth.map(third_cumulant),
        fourth: None,
    })
}

/// Cumulants of the sample correlation of N independent pairs (x, y).
///
/// Given the two samples, every pairing is equally likely, so Pitman's permutation moments ("Significance tests which may be
/// applied to samples from any populations II", 1937) hold conditionally. The first two do not depend on the samples: mean
/// 0 and variance exactly 1/(N−1) for any law. The third vanishes for the symmetric laws here. The fourth is
/// E r⁴ = 3/(N²−1) + (N−2)(N−3) g_x g_y/(N(N+1)(N−1)³), g = k_4/k_2² of a sample, whose expectation is taken as κ_4/κ_2²
/// to leading order in 1/N (exact for normal entries; for Laplace entries E r⁴ comes out 4 % too large at N = 35); so κ_4 = −6/((N+1)(N−1)²) + the second term.
///
/// Conditional on neither sample being constant (which has a positive probability, 2^(1−N), for Rademacher entries).
/// `None` for N < 2; `fourth` is `None` without fourth moments.
pub fn correlation_of_entries(query: EntryLaw, key: EntryLaw, pairs: u64) -> Option<Cumulants> {
    let size = positive(pairs)?;
    if pairs < 2 {
        return None;
    }
    let less_one = size - 1.0;
    let relative_fourth = |law: EntryLaw| Some(law.cumulant(4)? / law.variance().powi(2));
    let fourth = || {
        let shapes = relative_fourth(query)? * relative_fourth(key)?;
        let pairing = (size - 2.0) * (size - 3.0) / (size * (size + 1.0) * less_one.powi(3));
        Some(pairing * shapes - 6.0 / ((size + 1.0) * less_one.powi(2)))
    };
    Some(Cumulants { mean: 0.0, variance: 1.0 / less_one, third: Some(0.0), fourth: fourth() })
}

fn positive(count: u64) -> Option<f64> {
    (count > 0).then_some(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Entries;
    use crate::theory::entry_moments::cumulants_from_moments;

    fn law(entries: Entries, mean: f64, standard_deviation: f64) -> EntryLaw {
        EntryLaw::new(entries, mean, standard_deviation).expect("a valid law")
    }

    fn close(value: f64, expected: f64) {
        // A handful of roundings.
        let tolerance = 1e-14 * expected.abs();
        assert!((value - expected).abs() <= tolerance, "{value} against {expected}");
    }

    #[test]
    fn the_mean_of_few_two_valued_entries_is_a_scaled_binomial() {
        // 5 entries of 7 or 3: the mean is 3 + 4 B/5 with B binomial(5, 1/2), whose κ are 5/2, 5/4, 0, −5/8.
        let mean = mean_of_entries(law(Entries::Rademacher, 5.0, 2.0), 5).expect("five entries");
        close(mean.mean, 5.0);
        close(mean.variance, 0.8_f64.powi(2) * 1.25);
        assert_eq!(mean.third, Some(0.0));
        close(mean.fourth.expect("it exists"), -0.8_f64.powi(4) * 0.625);
        assert_eq!(mean_of_entries(law(Entries::Normal, 0.0, 1.0), 0), None);
    }

    #[test]
    fn the_sample_variance_of_normal_entries_is_a_scaled_chi_square() {
        // k_2 = σ² χ²_(N−1)/(N−1): κ_3 = 8 σ⁶/(N−1)².
        let variance = sample_variance_of_entries(law(Entries::Normal, -3.0, 1.5), 12).expect("twelve entries");
        close(variance.mean, 2.25);
        close(variance.variance, 2.0 * 2.25 * 2.25 / 11.0);
        close(variance.third.expect("it exists"), 8.0 * 2.25_f64.powi(3) / 121.0);
    }

    #[test]
    fn the_sample_variance_of_few_two_valued_entries_agrees_with_all_their_outcomes() {
        // Three signs: k_2 = 0 with probability 1/4, else 4/3. Mean 1, κ_2 = 1/3, κ_3 = (3/4)(1/27) − (1/4) = −2/9.
        let three = sample_variance_of_entries(law(Entries::Rademacher, 0.5, 1.0), 3).expect("three entries");
        close(three.mean, 1.0);
        close(three.variance, 1.0 / 3.0);
        close(three.third.expect("it exists"), -2.0 / 9.0);
        // Two signs: 0 or 2 with equal probability.
        let two = sample_variance_of_entries(law(Entries::Rademacher, 0.0, 1.0), 2).expect("two entries");
        close(two.variance, 1.0);
        close(two.third.expect("it exists") + 1.0, 1.0);
        assert_eq!(sample_variance_of_entries(law(Entries::Normal, 0.0, 1.0), 1), None);
    }

    #[test]
    fn the_sample_variance_of_skewed_entries_agrees_with_all_their_outcomes() {
        // −1, 0, 2 with probabilities 1/2, 1/6, 1/3: raw moments 1/6, 11/6, 13/6, 35/6, 61/6, 131/6. κ of k_2 for N = 5 by
        // enumeration of all 3^5 outcomes in exact fractions (scripts/reference/trial_cumulants.py).
        let moments = [6.0, 1.0, 11.0, 13.0, 35.0, 61.0, 131.0].map(|moment| moment / 6.0);
        let cumulants = cumulants_from_moments(&moments);
        let entry = Cumulants {
            mean: cumulants[1],
            variance: cumulants[2],
            third: Some(cumulants[3]),
            fourth: Some(cumulants[4]),
        };
        let variance = cumulants_of_sample_variance(entry, Some(cumulants[6]), 5.0).expect("five entries");
        // κ_6 is a difference of numbers about 100 times itself.
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-13, "{value} {expected}");
        close(variance.mean, 1.805_555_555_555_555_6);
        close(variance.variance, 0.612_422_839_506_172_8);
        close(variance.third.expect("it exists"), -0.428_341_478_052_126_2);
    }

    #[test]
    fn two_pairs_correlate_to_plus_or_minus_one() {
        // κ_4 of ±1 is −2.
        let normal = law(Entries::Normal, 0.0, 1.0);
        let correlation = correlation_of_entries(normal, normal, 2).expect("two pairs");
        close(correlation.variance, 1.0);
        close(correlation.fourth.expect("it exists"), -2.0);
    }

    #[test]
    fn heavy_tails_lose_the_cumulants_they_do_not_have() {
        let five = sample_variance_of_entries(law(Entries::StudentT(5.0), 0.0, 1.0), 7).expect("κ_4 exists");
        assert_eq!(five.third, None);
        // κ_4 = 6/(ν − 4) = 6.
        close(five.variance, 6.0 / 7.0 + 2.0 / 6.0);
        assert_eq!(sample_variance_of_entries(law(Entries::StudentT(4.0), 0.0, 1.0), 7), None);
        let three = law(Entries::StudentT(3.5), 0.0, 1.0);
        let mean = mean_of_entries(three, 7).expect("it has a variance");
        assert_eq!((mean.third, mean.fourth), (Some(0.0), None));
        let correlation = correlation_of_entries(three, three, 7).expect("seven pairs");
        assert_eq!(correlation.fourth, None);
        close(correlation.variance, 1.0 / 6.0);
    }

    #[test]
    fn the_correlation_of_normal_pairs_has_the_moments_of_its_exact_law() {
        // r² is beta(1/2, (N−2)/2): E r⁴ = 3/(N² − 1).
        let normal = law(Entries::Normal, 4.0, 2.0);
        let correlation = correlation_of_entries(normal, normal, 11).expect("eleven pairs");
        close(correlation.variance, 0.1);
        close(correlation.fourth.expect("it exists"), 3.0 / 120.0 - 3.0 * 0.01);
        assert_eq!((correlation.mean, correlation.third), (0.0, Some(0.0)));
        assert_eq!(correlation_of_entries(normal, normal, 1), None);
    }

    #[test]
    fn the_fourth_cumulant_of_the_correlation_follows_pitmans_permutation_moment() {
        // N = 5, excess kurtosis 3 both: E r⁴ = 3/24 + 3·2·9/(5·6·64), less 3/16. The formula itself was checked against
        // all 120 pairings of two samples in exact fractions (scripts/reference/trial_cumulants.py).
        let laplace = law(Entries::Laplace, 0.0, 3.0);
        let correlation = correlation_of_entries(laplace, laplace, 5).expect("five pairs");
        let expected = 0.125 + 54.0 / 1920.0 - 0.1875;
        assert!((correlation.fourth.expect("it exists") - expected).abs() < 1e-15);
    }
}
