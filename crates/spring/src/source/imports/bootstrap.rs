//! `bootstrap.yml` beside `application.yml`: Spring Cloud reads it first, so its values count unless another file sets them.

use std::path::{Path, PathBuf};

use crate::source::files::{LoadError, NAMES_END, is_file};
use crate::source::imports::Reader;
use crate::source::imports::group::Group;
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
