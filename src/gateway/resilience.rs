//! `Retry` and `CircuitBreaker` as layers of the gateway, and what is forwarded within it.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use tollgate_filters::circuit_breaker::CircuitBreakerLayer;
use tollgate_filters::edit::{Edit, EditLayer};
use tollgate_filters::replay::ReplayBody;
use tollgate_filters::retry::{self, RetryLayer};
use tower::Layer;
use tower::util::MapRequest;

use crate::gateway::stack::Resources;
use crate::http::body::Body;
use crate::http::service::SharedService;
use tollgate_config::{CircuitBreaker, Forward};

/// Repeats what `inner` fails to answer.
pub(super) fn retried(
    route: &Arc<str>,
    settings: &retry::Settings,
    inner: SharedService,
    resources: &dyn Resources,
) -> SharedService {
    let (metrics, worker) = resources.metrics();
    let series = metrics.retries(worker, route);
    let layer = RetryLayer::new(settings.clone()).on_event(Arc::new(move |event| series.count(event)));
    SharedService::new(layer.layer(MapRequest::new(inner, plain)))
}

/// Asks `inner` while it answers, and the fallback otherwise.
pub(super) fn broken(
    route: &Arc<str>,
    breaker: &CircuitBreaker,
    inner: SharedService,
    resources: &dyn Resources,
) -> SharedService {
    let name = breaker.name.as_ref().unwrap_or(route);
    let layer = CircuitBreakerLayer::new(resources.breaker(name, &breaker.rules), breaker.settings.clone());
    let plainly = |service| MapRequest::new(service, plain as fn(Request<ReplayBody<Body>>) -> Request<Body>);
    match &breaker.fallback {
        Some(forward) => {
            let fallback = forwarded(forward, resources.rerouting());
            SharedService::new(layer.layer_with_fallback(plainly(inner), plainly(fallback)))
        }
        None => SharedService::new(layer.layer(plainly(inner))),
    }
}

fn plain(request: Request<ReplayBody<Body>>) -> Request<Body> {
    request.map(Body::from)
}

/// Sends a fallback's requests to `forward`. Without `Origin`, as Spring does it: what answers is no upstream of the client's
/// choosing, so that its rules on other origins are not asked.
fn forwarded(forward: &Forward, rerouting: SharedService) -> SharedService {
    let mut edits = vec![forward.path.clone()];
    edits.extend(Edit::remove_request_header("Origin").ok());
    let edited = EditLayer::new(edits).layer(rerouting);
    match forward.query.clone() {
        None => SharedService::new(edited),
        Some(query) => SharedService::new(MapRequest::new(edited, move |mut request: Request<Body>| {
            let target = format!("{}?{query}", request.uri().path());
            replace_target(&mut request, target);
            request
        })),
    }
}

/// Gives each request `path` before `inner` sees it; its query stays.
pub(super) fn at_path(path: &Arc<str>, inner: SharedService) -> SharedService {
    let path = Arc::clone(path);
    SharedService::new(MapRequest::new(inner, move |mut request: Request<Body>| {
        let target = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_string(),
        };
        replace_target(&mut request, target);
        request
    }))
}

/// What was checked at load fits; what does not leaves the request as it is.
fn replace_target(request: &mut Request<Body>, target: String) {
    if let Ok(target) = PathAndQuery::try_from(target) {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(target);
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    }
}
