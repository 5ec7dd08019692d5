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
    /// A method that is not a token.
    #[error("`{method}` is not an HTTP method: write one such as GET")]
    Method {
        /// The configured text.
        method: String,
    },
    /// A field name that is not a token.
    #[error("`{name}` is not a header name: write one such as X-Request-Id")]
    HeaderName {
        /// The configured text.
        name: String,
    },
    /// An invalid time.
    #[error("`{text}` is not a date-time: write one such as 2027-01-20T17:42:47-07:00, or milliseconds since 1970")]
    Datetime {
        /// The configured text.
        text: String,
    },
    /// `Between` with its times in the wrong order.
    #[error("`{from}` is not before `{to}`: swap them")]
    Order {
        /// The first time.
        from: String,
        /// The second time.
        to: String,
    },
    /// An invalid network.
    #[error("`{source_text}` is not a network: write an IP address or a CIDR block such as 10.0.0.0/8")]
    Network {
        /// The configured text.
        source_text: String,
    },
    /// An invalid version.
    #[error("`{text}` is not a version: write one such as 1.3, or 1.1+ for that version and later ones")]
    Version {
        /// The configured text.
        text: String,
    },
}
