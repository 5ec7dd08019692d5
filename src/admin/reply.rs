//! Responses of the admin port.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// Media type of problem details (RFC 9457).
pub(super) const PROBLEM: &str = "application/problem+json";

/// Response of the admin port that is complete.
pub(super) type Reply = Response<Full<Bytes>>;

/// Problem (RFC 9457).
#[reply(Debug)]
pub(super) struct Problem<'d, T = ()> {
    /// Members of this kind of problem.
    #[serde(flatten)]
    members: Option<T>,
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'d str,
}

/// Descriptions of changes, made or failed, for the log.
#[derive(Clone, Debug)]
pub(super) struct Audit(pub(super) Vec<String>);

/// Adds the description of an applied change, which the log shows with the caller.
pub(super) fn audited(response: Reply, change: String) -> Reply {
    audited_each(response, vec![change])
}

/// Adds the descriptions of several changes. Each has a line of its own in the log.
pub(super) fn audited_each(mut response: Reply, changes: Vec<String>) -> Reply {
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
pub(super) fn json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Reply {
    reply(status, "application/json", indented(body))
}

/// Returns a problem (RFC 9457).
pub(super) fn problem(status: StatusCode, detail: &str) -> Reply {
    problem_with(status, detail, ())
}

/// Returns a problem with further `members`.
pub(super) fn problem_with<T: Serialize>(status: StatusCode, detail: &str, members: T) -> Reply {
    let problem = Problem {
        members: Some(members),
        kind: "about:blank",
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail,
    };
    reply(status, PROBLEM, indented(&problem))
}

fn indented<T: Serialize + ?Sized>(body: &T) -> Bytes {
    let text = serde_json::to_string_pretty(body).unwrap_or_default();
    (text + "\n").into()
}

/// Returns 405 with the `allowed` methods.
pub(super) fn method_not_allowed(allowed: &str) -> Reply {
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
pub(super) fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
