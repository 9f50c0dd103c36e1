//! The same seed gives the same bits: for every number of threads, alone or in a sweep, in one piece or in shards.

use std::fs;

use crate::program::{Record, SMALL, attn, attn_in, folder, names, records, text};

/// All bytes that a run writes: CSV, Markdown, per-trial file and picture; JSON without the line that says what was typed.
fn everything(line: &str) -> Vec<String> {
    let folder = folder();
    let run = attn_in(folder.path(), &format!("{line} -q --per-trial trials.csv --plot x.svg"));
    assert!(matches!(run.code, Some(0 | 1 | 3)), "{line}: {run:?}");
    let mut all = vec![run.stdout, text(folder.path(), "trials.csv"), text(folder.path(), "x.svg")];
    if line.starts_with(SMALL) {
        for format in ["json", "markdown", "table"] {
            let text = attn_in(folder.path(), &format!("{line} -q --format {format}")).stdout;
            all.push(text.lines().filter(|line| !line.contains("\"invocation\"")).collect::<Vec<_>>().join("\n"));
        }
    }
    assert!(all.iter().all(|text| text.len() > 100), "{line}");
    all
}

#[test]
fn threads_and_repetition_change_no_bit_of_small_runs() {
    for extra in [
        "--precision f64",
        "--precision f32",
        "--precision bf16",
        "--precision f16",
        "--entries student-t:9",
        "--entries rademacher --keys 11",
        "--correlation 0.5 --mean 0.1 --sd 1.5",
        "--queries 16,7 --dk 3,4",
    ] {
        let line = match extra.contains("--dk") {
            true => format!("variance --trials 50 {extra}"),
            false => format!("{SMALL} {extra}"),
        };
        let one = everything(&format!("{line} --threads 1"));
        assert_eq!(one, everything(&format!("{line} --threads 1")), "{extra}: repeated");
        for threads in ["2", "7"] {
            assert_eq!(one, everything(&format!("{line} --threads {threads}")), "{extra}: {threads} threads");
        }
    }
}

#[test]
fn threads_change_no_bit_of_a_trial_that_is_spread_over_them() {
    // The engine spreads a trial from 5e8 operations, 2·n·m·d and some: 1801·1999·144 is 5.2e8.
    for precision in ["f64", "f32", "bf16"] {
        let line = format!("variance -n 1801 -m 1999 --dk 67 --trials 2 --precision {precision}");
        let one = everything(&format!("{line} --threads 1"));
        for threads in ["2", "7"] {
            assert_eq!(one, everything(&format!("{line} --threads {threads}")), "{precision}: {threads} threads");
        }
    }
}

#[test]
fn planned_runs_are_planned_alike_whatever_the_threads() {
    // With a correlation the plan rests on a pilot run.
    for extra in ["", "--correlation 0.5 --false-alarm 0.05 --miss 0.2"] {
        let line = format!("variance --queries 16 --dk 5 --detect 20% {extra}");
        assert_eq!(everything(&format!("{line} --threads 1")), everything(&format!("{line} --threads 7")), "{extra}");
    }
}

#[test]
fn a_point_is_the_same_alone_and_in_a_sweep() {
    let run = |dk: &str, n: &str| {
        let folder = folder();
        let run = attn_in(folder.path(), &format!("variance -q -n {n} --dk {dk} --trials 400 --per-trial t.csv"));
        (records(&run.stdout), records(&text(folder.path(), "t.csv")))
    };
    let (sweep, sweep_trials) = run("3,5,8", "7,16");
    let (alone, alone_trials) = run("5", "16");
    let is_here = |row: &&Record| (row["d_k"].as_str(), row["n_queries"].as_str()) == ("5", "16");
    // The smallest detectable deviation and the verdict depend on how many rows share the false-alarm rate.
    let own = |row: &Record| {
        let mut row = row.clone();
        row.remove("min_detectable");
        row.remove("verdict");
        // The trials' rows name the run.
        row.remove("invocation");
        row
    };
    assert_eq!(sweep.iter().filter(is_here).map(own).collect::<Vec<_>>(), alone.iter().map(own).collect::<Vec<_>>());
    let alone_rows: Vec<Record> = alone_trials.iter().map(own).collect();
    assert_eq!(sweep_trials.iter().filter(is_here).map(own).collect::<Vec<_>>(), alone_rows);
    assert_eq!((alone.len(), alone_trials.len()), (11, 400));
    // Enough trials that both judge what they can: a row too small to judge at its share of the rate has no p-value.
    assert!(alone.iter().all(|row| row["statistic"] == "logit_kurtosis" || !row["p_value"].is_empty()));
}

#[test]
fn a_longer_run_begins_with_the_trials_of_a_shorter_one() {
    let trials = |trials: &str| {
        let folder = folder();
        attn_in(folder.path(), &format!("variance -q -n 16 --dk 5 --trials {trials} --per-trial t.csv"));
        let mut rows = records(&text(folder.path(), "t.csv"));
        for name in ["trials", "invocation"] {
            rows.iter_mut().for_each(|row| drop(row.remove(name)));
        }
        rows
    };
    // More than 1024 trials are run in several rounds.
    let (short, long) = (trials("20"), trials("1500"));
    assert_eq!(long.len(), 1500);
    assert_eq!(short, long[..20]);
}

#[test]
fn the_scales_asked_for_change_no_draw() {
    let one = records(&attn(&format!("{SMALL} -q --scale inv-dk")).stdout);
    let all = records(&attn(&format!("{SMALL} -q --scale none,inv-sqrt-dk,inv-dk")).stdout);
    let estimates = |rows: &[Record]| {
        rows.iter()
            .filter(|row| row["scale"] == "inv-dk" || row["scale"].is_empty())
            .map(|row| row["estimate"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(estimates(&one), estimates(&all));
}

#[test]
fn a_random_seed_is_told_and_reproduces_the_run() {
    let seed = |rows: &[Record]| {
        assert!(rows.iter().all(|row| row["seed"] == rows[0]["seed"]));
        rows[0]["seed"].clone()
    };
    let run = attn(&format!("{SMALL} --seed random"));
    let used = seed(&records(&run.stdout));
    assert!(run.stderr.starts_with(&format!("attn: seed {used}, 20 trials")), "{}", run.stderr);
    assert_eq!(attn(&format!("{SMALL} --seed {used}")).stdout, run.stdout);

    let another = attn(&format!("{SMALL} --seed random -q"));
    assert_eq!(another.stderr, "");
    // Two of 2⁶⁴ seeds are the same once in 2e19 runs.
    assert_ne!(seed(&records(&another.stdout)), used);
}

#[test]
fn another_seed_gives_other_numbers_in_every_row() {
    let estimates = |seed: u64| {
        records(&attn(&format!("{SMALL} --seed {seed}")).stdout)
            .iter()
            .map(|row| row["estimate"].clone())
            .collect::<Vec<_>>()
    };
    // Neighbours, and two that agree in their lower and upper 32 bits.
    let all = [0, 1, 1 << 32, (1 << 32) + 1, u64::MAX].map(estimates);
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            assert!(one.iter().zip(other).all(|(one, other)| one != other), "{one:?}\n{other:?}");
        }
    }
}

#[test]
fn seed_0_is_the_default() {
    assert_eq!(attn(SMALL).stdout, attn(&format!("{SMALL} --seed 0")).stdout);
}

#[test]
fn shards_together_are_the_whole_run() {
    // Planned and given trials, one point and several, more shards than trials.
    for (line, of) in [
        ("variance -q -n 16 --dk 5 --trials 20", 3),
        ("variance -q -n 16 --dk 5,3 --detect 20%", 3),
        ("variance -q -n 16 --dk 5 --detect 20% --correlation 0.5 --false-alarm 0.05 --miss 0.2", 2),
        ("variance -q -n 3 --dk 2 --trials 2", 5),
    ] {
        let folder = folder();
        attn_in(folder.path(), &format!("{line} --per-trial whole.csv"));
        let whole = text(folder.path(), "whole.csv");
        let mut shards: Vec<Vec<String>> = Vec::new();
        for shard in 1..=of {
            let run = attn_in(folder.path(), &format!("{line} --shard {shard}/{of} --per-trial {shard}.csv"));
            assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""), "{line} {shard}");
            // The shard's number is the only difference.
            let text = text(folder.path(), &format!("{shard}.csv")).replace(&format!(",{shard}/{of},"), ",,");
            assert_eq!(text.lines().next(), whole.lines().next(), "the header");
            shards.push(text.lines().skip(1).map(String::from).collect());
        }
        let lengths: Vec<usize> = shards.iter().map(Vec::len).collect();
        let points = line.matches(',').count() + 1;
        assert!(lengths.iter().max() <= lengths.iter().min().map(|least| least + points).as_ref(), "{lengths:?}");
        if points == 1 {
            let together: Vec<String> = shards.concat();
            assert!(together.iter().map(String::as_str).eq(whole.lines().skip(1)), "{line}");
        }
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let rows: Vec<String> = whole.lines().skip(1).map(String::from).collect();
        assert_eq!(sorted(shards.concat()), sorted(rows), "{line}");
    }
}

#[test]
fn a_shard_writes_its_file_alone() {
    let folder = folder();
    fs::write(folder.path().join("x.csv"), "old").expect("room");
    for result in ["-o x.csv", "--plot x.svg"] {
        // A part of the trials has no verdict: asking for one is refused, and the result's file stays as it was.
        let run = attn_in(folder.path(), &format!("{SMALL} -q --shard 2/2 --per-trial t.csv {result}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.contains("--shard 2/2"), "{}", run.stderr);
        assert_eq!(names(folder.path()), ["x.csv"]);
        assert_eq!(text(folder.path(), "x.csv"), "old");
    }
    let run = attn_in(folder.path(), &format!("{SMALL} -q --shard 2/2 --per-trial t.csv"));
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""));
    assert_eq!(names(folder.path()), ["t.csv", "x.csv"]);
    assert_eq!(records(&text(folder.path(), "t.csv")).len(), 10);
}
