//! YAML texts to read.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

/// Returns the YAML texts of the repository: files, and code in the documentation.
pub(super) fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> =
        ["config", "docs", "tests", "bench", "fuzz", "deploy", ".ci"].iter().map(|folder| root.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if ["yaml", "yml", "json"].contains(&extension) {
                found.extend(std::fs::read_to_string(&path).ok().map(|text| (path, text)));
            } else if extension == "md" {
                let text = std::fs::read_to_string(&path).unwrap();
                let blocks = text.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
                found.extend(blocks.map(|block| (path.clone(), block.to_owned())));
            }
        }
    }
    found.sort();
    found
}

/// Returns `text` with characters put in or removed, or with a line moved.
pub(super) fn changed(text: &str, changes: &[(u8, prop::sample::Index, char)]) -> String {
    let mut text = text.to_owned();
    for (kind, at, sign) in changes {
        let mut boundaries = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        let place = boundaries.nth(at.index(text.chars().count() + 1)).unwrap();
        match kind {
            0 => text.insert(place, *sign),
            1 => drop(text[place..].chars().next().map(|_| text.remove(place))),
            _ => {
                let mut lines: Vec<&str> = text.lines().collect();
                let line = at.index(lines.len().max(1));
                if let Some(line) = lines.get_mut(line) {
                    *line = line.trim_start();
                }
                text = lines.join("\n");
            }
        }
    }
    text
}

/// Returns the texts to change.
pub(super) fn seeds() -> Vec<String> {
    let texts = texts().into_iter().map(|(_, text)| text);
    texts.filter(|text| text.len() < 3_000 && !text.contains('@')).collect()
}
