//! Diagnostics with their lines, for a terminal or the log.

use std::error::Error;
use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use crate::diagnostics::excerpt;
use crate::diagnostics::lines::{self, FileLines};
use crate::diagnostics::missing::{self, Missing, Section};
use crate::diagnostics::repeats;
use crate::diagnostics::secrets::{Secret, SecretValues, Secrets, UnknownNames};
use crate::diagnostics::text::SourceText;
use crate::diagnostics::unknown::UnknownName;

/// Severity of a [`Diagnostic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    #[default]
    Error,
    /// The configuration can be used, but probably does not do what its author meant. A comment `# accepted: MESSAGE`
    /// above the line makes it a note. So it does for errors that are [mistakes](Diagnostic::is_mistake).
    Warning,
    /// A fact that may surprise the author and needs no change.
    Note,
}

/// One error, warning or note about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Index of the file: 0 is the first given one, the others are in the order in which they were read.
    pub file: usize,
    /// 1-based line in the file; 0 if it has no position in the file (an environment variable).
    pub line: usize,
    /// 1-based column in characters; 0 as for `line`.
    pub column: usize,
    /// Message: lowercase, without a full stop.
    pub message: String,
    /// Further lines of the file to which the same message applies, in order.
    pub also: Vec<usize>,
    /// Advice.
    pub help: Option<String>,
    /// Name that the message reports as not known. Values of names that resemble a secret's are masked.
    pub unknown: Option<UnknownName>,
    /// True for a setting of our own form that Spring would silently ignore: an error that a comment accepts, as it does a
    /// warning.
    pub is_mistake: bool,
    /// True for a note about sections at the top level of a Spring file that are the application's own.
    pub names_sections: bool,
}

/// All diagnostics of one configuration, sorted by position.
#[derive(Clone, Debug)]
pub struct Report {
    text: Box<SourceText>,
    list: Vec<Diagnostic>,
    missing: Vec<Missing>,
    has_other_errors: bool,
    /// Secrets of each file; none if there are no diagnostics.
    secrets: Vec<Secrets>,
    /// Values of all of them.
    values: SecretValues,
}

/// A line of a file as excerpts show it. Several diagnostics may be about one long line.
#[derive(Default)]
struct ShownLine {
    /// File and line.
    at: (usize, usize),
    /// `None` if there is no such line.
    masked: Option<Vec<char>>,
}

impl Severity {
    /// Returns the word for it in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Report {
    /// Creates a report. Secrets are masked in messages here, and in excerpts when they are rendered. Equal warnings are
    /// joined after that, so that a comment accepts the one below it only.
    pub(super) fn new(
        text: SourceText,
        mut list: Vec<Diagnostic>,
        (missing, mut has_other_errors): (Vec<Missing>, bool),
        resolved: Vec<Secret>,
    ) -> Self {
        let files = lines::of_files(&text);
        let has_acceptances = text.has_acceptances();
        let secrets = secrets(&text, &list, resolved);
        let values = SecretValues::of(secrets.iter().flat_map(Secrets::texts));
        for problem in &mut list {
            let (Some(lines), Some(secrets)) = (files.get(problem.file), secrets.get(problem.file)) else { continue };
            let line = problem.line.checked_sub(1);
            let mask = |message: &str| secrets.mask_message(message, lines, line, &values);
            problem.message = mask(&problem.message);
            problem.help = problem.help.take().map(|help| mask(&help));
            let may_be_accepted = problem.severity == Severity::Warning || problem.is_mistake;
            if may_be_accepted
                && has_acceptances
                && text.is_accepted(problem.file, lines, problem.line, &problem.message)
            {
                problem.severity = Severity::Note;
            } else if problem.is_mistake {
                problem.severity = Severity::Error;
                // Without acceptances, it has been counted as an error, unless the overlay corrects it.
                has_other_errors |= has_acceptances;
            }
        }
        drop(files);
        Self { text: Box::new(text), list: repeats::join(list), missing, has_other_errors, secrets, values }
    }

    /// Returns the diagnostics, sorted by position.
    #[must_use]
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Returns the name of the file with an index of [`Diagnostic::file`].
    #[must_use]
    pub fn file_name(&self, file: usize) -> &str {
        self.text.name(file)
    }

    /// Returns the names of the files, imported ones included, in the order of reading.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.text.files.iter().map(|file| file.name.as_str())
    }

    /// Returns the SHA-256 hash of the files, as hexadecimal digits. The hash of one file is that of `sha256sum`.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        self.text.files.iter().for_each(|file| hasher.update(file.text.as_bytes()));
        hasher.finalize().iter().fold(String::new(), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        })
    }

    /// Drops the texts of the files. After that, [`render`](Self::render) shows no lines, and the [`hash`](Self::hash) is another.
    pub fn drop_texts(&mut self) {
        self.text.files.iter_mut().for_each(|file| file.text = String::new());
    }

    /// Returns a file with everything that an application would have added to `files`: endpoints, key resolvers and
    /// filters. Its comment has the commands that use it, with `profiles`. `None` if nothing is missing.
    #[must_use]
    pub fn overlay(&self, files: &[&str], profiles: Option<&str>) -> Option<String> {
        missing::overlay(&self.missing, files, profiles).map(|overlay| self.values.mask(&overlay))
    }

    /// Returns true if placeholders lack values that an overlay can have.
    pub fn lacks_properties(&self) -> bool {
        self.missing.iter().any(|part| part.section == Section::Properties && !part.value.is_empty())
    }

    /// Adds the parts that are still missing with the overlay, as `next` reports.
    pub fn add_missing(&mut self, next: &Self) {
        self.missing.extend(next.missing.iter().cloned());
        self.has_other_errors |= next.has_other_errors;
    }

    /// Returns true if there are errors besides those that [`overlay`](Self::overlay) corrects.
    #[must_use]
    pub fn has_other_errors(&self) -> bool {
        self.has_other_errors
    }

    /// Returns true if there are no diagnostics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if one of the diagnostics is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|p| p.severity == Severity::Error)
    }

    /// Writes each diagnostic to the log, one line each, at the level of its severity.
    pub fn log(&self) {
        for diagnostic in &self.list {
            let name = self.text.name(diagnostic.file);
            let place = format!("{name}:{}:{}", diagnostic.line, diagnostic.column);
            let (message, help) = (diagnostic.text(), diagnostic.help.as_deref());
            match diagnostic.severity {
                Severity::Error => tracing::error!(place, help, "{message}"),
                Severity::Warning => tracing::warn!(place, help, "{message}"),
                Severity::Note => tracing::info!(place, help, "{message}"),
            }
        }
    }

    /// Renders each diagnostic as `file:line:column: error: message`, with its line, a caret below and its help.
    /// `color` adds ANSI colours.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        self.render_those(color, |_| true)
    }

    /// Renders the notes that name sections of the application, which are not the gateway's, as [`render`](Self::render).
    #[must_use]
    pub fn render_sections(&self, color: bool) -> String {
        self.render_those(color, |problem| problem.names_sections)
    }

    fn render_those(&self, color: bool, selects: impl Fn(&Diagnostic) -> bool) -> String {
        let mut out = String::new();
        let files = lines::of_files(&self.text);
        let mut shown = ShownLine::default();
        for problem in self.list.iter().filter(|problem| selects(problem)) {
            if shown.at != (problem.file, problem.line) {
                shown = self.line(&files, problem);
            }
            // Writing to a String cannot fail.
            let _ = self.render_one(&mut out, problem, shown.masked.as_deref(), color);
        }
        out
    }

    /// Returns the line of a diagnostic, with its secrets masked.
    fn line(&self, files: &[FileLines<'_>], problem: &Diagnostic) -> ShownLine {
        let lines = files.get(problem.file).zip(self.secrets.get(problem.file));
        let above = problem.line.checked_sub(1);
        let masked = lines.zip(above).filter(|((lines, _), above)| *above < lines.count());
        let masked =
            masked.map(|((lines, secrets), above)| secrets.mask_line(lines, above, &self.values).chars().collect());
        ShownLine { at: (problem.file, problem.line), masked }
    }

    fn render_one(&self, out: &mut String, problem: &Diagnostic, line: Option<&[char]>, color: bool) -> fmt::Result {
        let name = self.text.name(problem.file);
        let word = problem.severity.as_str();
        let paint = match problem.severity {
            Severity::Error => "\x1b[1;31m",
            Severity::Warning => "\x1b[1;33m",
            Severity::Note => "\x1b[1;36m",
        };
        let (paint, plain) = if color { (paint, "\x1b[0m") } else { ("", "") };
        write!(out, "{name}:")?;
        if problem.line > 0 {
            write!(out, "{}:{}:", problem.line, problem.column)?;
        }
        writeln!(out, " {paint}{word}{plain}: {}", problem.text())?;
        if let Some(line) = line {
            let number = problem.line.to_string();
            let gutter = " ".repeat(number.len());
            let (part, column) = excerpt::around(line, problem.column.saturating_sub(1));
            // Tabs stay tabs, so that the caret is in the right column.
            let indent: String = part.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            writeln!(out, "  {number} | {part}")?;
            writeln!(out, "  {gutter} | {indent}{paint}^{plain}")?;
        }
        if let Some(help) = &problem.help {
            writeln!(out, "  help: {help}")?;
        }
        Ok(())
    }
}

/// Returns the secrets of each file, with those that are `resolved`. Without a diagnostic, nothing would show one.
fn secrets(text: &SourceText, list: &[Diagnostic], mut resolved: Vec<Secret>) -> Vec<Secrets> {
    resolved.sort_by_key(|secret| (secret.file, secret.bytes.start));
    let unknown = UnknownNames::of(list.iter().filter_map(|diagnostic| diagnostic.unknown.as_ref()));
    let of_file = |at: usize| {
        let first = |file| resolved.partition_point(|secret| secret.file < file);
        resolved[first(at)..first(at + 1)].to_vec()
    };
    let files = text.files.iter().enumerate().filter(|_| !list.is_empty());
    files.map(|(at, file)| Secrets::of(file, &unknown).with(of_file(at))).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl Error for Report {}
