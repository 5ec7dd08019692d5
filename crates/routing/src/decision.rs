//! Outcome of a condition, which may remain open.

use thiserror::Error;
use tollgate_java_regex::TooSlow;

/// Outcome of a condition on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The condition holds.
    Yes,
    /// The condition does not hold.
    No,
    /// A regular expression exceeded its limit of steps, so that the outcome is unknown. Its negation is unknown, too.
    Undecided,
}

/// Error of a look-up that depends on an undecided predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a regular expression takes too long to match this request")]
pub struct Undecided;

// === impl Decision ===

impl Decision {
    /// Returns the decision on "at least one": `Yes` at the first `Yes`.
    pub(crate) fn any(decisions: impl IntoIterator<Item = Self>) -> Self {
        let mut result = Self::No;
        for decision in decisions {
            match decision {
                Self::Yes => return Self::Yes,
                Self::Undecided => result = Self::Undecided,
                Self::No => {}
            }
        }
        result
    }

    /// Returns the decision on "all": `No` at the first `No`.
    pub fn all(decisions: impl IntoIterator<Item = Self>) -> Self {
        let mut result = Self::Yes;
        for decision in decisions {
            match decision {
                Self::No => return Self::No,
                Self::Undecided => result = Self::Undecided,
                Self::Yes => {}
            }
        }
        result
    }

    /// Returns the decision on the opposite.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Undecided => Self::Undecided,
        }
    }
}

impl From<bool> for Decision {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl From<Result<bool, TooSlow>> for Decision {
    fn from(outcome: Result<bool, TooSlow>) -> Self {
        outcome.map_or(Self::Undecided, Self::from)
    }
}
