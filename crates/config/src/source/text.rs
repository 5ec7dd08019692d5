//! The text of a configuration: a file, and behind it those of its profiles.

use std::path::{Path, PathBuf};

use crate::LoadError;
use crate::diagnostics::Diagnostics;
use crate::source::profiles::Profiles;
use crate::yaml;

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What problems call it.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
}

/// Several files as one text, whose documents follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// All of it.
    pub(crate) whole: String,
    /// The files, with how many lines stand before each.
    pub(crate) parts: Vec<(usize, Part)>,
}

impl Part {
    /// The file `name` that holds `text`.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        // A byte order mark is no part of the text.
        Self { name: name.to_owned(), text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned() }
    }
}

impl Text {
    /// The text of `parts`.
    pub(crate) fn of(parts: Vec<Part>) -> Self {
        let mut text = Self::default();
        for part in parts {
            if !text.parts.is_empty() {
                text.whole.push_str(if text.whole.ends_with('\n') { "---\n" } else { "\n---\n" });
            }
            let before = text.whole.bytes().filter(|byte| *byte == b'\n').count();
            text.whole.push_str(&part.text);
            text.parts.push((before, part));
        }
        text
    }

    /// The file that holds the line, counted from 1 over all, and its number there.
    pub(crate) fn place(&self, line: usize) -> (usize, usize) {
        let part = self.parts.iter().rposition(|(before, _)| line > *before).unwrap_or(0);
        (part, line - self.parts.get(part).map_or(0, |(before, _)| (*before).min(line)))
    }
}

/// Reads the file at `path`, and those beside it for profiles that are active: `application-prod.yml` beside
/// `application.yml`. Their documents come last, so what they say wins.
pub(crate) fn read(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Part>, LoadError> {
    let main = read_one(path)?;
    if !has_neighbours(path) {
        return Ok(vec![main]);
    }
    let mut quiet = Diagnostics::default();
    let (documents, mut places) = yaml::parse(&main.text, &mut quiet);
    let documents = crate::spring::normalize::expand(documents, &mut places, &mut quiet);
    let profiles = Profiles::of(&documents, env);
    let mut parts = vec![main];
    for file in profiles.names().iter().filter_map(|profile| beside(path, profile)) {
        parts.push(read_one(&file)?);
    }
    Ok(parts)
}

fn read_one(path: &Path) -> Result<Part, LoadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    Ok(Part::new(&path.display().to_string(), &text))
}

/// Whether any file beside `path` could be a profile's: otherwise the text need not be read twice.
fn has_neighbours(path: &Path) -> bool {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return false };
    let start = format!("{stem}-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::read_dir(folder)
        .is_ok_and(|files| files.flatten().any(|file| file.file_name().to_string_lossy().starts_with(&start)))
}

/// The file of a profile beside `path`, where there is one. Its name cannot lead anywhere else.
fn beside(path: &Path, profile: &str) -> Option<PathBuf> {
    if profile.contains(['/', '\\']) {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    ["yml", "yaml"].iter().map(|end| path.with_file_name(format!("{stem}-{profile}.{end}"))).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_belongs_to_its_file() {
        let part = |name: &str, text: &str| Part { name: name.to_owned(), text: text.to_owned() };
        let text = Text::of(vec![part("a", "x: 1\ny: 2"), part("b", "z: 3\n"), part("c", "w: 4\n")]);
        assert_eq!(text.whole, "x: 1\ny: 2\n---\nz: 3\n---\nw: 4\n");
        assert_eq!([0, 1, 2, 4, 6, 7].map(|line| text.place(line)), [(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (2, 2)]);
    }
}
