//! Responses of the admin port.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// Media type of problem details (RFC 9457).
pub(super) const PROBLEM: &str = "application/problem+json";

/// Descriptions of changes, made or failed, for the log.
#[derive(Clone, Debug)]
pub(super) struct Audit(pub(super) Vec<String>);

/// Adds the description of an applied change, which the log shows with the caller.
pub(super) fn audited(response: Response<Full<Bytes>>, change: String) -> Response<Full<Bytes>> {
    audited_each(response, vec![change])
}

/// Adds the descriptions of several changes. Each has a line of its own in the log.
pub(super) fn audited_each(mut response: Response<Full<Bytes>>, changes: Vec<String>) -> Response<Full<Bytes>> {
    response.extensions_mut().insert(Audit(changes));
    response
}

/// Returns whole milliseconds, rounded up.
pub(super) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Longest list of names in a message.
const MAX_NAMES: usize = 8;

/// Lists the names that exist, for the problem of an unknown one.
pub(super) fn known_names(kind: &str, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    match (names.len(), more) {
        (0, _) => format!("{kind}: none"),
        (_, 0) => format!("{kind}: {}", names.join(", ")),
        (_, more) => format!("{kind}: {} and {more} more", names.join(", ")),
    }
}

/// Returns a response of indented JSON.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    reply(status, "application/json", format!("{body:#}\n").into())
}

/// Returns a problem (RFC 9457).
pub(super) fn problem(status: StatusCode, detail: &str) -> Response<Full<Bytes>> {
    problem_with(status, detail, None)
}

/// Returns a problem with an additional member.
pub(super) fn problem_with(
    status: StatusCode,
    detail: &str,
    member: Option<(&'static str, Value)>,
) -> Response<Full<Bytes>> {
    problem_over(status, detail, member.map_or_else(|| json!({}), |(name, value)| json!({name: value})))
}

/// Returns a problem with the members of the object `body`.
pub(super) fn problem_over(status: StatusCode, detail: &str, mut body: Value) -> Response<Full<Bytes>> {
    body["type"] = json!("about:blank");
    body["title"] = json!(status.canonical_reason().unwrap_or_default());
    body["status"] = json!(status.as_u16());
    body["detail"] = json!(detail);
    reply(status, PROBLEM, format!("{body:#}\n").into())
}

/// Returns 405 with the `allowed` methods.
pub(super) fn method_not_allowed(allowed: &str) -> Response<Full<Bytes>> {
    let detail = match allowed {
        "" => "the configuration allows no method here".to_owned(),
        allowed => format!("methods of this path: {allowed}"),
    };
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, &detail);
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// Returns a response with a body of `content_type`.
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
