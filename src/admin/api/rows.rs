//! Table of the endpoints, those of limits and overrides last.

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::json;

use crate::admin::api::description::{Description, SLOW_BODY, json, of_reply, stream, text};
use crate::admin::api::endpoint::{Call, Endpoint, Pending, endpoints};
use crate::admin::api::{gateway_pages, openapi};
use crate::admin::breakers::{self, BreakerReply};
use crate::admin::limits::overrides::{self, OverrideBody};
use crate::admin::limits::reply::{
    BatchReply, Budget, ChangedLimit, EndedOverride, ListedOverride, NewOverride, RuleReply,
};
use crate::admin::limits::{self, Batch, ChangeBody, LimitsError};
use crate::admin::reply::{self, Reply};
use crate::admin::routes::{self, RouteReply};
use crate::admin::upstreams::{self, UpstreamReply};
use crate::admin::{config_state, dashboard, events, explain, health, keys, log_level, metrics, top};
use crate::explain::model::Explanation;

const ENDING: (u16, &str) = (503, "The gateway is shutting down");

/// Every endpoint. If several match a request, the first one serves it.
pub(super) static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
    [pages(), limits(), overrides(), keys(), state(), upstreams(), spring()].into_iter().flatten().collect()
});

/// Dashboard, probes and metrics.
fn pages() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/"] Open Now(|_| dashboard::page()) =>
            text("dashboard", "Dashboard", "text/html");
        GET [Root "/dashboard/{file}"] Open Now(|call| dashboard::asset(&call.value(0))) =>
            text("dashboardFile", "A file of the dashboard", "*/*").or(&[(404, "Unknown file")]);
        GET [Root "/api/events"] Read Stream(|call, deadline| events::respond(call.headers, call.state, deadline)) =>
            stream::<events::Event<'_>>("events", "A snapshot of the gateway each second, as server-sent events without end")
                .or(&[(503, "The maximum number of viewers receives events already, or the gateway is shutting down")]);
        GET [Root "/health/live", Health "/liveness"] Open Now(|_| health::live()) =>
            json::<health::Liveness>("live", "Reports that the process responds");
        GET [Root "/health/ready", Health "/readiness"] Open Now(|call| health::ready(call.state)) =>
            json::<health::Readiness>("ready", "Reports readiness").or(&[(503, "Not ready: `reason` says why")]);
        GET [Root "/metrics", Prometheus ""] Metrics Now(|call| metrics::scrape(call.state, call.headers)) =>
            text("metrics", "Metrics as Prometheus text, or as OpenMetrics if `Accept` prefers it", "text/plain");
    }
}

/// API keys.
fn keys() -> Vec<Endpoint> {
    const REFUSED: [(u16, &str); 3] = [
        (404, "No API key has the id"),
        (409, "The keys are in a file, or an entry is no JSON"),
        (503, "Redis is unreachable"),
    ];
    endpoints! {
        GET [Root "/api/keys"] Read Wait(|call, _| Box::pin(keys::list(call.query, call.state))) =>
            json::<keys::KeysReply>("listKeys", "API keys with their use, without their hashes")
                .with("id", "Id of keys; all without it", of_reply::<String>())
                .with("after", "`next` of the reply before", of_reply::<String>())
                .or(&[(400, "Invalid query parameter"), REFUSED[2]]);
        POST [Root "/api/keys/{id}/disable"] Write Wait(|call, _| Box::pin(async move { keys::disable(&call.value(0), true, call.state).await })) =>
            json::<keys::ChangedKeys>("disableKeys", "Disables all keys with an id in Redis").or(&REFUSED);
        POST [Root "/api/keys/{id}/enable"] Write Wait(|call, _| Box::pin(async move { keys::disable(&call.value(0), false, call.state).await })) =>
            json::<keys::ChangedKeys>("enableKeys", "Enables all keys with an id in Redis").or(&REFUSED);
    }
}

/// State of the gateway.
fn state() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/top"] Read Wait(|call, _| Box::pin(top::respond(call.query, call.state))) =>
            json::<top::TopReply<'_>>("top", "Keys with the most requests of a verdict, for each rule")
                .with("verdict", "Verdict of the requests to count", json!({"enum": top::VERDICTS, "default": "denied"}))
                .with("route", "Id of a route; all without it", of_reply::<String>())
                .with("rule", "Name of a rule; all without it", of_reply::<String>())
                .with("limit", "Keys for each rule", json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}))
                .or(&[(400, "Invalid query parameter")]);
        GET [Root "/api/explain"] Read Wait(|call, _| Box::pin(explain::respond(call.query, call.state))) =>
            json::<Explanation>(
                "explain",
                "Dry run of a request: route, filters, keys with their state, and the request to the upstream",
            )
            .with("method", "Method", json!({"type": "string", "default": "GET"}))
            .with("url", "Path with query, or URL", json!({"type": "string", "default": "/"}))
            .with("header", "Header field as `Name: value`", json!({"type": "array", "items": {"type": "string"}}))
            .with("peer", "Address of the peer", json!({"type": "string", "default": "127.0.0.1"}))
            .with("client-cert", "Client certificate as in a `Client-Cert` field", json!({"type": "string"}))
            .or(&[(400, "Invalid query parameter")]);
        GET [Root "/api/config"] Read Now(|call| config_state::show(call.state)) =>
            json::<config_state::ConfigReply<'_>>("config", "File, hash, time and warnings of the running configuration");
        GET [Root "/api/log"] Read Now(|_| log_level::show()) =>
            json::<log_level::LogLevel>("logLevel", "Level of the gateway's own log");
        PUT [Root "/api/log"] Write Wait(|_, body| Box::pin(log_level::set(body))) =>
            json::<log_level::LogLevel>("setLogLevel", "Sets the level of the gateway's own log until the next reload")
                .sends::<log_level::LogLevel>();
        POST [Root "/api/reload"] Write Wait(|call, _| Box::pin(config_state::reload(call.state))) =>
            json::<config_state::ReloadReply<'_>>("reload", "Reads the configuration again and applies it")
                .or(&[
                    (409, "The built-in configuration has no file"),
                    (422, "The file has errors, listed in `diagnostics`; the running configuration stays"),
                    ENDING,
                ])
                .with_problem::<config_state::InvalidConfig<'_>>(422);
        GET [Root "/openapi.json"] Read Now(|call| openapi::respond(&ENDPOINTS, call)) =>
            json::<openapi::Document>("openapi", "This document");
    }
}

/// Upstreams and circuit breakers, and changes of them.
fn upstreams() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/upstreams"] Read Now(|call| reply::json(StatusCode::OK, &upstreams::describe_all(call.state))) =>
            json::<Vec<UpstreamReply>>("listUpstreams", "Upstreams with their endpoints");
        PUT [Root "/api/upstreams/{upstream}/drains/{endpoint...}"] Write Wait(|call, body| Box::pin(upstreams::drain(body, [call.value(0), call.value(1)], call.state))) =>
            json::<UpstreamReply>("drainEndpoint", "Drains an endpoint for a while: it gets no new request")
                .sends::<upstreams::Drain>()
                .or(&[(404, "Unknown upstream or endpoint"), (409, "No other endpoint gets requests")]);
        DELETE [Root "/api/upstreams/{upstream}/drains/{endpoint...}"] Write Now(|call| upstreams::end_drain(&[call.value(0), call.value(1)], call.state)) =>
            json::<UpstreamReply>("endDrain", "Ends the draining of an endpoint")
                .or(&[(404, "Unknown upstream or endpoint")]);
        GET [Root "/api/breakers"] Read Now(|call| reply::json(StatusCode::OK, &breakers::describe_all(call.state))) =>
            json::<Vec<BreakerReply>>("listBreakers", "Circuit breakers with their states");
        PUT [Root "/api/breakers/{name...}"] Write Wait(|call, body| Box::pin(breakers::force(body, call.value(0), call.state))) =>
            json::<BreakerReply>("forceBreaker", "Forces the state of a circuit breaker for a while")
                .sends::<breakers::Force>()
                .or(&[(404, "Unknown circuit breaker")]);
        DELETE [Root "/api/breakers/{name...}"] Write Now(|call| breakers::end_force(&call.value(0), call.state)) =>
            json::<BreakerReply>("endForcedState", "Ends the forced state of a circuit breaker")
                .or(&[(404, "Unknown circuit breaker")]);
    }
}

/// Endpoints of Spring Boot, some of them below `/api`, too.
fn spring() -> Vec<Endpoint> {
    const UNKNOWN_ROUTE: (u16, &str) = (404, "Unknown route");
    endpoints! {
        GET [Actuator ""] Read Now(|call| routes::actuator_index(call.actuator)) =>
            json::<routes::ActuatorIndex<'_>>("actuator", "Spring Boot's list of endpoints");
        GET [Health ""] Open Now(|call| health::summary(call.state, call.actuator, call.may_read)) =>
            json::<health::Summary>("health", "Reports readiness, with components if the configuration shows them")
                .or(&[(503, "Not ready")]);
        GET [Gateway ""] Read Now(|call| routes::index(gateway_pages(call.actuator))) =>
            json::<Vec<routes::Link>>("gateway", "Spring's list of gateway endpoints");
        GET [Root "/api/routes", Gateway "/routes"] Read Now(|call| routes::list(call.state)) =>
            json::<Vec<RouteReply<'_>>>("listRoutes", "Routes in effect, in matching order");
        GET [Gateway "/routes/{id...}/combinedfilters"] Read Now(|call| routes::combined_filters(call.state, &call.value(0))) =>
            json::<routes::Positions>("combinedFilters", "Filters of a route with their positions")
                .or(&[UNKNOWN_ROUTE]);
        GET [Root "/api/routes/{id...}", Gateway "/routes/{id...}"] Read Now(|call| routes::one(call.state, &call.value(0))) =>
            json::<RouteReply<'_>>("readRoute", "One route").or(&[UNKNOWN_ROUTE]);
        GET [Gateway "/routedefinitions"] Read Now(|call| routes::definitions(call.state)) =>
            json::<Vec<routes::RouteDefinition<'_>>>("routeDefinitions", "Routes as in the file");
        GET [Gateway "/routefilters"] Read Now(|_| routes::filters()) =>
            json::<routes::Names>("routeFilters", "Names of all filters");
        GET [Gateway "/routepredicates"] Read Now(|_| routes::predicates()) =>
            json::<routes::Names>("routePredicates", "Names of all predicates");
        GET [Gateway "/globalfilters"] Read Now(|_| routes::global_filters()) =>
            json::<routes::Names>("globalFilters", "Spring's global filters: none");
        POST [Gateway "/refresh"] Write Wait(|call, _| Box::pin(config_state::refresh(call.state))) =>
            text("refresh", "Reloads the configuration, as in Spring", "text/plain")
                .or(&[(500, "The configuration was not applied"), ENDING]);
    }
}

const NO_REDIS: (u16, &str) = (503, "Redis is unreachable");
const NO_CHANGE: (u16, &str) =
    (503, "Redis did not confirm the change: `detail` says that nothing was changed, or that it may have been");

/// Returns the response to a call, or the problem that refuses it.
fn respond<'c>(call: &'c Call<'c>, reply: impl Future<Output = Result<Reply, LimitsError>> + 'c) -> Pending<'c> {
    Box::pin(async move { reply.await.unwrap_or_else(|error| error.response(call.state)) })
}

/// `/api/limits`.
pub(super) fn limits() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/limits"] Read Now(|call| limits::list(call.query, call.state).unwrap_or_else(|error| error.response(call.state))) =>
            json::<Vec<RuleReply>>("listRules", "Rules of all routes")
                .with("route", "Id of a route; all without it", of_reply::<String>())
                .or(&[(404, "Unknown route")]);
        GET [Root "/api/limits/{route}/{key...}"] Read Wait(|call, _| respond(call, limits::read(call.place(), call.state))) =>
            selected(json::<Budget<'_>>("readLimit", "Budget of a key under each rule"), NO_REDIS);
        POST [Root "/api/limits/{route}"] Write Wait(|call, body| respond(call, limits::read_many(call.place(), body, call.state))) =>
            selected(
                json::<BatchReply>("manyLimits", "Reads many keys of one rule, and grants tokens of a quota to them"),
                (503, "Keys failed; each of `keys` has its state or its `error`, which says whether a grant was made"),
            )
            .with_body::<Batch>()
            .or(&[SLOW_BODY])
            .with_problem::<BatchReply>(503);
        PUT [Root "/api/limits/{route}/{key...}"] Write Wait(|call, body| respond(call, limits::set(call.place(), body, call.state))) =>
            changed("setLimit", "Sets the budget of a key, or adds to it").with_body::<ChangeBody>().or(&[SLOW_BODY]);
        DELETE [Root "/api/limits/{route}/{key...}"] Write Wait(|call, _| respond(call, limits::reset(call.place(), call.state))) =>
            changed("resetLimit", "Resets the budget of a key");
    }
}

/// `/api/overrides`.
pub(super) fn overrides() -> Vec<Endpoint> {
    endpoints! {
        PUT [Root "/api/overrides/{route}"] Write Wait(|call, body| respond(call, overrides::set(call.place(), body, &call.caller, call.state))) =>
            set_override("setRuleOverride", "Overrides the limit of every key of a rule for a while");
        PUT [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, body| respond(call, overrides::set(call.place(), body, &call.caller, call.state))) =>
            set_override("setOverride", "Overrides the limit of a key for a while");
        GET [Root "/api/overrides"] Read Now(|call| overrides::list(call.state)) =>
            json::<Vec<ListedOverride>>("listOverrides", "Temporary overrides of limits");
        DELETE [Root "/api/overrides/{route}"] Write Wait(|call, _| respond(call, overrides::end(call.place(), call.state))) =>
            end_override("endRuleOverride", "Ends the override of every key of a rule");
        DELETE [Root "/api/overrides/{route}/{key...}"] Write Wait(|call, _| respond(call, overrides::end(call.place(), call.state))) =>
            end_override("endOverride", "Ends the override of a key");
    }
}

/// Describes an endpoint that changes the budget of a key.
fn changed(id: &'static str, summary: &'static str) -> Description {
    selected(json::<Budget<'_, ChangedLimit>>(id, summary), NO_CHANGE)
}

/// Adds the choice of a rule, and its errors; `lost` is that of a lost Redis.
fn selected(description: Description, lost: (u16, &'static str)) -> Description {
    description
        .with("rule", "Name or bucket of a rule; all without it", of_reply::<String>())
        .with("plan", "Plan of the rule; empty for requests without a plan", of_reply::<String>())
        .or(&[
            (400, "Invalid path, query or body, or a change that could mean several rules"),
            (404, "Unknown route, rule or plan"),
            (501, "Limits under `atomicity: lock` must be changed in Redis itself"),
            lost,
        ])
}

fn set_override(id: &'static str, summary: &'static str) -> Description {
    selected(json::<NewOverride>(id, summary).sends::<OverrideBody>(), NO_CHANGE)
        .or(&[(409, "Too many overrides, or plans that share buckets under equal rules")])
}

fn end_override(id: &'static str, summary: &'static str) -> Description {
    selected(json::<EndedOverride>(id, summary), NO_CHANGE).or(&[(404, "Unknown route, rule, plan or override")])
}
