//! `attn`: parse, run, print the error chain, exit with the code of the verdict.

use std::process::ExitCode;

fn main() -> ExitCode {
    attn::cli::run(std::env::args_os())
}
