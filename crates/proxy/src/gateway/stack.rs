//! Stacks the layers of a route. The layers that need the gateway's state are listed here, all others in
//! [`with_plain_layer!`].

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use tollgate_filters::concurrency_limiter::{ConcurrencyLimiterLayer, SlotBody};
use tollgate_filters::context::TargetUri;
use tollgate_filters::edit::{Edit, EditLayer};
use tollgate_filters::key_resolver::KeyFields;
use tollgate_filters::replay::ReceivedHeadersLayer;
use tollgate_filters::request_counter::{Counted, RequestCounterLayer};
use tollgate_filters::request_size::{RequestSizeLayer, SizeLimited};
use tollgate_filters::verify_api_key::IdentifyLayer;
use tower::util::{MapRequest, MapResponse};
use tower::{Layer, service_fn};

use crate::gateway::layer_context::{LayerContext, Position};
use crate::gateway::respond::forward_failed;
use crate::gateway::{limiter, resilience, response_cache};
use crate::http::body::Body;
use crate::http::fields::remove_fields;
use crate::http::service::{ResponseFuture, SharedService};
use crate::upstream::echo::echo;
use crate::upstream::endpoints::RouteEndpoints;
use crate::upstream::forward::Forward;
use crate::upstream::forwarded::set_forwarded_prefix;
use tollgate_config::{
    ConcurrencyLimiter, Filter, HeaderAction, RepeatedKeys, RequestCounter, Route, Target, with_plain_layer,
};

/// Returns the innermost service of a route to an upstream.
#[must_use]
pub fn upstream_service(forward: Forward) -> SharedService {
    let forward = Rc::new(forward);
    if !matches!(forward.endpoints, RouteEndpoints::None) {
        return SharedService::new(service_fn(move |request: Request<Body>| Rc::clone(&forward).forward(request)));
    }
    // A route without an upstream (`no:`), whose filters may name one.
    let empty = SharedService::empty();
    SharedService::new(service_fn(move |request: Request<Body>| -> ResponseFuture {
        match request.extensions().get::<TargetUri>() {
            Some(_) => Box::pin(Rc::clone(&forward).forward(request)),
            None => empty.respond(request),
        }
    }))
}

/// Sets `X-Forwarded-Prefix` in front of `innermost`, from the path prefix that filters removed.
#[must_use]
pub fn with_forwarded_prefix(action: HeaderAction, innermost: SharedService) -> SharedService {
    SharedService::new(MapRequest::new(innermost, move |request: Request<Body>| set_forwarded_prefix(request, action)))
}

/// Returns the innermost service of the built-in demo upstream (`echo:`).
#[must_use]
pub fn echo_service() -> SharedService {
    SharedService::new(service_fn(|request: Request<Body>| async {
        Ok::<_, Infallible>(echo(request).await.unwrap_or_else(|failure| forward_failed(failure, None)))
    }))
}

/// Returns the layers of `route` around `innermost`: its filters, the first one outermost, and what precedes them. `max_body`
/// limits request bodies in bytes, `identify` looks up the API keys of routes that read them.
#[must_use]
pub fn route_service(
    route: &Route,
    repeated: RepeatedKeys,
    (max_body, identify): (Option<u64>, Option<IdentifyLayer>),
    innermost: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let stacked = stack(&route.id, &route.filters, max_body, innermost, context);
    let stacked = match identify.filter(|_| route.reads_api_keys()) {
        Some(identify) => SharedService::new(identify.layer(stacked)),
        None => stacked,
    };
    let keyed = with_single_keys(repeated, route, stacked);
    match &route.uri {
        Target::Forward(path) => resilience::with_path(path, keyed),
        Target::Echo | Target::Nowhere | Target::Http { .. } | Target::Balanced { .. } => keyed,
    }
}

/// Removes repetitions of the fields that keys of `route` are read from, in front of `stacked`, if `repeated` says so.
fn with_single_keys(repeated: RepeatedKeys, route: &Route, stacked: SharedService) -> SharedService {
    let resolvers = route.filters.iter().flat_map(Filter::key_resolvers);
    let fields = KeyFields::of(resolvers.chain(route.uri.key_resolver()));
    if repeated == RepeatedKeys::Refuse || fields.is_empty() {
        return stacked;
    }
    SharedService::new(MapRequest::new(stacked, move |mut request: Request<Body>| {
        fields.keep_first(&mut request);
        request
    }))
}

/// Stacks `filters` around `innermost`, the first filter outermost. `max_body` limits request bodies in bytes, in front
/// of all filters.
fn stack(
    route_id: &Arc<str>,
    filters: &[Filter],
    max_body: Option<u64>,
    innermost: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let innermost = without_limits_of_upstream(filters, innermost);
    let drops_responses = filters.iter().any(|filter| filter.properties().drops_responses);
    let mut service =
        if drops_responses { SharedService::new(ReceivedHeadersLayer::default().layer(innermost)) } else { innermost };
    let mut outer = filters;
    while let Some((filter, before)) = outer.split_last() {
        outer = before;
        service = match as_edit(filter) {
            // Consecutive edits are one layer: data applied in order instead of a future each.
            Some(_) => {
                let start = outer.iter().rposition(|filter| as_edit(filter).is_none()).map_or(0, |last| last + 1);
                let edits = &filters[start..=outer.len()];
                outer = &outer[..start];
                SharedService::new(EditLayer::new(edits.iter().filter_map(as_edit).cloned()).layer(service))
            }
            None => {
                let position = Position { route_id, filters, index: outer.len() };
                let service = with_filter(filter, &position, service, context);
                response_cache::with_reuse_limit(filter, outer, service)
            }
        };
    }
    let service = response_cache::with_received_target(filters, service);
    match max_body {
        Some(max_bytes) => with_body_limit(max_bytes, service),
        None => service,
    }
}

/// Removes rate limit headers from the responses of `innermost` and their trailers, if a limiter of `filters` replaces them.
fn without_limits_of_upstream(filters: &[Filter], innermost: SharedService) -> SharedService {
    let replaced: Vec<_> = filters
        .iter()
        .filter_map(Filter::as_rate_limiter)
        .filter(|limiter| limiter.replaces_upstream_headers)
        .map(|limiter| limiter.settings.headers.clone())
        .collect();
    if replaced.is_empty() {
        return innermost;
    }
    let replaced: Rc<[_]> = replaced.into();
    SharedService::new(MapResponse::new(innermost, move |mut response: Response<Body>| {
        let replaced = Rc::clone(&replaced);
        let remove = move |fields: &mut HeaderMap| {
            remove_fields(fields, |name| replaced.iter().any(|names| names.contains(name)));
        };
        remove(response.headers_mut());
        if response.body().whole().is_some() {
            return response;
        }
        response.map(|body| {
            Body::boxed(body.map_frame(move |mut frame| {
                frame.trailers_mut().map(&remove);
                frame
            }))
        })
    }))
}

/// Puts the layer of one filter in front of `service`.
fn with_filter(
    filter: &Filter,
    position: &Position<'_>,
    service: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let route_id = position.route_id;
    match filter {
        Filter::Edit(edit) => SharedService::new(EditLayer::new([edit.clone()]).layer(service)),
        Filter::Plain(plain) => with_plain_layer!(plain, layer => SharedService::new(layer.layer(service))),
        Filter::RequestSize(max_bytes) => with_body_limit(*max_bytes, service),
        Filter::LocalResponseCache(cache) => {
            response_cache::with_response_cache(route_id, position.filters, cache, service, context)
        }
        Filter::RequestCounter(counter) => with_request_counter(position, counter, service, context),
        Filter::ConcurrencyLimiter(limiter) => with_concurrency_limiter(position, limiter, service, context),
        Filter::RequestRateLimiter(limiter) => {
            let marks_refusals =
                context.logs_reasons() || position.is_behind_response_filter() || position.reads_api_keys();
            limiter::with_rate_limiter(position, limiter, marks_refusals, service, context)
        }
        Filter::Retry(settings) => resilience::with_retry(route_id, settings, service, context),
        Filter::CircuitBreaker(breaker) => resilience::with_circuit_breaker(route_id, breaker, service, context),
    }
}

fn with_body_limit(max_bytes: u64, service: SharedService) -> SharedService {
    let inner = MapRequest::new(service, |request: Request<SizeLimited<Body>>| request.map(Body::from));
    SharedService::new(RequestSizeLayer::new(max_bytes).layer(inner))
}

fn with_request_counter(
    position: &Position<'_>,
    counter: &RequestCounter,
    service: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let scope = counter.bucket.clone().unwrap_or_else(|| position.scope());
    let meter = Arc::new(context.meter(position, counter, scope));
    let layer = RequestCounterLayer::new(meter, counter.key_resolver.clone());
    let inner = MapRequest::new(service, |request: Request<Counted<Body>>| request.map(Body::from));
    let outer = |response: Response<Counted<Body>>| response.map(Body::from);
    SharedService::new(MapResponse::new(layer.layer(inner), outer))
}

fn with_concurrency_limiter(
    position: &Position<'_>,
    limiter: &ConcurrencyLimiter,
    service: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let ((metrics, worker), scope) = (context.metrics(), position.scope());
    let series = metrics.concurrency(worker, position.route_id, &scope);
    let store = context.slots(position, limiter, Arc::clone(series.slots()));
    let builder = ConcurrencyLimiterLayer::builder().shared_store(scope, store).settings(limiter.settings.clone());
    let builder = builder.on_verdict(move |event| series.observe(event.verdict));
    let Ok(layer) = builder.build() else { return limiter::admits_nothing() };
    let outer = |response: Response<SlotBody<Body>>| response.map(Body::from);
    SharedService::new(MapResponse::new(layer.wrap(service), outer))
}

/// Returns the edit of a filter that only edits, which can share a layer with its neighbours.
pub(super) fn as_edit(filter: &Filter) -> Option<&Edit> {
    let Filter::Edit(edit) = filter else { return None };
    Some(edit)
}
