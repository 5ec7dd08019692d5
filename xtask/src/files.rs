//! The repository's files.

use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "corpus"];

/// All files below `folder` with one of the `extensions`, sorted by path.
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
        if path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted)) {
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
