//! `configtree:`: a folder with a file for each property, as containers mount secrets.

use std::path::{Path, PathBuf};

use tollgate_document::diagnostics::{Format, SourceFile};

/// Depth of folders at most.
const MAX_DEPTH: usize = 16;
/// Longest value.
const MAX_BYTES: u64 = 1024 * 1024;

/// Returns at most `limit` properties of the tree below `folder`, as files. Names of files that begin with a dot and
/// values that are not UTF-8 are left out.
pub(super) fn read(folder: &Path, limit: usize) -> Vec<SourceFile> {
    let mut files = Vec::new();
    walk(folder, "", 0, &mut files);
    files.sort();
    files.into_iter().take(limit).filter_map(|(key, path)| property(key, &path)).collect()
}

fn walk(folder: &Path, before: &str, depth: usize, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let key = if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
        if path.is_dir() && depth < MAX_DEPTH {
            walk(&path, &key, depth + 1, files);
        } else if path.is_file() {
            files.push((key, path));
        }
    }
}

fn property(key: String, path: &Path) -> Option<SourceFile> {
    if path.metadata().ok()?.len() > MAX_BYTES {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text)).to_owned();
    Some(SourceFile { name: path.display().to_string(), text, format: Format::Value(key), is_of_profile: false })
}
