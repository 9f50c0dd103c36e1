//! One page from the results of any subcommands.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use quick_xml::Reader;
use quick_xml::events::Event;

use super::program::{ATTN, attn_in, folder, names};

/// Runs that take milliseconds, and the files they write.
const RUNS: [(&str, &str); 12] = [
    ("variance --queries 16 --dk 5..10 --trials 20 -q", "variance.json"),
    ("variance --queries 16 --dk 5 --trials 20 --mean 0.5 -q", "mean.csv"),
    ("softmax-spikiness --queries 16 --dk 5 --trials 20 -q", "spikiness.json"),
    ("mask --queries 11 --dk 5 --trials 20 --by-row -q", "mask.csv"),
    ("multi-head --d-model 16 --heads 2 --queries 7 --trials 20 -q", "heads.json"),
    ("positional --queries 16 --dk 6 --trials 20 -q", "positional.json"),
    ("kv-cache --queries 7 --dk 4 --trials 2 -q", "cache.json"),
    // Every claim of a run stands once in its CSV file, or the page refuses it.
    ("variance --queries 7..14 --dk 5,7 --trials 20 --draw gram --correlation 0 -q", "gram.csv"),
    ("multi-head --d-model 16 --heads 4 --kv-heads 2 --queries 7 --trials 20 -q", "groups.csv"),
    ("positional --queries 16 --dk 6 --trials 20 --kind rotary -q", "rotary.csv"),
    ("kv-cache --queries 7 --dk 4 --trials 2 --window 3 -q", "window.csv"),
    ("depth --layers 2 --d-model 8 --heads 2 --queries 5 --trials 20 -q", "depth.csv"),
];

fn write_results(folder: &Path) -> Vec<&'static str> {
    for (line, file) in RUNS {
        let run = attn_in(folder, &format!("{line} -o {file}"));
        assert!(matches!(run.code, Some(0 | 1 | 3)), "{line}: {run:?}");
    }
    RUNS.map(|(_, file)| file).to_vec()
}

/// Names of the elements with the text in each table caption, from a reader of XML.
fn elements(page: &str) -> Vec<String> {
    let mut reader = Reader::from_str(page);
    let mut names = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} at {}", reader.error_position())) {
            Event::Start(tag) | Event::Empty(tag) => {
                names.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned())
            }
            Event::Eof => return names,
            _ => {}
        }
    }
}

#[test]
fn results_of_all_simulations_become_one_page_that_is_the_same_every_time() {
    let folder = folder();
    let files = write_results(folder.path());
    let line = format!("report {} -o page.html", files.join(" "));
    let run = attn_in(folder.path(), &line);
    // A rejected claim is in the page, and no failure of the report.
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run:?}");
    assert_eq!(run.stderr, "attn: page.html written\n");
    let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    let names = elements(&page);
    let count = |name: &str| names.iter().filter(|found| *found == name).count();
    assert_eq!((count("html"), count("h1"), count("script"), count("img")), (1, 1, 0, 0));
    assert!(count("math") > 30 && count("svg") > 30 && count("table") > 30, "{} {}", count("math"), count("svg"));
    assert!(page.contains("Not every claim holds") && page.contains("What does not hold"), "of the mean");
    for file in files {
        assert!(page.contains(&format!("<bdi>{file}</bdi>")), "{file}");
    }
    let again = attn_in(folder.path(), &format!("{line} -q"));
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    let second = fs::read_to_string(folder.path().join("page.html")).expect("the page");
    // The foot names the command line, which differs.
    let above = |page: &str| page.split("<footer>").next().map(str::to_owned);
    assert_eq!(above(&page), above(&second));
}

#[test]
fn a_page_goes_from_a_pipe_to_a_pipe() {
    let folder = folder();
    let made = attn_in(folder.path(), "variance --queries 16 --dk 5 --trials 20 --format json -q");
    let mut child = Command::new(ATTN)
        .args(["report", "-", "--title", "a <b> & c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), made.stdout.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0));
    assert!(page.starts_with("<!DOCTYPE html>\n") && page.contains("<title>a &lt;b&gt; &amp; c: "), "{}", &page[..600]);
    assert!(page.contains("standard input"));
    elements(&page);
}

#[test]
fn what_cannot_be_reported_is_one_line_and_writes_nothing() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("foreign.csv"), "a,b\n1,2\n").expect("written");
    fs::write(path.join("binary"), [0xff, 0x00, 0xfe]).expect("written");
    fs::create_dir(path.join("folder")).expect("made");
    attn_in(path, "variance --queries 16 --dk 5 --trials 20 -q -o once.csv");
    let once = fs::read_to_string(path.join("once.csv")).expect("written");
    let rows = once.split_once('\n').expect("a header").1;
    fs::write(path.join("twice.csv"), format!("{once}{rows}")).expect("written");
    attn_in(path, "variance --queries 16 --dk 5 --trials 20 -q -o a.json --per-trial trials.csv");
    // A name says nothing of what is in a file.
    fs::copy(path.join("a.json"), path.join("a.html")).expect("written");
    let before = names(path);
    for (line, message) in [
        ("report", "required"),
        ("report missing.json", "missing.json: no such file"),
        ("report foreign.csv", "foreign.csv: is not a result of attn"),
        ("report binary", "binary: is not a result of attn"),
        ("report folder", "folder: is a folder"),
        ("report trials.csv", "'attn merge' makes a result of it"),
        ("report a.json ./a.json", "./a.json: is the same file as a.json"),
        ("report a.json -o a.json", "--output 'a.json': the ending must be .html or .htm"),
        ("report a.html -o ./folder/../a.html", "is one of the files"),
        ("report a.json foreign.csv -o page.html", "foreign.csv: is not"),
        ("report a.json -o missing/page.html", "--output: "),
        ("report a.json -o out.pdf", "--output 'out.pdf': the ending must be .html or .htm"),
        ("report a.json -o out", "the ending must be .html or .htm"),
        ("report a.json --title=", "--title '': must be a text"),
        ("report twice.csv -o page.html", "twice.csv: holds rows of several runs: "),
    ] {
        let run = attn_in(path, line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{line}: {run:?}");
        assert!(run.stderr.to_lowercase().contains(&message.to_lowercase()), "{line}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
        assert_eq!(names(path), before, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn the_name_of_a_file_is_text_in_the_page() {
    let folder = folder();
    let name = "<script>alert(1)</x>".replace('/', "\u{202e}");
    attn_in(folder.path(), "variance --queries 16 --dk 5 --trials 20 -q -o a.json");
    fs::rename(folder.path().join("a.json"), folder.path().join(&name)).expect("renamed");
    let output = Command::new(ATTN).args(["report", &name]).current_dir(folder.path()).output().expect("the program");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;\u{fffd}x&gt;") && !page.contains("<script"), "{}", page.len());
    elements(&page);
}
