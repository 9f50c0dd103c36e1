//! Trials that stand in files already: those of shards that are merged, or of a run that was interrupted.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use crate::experiment::per_trial::Layout;
use crate::experiment::per_trial::cover::{Cover, cover};
use crate::experiment::per_trial::read::{self, Prefix, Scan, Stretch};
use crate::report::{PartialFile, file};

/// Which trials of which points need not be drawn, and where they stand.
pub struct Recorded {
    files: Vec<PathBuf>,
    /// By point, in order of trials, with the number of the file.
    stretches: Vec<Vec<(usize, Stretch)>>,
}

/// What an interrupted run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing, or less than the header.
    Nothing,
    /// The header and some rows.
    Some,
    /// The whole file, under its own name.
    Everything,
}

impl Recorded {
    /// Nothing.
    pub fn nothing(points: usize) -> Self {
        Self { files: Vec::new(), stretches: vec![Vec::new(); points] }
    }

    /// The whole run, in the files of its shards; and the planned trials of every point.
    ///
    /// # Errors
    /// A file that cannot be read, is cut off, or is of another run; trials that are in no file, or in two.
    pub fn of_shards(files: &[PathBuf], layout: &Layout) -> Result<(Self, Vec<u64>)> {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let mut scans: Vec<Scan> = Vec::with_capacity(files.len());
        for (path, name) in files.iter().zip(&names) {
            let scan = read::scan(layout, open(path)?).map_err(|reason| anyhow!("{name}: {reason}"))?;
            scans.push(scan);
        }
        if scans.iter().all(Scan::is_empty) {
            bail!("{}: has no row", names.join(", "));
        }
        let Cover { stretches, plans } = cover(layout, &scans, &names).map_err(|reason| anyhow!("{reason}"))?;
        Ok((Self { files: files.to_vec(), stretches }, plans))
    }

    /// What an earlier run left of the file, whose plan is `plans`; the partial file is cut to what is whole of it.
    ///
    /// # Errors
    /// A file of another run, or one that cannot be read or written.
    pub fn of_interrupted(file: &mut PartialFile, layout: &Layout, plans: &[u64]) -> Result<(Self, Left)> {
        let partial = file.path().to_owned();
        let found = |path: &Path| -> Result<Prefix> {
            let prefix = read::prefix(layout, plans, open(path)?);
            prefix.map_err(|reason| anyhow!("--resume {}: {reason}", path.display()))
        };
        let (path, Prefix { stretches, bytes, whole }) = if file.length()? == 0 && file.destination().exists() {
            let path = file.destination().to_owned();
            let prefix = found(&path)?;
            if !prefix.whole {
                file.copy_start(prefix.bytes)?;
            }
            (path, prefix)
        } else {
            let prefix = found(&partial)?;
            file.keep(prefix.bytes)?;
            (partial.clone(), Prefix { whole: false, ..prefix })
        };
        let mut recorded = Self::nothing(layout.points());
        stretches.into_iter().for_each(|stretch| recorded.stretches[stretch.point].push((0, stretch)));
        let left = match (whole, bytes) {
            (true, _) => Left::Everything,
            (false, 0) => Left::Nothing,
            (false, _) => Left::Some,
        };
        recorded.files = vec![if whole { path } else { partial }];
        Ok((recorded, left))
    }

    /// Number of trials that are there.
    pub fn trials(&self) -> u64 {
        self.stretches.iter().flatten().map(|(_, stretch)| stretch.trials.end - stretch.trials.start).sum()
    }

    /// Hands the values of a point's trials to `each`, in order; returns the first trial that is not there.
    ///
    /// # Errors
    /// A file has changed meanwhile, or `each` fails.
    pub fn replay(
        &self,
        layout: &Layout,
        point: usize,
        first: u64,
        mut each: impl FnMut(u64, &[f64]) -> Result<()>,
    ) -> Result<u64> {
        let mut next = first;
        for (file, stretch) in &self.stretches[point] {
            let path = &self.files[*file];
            read::replay(layout, stretch, open(path)?, &mut each).with_context(|| path.display().to_string())?;
            next = stretch.trials.end;
        }
        Ok(next)
    }
}

fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|error| anyhow!("{}: {}", path.display(), file::reason(&error)))?;
    // What cannot be read twice from any place: a pipe. A folder is found when it is read.
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        bail!("{}: is no regular file", path.display());
    }
    Ok(file)
}
