//! Files that are written whole or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::interrupt::Registration;
use super::stdout::PipeTolerant;

/// The end of the name of every temporary: `.results.csv.XXXXXX.attn-tmp` beside `results.csv`. A file of such a name is left
/// only by a run that was killed (SIGKILL, power) and can be deleted.
pub const SUFFIX: &str = ".attn-tmp";

/// A file that gets its name, and replaces an older one, only at [`AtomicFile::commit`].
///
/// [`AtomicFile::create`] makes a temporary in the same folder at once, so that a path that cannot be written is known before
/// a long run and not after it. Dropped without commit, or interrupted by a signal, it leaves nothing behind and the older file
/// as it was. A symbolic link is written through; the permissions of a replaced file are kept, a new file gets what the process's
/// umask leaves of 0666. (A replaced file gets a new inode: other hard links keep the old content.)
///
/// What is no regular file (`/dev/null`, a FIFO, `/dev/stdout`, `/dev/fd/N`) cannot be replaced and is written directly; a reader
/// that closes the pipe is then no error.
///
/// Every error is one line with the path and what failed.
#[derive(Debug)]
pub struct AtomicFile {
    shown: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Replace { writer: BufWriter<File>, temporary: TempPath, destination: PathBuf, registration: Registration },
    Direct(BufWriter<PipeTolerant<File>>),
    Stdout(BufWriter<PipeTolerant<io::Stdout>>),
}

impl AtomicFile {
    /// Prepares to write `path`.
    ///
    /// # Errors
    /// The path is a folder, its folder is missing or cannot be written, the file there is read-only, or a link leads in a circle.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let target = Target::open(path).map_err(|error| named(path, &error))?;
        Ok(Self { shown: path.to_owned(), target })
    }

    /// Flushes, syncs to the disk and gives the file its name.
    ///
    /// # Errors
    /// The disk is full, or the folder has changed since; an older file is then as it was.
    pub fn commit(self) -> io::Result<()> {
        let Self { shown, target } = self;
        target.commit().map_err(|error| named(&shown, &error))
    }

    /// Writes what `render` produces to `path`, whole or not at all.
    ///
    /// # Errors
    /// Those of `render`, [`AtomicFile::create`] and [`AtomicFile::commit`].
    pub fn write_whole(
        path: impl AsRef<Path>,
        render: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = Self::create(path)?;
        render(&mut file)?;
        file.commit()
    }
}

impl Target {
    fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is empty"));
        }
        if let Some(stream) = standard_stream(path) {
            return Self::open_stream(path, stream);
        }
        let destination = follow_links(path)?;
        match fs::metadata(&destination) {
            Ok(found) if found.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
            Ok(found) if found.is_file() => Self::replace(destination, Some(&found)),
            Ok(_) => Ok(Self::Direct(direct(OpenOptions::new().write(true).open(path)?))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::replace(destination, None),
            Err(error) => Err(error),
        }
    }

    fn open_stream(path: &Path, stream: Stream) -> io::Result<Self> {
        match stream {
            Stream::Output => Ok(Self::Stdout(BufWriter::new(PipeTolerant::new(io::stdout())))),
            // Appending: opened anew, a redirected file would otherwise be overwritten from its start.
            Stream::Other => Ok(Self::Direct(direct(OpenOptions::new().append(true).open(path)?))),
        }
    }

    fn replace(destination: PathBuf, existing: Option<&fs::Metadata>) -> io::Result<Self> {
        if let Some(found) = existing {
            // A rename would replace a file that nobody may write; the run must not.
            if found.permissions().readonly() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file there is read-only"));
            }
            OpenOptions::new().write(true).open(&destination)?;
        }
        let name = destination
            .file_name()
            .filter(|_| !ends_with_separator(&destination))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path must end with the name of a file"))?;
        let folder = folder_of(&destination);
        check_folder(folder)?;
        let create = || {
            let made = make_temporary(folder, name).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("no file can be made in the folder '{}': {}", folder.display(), cause(&error)),
                )
            })?;
            let path = made.path().to_owned();
            Ok((made, path))
        };
        let (made, registration) = Registration::of(create)?;
        let (file, temporary) = made.into_parts();
        if let Some(found) = existing {
            file.set_permissions(found.permissions())?;
        }
        Ok(Self::Replace { writer: BufWriter::new(file), temporary, destination, registration })
    }

    fn commit(self) -> io::Result<()> {
        match self {
            Self::Direct(mut writer) => writer.flush(),
            Self::Stdout(mut writer) => writer.flush(),
            Self::Replace { writer, temporary, destination, registration } => {
                let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.sync_all()?;
                // Closed before the rename: Windows does not rename an open file.
                drop(file);
                registration.release(|| temporary.persist(&destination).map_err(|error| error.error))?;
                sync_folder(folder_of(&destination));
                Ok(())
            }
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = match &mut self.target {
            Target::Replace { writer, .. } => writer.write(bytes),
            Target::Direct(writer) => writer.write(bytes),
            Target::Stdout(writer) => writer.write(bytes),
        };
        // Interrupted keeps its bare form: callers repeat the call then.
        result.map_err(
            |error| {
                if error.kind() == io::ErrorKind::Interrupted { error } else { named(&self.shown, &error) }
            },
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = match &mut self.target {
            Target::Replace { writer, .. } => writer.flush(),
            Target::Direct(writer) => writer.flush(),
            Target::Stdout(writer) => writer.flush(),
        };
        result.map_err(|error| named(&self.shown, &error))
    }
}

fn direct(file: File) -> BufWriter<PipeTolerant<File>> {
    BufWriter::new(PipeTolerant::new(file))
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write '{}': {}", path.display(), cause(error)))
}

/// The system's words for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    cause(error)
}

/// The system's words without "(os error 13)" and without the temporary's name, which nobody typed.
fn cause(error: &io::Error) -> String {
    let source = error.get_ref().and_then(|inner| inner.source()).map(ToString::to_string);
    let text = source.unwrap_or_else(|| error.to_string());
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

enum Stream {
    Output,
    Other,
}

/// The names under which a process finds its own open streams. They are told by name, because what lies behind them may be a
/// regular file, and replacing that would cut off the shell that redirected into it.
fn standard_stream(path: &Path) -> Option<Stream> {
    match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(Stream::Output),
        text if text == "/dev/stderr" || text.starts_with("/dev/fd/") || text.starts_with("/proc/self/fd/") => {
            Some(Stream::Other)
        }
        _ => None,
    }
}

/// The regular file that `path` means, there already or not, in a folder that is there.
pub(super) fn destination(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is empty"));
    }
    let destination = follow_links(path)?;
    match fs::metadata(&destination) {
        Ok(found) if found.is_dir() => return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        Ok(found) if !found.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if ends_with_separator(&destination) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path must end with the name of a file"));
    }
    check_folder(folder_of(&destination))?;
    Ok(destination)
}

/// Makes a rename in a file's folder durable, as far as the system lets us.
pub(super) fn sync_folder_of(path: &Path) {
    sync_folder(folder_of(path));
}

/// The end of a chain of symbolic links, whether it exists or not.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut current = path.to_owned();
    // Linux gives up after 40 links too (path_resolution(7)).
    for _ in 0..40 {
        match fs::symlink_metadata(&current) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&current)?;
                current = folder_of(&current).join(target);
            }
            _ => return Ok(current),
        }
    }
    Err(io::Error::other("its symbolic links lead in a circle"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn ends_with_separator(path: &Path) -> bool {
    path.to_string_lossy().ends_with(std::path::is_separator)
}

fn check_folder(folder: &Path) -> io::Result<()> {
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::new(io::ErrorKind::NotADirectory, format!("'{}' is not a folder", folder.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("the folder '{}' does not exist", folder.display())))
        }
        Err(error) => Err(error),
    }
}

/// Makes the temporary `.NAME.XXXXXX.attn-tmp`, open for writing, with the permissions of a new file.
fn make_temporary(folder: &Path, name: &OsStr) -> io::Result<NamedTempFile> {
    // File systems allow 255 bytes a name: 48 characters are at most 192 bytes, the rest of the name takes 17.
    let prefix = format!(".{}.", name.to_string_lossy().chars().take(48).collect::<String>());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The temporary's default is 0600; a result is for the user's colleagues too. The umask applies.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// Makes the rename itself durable. Not every file system lets a folder be synced, and the file is whole without it: best effort.
fn sync_folder(folder: &Path) {
    if cfg!(unix)
        && let Ok(handle) = File::open(folder)
    {
        let _ = handle.sync_all();
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
