//! Measures how often a wrong variance is rejected with the planned number of trials:
//!
//! `cargo bench --bench power -- -o data/recorded/power.csv [--seeds 1000]`
//!
//! The attention under test multiplies its logits by √(1 ± detect), so that their variance is off by exactly what the
//! plan must see; at least the share 1 − miss of the seeds must reject it.

mod command_line;

use attn::attention::kernel::{Element, PackedKeys, PowerSums};
use attn::attention::{Logits, Precision, Scale, ScaledDotProduct};
use attn::experiment::calibration::outcome_of;
use attn::experiment::judge;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{ErrorRates, Experiment, InputLaw, Sizes, plan};
use attn::sampling::Entries;
use attn::statistics::{binomial, holm_by_family, planning_level};

use command_line::Arguments;
use rayon::prelude::*;

/// Logits that are too large by a factor.
struct TooLarge(f64);

impl Logits for TooLarge {
    fn power_sums<T: Element>(
        &self,
        queries: &[T],
        keys: &PackedKeys<T>,
        center: f64,
        factors: &[f64],
        parallel: bool,
    ) -> Vec<PowerSums> {
        let factors: Vec<f64> = factors.iter().map(|factor| factor * self.0).collect();
        ScaledDotProduct { precision: Precision::F64 }.power_sums(queries, keys, center, &factors, parallel)
    }
}

fn main() {
    let arguments = Arguments::of_process();
    let seeds: u64 = arguments.value("--seeds", 1000);
    let path = arguments.option("-o").expect("-o FILE, where the table goes");
    let mut table = csv::Writer::from_path(path).expect("the file can be written");
    let header =
        "d_k,n_queries,n_keys,false_alarm,miss,detect,fault,trials,seeds,rejected,rate,interval_low,interval_high";
    table.write_record(header.split(',')).expect("room");
    for (d_k, queries, keys) in [(16, 61, 53), (64, 64, 64), (4, 24, 120)] {
        let sizes = Sizes { d_k, queries, keys };
        for (false_alarm, miss) in [(1e-6, 1e-3), (1e-2, 1e-1)] {
            let rates = ErrorRates { false_alarm, miss, detect: 0.01 };
            for fault in [0.01, -0.01, 0.005, 0.0] {
                let (trials, rejected) = rejections(sizes, &rates, fault, seeds);
                let (low, high) = binomial::clopper_pearson(rejected, seeds, 0.05);
                let rate = rejected as f64 / seeds as f64;
                let fields = [
                    d_k.to_string(),
                    queries.to_string(),
                    keys.to_string(),
                    false_alarm.to_string(),
                    miss.to_string(),
                    rates.detect.to_string(),
                    fault.to_string(),
                    trials.to_string(),
                    seeds.to_string(),
                    rejected.to_string(),
                    rate.to_string(),
                    format!("{low:.5}"),
                    format!("{high:.5}"),
                ];
                eprintln!("{}", fields.join(","));
                table.write_record(&fields).expect("room");
            }
        }
    }
    table.flush().expect("room");
}

/// The planned trials, and the seeds on which the variance is rejected with them.
fn rejections(sizes: Sizes, rates: &ErrorRates, fault: f64, seeds: u64) -> (u64, u64) {
    let law = InputLaw::standard(Entries::Normal);
    let attention = TooLarge((1.0 + fault).sqrt());
    let experiment = VarianceExperiment::with_parts(sizes, law, &[Scale::None], Precision::F64, law, attention);
    let trials = plan::plan(std::slice::from_ref(&experiment), |_| Vec::new(), rates, 0).expect("a plan")[0];
    let claims = experiment.claims();
    let variance = claims.iter().position(|claim| claim.statistic == "logit_variance").expect("the claim");
    let rejected = |seed: &u64| {
        let outcome = outcome_of(&experiment, trials, *seed);
        let families = judge::families(std::slice::from_ref(&outcome), &[]);
        let p_values = judge::p_values(&outcome, planning_level(rates.false_alarm, families));
        let of_family: Vec<_> = claims.iter().map(|claim| claim.family.clone()).zip(p_values).collect();
        holm_by_family(&of_family)[variance].is_some_and(|p| p < rates.false_alarm)
    };
    let count = (0..seeds).collect::<Vec<_>>().par_iter().filter(|seed| rejected(seed)).count();
    (trials, count as u64)
}
