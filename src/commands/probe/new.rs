//! `attn probe new`: the cases as files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use super::{ExitStatus, config};
use crate::cli::probe::NewArguments;
use crate::probe::case::Capability;
use crate::probe::manifest::{MANIFEST, Manifest, write_case};
use crate::probe::{answer, catalogue};
use crate::report::{AtomicFile, stdout};

/// Writes the cases and says how many.
pub(super) fn run(typed: &NewArguments) -> Result<ExitStatus> {
    let seed = config::option("--seed", &typed.seed, |text| {
        text.parse::<u64>().map_err(|_| "must be a whole number from 0 to 18446744073709551615".to_string())
    })?;
    let only = capabilities(&typed.only)?;
    let folder = Path::new(&typed.folder);
    let replaced = check_folder(folder, typed.force)?;
    let (cases, bytes) = write(folder, seed, &only)?;
    let before =
        replaced.map_or(String::new(), |old| format!("; replaced the probe of seed {} that was there", old.seed));
    stdout::print(|output| {
        writeln!(output, "{cases} cases, {:.1} MB, seed {seed}, in {}{before}", bytes as f64 / 1e6, folder.display())
    })?;
    Ok(ExitStatus::Upheld)
}

fn capabilities(names: &[String]) -> Result<Vec<Capability>> {
    let words = names.iter().flat_map(|name| name.split(','));
    words
        .map(|name| {
            Capability::of_name(name).ok_or_else(|| {
                let known: Vec<&str> = Capability::ALL.iter().map(|capability| capability.name()).collect();
                anyhow!("--only {name}: must be one of {}", known.join(", "))
            })
        })
        .collect()
}

/// The probe that is there and will be replaced, with its answers.
fn check_folder(folder: &Path, force: bool) -> Result<Option<Manifest>> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => bail!("{}: {error}", folder.display()),
    };
    if let Ok(old) = Manifest::read(folder) {
        for line in &old.cases {
            // What is not there need not go.
            let _ = fs::remove_file(folder.join(&line.file));
        }
        answer::remove(folder, &old);
        return Ok(Some(old));
    }
    if entries.next().is_some() && !force {
        bail!(
            "{}: the folder holds files that are no probe's; choose another, or --force to write beside them",
            folder.display()
        );
    }
    Ok(None)
}

/// Writes a probe; returns the number of cases and of bytes. The manifest comes last: where it is, everything is.
pub(super) fn write(folder: &Path, seed: u64, only: &[Capability]) -> Result<(usize, u64)> {
    let cases = catalogue::cases(seed, only);
    let manifest = Manifest::of(&cases, seed);
    let at = |path: &Path| path.display().to_string();
    for name in ["cases", "out"] {
        let path = folder.join(name);
        fs::create_dir_all(&path).with_context(|| at(&path))?;
    }
    let mut bytes = 0;
    for (case, line) in cases.iter().zip(&manifest.cases) {
        let path = folder.join(&line.file);
        let mut content = Vec::new();
        write_case(case, line, &mut content)?;
        bytes += content.len() as u64;
        fs::write(&path, content).with_context(|| at(&path))?;
    }
    AtomicFile::write_whole(folder.join(MANIFEST), |output| manifest.write(output))?;
    Ok((cases.len(), bytes))
}
