//! Failures that the gateway responds to itself.

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
    /// Returns the reason code written to the access log.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadRequest(_) | Self::BadPath(_) | Self::Ambiguous(_) => "bad-request",
            Self::TransferEncoding => "transfer-encoding",
            Self::MethodRefused => "method-refused",
            Self::ExpectationFailed => "expectation-failed",
            Self::OptionsOfGateway => "options",
            Self::Undecided(_) => "predicate-undecided",
            Self::NoRoute => "no-route",
            Self::Loop => "forward-loop",
            Self::TooLarge => "request-too-large",
            Self::ClientTimeout => "body-timeout",
            Self::ClientBody => "client-body",
            Self::Busy => "upstream-busy",
            Self::Unreachable => "upstream-unreachable",
            Self::NoEndpoint { .. } => "no-endpoint",
            Self::BadGateway => "upstream-broken",
            Self::ConnectTimeout => "connect-timeout",
            Self::ResponseTimeout => "response-timeout",
            Self::Internal => "internal-error",
        }
    }
}
