//! Builds requests from log entries. They have only the parts that the log has.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Request, Uri};

use crate::input::Entry;

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
