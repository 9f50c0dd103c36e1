//! Exact angles of positions, and what follows from them.
//!
//! Angles p·ω_i grow with the position while only their remainder after 2π matters: at p = 10⁶ an `f64` product has lost six
//! digits of it. Frequencies and angles here carry about 30 digits, so that the result is right to one unit in the last
//! place up to positions of 2⁵¹.

use super::double_double::DoubleDouble;

/// The frequencies ω_i = base^(−2i/d), i = 0, …, d/2 − 1, to about 30 digits.
#[derive(Debug, Clone)]
pub struct ExactAngles {
    frequencies: Vec<DoubleDouble>,
}

/// 2π as the sum of two `f64` (the second is 2π − the first, from mpmath with 50 digits).
const TURN: (f64, f64) = (std::f64::consts::TAU, 2.449_293_598_294_706_4e-16);

impl ExactAngles {
    /// The angles of `width` = d columns, an even number, for a base above 1 and at most 1e30.
    ///
    /// # Panics
    /// If the width is odd.
    pub fn new(width: usize, base: f64) -> Self {
        assert!(width.is_multiple_of(2), "columns are turned in pairs");
        let pairs = width / 2;
        // x = base^(−1/pairs) solves base·x^pairs = 1: Newton doubles the 16 digits of the first guess each time.
        let mut ratio = DoubleDouble::from(base.powf(-1.0 / pairs as f64));
        for _ in 0..2 {
            let short = DoubleDouble::ONE - DoubleDouble::from(base) * ratio.powi(pairs as i32);
            ratio = ratio * (DoubleDouble::ONE + short / DoubleDouble::from(pairs as f64));
        }
        let next = |power: &mut DoubleDouble| {
            let frequency = *power;
            *power = *power * ratio;
            Some(frequency)
        };
        let frequencies = std::iter::repeat_n((), pairs).scan(DoubleDouble::ONE, |power, ()| next(power)).collect();
        Self { frequencies }
    }

    /// Number of pairs d/2.
    pub fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// ω_i, rounded.
    pub fn frequency(&self, pair: usize) -> f64 {
        self.frequencies[pair].to_f64()
    }

    /// The angle p·ω_i of `pair` at `position`, reduced to about −π..π.
    pub fn angle(&self, position: u64, pair: usize) -> f64 {
        // Both halves of a position up to 2⁶⁴ are exact.
        let (high, low) = ((position >> 32) as f64 * 4_294_967_296.0, (position & 0xffff_ffff) as f64);
        let place = DoubleDouble::from(high) + DoubleDouble::from(low);
        let angle = place * self.frequencies[pair];
        let turn = DoubleDouble::from(TURN.0) + DoubleDouble::from(TURN.1);
        let turns = (angle.to_f64() / TURN.0).round();
        (angle - turn * DoubleDouble::from(turns)).to_f64()
    }

    /// Σ_i cos(k·ω_i): the dot product PE(p)·PE(p + k) of sinusoidal encodings at any p, and half the expected score of a
    /// vector of unit-variance entries with itself, turned by k positions.
    pub fn sum_of_cosines(&self, offset: u64) -> f64 {
        (0..self.pairs()).map(|pair| self.angle(offset, pair).cos()).sum()
    }

    /// The sinusoidal encoding of `position`: sine and cosine of each pair in turn.
    pub fn encoding(&self, position: u64) -> Vec<f64> {
        let pair = |pair| {
            let (sine, cosine) = self.angle(position, pair).sin_cos();
            [sine, cosine]
        };
        (0..self.pairs()).flat_map(pair).collect()
    }

    /// The smallest singular value of the table of sine and cosine of one pair at `positions` consecutive positions.
    ///
    /// Its squares are (N ± |Σ e^{2iθ}|)/2 with |Σ e^{2iθ}| = |sin(Nω)/sin ω|, wherever the positions start. For small Nω the
    /// difference would cancel; there it is N(N² − 1)ω²/6 to a relative (Nω)²/20 · 2.
    pub fn smallest_singular_value(&self, pair: usize, positions: usize) -> f64 {
        let (n, frequency) = (positions as f64, self.frequency(pair));
        let difference = if n * frequency < 1e-3 {
            n * (n * n - 1.0) * frequency * frequency / 6.0
        } else {
            n - ((n * frequency).sin() / frequency.sin()).abs()
        };
        (0.5 * difference).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_the_high_precision_reference_at_any_position() {
        // tests/golden/position.csv, made by scripts/reference/position.py with mpmath; positions up to 2⁴⁰ + 7.
        let mut compared = 0;
        for line in include_str!("../../tests/golden/position.csv").lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            if fields[0] != "sinusoidal" {
                continue;
            }
            let number = |index: usize| fields[index].parse::<f64>().expect("a number");
            let angles = ExactAngles::new(number(1) as usize, number(2));
            let found = angles.encoding(number(3) as u64)[number(4) as usize];
            // Sine and cosine to one unit in the last place of at most 1, the reduced angle (below π) to half of one.
            let bound = 4.0 * f64::EPSILON;
            assert!((found - number(6)).abs() <= bound, "{line}: {found}");
            compared += 1;
        }
        assert_eq!(compared, 60);
    }

    #[test]
    fn a_sum_of_cosines_is_the_product_of_two_encodings() {
        let angles = ExactAngles::new(10, 1e4);
        let (one, other) = (angles.encoding(1009), angles.encoding(1009 + 257));
        let product: f64 = one.iter().zip(&other).map(|(a, b)| a * b).sum();
        assert!((product - angles.sum_of_cosines(257)).abs() < 1e-14, "{product}");
        assert_eq!(angles.sum_of_cosines(0), 5.0);
    }

    #[test]
    fn the_smallest_singular_value_is_that_of_the_table() {
        // By the decomposition of the table itself, on both sides of the switch between the two formulas.
        for (width, base, pair, positions) in [(6, 1e4, 0, 13), (6, 1e4, 1, 29), (6, 1e4, 2, 101), (8, 1e9, 3, 127)] {
            let angles = ExactAngles::new(width, base);
            let entry = |p: usize, column: usize| angles.encoding(1009 + p as u64)[2 * pair + column];
            let table = nalgebra::DMatrix::from_fn(positions, 2, entry);
            let expected = table.singular_values().min();
            let found = angles.smallest_singular_value(pair, positions);
            // Entries are good to 4ε: singular values to 4ε√(2N).
            let bound = 4.0 * f64::EPSILON * (2.0 * positions as f64).sqrt() + 1e-7 * expected;
            assert!((found - expected).abs() <= bound, "{width} {pair} {positions}: {found} {expected}");
        }
    }
}
