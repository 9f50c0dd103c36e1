//! Faulty draws and faulty attention, as parameters of the experiment: production code is not touched.

use attn::attention::kernel::{Element, PackedKeys, PowerSums};
use attn::attention::{Logits, Precision, ScaledDotProduct};
use attn::experiment::{Draw, InputLaw, Inside, Sizes};
use attn::number::Real;
use attn::sampling::{Drawable, Entries, TrialStream};

/// The correct attention that the faulty ones start from.
const CORRECT: ScaledDotProduct = ScaledDotProduct { precision: Precision::F64 };

/// Logits whose factor is another than the one claimed: `factor`(claimed factor, d_k).
pub struct WrongFactor(pub fn(f64, f64) -> f64);

impl Logits for WrongFactor {
    fn power_sums<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        center: f64,
        factors: &[f64],
        parallel: bool,
    ) -> Vec<PowerSums> {
        let wrong: Vec<f64> = factors.iter().map(|&factor| self.0(factor, keys.depth() as f64)).collect();
        CORRECT.power_sums(queries, keys, center, &wrong, parallel)
    }
}

/// A sample variance with divisor nm in the place of nm − 1: the second power sum is short by one part in nm.
pub struct BiasedVariance;

impl Logits for BiasedVariance {
    fn power_sums<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        center: f64,
        factors: &[f64],
        parallel: bool,
    ) -> Vec<PowerSums> {
        let mut sums = CORRECT.power_sums(queries, keys, center, factors, parallel);
        for sums in &mut sums {
            let count = sums.count as f64;
            let [first, second, ..] = sums.sums;
            // (Σx² − (Σx)²/N)/N written as a sum that the divisor N − 1 turns into it.
            sums.sums[1] = (second - first * first / count) * (count - 1.0) / count + first * first / count;
        }
        sums
    }
}

/// Keys that are the queries: the symmetric logits of tied projections.
pub struct TiedKeys;

impl Draw for TiedKeys {
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]) {
        InputLaw::standard(Entries::Normal).draw(stream, sizes, inside, queries, keys);
        keys.copy_from_slice(queries);
    }
}

/// Normal entries times `sd` plus `mean` that claim to be standard: a biased generator.
pub struct BiasedNormal {
    /// Added to every entry.
    pub mean: f64,
    /// Factor on every entry.
    pub sd: f64,
}

impl Draw for BiasedNormal {
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]) {
        InputLaw::standard(Entries::Normal).draw(stream, sizes, inside, queries, keys);
        for entry in queries.iter_mut().chain(keys.iter_mut()) {
            *entry = T::from_f64(self.mean + self.sd * Real::to_f64(*entry));
        }
    }
}

/// Normal entries held to ±2: variance 1 − 2[2φ(2) − 3Φ(−2)] = 0.9205.
pub struct ClippedNormal;

impl Draw for ClippedNormal {
    fn draw<T: Drawable>(&self, stream: &TrialStream, sizes: Sizes, inside: Inside, queries: &mut [T], keys: &mut [T]) {
        InputLaw::standard(Entries::Normal).draw(stream, sizes, inside, queries, keys);
        for entry in queries.iter_mut().chain(keys.iter_mut()) {
            *entry = T::from_f64(Real::to_f64(*entry).clamp(-2.0, 2.0));
        }
    }
}
