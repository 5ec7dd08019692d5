//! Request and response extensions with which other layers control the cache.

use std::time::{Duration, SystemTime};

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response};

/// The lifetime of cached responses, and the effect of `no-cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub(super) time_to_live: Duration,
    pub(super) no_cache: NoCache,
}

/// The effect of requests that want a fresh response, as browsers send them for a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoCache {
    /// `no-cache` bypasses the cache, and `max-age` has no effect: Spring's `skip-update-cache-entry`.
    Bypass,
    /// `no-cache` replaces the stored response, and `max-age` has no effect: Spring's `update-cache-entry`.
    Update,
    /// `no-cache` and `max-age=0` revalidate the stored response, `max-age=N` one that is `N` seconds old (RFC 9111 §5.2.1).
    Revalidate,
}

// === impl Settings ===

impl Settings {
    /// Responses are fresh for at most `time_to_live`. Spring's default is 5 minutes. Requests for a fresh response
    /// [revalidate](NoCache::Revalidate).
    #[must_use]
    pub fn new(time_to_live: Duration) -> Self {
        Self { time_to_live, no_cache: NoCache::Revalidate }
    }

    /// Sets the effect of requests for a fresh response.
    #[must_use]
    pub fn on_no_cache(self, no_cache: NoCache) -> Self {
        Self { no_cache, ..self }
    }
}

/// Response extension: the response must not be reused after this time, such as the end of the request's token. Filters
/// insert it between the cache and the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseUntil(pub SystemTime);

/// Request extension: path, query and host as the client sent them. Insert it in front of filters that edit requests
/// before the cache: filters behind the cache may still read the original values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTarget {
    /// Path and query.
    pub target: Option<PathAndQuery>,
    /// `Host`.
    pub host: Option<HeaderValue>,
}

// === impl ReuseUntil ===

impl ReuseUntil {
    /// Limits the reuse of `response`; the earliest time counts.
    pub fn limit<R>(self, response: &mut Response<R>) {
        let earlier = response.extensions().get::<Self>().map_or(self.0, |until| until.0.min(self.0));
        response.extensions_mut().insert(Self(earlier));
    }
}

// === impl ReceivedTarget ===

impl ReceivedTarget {
    /// Copies path, query and host of `request`.
    pub fn of<B>(request: &Request<B>) -> Self {
        Self { target: request.uri().path_and_query().cloned(), host: request.headers().get(HOST).cloned() }
    }
}
