//! Request and response extensions that filters share with the layers around them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Uri;
use http::uri::PathAndQuery;
use parking_lot::Mutex;

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

/// Request extension: the path as the client spelled it, if that is not the normal form. It is forwarded instead of the
/// normal form unless a filter edits the path, which removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPath(pub Arc<str>);

impl ReceivedPath {
    /// Puts the received path, if there is one, into the target of `request`.
    pub fn restore<B>(request: &mut http::Request<B>) {
        let Some(Self(path)) = request.extensions_mut().remove::<Self>() else { return };
        let target = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_string(),
        };
        // The path was part of a target before.
        if let Ok(target) = PathAndQuery::try_from(target) {
            *request.uri_mut() = target.into();
        }
    }
}

/// Request extension: the request has a body, whatever its header fields say. A preflight has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasBody;

/// Request extension: a limiter rerouted this request (`on-limit`), which happens at most once per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rerouted;

/// Response extension: the response came from another route, to which the request was forwarded within the gateway. A cache
/// of the first route must not store it, because the filters of the other route decide on each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromOtherRoute;

/// Response extension: a filter or the gateway made this response itself, such as a denial, a redirect or a 502.
///
/// Such a response is final, like Spring's committed responses: filters further out do not edit its status or headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// The reason, one kebab-case word for logs and metrics: `rate-limited`, `redirect` …
    pub reason: &'static str,
}

/// Response extension: what is wrong with a request that got 400, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalDetail(pub Arc<str>);

/// Response extension: the status of the upstream's response in whose place this response was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedStatus(pub http::StatusCode);

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
        response.headers_mut().insert(http::header::CONTENT_LENGTH, http::HeaderValue::from_static("0"));
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

/// Request extension: the client requested an upgrade. The server that inserts it has removed `Upgrade` from the header.
/// Such a request is never sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeRequested;

/// Upgraded connection, an extension of the 101 response.
///
/// Resources bound to the request last until the tunnel closes instead of until the response has been sent. The
/// service that joins both connections inserts it.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<HeldResources>>>);

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

/// Values that are dropped when a tunnel closes.
type HeldResources = Vec<Box<dyn Send>>;

/// Owner of an open tunnel. Dropping it closes the tunnel and drops every resource that the tunnel holds.
#[derive(Debug)]
pub struct OpenTunnel(Tunnel);

impl Tunnel {
    /// Opens a tunnel.
    #[must_use]
    pub fn open() -> (Self, OpenTunnel) {
        let tunnel = Self(Arc::new(Mutex::new(Some(Vec::new()))));
        (tunnel.clone(), OpenTunnel(tunnel))
    }

    /// Keeps `resource` until the tunnel closes. If the tunnel is closed already, drops it immediately.
    pub fn hold(&self, resource: impl Send + 'static) {
        if let Some(held) = &mut *self.0.lock() {
            held.push(Box::new(resource));
        }
    }
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tunnel")
    }
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        // Drops the resources outside the lock: their destructors may run any code.
        let held = self.0.0.lock().take();
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_holds_resources_until_it_closes() {
        let (tunnel, open) = Tunnel::open();
        let resource = Arc::new(());
        tunnel.hold(Arc::clone(&resource));
        assert_eq!(Arc::strong_count(&resource), 2);
        drop(open);
        assert_eq!(Arc::strong_count(&resource), 1);
        tunnel.hold(Arc::clone(&resource));
        assert_eq!(Arc::strong_count(&resource), 1, "too late");
    }
}
