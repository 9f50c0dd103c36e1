//! What every benchmark needs of its command line and of its own process.
#![allow(dead_code, reason = "each benchmark uses a part")]

use std::fmt::Debug;
use std::str::FromStr;

/// The options that a benchmark was started with: `--name value`.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self(std::env::args().collect())
    }

    /// The value of an option, if it was given.
    pub fn option(&self, name: &str) -> Option<&str> {
        let position = self.0.iter().position(|argument| argument == name)?;
        self.0.get(position + 1).map(String::as_str)
    }

    /// The value of an option that has a default.
    pub fn value<T: FromStr<Err: Debug>>(&self, name: &str, default: T) -> T {
        self.option(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|error| panic!("{name} {text}: {error:?}")))
    }
}

/// Largest resident size of this process so far, in MiB; 0 where the system does not tell.
pub fn peak_mebibytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|value| value.parse::<f64>().ok());
    kibibytes.unwrap_or(0.0) / 1024.0
}
