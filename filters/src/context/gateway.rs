//! Extensions that filters share with the gateway around them.

use std::sync::Arc;

use http::uri::PathAndQuery;
use parking_lot::Mutex;

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

/// Response extension: what is wrong with a request that got 400, for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalDetail(pub Arc<str>);

/// Response extension: the status of the upstream's response in whose place this response was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedStatus(pub http::StatusCode);

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
