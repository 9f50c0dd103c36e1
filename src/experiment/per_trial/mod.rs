//! The file of per-trial values: one CSV row per trial, enough to rebuild every result bit for bit.
//!
//! A [`Layout`] says what stands in every field of a run's file but the values. [`PerTrialWriter`] writes rows by it, [`read`] holds
//! a file against it: so what is merged or continued is a file that this very run could have written.

pub mod cover;
pub mod read;
mod write;

use std::collections::HashMap;

use super::{Experiment, InputLaw, Shard, Sizes};

pub use write::{Begin, PerTrialWriter};

/// What is the same in every row of one run.
#[derive(Debug, Clone)]
pub struct RunFields {
    /// Subcommand.
    pub command: String,
    /// Seed of every draw.
    pub seed: u64,
    /// Law of the entries.
    pub law: InputLaw,
    /// Arithmetic.
    pub precision: String,
    /// Check sums of the files that the run read; empty if there are none.
    pub inputs: String,
    /// The part of the trials that is run; None for all of them.
    pub shard: Option<Shard>,
    /// The command line that gives the run's rows.
    pub invocation: String,
}

/// Columns before the measures; `trials` is the plan of the whole run, the same in every shard.
const FIRST: [&str; 14] = [
    "command",
    "version",
    "seed",
    "d_k",
    "n_queries",
    "n_keys",
    "mask",
    "entries",
    "mean",
    "sd",
    "correlation",
    "precision",
    "trials",
    "trial",
];
/// Those of them that one point's rows share.
const SHARED: usize = FIRST.len() - 2;
/// Columns after the measures.
const LAST: [&str; 3] = ["inputs", "shard", "invocation"];

/// What stands in every field of a run's per-trial file but the values.
///
/// The measures' columns are those of all points together, in the order in which the points bring them; where a point does not measure one its
/// field is empty.
#[derive(Debug, Clone)]
pub struct Layout {
    header: Vec<String>,
    points: Vec<PointLayout>,
    inputs: String,
    shard: Option<Shard>,
    invocation: String,
}

/// One parameter point's rows.
#[derive(Debug, Clone)]
struct PointLayout {
    /// The fields before `trials`.
    head: [String; SHARED],
    /// The column of each measure, counted from the first measure of the file.
    columns: Vec<usize>,
    /// The point in words, for errors.
    words: String,
}

impl Layout {
    /// The layout of a run of `experiments`, one a parameter point.
    pub fn new<E: Experiment>(fields: &RunFields, experiments: &[E]) -> Self {
        let mut measures = Vec::new();
        // A name that one point has twice has two columns.
        let mut known: HashMap<(String, usize), usize> = HashMap::new();
        let points = experiments.iter().map(|experiment| {
            let mut seen: HashMap<String, usize> = HashMap::new();
            let columns = experiment.measures().into_iter().map(|name| {
                let before = seen.entry(name.clone()).or_default();
                *before += 1;
                *known.entry((name.clone(), *before)).or_insert_with(|| {
                    measures.push(name);
                    measures.len() - 1
                })
            });
            let columns = columns.collect();
            let (sizes, mask) = (experiment.sizes(), experiment.mask());
            PointLayout { head: head(fields, sizes, mask.as_deref()), columns, words: words(sizes, mask.as_deref()) }
        });
        let points = points.collect();
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        Self {
            header: [texts(&FIRST), measures, texts(&LAST)].concat(),
            points,
            inputs: fields.inputs.clone(),
            shard: fields.shard,
            invocation: fields.invocation.clone(),
        }
    }

    /// Number of parameter points.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// A point in words, for errors.
    pub fn point(&self, point: usize) -> &str {
        &self.points[point].words
    }

    /// The part of the trials that the file holds; None for all of them.
    pub fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// The trials of a point that the file holds, out of `trials` planned.
    pub fn trials(&self, trials: u64) -> std::ops::Range<u64> {
        trials_of(self.shard, trials)
    }

    fn measures(&self) -> usize {
        self.header.len() - FIRST.len() - LAST.len()
    }

    fn shard_text(&self) -> String {
        self.shard.map(|shard| shard.to_string()).unwrap_or_default()
    }
}

/// The trials of a shard, or all of them.
fn trials_of(shard: Option<Shard>, trials: u64) -> std::ops::Range<u64> {
    shard.map_or(0..trials, |shard| shard.trials(trials))
}

fn head(fields: &RunFields, sizes: Sizes, mask: Option<&str>) -> [String; SHARED] {
    let RunFields { command, seed, law, precision, .. } = fields;
    [
        command.clone(),
        env!("CARGO_PKG_VERSION").to_string(),
        seed.to_string(),
        sizes.d_k.to_string(),
        sizes.queries.to_string(),
        sizes.keys.to_string(),
        mask.unwrap_or_default().to_string(),
        law.entries.to_string(),
        law.mean.to_string(),
        law.sd.to_string(),
        law.correlation.to_string(),
        precision.clone(),
    ]
}

fn words(Sizes { d_k, queries, keys }: Sizes, mask: Option<&str>) -> String {
    let mask = mask.map(|mask| format!(", mask {mask}")).unwrap_or_default();
    format!("d_k {d_k}, {queries} queries, {keys} keys{mask}")
}

#[cfg(test)]
mod tests;
