//! An interrupted run leaves no temporary and no half file. The test program runs itself as the process that is interrupted.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use attn::report::AtomicFile;

const TARGET: &str = "ATTN_TEST_INTERRUPT_TARGET";
const STREAM: &str = "ATTN_TEST_STREAM";

/// The process that is interrupted: it writes half a file and waits. Without the variable it is a test that has nothing to do.
#[test]
fn child_that_writes_and_waits() {
    let Some(path) = std::env::var_os(TARGET) else { return };
    let mut file = AtomicFile::create(path).expect("writable");
    file.write_all(&[b'x'; 100_003]).expect("room");
    writeln!(std::io::stderr(), "ready").expect("the parent reads");
    std::thread::sleep(Duration::from_secs(60));
    file.commit().expect("room");
}

fn start(target: &Path, ignored: &str) -> Child {
    let itself = std::env::current_exe().expect("known");
    // The shell sets which signals are ignored, and becomes the test program.
    let script = if ignored.is_empty() {
        // Whoever runs the tests may ignore signals itself (a job in the background, nohup): start from the defaults.
        // Only GNU env can do that; elsewhere the tests must not be run so.
        r#"reset="env --default-signal=INT,TERM,HUP"; $reset true 2> /dev/null || reset=; exec $reset "$0" "$@""#
            .to_owned()
    } else {
        format!(r#"trap "" {ignored}; exec "$0" "$@""#)
    };
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(itself)
        .args(["--exact", "interrupt::child_that_writes_and_waits", "--nocapture"])
        .env(TARGET, target)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh exists");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the child did not get ready");
    child
}

fn send(signal: &str, child: &Child) {
    let status =
        Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().expect("kill exists");
    assert!(status.success());
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_signal_removes_the_temporary_keeps_the_old_file_and_gives_the_shells_exit_code() {
    // 128 + the signal's number: SIGHUP 1, SIGINT 2, SIGTERM 15 (POSIX).
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let target = folder.path().join("x.csv");
        fs::write(&target, "old").expect("room");
        let mut child = start(&target, "");
        assert_eq!(names(folder.path()).len(), 2, "the temporary is there while it is written");
        send(signal, &child);
        assert_eq!(child.wait().expect("a child").code(), Some(code), "SIG{signal}");
        assert_eq!(names(folder.path()), ["x.csv"]);
        assert_eq!(fs::read_to_string(&target).expect("there"), "old");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_the_parent_ignores_is_ignored() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut child = start(&folder.path().join("x.csv"), "HUP INT");
    send("HUP", &child);
    send("INT", &child);
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("a child").is_none(), "it still runs");
    assert_eq!(names(folder.path()).len(), 1);
    send("TERM", &child);
    assert_eq!(child.wait().expect("a child").code(), Some(143));
    assert_eq!(names(folder.path()).len(), 0);
}

/// The process that writes to its own standard output. Without the variable it is a test that has nothing to do.
#[test]
fn child_that_writes_to_standard_output_by_name() {
    let Some(path) = std::env::var_os(STREAM) else { return };
    AtomicFile::write_whole(path, |file| file.write_all(b"written by name\n")).expect("writable");
}

#[test]
fn a_file_that_the_shell_appends_to_keeps_what_it_held() {
    for path in ["/dev/stdout", "/dev/fd/1"] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let target = folder.path().join("x.csv");
        fs::write(&target, "old\n").expect("room");
        let status = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "interrupt::child_that_writes_to_standard_output_by_name", "--nocapture"])
            .env(STREAM, path)
            .stdout(fs::File::options().append(true).open(&target).expect("there"))
            .status()
            .expect("it runs");
        assert!(status.success());
        let text = fs::read_to_string(&target).expect("there");
        assert!(text.starts_with("old\n") && text.contains("written by name\n"), "{path}: {text}");
        assert_eq!(names(folder.path()), ["x.csv"]);
    }
}
