//! Files, and the files of profiles beside them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use tollgate_document::diagnostics::{Format, Report, SourceFile};
use tollgate_document::java_properties;

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

/// Reads the file at `path`, of at most `max_bytes`, in the format of its extension unless `format` says another. Properties
/// are ISO-8859-1 unless `is_utf8`.
pub(super) fn read_one(
    path: &Path,
    (format, is_utf8): (Option<Format>, bool),
    max_bytes: usize,
) -> Result<SourceFile, LoadError> {
    let unreadable = |source: io::Error| LoadError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // Some files, such as a device, have no end.
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > max_bytes {
        let message = "the files of a configuration have at most 16 MiB";
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, message)));
    }
    let is_properties = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("properties"));
    let format = format.unwrap_or(if is_properties { Format::Properties } else { Format::Yaml });
    let text = java_properties::decode(&bytes, is_utf8 || format != Format::Properties);
    let text = text.ok_or_else(|| unreadable(io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8")))?;
    Ok(SourceFile { name: path.display().to_string(), text, format, is_of_profile: false })
}

/// Ends of the names of configuration files; those of later ones win.
pub(super) const NAMES_END: [&str; 3] = ["yaml", "yml", "properties"];

/// Returns the files of a profile beside `path`. A profile's name cannot lead to another folder.
pub(super) fn beside(path: &Path, profile: &str) -> Vec<PathBuf> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| !profile.contains(['/', '\\']));
    let Some(stem) = stem else { return Vec::new() };
    let files = NAMES_END.iter().map(|end| path.with_file_name(format!("{stem}-{profile}.{end}")));
    files.filter(|file| file.is_file()).collect()
}

/// Returns the profile that the name of a file tells: `prod` of `application-prod.yml`.
pub(super) fn profile(name: &str) -> Option<&str> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    ["application-", "bootstrap-"]
        .iter()
        .find_map(|begin| stem.strip_prefix(begin))
        .filter(|profile| !profile.is_empty())
}
