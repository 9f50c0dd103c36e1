//! Comparison with an earlier version: false alarms without a drift, and power at a drift of 1 %.
//!
//! Error budget: each rate is compared once with its binomial limit at 1e-6; there are four, so this file fails by chance
//! less than once in 200,000 times. Seeds are fixed.

use std::fmt::Write;

use attn::attention::{Precision, Scale};
use attn::experiment::progress::Progress;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{Experiment, InputLaw, Sizes, engine};
use attn::report::claims::ClaimVerdict;
use attn::sampling::Entries;
use attn::statistics::binomial::acceptance_region;
use attn::suite::baseline::{PerTrial, claims};
use attn::suite::{Item, Suite};

/// Pairs of runs.
const RUNS: u64 = if cfg!(debug_assertions) { 9 } else { 211 };

fn item() -> Item {
    let text = "[[check]]\nname = 'one'\nrun = 'variance'\nexpect = 'nothing'\nbaseline = 'x.csv'";
    Suite::read(text).expect("a suite").items.remove(0)
}

/// The trials of a run, as a per-trial file holds them; the logits' variance multiplied by `factor`.
fn run(sizes: Sizes, trials: u64, seed: u64, factor: f64) -> PerTrial {
    let experiment =
        VarianceExperiment::new(sizes, InputLaw::standard(Entries::Normal), &[Scale::None], Precision::F64);
    let measures = experiment.measures();
    let mut text = "command,version,seed,d_k,n_queries,n_keys,mask,entries,mean,sd,correlation,precision,trials,trial,"
        .to_string();
    text += &measures.join(",");
    let column = measures.iter().position(|name| name == "logit_variance:none").expect("measured");
    engine::run(&experiment, seed, 0..trials, &Progress::silent(), |trial, values| {
        let mut values = values.to_vec();
        values[column] *= factor;
        let values: Vec<String> = values.iter().map(f64::to_string).collect();
        let Sizes { d_k, queries, keys } = sizes;
        let point = format!("variance,0.1.0,{seed},{d_k},{queries},{keys},,normal,0,1,0,f64,{trials},{trial}");
        write!(text, "\n{point},{}", values.join(","))?;
        Ok(())
    })
    .expect("a string takes every line");
    PerTrial::read(text.as_bytes()).expect("a per-trial file")
}

#[test]
fn no_drift_is_no_alarm_more_often_than_asked() {
    let sizes = Sizes { d_k: 5, queries: 16, keys: 13 };
    let mut alarms = [0u64; 2];
    for seed in 0..RUNS {
        let (before, now) = (run(sizes, 61, seed, 1.0), run(sizes, 67, 1_000_000 + seed, 1.0));
        for (share, count) in [0.05, 0.01].into_iter().zip(&mut alarms) {
            let rejected =
                claims(&item(), &before, &now, share, 0.01).iter().any(|row| row.verdict == ClaimVerdict::Rejected);
            *count += u64::from(rejected);
        }
    }
    println!("false alarms at 0.05 and 0.01: {alarms:?} of {RUNS}");
    for (share, count) in [0.05, 0.01].into_iter().zip(alarms) {
        let most = acceptance_region(RUNS, share, 1e-6).1;
        assert!(count <= most, "{count} of {RUNS} at {share}, at most {most}");
    }
}

#[test]
fn a_drift_of_one_per_cent_is_caught_and_the_same_draws_catch_it_always() {
    let sizes = Sizes { d_k: 64, queries: 131, keys: 127 };
    let (mut promised, mut caught, mut paired) = (0, 0, 0);
    for seed in 0..RUNS / 2 {
        let before = run(sizes, 613, seed, 1.0);
        for (other, count) in [(1_000_000 + seed, &mut caught), (seed, &mut paired)] {
            let now = run(sizes, 613, other, 1.01);
            let found = claims(&item(), &before, &now, 0.01, 0.01);
            let row = found.iter().find(|row| row.claim.starts_with("logit_variance:none")).expect("compared");
            *count += u64::from(row.verdict == ClaimVerdict::Rejected);
            promised += u64::from(other != seed && row.min_detectable.is_some_and(|smallest| smallest <= 0.0101));
        }
    }
    println!("caught {caught} with other draws, {paired} with the same, of {}; promised {promised}", RUNS / 2);
    assert_eq!(paired, RUNS / 2);
    // The smallest drift that is seen with 1 - 1e-3 is within 1 % in nearly all runs, so it is missed about once in 1000.
    assert!(promised > 9 * (RUNS / 2) / 10, "{promised}");
    let least = acceptance_region(RUNS / 2, 1.0 - 5e-3, 1e-6).0;
    assert!(caught >= least, "{caught} of {}, at least {least}", RUNS / 2);
}
