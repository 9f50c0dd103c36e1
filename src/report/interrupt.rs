//! Temporary files that must not outlive an interrupted run.
//!
//! A signal ends a process without running destructors. So the temporaries of [`super::file::AtomicFile`] are listed here, and a
//! thread that waits for SIGINT (Ctrl-C), SIGTERM and SIGHUP removes them and ends the process with 128 + the signal's number, as
//! shells do (130, 143, 129). Signals are turned into bytes on a pipe (signal-hook), so nothing but that write runs in a signal handler.
//! A signal the parent process told us to ignore (`nohup`, a background job) stays ignored.
//!
//! Where there are no such signals (Windows) an interrupted run can leave a file whose name ends with
//! [`SUFFIX`](super::file::SUFFIX).

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static WAITER: Once = Once::new();
/// How long commands that were started here have to end when the run is interrupted.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(150);

/// A panic while the list was locked leaves it whole: a push or a removal.
fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`temporaries`].
fn groups() -> MutexGuard<'static, Vec<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child process and all of its children, which do not outlive this one when a signal ends it.
///
/// Where there are no process groups (Windows) the child alone is meant.
#[derive(Debug)]
pub struct ProcessGroup {
    id: u32,
}

impl ProcessGroup {
    /// Starts `command` as the first of a group of its own, with no signal handled in between.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        WAITER.call_once(wait_for_signals);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut list = groups();
        let child = command.spawn()?;
        let id = child.id();
        list.push(id);
        Ok((child, Self { id }))
    }

    /// Ends every process of the group that is still there.
    pub fn kill(&self) {
        kill_group(self.id);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        groups().retain(|id| *id != self.id);
    }
}

#[cfg(unix)]
fn kill_group(id: u32) {
    // None are left, or they are not ours to end: either way there is nothing more to do.
    if let Some(id) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

/// Ends every group: first asked, so that they can remove temporaries of their own, then without asking.
#[cfg(unix)]
fn end_groups() {
    let list = groups();
    for id in list.iter().filter_map(|&id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::TERM);
    }
    if !list.is_empty() {
        std::thread::sleep(PATIENCE);
    }
    list.iter().for_each(|&id| kill_group(id));
}

/// A place on the list, given up when dropped.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
}

impl Registration {
    /// Runs `create`, which makes a file and returns its path, and lists that file, with no signal handled in between. Starts to
    /// wait for signals at the first call.
    ///
    /// If the system does not let us wait for signals, the run goes on without: the worst that can follow is a leftover
    /// whose name tells what it is.
    ///
    /// # Errors
    /// Those of `create`; then nothing is listed.
    pub fn of<T>(create: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<(T, Self)> {
        WAITER.call_once(wait_for_signals);
        let mut list = temporaries();
        let (made, path) = create()?;
        // Absolute, so that a later change of the working folder does no harm.
        let path = std::path::absolute(&path).unwrap_or(path);
        list.push(path.clone());
        Ok((made, Self { path }))
    }

    /// Runs the step that gives the temporary its final name, with no signal handled in between: an interrupt comes
    /// either before (the temporary is removed) or after (the finished file stays).
    pub fn release<T>(self, finish: impl FnOnce() -> T) -> T {
        let mut list = temporaries();
        let result = finish();
        list.retain(|path| *path != self.path);
        drop(list);
        result
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        temporaries().retain(|path| *path != self.path);
    }
}

#[cfg(unix)]
fn wait_for_signals() {
    use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let signals: Vec<_> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !ignored_by_parent(signal)).collect();
    let Ok(mut signals) = Signals::new(signals) else {
        return;
    };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Locked until the process is gone, so that no file gets its final name any more.
            let list = temporaries();
            end_groups();
            for path in list.iter() {
                // Whether it worked is of no use to a process that ends.
                let _ = std::fs::remove_file(path);
            }
            std::process::exit(128 + signal);
        }
    };
    // Without the thread the signals would be swallowed; a system that cannot start one is about to fail anyway, and says so here.
    if let Err(error) = std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait) {
        super::notes::say(&format!("attn: cannot wait for signals ({error}): end this run with SIGKILL"));
    }
}

#[cfg(not(unix))]
fn wait_for_signals() {}

/// Whether the signal was set to be ignored when this process began (Linux; elsewhere it is taken that only SIGHUP may be).
#[cfg(unix)]
fn ignored_by_parent(signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return signal == signal_hook::consts::signal::SIGHUP;
    };
    mask_of_ignored(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signals of the line `SigIgn:` of Linux's process status: bit s − 1 for signal s (proc(5)).
#[cfg(unix)]
fn mask_of_ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_ignored_signals_are_read_from_the_process_status() {
        // proc(5): a hexadecimal mask; SIGHUP is 1 (bit 0), SIGINT 2 (bit 1), SIGTERM 15 (bit 14).
        assert_eq!(mask_of_ignored("Name:\tx\nSigIgn:\t0000000000004001\nSigCgt:\t02\n"), Some(0x4001));
        assert_eq!(mask_of_ignored("Name:\tx\n"), None);
    }

    #[test]
    fn a_registration_is_on_the_list_until_it_is_dropped_or_released() {
        let listed = |path: &Path| temporaries().iter().any(|entry| entry == path);
        let path = Path::new("/nonexistent/interrupt-test-1");
        let register = || Registration::of(|| Ok(((), path.to_owned()))).expect("nothing can fail").1;
        let registration = register();
        assert!(listed(path));
        drop(registration);
        assert!(!listed(path));
        assert_eq!(register().release(|| 7), 7);
        assert!(!listed(path));
    }
}
