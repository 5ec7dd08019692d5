//! Errors of exchanges over HTTP/1.1.

use std::io;

use thiserror::Error;

use crate::http::body::BodyError;

/// Error of an exchange with an HTTP/1.1 upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Http1Error {
    /// The connection was closed before the end of the response.
    #[error("the upstream closed the connection before the end of its response")]
    Incomplete,
    /// The connection failed.
    #[error("the connection failed")]
    Io(#[source] io::Error),
    /// The connection took no byte of the request.
    #[error("the connection took no byte of the request")]
    Unsent,
    /// The response is not valid HTTP/1.1.
    #[error("invalid response: {0}")]
    Invalid(&'static str),
    /// A head or the trailers are larger than `httpclient.max-header-size` allows, or have more fields than
    /// `httpclient.max-headers` allows.
    #[error("the head or the trailers are larger than `httpclient` allows")]
    TooLarge,
    /// The body of the request failed.
    #[error("the request body failed")]
    RequestBody(#[source] BodyError),
    /// The body of the request ended before its announced length.
    #[error("the request body is shorter than its length")]
    ShortRequestBody,
}

impl Http1Error {
    /// Returns true if the upstream sent an invalid response, rather than none.
    #[must_use]
    pub fn is_invalid_response(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::TooLarge)
    }
}
