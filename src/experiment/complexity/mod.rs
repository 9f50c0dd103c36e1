//! Does attention cost what the law says: 2·n·m·d_k operations for QKᵀ, 6·n·m for scale and softmax, 2·n·m·d_v for PV, in all O(n²·d_k)?
//!
//! Operations are counted ([`counts`]): closed formulas of [`crate::theory::cost`] against cells counted one by one and against an
//! [`instrumented`] computation. Times are measured ([`timing`], [`workload`]) and their growth fitted ([`growth`]): supporting evidence with an
//! interval. The outputs of the kernels are held against each other and against the definition ([`agreement`]), so that nothing is
//! timed that does not compute attention. Counts and outputs gate; times do only where they are asked to.

pub mod agreement;
pub mod clock;
pub mod counts;
mod findings;
pub mod growth;
pub mod instrumented;
pub mod plan;
mod remarks;
pub mod timing;
pub mod workload;

pub use findings::Findings;
pub use plan::{Decode, Extent, Gate, Kernel, LayerWidths, Plan, Point, Variable};

use anyhow::{Result, anyhow};

use super::progress::Progress;
use crate::attention::kernel::{Element, InstructionSet, Threads};
use crate::attention::{Alignment, MaskKind, MaskRule, Precision};
use crate::sampling::Drawable;
use crate::statistics::median;
use clock::Clock;
use counts::CountCheck;
use timing::{INTERVAL_ERROR, Schedule, measure};
use workload::{Bench, Inputs, Task, Work};

/// Samples of the overhead; one more comes before them and does not count.
const OVERHEAD_SAMPLES: usize = 5;

/// What was measured of one piece of work at one point.
#[derive(Debug, Clone)]
struct Timed {
    work: Work,
    point: Point,
    /// Samples of each stage.
    stages: Vec<Vec<f64>>,
    /// Seconds of what grows more slowly than the work, stage by stage.
    overhead: Vec<f64>,
}

/// What was found out at one point beside times.
#[derive(Debug, Clone)]
struct Checked {
    point: Point,
    counts: CountCheck,
    /// Peak bytes by kernel.
    bytes: Vec<(Kernel, Option<u64>)>,
    /// Outputs: one kernel against the definition, or (None) two against each other.
    outputs: Vec<(Option<Kernel>, agreement::Difference)>,
}

/// Everything a run found, before it is put into rows.
struct Evidence {
    checked: Vec<Checked>,
    timed: Vec<Timed>,
    clock: Clock,
}

/// Runs a plan. Threads are those of rayon's current pool where there is more than one.
///
/// # Errors
/// Counts that do not fit, a mask that does not fit the sizes.
pub fn run(plan: &Plan, progress: &Progress) -> Result<Findings> {
    let evidence = match plan.precision {
        Precision::F64 => gather::<f64>(plan, progress)?,
        _ => gather::<f32>(plan, progress)?,
    };
    findings::assemble(plan, &evidence)
}

fn gather<T: Element + Drawable>(plan: &Plan, progress: &Progress) -> Result<Evidence> {
    let threads = if plan.threads > 1 { Threads::Pool } else { Threads::Caller };
    let mut inputs: Vec<Inputs<T>> = Vec::new();
    for point in plan.points() {
        let mask = plan.mask(point).map_err(|rule| anyhow!("--mask {rule}"))?;
        inputs.push(Inputs::draw(point, mask, plan.seed));
    }
    let checked = inputs.iter().map(|inputs| check(plan, inputs, threads)).collect::<Result<Vec<_>>>()?;
    let mut tasks: Vec<Task> = (0..inputs.len()).flat_map(|inputs| tasks_of(plan, inputs)).collect();
    if plan.decode == Decode::Cache {
        let causal = MaskRule { kinds: vec![MaskKind::Causal], alignment: Alignment::TopLeft };
        for point in plan.sweep(Variable::Length) {
            let square = Point { m: point.n, ..point };
            let mask = causal.at(square.n, square.m).map_err(|rule| anyhow!("{rule}"))?;
            let works = [Work::CachedToken, Work::RecomputedToken];
            tasks.extend(works.map(|work| Task { work, inputs: inputs.len() }));
            inputs.push(Inputs::draw(square, Some(mask), plan.seed));
        }
    }
    let mut bench = Bench::new(inputs, tasks, threads, progress);
    let schedule = Schedule { budget: plan.budget, seed: plan.seed };
    let tasks = bench.tasks.len();
    let overhead: Vec<Vec<f64>> = (0..tasks).map(|task| overhead(&mut bench, task)).collect();
    let samples = measure(&mut bench, tasks, schedule);
    let timed = (bench.tasks.iter().zip(samples).zip(overhead))
        .map(|((task, stages), overhead)| Timed {
            work: task.work,
            point: bench.inputs[task.inputs].point,
            stages,
            overhead,
        })
        .collect();
    Ok(Evidence { checked, timed, clock: Clock::of(threads) })
}

fn tasks_of(plan: &Plan, inputs: usize) -> impl Iterator<Item = Task> + '_ {
    plan.kernels.iter().map(move |kernel| {
        let work = match kernel {
            Kernel::Materialised => Work::Materialised,
            Kernel::Streaming => Work::Streaming,
        };
        Task { work, inputs }
    })
}

/// Counts, memory and outputs at one point.
fn check<T: Element + Drawable>(plan: &Plan, inputs: &Inputs<T>, threads: Threads) -> Result<Checked> {
    let set = InstructionSet::detect();
    let counts = counts::check(plan.rule.as_ref(), inputs.mask.as_ref(), inputs.point)?;
    let (mut bytes, mut outputs, mut earlier): (_, _, Option<Vec<T>>) = (Vec::new(), Vec::new(), None);
    for &kernel in &plan.kernels {
        let (output, peak) = inputs.run_afresh(kernel, set, threads);
        bytes.push((kernel, peak));
        outputs.push((Some(kernel), agreement::with_definition(&inputs.to_check(), &output, plan.seed)));
        match &earlier {
            Some(earlier) => outputs.push((None, agreement::between(&inputs.to_check(), earlier, &output))),
            None => earlier = Some(output),
        }
    }
    Ok(Checked { point: inputs.point, counts, bytes, outputs })
}

/// Medians of what a task takes beside its cells, stage by stage ([`Bench::run_edges`]); at least 0.
fn overhead<T: Element + Drawable>(bench: &mut Bench<T>, task: usize) -> Vec<f64> {
    let samples: Vec<Vec<f64>> = (0..=OVERHEAD_SAMPLES).map(|_| bench.run_edges(task)).skip(1).collect();
    let middle = |stage: usize| {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample[stage]).collect();
        median(&seconds, INTERVAL_ERROR).map_or(0.0, |found| found.median.max(0.0))
    };
    (0..samples[0].len()).map(middle).collect()
}
