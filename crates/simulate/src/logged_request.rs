//! Requests as far as a log has them.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Request, Uri};

use crate::input::Entry;
use crate::routes::LogRoute;

/// Builds the head of a request; `None` if its target is malformed.
pub(super) fn head(entry: &Entry) -> Option<Parts> {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = entry.method.clone();
    head.uri = Uri::from_maybe_shared(entry.target()).ok()?;
    head.headers.insert(HOST, entry.host().unwrap_or(HeaderValue::from_static("localhost")));
    for (name, value) in entry.headers() {
        head.headers.append(name, value);
    }
    if let Some(bytes @ 1..) = entry.received_bytes {
        head.headers.insert(CONTENT_LENGTH, bytes.into());
    }
    Some(head)
}

/// Adds the keys that the log has for rules of the route.
pub(super) fn add_logged_keys(head: &mut Parts, entry: &Entry, route: &LogRoute) {
    if entry.route() != Some(route.id.as_bytes()) {
        return;
    }
    for (rule, field) in &route.logged_keys {
        if let Some(key) = entry.key_of(rule) {
            head.headers.insert(field.clone(), key);
        }
    }
}
