//! Column means and scatter matrix of a matrix of normals that is never drawn.
//!
//! For X, n × d with i.i.d. N(0, 1) entries, the column means x̄ are N(0, I/n), and C = Σ(x_i − x̄)(x_i − x̄)ᵀ is independent of them with the
//! Wishart law of N = n − 1 degrees of freedom: C = RᵀR with R upper triangular, r_ii² ~ χ²(N − i + 1), r_ij ~ N(0, 1) for i < j, all
//! independent (Bartlett, "On the theory of statistical regression", Proceedings of the Royal Society of Edinburgh 53, 1933). R is what the QR decomposition
//! of an N × d matrix of normals leaves, so it has min(N, d) rows, and the law holds for n ≤ d too, where C is singular.
//!
//! O(d³) whatever n is. It is another draw than that of [`fill`](super::fill) under the same seed, with the same law.

use rand_distr::{ChiSquared, Distribution};

use super::entries::{Entries, fill};
use super::stream::{MatrixId, TrialStream};

/// Column means and scatter of one draw.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalScatter {
    /// x̄, d numbers.
    pub means: Vec<f64>,
    /// The upper triangle of C, row by row, diagonal included: d(d + 1)/2 numbers.
    pub upper: Vec<f64>,
}

/// Draws column means and scatter of `rows` × `width` standard normals: a pure function of its arguments.
///
/// Normals are element-addressed; χ² variates come from the generator of row 0 by `rand_distr`'s rejection method, which calls the platform's
/// logarithm: their last bits can differ between platforms.
///
/// # Panics
/// If `rows` or `width` is 0.
pub fn draw_normal_scatter(stream: &TrialStream, matrix: MatrixId, rows: u64, width: usize) -> NormalScatter {
    assert!(rows > 0 && width > 0, "the scatter of {rows} rows of width {width}");
    let degrees = rows - 1;
    let height = usize::try_from(degrees).unwrap_or(usize::MAX).min(width);
    // Row i of R has width − 1 − i numbers beside its diagonal.
    let beside = height * (2 * width - 1 - height) / 2;
    let mut normals = vec![0.0_f64; width + beside];
    fill(Entries::Normal, stream, matrix, 0, 1, &mut normals);
    let (means, mut rest) = normals.split_at(width);
    let means = means.iter().map(|mean| mean / (rows as f64).sqrt()).collect();

    let mut upper = vec![0.0; width * (width + 1) / 2];
    let mut line = Vec::with_capacity(width);
    let mut chi_squares = stream.rng(matrix, 0);
    let mut corner = 0;
    for i in 0..height {
        let law = ChiSquared::new((degrees - i as u64) as f64).expect("at least one degree of freedom");
        let (others, following) = rest.split_at(width - 1 - i);
        rest = following;
        line.clear();
        line.push(law.sample(&mut chi_squares).sqrt());
        line.extend_from_slice(others);
        // C gains the products of this row of R with itself: the triangle from its corner (i, i) on.
        let mut start = corner;
        for (place, &factor) in line.iter().enumerate() {
            let partners = &line[place..];
            for (total, partner) in upper[start..start + partners.len()].iter_mut().zip(partners) {
                *total += factor * partner;
            }
            start += partners.len();
        }
        corner += width - i;
    }
    NormalScatter { means, upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance over draws of every number of a scatter.
    fn moments(rows: u64, width: usize, draws: u32) -> Vec<[f64; 2]> {
        let of = |trial| {
            let stream = TrialStream::new(2203, 5, trial);
            let NormalScatter { means, upper } = draw_normal_scatter(&stream, MatrixId::QUERY_SCATTER, rows, width);
            [means, upper].concat()
        };
        let all: Vec<Vec<f64>> = (0..draws).map(of).collect();
        let count = f64::from(draws);
        (0..all[0].len())
            .map(|place| {
                let mean = all.iter().map(|values| values[place]).sum::<f64>() / count;
                let variance = all.iter().map(|values| (values[place] - mean).powi(2)).sum::<f64>() / (count - 1.0);
                [mean, variance]
            })
            .collect()
    }

    #[test]
    fn first_and_second_moments_are_those_of_the_wishart_law() {
        // E C = N·I; Var C_ii = 2N, Var C_ij = N (Muirhead, Aspects of Multivariate Statistical Theory, 1982, section 3.2); column means
        // have variance 1/n. Fewer rows than columns, as many, and more; a single row has no scatter.
        let draws = 20_000;
        for (rows, width) in [(2_u64, 5_usize), (4, 7), (6, 5), (23, 3), (1009, 5)] {
            let found = moments(rows, width, draws);
            let degrees = (rows - 1) as f64;
            let (means, upper) = found.split_at(width);
            let check = |what: &str, [mean, variance]: [f64; 2], expected: f64, spread: f64, kurtosis: f64| {
                // Six standard errors: 1e-9 a side, for some 60 numbers.
                let of_mean = (mean - expected) / (spread / f64::from(draws)).sqrt();
                assert!(of_mean.abs() < 6.0, "{rows} x {width}, {what}: mean {mean} for {expected}");
                let of_variance = (variance / spread - 1.0) / ((kurtosis - 1.0) / f64::from(draws)).sqrt();
                assert!(of_variance.abs() < 6.0, "{rows} x {width}, {what}: variance {variance} for {spread}");
            };
            for &mean in means {
                check("mean", mean, 0.0, 1.0 / rows as f64, 3.0);
            }
            let mut place = 0;
            for i in 0..width {
                for j in i..width {
                    // Kurtosis 3 + 12/N of χ²; 3 + 6/N of a sum of N products of normals.
                    let (expected, spread, kurtosis) = match i == j {
                        true => (degrees, 2.0 * degrees, 3.0 + 12.0 / degrees),
                        false => (0.0, degrees, 3.0 + 6.0 / degrees),
                    };
                    check(&format!("({i}, {j})"), upper[place], expected, spread, kurtosis);
                    place += 1;
                }
            }
        }
    }

    #[test]
    fn few_rows_leave_a_scatter_of_low_rank() {
        let stream = TrialStream::new(2207, 0, 3);
        let one = draw_normal_scatter(&stream, MatrixId::KEY_SCATTER, 1, 3);
        assert_eq!(one.upper, [0.0; 6]);
        // Two rows: C = x xᵀ for one x, every 2 × 2 minor is 0.
        let two = draw_normal_scatter(&stream, MatrixId::KEY_SCATTER, 2, 3).upper;
        let [aa, ab, ac, bb, bc, cc] = std::array::from_fn(|place| two[place]);
        for minor in [aa * bb - ab * ab, aa * cc - ac * ac, bb * cc - bc * bc] {
            assert!(minor.abs() < 1e-12 * aa * (bb + cc), "{two:?}");
        }
    }

    #[test]
    fn matrices_trials_and_seeds_draw_their_own() {
        let draw = |seed, trial, matrix| draw_normal_scatter(&TrialStream::new(seed, 7, trial), matrix, 11, 3);
        let first = draw(1, 0, MatrixId::QUERY_SCATTER);
        assert_eq!(first, draw(1, 0, MatrixId::QUERY_SCATTER));
        for other in [
            draw(1, 0, MatrixId::KEY_SCATTER),
            draw(1, 1, MatrixId::QUERY_SCATTER),
            draw(2, 0, MatrixId::QUERY_SCATTER),
        ] {
            assert!(first.means.iter().zip(&other.means).all(|(a, b)| a != b));
            assert!(first.upper.iter().zip(&other.upper).all(|(a, b)| a != b));
        }
    }
}
