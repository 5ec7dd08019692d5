//! Documents and their imports, as a tree.

use std::path::PathBuf;

use crate::source::documents::Document;
use tollgate_document::diagnostics::DocumentId;
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
