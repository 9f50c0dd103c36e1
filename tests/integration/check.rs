//! `attn check`: suites, budgets, baselines, and the forms that CI systems read.

use std::fs;
use std::path::Path;

use super::program::{Run, attn, attn_in, folder, names, number, records, text};

/// A suite that takes a second.
const SMALL: &str = "[[check]]\nname = 'logits'\nrun = 'variance --dk 5 -n 16 --detect 20%'\n";

fn check(folder: &Path, suite: &str, options: &str) -> Run {
    fs::write(folder.join("suite.toml"), suite).expect("writable");
    attn_in(folder, &format!("check suite.toml {options}"))
}

fn verdicts(csv: &str) -> Vec<String> {
    records(csv).iter().map(|row| row["verdict"].clone()).collect()
}

#[test]
fn a_suite_that_holds_ends_with_0_and_a_line_for_each_claim() {
    let folder = folder();
    let run = check(folder.path(), SMALL, "");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let rows = records(&run.stdout);
    // logit_mean, logit_variance and logit_kurtosis at two scales, and five of the entries.
    assert_eq!(rows.len(), 11);
    assert!(rows.iter().all(|row| row["verdict"] == "upheld" && row["item"] == "logits" && row["kind"] == "theory"));
    let variance = rows.iter().find(|row| row["claim"].starts_with("logit_variance at scale none")).expect("there");
    assert_eq!((number(variance, "expected_low"), number(variance, "expected_high")), (5.0, 5.0));
    assert_eq!(variance["invocation"], "attn variance --dk 5 -n 16 --detect 20%");
    assert_eq!(names(folder.path()), ["suite.toml"]);
}

#[test]
fn a_rejected_claim_ends_with_1_and_the_rest_is_run_all_the_same() {
    let folder = folder();
    let suite = format!("[[check]]\nname = 'wrong'\nrun = 'variance --dk 5 -n 16 --mean 0.5 --trials 200'\n{SMALL}");
    let run = check(folder.path(), &suite, "--format table");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains("rejected  q_mean"), "{}", run.stdout);
    assert!(run.stdout.contains("\nlogits\n  $ attn variance --dk 5 -n 16 --detect 20%"), "{}", run.stdout);
}

#[test]
fn the_picture_of_a_suite_has_a_line_for_each_item_and_says_what_is_rejected() {
    let folder = folder();
    let suite = format!("[[check]]\nname = 'wrong'\nrun = 'variance --dk 5 -n 16 --mean 0.5 --trials 200'\n{SMALL}");
    let run = check(folder.path(), &suite, "--plot x.svg -q");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(records(&run.stdout).len(), 22);
    let picture = text(folder.path(), "x.svg");
    for words in [">\nwrong\n<", ">\nlogits\n<", ">\n11/11 upheld\n<", "rejected: wrong: q_mean", "22 claims:"] {
        assert!(picture.contains(words), "{words}");
    }
    for (name, rule) in [("x.jpg", ".svg or .png"), ("-", "must name a file"), ("suite.toml", "would be overwritten")] {
        let run = check(folder.path(), SMALL, &format!("-q --plot {name}"));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.lines().count()), (Some(2), "", 1), "{name}");
        assert!(run.stderr.contains("--plot") && run.stderr.contains(rule), "{}", run.stderr);
    }
    let run = check(folder.path(), SMALL, "-q -o x.csv --plot x.csv");
    assert!(run.code == Some(2) && run.stderr.contains("name two files"), "{}", run.stderr);
}

#[test]
fn too_few_trials_end_with_3() {
    let folder = folder();
    let run = check(folder.path(), "[[check]]\nname = 'few'\nrun = 'variance --dk 5 -n 16 --trials 3'", "");
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(verdicts(&run.stdout).iter().all(|verdict| verdict == "undecided"));
}

#[test]
fn what_gets_no_data_ends_with_2_and_says_why() {
    let folder = folder();
    let suite = format!("[[check]]\nname = 'lost'\nrun = 'audit lost.npz'\n{SMALL}");
    let run = check(folder.path(), &suite, "");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let rows = records(&run.stdout);
    assert_eq!((rows[0]["verdict"].as_str(), rows[0]["kind"].as_str()), ("error", "run"));
    assert!(rows[0]["explanation"].contains("lost.npz"), "{}", rows[0]["explanation"]);
    assert_eq!(rows.len(), 12, "the other item was run");
    // A value that only shows when it is run.
    let run = check(folder.path(), "[[check]]\nname = 'a'\nrun = 'variance --dk 0'", "");
    assert_eq!(run.code, Some(2));
    assert!(run.stdout.contains("--dk 0: must be at least 1"), "{}", run.stdout);
}

#[test]
fn errors_of_the_suite_are_one_line_and_nothing_is_run() {
    let folder = folder();
    for (suite, options, expected) in [
        ("", "", "suite.toml: there is nothing to check"),
        ("speed = 3", "", "suite.toml: line 1: unknown field `speed`"),
        ("[[check]]\nname = 'a'\nrun = 'variance --width 3'", "", "check \"a\": unexpected argument '--width'"),
        ("[[check]]\nname = 'a'\nrun = 'variance --seed 3'", "", "--seed belongs to the whole suite"),
        ("[[check]]\nname = 'a'\nrun = 'mask --false-alarm 0.1'", "", "--false-alarm belongs to the whole suite"),
        ("[[check]]\nname = 'a'\nrun = 'audit x.npz -o y.csv'", "", "--output belongs to the whole suite"),
        (SMALL, "--false-alarm 2", "--false-alarm 2: must be"),
        (SMALL, "--seed x", "--seed x: must be"),
        (SMALL, "--baseline nowhere", "--baseline nowhere"),
        (SMALL, "--junit a.xml --markdown a.xml", "--markdown a.xml: is also the file of --junit"),
        (SMALL, "--junit nowhere/a.xml", "--junit"),
        (SMALL, "--junit -", "--junit -: must name a file"),
        (SMALL, "--junit suite.toml", "--junit suite.toml: is read by this check and would be overwritten"),
        (SMALL, "-o ./suite.toml --format csv", "is read by this check"),
        (SMALL, "--junit a.xml --markdown ./a.xml", "is also the file of --junit"),
        (SMALL, "--per-trial suite.toml", "--per-trial"),
        (SMALL, "--init=suite.toml", "leave one of them out"),
    ] {
        let run = check(folder.path(), suite, options);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{suite} {options}");
        let error = run.stderr.lines().last().unwrap_or_default();
        assert!(error.starts_with("attn: error: ") && error.contains(expected), "{suite} {options}: {}", run.stderr);
    }
    assert!(attn("check missing.toml").stderr.contains("missing.toml: No such file"));
}

#[test]
fn init_writes_the_built_in_suite_once() {
    let folder = folder();
    assert_eq!(attn_in(folder.path(), "check --init").code, Some(0));
    assert_eq!(text(folder.path(), "attn-suite.toml"), include_str!("../../data/suite.toml"));
    let again = attn_in(folder.path(), "check --init");
    assert!(again.code == Some(2) && again.stderr.contains("is there already"), "{}", again.stderr);
    assert_eq!(attn_in(folder.path(), "check --init=other.toml -q").stderr, "");
    assert_eq!(names(folder.path()), ["attn-suite.toml", "other.toml"]);
}

#[test]
fn a_fresh_seed_is_new_and_in_every_output() {
    let folder = folder();
    let mut seeds = Vec::new();
    for _ in 0..2 {
        let run = check(folder.path(), SMALL, "--fresh-seed --format json --junit a.xml --markdown a.md");
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let result: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
        let seed = result["seed"].as_u64().expect("a seed").to_string();
        assert_eq!(result["rows"][0]["seed"].to_string(), seed);
        assert!(run.stderr.contains(&format!("seed {seed}")), "{}", run.stderr);
        assert!(text(folder.path(), "a.xml").contains(&format!("value=\"{seed}\"")));
        assert!(text(folder.path(), "a.md").contains(&format!("seed {seed}")));
        seeds.push(seed);
    }
    assert_ne!(seeds[0], seeds[1]);
    let pinned = check(folder.path(), SMALL, "--seed 7");
    assert_eq!(pinned.stdout, check(folder.path(), SMALL, "--seed 7 --threads 1").stdout);
    assert_ne!(pinned.stdout, check(folder.path(), SMALL, "--seed 8").stdout);
}

#[test]
fn the_budget_is_one_for_the_suite() {
    // One item alone takes all of it; the same item beside another half of it: its planned trials grow, as those of the
    // command do at that rate.
    let folder = folder();
    let trials = |rate: &str| {
        let line = format!("variance --dk 5 -n 16 --detect 20% --false-alarm {rate} --format csv");
        records(&attn(&line).stdout)[0]["trials"].clone()
    };
    let kept = |suite: &str| {
        let run = check(folder.path(), suite, "--false-alarm 0.02 --per-trial kept");
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        records(&text(folder.path(), "kept/logits.csv"))[0]["trials"].clone()
    };
    assert_eq!(kept(SMALL), trials("0.02"));
    let two = format!("{SMALL}{}", SMALL.replace("'logits'", "'again'"));
    assert_eq!(kept(&two), trials("0.01"));
    assert_ne!(trials("0.02"), trials("0.01"));
    assert_eq!(names(&folder.path().join("kept")), ["again.csv", "logits.csv"]);
}

/// Multiplies the values of a column of a per-trial file.
fn drifted(csv: &str, column: &str, factor: f64) -> String {
    let mut lines = csv.lines();
    let header = lines.next().expect("a header");
    let at = header.split(',').position(|name| name == column).expect("the column");
    let line = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(String::from).collect();
        fields[at] = (fields[at].parse::<f64>().expect("a number") * factor).to_string();
        fields.join(",")
    };
    std::iter::once(header.to_string()).chain(lines.map(line)).map(|line| line + "\n").collect()
}

#[test]
fn a_drift_of_one_per_cent_against_a_baseline_is_caught_and_none_is_not() {
    let folder = folder();
    let kept = check(folder.path(), SMALL, "--per-trial base");
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    let same = check(folder.path(), SMALL, "--baseline base");
    assert_eq!(same.code, Some(0), "{}", same.stdout);
    assert!(records(&same.stdout).iter().any(|row| row["kind"] == "baseline"));
    let file = folder.path().join("base/logits.csv");
    let before = fs::read_to_string(&file).expect("kept");
    fs::write(&file, drifted(&before, "logit_variance:none", 1.0 / 1.01)).expect("writable");
    let moved = check(folder.path(), SMALL, "--baseline base");
    assert_eq!(moved.code, Some(1), "{}", moved.stdout);
    let rejected: Vec<_> = records(&moved.stdout).into_iter().filter(|row| row["verdict"] == "rejected").collect();
    assert_eq!(rejected.len(), 1);
    assert!(rejected[0]["claim"].starts_with("logit_variance:none as in the baseline"), "{rejected:?}");
    assert!((number(&rejected[0], "estimate") / number(&rejected[0], "expected_low") - 1.01).abs() < 1e-9);
    // As the suite's own word, and as one file.
    let own = format!("{SMALL}expect = 'nothing'\nbaseline = 'base/logits.csv'");
    assert_eq!(check(folder.path(), &own, "").code, Some(1));
    assert_eq!(check(folder.path(), SMALL, "--baseline base/logits.csv").code, Some(1));
    // A baseline that is gone is an error, not a pass.
    fs::remove_file(&file).expect("there");
    let gone = check(folder.path(), SMALL, "--baseline base");
    assert!(gone.code == Some(2) && gone.stdout.contains("logits.csv"), "{}", gone.stdout);
    let still: Vec<String> = names(folder.path());
    assert_eq!(still, ["base", "suite.toml"], "no temporary is left");
}

#[test]
fn intervals_of_the_users_are_held() {
    let folder = folder();
    let with = |interval: &str| {
        let suite = format!("{SMALL}[[check.interval]]\nstatistic = 'logit_variance'\nscale = 'none'\n{interval}");
        let run = check(folder.path(), &suite, "");
        let row = records(&run.stdout).into_iter().find(|row| row["kind"] == "interval").expect("an interval");
        (run.code, row["verdict"].clone())
    };
    assert_eq!(with("low = 3.0\nhigh = 7.0"), (Some(0), "upheld".to_string()));
    assert_eq!(with("low = 7.0"), (Some(1), "rejected".to_string()));
    assert_eq!(with("low = 5.0"), (Some(3), "undecided".to_string()));
    assert_eq!(with("low = 3.0\nd_k = 6"), (Some(2), "error".to_string()));
}

#[test]
fn a_control_must_be_rejected() {
    let folder = folder();
    let control = |mean: &str| {
        let suite = format!(
            "[[check]]\nname = 'c'\nrun = 'variance --dk 5 -n 16 --mean {mean} --trials 200'\nexpect = 'rejected'"
        );
        let run = check(folder.path(), &suite, "");
        (run.code, verdicts(&run.stdout))
    };
    assert_eq!(control("0.5"), (Some(0), vec!["upheld".to_string()]));
    assert_eq!(control("0"), (Some(1), vec!["rejected".to_string()]));
}

#[test]
fn paths_start_at_the_suites_folder() {
    let folder = folder();
    fs::create_dir(folder.path().join("ci")).expect("writable");
    fs::copy("data/real/minilm/minilm.safetensors", folder.path().join("ci/dump.safetensors")).expect("in the project");
    let suite = "[[check]]\nname = 'dump'\nrun = 'audit dump.safetensors --group single.layer0'\n";
    fs::write(folder.path().join("ci/suite.toml"), suite).expect("writable");
    let run = attn_in(folder.path(), "check ci/suite.toml");
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(records(&run.stdout).iter().any(|row| row["claim"].starts_with("scale of")), "{}", run.stdout);
}

#[test]
fn junit_counts_what_the_rows_say() {
    let folder = folder();
    let suite = format!(
        "[[check]]\nname = 'a < b & \"c\"'\nrun = 'variance --dk 5 -n 16 --mean 0.5 --trials 200'\n\
         [[check]]\nname = 'lost'\nrun = 'audit lost.npz'\n{SMALL}"
    );
    let run = check(folder.path(), &suite, "--junit out.xml -o out.csv --markdown out.md");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let csv = text(folder.path(), "out.csv");
    let of = |verdict: &str| verdicts(&csv).iter().filter(|found| *found == verdict).count();
    let xml = text(folder.path(), "out.xml");
    let (failed, lost) = (of("rejected") + of("undecided"), of("error"));
    let root = format!("tests=\"{}\" failures=\"{failed}\" errors=\"{lost}\"", verdicts(&csv).len());
    assert!(failed > 0 && lost == 1 && xml.contains(&root), "{root}\n{xml}");
    assert!(xml.contains("a &lt; b &amp; &quot;c&quot;"), "{xml}");
    assert_eq!(xml.matches("<testsuite ").count(), 3);
    let summary = text(folder.path(), "out.md");
    assert!(summary.starts_with("### ❌ attn check: "), "{summary}");
    assert!(summary.contains("| a &lt; b & \"c\" | rejected |"), "{summary}");
}

#[test]
fn a_probe_that_nothing_answered_never_passes() {
    let folder = folder();
    assert_eq!(attn_in(folder.path(), "probe new cases --only window").code, Some(0));
    let run = check(folder.path(), "[[check]]\nname = 'kernel'\nrun = 'probe judge cases'", "");
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(!verdicts(&run.stdout).contains(&"upheld".to_string()), "{}", run.stdout);
    // One case that is not supported beside the others that nobody answered.
    let line = text(folder.path(), "cases/manifest.json");
    let first = line.lines().find(|line| line.contains("\"name\"")).expect("a case a line");
    let name = first.split("\"name\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("its name");
    fs::create_dir_all(folder.path().join("cases/out")).expect("writable");
    fs::write(folder.path().join(format!("cases/out/{name}.unsupported")), "no windows here\n").expect("writable");
    let run = check(folder.path(), "[[check]]\nname = 'kernel'\nrun = 'probe judge cases'", "");
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    // What never answered shows no fault either.
    let control = "[[check]]\nname = 'kernel'\nrun = 'probe judge cases'\nexpect = 'rejected'";
    assert_eq!(check(folder.path(), control, "").code, Some(2));
    let noted = records(&run.stdout).into_iter().find(|row| row["verdict"] == "noted").expect("the unsupported one");
    assert!(noted["explanation"].contains("no windows here"), "{noted:?}");
}

#[test]
fn a_baseline_is_never_compared_with_itself_nor_overwritten_by_an_unfinished_run() {
    let folder = folder();
    assert_eq!(check(folder.path(), SMALL, "--per-trial base").code, Some(0));
    let before = text(folder.path(), "base/logits.csv");
    let same = check(folder.path(), SMALL, "--baseline base --per-trial ./base");
    assert!(same.code == Some(2) && same.stderr.contains("would be overwritten"), "{}", same.stderr);
    assert_eq!(text(folder.path(), "base/logits.csv"), before);
    assert_eq!(names(&folder.path().join("base")), ["logits.csv"]);
    // The trials that are kept beside a baseline are new ones.
    assert_eq!(check(folder.path(), SMALL, "--baseline base --per-trial next").code, Some(0));
    assert_eq!(names(&folder.path().join("next")), ["logits.csv"]);
}

#[test]
fn a_baseline_that_is_cut_off_doubled_or_a_shard_is_an_error() {
    let folder = folder();
    assert_eq!(check(folder.path(), SMALL, "--per-trial base").code, Some(0));
    let file = folder.path().join("base/logits.csv");
    let whole = fs::read_to_string(&file).expect("kept");
    let head: Vec<&str> = whole.lines().take(40).collect();
    let last = whole.lines().last().expect("trials");
    for (text, expected) in
        [(head.join("\n") + "\n", "it is cut off, or a shard"), (format!("{whole}{last}\n"), "stands twice")]
    {
        fs::write(&file, text).expect("writable");
        let run = check(folder.path(), SMALL, "--baseline base");
        assert!(run.code == Some(2) && run.stdout.contains(expected), "{expected}: {}", run.stdout);
    }
}

#[test]
fn exact_counts_and_equal_draws_need_no_number_of_trials_against_a_baseline() {
    let folder = folder();
    let suite = "[[check]]\nname = 'cache'\nrun = 'kv-cache -n 16 --trials 4'\n";
    assert_eq!(check(folder.path(), suite, "--per-trial base").code, Some(0));
    let again = check(folder.path(), suite, "--baseline base");
    assert_eq!(again.code, Some(0), "{}", again.stdout);
    assert!(records(&again.stdout).iter().any(|row| row["kind"] == "baseline" && row["verdict"] == "upheld"));
}

#[test]
fn an_audit_that_sees_no_weights_and_no_output_never_passes() {
    let folder = folder();
    fs::copy("data/real/minilm/minilm.safetensors", folder.path().join("dump.safetensors")).expect("in the project");
    let suite = "[[check]]\nname = 'dump'\nrun = 'audit dump.safetensors --group single.layer0 --weights absent --output-name absent'\n";
    let run = check(folder.path(), suite, "");
    assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
}
