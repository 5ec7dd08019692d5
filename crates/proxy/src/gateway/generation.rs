//! One configuration on one worker: a route table, and a stack of layers for each route.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;

use crate::gateway::reroute::CurrentGeneration;
use crate::gateway::sanitize::SanitizeRules;
use crate::http::service::SharedService;
use crate::http::trailers::TrailerRules;
use crate::http::upgrade::UpgradePolicy;
use crate::telemetry::metrics::RouteMetrics;
use crate::telemetry::traces::Tracing;
use crate::upstream::headers::HeaderPolicy;
use tollgate_config::{Config, ForwardedHeaders, TrafficEndpoints, TrustedProxies};
use tollgate_routing::{PathPattern, Predicate, RouteTable};

/// Configuration in the form that requests use.
#[derive(Debug)]
pub struct Generation {
    /// Route table.
    pub table: RouteTable<Route>,
    /// Proxies trusted to report the client address.
    pub trusted_proxies: TrustedProxies,
    /// Header field of the request id; `None` if requests have none.
    pub request_id: Option<HeaderName>,
    /// Checks of requests before routing.
    pub sanitize: SanitizeRules,
    /// Fields that trailers of clients may not have.
    pub trailer_rules: Rc<TrailerRules>,
    /// Header fields that are not forwarded.
    pub header_policy: Arc<HeaderPolicy>,
    /// Timeout for the next part of a request body; `None` for no limit.
    pub body_timeout: Option<Duration>,
    /// True if predicates see the client address that a trusted peer reports.
    pub uses_reported_address: bool,
    /// Forwarding headers sent to upstreams.
    pub forwarded: ForwardedHeaders,
    /// True if there is a CORS policy, which needs the scheme of the client.
    pub(super) has_cors: bool,
    /// Service for requests without a route, if a CORS policy applies to them.
    pub(super) unrouted: Option<SharedService>,
    /// Endpoints of the gateway itself, before all routes; `None` without any.
    pub(super) own_endpoints: Option<OwnEndpoints>,
    /// Rules for requests to switch protocols; `None` if none is tunnelled.
    pub upgrades: Option<UpgradePolicy>,
    /// Traces of requests; `None` if they are off.
    pub tracing: Option<Tracing>,
    /// Set to this generation when it goes into use.
    pub(super) current: Rc<CurrentGeneration>,
}

/// Endpoints of the gateway itself on the port for traffic.
#[derive(Debug)]
pub(super) struct OwnEndpoints {
    /// Their paths.
    pub(super) endpoints: TrafficEndpoints,
    /// Serves requests for them.
    pub(super) service: SharedService,
}

/// Route in the form that requests use.
#[derive(Debug)]
pub struct Route {
    /// Id of the route.
    pub id: Arc<str>,
    /// Layers of the route, down to the upstream.
    pub service: SharedService,
    /// Request metrics.
    pub metrics: Arc<RouteMetrics>,
    /// Request metrics by `Path` pattern, if the path label is on.
    pub metrics_by_path: Vec<(PathPattern, Arc<RouteMetrics>)>,
    /// Patterns of `Path` with their text, if traces are on.
    pub patterns: Vec<(PathPattern, Box<str>)>,
    /// True if a layer reads the request context.
    pub needs_context: bool,
    /// True if a layer reads URI template variables.
    pub needs_variables: bool,
    /// True if `X-Forwarded-Prefix` reports the path prefix that filters removed.
    pub sets_forwarded_prefix: bool,
    /// True if a request may be routed again (`forward:`).
    pub may_reroute: bool,
}

impl OwnEndpoints {
    /// Creates the endpoints of `config`, answered by `service`; `None` without any.
    pub(super) fn new(config: &Config, service: Option<&SharedService>) -> Option<Self> {
        let (endpoints, service) = (config.management.on_traffic.clone()?, service?.clone());
        Some(Self { endpoints, service })
    }

    /// Returns the service of requests for `path`, if an endpoint has this path.
    pub(super) fn service_for(&self, path: &str) -> Option<&SharedService> {
        self.endpoints.owns(path).then_some(&self.service)
    }
}

impl Route {
    /// Returns the metrics of a request for `path`.
    #[must_use]
    pub fn metrics_for(&self, path: &str) -> &Arc<RouteMetrics> {
        let by_path = self.metrics_by_path.iter().find(|(pattern, _)| pattern.matches(path, true));
        by_path.map_or(&self.metrics, |(_, metrics)| metrics)
    }
}

/// Returns the patterns of `Path` with their text.
pub(super) fn patterns(route: &tollgate_config::Route) -> Vec<(PathPattern, Box<str>)> {
    let patterns = route.predicates.iter().filter_map(Predicate::path_patterns).flatten();
    patterns.map(|pattern| (pattern.clone(), pattern.to_string().into())).collect()
}
