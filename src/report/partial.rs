//! Files that grow while a long run goes on, and get their name when they are whole.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file;

/// The end of the name of a file that is not whole yet: `trials.csv.partial` beside `trials.csv`.
pub const ENDING: &str = ".partial";

/// After a flush later than this, what was written is made safe against a failure of power too.
const LONGEST_UNSYNCED: Duration = Duration::from_secs(10);

/// A file that is written as `NAME.partial` and renamed to NAME at [`PartialFile::commit`].
///
/// Unlike the temporary of an [`AtomicFile`](super::AtomicFile), what was written stays when the run is interrupted, killed or fails, so that a
/// later run goes on from there. A partial file is locked while it is open: two runs cannot write one file. (Where the file system
/// has no locks, they can.) One that is still empty is removed.
///
/// Every error is one line with the path and what failed.
#[derive(Debug)]
pub struct PartialFile {
    partial: PathBuf,
    destination: PathBuf,
    writer: Option<BufWriter<File>>,
    synced: Instant,
}

impl PartialFile {
    /// Opens what is there of `path`, or begins it. A path that ends with [`ENDING`] means the file without it.
    ///
    /// # Errors
    /// The path is a folder or no regular file, its folder is missing or cannot be written, another run is writing the file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let text = path.to_string_lossy();
        let meant = text.strip_suffix(ENDING).filter(|name| !name.is_empty()).map_or(path, Path::new);
        Self::open_meant(meant).map_err(|error| file::named(meant, &error))
    }

    fn open_meant(path: &Path) -> io::Result<Self> {
        let destination = file::destination(path)?;
        let mut partial = destination.clone().into_os_string();
        partial.push(ENDING);
        let partial = PathBuf::from(partial);
        // Another run may have given the file its name between opening and locking it: then this is not the partial file any more.
        for _ in 0..100 {
            let opened = OpenOptions::new().read(true).append(true).create(true).open(&partial)?;
            match opened.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, "another run is writing it"));
                }
                // A file system without locks.
                Err(TryLockError::Error(_)) | Ok(()) => {}
            }
            if is_at(&opened, &partial) {
                let writer = Some(BufWriter::new(opened));
                return Ok(Self { partial, destination, writer, synced: Instant::now() });
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "other runs are writing it"))
    }

    /// Where the rows are until [`PartialFile::commit`].
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// The file that it becomes.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// Bytes that are in the partial file.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn length(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.partial)?.len())
    }

    /// Keeps the first `bytes` bytes of the partial file and goes on after them.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn keep(&mut self, bytes: u64) -> io::Result<()> {
        let cut = |file: &mut File| {
            file.set_len(bytes)?;
            file.seek(SeekFrom::End(0)).map(drop)
        };
        cut(self.writer()?.get_mut()).map_err(|error| file::named(&self.partial, &error))
    }

    /// Begins with the first `bytes` bytes of the file that this one will replace.
    ///
    /// # Errors
    /// One cannot be read, the other not written.
    pub fn copy_start(&mut self, bytes: u64) -> io::Result<()> {
        let mut source = File::open(&self.destination)?.take(bytes);
        let copied = io::copy(&mut source, self.writer()?).and_then(|_| self.flush());
        copied.map_err(|error| file::named(&self.partial, &error))
    }

    /// Flushes, syncs to the disk and gives the file its name.
    ///
    /// # Errors
    /// The disk is full, or the folder has changed since; the partial file then stays.
    pub fn commit(mut self) -> io::Result<()> {
        let commit = |partial: &mut Self| {
            let writer = partial.writer()?;
            writer.flush()?;
            writer.get_ref().sync_all()?;
            fs::rename(&partial.partial, &partial.destination)?;
            // Closed, and by that unlocked, after the rename: whoever waits for the lock finds the whole file.
            partial.writer = None;
            file::sync_folder_of(&partial.destination);
            Ok(())
        };
        commit(&mut self).map_err(|error| file::named(&self.destination, &error))
    }

    /// Removes the partial file: what it would become is there already.
    pub fn discard(mut self) {
        self.writer = None;
        // What is left of it does no harm.
        let _ = fs::remove_file(&self.partial);
    }

    fn writer(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.writer.as_mut().ok_or_else(|| io::Error::other("it is closed"))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.writer()?.write(bytes);
        // Interrupted keeps its bare form: callers repeat the call then.
        result.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => file::named(&self.partial, &error),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let due = self.synced.elapsed() >= LONGEST_UNSYNCED;
        let flushed =
            self.writer()?.flush().and_then(|()| if due { self.writer()?.get_ref().sync_data() } else { Ok(()) });
        if due {
            self.synced = Instant::now();
        }
        flushed.map_err(|error| file::named(&self.partial, &error))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        // An error was told when it was first met.
        let _ = writer.flush();
        if writer.get_ref().metadata().is_ok_and(|found| found.len() == 0) {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Whether the open file is the one that now has this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder for the test")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("readable");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_written_stays_and_is_gone_on_with_until_it_has_its_name() {
        let folder = folder();
        let path = folder.path().join("t.csv");
        let mut file = PartialFile::open(&path).expect("writable");
        file.write_all(b"one\ntw").expect("room");
        drop(file);
        assert_eq!(names(folder.path()), ["t.csv.partial"]);
        // The partial file's own name means the same file.
        let mut file = PartialFile::open(folder.path().join("t.csv.partial")).expect("writable");
        assert_eq!(file.length().expect("there"), 6);
        file.keep(4).expect("room");
        file.write_all(b"three\n").expect("room");
        file.commit().expect("room");
        assert_eq!(names(folder.path()), ["t.csv"]);
        assert_eq!(fs::read_to_string(&path).expect("there"), "one\nthree\n");
    }

    #[test]
    fn one_that_nothing_was_written_to_leaves_nothing() {
        let folder = folder();
        drop(PartialFile::open(folder.path().join("t.csv")).expect("writable"));
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn two_runs_cannot_write_one_file() {
        let folder = folder();
        let path = folder.path().join("t.csv");
        let first = PartialFile::open(&path).expect("writable");
        let error = PartialFile::open(&path).expect_err("locked");
        assert!(error.to_string().ends_with("t.csv': another run is writing it"), "{error}");
        drop(first);
        PartialFile::open(&path).expect("free again");
    }

    #[test]
    fn a_rename_that_fails_leaves_the_partial_file() {
        let folder = folder();
        let path = folder.path().join("t.csv");
        let mut file = PartialFile::open(&path).expect("writable");
        file.write_all(b"one\n").expect("room");
        fs::create_dir(&path).expect("room");
        let error = file.commit().expect_err("a folder has the name");
        assert!(error.to_string().contains("t.csv"), "{error}");
        assert_eq!(names(folder.path()), ["t.csv", "t.csv.partial"]);
        assert_eq!(fs::read_to_string(folder.path().join("t.csv.partial")).expect("there"), "one\n");
    }

    #[test]
    fn a_folder_and_a_device_are_refused() {
        let folder = folder();
        assert!(PartialFile::open(folder.path()).expect_err("a folder").to_string().ends_with("it is a folder"));
        assert!(PartialFile::open("/dev/null").expect_err("a device").to_string().ends_with("it is no regular file"));
        assert!(PartialFile::open(folder.path().join("no/t.csv")).is_err());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn the_start_of_the_file_that_is_replaced_can_be_taken() {
        let folder = folder();
        let path = folder.path().join("t.csv");
        fs::write(&path, "one\ntwo\nthr").expect("room");
        let mut file = PartialFile::open(&path).expect("writable");
        file.copy_start(8).expect("room");
        file.write_all(b"3\n").expect("room");
        assert_eq!(fs::read_to_string(&path).expect("there"), "one\ntwo\nthr");
        file.commit().expect("room");
        assert_eq!(fs::read_to_string(&path).expect("there"), "one\ntwo\n3\n");
    }
}
