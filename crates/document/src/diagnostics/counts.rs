//! Numbers of diagnostics that are not shown.

use crate::diagnostics::report::Severity;

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
