//! Unix socket of the admin port: its file, from the start to the end of the process.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;
use tollgate_config::AdminSocket;

/// Length of the accept queue.
const BACKLOG: i32 = 128;
/// Attempts to lock the folder, which another gateway holds for some microseconds.
const LOCK_ATTEMPTS: u32 = 20;
/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Error of the socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// A process accepts connections on the path, or its user differs.
    #[error("another process listens on it: end that process, or use another path")]
    InUse,
    /// The path holds a file of another kind.
    #[error("the file there is not a socket: remove it, or use another path")]
    NotSocket,
    /// Error of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// File of a bound socket. It is removed at the end, unless another process has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The file itself: while it is referred to, no other one gets its number. `None` if it is left to another process.
    file: Option<OwnedFd>,
}

/// Binds the socket, and sets the permissions of its file. The socket of a process that has ended is replaced.
///
/// The file appears under its name only when it accepts connections and has its permissions.
///
/// # Errors
/// The path is in use, or the system refuses it.
pub fn bind(settings: &AdminSocket) -> Result<(UnixListener, SocketFile), SocketError> {
    create(settings, true)
}

/// Binds the socket as [`bind`] does, in place of one that accepts connections.
///
/// # Errors
/// The path holds a file of another kind, or the system refuses it.
pub fn replace(settings: &AdminSocket) -> Result<(UnixListener, SocketFile), SocketError> {
    create(settings, false)
}

fn create(settings: &AdminSocket, spares_live: bool) -> Result<(UnixListener, SocketFile), SocketError> {
    let path = &settings.path;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Of two gateways that start together, the second sees the first one's socket.
    let _lock = lock(folder)?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(SocketError::NotSocket),
        Ok(_) if spares_live && is_live(path)? => return Err(SocketError::InUse),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Ok(_) | Err(_) => {}
    }
    let mut temporary = path.clone().into_os_string();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    if fs::symlink_metadata(&temporary).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        fs::remove_file(&temporary)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(&temporary)?)?;
    let bound = publish(&socket, &temporary, settings);
    if bound.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    let file = bound?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), file))
}

/// Sets the permissions of the bound socket before it listens, and gives it its name.
fn publish(socket: &Socket, temporary: &Path, settings: &AdminSocket) -> io::Result<SocketFile> {
    fs::set_permissions(temporary, Permissions::from_mode(settings.mode))?;
    socket.listen(BACKLOG)?;
    fs::rename(temporary, &settings.path)?;
    SocketFile::at(&settings.path)
}

impl SocketFile {
    /// Returns the file of a bound socket that another process has created, to be removed by this one.
    ///
    /// # Errors
    /// There is no file.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Some(refer(path)?) })
    }

    /// Leaves the file to another process.
    pub fn leave(mut self) {
        self.file = None;
    }
}

/// Refers to the file at `path`, without opening it.
fn refer(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Locks a folder against other gateways, until the file is dropped.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    for _ in 0..LOCK_ATTEMPTS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds a lock on its folder"))
}

/// Returns true if a process listens on the socket at `path`. A full accept queue counts as well.
fn is_live(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            io::ErrorKind::WouldBlock => Ok(true),
            _ => Err(error),
        },
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        let id = |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
        if refer(&self.path).is_ok_and(|present| id(&present) == id(file)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let settings = AdminSocket { path: folder.path().join("admin.sock"), mode: 0o640 };
        let (listener, file) = bind(&settings).unwrap();
        assert_eq!(fs::metadata(&settings.path).unwrap().mode() & 0o777, 0o640);
        assert!(matches!(bind(&settings), Err(SocketError::InUse)));
        drop(listener);
        let (live, live_file) = bind(&settings).unwrap();
        let (second, second_file) = replace(&settings).unwrap();
        drop((live, live_file, file));
        assert!(settings.path.exists(), "the file belongs to the second one");
        drop((second, second_file));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_file_stays_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let settings = AdminSocket { path: folder.path().join("admin.sock"), mode: 0o600 };
        fs::write(&settings.path, "notes").unwrap();
        assert!(matches!(bind(&settings), Err(SocketError::NotSocket)));
        assert_eq!(fs::read_to_string(&settings.path).unwrap(), "notes");
    }
}
