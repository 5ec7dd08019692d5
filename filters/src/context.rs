//! What outer layers know about a request and filters need: one typed extension, inserted once a request.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Response, Uri};
use parking_lot::Mutex;

use tollgate_limiter::verdict::{Source, Verdict};

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

/// Where a request goes instead of its route's target: the whole URI, absolute, `http` or `https`, path and query
/// included (`SetRequestUri`, `RequestHeaderToRequestUri`). Put into the request's extensions for whoever forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUri(pub Uri);

/// Marks a request that a limiter has turned elsewhere (`on-limit`), which happens to it once. Put into the request's
/// extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rerouted;

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

/// Where earlier attempts at one request went, so that the next can go elsewhere. Who repeats requests puts it into their
/// extensions; who chooses an endpoint avoids those that it knows, while another lives, and notes its choice.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<Mutex<Vec<u64>>>);

impl Attempts {
    /// Notes that an attempt goes to `endpoint`, by any number that tells endpoints apart.
    pub fn note(&self, endpoint: u64) {
        self.0.lock().push(endpoint);
    }

    /// Whether an attempt went to `endpoint`.
    #[must_use]
    pub fn tried(&self, endpoint: u64) -> bool {
        self.0.lock().contains(&endpoint)
    }
}

/// Marks a request that asks to leave HTTP, whose `Upgrade` field stands no longer in its head: it is sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsksToUpgrade;

/// A connection that has left HTTP: what is bound to the request lasts until the tunnel closes, not until its answer has
/// been sent. Whoever joins the two sides puts it into the 101's extensions.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Bound>>>);

/// On a response whose request was decided without the store that was to decide.
#[derive(Clone, Copy, Debug)]
pub struct Degraded;

impl Degraded {
    /// Marks `response` if `verdict` is such a one.
    pub(crate) fn mark<B>(verdict: &Verdict, response: &mut Response<B>) {
        if verdict.source == Source::Fallback {
            response.extensions_mut().insert(Self);
        }
    }
}

/// What lasts as long as a tunnel.
type Bound = Vec<Box<dyn Send>>;

/// The open tunnel; dropping it closes the tunnel for all that is bound to it.
#[derive(Debug)]
pub struct OpenTunnel(Tunnel);

impl Tunnel {
    /// A tunnel that is open.
    #[must_use]
    pub fn open() -> (Self, OpenTunnel) {
        let tunnel = Self(Arc::new(Mutex::new(Some(Vec::new()))));
        (tunnel.clone(), OpenTunnel(tunnel))
    }

    /// Keeps `bound` until the tunnel closes; drops it at once if it has.
    pub fn hold(&self, bound: impl Send + 'static) {
        if let Some(held) = &mut *self.0.lock() {
            held.push(Box::new(bound));
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
        // Dropped outside of the lock: what is bound may do anything.
        let held = self.0.0.lock().take();
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_holds_what_is_bound_to_it_until_it_closes() {
        let (tunnel, open) = Tunnel::open();
        let bound = Arc::new(());
        tunnel.hold(Arc::clone(&bound));
        assert_eq!(Arc::strong_count(&bound), 2);
        drop(open);
        assert_eq!(Arc::strong_count(&bound), 1);
        tunnel.hold(Arc::clone(&bound));
        assert_eq!(Arc::strong_count(&bound), 1, "too late");
    }
}
