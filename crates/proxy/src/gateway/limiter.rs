//! `RequestRateLimiter` as a layer of the gateway: scopes, labels in metrics, metering of bodies.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use tollgate_filters::request_rate_limiter::{
    self, Cost, Limit, Metered, PlanResolver, Plans, RequestMeter, RequestRateLimiterLayer, ResponseMeter, RuleSets,
    VerdictEvent, VerdictKind,
};
use tollgate_limiter::store::Store;
use tollgate_limiter::verdict::Source;
use tower::service_fn;
use tower::util::{MapRequest, MapResponse};

use crate::gateway::layer_context::{LayerContext, Position};
use crate::gateway::observed_stores::{Traced, recorded};
use crate::gateway::respond::forward_failed;
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::http::service::SharedService;
use crate::instrumentation::traces::request::{is_current_sampled, report_verdict};
use tollgate_config::{NamedLimit, Naming, RateLimiter, RouteConditions};
use tollgate_telemetry::top_keys::{self, CountedVerdict, RuleName};

/// Puts a limiter at `position` in front of `inner`. With `marks_refusals`, refusals carry their reason in the response
/// extensions.
pub(super) fn with_rate_limiter(
    position: &Position<'_>,
    limiter: &RateLimiter,
    marks_refusals: bool,
    inner: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let route = position.route_id;
    let naming = Naming { route, number: position.number(), limiter };
    let (sets, all) = (rule_sets(naming, &position.conditions(), context), naming.all());
    let store: Arc<dyn Store> = context.store(position, limiter);
    let store = if context.logs_reasons() { recorded(store, &all) } else { store };
    let store: Arc<dyn Store> = if context.is_traced() { Traced::new(store, route, naming.scope()) } else { store };
    let builder = RequestRateLimiterLayer::builder().rule_sets(sets).settings(limiter.settings.clone());
    let builder = builder.shared_store(Arc::clone(route), store).on_verdict(verdict_observer(naming, &all, context));
    let Ok(layer) = builder.build() else { return admits_nothing() };
    let layer = if marks_refusals { layer } else { layer.without_local_reply() };
    let any_cost = |of: fn(&Cost) -> bool| limiter.limits().any(|limit| of(&limit.cost));
    let inner =
        if any_cost(Cost::meters_requests) { SharedService::new(MapRequest::new(inner, meter_request)) } else { inner };
    let meters_responses = any_cost(Cost::meters_responses);
    let service = layer.wrap(inner, limiter.forwards().then(|| context.rerouting()));
    match meters_responses {
        true => SharedService::new(MapResponse::new(service, meter_response)),
        false => SharedService::new(service),
    }
}

/// Returns the service in place of a limiter that cannot be built. The configuration was checked: only a defect leads here.
pub(super) fn admits_nothing() -> SharedService {
    SharedService::new(service_fn(async |_| Ok::<_, Infallible>(forward_failed(Failure::Internal, None))))
}

/// Returns the function that counts each verdict, and adds it to the trace of its request.
fn verdict_observer(
    naming: Naming<'_>,
    rules: &[NamedLimit<'_>],
    context: &dyn LayerContext,
) -> impl Fn(&VerdictEvent<'_>) + Send + Sync + use<> {
    let (metrics, worker) = context.metrics();
    let (route, scope, is_traced) = (Arc::clone(naming.route), naming.scope(), context.is_traced());
    let rules: Vec<_> = rules
        .iter()
        .map(|named_limit| {
            let rule = named_limit.name.as_deref().map_or_else(|| Arc::clone(&named_limit.scope), Into::into);
            let name = RuleName { route: Arc::clone(&route), rule, plan: named_limit.plan.map(Into::into) };
            let top_keys = context.counts_keys().then(|| top_keys::register(name));
            (
                Arc::clone(&named_limit.label),
                metrics.limiter(worker, &route, &named_limit.label, named_limit.plan),
                top_keys,
            )
        })
        .collect();
    let of_limiter = metrics.limiter(worker, &route, &scope, None);
    move |event| {
        let rule = event.index.and_then(|rule| rules.get(rule));
        if is_traced && is_current_sampled() {
            let label = rule.map_or(&*scope, |(label, ..)| label);
            report_verdict(&route, &scope, label, event.kind.as_str(), event.source.map_or("none", Source::as_str));
        }
        let Some((_, series, top_keys)) = rule else { return of_limiter.observe(event.kind, event.source) };
        series.observe(event.kind, event.source);
        if let (Some(key), Some(rule), Some(verdict)) = (event.key, top_keys, counted_verdict(event.kind)) {
            top_keys::observe(rule, verdict, key);
        }
    }
}

/// Returns the verdict under which the key of an event is counted; `None` if it is not.
fn counted_verdict(kind: VerdictKind) -> Option<CountedVerdict> {
    match kind {
        VerdictKind::Denied => Some(CountedVerdict::Denied),
        VerdictKind::Observed => Some(CountedVerdict::Observed),
        VerdictKind::Allowed => Some(CountedVerdict::Allowed),
        VerdictKind::Unavailable | VerdictKind::Exempt | VerdictKind::Blocked => None,
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

/// Returns the rules with their scopes.
fn rule_sets(naming: Naming<'_>, conditions: &RouteConditions, context: &dyn LayerContext) -> RuleSets {
    let settings = &naming.limiter.settings;
    let limits = |plan, rules| {
        naming
            .named(plan, rules)
            .into_iter()
            .map(|named_limit| limit(named_limit, settings, conditions))
            .collect::<Vec<_>>()
    };
    let plans = naming.limiter.plans.as_ref().map(|plans| Plans {
        resolver: match &plans.resolver {
            tollgate_config::PlanResolver::Request(resolver) => PlanResolver::Request(resolver.clone()),
            tollgate_config::PlanResolver::Table(table) => PlanResolver::Table(table.clone()),
            tollgate_config::PlanResolver::RedisHash { key, cache } => match context.plans(key, *cache) {
                Some(source) if context.is_traced() => {
                    PlanResolver::Source(Traced::new(source, naming.route, naming.scope()))
                }
                Some(source) => PlanResolver::Source(source),
                None => PlanResolver::Table(Default::default()),
            },
        },
        sets: plans.sets.iter().map(|(name, rules)| (name.as_str().into(), limits(Some(name), rules))).collect(),
        default: plans.default.as_deref().map(Into::into),
    });
    RuleSets { default: limits(None, &naming.limiter.rules), plans }
}

fn limit(
    named_limit: NamedLimit<'_>,
    settings: &request_rate_limiter::Settings,
    conditions: &RouteConditions,
) -> Limit {
    let NamedLimit { name, scope, limit, .. } = named_limit;
    Limit {
        name: name.map_or_else(|| Arc::clone(&scope), Into::into),
        scope,
        rule: limit.rule.clone(),
        key_resolver: limit.key_resolver.as_ref().unwrap_or(&settings.key_resolver).clone(),
        cost: limit.cost.clone(),
        enforcement: limit.enforcement,
        condition: conditions.of_rule(limit),
    }
}
