//! The file of per-trial values, and how the rows follow from it.

use crate::program::{Record, assert_close, attn_in, folder, number, records, row, text};

/// The rows and the per-trial records of one run.
fn run(line: &str) -> (Vec<Record>, Vec<Record>) {
    let folder = folder();
    let run = attn_in(folder.path(), &format!("variance -q {line} --per-trial t.csv"));
    (records(&run.stdout), records(&text(folder.path(), "t.csv")))
}

fn column(trials: &[Record], name: &str) -> Vec<f64> {
    trials.iter().map(|trial| number(trial, name)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn the_columns_are_the_run_and_then_every_measure_of_every_scale() {
    let folder = folder();
    attn_in(
        folder.path(),
        "variance -q -n 7 -m 11 --dk 5 --trials 3 --seed 17 --sd 1.5 --scale none,0.25 --per-trial t.csv",
    );
    let text = text(folder.path(), "t.csv");
    assert_eq!(
        text.lines().next(),
        Some(
            "command,version,seed,d_k,n_queries,n_keys,mask,entries,mean,sd,correlation,precision,trials,trial,\
             q_mean,q_variance,k_mean,k_variance,qk_correlation,\
             logit_mean:none,logit_variance:none,logit_second_moment:none,logit_fourth_moment:none,logit_kurtosis_linear:none,\
             logit_mean:0.25,logit_variance:0.25,logit_second_moment:0.25,logit_fourth_moment:0.25,logit_kurtosis_linear:0.25,\
             inputs,shard,invocation"
        )
    );
    let version = env!("CARGO_PKG_VERSION");
    for (index, line) in text.lines().skip(1).enumerate() {
        let start = format!("variance,{version},17,5,7,11,,normal,0,1.5,0,f64,3,{index},");
        assert!(line.starts_with(&start), "{line}");
        let end = ",,,\"attn variance --dk 5 --queries 7 --keys 11 --trials 3 --sd 1.5 --scale none,0.25 --seed 17\"";
        assert!(line.ends_with(end), "{line}");
    }
    assert_eq!(text.lines().count(), 1 + 3);
}

#[test]
fn the_mean_over_the_trials_is_the_estimate() {
    for extra in [
        "-m 11",
        "-m 5 --entries laplace --precision f32",
        "-m 11 --mean 0.5 --sd 2",
        "-m 11 --precision f16",
        "--correlation 0.7",
    ] {
        let (rows, trials) = run(&format!("-n 7 --dk 5 --trials 101 {extra}"));
        assert_eq!(trials.len(), 101);
        let mut compared = 0;
        for row in rows.iter().filter(|row| row["statistic"] != "logit_kurtosis") {
            let name = match row["scale"].as_str() {
                "" => row["statistic"].clone(),
                scale => format!("{}:{scale}", row["statistic"]),
            };
            // 101 additions of numbers of the size of their root mean square, in another order.
            let values = column(&trials, &name);
            let size = mean(&values.iter().map(|value| value * value).collect::<Vec<_>>()).sqrt();
            let error = (number(row, "estimate") - mean(&values)).abs();
            assert!(error <= 101.0 * f64::EPSILON * size, "{extra} {name}: {error:e}");
            compared += 1;
        }
        assert_eq!(compared, if extra.contains("correlation") { 2 * 4 + 5 } else { 2 * 2 + 5 });
    }
}

#[test]
fn the_kurtosis_is_the_ratio_of_pooled_moments_less_a_bias_of_one_over_the_trials() {
    for trials in [50, 400] {
        let (rows, records) = run(&format!("-n 16 --dk 5 --trials {trials}"));
        let mut estimates = Vec::new();
        for scale in ["none", "inv-sqrt-dk"] {
            let moment = |name: &str| mean(&column(&records, &format!("{name}:{scale}")));
            let ratio = moment("logit_fourth_moment") / moment("logit_second_moment").powi(2);
            let estimate = number(row(&rows, "logit_kurtosis", scale, "5"), "estimate");
            // E[M₄/M₂²] falls short of κ by κ(3 Var M₂/d² − 2 Cov(M₂, M₄)/…)/T to first order: both of size 2/n + …
            // for n = m, so the correction is below a few per mille here, is not nothing, and shrinks as 1/T.
            let correction = (ratio / estimate - 1.0) * f64::from(trials);
            assert!((0.01..3.0).contains(&correction.abs()), "{scale} {trials}: {correction}");
            estimates.push((estimate, correction));
        }
        // A scale changes neither the kurtosis nor its bias.
        assert_close(estimates[0].0, estimates[1].0, 1e-12, "kurtosis");
        assert_close(estimates[0].1, estimates[1].1, 1e-9, "correction");
    }
}

#[test]
fn the_two_scales_of_a_trial_are_one_statistic_up_to_the_factor() {
    let (_, trials) = run("-n 7 -m 11 --dk 5 --trials 20 --scale none,-0.5");
    for trial in &trials {
        let values = |name: &str| (number(trial, &format!("{name}:none")), number(trial, &format!("{name}:-0.5")));
        for (name, factor) in [("logit_mean", -0.5), ("logit_variance", 0.25), ("logit_fourth_moment", 0.0625)] {
            let (raw, scaled) = values(name);
            assert_close(scaled / raw, factor, 1e-13, name);
        }
    }
}
