//! `attn merge`: what it says of the shards is what the run in one piece says, and files that make up no run are refused.

use std::fs;
use std::path::Path;

use crate::program::{Run, attn_in, folder, names, text};

/// A run of every subcommand that draws trials, with two points, planned or not.
pub const RUNS: [&str; 14] = [
    "variance -n 7 -m 11 --dk 3,5 --trials 23",
    "variance -n 31 --dk 5,3 --detect 90% --scale none --false-alarm 0.01 --miss 0.2 --seed 17",
    "variance -n 5,7 --dk 3 --trials 11 --mean=-0.5 --sd 2 --correlation 0 --precision bf16",
    "variance -n 7 -m 11 --dk 3,5 --trials 23 --moments 2 --portable",
    "variance -n 7 -m 11 --dk 3,5 --trials 23 --draw gram --mean 0.5",
    // Infinite logits: what is missing in the file is missing in the run.
    "variance -n 5 --dk 64,67 --trials 11 --precision f16 --sd 300",
    "softmax-spikiness -n 3 -m 5 --dk 3,5 --trials 23 --scale 0.5 --precision f16",
    "mask -n 3 -m 5 --dk 3,5 --trials 23 --kind causal+padding:4@bottom-right --fill -20",
    "mask -n 2,3 --dk 3 --trials 13 --by-row",
    "positional -n 7 --dk 4,6 --trials 11 --offset 1,3",
    "positional --kind rotary:interleaved -n 7 --dk 4,6 --trials 11",
    "kv-cache -n 7,11 --dk 4 --trials 9 --heads 2 --generate 3",
    "multi-head --d-model 12 --heads 3 -n 5,7 --trials 11 --scale none,inv-sqrt-dk --bias",
    "depth --layers 2 --d-model 12 --heads 3 -n 5,7 --trials 11",
];

/// Everything that a run writes and says: the exit code, the table, the picture, the per-trial file, and JSON, which has the remarks too.
fn everything(folder: &Path, run: &dyn Fn(&str) -> Run) -> (Option<i32>, Vec<String>) {
    let table = run("--format table --plot r.svg --per-trial r.trials.csv");
    let json = run("-o r.json");
    assert_eq!((json.code, json.stdout.as_str()), (table.code, ""), "{json:?}");
    let files = ["r.json", "r.trials.csv", "r.svg"].map(|name| {
        let text = if folder.join(name).exists() { text(folder, name) } else { String::new() };
        let _ = fs::remove_file(folder.join(name));
        text
    });
    (table.code, std::iter::once(table.stdout).chain(files).collect())
}

/// Runs the shards of a run; returns the files' names, the last first.
fn shards(folder: &Path, line: &str, of: usize) -> Vec<String> {
    let name = |index| format!("s{index}.csv");
    for index in 1..=of {
        let run = attn_in(folder, &format!("{line} -q --shard {index}/{of} --per-trial {}", name(index)));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""), "{line} {index}/{of}");
    }
    (1..=of).rev().map(name).collect()
}

#[test]
fn merged_shards_are_the_run_in_one_piece_byte_for_byte() {
    for line in RUNS {
        let folder = folder();
        let whole = everything(folder.path(), &|options| attn_in(folder.path(), &format!("{line} -q {options}")));
        assert!(matches!(whole.0, Some(0 | 1 | 3)), "{line}: {whole:?}");
        assert!(whole.1[..3].iter().all(|text| text.len() > 100), "{line}: {whole:?}");
        for of in [1, 2, 7] {
            let files = shards(folder.path(), line, of).join(" ");
            let merged =
                everything(folder.path(), &|options| attn_in(folder.path(), &format!("merge -q {files} {options}")));
            assert_eq!(merged, whole, "{line} in {of}");
        }
    }
}

#[test]
fn every_subcommand_that_draws_trials_is_among_the_runs() {
    let help = attn_in(folder().path(), "--help").stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut drawing = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        let options = attn_in(folder().path(), &format!("{command} --help")).stdout;
        if options.contains("--shard <I/K>") {
            assert!(RUNS.iter().any(|run| run.split(' ').next() == Some(command)), "{command}");
            drawing += 1;
        }
    }
    assert!(drawing >= 7, "{help}");
}

#[test]
fn shards_of_different_numbers_of_parts_and_empty_ones_are_joined_too() {
    let line = "variance -q -n 5 --dk 3 --trials 4";
    let folder = folder();
    let whole = attn_in(folder.path(), line);
    for shard in ["1/2", "3/4", "7/8", "8/8", "1/7"] {
        // 1/7 of 4 trials is none: a file with a header alone.
        attn_in(folder.path(), &format!("{line} --shard {shard} --per-trial {}.csv", shard.replace('/', "-")));
    }
    let run = attn_in(folder.path(), "merge -q 7-8.csv 8-8.csv 1-7.csv 1-2.csv 3-4.csv");
    // 7/8 and 8/8 of 4 trials are none and the last: 1/2 has 0 and 1, 3/4 has 2.
    assert_eq!((run.code, &run.stdout), (whole.code, &whole.stdout), "{}", run.stderr);
}

#[test]
fn a_random_seed_is_a_number_once_it_is_drawn() {
    let folder = folder();
    let line = "variance -q -n 5 --dk 3 --trials 4 --seed random --per-trial t.csv -o r.json";
    let run = attn_in(folder.path(), line);
    let again = attn_in(folder.path(), "merge -q t.csv -o again.json");
    assert_eq!(run.code, again.code);
    assert_eq!(text(folder.path(), "r.json"), text(folder.path(), "again.json"));
    let seed = text(folder.path(), "t.csv").lines().nth(1).and_then(|row| row.split(',').nth(2).map(String::from));
    assert!(text(folder.path(), "r.json").contains(&format!("--seed {}\"", seed.expect("a row"))));
}

#[test]
fn a_mask_file_that_has_changed_is_another_run() {
    let folder = folder();
    // An .npy file by hand (its format is in NumPy's documentation): 3×3 booleans.
    let npy = |cells: [u8; 9]| {
        let dictionary = format!("{:<117}\n", "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 3), }");
        [&b"\x93NUMPY\x01\x00\x76\x00"[..], dictionary.as_bytes(), &cells].concat()
    };
    let mask = folder.path().join("mask.npy");
    fs::write(&mask, npy([1, 0, 0, 1, 1, 0, 1, 1, 1])).expect("room");
    let line = "mask --kind file:mask.npy --dk 3 --trials 5";
    let whole = attn_in(folder.path(), &format!("{line} -q"));
    assert!(matches!(whole.code, Some(0 | 1 | 3)), "{whole:?}");
    let files = shards(folder.path(), line, 2).join(" ");
    assert_eq!(attn_in(folder.path(), &format!("merge -q {files}")).stdout, whole.stdout);
    // A cell that leaves the kind's name alone would do as well; this one does not.
    fs::write(&mask, npy([1, 0, 0, 1, 1, 0, 1, 0, 1])).expect("room");
    let run = attn_in(folder.path(), &format!("merge -q {files}"));
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("s2.csv: line 2: "), "{}", run.stderr);
}

/// The lines of a file, each with its end.
fn lines(folder: &Path, name: &str) -> Vec<String> {
    text(folder, name).split_inclusive('\n').map(String::from).collect()
}

#[test]
fn files_that_make_up_no_run_are_refused_with_the_reason() {
    let folder = folder();
    let path = folder.path();
    let line = "variance -n 5 --dk 3,5 --trials 12";
    shards(path, line, 3);
    assert_eq!(names(path), ["s1.csv", "s2.csv", "s3.csv"]);
    let write = |name: &str, text: &str| fs::write(path.join(name), text).expect("room");
    let second = lines(path, "s2.csv");
    assert_eq!(second.len(), 1 + 4 + 4);
    write("copy.csv", &second.concat());
    write("no-end.csv", second.concat().trim_end());
    write("in-a-line.csv", &second.concat()[..second.concat().len() - 70]);
    write("at-a-line.csv", &second[..8].concat());
    write("at-a-point.csv", &second[..5].concat());
    write("header.csv", &second[0]);
    write("in-the-header.csv", &second[0][..100]);
    write("empty.csv", "");
    write("hole.csv", &[&second[..3], &second[4..]].concat().concat());
    write("damaged.csv", &second.concat().replacen(",f64,", ",f46,", 1));
    write("number.csv", &second.concat().replacen(second[1].split(',').nth(14).expect("a value"), "1.2.3", 1));
    for (name, value) in [("not-a-number.csv", "NaN"), ("infinite.csv", "-inf"), ("too-large.csv", "1e999")] {
        write(name, &second.concat().replacen(second[2].split(',').nth(14).expect("a value"), value, 1));
    }
    // Cut within the invocation, which is the last field: `--trials 12"` becomes `--trials 1`.
    let cut_option =
        |text: String| text.strip_suffix("--trials 12\"\n").expect("the last option").to_string() + "--trials 1";
    write("one-row.csv", &cut_option(second[..2].concat()));
    write("cut-option.csv", &cut_option(second.concat()));
    write("without.csv", &second.concat().replace(" --dk 3,5", ""));
    write("older.csv", &second.concat().replace(concat!("variance,", env!("CARGO_PKG_VERSION")), "variance,0.0.1"));
    write("hostile.csv", &second.concat().replace("attn variance", "attn variance -o stolen.csv"));
    write("other.csv", &second.concat().replace("attn variance", "attn merge"));
    write("rows.csv", "command,statistic,version\nvariance,logit_mean,0.1.0\n");
    write("binary.csv", "\u{0}\u{1}");
    attn_in(path, "variance -q -n 5 --dk 3,7 --trials 12 --shard 2/3 --per-trial dk.csv");
    attn_in(path, "variance -q -n 5 --dk 3,5 --trials 12 --shard 2/3 --per-trial seed.csv --seed 3");
    attn_in(path, "variance -q -n 5 --dk 3,5 --trials 13 --shard 2/3 --per-trial trials.csv");
    attn_in(path, "variance -q -n 5 --dk 3,5 --trials 12 --scale none --shard 2/3 --per-trial scale.csv");
    attn_in(path, "mask -q -n 5 --dk 3,5 --trials 12 --shard 2/3 --per-trial mask.csv");
    attn_in(path, &format!("{line} -q --shard 2/2 --per-trial half.csv"));
    fs::create_dir(path.join("folder")).expect("room");
    let before = names(path);
    for (files, words) in [
        ("s1.csv s3.csv", &["trials 4 to 7 of 12", "in no file", "d_k 3"][..]),
        ("s1.csv s2.csv", &["trials 8 to 11 of 12", "in no file"]),
        ("s2.csv s3.csv", &["trials 0 to 3 of 12", "in no file"]),
        ("s1.csv s2.csv s3.csv copy.csv", &["trials 4 to 7 of 12", "are in s2.csv and in copy.csv"]),
        ("s1.csv half.csv", &["trials 4 to 5 of 12", "in no file"]),
        ("s1.csv s2.csv half.csv", &["trials 6 to 7 of 12", "are in s2.csv and in half.csv"]),
        ("s1.csv s2.csv ./s1.csv s3.csv", &["./s1.csv: is the same file as s1.csv"]),
        ("s1.csv no-end.csv s3.csv", &["no-end.csv: truncated: its last line has no end"]),
        ("s1.csv in-a-line.csv s3.csv", &["in-a-line.csv: truncated: its last line has no end"]),
        ("s1.csv at-a-line.csv s3.csv", &["at-a-line.csv: truncated: it has 3 of the 4 trials of shard 2/3 at d_k 5"]),
        (
            "s1.csv at-a-point.csv s3.csv",
            &["at-a-point.csv: truncated: it has 0 of the 4 trials of shard 2/3 at d_k 5"],
        ),
        ("s1.csv header.csv s3.csv", &["trials 4 to 7 of 12", "in no file"]),
        ("header.csv", &["header.csv: has no row"]),
        ("s1.csv in-the-header.csv s3.csv", &["in-the-header.csv: "]),
        ("s1.csv empty.csv s3.csv", &["empty.csv: is no per-trial file"]),
        ("s1.csv hole.csv s3.csv", &["hole.csv: line 4: trial 7 of 12 stands where trial 6 of 12 should"]),
        ("s1.csv damaged.csv s3.csv", &["damaged.csv: line 2: precision is 'f46', not 'f64'"]),
        ("s1.csv number.csv s3.csv", &["number.csv: line 2: q_mean is '1.2.3'"]),
        ("s1.csv not-a-number.csv s3.csv", &["not-a-number.csv: line 3: q_mean is 'NaN'"]),
        ("s1.csv infinite.csv s3.csv", &["infinite.csv: line 3: q_mean is '-inf'"]),
        ("s1.csv too-large.csv s3.csv", &["too-large.csv: line 3: q_mean is '1e999'"]),
        ("one-row.csv s2.csv s3.csv", &["one-row.csv: truncated: its last line has no end"]),
        ("s1.csv cut-option.csv s3.csv", &["cut-option.csv: truncated: its last line has no end"]),
        ("s1.csv without.csv s3.csv", &["without.csv: other parameters: the file was made without --dk 3,5, not with"]),
        ("s1.csv s2.csv s3.csv -o s1.csv", &["--output s1.csv: is one of the files that are merged"]),
        ("s1.csv s2.csv s3.csv -o ./folder/../s2.csv", &["--output ./folder/../s2.csv: is one of the files"]),
        ("s1.csv s2.csv s3.csv -o - --per-trial s3.csv", &["--per-trial s3.csv: is one of the files"]),
        ("s1.csv s2.csv s3.csv --plot copy.csv copy.csv", &["--plot copy.csv: is one of the files"]),
        ("s1.csv older.csv s3.csv", &["older.csv: is of version 0.0.1, this is"]),
        ("s1.csv dk.csv s3.csv", &["dk.csv: other parameters: --dk 3,7, not --dk 3,5 (as in s1.csv)"]),
        ("s1.csv seed.csv s3.csv", &["seed.csv: other parameters: --seed 3, which is not given"]),
        ("s1.csv trials.csv s3.csv", &["trials.csv: other parameters: --trials 13, not --trials 12"]),
        ("s1.csv scale.csv s3.csv", &["scale.csv: other parameters: --scale none"]),
        ("s1.csv mask.csv s3.csv", &["mask.csv: it is of attn mask, not of attn variance (as in s1.csv)"]),
        ("hostile.csv", &["hostile.csv: 'attn variance -o stolen.csv", "no run that has shards"]),
        ("other.csv", &["other.csv: 'attn merge", "no run that has shards"]),
        ("rows.csv", &["rows.csv: is no per-trial file"]),
        ("binary.csv", &["binary.csv: is no per-trial file"]),
        ("missing.csv", &["error: missing.csv: No such file or directory\n"]),
        ("folder", &["folder: is no regular file"]),
        ("s1.csv s2.csv s3.csv -o missing/x.csv", &["--output", "missing"]),
        ("s1.csv s2.csv s3.csv --format tsv", &["--format tsv"]),
        ("", &["<FILE>..."]),
    ] {
        let run = attn_in(path, &format!("merge {files}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{files}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{files}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{files}: {}", run.stderr);
        assert_eq!(names(path), before, "{files}");
    }
}

#[test]
fn times_have_no_shards() {
    let folder = folder();
    for option in ["--shard 1/2", "--per-trial t.csv", "--resume t.csv"] {
        let run = attn_in(folder.path(), &format!("complexity {option}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(run.stderr.contains(option) && run.stderr.contains("run it whole"), "{}", run.stderr);
    }
    assert_eq!(names(folder.path()), [""; 0]);
}
