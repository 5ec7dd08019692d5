//! Collection of diagnostics while a configuration is read.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::diagnostics::help::Help;
use crate::diagnostics::lines;
use crate::diagnostics::missing::{Missing, Section};
use crate::diagnostics::report::{Counts, Diagnostic, Facts, MAX_LISTED, Mark, Report, Severity};
use crate::diagnostics::secrets::{self, Secret};
use crate::diagnostics::suggest::Budget;
use crate::diagnostics::text::{ServerPlaces, SourceText};
use crate::diagnostics::unknown::{UnknownKey, UnknownName};
use crate::yaml::{Node, Problem, Span};

/// Collects diagnostics while a configuration is read.
#[derive(Debug, Default)]
pub struct Diagnostics {
    /// Severity of settings that Spring silently ignores: an error in our own form, a warning in an `application.yml`.
    pub mistakes: Severity,
    /// True for files with comments that accept diagnostics. Until those are located, a mistake counts as a warning.
    pub has_acceptances: bool,
    pending: Vec<Pending>,
    /// Number of diagnostics of each severity in `pending`, and of those that are not kept.
    kept: Counts,
    unlisted: Counts,
    /// Secrets that placeholders and the environment put into the files.
    resolved: Vec<Secret>,
    /// Returns true for a word of messages, which is masked at the place of a secret only.
    pub is_word: Option<fn(&str) -> bool>,
    /// Places with an unknown value; later diagnostics about them are dropped.
    muted: HashSet<u32>,
    /// The first document.
    pub root: Span,
    /// Servers that the files name.
    pub servers: ServerPlaces,
    pub(super) suggestions: Budget,
}

/// A diagnostic whose line is not yet known.
#[derive(Debug, Default)]
pub(super) struct Pending {
    severity: Severity,
    /// `None` for an error without a position in the files.
    at: Option<Span>,
    message: String,
    pub(super) help: Option<String>,
    /// Name that the message reports as not known.
    pub(super) unknown: Option<UnknownName>,
    /// Texts that end the message, each with the position behind it.
    pub(super) beside: Vec<(String, Option<Span>)>,
    /// Sections of the application, which end the message with their lines.
    pub(super) sections: Vec<(String, Span)>,
    /// Parts of an application that are missing; the first one is reported once.
    pub(super) missing: Vec<Missing>,
    /// True if the setting has no effect, so that it can be removed.
    pub(super) ineffective: bool,
    /// True for a setting of our own form that Spring would silently ignore.
    is_mistake: bool,
}

impl Diagnostics {
    /// Adds an error.
    pub fn error(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Error, Some(at), message.into())
    }

    /// Adds a warning.
    pub fn warn(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Warning, Some(at), message.into())
    }

    /// Adds a warning, or a note if the author probably means it.
    pub fn warn_unless(&mut self, is_meant: bool, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(if is_meant { Severity::Note } else { Severity::Warning }, Some(at), message.into())
    }

    /// Adds a note.
    pub fn note(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Note, Some(at), message.into())
    }

    /// Reports a setting that Spring would silently ignore: an error in our own form unless a comment accepts it, a warning
    /// in a Spring file. What is built is the same in both. A key is marked as [ineffective](Help::ineffective).
    pub fn mistake(&mut self, at: Span, message: impl Into<String>) -> Help<'_> {
        let is_own_form = self.mistakes == Severity::Error;
        let is_listed = self.kept.of(Severity::Warning) < MAX_LISTED;
        let severity = if self.has_acceptances && is_listed { Severity::Warning } else { self.mistakes };
        let help = self.push(severity, Some(at), message.into()).with(|pending| pending.is_mistake = is_own_form);
        if at.key { help.ineffective() } else { help }
    }

    /// Reports a setting that the gateway does not use: a note in an `application.yml`, whose other readers may use it.
    pub fn unused(&mut self, severity: Severity, at: Span, message: impl Into<String>) -> Help<'_> {
        let severity = if self.mistakes == Severity::Warning { Severity::Note } else { severity };
        self.push(severity, Some(at), message.into()).ineffective()
    }

    /// Reports a key that is not known, with the nearest known one.
    pub fn unknown_key(&mut self, unknown: &UnknownKey) {
        let name = unknown.path.last().map_or("", String::as_str);
        let mut message = format!("unknown key `{name}`");
        if self.mistakes == Severity::Warning {
            let is_name = |step: &&String| !step.starts_with('[') && step.parse::<usize>().is_err();
            let above: Vec<&str> =
                unknown.path.iter().rev().skip(1).rev().filter(is_name).map(String::as_str).collect();
            if !above.is_empty() {
                message.push_str(&format!(" in `{}`", above.join(".")));
            }
            message.push_str(" has no effect, as in Spring");
        }
        self.mistake(unknown.span.key(), message).suggest(name, &unknown.fields);
    }

    /// Reports an error without a position in the file.
    pub fn error_nowhere(&mut self, message: impl Into<String>) -> Help<'_> {
        self.push(Severity::Error, None, message.into())
    }

    /// Adds the errors of the parser.
    pub fn add_syntax_errors(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            self.add_problem(Severity::Error, problem);
        }
    }

    /// Adds the warnings of the parser.
    pub fn add_syntax_warnings(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            self.add_problem(Severity::Warning, problem);
        }
    }

    fn add_problem(&mut self, severity: Severity, Problem { at, message, help, first }: Problem) {
        let mut added = self.push(severity, Some(at), message);
        if let Some(first) = first {
            added = added.beside("; the first is at", first);
        }
        if let Some(help) = help {
            added.help(help);
        }
    }

    /// Masks the secrets of `root`, whose placeholders are resolved, and those of the replaced placeholders in `values`, by name, in messages.
    pub fn mask_resolved(&mut self, root: &Node, values: BTreeMap<String, String>) {
        self.resolved = secrets::of_resolved(root, values);
    }

    /// Masks `secret`, the content of a file that the setting at `at` names, in messages.
    pub fn mask_content(&mut self, at: Span, secret: &str) {
        self.resolved.push(Secret::new(at, secret));
    }

    /// Drops later diagnostics about the value at `at`.
    pub fn mute(&mut self, at: Span) {
        self.muted.insert(at.node);
    }

    /// Ends the effect of [`mute`](Self::mute) on the value at `at`.
    pub fn unmute(&mut self, at: Span) {
        self.muted.remove(&at.node);
    }

    fn push(&mut self, severity: Severity, at: Option<Span>, message: String) -> Help<'_> {
        if at.is_some_and(|span| self.muted.contains(&span.node)) {
            return Help::of(None, &self.suggestions);
        }
        if self.kept.of(severity) >= MAX_LISTED {
            self.unlisted.add(severity);
            return Help::of(None, &self.suggestions);
        }
        self.kept.add(severity);
        self.pending.push(Pending { severity, at, message, ..Pending::default() });
        Help::of(self.pending.last_mut(), &self.suggestions)
    }

    /// Names the missing parts that are other values of the properties at their places. Drops those of no property.
    pub fn name_missing(&mut self, properties: &Node) {
        let is_nameless = |pending: &Pending| pending.missing.iter().any(|missing| missing.name.is_empty());
        let places = self.pending.iter().filter(|pending| is_nameless(pending)).filter_map(|pending| pending.at);
        let mut names: HashMap<u32, String> = places.map(|at| (at.node, String::new())).collect();
        if names.is_empty() {
            return;
        }
        properties.name_paths(&mut names);
        for pending in &mut self.pending {
            let Some(at) = pending.at.filter(|_| is_nameless(pending)) else { continue };
            let name = names.get(&at.node).cloned().unwrap_or_default();
            pending
                .missing
                .iter_mut()
                .filter(|missing| missing.name.is_empty())
                .for_each(|missing| missing.name.clone_from(&name));
            pending.missing.retain(|missing| !missing.name.is_empty());
        }
    }

    /// Returns the settings without effect, each with the message that says why.
    pub fn ineffective(&self) -> Vec<(Span, String)> {
        let place = |pending: &Pending| Some((pending.at?, pending.message.clone()));
        self.pending.iter().filter(|pending| pending.ineffective).filter_map(place).collect()
    }

    /// Returns true if an error was reported.
    pub fn has_errors(&self) -> bool {
        self.has_errors_since(Mark::default())
    }

    /// Returns true if errors were reported since `mark`.
    pub fn has_errors_since(&self, mark: Mark) -> bool {
        let unlisted = self.unlisted.of(Severity::Error) > mark.unlisted_errors;
        unlisted || self.pending.iter().skip(mark.pending).any(|pending| pending.severity == Severity::Error)
    }

    /// Returns the current position, for [`Diagnostics::demote_errors`].
    pub fn mark(&self) -> Mark {
        Mark { pending: self.pending.len(), unlisted_errors: self.unlisted.of(Severity::Error) }
    }

    /// Turns the errors reported since `mark` into warnings; returns false if there were none.
    pub fn demote_errors(&mut self, mark: Mark) -> bool {
        let is_error = |pending: &&mut Pending| pending.severity == Severity::Error;
        let mut any = self.unlisted.demote_errors(mark.unlisted_errors);
        for pending in self.pending.iter_mut().skip(mark.pending).filter(is_error) {
            pending.severity = Severity::Warning;
            any = true;
        }
        any
    }

    /// Keeps the first diagnostic about each missing part, with the number of places. Returns the parts.
    fn report_missing_once(&mut self) -> Vec<Missing> {
        let mut counts: HashMap<(Section, String), usize> = HashMap::new();
        for missing in self.pending.iter().filter_map(|pending| pending.missing.first()) {
            *counts.entry(missing.identity()).or_default() += 1;
        }
        let mut seen = HashSet::new();
        let all = self.pending.iter().flat_map(|pending| &pending.missing);
        let all: Vec<Missing> = all.filter(|missing| seen.insert(missing.identity())).cloned().collect();
        self.pending.retain_mut(|pending| {
            let Some(missing) = pending.missing.first() else { return true };
            let Some(count) = counts.remove(&missing.identity()) else { return false };
            if count > 1 {
                pending.message.push_str(&format!(" ({count} times)"));
            }
            true
        });
        all
    }

    /// Finds the line and column of each diagnostic and sorts them.
    pub fn finish(mut self, text: SourceText) -> Report {
        let is_other = |pending: &Pending| {
            let is_proposed = !pending.missing.is_empty() && pending.missing.iter().all(Missing::is_proposed);
            pending.severity == Severity::Error && !is_proposed
        };
        let has_other_errors = self.unlisted.of(Severity::Error) > 0 || self.pending.iter().any(is_other);
        let missing = self.report_missing_once();
        let lines = lines::of_files(&text);
        let place = |span: Span| lines::place(&text, &lines, if span.is_root() { self.root } else { span });
        let mut list: Vec<Diagnostic> = self
            .pending
            .into_iter()
            .map(|pending| {
                let (file, line, column) = pending.at.map_or((0, 0, 0), place);
                let mut message = pending.message;
                for (words, span) in pending.beside {
                    message.push_str(&words);
                    let Some((file, line, column)) = span.map(place) else { continue };
                    message.push_str(&format!(" {}", text.name(file)));
                    if line > 0 {
                        message.push_str(&format!(":{line}:{column}"));
                    }
                }
                let mut sections: Vec<(usize, String)> =
                    pending.sections.into_iter().map(|(name, span)| (place(span).1, name)).collect();
                sections.sort_by_key(|(line, _)| *line);
                let names_sections = !sections.is_empty();
                let shown = sections.iter().map(|(line, name)| match line {
                    0 => format!("`{name}`"),
                    _ => format!("`{name}` (line {line})"),
                });
                message.push_str(&shown.collect::<Vec<_>>().join(", "));
                let Pending { severity, help, unknown, is_mistake, .. } = pending;
                let also = Vec::new();
                Diagnostic { severity, file, line, column, message, also, help, unknown, is_mistake, names_sections }
            })
            .collect();
        drop(lines);
        list.sort_by_key(|p| (p.file, p.line, p.column, p.severity));
        list.dedup();
        let (unlisted, resolved, words) = (self.unlisted, self.resolved, self.is_word);
        Report::new(text, list, Facts { missing, has_other_errors, unlisted, resolved, words })
    }
}
