//! Bounded reads of the files that a configuration names.
//!
//! A path can name a device without an end, or a pipe that never gets a byte. A read of one ends with an error: after
//! `max_bytes`, or after [`PIPE_TIMEOUT`], which all reads [`together`] share. So they do the [rounds](take_rounds) of hashing that
//! key stores need. [`recorded`] returns which files were read, so that
//! their changes can be noticed.

mod record;

pub use self::record::{FileRecord, note, recorded, unrecorded};

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Largest password or token, in bytes.
pub const MAX_SECRET_BYTES: usize = 64 << 10;
/// Largest set of keys for tokens (JWKS), in bytes. Key sets have a few thousand bytes.
pub const MAX_KEY_SET_BYTES: usize = 1 << 20;
/// Largest file of API keys, in bytes: two million entries.
pub const MAX_API_KEY_BYTES: usize = 256 << 20;
/// Largest file of certificates or keys, in bytes.
pub const MAX_CERTIFICATE_BYTES: usize = 16 << 20;
/// Longest time until the end of a pipe or a terminal.
pub const PIPE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a process that writes to a pipe.
const WRITER_TIMEOUT: Duration = Duration::from_secs(1);
/// Error of a pipe after [`PIPE_TIMEOUT`].
const NO_END: &str = "it is a pipe or a terminal that did not end within 5 seconds";
/// Error of a pipe once all pipes [`together`] have taken [`PIPE_TIMEOUT`].
const NO_TIME: &str = "it is a pipe, and the pipes of the configuration did not all end within 5 seconds";
/// Rounds of hashing that the key stores read [`together`] may take: about two seconds without instructions for hashes, and
/// those of three hundred stores as `keytool` writes them.
pub const MAX_ROUNDS_TOGETHER: u64 = 10_000_000;
/// Pause between two reads of a pipe.
const PAUSE: Duration = Duration::from_millis(5);

thread_local! {
    /// Time that pipes may still take, within [`together`].
    static TIME_LEFT: Cell<Option<Duration>> = const { Cell::new(None) };
    /// Rounds of hashing that stores may still take, within [`together`].
    static ROUNDS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `read`, whose reads of pipes on this thread take [`PIPE_TIMEOUT`] at most in all, and its stores
/// [`MAX_ROUNDS_TOGETHER`].
pub fn together<T>(read: impl FnOnce() -> T) -> T {
    let before = (TIME_LEFT.replace(Some(PIPE_TIMEOUT)), ROUNDS_LEFT.replace(Some(MAX_ROUNDS_TOGETHER)));
    let result = read();
    TIME_LEFT.set(before.0);
    ROUNDS_LEFT.set(before.1);
    result
}

/// Takes `rounds` of hashing from those that are left to all stores [`together`]. Returns false, and takes none, if fewer are left.
#[must_use]
pub fn take_rounds(rounds: u64) -> bool {
    let Some(left) = ROUNDS_LEFT.get() else { return true };
    let rest = left.checked_sub(rounds);
    ROUNDS_LEFT.set(Some(rest.unwrap_or(left)));
    rest.is_some()
}

/// Returns the bytes of the file or pipe at `path`, at most `max_bytes`.
///
/// # Errors
/// The file is unreadable, a folder or a socket, or it has more bytes. A pipe has no writer, or does not end in time.
pub fn read(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    record::read(path, || read_unrecorded(path, max_bytes))
}

fn read_unrecorded(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    if kind.is_socket() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a socket, not a file"));
    }
    // Without it, the kernel waits for a writer within `open`.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?.take(max_bytes as u64 + 1);
    let mut bytes = Vec::new();
    let opened = Instant::now();
    let complete = loop {
        match is_complete(&mut file, &mut bytes, kind.is_fifo(), opened) {
            Ok(false) => sleep(PAUSE),
            result => break result,
        }
    };
    take_time(opened);
    complete?;
    within_bound(bytes, max_bytes)
}

/// Bytes of standard input, which ends once.
static STDIN: OnceLock<Vec<u8>> = OnceLock::new();

/// Returns the bytes of standard input, if they were read.
#[must_use]
pub fn stdin_bytes() -> Option<&'static [u8]> {
    STDIN.get().map(Vec::as_slice)
}

/// Returns the bytes of standard input, at most `max_bytes`, and the same ones each time. It may be a socket, as in a process that an
/// editor starts.
///
/// # Errors
/// It is closed or a device, it cannot be read, it has more bytes, or it does not end in time.
pub fn read_stdin(max_bytes: usize) -> io::Result<&'static [u8]> {
    if let Some(bytes) = stdin_bytes() {
        return Ok(bytes);
    }
    let bytes = read_stdin_once(max_bytes)?;
    Ok(STDIN.get_or_init(|| bytes))
}

fn read_stdin_once(max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Rust opens /dev/null in place of a closed one.
    if stdin.metadata()?.file_type().is_char_device() && !stdin.is_terminal() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "standard input is closed, or a device"));
    }
    let (mut bytes, mut part) = (Vec::new(), [0; 8 << 10]);
    let opened = Instant::now();
    while bytes.len() <= max_bytes {
        let left = time_left(PIPE_TIMEOUT).saturating_sub(opened.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::Error::new(ErrorKind::TimedOut, NO_END)),
            Ok(_) => match stdin.read(&mut part)? {
                0 => break,
                length => bytes.extend_from_slice(&part[..length]),
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    take_time(opened);
    within_bound(bytes, max_bytes)
}

/// Returns the text of the file or pipe at `path`, at most `max_bytes`.
///
/// # Errors
/// As for [`read`], and if the text is not UTF-8.
pub fn read_text(path: &Path, max_bytes: usize) -> io::Result<String> {
    let text = String::from_utf8(read(path, max_bytes)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Appends the bytes that are there to `bytes`. Returns false if more can follow.
fn is_complete(file: &mut io::Take<File>, bytes: &mut Vec<u8>, is_pipe: bool, opened: Instant) -> io::Result<bool> {
    match file.read_to_end(bytes) {
        // A pipe also ends while no process has it open for writing.
        Ok(_) if is_pipe && bytes.is_empty() => {
            within(WRITER_TIMEOUT, opened, "it is an empty pipe to which no process writes")
        }
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => within(PIPE_TIMEOUT, opened, NO_END),
        Err(error) => Err(error),
    }
}

fn within(timeout: Duration, opened: Instant, otherwise: &str) -> io::Result<bool> {
    let left = time_left(timeout);
    match opened.elapsed() {
        elapsed if elapsed < left => Ok(false),
        _ => Err(io::Error::new(ErrorKind::TimedOut, if left < timeout { NO_TIME } else { otherwise })),
    }
}

/// Returns the shorter one of `timeout` and the time left.
fn time_left(timeout: Duration) -> Duration {
    TIME_LEFT.get().map_or(timeout, |left| left.min(timeout))
}

/// Takes the time since `opened` from the time left.
fn take_time(opened: Instant) {
    TIME_LEFT.set(TIME_LEFT.get().map(|left| left.saturating_sub(opened.elapsed())));
}

fn within_bound(bytes: Vec<u8>, max_bytes: usize) -> io::Result<Vec<u8>> {
    if bytes.len() > max_bytes {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {}", size(max_bytes))));
    }
    Ok(bytes)
}

fn size(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn pipe(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        path
    }

    fn error(path: &Path) -> String {
        read(path, 64 << 10).unwrap_err().to_string()
    }

    #[test]
    fn a_file_has_at_most_the_bytes_of_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 1024]).unwrap();
        assert_eq!(read(&path, 1024).unwrap(), [7; 1024]);
        std::fs::write(&path, [7; 1025]).unwrap();
        assert_eq!(read(&path, 1024).unwrap_err().to_string(), "it has more than 1 KiB");
        assert_eq!(read_text(&path, 1025).unwrap().len(), 1025);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 1025).unwrap_err().to_string(), "it is not UTF-8");
    }

    #[test]
    fn a_device_without_an_end_a_folder_and_a_socket_are_refused() {
        assert_eq!(error(Path::new("/dev/zero")), "it has more than 64 KiB");
        assert_eq!(read(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string(), "it has more than 1 MiB");
        assert_eq!(read(Path::new("/dev/null"), 1).unwrap(), []);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(error(folder.path()), "it is a folder, not a file");
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(error(&socket), "it is a socket, not a file");
        assert!(error(&folder.path().join("absent")).starts_with("No such file"));
    }

    #[test]
    fn a_pipe_without_a_writer_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(error(&pipe(&folder)), "it is an empty pipe to which no process writes");
    }

    #[test]
    fn a_pipe_that_does_not_end_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        // Open for both: neither end waits for the other.
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        io::Write::write_all(&mut writer, b"never complete").unwrap();
        let opened = Instant::now();
        assert_eq!(error(&path), "it is a pipe or a terminal that did not end within 5 seconds");
        assert!(opened.elapsed() >= PIPE_TIMEOUT);
    }

    #[test]
    fn pipes_that_are_read_together_take_the_time_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        let _writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let opened = Instant::now();
        let errors = together(|| [error(&path), error(&path), error(&path)]);
        assert_eq!(errors, [NO_END, NO_TIME, NO_TIME]);
        assert!(opened.elapsed() < 2 * PIPE_TIMEOUT, "{:?}", opened.elapsed());
        assert_eq!(TIME_LEFT.get(), None);
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(&folder);
        let hold = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let to = path.clone();
        let writer = std::thread::spawn(move || {
            let mut writer = OpenOptions::new().write(true).open(to).unwrap();
            // More than a pipe holds: the writer waits for the reader.
            io::Write::write_all(&mut writer, &[b'x'; 300_000]).unwrap();
            drop((writer, hold));
        });
        assert_eq!(read(&path, 1 << 20).unwrap().len(), 300_000);
        writer.join().unwrap();
    }
}
