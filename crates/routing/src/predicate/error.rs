//! What can be wrong with a predicate.

use thiserror::Error;
use tollgate_java_regex::RegexError;

use super::super::pattern_error::PatternError;

/// A predicate that cannot be built from what was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PredicateError {
    /// Nothing to compare with.
    #[error("no {what} is given: name at least one")]
    NoValues {
        /// What is missing.
        what: &'static str,
    },
    /// A broken path pattern.
    #[error("path pattern `{pattern}` cannot be used")]
    Path {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// A broken host pattern.
    #[error("host pattern `{pattern}` cannot be used")]
    Host {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: PatternError,
    },
    /// A broken regular expression.
    #[error("regular expression `{regexp}` cannot be used")]
    Regexp {
        /// The expression.
        regexp: String,
        /// What is wrong with it.
        source: RegexError,
    },
    /// A method that is no token.
    #[error("`{method}` is no HTTP method: write one such as GET")]
    Method {
        /// What was written.
        method: String,
    },
    /// A field name that is no token.
    #[error("`{name}` is no header name: write one such as X-Request-Id")]
    HeaderName {
        /// What was written.
        name: String,
    },
    /// A time that cannot be read.
    #[error("`{text}` is no date-time: write one such as 2027-01-20T17:42:47-07:00, or milliseconds since 1970")]
    Datetime {
        /// What was written.
        text: String,
    },
    /// `Between` with its times in the wrong order.
    #[error("`{from}` is not before `{to}`: exchange them")]
    Order {
        /// The first time.
        from: String,
        /// The second.
        to: String,
    },
    /// A network that cannot be read.
    #[error("`{source_text}` is no network: write an IP address or a CIDR block such as 10.0.0.0/8")]
    Network {
        /// What was written.
        source_text: String,
    },
    /// A version that cannot be read.
    #[error("`{text}` is no version: write one such as 1.3, or 1.1+ for that and later ones")]
    Version {
        /// What was written.
        text: String,
    },
}
