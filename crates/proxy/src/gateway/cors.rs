//! CORS policies by path.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::{HeaderMap, Request};
use tollgate_filters::cors::{CorsLayer, Policy, PolicyHeadersLayer, PolicySource, UpstreamHeaders};
use tower::{Layer, service_fn};

use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::handler::ConnectionInfo;
use crate::http::service::SharedService;
use tollgate_routing::{Predicate, RequestView, RouteTable};

/// CORS policies by path pattern; the first match applies.
#[derive(Clone, Debug)]
pub(super) struct PolicyTable(Arc<RouteTable<Arc<Policy>>>);

/// Request extension: the client used TLS, to the gateway or to a trusted proxy. Set on requests with an `Origin`
/// field, and on those that may be routed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientTls;

impl PolicyTable {
    /// Creates the table; `None` without a policy.
    pub(super) fn new(policies: &[(Predicate, Arc<Policy>)]) -> Option<Self> {
        let routes: Vec<_> = policies.iter().map(|(path, policy)| (vec![path.clone()], Arc::clone(policy))).collect();
        (!routes.is_empty()).then(|| Self(Arc::new(RouteTable::new(routes))))
    }
}

impl PolicySource for PolicyTable {
    fn policy<B>(&self, request: &Request<B>) -> Option<&Policy> {
        // The table has path predicates only: address and random number are not used.
        let peer = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let view = RequestView::new(request.method(), request.uri(), request.headers(), peer, 0);
        // Without a policy, the response allows no other origin.
        self.0.find(&view).ok().flatten().map(|entry| &**entry.value)
    }

    fn scheme<'r, B>(&self, request: &'r Request<B>) -> &'r str {
        if request.extensions().get::<ClientTls>().is_some() { "https" } else { "http" }
    }
}

/// Returns true if the client used TLS. A trusted peer reports it in `X-Forwarded-Proto`: the first element is the
/// protocol at the outermost proxy. Sanitized requests of other peers lack the field.
pub(super) fn client_used_tls(connection: &ConnectionInfo, headers: &HeaderMap) -> bool {
    reported_tls(headers).unwrap_or(connection.tls)
}

/// Returns true if `X-Forwarded-Proto` reports TLS between the client and the outermost proxy; `None` without the field.
pub fn reported_tls(headers: &HeaderMap) -> Option<bool> {
    let scheme = headers.get("x-forwarded-proto")?.as_bytes().split(|byte| *byte == b',').next()?;
    Some(scheme.trim_ascii().eq_ignore_ascii_case(b"https"))
}

/// Puts the CORS policies in front of `service`, outermost, so that preflight requests reach no filter.
pub(super) fn with_cors(policies: PolicyTable, service: SharedService) -> SharedService {
    SharedService::new(CorsLayer::new(policies).layer(service))
}

/// Adds CORS headers to the responses of `innermost`, before the route's filters see them.
pub(super) fn with_cors_headers(keeps_upstream_headers: bool, innermost: SharedService) -> SharedService {
    let upstream_headers = if keeps_upstream_headers { UpstreamHeaders::Keep } else { UpstreamHeaders::Replace };
    SharedService::new(PolicyHeadersLayer::new(upstream_headers).layer(innermost))
}

/// Returns the service for requests without a route.
pub(super) fn no_route_service() -> SharedService {
    SharedService::new(service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Failure::NoRoute.unrendered()))
    }))
}
