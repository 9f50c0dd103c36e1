//! The kernels at the sizes of a run, with inputs drawn once and memory used again.

use std::time::Instant;

use super::agreement;
use super::clock::Clock;
use super::plan::{Kernel, Point};
use super::timing::Laboratory;
use crate::attention::kernel::{
    AttentionInputs, AttentionOutput, AttentionShape, Element, InstructionSet, StreamingWorkspace, Threads,
    materialised_attention, pv, qk, scale_softmax, streaming_attention, streaming_attention_into,
};
use crate::attention::{Mask, Scale};
use crate::experiment::progress::Progress;
use crate::sampling::{Drawable, Entries, MatrixId, TrialStream, fill, parameter_point};

/// Q, K, V and mask of one point: standard normal entries, so that scaled logits have variance 1.
pub struct Inputs<T> {
    /// The sizes.
    pub point: Point,
    /// What queries see.
    pub mask: Option<Mask>,
    queries: Vec<T>,
    keys: Vec<T>,
    values: Vec<T>,
}

impl<T: Element + Drawable> Inputs<T> {
    /// Draws them.
    pub fn draw(point: Point, mask: Option<Mask>, seed: u64) -> Self {
        let Point { n, m, d_k, d_v } = point;
        let stream = TrialStream::new(seed, parameter_point(&[d_k as u64, n as u64, m as u64]), 0);
        let matrix = |id, rows: usize, width: usize| {
            let mut entries = vec![T::default(); rows * width];
            fill(Entries::Normal, &stream, id, 0, width, &mut entries);
            entries
        };
        let queries = matrix(MatrixId::QUERIES, n, d_k);
        let (keys, values) = (matrix(MatrixId::KEYS, m, d_k), matrix(MatrixId::VALUES, m, d_v));
        Self { point, mask, queries, keys, values }
    }

    fn scale(&self) -> f64 {
        Scale::InverseSqrtWidth.factor(self.point.d_k)
    }

    fn all(&self) -> AttentionInputs<'_, T> {
        let Point { n, m, d_k, d_v } = self.point;
        let shape = AttentionShape { queries: n, keys: m, d_k, d_v };
        AttentionInputs { queries: &self.queries, keys: &self.keys, values: &self.values, shape }
    }

    /// The last query alone: what is asked of a cache.
    fn last_query(&self) -> AttentionInputs<'_, T> {
        let AttentionInputs { queries, keys, values, shape } = self.all();
        let queries = &queries[(shape.queries - 1) * shape.d_k..];
        AttentionInputs { queries, keys, values, shape: AttentionShape { queries: 1, ..shape } }
    }

    /// The first queries and keys alone.
    fn first(&self, queries: usize, keys: usize) -> AttentionInputs<'_, T> {
        let AttentionShape { d_k, d_v, .. } = self.all().shape;
        AttentionInputs {
            queries: &self.queries[..queries * d_k],
            keys: &self.keys[..keys * d_k],
            values: &self.values[..keys * d_v],
            shape: AttentionShape { queries, keys, d_k, d_v },
        }
    }

    /// The same, as the checks want them.
    pub fn to_check(&self) -> agreement::Inputs<'_, T> {
        agreement::Inputs {
            point: self.point,
            queries: &self.queries,
            keys: &self.keys,
            values: &self.values,
            scale: self.scale(),
            mask: self.mask.as_ref(),
        }
    }

    /// Runs a kernel in memory of its own: the output, and the peak of the bytes allocated meanwhile, if they are counted.
    pub fn run_afresh(&self, kernel: Kernel, set: InstructionSet, threads: Threads) -> (Vec<T>, Option<u64>) {
        let counter = peak_alloc::PeakAlloc;
        counter.reset_peak_usage();
        let before = counter.current_usage();
        let (inputs, scale, mask) = (self.all(), self.scale(), self.mask.as_ref());
        let result = match kernel {
            Kernel::Materialised => materialised_attention(set, inputs, scale, mask, threads),
            Kernel::Streaming => streaming_attention(set, inputs, scale, mask, threads),
        };
        let peak = counter.peak_usage().saturating_sub(before) as u64;
        // A program that has another allocator counts nothing.
        (result.output, (peak > 0).then_some(peak))
    }
}

/// Something to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// What is done.
    pub work: Work,
    /// With which inputs.
    pub inputs: usize,
}

/// What is done with the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The three stages and their total.
    Materialised,
    /// The streaming kernel.
    Streaming,
    /// The streaming kernel for the last query alone.
    CachedToken,
    /// The streaming kernel for all queries, as decoding without a cache does for each token.
    RecomputedToken,
}

/// Queries and keys that are whole tiles and registers of every instruction set: 6 or 14 rows, up to 32 columns.
const FEW_QUERIES: usize = 84;
const FEW_KEYS: usize = 64;

/// The bench on which tasks are run.
pub struct Bench<'a, T> {
    /// Inputs that tasks name.
    pub inputs: Vec<Inputs<T>>,
    /// The tasks.
    pub tasks: Vec<Task>,
    set: InstructionSet,
    threads: Threads,
    progress: &'a Progress,
    start: Instant,
    clock: Clock,
    logits: Vec<T>,
    output: Vec<T>,
    workspace: StreamingWorkspace<T>,
    result: AttentionOutput<T>,
}

impl<'a, T: Element + Drawable> Bench<'a, T> {
    /// A bench without memory yet.
    pub fn new(inputs: Vec<Inputs<T>>, tasks: Vec<Task>, threads: Threads, progress: &'a Progress) -> Self {
        let set = InstructionSet::detect();
        Self {
            inputs,
            tasks,
            set,
            threads,
            progress,
            start: Instant::now(),
            clock: Clock::of(threads),
            logits: Vec::new(),
            output: Vec::new(),
            workspace: StreamingWorkspace::new(set),
            result: AttentionOutput::default(),
        }
    }

    /// What a task takes beside its cells, stage by stage: packing, the start of a row, the call. Where the sizes allow it, the time at
    /// few keys extrapolated to none, and that at few queries likewise (each may come out below 0); else the time with one key and
    /// that with one query. The few are whole registers and tiles of every instruction set, so that no padding is taken for it.
    pub fn run_edges(&mut self, task: usize) -> Vec<f64> {
        let Task { work, inputs } = self.tasks[task];
        let Point { n, m, .. } = self.inputs[inputs].point;
        let edges = match (work, n > 2 * FEW_QUERIES && m > 2 * FEW_KEYS) {
            (Work::CachedToken, _) => vec![(1.0, 1, 1)],
            (_, true) => {
                vec![(2.0, n, FEW_KEYS), (-1.0, n, 2 * FEW_KEYS), (2.0, FEW_QUERIES, m), (-1.0, 2 * FEW_QUERIES, m)]
            }
            (_, false) => vec![(1.0, n, 1), (1.0, 1, m)],
        };
        let mut sums = Vec::new();
        for (factor, queries, keys) in edges {
            let seconds = self.time(work, inputs, Some((queries, keys)), 1);
            sums.resize(seconds.len(), 0.0);
            sums.iter_mut().zip(seconds).for_each(|(sum, seconds)| *sum += factor * seconds);
        }
        sums
    }

    /// Seconds of one call, stage by stage; of the first queries and keys only, without a mask, where `part` says how many.
    fn time(&mut self, work: Work, inputs: usize, part: Option<(usize, usize)>, calls: usize) -> Vec<f64> {
        let inputs = &self.inputs[inputs];
        let scale = inputs.scale();
        let (operands, mask) = match (part, work) {
            (Some((queries, keys)), _) => (inputs.first(queries, keys), None),
            (None, Work::CachedToken) => (inputs.last_query(), None),
            (None, _) => (inputs.all(), inputs.mask.as_ref()),
        };
        let (clock, threads, set) = (self.clock, self.threads, self.set);
        if work != Work::Materialised {
            let start = clock.seconds();
            for _ in 0..calls {
                streaming_attention_into(operands, scale, mask, threads, &mut self.workspace, &mut self.result);
            }
            return vec![(clock.seconds() - start) / calls as f64];
        }
        let shape = operands.shape;
        let (cells, numbers) = (shape.queries * shape.keys, shape.queries * shape.d_v);
        self.logits.resize(self.logits.len().max(cells), T::default());
        self.output.resize(self.output.len().max(numbers), T::default());
        let (logits, output) = (&mut self.logits[..cells], &mut self.output[..numbers]);
        let mut seconds = [0.0; 3];
        for _ in 0..calls {
            let start = clock.seconds();
            qk(set, operands, threads, logits);
            let logits_known = clock.seconds();
            scale_softmax(set, shape, scale, mask, threads, logits);
            let weights_known = clock.seconds();
            pv(set, logits, operands.values, shape, threads, output);
            let end = clock.seconds();
            seconds[0] += logits_known - start;
            seconds[1] += weights_known - logits_known;
            seconds[2] += end - weights_known;
        }
        let [qk, scale_softmax, pv] = seconds.map(|seconds| seconds / calls as f64);
        vec![qk, scale_softmax, pv, qk + scale_softmax + pv]
    }
}

impl<T: Element + Drawable> Laboratory for Bench<'_, T> {
    fn run(&mut self, task: usize, calls: usize) -> Vec<f64> {
        let Task { work, inputs } = self.tasks[task];
        self.time(work, inputs, None, calls)
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn spent(&mut self, seconds: f64) {
        self.progress.advance(seconds);
    }
}
