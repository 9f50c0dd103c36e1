//! `--resume FILE`: a run that is killed, cut off or fails at any moment is gone on with to the same bytes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::merge::RUNS;
use crate::program::{ATTN, attn_in, folder, names, text};

/// Long enough to be killed in the middle: the trials of two points, of which the second is slower.
const LINE: &str = "variance -q -n 16,61 --dk 64 --trials 400 --threads 1";

fn start(folder: &Path, line: &str) -> Child {
    let mut command = Command::new(ATTN);
    command.args(line.split(' ')).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program starts")
}

#[test]
fn a_file_that_is_cut_anywhere_is_gone_on_with_to_the_same_bytes() {
    let folder = folder();
    let line = "variance -q -n 5 --dk 3,5 --trials 5 --shard 2/2";
    attn_in(folder.path(), &format!("{line} --per-trial whole.csv"));
    let whole = text(folder.path(), "whole.csv");
    let header = whole.find('\n').expect("a line");
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    // Every place about the ends of lines, and some within.
    let cuts = (0..=whole.len()).filter(|cut| cut % 97 == 0 || ends.iter().any(|end| end.abs_diff(*cut) < 3));
    for (cut, name) in cuts.flat_map(|cut| [(cut, "t.csv.partial"), (cut, "t.csv")]) {
        fs::write(folder.path().join(name), &whole[..cut]).expect("room");
        let run = attn_in(folder.path(), &format!("{line} --resume t.csv"));
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""), "{name} {cut} of {header}");
        assert_eq!(text(folder.path(), "t.csv"), whole, "{name} {cut}");
        assert_eq!(names(folder.path()), ["t.csv", "whole.csv"], "{name} {cut}");
        fs::remove_file(folder.path().join("t.csv")).expect("there");
    }
    // Zeros where the disk lost what was written; the partial file's own name.
    fs::write(folder.path().join("t.csv.partial"), format!("{}{}", &whole[..ends[1]], "\0".repeat(999))).expect("room");
    assert_eq!(attn_in(folder.path(), &format!("{line} --resume t.csv.partial")).code, Some(0));
    assert_eq!(text(folder.path(), "t.csv"), whole);
}

#[test]
fn a_resumed_run_of_every_subcommand_ends_as_one_that_was_not_interrupted() {
    for line in RUNS {
        let folder = folder();
        let whole = attn_in(folder.path(), &format!("{line} -q --per-trial whole.csv"));
        let trials = text(folder.path(), "whole.csv");
        for part in [0.0, 0.3, 0.8, 1.0] {
            let cut = (trials.len() as f64 * part) as usize;
            fs::write(folder.path().join("t.csv"), &trials.as_bytes()[..cut]).expect("room");
            let run = attn_in(folder.path(), &format!("{line} -q --resume t.csv --per-trial ./t.csv"));
            assert_eq!((run.code, &run.stdout), (whole.code, &whole.stdout), "{line} from {part}: {}", run.stderr);
            assert_eq!(text(folder.path(), "t.csv"), trials, "{line} from {part}");
            assert_eq!(names(folder.path()), ["t.csv", "whole.csv"]);
        }
    }
}

#[test]
fn what_is_there_is_not_drawn_again() {
    let folder = folder();
    let line = "variance -n 5 --dk 3 --trials 40";
    attn_in(folder.path(), &format!("{line} -q --per-trial t.csv"));
    let whole = text(folder.path(), "t.csv");
    // A value that no draw gives stays: the row was read. Of a file that is whole nothing is written.
    let marked =
        whole.replacen(whole.lines().nth(1).and_then(|row| row.split(',').nth(14)).expect("a value"), "0.5", 1);
    for (text_before, note) in
        [(&marked[..], "40 trials are there already"), (&marked[..marked.len() / 2], "trials are there already")]
    {
        fs::write(folder.path().join("t.csv"), text_before).expect("room");
        let run = attn_in(folder.path(), &format!("{line} --resume t.csv"));
        assert!(run.stderr.contains(note), "{}", run.stderr);
        assert_eq!(text(folder.path(), "t.csv"), marked);
    }
}

#[test]
fn files_of_other_runs_are_neither_gone_on_with_nor_changed() {
    let folder = folder();
    let path = folder.path();
    let run = |line: &str| attn_in(path, &format!("variance -q -n 5 --dk 3 {line}"));
    run("--trials 12 --shard 1/2 --per-trial s.csv");
    let old = text(path, "s.csv");
    fs::write(path.join("notes.txt"), "what else there is\n").expect("room");
    fs::create_dir(path.join("folder")).expect("room");
    for (line, words) in [
        (
            "--trials 12 --shard 2/2 --resume s.csv",
            &["s.csv", "trial 0 of 12 of shard 1/2, not with trial 6 of 12 of shard 2/2"][..],
        ),
        ("--trials 12 --shard 1/3 --resume s.csv", &["s.csv", "shard 1/2", "shard 1/3"]),
        ("--trials 12 --resume s.csv", &["s.csv", "shard 1/2", "the whole run"]),
        ("--trials 14 --shard 1/2 --resume s.csv", &["s.csv", "other parameters: --trials 12, not --trials 14"]),
        ("--trials 12 --shard 1/2 --seed 3 --resume s.csv", &["s.csv", "the file was made without --seed 3"]),
        ("--trials 12 --shard 1/2 --scale none --resume s.csv", &["s.csv", "the file was made without --scale none"]),
        ("--trials 12 --resume notes.txt", &["notes.txt", "is no per-trial file"]),
        ("--trials 12 --resume folder", &["folder", "it is a folder"]),
        ("--trials 12 --resume /dev/null", &["/dev/null", "no regular file"]),
        ("--trials 12 --resume -", &["--resume -", "must name a file"]),
        ("--trials 12 --resume missing/t.csv", &["missing", "does not exist"]),
        ("--trials 12 --resume t.csv --per-trial u.csv", &["--resume t.csv", "leave out --per-trial u.csv"]),
        ("--trials 12 --resume t.csv -o t.csv", &["t.csv", "two files"]),
    ] {
        let run = run(line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{line}: {}", run.stderr);
        assert_eq!(names(path), ["folder", "notes.txt", "s.csv"], "{line}");
        assert_eq!(text(path, "s.csv"), old);
    }
}

/// Uniform on 0..1, from a linear congruential generator (Knuth, MMIX): the moments at which runs are killed.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn runs_killed_at_random_moments_leave_a_whole_file_or_none_and_are_gone_on_with() {
    let folder = folder();
    let path = folder.path();
    let began = Instant::now();
    let whole = attn_in(path, &format!("{LINE} --per-trial whole.csv"));
    let longest = began.elapsed();
    let trials = text(path, "whole.csv");
    let mut moments = Moments(9);
    let mut killed_with_rows = 0;
    for round in 0..24 {
        // --per-trial: whole or none; the temporary that is left has a name of its own.
        let mut child = start(path, &format!("{LINE} --per-trial t.csv"));
        sleep(longest.mul_f64(1.1 * moments.next()));
        child.kill().expect("a child");
        child.wait().expect("a child");
        let left: Vec<String> = names(path).into_iter().filter(|name| name != "whole.csv").collect();
        for name in left {
            assert!(name == "t.csv" || name.ends_with(".attn-tmp"), "{name}");
            assert!(name != "t.csv" || text(path, "t.csv") == trials, "round {round}: half a file");
            fs::remove_file(path.join(name)).expect("there");
        }
        // --resume: as well, and killed again and again it comes to its end.
        for _ in 0..2 {
            let mut child = start(path, &format!("{LINE} --resume t.csv"));
            sleep(longest.mul_f64(0.7 * moments.next()));
            child.kill().expect("a child");
            child.wait().expect("a child");
            assert!(!path.join("t.csv").exists() || text(path, "t.csv") == trials, "round {round}: half a file");
            if let Ok(found) = fs::metadata(path.join("t.csv.partial")) {
                killed_with_rows += usize::from(found.len() > 0 && (found.len() as usize) < trials.len());
            }
        }
        let run = attn_in(path, &format!("{LINE} --resume t.csv"));
        assert_eq!((run.code, &run.stdout), (whole.code, &whole.stdout), "round {round}: {}", run.stderr);
        assert_eq!(text(path, "t.csv"), trials, "round {round}");
        assert_eq!(names(path), ["t.csv", "whole.csv"]);
        fs::remove_file(path.join("t.csv")).expect("there");
    }
    // The moments were not all before the first row or after the last.
    assert!(killed_with_rows >= 6, "{killed_with_rows} of 48");
}

#[cfg(unix)]
#[test]
fn a_full_disk_at_any_write_leaves_no_file_and_a_partial_one_that_is_gone_on_with() {
    let folder = folder();
    let path = folder.path();
    let line = "variance -q -n 16 --dk 5 --trials 97";
    let whole = attn_in(path, &format!("{line} --per-trial whole.csv"));
    let trials = text(path, "whole.csv");
    // A limit on the size of files, in blocks of 512 bytes (POSIX sh): each write in turn meets it. The signal is ignored, so that the
    // write fails as on a full disk.
    let limited = |blocks: usize, options: &str| {
        let script = format!("ulimit -f {blocks} && trap '' XFSZ && exec \"$0\" {line} {options}");
        let output = Command::new("sh").args(["-c", &script, ATTN]).current_dir(path).output().expect("sh exists");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut failed = 0;
    for blocks in (0..trials.len() / 512 + 3).step_by(5) {
        let (code, error) = limited(blocks, "--per-trial t.csv");
        if code == Some(2) {
            assert!(error.contains("'t.csv': File too large") && error.lines().count() == 1, "{error}");
            assert_eq!(names(path), ["whole.csv"], "{blocks} blocks");
            failed += 1;
        } else {
            assert_eq!((code, text(path, "t.csv") == trials), (whole.code, true), "{blocks} blocks: {error}");
            fs::remove_file(path.join("t.csv")).expect("there");
        }
        let (code, error) = limited(blocks, "--resume t.csv");
        assert!(code == whole.code || error.contains("t.csv.partial': File too large"), "{error}");
        let run = attn_in(path, &format!("{line} --resume t.csv"));
        assert_eq!((run.code, &run.stdout), (whole.code, &whole.stdout), "{blocks} blocks: {}", run.stderr);
        assert_eq!(text(path, "t.csv"), trials, "{blocks} blocks");
        assert_eq!(names(path), ["t.csv", "whole.csv"]);
        fs::remove_file(path.join("t.csv")).expect("there");
    }
    assert!(failed >= 5, "{failed}");
}

/// A run that is stopped between its first file and the last rename, whose name a folder takes.
#[cfg(unix)]
fn run_whose_name_is_taken(folder: &Path, option: &str) -> Child {
    let signal = |name: &str, child: &Child| {
        let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
        assert!(status.expect("kill exists").success());
    };
    for _ in 0..50 {
        let mut child = start(folder, &format!("{LINE} {option} t.csv"));
        let began = Instant::now();
        // With --resume the first rows, before which the name is looked at.
        let begun = || match option {
            "--resume" => fs::metadata(folder.join("t.csv.partial")).is_ok_and(|found| found.len() > 0),
            _ => !names(folder).is_empty(),
        };
        while !begun() && !folder.join("t.csv").exists() && began.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(1));
        }
        signal("STOP", &child);
        if fs::create_dir(folder.join("t.csv")).is_ok() {
            signal("CONT", &child);
            return child;
        }
        // It was through already.
        signal("CONT", &child);
        child.wait().expect("a child");
        fs::remove_file(folder.join("t.csv")).expect("there");
    }
    panic!("no run could be stopped in the middle");
}

#[cfg(unix)]
#[test]
fn a_rename_that_fails_leaves_no_half_file() {
    for (option, left) in [("--per-trial", vec!["t.csv"]), ("--resume", vec!["t.csv", "t.csv.partial"])] {
        let folder = folder();
        let mut child = run_whose_name_is_taken(folder.path(), option);
        assert_eq!(child.wait().expect("a child").code(), Some(2), "{option}");
        assert_eq!(names(folder.path()), left, "{option}");
        assert_eq!(names(&folder.path().join("t.csv")), [""; 0]);
        if option == "--resume" {
            fs::remove_dir(folder.path().join("t.csv")).expect("empty");
            attn_in(folder.path(), &format!("{LINE} --resume t.csv"));
            attn_in(folder.path(), &format!("{LINE} --per-trial whole.csv"));
            assert_eq!(text(folder.path(), "t.csv"), text(folder.path(), "whole.csv"));
        }
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_its_rows() {
    let folder = folder();
    let mut child = start(folder.path(), &format!("{LINE} --resume t.csv -o r.csv"));
    let began = Instant::now();
    let partial = folder.path().join("t.csv.partial");
    while fs::metadata(&partial).map_or(0, |found| found.len()) == 0 && began.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(2));
    }
    Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().expect("kill exists");
    child.wait().expect("a child");
    if !folder.path().join("t.csv").exists() {
        assert_eq!(names(folder.path()), ["t.csv.partial"]);
    }
}
