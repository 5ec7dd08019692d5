//! Responses to failures: status code, headers and body for each [`Failure`], without internal details.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, LOCATION};
use serde_json::json;
use tollgate_filters::context::LocalReply;
use tollgate_filters::fault::Fault;

use crate::http::body::Body;
use crate::http::failure::Failure;

impl Failure {
    /// Returns true if the connection closes after the response, because the end of the request is unknown or not read.
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

    /// Returns the response without its body. [`render`] adds the body, in the format that the request accepts.
    #[must_use]
    pub fn unrendered(self) -> Response<Body> {
        let mut response = Response::new(Body::default());
        *response.status_mut() = self.status();
        response.extensions_mut().insert(LocalReply { reason: self.reason() });
        if matches!(self, Self::OptionsOfGateway | Self::MethodRefused) {
            let allow = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
            response.headers_mut().insert(ALLOW, allow);
        }
        if let Self::ToHttps(location) = &self {
            response.headers_mut().insert(LOCATION, location.clone());
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

/// Returns the response to a failed forward. Layers above read the fault of the upstream from its extensions.
pub fn forward_failed(failure: Failure, fault: Option<Fault>) -> Response<Body> {
    let mut response = failure.unrendered();
    if let Some(fault) = fault {
        response.extensions_mut().insert(fault);
    }
    response
}

/// Adds the body of a [failure](Failure::unrendered): `application/problem+json` (RFC 9457) if the client accepts JSON,
/// otherwise one line of text. Other responses are unchanged.
pub fn render(response: &mut Response<Body>, as_problem: bool) {
    let Some(failure) = response.extensions_mut().remove::<Arc<Failure>>() else { return };
    if matches!(*failure, Failure::OptionsOfGateway | Failure::ToHttps(_)) {
        return;
    }
    let (content_type, body) = if as_problem { failure.problem() } else { failure.text() };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = Body::from(Bytes::from(body));
}
