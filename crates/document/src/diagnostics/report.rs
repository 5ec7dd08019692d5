//! Diagnostics of one configuration.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::characters::escaped;
use crate::diagnostics::missing::{self, Missing, Section};
use crate::diagnostics::secrets::{OwnWords, Secret, SecretValues, Secrets, UnknownNames};
use crate::diagnostics::text::SourceText;
use crate::diagnostics::unknown::UnknownName;
use crate::diagnostics::{lines, render};

/// Bytes of a message, and of a help.
const MAX_TEXT: usize = 4_000;

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
    pub(super) text: Box<SourceText>,
    pub(super) list: Vec<Diagnostic>,
    pub(super) facts: Box<Facts>,
    /// Secrets of each file; none if there are no diagnostics.
    pub(super) secrets: Vec<Secrets>,
    /// Values of all of them.
    pub(super) values: SecretValues,
}

/// Facts about all diagnostics, besides their list.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) missing: Vec<Missing>,
    pub(super) has_other_errors: bool,
    /// Number of diagnostics of each severity that are not in the list.
    pub(super) unlisted: Counts,
    /// Secrets that placeholders and the environment put into the files.
    pub(super) resolved: Vec<Secret>,
    pub(super) words: OwnWords,
}

impl Severity {
    /// Returns the word for it in messages.
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
    pub(super) fn new(text: SourceText, mut list: Vec<Diagnostic>, mut facts: Facts) -> Self {
        let files = lines::of_files(&text);
        let has_acceptances = text.has_acceptances();
        // Without a diagnostic, nothing would show a secret.
        let secrets = if list.is_empty() { Vec::new() } else { secrets(&text, &list, facts.resolved.clone()) };
        let values = SecretValues::of(secrets.iter().flat_map(Secrets::texts), facts.words);
        let secrets: Vec<Secrets> = secrets.into_iter().map(|secrets| secrets.with_rewritten(&values)).collect();
        for problem in &mut list {
            let (Some(lines), Some(secrets)) = (files.get(problem.file), secrets.get(problem.file)) else { continue };
            let line = problem.line.checked_sub(1).map(|line| lines.bytes(line));
            let line = line.map(|line| (line.clone(), line.start + problem.column.saturating_sub(1)));
            let mask = |message: &str| escaped(secrets.mask_message(message, line.clone(), &values));
            problem.message = mask(&problem.message);
            problem.help = problem.help.take().map(|help| cut(mask(&help)));
            let may_be_accepted = problem.severity == Severity::Warning || problem.is_mistake;
            if may_be_accepted
                && has_acceptances
                && text.is_accepted(problem.file, lines, problem.line, &problem.message)
            {
                problem.severity = Severity::Note;
            } else if problem.is_mistake {
                problem.severity = Severity::Error;
                // Without acceptances, it has been counted as an error, unless the overlay corrects it.
                facts.has_other_errors |= has_acceptances;
            }
            problem.message = cut(std::mem::take(&mut problem.message));
        }
        drop(files);
        Self { text: Box::new(text), list: render::join_repeats(list), facts: Box::new(facts), secrets, values }
    }

    /// Returns the values of the secrets of the files, before [`drop_texts`](Self::drop_texts).
    pub fn secret_values(&self) -> SecretValues {
        if !self.secrets.is_empty() {
            return self.values.clone();
        }
        let secrets = secrets(&self.text, &[], self.facts.resolved.clone());
        SecretValues::of(secrets.iter().flat_map(Secrets::texts), self.facts.words)
    }

    /// Returns the diagnostics, sorted by position: of each severity [`MAX_LISTED`](super::MAX_LISTED) at most.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Returns the number of diagnostics, with those that are not in the list.
    pub fn count(&self) -> usize {
        self.list.len() + self.facts.unlisted.sum()
    }

    /// Returns the name of the file with an index of [`Diagnostic::file`].
    pub fn file_name(&self, file: usize) -> &str {
        self.text.name(file)
    }

    /// Returns the names of the files, imported ones included, in the order of reading.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.text.files.iter().map(|file| file.name.as_str())
    }

    /// Returns the SHA-256 hash of the files, as hexadecimal digits. The hash of one file is that of `sha256sum`.
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
        self.facts.resolved = Vec::new();
        self.text.files.iter_mut().for_each(|file| file.text = String::new());
    }

    /// Returns a file with everything that an application would have added to `files`: endpoints, key resolvers and
    /// filters. Its comment has the commands that use it, with `profiles`. `None` if nothing is missing.
    pub fn overlay(&self, files: &[&str], profiles: Option<&str>) -> Option<String> {
        self.overlay_at_most(files, profiles, usize::MAX).map(|(overlay, _)| overlay)
    }

    /// Returns the overlay as [`overlay`](Self::overlay), with `max` parts, and the number of the others.
    pub fn overlay_at_most(&self, files: &[&str], profiles: Option<&str>, max: usize) -> Option<(String, usize)> {
        let (overlay, others) = missing::overlay(&self.facts.missing, files, profiles, max)?;
        Some((self.values.mask(&overlay), others))
    }

    /// Returns true if placeholders lack values that an overlay can have.
    pub fn lacks_properties(&self) -> bool {
        self.facts.missing.iter().any(|part| part.section == Section::Properties && !part.value.is_empty())
    }

    /// Adds the parts that are still missing with the overlay, as `next` reports.
    pub fn add_missing(&mut self, next: &Self) {
        self.facts.missing.extend(next.facts.missing.iter().cloned());
        self.facts.has_other_errors |= next.facts.has_other_errors;
    }

    /// Returns true if there are errors besides those that [`overlay`](Self::overlay) corrects.
    pub fn has_other_errors(&self) -> bool {
        self.facts.has_other_errors
    }

    /// Returns true if there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns true if one of the diagnostics is an error.
    pub fn has_errors(&self) -> bool {
        self.facts.unlisted.of(Severity::Error) > 0 || self.list.iter().any(|p| p.severity == Severity::Error)
    }
}

/// Returns the first [`MAX_TEXT`] bytes of `text`: a message may list all keys of a file.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

/// Returns the secrets of each file, with those that are `resolved`.
fn secrets(text: &SourceText, list: &[Diagnostic], mut resolved: Vec<Secret>) -> Vec<Secrets> {
    resolved.sort_by_key(|secret| (secret.file, secret.bytes.start));
    let unknown = UnknownNames::of(list.iter().filter_map(|diagnostic| diagnostic.unknown.as_ref()));
    let of_file = |at: usize| {
        let first = |file| resolved.partition_point(|secret| secret.file < file);
        resolved[first(at)..first(at + 1)].to_vec()
    };
    let files = text.files.iter().enumerate();
    files.map(|(at, file)| Secrets::of(file, &unknown).with(of_file(at))).collect()
}

/// Diagnostics of each severity that a report keeps: a file may have a million mistakes.
pub const MAX_LISTED: usize = 10_000;

/// Number of diagnostics of each severity.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts([usize; 3]);

/// Number of diagnostics at a point in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    pub(super) pending: usize,
    pub(super) unlisted_errors: usize,
}

impl Counts {
    pub(super) fn of(&self, severity: Severity) -> usize {
        self.0[severity as usize]
    }

    pub(super) fn add(&mut self, severity: Severity) {
        self.0[severity as usize] += 1;
    }

    /// Makes warnings of all errors but the first `kept`.
    pub(super) fn demote_errors(&mut self, kept: usize) -> bool {
        let demoted = self.of(Severity::Error) - kept;
        self.0[Severity::Error as usize] = kept;
        self.0[Severity::Warning as usize] += demoted;
        demoted > 0
    }

    /// Returns the numbers as `and 3 more: 2 errors, 1 note`; `None` if all are 0.
    pub(super) fn in_words(&self) -> Option<String> {
        let all = [Severity::Error, Severity::Warning, Severity::Note];
        let parts = all.map(|severity| (self.of(severity), severity.as_str()));
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> =
            parts.map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" })).collect();
        (!parts.is_empty()).then(|| format!("and {} more: {}", self.sum(), parts.join(", ")))
    }

    pub(super) fn sum(&self) -> usize {
        self.0.iter().sum()
    }
}
