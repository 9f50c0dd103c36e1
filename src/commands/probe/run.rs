//! `attn probe run`: cases, answers, judgement.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::judge::{Target, deliver};
use super::process::Adapter;
use super::{ExitStatus, adapters, config, new};
use crate::cli::probe::RunArguments;
use crate::experiment::progress::Progress;
use crate::probe::answer;
use crate::probe::manifest::{MANIFEST, Manifest};
use crate::report::interrupt::Registration;

/// Runs the adapter and judges its answers.
pub(super) fn run(typed: &RunArguments, invocation: &str) -> Result<ExitStatus> {
    let patience = config::option("--timeout", &typed.timeout, |text| match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be a number of seconds above 0, at most 86400".to_string()),
    })?;
    let script = match &typed.adapter {
        Some(name) => Some(Script::write(name, &adapters::text("--adapter", name)?)?),
        None => None,
    };
    let command = match &script {
        Some(script) => vec![typed.python.clone(), script.path.display().to_string()],
        None if typed.command.is_empty() => bail!("an adapter is needed: --adapter NAME, or -- CMD"),
        None => typed.command.clone(),
    };
    let target = Target::open(&typed.results)?;
    let folder = Path::new(&typed.folder);
    if !folder.join(MANIFEST).exists() {
        let empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        ensure!(empty, "{}: the folder holds files, but no probe; choose another", folder.display());
        new::write(folder, 0, &[])?;
    }
    let manifest = Manifest::read(folder)?;
    if !typed.resume {
        answer::remove(folder, &manifest);
    }
    let progress = Progress::new(manifest.cases.len() as f64, typed.results.quiet);
    let answered = Adapter { command, patience }.answer(folder, &manifest, &|| progress.advance(1.0));
    progress.finish();
    deliver(folder, &manifest, target, invocation, answered?)
}

/// An adapter as a file for as long as it is needed, also when the run is interrupted.
struct Script {
    path: PathBuf,
    _file: tempfile::TempPath,
    _registration: Registration,
}

impl Script {
    fn write(name: &str, text: &str) -> Result<Self> {
        let create = || {
            let mut file = tempfile::Builder::new().prefix("attn-").suffix(&format!("-{name}.py")).tempfile()?;
            file.write_all(text.as_bytes())?;
            let path = file.path().to_owned();
            Ok((file.into_temp_path(), path))
        };
        let (file, registration) =
            Registration::of(create).context("the adapter cannot be written to the temporary folder")?;
        Ok(Self { path: file.to_path_buf(), _file: file, _registration: registration })
    }
}
