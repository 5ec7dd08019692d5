//! Errors of forwarded requests.

use std::error::Error;

use thiserror::Error;
use tollgate_filters::fault::Fault;
use tollgate_filters::request_size::BodyTooLarge;

use crate::http::body::BodyError;
use crate::http::failure::Failure;
use crate::upstream::pool::ConnectError;
use crate::upstream::pool::http1::Http1Error;
use tollgate_transport::{causes, error_chain};

/// Error of a request that got no response from its upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No connection could be established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection closed early, or the response was not valid HTTP.
    #[error("the exchange with the upstream failed")]
    Exchange(#[source] Http1Error),
    /// The stream or its connection failed, or the response was not valid HTTP/2.
    #[error("the exchange with the upstream failed")]
    Stream(#[source] h2::Error),
    /// The request body failed before the response.
    #[error("the exchange with the upstream failed")]
    RequestBody(#[source] BodyError),
    /// The upstream closed the connection while the gateway had been waiting for the client's body.
    #[error("the upstream closed the connection while the client was not sending its body")]
    BodyTooLate,
    /// The body of the response broke off, or broke HTTP's framing, together with its head.
    #[error("the response of the upstream is incomplete")]
    Body(#[from] BodyError),
    /// The response has a transfer coding other than `chunked`.
    #[error("the transfer coding of the upstream's response is not supported: only `chunked` is")]
    TransferCoding,
    /// The response has more fields than `httpclient.max-headers` allows.
    #[error("the upstream's response has more fields than `httpclient.max-headers` allows")]
    TooManyFields,
    /// The response timeout passed.
    #[error("the upstream did not respond in time")]
    Timeout,
    /// The upstream has no healthy endpoint.
    #[error("the upstream has no healthy endpoint")]
    NoEndpoint {
        /// Responds with 404 instead of 503.
        as_not_found: bool,
    },
    /// The upstream refused the stream without processing it (RFC 9113 §8.7). The request may be sent again.
    #[error("the upstream refused the stream")]
    Refused(#[source] h2::Error),
    /// The request's `Host` is not a valid `:authority` for HTTP/2.
    #[error("the Host of the request is not valid for HTTP/2")]
    BadHost,
    /// A filter set a target that is not an HTTP URI.
    #[error("the target set by a filter is not an http or https URI")]
    BadTarget,
    /// Requests name more targets than the gateway keeps connections for.
    #[error("requests name too many targets")]
    TooManyOrigins,
    /// The upstream sent status 101 without a requested upgrade.
    #[error("the upstream switched protocols without a request to do so")]
    UnexpectedUpgrade,
}

impl ForwardError {
    /// Returns the fault of the upstream, for the circuit breaker and its fallback.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Connect(ConnectError::Resolve(_)) => Fault::NameNotResolved,
            Self::Connect(ConnectError::Timeout | ConnectError::TlsTimeout) => Fault::ConnectTimeout,
            Self::Connect(ConnectError::Tls(_)) => Fault::Tls,
            Self::Connect(_) | Self::BadTarget | Self::BadHost | Self::TooManyOrigins => Fault::Unreachable,
            Self::Exchange(error) if error.is_invalid_response() => Fault::Malformed,
            Self::Stream(error) if is_invalid_stream(error) => Fault::Malformed,
            Self::TransferCoding | Self::TooManyFields => Fault::Malformed,
            Self::Exchange(_) | Self::Stream(_) | Self::RequestBody(_) => Fault::ConnectionClosed,
            Self::Refused(_) | Self::Body(_) | Self::BodyTooLate => Fault::ConnectionClosed,
            Self::Timeout => Fault::ResponseTimeout,
            Self::NoEndpoint { .. } => Fault::NoEndpoint,
            Self::UnexpectedUpgrade => Fault::Malformed,
        }
    }

    /// Returns the failure to respond with.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Timeout => Failure::ResponseTimeout,
            Self::Connect(ConnectError::Timeout | ConnectError::TlsTimeout) => Failure::ConnectTimeout,
            Self::Connect(ConnectError::Exhausted) | Self::TooManyOrigins => Failure::Busy,
            Self::Connect(_) => Failure::Unreachable,
            Self::NoEndpoint { as_not_found } => Failure::NoEndpoint { as_not_found: *as_not_found },
            Self::UnexpectedUpgrade | Self::Stream(_) | Self::Refused(_) | Self::BadTarget => Failure::BadGateway,
            Self::TransferCoding | Self::TooManyFields | Self::Exchange(_) => Failure::BadGateway,
            Self::BodyTooLate => Failure::ClientTimeout,
            Self::BadHost => Failure::BadRequest("the Host header cannot be sent to the upstream"),
            Self::RequestBody(error) | Self::Body(error) => {
                causes(error).find_map(client_failure).unwrap_or(Failure::BadGateway)
            }
        }
    }

    /// Formats the error and its causes on one line.
    pub fn chain(&self) -> String {
        error_chain(self)
    }
}

/// Returns true if the upstream sent an invalid response, rather than none: h2 reset the stream for it.
pub(super) fn is_invalid_stream(error: &h2::Error) -> bool {
    error.is_reset() && error.is_library()
}

/// Returns the failure of a request whose body ended with `error`.
pub(super) fn body_failure(error: &BodyError) -> Failure {
    causes(error).find_map(client_failure).unwrap_or(Failure::ClientBody)
}

/// Returns the failure of the client, if `error` is about its request body.
fn client_failure(error: &(dyn Error + 'static)) -> Option<Failure> {
    if error.is::<BodyTooLarge>() {
        return Some(Failure::TooLarge);
    }
    match error.downcast_ref::<BodyError>()? {
        BodyError::ClientStalled => Some(Failure::ClientTimeout),
        BodyError::Client(_) | BodyError::ClientEnded => Some(Failure::ClientBody),
        BodyError::Upload(failure) => Some((*failure).into()),
        _ => None,
    }
}
