//! What one configuration becomes on one worker: a route table with a stack of layers for each route.

use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{LeaseStats, LeaseStore};
use tollgate_limiter::metering::Meter;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;

use crate::gateway::cors::{ByPath, granted, nowhere, shared_with};
use crate::gateway::reroute::Current;
use crate::gateway::respond::forward_failed;
use crate::gateway::stack::{self, echoing, entering, forwarding, stack, telling_prefix};
use crate::http::service::SharedService;
use crate::state::stores::Limits;
use crate::telemetry::metrics::{Metrics, RouteMetrics, Routed};
use crate::upstream::balance::{self, Balancer, Upstreams};
use crate::upstream::dynamic_target::DynamicTarget;
use crate::upstream::endpoints::RouteEndpoints;
use crate::upstream::forward::{Forward, UpstreamTimeouts};
use crate::upstream::headers::HeaderPolicy;
use crate::upstream::origin::Origin;

use crate::upstream::pool::PoolSettings;
use crate::upstream::pools::Pools;
use tollgate_config::{
    self, ConcurrencyLimiter, Config, Filter, ForwardedHeaders, HttpClient, RateLimiter, RequestCounter, ResponseCache,
    Target, Tell, TrustedProxies, Underscores,
};
use tollgate_routing::{PathPattern, Predicate, RouteTable};

/// One configuration, ready to serve.
#[derive(Debug)]
pub struct Generation {
    /// The routes.
    pub table: RouteTable<Route>,
    /// Whose word on the client's address counts.
    pub trusted_proxies: TrustedProxies,
    /// What becomes of field names with underscores.
    pub underscores: Underscores,
    /// Which fields of a request end here.
    pub header_policy: Rc<HeaderPolicy>,
    /// How long a client may send nothing of a body.
    pub body_timeout: Duration,
    /// Whether a trusted peer's word on its client's address holds for predicates as well.
    pub believes_address: bool,
    /// What upstreams are told of the hops before them.
    pub forwarded: ForwardedHeaders,
    /// Whether a policy on other origins wants to know how requests came.
    pub(super) judges_origins: bool,
    /// What answers requests that no route takes, where somebody does.
    pub(super) unrouted: Option<SharedService>,
    /// Whether requests may switch protocols.
    pub tunnels: bool,
    /// Told of the generation that serves.
    pub(super) current: Rc<Current>,
}

/// A route, ready to serve.
#[derive(Debug)]
pub struct Route {
    /// Its id.
    pub id: Arc<str>,
    /// Its layers, down to the upstream.
    pub service: SharedService,
    /// Where its requests are counted.
    pub metrics: Arc<RouteMetrics>,
    /// Where they are instead, by the pattern that matches, where patterns are told apart.
    pub metrics_by_path: Vec<(PathPattern, Arc<RouteMetrics>)>,
    /// Whether a layer reads the request's context.
    pub needs_context: bool,
    /// Whether a layer reads URI template variables.
    pub needs_variables: bool,
    /// Whether the upstream is told which prefix of the path the filters took off.
    pub tells_prefix: bool,
    /// Whether a limiter may send its requests elsewhere.
    pub forwards: bool,
}

impl Route {
    /// Where a request for `path` is counted.
    #[must_use]
    pub fn counted(&self, path: &str) -> &Arc<RouteMetrics> {
        let told_apart = self.metrics_by_path.iter().find(|(pattern, _)| pattern.matches(path, true));
        told_apart.map_or(&self.metrics, |(_, metrics)| metrics)
    }
}

/// What outlives a worker's configurations: connections to upstreams, what limiters counted, metrics.
#[derive(Debug)]
pub struct Resources {
    worker: usize,
    metrics: Arc<Metrics>,
    limits: Limits,
    logs_reasons: bool,
    pools: Rc<Pools>,
    workers: OnceCell<NonZeroUsize>,
    upstreams: Arc<Upstreams>,
    current: Rc<Current>,
}

impl Resources {
    /// The resources of the worker numbered `worker`. `logs_reasons`: the access log says why the gateway answered a
    /// request itself.
    #[must_use]
    pub fn new(
        worker: usize,
        metrics: Arc<Metrics>,
        limits: Limits,
        upstreams: Arc<Upstreams>,
        logs_reasons: bool,
    ) -> Self {
        let pools = Rc::new(Pools::new(PoolSettings::default()));
        let (workers, current) = (OnceCell::new(), Rc::default());
        Self { worker, metrics, limits, logs_reasons, pools, workers, upstreams, current }
    }

    /// Builds `config`'s generation. Called within the worker's runtime.
    #[must_use]
    pub fn build(&self, config: &Config) -> Generation {
        self.limits.configure(config);
        // A reload starts no threads.
        let workers = *self.workers.get_or_init(|| config.server.workers);
        self.pools.configure(PoolSettings::for_worker(&config.http_client, self.worker, workers));
        let header_policy = Rc::new(HeaderPolicy {
            underscores: config.forwarding.underscores,
            remove: config.forwarding.remove_hop_by_hop.clone(),
            via: config.forwarding.via.clone(),
        });
        let cors = ByPath::new(&config.cors.by_path);
        let routes = config.routes.iter().map(|route| {
            let dynamic_target = self.dynamic_target(route, &config.http_client);
            let innermost = match (&route.uri, self.endpoints(&route.uri, &dynamic_target, config)) {
                (Target::Forward(_), _) => self.current.rerouting(),
                (Target::Nowhere, _) => stack::nowhere(),
                (_, None) => echoing(),
                (_, Some(endpoints)) => forwarding(Forward {
                    endpoints,
                    dynamic_target,
                    timeouts: timeouts(route, &config.http_client),
                    header_policy: Rc::clone(&header_policy),
                    failure_response: forward_failed,
                }),
            };
            let tell = config.forwarding.headers.prefix;
            let tells_prefix = tell != Tell::Nothing
                && !matches!(config.forwarding.trusted_proxies, TrustedProxies::Nobody)
                && route.filters.iter().any(|filter| matches!(filter, Filter::Edit(edit) if edit.is_request_side()));
            let innermost = if tells_prefix { telling_prefix(tell, innermost) } else { innermost };
            let innermost = if cors.is_some() { granted(innermost) } else { innermost };
            let max_body = config.server.max_body_bytes;
            let service = entering(&route.uri, stack(&route.id, &route.filters, max_body, innermost, self));
            let service = match &cors {
                Some(policies) => shared_with(policies.clone(), service),
                None => service,
            };
            let built = Route {
                id: Arc::clone(&route.id),
                service,
                metrics: self.counted(route, ""),
                metrics_by_path: if config.request_series.path { self.by_path(route) } else { Vec::new() },
                needs_context: route.filters.iter().any(Filter::needs_context)
                    || route.uri.key_resolver().is_some_and(KeyResolver::needs_context),
                needs_variables: route.filters.iter().any(Filter::needs_variables)
                    || route.uri.key_resolver().is_some_and(KeyResolver::needs_variables),
                tells_prefix,
                forwards: matches!(route.uri, Target::Forward(_)) || route.filters.iter().any(Filter::reroutes),
            };
            (route.predicates.clone(), built)
        });
        let table = RouteTable::new(routes.collect());
        Generation {
            table,
            trusted_proxies: config.forwarding.trusted_proxies.clone(),
            underscores: config.forwarding.underscores,
            header_policy,
            body_timeout: config.server.body_timeout,
            believes_address: config.forwarding.believes_address,
            forwarded: config.forwarding.headers,
            judges_origins: cors.is_some() || !config.cors.unrouted.is_empty(),
            unrouted: ByPath::new(&config.cors.unrouted).map(|policies| shared_with(policies, nowhere())),
            tunnels: config.forwarding.tunnels,
            current: Rc::clone(&self.current),
        }
    }

    /// Where requests of `route` are counted that matched `pattern`.
    fn counted(&self, route: &tollgate_config::Route, pattern: &str) -> Arc<RouteMetrics> {
        let (id, uri) = (Arc::clone(&route.id), route.definition.uri.as_str().into());
        self.metrics.route(self.worker, Some(Routed { id, uri, path: pattern.into() }))
    }

    fn by_path(&self, route: &tollgate_config::Route) -> Vec<(PathPattern, Arc<RouteMetrics>)> {
        let patterns = route.predicates.iter().filter_map(Predicate::path_patterns).flatten();
        patterns.map(|pattern| (pattern.clone(), self.counted(route, &pattern.to_string()))).collect()
    }

    /// How `route` reaches targets that its requests name, and its own.
    fn dynamic_target(&self, route: &tollgate_config::Route, client: &HttpClient) -> DynamicTarget {
        DynamicTarget {
            pools: Rc::clone(&self.pools),
            tls: Arc::clone(route.tls.as_ref().unwrap_or(&client.tls)),
            http2: route.http2.unwrap_or(client.http2),
        }
    }

    /// The servers at `target`, spoken to as `way` says; `None` where that is within the gateway.
    fn endpoints(&self, target: &Target, way: &DynamicTarget, config: &Config) -> Option<RouteEndpoints> {
        Some(match target {
            Target::Echo | Target::Forward(_) | Target::Nowhere => return None,
            Target::Http { scheme, host, port } => {
                RouteEndpoints::Single(self.pools.get(Origin::new(*scheme, host, *port, &way.tls, way.http2)))
            }
            Target::Balanced { upstream, scheme } => {
                let (pools, scheme, tls, http2) = (Rc::clone(&self.pools), *scheme, Arc::clone(&way.tls), way.http2);
                let pool_of = move |address: &_| pools.get(balance::endpoint_origin(address, scheme, &tls, http2));
                let shared = self.upstreams.get(&upstream.name);
                RouteEndpoints::Balanced(Balancer::new(shared, upstream, config.use404, pool_of))
            }
        })
    }

    /// Waits until what the last generation needs is there, or known not to be.
    pub async fn settled(&self) {
        self.limits.settled().await;
    }

    /// Waits until what requests gave back at their end is given back.
    pub async fn released(&self) {
        self.limits.released().await;
    }

    /// A second has passed: closes idle connections that are old, and forgets pools that no route uses any more.
    pub fn tick(&self) {
        self.pools.tick();
    }
}

impl stack::Resources for Resources {
    fn leases(&self, limiter: &ConcurrencyLimiter, stats: Arc<LeaseStats>) -> Arc<dyn LeaseStore> {
        self.limits.leases(limiter, stats)
    }

    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        self.limits.store(limiter)
    }

    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        self.limits.meter(counter, route, scope)
    }

    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        self.limits.plans(hash, cache)
    }

    fn cache(&self, route: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        self.limits.caches().open(if cache.is_shared { "" } else { route }, cache.max_bytes)
    }

    fn breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        self.limits.breakers().breaker(name, rules)
    }

    fn rerouting(&self) -> SharedService {
        self.current.rerouting()
    }

    fn logs_reasons(&self) -> bool {
        self.logs_reasons
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, self.worker)
    }
}

fn timeouts(route: &tollgate_config::Route, client: &HttpClient) -> UpstreamTimeouts {
    UpstreamTimeouts {
        connect: route.connect_timeout.unwrap_or(client.connect_timeout),
        response: route.response_timeout.unwrap_or(client.response_timeout),
        read: client.read_timeout,
    }
}
