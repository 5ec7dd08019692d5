//! Request and response extensions that filters share with the layers around them.

mod gateway;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Uri;
use parking_lot::Mutex;

#[cfg(feature = "gateway")]
pub use self::gateway::{
    FromOtherRoute, HasBody, OpenTunnel, ReceivedPath, ReceivedStatus, RefusalDetail, Rerouted, Tunnel,
    UpgradeRequested,
};
#[cfg(not(feature = "gateway"))]
#[allow(unused_imports, reason = "features select the users")]
pub(crate) use self::gateway::{
    FromOtherRoute, HasBody, ReceivedPath, ReceivedStatus, RefusalDetail, Rerouted, Tunnel, UpgradeRequested,
};

/// Facts about a request that are not in the HTTP message.
///
/// Insert it into the request's extensions before the first filter runs. Without it, filters treat every fact as
/// unknown.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    /// The client's address: the TCP peer, or the address that a trusted proxy reports. Never from an untrusted header.
    pub client_ip: Option<IpAddr>,
    /// The id of the matched route.
    pub route_id: Option<Arc<str>>,
    /// The user that an authenticating filter established.
    pub principal: Option<Arc<str>>,
    /// URI template variables of the matched `Path` and `Host` patterns, in pattern order. Of equal names, the last wins.
    pub variables: Vec<(Arc<str>, String)>,
    /// Sends the client's own `Host` upstream instead of the target's authority (`PreserveHostHeader`).
    pub preserve_host: bool,
    /// True if a `PrefixPath` was applied: it applies once per request.
    pub path_prefixed: bool,
    /// The [`Condition`]s that hold for the request as it was routed, one bit each.
    pub conditions: u64,
}

/// Condition on a request, which was decided when it was routed: the position of its bit in [`RequestContext::conditions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(u8);

impl Condition {
    /// Number of conditions that a request can have.
    pub const MAX: usize = u64::BITS as usize;

    /// Creates the condition at `position`; `None` from [`MAX`](Self::MAX) on.
    #[must_use]
    pub fn at(position: usize) -> Option<Self> {
        u8::try_from(position).ok().filter(|_| position < Self::MAX).map(Self)
    }

    /// Returns its bit.
    #[must_use]
    pub fn bit(self) -> u64 {
        1 << self.0
    }

    /// Returns true if the condition holds for `request`. Without a [`RequestContext`], none does.
    #[must_use]
    pub fn holds<B>(self, request: &http::Request<B>) -> bool {
        request.extensions().get::<RequestContext>().is_some_and(|context| context.conditions & self.bit() != 0)
    }
}

impl RequestContext {
    /// Returns the value of the URI template variable `name`, percent-encoded as in the path.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().rev().find(|(n, _)| &**n == name).map(|(_, value)| value.as_str())
    }
}

/// Absolute `http` or `https` URI that replaces the route's target, path and query included.
///
/// A request extension for the forwarding service, set by `SetRequestUri` and `RequestHeaderToRequestUri`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUri(pub Uri);

/// Response extension: a filter or the gateway made this response itself, such as a denial, a redirect or a 502.
///
/// Such a response is final, like Spring's committed responses: filters further out do not edit its status or headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// The reason, one kebab-case word for logs and metrics: `rate-limited`, `redirect` …
    pub reason: &'static str,
}

impl LocalReply {
    /// Returns true if `response` was made here rather than by an upstream.
    #[must_use]
    pub fn marks<B>(response: &http::Response<B>) -> bool {
        response.extensions().get::<Self>().is_some()
    }

    /// Creates a response with `headers` and without a body, made for `reason`.
    #[cfg(any(feature = "cors", feature = "redirect-to", feature = "request-header-size", feature = "request-size"))]
    pub(crate) fn empty<R: From<bytes::Bytes>>(
        status: http::StatusCode,
        reason: &'static str,
        headers: http::HeaderMap,
    ) -> http::Response<R> {
        let mut response = http::Response::new(R::from(bytes::Bytes::new()));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.extensions_mut().insert(Self { reason });
        response
    }
}

/// Earlier attempts at one request: their endpoints, and the number of retries. Clones share both.
///
/// The first retrying layer inserts it into the request's extensions, and all layers of the request count their retries in
/// it. The load balancer records its choice in it, and avoids recorded endpoints while another one is healthy.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<AttemptLog>);

#[derive(Debug, Default)]
struct AttemptLog {
    endpoints: Mutex<Vec<u64>>,
    retries: AtomicU32,
}

impl Attempts {
    /// Records an attempt at the endpoint that the number `endpoint` identifies.
    pub fn note(&self, endpoint: u64) {
        self.0.endpoints.lock().push(endpoint);
    }

    /// Returns true if an attempt went to `endpoint`.
    #[must_use]
    pub fn tried(&self, endpoint: u64) -> bool {
        self.0.endpoints.lock().contains(&endpoint)
    }

    /// Counts a retry.
    pub fn note_retry(&self) {
        self.0.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of retries, of all layers.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.0.retries.load(Ordering::Relaxed)
    }
}

/// Response extension: a limiter decided the request without its configured store, by the fallback.
#[derive(Clone, Copy, Debug)]
pub struct Degraded;

#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
impl Degraded {
    /// Marks `response` if `verdict` came from the fallback.
    pub(crate) fn mark<B>(verdict: &tollgate_limiter::verdict::Verdict, response: &mut http::Response<B>) {
        if verdict.source == tollgate_limiter::verdict::Source::Fallback {
            response.extensions_mut().insert(Self);
        }
    }
}
