//! Column means and scatter matrices drawn from their own law, exact for normal entries.

use super::{MomentSource, TrialMoments};
use crate::attention::second_moments::Scatter;
use crate::experiment::{InputLaw, Inside, Sizes};
use crate::sampling::{MatrixId, NormalScatter, TrialStream, draw_normal_scatter};

/// Means and scatter of Q and K without Q and K; see [`crate::sampling::draw_normal_scatter`]. Entries with a mean and a standard deviation are those of the
/// standard law, moved and stretched. The correlation of q and k is no function of what is drawn: it must be 0, and is not measured.
#[derive(Debug, Clone, Copy)]
pub struct DrawnScatter;

impl DrawnScatter {
    fn scatter(stream: &TrialStream, matrix: MatrixId, rows: usize, width: usize, law: InputLaw) -> Scatter {
        let NormalScatter { mut means, mut upper } = draw_normal_scatter(stream, matrix, rows as u64, width);
        means.iter_mut().for_each(|mean| *mean = law.mean + law.sd * *mean);
        upper.iter_mut().for_each(|product| *product *= law.sd * law.sd);
        Scatter::new(rows as u64, means, upper)
    }
}

impl MomentSource for DrawnScatter {
    type Workspace = ();

    fn has_correlation(&self) -> bool {
        false
    }

    /// # Panics
    /// If entries are not normal, or q and k of a token are correlated.
    fn moments(
        &self,
        stream: &TrialStream,
        sizes: Sizes,
        law: InputLaw,
        _: f64,
        inside: Inside,
        (): &mut (),
    ) -> TrialMoments {
        assert!(law.entries == crate::sampling::Entries::Normal && law.correlation == 0.0, "{law:?}");
        let queries = || Self::scatter(stream, MatrixId::QUERY_SCATTER, sizes.queries, sizes.d_k, law);
        let keys = || Self::scatter(stream, MatrixId::KEY_SCATTER, sizes.keys, sizes.d_k, law);
        let (queries, keys) = match inside {
            Inside::Sequential => (queries(), keys()),
            Inside::Parallel => rayon::join(queries, keys),
        };
        let entries = [queries.of_entries(), keys.of_entries()].concat();
        TrialMoments { queries, keys, entries, diagonal: None }
    }

    fn operations(&self, Sizes { d_k, .. }: Sizes) -> f64 {
        let d = d_k as f64;
        // Two triangles of triangles, the trace of a product, about 30 a normal and 200 a χ² variate.
        2.0 * d.powi(3) / 3.0 + 35.0 * d * d + 400.0 * d
    }

    fn bytes(&self, Sizes { d_k, .. }: Sizes) -> f64 {
        16.0 * (d_k as f64).powi(2)
    }
}
