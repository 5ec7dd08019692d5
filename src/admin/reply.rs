//! Responses of the admin port.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

/// Returns a response of plain text.
pub(super) fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", Bytes::from_static(body.as_bytes()))
}

/// Returns a response of indented JSON.
pub(super) fn json(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    reply(status, "application/json", format!("{body:#}\n").into())
}

/// Returns a response with a body of `content_type`.
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
