//! Paths of the command line, each a file or a folder; and `bootstrap.yml` beside an `application.yml`: Spring Cloud reads it first, so
//! its values count unless another file sets them.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::source::files::{LoadError, NAMES_END, is_file};
use crate::source::imports::Reader;
use crate::source::imports::group::Group;
use crate::source::imports::location::identity;
use crate::source::placeholder;
use tollgate_document::diagnostics::{Import, Outcome};
use tollgate_document::yaml::Node;

/// Property that switches it off.
const ENABLED: [&str; 4] = ["spring", "cloud", "bootstrap", "enabled"];

impl Reader<'_> {
    /// Reads the bootstrap files beside each `application.yml` of `groups` that has Spring's form, below all of `groups`. Files
    /// that are among these already are not read again.
    pub(super) fn bootstrap(&mut self, groups: &mut Vec<Group>) -> Result<(), LoadError> {
        if placeholder::in_environment(&ENABLED.join("."), self.env)
            .is_some_and(|text| text.trim().eq_ignore_ascii_case("false"))
        {
            return Ok(());
        }
        let mut bootstrap_groups = Vec::new();
        for folder in groups.iter().filter(|group| is_wanted(group)).flat_map(folders) {
            let mut group = Group::default();
            for end in NAMES_END {
                let path = folder.join(format!("bootstrap.{end}"));
                let before = self.text.files.len();
                if is_file(&path) {
                    self.file(&path, None, &mut group.branches, &[], false)?;
                }
                if self.text.files.len() > before {
                    let (written, outcome) = (path.display().to_string(), Outcome::Bootstrap);
                    self.text.imports.push(Import { document: None, written, is_optional: true, outcome });
                }
            }
            if !group.branches.is_empty() {
                group.paths.push(vec![folder.join("bootstrap")]);
                bootstrap_groups.push(group);
            }
        }
        groups.splice(0..0, bootstrap_groups);
        Ok(())
    }
}

/// Returns true for Spring's form, unless a document switches bootstrap files off.
fn is_wanted(group: &Group) -> bool {
    let mut documents = group.branches.iter().map(|branch| &branch.document.node);
    let is_off = |document: &Node| document.follow(&ENABLED).is_some_and(|switch| switch.is_text("false"));
    documents.clone().any(|document| document.step("spring").is_some()) && !documents.any(is_off)
}

/// Returns the folders that hold an `application.yml` of the group.
fn folders(group: &Group) -> Vec<PathBuf> {
    let is_application = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem == "application");
    let paths = group.paths.iter().flatten().filter(is_application);
    paths.map(|path| path.parent().unwrap_or(Path::new("")).to_owned()).collect()
}

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
