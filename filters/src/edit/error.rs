//! Errors in configured edits.

use thiserror::Error;
use tollgate_routing::PathError;

/// An invalid edit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EditError {
    /// Not a header name (RFC 9110 §5.1).
    #[error("`{0}` is not a header name: use letters, digits and hyphens")]
    HeaderName(String),
    /// Not a header value (RFC 9110 §5.5).
    #[error("the value of `{0}` contains a control character: remove it")]
    HeaderValue(String),
    /// `Content-Length` or `Transfer-Encoding`, which delimit messages.
    #[error("`{0}` frames the message and cannot be set: remove this filter")]
    Framing(String),
    /// A path without a leading slash.
    #[error("path `{0}` must start with `/`")]
    RelativePath(String),
    /// A path with a query or a fragment.
    #[error(
        "path `{path}` contains `{delimiter}`: write only the path, and change parameters with AddRequestParameter"
    )]
    PathWithQuery {
        /// The configured text.
        path: String,
        /// `?` or `#`.
        delimiter: char,
    },
    /// A parameter without a name.
    #[error("a parameter needs a name")]
    NamelessParameter,
    /// Not a host with or without a port.
    #[error("`{0}` is not a host: write `host` or `host:port`")]
    Host(String),
    /// An invalid or unsupported regular expression.
    #[error("invalid regexp `{regexp}`: {problem}")]
    Regexp {
        /// The configured text.
        regexp: String,
        /// The reason.
        problem: String,
    },
    /// An invalid replacement.
    #[error("invalid replacement `{replacement}`: {problem}")]
    Replacement {
        /// The configured text.
        replacement: String,
        /// The reason.
        problem: String,
    },
}

impl EditError {
    /// Returns the argument that is wrong, or that names it.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::HeaderName(value) | Self::HeaderValue(value) | Self::Framing(value) => Some(value),
            Self::RelativePath(value) | Self::Host(value) | Self::PathWithQuery { path: value, .. } => Some(value),
            Self::Regexp { regexp: value, .. } | Self::Replacement { replacement: value, .. } => Some(value),
            Self::NamelessParameter => None,
        }
    }
}

/// The reason why an edit cannot be applied to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ApplyError {
    /// A value names a variable that the route does not have: a configuration error.
    #[error("a filter names a URI variable that the matched pattern does not have")]
    UnknownVariable,
    /// Text from the client is invalid in a field.
    #[error("a value of the request is not valid in the field that a filter sets")]
    BadField,
    /// Text from the client is invalid in the target.
    #[error("a value of the request is not valid in the target that a filter sets")]
    BadTarget,
    /// Text from the client makes an invalid path.
    #[error("after a filter, {0}")]
    BadPath(#[from] PathError),
    /// Text from the client makes an invalid host.
    #[error("a value of the request makes no valid host")]
    BadHost,
    /// A regular expression took too long.
    #[error("a path rewrite exceeded the limit of backtracking steps")]
    TooSlow,
}
