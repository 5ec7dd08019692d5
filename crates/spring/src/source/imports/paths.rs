//! Paths of the command line: a file, or a folder.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::Reader;
use super::group::Group;
use super::location::identity;
use crate::source::files::LoadError;

/// Error of a folder on the command line.
const EMPTY_FOLDER: &str = "Is a directory without a file that ends in .yaml or .yml, or an application.properties";

impl Reader<'_> {
    /// Reads a path of the command line: a file, or a folder that has files.
    pub(super) fn path(&mut self, path: &Path) -> Result<Group, LoadError> {
        let mut group = Group::default();
        if path.is_dir() {
            let before = self.text.files.len();
            self.folder(path, &mut group, &[])?;
            if self.text.files.len() == before {
                self.parts(path, &mut group)?;
            }
        } else {
            self.seen.remove(&identity(path));
            self.file(path, None, &mut group.branches, &[], false)?;
            group.paths.push(vec![path.to_owned()]);
        }
        Ok(group)
    }

    /// Reads all YAML files of a folder, as parts of one configuration.
    fn parts(&mut self, folder: &Path, group: &mut Group) -> Result<(), LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: folder.to_owned(), source };
        let paths = yaml_files(folder).map_err(unreadable)?;
        if paths.is_empty() {
            return Err(unreadable(io::Error::new(ErrorKind::IsADirectory, EMPTY_FOLDER)));
        }
        let mut parts = Vec::new();
        for path in paths {
            let at = self.text.files.len();
            self.file(&path, None, &mut group.branches, &[], false)?;
            // None for a link to a file that has been read; further ones are those that it imports.
            parts.extend((self.text.files.len() > at).then_some(at));
        }
        self.text.folders.push(parts);
        Ok(())
    }
}

/// Returns the files of `folder` that end in `.yaml` or `.yml`, in the order of their names. Hidden ones are left out, as those
/// of editors.
fn yaml_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    tollgate_bounded_file::note(folder);
    let entries = std::fs::read_dir(folder)?;
    let is_part = |path: &PathBuf| {
        let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        !is_hidden && path.extension().is_some_and(|end| end == "yaml" || end == "yml") && !path.is_dir()
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_part).collect();
    files.sort();
    Ok(files)
}
