//! Memory does not grow with n·m: the logits of n = m = 16384 in f64 would take 2 GiB.

use std::process::{Command, Stdio};
use std::time::Duration;

/// Largest resident size that the program reaches, in MiB, if the system tells it while the program runs.
fn peak_mebibytes(arguments: &[&str]) -> Option<f64> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_attn"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse::<f64>().ok());
        // The high-water mark only grows, but is gone once the program has ended.
        peak = kibibytes.map(|kibibytes| kibibytes / 1024.0).or(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    peak
}

#[test]
fn large_matrices_of_logits_are_never_held() {
    // A debug build is too slow for this size; a quarter of it would still take 128 MiB if it were held.
    let n = if cfg!(debug_assertions) { "4096" } else { "16384" };
    for command in ["variance", "softmax-spikiness"] {
        let arguments = [command, "--dk", "64", "-n", n, "--trials", "2", "--precision", "f64"];
        let Some(peak) = peak_mebibytes(&arguments) else {
            eprintln!("skipped: this system does not tell a process's largest resident size");
            return;
        };
        // Q, K and the packed K take 3·16384·64·8 bytes, 24 MiB.
        assert!(peak > 2.0 && peak < 100.0, "{command}: {peak} MiB");
    }
}

#[test]
fn a_million_tokens_are_streamed() {
    // Q and K of 10⁶ tokens would take 512 MB in f32; a debug build takes a sixteenth of them.
    let n = if cfg!(debug_assertions) { "62500" } else { "1000000" };
    let arguments = ["variance", "-n", n, "--moments", "2", "--trials", "2", "--precision", "f32"];
    let Some(peak) = peak_mebibytes(&arguments) else {
        eprintln!("skipped: this system does not tell a process's largest resident size");
        return;
    };
    // 64 sums of two 64 × 64 matrices, 4 MiB, twice where two trials run side by side.
    assert!(peak > 2.0 && peak < 60.0, "{peak} MiB");
}
