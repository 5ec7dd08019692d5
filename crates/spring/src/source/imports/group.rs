//! Documents and their imports, as a tree, and those of the active profiles.

use std::path::PathBuf;

use crate::source::documents::Document;
use crate::source::files::{LoadError, beside};
use crate::source::imports::Reader;
use crate::source::profiles::Profiles;
use tollgate_document::diagnostics::{Diagnostics, DocumentId};
use tollgate_document::yaml::Node;

/// Files that are read together: those of one path, or the imports of one document.
#[derive(Default)]
pub(super) struct Group {
    pub(super) branches: Vec<Branch>,
    /// Files that may have files of profiles beside them. The files of a profile come behind all files of those before it,
    /// within one list.
    pub(super) paths: Vec<Vec<PathBuf>>,
    /// Files of profiles.
    pub(super) of_profiles: Vec<Branch>,
}

/// A document with what it imports.
pub(super) struct Branch {
    pub(super) document: Document,
    pub(super) imports: Option<Group>,
    /// Files that led to this document, itself last.
    pub(super) chain: Vec<PathBuf>,
}

/// The document that imports.
pub(super) struct Importer {
    pub(super) document: DocumentId,
    pub(super) folder: PathBuf,
    pub(super) written: String,
}

impl Group {
    /// Collects the documents in their order, for the profiles that they name.
    pub(super) fn collect<'g>(&'g self, into: &mut Vec<&'g Node>) {
        for branch in &self.branches {
            into.push(&branch.document.node);
            if let Some(imports) = &branch.imports {
                imports.collect(into);
            }
        }
    }

    pub(super) fn order(&self, into: &mut Vec<DocumentId>) {
        for branch in self.branches.iter().chain(&self.of_profiles) {
            into.push(branch.document.id);
            if let Some(imports) = &branch.imports {
                imports.order(into);
            }
        }
    }
}

impl Reader<'_> {
    /// Reads what documents for active profiles import, and the files of profiles.
    pub(super) fn activate(&mut self, group: &mut Group, profiles: &Profiles) -> Result<(), LoadError> {
        for branch in &mut group.branches {
            self.activate_branch(branch, profiles)?;
        }
        for paths in std::mem::take(&mut group.paths) {
            let of_profile = |profile| paths.iter().flat_map(move |path| beside(path, profile));
            for file in profiles.names().iter().flat_map(|profile| of_profile(profile)) {
                self.file(&file, None, &mut group.of_profiles, &[], true)?;
            }
        }
        let mut of_profiles = std::mem::take(&mut group.of_profiles);
        of_profiles.iter_mut().try_for_each(|branch| self.activate_branch(branch, profiles))?;
        group.of_profiles = of_profiles;
        Ok(())
    }

    fn activate_branch(&mut self, branch: &mut Branch, profiles: &Profiles) -> Result<(), LoadError> {
        let mut ignored = Diagnostics::default();
        if !profiles.accept(branch.document.with_profile(), self.env, &mut Vec::new(), &mut ignored) {
            return Ok(());
        }
        if branch.imports.is_none() {
            let path = self.text.files.get(branch.document.id.file).map(|file| PathBuf::from(&file.name));
            self.imports(branch, &path.unwrap_or_default())?;
        }
        match &mut branch.imports {
            Some(group) => self.activate(group, profiles),
            None => Ok(()),
        }
    }
}
