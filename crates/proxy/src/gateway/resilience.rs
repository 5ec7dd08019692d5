//! `Retry` and `CircuitBreaker` as layers of the gateway, and `forward:` targets.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use tollgate_filters::circuit_breaker::CircuitBreakerLayer;
use tollgate_filters::context::ReceivedPath;
use tollgate_filters::edit::{Edit, EditLayer};
use tollgate_filters::replay::ReplayBody;
use tollgate_filters::retry::{self, RetryLayer};
use tower::Layer;
use tower::util::MapRequest;

use crate::gateway::layer_context::LayerContext;
use crate::http::body::Body;
use crate::http::service::SharedService;
use tollgate_config::{CircuitBreaker, Forward};

/// Puts a `Retry` filter in front of `inner`.
pub(super) fn with_retry(
    route: &Arc<str>,
    settings: &retry::Settings,
    inner: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let (metrics, worker) = context.metrics();
    let series = metrics.retries(worker, route);
    let layer = RetryLayer::new(settings.clone()).on_event(Arc::new(move |event| series.count(event)));
    SharedService::new(layer.layer(MapRequest::new(inner, without_replay)))
}

/// Puts a circuit breaker in front of `inner`, with its fallback.
pub(super) fn with_circuit_breaker(
    route: &Arc<str>,
    breaker: &CircuitBreaker,
    inner: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let name = breaker_name(route, breaker);
    let layer = CircuitBreakerLayer::new(context.circuit_breaker(name, &breaker.rules), breaker.settings.clone());
    let unwrapped =
        |service| MapRequest::new(service, without_replay as fn(Request<ReplayBody<Body>>) -> Request<Body>);
    match &breaker.fallback {
        Some(forward) => {
            let fallback = fallback_service(forward, context.rerouting());
            SharedService::new(layer.layer_with_fallback(unwrapped(inner), unwrapped(fallback)))
        }
        None => SharedService::new(layer.layer(unwrapped(inner))),
    }
}

/// Returns the name of a circuit breaker of `route`.
pub(super) fn breaker_name<'n>(route: &'n Arc<str>, breaker: &'n CircuitBreaker) -> &'n Arc<str> {
    breaker.name.as_ref().unwrap_or(route)
}

fn without_replay(request: Request<ReplayBody<Body>>) -> Request<Body> {
    request.map(Body::from)
}

/// Returns the service of a fallback: routes requests to `forward`. Removes `Origin` as Spring does, because the
/// client did not choose this target, so that CORS rules do not apply.
fn fallback_service(forward: &Forward, rerouting: SharedService) -> SharedService {
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

/// Sets the path of each request in front of `inner`; the query stays.
pub(super) fn with_path(path: &Arc<str>, inner: SharedService) -> SharedService {
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

/// Replaces path and query. An invalid target leaves the request unchanged; targets are validated at load.
fn replace_target(request: &mut Request<Body>, target: String) {
    if let Ok(target) = PathAndQuery::try_from(target) {
        request.extensions_mut().remove::<ReceivedPath>();
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(target);
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    }
}
