//! Request and response extensions with which other layers control the cache.

use std::time::SystemTime;

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response};

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
        let earlier = response.extensions().get::<Self>().map_or(self.0, |known| known.0.min(self.0));
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
