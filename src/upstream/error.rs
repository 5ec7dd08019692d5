//! Why there is no answer from the upstream, and whose doing it is.

use std::error::Error;

use thiserror::Error;
use tollgate_filters::fault::Fault;
use tollgate_filters::request_size::BodyTooLarge;

use crate::http::body::BodyError;
use crate::http::failure::Failure;
use crate::upstream::pool::ConnectError;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke off, or what came over it is not HTTP.
    #[error("the exchange with the upstream failed")]
    Exchange(#[source] hyper::Error),
    /// No answer within the response timeout.
    #[error("the upstream did not answer in time")]
    Timeout,
    /// No endpoint of the upstream lives.
    #[error("no endpoint of the upstream lives")]
    NoEndpoint {
        /// Whether the client is told that there is no such thing.
        as_not_found: bool,
    },
    /// The stream was refused before the upstream did anything with the request (RFC 9113 §8.7): it may be sent again.
    #[error("the upstream refused the stream")]
    Refused(#[source] hyper::Error),
    /// The request's `Host` cannot be HTTP/2's `:authority`.
    #[error("the request's Host cannot be sent over HTTP/2")]
    BadHost,
    /// A filter named a target that is no HTTP server.
    #[error("a filter named a target that is no `http` or `https` URI")]
    BadTarget,
    /// Requests name more targets than connections can be kept for.
    #[error("requests name too many targets at once")]
    TooManyOrigins,
    /// A 101 to a request that did not ask for it.
    #[error("the upstream switched protocols unasked")]
    UnaskedUpgrade,
}

impl ForwardError {
    /// What went wrong with the upstream.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Connect(ConnectError::Resolve(_)) => Fault::Unresolved,
            Self::Connect(ConnectError::Timeout | ConnectError::TlsTimeout) => Fault::ConnectTimeout,
            Self::Connect(ConnectError::Tls(_)) => Fault::Tls,
            Self::Connect(_) | Self::BadTarget | Self::BadHost | Self::TooManyOrigins => Fault::Unreachable,
            Self::Exchange(error) if error.is_parse() => Fault::Malformed,
            Self::Exchange(_) | Self::Refused(_) => Fault::BrokeOff,
            Self::Timeout => Fault::ResponseTimeout,
            Self::NoEndpoint { .. } => Fault::NoEndpoint,
            Self::UnaskedUpgrade => Fault::Malformed,
        }
    }

    /// The error and what caused it, in one line.
    #[must_use]
    pub fn chain(&self) -> String {
        chain(self)
    }
}

/// `error` and what caused it, in one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What the client is told.
#[must_use]
pub fn to_failure(error: &ForwardError) -> Failure {
    match error {
        ForwardError::Timeout | ForwardError::Connect(ConnectError::Timeout | ConnectError::TlsTimeout) => {
            Failure::GatewayTimeout
        }
        ForwardError::Connect(ConnectError::Exhausted) | ForwardError::TooManyOrigins => Failure::Busy,
        ForwardError::Connect(_) => Failure::Unreachable,
        ForwardError::NoEndpoint { as_not_found } => Failure::NoEndpoint { as_not_found: *as_not_found },
        ForwardError::UnaskedUpgrade | ForwardError::Refused(_) | ForwardError::BadTarget => Failure::BadGateway,
        ForwardError::BadHost => Failure::BadRequest("the Host header cannot be sent to the upstream"),
        ForwardError::Exchange(error) => causes(error).find_map(clients_part).unwrap_or(Failure::BadGateway),
    }
}

/// The client's part in a failed exchange, if `error` says that its body was the failure.
fn clients_part(error: &(dyn Error + 'static)) -> Option<Failure> {
    if error.is::<BodyTooLarge>() {
        return Some(Failure::TooLarge);
    }
    match error.downcast_ref::<BodyError>()? {
        BodyError::ClientStalled => Some(Failure::ClientTimeout),
        BodyError::Client(_) => Some(Failure::ClientBody),
        _ => None,
    }
}

/// `error` and what caused it, one after the other.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
