//! Routes a request again, after a limiter, a circuit breaker or a `forward:` route has changed its path.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use http::{HeaderMap, Request};
use tollgate_filters::context::{FromOtherRoute, RequestContext};
use tower::service_fn;

use crate::gateway::generation::Generation;
use crate::gateway::sanitize::{normalize_host_field, normalize_made_path};
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::service::{ResponseFuture, SharedService};
use crate::upstream::forwarded::X_FORWARDED_FOR;
use tollgate_routing::RequestView;

/// Weak reference to the generation in use. It keeps no generation alive.
#[derive(Debug, Default)]
pub(super) struct CurrentGeneration(RefCell<Weak<Generation>>);

/// Request extension: the client as the first route saw it. Set on requests that may be routed again, because later
/// layers remove or extend the header fields that it came from.
#[derive(Clone, Debug)]
pub(super) struct ReceivedFrom {
    /// Address that predicates compare.
    peer: IpAddr,
    /// `X-Forwarded-For` as received.
    forwarded_for: HeaderMap,
}

/// Request extension: number of times that the request was routed again.
#[derive(Clone, Copy, Debug, Default)]
struct RerouteCount(u8);

/// Limit of [`RerouteCount`]; a request above it is in a forwarding loop.
const MAX_REROUTES: u8 = 10;

// === impl ReceivedFrom ===

impl ReceivedFrom {
    /// Keeps what routing reads about the client. `headers` are the fields as received.
    pub(super) fn new(peer: IpAddr, headers: &HeaderMap) -> Self {
        let mut forwarded_for = HeaderMap::new();
        for value in headers.get_all(X_FORWARDED_FOR) {
            forwarded_for.append(X_FORWARDED_FOR, value.clone());
        }
        Self { peer, forwarded_for }
    }
}

// === impl CurrentGeneration ===

impl CurrentGeneration {
    pub(super) fn set(&self, generation: &Rc<Generation>) {
        *self.0.borrow_mut() = Rc::downgrade(generation);
    }

    /// Returns a service that runs each request through the layers of the route that matches it now. The request is
    /// matched as earlier filters left it. Metrics and the access log keep its first route.
    pub(super) fn rerouting(self: &Rc<Self>) -> SharedService {
        let current = Rc::clone(self);
        SharedService::new(service_fn(move |request| {
            let current = Rc::clone(&current);
            // Deferred until the first poll: the calling layer may belong to the same route, and its service is
            // borrowed.
            async move {
                let mut response = match current.route(request) {
                    Ok(response) => response.await?,
                    Err(failure) => failure.unrendered(),
                };
                response.extensions_mut().insert(FromOtherRoute);
                Ok::<_, Infallible>(response)
            }
        }))
    }

    fn route(&self, request: Request<Body>) -> Result<ResponseFuture, Failure> {
        let generation = self.0.borrow().upgrade().ok_or(Failure::NoRoute)?;
        let (mut head, body) = request.into_parts();
        let count = head.extensions.get_or_insert_default::<RerouteCount>();
        count.0 += 1;
        if count.0 > MAX_REROUTES {
            tracing::warn!(path = head.uri.path(), "forwarding loop detected");
            return Err(Failure::Loop);
        }
        // A filter may have set `Host` or made the path.
        normalize_host_field(&mut head.headers);
        normalize_made_path(&mut head.uri);
        let Some(from) = head.extensions.get::<ReceivedFrom>() else { return Err(Failure::Internal) };
        let view = RequestView::new(&head.method, &head.uri, &head.headers, from.peer, fastrand::u64(..))
            .with_forwarded_for(&from.forwarded_for);
        let entry = generation.table.find(&view)?.ok_or(Failure::NoRoute)?;
        let route = entry.value;
        let stack = generation.stack(&entry).ok_or(Failure::Internal)?;
        let variables = if route.needs_variables { entry.variables(&view) } else { Vec::new() };
        let conditions = route.conditions.decide(&view)?;
        let before = head.extensions.remove::<RequestContext>().unwrap_or_default();
        head.extensions.insert(RequestContext {
            client_ip: before.client_ip,
            principal: before.principal,
            route_id: Some(Arc::clone(&route.id)),
            variables,
            conditions,
            ..RequestContext::default()
        });
        Ok(stack.service.respond(Request::from_parts(head, body)))
    }
}
