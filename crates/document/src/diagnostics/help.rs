//! Additions to the diagnostic just reported.

use crate::diagnostics::collect::{Diagnostics, Pending};
use crate::diagnostics::missing::Missing;
use crate::diagnostics::suggest::{self, Budget};
use crate::diagnostics::unknown::{UnknownKind, UnknownName};
use crate::yaml::Span;

/// The diagnostic just reported, to add a help text to.
pub struct Help<'s> {
    /// `None` for a diagnostic that was dropped.
    pending: Option<&'s mut Pending>,
    budget: &'s Budget,
}

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
    pub(super) fn of(pending: Option<&'s mut Pending>, budget: &'s Budget) -> Self {
        Self { pending, budget }
    }

    /// Changes the diagnostic.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Pending)) -> Self {
        if let Some(pending) = &mut self.pending {
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
        self.with(|pending| pending.beside.push((words.into(), Some(span))))
    }

    /// Adds `words` behind the places of the message.
    pub fn ending(self, words: impl Into<String>) -> Self {
        self.with(|pending| pending.beside.push((words.into(), None)))
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
        if self.pending.is_none() {
            return;
        }
        match suggest::suggestion(typed, candidates, self.budget) {
            (_, Some(meant)) => self.did_you_mean(typed, meant),
            (list, None) => self.help(list),
        }
    }

    /// Adds a help text: the remedy.
    pub fn help(self, help: impl Into<String>) {
        self.with(|pending| pending.help = Some(help.into()));
    }
}

impl Diagnostics {
    /// Returns the candidate most similar to `typed`, if it is close enough to be a typing error, and if the suggestions of the
    /// report have not taken too much work yet.
    pub fn closest<'c>(&self, typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
        suggest::closest(typed, candidates, &self.suggestions)
    }

    /// Returns ``did you mean `x`?`` for a similar or abbreviated name, or a list of the candidates.
    pub fn suggest(&self, typed: &str, candidates: &[&str]) -> String {
        suggest::suggestion(typed, candidates, &self.suggestions).0
    }
}
