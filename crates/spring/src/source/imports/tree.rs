//! `configtree:`: a folder with a file for each property, as containers mount secrets; and the bounds of a configuration's files:
//! a file may import others, and links may lead through folders, without end.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tollgate_document::diagnostics::{Format, SourceFile};

use crate::source::files::LoadError;

/// Depth of folders at most.
const MAX_DEPTH: usize = 16;
/// Longest value.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Returns the properties of the tree below `folder`, as files: at most `max_files`, of `max_bytes` in all. Names of files
/// that begin with a dot and values that are not UTF-8 are left out. Pipes, sockets and devices are no properties, as in Spring;
/// their paths are returned, too.
pub(super) fn read(
    folder: &Path,
    (max_files, max_bytes): (usize, usize),
) -> io::Result<(Vec<SourceFile>, Vec<PathBuf>)> {
    if !folder.is_dir() {
        return Err(io::Error::new(
            ErrorKind::NotADirectory,
            "`configtree:` reads a folder with a file for each property",
        ));
    }
    let mut walk = Walk { files: Vec::new(), special: Vec::new(), entries_left: MAX_ENTRIES };
    walk.folder(folder, "", 0)?;
    let Walk { files: mut paths, mut special, .. } = walk;
    paths.sort();
    special.sort();
    if paths.len() > max_files {
        return Err(too_large("a configuration has at most 4,096 files"));
    }
    let mut bytes_left = max_bytes;
    let mut files = Vec::new();
    for file in paths.into_iter().filter_map(|(key, path)| property(key, &path)) {
        let left = bytes_left.checked_sub(file.text.len());
        bytes_left = left.ok_or_else(|| too_large("the files of a configuration have at most 16 MiB"))?;
        files.push(file);
    }
    Ok((files, special))
}

struct Walk {
    /// Keys and files.
    files: Vec<(String, PathBuf)>,
    /// Pipes, sockets and devices.
    special: Vec<PathBuf>,
    /// Entries that may still be looked at.
    entries_left: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Path, before: &str, depth: usize) -> io::Result<()> {
        tollgate_bounded_file::note(folder);
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        for path in entries.flatten().map(|entry| entry.path()) {
            let left = self.entries_left.checked_sub(1);
            self.entries_left = left.ok_or_else(|| too_large("more than 16,384 entries below the folder"))?;
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'))
            else {
                continue;
            };
            let key = if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
            if path.is_dir() && depth < MAX_DEPTH {
                self.folder(&path, &key, depth + 1)?;
            } else if path.is_file() {
                self.files.push((key, path));
            } else if path.exists() && !path.is_dir() {
                self.special.push(path);
            }
        }
        Ok(())
    }
}

fn property(key: String, path: &Path) -> Option<SourceFile> {
    let text = tollgate_bounded_file::read_text(path, MAX_VALUE_BYTES).ok()?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text)).to_owned();
    Some(SourceFile { name: path.display().to_string(), text, format: Format::Value(key), is_of_profile: false })
}

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
