//! What outer layers know about a request and filters need: one typed extension, inserted once a request.

use std::net::IpAddr;
use std::sync::Arc;

/// Facts about a request that its head does not carry. Insert it into the request's extensions before the first
/// filter runs; a filter that finds none treats every fact as unknown.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    /// The client's address: the TCP peer, or what a trusted proxy says of it. Never taken from an untrusted header.
    pub client_ip: Option<IpAddr>,
    /// The id of the matched route.
    pub route_id: Option<Arc<str>>,
    /// The user that an authenticating filter established, empty until one exists.
    pub principal: Option<Arc<str>>,
    /// URI template variables of the matched `Path` and `Host` patterns, in pattern order; a later one of the same name wins.
    pub variables: Vec<(Arc<str>, String)>,
    /// Send the client's own `Host` upstream instead of the target's authority (`PreserveHostHeader`).
    pub preserve_host: bool,
    /// `PrefixPath` applies once a request: set by the first one.
    pub path_prefixed: bool,
}

impl RequestContext {
    /// The value of the URI template variable `name`, percent-encoded as it stood in the path.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().rev().find(|(n, _)| &**n == name).map(|(_, value)| value.as_str())
    }
}

/// Marks a response that a filter or the gateway made itself: a denial, a redirect, an upstream failure. Such a
/// response is final, as Spring's committed responses are: filters that work on responses and stand outside of the
/// one that made it (status, header edits) leave it alone. Put into the response's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// Why, in one kebab-case word for logs and metrics: `rate-limited`, `redirect` …
    pub reason: &'static str,
}

impl LocalReply {
    /// Whether `response` was made here rather than by an upstream.
    #[must_use]
    pub fn marks<B>(response: &http::Response<B>) -> bool {
        response.extensions().get::<Self>().is_some()
    }
}
