//! Diagnostics as text, for a terminal or the log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::fmt::{self, Write as _};

use crate::characters::is_unsafe;
use crate::diagnostics::lines::{self, FileLines};
use crate::diagnostics::report::{Counts, Diagnostic, Report, Severity};

/// Diagnostics that a text shows, if nothing else is said.
pub const MAX_SHOWN: usize = 100;

/// Remedy for those that are not shown.
const ALL_SHOWN: &str = "; `tollgate check --max-problems 0` shows more";

/// A line of a file as excerpts show it. Several diagnostics may be about one long line.
#[derive(Default)]
struct ShownLine {
    /// File and line.
    at: (usize, usize),
    /// `None` if there is no such line.
    masked: Option<Vec<char>>,
}

impl Report {
    /// Returns `max` diagnostics, sorted by position: errors before warnings before notes.
    pub fn first(&self, max: usize) -> Vec<&Diagnostic> {
        self.shown(max).0
    }

    /// Returns the [first](Self::first) diagnostics, and counts the others.
    fn shown(&self, max: usize) -> (Vec<&Diagnostic>, Counts) {
        let mut ranked: Vec<(usize, &Diagnostic)> = self.list.iter().enumerate().collect();
        let mut others = self.facts.unlisted.clone();
        if ranked.len() > max {
            ranked.sort_by_key(|(_, diagnostic)| diagnostic.severity);
            ranked.drain(max..).for_each(|(_, diagnostic)| others.add(diagnostic.severity));
            ranked.sort_by_key(|(at, _)| *at);
        }
        (ranked.into_iter().map(|(_, diagnostic)| diagnostic).collect(), others)
    }

    /// Writes each diagnostic to the log, one line each, at the level of its severity: [`MAX_SHOWN`] at most.
    pub fn log(&self) {
        let (shown, others) = self.shown(MAX_SHOWN);
        for diagnostic in shown {
            let name = self.text.name(diagnostic.file);
            let place = format!("{name}:{}:{}", diagnostic.line, diagnostic.column);
            let (message, help) = (diagnostic.text(), diagnostic.help.as_deref());
            match diagnostic.severity {
                Severity::Error => tracing::error!(place, help, "{message}"),
                Severity::Warning => tracing::warn!(place, help, "{message}"),
                Severity::Note => tracing::info!(place, help, "{message}"),
            }
        }
        if let Some(others) = others.in_words() {
            tracing::warn!("{others}{ALL_SHOWN}");
        }
    }

    /// Renders each diagnostic as `file:line:column: error: message`, with its line, a caret below and its help.
    /// `color` adds ANSI colours. Shows [`MAX_SHOWN`] of them.
    pub fn render(&self, color: bool) -> String {
        self.render_at_most(MAX_SHOWN, color)
    }

    /// Renders the diagnostics as [`render`](Self::render), `max` of them, and the number of the others.
    pub fn render_at_most(&self, max: usize, color: bool) -> String {
        let (shown, others) = self.shown(max);
        let mut out = self.render_those(color, shown.into_iter());
        if let Some(others) = others.in_words() {
            let hint = if self.list.len() > max { ALL_SHOWN } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{others}{hint}");
        }
        out
    }

    /// Renders the notes that name sections of the application, which are not the gateway's, as [`render`](Self::render).
    pub fn render_sections(&self, color: bool) -> String {
        self.render_those(color, self.list.iter().filter(|problem| problem.names_sections))
    }

    fn render_those<'d>(&self, color: bool, shown_ones: impl Iterator<Item = &'d Diagnostic>) -> String {
        let mut out = String::new();
        let files = lines::of_files(&self.text);
        let mut shown = ShownLine::default();
        for problem in shown_ones {
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
            let (part, column) = excerpt(line, problem.column.saturating_sub(1));
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl Error for Report {}

/// Maximum number of characters of an excerpt, without the marks of what was cut.
const MAX: usize = 160;
/// Mark of a part that was cut.
const CUT: char = '…';
/// Character in place of one that is not shown.
const STAND_IN: char = '\u{fffd}';

/// Returns the part of `line` around `column`, counted from 0, and the column in that part. A short line is returned
/// in full. A character that a terminal would not show as it is has a stand-in, so that columns stay.
fn excerpt(line: &[char], column: usize) -> (String, usize) {
    let length = line.len();
    let shown = |c: &char| if is_unsafe(*c) && *c != '\t' { STAND_IN } else { *c };
    if length <= MAX {
        return (line.iter().map(shown).collect(), column);
    }
    let start = column.saturating_sub(MAX / 2).min(length - MAX);
    let mut part = String::new();
    if start > 0 {
        part.push(CUT);
    }
    part.extend(line.iter().skip(start).take(MAX).map(shown));
    if start + MAX < length {
        part.push(CUT);
    }
    (part, column - start + usize::from(start > 0))
}

/// Maximum number of further lines in a message.
const MAX_LINES: usize = 5;

/// Keeps the first of equal warnings and notes of a file, with the lines of the others. Errors stay one by one.
pub(super) fn join_repeats(list: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(list.len());
    let mut seen: HashMap<(usize, Severity, String, Option<String>), usize> = HashMap::new();
    for found in list {
        if found.severity == Severity::Error || found.line == 0 {
            kept.push(found);
            continue;
        }
        match seen.entry((found.file, found.severity, found.message.clone(), found.help.clone())) {
            Entry::Occupied(first) => {
                let first = &mut kept[*first.get()];
                if first.also.last().copied().unwrap_or(first.line) != found.line {
                    first.also.push(found.line);
                }
            }
            Entry::Vacant(first) => {
                first.insert(kept.len());
                kept.push(found);
            }
        }
    }
    kept
}

impl Diagnostic {
    /// Returns the message, with the further lines to which it applies: five at most, and the number of the rest.
    pub fn text(&self) -> Cow<'_, str> {
        if self.also.is_empty() {
            return Cow::Borrowed(&self.message);
        }
        let shown: Vec<String> = self.also.iter().take(MAX_LINES).map(ToString::to_string).collect();
        let rest = self.also.len() - shown.len();
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let word = if self.also.len() == 1 { "line" } else { "lines" };
        Cow::Owned(format!("{} (also in {word} {}{more})", self.message, shown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let line: Vec<char> = (0..1000).map(|at| if at == 500 { 'ä' } else { 'x' }).collect();
        for (column, length) in
            [(0, 161), (80, 161), (81, 162), (500, 162), (919, 162), (920, 161), (999, 161), (1000, 161)]
        {
            let (part, shown) = excerpt(&line, column);
            assert_eq!(part.chars().count(), length, "{column}");
            assert_eq!(part.chars().nth(shown), line.get(column).copied(), "{column}");
        }
        assert_eq!(excerpt(&line, 500).0.chars().nth(81), Some('ä'));
        assert_eq!(excerpt(&['x'; MAX], 9), ("x".repeat(MAX), 9));
    }

    #[test]
    fn characters_that_a_terminal_does_not_show_have_a_stand_in() {
        let line: Vec<char> = "a\u{202e}b\u{200b}\u{1b}[31m\tä".chars().collect();
        assert_eq!(excerpt(&line, 2), ("a\u{fffd}b\u{fffd}\u{fffd}[31m\tä".to_owned(), 2));
        let line: Vec<char> = "\u{feff}".repeat(1_000).chars().collect();
        assert!(!excerpt(&line, 500).0.contains('\u{feff}'));
    }
}
