//! `RequestRateLimiter` as a layer of the gateway: scopes, labels in metrics, metering of bodies.

use std::sync::Arc;

use http::{Request, Response};
use tollgate_filters::request_rate_limiter::{
    Cost, Limit, Metered, PlanResolver, Plans, RequestMeter, RequestRateLimiterLayer, ResponseMeter, RuleSets,
};
use tollgate_limiter::store::Store;
use tollgate_limiter::verdict::Source;
use tower::Layer;
use tower::util::{MapRequest, MapResponse};

use crate::gateway::layer_context::LayerContext;
use crate::gateway::traced::{TracedLimiter, ends_limiter};
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::telemetry::traces::request::report_verdict;
use tollgate_config::{NamedLimit, Naming, RateLimiter, StoreKind};

/// Puts a limiter in front of `inner`. `number` is its position among the limiters of the route, from 1. With
/// `marks_refusals`, refusals carry their reason in the response extensions.
pub(super) fn with_rate_limiter(
    route: &Arc<str>,
    number: usize,
    limiter: &RateLimiter,
    marks_refusals: bool,
    inner: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let naming = Naming { route, number, limiter };
    let (sets, labels) = rule_sets(naming, context);
    let (metrics, worker) = context.metrics();
    let series: Vec<_> = labels.iter().map(|label| metrics.limiter(worker, route, label)).collect();
    let is_in_memory = limiter.store == Some(StoreKind::Memory);
    series.iter().for_each(|series| series.configured(is_in_memory));
    let (is_traced, scope) = (context.is_traced(), naming.scope().to_string());
    let limiter_series = metrics.limiter(worker, route, &scope);
    let store: Arc<dyn Store> = context.store(limiter);
    let layer = RequestRateLimiterLayer::with_rules(route, sets, limiter.settings.clone(), store).on_verdict(Arc::new(
        move |event| {
            if is_traced && let Some(label) = event.rule.and_then(|rule| labels.get(rule)).or(Some(&scope)) {
                report_verdict(label, event.kind.as_str(), event.source.map_or("none", Source::as_str));
            }
            match event.rule.and_then(|rule| series.get(rule)) {
                Some(series) => series.observe(event.kind, event.source),
                None => limiter_series.observe(event.kind, event.source),
            }
        },
    ));
    let layer = if marks_refusals { layer } else { layer.without_local_reply() };
    let inner = if is_traced { ends_limiter(inner) } else { inner };
    let any_cost = |of: fn(&Cost) -> bool| limiter.limits().any(|limit| of(&limit.cost));
    let inner =
        if any_cost(Cost::meters_requests) { SharedService::new(MapRequest::new(inner, meter_request)) } else { inner };
    let meters_responses = any_cost(Cost::meters_responses);
    let service = match limiter.forwards().then(|| context.rerouting()) {
        Some(overflow) => layer.layer_with_overflow(inner, overflow),
        None => layer.layer(inner),
    };
    match (meters_responses, is_traced) {
        (true, true) => SharedService::new(TracedLimiter::new(MapResponse::new(service, meter_response), route)),
        (true, false) => SharedService::new(MapResponse::new(service, meter_response)),
        (false, true) => SharedService::new(TracedLimiter::new(service, route)),
        (false, false) => SharedService::new(service),
    }
}

fn meter_request(mut request: Request<Body>) -> Request<Body> {
    match request.extensions_mut().remove::<RequestMeter>() {
        Some(meter) => request.map(|body| Metered::request(body, meter).into()),
        None => request,
    }
}

fn meter_response(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<ResponseMeter>() {
        Some(meter) => response.map(|body| Metered::response(body, meter).into()),
        None => response,
    }
}

/// Returns the rules with their scopes, and the `rule` label of each in metrics.
fn rule_sets(naming: Naming<'_>, context: &dyn LayerContext) -> (RuleSets, Vec<String>) {
    let limits = |plan, rules| naming.named(plan, rules).into_iter().map(limit).collect::<Vec<_>>();
    let plans = naming.limiter.plans.as_ref().map(|plans| Plans {
        resolver: match &plans.resolver {
            tollgate_config::PlanResolver::Request(resolver) => PlanResolver::Request(resolver.clone()),
            tollgate_config::PlanResolver::Table(table) => PlanResolver::Table(table.clone()),
            tollgate_config::PlanResolver::RedisHash { key, cache } => match context.plans(key, *cache) {
                Some(source) => PlanResolver::Source(source),
                None => PlanResolver::Table(Default::default()),
            },
        },
        sets: plans.sets.iter().map(|(name, rules)| (name.as_str().into(), limits(Some(name), rules))).collect(),
        default: plans.default.as_deref().map(Into::into),
    });
    let sets = RuleSets { default: limits(None, &naming.limiter.rules), plans };
    let prefix = format!("{}#", naming.route);
    let label = |limit: &Limit| match limit.scope.strip_prefix(&prefix) {
        // A listed rule is labelled by its name, with the limiter's number in front from the second limiter on.
        Some(rest) if rest.parse::<usize>().is_err() => rest.to_owned(),
        _ => limit.scope.to_string(),
    };
    let labels = sets.rules().map(label).collect();
    (sets, labels)
}

fn limit(named: NamedLimit<'_>) -> Limit {
    let NamedLimit { name, scope, limit, .. } = named;
    Limit {
        name: name.map_or_else(|| Arc::clone(&scope), Into::into),
        scope,
        rule: limit.rule.clone(),
        key_resolver: limit.key_resolver.clone(),
        cost: limit.cost.clone(),
        enforcement: limit.enforcement,
    }
}
