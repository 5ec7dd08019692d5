//! Routes in the form that requests use.

use std::sync::Arc;
use std::time::Duration;

use crate::http::service::SharedService;
use crate::instrumentation::metrics::RouteMetrics;
use tollgate_config::{Config, Filter, HeaderAction, RouteConditions, Target, TrustedProxies};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_routing::{PathPattern, Predicate};

/// Facts about a route that all workers share.
#[derive(Debug)]
pub struct Route {
    /// Id of the route.
    pub id: Arc<str>,
    /// Patterns of `Path` with their text, if traces are on.
    pub patterns: Vec<(PathPattern, Box<str>)>,
    /// Timeout for the next part of a request body; `None` for no limit.
    pub body_timeout: Option<Duration>,
    /// True if a layer reads the request context.
    pub needs_context: bool,
    /// Conditions of the rules of its limiters.
    pub conditions: RouteConditions,
    /// True if a layer reads URI template variables.
    pub needs_variables: bool,
    /// True if `X-Forwarded-Prefix` reports the path prefix that filters removed.
    pub sets_forwarded_prefix: bool,
    /// True if a request may be routed again (`forward:`).
    pub may_reroute: bool,
}

/// Layers of a route on one worker, and the metrics that this worker writes.
#[derive(Debug)]
pub struct RouteStack {
    /// Layers of the route, down to the upstream.
    pub service: SharedService,
    /// Request metrics.
    pub metrics: Arc<RouteMetrics>,
    /// Request metrics by `Path` pattern, if the path label is on.
    pub metrics_by_path: Vec<(PathPattern, Arc<RouteMetrics>)>,
}

// === impl Route ===

impl Route {
    pub(super) fn new(route: &tollgate_config::Route, config: &Config, is_traced: bool) -> Self {
        let resolver = route.uri.key_resolver();
        Self {
            id: Arc::clone(&route.id),
            patterns: if is_traced { patterns(route) } else { Vec::new() },
            body_timeout: route.body_timeout.map_or(config.server.body_timeout.get(), |timeout| timeout.0),
            needs_context: route.filters.iter().any(|filter| filter.properties().needs_context)
                || resolver.is_some_and(KeyResolver::needs_context),
            conditions: route.conditions(),
            needs_variables: route.filters.iter().any(|filter| filter.properties().needs_variables)
                || resolver.is_some_and(KeyResolver::needs_variables),
            sets_forwarded_prefix: sets_forwarded_prefix(route, config),
            may_reroute: matches!(route.uri, Target::Forward(_))
                || route.filters.iter().any(|filter| filter.properties().reroutes),
        }
    }
}

/// Returns true if `X-Forwarded-Prefix` reports the path prefix that the filters of `route` remove.
pub(super) fn sets_forwarded_prefix(route: &tollgate_config::Route, config: &Config) -> bool {
    let edits_requests = |filter: &Filter| matches!(filter, Filter::Edit(edit) if edit.is_request_side());
    let has_proxies =
        !matches!(config.forwarding.trusted_proxies, TrustedProxies::None) || config.server.proxy_protocol.is_some();
    config.forwarding.headers.prefix != HeaderAction::Keep && has_proxies && route.filters.iter().any(edits_requests)
}

/// Returns the patterns of `Path` with their text.
fn patterns(route: &tollgate_config::Route) -> Vec<(PathPattern, Box<str>)> {
    let patterns = route.predicates.iter().filter_map(Predicate::path_patterns).flatten();
    patterns.map(|pattern| (pattern.clone(), pattern.to_string().into())).collect()
}

// === impl RouteStack ===

impl RouteStack {
    /// Returns the metrics of a request for `path`.
    pub fn metrics_for(&self, path: &str) -> &Arc<RouteMetrics> {
        let by_path = self.metrics_by_path.iter().find(|(pattern, _)| pattern.matches(path, true));
        by_path.map_or(&self.metrics, |(_, metrics)| metrics)
    }
}
