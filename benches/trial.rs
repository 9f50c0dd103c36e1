//! Time of one trial of `attn variance`, `attn variance --moments 2` (job moments) or `attn softmax-spikiness`, in the words of the peer
//! scripts: one JSON line.
//!
//! `cargo bench --bench trial -- --job variance --n 4096 --dk 64 --trials 5 --dtype f32 --threads 2`. A trial draws Q
//! and K and measures everything the subcommand measures, raw and scaled. `benches/compare.py` runs it in turn with
//! NumPy and PyTorch.

mod command_line;

use std::time::Instant;

use attn::attention::{Precision, Scale};
use attn::experiment::progress::Progress;
use attn::experiment::softmax::SoftmaxExperiment;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::variance::second_moments::{SecondMomentExperiment, Streamed};
use attn::experiment::{Experiment, InputLaw, Sizes, engine};
use attn::sampling::Entries;

use command_line::{Arguments, peak_mebibytes};

fn main() {
    let arguments = Arguments::of_process();
    let (n, d_k) = (arguments.value("--n", 1024), arguments.value("--dk", 64));
    let (trials, threads) = (arguments.value("--trials", 5), arguments.value("--threads", 2));
    let precision: Precision = arguments.value("--dtype", Precision::F32);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the pool is built once");

    let sizes = Sizes { d_k, queries: n, keys: n };
    let scales = [Scale::None, Scale::InverseSqrtWidth];
    let law = InputLaw::standard(Entries::Normal);
    let job = arguments.option("--job").unwrap_or("variance");
    // The first number is held against theory by whoever reads the line: the timed run was a correct one.
    let (milliseconds, statistic) = match job {
        "variance" => {
            time(&VarianceExperiment::new(sizes, law, &scales, precision), trials, threads, "logit_variance:none")
        }
        "spikiness" => {
            time(&SoftmaxExperiment::new(sizes, law, &scales, precision, 0.99), trials, threads, "participation:none")
        }
        "moments" => {
            let streamed = Streamed::new(law, precision);
            let experiment = SecondMomentExperiment::new(sizes, law, &scales, precision, streamed);
            time(&experiment, trials, threads, "logit_variance:none")
        }
        _ => panic!("--job variance, spikiness or moments"),
    };
    println!(
        "{{\"peer\": \"attn\", \"job\": \"{job}\", \"method\": \"fused\", \"version\": \"{}\", \"n\": {n}, \"m\": {n}, \
         \"dk\": {d_k}, \"dtype\": \"{precision}\", \"threads\": {threads}, \"trials\": {trials}, \
         \"median_ms\": {{\"total\": {milliseconds:.4}}}, \"peak_mib\": {:.1}, \"statistic\": {statistic}}}",
        env!("CARGO_PKG_VERSION"),
        peak_mebibytes(),
    );
}

/// Milliseconds a trial, after a warm-up on other trials, and the mean of one measure.
fn time<E: Experiment>(experiment: &E, trials: usize, threads: usize, measure: &str) -> (f64, f64) {
    let run = |first: u64, count: u64| {
        engine::run(experiment, 0, first..first + count, &Progress::silent(), |_, _| Ok(())).expect("nothing fails")
    };
    run(1_000_000, 2.max(threads as u64));
    let started = Instant::now();
    let columns = run(0, trials as u64);
    let milliseconds = started.elapsed().as_secs_f64() * 1e3 / trials as f64;
    let column = experiment.measures().iter().position(|name| name == measure).expect("a measure");
    (milliseconds, columns.mean(column).unwrap_or(f64::NAN))
}
