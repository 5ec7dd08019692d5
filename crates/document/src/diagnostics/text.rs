//! The text of a configuration: its files, the order of their documents, and the places of the servers that it names.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::diagnostics::lines::FileLines;
use crate::yaml::{self, Span};

/// Begin of a comment that accepts a warning.
pub const ACCEPTED: &str = "accepted:";

/// Format of a [`SourceFile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    /// YAML.
    Yaml,
    /// Java's properties.
    Properties,
    /// JSON of an environment variable, which excerpts do not show.
    Json,
    /// The value of one property, which excerpts do not show; its key.
    Value(String),
    /// Value of a property of the command line, which excerpts do not show.
    Argument,
}

/// One file.
#[derive(Clone, Debug, Default)]
pub struct SourceFile {
    /// Name in diagnostics.
    pub name: String,
    /// Its whole text.
    pub text: String,
    /// Its format.
    pub format: Format,
    /// True for a file of a profile, which cannot activate profiles.
    pub is_of_profile: bool,
}

/// A document of one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DocumentId {
    /// Index of the file.
    pub file: usize,
    /// Position in the file.
    pub number: usize,
}

/// A location of `spring.config.import`.
#[derive(Clone, Debug)]
pub struct Import {
    /// The importing document; `None` for the environment.
    pub document: Option<DocumentId>,
    /// Location as it is written.
    pub written: String,
    /// True if it may be missing.
    pub is_optional: bool,
    /// Result of the import.
    pub outcome: Outcome,
}

/// Result of an import.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It has been read, here or earlier.
    Read,
    /// There is no such file; the paths that were tried.
    Missing(String),
    /// The file imports itself; its path.
    Cycle(String),
    /// It has been read, but for these pipes, sockets and devices of a `configtree:`.
    Special(Vec<PathBuf>),
    /// The file is not read.
    Unreadable {
        /// The reason, with the name of the file.
        reason: String,
        /// The remedy.
        help: Option<&'static str>,
    },
    /// It needs a server of this kind.
    Server(String),
    /// The command line names other files.
    Replaced,
    /// It is a `bootstrap.yml` beside a given file, and has been read.
    Bootstrap,
}

/// The files of a configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceText {
    /// The files, in the order in which they were read.
    pub files: Vec<SourceFile>,
    /// The documents, later ones over earlier ones. If empty, all documents of the files in their order.
    pub documents: Vec<DocumentId>,
    /// Files that are parts of one configuration, by their numbers in ascending order, for each folder.
    pub folders: Vec<Vec<usize>>,
    /// The imports of all files.
    pub imports: Vec<Import>,
    /// Properties of the command line.
    pub properties: Vec<(String, String)>,
}

impl SourceFile {
    /// Returns the file `name` with the content `text`, without a byte order mark: properties if its name says so, or else
    /// YAML.
    pub fn new(name: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let format = if name.ends_with(".properties") { Format::Properties } else { Format::Yaml };
        Self { name: name.to_owned(), text, format, is_of_profile: false }
    }
}

impl From<SourceFile> for SourceText {
    fn from(file: SourceFile) -> Self {
        Self { files: vec![file], ..Self::default() }
    }
}

impl SourceText {
    /// Returns the folder that `file` is a part of.
    pub fn folder_of(&self, file: usize) -> Option<usize> {
        self.folders.iter().position(|parts| parts.binary_search(&file).is_ok())
    }

    /// Returns true if a comment right above the line accepts the warning `message`; above the first setting for a warning
    /// without a line. `lines` are those of `file`.
    pub(super) fn is_accepted(&self, file: usize, lines: &FileLines<'_>, line: usize, message: &str) -> bool {
        if self.files.get(file).is_none_or(|file| file.format != Format::Yaml) {
            return false;
        }
        let is_it = |line: &str| {
            let said = line.trim_start().strip_prefix('#').and_then(|said| said.trim().strip_prefix(ACCEPTED));
            said.is_some_and(|said| said.trim() == message)
        };
        let is_comment = |line: &&str| line.trim_start().starts_with('#');
        match line.checked_sub(1) {
            None => (0..lines.count()).map(|at| lines.line(at)).take_while(is_comment).any(is_it),
            Some(above) => (0..above).rev().map(|at| lines.line(at)).take_while(is_comment).any(is_it),
        }
    }

    /// Returns true if a comment accepts a diagnostic.
    pub fn has_acceptances(&self) -> bool {
        let is_one =
            |line: &str| line.trim_start().strip_prefix('#').is_some_and(|said| said.trim().starts_with(ACCEPTED));
        // Most files have none.
        let may_have_one = |file: &SourceFile| file.format == Format::Yaml && file.text.contains(ACCEPTED);
        self.files.iter().any(|file| may_have_one(file) && yaml::lines(&file.text).any(|(_, line)| is_one(line)))
    }

    /// Returns the name of a file; an empty one if there is no such file.
    pub fn name(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |file| &file.name)
    }
}

/// Places of the servers that a configuration names, for diagnostics about connections to them.
#[derive(Debug, Default)]
pub struct ServerPlaces(HashMap<(String, u16), Span>);

impl ServerPlaces {
    /// Notes that the value at `at` names a server. The first place of a server stays. An IPv6 address has no brackets; a
    /// socket is its path with port 0.
    pub fn add(&mut self, host: &str, port: u16, at: Span) {
        self.0.entry((host.to_owned(), port)).or_insert(at);
    }

    /// Returns the place of a server.
    pub fn of(&self, host: &str, port: u16) -> Option<Span> {
        self.0.get(&(host.to_owned(), port)).copied()
    }
}
