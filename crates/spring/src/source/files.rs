//! Files, and the files of profiles beside them.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

use tollgate_document::diagnostics::{Format, Report, SourceFile};
use tollgate_document::java_properties;

/// Path that means standard input.
const STDIN: &str = "-";

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
    /// Renders every error for a terminal: an unreadable file with its remedy, an excerpt for each error otherwise.
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Unreadable { path, source } => {
                format!("tollgate: cannot read {}: {source}\n{}", path.display(), self.help())
            }
            Self::Invalid(report) => report.render(color),
        }
    }

    /// Returns the remedy for an unreadable file; `None` if its error says enough.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable { source, .. } => remedy(source.kind()),
            Self::Invalid(_) => None,
        }
    }

    /// Returns a line with the [remedy](Self::remedy), or an empty text.
    pub fn help(&self) -> String {
        self.remedy().map_or_else(String::new, |remedy| format!("  help: {remedy}\n"))
    }
}

/// Returns what to do about a file that cannot be read.
pub(super) fn remedy(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::PermissionDenied => {
            Some("the user that runs this command must be able to read the file and to enter its folders")
        }
        ErrorKind::IsADirectory => Some("name a file, or a folder that has one of these"),
        ErrorKind::NotADirectory => Some("name a folder, or leave out `configtree:`"),
        // A socket.
        ErrorKind::InvalidInput => Some("name a file, or a pipe that a process writes"),
        ErrorKind::TimedOut => {
            Some("start the process that writes the pipe first, and let it close the pipe; or name a file")
        }
        ErrorKind::InvalidData => Some("a file is UTF-8, or ISO-8859-1 if its name ends in `.properties`"),
        ErrorKind::FileTooLarge => Some("import fewer or smaller files; links in a folder may lead back to it"),
        _ => None,
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
    let read = if path == Path::new(STDIN) {
        tollgate_bounded_file::read_stdin(max_bytes).map(<[u8]>::to_vec)
    } else {
        tollgate_bounded_file::read(path, max_bytes)
    };
    let bytes = read.map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let message = "the files of a configuration have at most 16 MiB";
            unreadable(io::Error::new(ErrorKind::FileTooLarge, message))
        }
        _ => unreadable(error),
    })?;
    let is_properties = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("properties"));
    let format = format.unwrap_or(if is_properties { Format::Properties } else { Format::Yaml });
    let text = java_properties::decode(&bytes, is_utf8 || format != Format::Properties);
    let text = text.ok_or_else(|| unreadable(io::Error::new(ErrorKind::InvalidData, "the file is not UTF-8")))?;
    Ok(SourceFile { name: path.display().to_string(), text, format, is_of_profile: false })
}

/// Ends of the names of configuration files; those of later ones win.
pub(super) const NAMES_END: [&str; 3] = ["yaml", "yml", "properties"];

/// Returns the files of a profile beside `path`. A profile's name cannot lead to another folder.
pub(super) fn beside(path: &Path, profile: &str) -> Vec<PathBuf> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| !profile.contains(['/', '\\']));
    let Some(stem) = stem else { return Vec::new() };
    let files = NAMES_END.iter().map(|end| path.with_file_name(format!("{stem}-{profile}.{end}")));
    files.filter(|file| is_file(file)).collect()
}

/// Returns true if `path` is a file. If it is none, the configuration changes once it is.
pub(super) fn is_file(path: &Path) -> bool {
    tollgate_bounded_file::note(path);
    path.is_file()
}

/// Returns the profile that the name of a file tells: `prod` of `application-prod.yml`.
pub(super) fn profile(name: &str) -> Option<&str> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    ["application-", "bootstrap-"]
        .iter()
        .find_map(|begin| stem.strip_prefix(begin))
        .filter(|profile| !profile.is_empty())
}
