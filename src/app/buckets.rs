//! Buckets in memory over a restart: in a file, or from the process before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tollgate_config::Config;
use tollgate_limiter::store::memory::{Snapshot, SnapshotError};
use tollgate_proxy::state::stores::{RestoreError, SharedStores};

/// Upper bound of a snapshot: one of a million keys takes some forty megabytes.
pub(super) const MAX_BYTES: usize = 1 << 30;
/// Permissions of the file: it has the secret key of the hashes.
const MODE: u32 = 0o600;

/// Returns the bytes that a process has left in the file of `config`; none without a file.
pub(super) fn read(config: &Config) -> Option<Vec<u8>> {
    let path = path(config)?;
    let bytes = match read_regular(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::info!(path = %path.display(), "no buckets of an earlier process in `memory.state-file`");
            return None;
        }
        Err(error) => {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "; give the file to the user that runs the gateway, or remove it",
                _ => "",
            };
            tracing::warn!(path = %path.display(), %error, "buckets not restored, they start full: `memory.state-file` is unreadable{advice}");
            return None;
        }
    };
    match Snapshot::read(&bytes) {
        Ok(_) => Some(bytes),
        Err(error) => {
            log_unusable(&error.into(), Some(path));
            None
        }
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    check_regular(path)?;
    tollgate_bounded_file::read(path, MAX_BYTES)
}

fn check_regular(path: &Path) -> io::Result<()> {
    let is_regular = fs::metadata(path)?.is_file();
    let problem = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file: name one in an own folder");
    is_regular.then_some(()).ok_or_else(problem)
}

/// Returns the secret key of the hashes in checked bytes.
pub(super) fn hash_key(bytes: &[u8]) -> Option<[u8; 16]> {
    Snapshot::read(bytes).ok().map(|snapshot| snapshot.hash_key())
}

/// Adds the buckets of another process to `stores`: those of `file`, or those that it has sent. Bytes that cannot be used are logged,
/// and the buckets start full.
pub(super) fn restore(stores: &SharedStores, bytes: &[u8], file: Option<&Path>) {
    let restored = Snapshot::read(bytes).map_err(RestoreError::from).and_then(|snapshot| stores.restore(&snapshot));
    match restored {
        Ok(keys) => tracing::info!(keys, "buckets of the process before restored"),
        Err(error) => log_unusable(&error, file),
    }
}

fn log_unusable(error: &RestoreError, file: Option<&Path>) {
    let (advice, path) = (advice(error), file.map(|path| tracing::field::display(path.display())));
    tracing::warn!(path, "buckets of the process before not restored, they start full: {error}; {advice}");
}

fn advice(error: &RestoreError) -> &'static str {
    match error {
        RestoreError::Future(_) => "check the clock of this machine; the next shutdown replaces them",
        RestoreError::Snapshot(SnapshotError::Foreign) => {
            "the file stays as it is: name another one in `memory.state-file`, or remove it"
        }
        RestoreError::Snapshot(SnapshotError::Version(_)) => {
            "start the version that left them to keep them; the next shutdown replaces them"
        }
        RestoreError::Snapshot(_) => "the next shutdown replaces them",
    }
}

/// Returns the buckets for the process that follows; `None` if it shall start with full ones.
pub(super) fn snapshot(config: &Config, stores: &SharedStores) -> Option<Vec<u8>> {
    if !config.memory.hand_over.get() {
        return None;
    }
    let bytes = stores.memory.snapshot();
    if bytes.len() > MAX_BYTES {
        tracing::warn!(bytes = bytes.len(), max = MAX_BYTES, "too many buckets: the next process does not get them");
        return None;
    }
    Some(bytes)
}

/// Leaves the buckets in the file of `config`, if it has one. The file appears when it is complete.
pub(super) fn write(config: &Config, stores: &SharedStores) {
    let Some((path, bytes)) = path(config).zip(snapshot(config, stores)) else { return };
    match replace(path, &bytes) {
        Ok(()) => tracing::info!(path = %path.display(), bytes = bytes.len(), "buckets left in `memory.state-file`"),
        Err(error) => {
            let is_older = read_regular(path).is_ok_and(|bytes| Snapshot::read(&bytes).is_ok());
            let next = if is_older { "restores the older ones of the file" } else { "starts with full ones" };
            tracing::warn!(path = %path.display(), %error, "buckets lost, the next process {next}: `memory.state-file` cannot be written");
        }
    }
}

/// Returns the file of `config`, if buckets are handed over.
pub(super) fn path(config: &Config) -> Option<&Path> {
    config.memory.state_file.as_deref().filter(|_| config.memory.hand_over.get())
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    check_own(path)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Its own file: no link of another user is followed.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&temporary)?;
    let replaced = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Checks that the file at `path` is absent, empty or one with buckets, not one of another program that a wrong path names.
fn check_own(path: &Path) -> io::Result<()> {
    match check_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        checked => checked?,
    }
    let mut begin = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut begin)?;
    if matches!(Snapshot::read(&begin), Err(SnapshotError::Foreign)) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the file is one of another program: name another one",
        ));
    }
    Ok(())
}
