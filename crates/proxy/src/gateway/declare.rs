//! Declaration of a configuration's metrics, caches and circuit breakers: they exist before a route has a request, and keep
//! their state over reloads until no configuration names them. Series of requests begin with the first request.

#![deny(clippy::wildcard_enum_match_arm)]

use std::any::Any;
use std::sync::Arc;

use crate::gateway::layer_context::Position;
use crate::gateway::resilience::breaker_name;
use crate::gateway::response_cache::cache_name;
use crate::gateway::worker_state::{labelled_patterns, route_labels, upstream_name};
use crate::instrumentation::metrics::Metrics;
use crate::state::stores::SharedStores;
use crate::upstream::times;
use tollgate_config::{Config, Filter, Naming, Route, StoreKind, Target};

/// A part that lives as long as this handle, or longer.
type Handle = Arc<dyn Any + Send + Sync>;

/// Declares the parts of all routes of `config`. They are kept while their handles are.
pub(super) fn declare(config: &Config, stores: &SharedStores, metrics: &Metrics) -> Vec<Handle> {
    let mut handles: Vec<Handle> = Vec::new();
    for route in config.routes.iter() {
        match &route.uri {
            Target::Http { .. } | Target::Balanced { .. } => {
                handles.push(metrics.upstream_times(Metrics::CONFIGURED, &upstream_name(&route.uri)));
                handles.push(metrics.upstream_times(Metrics::CONFIGURED, times::DYNAMIC));
            }
            // A filter may set the target.
            Target::Nowhere => keep(&mut handles, metrics.existing_upstream_times(times::DYNAMIC)),
            Target::Echo | Target::Forward(_) => {}
        }
        // The stacks of the configuration before hold these series until this one is in use.
        keep(&mut handles, metrics.existing_route(route_labels(route, "")));
        if config.request_series.path {
            for pattern in labelled_patterns(route) {
                keep(&mut handles, metrics.existing_route(route_labels(route, &pattern.to_string())));
            }
        }
        for index in 0..route.filters.len() {
            let position = Position { route_id: &route.id, filters: &route.filters, index };
            declare_filter(route, &position, stores, metrics, &mut handles);
        }
    }
    stores.response_caches.remove_unused();
    stores.circuit_breakers.remove_unused();
    handles
}

/// Keeps a series if there is one.
fn keep<T: Any + Send + Sync>(handles: &mut Vec<Handle>, series: Option<Arc<T>>) {
    handles.extend(series.map(|series| series as Handle));
}

fn declare_filter(
    route: &Route,
    position: &Position<'_>,
    stores: &SharedStores,
    metrics: &Metrics,
    handles: &mut Vec<Handle>,
) {
    match &route.filters[position.index] {
        Filter::RequestRateLimiter(limiter) => {
            let naming = Naming { route: &route.id, number: position.number(), limiter };
            for rule in naming.all() {
                let series = metrics.limiter(Metrics::CONFIGURED, &route.id, &rule.label, rule.plan);
                series.configured(limiter.store == Some(StoreKind::Memory));
                handles.push(series);
            }
        }
        Filter::ConcurrencyLimiter(limiter) => {
            let series = metrics.concurrency(Metrics::CONFIGURED, &route.id, &position.scope());
            series.configured(limiter.store == Some(StoreKind::Memory));
            handles.push(series);
        }
        Filter::Retry(_) => handles.push(metrics.retries(Metrics::CONFIGURED, &route.id)),
        Filter::CircuitBreaker(breaker) => {
            let name = breaker_name(&route.id, breaker);
            handles.push(stores.circuit_breakers.get_or_create(name, &breaker.rules));
        }
        Filter::LocalResponseCache(cache) => {
            let name = cache_name(&route.id, cache);
            handles.push(stores.response_caches.get_or_create(name, cache.max_bytes));
        }
        Filter::Edit(_) | Filter::Plain(_) | Filter::RequestSize(_) | Filter::RequestCounter(_) => {}
    }
}
