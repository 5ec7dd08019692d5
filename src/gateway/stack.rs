//! The one place where a route's layers are stacked.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request, Response};
use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::concurrency_limiter::{ConcurrencyLimiterLayer, Leased};
use tollgate_filters::edit::{Edit, EditLayer};
use tollgate_filters::fallback_headers::FallbackHeadersLayer;
use tollgate_filters::local_response_cache::{self, LocalResponseCacheLayer, StoringBody};
use tollgate_filters::redirect_to::RedirectToLayer;
use tollgate_filters::remove_json_attributes::RemoveJsonAttributesLayer;
use tollgate_filters::replay::ReceivedHeadersLayer;
use tollgate_filters::request_counter::{Counted, RequestCounterLayer};
use tollgate_filters::request_header_size::RequestHeaderSizeLayer;
use tollgate_filters::request_size::{RequestSizeLayer, SizeLimited};
use tollgate_filters::secure_headers::SecureHeadersLayer;
use tollgate_filters::set_status::SetStatusLayer;
use tollgate_limiter::concurrency::{LeaseStats, LeaseStore};
use tollgate_limiter::metering::Meter;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;
use tower::{Layer, service_fn};

use crate::gateway::{limiter, resilience};
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::http::upgrade::Upgrade;
use crate::telemetry::metrics::Metrics;
use crate::upstream::echo::echo;
use crate::upstream::forward::Forward;
use crate::upstream::forwarded::set_forwarded_prefix;
use tollgate_config::{ConcurrencyLimiter, Filter, RateLimiter, RequestCounter, ResponseCache, Target, Tell};

/// What the layers of a worker's routes are made with.
pub trait Resources {
    /// Where the limiter's buckets are kept.
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store>;
    /// What counts for a counter of `route` under `scope`.
    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter;
    /// Where the limiter's slots are kept, which are counted in `stats`.
    fn leases(&self, limiter: &ConcurrencyLimiter, stats: Arc<LeaseStats>) -> Arc<dyn LeaseStore>;
    /// Reads plans from a hash in Redis, each remembered for so long; `None` without Redis.
    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>>;
    /// Where the answers of `route` are kept.
    fn cache(&self, route: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache>;
    /// The circuit breaker called `name`.
    fn breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker>;
    /// Routes a request anew, by its path as it is now.
    fn rerouting(&self) -> SharedService;
    /// Whether the access log says why the gateway answered a request itself.
    fn logs_reasons(&self) -> bool;
    /// The series that verdicts are counted in.
    fn metrics(&self) -> (&Metrics, usize);
}

/// The innermost service of a route that forwards.
#[must_use]
pub fn forwarding(forward: Forward) -> SharedService {
    let forward = Rc::new(forward);
    SharedService::new(service_fn(move |request: Request<Body>| Rc::clone(&forward).forward(request)))
}

/// Names, before `innermost`, the prefix that filters took off a request's path.
#[must_use]
pub fn telling_prefix(how: Tell, innermost: SharedService) -> SharedService {
    SharedService::new(tower::util::MapRequest::new(innermost, move |request: Request<Body>| {
        set_forwarded_prefix(request, how)
    }))
}

/// The innermost service of the built-in demo upstream.
#[must_use]
pub fn echoing() -> SharedService {
    SharedService::new(service_fn(|request: Request<Body>| std::future::ready(Ok::<_, Infallible>(echo(&request)))))
}

/// The innermost service of a route that leads nowhere.
#[must_use]
pub fn nowhere() -> SharedService {
    SharedService::new(service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::default())))
    }))
}

/// `stacked` as requests come to it: those of a route that forwards within the gateway have its path before they meet a
/// filter, as in Spring.
#[must_use]
pub fn entering(target: &Target, stacked: SharedService) -> SharedService {
    match target {
        Target::Forward(path) => resilience::at_path(path, stacked),
        _ => stacked,
    }
}

/// Stacks `filters`, the first outermost, around `innermost`. `max_body` bounds every request's body, before any
/// filter sees it.
#[must_use]
pub fn stack(
    route_id: &Arc<str>,
    filters: &[Filter],
    max_body: Option<u64>,
    innermost: SharedService,
    resources: &dyn Resources,
) -> SharedService {
    let mut limiters = filters.iter().filter(|filter| matches!(filter, Filter::RequestRateLimiter(_))).count();
    let mut counters = filters.iter().filter(|filter| matches!(filter, Filter::RequestCounter(_))).count();
    let mut gates = filters.iter().filter(|filter| matches!(filter, Filter::ConcurrencyLimiter(_))).count();
    let drops_answers = filters.iter().any(Filter::drops_answers);
    let mut service = if drops_answers { SharedService::new(ReceivedHeadersLayer.layer(innermost)) } else { innermost };
    let mut rest = filters;
    while let Some((filter, before)) = rest.split_last() {
        rest = before;
        service = match filter {
            Filter::Edit(_) => {
                // A run of consecutive edits is one layer: data applied in order, not a future each.
                let start = rest.iter().rposition(|filter| !matches!(filter, Filter::Edit(_))).map_or(0, |at| at + 1);
                let edits = &filters[start..=rest.len()];
                rest = &rest[..start];
                SharedService::new(EditLayer::new(edits.iter().filter_map(as_edit).cloned()).layer(service))
            }
            Filter::SetStatus(settings) => SharedService::new(SetStatusLayer::new(settings.clone()).layer(service)),
            Filter::RedirectTo(settings) => SharedService::new(RedirectToLayer::new(settings.clone()).layer(service)),
            Filter::RequestSize(max_bytes) => limited(*max_bytes, service),
            Filter::RequestHeaderSize(settings) => {
                SharedService::new(RequestHeaderSizeLayer::new(settings.clone()).layer(service))
            }
            Filter::SecureHeaders(settings) => {
                SharedService::new(SecureHeadersLayer::new(settings.clone()).layer(service))
            }
            Filter::RemoveJsonAttributes(settings) => {
                SharedService::new(RemoveJsonAttributesLayer::new(settings.clone()).layer(service))
            }
            Filter::LocalResponseCache(cache) => {
                let targets = filters.iter().filter_map(as_edit).filter_map(Edit::target_header);
                cached(route_id, cache, targets.cloned(), service, resources)
            }
            Filter::RequestCounter(counter) => {
                let scope = counter.bucket.clone().unwrap_or_else(|| scope(route_id, counters));
                counters -= 1;
                let meter = Arc::new(resources.meter(counter, route_id, scope));
                counted(RequestCounterLayer::new(meter, counter.key_resolver.clone()), service)
            }
            Filter::ConcurrencyLimiter(limiter) => {
                let scope = scope(route_id, gates);
                gates -= 1;
                concurrency_limited(route_id, scope, limiter, service, resources)
            }
            Filter::RequestRateLimiter(limiter) => {
                limiters -= 1;
                let marked = resources.logs_reasons() || rest.iter().any(Filter::acts_on_answers);
                limiter::limited(route_id, limiters + 1, limiter, marked, service, resources)
            }
            Filter::Retry(settings) => resilience::retried(route_id, settings, service, resources),
            Filter::CircuitBreaker(breaker) => resilience::broken(route_id, breaker, service, resources),
            Filter::FallbackHeaders(names) => {
                SharedService::new(FallbackHeadersLayer::new(names.clone()).layer(service))
            }
        };
    }
    match max_body {
        Some(max_bytes) => limited(max_bytes, service),
        None => service,
    }
}

fn limited(max_bytes: u64, service: SharedService) -> SharedService {
    let inner = tower::util::MapRequest::new(service, |request: Request<SizeLimited<Body>>| request.map(Body::from));
    SharedService::new(RequestSizeLayer::new(max_bytes).layer(inner))
}

fn counted(layer: RequestCounterLayer, service: SharedService) -> SharedService {
    let inner = tower::util::MapRequest::new(service, |request: Request<Counted<Body>>| request.map(Body::from));
    let outer = |response: Response<Counted<Body>>| response.map(Body::from);
    SharedService::new(tower::util::MapResponse::new(layer.layer(inner), outer))
}

/// Fields that name another upstream, `targets`, keep answers apart: who may choose one must not answer for the others.
fn cached(
    route_id: &Arc<str>,
    cache: &ResponseCache,
    targets: impl Iterator<Item = HeaderName>,
    service: SharedService,
    resources: &dyn Resources,
) -> SharedService {
    let scope = format!("{route_id}#{:x}", cache.identity);
    let layer = LocalResponseCacheLayer::new(scope, cache.settings, resources.cache(route_id, cache));
    let layer = layer.vary_by(targets);
    let outer = |response: Response<StoringBody<Body>>| response.map(Body::from);
    let cached = SharedService::new(tower::util::MapResponse::new(layer.layer(service.clone()), outer));
    // Who asks to leave HTTP wants no answer that was kept.
    let leaves = |request: &Request<Body>| request.extensions().get::<Upgrade>().is_some();
    SharedService::new(service_fn(
        move |request| {
            if leaves(&request) { service.respond(request) } else { cached.respond(request) }
        },
    ))
}

fn concurrency_limited(
    route_id: &Arc<str>,
    scope: Arc<str>,
    limiter: &ConcurrencyLimiter,
    service: SharedService,
    resources: &dyn Resources,
) -> SharedService {
    let (metrics, worker) = resources.metrics();
    let series = metrics.concurrency(worker, route_id, &scope);
    let store = resources.leases(limiter, Arc::clone(series.leases()));
    let layer = ConcurrencyLimiterLayer::new(scope, limiter.rule, limiter.settings.clone(), store)
        .on_verdict(Arc::new(move |verdict| series.observe(verdict)));
    let outer = |response: Response<Leased<Body>>| response.map(Body::from);
    SharedService::new(tower::util::MapResponse::new(layer.layer(service), outer))
}

fn as_edit(filter: &Filter) -> Option<&Edit> {
    match filter {
        Filter::Edit(edit) => Some(edit),
        _ => None,
    }
}

/// What a route's `n`th concurrency limiter, or `n`th counter, counts under. Route ids hold no `#`. Concurrency limiters are
/// numbered apart: their slots have names of their own.
fn scope(route_id: &Arc<str>, n: usize) -> Arc<str> {
    if n <= 1 { Arc::clone(route_id) } else { format!("{route_id}#{n}").into() }
}
