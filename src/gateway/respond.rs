//! Responses to failures: status code, headers and body by [`Failure`]. They disclose nothing internal.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;
use thiserror::Error;
use tollgate_filters::context::LocalReply;

use crate::http::body::Body;

/// Why the gateway answers a request itself. Its text is the answer's detail.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// Malformed, but its end is known: the connection can go on.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The path has no normal form.
    #[error("{0}")]
    BadPath(String),
    /// Two readings are possible: refused, and the connection is closed.
    #[error("{0}")]
    Ambiguous(&'static str),
    /// A transfer coding other than `chunked`.
    #[error("the only transfer coding understood here is chunked")]
    TransferEncoding,
    /// `CONNECT` and `TRACE`.
    #[error("this method is not served here")]
    MethodRefused,
    /// An `Expect` other than `100-continue`.
    #[error("the only expectation met here is 100-continue")]
    ExpectationFailed,
    /// `OPTIONS` about the gateway itself: answered, not failed.
    #[error("")]
    OptionsOfGateway,
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
    /// Forwarded within the gateway from route to route without end.
    #[error("forwarding loop detected")]
    Loop,
    /// The request's body is over the limit.
    #[error("the request body is too large")]
    TooLarge,
    /// The client stopped sending its body.
    #[error("the request body did not arrive in time")]
    ClientTimeout,
    /// The client left or broke the framing of its body.
    #[error("the request body is malformed or incomplete")]
    ClientBody,
    /// No connection to the upstream is free.
    #[error("the upstream is busy")]
    Busy,
    /// No connection to the upstream.
    #[error("the upstream cannot be reached")]
    Unreachable,
    /// No endpoint of the upstream lives.
    #[error("the upstream is unavailable")]
    NoEndpoint {
        /// Whether it is answered as though there were no such thing (`loadbalancer.use404`).
        as_not_found: bool,
    },
    /// The upstream broke off, or did not speak HTTP.
    #[error("the upstream gave no valid answer")]
    BadGateway,
    /// The upstream took too long to accept the connection or to answer.
    #[error("the upstream did not answer in time")]
    GatewayTimeout,
    /// A defect of ours.
    #[error("the gateway failed")]
    Internal,
}

impl Failure {
    fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::BadPath(_) | Self::Ambiguous(_) | Self::ClientBody => StatusCode::BAD_REQUEST,
            Self::TransferEncoding => StatusCode::NOT_IMPLEMENTED,
            Self::MethodRefused => StatusCode::METHOD_NOT_ALLOWED,
            Self::ExpectationFailed => StatusCode::EXPECTATION_FAILED,
            Self::OptionsOfGateway => StatusCode::NO_CONTENT,
            Self::NoRoute | Self::NoEndpoint { as_not_found: true } => StatusCode::NOT_FOUND,
            Self::NoEndpoint { as_not_found: false } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ClientTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable | Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::GatewayTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The word for it in the access log.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadRequest(_) | Self::BadPath(_) | Self::Ambiguous(_) => "bad-request",
            Self::TransferEncoding => "transfer-encoding",
            Self::MethodRefused => "method-refused",
            Self::ExpectationFailed => "expectation-failed",
            Self::OptionsOfGateway => "options",
            Self::NoRoute => "no-route",
            Self::Loop => "forward-loop",
            Self::TooLarge => "request-too-large",
            Self::ClientTimeout => "client-timeout",
            Self::ClientBody => "client-body",
            Self::Busy => "upstream-busy",
            Self::Unreachable => "upstream-unreachable",
            Self::NoEndpoint { .. } => "no-endpoint",
            Self::BadGateway => "upstream-broken",
            Self::GatewayTimeout => "upstream-timeout",
            Self::Internal => "internal-error",
        }
    }

    /// True if the connection closes after the response, because the start of the next request is in doubt.
    fn closes(&self) -> bool {
        matches!(
            self,
            Self::Ambiguous(_)
                | Self::TransferEncoding
                | Self::MethodRefused
                | Self::TooLarge
                | Self::ClientTimeout
                | Self::ClientBody
        )
    }

    /// Returns the response without its body, which [`render`] adds once the `Accept` field of the request is known.
    #[must_use]
    pub fn unrendered(self) -> Response<Body> {
        let mut response = Response::new(Body::default());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(LocalReply { reason: self.reason() });
        if matches!(self, Self::OptionsOfGateway | Self::MethodRefused) {
            let allow = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
            response.headers_mut().insert(ALLOW, allow);
        }
        if self.closes() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }

    fn problem(&self) -> (&'static str, String) {
        let problem = json!({
            "type": "about:blank",
            "title": self.title(),
            "status": self.status().as_u16(),
            "detail": self.to_string(),
        });
        ("application/problem+json", problem.to_string())
    }

    fn text(&self) -> (&'static str, String) {
        ("text/plain; charset=utf-8", format!("{}: {self}\n", self.title()))
    }

    fn title(&self) -> &'static str {
        self.status().canonical_reason().unwrap_or("Error")
    }
}

/// Adds the body of a [failure](Failure::unrendered): `application/problem+json` (RFC 9457) if the client accepts JSON,
/// otherwise one line of text. Other responses are unchanged.
pub fn render(response: &mut Response<Body>, as_problem: bool) {
    let Some(failure) = response.extensions_mut().remove::<Arc<Failure>>() else { return };
    if matches!(*failure, Failure::OptionsOfGateway) {
        return;
    }
    let (content_type, body) = if as_problem { failure.problem() } else { failure.text() };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = Body::from(Bytes::from(body));
}
