//! Standard output, where a reader that stops reading is not an error.

use std::io::{self, BufWriter, Write};

/// Passes everything on until the reader closes the pipe, and drops the rest in silence.
///
/// `attn variance | head -1` must end as the run does, with the exit code of its verdict. All other errors stay errors.
#[derive(Debug)]
pub struct PipeTolerant<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> PipeTolerant<W> {
    /// Wraps a writer.
    pub fn new(inner: W) -> Self {
        Self { inner, closed: false }
    }

    /// Whether the reader has gone: what is written from now on is seen by nobody.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn forgive<T>(&mut self, result: io::Result<T>, instead: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(instead)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for PipeTolerant<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let result = self.inner.write(bytes);
        self.forgive(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.flush();
        self.forgive(result, ())
    }
}

/// Writes to standard output what `render` produces, and flushes it.
///
/// # Errors
/// Everything but a closed pipe, as one line that says that standard output could not be written and why.
pub fn print(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    print_to(io::stdout().lock(), render)
}

fn print_to(output: impl Write, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // The buffer lies outside: standard output by itself is flushed at every line.
    let mut writer = BufWriter::new(PipeTolerant::new(output));
    render(&mut writer)
        .and_then(|()| writer.flush())
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write to standard output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes and then fails with `kind`.
    struct Narrow {
        room: usize,
        kind: io::ErrorKind,
        calls_after_failure: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                self.calls_after_failure += 1;
                return Err(self.kind.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_ends_the_writing_without_an_error_and_is_tried_only_once() {
        let mut narrow = Narrow { room: 7, kind: io::ErrorKind::BrokenPipe, calls_after_failure: 0 };
        let text = vec![b'x'; 100_003];
        print_to(&mut narrow, |writer| writer.write_all(&text).and_then(|()| writer.write_all(&text)))
            .expect("not an error");
        assert_eq!((narrow.room, narrow.calls_after_failure), (0, 1));
    }

    #[test]
    fn a_full_disk_is_an_error_even_when_it_shows_only_at_the_last_flush() {
        let mut narrow = Narrow { room: 7, kind: io::ErrorKind::StorageFull, calls_after_failure: 0 };
        let error = print_to(&mut narrow, |writer| writer.write_all(b"eleven byte")).expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write to standard output: "), "{error}");
    }

    #[test]
    fn what_fits_arrives_unchanged() {
        let mut bytes = Vec::new();
        print_to(&mut bytes, |writer| writeln!(writer, "α,1")).expect("a vector takes every byte");
        assert_eq!(bytes, "α,1\n".as_bytes());
    }

    #[test]
    fn a_pipe_whose_reader_has_gone_is_not_an_error() {
        let (reader, writer) = io::pipe().expect("the system has pipes");
        drop(reader);
        print_to(writer, |writer| writer.write_all(&vec![b'x'; 100_003])).expect("not an error");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_full_device_is_an_error_in_one_line() {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let error = print_to(full, |writer| writer.write_all(b"x")).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "cannot write to standard output: No space left on device (os error 28)");
    }
}
