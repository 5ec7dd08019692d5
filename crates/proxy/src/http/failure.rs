//! Failures that the gateway responds to itself.

use http::{HeaderValue, StatusCode};
use thiserror::Error;

/// Failure that the gateway responds to itself. Its text becomes the detail of the response.
///
/// `gateway/respond.rs` maps each variant to a status code and headers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The request is malformed, but its end is known: the connection stays open.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The path cannot be normalized.
    #[error("{0}")]
    BadPath(String),
    /// The request can be read in two ways. The connection is closed.
    #[error("{0}")]
    Ambiguous(&'static str),
    /// The transfer coding is not `chunked`.
    #[error("the only supported transfer coding is chunked")]
    TransferEncoding,
    /// The method is `CONNECT` or `TRACE`.
    #[error("this method is not supported")]
    MethodRefused,
    /// The `Expect` field is not `100-continue`.
    #[error("the only supported expectation is 100-continue")]
    ExpectationFailed,
    /// `OPTIONS` about the gateway itself, which succeeds.
    #[error("")]
    OptionsOfGateway,
    /// The port redirects to HTTPS, at this URI.
    #[error("")]
    ToHttps(HeaderValue),
    /// A route's predicates could not be decided, and a later route must not take the request.
    #[error("{0}")]
    Undecided(#[from] tollgate_routing::Undecided),
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
    /// Routes forward the request to each other without end.
    #[error("forwarding loop detected")]
    Loop,
    /// The request body exceeds the limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The client stopped sending its body.
    #[error("the request body did not arrive in time")]
    ClientTimeout,
    /// The client disconnected, or broke the framing of its body.
    #[error("the request body is malformed or incomplete")]
    ClientBody,
    /// All connections to the upstream are in use.
    #[error("the upstream is busy")]
    Busy,
    /// The connection to the upstream could not be established.
    #[error("the upstream is unreachable")]
    Unreachable,
    /// The upstream has no healthy endpoint.
    #[error("the upstream is unavailable")]
    NoEndpoint {
        /// Responds with 404 instead of 503 (`loadbalancer.use404`).
        as_not_found: bool,
    },
    /// The upstream closed the connection or sent an invalid response.
    #[error("the upstream sent no valid response")]
    BadGateway,
    /// The upstream took too long to accept the connection.
    #[error("the upstream did not respond in time")]
    ConnectTimeout,
    /// The upstream took too long to respond.
    #[error("the upstream did not respond in time")]
    ResponseTimeout,
    /// A defect of the gateway.
    #[error("internal gateway error")]
    Internal,
}

impl Failure {
    /// Returns the status of the response, and the reason code written to the access log.
    fn status_and_reason(&self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest(_) | Self::BadPath(_) | Self::Ambiguous(_) => (StatusCode::BAD_REQUEST, "bad-request"),
            Self::TransferEncoding => (StatusCode::NOT_IMPLEMENTED, "transfer-encoding"),
            Self::MethodRefused => (StatusCode::METHOD_NOT_ALLOWED, "method-refused"),
            Self::ExpectationFailed => (StatusCode::EXPECTATION_FAILED, "expectation-failed"),
            Self::OptionsOfGateway => (StatusCode::NO_CONTENT, "options"),
            Self::ToHttps(_) => (StatusCode::PERMANENT_REDIRECT, "https-redirect"),
            Self::Undecided(_) => (StatusCode::BAD_REQUEST, "predicate-undecided"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no-route"),
            Self::Loop => (StatusCode::LOOP_DETECTED, "forward-loop"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request-too-large"),
            Self::ClientTimeout => (StatusCode::REQUEST_TIMEOUT, "body-timeout"),
            Self::ClientBody => (StatusCode::BAD_REQUEST, "client-body"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "upstream-busy"),
            Self::Unreachable => (StatusCode::BAD_GATEWAY, "upstream-unreachable"),
            Self::NoEndpoint { as_not_found: true } => (StatusCode::NOT_FOUND, "no-endpoint"),
            Self::NoEndpoint { as_not_found: false } => (StatusCode::SERVICE_UNAVAILABLE, "no-endpoint"),
            Self::BadGateway => (StatusCode::BAD_GATEWAY, "upstream-broken"),
            Self::ConnectTimeout => (StatusCode::GATEWAY_TIMEOUT, "connect-timeout"),
            Self::ResponseTimeout => (StatusCode::GATEWAY_TIMEOUT, "response-timeout"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal-error"),
        }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status_and_reason().0
    }

    /// Returns the reason code written to the access log.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.status_and_reason().1
    }
}
