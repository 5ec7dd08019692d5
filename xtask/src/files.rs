//! The repository's files.

use std::path::{Path, PathBuf};

/// Folders without files that the repository's authors write.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "corpus"];

/// Scripts and other files without an extension.
const NAMES: [&str; 4] = ["Dockerfile", "run", "regenerate", "count"];

/// Returns all files below `folder` with one of the `extensions`, and those of [`NAMES`], sorted by path.
pub(crate) fn below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(folder, extensions, &mut found);
    found.sort();
    found
}

fn collect(path: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    if path.is_symlink() {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        let is_named = path.file_name().is_some_and(|name| NAMES.iter().any(|wanted| name == *wanted));
        if is_named || path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted)) {
            found.push(path.to_owned());
        }
        return;
    };
    for entry in entries.flatten() {
        let is_skipped = SKIPPED.iter().any(|skipped| entry.file_name() == *skipped);
        if !is_skipped {
            collect(&entry.path(), extensions, found);
        }
    }
}
