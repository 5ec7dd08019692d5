//! The files of a configuration: the one that was asked for and those of its active profiles.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::diagnostics::{Diagnostics, Format, Report, SourceFile, SourceText};
use crate::source::{documents, properties};
use crate::yaml::Places;

/// Error of loading a configuration file.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}", path = path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file has errors.
    #[error("{0}")]
    Invalid(Report),
}

impl LoadError {
    /// Renders every error for a terminal: one line for an unreadable file, an excerpt for each error otherwise.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Unreadable { path, source } => format!("tollgate: cannot read {}: {source}\n", path.display()),
            Self::Invalid(report) => report.render(color),
        }
    }
}

/// Reads the files at `paths`, each with the files of active profiles beside it: `application-prod.yml` beside
/// `application.yml`. Values of later files win, and those of a profile's file over those of its file.
pub(crate) fn read(paths: &[PathBuf], env: &dyn Fn(&str) -> Option<String>) -> Result<SourceText, LoadError> {
    let mains = paths.iter().map(|path| read_one(path)).collect::<Result<Vec<_>, _>>()?;
    let text = SourceText { files: mains, documents: Vec::new() };
    if !paths.iter().any(|path| has_neighbours(path)) {
        return Ok(text);
    }
    let (mut places, mut ignored) = (Places::default(), Diagnostics::default());
    let documents = documents::read(&text, &mut places, &mut ignored);
    let documents = documents::expand(documents, &mut places, &mut ignored);
    let profiles = documents::profiles(&documents, env);
    let mut all = SourceText::default();
    for (path, main) in paths.iter().zip(text.files) {
        all.files.push(main);
        for file in profiles.names().iter().flat_map(|profile| beside(path, profile)) {
            all.files.push(SourceFile { is_of_profile: true, ..read_one(&file)? });
        }
    }
    Ok(all)
}

fn read_one(path: &Path) -> Result<SourceFile, LoadError> {
    let unreadable = |source: io::Error| LoadError::Unreadable { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let is_properties = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("properties"));
    let text = properties::decode(&bytes, !is_properties);
    let text = text.ok_or_else(|| unreadable(io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8")))?;
    let format = if is_properties { Format::Properties } else { Format::Yaml };
    Ok(SourceFile { name: path.display().to_string(), text, format, is_of_profile: false })
}

/// Returns true if a file beside `path` may belong to a profile. Otherwise the text is parsed only once.
fn has_neighbours(path: &Path) -> bool {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return false };
    let start = format!("{stem}-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::read_dir(folder)
        .is_ok_and(|files| files.flatten().any(|file| file.file_name().to_string_lossy().starts_with(&start)))
}

/// Ends of the names of configuration files; those of later ones win.
const ENDS: [&str; 3] = ["yaml", "yml", "properties"];

/// Returns the files of a profile beside `path`. A profile's name cannot lead to another folder.
fn beside(path: &Path, profile: &str) -> Vec<PathBuf> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| !profile.contains(['/', '\\']));
    let Some(stem) = stem else { return Vec::new() };
    let files = ENDS.iter().map(|end| path.with_file_name(format!("{stem}-{profile}.{end}")));
    files.filter(|file| file.is_file()).collect()
}
