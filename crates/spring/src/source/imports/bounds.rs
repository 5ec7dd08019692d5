//! Bounds of a configuration's files: a file may import others, and links may lead through folders, without end.

use std::io;
use std::path::Path;

use crate::source::files::LoadError;

/// Most files, and most imports.
pub(super) const MAX_FILES: usize = 4096;
/// Most bytes of all files.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Most files of which each imports the next.
pub(super) const MAX_CHAIN: usize = 64;
/// Most entries of the folders of a `configtree:`.
pub(super) const MAX_ENTRIES: usize = 4 * MAX_FILES;

/// Returns the error of files beyond a bound.
pub(super) fn too_large(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Returns the error of the file at `path` beyond a bound.
pub(super) fn refused(path: &Path, message: &str) -> LoadError {
    LoadError::Unreadable { path: path.to_owned(), source: too_large(message) }
}
