//! Descriptions of the endpoints, for the OpenAPI document. The match over all operations leaves out none.

use serde_json::{Value, json};
use tollgate_limiter::rule::MAX_SAFE_INTEGER;

use crate::admin::api::Operation;
use crate::admin::api::openapi;
use crate::admin::expires_in::ExpiresIn;
use crate::admin::limits::schema as limits;
use crate::admin::schema::{flag, list_of, map_of, null, object, text as text_schema};
use crate::admin::{actuator, breakers, config_state, explain_schema, health, routes, top, upstreams};

/// Description of one endpoint.
#[derive(Debug)]
pub(super) struct Description {
    /// Name of the operation, unique.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters.
    pub(super) query: Vec<(&'static str, &'static str, Value)>,
    /// Schema of the body; it is JSON.
    pub(super) body: Option<Value>,
    /// Media type and schema of the response with status 200.
    pub(super) success: (&'static str, Value),
    /// Further statuses with their meaning; 503 of readiness is JSON, all others are problems.
    pub(super) further: Vec<(u16, &'static str)>,
}

const JSON: &str = "application/json";
pub(super) const UNKNOWN_PARAMETER: &str = "Unknown query parameter";
const NO_ROUTE: (u16, &str) = (404, "Unknown route, rule or plan");
const NO_REDIS: (u16, &str) = (503, "Redis is unreachable");
const NO_CHANGE: (u16, &str) =
    (503, "Redis did not confirm the change: `detail` says that nothing was changed, or that it may have been");
const SLOW_BODY: (u16, &str) = (408, "The body did not arrive in time");
const LOCKED: (u16, &str) = (501, "Limits under `atomicity: lock` must be changed in Redis itself");
const ENDING: (u16, &str) = (503, "The gateway is shutting down");

impl Operation {
    /// Returns the description of the operation.
    pub(super) fn describe(self) -> Description {
        match self {
            Self::Dashboard => text("dashboard", "Dashboard", "text/html"),
            Self::DashboardFile => text("dashboardFile", "A file of the dashboard", "*/*").or(&[(404, "Unknown file")]),
            Self::Events => text(
                "events",
                "A snapshot of the gateway each second, as server-sent events without end",
                "text/event-stream",
            )
            .or(&[(503, "The maximum number of viewers receives events already, or the gateway is shutting down")]),
            Self::Live => json("live", "Reports that the process responds", health::live_schema()),
            Self::Ready => {
                json("ready", "Reports readiness", health::ready_schema()).or(&[(503, "Not ready: `reason` says why")])
            }
            Self::Health => {
                json("health", "Reports readiness, with components if the configuration shows them", health::summary_schema())
                    .or(&[(503, "Not ready")])
            }
            Self::Metrics => {
                text("metrics", "Metrics as Prometheus text, or as OpenMetrics if `Accept` prefers it", "text/plain")
            }
            Self::OpenApi => json("openapi", "This document", openapi::schema()),
            Self::Rules => {
                json("listRules", "Rules of all routes", list_of(&limits::rule().build()))
                    .with("route", "Id of a route; all without it", text_schema())
                    .or(&[(400, UNKNOWN_PARAMETER), (404, "Unknown route")])
            }
            Self::ReadLimit => selected(json("readLimit", "Budget of a key under each rule", limits::budget()), NO_REDIS),
            Self::ResetLimit => change("resetLimit", "Resets the budget of a key"),
            Self::ManyLimits => Description {
                body: Some(json!({
                    "type": "object",
                    "properties": {
                        "rule": {"type": "string"},
                        "plan": {"type": "string"},
                        "keys": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": 256,
                            "items": {
                                "type": "object",
                                "properties": {
                                    "key": {"type": "string", "minLength": 1},
                                    "grant": tokens("Tokens to add"),
                                },
                                "required": ["key"],
                                "additionalProperties": false,
                            },
                        },
                    },
                    "required": ["keys"],
                    "additionalProperties": false,
                })),
                ..selected(json(
                    "manyLimits",
                    "Reads many keys of one rule, and grants tokens of a quota to them",
                    limits::batch().build(),
                ), (503, "Keys failed; each of `keys` has its state or its `error`, which says whether a grant was made"))
            }
            .or(&[SLOW_BODY]),
            Self::SetLimit => Description {
                query: Vec::new(),
                body: Some(json!({
                    "type": "object",
                    "properties": {
                        "rule": {"type": "string"},
                        "plan": {"type": "string"},
                        "remaining": tokens("Number of remaining tokens"),
                        "grant": tokens("Tokens to add"),
                    },
                    "oneOf": [{"required": ["remaining"]}, {"required": ["grant"]}],
                    "additionalProperties": false,
                })),
                ..change("setLimit", "Sets the budget of a key, or adds to it")
            }
            .or(&[SLOW_BODY]),
            Self::Overrides => {
                json("listOverrides", "Temporary overrides of limits", list_of(&limits::listed_override()))
            }
            Self::Override => set_override("setOverride", "Overrides the limit of a key for a while"),
            Self::OverrideAll => set_override("setRuleOverride", "Overrides the limit of every key of a rule for a while"),
            Self::EndOverride => end_override("endOverride", "Ends the override of a key"),
            Self::EndOverrideAll => end_override("endRuleOverride", "Ends the override of every key of a rule"),
            Self::Top => json("top", "Keys with the most requests of a verdict, for each rule", top::schema())
            .with(
                "verdict",
                "Verdict of the requests to count",
                json!({"enum": top::VERDICTS, "default": "denied"}),
            )
            .with("route", "Id of a route; all without it", text_schema())
            .with("rule", "Name of a rule; all without it", text_schema())
            .with(
                "limit",
                "Keys for each rule",
                json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}),
            )
            .or(&[(400, "Invalid query parameter")]),
            Self::Explain => json(
                "explain",
                "Dry run of a request: route, filters, keys with their state, and the request to the upstream",
                explain_schema::schema(),
            )
            .with("method", "Method", json!({"type": "string", "default": "GET"}))
            .with("url", "Path with query, or URL", json!({"type": "string", "default": "/"}))
            .with("header", "Header field as `Name: value`", json!({"type": "array", "items": {"type": "string"}}))
            .with("peer", "Address of the peer", json!({"type": "string", "default": "127.0.0.1"}))
            .or(&[(400, "Invalid query parameter")]),
            Self::Config => json("config", "File, hash, time and warnings of the running configuration", config_state::schema()),
            Self::Reload => {
                json("reload", "Reads the configuration again and applies it", config_state::reload_schema())
                    .or(&[
                        (409, "The built-in configuration has no file"),
                        (422, "The file has errors, listed in `diagnostics`; the running configuration stays"),
                        ENDING,
                    ])
            }
            Self::Upstreams => json("listUpstreams", "Upstreams with their endpoints", list_of(&upstreams::schema())),
            Self::Breakers => json("listBreakers", "Circuit breakers with their states", list_of(&breakers::schema())),
            Self::Drain => json("drainEndpoint", "Drains an endpoint for a while: it gets no new request", upstreams::schema())
                .sends(json!({"type": "object", "required": ["expires-in"], "properties": {"expires-in": ExpiresIn::schema(), "allow-last": {"type": "boolean"}}, "additionalProperties": false}))
                .or(&[(404, "Unknown upstream or endpoint"), (409, "No other endpoint gets requests")]),
            Self::EndDrain => json("endDrain", "Ends the draining of an endpoint", upstreams::schema())
                .or(&[(404, "Unknown upstream or endpoint")]),
            Self::ForceBreaker => json("forceBreaker", "Forces the state of a circuit breaker for a while", breakers::schema())
                .sends(json!({"type": "object", "required": ["state", "expires-in"], "properties": {"state": {"enum": ["open", "closed"]}, "expires-in": ExpiresIn::schema()}, "additionalProperties": false}))
                .or(&[(404, "Unknown circuit breaker")]),
            Self::EndForce => json("endForcedState", "Ends the forced state of a circuit breaker", breakers::schema())
                .or(&[(404, "Unknown circuit breaker")]),
            Self::Index => json("actuator", "Spring Boot's list of endpoints", actuator::schema()),
            Self::GatewayIndex => json("gateway", "Spring's list of gateway endpoints", list_of(&routes::link_schema())),
            Self::Routes => json("listRoutes", "Routes in effect, in matching order", list_of(&routes::schema())),
            Self::Route => json("readRoute", "One route", routes::schema()).or(&[(404, "Unknown route")]),
            Self::CombinedFilters => {
                json("combinedFilters", "Filters of a route with their positions", routes::combined_filters_schema()).or(&[(404, "Unknown route")])
            }
            Self::RouteDefinitions => json("routeDefinitions", "Routes as in the file", list_of(&routes::definition_schema())),
            Self::RouteFilters => json("routeFilters", "Names of all filters", routes::names_schema()),
            Self::RoutePredicates => json("routePredicates", "Names of all predicates", routes::names_schema()),
            Self::GlobalFilters => json("globalFilters", "Spring's global filters: none", map_of(&null())),
            Self::Refresh => text("refresh", "Reloads the configuration, as in Spring", "text/plain")
                .or(&[(500, "The configuration was not applied"), ENDING]),
        }
    }
}

impl Description {
    /// Adds a query parameter.
    fn with(mut self, name: &'static str, meaning: &'static str, schema: Value) -> Self {
        self.query.push((name, meaning, schema));
        self
    }

    /// Adds the schema of a body.
    fn sends(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }.or(&[(400, "Invalid body"), SLOW_BODY])
    }

    /// Adds statuses.
    fn or(mut self, further: &[(u16, &'static str)]) -> Self {
        self.further.extend(further);
        self
    }
}

/// Returns the schema of a number of tokens.
fn tokens(meaning: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER, "description": meaning})
}

fn described(id: &'static str, summary: &'static str, success: (&'static str, Value)) -> Description {
    Description { id, summary, query: Vec::new(), body: None, success, further: Vec::new() }
}

/// Describes an endpoint that returns JSON of this schema.
fn json(id: &'static str, summary: &'static str, schema: Value) -> Description {
    described(id, summary, (JSON, schema))
}

fn text(id: &'static str, summary: &'static str, media_type: &'static str) -> Description {
    described(id, summary, (media_type, text_schema()))
}

/// Describes an endpoint that changes the budget of a key.
fn change(id: &'static str, summary: &'static str) -> Description {
    selected(json(id, summary, limits::changed_budget()), NO_CHANGE)
}

/// Adds the choice of a rule, and its errors; `lost` is that of a lost Redis.
fn selected(description: Description, lost: (u16, &'static str)) -> Description {
    description
        .with("rule", "Name or bucket of a rule; all without it", text_schema())
        .with("plan", "Plan of the rule; empty for requests without a plan", text_schema())
        .or(&[(400, "Invalid path, query or body, or a change that could mean several rules"), NO_ROUTE, LOCKED, lost])
}

fn set_override(id: &'static str, summary: &'static str) -> Description {
    let schema = object()
        .maybe("rule", text_schema())
        .maybe("plan", text_schema())
        .with("expires-in", ExpiresIn::schema())
        .maybe("unlimited", flag())
        .maybe("block", flag());
    let mut schema = limits::numbers(schema).build();
    schema["additionalProperties"] = json!(false);
    let description = json(id, summary, limits::new_override()).sends(schema);
    selected(description, NO_CHANGE).or(&[(409, "Too many overrides, or plans that share buckets under equal rules")])
}

fn end_override(id: &'static str, summary: &'static str) -> Description {
    selected(json(id, summary, limits::ended_override()), NO_CHANGE)
        .or(&[(404, "Unknown route, rule, plan or override")])
}
