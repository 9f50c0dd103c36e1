//! `attn`: parse, run, print the error chain, exit with the code of the verdict.

use std::process::ExitCode;

/// Counts what is allocated: `attn complexity` reports peak memory.
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> ExitCode {
    attn::cli::run(std::env::args_os())
}
