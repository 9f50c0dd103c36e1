//! Measures the false-alarm rate of every row of `attn variance`, or with `--job spikiness` of `attn softmax-spikiness`,
//! over many seeds:
//!
//! `cargo bench --bench calibration -- -o data/recorded/calibration.csv [--seeds 2000] [--cell normal,64,64,64,50]`
//!
//! (`--cell` runs one cell alone: entries, queries, keys, d_k, trials.)
//!
//! A correct implementation is run again and again; each row's p-value must fall below a level as often as the level
//! says. Where the row says that its test is conservative it may be less often; where the size is too small to judge
//! at that level the row has no p-value and is undecided.

mod command_line;

use std::io::Write;

use attn::attention::{Precision, Scale};
use attn::experiment::calibration::calibrate;
use attn::experiment::softmax::SoftmaxExperiment;
use attn::experiment::variance::VarianceExperiment;
use attn::experiment::{Experiment, InputLaw, Sizes};
use attn::sampling::Entries;
use attn::statistics::{binomial, uniformity};

use command_line::Arguments;

/// Rates asked for.
const LEVELS: [f64; 2] = [0.05, 0.01];
/// Error of each exact binomial interval: of a thousand correct rates about one lies outside.
const INTERVAL_ERROR: f64 = 1e-3;

fn main() {
    let arguments = Arguments::of_process();
    let seeds: u64 = arguments.value("--seeds", 2000);
    let path = arguments.option("-o").expect("-o FILE, where the table goes");
    let only = arguments.option("--cell");
    let mut table = csv::Writer::from_writer(Vec::new());
    let header = "entries,n_queries,n_keys,d_k,trials,statistic,test,asked_rate,seeds,judged,false_alarms,measured_rate,\
                  interval_low,interval_high,uniformity_p,outcome";
    table.write_record(header.split(',').map(str::trim)).expect("memory");
    if arguments.option("--job") == Some("spikiness") {
        spikiness(&mut table, seeds);
        return finish(table, path);
    }
    let laws = [Entries::Normal, Entries::Uniform, Entries::Rademacher, Entries::Laplace, Entries::StudentT(9.0)];
    for entries in laws {
        for (queries, keys) in [(64, 64), (24, 120)] {
            for d_k in [1, 4, 64] {
                for trials in [3, 50] {
                    let sizes = Sizes { d_k, queries, keys };
                    let name = format!("{entries},{queries},{keys},{d_k},{trials}");
                    if only.is_some_and(|only| only != name) {
                        continue;
                    }
                    cell(&mut table, entries, sizes, trials, seeds);
                }
            }
        }
    }
    finish(table, path);
}

fn finish(table: csv::Writer<Vec<u8>>, path: &str) {
    let bytes = table.into_inner().expect("memory");
    std::fs::File::create(path).and_then(|mut file| file.write_all(&bytes)).expect("the file can be written");
}

/// Far from freezing, in the heavy-tailed band below it, and beyond: `scale` stands in the column of the entries.
fn spikiness(table: &mut csv::Writer<Vec<u8>>, seeds: u64) {
    let cells = [
        (4, 32, Scale::InverseSqrtWidth),
        (16, 64, Scale::InverseSqrtWidth),
        (64, 64, Scale::InverseSqrtWidth),
        (4, 64, Scale::None),
        (6, 64, Scale::None),
        (8, 64, Scale::None),
        (16, 64, Scale::None),
        (64, 64, Scale::None),
    ];
    for (d_k, n, scale) in cells {
        let sizes = Sizes { d_k, queries: n, keys: n };
        let law = InputLaw::standard(Entries::Normal);
        let experiment = SoftmaxExperiment::new(sizes, law, &[scale], Precision::F64, 0.99);
        let name = match scale {
            Scale::None => "normal, raw logits",
            _ => "normal, scaled logits",
        };
        lines(table, &experiment, name, sizes, 120, seeds);
    }
}

/// One size, law and number of trials of `attn variance`.
fn cell(table: &mut csv::Writer<Vec<u8>>, entries: Entries, sizes: Sizes, trials: u64, seeds: u64) {
    let experiment =
        VarianceExperiment::new(sizes, InputLaw::standard(entries), &[Scale::InverseSqrtWidth], Precision::F64);
    lines(table, &experiment, &entries.to_string(), sizes, trials, seeds);
}

/// A line per row and level, and one for the whole run.
fn lines<E: Experiment>(
    table: &mut csv::Writer<Vec<u8>>,
    experiment: &E,
    entries: &str,
    sizes: Sizes,
    trials: u64,
    seeds: u64,
) {
    let (rows, runs) = calibrate(experiment, trials, seeds, &LEVELS);
    let mut line = |statistic: &str, test: &str, asked: f64, judged: u64, rejected: u64, uniform: Option<f64>| {
        let conservative = test.contains("conservative") || statistic == "whole run";
        let interval = (judged > 0).then(|| binomial::acceptance_region(judged, asked, INTERVAL_ERROR));
        let rate = rejected as f64 / judged.max(1) as f64;
        let outcome = match interval {
            None => "undecided",
            Some((low, high)) if (low..=high).contains(&rejected) => "inside",
            Some((low, _)) if rejected < low && conservative => "below, and the test says conservative",
            Some(_) => "outside",
        };
        let bound = |count: Option<u64>| count.map(|count| format!("{:.4}", count as f64 / judged as f64));
        let fields = [
            entries.to_string(),
            sizes.queries.to_string(),
            sizes.keys.to_string(),
            sizes.d_k.to_string(),
            trials.to_string(),
            statistic.to_string(),
            test.to_string(),
            asked.to_string(),
            seeds.to_string(),
            judged.to_string(),
            rejected.to_string(),
            if judged > 0 { format!("{rate:.4}") } else { String::new() },
            bound(interval.map(|interval| interval.0)).unwrap_or_default(),
            bound(interval.map(|interval| interval.1)).unwrap_or_default(),
            uniform.map(|p| format!("{p:.4}")).unwrap_or_default(),
            outcome.to_string(),
        ];
        if outcome == "outside" {
            eprintln!("{}", fields.join(","));
        }
        table.write_record(&fields).expect("memory");
    };
    for row in &rows {
        let uniform = if row.test.contains("conservative") {
            uniformity::at_least_uniform(&row.p_values)
        } else {
            uniformity::uniformity(&row.p_values)
        };
        let uniform = uniform.map(|uniformity| uniformity.p_value);
        line(&row.statistic, &row.test, row.level, row.judged, row.rejected, uniform);
    }
    for run in runs {
        line("whole run", "Holm over the rows", run.false_alarm, run.seeds, run.rejected, None);
    }
    eprintln!("{entries} {}x{} d_k {} T {trials}", sizes.queries, sizes.keys, sizes.d_k);
}
