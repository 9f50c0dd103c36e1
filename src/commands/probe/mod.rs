//! `attn probe`: does an attention implementation do what attention should?

mod adapters;
mod judge;
mod new;
mod process;
mod run;

use anyhow::Result;

use super::{ExitStatus, config};
use crate::cli::probe::{ProbeAction, ProbeArguments};

/// Runs the subcommand; `invocation` is what was typed, for the output.
///
/// # Errors
/// Wrong options, unreadable folders, an output that cannot be written.
pub fn run(typed: &ProbeArguments, invocation: &str) -> Result<ExitStatus> {
    match &typed.action {
        ProbeAction::New(typed) => new::run(typed),
        ProbeAction::Judge(typed) => judge::run(typed, invocation),
        ProbeAction::Run(typed) => run::run(typed, invocation),
        ProbeAction::Adapter(typed) => adapters::run(typed),
    }
}
