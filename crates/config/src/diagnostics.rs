//! What is wrong with a configuration, where, and what to do about it.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{self, Write as _};

use crate::de::canonical;
use crate::source::text::Text;
use crate::yaml::locate::locate;
use crate::yaml::{Places, Span};

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can be used, but likely does not do what its author meant.
    Warning,
    /// Worth knowing.
    Info,
}

/// One finding about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Which of the files that were read: 0 is the one that was asked for, the others are those of its profiles.
    pub file: usize,
    /// Line in the file, from 1; 0 when it belongs to no place in it (an environment variable).
    pub line: usize,
    /// Column in that line in characters, from 1; 0 like `line`.
    pub column: usize,
    /// What is wrong: lowercase, without a full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Every finding about one configuration, sorted by place.
#[derive(Clone, Debug)]
pub struct Report {
    text: Text,
    list: Vec<Diagnostic>,
}

impl Report {
    /// The findings, sorted by place.
    #[must_use]
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether one of them makes the configuration unusable.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|p| p.severity == Severity::Error)
    }

    /// Writes each to the log, in one line, by its severity.
    pub fn log(&self) {
        for Diagnostic { severity, file, line, column, message, help } in &self.list {
            let name = self.text.parts.get(*file).map_or("", |(_, part)| &part.name);
            let place = format!("{name}:{line}:{column}");
            let help = help.as_deref();
            match severity {
                Severity::Error => tracing::error!(place, help, "{message}"),
                Severity::Warning => tracing::warn!(place, help, "{message}"),
                Severity::Info => tracing::info!(place, help, "{message}"),
            }
        }
    }

    /// Every finding as `file:line:column: error: message`, the line it is about with a caret below, and its help.
    /// `color` adds ANSI colours.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let mut out = String::new();
        let files: Vec<(&str, Vec<&str>)> =
            self.text.parts.iter().map(|(_, part)| (&*part.name, part.text.lines().collect())).collect();
        for problem in &self.list {
            let (name, lines) = files.get(problem.file).map_or(("", &[][..]), |(name, lines)| (*name, lines));
            // Writing to a String cannot fail.
            let _ = self.render_one(&mut out, problem, (name, lines), color);
        }
        out
    }

    fn render_one(
        &self,
        out: &mut String,
        problem: &Diagnostic,
        (name, lines): (&str, &[&str]),
        color: bool,
    ) -> fmt::Result {
        let (word, paint) = match problem.severity {
            Severity::Error => ("error", "\x1b[1;31m"),
            Severity::Warning => ("warning", "\x1b[1;33m"),
            Severity::Info => ("info", "\x1b[1;36m"),
        };
        let (paint, plain) = if color { (paint, "\x1b[0m") } else { ("", "") };
        write!(out, "{name}:")?;
        if problem.line > 0 {
            write!(out, "{}:{}:", problem.line, problem.column)?;
        }
        writeln!(out, " {paint}{word}{plain}: {}", problem.message)?;
        if let Some(line) = problem.line.checked_sub(1).and_then(|above| lines.get(above)) {
            let number = problem.line.to_string();
            let gutter = " ".repeat(number.len());
            // Tabs stay tabs, so that the caret stands below what it means.
            let indent: String = line
                .chars()
                .take(problem.column.saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            writeln!(out, "  {number} | {line}")?;
            writeln!(out, "  {gutter} | {indent}{paint}^{plain}")?;
        }
        if let Some(help) = &problem.help {
            writeln!(out, "  help: {help}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl Error for Report {}

/// Gathers findings while a configuration is read.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    /// Whether the file is an application.yml of Spring's: what Spring silently ignores is then a warning.
    pub(crate) is_spring: bool,
    found: Vec<Found>,
    /// Places whose value is unknown: what is said about them would only repeat why.
    muted: HashSet<u32>,
}

#[derive(Debug)]
struct Found {
    severity: Severity,
    at: At,
    message: String,
    help: Option<String>,
    /// Whether what stands there does nothing, so that it can as well be removed.
    idle: bool,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Nowhere,
    Span(Span),
    LineColumn(usize, usize),
}

impl Diagnostics {
    pub(crate) fn error(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Error, At::Span(at), message.into())
    }

    pub(crate) fn warn(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Warning, At::Span(at), message.into())
    }

    pub(crate) fn info(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Info, At::Span(at), message.into())
    }

    /// What Spring would silently ignore: an error in our own form, a warning in a Spring file. A key that is one is
    /// [`idle`](Help::idle).
    pub(crate) fn mistake(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        let severity = if self.is_spring { Severity::Warning } else { Severity::Error };
        let help = self.push(severity, At::Span(at), message.into());
        if at.key { help.ineffective() } else { help }
    }

    /// An error that belongs to no place in the file.
    pub(crate) fn error_nowhere(&mut self, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Error, At::Nowhere, message.into())
    }

    /// An error whose place the YAML parser itself knows.
    pub(crate) fn error_at(&mut self, line: usize, column: usize, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Error, At::LineColumn(line, column), message.into())
    }

    /// Says no more about the value at `at`.
    pub(crate) fn mute(&mut self, at: Span) {
        self.muted.insert(at.place);
    }

    fn push(&mut self, severity: Severity, at: At, message: String) -> Help<'_> {
        if let At::Span(span) = at
            && self.muted.contains(&span.place)
        {
            return Help(None);
        }
        self.found.push(Found { severity, at, message, help: None, idle: false });
        Help(self.found.last_mut())
    }

    /// What can as well be removed, and why: what is [`Help::idle`], and what is said to do nothing.
    pub(crate) fn ineffective(&self) -> Vec<(Span, String)> {
        let does_nothing = |found: &Found| {
            let says = |words| found.message.contains(words);
            found.severity != Severity::Error && (says("has no effect") || says("does nothing"))
        };
        let idle = self.found.iter().filter(|found| found.idle || does_nothing(found));
        let place = |found: &Found| match found.at {
            At::Span(span) => Some((span, found.message.clone())),
            At::Nowhere | At::LineColumn(..) => None,
        };
        idle.filter_map(place).collect()
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|f| f.severity == Severity::Error)
    }

    /// Whether errors were found since `mark`.
    pub(crate) fn has_errors_since(&self, mark: Mark) -> bool {
        self.found.iter().skip(mark.0).any(|found| found.severity == Severity::Error)
    }

    /// A moment of the reading, for [`Diagnostics::soften`].
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.found.len())
    }

    /// Makes warnings of the errors found since `mark`; false where there were none.
    pub(crate) fn demote_errors(&mut self, mark: Mark) -> bool {
        let mut errors =
            self.found.iter_mut().skip(mark.0).filter(|found| found.severity == Severity::Error).peekable();
        let any = errors.peek().is_some();
        errors.for_each(|found| found.severity = Severity::Warning);
        any
    }

    /// Finds the line and column of each finding and sorts them.
    pub(crate) fn finish(self, text: Text, places: &Places) -> Report {
        let at = |found: &Found| if let At::Span(span) = found.at { Some(span) } else { None };
        let spans: Vec<Span> = self.found.iter().filter_map(at).collect();
        let mut located = locate(&text.whole, places, &spans).into_iter();
        let mut list: Vec<Diagnostic> = self
            .found
            .into_iter()
            .map(|found| {
                let (line, column) = match found.at {
                    At::Nowhere => (0, 0),
                    At::LineColumn(line, column) => (line, column),
                    At::Span(_) => located.next().flatten().unwrap_or((0, 0)),
                };
                let (file, line) = text.place(line);
                Diagnostic { severity: found.severity, file, line, column, message: found.message, help: found.help }
            })
            .collect();
        list.sort_by_key(|p| (p.file, p.line, p.column, p.severity));
        list.dedup();
        Report { text, list }
    }
}

/// How many findings there were at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(usize);

/// The finding just recorded, to say what to do about it.
pub(crate) struct Help<'s>(Option<&'s mut Found>);

impl Help<'_> {
    /// What stands there does nothing: it can as well be removed.
    pub(crate) fn ineffective(mut self) -> Self {
        if let Some(found) = &mut self.0 {
            found.idle = true;
        }
        self
    }

    pub(crate) fn help(self, help: impl Into<String>) {
        if let Some(found) = self.0 {
            found.help = Some(help.into());
        }
    }
}

/// An error with the reasons behind it, on one line.
pub(crate) fn reasons(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(reason) = next {
        let text = reason.to_string();
        // What a regular expression's error draws below the expression does not fit on a line; its last line says it.
        let line = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        message.push_str(": ");
        message.push_str(line);
        next = reason.source();
    }
    message
}

/// The candidate most like `typed`, when one is close enough to be a slip of the finger.
pub(crate) fn closest<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = typed.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.len().min(wanted.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The first candidate that has `typed` as one of its words: `burst` is `burst-capacity`, cut short.
fn cut_short<'c>(typed: &str, candidates: &[&'c str]) -> Option<&'c str> {
    candidates.iter().copied().find(|candidate| candidate.split('-').any(|word| word.eq_ignore_ascii_case(typed)))
}

/// `key: value` for a candidate that is written `key:value`, which to YAML is one word.
fn unspaced(typed: &str, candidates: &[&str]) -> Option<String> {
    let (key, value) = typed.split_once(':')?;
    let is_known = candidates.iter().any(|known| canonical(known) == canonical(key));
    is_known.then(|| format!("write `{key}: {value}`, with a space behind the colon"))
}

/// ``did you mean `x`?`` for [`closest`] or a name cut short, or the whole list when nothing is close.
pub(crate) fn suggest(typed: &str, candidates: &[&str]) -> String {
    if let Some(spaced) = unspaced(typed, candidates) {
        return spaced;
    }
    match closest(typed, candidates.iter().copied()).or_else(|| cut_short(typed, candidates)) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("known here: {}", candidates.join(", ")),
    }
}
