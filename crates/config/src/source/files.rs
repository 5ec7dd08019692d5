//! The files of a configuration: the one that was asked for and those of its active profiles.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::diagnostics::{Diagnostics, Report, SourceFile};
use crate::source::documents;
use crate::source::profiles::Profiles;
use crate::yaml::{self, Parsed};

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

/// Reads the file at `path` and the files of active profiles beside it: `application-prod.yml` beside
/// `application.yml`. Their documents come last, so their values win.
pub(crate) fn read(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<SourceFile>, LoadError> {
    let main = read_one(path)?;
    if !has_neighbours(path) {
        return Ok(vec![main]);
    }
    let Parsed { documents, mut places, .. } = yaml::parse(&main.text);
    let documents = documents::expand(documents, &mut places, &mut Diagnostics::default());
    let profiles = Profiles::of(&documents, env);
    let mut parts = vec![main];
    for file in profiles.names().iter().filter_map(|profile| beside(path, profile)) {
        parts.push(read_one(&file)?);
    }
    Ok(parts)
}

fn read_one(path: &Path) -> Result<SourceFile, LoadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    Ok(SourceFile::new(&path.display().to_string(), &text))
}

/// Returns true if a file beside `path` may belong to a profile. Otherwise the text is parsed only once.
fn has_neighbours(path: &Path) -> bool {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { return false };
    let start = format!("{stem}-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::read_dir(folder)
        .is_ok_and(|files| files.flatten().any(|file| file.file_name().to_string_lossy().starts_with(&start)))
}

/// Returns the file of a profile beside `path`, if it exists. A profile's name cannot lead to another folder.
fn beside(path: &Path, profile: &str) -> Option<PathBuf> {
    if profile.contains(['/', '\\']) {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    ["yml", "yaml"].iter().map(|end| path.with_file_name(format!("{stem}-{profile}.{end}"))).find(|file| file.is_file())
}
