//! `Cache-Status` (RFC 9211): how the cache handled a response.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Facts about a forwarded request.
#[derive(Debug)]
pub(super) struct CacheStatus {
    /// Name of the cache.
    pub(super) name: Arc<str>,
    /// Reason why the request was forwarded.
    pub(super) why: &'static str,
}

impl CacheStatus {
    /// Adds the field to a response of the upstream, which sent `received`. `is_stored` is true if the cache stores it.
    pub(super) fn add<R>(&self, response: &mut Response<R>, received: StatusCode, is_stored: bool) {
        let Self { name, why } = self;
        let is_revalidated = received == StatusCode::NOT_MODIFIED && *why == "stale";
        let status = if is_revalidated { "; fwd-status=304" } else { "" };
        let stored = if is_stored { "; stored" } else { "" };
        append(response, format!("{name}; fwd={why}{status}{stored}"));
    }
}

/// Appends a value: each cache on the way adds one behind those before it.
pub(super) fn append<R>(response: &mut Response<R>, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().append(CACHE_STATUS, value);
    }
}
