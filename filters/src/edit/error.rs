//! What is wrong with an edit as configured.

use thiserror::Error;

/// An edit that no request or response could be given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EditError {
    /// Not a header name (RFC 9110 §5.1).
    #[error("`{0}` is not a header name, use letters, digits and hyphens")]
    HeaderName(String),
    /// Not a header value (RFC 9110 §5.5).
    #[error("the value of `{0}` holds a control character, remove it")]
    HeaderValue(String),
    /// A header that says where a message ends.
    #[error("`{0}` frames the message and cannot be set, remove this filter")]
    Framing(String),
    /// A path without a slash in front.
    #[error("path `{0}` must begin with `/`")]
    RelativePath(String),
    /// A path with a query or a fragment.
    #[error("path `{path}` holds `{found}`, write the path alone and change parameters with AddRequestParameter")]
    NotOnlyAPath {
        /// As configured.
        path: String,
        /// `?` or `#`.
        found: char,
    },
    /// A parameter without a name.
    #[error("a parameter needs a name")]
    NoParameter,
    /// Not a host with or without a port.
    #[error("`{0}` is not a host, write `host` or `host:port`")]
    Host(String),
    /// Not a pattern, or one that no engine can match.
    #[error("regexp `{regexp}` cannot be used: {problem}")]
    Regexp {
        /// As configured.
        regexp: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Not a replacement for this pattern.
    #[error("replacement `{replacement}` cannot be used: {problem}")]
    Replacement {
        /// As configured.
        replacement: String,
        /// What is wrong with it.
        problem: String,
    },
}
