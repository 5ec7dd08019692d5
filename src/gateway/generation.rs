//! What one configuration becomes on one worker: a route table with a stack of layers for each route.

use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::concurrency::{LeaseStats, LeaseStore};
use tollgate_filters::limiter::store::Store;
use tollgate_filters::metering::Meter;
use tollgate_filters::request_rate_limiter::PlanSource;

use super::reroute::Current;
use super::service::Shared;
use super::stack::{self, echoing, forwarding, stack};
use crate::config::{
    self, ConcurrencyLimiter, Config, Filter, HttpClient, RateLimiter, RequestCounter, Target, TrustedProxies,
    Underscores,
};
use crate::limits::Limits;
use crate::routing::RouteTable;
use crate::telemetry::metrics::{Metrics, RouteMetrics};
use crate::upstream::balance::{self, Balancer, Upstreams};
use crate::upstream::elsewhere::Elsewhere;
use crate::upstream::endpoints::Endpoints;
use crate::upstream::forward::{Forward, Timeouts};
use crate::upstream::headers::Hygiene;
use crate::upstream::origin::Origin;
use crate::upstream::pool::PoolSettings;
use crate::upstream::pools::Pools;

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
    pub hygiene: Rc<Hygiene>,
    /// How long a client may send nothing of a body.
    pub body_timeout: Duration,
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
    pub service: Shared,
    /// Where its requests are counted.
    pub metrics: Arc<RouteMetrics>,
    /// Whether a layer reads the request's context.
    pub needs_context: bool,
    /// Whether a layer reads URI template variables.
    pub needs_variables: bool,
    /// Whether a limiter may send its requests elsewhere.
    pub forwards: bool,
}

/// What outlives a worker's configurations: connections to upstreams, what limiters counted, metrics.
#[derive(Debug)]
pub struct Resources {
    worker: usize,
    metrics: Arc<Metrics>,
    limits: Limits,
    logs_reasons: bool,
    pools: Rc<Pools>,
    upstreams: Arc<Upstreams>,
    workers: OnceCell<NonZeroUsize>,
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
        let (pools, workers) = (Rc::new(Pools::new(PoolSettings::default())), OnceCell::new());
        Self { worker, metrics, limits, logs_reasons, pools, upstreams, workers, current: Rc::default() }
    }

    /// Builds `config`'s generation. Called within the worker's runtime.
    #[must_use]
    pub fn build(&self, config: &Config) -> Generation {
        self.limits.configure(config);
        // A reload starts no threads.
        let workers = *self.workers.get_or_init(|| config.server.workers);
        self.pools.configure(PoolSettings::of(&config.http_client, self.worker, workers));
        let hygiene = Rc::new(Hygiene {
            underscores: config.forwarding.underscores,
            remove: config.forwarding.remove_hop_by_hop.clone(),
            via: config.forwarding.via.clone(),
        });
        let routes = config.routes.iter().map(|route| {
            let elsewhere = self.elsewhere(route, &config.http_client);
            let innermost = match self.endpoints(&route.uri, &elsewhere, config.use404) {
                None => echoing(),
                Some(endpoints) => forwarding(Forward {
                    endpoints,
                    elsewhere,
                    timeouts: timeouts(route, &config.http_client),
                    hygiene: Rc::clone(&hygiene),
                }),
            };
            let service = stack(&route.id, &route.filters, config.server.max_body_bytes, innermost, self);
            let built = Route {
                id: Arc::clone(&route.id),
                service,
                metrics: self.metrics.route(self.worker, Some((&route.id, &route.definition.uri))),
                needs_context: route.filters.iter().any(Filter::needs_context)
                    || route.uri.key_resolver().is_some_and(KeyResolver::needs_context),
                needs_variables: route.filters.iter().any(Filter::needs_variables)
                    || route.uri.key_resolver().is_some_and(KeyResolver::needs_variables),
                forwards: route.filters.iter().any(Filter::reroutes),
            };
            (route.predicates.clone(), built)
        });
        let table = RouteTable::new(routes.collect());
        Generation {
            table,
            trusted_proxies: config.forwarding.trusted_proxies.clone(),
            underscores: config.forwarding.underscores,
            hygiene,
            body_timeout: config.server.body_timeout,
            tunnels: config.forwarding.tunnels,
            current: Rc::clone(&self.current),
        }
    }

    /// The servers at `target`, reached as `elsewhere` says; `None` where that is within the gateway.
    fn endpoints(&self, target: &Target, elsewhere: &Elsewhere, use404: bool) -> Option<Endpoints> {
        let (tls, http2) = (Arc::clone(&elsewhere.tls), elsewhere.http2);
        Some(match target {
            Target::Echo => return None,
            Target::Http { scheme, host, port } => {
                Endpoints::One(self.pools.get(Origin::new(*scheme, host, *port, &tls, http2)))
            }
            Target::Balanced { upstream, scheme } => {
                let (pools, scheme) = (Rc::clone(&self.pools), *scheme);
                let pool_of = move |address: &_| pools.get(balance::origin(address, scheme, &tls, http2));
                let shared = self.upstreams.get(&upstream.name);
                Endpoints::Balanced(Balancer::new(shared, upstream, use404, pool_of))
            }
        })
    }

    /// How `route` reaches targets that its requests name, and its own.
    fn elsewhere(&self, route: &config::Route, client: &HttpClient) -> Elsewhere {
        Elsewhere {
            pools: Rc::clone(&self.pools),
            tls: Arc::clone(route.tls.as_ref().unwrap_or(&client.tls)),
            http2: route.http2.unwrap_or(client.http2),
        }
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

    fn rerouting(&self) -> Shared {
        self.current.rerouting()
    }

    fn logs_reasons(&self) -> bool {
        self.logs_reasons
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, self.worker)
    }
}

fn timeouts(route: &config::Route, client: &HttpClient) -> Timeouts {
    Timeouts {
        connect: route.connect_timeout.unwrap_or(client.connect_timeout),
        response: route.response_timeout.unwrap_or(client.response_timeout),
        read: client.read_timeout,
    }
}
