//! Additions to the diagnostic just reported.

use crate::diagnostics::collect::Pending;
use crate::diagnostics::missing::Missing;
use crate::diagnostics::suggest;
use crate::diagnostics::unknown::{UnknownKind, UnknownName};
use crate::yaml::Span;

/// The diagnostic just reported, to add a help text to.
pub struct Help<'s>(Option<&'s mut Pending>);

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
    /// Additions to `pending`, or to nothing for a diagnostic that was dropped.
    pub(super) fn of(pending: Option<&'s mut Pending>) -> Self {
        Self(pending)
    }

    /// Changes the diagnostic.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Pending)) -> Self {
        if let Some(pending) = &mut self.0 {
            change(pending);
        }
        self
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
    pub fn ineffective(self) -> Self {
        self.with(|pending| pending.ineffective = true)
    }

    /// Adds `words` and the place of `span` to the message.
    pub fn beside(self, words: impl Into<String>, span: Span) -> Self {
        self.with(|pending| pending.beside = Some((words.into(), span)))
    }

    /// Adds sections of the application to the message, each with its line.
    pub fn sections(self, sections: Vec<(String, Span)>) -> Self {
        self.with(|pending| pending.sections = sections)
    }

    /// Marks a missing part of an application, for the proposed overlay.
    pub fn missing(self, missing: Missing) -> Self {
        self.with(|pending| pending.missing.push(missing))
    }

    /// Records the filter or predicate `name` as not known: its arguments are masked as those of every filter.
    pub fn unknown_component(self, name: &str) -> Self {
        let name = UnknownName { kind: UnknownKind::Component, name: name.to_owned(), suggested: None };
        self.with(|pending| pending.unknown = Some(name))
    }

    /// Records `typed` as an unknown name, and suggests `meant` in its place.
    pub fn did_you_mean(self, typed: &str, meant: &str) {
        let name = || UnknownName { kind: UnknownKind::Key, name: typed.to_owned(), suggested: None };
        self.with(|pending| pending.unknown.get_or_insert_with(name).suggested = Some(meant.to_owned()))
            .help(suggest::did_you_mean(meant));
    }

    /// Suggests a similar or abbreviated name for `typed`, or lists all candidates.
    pub fn suggest(self, typed: &str, candidates: &[&str]) {
        if self.0.is_none() {
            return;
        }
        match suggest::suggestion(typed, candidates) {
            (_, Some(meant)) => self.did_you_mean(typed, meant),
            (list, None) => self.help(list),
        }
    }

    /// Adds a help text: the remedy.
    pub fn help(self, help: impl Into<String>) {
        self.with(|pending| pending.help = Some(help.into()));
    }
}
