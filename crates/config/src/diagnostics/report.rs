//! Diagnostics with their lines, for a terminal or the log.

use std::error::Error;
use std::fmt::{self, Write as _};

use crate::diagnostics::text::SourceText;

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
    text: SourceText,
    list: Vec<Diagnostic>,
}

impl Report {
    pub(super) fn new(text: SourceText, list: Vec<Diagnostic>) -> Self {
        Self { text, list }
    }

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
            let name = self.text.files.get(*file).map_or("", |(_, file)| &file.name);
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
            self.text.files.iter().map(|(_, file)| (&*file.name, file.text.lines().collect())).collect();
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
