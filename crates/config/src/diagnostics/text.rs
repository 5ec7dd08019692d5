//! The text of a configuration: its files, and the order of their documents.

/// Format of a [`SourceFile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Yaml,
    /// Java's properties.
    Properties,
    /// JSON of an environment variable, which excerpts do not show.
    Json,
    /// The value of one property, which excerpts do not show; its key.
    Value(String),
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFile {
    /// Name in diagnostics.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) format: Format,
    /// True for a file of a profile, which cannot activate profiles.
    pub(crate) is_of_profile: bool,
}

/// A document of one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DocumentId {
    /// Index of the file.
    pub(crate) file: usize,
    /// Position in the file.
    pub(crate) number: usize,
}

/// A location of `spring.config.import`.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// The importing document; `None` for the environment.
    pub(crate) document: Option<DocumentId>,
    /// Location as it is written.
    pub(crate) written: String,
    pub(crate) is_optional: bool,
    pub(crate) outcome: Outcome,
}

/// Result of an import.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It has been read, here or earlier.
    Read,
    /// There is no such file; the paths that were tried.
    Missing(String),
    /// The file imports itself; its path.
    Cycle(String),
    /// The file cannot be read, and the reason.
    Unreadable(String),
    /// It needs a server of this kind.
    Server(String),
}

/// The files of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceText {
    pub(crate) files: Vec<SourceFile>,
    /// The documents, later ones over earlier ones. If empty, all documents of the files in their order.
    pub(crate) documents: Vec<DocumentId>,
    pub(crate) imports: Vec<Import>,
}

impl SourceFile {
    /// Returns the YAML file `name` with the content `text`, without a byte order mark.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        Self { name: name.to_owned(), text, ..Self::default() }
    }
}

impl From<SourceFile> for SourceText {
    fn from(file: SourceFile) -> Self {
        Self { files: vec![file], ..Self::default() }
    }
}

impl SourceText {
    /// Returns the name of a file; an empty one if there is no such file.
    pub(crate) fn name(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |file| &file.name)
    }
}
