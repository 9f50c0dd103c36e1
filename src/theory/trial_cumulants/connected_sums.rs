//! Exact cumulants of sums and quadratic forms of the logits, as sums over connected structures.
//!
//! Let F = Σ_(i,j) S_ij, or F = Σ P_(ij,i'j') S_ij S_i'j' for a kernel P that is a sum of products (kernel on queries) ⊗
//! (kernel on keys). Written out with S_ij = Σ_h q_ih k_jh, F is a polynomial whose monomials have one slot (i, j, h) for
//! each factor S. The r-th cumulant of F takes r copies of it, and by Leonov and Shiryaev ("On a method of calculation of
//! semi-invariants", 1959)
//!
//! κ_r(F) = Σ_(π_Q, π_K) ∏_(B∈π_Q) κ_|B|(q) · ∏_(B∈π_K) κ_|B|(k) · d^|π_Q ∨ π_K| · T_Q(π_Q) · T_K(π_K)
//!
//! over those pairs of set partitions of the slots that, with the copies as further blocks, join all slots into one. A block
//! B forces all its slots to one token and one depth; hence the power of d, and T, the kernel summed over the tokens left
//! free, which is a Laurent polynomial in n (or m).
//!
//! Only connected structures are summed, so nothing of the size of E(F)^r ever appears and has to cancel. The centring
//! kernel δ_ii' − 1/n has T = 0 wherever a lone slot (κ_1, the mean) meets it, so large entry means do not cancel either.
//! What does cancel, for laws such as Rademacher's with κ_4 = −2, is left to double-double arithmetic.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::OnceLock;

use crate::theory::double_double::DoubleDouble;
use crate::theory::set_partitions::{Blocks, join_into, set_partitions};

/// How the tokens of the slots of one copy are tied together, on the query side or on the key side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TokenKernel {
    /// One slot, summed over its token.
    Sum,
    /// δ_ii' for two slots.
    Identity,
    /// δ_ii' − 1/n for two slots: the projection off the constants.
    Centring,
    /// 1/n for two slots: the projection onto the constants.
    Average,
}

impl TokenKernel {
    /// The kernel as Σ coefficient · (δ if tied, else 1) · n^exponent.
    fn terms(self) -> &'static [(i64, bool, i32)] {
        match self {
            Self::Sum => &[(1, false, 0)],
            Self::Identity => &[(1, true, 0)],
            Self::Centring => &[(1, true, 0), (-1, false, -1)],
            Self::Average => &[(1, false, -1)],
        }
    }
}

/// A function F of the logits of one trial whose cumulants are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Σ S_ij.
    Sum,
    /// Σ S_ij².
    SumOfSquares,
    /// Σ (S_ij − M)², M the mean of all logits of the trial.
    CentredSumOfSquares,
}

impl Form {
    /// The highest order of cumulant that is tabulated: beyond it the number of structures is too large.
    pub(super) fn highest_order(self) -> usize {
        match self {
            Self::Sum => 4,
            Self::SumOfSquares | Self::CentredSumOfSquares => 3,
        }
    }

    /// Factors S in each monomial.
    pub(super) fn slots_per_copy(self) -> usize {
        match self {
            Self::Sum => 1,
            Self::SumOfSquares | Self::CentredSumOfSquares => 2,
        }
    }

    /// The kernel as a sum of (queries, keys) products. With C = δ − 1/n and E = 1/n, δ⊗δ − E⊗E = C⊗C + C⊗E + E⊗C.
    fn kernels(self) -> &'static [(TokenKernel, TokenKernel)] {
        use TokenKernel::{Average, Centring, Identity, Sum};
        match self {
            Self::Sum => &[(Sum, Sum)],
            Self::SumOfSquares => &[(Identity, Identity)],
            Self::CentredSumOfSquares => &[(Centring, Centring), (Centring, Average), (Average, Centring)],
        }
    }

    /// The structures of the cumulant of that order, found on first use. Order 1..=highest_order.
    fn structures(self, order: usize, means: Means) -> &'static Structures {
        static CELLS: [OnceLock<Structures>; 24] = [const { OnceLock::new() }; 24];
        let cell = (self as usize * 2 + means as usize) * 4 + order - 1;
        CELLS[cell].get_or_init(|| Structures::enumerate(self, order, means))
    }
}

/// Whether an entry mean κ_1 differs from 0. If none does, structures with a lone slot vanish and are not enumerated:
/// 41 of 203 partitions of six slots are left on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Zero,
    Any,
}

/// What one side contributes to a structure: ∏ κ_|B| and T as Σ coefficient·n^exponent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SideFactor {
    block_sizes: Vec<usize>,
    token_sum: Vec<(i32, i64)>,
}

impl SideFactor {
    /// The factor of a partition under one kernel per copy; `None` if the token sum vanishes identically. `free` is what [`free_tokens`]
    /// gives for the partition.
    fn new(blocks: &[u32], free: &[usize], kernels: &[TokenKernel]) -> Option<Self> {
        let mut token_sum = BTreeMap::new();
        add_token_sums(free, kernels, 0, (1, 0), &mut token_sum);
        token_sum.retain(|_, coefficient| *coefficient != 0);
        let mut block_sizes: Vec<usize> = blocks.iter().map(|b| b.count_ones() as usize).collect();
        block_sizes.sort_unstable();
        (!token_sum.is_empty()).then(|| Self { block_sizes, token_sum: token_sum.into_iter().collect() })
    }

    fn value(&self, cumulants: &[DoubleDouble], tokens: usize) -> DoubleDouble {
        let product = (self.block_sizes.iter()).fold(DoubleDouble::ONE, |product, &size| product * cumulants[size]);
        if product.is_zero() {
            return product;
        }
        let tokens = DoubleDouble::from(tokens as f64);
        let sum = (self.token_sum.iter()).fold(DoubleDouble::ZERO, |sum, &(exponent, coefficient)| {
            sum + tokens.powi(exponent) * (coefficient as f64).into()
        });
        product * sum
    }
}

/// How many tokens are left free once the slots of some copies are tied, by the set of those copies as bits.
fn free_tokens(blocks: &[u32], copies: &[u32]) -> Vec<usize> {
    let (mut tied, mut joined) = (Blocks::new(), Blocks::new());
    (0..1_usize << copies.len())
        .map(|set| {
            tied.clear();
            tied.extend((copies.iter().enumerate()).filter(|(copy, _)| set >> copy & 1 == 1).map(|(_, &mask)| mask));
            join_into(blocks, &tied, &mut joined);
            joined.len()
        })
        .collect()
}

/// Multiplies out the kernels of one copy after another and adds each term's power of n: the tokens left free plus the kernels'
/// own exponents. `tied` is the set of copies that are tied so far.
fn add_token_sums(
    free: &[usize],
    kernels: &[TokenKernel],
    tied: usize,
    (coefficient, exponent): (i64, i32),
    token_sum: &mut BTreeMap<i32, i64>,
) {
    // From the last to the first: the copies before keep their numbers.
    let Some((kernel, before)) = kernels.split_last() else {
        *token_sum.entry(exponent + free[tied] as i32).or_default() += coefficient;
        return;
    };
    for &(factor, ties, power) in kernel.terms() {
        let tied = tied | usize::from(ties) << before.len();
        add_token_sums(free, before, tied, (coefficient * factor, exponent + power), token_sum);
    }
}

/// The slots of a copy.
fn copy_mask(copy: usize, slots_per_copy: usize) -> u32 {
    ((1 << slots_per_copy) - 1) << (copy * slots_per_copy)
}

/// Distinct values numbered in the order of their first appearance.
struct Numbered<T> {
    values: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }

    fn number_of(&mut self, value: T) -> usize {
        *self.numbers.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            self.values.len() - 1
        })
    }
}

/// Like structures counted together: count · (query factor) · (key factor) · d^depths.
struct Term {
    query_factor: usize,
    key_factor: usize,
    depths: usize,
    count: f64,
}

/// All connected structures of one cumulant of one form.
struct Structures {
    factors: Vec<SideFactor>,
    terms: Vec<Term>,
    slots: usize,
}

impl Structures {
    fn enumerate(form: Form, order: usize, means: Means) -> Self {
        let per_copy = form.slots_per_copy();
        let slots = per_copy * order;
        let lone_slot = |blocks: &Blocks| blocks.iter().any(|block| block.count_ones() == 1);
        let partitions: Vec<Blocks> =
            (set_partitions(slots).into_iter()).filter(|blocks| means == Means::Any || !lone_slot(blocks)).collect();
        let copies: Blocks = (0..order).map(|copy| copy_mask(copy, per_copy)).collect();
        let mut choices = Numbered::new();
        let mixes: Vec<(usize, usize)> = (kernel_mixes(form.kernels(), order).into_iter())
            .map(|(query, key)| (choices.number_of(query), choices.number_of(key)))
            .collect();
        let mut factors = Numbered::new();
        // For each partition and each choice of kernels, the number of its factor.
        let numbers: Vec<Vec<Option<usize>>> = (partitions.iter())
            .map(|blocks| {
                let free = free_tokens(blocks, &copies);
                (choices.values.iter())
                    .map(|kernels| SideFactor::new(blocks, &free, kernels))
                    .map(|factor| factor.map(|factor| factors.number_of(factor)))
                    .collect()
            })
            .collect();
        let factors = factors.values;
        let mut counts = vec![0_u32; factors.len() * factors.len() * slots];
        let (mut depth_blocks, mut connected) = (Blocks::new(), Blocks::new());
        for (index, blocks) in partitions.iter().enumerate() {
            for (other, other_blocks) in partitions.iter().enumerate().take(index + 1) {
                join_into(blocks, other_blocks, &mut depth_blocks);
                join_into(&depth_blocks, &copies, &mut connected);
                if connected.len() != 1 {
                    continue;
                }
                // Either may be that of the queries.
                let both = [(index, other), (other, index)];
                for &(queries, keys) in &both[..if index == other { 1 } else { 2 }] {
                    for &(query, key) in &mixes {
                        if let (Some(query), Some(key)) = (numbers[queries][query], numbers[keys][key]) {
                            counts[(query * factors.len() + key) * slots + depth_blocks.len() - 1] += 1;
                        }
                    }
                }
            }
        }
        let terms = (counts.iter().enumerate())
            .filter(|&(_, &count)| count > 0)
            .map(|(index, &count)| Term {
                query_factor: index / slots / factors.len(),
                key_factor: index / slots % factors.len(),
                depths: index % slots + 1,
                count: f64::from(count),
            })
            .collect();
        Self { factors, terms, slots }
    }
}

/// One choice of kernel for each copy: (queries, keys).
type KernelMix = (Vec<TokenKernel>, Vec<TokenKernel>);

/// Every choice of one of the kernels for each of the copies.
fn kernel_mixes(kernels: &[(TokenKernel, TokenKernel)], copies: usize) -> Vec<KernelMix> {
    let mut mixes: Vec<KernelMix> = vec![Default::default()];
    for _ in 0..copies {
        mixes = (mixes.iter())
            .flat_map(|(query, key)| {
                kernels.iter().map(|&(query_kernel, key_kernel)| {
                    let mut longer = (query.clone(), key.clone());
                    longer.0.push(query_kernel);
                    longer.1.push(key_kernel);
                    longer
                })
            })
            .collect();
    }
    mixes
}

/// The cumulant of that order (1..=`form.highest_order()`) of the form, for n queries, m keys and depth d.
///
/// `query_cumulants[r]` and `key_cumulants[r]` are the r-th cumulants of a query and of a key entry, r from 1 (index 0 is
/// not used) to order × (factors S per monomial) at least. Exact up to rounding in double-double arithmetic.
pub(super) fn form_cumulant(
    form: Form,
    order: usize,
    (queries, keys, depth): (usize, usize, usize),
    query_cumulants: &[DoubleDouble],
    key_cumulants: &[DoubleDouble],
) -> DoubleDouble {
    let no_means = query_cumulants[1].is_zero() && key_cumulants[1].is_zero();
    let means = if no_means { Means::Zero } else { Means::Any };
    let structures = form.structures(order, means);
    let values = |cumulants: &[DoubleDouble], tokens: usize| -> Vec<DoubleDouble> {
        let factors = structures.factors.iter();
        factors.map(|factor| factor.value(cumulants, tokens)).collect()
    };
    let query_values = values(query_cumulants, queries);
    let key_values = values(key_cumulants, keys);
    let depth = DoubleDouble::from(depth as f64);
    let depth_powers: Vec<DoubleDouble> = (0..=structures.slots).map(|exponent| depth.powi(exponent as i32)).collect();
    // Most factors vanish: odd cumulants of symmetric laws, and all beyond the second of normal ones.
    let factors = (structures.terms.iter())
        .map(|term| (term, query_values[term.query_factor], key_values[term.key_factor]))
        .filter(|(_, query, key)| !query.is_zero() && !key.is_zero());
    DoubleDouble::sum_or_zero(factors.map(|(term, query, key)| {
        let value = query * key * depth_powers[term.depths] * term.count.into();
        (value, value.to_f64().abs())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::entry_moments::cumulants_from_moments;

    /// Cumulants up to order 6 of a law of (value, weight), weights over a common divisor.
    fn law_cumulants(law: &[(f64, f64)]) -> Vec<DoubleDouble> {
        let total: f64 = law.iter().map(|(_, weight)| weight).sum();
        let moments: Vec<f64> = (0..=6)
            .map(|order| law.iter().map(|(value, weight)| value.powi(order) * weight).sum::<f64>() / total)
            .collect();
        let cumulants = cumulants_from_moments(&moments);
        cumulants.into_iter().map(DoubleDouble::from).collect()
    }

    /// −1, 0, 2 with probabilities 1/2, 1/6, 1/3: skewed, mean 1/6.
    const THREE_POINTS: [(f64, f64); 3] = [(-1.0, 3.0), (0.0, 1.0), (2.0, 2.0)];
    /// 3/2 or −1/2: mean 1/2, variance 1.
    const SHIFTED: [(f64, f64); 2] = [(1.5, 1.0), (-0.5, 1.0)];

    #[test]
    fn cumulants_of_skewed_three_point_entries_equal_full_enumeration() {
        // κ of the mean, mean square and sample variance: enumeration of every pair of matrices in exact fractions, by
        // scripts/reference/trial_cumulants.py.
        let cases = [
            (
                THREE_POINTS.as_slice(),
                (2, 2, 2),
                [1.0 / 18.0, 1495.0 / 864.0, 48_715.0 / 46_656.0, 21_516_763.0 / 4_478_976.0],
                [4357.0 / 648.0, 17_521_655.0 / 559_872.0, 358_666_252_835.0 / 1_088_391_168.0],
                [12_935.0 / 1944.0, 308_430_041.0 / 7_558_272.0, 6_705_287_114_975.0 / 14_693_280_768.0],
            ),
            (
                THREE_POINTS.as_slice(),
                (1, 3, 1),
                [1.0 / 36.0, 1495.0 / 1296.0, 20_273.0 / 23_328.0, 1_914_365.0 / 839_808.0],
                [121.0 / 36.0, 16_999.0 / 1296.0, 1_593_257.0 / 23_328.0],
                [715.0 / 216.0, 801_695.0 / 46_656.0, 450_429_319.0 / 5_038_848.0],
            ),
            (
                SHIFTED.as_slice(),
                (2, 3, 2),
                [1.0 / 6.0, 463.0 / 432.0, 25.0 / 36.0, 195_013.0 / 124_416.0],
                [331.0 / 72.0, 117_905.0 / 10_368.0, 13_802_809.0 / 186_624.0],
                [1511.0 / 360.0, 864_433.0 / 86_400.0, 2_090_844_397.0 / 46_656_000.0],
            ),
        ];
        let query = law_cumulants(&THREE_POINTS);
        for (key, sizes, mean, square, variance) in cases {
            let key = law_cumulants(key);
            let logits = (sizes.0 * sizes.1) as f64;
            let check = |form, divisor: f64, expected: &[f64]| {
                for (order, expected) in (1..).zip(expected) {
                    let value = form_cumulant(form, order, sizes, &query, &key).to_f64();
                    let value = value / divisor.powi(order as i32);
                    // The entry cumulants carry a few roundings of 1e-16 each.
                    let tolerance = 1e-13 * expected.abs();
                    assert!((value - expected).abs() <= tolerance, "{form:?} {order}: {value} {expected}");
                }
            };
            check(Form::Sum, logits, &mean);
            check(Form::SumOfSquares, logits, &square);
            check(Form::CentredSumOfSquares, logits - 1.0, &variance);
        }
    }

    #[test]
    fn leaving_out_lone_slots_changes_nothing_when_the_means_are_0() {
        let mut query = law_cumulants(&THREE_POINTS);
        let mut key = law_cumulants(&SHIFTED);
        (query[1], key[1]) = (DoubleDouble::ZERO, DoubleDouble::ZERO);
        let zero = form_cumulant(Form::CentredSumOfSquares, 3, (5, 7, 3), &query, &key).to_f64();
        // The other enumeration, at a mean so small that its square is below the last digit.
        key[1] = 1e-20.into();
        let any = form_cumulant(Form::CentredSumOfSquares, 3, (5, 7, 3), &query, &key).to_f64();
        assert!((zero - any).abs() <= 1e-15 * zero.abs(), "{zero} {any}");
    }
}
