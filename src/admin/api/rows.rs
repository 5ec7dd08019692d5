//! Table of the endpoints.

use std::sync::LazyLock;

use http::StatusCode;
use serde_json::json;

use crate::admin::api::description::{json, problem_schema, text};
use crate::admin::api::endpoint::{Endpoint, endpoints};
use crate::admin::api::{limit_rows, openapi};
use crate::admin::expires_in::ExpiresIn;
use crate::admin::reply::json as reply;
use crate::admin::schema::{flag, list_of, map_of, null, object, one_of, text as text_schema};
use crate::admin::{
    actuator, breakers, config_state, dashboard, events, explain, explain_schema, health, metrics, routes, top,
    upstreams,
};

const ENDING: (u16, &str) = (503, "The gateway is shutting down");

/// Every endpoint. If several match a request, the first one serves it.
pub(super) static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
    [pages(), limit_rows::limits(), limit_rows::overrides(), state(), spring()].into_iter().flatten().collect()
});

/// Dashboard, probes and metrics.
fn pages() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/"] Open Now(|_| dashboard::page()) =>
            text("dashboard", "Dashboard", "text/html");
        GET [Root "/dashboard/{file}"] Open Now(|call| dashboard::asset(&call.value(0))) =>
            text("dashboardFile", "A file of the dashboard", "*/*").or(&[(404, "Unknown file")]);
        GET [Root "/api/events"] Read Stream(|call, deadline| events::respond(call.headers, call.state, deadline)) =>
            text("events", "A snapshot of the gateway each second, as server-sent events without end", "text/event-stream")
                .or(&[(503, "The maximum number of viewers receives events already, or the gateway is shutting down")]);
        GET [Root "/health/live", Health "/liveness"] Open Now(|_| health::live()) =>
            json("live", "Reports that the process responds", health::live_schema());
        GET [Root "/health/ready", Health "/readiness"] Open Now(|call| health::ready(call.state)) =>
            json("ready", "Reports readiness", health::ready_schema()).or(&[(503, "Not ready: `reason` says why")]);
        GET [Root "/metrics", Prometheus ""] Metrics Now(|call| metrics::scrape(call.state, call.headers)) =>
            text("metrics", "Metrics as Prometheus text, or as OpenMetrics if `Accept` prefers it", "text/plain");
    }
}

/// State of the gateway, and its changes.
fn state() -> Vec<Endpoint> {
    endpoints! {
        GET [Root "/api/top"] Read Wait(|call, _| Box::pin(top::respond(call.query, call.state))) =>
            json("top", "Keys with the most requests of a verdict, for each rule", top::schema())
                .with("verdict", "Verdict of the requests to count", json!({"enum": top::VERDICTS, "default": "denied"}))
                .with("route", "Id of a route; all without it", text_schema())
                .with("rule", "Name of a rule; all without it", text_schema())
                .with("limit", "Keys for each rule", json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}))
                .or(&[(400, "Invalid query parameter")]);
        GET [Root "/api/explain"] Read Wait(|call, _| Box::pin(explain::respond(call.query, call.state))) =>
            json(
                "explain",
                "Dry run of a request: route, filters, keys with their state, and the request to the upstream",
                explain_schema::schema(),
            )
            .with("method", "Method", json!({"type": "string", "default": "GET"}))
            .with("url", "Path with query, or URL", json!({"type": "string", "default": "/"}))
            .with("header", "Header field as `Name: value`", json!({"type": "array", "items": {"type": "string"}}))
            .with("peer", "Address of the peer", json!({"type": "string", "default": "127.0.0.1"}))
            .or(&[(400, "Invalid query parameter")]);
        GET [Root "/api/upstreams"] Read Now(|call| upstreams::list(call.state)) =>
            json("listUpstreams", "Upstreams with their endpoints", list_of(&upstreams::schema()));
        PUT [Root "/api/upstreams/{upstream}/drains/{endpoint...}"] Write Wait(|call, body| Box::pin(upstreams::drain(body, [call.value(0), call.value(1)], call.state))) =>
            json("drainEndpoint", "Drains an endpoint for a while: it gets no new request", upstreams::schema())
                .sends(object().with("expires-in", ExpiresIn::schema()).maybe("allow-last", flag()).closed())
                .or(&[(404, "Unknown upstream or endpoint"), (409, "No other endpoint gets requests")]);
        DELETE [Root "/api/upstreams/{upstream}/drains/{endpoint...}"] Write Now(|call| upstreams::end_drain(&[call.value(0), call.value(1)], call.state)) =>
            json("endDrain", "Ends the draining of an endpoint", upstreams::schema())
                .or(&[(404, "Unknown upstream or endpoint")]);
        GET [Root "/api/breakers"] Read Now(|call| breakers::list(call.state)) =>
            json("listBreakers", "Circuit breakers with their states", list_of(&breakers::schema()));
        PUT [Root "/api/breakers/{name...}"] Write Wait(|call, body| Box::pin(breakers::force(body, call.value(0), call.state))) =>
            json("forceBreaker", "Forces the state of a circuit breaker for a while", breakers::schema())
                .sends(object().with("state", one_of(&["open", "closed"])).with("expires-in", ExpiresIn::schema()).closed())
                .or(&[(404, "Unknown circuit breaker")]);
        DELETE [Root "/api/breakers/{name...}"] Write Now(|call| breakers::end_force(&call.value(0), call.state)) =>
            json("endForcedState", "Ends the forced state of a circuit breaker", breakers::schema())
                .or(&[(404, "Unknown circuit breaker")]);
        GET [Root "/api/config"] Read Now(|call| config_state::show(call.state)) =>
            json("config", "File, hash, time and warnings of the running configuration", config_state::schema());
        POST [Root "/api/reload"] Write Wait(|call, _| Box::pin(config_state::reload(call.state))) =>
            json("reload", "Reads the configuration again and applies it", config_state::reload_schema())
                .or(&[
                    (409, "The built-in configuration has no file"),
                    (422, "The file has errors, listed in `diagnostics`; the running configuration stays"),
                    ENDING,
                ])
                .with_problem(422, problem_schema().maybe("diagnostics", config_state::diagnostics_schema()).build());
        GET [Root "/openapi.json"] Read Now(|call| openapi::respond(&ENDPOINTS, call)) =>
            json("openapi", "This document", openapi::schema());
    }
}

/// Endpoints of Spring Boot, some of them below `/api`, too.
fn spring() -> Vec<Endpoint> {
    const UNKNOWN_ROUTE: (u16, &str) = (404, "Unknown route");
    endpoints! {
        GET [Actuator ""] Read Now(|call| actuator::index(call.actuator)) =>
            json("actuator", "Spring Boot's list of endpoints", actuator::schema());
        GET [Health ""] Open Now(|call| health::summary(call.state, call.actuator, call.may_read)) =>
            json(
                "health",
                "Reports readiness, with components if the configuration shows them",
                health::summary_schema(),
            )
            .or(&[(503, "Not ready")]);
        GET [Gateway ""] Read Now(|call| routes::index(call.actuator)) =>
            json("gateway", "Spring's list of gateway endpoints", list_of(&routes::link_schema()));
        GET [Root "/api/routes", Gateway "/routes"] Read Now(|call| routes::list(call.state)) =>
            json("listRoutes", "Routes in effect, in matching order", list_of(&routes::schema()));
        GET [Gateway "/routes/{id...}/combinedfilters"] Read Now(|call| routes::combined_filters(call.state, &call.value(0))) =>
            json("combinedFilters", "Filters of a route with their positions", routes::combined_filters_schema())
                .or(&[UNKNOWN_ROUTE]);
        GET [Root "/api/routes/{id...}", Gateway "/routes/{id...}"] Read Now(|call| routes::one(call.state, &call.value(0))) =>
            json("readRoute", "One route", routes::schema()).or(&[UNKNOWN_ROUTE]);
        GET [Gateway "/routedefinitions"] Read Now(|call| routes::definitions(call.state)) =>
            json("routeDefinitions", "Routes as in the file", list_of(&routes::definition_schema()));
        GET [Gateway "/routefilters"] Read Now(|_| reply(StatusCode::OK, &routes::filters())) =>
            json("routeFilters", "Names of all filters", routes::names_schema());
        GET [Gateway "/routepredicates"] Read Now(|_| reply(StatusCode::OK, &routes::predicates())) =>
            json("routePredicates", "Names of all predicates", routes::names_schema());
        // Tollgate has no such chain.
        GET [Gateway "/globalfilters"] Read Now(|_| reply(StatusCode::OK, &json!({}))) =>
            json("globalFilters", "Spring's global filters: none", map_of(&null()));
        POST [Gateway "/refresh"] Write Wait(|call, _| Box::pin(actuator::refresh(call.state))) =>
            text("refresh", "Reloads the configuration, as in Spring", "text/plain")
                .or(&[(500, "The configuration was not applied"), ENDING]);
    }
}
