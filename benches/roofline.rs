//! How close a trial is to what the machine can do: `cargo bench --bench roofline -- [-o data/recorded/roofline.csv] [--rounds 9]`.
//!
//! In each round, in turn and with every thread: the rate of fused multiply-adds on registers (the peak), of normal draws and of exponentials in
//! cache (the best rates known here: the crate's own), and a trial of `variance` and of `softmax-spikiness` at n = m = 4096, d = 64. The floor of a
//! trial is its n·m·d multiply-adds at the peak and 2·n·d draws; for spikiness also two exponentials a logit; each at the best rate of all
//! rounds, since other programs only ever lower one.

mod command_line;

use std::fmt::Write as _;
use std::time::Instant;

use attn::attention::kernel::{Element, InstructionSet, exponentials};
use attn::attention::{Precision, Scale};
use attn::experiment::progress::Progress;
use attn::experiment::softmax::SoftmaxExperiment;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{Experiment, InputLaw, Sizes, engine};
use attn::number::Real;
use attn::sampling::{Drawable, Entries, MatrixId, TrialStream, fill};

use command_line::Arguments;

/// Tokens and width of a trial.
const N: usize = 4096;
const D: usize = 64;
/// Numbers that stay in the L1 cache.
const CACHED: usize = 4096;

fn main() {
    let arguments = Arguments::of_process();
    let rounds = arguments.value("--rounds", 9);
    let mut table = String::from("dtype,threads,quantity,unit,value,low,high\n");
    measure::<f32>("f32", rounds, &mut table);
    measure::<f64>("f64", rounds, &mut table);
    print!("{table}");
    if let Some(path) = arguments.option("-o") {
        std::fs::write(path, table).expect("the table can be written");
    }
}

/// The lines of one element type.
fn measure<T: Element + Drawable + Peak>(name: &str, rounds: usize, table: &mut String) {
    let threads = rayon::current_num_threads();
    let precision: Precision = name.parse().expect("f32 or f64");
    let sizes = Sizes { d_k: D, queries: N, keys: N };
    let scales = [Scale::None, Scale::InverseSqrtWidth];
    let law = InputLaw::standard(Entries::Normal);
    let variance = VarianceExperiment::new(sizes, law, &scales, precision);
    let spikiness = SoftmaxExperiment::new(sizes, law, &scales, precision, 0.99);
    let mut columns: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        let peak = on_all_threads(threads, || T::multiply_adds_per_second(InstructionSet::detect()));
        let draws = on_all_threads(threads, || {
            let mut numbers = vec![T::ZERO; CACHED];
            rate(CACHED, || fill(Entries::Normal, &TrialStream::new(1, 2, 3), MatrixId::QUERIES, 0, 1, &mut numbers))
        });
        let powers = on_all_threads(threads, || {
            let mut numbers = vec![T::ZERO; CACHED];
            // Again and again of what they give, which soon leaves the range of the function: it has no branches, and takes the
            // same instructions.
            rate(CACHED, || exponentials(InstructionSet::detect(), &mut numbers))
        });
        let values = [peak, draws, powers, seconds_a_trial(&variance), seconds_a_trial(&spikiness)];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    columns.iter_mut().for_each(|column| column.sort_by(f64::total_cmp));
    let [peak, draws, powers, variance, spikiness] = columns;
    let best = |rates: &[f64]| rates[rates.len() - 1];
    let logits = (N * N) as f64;
    let floor = logits * D as f64 / best(&peak) + (2 * N * D) as f64 / best(&draws);
    let spiky_floor = floor + 2.0 * logits / best(&powers);
    let lines = [
        ("multiply-adds", "Gflop/s", &peak, 2e-9),
        ("normals", "M/s", &draws, 1e-6),
        ("exponentials", "M/s", &powers, 1e-6),
        ("variance", "ms", &variance, 1e3),
        ("variance / floor", "", &variance, 1.0 / floor),
        ("spikiness", "ms", &spikiness, 1e3),
        ("spikiness / floor", "", &spikiness, 1.0 / spiky_floor),
    ];
    for (quantity, unit, sorted, factor) in lines {
        let [low, median, high] = [0, sorted.len() / 2, sorted.len() - 1].map(|place| sorted[place] * factor);
        writeln!(table, "{name},{threads},{quantity},{unit},{median:.4},{low:.4},{high:.4}")
            .expect("a string takes all");
    }
}

/// The sum of the rates of `work` on as many threads at once.
fn on_all_threads(threads: usize, work: impl Fn() -> f64 + Sync) -> f64 {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        running.into_iter().map(|thread| thread.join().expect("nothing panics")).sum()
    })
}

/// Items per second of `work`, which does `items`, over at least 50 ms after a warm-up.
fn rate(items: usize, mut work: impl FnMut()) -> f64 {
    (0..20).for_each(|_| work());
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed().as_secs_f64() < 0.05 {
        (0..20).for_each(|_| work());
        done += 20 * items;
    }
    done as f64 / started.elapsed().as_secs_f64()
}

fn seconds_a_trial<E: Experiment>(experiment: &E) -> f64 {
    const TRIALS: u64 = 8;
    let started = Instant::now();
    engine::run(experiment, 0, 0..TRIALS, &Progress::silent(), |_, _| Ok(())).expect("nothing fails");
    started.elapsed().as_secs_f64() / TRIALS as f64
}

/// The peak of an element type.
trait Peak: Real {
    /// Fused multiply-adds of numbers, not of registers, per second and thread.
    fn multiply_adds_per_second(set: InstructionSet) -> f64;
}

/// Chains of multiply-adds that do not wait for each other; two units times four cycles need eight, and AVX2 has sixteen registers.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;
/// Links of a chain.
#[cfg(target_arch = "x86_64")]
const TURNS: usize = 10_000;

macro_rules! chains {
    ($name:ident, $register:ident, $features:literal, $splat:ident, $fma:ident) => {
        /// `CHAINS` registers, each multiplied and added to `TURNS` times.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $name() {
            use std::arch::x86_64::*;
            use std::hint::black_box;
            let (factor, term) = ($splat(black_box(0.999)), $splat(black_box(0.001)));
            let mut registers: [$register; CHAINS] = [$splat(black_box(1.0)); CHAINS];
            for _ in 0..TURNS {
                for register in &mut registers {
                    *register = $fma(*register, factor, term);
                }
            }
            black_box(registers);
        }
    };
}

chains!(avx512_f32, __m512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps);
chains!(avx512_f64, __m512d, "avx512f", _mm512_set1_pd, _mm512_fmadd_pd);
chains!(avx2_f32, __m256, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps);
chains!(avx2_f64, __m256d, "avx2,fma", _mm256_set1_pd, _mm256_fmadd_pd);

macro_rules! peak {
    ($element:ident, $avx512:ident, $avx2:ident) => {
        impl Peak for $element {
            fn multiply_adds_per_second(set: InstructionSet) -> f64 {
                match set {
                    // SAFETY: the set was detected.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => {
                        rate(CHAINS * TURNS * (64 / size_of::<$element>()), || unsafe { $avx512() })
                    }
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => rate(CHAINS * TURNS * (32 / size_of::<$element>()), || unsafe { $avx2() }),
                    _ => panic!("the peak is known in AVX2 and AVX-512 only"),
                }
            }
        }
    };
}

peak!(f32, avx512_f32, avx2_f32);
peak!(f64, avx512_f64, avx2_f64);
