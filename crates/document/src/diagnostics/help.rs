//! Additions to the diagnostic just reported.

use crate::diagnostics::collect::Found;
use crate::diagnostics::missing::Missing;
use crate::diagnostics::suggest;
use crate::diagnostics::unknown::{UnknownKind, UnknownName};
use crate::yaml::Span;

/// The diagnostic just reported, to add a help text to.
pub struct Help<'s>(Option<&'s mut Found>);

/// Proof that an error was collected: the caller has nothing to add. [`Help::reported`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported(());

impl Reported {
    /// Returns the proof for an error that a reader has found, and adds as soon as it ends.
    pub fn promised() -> Self {
        Self(())
    }
}

impl<'s> Help<'s> {
    /// Additions to `found`, or to nothing for a diagnostic that was dropped.
    pub(super) fn of(found: Option<&'s mut Found>) -> Self {
        Self(found)
    }

    /// Returns the diagnostic.
    pub(super) fn found(&mut self) -> Option<&mut Found> {
        self.0.as_deref_mut()
    }

    /// Returns the proof that the error was collected.
    pub fn reported(&self) -> Reported {
        Reported(())
    }

    /// Adds a help text to the error, and returns the proof that it was collected.
    pub fn reported_with(self, help: impl Into<String>) -> Reported {
        let reported = self.reported();
        self.help(help);
        reported
    }

    /// Marks the setting as one without effect: `tollgate migrate` leaves it out.
    pub fn ineffective(mut self) -> Self {
        if let Some(found) = &mut self.0 {
            found.ineffective = true;
        }
        self
    }

    /// Adds `words` and the place of `span` to the message.
    pub fn beside(mut self, words: impl Into<String>, span: Span) -> Self {
        if let Some(found) = &mut self.0 {
            found.beside = Some((words.into(), span));
        }
        self
    }

    /// Adds sections of the application to the message, each with its line.
    pub fn sections(mut self, sections: Vec<(String, Span)>) -> Self {
        if let Some(found) = &mut self.0 {
            found.sections = sections;
        }
        self
    }

    /// Marks a missing part of an application, for the proposed overlay.
    pub fn missing(mut self, missing: Missing) -> Self {
        if let Some(found) = &mut self.0 {
            found.missing.push(missing);
        }
        self
    }

    /// Records the filter or predicate `name` as not known: its arguments are masked as those of every filter.
    pub fn unknown_component(mut self, name: &str) -> Self {
        if let Some(found) = &mut self.0 {
            found.unknown = Some(UnknownName { kind: UnknownKind::Component, name: name.to_owned(), suggested: None });
        }
        self
    }

    /// Records `typed` as an unknown name, and suggests `meant` in its place.
    pub fn did_you_mean(mut self, typed: &str, meant: &str) {
        if let Some(found) = &mut self.0 {
            let name = || UnknownName { kind: UnknownKind::Key, name: typed.to_owned(), suggested: None };
            found.unknown.get_or_insert_with(name).suggested = Some(meant.to_owned());
        }
        self.help(suggest::did_you_mean(meant));
    }

    /// Suggests a similar or abbreviated name for `typed`, or lists all candidates.
    pub fn suggest(self, typed: &str, candidates: &[&str]) {
        match suggest::suggestion(typed, candidates) {
            Some(meant) => self.did_you_mean(typed, meant),
            None => self.help(suggest::suggest(typed, candidates)),
        }
    }

    /// Adds a help text: the remedy.
    pub fn help(self, help: impl Into<String>) {
        if let Some(found) = self.0 {
            found.help = Some(help.into());
        }
    }
}
