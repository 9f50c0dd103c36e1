//! Time of full attention O = softmax(QKᵀ/√d)V, in the words of the peer scripts: one JSON line.
//!
//! `cargo bench --bench attention -- --n 4096 --dk 64 --trials 9 --dtype f32 --threads 2 [--m M] [--dv D] [--mask RULE]
//! [--method streaming|materialised] [--instructions avx512|avx2|portable]`. A trial draws Q, K and V (timed apart) and
//! attends once, after one warm-up; memory is reused from trial to trial. `benches/compare.py` runs it in turn
//! with PyTorch.

mod command_line;

use std::time::Instant;

use attn::attention::kernel::{
    AttentionInputs, AttentionOutput, AttentionShape, Element, InstructionSet, StreamingWorkspace, Threads, pv, qk,
    scale_softmax, streaming_attention_into,
};
use attn::attention::{Mask, MaskRule};
use attn::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

use command_line::{Arguments, peak_mebibytes};

/// Attends once; the seconds in all and by stage, and the mean magnitude of the output.
type Attend<'a, T> = dyn FnMut(AttentionInputs<'_, T>) -> (Vec<f64>, f64) + 'a;

fn main() {
    let arguments = Arguments::of_process();
    match arguments.option("--dtype").unwrap_or("f32") {
        "f32" => run::<f32>(&arguments),
        "f64" => run::<f64>(&arguments),
        _ => panic!("--dtype f32 or f64"),
    }
}

fn run<T: Element + Drawable>(arguments: &Arguments) {
    let n = arguments.value("--n", 1024);
    let d_k = arguments.value("--dk", 64);
    let shape = AttentionShape { queries: n, keys: arguments.value("--m", n), d_k, d_v: arguments.value("--dv", d_k) };
    let (trials, threads) = (arguments.value("--trials", 9), arguments.value("--threads", 2));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("the pool is built once");
    let threads_used = if threads > 1 { Threads::Pool } else { Threads::Caller };
    let rule = arguments.option("--mask").unwrap_or_default();
    let mask: Option<Mask> = (!rule.is_empty()).then(|| {
        let rule: MaskRule = rule.parse().expect("a mask");
        rule.at(shape.queries, shape.keys).expect("a mask that fits")
    });
    let set = match arguments.option("--instructions").unwrap_or_default() {
        "avx512" => InstructionSet::Avx512,
        "avx2" => InstructionSet::Avx2,
        "portable" => InstructionSet::Portable,
        _ => InstructionSet::detect(),
    };
    let method = arguments.option("--method").unwrap_or("streaming");
    let scale = 1.0 / (d_k as f64).sqrt();
    let mut attend: Box<Attend<'_, T>> = match method {
        "streaming" => {
            let mut workspace = StreamingWorkspace::new(set);
            let mut result = AttentionOutput::default();
            Box::new(move |inputs| {
                let started = Instant::now();
                streaming_attention_into(inputs, scale, mask.as_ref(), threads_used, &mut workspace, &mut result);
                (vec![started.elapsed().as_secs_f64()], mean_magnitude(&result.output))
            })
        }
        "materialised" => {
            let mut logits = vec![T::default(); shape.logits()];
            let mut output = vec![T::default(); shape.queries * shape.d_v];
            Box::new(move |inputs| {
                let started = Instant::now();
                qk(set, inputs, threads_used, &mut logits);
                let formed = started.elapsed().as_secs_f64();
                scale_softmax(set, shape, scale, mask.as_ref(), threads_used, &mut logits);
                let weighed = started.elapsed().as_secs_f64();
                pv(set, &logits, inputs.values, shape, threads_used, &mut output);
                let total = started.elapsed().as_secs_f64();
                (vec![total, formed, weighed - formed, total - weighed], mean_magnitude(&output))
            })
        }
        _ => panic!("--method streaming or materialised"),
    };
    let mut queries = vec![T::default(); shape.queries * d_k];
    let mut keys = vec![T::default(); shape.keys * d_k];
    let mut values = vec![T::default(); shape.keys * shape.d_v];
    let (mut sampled, mut seconds, mut magnitude) = (Vec::new(), Vec::new(), 0.0);
    for trial in 0..=trials as u32 {
        let started = Instant::now();
        let stream = TrialStream::new(0, 0, trial);
        fill(Entries::Normal, &stream, MatrixId::QUERIES, 0, d_k, &mut queries);
        fill(Entries::Normal, &stream, MatrixId::KEYS, 0, d_k, &mut keys);
        fill(Entries::Normal, &stream, MatrixId::VALUES, 0, shape.d_v, &mut values);
        let elapsed = started.elapsed().as_secs_f64();
        let (times, mean) = attend(AttentionInputs { queries: &queries, keys: &keys, values: &values, shape });
        if trial > 0 {
            sampled.push(elapsed);
            seconds.push(times);
            magnitude += mean / trials as f64;
        }
    }
    let names = ["attention", "qk", "scale_softmax", "pv"];
    let stages = names.iter().enumerate().take(seconds[0].len()).map(|(stage, name)| {
        format!("\"{name}\": {:.4}", median(seconds.iter().map(|times| times[stage]).collect()) * 1e3)
    });
    println!(
        "{{\"peer\": \"attn\", \"job\": \"attention\", \"method\": \"{method}\", \"version\": \"{}\", \"instructions\": \
         \"{set}\", \"mask\": \"{rule}\", \"n\": {n}, \"m\": {}, \"dk\": {d_k}, \"dv\": {}, \"dtype\": \"{}\", \"threads\": \
         {threads}, \"trials\": {trials}, \"median_ms\": {{\"sample\": {:.4}, {}}}, \"peak_mib\": {:.1}, \
         \"stats\": {{\"mean_abs_output\": [{magnitude}, null]}}}}",
        env!("CARGO_PKG_VERSION"),
        shape.keys,
        shape.d_v,
        arguments.option("--dtype").unwrap_or("f32"),
        median(sampled) * 1e3,
        stages.collect::<Vec<_>>().join(", "),
        peak_mebibytes(),
    );
}

fn mean_magnitude<T: Element>(output: &[T]) -> f64 {
    output.iter().map(|x| x.to_f64().abs()).sum::<f64>() / output.len() as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
