//! Errors in predicates.

use thiserror::Error;
use tollgate_java_regex::RegexError;

use crate::pattern_error::PatternError;

/// An invalid argument of a predicate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PredicateError {
    /// An empty list or name.
    #[error("no {kind} given: write at least one")]
    NoValues {
        /// The kind of value that is missing.
        kind: &'static str,
    },
    /// An invalid path pattern.
    #[error("invalid path pattern `{pattern}`")]
    Path {
        /// The pattern.
        pattern: String,
        /// The reason.
        source: PatternError,
    },
    /// An invalid host pattern.
    #[error("invalid host pattern `{pattern}`")]
    Host {
        /// The pattern.
        pattern: String,
        /// The reason.
        source: PatternError,
    },
    /// An invalid regular expression.
    #[error("invalid regular expression `{regexp}`")]
    Regexp {
        /// The expression.
        regexp: String,
        /// The reason.
        source: RegexError,
    },
    /// A value of the wrong kind.
    #[error("`{value}` is not {expected}")]
    Value {
        /// The configured text.
        value: String,
        /// The expected kind, and an example.
        expected: &'static str,
    },
    /// An option of the wrong kind.
    #[error("`{name}` must be {expected}, found `{value}`")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// The expected kind.
        expected: &'static str,
        /// The configured text.
        value: String,
    },
    /// `Between` with its times in the wrong order.
    #[error("`{from}` is not before `{to}`: swap them")]
    Order {
        /// The first time.
        from: String,
        /// The second time.
        to: String,
    },
}

impl PredicateError {
    /// Returns the argument that is wrong, as the file has it.
    #[must_use]
    pub fn value_of_argument(&self) -> Option<&str> {
        match self {
            Self::NoValues { .. } => None,
            Self::Path { pattern: value, .. } | Self::Host { pattern: value, .. } => Some(value),
            Self::Regexp { regexp: value, .. } | Self::Value { value, .. } | Self::Option { value, .. } => Some(value),
            Self::Order { from, .. } => Some(from),
        }
    }

    /// Creates the error of a value of the wrong kind.
    pub(super) fn value(value: &str, expected: &'static str) -> Self {
        Self::Value { value: value.to_owned(), expected }
    }
}
