//! Cross-origin requests: which policy holds for which path.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Request};
use tollgate_filters::cors::{CorsLayer, Policy, PolicyHeadersLayer, PolicySource};
use tower::{Layer, service_fn};

use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::handler::ConnectionInfo;
use crate::http::service::SharedService;
use tollgate_routing::{Predicate, RequestView, RouteTable};

/// PolicySource by path: the first pattern that matches has it.
#[derive(Clone, Debug)]
pub(super) struct ByPath(Rc<RouteTable<Arc<Policy>>>);

/// Marks a request whose client spoke TLS, to the gateway or to a trusted proxy before it; in its extensions where
/// policies ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverTls;

impl ByPath {
    /// `None` without a policy.
    pub(super) fn new(policies: &[(Predicate, Arc<Policy>)]) -> Option<Self> {
        let routes: Vec<_> = policies.iter().map(|(path, policy)| (vec![path.clone()], Arc::clone(policy))).collect();
        (!routes.is_empty()).then(|| Self(Rc::new(RouteTable::new(routes))))
    }
}

impl PolicySource for ByPath {
    fn policy<B>(&self, request: &Request<B>) -> Option<&Policy> {
        // Only the path is read.
        let remote_addr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let view = RequestView::new(request.method(), request.uri(), request.headers(), remote_addr, 0);
        self.0.find(&view).map(|found| &**found.value)
    }

    fn scheme<'r, B>(&self, request: &'r Request<B>) -> &'r str {
        if request.extensions().get::<OverTls>().is_some() { "https" } else { "http" }
    }
}

/// Whether `connection`, or the proxy before it that is `trusted`, had TLS towards the client. The proxy's word is the
/// first of `X-Forwarded-Proto`: what it was told itself, where there were more proxies before it.
pub(super) fn came_over_tls(connection: &ConnectionInfo, headers: &HeaderMap, trusted: bool) -> bool {
    let told = headers.get("x-forwarded-proto").filter(|_| trusted);
    let told = told.and_then(|list| list.as_bytes().split(|byte| *byte == b',').next());
    told.map_or(connection.tls, |scheme| scheme.trim_ascii().eq_ignore_ascii_case(b"https"))
}

/// `service` for those that `policies` let through: outermost, so that a preflight is no request to any filter.
pub(super) fn shared_with(policies: ByPath, service: SharedService) -> SharedService {
    SharedService::new(CorsLayer::new(policies).layer(service))
}

/// `innermost`, whose answers get the headers of the policy before the route's filters see them.
pub(super) fn granted(innermost: SharedService) -> SharedService {
    SharedService::new(PolicyHeadersLayer.layer(innermost))
}

/// What stands where no route does.
pub(super) fn nowhere() -> SharedService {
    SharedService::new(service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Failure::NoRoute.unrendered()))
    }))
}
