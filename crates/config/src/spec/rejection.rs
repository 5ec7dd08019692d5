//! Reasons why arguments make nothing.

use tollgate_limiter::rule::RuleError;
use tollgate_routing::PredicateError;

use crate::diagnostics::Reported;

/// Reason why arguments make no predicate or rule.
#[derive(Debug)]
pub(crate) enum Rejection<E> {
    /// An error is reported.
    Reported(Reported),
    /// The values are invalid, which is not reported yet.
    Invalid(E),
}

impl<E> Rejection<E> {
    /// Reports the error by `report`, unless it is reported.
    pub(crate) fn reported(self, report: impl FnOnce(&E) -> Reported) -> Reported {
        match self {
            Self::Reported(reported) => reported,
            Self::Invalid(error) => report(&error),
        }
    }
}

impl<E> From<Reported> for Rejection<E> {
    fn from(reported: Reported) -> Self {
        Self::Reported(reported)
    }
}

impl From<RuleError> for Rejection<RuleError> {
    fn from(error: RuleError) -> Self {
        Self::Invalid(error)
    }
}

impl From<PredicateError> for Rejection<PredicateError> {
    fn from(error: PredicateError) -> Self {
        Self::Invalid(error)
    }
}
