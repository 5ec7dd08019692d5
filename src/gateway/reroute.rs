//! Requests that a limiter, a circuit breaker or a route sends elsewhere within the gateway are routed anew.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use http::Request;
use tollgate_filters::context::RequestContext;
use tower::service_fn;

use crate::gateway::generation::Generation;
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::service::{ResponseFuture, SharedService};
use tollgate_routing::RequestView;

/// The generation that serves at present. Whoever holds it keeps no generation alive.
#[derive(Debug, Default)]
pub(super) struct Current(RefCell<Weak<Generation>>);

/// The address that predicates ask for; in the extensions of requests that may be routed anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// How often a request was sent elsewhere; in its extensions.
#[derive(Clone, Copy, Debug, Default)]
struct Hops(u8);

/// A request that was sent elsewhere more often goes in a circle.
const MOST_HOPS: u8 = 10;

impl Current {
    pub(super) fn set(&self, generation: &Rc<Generation>) {
        *self.0.borrow_mut() = Rc::downgrade(generation);
    }

    /// A service that runs each request through the layers of the route that takes it now. The request is seen as the
    /// filters before left it; it goes on being counted and logged under its first route.
    pub(super) fn rerouting(self: &Rc<Self>) -> SharedService {
        let current = Rc::clone(self);
        SharedService::new(service_fn(move |request| {
            let current = Rc::clone(&current);
            // Not before it is polled: the route may be the one whose limiter is calling, and busy with that.
            async move {
                match current.route(request) {
                    Ok(answer) => answer.await,
                    Err(failure) => Ok::<_, Infallible>(failure.unrendered()),
                }
            }
        }))
    }

    fn route(&self, request: Request<Body>) -> Result<ResponseFuture, Failure> {
        let generation = self.0.borrow().upgrade().ok_or(Failure::NoRoute)?;
        let (mut head, body) = request.into_parts();
        let hops = head.extensions.get_or_insert_default::<Hops>();
        hops.0 += 1;
        if hops.0 > MOST_HOPS {
            tracing::warn!(path = head.uri.path(), "routes forward a request in a circle: answered 508");
            return Err(Failure::Loop);
        }
        let Some(Peer(peer)) = head.extensions.get::<Peer>().copied() else { return Err(Failure::Internal) };
        let view = RequestView::new(&head.method, &head.uri, &head.headers, peer, fastrand::u64(..));
        let found = generation.table.find(&view).ok_or(Failure::NoRoute)?;
        let route = found.value;
        let variables = if route.needs_variables { found.variables(&view) } else { Vec::new() };
        let before = head.extensions.remove::<RequestContext>().unwrap_or_default();
        head.extensions.insert(RequestContext {
            client_ip: before.client_ip,
            principal: before.principal,
            route_id: Some(Arc::clone(&route.id)),
            variables,
            ..RequestContext::default()
        });
        Ok(route.service.respond(Request::from_parts(head, body)))
    }
}
