//! Errors in path and host patterns, and in predicates.

use thiserror::Error;
use tollgate_java_regex::RegexError;

/// An invalid path or host pattern. `at` is a character position in the pattern, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern has no text.
    #[error("the pattern is empty: write `**` to match everything")]
    Empty,
    /// `{` without `}`.
    #[error("`{{` at character {at} is not closed: add `}}`")]
    NotClosed {
        /// Position of the brace.
        at: usize,
    },
    /// `}` without `{`.
    #[error("unmatched `}}` at character {at}: remove it or add `{{` before it")]
    NotOpened {
        /// Position of the brace.
        at: usize,
    },
    /// `{a}{b}`: the pattern does not say where the first variable ends.
    #[error("the variable at character {at} directly follows another variable: put text between them")]
    Adjacent {
        /// Position of the second variable.
        at: usize,
    },
    /// `{*name}` beside other text.
    #[error("`*` at character {at}: `{{*name}}` must be a whole path segment: put it between slashes")]
    RestNotAlone {
        /// Position of the `*`.
        at: usize,
    },
    /// A variable name that is missing or not an identifier.
    #[error(
        "`{name}` at character {at} is not a valid variable name: start with a letter, then use letters, digits, `_`, \
         `$` and `-`"
    )]
    Name {
        /// Position of the name.
        at: usize,
        /// The name.
        name: String,
    },
    /// Two variables with the same name.
    #[error("variable `{name}` at character {at} is defined twice: rename one of them")]
    NameTwice {
        /// Position of the second variable.
        at: usize,
        /// The name.
        name: String,
    },
    /// `{name:}`.
    #[error("the regular expression at character {at} is empty: write it, or remove the `:`")]
    NoRegex {
        /// Position after the `:`.
        at: usize,
    },
    /// A regular expression that does not compile.
    #[error("invalid regular expression at character {at}")]
    Regex {
        /// Position of the expression.
        at: usize,
        /// The reason.
        source: RegexError,
    },
    /// A segment that no normalized path contains: an empty one in the middle, `.` or `..`.
    #[error("the segment at character {at} is empty, `.` or `..`: normalized paths contain none, remove it")]
    Unreachable {
        /// Position of the segment.
        at: usize,
    },
}

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
    pub(crate) fn value(value: &str, expected: &'static str) -> Self {
        Self::Value { value: value.to_owned(), expected }
    }
}
