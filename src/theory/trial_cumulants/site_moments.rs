//! Joint cumulants of the power means M_p = (1/nm) Σ (S_ij − E S)^p of one trial.
//!
//! The joint cumulant of up to four of them is the sum over sites (i, j), (i', j'), (i'', j'') of the joint cumulants of the
//! powers of S there. It depends only on which sites share a query and which share a key: two set partitions of the
//! sites, weighted with falling factorials of n and m. Sites that share nothing, even indirectly, are independent and
//! contribute exactly 0, so they are left out.
//!
//! For given sharing, (S − E S) at the sites is a sum of d i.i.d. vectors, one per depth, so its moment series is the d-th
//! power of the series of one depth, found by Euler's recurrence (Knuth, TAOCP volume 2, section 4.7, in several
//! variables). The cumulants of the sites are of relative order 1/d and 1/d²: double-double arithmetic keeps their digits.

use std::collections::BTreeMap;
use std::ops::Mul;

use crate::theory::double_double::DoubleDouble;
use crate::theory::entry_moments::binomial;
use crate::theory::set_partitions::{Blocks, join, set_partitions};

/// The most power means in one joint cumulant.
const HIGHEST_FACTORS: usize = 4;

/// An entry law for this module: central moments in units of the standard deviation, and the mean in the same unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScaledLaw {
    /// mean / standard deviation.
    pub(super) mean: DoubleDouble,
    /// E z^r from r = 0 on.
    pub(super) moments: Vec<DoubleDouble>,
}

/// A term of (q k − μ_q μ_k)^power = (x k + μ_q y)^power, x and y the centred entries: coefficient · (x k)^products ·
/// y^rest, with products + rest = power.
#[derive(Clone, Copy)]
struct SiteTerm {
    coefficient: DoubleDouble,
    products: usize,
    rest: usize,
}

/// The terms of the powers 0..=highest_power. Expanded about the mean of q: no cancellation when it is large.
fn site_terms(query_mean: DoubleDouble, highest_power: usize) -> Vec<Vec<SiteTerm>> {
    let terms_of = |power: usize| {
        let term = |products: usize| SiteTerm {
            coefficient: query_mean.powi((power - products) as i32) * binomial(power, products).into(),
            products,
            rest: power - products,
        };
        let terms = (0..=power).map(term);
        terms.filter(|term| !term.coefficient.is_zero()).collect()
    };
    (0..=highest_power).map(terms_of).collect()
}

/// E(k^products y^rest) of a key entry k = μ_k + y, indexed by both powers; their sum up to `order`.
fn key_moments(key: &ScaledLaw, order: usize) -> Vec<Vec<DoubleDouble>> {
    let moment = |products: usize, rest: usize| {
        (0..=products).fold(DoubleDouble::ZERO, |sum, power| {
            let shift = key.mean.powi((products - power) as i32);
            sum + shift * key.moments[rest + power] * binomial(products, power).into()
        })
    };
    (0..=order).map(|products| (0..=order - products).map(|rest| moment(products, rest)).collect()).collect()
}

/// Joint moments E ∏ (S_site − E S)^power of the sites, indexed by the powers as digits.
struct SiteMoments {
    moments: Vec<DoubleDouble>,
    /// highest power + 1.
    base: usize,
    /// Set partitions of the sites.
    partitions: Vec<Blocks>,
}

/// The power of each site, 0 beyond the last one.
type Powers = [usize; HIGHEST_FACTORS];

/// The digits of an index: the power of each site.
fn powers_of_index(mut index: usize, base: usize) -> Powers {
    std::array::from_fn(|_| {
        let power = index % base;
        index /= base;
        power
    })
}

/// ∏ power!
fn factorials(powers: &Powers) -> f64 {
    (powers.iter().flat_map(|&power| 1..=power)).map(|factor| factor as f64).product()
}

impl SiteMoments {
    /// The moments for sites that share queries and keys as the blocks say.
    fn new(query_blocks: &[u32], key_blocks: &[u32], sites: usize, laws: &Laws) -> Self {
        let base = laws.site_terms.len();
        let size = base.pow(sites as u32);
        let powers: Vec<Powers> = (0..size).map(|index| powers_of_index(index, base)).collect();
        let tokens: Vec<(usize, usize)> =
            token_of_site(query_blocks, sites).into_iter().zip(token_of_site(key_blocks, sites)).collect();
        // One depth: the moments over the factorials, the zero ones left out.
        let one_depth: Vec<(usize, DoubleDouble)> = (1..size)
            .map(|index| {
                let powers = &powers[index][..sites];
                (index, laws.one_depth_moment(&tokens, powers, DoubleDouble::ONE, TokenPowers::default()))
            })
            .filter(|(_, moment)| !moment.is_zero())
            .map(|(index, moment)| (index, moment / factorials(&powers[index]).into()))
            .collect();
        let mut series = vec![DoubleDouble::ONE; size];
        for index in 1..size {
            let target = &powers[index];
            // Any variable with a positive power serves for Euler's recurrence.
            let variable = target.iter().position(|&power| power > 0).unwrap_or(0);
            let mut sum = DoubleDouble::ZERO;
            for &(part, coefficient) in one_depth.iter().take_while(|&&(part, _)| part <= index) {
                let rest = &powers[part];
                // Those of lower powers; of laws with symmetry most are 0.
                if rest.iter().zip(target).all(|(part, whole)| part <= whole) && !series[index - part].is_zero() {
                    let (part_power, power) = (rest[variable] as f64, target[variable] as f64);
                    // Integers below 2^53: exact.
                    let weight = laws.depth as f64 * part_power - (power - part_power);
                    sum += coefficient * series[index - part] * weight.into();
                }
            }
            series[index] = if sum.is_zero() { sum } else { sum / (target[variable] as f64).into() };
        }
        for (index, value) in series.iter_mut().enumerate() {
            *value = *value * factorials(&powers[index]).into();
        }
        Self { moments: series, base, partitions: set_partitions(sites) }
    }

    /// E ∏ (S_site − E S)^power over the sites in the mask.
    fn moment(&self, powers: &[usize], mask: u32) -> DoubleDouble {
        let digits = powers.iter().enumerate().rev();
        let index =
            digits.fold(0, |index, (site, power)| index * self.base + if mask >> site & 1 == 1 { *power } else { 0 });
        self.moments[index]
    }

    /// The joint cumulant of (S_site − E S)^power over all sites, Σ over set partitions of (−1)^(b−1) (b−1)! ∏ of the
    /// moments of the b blocks; and the largest part, to judge rounding by.
    fn cumulant(&self, powers: &[usize]) -> (DoubleDouble, f64) {
        let mut total = (DoubleDouble::ZERO, 0.0_f64);
        for blocks in &self.partitions {
            let sign = (1..blocks.len()).fold(1.0, |sign, factor| -sign * factor as f64);
            let moments = blocks.iter().map(|&block| self.moment(powers, block));
            let part = moments.fold(DoubleDouble::from(sign), Mul::mul);
            total = (total.0 + part, total.1.max(part.to_f64().abs()));
        }
        total
    }
}

/// What one depth and the number of depths are made of.
struct Laws {
    query_moments: Vec<DoubleDouble>,
    key_moments: Vec<Vec<DoubleDouble>>,
    site_terms: Vec<Vec<SiteTerm>>,
    depth: usize,
}

/// Which token each site uses.
fn token_of_site(blocks: &[u32], sites: usize) -> Vec<usize> {
    (0..sites)
        .map(|site| {
            let others = blocks.iter().take_while(|&block| block >> site & 1 == 0);
            others.count()
        })
        .collect()
}

/// Powers gathered by token while the sites are multiplied out; at most one token a site.
#[derive(Clone, Copy, Default)]
struct TokenPowers {
    query: [usize; HIGHEST_FACTORS],
    key_products: [usize; HIGHEST_FACTORS],
    key_rest: [usize; HIGHEST_FACTORS],
}

impl Laws {
    /// E ∏ (q k − μ_q μ_k)^power over the sites, at one depth; `tokens` are the (query, key) of each site. Call with
    /// coefficient 1 and no powers gathered: it multiplies out one site after the other.
    fn one_depth_moment(
        &self,
        tokens: &[(usize, usize)],
        powers: &[usize],
        coefficient: DoubleDouble,
        gathered: TokenPowers,
    ) -> DoubleDouble {
        let (Some((&(query, key), tokens)), Some((&power, powers))) = (tokens.split_first(), powers.split_first())
        else {
            return self.gathered_moment(coefficient, &gathered);
        };
        (self.site_terms[power].iter()).fold(DoubleDouble::ZERO, |sum, term| {
            let mut gathered = gathered;
            gathered.query[query] += term.products;
            gathered.key_products[key] += term.products;
            gathered.key_rest[key] += term.rest;
            sum + self.one_depth_moment(tokens, powers, coefficient * term.coefficient, gathered)
        })
    }

    /// coefficient · ∏ over query tokens E(x^…) · ∏ over key tokens E(k^… y^…).
    fn gathered_moment(&self, coefficient: DoubleDouble, gathered: &TokenPowers) -> DoubleDouble {
        let queries = gathered.query.map(|power| self.query_moments[power]);
        // Odd moments of symmetric laws vanish.
        if queries.iter().any(|moment| moment.is_zero()) {
            return DoubleDouble::ZERO;
        }
        let keys = (gathered.key_products.iter().zip(&gathered.key_rest))
            .map(|(&products, &rest)| self.key_moments[products][rest]);
        queries.into_iter().chain(keys).fold(coefficient, Mul::mul)
    }
}

/// n (n−1) … (n−count+1).
fn falling_factorial(n: usize, count: usize) -> DoubleDouble {
    (0..count).fold(DoubleDouble::ONE, |product, i| product * (n as f64 - i as f64).into())
}

/// Every order of the numbers 0..count.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |shorter, number| {
        let insert = |order: &Vec<usize>, place| {
            let mut longer = order.clone();
            longer.insert(place, number);
            longer
        };
        (shorter.iter()).flat_map(|order| (0..=number).map(move |place| insert(order, place))).collect()
    })
}

/// The blocks after site s is renamed order\[s\], in the order of their smallest sites.
fn renamed(blocks: &[u32], order: &[usize]) -> Blocks {
    let rename = |block: &u32| {
        let sites = order.iter().enumerate().filter(|(site, _)| block >> site & 1 == 1);
        sites.fold(0, |renamed, (_, site)| renamed | 1 << site)
    };
    let mut blocks: Blocks = blocks.iter().map(rename).collect();
    blocks.sort_unstable_by_key(|block| block.trailing_zeros());
    blocks
}

/// Joint cumulants of power means of one trial, ready for any choice of powers.
pub(super) struct PowerMeans {
    /// One pattern of sharing for all that differ in the names of the sites only, or in what are queries and what keys of one law: their weight and
    /// moments.
    patterns: Vec<(DoubleDouble, SiteMoments)>,
    /// Every order of the sites.
    orders: Vec<Vec<usize>>,
}

impl PowerMeans {
    /// Prepares joint cumulants of `factors` (1 to 4) power means M_p, p ≤ highest_power, in units of the standard
    /// deviations of q and k.
    ///
    /// `None` unless both laws have their moments up to order highest_power · factors.
    pub(super) fn new(
        factors: usize,
        highest_power: usize,
        (queries, keys, depth): (usize, usize, usize),
        query: &ScaledLaw,
        key: &ScaledLaw,
    ) -> Option<Self> {
        let needed = highest_power * factors;
        if query.moments.len() <= needed || key.moments.len() <= needed {
            return None;
        }
        let laws = Laws {
            query_moments: query.moments.clone(),
            key_moments: key_moments(key, needed),
            site_terms: site_terms(query.mean, highest_power),
            depth,
        };
        let orders = permutations(factors);
        let all_sites = (queries as f64 * keys as f64).powi(factors as i32);
        let partitions = set_partitions(factors);
        // What each order of the sites makes of each partition, by index.
        let place =
            |blocks: Blocks| partitions.iter().position(|other| *other == blocks).expect("a renamed partition is one");
        let of_order = |order: &Vec<usize>| partitions.iter().map(|blocks| place(renamed(blocks, order))).collect();
        let renamings: Vec<Vec<usize>> = orders.iter().map(of_order).collect();
        // Of equal laws queries and keys may change places as well.
        let may_swap = query == key;
        let mut weights: BTreeMap<(usize, usize), DoubleDouble> = BTreeMap::new();
        for (query, query_blocks) in partitions.iter().enumerate() {
            for (key, key_blocks) in partitions.iter().enumerate() {
                let number = falling_factorial(queries, query_blocks.len()) * falling_factorial(keys, key_blocks.len());
                if join(query_blocks, key_blocks).len() > 1 || number.is_zero() {
                    continue;
                }
                let alike = renamings.iter().map(|renamed| (renamed[query], renamed[key]));
                let swapped = alike.clone().filter(|_| may_swap).map(|(query, key)| (key, query));
                let pattern = alike.chain(swapped).min().unwrap_or((query, key));
                *weights.entry(pattern).or_default() += number;
            }
        }
        let all = all_sites * orders.len() as f64;
        let patterns = weights.into_iter().map(|((query, key), number)| {
            (number / all.into(), SiteMoments::new(&partitions[query], &partitions[key], factors, &laws))
        });
        let patterns = patterns.collect();
        Some(Self { patterns, orders })
    }

    /// The joint cumulant of M_p over the powers given, as many as `factors`, each from 1 to the highest; the mean for one factor.
    pub(super) fn cumulant(&self, powers: &[usize]) -> DoubleDouble {
        // Orders that give the sites the same powers give the same cumulants.
        let mut alike: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for order in &self.orders {
            *alike.entry(order.iter().map(|&site| powers[site]).collect()).or_default() += 1.0;
        }
        let terms = alike.iter().flat_map(|(powers, &number)| {
            self.patterns.iter().map(move |(weight, moments)| {
                let (cumulant, magnitude) = moments.cumulant(powers);
                (*weight * cumulant * number.into(), weight.to_f64() * magnitude * number)
            })
        });
        DoubleDouble::sum_or_zero(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// −1, 0, 2 with probabilities 1/2, 1/6, 1/3: mean 1/6, and its central moments.
    fn three_points() -> ScaledLaw {
        let mean = 1.0 / 6.0;
        let moment = |order| {
            let points = [(-1.0, 3.0), (0.0, 1.0), (2.0, 2.0)];
            points.iter().map(|(value, weight): &(f64, f64)| (value - mean).powi(order) * weight / 6.0).sum::<f64>()
        };
        ScaledLaw {
            mean: mean.into(),
            moments: (0..=12).map(|order| if order == 1 { DoubleDouble::ZERO } else { moment(order).into() }).collect(),
        }
    }

    /// ±1 about the mean 1/2.
    fn shifted() -> ScaledLaw {
        ScaledLaw { mean: 0.5.into(), moments: (0..=12).map(|order| f64::from(1 - order % 2).into()).collect() }
    }

    #[test]
    fn cumulants_of_skewed_three_point_entries_equal_full_enumeration() {
        // E M2, E M4, then Var M2/E2², Var M4/E4², Cov/(E2 E4), κ_3[M4/E4 − 2 M2/E2]: enumeration of every pair of
        // matrices in exact fractions (scripts/reference/trial_cumulants.py).
        let cases = [
            (
                three_points(),
                (2, 2, 2),
                [4355.0 / 648.0, 87_347.0 / 648.0],
                [
                    51_494_037.0 / 75_864_100.0,
                    953_172_253_489_583.0 / 266_971_408_327_728.0,
                    8_655_601_711.0 / 6_320_428_920.0,
                ],
                1.523_253_979_691_932,
            ),
            (
                three_points(),
                (1, 1, 3),
                [4355.0 / 432.0, 56_699_929.0 / 186_624.0],
                [
                    2_902_608.0 / 1_458_925.0,
                    40_315_026_462_836_480.0 / 3_214_881_948_605_041.0,
                    1_470_243_280.0 / 345_354_113.0,
                ],
                83.797_149_490_128_05,
            ),
            (
                shifted(),
                (2, 3, 2),
                [329.0 / 72.0, 17_009.0 / 288.0],
                [104_169.0 / 216_482.0, 369_062_824_883.0 / 140_602_755_366.0, 310_795_211.0 / 302_181_894.0],
                0.250_295_549_722_978,
            ),
        ];
        for (key, sizes, means, [second, fourth, covariance], third) in cases {
            let prepare =
                |factors| PowerMeans::new(factors, 4, sizes, &three_points(), &key).expect("all moments exist");
            let (single, pairs, triples) = (prepare(1), prepare(2), prepare(3));
            // The entry moments carry roundings of 1e-16; the third cumulant multiplies them by up to 100.
            let close = |value: f64, expected: f64| {
                assert!((value - expected).abs() <= 1e-13 * expected.abs().max(1.0), "{value} {expected}");
            };
            let value = |means: &PowerMeans, powers: &[usize]| means.cumulant(powers).to_f64();
            let (e2, e4) = (value(&single, &[2]), value(&single, &[4]));
            close(e2 / means[0], 1.0);
            close(e4 / means[1], 1.0);
            close(value(&pairs, &[2, 2]) / e2 / e2, second);
            close(value(&pairs, &[4, 4]) / e4 / e4, fourth);
            close(value(&pairs, &[2, 4]) / e2 / e4, covariance);
            close(value(&pairs, &[4, 2]) / e2 / e4, covariance);
            let linearised = value(&triples, &[4, 4, 4]) / e4.powi(3)
                - 6.0 * value(&triples, &[4, 4, 2]) / (e4 * e4 * e2)
                + 12.0 * value(&triples, &[2, 4, 2]) / (e4 * e2 * e2)
                - 8.0 * value(&triples, &[2, 2, 2]) / e2.powi(3);
            // Terms of up to 1000 cancel here.
            assert!((linearised - third).abs() < 1e-11, "{linearised} {third}");
        }
    }

    #[test]
    fn too_few_moments_give_none() {
        let mut law = shifted();
        law.moments.truncate(12);
        let new = |factors, law: &ScaledLaw| PowerMeans::new(factors, 4, (3, 2, 5), law, &shifted());
        assert!(new(2, &law).is_some());
        assert!(new(3, &law).is_none());
        law.moments.truncate(8);
        assert!(new(1, &law).is_some());
        assert!(new(2, &law).is_none());
    }
}
