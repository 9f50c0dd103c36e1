use super::*;

/// 1 to 2 is the bulk of a row of weights; the sizes leave every remainder of the lanes.
const SIZES: [usize; 6] = [1, 7, 8, 13, 31, 1031];

/// Weyl's sequence: equidistributed in [0, 1).
fn spread(count: usize, start: f64) -> Vec<f64> {
    (0..count).map(|index| (start + index as f64 * 0.618_033_988_749_894_9).fract()).collect()
}

#[test]
fn bounds_are_those_of_the_library_function() {
    for set in InstructionSet::available() {
        for shared in [0.0, 1e-300, 1e-9, 0.01, 0.24, 0.26, 1.0, 30.0, 700.0, 2000.0, f64::INFINITY, -0.5] {
            for size in SIZES {
                let weights = spread(size, 0.1);
                let noise: Vec<f64> = spread(size, 0.3).iter().map(|x| x * 0.1).collect();
                let mut found = noise.clone();
                bounds(set, &weights, shared, 1e-3, 1e-7, &mut found);
                for ((found, weight), noise) in found.iter().zip(&weights).zip(&noise) {
                    // std's exp_m1 is the platform's, right to about a unit in the last place.
                    let exact = weight * ((noise + shared).exp_m1() + 1e-3) + 1e-7;
                    // Each of at most 12 doublings doubles the relative error of 2⁻⁵² or so.
                    assert!(*found == exact || (found / exact - 1.0).abs() < 1e-11, "{set} {shared}: {found} {exact}");
                }
            }
        }
        let mut found = vec![f64::NAN, 0.5];
        bounds(set, &[1.0, 1.0], 0.0, 0.0, 0.0, &mut found);
        assert!(found[0].is_nan() && found[1] == 0.5f64.exp_m1(), "{set}: {found:?}");
    }
}

#[test]
fn small_bounds_keep_all_their_digits() {
    for set in InstructionSet::available() {
        let noise = [1e-300, 1e-17, 1e-9, 0.003, 0.2, 0.25];
        let mut found = noise.to_vec();
        bounds(set, &[1.0; 6], 0.0, 0.0, 0.0, &mut found);
        for (found, noise) in found.iter().zip(noise) {
            assert!((found / noise.exp_m1() - 1.0).abs() < 1e-15, "{set} {noise}: {found}");
        }
    }
}

#[test]
fn entropies_and_sums_are_those_of_the_definition() {
    for set in InstructionSet::available() {
        for size in SIZES {
            // From 1 down to 2⁻¹⁰⁰⁰, with zeros between.
            let mut row: Vec<f64> = spread(size, 0.7).iter().map(|x| 2f64.powf(-1000.0 * x * x * x)).collect();
            row.iter_mut().step_by(3).skip(1).for_each(|weight| *weight = 0.0);
            let found = weights(set, &row);
            let sum: f64 = row.iter().sum();
            let entropy: f64 = row.iter().filter(|weight| **weight > 0.0).map(|weight| -weight * weight.ln()).sum();
            assert!((found.sum / sum - 1.0).abs() < 1e-14, "{set} {size}");
            assert!((found.entropy - entropy).abs() <= 1e-14 * (entropy + sum), "{set} {size}: {found:?} {entropy}");
            assert_eq!(found.largest, row.iter().copied().fold(0.0, f64::max));
            assert!(found.is_finite);
            for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut row = row.clone();
                row[size / 2] = broken;
                assert!(!weights(set, &row).is_finite, "{set} {size} {broken}");
            }
        }
        // Next to 1, where the logarithm cancels.
        for weight in [1.0, 1.0 - 2f64.powi(-53), 0.999_9, 0.5, f64::MIN_POSITIVE] {
            let entropy = weights(set, &[weight]).entropy;
            let exact = -weight * weight.ln();
            assert!((entropy - exact).abs() <= 4e-16 * exact.abs(), "{set} {weight}: {entropy} {exact}");
        }
    }
}

#[test]
fn misfits_are_those_of_a_plain_loop() {
    for set in InstructionSet::available() {
        for size in SIZES {
            let (observed, mut predicted, mut bounds) = (spread(size, 0.2), spread(size, 0.25), spread(size, 0.4));
            predicted[size / 3] = f64::NAN;
            bounds[size / 2] = 0.0;
            let (mut ratio, mut index, mut largest) = (0.0, 0, 0.0f64);
            for place in 0..size {
                let difference = (observed[place] - predicted[place]).abs();
                let own = match () {
                    () if difference.is_nan() || bounds[place] == 0.0 => f64::INFINITY,
                    () => difference / bounds[place],
                };
                largest = if difference.is_nan() { f64::INFINITY } else { largest.max(difference) };
                if own > ratio {
                    (ratio, index) = (own, place);
                }
            }
            let found = misfit(set, &observed, &predicted, &bounds);
            assert_eq!((found.ratio, found.index, found.largest), (ratio, index, largest), "{set} {size}");
            assert_eq!(found.squares, f64::INFINITY);
            // Nothing where nothing is expected is no misfit, whatever the bound.
            let none = misfit(set, &predicted[..size / 3], &predicted[..size / 3], &vec![0.0; size / 3]);
            assert_eq!(none, RowMisfit { ratio: 0.0, index: 0, largest: 0.0, squares: 0.0 });
        }
        // Of equal ratios the first counts, in whichever lane.
        let bounds = [1.0; 19];
        let mut observed = [0.0; 19];
        (observed[11], observed[9], observed[17]) = (2.0, 2.0, -2.0);
        let found = misfit(set, &observed, &[0.0; 19], &bounds);
        assert_eq!(found, RowMisfit { ratio: 2.0, index: 9, largest: 2.0, squares: 12.0 }, "{set}");
    }
}

#[test]
fn noise_counts_what_is_left_out_as_0() {
    for set in InstructionSet::available() {
        let (logits, norms) = ([3.0, f64::NEG_INFINITY, -2.0, f64::NAN], [1.0, 2.0, 4.0, 8.0]);
        let mut found = [0.0; 4];
        let shared = noise(set, &logits, &norms, &[0.5, 0.0, 0.25, 0.25], (0.5, 0.125), &mut found);
        assert_eq!(found, [0.875, 1.0, 2.25, 4.0]);
        assert_eq!(shared, 0.5 * 0.875 + 0.25 * 2.25 + 0.25 * 4.0, "{set}");
    }
}

#[test]
fn moments_of_a_progression_are_exact() {
    for set in InstructionSet::available() {
        for size in SIZES {
            let numbers: Vec<f64> = (0..size).map(|index| 1e6 + index as f64).collect();
            let n = size as f64;
            let (mean, squares) = moments(set, &numbers);
            // Σ (x − mean)² of n successive integers is n(n² − 1)/12.
            assert_eq!((mean, squares), (1e6 + (n - 1.0) / 2.0, n * (n * n - 1.0) / 12.0), "{set} {size}");
            assert_eq!(sum(set, &numbers), n * mean);
        }
        assert_eq!(moments(set, &[]), (0.0, 0.0));
    }
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let (observed, predicted) = (spread(1031, 0.2), spread(1031, 0.3));
    let all = |set: InstructionSet| {
        let mut own = predicted.clone();
        let shared = noise(set, &observed, &predicted, &observed, (0.01, 0.02), &mut own);
        bounds(set, &predicted, shared, 1e-3, 1e-7, &mut own);
        let mut scaled = observed.clone();
        multiplied(set, 0.3, &predicted, &mut scaled);
        (misfit(set, &observed, &predicted, &own), weights(set, &observed), moments(set, &scaled), own)
    };
    let plain = all(InstructionSet::Portable);
    assert!(InstructionSet::available().all(|set| all(set) == plain));
}
