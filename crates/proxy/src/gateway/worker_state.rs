//! State of one worker that outlives a configuration, and builds each generation.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::circuit_breaker::{self, Breaker};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{SlotStats, SlotStore};
use tollgate_limiter::metering::Meter;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;

use crate::gateway::cors::{no_route_service, with_cors, with_cors_headers};
use crate::gateway::generation::{Generation, SharedGeneration};
use crate::gateway::layer_context::{LayerContext, Position};
use crate::gateway::reroute::CurrentGeneration;
use crate::gateway::respond::forward_failed;
use crate::gateway::response_cache::cache_name;
use crate::gateway::route::{RouteStack, sets_forwarded_prefix};
use crate::gateway::stack::{echo_service, route_service, upstream_service, with_forwarded_prefix};
use crate::http::service::SharedService;
use crate::instrumentation::metrics::{Metrics, RouteLabels, RouteMetrics};
use crate::instrumentation::traces::Tracing;
use crate::state::stores::Stores;
use crate::upstream::balance::{self, Balancer, Upstreams};
use crate::upstream::endpoints::{DynamicTarget, RouteEndpoints};
use crate::upstream::forward::{Forward, UpstreamTimeouts};
use crate::upstream::headers::HeaderPolicy;
use crate::upstream::origin::Origin;
use crate::upstream::pool::PoolSettings;
use crate::upstream::pools::Pools;
use crate::upstream::times;
use tollgate_config::{
    self, ConcurrencyLimiter, Config, Filter, HttpClient, RateLimiter, RequestCounter, ResponseCache, Target,
};
use tollgate_routing::{PathPattern, Predicate};

/// State of one worker that outlives a configuration: upstream pools, stores of limiters, metrics.
#[derive(Debug)]
pub struct WorkerState {
    worker: usize,
    metrics: Arc<Metrics>,
    stores: Stores,
    logs_reasons: bool,
    pools: Rc<Pools>,
    workers: OnceCell<NonZeroUsize>,
    upstreams: Arc<Upstreams>,
    current: Rc<CurrentGeneration>,
    /// Traces of requests; `None` if they are off.
    pub tracing: Option<Tracing>,
    /// Service of the `management` endpoints on the port for traffic.
    pub own_service: Option<SharedService>,
}

impl WorkerState {
    /// Creates the state of the worker with index `worker`. `logs_reasons` is true if the access log contains reason
    /// codes. Requests for upstreams never reach the address `refused`.
    pub fn new(
        worker: usize,
        metrics: Arc<Metrics>,
        stores: Stores,
        upstreams: Arc<Upstreams>,
        logs_reasons: bool,
        refused: Option<SocketAddr>,
    ) -> Self {
        let pools = Rc::new(Pools::new(refused));
        let (workers, current) = (OnceCell::new(), Rc::default());
        let (tracing, own_service) = (None, None);
        Self { worker, metrics, stores, logs_reasons, pools, workers, upstreams, current, tracing, own_service }
    }

    /// Applies the configuration of `shared` to pools and stores, and returns its generation. Must be called within the
    /// worker's runtime. Waits for the first connection attempt to another Redis, one second at most.
    pub async fn generation(self: &Rc<Self>, shared: Arc<SharedGeneration>) -> Generation {
        let config = &shared.config;
        self.stores.configure(config).await;
        // The number of threads is fixed at the start.
        let workers = *self.workers.get_or_init(|| config.server.workers());
        self.pools.configure(PoolSettings::for_worker(&config.http_client, self.worker, workers));
        let unrouted = shared.unrouted_cors.clone().map(|policies| with_cors(policies, no_route_service()));
        let own_endpoints = self.own_service.clone().filter(|_| config.management.on_traffic.is_some());
        Generation::new(shared, Rc::clone(self), unrouted, own_endpoints, self.tracing.clone())
    }

    /// Replaces the generation that requests are routed again in.
    pub(super) fn set_current(&self, generation: &Rc<Generation>) {
        self.current.set(generation);
    }

    /// Stacks the layers of one route of `shared`.
    pub(super) fn build_stack(&self, route: &tollgate_config::Route, shared: &SharedGeneration) -> RouteStack {
        let config = &*shared.config;
        let innermost = self.innermost(route, config, &shared.header_policy);
        let prefix = config.forwarding.headers.prefix;
        let innermost = match sets_forwarded_prefix(route, config) {
            true => with_forwarded_prefix(prefix, innermost),
            false => innermost,
        };
        let innermost = match shared.cors {
            Some(_) => with_cors_headers(config.cors.keeps_upstream_headers, innermost),
            None => innermost,
        };
        let max_body = config.server.max_body_size.map(|size| size.0);
        let identify = config.api_keys.as_ref().map(|keys| self.stores.identify(keys));
        let service = route_service(route, config.repeated_keys, (max_body, identify), innermost, self);
        let with_metrics = |pattern: &PathPattern| (pattern.clone(), self.route_metrics(route, &pattern.to_string()));
        RouteStack {
            service: match &shared.cors {
                Some(policies) => with_cors(policies.clone(), service),
                None => service,
            },
            metrics: self.route_metrics(route, ""),
            metrics_by_path: if config.request_series.path {
                labelled_patterns(route).map(with_metrics).collect()
            } else {
                Vec::new()
            },
        }
    }

    /// Returns the innermost service of a route.
    fn innermost(
        &self,
        route: &tollgate_config::Route,
        config: &Config,
        header_policy: &Arc<HeaderPolicy>,
    ) -> SharedService {
        let dynamic_target = self.dynamic_target(route, &config.http_client);
        match (&route.uri, self.endpoints(route, &dynamic_target, config)) {
            (Target::Forward(_), _) => self.current.rerouting(),
            (Target::Nowhere, None) => SharedService::empty(),
            (_, None) => echo_service(),
            (_, Some(endpoints)) => upstream_service(Forward {
                route: Arc::clone(&route.id),
                times: self.metrics.upstream_times(self.worker, &upstream_name(&route.uri)),
                dynamic_times: self.metrics.upstream_times(self.worker, times::DYNAMIC),
                is_traced: self.tracing.is_some(),
                endpoints,
                dynamic_target,
                timeouts: UpstreamTimeouts::of(route, &config.http_client),
                header_policy: Arc::clone(header_policy),
                failure_response: forward_failed,
            }),
        }
    }

    /// Returns the metrics of requests of `route` that matched `pattern`.
    fn route_metrics(&self, route: &tollgate_config::Route, pattern: &str) -> Arc<RouteMetrics> {
        self.metrics.route(self.worker, Some(route_labels(route, pattern)))
    }

    /// Returns the connection settings of `route`, for its own target and for targets that its filters set.
    fn dynamic_target(&self, route: &tollgate_config::Route, client: &HttpClient) -> DynamicTarget {
        DynamicTarget {
            pools: Rc::clone(&self.pools),
            tls: Arc::clone(route.tls.as_ref().unwrap_or(&client.tls)),
            http2: route.http2.unwrap_or(client.http2.0),
        }
    }

    /// Returns the endpoints of `route`, with the connection `settings`; `None` for a target within the gateway.
    fn endpoints(
        &self,
        route: &tollgate_config::Route,
        settings: &DynamicTarget,
        config: &Config,
    ) -> Option<RouteEndpoints> {
        let sets_target = |filter: &Filter| matches!(filter, Filter::Edit(edit) if edit.runs_last());
        Some(match &route.uri {
            Target::Nowhere if route.filters.iter().any(sets_target) => RouteEndpoints::None,
            Target::Echo | Target::Forward(_) | Target::Nowhere => return None,
            Target::Http { scheme, host, port } => {
                RouteEndpoints::Single(self.pools.get(Origin::new(*scheme, host, *port, &settings.tls, settings.http2)))
            }
            Target::Balanced { upstream, scheme } => {
                let (pools, scheme, tls, http2) =
                    (Rc::clone(&self.pools), *scheme, Arc::clone(&settings.tls), settings.http2);
                let pool_of = move |address: &_| pools.get(balance::endpoint_origin(address, scheme, &tls, http2));
                let shared = self.upstreams.get(&upstream.name);
                RouteEndpoints::Balanced(Balancer::new(shared, upstream, config.use404, pool_of))
            }
        })
    }

    /// Releases slots and prepaid tokens at shutdown. See [`Stores::release`].
    pub async fn release(&self) {
        self.stores.release().await;
    }

    /// Closes expired idle connections to upstreams, and drops pools that no route uses. Call it once a second.
    pub fn close_idle_connections(&self) {
        self.pools.tick();
    }
}

impl LayerContext for WorkerState {
    fn slots(&self, _: &Position<'_>, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore> {
        self.stores.slots(limiter, stats)
    }

    fn store(&self, _: &Position<'_>, limiter: &RateLimiter) -> Arc<dyn Store> {
        self.stores.store(limiter)
    }

    fn meter(&self, position: &Position<'_>, counter: &RequestCounter, scope: Arc<str>) -> Meter {
        self.stores.meter(counter, position.route_id, scope)
    }

    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        self.stores.plans(hash, cache)
    }

    fn response_cache(&self, route: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        self.stores.shared.response_caches.get_or_create(cache_name(route, cache), cache.max_bytes)
    }

    fn circuit_breaker(&self, name: &Arc<str>, rules: &circuit_breaker::Rules) -> Arc<Breaker> {
        self.stores.shared.circuit_breakers.get_or_create(name, rules)
    }

    fn rerouting(&self) -> SharedService {
        self.current.rerouting()
    }

    fn is_traced(&self) -> bool {
        self.tracing.is_some()
    }

    fn counts_keys(&self) -> bool {
        true
    }

    fn logs_reasons(&self) -> bool {
        self.logs_reasons
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, self.worker)
    }
}

/// Returns the labels of requests of `route` that matched `pattern`.
pub(super) fn route_labels(route: &tollgate_config::Route, pattern: &str) -> RouteLabels {
    let (id, uri) = ((&*route.id).into(), route.definition.uri.as_str().into());
    RouteLabels { id, uri, path: pattern.into() }
}

/// Returns the patterns of `route` that the path label shows.
pub(super) fn labelled_patterns(route: &tollgate_config::Route) -> impl Iterator<Item = &PathPattern> {
    route.predicates.iter().filter_map(Predicate::path_patterns).flatten()
}

/// Returns the name of a target in the metrics of upstreams.
pub fn upstream_name(target: &Target) -> String {
    match target {
        Target::Balanced { upstream, .. } => upstream.name.to_string(),
        Target::Http { host, port, .. } => format!("{host}:{port}"),
        Target::Echo | Target::Forward(_) | Target::Nowhere => String::new(),
    }
}
