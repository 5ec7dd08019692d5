//! Destination of a log: a standard stream, a file, or a named pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::queue::Chunk;

/// Time between two attempts to write into a full pipe.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Name of a destination.
#[derive(Clone, Debug)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// File or named pipe, appended to.
    File(PathBuf),
}

/// Open destination.
///
/// Files and named pipes are opened without blocking. Standard streams share their file description with other
/// processes, so they stay as they are, and a write may block the thread.
#[derive(Debug)]
pub(super) struct Output {
    target: Target,
    /// `None` for a named pipe without a reader.
    file: Option<File>,
}

/// Result of a write.
#[derive(Debug)]
pub(super) struct Written {
    /// Whole lines written.
    pub(super) lines: u64,
    /// Error that ended the write early.
    pub(super) error: Option<io::Error>,
}

impl Output {
    pub(super) fn open(target: Target) -> io::Result<Self> {
        let file = open(&target)?;
        Ok(Self { target, file })
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Opens the file again; keeps the old one on an error. Standard streams stay open.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Target::File(_) = self.target {
            self.file = open(&self.target)?;
        }
        Ok(())
    }

    /// Path of the file; empty for a standard stream.
    pub(super) fn path(&self) -> String {
        match &self.target {
            Target::File(path) => path.display().to_string(),
            Target::Stdout | Target::Stderr => String::new(),
        }
    }

    /// Writes a chunk. Waits for room in a full pipe until `is_interrupted`.
    pub(super) fn write(&mut self, Chunk { text, lines }: &Chunk, is_interrupted: &dyn Fn() -> bool) -> Written {
        if self.file.is_none() {
            match open(&self.target) {
                Ok(file) => self.file = file,
                Err(error) => return Written { lines: 0, error: Some(error) },
            }
        }
        let Some(file) = &mut self.file else {
            return Written { lines: 0, error: Some(io::Error::other("the named pipe has no reader")) };
        };
        let mut rest = &**text;
        while !rest.is_empty() {
            let error = match file.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    rest = &rest[count..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !is_interrupted() {
                        std::thread::sleep(RETRY_AFTER);
                        continue;
                    }
                    error
                }
                Err(error) => error,
            };
            let is_pipe_without_reader = error.kind() == io::ErrorKind::BrokenPipe;
            let lines = count_lines(&text[..text.len() - rest.len()]);
            if is_pipe_without_reader && matches!(self.target, Target::File(_)) {
                self.file = None;
            }
            return Written { lines, error: Some(error) };
        }
        Written { lines: *lines, error: None }
    }
}

/// Opens `target`; returns `None` for a named pipe without a reader.
fn open(target: &Target) -> io::Result<Option<File>> {
    let path = match target {
        // Duplicates, so that the locks and buffers of the standard library stay out of the way.
        Target::Stdout => return io::stdout().as_fd().try_clone_to_owned().map(|fd| Some(fd.into())),
        Target::Stderr => return io::stderr().as_fd().try_clone_to_owned().map(|fd| Some(fd.into())),
        Target::File(path) => path,
    };
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().create(true).append(true).custom_flags(nonblocking).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) && is_fifo(path) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
