//! `attn variance --moments 2` and `--draw gram`: the same numbers without the logits, and what the output says of it; `--portable`.

use crate::program::{ATTN, Record, SMALL, attn, attn_in, folder, number, records, text};

/// The rows of one statistic, kurtosis left out.
fn estimates(rows: &[Record]) -> Vec<(String, String, f64)> {
    let of = |row: &Record| (row["statistic"].clone(), row["scale"].clone(), number(row, "estimate"));
    rows.iter().filter(|row| row["statistic"] != "logit_kurtosis").map(of).collect()
}

#[test]
fn the_algebra_gives_the_numbers_of_the_logits() {
    // f64: 2⁻⁵³ times a few hundred; f32: sums of 128 products in f32 on one side, of 67 on the other.
    for (precision, tolerance) in [("f64", 1e-12), ("f32", 2e-5)] {
        for extra in ["--dk 5,67 -m 131", "--mean 0.5 --sd 2", "--correlation 0.5", "--entries student-t:9"] {
            let line = format!("variance -q -n 61 --trials 7 --precision {precision} {extra}");
            let direct = records(&attn(&line).stdout);
            let found = records(&attn(&format!("{line} --moments 2")).stdout);
            let (direct, found) = (estimates(&direct), estimates(&found));
            assert_eq!(direct.len(), found.len(), "{line}");
            for (direct, found) in direct.iter().zip(&found) {
                assert_eq!((&direct.0, &direct.1), (&found.0, &found.1), "{line}");
                let bound = tolerance * direct.2.abs().max(1.0);
                assert!((direct.2 - found.2).abs() <= bound, "{line}: {direct:?} {found:?}");
            }
        }
    }
}

#[test]
fn every_form_of_output_says_how_the_figures_were_formed() {
    for (options, method) in [("--moments 2", "gram"), ("--draw gram", "gram-draw"), ("--moments 4", "logits")] {
        let line = format!("{SMALL} -q {options}");
        let rows = records(&attn(&line).stdout);
        assert!(rows.iter().all(|row| row["method"] == method), "{options}");
        assert_eq!(rows.iter().any(|row| row["statistic"] == "logit_kurtosis"), method == "logits");
        assert_eq!(rows.iter().any(|row| row["statistic"] == "qk_correlation"), method != "gram-draw");
        let json = attn(&format!("{line} --format json")).stdout;
        assert!(json.contains(&format!("\"method\":\"{method}\"")), "{json}");
        // What people read has it in a sentence.
        for format in ["json", "table", "markdown"] {
            let text =
                attn(&format!("{line} --format {format}")).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(text.contains("No Q and no K were drawn"), method == "gram-draw", "{format}: {text}");
            assert_eq!(text.contains("no logit was formed"), method == "gram", "{format}: {text}");
        }
        // The rows of trials name the run.
        let folder = folder();
        attn_in(folder.path(), &format!("{line} --per-trial t.csv"));
        assert!(records(&text(folder.path(), "t.csv")).iter().all(|row| row["invocation"].contains(options)));
    }
}

#[test]
fn threads_and_shards_change_no_bit_of_the_algebra() {
    for line in [
        "variance -q -n 1801 -m 977 --dk 67 --trials 5 --precision f32 --moments 2",
        // Spread over the threads inside a trial: 40,009 tokens of 2 · 101 · 141 operations are 5.7e8.
        "variance -q -n 20011 -m 19998 --dk 101 --trials 2 --moments 2",
        "variance -q -n 65536 --dk 13 --trials 11 --draw gram",
    ] {
        let folder = folder();
        let run = |name: &str, threads: &str| {
            attn_in(folder.path(), &format!("{line} --threads {threads} --per-trial {name}.csv")).stdout
        };
        let one = run("one", "1");
        for threads in ["2", "7"] {
            assert_eq!(run(threads, threads), one, "{line}, {threads} threads");
            assert_eq!(text(folder.path(), &format!("{threads}.csv")), text(folder.path(), "one.csv"), "{line}");
        }
        for shard in ["1/2", "2/2"] {
            attn_in(folder.path(), &format!("{line} --shard {shard} --per-trial s{}.csv", &shard[..1]));
        }
        let merged = attn_in(folder.path(), "merge s1.csv s2.csv -q --per-trial merged.csv");
        assert_eq!(merged.stdout, one, "{line}: {}", merged.stderr);
        assert_eq!(text(folder.path(), "merged.csv"), text(folder.path(), "one.csv"), "{line}");
    }
}

#[test]
fn a_sweep_has_its_slopes_and_a_plan() {
    let run = attn("variance --dk 8,32 -n 512 --draw gram");
    assert_eq!(run.code, Some(0), "{run:?}");
    let rows = records(&run.stdout);
    assert_eq!(rows.iter().filter(|row| row["statistic"] == "variance_slope").count(), 2);
    assert!(rows.iter().all(|row| row["verdict"] == "upheld"), "{rows:?}");
    assert!(run.stderr.contains("planned to see a deviation of 1.0 %"), "{}", run.stderr);
}

#[test]
fn a_mean_is_drawn_exactly() {
    // d = 64, μ = 0.1, σ = 1: E S = 0.64 and Var S = 64 + 2·64·0.01 less what the mean of a trial takes; the rows hold theory.
    let run = attn("variance --dk 64 -n 4096 --mean 0.1 --draw gram --trials 400");
    let rows = records(&run.stdout);
    let row = |statistic: &str| rows.iter().find(|row| row["statistic"] == statistic).expect("the row");
    assert!((number(row("logit_mean"), "theory") - 0.64).abs() < 1e-12);
    for statistic in ["logit_mean", "logit_variance"] {
        assert_eq!(row(statistic)["verdict"], "upheld", "{rows:?}");
    }
    // The derivation's assumption fails and is seen to.
    assert_eq!(row("q_mean")["verdict"], "rejected");
}

#[test]
fn portable_kernels_are_named_and_pinned() {
    let portable = records(&attn(&format!("{SMALL} -q --portable")).stdout);
    assert!(portable.iter().all(|row| row["instructions"] == "portable"));
    let own = records(&attn(&format!("{SMALL} -q")).stdout);
    assert!(own.iter().all(|row| ["AVX-512", "AVX2", "portable"].contains(&row["instructions"].as_str())));
    for (a, b) in estimates(&portable).into_iter().zip(estimates(&own)) {
        assert!((a.2 - b.2).abs() <= 1e-12 * b.2.abs().max(1.0), "{a:?} {b:?}");
    }
}

#[test]
fn portable_runs_do_not_depend_on_what_the_c_library_finds_in_the_processor() {
    // glibc has its own versions of exp, ln and sin for processors with fused multiply-add; other C libraries know no such variable.
    let of = |tunables: &str, line: &str| {
        let output = std::process::Command::new(ATTN)
            .args(line.split_whitespace())
            .env("GLIBC_TUNABLES", tunables)
            .output()
            .expect("the program");
        String::from_utf8(output.stdout).expect("text")
    };
    let folder = folder();
    let file = folder.path().join("t.csv");
    let trials = |tunables: &str, line: &str| {
        of(tunables, &format!("{line} -q --portable --per-trial {}", file.display()));
        std::fs::read_to_string(&file).expect("the trials")
    };
    for line in [
        SMALL.to_string(),
        format!("{SMALL} --precision f32 --moments 2"),
        format!("{SMALL} --entries laplace --precision bf16"),
    ] {
        let with = trials("", &line);
        assert_eq!(with, trials("glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F", &line), "{line}");
    }
}
