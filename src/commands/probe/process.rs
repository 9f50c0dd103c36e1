//! Running an adapter: a command that dies or hangs costs one case, not the rest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::probe::answer::{folder_of, is_answered, path_of};
use crate::probe::manifest::{CaseLine, Manifest};
use crate::report::interrupt::ProcessGroup;

/// How often a running command is looked at.
const TICK: Duration = Duration::from_millis(20);

/// Starts in a row that end without one answer, after which the command is given up.
const FRUITLESS_STARTS: usize = 3;

/// Bytes at the end of the log among which the last line is sought.
const TAIL: u64 = 4096;

/// What stands for folders and files in a command.
const WHOLE: [&str; 2] = ["{cases}", "{outputs}"];
const SINGLE: [&str; 2] = ["{case}", "{output}"];

/// A command that answers cases.
#[derive(Debug, Clone)]
pub(super) struct Adapter {
    /// The program and its arguments, with `{cases}` and `{outputs}` or `{case}` and `{output}`; both folders are appended if it has
    /// none of them.
    pub command: Vec<String>,
    /// The longest time without an answer.
    pub patience: Duration,
}

/// What a command left when it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// Every case has an answer or a reason.
    AllAnswered,
    /// It ended with exit code 0 while cases had no answer.
    EndedEarly,
    /// Started for each case, it ended with exit code 0 and left no answer to some.
    NoOutput,
}

impl Completion {
    /// Why a case has no answer; `is_last` if no case after it has one.
    pub(super) fn reason(self, is_last: bool) -> &'static str {
        match (self, is_last) {
            (Self::EndedEarly, true) => "no answer: the command ended with exit code 0 before this case",
            (Self::EndedEarly, false) => "no answer: the command left this case out, and ended with exit code 0",
            (Self::NoOutput, _) => "no answer: the command ended with exit code 0 and wrote none",
            (Self::AllAnswered, _) => "no answer",
        }
    }
}

/// How a started command ended.
enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It gave no answer for too long and was killed.
    TimedOut,
}

impl Adapter {
    /// Has the command answer every case of the probe in `folder` that has no answer yet; `progress` hears of each answer. Returns how it
    /// ended.
    ///
    /// # Errors
    /// The command cannot be started, or the folder not be written.
    pub(super) fn answer(&self, folder: &Path, manifest: &Manifest, progress: &dyn Fn()) -> Result<Completion> {
        fs::create_dir_all(folder_of(folder)).with_context(|| folder_of(folder).display().to_string())?;
        let single = self.command.iter().any(|word| SINGLE.iter().any(|name| word.contains(name)));
        let mut log = Log::create(folder)?;
        if single {
            return self.one_by_one(folder, manifest, &mut log, progress);
        }
        let mut fruitless = 0;
        loop {
            let before = unanswered(folder, manifest);
            if before.is_empty() {
                return Ok(Completion::AllAnswered);
            }
            let command = self.words(&[(WHOLE[0], folder), (WHOLE[1], &folder_of(folder))]);
            let ended = self.watch(
                &command,
                &mut log,
                &mut || {
                    let left = unanswered(folder, manifest).len();
                    (left, left == 0)
                },
                progress,
            )?;
            let after = unanswered(folder, manifest);
            let reason = match ended {
                // It ended by its own will: what it left out, it left out.
                Ended::Exited(status) if status.success() => {
                    return Ok(if after.is_empty() { Completion::AllAnswered } else { Completion::EndedEarly });
                }
                Ended::Exited(status) => format!("the command ended with {}{}", words(status), log.last_line()),
                Ended::TimedOut => self.timed_out(),
            };
            fruitless = if after.len() < before.len() { 0 } else { fruitless + 1 };
            let given_up = fruitless == FRUITLESS_STARTS;
            let failed: Vec<&CaseLine> = if given_up { after } else { after.into_iter().take(1).collect() };
            for line in failed {
                write_error(folder, line, &reason)?;
                progress();
            }
        }
    }

    fn one_by_one(&self, folder: &Path, manifest: &Manifest, log: &mut Log, progress: &dyn Fn()) -> Result<Completion> {
        for line in unanswered(folder, manifest) {
            let output = path_of(folder, line, "safetensors");
            let command = self.words(&[
                (SINGLE[0], &folder.join(&line.file)),
                (SINGLE[1], &output),
                (WHOLE[0], folder),
                (WHOLE[1], &folder_of(folder)),
            ]);
            let ended = self.watch(&command, log, &mut || (1, false), &|| {})?;
            let reason = match ended {
                Ended::Exited(status) if !status.success() => {
                    Some(format!("the command ended with {}{}", words(status), log.last_line()))
                }
                Ended::TimedOut => Some(self.timed_out()),
                Ended::Exited(_) => None,
            };
            if let Some(reason) = reason
                && !path_of(folder, line, "unsupported").exists()
            {
                write_error(folder, line, &reason)?;
            }
            progress();
        }
        let left = unanswered(folder, manifest);
        Ok(if left.is_empty() { Completion::AllAnswered } else { Completion::NoOutput })
    }

    fn timed_out(&self) -> String {
        format!("timed out: no answer for {} s", self.patience.as_secs_f64())
    }

    fn words(&self, places: &[(&str, &Path)]) -> Vec<String> {
        let replaced = |word: &String| {
            let fill = |word: String, (name, path): &(&str, &Path)| word.replace(name, &path.display().to_string());
            places.iter().fold(word.clone(), fill)
        };
        let mut words: Vec<String> = self.command.iter().map(replaced).collect();
        if words == self.command {
            words.extend(places.iter().map(|(_, path)| path.display().to_string()));
        }
        words
    }

    /// Starts the command and waits until it ends, or until `left` (how many cases are left, and whether that is all) has not
    /// fallen for too long.
    fn watch(
        &self,
        words: &[String],
        log: &mut Log,
        left: &mut dyn FnMut() -> (usize, bool),
        progress: &dyn Fn(),
    ) -> Result<Ended> {
        let mut command = Command::new(&words[0]);
        let (output, errors) = log.handles()?;
        command.args(&words[1..]).stdin(Stdio::null()).stdout(output).stderr(errors);
        let (mut child, group) = ProcessGroup::spawn(&mut command)
            .map_err(|error| anyhow!("the command '{}' cannot be started: {error}", words[0]))?;
        let (mut known, _) = left();
        let mut since = Instant::now();
        loop {
            let ended = child.try_wait()?;
            let (now, _) = left();
            if now < known {
                (now..known).for_each(|_| progress());
                (known, since) = (now, Instant::now());
            }
            if let Some(status) = ended {
                // Children it left behind would write among the next answers.
                group.kill();
                return Ok(Ended::Exited(status));
            }
            if since.elapsed() >= self.patience {
                group.kill();
                // Where there are no groups; an error means that it has ended.
                let _ = child.kill();
                child.wait()?;
                return Ok(Ended::TimedOut);
            }
            std::thread::sleep(TICK);
        }
    }
}

fn unanswered<'a>(folder: &Path, manifest: &'a Manifest) -> Vec<&'a CaseLine> {
    manifest.cases.iter().filter(|line| !is_answered(folder, line)).collect()
}

fn write_error(folder: &Path, line: &CaseLine, reason: &str) -> Result<()> {
    let path = path_of(folder, line, "error");
    fs::write(&path, format!("{reason}\n")).with_context(|| path.display().to_string())
}

/// `exit status 1`, `signal 9`.
fn words(status: ExitStatus) -> String {
    let text = status.to_string();
    text.replace("exit status: ", "exit status ").replace("signal: ", "signal ")
}

/// Where the command's own words go: `out/run.log`.
struct Log {
    file: File,
    /// Where the words of the present start begin.
    start: u64,
}

impl Log {
    fn create(folder: &Path) -> Result<Self> {
        let path = folder_of(folder).join("run.log");
        let open = || OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path);
        Ok(Self { file: open().with_context(|| path.display().to_string())?, start: 0 })
    }

    /// Two ends for the command, which write one after the other.
    fn handles(&mut self) -> io::Result<(File, File)> {
        self.start = self.file.seek(SeekFrom::End(0))?;
        Ok((self.file.try_clone()?, self.file.try_clone()?))
    }

    /// `: ` and the last line that the command wrote, if it wrote any.
    fn last_line(&mut self) -> String {
        let mut read = || -> io::Result<String> {
            let end = self.file.seek(SeekFrom::End(0))?;
            self.file.seek(SeekFrom::Start(self.start.max(end.saturating_sub(TAIL))))?;
            let mut bytes = Vec::new();
            (&self.file).take(TAIL).read_to_end(&mut bytes)?;
            self.file.seek(SeekFrom::End(0))?;
            self.file.flush()?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_default();
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        last.map_or(String::new(), |line| format!(": {line}"))
    }
}
